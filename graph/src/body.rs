//! A body graph of a node (If, Loop, Scan), and what it reads of the graph around it.
//!
//! Invariants:
//! 1. A body reads outer tensors through its captures only.
//! 2. The inner tensors of the captures are the last inputs of the body graph, in the same order;
//!    the inputs before them are those that the op itself passes.

use polychip_ops::Attr;

use crate::{Graph, TensorId};

/// A graph that a node runs as part of its work.
#[derive(Clone, Debug)]
pub struct Body {
    /// The attribute that held it: `body`, `then_branch`, `else_branch`.
    pub attr: Attr,
    /// The graph.
    pub graph: Graph,
    /// Outer tensors that the graph reads.
    pub captures: Vec<Capture>,
}

impl Body {
    /// The inputs that the op passes, without the captures.
    pub fn formals(&self) -> &[TensorId] {
        let count = self.graph.inputs.len().saturating_sub(self.captures.len());
        &self.graph.inputs[..count]
    }
}

/// One outer tensor that a body reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The tensor of the graph that holds the node.
    pub outer: TensorId,
    /// The input of the body graph that stands for it.
    pub inner: TensorId,
}
