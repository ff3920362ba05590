//! `--per-op`: what each kernel takes, in `bench`, `explain`, `inspect`, traces and the page.

use crate::model::{F32, Model, add_relu, node, port, with_integer, with_integers};
use crate::place::Place;
use crate::plans::data_of;
use crate::tool::{polychip, shapes};

const BENCH: [&str; 4] = ["--iters", "3", "--warmup", "1"];

#[test]
fn every_kernel_of_the_cpu_has_a_time() {
    let model = shapes();
    let line = [&["bench", &model, "--devices", "cpu", "--per-op"], &BENCH[..]].concat();
    let json = polychip(&[&line[..], &["--json"]].concat()).json("bench");
    let per_op = &json["per_op"];
    let steps = per_op["steps"].as_array().unwrap();
    let ops: Vec<&str> = steps
        .iter()
        .flat_map(|step| step["ops"].as_array().unwrap())
        .map(|op| op.as_str().unwrap())
        .collect();
    // convolutions, and what is fused with them
    assert!(ops.contains(&"Conv") && ops.contains(&"Clip"), "{ops:?}");
    let mut convolutions: Vec<&str> = steps
        .iter()
        .filter(|step| step["kernel"] == "conv")
        .flat_map(|step| step["nodes"].as_array().unwrap())
        .map(|node| node.as_str().unwrap())
        .collect();
    let count = convolutions.len();
    convolutions.sort_unstable();
    convolutions.dedup();
    assert_eq!(convolutions.len(), count, "a node is in two convolutions");
    let time = |value: &serde_json::Value| value["time_ns"].as_u64().unwrap();
    assert!(steps.iter().all(|step| time(step) > 0), "{steps:?}");
    let sum: u64 = steps.iter().map(time).sum();
    assert_eq!(per_op["steps_ns"].as_u64().unwrap(), sum);
    let share: f64 = steps.iter().map(|step| step["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let conv = steps
        .iter()
        .find(|step| step["ops"][0] == "Conv")
        .expect("a convolution");
    assert!(conv["operations"].as_u64().unwrap() > 0, "{conv}");
    assert_eq!(conv["is_reference"], false);
    assert!(per_op["measured_run_ns"].as_u64().unwrap() > 0, "{per_op}");

    let text = polychip(&line).ok();
    for words in ["by operator: ", "kernel", "the steps add up to", "Conv"] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    polychip(&[&line[..], &["--csv"]].concat()).fails(2, &["--per-op", "--csv"]);
}

#[test]
fn steps_are_not_measured_without_per_op() {
    let model = shapes();
    let line = [&["bench", &model, "--devices", "cpu", "--json"], &BENCH[..]].concat();
    assert!(polychip(&line).json("bench")["per_op"].is_null());
}

#[test]
fn device_without_steps_lists_its_parts() {
    let place = Place::new(|folder| add_relu().write(folder, "m.onnx"));
    let script = "[[device]]\ncost = { fixed_ns = 1000.0, ps_per_byte = 0.0, ps_per_mac = 0.0 }\n";
    let json = place
        .with(
            script,
            "bench",
            &[&BENCH[..], &["--dim", "n=2", "--per-op", "--json"]].concat(),
        )
        .json("bench");
    let steps = json["per_op"]["steps"].as_array().unwrap();
    assert!(
        !steps.is_empty() && steps.iter().all(|step| step["kernel"] == "whole part"),
        "{steps:?}"
    );
}

/// A model of which one node has no kernel: the reference evaluator computes it.
fn with_plain_loops() -> Model {
    Model {
        opset: 18,
        nodes: vec![
            node("Relu", "relu", &["x"], &["r"]),
            node("LpPool", "", &["r"], &["pooled"]),
        ]
        .into_iter()
        .enumerate()
        .map(|(at, made)| match at {
            1 => with_integer(with_integers(made, "kernel_shape", &[2, 2]), "p", 3),
            _ => made,
        })
        .collect(),
        inputs: vec![port("x", F32, &["1", "2", "6", "6"])],
        outputs: vec![port("pooled", F32, &["1", "2", "5", "5"])],
        ..Model::default()
    }
}

#[test]
fn plain_loop_nodes_are_marked_in_reports() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_plain_loops().write(folder.path(), "m.onnx");
    let line = |command: &'static str, more: &[&'static str]| {
        let all = [&[command, &model, "--devices", "cpu", "--per-op"], more].concat();
        polychip(&all)
    };
    let inspected = line("inspect", &["--json"]).json("inspect");
    let found = &inspected["reference"];
    assert_eq!(found["nodes"].as_array().unwrap().len(), 1, "{found}");
    // a node without a name goes by its tensor
    assert_eq!(
        (&found["nodes"][0]["op"], &found["nodes"][0]["nodes"][0]),
        (&serde_json::json!("LpPool"), &serde_json::json!("pooled"))
    );
    assert_eq!(found["unknown"], serde_json::json!([]));
    assert!(
        line("inspect", &[])
            .ok()
            .contains("cpu:0: plain loops instead of a kernel: 1 × LpPool (pooled), ")
    );
    let explained = line("explain", &["--json"]).json("explain");
    let steps = explained["node_steps"].as_array().unwrap();
    let marks: Vec<bool> = steps
        .iter()
        .map(|step| step["is_reference"].as_bool().unwrap())
        .collect();
    assert_eq!(marks, [false, true]);
    assert!(steps.iter().all(|step| step["time_ns"].as_u64().unwrap() > 0));
    let text = line("explain", &[]).ok();
    for words in [
        "measured steps, slowest first",
        "        measured: ",
        ", plain loops instead of a kernel\n",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let text = line("bench", &BENCH).ok();
    assert!(
        text.contains("plain loops instead of a kernel in 1 of 2 steps, ") && text.contains(": LpPool"),
        "{text}"
    );
    // without the option nothing runs, and the output does not mention it
    let plain = polychip(&["explain", &model, "--devices", "cpu", "--json"]).json("explain");
    assert!(plain["per_op"].is_null() && plain["node_steps"].is_null());
}

#[test]
fn multi_node_step_is_listed_once_with_node_names() {
    let json = polychip(&["explain", &shapes(), "--devices", "cpu", "--per-op", "--json"]).json("explain");
    let nodes = json["nodes"].as_array().unwrap();
    let steps = json["node_steps"].as_array().unwrap();
    assert_eq!(nodes.len(), steps.len());
    let at = |name: &str| nodes.iter().position(|node| node["name"] == name).unwrap();
    let (conv, clip) = (
        at("/0/features/features.0/features.0.0/Conv"),
        at("/0/features/features.0/features.0.2/Clip"),
    );
    assert_eq!(steps[conv]["time_ns"], steps[clip]["time_ns"]);
    assert_eq!(steps[conv]["with"][0], nodes[clip]["name"]);
    assert_eq!(steps[clip]["with"][0], nodes[conv]["name"]);
}

#[test]
fn a_trace_has_steps_on_a_thread_below_their_device() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let name = file.display().to_string();
    let read = || -> Vec<serde_json::Value> {
        let trace: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    };
    let model = shapes();
    let bench = [
        &["bench", &model, "--devices", "cpu", "--per-op", "--trace", &name][..],
        // as many as are measured in one go even where a run takes long
        &["--iters", "2", "--warmup", "1"],
    ]
    .concat();
    polychip(&bench).ok();
    let events = read();
    let of = |cat: &str| -> Vec<&serde_json::Value> {
        events.iter().filter(|event| event["cat"] == cat).collect()
    };
    // the runs that count, and as many behind them whose steps were measured
    let (parts, steps) = (of("part"), of("step"));
    assert_eq!(parts.len(), 4);
    let runs: std::collections::BTreeSet<u64> = steps
        .iter()
        .map(|step| step["args"]["run"].as_u64().unwrap())
        .collect();
    assert_eq!(runs, [2, 3].into());
    let span = |event: &serde_json::Value| {
        let start = event["ts"].as_f64().unwrap();
        (start, start + event["dur"].as_f64().unwrap())
    };
    for run in &runs {
        let (start, end) = span(
            parts
                .iter()
                .find(|part| part["args"]["run"] == *run)
                .expect("the run's part"),
        );
        for step in steps.iter().filter(|step| step["args"]["run"] == *run) {
            let (from, to) = span(step);
            assert!(
                start - 1e-3 <= from && to <= end + 1e-3,
                "{step} is outside of its part"
            );
            assert_ne!(step["tid"], parts[0]["tid"]);
        }
    }
    // a run that is traced has them as well
    polychip(&["run", &model, "--fill", "1", "--devices", "cpu", "--trace", &name]).ok();
    assert!(read().iter().any(|event| event["cat"] == "step"));
}

#[test]
fn page_includes_measured_steps() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("plan.html").display().to_string();
    let model = shapes();
    let line = ["partition", &model, "--devices", "cpu", "--per-op"];
    polychip(&line).fails(2, &["--html"]);
    polychip(&[&line[..], &["--html", &page]].concat()).ok();
    let text = std::fs::read_to_string(&page).unwrap();
    let data = data_of(&text);
    let nodes = &data["nodes"];
    let (op, texts) = (nodes["op"].as_array().unwrap(), &nodes["texts"]);
    let measured = nodes["measured"].as_array().unwrap();
    assert_eq!(measured.len(), op.len());
    for (op, steps) in op.iter().zip(measured) {
        // a Flatten is its input seen in another shape: no step computes it
        let op = texts[op.as_u64().unwrap() as usize].as_str().unwrap();
        assert!(
            op == "Flatten" || steps["time_ns"].as_u64().unwrap() > 0,
            "{op} {steps}"
        );
    }
}
