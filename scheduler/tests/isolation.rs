//! Sessions over a plugin in a process of its own that dies: every run ends with the CPU's answer.
//!
//! Not here: what a death is to the host (`contract/isolation/tests`).

#![cfg(all(target_os = "linux", feature = "cpu"))]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// One test at a time: the plugin's process is found among the children of this one.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn builder(folder: &Path, die: &str, script: &str) -> polychip::Builder {
    // beside the tests, where the runtime looks for it
    libraries::program("polychip-plugin-host", "polychip-plugin-host").unwrap();
    Runtime::builder()
        .only_given_folders()
        .plugins(folder)
        .isolate(Isolate::All)
        .restart_delay(Duration::from_millis(1))
        .configure("null", "script", script)
        .configure("null", "die", die)
}

fn runtime(folder: &Path, die: &str, script: &str) -> Runtime {
    let runtime = builder(folder, die, script).build().unwrap();
    assert_eq!(runtime.devices().len(), 2, "{:?}", runtime.refusals());
    runtime
}

fn policy() -> Policy {
    Policy::latency().hang_timeout(Duration::from_secs(20)).retry(5)
}

fn session(folder: &Path, die: &str) -> (Runtime, Session) {
    let runtime = runtime(folder, die, SCRIPT);
    let model: Model = runtime.load_graph("small", graph());
    let session = runtime.session(&model, policy()).unwrap();
    (runtime, session)
}

/// Children of this process.
fn children() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        // a thread may end meanwhile
        let listed = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("children")));
        let listed = listed.unwrap_or_default();
        let pids: Vec<i32> = listed
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        pids
    };
    threads.flat_map(of_thread).collect()
}

