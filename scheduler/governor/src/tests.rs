//! Invariants of the governor under any observations, and its choices in clear cases.

mod units;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Random numbers that a seed repeats.
struct Random(ChaCha8Rng);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.random_range(0..limit)
    }
}

fn load(device: usize, busy_ms: u64, energy_mj: u64) -> Load {
    Load {
        device,
        busy_ns: busy_ms * MS,
        energy_uj: Some(energy_mj * 1000),
    }
}

/// A fast, hungry GPU; a frugal NPU; a slow CPU; the first two together.
fn portfolio() -> Portfolio {
    let devices = ["cpu:0", "gpu:0", "npu:0"];
    Portfolio {
        devices: devices.map(str::to_owned).to_vec(),
        candidates: vec![
            Candidate::new("fastest", 12 * MS, vec![load(1, 12, 60)]),
            Candidate::new("frugal", 18 * MS, vec![load(2, 18, 30)]),
            Candidate::new("both", 15 * MS, vec![load(1, 7, 35), load(2, 8, 14)]),
            Candidate::new("cpu", 60 * MS, vec![load(0, 60, 250)]),
        ],
    }
}

fn governor() -> Governor {
    Governor::new(portfolio(), PolicyLimits::default(), Settings::default()).unwrap()
}

fn at(time_ns: u64, input: Input) -> Observation {
    Observation { time_ns, input }
}

fn frames(ms: u64) -> Input {
    Input::Frames {
        period_ns: Some(ms * MS),
        deadline_ns: Some(ms * MS),
    }
}

fn battery() -> Input {
    Input::Battery {
        charge_permille: Some(600),
        charging: false,
    }
}

fn reading(place: SensorLocation, temperature_mc: i64) -> Input {
    let mut reading = Reading::of(place);
    reading.temperature_mc = Some(temperature_mc);
    Input::Reading(reading)
}

/// A run of the plan in use that took so many thousandths of what was predicted, on all of its devices.
fn run(governor: &Governor, permille: u64) -> Input {
    let candidate = governor.plan();
    let found = &governor.portfolio().candidates[candidate];
    let scaled = |ns: u64| ns * permille / 1000;
    let loads = found.loads.iter().map(|load| Load {
        busy_ns: scaled(load.busy_ns),
        ..*load
    });
    Input::Run(FinishedRun {
        candidate,
        runs: 1,
        latency_ns: scaled(found.latency_ns),
        energy_uj: None,
        late: false,
        loads: loads.collect(),
    })
}

#[test]
fn battery_prefers_frugal_and_mains_fastest() {
    let mut governor = governor();
    governor.step(&at(0, frames(33)));
    governor.step(&at(S, battery()));
    assert_eq!(governor.plan(), 1);
    governor.step(&at(
        10 * S,
        Input::Battery {
            charge_permille: Some(600),
            charging: true,
        },
    ));
    assert_eq!(governor.plan(), 0);
    governor.step(&at(20 * S, Input::Foreground(false)));
    assert_eq!(governor.plan(), 1);
    // the deadline counts more than energy
    governor.step(&at(30 * S, frames(14)));
    assert_eq!(governor.plan(), 0);
}

#[test]
fn one_late_run_on_a_slow_device_is_enough() {
    let mut governor = governor();
    governor.step(&at(0, frames(33)));
    governor.step(&at(S, battery()));
    governor.step(&at(10 * S, run(&governor, 1000)));
    let decision = governor.step(&at(10 * S + 50 * MS, run(&governor, 3000)));
    assert!(matches!(decision.reason, Reason::Late { .. }), "{decision:?}");
    assert_eq!(decision.switch_to(), Some(0));
}

