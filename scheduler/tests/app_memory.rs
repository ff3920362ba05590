//! App memory at any address works on every plan: only memory that a device cannot import is copied
//! and counted.

#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

use std::time::Duration;

use model::{F32, I64, node, port};
use polychip::{Access, Memory, Policy, Runtime, Session};

const PATIENCE: Duration = Duration::from_secs(60);

/// In place of what a script says of a device.
const ON_CPU: &str = "";

/// A model that negates `x` into `a`, on the null device, and makes `b` of `a` on the CPU where that is asked for.
fn session(dtype: u64, elements: usize, device: &str, with_cpu: bool) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let size = elements.to_string();
    let mut nodes = vec![node("Neg", "neg", &["x"], &["a"])];
    let mut outputs = vec![port("a", dtype, &[&size])];
    if with_cpu {
        nodes.push(node("Abs", "abs", &["a"], &["b"]));
        outputs.push(port("b", dtype, &[&size]));
    }
    let made = model::Model {
        nodes,
        inputs: vec![port("x", dtype, &[&size])],
        outputs,
        ..model::Model::default()
    };
    let script = format!("[[device]]\nops = [\"Neg\"]\ncost = {{ fixed_ns = 1 }}\n{device}\n");
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", &script)
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    let devices: &[&str] = if with_cpu { &["null", "cpu"] } else { &["null"] };
    let policy = Policy::latency().devices(devices.iter().copied()).in_flight(2);
    let policy = match (device.contains("fault"), device) {
        // the plan that replaces another leaves the device
        (true, _) => policy,
        (false, ON_CPU) => policy.devices(["cpu"]),
        (false, _) => policy.pin("neg", "null:0"),
    };
    runtime.session(&model, policy).unwrap()
}

/// Memory of the app at so many bytes behind a page, which holds these bytes.
fn at(offset: u64, bytes: &[u8]) -> Memory {
    let file = rustix::fs::memfd_create("app", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 4096 + offset + bytes.len() as u64).unwrap();
    let memory = Memory::of_file(file, 4096 + offset, bytes.len() as u64).unwrap();
    memory.access(Access::Write).unwrap().copy_from_slice(bytes);
    memory
}

fn fill(memory: &Memory, bytes: &[u8]) {
    memory.access(Access::Write).unwrap().copy_from_slice(bytes);
}

fn holds(memory: &Memory) -> Vec<u8> {
    memory.access(Access::Read).unwrap().to_vec()
}

fn floats(value: f32, elements: usize) -> Vec<u8> {
    value.to_le_bytes().repeat(elements)
}

#[test]
fn only_unimportable_arrays_are_copied() {
    // type, the bytes of 3, the bytes of -3
    let types: [(u64, &[u8], &[u8]); 4] = [
        (F32, &3f32.to_le_bytes(), &(-3f32).to_le_bytes()),
        (I64, &3i64.to_le_bytes(), &(-3i64).to_le_bytes()),
        (5, &3i16.to_le_bytes(), &(-3i16).to_le_bytes()),
        (3, &[3], &[253]),
    ];
    for (dtype, three, negated) in types {
        for (elements, alignment) in [(1, 64), (5, 4096), (67, 64), (1025, 1)] {
            let device = format!("import_alignment = {alignment}");
            let session = session(dtype, elements, &device, false);
            let (given, wanted) = (three.repeat(elements), negated.repeat(elements));
            let mut copies = 0;
            for offset in 0..=130 {
                let x = at(offset, &given);
                let a = at(130 - offset, &vec![7; given.len()]);
                let input = session.input_from("x", &[elements], &x).unwrap();
                let output = session.output_in_memory("a", &[elements], &a).unwrap();
                let run = session.submit_into(&[&input], &[&output]).unwrap();
                drop(run.wait(PATIENCE).unwrap());
                assert_eq!(
                    holds(&a),
                    wanted,
                    "type {dtype}, {elements} at {offset} for {alignment}"
                );
                let alignment = alignment.max(three.len() as u64);
                copies += u64::from(offset % alignment != 0) + u64::from((130 - offset) % alignment != 0);
                let report = session.report();
                let found = (report.copies, report.copied_bytes);
                let right = (copies, copies * given.len() as u64);
                assert_eq!(
                    found, right,
                    "type {dtype}, {elements} at {offset} for {alignment}"
                );
            }
        }
    }
}

#[test]
fn runs_see_new_app_writes() {
    let session = session(F32, 9, "import_alignment = 64", true);
    let (x, a) = (at(4, &floats(0.0, 9)), at(12, &floats(0.0, 9)));
    let input = session.input_from("x", &[9], &x).unwrap();
    let output = session.output_in_memory("a", &[9], &a).unwrap();
    for turn in 1..5u16 {
        let value = f32::from(turn);
        fill(&x, &floats(value, 9));
        let run = session.submit_into(&[&input], &[&output]).unwrap();
        let given = run.wait(PATIENCE).unwrap();
        assert_eq!(holds(&a), floats(-value, 9));
        // the CPU read the staging memory too, which it can import
        assert_eq!(given.get("b").unwrap().bytes(), floats(value, 9));
        let report = session.report();
        assert_eq!(
            (report.copies, report.copied_bytes),
            (2 * u64::from(turn), 72 * u64::from(turn))
        );
    }
}

