//! The graph under construction as a conversion sees it: where nodes and constants go, and which types are known.
//!
//! Invariants:
//! 1. A node is inferred as soon as it is added, so that the conversion of the next one knows types.
//! 2. No node ends in an input or output that is left out: those at the end are cut off here, and nowhere else.
//!
//! Not here: names and scopes (`build`), what is converted (`convert`).

use polychip_ops::{Literal, TensorType};

use crate::infer::{self, Values};
use crate::{Constant, Container, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Where converted nodes go.
pub(super) struct Target<'g> {
    pub(super) graph: &'g mut Graph,
    pub(super) values: &'g mut Values,
    pub(super) lenient: bool,
}

/// Cuts off what is left out at the end of a list of inputs or outputs.
pub(super) fn trim(slots: &mut Vec<Option<TensorId>>) {
    let len = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    slots.truncate(len);
}

impl Target<'_> {
    /// Adds a node and infers its outputs.
    pub(super) fn add(&mut self, mut node: Node) -> Result<NodeId, Error> {
        trim(&mut node.inputs);
        trim(&mut node.outputs);
        let id = self.graph.add_node(node);
        match infer::node(self.graph, id, self.values) {
            Err(error) if !self.lenient => Err(error),
            _ => Ok(id),
        }
    }

    /// Adds a constant that the conversion makes.
    pub(super) fn constant(&mut self, name: String, literal: &Literal) -> TensorId {
        self.graph.add_tensor(Tensor::constant(
            name,
            literal.ty(),
            Constant::from_literal(literal),
        ))
    }

    /// Adds a tensor of which inference will tell the type.
    pub(super) fn fresh(&mut self, name: String) -> TensorId {
        self.graph.add_tensor(Tensor::untyped(name))
    }

    /// The type of a tensor, if it is known.
    pub(super) fn ty(&self, id: TensorId) -> Option<&TensorType> {
        let tensor = self.graph.tensor(id);
        (tensor.typed && tensor.container == Container::Tensor).then_some(&tensor.ty)
    }
}
