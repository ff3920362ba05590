//! Devices without energy figures use a power model, which is labelled.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[allow(dead_code, reason = "not every test crate runs sessions")]
#[path = "scripted/session.rs"]
mod scripted;

use std::time::Duration;

use polychip::{MilliCelsius, Milliwatts, Policy, Warning};
use scripted::{PATIENCE, filled, right, runtime};

/// A fast NPU that says nothing of energy, and a slow CPU that says what it takes: two nodes of a millisecond each,
/// beside 4 ms and 8 mJ.
const SILENT: &str = "
    [[device]]
    name = \"npu\"
    states_energy = false
    cost = { fixed_ns = 1e6, ps_per_byte = 0.0, fixed_nj = 1e6, pj_per_byte = 0.0 }
    [[device]]
    name = \"cpu\"
    kind = \"cpu\"
    cost = { fixed_ns = 4e6, ps_per_byte = 0.0, fixed_nj = 8e6, pj_per_byte = 0.0 }
";

/// A fast device at 20 W, and one that is twice as slow at 1 W.
const STATED: &str = "
    [[device]]
    cost = { fixed_ns = 1e6, ps_per_byte = 0.0, fixed_nj = 2e7, pj_per_byte = 0.0 }
    [[device]]
    cost = { fixed_ns = 2e6, ps_per_byte = 0.0, fixed_nj = 2e6, pj_per_byte = 0.0 }
";

fn devices(script: &str, policy: Policy) -> (Vec<String>, Vec<Warning>) {
    let (runtime, model) = runtime(script);
    let planned = runtime.plan(&model, &policy.devices(["null"])).unwrap();
    let plan = planned.plan();
    let parts = plan.parts.iter();
    let mut used: Vec<String> = parts
        .map(|part| plan.devices[part.device.index()].clone())
        .collect();
    used.dedup();
    (used, planned.warnings().to_vec())
}

#[test]
fn device_with_modelled_energy_is_used_with_a_warning() {
    for policy in [Policy::balanced(), Policy::energy()] {
        let (used, warnings) = devices(SILENT, policy);
        assert_eq!(used, ["null:0"]);
        let [
            Warning::EnergyModelled {
                device,
                provenance,
                command,
                ..
            },
        ] = &warnings[..]
        else {
            panic!("{warnings:?}");
        };
        assert_eq!((device.as_str(), *provenance), ("null:0", "default"));
        assert!(
            command.starts_with("polychip energy ") && command.contains("--profile FILE"),
            "{command}"
        );
    }
    // where it does not count there is nothing to say
    assert!(devices(SILENT, Policy::latency()).1.is_empty());
    assert!(devices(STATED, Policy::balanced()).1.is_empty());
}

#[test]
fn power_limit_uses_the_upper_bound() {
    // an NPU that nobody knows draws 2 W, and may draw 10
    let limited = |milliwatts| {
        devices(
            SILENT,
            Policy::latency().max_predicted_power(Milliwatts::new(milliwatts)),
        )
        .0
    };
    assert_eq!(limited(10_000), ["null:0"]);
    assert_ne!(limited(9_000), ["null:0"]);
    let heat = polychip::Heat {
        rest: MilliCelsius::new(25_000),
        resistance_mk_per_w: 5_000,
    };
    let warm = |degrees| {
        let policy = Policy::latency().heat("null:0", heat);
        devices(
            SILENT,
            policy.max_predicted_temperature(MilliCelsius::new(degrees)),
        )
        .0
    };
    assert_eq!(warm(75_000), ["null:0"]);
    assert_ne!(warm(74_000), ["null:0"]);
}

#[test]
fn balanced_plan_is_at_most_1_5_times_slower_without_a_price() {
    let (used, _) = devices(STATED, Policy::balanced());
    assert_eq!(used, ["null:0"], "the other one takes twice as long");
    let (used, _) = devices(
        STATED,
        Policy::balanced().energy_price(Duration::from_millis(200)),
    );
    assert_eq!(used, ["null:1"]);
}

/// An NPU of 5 ms that says nothing of energy, and a CPU of 40 ms that says what it takes.
const BACKGROUND: &str = "
    [[device]]
    name = \"npu\"
    states_energy = false
    cost = { fixed_ns = 2.5e6, ps_per_byte = 0.0, fixed_nj = 1e6, pj_per_byte = 0.0 }
    [[device]]
    name = \"cpu\"
    kind = \"cpu\"
    cost = { fixed_ns = 2e7, ps_per_byte = 0.0, fixed_nj = 3e7, pj_per_byte = 0.0 }
";

#[test]
fn background_uses_npu_with_unknown_energy() {
    let (runtime, model) = runtime(BACKGROUND);
    let policy = Policy::latency().devices(["null"]).background();
    let session = runtime.session(&model, policy).unwrap();
    for value in 0..100u8 {
        let input = filled(&session, f32::from(value));
        let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
        right(&outputs, f32::from(value));
        session.govern().unwrap();
    }
    let report = session.report();
    let devices: Vec<&str> = report.parts.iter().map(|part| part.device.as_str()).collect();
    assert_eq!(devices, ["null:0"]);
    let energy = report.energy.unwrap();
    assert_eq!(energy.provenance, "default");
    assert!(energy.low_nj < energy.expected_nj && energy.expected_nj < energy.high_nj);
    assert_eq!(
        report.parts[0].energy.map(|energy| energy.provenance),
        Some("default")
    );
    let text = report.to_string();
    assert!(
        text.contains("predicted energy of a run: 10.000 mJ (default, 1.500 mJ to 50.000 mJ)"),
        "{text}"
    );
}

#[test]
fn every_plan_figure_has_an_energy_interval() {
    let (runtime, model) = runtime(SILENT);
    for policy in [Policy::latency(), Policy::makespan(), Policy::throughput()] {
        let planned = runtime.plan(&model, &policy.devices(["null"])).unwrap();
        let totals = planned.plan().totals;
        let range = totals.energy_range.unwrap();
        let energy = totals.energy.unwrap();
        assert!(range.low <= energy && energy <= range.high, "{totals:?}");
        assert!(planned.targets().iter().all(|target| target.power.is_some()));
    }
}
