//! A flat graph written as an ONNX model, for vendors' libraries that read one.
//!
//! Invariants:
//! 1. The model means what the graph means, in the opset that graphs are in: attributes that a node leaves to
//!    their default are written out, encodings become QuantizeLinear and DequantizeLinear.
//! 2. Inputs and outputs of the model stand in the graph's order and are named `i0, i1, …` and `o0, o1, …`;
//!    node 7 of the graph is named `n7`, so that a vendor's words about it can be mapped back.
//! 3. Each output of the model is made by a node, and no two are the same tensor.
//!
//! Not here: the bytes of the protocol (`onnx/wire`), reading (the host does that).
//! Start reading at [`write`].

mod message;
mod options;
mod quantise;
mod schema;
mod wire;
mod write;

pub use self::options::{IR_VERSION, OPSET, Options, Quantised, Release, Weights};
use crate::{GraphView, NodeView, Result};

/// Writes a part.
///
/// # Errors
/// `Unsupported` where ONNX cannot say it: an input that is no tensor, constant strings, an encoding that its
/// quantising ops do not have; or where the model would be longer than protobuf takes.
pub fn write(graph: &GraphView<'_>, options: &Options<'_>) -> Result<Vec<u8>> {
    write_as(graph, options, Release::NEWEST)
}

/// Writes a part for a reader of an older release. Only the header differs: the caller vouches that each node means
/// in that opset what it means in the newest one, with the same inputs and attributes.
///
/// # Errors
/// As [`write`].
pub fn write_as(graph: &GraphView<'_>, options: &Options<'_>, release: Release) -> Result<Vec<u8>> {
    write::model(
        graph,
        &write::Nodes::All,
        graph.inputs(),
        graph.outputs(),
        options,
        release,
    )
}

/// Writes one node of a graph as a model: what it and its bodies read and is no constant are the inputs, what it
/// writes the outputs. Gives the tensors that are the inputs and outputs, too. Nodes that do the same to the same
/// types, extents and constants have equal models, wherever they stand.
///
/// # Errors
/// As [`write`].
pub fn write_node(graph: &GraphView<'_>, node: &NodeView<'_>, options: &Options<'_>) -> Result<NodeModel> {
    let mut inputs: Vec<u32> = Vec::new();
    let captured = node
        .bodies()
        .flat_map(|body| body.captures().map(|(outer, _)| outer).collect::<Vec<_>>());
    for tensor in node.inputs().flatten().chain(captured) {
        if !graph.tensor(tensor).is_constant() && !inputs.contains(&tensor) {
            inputs.push(tensor);
        }
    }
    let outputs: Vec<u32> = node.outputs().flatten().collect();
    Ok(NodeModel {
        bytes: write::model(
            graph,
            &write::Nodes::One(node.index()),
            &inputs,
            &outputs,
            options,
            Release::NEWEST,
        )?,
        inputs,
        outputs,
    })
}

/// One node as a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeModel {
    /// The model.
    pub bytes: Vec<u8>,
    /// Tensors of the graph that are its inputs, in order.
    pub inputs: Vec<u32>,
    /// Tensors of the graph that are its outputs, in order.
    pub outputs: Vec<u32>,
}
