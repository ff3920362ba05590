//! Sessions over a plugin in a process of its own that dies: every run ends with the CPU's answer.
//!
//! Not here: what a death is to the host (`contract/isolation/tests`).

#![cfg(all(target_os = "linux", feature = "cpu"))]

use std::path::{Path, PathBuf};
use std::time::Duration;

use polychip::{EventKind, Isolate, Model, Policy, Runtime, Session};
use polychip_graph::Graph;
use polychip_ops::{DType, Op};
use polychip_test_requirements::libraries;

/// Cheap, so that the plan gives it everything it offers.
const SCRIPT: &str = "[[device]]\nops = [\"Neg\", \"Abs\"]\nlaunch_ns = 100\n\
                      cost = { fixed_ns = 100, ps_per_mac = 0.1, ps_per_byte = 0.1 }\n";
/// Enough that the CPU is slower.
const ELEMENTS: usize = 1 << 18;
const RUNS: usize = 6;

/// `y = relu(neg(x))`.
fn graph() -> Graph {
    use polychip_graph::{Node, Tensor};
    use polychip_ops::TensorType;
    let mut graph = Graph::new("small");
    let mut tensor =
        |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[ELEMENTS])));
    let (x, n, y) = (tensor("x"), tensor("n"), tensor("y"));
    graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(n)]));
    graph.add_node(Node::new(Op::Relu, vec![Some(n)], vec![Some(y)]));
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

/// A folder that holds the deadly plugin alone.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let built = libraries::example("polychip-isolation", "deadly").unwrap();
    let link = folder.path().join("libpolychip_plugin_deadly.so");
    std::os::unix::fs::symlink(built, &link).unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

fn session(folder: &Path, die: &str) -> (Runtime, Session) {
    // beside the tests, where the runtime looks for it
    libraries::program("polychip-plugin-host", "polychip-plugin-host").unwrap();
    let runtime = Runtime::builder()
        .only_given_folders()
        .plugins(folder)
        .isolate(Isolate::All)
        .configure("null", "script", SCRIPT)
        .configure("null", "die", die)
        .build()
        .unwrap();
    assert_eq!(runtime.devices().len(), 2, "{:?}", runtime.refusals());
    let model: Model = runtime.load_graph("small", graph());
    let policy = Policy::latency().hang_timeout(Duration::from_secs(20)).retry(5);
    let session = runtime.session(&model, policy).unwrap();
    (runtime, session)
}

/// Runs on numbers of its own, and compares with what the graph computes.
fn run(session: &Session, number: usize) {
    let mut input = session.input("x").unwrap();
    let values: Vec<f32> = (0..ELEMENTS)
        .map(|index| ((index + number) % 17) as f32 - 8.0)
        .collect();
    input.write(&values).unwrap();
    let outputs = session
        .submit(&[&input])
        .unwrap()
        .wait(Duration::from_secs(60))
        .unwrap();
    let output = outputs.get("y").unwrap();
    let found = output.values::<f32>().unwrap();
    assert!(
        found.iter().zip(&values).all(|(y, x)| *y == (-x).max(0.0)),
        "run {number}"
    );
}

#[test]
fn every_run_is_answered_when_the_process_dies() {
    for die in [
        "",
        "execute:segv:3",
        "execute:exit:1",
        "compile:abort:1",
        "load:segv:1",
    ] {
        // deaths are counted per library: each has its own
        let (_held, folder) = folder();
        let (_runtime, session) = session(&folder, die);
        for number in 0..RUNS {
            run(&session, number);
        }
        let report = session.report();
        let lost = report
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Lost)
            .count();
        if !die.is_empty() {
            assert!(lost > 0, "{die}: {:?}", report.events);
        }
        if die.is_empty() {
            assert_eq!(lost, 0, "{:?}", report.events);
            assert!(
                report.parts.iter().any(|part| part.device == "null:0"),
                "{:?}",
                report.parts
            );
        }
    }
}