/// Kills the plugin's process, and waits until it is gone.
fn kill() {
    let all = children();
    assert!(!all.is_empty(), "the plugin has no process");
    for pid in all {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    while !children().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All nodes on the device, which has memory of its own or imports the host's.
const SCRIPTS: [&str; 2] = [
    "[[device]]\nops = [\"Neg\", \"Relu\", \"Add\"]\n",
    "[[device]]\nops = [\"Neg\", \"Relu\", \"Add\"]\nimports = []\n",
];

fn right(found: &[f32], number: usize) -> bool {
    found.len() == ELEMENTS && found.iter().zip(values(number)).all(|(y, x)| *y == (-x).max(0.0))
}

fn values(number: usize) -> Vec<f32> {
    let value = |index: usize| ((index + number) % 17) as f32 - 8.0;
    (0..ELEMENTS).map(value).collect()
}

#[test]
fn output_of_an_ended_run_outlives_the_process() {
    let _turn = turn();
    for script in SCRIPTS {
        let (_held, folder) = folder();
        let runtime = runtime(&folder, "", script);
        let model = runtime.load_graph("small", graph());
        let session = runtime.session(&model, policy().pin("*", "null:0")).unwrap();
        let mut input = session.input("x").unwrap();
        input.write(&values(1)).unwrap();
        let wait = |run: polychip::Run| run.wait(Duration::from_secs(60)).unwrap();
        let first = wait(session.submit(&[&input]).unwrap());
        kill();
        let y = |outputs: &polychip::Outputs| {
            let view = outputs
                .get("y")
                .unwrap_or_else(|error| panic!("{script}: {error}"));
            view.values::<f32>().unwrap().into_owned()
        };
        assert!(right(&y(&first), 1), "{script}: after the death");
        // in a new process, whose buffers are others
        input.write(&values(2)).unwrap();
        let second = wait(session.submit(&[&input]).unwrap());
        assert!(right(&y(&second), 2), "{script}: the next run");
        assert!(right(&y(&first), 1), "{script}: with a new process");
        kill();
        let bound = session.output("y").unwrap();
        drop(wait(session.submit_into(&[&input], &[&bound]).unwrap()));
        kill();
        assert!(
            right(&bound.values::<f32>().unwrap(), 2),
            "{script}: memory of the app"
        );
        drop(runtime);
    }
}

#[test]
fn state_survives_the_process() {
    let _turn = turn();
    let mut graph = Graph::new("sum");
    let mut tensor = |name: &str| {
        use polychip_ops::TensorType;
        graph.add_tensor(polychip_graph::Tensor::new(
            name,
            TensorType::known(DType::F32, &[64]),
        ))
    };
    let (x, before, after) = (tensor("x"), tensor("before"), tensor("after"));
    let node = polychip_graph::Node::new(Op::Add, vec![Some(x), Some(before)], vec![Some(after)]);
    graph.add_node(node);
    graph.inputs = vec![x, before];
    graph.outputs = vec![after];
    let (_held, folder) = folder();
    let runtime = runtime(&folder, "", SCRIPTS[0]);
    let model = runtime.load_graph("sum", graph);
    let session = runtime.session(&model, policy().pin("*", "null:0")).unwrap();
    session.bind_state("before", "after").unwrap();
    let mut input = session.input("x").unwrap();
    input.write(&[1.0f32; 64]).unwrap();
    for run in 1..=4 {
        let run_now = session.submit(&[&input]).unwrap();
        drop(run_now.wait(Duration::from_secs(60)).unwrap());
        if run % 2 == 0 {
            kill();
        }
        let (_, bytes) = session.state("before").unwrap();
        let sums: Vec<f32> = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect();
        assert_eq!(sums, [run as f32; 64], "after run {run}");
    }
}

#[test]
fn death_in_the_copy_of_an_output_repeats_the_run() {
    let _turn = turn();
    // a run opens its input, which is new, and its output: the second run dies in the copy of its output
    let (_held, folder) = folder();
    let runtime = runtime(&folder, "buffer_begin_access:segv:4", SCRIPTS[1]);
    let model = runtime.load_graph("small", graph());
    let session = runtime.session(&model, policy().pin("*", "null:0")).unwrap();
    for number in 0..2 {
        run(&session, number);
    }
    let lost = |event: &&polychip::Event| event.kind == EventKind::Lost;
    let events = session.report().events;
    let losses: Vec<_> = events.iter().filter(lost).collect();
    assert_eq!(losses.len(), 1, "{events:?}");
}

/// Runs on numbers of its own, and compares with what the graph computes.
fn run(session: &Session, number: usize) {
    let mut input = session.input("x").unwrap();
    input.write(&values(number)).unwrap();
    let outputs = session
        .submit(&[&input])
        .unwrap()
        .wait(Duration::from_secs(60))
        .unwrap();
    let output = outputs.get("y").unwrap();
    let found = output.values::<f32>().unwrap();
    assert!(right(&found, number), "run {number}");
}

#[test]
fn every_run_is_answered_when_the_process_dies() {
    let _turn = turn();
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

/// A runtime with a profile, as another program would make it: deaths are counted per library.
fn with_profile(profile: &Path, die: &str, clear: &str) -> (tempfile::TempDir, Runtime) {
    let (held, folder) = folder();
    let builder = builder(&folder, die, SCRIPT).profiles(profile);
    let builder = builder.with_setting("clear-quarantine", clear).unwrap();
    (held, builder.build().unwrap())
}

fn names(runtime: &Runtime) -> Vec<&str> {
    runtime.devices().iter().map(polychip::Device::name).collect()
}

#[test]
fn quarantine_is_remembered_until_it_is_cleared_or_the_driver_changes() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile.db");
    {
        let (_held, runtime) = with_profile(&profile, "execute:abort:1", "no");
        let model = runtime.load_graph("small", graph());
        let session = runtime.session(&model, policy()).unwrap();
        (0..4).for_each(|number| run(&session, number));
        let refused = names(&runtime);
        assert_eq!(refused, ["cpu:0", "null:0"], "known to later programs only");
    }
    {
        let (_held, runtime) = with_profile(&profile, "", "no");
        assert_eq!(names(&runtime), ["cpu:0"]);
        let refused = runtime.refusals().iter().find(|refusal| refusal.is_quarantined);
        let refused = refused.unwrap();
        assert_eq!(refused.subject, "null:0");
        for words in [
            "is quarantined",
            "died 3 times",
            "signal 6 (SIGABRT)",
            "clear-quarantine",
        ] {
            assert!(refused.reason.contains(words), "{words}: {}", refused.reason);
        }
        let model = runtime.load_graph("small", graph());
        let planned = runtime.plan(&model, &policy()).unwrap();
        let event = planned
            .events()
            .iter()
            .find(|event| event.kind == EventKind::LeftOut);
        assert!(
            event.is_some_and(|event| event.device == "null:0"),
            "{:?}",
            planned.events()
        );
        let error = runtime.plan(&model, &policy().devices(["null"])).unwrap_err();
        assert!(error.to_string().contains("is quarantined"), "{error}");
    }
    {
        let (_held, runtime) = with_profile(&profile, "device_info:driver:1+", "no");
        assert_eq!(names(&runtime), ["cpu:0", "null:0"], "another driver");
    }
    {
        // as in a profile that came from elsewhere
        let copy = folder.path().join("copy.db");
        std::fs::copy(&profile, &copy).unwrap();
        let opened = polychip::Profile::open(&copy).unwrap();
        let mut value = opened.plugin_value("@quarantine", "null").unwrap().unwrap();
        value[5] ^= 1;
        opened.set_plugin_value("@quarantine", "null", &value).unwrap();
        drop(opened);
        let (_held, runtime) = with_profile(&copy, "", "no");
        assert_eq!(names(&runtime), ["cpu:0", "null:0"], "sealed elsewhere");
    }
    for clear in ["yes", "no"] {
        let (_held, runtime) = with_profile(&profile, "", clear);
        assert_eq!(names(&runtime), ["cpu:0", "null:0"], "cleared: {clear}");
    }
}

#[test]
fn call_of_a_session_may_take_as_long_as_its_runs() {
    let _turn = turn();
    let (_held, folder) = folder();
    let runtime = runtime(&folder, "execute:loop:1", SCRIPT);
    let model = runtime.load_graph("small", graph());
    let policy = Policy::latency()
        .hang_timeout(Duration::from_millis(700))
        .retry(5);
    let session = runtime.session(&model, policy).unwrap();
    run(&session, 1);
    let events = session.report().events;
    let is_limit = |event: &polychip::Event| {
        event.kind == EventKind::Lost && event.to_string().contains("did not return within 700ms")
    };
    assert!(events.iter().any(is_limit), "{events:?}");
}
