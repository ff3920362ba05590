//! Candidates without stated energies, and predictions with a constant error.

use std::ops::Range;

use proptest::prelude::*;

use super::{MS, S, at, frames, load, run};
use crate::{
    Action, Candidate, FinishedRun, Governor, Input, Load, Observation, PolicyLimits, Portfolio, Reading,
    SensorLocation, Settings,
};

fn silent(device: usize, busy_ms: u64) -> Load {
    Load {
        energy_uj: None,
        ..load(device, busy_ms, 0)
    }
}

fn of(candidates: Vec<Candidate>) -> Governor {
    let devices = ["cpu:0", "npu:0", "gpu:0", "dsp:0"].map(str::to_owned).to_vec();
    let portfolio = Portfolio { devices, candidates };
    Governor::new(portfolio, PolicyLimits::default(), Settings::default()).unwrap()
}

#[test]
fn background_keeps_a_fast_device_without_energy() {
    for busy_ms in [1, 5, 20] {
        let mut governor = of(vec![
            Candidate::new("cpu", 40 * MS, vec![load(0, 40, 60)]),
            Candidate::new("npu", busy_ms * MS, vec![silent(1, busy_ms)]),
        ]);
        governor.step(&at(0, Input::Foreground(false)));
        governor.step(&at(10 * S, Input::Tick));
        assert_eq!(governor.plan(), 1, "{busy_ms} ms");
        // where both say it, it is the energy that counts
        governor.step(&at(
            20 * S,
            Input::Replanned(vec![
                Candidate::new("cpu", 40 * MS, vec![load(0, 40, 60)]),
                Candidate::new("npu", busy_ms * MS, vec![load(1, busy_ms, 90)]),
            ]),
        ));
        governor.step(&at(40 * S, Input::Tick));
        assert_eq!(governor.plan(), 0, "{busy_ms} ms");
    }
}

#[test]
fn lost_device_without_energy_does_not_block_comparison() {
    let mut governor = of(vec![
        Candidate::new("gpu", 10 * MS, vec![load(2, 10, 90)]),
        Candidate::new("cpu", 40 * MS, vec![load(0, 40, 60)]),
        Candidate::new("npu", 5 * MS, vec![silent(1, 5)]),
    ]);
    governor.step(&at(0, Input::Foreground(false)));
    governor.step(&at(10 * S, Input::Tick));
    assert_eq!(governor.plan(), 2);
    governor.step(&at(20 * S, Input::Lost { device: 1 }));
    assert_eq!(governor.plan(), 1);
}

#[test]
fn heat_is_fitted_in_one_unit_for_all_candidates() {
    // 2 W on one device, unknown on the other
    let mut governor = of(vec![
        Candidate::new("gpu", 10 * MS, vec![load(2, 10, 20)]),
        Candidate::new("both", 10 * MS, vec![silent(2, 5), load(0, 5, 5)]),
    ]);
    let heats = |governor: &mut Governor, until: u64, from: u64| {
        for second in from..until {
            let mut reading = Reading::of(SensorLocation::Device(2));
            reading.temperature_mc = Some(30_000 + 100 * i64::try_from(second % 50).unwrap());
            governor.step(&at(second * S, Input::Reading(reading)));
            for number in 1..=20 {
                let input = run(governor, 1000);
                governor.step(&at(second * S + number * 10 * MS, input));
            }
        }
        governor.coefficients(SensorLocation::Device(2)).unwrap()
    };
    let mixed = heats(&mut governor, 60, 0);
    // the same without any energies: the fit ignores the energy of one device if another lacks it
    let mut bare = of(vec![
        Candidate::new("gpu", 10 * MS, vec![silent(2, 10)]),
        Candidate::new("both", 10 * MS, vec![silent(2, 5), silent(0, 5)]),
    ]);
    assert_eq!(mixed, heats(&mut bare, 60, 0));
    // and in joules if all energies are known
    let mut stated = of(vec![Candidate::new("gpu", 10 * MS, vec![load(2, 10, 20)])]);
    assert_ne!(mixed, heats(&mut stated, 60, 0));
}

/// Runs a stream between two seconds: 33 ms a frame, with busy times as the devices really are. Switches, and replans asked
/// for.
fn stream(
    governor: &mut Governor,
    seconds: Range<u64>,
    busy_ns: impl Fn(u64, &Load) -> u64,
) -> (usize, usize) {
    let (mut switches, mut replans) = (0, 0);
    for frame in seconds.start * 30..seconds.end * 30 {
        let now = frame * 33 * MS;
        let found = governor.portfolio().candidates[governor.plan()].clone();
        let loads: Vec<Load> = found
            .loads
            .iter()
            .map(|load| Load {
                busy_ns: busy_ns(now, load),
                ..*load
            })
            .collect();
        let latency_ns = loads.iter().map(|load| load.busy_ns).sum();
        let done = Input::Run(FinishedRun {
            candidate: governor.plan(),
            runs: 1,
            latency_ns,
            energy_uj: None,
            late: false,
            loads,
        });
        let observation = Observation {
            time_ns: now,
            input: done,
        };
        match governor.step(&observation).action {
            Action::Switch(_) => switches += 1,
            Action::Replan => replans += 1,
            Action::Stay => {}
        }
    }
    (switches, replans)
}

