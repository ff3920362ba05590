//! Parts of a run on concurrent devices: each starts when its inputs are ready, as the plan's
//! schedule states if devices take their stated times, and none waits for an unrelated slow one.

use std::time::Duration;

use polychip::{Input, Model, Policy, Runtime, Session, TracedPart, TracedRun};
use polychip_null::{NullDevice, NullPlugin};
use polychip_sdk::{HostServices, Plugin, PluginInfo};
use proptest::prelude::*;

use crate::model;
use polychip_sdk::protobuf::Message;

use crate::model::{F32, node, port};

const PATIENCE: Duration = Duration::from_secs(60);
const MS: u64 = 1_000_000;

/// The scripted devices once more, as another plugin: fences of one mean nothing to the other.
struct SecondPlugin(NullPlugin);

impl Plugin for SecondPlugin {
    type Device = NullDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "second",
        ..NullPlugin::INFO
    };

    fn create(host: HostServices) -> polychip_sdk::Result<Self> {
        NullPlugin::create(host).map(SecondPlugin)
    }

    fn device_count(&self) -> polychip_sdk::Result<u32> {
        self.0.device_count()
    }

    fn open(&self, index: u32) -> polychip_sdk::Result<NullDevice> {
        self.0.open(index)
    }
}

/// A device that refuses nodes of this pattern, at so many milliseconds per op.
fn device(refused: &str, times: &[(&str, f64)], more: &str) -> String {
    let ops: Vec<String> = times
        .iter()
        .map(|(op, ms)| format!("{op} = {{ fixed_ns = {:.1} }}", ms * 1e6))
        .collect();
    format!(
        "[[device]]\nrefuse = [{{ node = \"{refused}\" }}]\ncost = {{ fixed_ns = 1000.0, ps_per_byte = 0.0, ps_per_mac = 0.0 }}\n\
         op = {{ {} }}\n{more}\n",
        ops.join(", ")
    )
}

/// A runtime of two plugins, `null` without nodes `b*` and `second` without nodes `a*`.
fn two_plugins(times: &[(&str, f64)], of_null: &str, is_virtual: bool) -> Runtime {
    let builder = Runtime::builder()
        .link(polychip_sdk::plugin_query::<NullPlugin>)
        .link(polychip_sdk::plugin_query::<SecondPlugin>)
        .configure("null", "script", device("b*", times, of_null))
        .configure("second", "script", device("a*", times, ""))
        .only_given_folders();
    if is_virtual {
        builder.virtual_time()
    } else {
        builder
    }
    .build()
    .unwrap()
}

fn load(runtime: &Runtime, nodes: Vec<Message>, outputs: &[String]) -> Model {
    let made = model::Model {
        nodes,
        inputs: vec![port("x", F32, &["4"])],
        outputs: outputs.iter().map(|name| port(name, F32, &["4"])).collect(),
        ..model::Model::default()
    };
    runtime.load_bytes("made.onnx", made.bytes()).unwrap()
}

fn filled(session: &Session) -> Input {
    let mut input = session.input("x").unwrap();
    input.write(&[0.5f32; 4]).unwrap();
    input
}

/// One traced run.
fn run(session: &Session) -> TracedRun {
    session.start_trace(1);
    let outputs = session
        .submit(&[&filled(session)])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    drop(outputs);
    session.trace().0.remove(0)
}

fn devices_at_once() -> Policy {
    Policy::makespan().devices(["null", "second"])
}

/// From the first start to the last end.
fn makespan_ns(run: &TracedRun) -> u64 {
    let start = run.parts.iter().map(|part| part.start_ns).min().unwrap();
    run.parts.iter().map(|part| part.end_ns).max().unwrap() - start
}

fn overlap(a: &TracedPart, b: &TracedPart) -> bool {
    a.start_ns < b.end_ns && b.start_ns < a.end_ns
}

