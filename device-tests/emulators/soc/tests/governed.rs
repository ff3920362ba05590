//! A handful of the study's runs: they fail where the governor, the session, the physics or the planner is broken.

use polychip::governor::SensorLocation::{Device, Package, Skin};
use polychip::governor::{Input, Reading, Settings};
use polychip_soc::emulated::Shown;
use polychip_soc::live::{Live, Options, Stance};
use polychip_soc::scenario::{RUN_NS, Scenario, Without};
use polychip_soc::setting::Setting;
use polychip_soc::study::rate;
use polychip_soc::table::{Seeds, Table};

fn setting() -> (Setting, Seeds) {
    let seeds = Seeds::committed();
    (Setting::new(Table::phone(), &seeds).unwrap(), seeds)
}

const UNDISTURBED: Without = Without {
    others: true,
    faults: true,
};

#[test]
fn limits_hold_and_the_best_static_plan_is_beaten() {
    let (setting, seeds) = setting();
    let (mut governed, mut best) = (0.0, Vec::new());
    for seed in seeds.first..seeds.first + 4 {
        let scenario = Scenario::drawn(&setting.table, seed, Without::default());
        let mut live = Live::new(&setting, &scenario, &Options::at(Stance::Battery)).unwrap();
        let outcome = live.run(RUN_NS).unwrap();
        assert!(
            outcome.above_limit < 0.0,
            "seed {seed}: {} K",
            outcome.above_limit
        );
        let most = u64::from(Settings::default().switches_per_minute);
        assert!(outcome.switches_in_a_minute <= most, "seed {seed}: {outcome:?}");
        assert!(
            outcome.late_after_switch <= outcome.switches,
            "seed {seed}: {outcome:?}"
        );
        governed += rate(&outcome);
        let statics = setting.statics(live.candidates(), &scenario, RUN_NS);
        let of_seed = statics.iter().map(rate).fold(0.0, f64::max);
        assert!(
            rate(&outcome) >= of_seed,
            "seed {seed}: {} {of_seed}",
            rate(&outcome)
        );
        best.resize(statics.len(), 0.0);
        for (sum, outcome) in best.iter_mut().zip(statics) {
            *sum += rate(&outcome);
        }
    }
    let best = best.into_iter().fold(0.0, f64::max);
    assert!(governed >= 1.3 * best, "{governed} {best}");
}

#[test]
fn battery_and_background_save_a_quarter() {
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first, UNDISTURBED);
    let minutes = RUN_NS / 6;
    let joules = |stance| {
        let outcome = setting
            .governed(&scenario, &Options::at(stance), minutes)
            .unwrap();
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
        let outcome = setting
            .governed(&scenario, &Options::at(stance), RUN_NS / 3)
            .unwrap();
        outcome.joules / outcome.all_completed as f64
    };
    assert!(joules(Stance::Battery) <= 0.75 * joules(Stance::Plugged));
}

#[test]
fn no_frame_starts_on_a_lost_unit() {
    let (setting, seeds) = setting();
    let mut losses = 0;
    for seed in seeds.first..seeds.first + 3 {
        let scenario = Scenario::drawn(&setting.table, seed, Without::default());
        let scenario = scenario.with_losses(&setting.table, seed);
        let outcome = setting
            .governed(&scenario, &Options::at(Stance::Battery), RUN_NS)
            .unwrap();
        assert_eq!(outcome.on_lost, 0, "seed {seed}");
        assert!(outcome.above_limit < 0.0, "seed {seed}");
        losses += outcome.losses;
    }
    assert!(losses > 0);
}

#[test]
fn a_run_repeats_and_its_log_replays() {
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first + 7, Without::default());
    let run = || {
        let mut live = Live::new(&setting, &scenario, &Options::at(Stance::Plugged)).unwrap();
        let outcome = live.run(RUN_NS / 15).unwrap();
        let log = live.session().decisions().unwrap();
        assert_eq!(log.replay().unwrap(), log.entries().len());
        (outcome, log.to_string())
    };
    assert_eq!(run(), run());
}

#[test]
fn the_surfaces_limit_is_kept_where_a_free_run_passes_it() {
    // a limit that no plan but the frugal one can keep
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first, UNDISTURBED);
    let free = Options::at(Stance::Plugged);
    let tight = Options {
        surface_limit: Some(36_000),
        ..free
    };
    let hottest = |options| {
        let outcome = setting.governed(&scenario, options, RUN_NS).unwrap();
        outcome.surface.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    };
    let kept = hottest(&tight);
    assert!(kept < 36.0, "{kept}");
    let hottest = hottest(&free);
    assert!(hottest > 36.0, "{hottest}: the limit must have bound");
}

/// The decisions of a session of some minutes, without what its plans' names are.
fn decisions(setting: &Setting, scenario: &Scenario, options: &Options) -> Vec<String> {
    let mut live = Live::new(setting, scenario, options).unwrap();
    live.run(RUN_NS / 15).unwrap();
    let log = live.session().decisions().unwrap();
    log.entries()
        .iter()
        .map(|entry| format!("{:?} {:?}", entry.observation, entry.decision))
        .collect()
}

#[test]
fn a_tree_of_files_drives_the_same_decisions() {
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first, Without::default());
    let here = Options {
        shown: Shown::files(),
        ..Options::at(Stance::Battery)
    };
    let on_disk = Options {
        on_disk: true,
        ..here
    };
    let (here, there) = (
        decisions(&setting, &scenario, &here),
        decisions(&setting, &scenario, &on_disk),
    );
    assert_eq!(here.len(), there.len());
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here, there);
    }
}

#[test]
fn session_sees_only_what_the_phone_shows() {
    let (setting, seeds) = setting();
    let scenario = Scenario::drawn(&setting.table, seeds.first, UNDISTURBED);
    let told = |shown: Shown| {
        let options = Options {
            shown,
            ..Options::at(Stance::Battery)
        };
        let mut live = Live::new(&setting, &scenario, &options).unwrap();
        live.run(RUN_NS / 30).unwrap();
        let log = live.session().decisions().unwrap();
        let readings = log
            .entries()
            .iter()
            .filter_map(|entry| match &entry.observation.input {
                Input::Reading(reading) => Some(*reading),
                _ => None,
            });
        readings.collect::<Vec<_>>()
    };
    let all = told(Shown::all());
    let any = |readings: &[Reading], what: &dyn Fn(&Reading) -> bool| readings.iter().any(what);
    let gpu = setting.table.unit("gpu").unwrap();
    for place in [Package, Skin, Device(0), Device(gpu)] {
        assert!(
            any(&all, &|said| said.place == place && said.temperature_mc.is_some()),
            "{place:?}"
        );
    }
    assert!(any(&all, &|said| said.place == Device(gpu)
        && said.frequency_khz == Some(890_000)));
    assert!(any(&all, &|said| said.place == Device(0)
        && said.throttled == Some(false)));
    assert!(any(&all, &|said| said.others_permille.is_some()));
    let files = told(Shown::files());
    assert!(any(&files, &|said| said.place == Skin) && any(&files, &|said| said.frequency_khz.is_some()));
    assert!(!any(&files, &|said| said.throttled.is_some()
        || said.others_permille.is_some()));
    let blind = Shown {
        surface: false,
        clocks: false,
        ..Shown::files()
    };
    assert!(!any(&told(blind), &|said| said.place == Skin
        || said.frequency_khz.is_some()));
}
