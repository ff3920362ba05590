//! What the passes make of models: `cargo run -p polychip-graph --example canonical -- MODEL.onnx… [--nodes]`.
//!
//! Prints per model the changes of each pass, the ops that remain, the groups, and with `--nodes`
//! every node. The evaluator is the reference.

#![allow(clippy::print_stdout)] // a report for a person

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use polychip_graph::{Evaluate, Graph, Node, onnx, passes, verify};
use polychip_ops::Literal;

struct Reference;

impl Evaluate for Reference {
    fn evaluate(&self, node: &Node, inputs: &[Option<Literal>]) -> Option<Vec<Literal>> {
        let tensors: Vec<_> = inputs
            .iter()
            .map(|input| {
                input
                    .as_ref()
                    .map(polychip_reference::tensor_from_literal)
                    .transpose()
            })
            .collect::<Result<_, _>>()
            .ok()?;
        let inputs: Vec<_> = tensors.iter().map(Option::as_ref).collect();
        let outputs =
            polychip_reference::evaluate(node.op, &node.attributes, &inputs, node.outputs.len()).ok()?;
        let literals = outputs.iter().map(polychip_reference::tensor_to_literal);
        literals.collect::<Result<_, _>>().ok()
    }
}

fn histogram(graph: &Graph) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        *counts.entry(node.label()).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(op, count)| format!("{op} {count}")).collect();
    counts.join(", ")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for path in arguments.iter().filter(|argument| !argument.starts_with("--")) {
        let bytes = Bytes::from(std::fs::read(path)?);
        let mut graph = onnx::import(bytes, &onnx::NoExternalData, &onnx::Options::default())?;
        println!("{path}: {} nodes: {}", graph.node_count(), histogram(&graph));
        let start = Instant::now();
        let report = passes::canonicalise(&mut graph, &Reference, &passes::Options::default())?;
        verify(&graph)?;
        println!("  {:?} in {:?}", report.passes, start.elapsed());
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        let mut grouped = 0;
        for group in &graph.groups {
            let ops: Vec<String> = group.nodes.iter().map(|&id| graph.node(id).label()).collect();
            *kinds
                .entry(format!("{} {}", group.kind.name(), ops.join("+")))
                .or_default() += 1;
            grouped += group.nodes.len();
        }
        println!(
            "  {} nodes, {grouped} in groups: {}",
            graph.node_count(),
            histogram(&graph)
        );
        println!("  groups: {kinds:?}");
        if arguments.iter().any(|argument| argument == "--nodes") {
            for (id, node) in graph.nodes() {
                let name = |id: &Option<polychip_graph::TensorId>| {
                    id.map_or("_".to_owned(), |id| {
                        let tensor = graph.tensor(id);
                        let mark = if tensor.encoding.is_some() { "~" } else { "" };
                        format!("{mark}{}:{}", tensor.name, tensor.ty)
                    })
                };
                let inputs: Vec<_> = node.inputs.iter().map(name).collect();
                let outputs: Vec<_> = node.outputs.iter().map(name).collect();
                println!(
                    "  {id} {} = {}({})",
                    outputs.join(", "),
                    node.label(),
                    inputs.join(", ")
                );
            }
        }
    }
    Ok(())
}
