//! Reading the flat graph of a call into a [`Part`].
//!
//! Invariant: constants stay where the host has them; everything else is copied out of the call.

use std::collections::BTreeMap;

use polychip_ops::DType;
use polychip_sdk::{BodyView, GraphView, NodeView, TensorView};

use super::{Body, Node, Part, Tensor};

impl Part {
    /// The part that a view shows, decompositions of its nodes included. Tensors that a node fills with one value are
    /// as good as constants where their type is among `fills`.
    pub fn of(graph: &GraphView<'_>, fills: fn(DType) -> bool) -> Part {
        let mut part = Part {
            nodes: graph.nodes().map(|view| node(&view, fills)).collect(),
            tensors: graph.tensors().map(|view| tensor(&view)).collect(),
            inputs: graph.inputs().iter().map(|&t| t as usize).collect(),
            outputs: graph.outputs().iter().map(|&t| t as usize).collect(),
            states: graph.states().map(|(a, b)| (a as usize, b as usize)).collect(),
        };
        part.find_fills(fills);
        part
    }
}

fn tensor(view: &TensorView<'_>) -> Tensor {
    let bounds = view.shape();
    Tensor {
        dtype: view.dtype(),
        plain: view.is_plain(),
        packed: view.is_container(),
        dims: bounds.clone().filter(|_| !view.is_upper_bound()),
        bounds,
        constant: view.constant(),
        fill: None,
        encoding: view.encoding().map(|encoding| encoding.to_owned()),
        name: view.name().to_owned(),
    }
}

fn node(view: &NodeView<'_>, fills: fn(DType) -> bool) -> Node {
    let index = |tensor: Option<u32>| tensor.map(|tensor| tensor as usize);
    Node {
        index: view.index(),
        op: view.op(),
        op_name: view.op_name().to_owned(),
        attributes: view.attributes(),
        inputs: view.inputs().map(index).collect(),
        outputs: view.outputs().map(index).collect(),
        bodies: view.bodies().map(|view| body(&view)).collect(),
        decomposition: view
            .decomposition()
            .map(|graph| Box::new(Part::of(&graph, fills))),
    }
}

fn body(view: &BodyView<'_>) -> Body {
    let outer: BTreeMap<u32, usize> = view
        .captures()
        .map(|(outer, inner)| (inner, outer as usize))
        .collect();
    let output = |&output: &u32| {
        let tensor = view.graph.tensor(output);
        let sizes = tensor.dims()?.iter();
        let sizes = sizes.map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
        Some((tensor.dtype(), sizes))
    };
    Body {
        attr: view.attr,
        captured: view
            .graph
            .inputs()
            .iter()
            .map(|input| outer.get(input).copied())
            .collect(),
        outputs: view.graph.outputs().iter().map(output).collect(),
    }
}
