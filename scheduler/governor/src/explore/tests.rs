//! Simulated apps: plans whose true times differ from the predicted ones, runs with noise, 10,000 of them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal};

use super::*;

/// One app.
struct World {
    /// True times in nanoseconds; the predictions of the plans that are not the first.
    truth: Vec<f64>,
    predicted: Vec<f64>,
    noise: f64,
    random: ChaCha8Rng,
}

struct Outcome {
    /// Mean time over that of the best plan, less one.
    regret: f64,
    /// Time over the first plan's, beyond the free runs, as a share.
    excess: f64,
    settled_on: usize,
    changes: Vec<Change>,
}

impl World {
    fn new(seed: u64, arms: usize, factor: f64, noise: f64) -> World {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let off = LogNormal::new(0.0, factor.ln()).unwrap();
        let spread = LogNormal::new(0.0, 0.7).unwrap();
        let mut arms: Vec<(f64, f64)> = (0..arms)
            .map(|_| {
                let predicted = 10e6 * spread.sample(&mut random);
                (predicted, predicted * off.sample(&mut random))
            })
            .collect();
        // what is predicted to be fastest runs first
        arms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (predicted, truth) = arms.into_iter().unzip();
        World {
            truth,
            predicted,
            noise,
            random,
        }
    }

    fn run(&mut self, arm: usize) -> f64 {
        let noise = Normal::new(0.0, self.noise).unwrap();
        // now and then something else has the machine
        let outlier = if self.random.random::<f64>() < 0.01 {
            1.5
        } else {
            1.0
        };
        self.truth[arm] * f64::exp(noise.sample(&mut self.random)) * outlier
    }

    fn play(&mut self, runs: usize, mut meanwhile: impl FnMut(usize, &mut World)) -> Outcome {
        let mut explorer = Explorer::new(ExplorerSettings::default(), "first", 1.0);
        for arm in 1..self.truth.len() {
            explorer.add(&format!("arm {arm}"), self.predicted[arm], 1.0);
        }
        let (mut now, mut total, mut first, mut best) = (0.0, 0.0, 0.0, 0.0);
        let mut changes = Vec::new();
        for run in 0..runs {
            meanwhile(run, self);
            if let Some(arm) = explorer.wants_shadow(None) {
                // the answers of the first one are kept
                let reference = (explorer.spent().trials == 0).then(|| self.run(0));
                let usual = explorer.incumbent_ns().unwrap_or(0.0);
                let mut took = self.run(arm);
                total += took.min(GIVEN_UP * usual) + reference.unwrap_or(0.0);
                if took < GIVEN_UP * usual {
                    took = self.run(arm);
                    total += took;
                }
                changes.extend(explorer.shadow(arm, shadow(took, reference, false)));
            }
            let arm = explorer.next(true);
            let took = self.run(arm);
            now += took;
            total += took;
            first += self.truth[0];
            best += self.truth.iter().copied().fold(f64::INFINITY, f64::min);
            changes.extend(explorer.ended(arm, took, true, now as u64));
        }
        // noise and outliers are in all times alike
        let mean = f64::exp(self.noise * self.noise / 2.0) * 1.005;
        let spent = explorer.spent();
        assert!(spent.runs == runs as u64 && spent.excess_ns >= 0.0);
        Outcome {
            regret: total / (best * mean) - 1.0,
            excess: (total / mean - first - 4.0 * self.truth[0]) / first,
            settled_on: explorer.incumbent(),
            changes,
        }
    }
}

fn shadow(arm_ns: f64, incumbent_ns: Option<f64>, in_gap: bool) -> ShadowRun {
    ShadowRun {
        arm_ns,
        incumbent_ns,
        same_answers: true,
        in_gap,
        is_counted: true,
    }
}

fn quantile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    polychip_profile::percentile(values, percent).unwrap()
}

