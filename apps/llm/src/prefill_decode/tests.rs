//! Plans against all plans, tried one by one; drift, limits, comparisons with the reference.

use proptest::prelude::*;

use super::*;

fn chunk(rows: usize, base_ns: f64, per_position_ns: f64) -> ChunkCost {
    ChunkCost {
        rows,
        base_ns,
        per_position_ns,
        beyond: None,
    }
}

fn device(name: &str, memory_bytes: u64, entry_ns: f64, chunks: Vec<ChunkCost>) -> DeviceCost {
    DeviceCost {
        device: name.to_owned(),
        identity: String::new(),
        emulated: true,
        memory_bytes,
        power_mw: None,
        entry_ns,
        chunks,
        refused: Vec::new(),
    }
}

fn costs(devices: Vec<DeviceCost>) -> PhaseCosts {
    PhaseCosts {
        fingerprint: String::new(),
        devices,
    }
}

/// What a nanosecond on a device counts: without a power of its own as with the largest that is known.
fn price(costs: &PhaseCosts, limits: &PhaseLimits, cost: &DeviceCost) -> f64 {
    let mut most: f64 = 0.0;
    for other in &costs.devices {
        most = most.max(other.power_mw.unwrap_or(0.0));
    }
    1.0 + limits.seconds_per_joule * cost.power_mw.unwrap_or(most) / 1e3
}

/// The least of all plans, by trying each.
fn least(costs: &PhaseCosts, limits: &PhaseLimits, workload: Workload) -> Option<f64> {
    fn go(
        costs: &PhaseCosts,
        limits: &PhaseLimits,
        (set, workload): (u32, Workload),
        done: usize,
        last: Option<usize>,
    ) -> Option<f64> {
        if done == workload.prompt + workload.answer {
            return Some(0.0);
        }
        let mut best: Option<f64> = None;
        for (index, cost) in costs.devices.iter().enumerate() {
            if set >> index & 1 == 0 {
                continue;
            }
            let price = price(costs, limits, cost);
            let entry = if last == Some(index) { 0.0 } else { cost.entry_ns };
            for chunk in &cost.chunks {
                let in_prompt = done < workload.prompt;
                if !in_prompt && chunk.rows != 1 {
                    continue;
                }
                let tokens = if in_prompt {
                    chunk.rows.min(workload.prompt - done)
                } else {
                    1
                };
                let own = (chunk.at(workload.past + done) + entry) * price;
                if let Some(rest) = go(costs, limits, (set, workload), done + tokens, Some(index)) {
                    best = Some(best.map_or(own + rest, |best: f64| best.min(own + rest)));
                }
            }
        }
        best
    }
    let memory = |set: u32| -> u64 {
        let devices = costs.devices.iter().enumerate();
        devices
            .filter(|(index, _)| set >> index & 1 == 1)
            .map(|(_, cost)| cost.memory_bytes)
            .sum()
    };
    (1u32..1 << costs.devices.len())
        .filter(|&set| limits.memory_bytes.is_none_or(|most| memory(set) <= most))
        .filter_map(|set| go(costs, limits, (set, workload), 0, workload.last))
        .min_by(f64::total_cmp)
}

