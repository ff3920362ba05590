//! Reading the flat graph of a call into a [`Part`].
//!
//! Invariant: constants stay where the host has them; everything else is copied out of the call.

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
                encoding: view.encoding().map(|encoding| encoding.to_owned()),
                name: view.name().to_owned(),
            }
        })
        .collect();
    let index = |tensor: Option<u32>| tensor.map(|tensor| tensor as usize);
    let mut nodes = Vec::with_capacity(graph.node_count());
    for view in graph.nodes() {
        let mut bodies = Vec::new();
        for body in view.bodies() {
            bodies.push(Body {
                attr: body.attr.ok_or_else(|| {
                    Error::unsupported("a body graph under an unknown attribute").at_node(view.index())
                })?,
                part: part(&body.graph)?,
                captures: body
                    .captures()
                    .map(|(outer, inner)| (outer as usize, inner as usize))
                    .collect(),
            });
        }
        nodes.push(Node {
            op: view.op(),
            op_name: view.op_name().to_owned(),
            attributes: view.attributes(),
            inputs: view.inputs().map(index).collect(),
            outputs: view.outputs().map(index).collect(),
            bodies,
        });
    }
    Ok(Part {
        nodes,
        tensors,
        inputs: graph.inputs().iter().map(|&t| t as usize).collect(),
        outputs: graph.outputs().iter().map(|&t| t as usize).collect(),
        states: graph.states().map(|(a, b)| (a as usize, b as usize)).collect(),
    })
}