#[test]
fn governor_moves_before_the_limit() {
    let limits = PolicyLimits {
        skin_mc: Some(42_000),
        ..PolicyLimits::default()
    };
    let mut governor = Governor::new(portfolio(), limits, Settings::default()).unwrap();
    governor.step(&at(0, frames(33)));
    let (mut degrees, mut left) = (30.0, None);
    for frame in 0..30 * 900 {
        let now = frame * 33 * MS;
        let hungry = governor.plan() == 0;
        // 2 W warm the surface by 18 degrees, 1 W by 9, in ten minutes
        let settled = if hungry { 48.0 } else { 39.0 };
        degrees += (settled - degrees) * 0.033 / 500.0;
        governor.step(&at(now, run(&governor, 1000)));
        governor.step(&at(
            now,
            reading(SensorLocation::Skin, (degrees * 10.0) as i64 * 100),
        ));
        if !hungry && left.is_none() {
            left = Some(degrees);
        }
        assert!(degrees < 42.0);
    }
    assert!(
        left.is_some_and(|degrees| (36.0..41.5).contains(&degrees)),
        "{left:?} {degrees}"
    );
}

#[test]
fn another_plan_holds_the_power_limit() {
    let mut governor = governor();
    governor.step(&at(0, Input::Tick));
    let limits = PolicyLimits {
        power_mw: Some(2_000),
        ..PolicyLimits::default()
    };
    // 60 mJ in 12 ms are 5 W, 30 mJ in 18 ms are 1.67 W
    let decision = governor.step(&at(10 * S, Input::Limits(limits)));
    assert_eq!(decision.switch_to(), Some(1), "{decision:?}");
    let limited = Reason::Power {
        power_mw: 5000,
        limit_mw: 2000,
    };
    assert_eq!(decision.reason, limited);
}

#[test]
fn pace_holds_the_power_limit_with_idle_power() {
    // as an NVIDIA H200: 81 W at rest, 324 W at the full rate, and nothing else that could run in time
    let devices = vec!["gpu:0".to_owned(), "cpu:0".to_owned()];
    let candidates = vec![
        Candidate::new("gpu", 2 * MS, vec![load(0, 2, 470)]),
        Candidate::new("cpu", 200 * MS, vec![load(1, 200, 470)]),
    ];
    let limits = PolicyLimits {
        power_mw: Some(300_000),
        ..PolicyLimits::default()
    };
    let portfolio = Portfolio { devices, candidates };
    let mut governor = Governor::new(portfolio, limits, Settings::default()).unwrap();
    // as fast as they go: no deadline
    let free = Input::Frames {
        period_ns: Some(2 * MS),
        deadline_ns: None,
    };
    governor.step(&at(0, free));
    let (mut late, mut changes) = (Vec::new(), 0);
    for tick in 1..=600u64 {
        let before = governor.pace_permille();
        let draws = 81_000 + 243 * u64::from(before);
        let reading = Reading {
            power_mw: Some(draws),
            ..Reading::of(SensorLocation::Device(0))
        };
        governor.step(&at(tick * S / 10, Input::Reading(reading)));
        if tick > 300 {
            late.push(draws);
            changes += u32::from(governor.pace_permille() != before);
        }
    }
    assert_eq!(governor.plan(), 0);
    assert!(late.iter().all(|&draws| draws <= 300_000), "{late:?}");
    assert!(late.iter().all(|&draws| draws >= 285_000), "{late:?}");
    assert_eq!(changes, 0);
}

#[test]
fn unknown_power_is_not_bounded_and_reported() {
    let silent = Load {
        device: 0,
        busy_ns: 10 * MS,
        energy_uj: None,
    };
    let portfolio = Portfolio {
        devices: vec!["cpu:0".to_owned()],
        candidates: vec![Candidate::new("cpu", 10 * MS, vec![silent])],
    };
    // a tenth of what a watt while busy would draw
    let limits = PolicyLimits {
        power_mw: Some(100),
        ..PolicyLimits::default()
    };
    let mut governor = Governor::new(portfolio, limits, Settings::default()).unwrap();
    let decision = governor.step(&at(0, frames(10)));
    let unknown = Reason::PowerUnknown {
        candidate: 0,
        limit_mw: 100,
    };
    assert_eq!((decision.reason, decision.pace_permille), (unknown, 1000));
    // a sensor that tells makes it a bound
    let reading = Reading {
        power_mw: Some(200),
        ..Reading::of(SensorLocation::Device(0))
    };
    governor.step(&at(10 * S, Input::Reading(reading)));
    let decision = governor.step(&at(11 * S, Input::Tick));
    assert!(
        !matches!(decision.reason, Reason::PowerUnknown { .. }),
        "{decision:?}"
    );
    assert_eq!(governor.pace_permille(), 500);
}

