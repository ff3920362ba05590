//! The faces of the physics agree: a session on the chip's devices, the chip alone, and a plan priced without a session.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../../../apps/cli/tests/command/model.rs"]
mod model;

use std::time::Duration;

use model::{F32, node, port};
use polychip::{Learn, Policy, Runtime};
use polychip_soc::chip::{Chip, Load};
use polychip_soc::emulated::Shown;
use polychip_soc::live::{Live, Options, Stance};
use polychip_soc::network::Network;
use polychip_soc::plugin::SocPlugin;
use polychip_soc::scenario::{Scenario, Without};
use polychip_soc::setting::Setting;
use polychip_soc::table::{PHONE, Seeds, Table};

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
    let policy = Policy::latency().devices(["soc"]).in_flight(1).learn(Learn::No);
    let session = runtime.session(&model, policy).unwrap();
    let planned = session.planned().unwrap();
    let plan = planned.plan().clone();
    assert!(plan.parts.len() > 1, "the NPU refuses the op in the middle");

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

    // the parts of the plan follow each other; a session's copies take no virtual time
    let network = Network::of(planned.graph());
    let parts = plan.parts.iter().map(|part| {
        let unit = part.device.index();
        let times = part.nodes.iter().map(|&node| {
            let work = &network.work[node as usize];
            table.units[unit].times(work, table.memory.traffic_permille)
        });
        let mut launched = (unit, 0.0, table.units[unit].launch_ns as f64, 0.0);
        for time in times {
            launched.1 += time.compute_ns;
            launched.2 += time.memory_ns;
            launched.3 += time.bytes;
        }
        launched
    });
    let parts: Vec<(usize, f64, f64, f64)> = parts.collect();
    let bytes: f64 = parts.iter().map(|(.., bytes)| bytes).sum();
    let mut chip = Chip::new(&table, 33.0);
    let first: f64 = parts.iter().map(|(_, compute, rest, _)| compute + rest).sum();
    let mut microjoules = 0.0;
    let mut slowest = 1.0f64;
    for _ in 0..RUNS {
        let mut work_ns = vec![0.0; table.units.len()];
        for &(unit, compute, rest, _) in &parts {
            slowest = slowest.min(chip.speed(unit));
            work_ns[unit] += compute / chip.speed(unit) + rest;
        }
        let latency: f64 = work_ns.iter().sum();
        let mut load = Load {
            air: 33.0,
            bytes_per_s: bytes / (latency / 1e9),
            ..Load::default()
        };
        for (unit, work) in work_ns.iter().enumerate() {
            load.busy[unit] = work / latency;
            microjoules += chip.busy_watts(unit) * work / 1e3;
        }
        microjoules += bytes * table.memory.pj_per_byte / 1e6;
        chip.pass(latency.round() as u64, &load);
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

#[test]
fn self_priced_plan_matches_a_fixed_session() {
    let seeds = Seeds::committed();
    let setting = Setting::new(Table::phone(), &seeds).unwrap();
    // every phase and lie of the first minutes
    let minutes = 4 * 60 * 1_000_000_000;
    let scenario = Scenario::drawn(&setting.table, seeds.first, Without::default());
    let options = Options::at(Stance::Battery);
    let all = Live::new(&setting, &scenario, &options)
        .unwrap()
        .candidates()
        .len();
    assert!(all >= 4, "{all} plans");
    for keep in (0..all).step_by(3) {
        let options = Options {
            keep: Some(keep),
            ..options
        };
        let mut live = Live::new(&setting, &scenario, &options).unwrap();
        let session = live.run(minutes).unwrap();
        let plan = &live.candidates()[keep];
        let alone = plan.run(&setting.phone(&scenario, Shown::all()), minutes);
        let near = |a: f64, b: f64| (a - b).abs() <= 0.01 * a.max(b).max(1.0);
        let figures = |outcome: &polychip_soc::outcome::Outcome| {
            let counts = [outcome.all_completed, outcome.all_in_time].map(|count| count as f64);
            [counts[0], counts[1], outcome.joules, outcome.surface[2]]
        };
        let (session, alone) = (figures(&session), figures(&alone));
        let same = session.iter().zip(alone).all(|(&a, b)| near(a, b));
        assert!(same, "{}: session {session:?}, alone {alone:?}", plan.name);
    }
}
