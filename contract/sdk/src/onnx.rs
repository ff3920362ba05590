//! A flat graph written as an ONNX model, for vendors' libraries that read ONNX.
//!
//! Invariants:
//! 1. The model means what the graph means, in the opset of graphs: attributes that a node leaves
//!    to their default are written out, and encodings become QuantizeLinear and DequantizeLinear.
//! 2. Inputs and outputs of the model are in the graph's order and named `i0, i1, …` and `o0, o1,
//!    …`. Node 7 of the graph is named `n7`, so that a vendor's message about it can be mapped
//!    back.
//! 3. Each output of the model is made by a node, and no two outputs are the same tensor.
//!
//! Not here: protobuf encoding (`onnx/wire`), reading models (the host does that). Start reading at
//! [`write()`].

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
/// `Unsupported` if ONNX cannot express it (an input that is not a tensor, constant strings, an
/// encoding that its quantising ops lack), or if the model would exceed protobuf's size limit.
pub fn write(graph: &GraphView<'_>, options: &Options<'_>) -> Result<Vec<u8>> {
    write_as(graph, options, Release::NEWEST)
}

/// Writes a part for a reader of an older release. Only the header differs: the caller guarantees
/// that each node means the same in that opset as in the newest one, with the same inputs and
/// attributes.
///
/// # Errors
/// As [`write()`].
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

/// Writes one node of a graph as a model. Its inputs are the non-constant tensors that the node and
/// its bodies read; its outputs are those that the node writes. Also returns these tensors. Nodes
/// with the same op, types, extents and constants yield equal models, wherever they are in a graph.
///
/// # Errors
/// As [`write()`].
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