#[test]
fn regret_and_excess_stay_small_whatever_the_predictions() {
    let (mut regrets, mut excesses) = (Vec::new(), Vec::new());
    for (factor, noise) in [
        (1.3, 0.05),
        (1.3, 0.2),
        (2.0, 0.05),
        (2.0, 0.2),
        (3.0, 0.05),
        (3.0, 0.2),
    ] {
        let played = (0..170).map(|seed| {
            let plans = 2 + (seed as usize % 7);
            World::new(seed, plans, factor, noise).play(10_000, |_, _| {})
        });
        let (mut regret, mut excess): (Vec<f64>, Vec<f64>) =
            played.map(|outcome| (outcome.regret, outcome.excess)).unzip();
        let mean = regret.iter().sum::<f64>() / regret.len() as f64;
        let (late, over) = (quantile(&mut regret, 95), quantile(&mut excess, 95));
        eprintln!("off ×{factor}, noise {noise}: regret {mean:.4}, p95 {late:.4}; excess p95 {over:.4}");
        regrets.append(&mut regret);
        excesses.append(&mut excess);
    }
    let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
    let late = quantile(&mut regrets, 95);
    let over = quantile(&mut excesses, 95);
    eprintln!(
        "all {}: regret {mean:.4}, p95 {late:.4}; excess p95 {over:.4}",
        regrets.len()
    );
    assert!(mean <= 0.01, "mean regret {mean}");
    assert!(late <= 0.03, "p95 of regret {late}");
    // the budget is 5 %
    assert!(over <= 0.08, "p95 of excess {over}");
}

#[test]
fn excess_stays_within_the_budget_at_any_time() {
    for runs in [50, 200, 1_000] {
        let mut excesses: Vec<f64> = (0..200)
            .map(|seed| World::new(seed, 6, 3.0, 0.05).play(runs, |_, _| {}).excess)
            .collect();
        let over = quantile(&mut excesses, 95);
        eprintln!("{runs} runs: excess p95 {over:.4}");
        assert!(over <= 0.08, "p95 of excess {over} after {runs} runs");
    }
}

#[test]
fn slowed_incumbent_is_left_and_used_again() {
    let mut world = World::new(1, 2, 1.0, 0.05);
    (world.truth, world.predicted) = (vec![10e6, 25e6], vec![10e6, 25e6]);
    let outcome = world.play(20_000, |run, world| match run {
        2_000 => world.truth[0] = 40e6,
        6_000 => world.truth[0] = 10e6,
        _ => {}
    });
    let adopted: Vec<usize> = outcome
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Adopted { arm, .. } => Some(*arm),
            _ => None,
        })
        .collect();
    assert_eq!(adopted, [1, 0], "{:?}", outcome.changes);
    assert_eq!(outcome.settled_on, 0);
}

#[test]
fn plans_with_other_outputs_or_failures_are_never_adopted() {
    let mut explorer = Explorer::new(ExplorerSettings::default(), "cpu", 1.0);
    let wrong = explorer.add("wrong", 1e6, 1.0);
    let broken = explorer.add("broken", 2e6, 1.0);
    for _ in 0..20 {
        explorer.ended(0, 10e6, true, 0);
    }
    assert_eq!(explorer.wants_shadow(None), Some(wrong));
    let dropped = explorer.shadow(
        wrong,
        ShadowRun {
            same_answers: false,
            ..shadow(1e6, None, true)
        },
    );
    assert_eq!(
        dropped,
        Some(Change::Dropped {
            arm: wrong,
            reason: DropReason::OtherAnswers
        })
    );
    explorer.failed(broken);
    for run in 0..10_000u64 {
        assert_eq!(explorer.next(true), 0);
        // a drift that would bring back what may be tried again
        let ns = if run < 5_000 { 10e6 } else { 50e6 };
        explorer.ended(0, ns, true, run * 1_000_000_000);
    }
    assert!(explorer.is_settled());
}