#[test]
fn branches_on_two_plugins_overlap_and_their_join_waits_for_both() {
    let times = [("Neg", 20.0), ("Abs", 30.0), ("Add", 1.0)];
    let runtime = two_plugins(&times, "", true);
    let nodes = vec![
        node("Neg", "a1", &["x"], &["p"]),
        node("Abs", "b1", &["x"], &["q"]),
        node("Add", "a2", &["p", "q"], &["y"]),
    ];
    let model = load(&runtime, nodes, &["y".into()]);
    for policy in [devices_at_once(), Policy::latency().devices(["null", "second"])] {
        let session = runtime.session(&model, policy).unwrap();
        for _ in 0..3 {
            let run = run(&session);
            assert_eq!(run.parts.len(), 3, "{run:?}");
            let ms = makespan_ns(&run) as f64 / MS as f64;
            assert!((ms - 31.0).abs() < 0.2, "{ms} ms: {run:?}");
            let join = run.parts.iter().max_by_key(|part| part.start_ns).unwrap();
            let branches: Vec<_> = run.parts.iter().filter(|part| part.id != join.id).collect();
            assert!(overlap(branches[0], branches[1]), "{run:?}");
        }
    }
}

/// `a1 → b1 → a2` is the critical path, and `b2` may run later: the plan leaves `second` idle until
/// `b1` can start.
fn patient(of_null: &str) -> (Session, TracedRun) {
    let times = [("Neg", 4.0), ("Abs", 1.0), ("Exp", 40.0), ("Relu", 20.0)];
    let runtime = two_plugins(&times, of_null, true);
    let nodes = vec![
        node("Neg", "a1", &["x"], &["p"]),
        node("Abs", "b1", &["p"], &["q"]),
        node("Exp", "a2", &["q"], &["y"]),
        node("Relu", "b2", &["x"], &["z"]),
    ];
    let model = load(&runtime, nodes, &["y".into(), "z".into()]);
    let session = runtime.session(&model, devices_at_once()).unwrap();
    let run = run(&session);
    (session, run)
}

#[test]
fn slow_part_does_not_stall_other_devices() {
    let (session, run) = patient("");
    let predicted = session.plan().unwrap().time().nanoseconds();
    let ms = |ns: u64| ns as f64 / MS as f64;
    assert!((ms(predicted) - 45.0).abs() < 0.1, "{predicted}");
    assert!((ms(makespan_ns(&run)) - 45.0).abs() < 0.2, "{run:?}");
    let starts = |run: &TracedRun, device: &str| {
        let zero = run.parts.iter().map(|part| part.start_ns).min().unwrap();
        let own = run.parts.iter().filter(|part| part.device == device);
        let mut spans: Vec<(f64, f64)> = own
            .map(|part| (ms(part.start_ns - zero), ms(part.end_ns - zero)))
            .collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        spans
    };
    let second = starts(&run, "second:0");
    assert!(
        (second[0].0 - 4.0).abs() < 0.1 && (second[1].0 - 5.0).abs() < 0.1,
        "{second:?}"
    );

    // `a1` takes ten times what was predicted: `b2` goes first, once `b1` is late by a quarter of its start
    let (_, run) = patient("fault = [{ kind = \"slow\", time_permille = 10000 }]");
    let second = starts(&run, "second:0");
    assert!((second[0].0 - 5.0).abs() < 0.5, "{second:?}");
    assert!((second[0].1 - second[0].0 - 20.0).abs() < 0.1, "{second:?}");
    assert!((second[1].0 - 40.0).abs() < 0.5, "{second:?}");
}

#[test]
fn pipelined_runs_keep_pace_with_the_slowest_device() {
    let times = [("Neg", 8.0), ("Abs", 10.0)];
    let script = device("b*", &times, "name = \"first\"") + &device("a*", &times, "name = \"second\"");
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<NullPlugin>)
        .configure("null", "script", script)
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap();
    let nodes = vec![
        node("Neg", "a1", &["x"], &["p"]),
        node("Abs", "b1", &["p"], &["y"]),
    ];
    let model = load(&runtime, nodes, &["y".into()]);
    let policy = Policy::throughput().devices(["null"]).in_flight(6);
    let session = runtime.session(&model, policy).unwrap();
    session.start_trace(6);
    let inputs: Vec<Input> = (0..6).map(|_| filled(&session)).collect();
    let runs: Vec<_> = inputs
        .iter()
        .map(|input| session.submit(&[input]).unwrap())
        .collect();
    for run in runs {
        run.wait(PATIENCE).unwrap();
    }
    let (runs, _) = session.trace();
    let zero = runs
        .iter()
        .flat_map(|run| &run.parts)
        .map(|part| part.start_ns)
        .min()
        .unwrap();
    let last = runs
        .iter()
        .flat_map(|run| &run.parts)
        .map(|part| part.end_ns)
        .max()
        .unwrap();
    assert_eq!(last - zero, 8 * MS + 6 * 10 * MS, "{runs:?}");
    assert_eq!(session.plan().unwrap().interval().nanoseconds(), 10 * MS);
}