#[test]
fn runs_in_flight_share_one_input_copy() {
    let device = "import_alignment = 4096\nlaunch_ns = 20000000";
    for kinds in ["", "\nimports = []"] {
        let session = session(F32, 9, &format!("{device}{kinds}"), false);
        let x = at(4, &floats(0.0, 9));
        let input = session.input_from("x", &[9], &x).unwrap();
        for turn in 1..4u16 {
            fill(&x, &floats(f32::from(turn), 9));
            let runs = [(); 2].map(|()| session.submit(&[&input]).unwrap());
            for run in runs {
                let outputs = run.wait(PATIENCE).unwrap();
                assert_eq!(outputs.get("a").unwrap().bytes(), floats(-f32::from(turn), 9));
            }
            assert_eq!(session.report().copies, u64::from(turn), "{kinds:?}");
        }
    }
}

#[test]
fn cpu_accepts_arrays_at_any_address() {
    for (elements, value) in [(5, 2f32), (67, 3.0), (1025, 4.0)] {
        let session = session(F32, elements, ON_CPU, false);
        for offset in 0..=130 {
            let x = at(offset, &floats(value, elements));
            let a = at(130 - offset, &floats(0.0, elements));
            let input = session.input_from("x", &[elements], &x).unwrap();
            let output = session.output_in_memory("a", &[elements], &a).unwrap();
            let run = session.submit_into(&[&input], &[&output]).unwrap();
            drop(run.wait(PATIENCE).unwrap());
            assert_eq!(holds(&a), floats(-value, elements), "{elements} at {offset}");
        }
        // what does not lie on whole floats: 98 of the addresses of each
        assert_eq!(session.report().copies, 2 * 98);
    }
}

#[test]
fn app_memory_tensors_survive_a_new_plan() {
    // the first device takes the memory as it lies; the other one does not, and has it copied
    let script = "import_alignment = 4\nfault = [{ kind = \"lost\", at = 1, times = 1000 }]\n\
                  [[device]]\nops = [\"Neg\"]\ncost = { fixed_ns = 1000000 }\nimport_alignment = 64";
    let session = session(F32, 9, script, false);
    let device = || session.report().parts[0].device.clone();
    assert_eq!(device(), "null:0");
    let (x, a) = (at(4, &floats(0.0, 9)), at(12, &floats(0.0, 9)));
    let input = session.input_from("x", &[9], &x).unwrap();
    let output = session.output_in_memory("a", &[9], &a).unwrap();
    let mut failed = 0;
    for turn in 1..8u16 {
        fill(&x, &floats(f32::from(turn), 9));
        let run = session.submit_into(&[&input], &[&output]);
        match run.and_then(|run| run.wait(PATIENCE)) {
            Ok(_) => assert_eq!(holds(&a), floats(-f32::from(turn), 9)),
            // it was tried again as often as the policy says
            Err(error) => {
                assert_eq!(error.device(), Some("null:0"), "{error}");
                failed += 1;
            }
        }
    }
    assert_eq!(failed, 1);
    assert_eq!(device(), "null:1");
    let report = session.report();
    assert!(report.copies > 0 && report.copies.is_multiple_of(2), "{report}");
    assert_eq!(report.copied_bytes, 36 * report.copies);
}

#[test]
fn app_memory_tensors_survive_an_adopted_plan() {
    // the second device is stated to be slower, is truly faster, and takes pages only
    let device = |ns: u64, actual: u32, alignment: u32| {
        format!(
            "[[device]]\nops = [\"Neg\"]\ncost = {{ fixed_ns = {ns}, ps_per_byte = 0.0 }}\n\
             actual = [{{ time_permille = {actual} }}]\nimport_alignment = {alignment}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let made = model::Model {
        nodes: vec![node("Neg", "neg", &["x"], &["a"])],
        inputs: vec![port("x", F32, &["9"])],
        outputs: vec![port("a", F32, &["9"])],
        ..model::Model::default()
    };
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure(
            "null",
            "script",
            device(100_000, 2000, 1) + &device(120_000, 500, 4096),
        )
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    let session = runtime
        .session(&model, Policy::latency().devices(["null"]))
        .unwrap();
    let (x, a) = (at(4, &floats(0.0, 9)), at(12, &floats(0.0, 9)));
    let input = session.input_from("x", &[9], &x).unwrap();
    let output = session.output_in_memory("a", &[9], &a).unwrap();
    for turn in 0..200u16 {
        fill(&x, &floats(f32::from(turn), 9));
        let run = session.submit_into(&[&input], &[&output]).unwrap();
        drop(run.wait(PATIENCE).unwrap());
        assert_eq!(holds(&a), floats(-f32::from(turn), 9));
    }
    let report = session.report();
    assert_eq!(report.parts[0].device, "null:1", "{report}");
    assert_eq!(report.runs, 200);
    assert!(report.copied_bytes > 0, "{report}");
}