#[test]
fn trials_respect_the_budget() {
    let settings = ExplorerSettings {
        free_runs: 0,
        ..ExplorerSettings::default()
    };
    let mut explorer = Explorer::new(settings, "cpu", 1.0);
    explorer.add("slow", 1_000e6, 1.0);
    // two shadow runs, each given up after 20 ms: 40 ms are 5 % of 80 runs of 10 ms
    for run in 0..79 {
        explorer.ended(0, 10e6, true, 0);
        assert_eq!(explorer.wants_shadow(None), None, "run {run}");
    }
    explorer.ended(0, 10e6, true, 0);
    assert!(explorer.wants_shadow(None).is_some());
}

#[test]
fn gaps_hold_only_fitting_shadow_runs() {
    let mut explorer = Explorer::new(ExplorerSettings::default(), "npu", 1.0);
    let arm = explorer.add("cpu", 5e6, 1.0);
    explorer.ended(0, 10e6, true, 0);
    assert_eq!(explorer.wants_shadow(Some(18_000_000)), None, "10 + 5 of 14.4 ms");
    assert_eq!(explorer.wants_shadow(Some(20_000_000)), Some(arm));
    let cold = ShadowRun {
        is_counted: false,
        ..shadow(50e6, Some(10e6), true)
    };
    assert_eq!(explorer.shadow(arm, cold), None);
    assert_eq!(
        explorer.wants_shadow(Some(50_000_000)),
        Some(arm),
        "given up after 20 ms"
    );
    assert_eq!(
        explorer.shadow(arm, shadow(5e6, Some(10e6), true)),
        None,
        "one pair"
    );
    assert!(explorer.shadow(arm, shadow(5e6, Some(10e6), true)).is_some());
    assert_eq!(explorer.incumbent(), arm);
    assert_eq!(explorer.spent().excess_ns, 0.0);
}

#[test]
fn overlapping_runs_decide_nothing() {
    let mut explorer = Explorer::new(ExplorerSettings::default(), "a", 1.0);
    let arm = explorer.add("b", 5e6, 1.0);
    explorer.ended(0, 10e6, true, 0);
    explorer.shadow(arm, shadow(5e6, Some(10e6), true));
    for _ in 0..1_000 {
        let taken = explorer.next(true);
        let ns = if taken == arm { 5e6 } else { 10e6 };
        assert_eq!(explorer.ended(taken, ns, false, 0), None);
    }
    assert_eq!(explorer.incumbent(), 0);
}

#[test]
fn adopted_arm_that_is_slower_is_rolled_back() {
    let mut explorer = Explorer::new(ExplorerSettings::default(), "a", 1.0);
    let arm = explorer.add("b", 5e6, 1.0);
    explorer.ended(0, 10e6, true, 0);
    explorer.shadow(arm, shadow(5e6, Some(10e6), true));
    let mut changes = Vec::new();
    for _ in 0..200 {
        let taken = explorer.next(true);
        let is_adopted = explorer.incumbent() == arm;
        // in the trial it had the machine to itself
        let ns = match (taken == arm, is_adopted) {
            (true, true) => 20e6,
            (true, false) => 5e6,
            (false, _) => 10e6,
        };
        changes.extend(explorer.ended(taken, ns, true, 0));
    }
    assert!(matches!(changes[0], Change::Adopted { .. }), "{changes:?}");
    assert!(
        matches!(changes[1], Change::RolledBack { arm: 0, .. }),
        "{changes:?}"
    );
    assert_eq!(explorer.incumbent(), 0);
}

#[test]
fn unreported_trial_is_abandoned() {
    let mut explorer = Explorer::new(ExplorerSettings::default(), "a", 1.0);
    let arm = explorer.add("b", 8e6, 1.0);
    explorer.ended(0, 10e6, true, 0);
    explorer.shadow(arm, shadow(8e6, Some(10e6), true));
    // the app drops the first runs of the arm
    for _ in 0..2 {
        assert_eq!(explorer.next(true), arm);
    }
    for _ in 0..400 {
        let taken = explorer.next(true);
        let ns = if taken == arm { 8e6 } else { 10e6 };
        explorer.ended(taken, ns, true, 0);
    }
    assert_eq!(explorer.incumbent(), arm);
}
