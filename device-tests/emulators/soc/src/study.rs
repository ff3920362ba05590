//! The figures: a governed session against every plan that it keeps ready, run by itself, on the same scenarios.
//!
//! - *Sustained throughput* is the number of frames in time (outputs ready within one period of
//!   33.3 ms) per second over the last 20 of 30 minutes.
//! - A *competitor* is a plan of the session that runs alone, under the SoC's own throttling.
//! - The *best static plan* is the best competitor in the same run, which is known only afterwards.
//! - A frame is *possible* if some plan would have had it in time, at the temperatures of the
//!   governed run. An omniscient choice with free switches would reach this bound.
//! - The *ablation* leaves out one fact that a session receives.
//!
//! Invariant: the same table and seeds give the same figures.

use anyhow::Result;
use serde::Serialize;

use crate::emulated::{PERIOD_NS, Shown};
use crate::live::{Live, Options, Stance};
use crate::outcome::{Outcome, SUSTAINED_FROM_NS};
use crate::scenario::{RUN_NS, Scenario, Without};
use crate::setting::Setting;

/// Frames in time per second.
#[must_use]
pub fn rate(outcome: &Outcome) -> f64 {
    outcome.in_time as f64 / (outcome.frames as f64 * PERIOD_NS as f64 / 1e9)
}

/// Frames that were possible per second.
fn possible(outcome: &Outcome) -> f64 {
    outcome.possible_sustained as f64 / (outcome.frames as f64 * PERIOD_NS as f64 / 1e9)
}

/// The required gain.
const GAIN: f64 = 1.3;

/// Percentiles of a figure over seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Spread {
    /// Least.
    pub least: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Greatest.
    pub greatest: f64,
}

impl Spread {
    /// The spread of at least one figure.
    #[must_use]
    pub fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |permille: usize| {
            sorted
                .get((sorted.len().max(1) - 1) * permille / 1000)
                .copied()
                .unwrap_or(f64::NAN)
        };
        Self {
            least: at(0),
            p5: at(50),
            p50: at(500),
            p95: at(950),
            greatest: at(1000),
        }
    }
}

/// One competitor over all seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Competitor {
    /// New name.
    pub name: String,
    /// Predicted time of a frame at first levels.
    pub frame_ms: f64,
    /// Predicted energy of a frame there.
    pub frame_mj: f64,
    /// Frames in time per second.
    pub in_time_per_s: Spread,
    /// Frames completed per second, late ones too.
    pub completed_per_s: Spread,
    /// Highest temperature above its limit, in kelvin.
    pub above_limit_k: Spread,
}

/// Figures of one table.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Everything here is.
    pub emulated: bool,
    /// The table.
    pub table: String,
    /// Runs.
    pub seeds: u64,
    /// Frames in time per second, governed.
    pub in_time_per_s: Spread,
    /// Frames completed per second, governed, late ones too.
    pub completed_per_s: Spread,
    /// Governed throughput relative to the best static plan of the same run.
    pub gain: Spread,
    /// The same in frames completed, in time or not, against the static plan that completes most.
    pub gain_completed: Spread,
    /// Mean of the governed against the best mean of a static plan.
    pub gain_of_means: f64,
    /// The seed of the least gain.
    pub worst_seed: u64,
    /// Highest temperature above its limit over a whole run, in kelvin; negative where limits held.
    pub above_limit_k: Spread,
    /// Switches of a run.
    pub switches: Spread,
    /// Most switches in any minute.
    pub switches_in_a_minute: Spread,
    /// Late frames within a second after a switch that some other plan would have had in time, per switch.
    pub late_per_switch: Spread,
    /// Seeds with more than one such frame per switch.
    pub seeds_above_one_late: u64,
    /// The seed with most of them.
    pub latest_seed: u64,
    /// Frames that were possible per second.
    pub possible_per_s: Spread,
    /// Frames that were possible against the best static plan of each very run: what bounds the gain on a chip as hot.
    pub gain_bound: Spread,
    /// Seeds whose gain is below 1.3.
    pub seeds_below_gain: u64,
    /// Those of them whose bound is below 1.3, too.
    pub seeds_bounded_below_gain: u64,
    /// The static plans.
    pub competitors: Vec<Competitor>,
}

/// Calls `one` for each seed, on all threads of the machine, and returns the results in the order
/// of seeds.
fn in_threads<T: Send>(first: u64, count: u64, one: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let share = count.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let one = &one;
        let started: Vec<_> = (first..first + count)
            .step_by(share as usize)
            .map(|from| {
                let seeds = from..(from + share).min(first + count);
                scope.spawn(move || seeds.map(one).collect::<Result<Vec<T>>>())
            })
            .collect();
        let mut all = Vec::with_capacity(count as usize);
        for thread in started {
            all.extend(thread.join().expect("invariant: a simulation does not panic")?);
        }
        Ok(all)
    })
}

