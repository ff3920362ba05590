//! A handful of the study's runs: they fail where the governor, the physics or the planner is broken.

use polychip::governor::Action;
use polychip::governor::{Governor, Input, Observation, Settings, log};
use polychip_soc::drive::{Rule, drive, limits};
use polychip_soc::scenario::{RUN_NS, Scenario, Without};
use polychip_soc::study::{Setting, Stance, rate};
use polychip_soc::table::{Seeds, Table};

fn setting() -> (Setting, Seeds) {
    let seeds = Seeds::committed();
    (Setting::new(Table::phone(), &seeds).unwrap(), seeds)
}

#[test]
fn limits_hold_and_the_best_static_plan_is_beaten() {
    let (setting, seeds) = setting();
    let (mut governed, mut best) = (0.0, vec![0.0; setting.plans.demands.len()]);
    for seed in seeds.first..seeds.first + 3 {
        let scenario = Scenario::drawn(&setting.table, seed, Without::default());
        let outcome = setting.governed(&scenario, Stance::Battery, RUN_NS).unwrap();
        assert!(
            outcome.above_limit < 0.0,
            "seed {seed}: {} K",
            outcome.above_limit
        );
        let most = u64::from(Settings::default().switches_per_minute);
        assert!(outcome.switches_in_a_minute <= most, "seed {seed}: {outcome:?}");
        governed += rate(&outcome);
        for (sum, outcome) in best.iter_mut().zip(setting.statics(&scenario, RUN_NS)) {
            *sum += rate(&outcome);
        }
    }
    let best = best.into_iter().fold(0.0, f64::max);
    assert!(governed >= 1.3 * best, "{governed} {best}");
}

#[test]
fn battery_and_background_save_a_quarter() {
    let (setting, seeds) = setting();
    let without = Without {
        others: true,
        faults: true,
    };
    let scenario = Scenario::drawn(&setting.table, seeds.first, without);
    let minutes = RUN_NS / 6;
    let joules = |stance| {
        let outcome = setting.governed(&scenario, stance, minutes).unwrap();
        assert_eq!(outcome.all_in_time, outcome.all_completed);
        outcome.joules / outcome.all_completed as f64
    };
    let plugged = joules(Stance::Plugged);
    for stance in [Stance::Battery, Stance::Background, Stance::Low] {
        assert!(joules(stance) <= 0.75 * plugged, "{stance:?}");
    }
}

#[test]
fn beside_other_apps_an_operating_point_saves_a_quarter() {
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first, Without::default());
    let joules = |stance| {
        let outcome = setting.governed(&scenario, stance, RUN_NS / 3).unwrap();
        outcome.joules / outcome.all_completed as f64
    };
    assert!(joules(Stance::Battery) <= 0.75 * joules(Stance::Plugged));
}

#[test]
fn no_frame_is_begun_on_a_unit_that_is_known_to_be_lost() {
    let (setting, seeds) = setting();
    let mut losses = 0;
    for seed in seeds.first..seeds.first + 3 {
        let scenario = Scenario::drawn(&setting.table, seed, Without::default());
        let scenario = scenario.with_losses(&setting.table, seed);
        let outcome = setting.governed(&scenario, Stance::Battery, RUN_NS).unwrap();
        assert_eq!(outcome.on_lost, 0, "seed {seed}");
        assert!(outcome.above_limit < 0.0, "seed {seed}");
        losses += outcome.losses;
    }
    assert!(losses > 0);
}

#[test]
fn a_run_repeats_and_its_plans_come_from_the_planner() {
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first + 7, Without::default());
    let run = || setting.governed(&scenario, Stance::Plugged, RUN_NS / 15).unwrap();
    assert_eq!(run(), run());
    for (plan, demand) in setting
        .plans
        .plans
        .iter()
        .zip(&setting.plans.portfolio.candidates)
    {
        assert!(!plan.parts.is_empty() && !demand.loads.is_empty());
    }
}

#[test]
fn the_hottest_plan_is_left_before_the_limit() {
    // a limit that no plan but the frugal one can keep
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(
        &setting.table,
        seeds.first,
        Without {
            others: true,
            faults: true,
        },
    );
    let mut tight = limits(&setting.table);
    tight.skin_mc = Some(36_000);
    let portfolio = setting.plans.portfolio.clone();
    let mut governor = Governor::new(portfolio, tight.clone(), Settings::default()).unwrap();
    let mut text = log::start(&governor);
    for input in Setting::told(Stance::Plugged) {
        let observation = Observation { time_ns: 0, input };
        let decision = governor.step(&observation);
        assert_ne!(decision.action, Action::Replan);
        text = text + "\n" + &log::line(&observation, &decision);
    }
    assert_eq!(log::replay(&text).unwrap().len(), 3);
    let outcome = drive(
        &setting.table,
        &setting.plans,
        &scenario,
        Rule::Governed(&mut governor),
        RUN_NS,
    );
    let hottest = outcome.skin.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!(hottest < 36.0, "{hottest}");
    let free = setting.governed(&scenario, Stance::Plugged, RUN_NS).unwrap();
    let hottest = free.skin.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!(hottest > 36.0, "{hottest}: the limit must have bound");
    assert!(matches!(governor.limits(), found if *found == tight));
    assert!(matches!(
        governor
            .step(&Observation {
                time_ns: RUN_NS,
                input: Input::Tick
            })
            .action,
        Action::Stay | Action::Switch(_)
    ));
}