#[test]
fn constant_error_belongs_to_the_candidate() {
    // the NPU takes ten times what was predicted of it, always; the CPU what was predicted
    let mut governor = of(vec![
        Candidate::new("npu", 5 * MS, vec![load(1, 5, 5)]),
        Candidate::new("cpu", 25 * MS, vec![load(0, 25, 60)]),
    ]);
    governor.step(&at(0, frames(33)));
    let real = |_: u64, load: &Load| {
        if load.device == 1 {
            10 * load.busy_ns
        } else {
            load.busy_ns
        }
    };
    let (switches, replans) = stream(&mut governor, 0..600, real);
    assert_eq!(governor.plan(), 1);
    assert!(
        switches <= 13,
        "it is tried again for a minute, and then seldom: {switches}"
    );
    assert!((5..=10).contains(&replans), "a replan each minute: {replans}");
    let (switches, _) = stream(&mut governor, 600..1800, real);
    assert_eq!(governor.plan(), 1);
    assert!(switches <= 4, "it is tried again ever more seldom: {switches}");
    // what is predicted now is what was measured
    let predicted = governor.predicted_ns(0).unwrap();
    assert!((45 * MS..55 * MS).contains(&predicted), "{predicted}");
}

#[test]
fn new_slowness_is_a_busy_device() {
    let mut governor = of(vec![
        Candidate::new("npu", 5 * MS, vec![load(1, 5, 5)]),
        Candidate::new("cpu", 25 * MS, vec![load(0, 25, 60)]),
    ]);
    governor.step(&at(0, frames(33)));
    // twice as slow as predicted; then somebody else takes it for half a minute
    let real = |now: u64, load: &Load| match (load.device, now / S) {
        (1, 100..130) => 10 * load.busy_ns,
        (1, _) => 2 * load.busy_ns,
        _ => load.busy_ns,
    };
    let (switches, _) = stream(&mut governor, 0..100, real);
    assert_eq!((governor.plan(), switches), (0, 0));
    let (switches, _) = stream(&mut governor, 100..125, real);
    assert_eq!(governor.plan(), 1, "it is busy");
    assert!(switches <= 5, "{switches}");
    stream(&mut governor, 125..260, real);
    assert_eq!(governor.plan(), 0, "it is free again");
}

#[test]
fn device_slowed_for_minutes_is_retried() {
    let mut governor = of(vec![
        Candidate::new("npu", 5 * MS, vec![load(1, 5, 5)]),
        Candidate::new("cpu", 25 * MS, vec![load(0, 25, 60)]),
    ]);
    governor.step(&at(0, frames(33)));
    // for four minutes, evenly
    let real = |now: u64, load: &Load| match (load.device, now / S) {
        (1, 10..250) => 10 * load.busy_ns,
        _ => load.busy_ns,
    };
    stream(&mut governor, 0..250, real);
    assert_eq!(governor.plan(), 1, "it is busy");
    stream(&mut governor, 250..520, real);
    assert_eq!(governor.plan(), 0, "it is free again");
}

/// A candidate on one device: its time and, if known, its energy, both in thousandths of the largest.
fn any_candidate() -> impl Strategy<Value = (u64, Option<u64>)> {
    (1u64..1000, prop::option::weighted(0.7, 1u64..1000))
}

proptest! {
    /// With any energies missing, the frugal choice is never beaten in the unit that it is made in.
    #[test]
    fn frugal_choice_is_the_minimum_in_one_unit(made in prop::collection::vec(any_candidate(), 1..5)) {
        let candidates: Vec<Candidate> = made
            .iter()
            .enumerate()
            .map(|(device, &(ms, energy_mj))| {
                let load = Load { energy_uj: energy_mj.map(|mj| mj * 1000), ..load(device, ms, 0) };
                Candidate::new(&format!("{device}"), ms * MS, vec![load])
            })
            .collect();
        let mut governor = of(candidates);
        governor.step(&at(0, Input::Foreground(false)));
        governor.step(&at(100 * S, Input::Tick));
        governor.step(&at(200 * S, Input::Tick));
        let chosen = made[governor.plan()];
        let all: Option<Vec<u64>> = made.iter().map(|&(_, energy)| energy).collect();
        let (mine, least) = match all {
            Some(energies) => (chosen.1.unwrap(), energies.into_iter().min().unwrap()),
            None => (chosen.0, made.iter().map(|&(time, _)| time).min().unwrap()),
        };
        // the hysteresis of a twentieth keeps what runs
        prop_assert!(mine * 95 <= least * 100, "{made:?}: {chosen:?}");
    }
}