/// Compares a governor with static plans over seeds.
///
/// # Errors
/// As [`Setting::governed`].
pub fn sustained(setting: &Setting, first: u64, count: u64, without: Without) -> Result<Figures> {
    let runs = in_threads(first, count, |seed| {
        let scenario = Scenario::drawn(&setting.table, seed, without);
        let mut live = Live::new(setting, &scenario, &Options::at(Stance::Battery))?;
        let statics = setting.statics(live.candidates(), &scenario, RUN_NS);
        Ok((live.run(RUN_NS)?, statics, live.candidates().to_vec()))
    })?;
    let mut governed = Vec::new();
    let plans = runs
        .first()
        .map(|(_, _, plans)| plans.clone())
        .unwrap_or_default();
    let mut statics: Vec<Vec<Outcome>> = vec![Vec::new(); plans.len()];
    for (outcome, alone, _) in runs {
        governed.push(outcome);
        for (kept, outcome) in statics.iter_mut().zip(alone) {
            kept.push(outcome);
        }
    }
    let best = |seed: usize, figure: &dyn Fn(&Outcome) -> f64| {
        statics
            .iter()
            .map(|outcomes| figure(&outcomes[seed]))
            .fold(0.0, f64::max)
    };
    let completed =
        |outcome: &Outcome| rate(outcome) * outcome.completed as f64 / (outcome.in_time as f64).max(1e-9);
    let gains: Vec<f64> = (0..governed.len())
        .map(|seed| rate(&governed[seed]) / best(seed, &rate).max(1e-9))
        .collect();
    let completed = |outcome: &Outcome| match outcome.in_time {
        0 => outcome.completed as f64 / ((RUN_NS - SUSTAINED_FROM_NS) as f64 / 1e9),
        _ => completed(outcome),
    };
    let gains_completed =
        (0..governed.len()).map(|seed| completed(&governed[seed]) / best(seed, &completed).max(1e-9));
    let mean = |outcomes: &[Outcome]| outcomes.iter().map(rate).sum::<f64>() / outcomes.len().max(1) as f64;
    let best_mean = statics.iter().map(|outcomes| mean(outcomes)).fold(0.0, f64::max);
    let bounds: Vec<f64> = (0..governed.len())
        .map(|seed| possible(&governed[seed]) / best(seed, &rate).max(1e-9))
        .collect();
    let below = |&seed: &usize| gains[seed] < GAIN;
    let late_per_switch: Vec<f64> = governed.iter().map(late_per_switch).collect();
    let latest = (0..governed.len())
        .max_by(|&a, &b| late_per_switch[a].total_cmp(&late_per_switch[b]))
        .unwrap_or(0);
    let worst = (0..gains.len())
        .min_by(|&a, &b| gains[a].total_cmp(&gains[b]))
        .unwrap_or(0);
    let candidates = plans.iter().zip(&statics);
    Ok(Figures {
        emulated: true,
        table: setting.table.name.clone(),
        seeds: count,
        in_time_per_s: Spread::of(governed.iter().map(rate)),
        completed_per_s: Spread::of(governed.iter().map(completed)),
        gain: Spread::of(gains.iter().copied()),
        gain_completed: Spread::of(gains_completed),
        gain_of_means: mean(&governed) / best_mean.max(1e-9),
        worst_seed: first + worst as u64,
        above_limit_k: Spread::of(governed.iter().map(|outcome| outcome.above_limit)),
        switches: Spread::of(governed.iter().map(|outcome| outcome.switches as f64)),
        switches_in_a_minute: Spread::of(governed.iter().map(|outcome| outcome.switches_in_a_minute as f64)),
        late_per_switch: Spread::of(late_per_switch.iter().copied()),
        seeds_above_one_late: late_per_switch.iter().filter(|&&late| late > 1.0).count() as u64,
        latest_seed: first + latest as u64,
        possible_per_s: Spread::of(governed.iter().map(possible)),
        gain_bound: Spread::of(bounds.iter().copied()),
        seeds_below_gain: (0..gains.len()).filter(below).count() as u64,
        seeds_bounded_below_gain: (0..gains.len())
            .filter(below)
            .filter(|&seed| bounds[seed] < GAIN)
            .count() as u64,
        competitors: candidates
            .map(|(candidate, outcomes)| Competitor {
                name: candidate.name.clone(),
                frame_ms: candidate.frame_ms,
                frame_mj: candidate.frame_mj,
                in_time_per_s: Spread::of(outcomes.iter().map(rate)),
                completed_per_s: Spread::of(outcomes.iter().map(completed)),
                above_limit_k: Spread::of(outcomes.iter().map(|outcome| outcome.above_limit)),
            })
            .collect(),
    })
}

