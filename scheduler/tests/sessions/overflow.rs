//! Values beyond the range of reduced precision: they are reported by name, and computed elsewhere or in full precision.

use std::time::Duration;

use polychip::{EventKind, Policy, Precision, Runtime, Session};

use crate::model::{F32, Model, constant, floats, node, port};

const PATIENCE: Duration = Duration::from_secs(60);
/// Runs until another plan must be in place; each waits for its outputs.
const RUNS: usize = 20_000;
/// A device that computes in 16-bit floats, and is cheaper than the CPU.
const SCRIPT: &str = "[[device]]\nkind = \"gpu\"\nhalf = true\nlaunch_ns = 1\n\
                      cost = { fixed_ns = 1, ps_per_mac = 0.001, ps_per_byte = 0.001 }\n";

/// `a = x · 300`, `b = a - x` and, of other values, `c = x + 1`.
fn model() -> Model {
    let size = 4096;
    let dims = size.to_string();
    let scale = floats(&vec![300.0; size]);
    let one = floats(&vec![1.0; size]);
    Model {
        nodes: vec![
            node("Mul", "scale", &["x", "scales"], &["a"]),
            node("Sub", "difference", &["a", "x"], &["b"]),
            node("Add", "increment", &["x", "ones"], &["c"]),
        ],
        constants: vec![
            constant("scales", F32, &[size as u64], &scale),
            constant("ones", F32, &[size as u64], &one),
        ],
        inputs: vec![port("x", F32, &[&dims])],
        outputs: vec![port("b", F32, &[&dims]), port("c", F32, &[&dims])],
        ..Model::default()
    }
}

fn session(made: &Model, devices: &[&str]) -> Session {
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", SCRIPT)
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load_bytes("made.onnx", made.bytes()).unwrap();
    let policy = Policy::latency().precision(Precision::Reduced).threads(1);
    let policy = policy.learn(polychip::Learn::No).devices(devices.iter().copied());
    runtime.session(&model, policy).unwrap()
}

/// The first elements of all outputs for an input of this value.
fn run(session: &Session, value: f32) -> Vec<f32> {
    let mut input = session.input("x").unwrap();
    input.write(&vec![value; 4096]).unwrap();
    let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
    (0..outputs.len())
        .map(|index| outputs.at(index).unwrap().values::<f32>().unwrap()[0])
        .collect()
}

fn events(session: &Session) -> Vec<String> {
    let report = session.report();
    let all = report
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Overflowed);
    all.map(ToString::to_string).collect()
}

/// Runs until the session has acted.
fn until_acted(session: &Session, value: f32) -> Vec<String> {
    for _ in 0..RUNS {
        run(session, value);
        let events = events(session);
        if !events.is_empty() {
            return events;
        }
    }
    panic!("nothing was done about outputs that are not finite");
}

/// The device of each node, by name.
fn devices(session: &Session) -> Vec<(String, String)> {
    let planned = session.planned().unwrap();
    let graph = planned.graph();
    let names: Vec<&str> = graph.nodes().map(|(_, node)| &*node.name).collect();
    let parts = planned.plan().parts.iter();
    let nodes = parts.flat_map(|part| {
        part.nodes
            .iter()
            .map(|node| (*node as usize, part.device.index()))
    });
    let mut all: Vec<(String, String)> = nodes
        .map(|(node, device)| {
            (
                names[node].to_owned(),
                planned.devices()[device].name().to_owned(),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn nodes_that_overflow_move_to_a_device_with_full_precision() {
    let session = session(&model(), &["null", "cpu"]);
    assert!(
        devices(&session).iter().all(|(_, device)| device == "null:0"),
        "{:?}",
        devices(&session)
    );
    assert_eq!(run(&session, 2.0), [598.0, 3.0]);
    let events = until_acted(&session, 250.0);
    for words in [
        "output \"b\"",
        "of part ",
        "null:0",
        "scale",
        "difference",
        "7.5",
        "65,504",
        "run elsewhere",
    ] {
        assert!(events[0].contains(words), "{words}: {events:?}");
    }
    assert!(!events[0].contains("increment"), "{events:?}");
    assert_eq!(run(&session, 250.0), [74_750.0, 251.0]);
    let on = |name: &str| {
        devices(&session)
            .iter()
            .find(|(node, _)| node == name)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(
        (&*on("scale"), &*on("difference"), &*on("increment")),
        ("cpu:0", "cpu:0", "null:0")
    );
}

#[test]
fn without_another_device_the_plan_computes_in_full_precision() {
    let session = session(&model(), &["null"]);
    let events = until_acted(&session, 250.0);
    assert!(
        events[0].contains("computes in full precision from now on"),
        "{events:?}"
    );
    assert_eq!(run(&session, 250.0), [74_750.0, 251.0]);
    assert!(devices(&session).iter().all(|(_, device)| device == "null:0"));
}

#[test]
fn infinities_of_the_model_or_its_inputs_change_nothing() {
    // they are infinite in full precision too
    let mut own = model();
    own.nodes[0] = node("Div", "scale", &["x", "scales"], &["a"]);
    own.constants[0] = constant("scales", F32, &[4096], &floats(&[0.0; 4096]));
    for (made, value) in [(own, 250.0), (model(), f32::INFINITY)] {
        let session = session(&made, &["null", "cpu"]);
        for _ in 0..16 {
            run(&session, value);
        }
        assert_eq!(events(&session), [""; 0]);
        assert!(devices(&session).iter().all(|(_, device)| device == "null:0"));
    }
}
