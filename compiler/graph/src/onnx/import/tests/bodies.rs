//! Bodies of If, Loop and Scan.

use super::*;

pub(super) fn branch(output: &str, nodes: Vec<messages::Node>) -> Graph {
    Graph {
        name: output.to_owned(),
        node: nodes,
        output: vec![named(output)],
        ..Graph::default()
    }
}

#[test]
fn bodies_capture_what_they_read() {
    // the inner If stands in the then branch and reads `x` across both
    let inner = node(
        "If",
        "c",
        "i",
        &[
            body("else_branch", branch("x", vec![])),
            body("then_branch", branch("k", vec![node_of("Neg", "x", "k")])),
        ],
    );
    let outer = node(
        "If",
        "c",
        "y",
        &[
            body("then_branch", branch("i", vec![inner])),
            body("else_branch", branch("e", vec![node_of("Mul", "x w", "e")])),
        ],
    );
    let mut inputs = x();
    inputs.push(value("c", DType::Bool, &[]));
    let graph = Graph {
        node: vec![outer],
        input: inputs,
        initializer: vec![f32s("w", &[], &[2.0])],
        ..small()
    };
    let graph = read(&model(13, graph)).unwrap();
    let (_, node) = graph.nodes().next().unwrap();
    let names: Vec<&str> = node.bodies.iter().map(|body| body.attr.name()).collect();
    assert_eq!(names, ["then_branch", "else_branch"]);
    let captured = |index: usize| -> Vec<&str> {
        node.bodies[index]
            .captures
            .iter()
            .map(|capture| graph.tensor(capture.outer).name.as_str())
            .collect()
    };
    assert_eq!(captured(0), ["c", "x"]);
    assert_eq!(captured(1), ["x", "w"]);
    assert_eq!(graph.tensor(graph.outputs[0]).ty.to_string(), "f32[2, 3, 4, 4]");
    let missing = Graph {
        node: vec![node_of("If", "x", "y")],
        ..small()
    };
    assert_eq!(
        error(missing).1,
        "node If of \"y\" has the body graphs none, but needs then_branch, else_branch"
    );
}

#[test]
fn loops_are_inferred_over_all_turns() {
    // the state grows by one row a turn: its first size is not known
    let step = Graph {
        name: "step".to_owned(),
        input: vec![named("i"), named("keep"), named("state")],
        node: vec![
            node("Concat", "state row", "grown", &[int("axis", 0)]),
            node_of("Identity", "keep", "again"),
            node("ReduceMax", "row", "peak", &[int("keepdims", 0)]),
        ],
        output: vec![named("again"), named("grown"), named("peak")],
        ..Graph::default()
    };
    let graph = Graph {
        name: "g".to_owned(),
        node: vec![node("Loop", "count _ start", "last peaks", &[body("body", step)])],
        initializer: vec![
            i64s("count", &[], &[5]),
            f32s("start", &[1, 2], &[0.0; 2]),
            f32s("row", &[1, 2], &[1.0; 2]),
        ],
        output: vec![named("last"), named("peaks")],
        ..Graph::default()
    };
    let graph = read(&model(13, graph)).unwrap();
    let outputs: Vec<String> = graph
        .outputs
        .iter()
        .map(|&id| graph.tensor(id).ty.to_string())
        .collect();
    assert_eq!(outputs, ["f32[?, 2]", "f32[5]"]);
    let again = text::parse(&text::print_full(&graph)).unwrap();
    assert_eq!(
        crate::fingerprint::content(&again),
        crate::fingerprint::content(&graph)
    );
}

#[test]
fn scans_slice_and_stack() {
    let step = Graph {
        name: "step".to_owned(),
        input: vec![named("sum"), named("row")],
        node: vec![
            node_of("Add", "sum row", "next"),
            node_of("Identity", "next", "seen"),
        ],
        output: vec![named("next"), named("seen")],
        ..Graph::default()
    };
    let scan = node(
        "Scan",
        "zero x",
        "total y",
        &[
            body("body", step),
            int("num_scan_inputs", 1),
            ints("scan_input_axes", &[1]),
            ints("scan_output_axes", &[-1]),
        ],
    );
    let graph = Graph {
        node: vec![scan],
        input: vec![value("x", DType::F32, &[2, 7, 3])],
        initializer: vec![f32s("zero", &[2, 3], &[0.0; 6])],
        output: vec![named("total"), named("y")],
        ..small()
    };
    let graph = read(&model(13, graph)).unwrap();
    let outputs: Vec<String> = graph
        .outputs
        .iter()
        .map(|&id| graph.tensor(id).ty.to_string())
        .collect();
    assert_eq!(outputs, ["f32[2, 3]", "f32[2, 3, 7]"]);
}
