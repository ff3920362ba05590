//! Joint plans beside trying all combinations.

use polychip_device_queue::{
    Aim, Arrivals, Choice, Class, Device, Part, Session, TaskSet, admit, joint, joint_value,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Sessions with plans on three devices: fast and dear, slow and frugal, or both in turn.
fn sessions(random: &mut ChaCha8Rng, count: usize, choices: usize) -> Vec<Session> {
    let mut between = |low: u64, high: u64| low + random.next_u64() % (high - low);
    let mut made = Vec::new();
    for index in 0..count {
        let period_ns = 1_000 * [10, 20, 33, 50, 100][between(0, 5) as usize];
        let work = period_ns / between(1, 5);
        let choice = |number: usize| {
            let device = number % 3;
            let speed = [3, 2, 1][device];
            let time_ns = (work / speed).max(2) * between(80, 120) / 100;
            let parts = match number / 3 {
                0 => vec![Part { device, time_ns }],
                1 => vec![
                    Part {
                        device,
                        time_ns: time_ns / 2 + 1,
                    };
                    2
                ],
                _ => vec![
                    Part {
                        device,
                        time_ns: time_ns / 2 + 1,
                    },
                    Part {
                        device: (device + 1) % 3,
                        time_ns: time_ns / 2 + 1,
                    },
                ],
            };
            Choice {
                parts,
                energy_uj: 10 * speed * speed * between(50, 150),
                memory_bytes: vec![(device, between(10, 60))],
            }
        };
        made.push(Session {
            name: format!("s{index}"),
            class: Class::ALL[index % 2],
            arrivals: Arrivals::Sporadic {
                period_ns,
                deadline_ns: period_ns,
            },
            choices: (0..choices).map(choice).collect(),
        });
    }
    made
}

/// The devices, with so many hundredths of their memory.
fn devices(percent: u64) -> Vec<Device> {
    let device = |name: &str, memory: u64| Device {
        memory_bytes: Some(memory * percent / 100),
        ..Device::new(name)
    };
    vec![device("npu:0", 100), device("gpu:0", 110), device("cpu:0", 150)]
}

/// The least value of all combinations that are admitted, and how many combinations there are.
fn brute_force(devices: &[Device], sessions: &[Session], aim: Aim) -> (Option<u64>, u64) {
    let mut best: Option<u64> = None;
    let mut chosen = vec![0; sessions.len()];
    let mut count = 0;
    loop {
        count += 1;
        let value = joint_value(devices.len(), sessions, &chosen, aim);
        if best.is_none_or(|best| value < best) {
            let tasks = sessions.iter().zip(&chosen);
            let tasks = tasks.map(|(session, plan)| session.with(&session.choices[*plan]));
            let set = TaskSet::new(devices.to_vec(), tasks.collect());
            if admit(&set).unwrap().certificate().is_some() {
                best = Some(value);
            }
        }
        let Some(place) = (0..chosen.len()).find(|place| chosen[*place] + 1 < sessions[*place].choices.len())
        else {
            return (best, count);
        };
        chosen[place] += 1;
        chosen[..place].fill(0);
    }
}

fn agree(seed: u64, count: usize, choices: usize, aim: Aim) -> (bool, u64) {
    // some have too little for all
    let devices = devices(if seed % 4 == 1 { 30 } else { 100 });
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let sessions = sessions(&mut random, count, choices);
    let found = joint(&devices, &sessions, aim, u64::MAX).unwrap();
    let (best, combinations) = brute_force(&devices, &sessions, aim);
    assert_eq!(
        found.as_ref().map(|found| found.value),
        best,
        "seed {seed}, {aim:?}"
    );
    if let Some(found) = &found {
        assert!(found.is_optimal);
        assert_eq!(joint_value(3, &sessions, &found.chosen, aim), found.value);
    }
    (found.is_some(), combinations)
}

#[test]
fn joint_plans_match_brute_force() {
    let mut found = 0;
    for seed in 0..60 {
        for aim in [Aim::Energy, Aim::Load] {
            found += usize::from(agree(seed, 2 + seed as usize % 3, 8, aim).0);
        }
    }
    // both answers occur
    assert!((30..120).contains(&found), "{found} of 120");
}

#[test]
fn six_sessions_with_eight_plans_each() {
    for aim in [Aim::Energy, Aim::Load] {
        let found: Vec<bool> = (0..3)
            .map(|seed| {
                let (found, combinations) = agree(seed, 6, 8, aim);
                assert_eq!(combinations, 8u64.pow(6));
                found
            })
            .collect();
        assert!(found.contains(&true), "{found:?}");
    }
}

#[test]
fn step_limit_is_reported() {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let sessions = sessions(&mut random, 4, 8);
    let few = joint(&devices(100), &sessions, Aim::Energy, 8).unwrap();
    assert!(few.is_none_or(|few| !few.is_optimal && few.steps == 8));
}
