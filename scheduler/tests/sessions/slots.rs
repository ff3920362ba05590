//! Runs that fail, are dropped, or write into the app's memory leave their slots, inputs and outputs
//! usable.

use crate::model;
use polychip_sdk::protobuf::Message;

use std::time::{Duration, Instant};

use crate::model::{BOOL, F32, I64, constant, node, port};
use polychip::{ErrorKind, Input, Policy, Runtime, Session};

const PATIENCE: Duration = Duration::from_secs(60);

/// A session of a model over `x` [4] on the machine's clock, with these scripted devices.
fn session(nodes: Vec<Message>, outputs: &[&str], script: &str, devices: &[&str]) -> Session {
    let policy = Policy::latency().devices(devices.iter().copied());
    session_by(nodes, outputs, script, policy)
}

fn session_by(nodes: Vec<Message>, outputs: &[&str], script: &str, policy: Policy) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let made = model::Model {
        nodes,
        inputs: vec![port("x", F32, &["4"])],
        outputs: outputs.iter().map(|name| port(name, F32, &["4"])).collect(),
        ..model::Model::default()
    };
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    runtime.session(&model, policy).unwrap()
}

fn branches() -> Vec<Message> {
    vec![
        node("Neg", "neg", &["x"], &["a"]),
        node("Abs", "abs", &["x"], &["b"]),
    ]
}

/// Two devices of one plugin, of which the second takes `ms` milliseconds.
fn two(fault: &str, ms: u64) -> String {
    let ns = ms * 1_000_000;
    format!(
        "[[device]]\nops = [\"Neg\"]\ncost = {{ fixed_ns = 1 }}\n{fault}\n\
         [[device]]\nops = [\"Abs\"]\ncost = {{ fixed_ns = {ns} }}\n"
    )
}

fn filled(session: &Session, values: [f32; 4]) -> Input {
    let mut input = session.input("x").unwrap();
    input.write(&values).unwrap();
    input
}