/// Energy per inference of a stance against the foreground on the mains, on the same seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Saving {
    /// Everything here is.
    pub emulated: bool,
    /// The table.
    pub table: String,
    /// `battery`, `background` or `low battery`.
    pub stance: &'static str,
    /// Other apps keep GPU and NPU busy at times.
    pub others: bool,
    /// Runs.
    pub seeds: u64,
    /// Millijoules per inference, foreground on the mains.
    pub plugged_mj: Spread,
    /// Millijoules per inference under this stance.
    pub mj: Spread,
    /// Share saved.
    pub saved: Spread,
    /// Share of completed frames in time, foreground on the mains.
    pub plugged_in_time: Spread,
    /// Share of completed frames in time under this stance.
    pub in_time: Spread,
    /// Millijoules per inference of frames in time under this stance.
    pub in_time_mj: Spread,
    /// The least that a candidate in time would have spent at each moment, per inference, as hot as the chip was.
    pub least_mj: Spread,
    /// Share that this would have saved.
    pub saved_bound: Spread,
}

/// Measures what stances save.
///
/// # Errors
/// As [`Setting::governed`].
pub fn savings(
    setting: &Setting,
    first: u64,
    count: u64,
    inferences: usize,
    without: Without,
) -> Result<Vec<Saving>> {
    let runs = |stance: Stance| {
        in_threads(first, count, |seed| {
            let scenario = Scenario::drawn(&setting.table, seed, without);
            setting.governed(&scenario, &Options::at(stance), RUN_NS)
        })
    };
    let energy =
        |outcome: &Outcome| outcome.joules * 1e3 / (outcome.all_completed.max(1) as f64 * inferences as f64);
    let per_inference = |joules: f64, frames: u64| joules * 1e3 / (frames.max(1) as f64 * inferences as f64);
    let least = |outcome: &Outcome| per_inference(outcome.least_joules, outcome.possible);
    let in_time = |outcome: &Outcome| outcome.all_in_time as f64 / outcome.all_completed.max(1) as f64;
    let plugged = runs(Stance::Plugged)?;
    let stances = [
        (Stance::Battery, "battery"),
        (Stance::Background, "background"),
        (Stance::Low, "low battery"),
    ];
    stances
        .into_iter()
        .map(|(stance, word)| {
            let outcomes = runs(stance)?;
            let saved = outcomes
                .iter()
                .zip(&plugged)
                .map(|(a, b)| 1.0 - energy(a) / energy(b));
            Ok(Saving {
                emulated: true,
                table: setting.table.name.clone(),
                stance: word,
                others: !without.others,
                seeds: count,
                plugged_mj: Spread::of(plugged.iter().map(energy)),
                mj: Spread::of(outcomes.iter().map(energy)),
                saved: Spread::of(saved),
                plugged_in_time: Spread::of(plugged.iter().map(in_time)),
                in_time: Spread::of(outcomes.iter().map(in_time)),
                in_time_mj: Spread::of(
                    outcomes
                        .iter()
                        .map(|outcome| per_inference(outcome.joules_in_time, outcome.all_in_time)),
                ),
                least_mj: Spread::of(outcomes.iter().map(least)),
                saved_bound: Spread::of(
                    outcomes
                        .iter()
                        .zip(&plugged)
                        .map(|(a, b)| 1.0 - least(a) / energy(b)),
                ),
            })
        })
        .collect()
}

/// Results of a governor when units are lost and return.
#[derive(Debug, Clone, Serialize)]
pub struct Losses {
    /// Everything here is.
    pub emulated: bool,
    /// The table.
    pub table: String,
    /// Runs.
    pub seeds: u64,
    /// Losses that the session saw, of all runs.
    pub losses: u64,
    /// Frames that were begun again, or that failed, beyond one for each loss, of all runs.
    pub on_lost: u64,
    /// Frames in time per second.
    pub in_time_per_s: Spread,
    /// The same of the best static plan of each very run.
    pub best_static_per_s: Spread,
    /// Highest temperature above its limit, in kelvin.
    pub above_limit_k: Spread,
}

/// Runs with losses, beside other apps and lying sensors.
///
/// # Errors
/// As [`Setting::governed`].
pub fn losses(setting: &Setting, first: u64, count: u64) -> Result<Losses> {
    let runs = in_threads(first, count, |seed| {
        let scenario = Scenario::drawn(&setting.table, seed, Without::default());
        let scenario = scenario.with_losses(&setting.table, seed);
        let mut live = Live::new(setting, &scenario, &Options::at(Stance::Battery))?;
        let statics = setting.statics(live.candidates(), &scenario, RUN_NS);
        Ok((live.run(RUN_NS)?, statics.iter().map(rate).fold(0.0, f64::max)))
    })?;
    Ok(Losses {
        emulated: true,
        table: setting.table.name.clone(),
        seeds: count,
        losses: runs.iter().map(|(governed, _)| governed.losses).sum(),
        on_lost: runs.iter().map(|(governed, _)| governed.on_lost).sum(),
        in_time_per_s: Spread::of(runs.iter().map(|(governed, _)| rate(governed))),
        best_static_per_s: Spread::of(runs.iter().map(|(_, best)| *best)),
        above_limit_k: Spread::of(runs.iter().map(|(governed, _)| governed.above_limit)),
    })
}

