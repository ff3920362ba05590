//! Whole models, before and after all passes.

use std::path::PathBuf;

use bytes::Bytes;
use polychip_ops::Op;

use super::{Options, canonical, execute};
use crate::{Graph, onnx};

fn model(name: &str) -> Graph {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../models/shapes")
        .join(name);
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    onnx::import(bytes, &onnx::NoExternalData, &onnx::Options::default()).unwrap()
}

fn count(graph: &Graph, op: Op) -> usize {
    graph.nodes().filter(|(_, node)| node.op == op).count()
}

#[test]
fn the_shapes_model_computes_the_same() {
    let graph = model("shapes.onnx");
    let (after, _) = canonical(&graph, &Options::default());
    let inputs = execute::inputs(&graph, 1);
    let expected = execute::run(&graph, &inputs, false);
    execute::assert_near(&execute::run(&after, &inputs, true), &expected, 1e-5);
    assert_eq!(count(&after, Op::BatchNormalization), 0);
    // what is left alone is squeezing, scaling and the classifier
    let grouped: usize = after.groups.iter().map(|group| group.nodes.len()).sum();
    assert!(
        grouped + 12 > after.node_count(),
        "{} of {}",
        grouped,
        after.node_count()
    );
}

#[test]
fn the_integer_shapes_model_computes_the_same_bits() {
    let graph = model("shapes-int8.onnx");
    let (after, _) = canonical(&graph, &Options::default());
    let inputs = execute::inputs(&graph, 1);
    let expected = execute::run(&graph, &inputs, false);
    execute::assert_near(&execute::run(&after, &inputs, true), &expected, 0.0);
    let left = count(&after, Op::QuantizeLinear) + count(&after, Op::DequantizeLinear);
    assert!(left <= 4, "{left} quantise and dequantise nodes are left");
}