#[test]
fn runs_overlap_across_plugins() {
    // the machine's clock: each run is driven by a thread of its own, which no virtual clock waits for
    let times = [("Neg", 2.0), ("Abs", 300.0)];
    let runtime = two_plugins(&times, "", false);
    let nodes = vec![
        node("Neg", "a1", &["x"], &["p"]),
        node("Abs", "b1", &["p"], &["y"]),
    ];
    let model = load(&runtime, nodes, &["y".into()]);
    let policy = Policy::throughput().devices(["null", "second"]).in_flight(2);
    let session = runtime.session(&model, policy).unwrap();
    session.start_trace(2);
    let inputs = [filled(&session), filled(&session)];
    let runs: Vec<_> = inputs
        .iter()
        .map(|input| session.submit(&[input]).unwrap())
        .collect();
    for run in runs {
        run.wait(PATIENCE).unwrap();
    }
    let (runs, _) = session.trace();
    let (first, second) = (&runs[0].parts, &runs[1].parts);
    assert!(second[0].start_ns < first[1].end_ns, "{runs:?}");
    assert!(second[1].start_ns >= first[1].end_ns, "{runs:?}");
}

/// A graph of ops that take different times, each on one of two plugins: its nodes, and its outputs with what they are
/// where every element of the input is a half.
fn nodes(picks: &[(usize, usize, usize, bool)]) -> (Vec<Message>, Vec<(String, f32)>) {
    const ONE: [&str; 4] = ["Neg", "Abs", "Relu", "Sigmoid"];
    const TWO: [&str; 2] = ["Add", "Mul"];
    let mut tensors = vec!["x".to_owned()];
    let mut values = vec![0.5f32];
    let mut read = vec![true];
    let mut nodes = Vec::new();
    for (index, &(op, left, right, on_null)) in picks.iter().enumerate() {
        let name = format!("{}{index}", if on_null { 'a' } else { 'b' });
        let output = format!("t{index}");
        let (left, right) = (left % tensors.len(), right % tensors.len());
        read[left] = true;
        if op < ONE.len() {
            nodes.push(node(ONE[op], &name, &[&tensors[left]], &[&output]));
            let value = values[left];
            values.push(match op {
                0 => -value,
                1 => value.abs(),
                2 => value.max(0.0),
                _ => 1.0 / (1.0 + (-value).exp()),
            });
        } else {
            read[right] = true;
            let is_sum = op == ONE.len();
            let op = TWO[op - ONE.len()];
            nodes.push(node(op, &name, &[&tensors[left], &tensors[right]], &[&output]));
            let (left, right) = (values[left], values[right]);
            values.push(if is_sum { left + right } else { left * right });
        }
        tensors.push(output);
        read.push(false);
    }
    let outputs = tensors.into_iter().zip(values).zip(read);
    let outputs = outputs.filter(|(_, read)| !read).map(|(output, _)| output);
    (nodes, outputs.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn run_time_matches_the_prediction(
        picks in proptest::collection::vec((0usize..6, 0usize..64, 0usize..64, any::<bool>()), 3..16),
    ) {
        let times = [
            ("Neg", 3.0), ("Abs", 7.0), ("Relu", 13.0), ("Sigmoid", 5.0), ("Add", 11.0), ("Mul", 2.0),
        ];
        let runtime = two_plugins(&times, "", true);
        let (nodes, outputs) = nodes(&picks);
        let names: Vec<String> = outputs.iter().map(|(name, _)| name.clone()).collect();
        let model = load(&runtime, nodes, &names);
        let session = runtime.session(&model, devices_at_once()).unwrap();
        let predicted = session.plan().unwrap().time().nanoseconds() as f64;
        for _ in 0..2 {
            session.start_trace(1);
            let found = session.submit(&[&filled(&session)]).unwrap().wait(PATIENCE).unwrap();
            for (name, wanted) in &outputs {
                let output = found.get(name).unwrap();
                for value in output.values::<f32>().unwrap().iter() {
                    prop_assert!((value - wanted).abs() <= 1e-4 * wanted.abs().max(1.0), "{name}: {value}, not {wanted}");
                }
            }
            let measured = makespan_ns(&session.trace().0[0]) as f64;
            prop_assert!((measured / predicted - 1.0).abs() < 0.01, "{measured} ns, predicted {predicted} ns");
        }
    }
}
