//! `bench --per-op`: what each kernel takes.

use crate::model::add_relu;
use crate::place::Place;
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
    // on one machine, in turns: the medians of steps cannot sum up to much more than the median run
    assert!(sum < 2 * per_op["measured_run_ns"].as_u64().unwrap(), "{per_op}");

    let text = polychip(&line).ok();
    for words in ["by operator: ", "kernel", "steps sum up to", "Conv"] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    polychip(&[&line[..], &["--csv"]].concat()).fails(2, &["--per-op", "--csv"]);
}

#[test]
fn without_it_nothing_is_measured_so() {
    let model = shapes();
    let line = [&["bench", &model, "--devices", "cpu", "--json"], &BENCH[..]].concat();
    assert!(polychip(&line).json("bench")["per_op"].is_null());
}

#[test]
fn a_device_that_measures_no_steps_has_its_parts_named() {
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