/// Tries until it works, or until a minute is over.
fn soon<T>(mut attempt: impl FnMut() -> Result<T, polychip::Error>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(error) if error.kind() == ErrorKind::InFlight && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn failed_part_keeps_the_slot_for_running_parts() {
    let script = two("fault = [{ kind = \"error\", at = 0 }]", 300);
    let session = session(branches(), &["a", "b"], &script, &["null"]);
    let input = filled(&session, [1.0, -2.0, 3.0, -4.0]);
    let mut run = session.submit(&[&input]).unwrap();
    let error = loop {
        match run.poll(Duration::ZERO) {
            Ok(found) => assert!(found.is_none(), "the first part fails"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("null:0"), "{error}");
    // the other device still computes; it must be left in peace, not quarantined
    for _ in 0..3 {
        let run = soon(|| session.submit(&[&input]));
        let outputs = run.wait(PATIENCE).unwrap();
        assert_eq!(
            outputs.get("b").unwrap().values::<f32>().unwrap()[..],
            [1.0, 2.0, 3.0, 4.0]
        );
    }
}

#[test]
fn input_is_free_after_a_dropped_run_ends() {
    for devices in [&["cpu"][..], &["null"], &["cpu", "null:1"]] {
        let session = session(branches(), &["a", "b"], &two("", 2), devices);
        let mut input = filled(&session, [1.0; 4]);
        drop(session.submit(&[&input]).unwrap());
        soon(|| input.write(&[2.0f32; 4]));
        let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
        assert_eq!(outputs.get("a").unwrap().values::<f32>().unwrap()[..], [-2.0; 4]);
    }
}

#[test]
fn bound_output_is_used_by_one_run_at_a_time() {
    let session = session(branches(), &["a", "b"], &two("", 200), &["null"]);
    let input = filled(&session, [1.0; 4]);
    let (own, other) = (session.output("b").unwrap(), session.output("b").unwrap());
    let error = session.submit_into(&[&input], &[&own, &other]).unwrap_err();
    assert!(error.to_string().contains("\"b\" is given twice"), "{error}");
    let run = session.submit_into(&[&input], &[&own]).unwrap();
    let error = session.submit_into(&[&input], &[&own]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight, "{error}");
    assert!(error.to_string().contains("\"b\""), "{error}");
    drop(run);
    let run = soon(|| session.submit_into(&[&input], &[&own]));
    run.wait(PATIENCE).unwrap();
}

#[test]
fn copies_target_only_the_output_of_their_run() {
    // `a` is written by a device that shares no memory, and read by the CPU
    let nodes = vec![
        node("Neg", "neg", &["x"], &["a"]),
        node("Abs", "abs", &["a"], &["b"]),
    ];
    let script = "[[device]]\nops = [\"Neg\"]\nimports = []\ncost = { fixed_ns = 1 }\n";
    let folder = tempfile::tempdir().unwrap();
    let made = model::Model {
        nodes,
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port("a", F32, &["4"]), port("b", F32, &["4"])],
        ..model::Model::default()
    };
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    let policy = Policy::latency().in_flight(1).pin("neg", "null:0");
    let session = runtime.session(&model, policy).unwrap();
    let bytes = |value: f32| value.to_le_bytes().repeat(4);
    let run = |value: f32, own: &[&polychip::Output]| {
        let input = filled(&session, [value; 4]);
        session
            .submit_into(&[&input], own)
            .unwrap()
            .wait(PATIENCE)
            .unwrap()
    };
    let (first, second) = (session.output("a").unwrap(), session.output("a").unwrap());
    drop(run(1.0, &[&first]));
    let read = first.bytes().unwrap();
    // the app reads the first output while runs write elsewhere
    assert_eq!(run(2.0, &[&second]).get("b").unwrap().bytes(), bytes(2.0));
    let third = run(3.0, &[]);
    assert_eq!(third.get("a").unwrap().bytes(), bytes(-3.0));
    assert_eq!(third.get("b").unwrap().bytes(), bytes(3.0));
    drop(third);
    assert_eq!(read[..], bytes(-1.0));
    assert_eq!(second.bytes().unwrap()[..], bytes(-2.0));
}

#[test]
fn app_memory_is_written_by_any_device() {
    let imports = |kinds: &str| {
        format!("[[device]]\nops = [\"Neg\"]\nimports = [{kinds}]\ncost = {{ fixed_ns = 1 }}\n")
    };
    let negated = || vec![node("Neg", "neg", &["x"], &["a"])];
    // also where the CPU reads the output, for which it was copied to memory of the host already
    let both = [negated(), vec![node("Abs", "abs", &["a"], &["b"])]].concat();
    let cases = [
        ("\"host\"", negated(), &["a"][..], 0),
        // to the device, and back
        ("", negated(), &["a"], 2),
        ("", both, &["a", "b"], 2),
    ];
    for (kinds, nodes, outputs, copies) in cases {
        let devices = &["null", "cpu"][..outputs.len()];
        // whatever the CPU is thought to take
        let policy = Policy::latency()
            .devices(devices.iter().copied())
            .pin("neg", "null:0");
        let session = session_by(nodes, outputs, &imports(kinds), policy);
        let lent = polychip::Memory::of_vec(vec![7.0f32; 4]);
        let output = session.output_in_memory("a", &[4], &lent).unwrap();
        for turn in 1..4u16 {
            let value = f32::from(turn);
            let input = filled(&session, [value; 4]);
            let run = session.submit_into(&[&input], &[&output]).unwrap();
            let given = run.wait(PATIENCE).unwrap();
            let wanted = (-value).to_le_bytes().repeat(4);
            let found = lent.access(polychip::Access::Read).unwrap();
            assert_eq!(found[..], wanted, "{kinds:?}, {outputs:?}");
            assert_eq!(output.bytes().unwrap().as_ptr(), found.as_ptr());
            if outputs.len() == 2 {
                assert_eq!(given.get("b").unwrap().bytes(), value.to_le_bytes().repeat(4));
            }
            let report = session.report();
            assert_eq!(report.copies, copies * u64::from(turn), "{kinds:?}, {outputs:?}");
        }
    }
}

#[test]
fn run_fails_while_the_app_holds_its_output_open() {
    let script = "[[device]]\nops = [\"Neg\"]\nimports = []\ncost = { fixed_ns = 1 }\n";
    let session = session(
        vec![node("Neg", "neg", &["x"], &["a"])],
        &["a"],
        script,
        &["null"],
    );
    let lent = polychip::Memory::of_vec(vec![7.0f32; 4]);
    let output = session.output_in_memory("a", &[4], &lent).unwrap();
    let input = filled(&session, [1.0; 4]);
    let open = lent.access(polychip::Access::Read).unwrap();
    let run = session.submit_into(&[&input], &[&output]).unwrap();
    let error = run.wait(PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight, "{error}");
    assert!(error.to_string().contains("output \"a\""), "{error}");
    drop(open);
    let run = session.submit_into(&[&input], &[&output]).unwrap();
    run.wait(PATIENCE).unwrap();
    assert_eq!(output.bytes().unwrap()[..], (-1.0f32).to_le_bytes().repeat(4));
}

/// A session on the CPU of a model that negates `x` without end.
fn endless(policy: Policy) -> Session {
    let body = Message::default()
        .message(1, &node("Identity", "go", &["going"], &["on"]))
        .message(1, &node("Neg", "neg", &["s"], &["t"]))
        .text(2, "body")
        .message(11, &port("i", I64, &[]))
        .message(11, &port("going", BOOL, &[]))
        .message(11, &port("s", F32, &["4"]))
        .message(12, &port("on", BOOL, &[]))
        .message(12, &port("t", F32, &["4"]));
    let attribute = Message::default().text(1, "body").message(6, &body).number(20, 5);
    let made = model::Model {
        nodes: vec![node("Loop", "loop", &["count", "", "x"], &["y"]).message(5, &attribute)],
        constants: vec![constant("count", I64, &[], &i64::MAX.to_le_bytes())],
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port("y", F32, &["4"])],
        ..model::Model::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load(made.write(folder.path(), "m.onnx")).unwrap();
    runtime.session(&model, policy.devices(["cpu"])).unwrap()
}

#[test]
fn endless_run_can_be_cancelled_and_does_not_block_the_session() {
    let session = endless(Policy::latency());
    let input = filled(&session, [1.0; 4]);
    let mut run = session.submit(&[&input]).unwrap();
    assert!(run.poll(Duration::from_millis(20)).unwrap().is_none());
    run.cancel();
    let error = run.wait(PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    // dropping a session's last handle ends its run, even without a waiter
    drop(session.submit(&[&input]).unwrap());
    drop((session, input));
}

#[test]
fn run_beyond_hang_timeout_fails() {
    let patience = Duration::from_millis(50);
    let session = endless(Policy::latency().hang_timeout(patience).retry(1));
    let mut input = filled(&session, [1.0; 4]);
    for _ in 0..3 {
        let error = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap_err();
        assert_eq!(
            (error.kind(), error.device()),
            (ErrorKind::DeviceLost, Some("cpu:0")),
            "{error}"
        );
        assert!(error.to_string().contains("longer than 0.050 s"), "{error}");
        input.write(&[2.0f32; 4]).unwrap();
    }
    let report = session.report();
    assert_eq!(
        (
            report.count(polychip::EventKind::Hung),
            report.count(polychip::EventKind::Retried)
        ),
        (6, 3),
        "{report}"
    );
}