#[test]
fn mean_of_runs_heats_like_each_run() {
    let (mut single, mut means) = (governor(), governor());
    for second in 0..60 {
        let mc = 30_000 + 200 * i64::try_from(second).unwrap();
        for governor in [&mut single, &mut means] {
            let device = governor.portfolio().candidates[governor.plan()].loads[0].device;
            governor.step(&at(second * S, reading(SensorLocation::Device(device), mc)));
        }
        for run_of in 0..10 {
            let input = run(&single, 1000);
            single.step(&at(second * S + run_of * MS, input));
        }
        let Input::Run(mean) = run(&means, 1000) else {
            unreachable!()
        };
        means.step(&at(
            second * S + 9 * MS,
            Input::Run(FinishedRun { runs: 10, ..mean }),
        ));
    }
    let device = SensorLocation::Device(single.portfolio().candidates[single.plan()].loads[0].device);
    let coefficients = single.coefficients(device);
    assert!(coefficients.is_some());
    assert_eq!(coefficients, means.coefficients(device));
}

#[test]
fn unexplained_slow_runs_request_a_replan() {
    let mut governor = governor();
    let mut asked = 0;
    for second in 0..100 {
        let input = Input::Run(FinishedRun {
            candidate: 0,
            runs: 1,
            latency_ns: 40 * MS,
            energy_uj: None,
            late: false,
            // the GPU was not slower
            loads: vec![load(1, 12, 60)],
        });
        asked += u64::from(governor.step(&at(second * S, input)).action == Action::Replan);
        if governor.plan() != 0 {
            return;
        }
    }
    assert_eq!(asked, 1);
}

#[test]
fn no_device_is_reported_and_a_returned_one_used() {
    let mut governor = governor();
    for device in [1, 2] {
        governor.step(&at(S, Input::Lost { device }));
    }
    assert_eq!(governor.plan(), 3);
    let decision = governor.step(&at(2 * S, Input::Lost { device: 0 }));
    assert_eq!(
        (decision.action, decision.reason),
        (Action::Replan, Reason::NoCandidate)
    );
    let decision = governor.step(&at(3 * S, Input::Back { device: 2 }));
    assert_eq!(decision.switch_to(), Some(1));
    let decision = governor.step(&at(
        4 * S,
        Input::Replanned(vec![portfolio().candidates[1].clone()]),
    ));
    assert_eq!((decision.switch_to(), governor.plan()), (Some(0), 0));
}

#[test]
fn frames_are_skipped_evenly() {
    for pace in [1, 25, 333, 500, 975, 1000] {
        let taken = (0..1000).filter(|&frame| takes(frame, pace)).count();
        assert_eq!(taken, pace as usize);
    }
    assert!(
        (0..1000)
            .filter(|&frame| takes(frame, 500))
            .all(|frame| frame % 2 == 1)
    );
}

/// Any observation at all.
fn any(random: &mut Random, governor: &Governor) -> Input {
    let device = random.below(4) as usize;
    match random.below(20) {
        0..4 => Input::Lost { device },
        4..8 => Input::Back { device },
        8..12 => {
            let place = match random.below(4) {
                0 => SensorLocation::Skin,
                1 => SensorLocation::Package,
                _ => SensorLocation::Device(device),
            };
            let mut said = Reading::of(place);
            let odd = [i64::MIN, i64::MAX, -273_150, 4_000_000, 0];
            said.temperature_mc = match random.below(4) {
                0 => None,
                1 => Some(odd[random.below(5) as usize]),
                _ => Some(20_000 + random.below(80_000) as i64),
            };
            said.power_mw = (random.below(3) == 0).then(|| random.below(20_000));
            said.frequency_khz = (random.below(2) == 0).then(|| random.below(3_000_000));
            said.others_permille = (random.below(3) == 0).then(|| random.below(2_000) as u32);
            Input::Reading(said)
        }
        12..16 => {
            let slow = [100, 900, 1000, 1100, 3000, 100_000][random.below(6) as usize];
            match run(governor, slow) {
                Input::Run(mut done) => {
                    done.candidate = random.below(6) as usize;
                    done.late = random.below(3) == 0;
                    done.energy_uj = (random.below(2) == 0).then(|| random.below(u64::MAX));
                    Input::Run(done)
                }
                other => other,
            }
        }
        16 => Input::Battery {
            charge_permille: (random.below(3) > 0).then(|| random.below(1001) as u32),
            charging: random.below(2) == 0,
        },
        17 => Input::Foreground(random.below(2) == 0),
        18 => {
            let time = |random: &mut Random| (random.below(3) > 0).then(|| random.below(80 * MS));
            Input::Frames {
                period_ns: time(random),
                deadline_ns: time(random),
            }
        }
        _ => Input::Limits(PolicyLimits {
            device_mc: vec![
                Some(90_000),
                (random.below(2) == 0).then(|| random.below(100_000) as i64),
            ],
            package_mc: (random.below(2) == 0).then_some(i64::MIN),
            skin_mc: (random.below(2) == 0).then(|| random.below(60_000) as i64),
            power_mw: (random.below(2) == 0).then(|| random.below(10_000)),
        }),
    }
}

