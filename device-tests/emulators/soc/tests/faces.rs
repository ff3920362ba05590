//! The two faces of the physics agree: a session on the chip's devices, and the simulation of the same plan.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../../../cli/tests/command/model.rs"]
mod model;

use std::time::Duration;

use model::{F32, node, port};
use polychip::{Policy, Runtime};
use polychip_partitioner::Nanos;
use polychip_soc::chip::{Chip, Load};
use polychip_soc::demand::{Demand, Pace};
use polychip_soc::network::Network;
use polychip_soc::plugin::SocPlugin;
use polychip_soc::table::{PHONE, Table};

/// Products on the NPU, and between them an op that it refuses.
fn written(folder: &std::path::Path) -> String {
    let made = model::Model {
        nodes: vec![
            node("MatMul", "first", &["x", "w"], &["a"]),
            node("Cos", "middle", &["a"], &["b"]),
            node("MatMul", "second", &["b", "w"], &["y"]),
        ],
        inputs: vec![port("x", F32, &["8", "64"]), port("w", F32, &["64", "64"])],
        outputs: vec![port("y", F32, &["8", "64"])],
        ..model::Model::default()
    };
    made.write(folder, "m.onnx")
}

/// The shipped table, whose products take so long that minutes pass in a few hundred runs.
fn slow() -> String {
    let mut text = PHONE.to_owned();
    for (from, to) in [
        ("ps_per_mac = 3.4\n", "ps_per_mac = 16000000.0\n"),
        ("ps_per_mac = 15.0\n", "ps_per_mac = 70000000.0\n"),
        (
            "ps_per_mac = 1.05\nother_ps_per_mac = 15.0",
            "ps_per_mac = 8000000.0\nother_ps_per_mac = 15.0",
        ),
        (
            "ps_per_mac = 1.05\nother_ps_per_mac = 20.0",
            "ps_per_mac = 5000000.0\nother_ps_per_mac = 20.0",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    text
}

#[test]
fn a_session_and_the_simulation_agree_on_time_energy_and_heat() {
    const RUNS: usize = 600;
    let folder = tempfile::tempdir().unwrap();
    let text = slow();
    let table = Table::parse(&text).unwrap();
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<SocPlugin>)
        .configure("soc", "table", text)
        .configure("soc", "air_mc", "33000")
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load(written(folder.path())).unwrap();
    let policy = Policy::latency().devices(["soc"]).in_flight(1);
    let session = runtime.session(&model, policy).unwrap();
    let planned = session.planned().unwrap();
    let mut plan = planned.plan().clone();
    assert!(plan.parts.len() > 1, "the NPU refuses the op in the middle");
    // a session's copies take no virtual time
    for crossing in &mut plan.crossings {
        crossing.time = Nanos::ZERO;
    }

    let (mut x, mut w) = (session.input("x").unwrap(), session.input("w").unwrap());
    x.write(&vec![0.01f32; 8 * 64]).unwrap();
    w.write(&vec![0.01f32; 64 * 64]).unwrap();
    let telemetry = |unit: usize| {
        let devices = runtime.devices().iter();
        let name = format!("soc:{unit}");
        let device = devices.clone().find(|device| device.name() == name).unwrap();
        device.telemetry().unwrap()
    };
    let before: u64 = (0..table.units.len())
        .map(|unit| telemetry(unit).energy_uj.unwrap())
        .sum();
    let mut early = 0u64;
    for run in 0..RUNS {
        let outputs = session
            .submit(&[&x, &w])
            .unwrap()
            .wait(Duration::from_secs(600))
            .unwrap();
        if run == 4 {
            early = session
                .report()
                .parts
                .iter()
                .filter_map(|part| part.measured_ns)
                .sum();
        }
        if run == 0 {
            let expected = 64.0 * (64.0f32 * 0.01 * 0.01).cos() * 0.01;
            let found = outputs.get("y").unwrap().values::<f32>().unwrap()[0];
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    let network = Network::of(planned.graph());
    let demand = Demand::new(&network.on(&table), &plan, 1);
    let mut chip = Chip::new(&table, 33.0);
    let first = demand.frame(&Pace::full()).latency_ns;
    let mut microjoules = 0.0;
    let mut slowest = 1.0f64;
    for _ in 0..RUNS {
        let mut pace = Pace::full();
        for unit in 0..table.units.len() {
            pace.speed[unit] = chip.speed(unit);
            slowest = slowest.min(chip.speed(unit));
        }
        let frame = demand.frame(&pace);
        let mut load = Load {
            air: 33.0,
            bytes_per_s: frame.bytes / (frame.latency_ns / 1e9),
            ..Load::default()
        };
        for unit in 0..table.units.len() {
            load.busy[unit] = frame.work_ns[unit] / frame.latency_ns;
            microjoules += chip.busy_watts(unit) * frame.work_ns[unit] / 1e3;
        }
        microjoules += frame.bytes * table.memory.pj_per_byte / 1e6;
        chip.pass(frame.latency_ns.round() as u64, &load);
    }
    let near = |what: &str, a: f64, b: f64, share: f64| {
        assert!((a / b - 1.0).abs() < share, "{what}: session {a}, simulation {b}");
    };
    assert!(slowest < 1.0, "the run must be long enough to throttle");
    let energy: u64 = (0..table.units.len())
        .map(|unit| telemetry(unit).energy_uj.unwrap())
        .sum();
    near("time", early as f64, first, 0.01);
    near("energy", (energy - before) as f64, microjoules, 0.01);
    for unit in 0..table.units.len() {
        let degrees = telemetry(unit).temperature_mc.unwrap() as f64 / 1e3;
        assert!(
            (degrees - chip.degrees(unit)).abs() < 1.5,
            "unit {unit}: {degrees} {}",
            chip.degrees(unit)
        );
    }
}