#[test]
fn later_positions_have_their_own_cost() {
    let cost = ChunkCost {
        beyond: Some(Beyond {
            past: 1024,
            per_position_ns: 5.0,
        }),
        ..chunk(1, 100.0, 2.0)
    };
    assert_eq!(
        [0, 10, 1024, 1026].map(|past| cost.at(past)),
        [100.0, 120.0, 2148.0, 2158.0]
    );
    let file = serde_json::to_string(&cost).unwrap();
    assert_eq!(serde_json::from_str::<ChunkCost>(&file).unwrap(), cost);
    let older: ChunkCost =
        serde_json::from_str(r#"{"rows": 1, "base_ns": 100, "per_position_ns": 2}"#).unwrap();
    assert_eq!(older, chunk(1, 100.0, 2.0));
}

/// What a plan costs, read off its own steps.
fn cost_of(costs: &PhaseCosts, limits: &PhaseLimits, plan: &PhasePlan) -> f64 {
    let (mut sum, mut last, mut past) = (0.0, plan.workload.last, plan.workload.past);
    let mut spend = |device: usize, rows: usize, tokens: usize| {
        let cost = &costs.devices[device];
        let price = price(costs, limits, cost);
        let entry = if last == Some(device) { 0.0 } else { cost.entry_ns };
        sum += (cost.chunk(rows).unwrap().at(past) + entry) * price;
        last = Some(device);
        past += tokens;
    };
    for chunk in &plan.prompt {
        spend(chunk.device, chunk.rows, chunk.tokens);
    }
    for run in &plan.answer {
        (0..run.tokens).for_each(|_| spend(run.device, 1, 1));
    }
    assert_eq!(
        past,
        plan.workload.past + plan.workload.prompt + plan.workload.answer
    );
    sum
}

fn some_costs() -> impl Strategy<Value = PhaseCosts> {
    let one = (1u32..100, 0u32..20, proptest::option::of((0usize..9, 0u32..40)));
    let device_of = (
        proptest::collection::vec(one, 3),
        proptest::collection::vec(any::<bool>(), 3),
        (1u64..4, 0u32..30, proptest::option::of(1u32..5)),
    );
    proptest::collection::vec(device_of, 1..4).prop_map(|devices| {
        let devices = devices.into_iter().enumerate();
        costs(
            devices
                .map(|(index, (times, there, (memory, entry, power)))| {
                    let chunks = [4, 2, 1].into_iter().zip(times).zip(there);
                    let chunks = chunks
                        .filter(|(_, there)| *there)
                        .map(|((rows, (base, slope, beyond)), _)| ChunkCost {
                            beyond: beyond.map(|(past, slope)| Beyond {
                                past,
                                per_position_ns: f64::from(slope) / 7.0,
                            }),
                            ..chunk(rows, base.into(), f64::from(slope) / 7.0)
                        })
                        .collect();
                    let mut device = device(&format!("d:{index}"), memory, entry.into(), chunks);
                    device.power_mw = power.map(f64::from);
                    device
                })
                .collect(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn plan_is_optimal(
        costs in some_costs(),
        (past, prompt, answer) in (0usize..5, 0usize..8, 0usize..4),
        memory in proptest::option::of(1u64..8),
        price in prop_oneof![Just(0.0), Just(300.0)],
        last in proptest::option::of(0usize..3),
    ) {
        prop_assume!(prompt + answer > 0);
        let limits = PhaseLimits { memory_bytes: memory, seconds_per_joule: price, largest_chunk: None };
        let last = last.filter(|last| *last < costs.devices.len());
        let workload = Workload { past, prompt, answer, last };
        match (plan(&costs, &[], &limits, workload), least(&costs, &limits, workload)) {
            (Ok(plan), Some(least)) => {
                prop_assert!((plan.objective_ns - least).abs() < 1e-6, "{plan:?}, best {least}");
                prop_assert!((cost_of(&costs, &limits, &plan) - least).abs() < 1e-6);
                prop_assert!(plan.bound_ns <= least + 1e-6);
                let entries = costs.devices.iter().all(|cost| cost.entry_ns == 0.0);
                prop_assert!(!entries || plan.is_optimal());
                prop_assert!(memory.is_none_or(|most| plan.memory_bytes <= most));
            }
            (Err(_), None) => {}
            (made, least) => prop_assert!(false, "{made:?}, by trying {least:?}"),
        }
    }
}

/// A CPU that answers fast, and an NPU that reads fast but takes long to be called.
fn phone() -> PhaseCosts {
    costs(vec![
        device(
            "cpu:0",
            100,
            0.0,
            vec![chunk(128, 1280e6, 0.0), chunk(8, 90e6, 0.0), chunk(1, 12e6, 4e3)],
        ),
        device(
            "npu:0",
            100,
            2e6,
            vec![chunk(128, 160e6, 0.0), chunk(1, 30e6, 1e3)],
        ),
    ])
}

fn named(costs: &PhaseCosts, devices: Vec<usize>) -> Vec<&str> {
    devices
        .into_iter()
        .map(|device| costs.devices[device].device.as_str())
        .collect()
}

#[test]
fn long_prompt_splits_prefill_and_decode_and_short_one_does_not() {
    let costs = phone();
    let of = |prompt, limits: &PhaseLimits| {
        let workload = Workload {
            past: 0,
            prompt,
            answer: 64,
            last: None,
        };
        plan(&costs, &[], limits, workload).unwrap()
    };
    let free = PhaseLimits::default();
    assert_eq!(named(&costs, of(8, &free).devices()), ["cpu:0"]);
    let long = of(512, &free);
    assert!(
        long.prompt
            .iter()
            .all(|chunk| chunk.device == 1 && chunk.rows == 128)
    );
    assert!(long.answer.iter().all(|run| run.device == 0));
    assert!(
        long.is_optimal() || long.objective_ns - long.bound_ns <= 4e6,
        "{long:?}"
    );
    // two copies of the weights do not fit, so one device runs both
    let tight = PhaseLimits {
        memory_bytes: Some(150),
        ..free.clone()
    };
    assert_eq!(named(&costs, of(512, &tight).devices()), ["npu:0"]);
    assert_eq!(named(&costs, of(8, &tight).devices()), ["cpu:0"]);
    let none = PhaseLimits {
        memory_bytes: Some(50),
        ..free
    };
    let workload = Workload {
        past: 0,
        prompt: 8,
        answer: 8,
        last: None,
    };
    let error = plan(&costs, &[], &none, workload).unwrap_err().to_string();
    assert!(
        error.contains("0 MiB of memory") && error.contains("npu:0"),
        "{error}"
    );
}

#[test]
fn answer_leaves_a_slowed_device_and_returns() {
    let phases = Phases::new(phone(), PhaseLimits::default(), |_, _| true).unwrap();
    let second = 1_000_000_000u64;
    let all = [0, 1];
    assert_eq!(phases.next(&all, None, 10, 0), Some(0));
    // hot: three times as long, step by step
    let mut now = 0;
    let mut moved = None;
    for step in 0..40 {
        now += second / 30;
        let ran = Ran {
            device: 0,
            rows: 1,
            past: 10,
            entered: false,
        };
        phases.observe(ran, 36_000_000, now);
        if phases.next(&all, Some(0), 10, now) == Some(1) {
            moved = Some(step);
            break;
        }
    }
    assert!(
        matches!(moved, Some(2..)),
        "one slow token moves nothing: {moved:?}"
    );
    // as long as it is not seen to be better it stays away for some time, then it is tried
    assert_eq!(phases.next(&all, Some(1), 10, now + second), Some(1));
    assert_eq!(phases.next(&all, Some(1), 10, now + 200 * second), Some(0));
}

#[test]
fn decode_moves_after_many_positions() {
    let costs = phone();
    let workload = Workload {
        past: 0,
        prompt: 1,
        answer: 12_000,
        last: None,
    };
    let plan = plan(&costs, &[], &PhaseLimits::default(), workload).unwrap();
    let runs: Vec<(usize, usize)> = plan.answer.iter().map(|run| (run.device, run.past)).collect();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0], (0, 1));
    // 12 ms and 4 us a position meet 30 ms and 1 us a position at 6000
    assert!(runs[1].0 == 1 && (5_990..6_010).contains(&runs[1].1), "{runs:?}");
}

#[test]
fn wrong_logits_quarantine_the_device() {
    let phases = Phases::new(phone(), PhaseLimits::default(), |_, _| false).unwrap();
    assert_eq!(
        phases.uncompared(0, 1),
        None,
        "the reference is right by definition"
    );
    assert_eq!(phases.uncompared(1, 128), Some(0));
    let (right, near, far) = ([1.0, 2.0, 4.0], [1.001, 2.0, 4.0], [4.0, 2.0, 1.0]);
    let policy = polychip::Policy::latency();
    assert_eq!(phases.compare(&policy, (1, 1), &near, &right), None);
    assert_eq!(phases.uncompared(1, 1), None);
    let words = phases.compare(&policy, (1, 128), &far, &right).unwrap();
    assert!(
        words.starts_with("npu:0 is not used for chunks of 128"),
        "{words}"
    );
    let workload = Workload {
        past: 0,
        prompt: 512,
        answer: 1,
        last: None,
    };
    let plan = phases.plan(workload, None, 0).unwrap();
    assert!(
        plan.prompt
            .iter()
            .all(|chunk| chunk.rows != 128 || chunk.device == 0)
    );
    for broken in [[f32::NAN, 2.0, 4.0], [f32::INFINITY, 2.0, 4.0]] {
        assert!(phases.compare(&policy, (1, 1), &broken, &right).is_some());
    }
}

#[test]
fn invalid_costs_are_refused() {
    assert_eq!(phone().check(512), Ok(()));
    type Change = fn(&mut PhaseCosts);
    let broken: [(Change, &str); 5] = [
        (|costs| costs.devices[0].chunks[0].rows = 0, "chunks of 0"),
        (
            |costs| costs.devices[0].chunks[0].rows = 512_000,
            "chunks of 512000",
        ),
        (
            |costs| costs.devices[1].chunks[0].base_ns = -1.0,
            "not valid times",
        ),
        (|costs| costs.devices[1].entry_ns = f64::NAN, "not valid times"),
        (|costs| costs.devices[1].device = "cpu:0".to_owned(), "twice"),
    ];
    for (change, words) in broken {
        let mut costs = phone();
        change(&mut costs);
        let error = costs.check(512).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert!(phone().check(64).is_err(), "no room for chunks of 128");
}