/// 10,000 random sequences of sensors' lies, losses and whims: never a lost device, never without a plan, never to
/// and fro, and every log replays.
#[test]
fn any_events_keep_the_invariants() {
    for seed in 0..10_000 {
        let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
        let mut governor = governor();
        let mut log = log::start(&governor) + "\n";
        let mut lost = [false; 3];
        let mut chosen: Vec<u64> = Vec::new();
        let mut now = 0;
        for _ in 0..40 {
            let most = [20 * MS, 600 * MS, 4 * S][random.below(3) as usize];
            now += random.below(most);
            let observation = at(now, any(&mut random, &governor));
            let before = governor.plan();
            let fled = match observation.input {
                Input::Lost { device } if device < 3 => {
                    lost[device] = true;
                    true
                }
                Input::Back { device } if device < 3 => {
                    lost[device] = false;
                    true
                }
                _ => false,
            };
            let was_usable = governor.is_usable(before);
            let decision = governor.step(&observation);
            let usable = |candidate: &Candidate| candidate.loads.iter().all(|load| !lost[load.device]);
            let candidates = &governor.portfolio().candidates;
            let plan = governor.plan();
            if candidates.iter().any(usable) {
                assert!(
                    usable(&candidates[plan]),
                    "seed {seed}: {observation:?} {decision:?}"
                );
            } else {
                let silent = matches!(decision.reason, Reason::NoCandidate | Reason::Unknown);
                assert!(silent, "seed {seed}: {observation:?} {decision:?}");
            }
            assert_eq!(
                decision.switch_to().unwrap_or(before),
                plan,
                "seed {seed}: {decision:?}"
            );
            assert!(
                (1..=1000).contains(&decision.pace_permille),
                "seed {seed}: {decision:?}"
            );
            if plan != before && !(fled && (!was_usable || !usable(&candidates[before]))) {
                chosen.push(now);
                let recent = chosen.iter().filter(|&&then| now - then < 60 * S).count();
                let most = governor.settings().switches_per_minute as usize;
                assert!(recent <= most, "seed {seed}: {recent} switches in a minute");
            }
            log += &(log::line(&observation, &decision) + "\n");
        }
        if seed % 100 == 0 {
            assert_eq!(log::replay(&log).unwrap().len(), 40);
        }
    }
}

#[test]
fn differing_log_is_refused() {
    let mut governor = governor();
    let mut text = log::start(&governor) + "\n";
    let observation = at(S, Input::Lost { device: 1 });
    let decision = governor.step(&observation);
    text += &log::line(&observation, &decision);
    assert_eq!(log::replay(&text).unwrap(), [decision]);
    form_of_a_line(&text);
    let forged = text.replace("\"switch\":1", "\"switch\":3");
    assert_ne!(forged, text);
    let error = log::replay(&forged).unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
    assert!(log::replay("").is_err() && log::replay("{}").is_err());
}

/// The form of a line is a promise to those who read logs.
fn form_of_a_line(text: &str) {
    let second = text.lines().nth(1).unwrap();
    assert_eq!(
        second,
        r#"{"event":{"time_ns":1000000000,"input":{"lost":{"device":1}}},"decision":{"action":{"switch":1},"pace_permille":1000,"reason":{"lost":{"device":1}}}}"#
    );
}
