//! Finds ops that exporters wrote out in primitive ones, and puts the op back in their place.
//!
//! LayerNormalization, RMSNormalization, Gelu, Swish, HardSigmoid, HardSwish, Softplus, Mish and
//! Attention, with the attributes of opset 28.
//!
//! Invariants:
//! 1. A recomposed node keeps the primitive graph as its `decomposition`: a device may compute either.
//!    The graph's inputs and outputs are the node's present ones, in order.
//! 2. Nothing outside reads a tensor inside the region that is replaced.
//! 3. Constants must agree with the op's to the precision of the element type.

use crate::{Error, Graph};

mod activation;
mod attention;
mod normalisation;
mod polynomial;
pub(super) mod rounded;

/// Runs the pass; returns the number of regions replaced.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut found = 0;
    for id in graph.node_ids() {
        if graph.find_node(id).is_none() {
            continue;
        }
        let replaced = activation::at(graph, id)
            .or_else(|| normalisation::at(graph, id))
            .or_else(|| attention::at(graph, id));
        found += usize::from(replaced.is_some());
    }
    Ok(found)
}
