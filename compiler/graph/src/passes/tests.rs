//! Proofs by execution: each pass, on small graphs and on models, evaluated before and after by the
//! reference kernels, and the structure that comes out.

mod activations;
mod attention;
mod blocks;
mod build;
mod cleaning;
mod equations;
pub(crate) mod execute;
mod folding;
mod groups;
mod models;
mod normalisation;
mod products;
mod quantised;
mod roundings;
mod sequences;

use polychip_ops::Literal;

use super::{Options, Report, canonicalise};
use crate::{Evaluate, Graph, Node, verify};

/// Folding by the reference kernels.
struct Reference;

impl Evaluate for Reference {
    fn evaluate(&self, node: &Node, inputs: &[Option<Literal>]) -> Option<Vec<Literal>> {
        let tensors: Option<Vec<_>> = inputs
            .iter()
            .map(|input| match input {
                None => Some(None),
                Some(literal) => polychip_reference::tensor_from_literal(literal).ok().map(Some),
            })
            .collect();
        let tensors = tensors?;
        let inputs: Vec<_> = tensors.iter().map(Option::as_ref).collect();
        let outputs =
            polychip_reference::evaluate(node.op, &node.attributes, &inputs, node.outputs.len()).ok()?;
        outputs
            .iter()
            .map(|output| polychip_reference::tensor_to_literal(output).ok())
            .collect()
    }
}

/// Canonicalises a copy, proves by execution that it computes the same, alone and with recomposed
/// nodes taken apart, and that a second run finds nothing.
fn proven(graph: &Graph, options: &Options) -> (Graph, Report) {
    let (after, report) = canonical(graph, options);
    let inputs = execute::inputs(graph, 7);
    let expected = execute::run(graph, &inputs, false);
    execute::assert_near(&execute::run(&after, &inputs, false), &expected, 1e-5);
    execute::assert_near(&execute::run(&after, &inputs, true), &expected, 1e-5);
    (after, report)
}

/// Canonicalises a copy and checks what holds of every canonical graph.
fn canonical(graph: &Graph, options: &Options) -> (Graph, Report) {
    let mut after = graph.clone();
    let report = canonicalise(&mut after, &Reference, options).unwrap();
    verify(&after).unwrap();
    let names = |graph: &Graph| -> Vec<(String, polychip_ops::DType)> {
        let ports = graph.inputs.iter().chain(&graph.outputs);
        ports
            .map(|&id| (graph.tensor(id).name.clone(), graph.tensor(id).ty.dtype))
            .collect()
    };
    assert_eq!(names(&after), names(graph));
    let mut again = after.clone();
    let second = canonicalise(&mut again, &Reference, options).unwrap();
    let idle = |(name, changes): &(&str, usize)| *changes == 0 || *name == "group";
    assert!(second.passes.iter().all(idle), "second run: {second:?}");
    assert_eq!(listing(&again), listing(&after));
    (after, report)
}

/// One line per node: `y = Op(x, w) attributes`, then the groups.
fn listing(graph: &Graph) -> String {
    let name = |id: &Option<crate::TensorId>| match id {
        None => "_".to_owned(),
        Some(id) => {
            let tensor = graph.tensor(*id);
            let mark = if tensor.encoding.is_some() { "~" } else { "" };
            format!("{mark}{}", tensor.name)
        }
    };
    let mut lines = Vec::new();
    for (_, node) in graph.nodes() {
        let inputs: Vec<_> = node.inputs.iter().map(name).collect();
        let outputs: Vec<_> = node.outputs.iter().map(name).collect();
        let mut line = format!("{} = {}({})", outputs.join(", "), node.label(), inputs.join(", "));
        for (key, value) in node.attributes.iter() {
            line += &format!(" {key}={value:?}");
        }
        if let Some(inner) = &node.decomposition {
            line += &format!(" of {}", inner.node_count());
        }
        lines.push(line);
    }
    for group in &graph.groups {
        let nodes: Vec<_> = group.nodes.iter().map(ToString::to_string).collect();
        lines.push(format!("{} [{}]", group.kind.name(), nodes.join(" ")));
    }
    lines.join("\n")
}

/// The listing without groups.
fn nodes_of(graph: &Graph) -> String {
    let mut copy = graph.clone();
    copy.groups.clear();
    listing(&copy)
}
