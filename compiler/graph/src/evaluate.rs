//! The constant folder that the caller injects: this crate computes nothing itself.

use polychip_ops::Literal;

use crate::Node;

/// Computes a node whose inputs are all known.
pub trait Evaluate {
    /// The outputs of the node, in order and as many as it lists, or `None` where this evaluator
    /// does not know the op or refuses it (too large, failing): the node then stays in the graph.
    fn evaluate(&self, node: &Node, inputs: &[Option<Literal>]) -> Option<Vec<Literal>>;
}
