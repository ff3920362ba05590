//! Random sets, admitted or refused, and a million arrivals on virtual time: no set that is admitted misses a deadline, and
//! what a refusal shows does miss.

use polychip_device_queue::{
    Admission, Class, Device, Missing, Part, Pattern, Reason, Scenario, Settings, Task, TaskSet, admit, cuts,
    deadlines_of, missing, simulate, what_would_fit,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

const MS: u64 = 1_000_000;
const SETS: u64 = 1_000;

struct Random(ChaCha8Rng);

impl Random {
    /// A number from `low` up to `high`, without it.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next_u64() % (high - low)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }
}

/// A set of two to six tasks on one to three devices.
fn set(random: &mut Random) -> TaskSet {
    let device = |index: u64, random: &mut Random| Device {
        memory_bytes: random.chance(10).then(|| 200 + random.between(0, 600)),
        queue: Settings {
            in_flight: if random.chance(15) { 2 } else { 1 },
            share_permille: match random.between(0, 3) {
                0 => [0; 3],
                1 => [0, random.between(0, 300) as u16, random.between(0, 300) as u16],
                _ => Settings::default().share_permille,
            },
            ..Settings::default()
        },
        ..Device::new(format!("d:{index}"))
    };
    let devices: Vec<Device> = (0..random.between(1, 4))
        .map(|index| device(index, random))
        .collect();
    let count = random.between(2, 7);
    // together up to 130 % of the devices
    let load = random.between(20, 130) * devices.len() as u64;
    let tasks = (0..count).map(|index| {
        let period = random.between(5, 100) * MS;
        let time = (period * load / 100 / count) * random.between(50, 151) / 100;
        // whole, or in pieces; on one device, or over several
        let pieces = random.between(1, 6);
        let home = random.between(0, devices.len() as u64) as usize;
        let moves = random.chance(30);
        let parts = (0..pieces).map(|piece| Part {
            device: if moves {
                (home + piece as usize / 2) % devices.len()
            } else {
                home
            },
            time_ns: (time / pieces * random.between(60, 141) / 100).max(1),
        });
        let parts = parts.collect();
        let mut task = if random.chance(12) {
            Task::endless(format!("t{index}"), Class::Background, parts)
        } else {
            let class = Class::ALL[random.between(0, 3) as usize];
            let due = match random.between(0, 4) {
                0 => period * random.between(50, 100) / 100,
                1 => period * random.between(100, 200) / 100,
                _ => period,
            };
            Task::periodic(format!("t{index}"), period, parts)
                .due(due)
                .in_class(class)
        };
        task.memory_bytes = vec![(home, random.between(1, 100))];
        task
    });
    TaskSet::new(devices.clone(), tasks.collect())
}

/// Simulates so many arrivals; how many there were, and how many were late.
fn simulated(set: &TaskSet, admission: &Admission, seed: u64, pattern: Pattern, arrivals: f64) -> (u64, u64) {
    let rate: f64 = set
        .tasks
        .iter()
        .filter_map(|task| task.sporadic())
        .map(|(period, _)| 1.0 / period as f64)
        .sum();
    if rate == 0.0 {
        return (0, 0);
    }
    let scenario = Scenario {
        seed,
        until_ns: (arrivals / rate) as u64,
        // every other one with parts that take what they like
        least_permille: if seed.is_multiple_of(2) { 1_000 } else { 200 },
        ..Scenario::of(pattern)
    };
    let due = deadlines_of(set, admission);
    let outcome = simulate(set, &due, &scenario);
    (
        outcome.tasks.iter().map(|task| task.arrived).sum(),
        outcome.late(),
    )
}

#[derive(Debug, Default)]
struct Tally {
    admitted: u64,
    shown: u64,
    sufficient_only: u64,
    memory: u64,
    arrivals: u64,
}

#[test]
fn admitted_sets_miss_nothing_in_a_million_arrivals() {
    let mut random = Random(ChaCha8Rng::seed_from_u64(18));
    let mut tally = Tally::default();
    for number in 0..SETS {
        let set = set(&mut random);
        let admission = admit(&set).unwrap();
        match &admission {
            Admission::Admitted(_) => {
                tally.admitted += 1;
                for (seed, pattern) in [
                    (2 * number, Pattern::Periodic),
                    (2 * number, Pattern::Sporadic),
                    (2 * number + 1, Pattern::Sporadic),
                ] {
                    let (arrivals, late) = simulated(&set, &admission, seed, pattern.clone(), 2_000.0);
                    tally.arrivals += arrivals;
                    assert_eq!(late, 0, "set {number}, {pattern:?}, seed {seed}: {set:#?}");
                }
                // nor with the arrivals that are worst for a refused set
                let nothing = Reason::Undecided {
                    device: 0,
                    class: Class::Urgent,
                };
                let found = missing(&set, &nothing);
                assert_eq!(found, Missing::SufficientOnly, "set {number}: {set:#?}");
            }
            Admission::Refused(reason) => match missing(&set, reason) {
                Missing::Shown {
                    arrivals,
                    until_ns,
                    miss,
                } => {
                    tally.shown += 1;
                    shown_arrivals_are_allowed(&set, &arrivals);
                    let scenario = Scenario {
                        until_ns,
                        stop_at_miss: true,
                        ..Scenario::of(Pattern::Given(arrivals))
                    };
                    let replayed = simulate(&set, &deadlines_of(&set, &admission), &scenario);
                    assert_eq!(replayed.first_miss, Some(miss), "set {number}: {set:#?}");
                }
                Missing::SufficientOnly => tally.sufficient_only += 1,
                Missing::NotOfTime => tally.memory += 1,
            },
        }
    }
    eprintln!("{tally:?}");
    assert!(tally.arrivals >= 1_000_000, "{tally:?}");
    // a test that refuses everything, or shows nothing, is worth nothing
    assert!(tally.admitted >= 250, "{tally:?}");
    assert!(tally.shown >= 200, "{tally:?}");
    let refused = tally.shown + tally.sufficient_only;
    assert!(tally.sufficient_only * 100 <= refused * 20, "{tally:?}");
}

/// Runs of a task are no closer than its period.
fn shown_arrivals_are_allowed(set: &TaskSet, arrivals: &[polychip_device_queue::Arrival]) {
    for (index, task) in set.tasks.iter().enumerate() {
        let times: Vec<u64> = arrivals
            .iter()
            .filter(|arrival| arrival.task == index)
            .map(|arrival| arrival.time_ns)
            .collect();
        match task.sporadic() {
            Some((period, _)) => assert!(
                times.windows(2).all(|pair| pair[1] - pair[0] >= period),
                "{task:?}"
            ),
            None => assert!(times.len() <= 1, "{task:?}"),
        }
    }
}

/// The same devices, which interrupt parts within a bound and take time to switch.
fn giving_way(set: &mut TaskSet, random: &mut Random) {
    for device in &mut set.devices {
        device.queue.preemption_ns = match random.between(0, 5) {
            0 => None,
            1 => Some(u64::MAX),
            _ => Some(random.between(0, 5 * MS)),
        };
        device.switch_ns = if random.chance(50) {
            random.between(0, MS / 2)
        } else {
            0
        };
    }
}

#[test]
fn admitted_sets_on_preemptive_devices_miss_nothing() {
    let mut random = Random(ChaCha8Rng::seed_from_u64(19));
    let (mut admitted, mut more, mut arrivals) = (0, 0, 0);
    for number in 0..SETS {
        let plain = set(&mut random);
        let mut set = plain.clone();
        giving_way(&mut set, &mut random);
        let admission = admit(&set).unwrap();
        if admission.certificate().is_none() {
            continue;
        }
        admitted += 1;
        more += u64::from(admit(&plain).unwrap().certificate().is_none());
        for (seed, pattern) in [
            (0, Pattern::Periodic),
            (1, Pattern::Sporadic),
            (2, Pattern::Sporadic),
        ] {
            let (came, late) = simulated(&set, &admission, number * 3 + seed, pattern.clone(), 2_000.0);
            arrivals += came;
            assert_eq!(late, 0, "set {number}, {pattern:?}, seed {seed}: {set:#?}");
        }
        let nothing = Reason::Undecided {
            device: 0,
            class: Class::Urgent,
        };
        assert_eq!(
            missing(&set, &nothing),
            Missing::SufficientOnly,
            "set {number}: {set:#?}"
        );
    }
    eprintln!("{admitted} admitted, {more} of them only because parts give way; {arrivals} arrivals");
    assert!(
        admitted >= 200 && more >= 5 && arrivals >= 500_000,
        "{admitted} {more} {arrivals}"
    );
}

#[test]
fn offered_fits_are_admitted_and_cuts_are_tight() {
    let mut random = Random(ChaCha8Rng::seed_from_u64(7));
    let (mut fits, mut limits) = (0, 0);
    for number in 0..100 {
        let set = set(&mut random);
        if let Admission::Refused(reason) = admit(&set).unwrap() {
            fits += what_would_fit(&set, &reason).unwrap().len();
            continue;
        }
        for (device, cuts) in cuts(&set).unwrap().iter().enumerate() {
            let Some(longest) = cuts.longest_ns else { continue };
            let with = |time_ns: u64| {
                let mut set = set.clone();
                set.tasks.push(Task::endless(
                    "more",
                    Class::Background,
                    vec![Part { device, time_ns }],
                ));
                admit(&set).unwrap().certificate().is_some()
            };
            assert!(
                longest == 0 || with(longest),
                "set {number}, device {device}: {longest}"
            );
            // deadlines that are divided otherwise may allow more, and a share that earns no part
            let is_tight = set.devices.len() == 1 && set.devices[0].queue.share_permille == [0; 3];
            assert!(
                !is_tight || !with(longest + 1),
                "set {number}, device {device}: {longest}"
            );
            limits += 1;
        }
    }
    assert!(fits > 50 && limits > 20, "{fits} fits, {limits} limits");
}