/// Results of sessions that receive less information.
#[derive(Debug, Clone, Serialize)]
pub struct Ablation {
    /// Everything here is.
    pub emulated: bool,
    /// The table.
    pub table: String,
    /// Runs.
    pub seeds: u64,
    /// The omitted facts, with their results.
    pub rows: Vec<AblationRow>,
}

/// The results without one fact.
#[derive(Debug, Clone, Serialize)]
pub struct AblationRow {
    /// What.
    pub without: &'static str,
    /// Frames in time per second.
    pub in_time_per_s: Spread,
    /// Throughput relative to the best static plan of the same run.
    pub gain: Spread,
    /// Highest temperature above its limit, in kelvin.
    pub above_limit_k: Spread,
    /// Switches of a run.
    pub switches: Spread,
    /// As in [`Figures::late_per_switch`].
    pub late_per_switch: Spread,
    /// Joules of a run.
    pub joules: Spread,
}

/// What can be left out.
#[must_use]
pub fn left_out() -> Vec<(&'static str, Options)> {
    let all = Options::at(Stance::Battery);
    let shown = |shown: Shown| Options { shown, ..all };
    let every = Shown::all();
    vec![
        ("nothing", all),
        (
            "surface",
            shown(Shown {
                surface: false,
                ..every
            }),
        ),
        (
            "package",
            shown(Shown {
                package: false,
                ..every
            }),
        ),
        (
            "units' temperatures",
            shown(Shown {
                units: false,
                ..every
            }),
        ),
        (
            "clocks",
            shown(Shown {
                clocks: false,
                ..every
            }),
        ),
        ("load", shown(Shown { load: false, ..every })),
        (
            "throttling",
            shown(Shown {
                throttling: false,
                ..every
            }),
        ),
        (
            "clocks and throttling",
            shown(Shown {
                clocks: false,
                throttling: false,
                ..every
            }),
        ),
        ("all but a phone's files", shown(Shown::files())),
        (
            "energies of accelerators",
            shown(Shown {
                accelerators_energy: false,
                ..every
            }),
        ),
        (
            "temperatures, with a headroom instead",
            shown(Shown {
                surface: false,
                package: false,
                units: false,
                headroom: true,
                ..every
            }),
        ),
        (
            "energies of accelerators and temperatures, with a headroom",
            shown(Shown {
                surface: false,
                package: false,
                units: false,
                headroom: true,
                accelerators_energy: false,
                ..every
            }),
        ),
        (
            "lateness",
            Options {
                deadline: false,
                ..all
            },
        ),
        ("operating points", Options { points: false, ..all }),
    ]
}

/// Measures the worth of each fact that a session is given.
///
/// # Errors
/// As [`Setting::governed`].
pub fn ablation(setting: &Setting, first: u64, count: u64) -> Result<Ablation> {
    let variants = left_out();
    let runs = in_threads(first, count, |seed| {
        let scenario = Scenario::drawn(&setting.table, seed, Without::default());
        let mut outcomes = Vec::with_capacity(variants.len());
        let mut best = 0.0;
        for (index, (_, options)) in variants.iter().enumerate() {
            let mut live = Live::new(setting, &scenario, options)?;
            if index == 0 {
                let statics = setting.statics(live.candidates(), &scenario, RUN_NS);
                best = statics.iter().map(rate).fold(0.0, f64::max);
            }
            outcomes.push(live.run(RUN_NS)?);
        }
        Ok((outcomes, best))
    })?;
    let rows = variants.iter().enumerate().map(|(index, (without, _))| {
        let of =
            |figure: &dyn Fn(&Outcome) -> f64| Spread::of(runs.iter().map(|(all, _)| figure(&all[index])));
        AblationRow {
            without,
            in_time_per_s: of(&rate),
            gain: Spread::of(runs.iter().map(|(all, best)| rate(&all[index]) / best.max(1e-9))),
            above_limit_k: of(&|outcome| outcome.above_limit),
            switches: of(&|outcome| outcome.switches as f64),
            late_per_switch: of(&late_per_switch),
            joules: of(&|outcome| outcome.joules),
        }
    });
    Ok(Ablation {
        emulated: true,
        table: setting.table.name.clone(),
        seeds: count,
        rows: rows.collect(),
    })
}

fn late_per_switch(outcome: &Outcome) -> f64 {
    outcome.late_after_switch as f64 / (outcome.switches as f64).max(1.0)
}
