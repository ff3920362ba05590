//! Reading the flat graph of a call into a [`Part`].
//!
//! Invariant: constants stay where the host has them; everything else is copied out of the call.

use std::sync::Arc;

use polychip_reference::Program;
use polychip_sdk::{Error, GraphView, Result};

use crate::part::{Body, Node, Part, Tensor};

/// The part that a view shows.
///
/// # Errors
/// Where a body hangs on an attribute that this build does not know.
pub(crate) fn part(graph: &GraphView<'_>) -> Result<Part> {
    let tensors = graph
        .tensors()
        .map(|view| {
            let shape = view.shape();
            Tensor {
                dtype: view.dtype(),
                dims: if view.is_upper_bound() {
                    None
                } else {
                    shape.clone()
                },
                bounds: shape,
                constant: view.constant(),
                fill: None,
                encoding: view.encoding().map(|encoding| encoding.to_owned()),
                packed: view.is_container(),
                name: view.name().to_owned(),
            }
        })
        .collect();
    let index = |tensor: Option<u32>| tensor.map(|tensor| tensor as usize);
    let mut nodes = Vec::with_capacity(graph.node_count());
    for view in graph.nodes() {
        let mut bodies = Vec::new();
        for body in view.bodies() {
            let captures: Vec<_> = body.captures().collect();
            let captured = |input: &u32| {
                let capture = captures.iter().find(|(_, inner)| inner == input);
                capture.map(|&(outer, _)| outer as usize)
            };
            bodies.push(Body {
                attr: body.attr.ok_or_else(|| {
                    Error::unsupported("a body graph under an unknown attribute").at_node(view.index())
                })?,
                program: Program::new(&body.graph)
                    .map(Arc::new)
                    .map_err(|error| error.to_string()),
                captured: body.graph.inputs().iter().map(captured).collect(),
                outputs: body
                    .graph
                    .outputs()
                    .iter()
                    .map(|&output| {
                        let tensor = body.graph.tensor(output);
                        let sizes = tensor
                            .dims()?
                            .iter()
                            .map(|&dim| usize::try_from(dim).unwrap_or(0));
                        Some((tensor.dtype(), sizes.collect()))
                    })
                    .collect(),
            });
        }
        let decomposition = view
            .decomposition()
            .and_then(|graph| Program::new(&graph).ok())
            .map(Arc::new);
        nodes.push(Node {
            op: view.op(),
            op_name: view.op_name().to_owned(),
            attributes: view.attributes(),
            inputs: view.inputs().map(index).collect(),
            outputs: view.outputs().map(index).collect(),
            bodies,
            decomposition,
        });
    }
    let mut part = Part {
        nodes,
        tensors,
        inputs: graph.inputs().iter().map(|&t| t as usize).collect(),
        outputs: graph.outputs().iter().map(|&t| t as usize).collect(),
        states: graph.states().map(|(a, b)| (a as usize, b as usize)).collect(),
    };
    part.find_fills();
    Ok(part)
}
