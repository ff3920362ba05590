//! Calibration before planning: devices with wrong stated figures, on virtual time; and the CPU
//! alone.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
#[allow(dead_code, reason = "not every test crate writes every kind of model")]
mod scripted;

use std::path::Path;

use polychip::{Builder, Policy, Runtime};
use scripted::runtime_with;

/// A device that is stated to take 0.4 ps a multiply-add and 4 ps a byte, and takes four times as long; beside one that is
/// stated to take twice as long as the first, which is true.
const SCRIPT: &str = "
    [[device]]
    name = \"boastful\"
    cost = { fixed_ns = 1, ps_per_mac = 0.4, ps_per_byte = 4.0, fixed_nj = 1e3, pj_per_byte = 0.0 }
    actual = [{ time_permille = 4000 }]
    [[device]]
    name = \"honest\"
    cost = { fixed_ns = 1, ps_per_mac = 0.8, ps_per_byte = 8.0, fixed_nj = 1e3, pj_per_byte = 0.0 }
";

const SHAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/shapes/shapes.onnx");

fn runtime(profile: &Path) -> (Runtime, polychip::Model) {
    let (runtime, _) = runtime_with(SCRIPT, |builder: Builder| builder.profiles(profile));
    let model = runtime.load(SHAPES).unwrap();
    (runtime, model)
}

fn used(planned: &polychip::Planned) -> (String, &'static str) {
    let part = &planned.plan().parts[0];
    (
        planned.plan().devices[part.device.index()].clone(),
        part.cost.provenance.word(),
    )
}

#[test]
fn calibration_moves_work_off_an_overstated_device() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    let policy = || Policy::latency().devices(["null"]);
    let (runtime, model) = runtime(&profile);
    let before = runtime.plan(&model, &policy()).unwrap();
    assert_eq!(used(&before), ("null:0".to_owned(), "estimated"));
    let after = runtime.plan(&model, &policy().calibrate(true)).unwrap();
    assert_eq!(used(&after), ("null:1".to_owned(), "calibrated"));
    let factor = after.plan().time().picoseconds() as f64 / (2.0 * before.plan().time().picoseconds() as f64);
    assert!((0.9..1.2).contains(&factor), "{factor}");
    // it is kept: a later process plans by it, and does not ask again
    drop(runtime);
    let (runtime, model) = self::runtime(&profile);
    let later = runtime.plan(&model, &policy()).unwrap();
    assert_eq!(later.plan().time(), after.plan().time());
    assert_eq!(used(&later), used(&after));
    // for other settings nothing is known
    let other = runtime
        .plan(&model, &policy().precision(polychip::Precision::Reduced))
        .unwrap();
    assert_eq!(used(&other), ("null:0".to_owned(), "estimated"));
}

#[test]
fn cpu_is_calibrated_alone() {
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load(SHAPES).unwrap();
    let before = runtime.plan(&model, &Policy::latency()).unwrap();
    let after = runtime.plan(&model, &Policy::latency().calibrate(true)).unwrap();
    assert_eq!(used(&before).1, "estimated");
    assert_eq!(used(&after).1, "calibrated");
    assert_ne!(before.plan().time(), after.plan().time());
}
