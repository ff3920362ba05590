//! Merges nodes that compute the same values from the same tensors, and equal small constants.
//!
//! Invariants:
//! 1. Only pure nodes without bodies merge; a node that gives an output of the graph stays.
//! 2. The first in graph order remains.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::{Error, Graph, NodeId, TensorId};

use super::pattern;

/// Largest constant that is compared, in bytes.
const CONSTANT: usize = 1024;

/// Runs the pass; returns the number of nodes and constants merged away.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    Ok(constants(graph) + nodes(graph))
}

fn constants(graph: &mut Graph) -> usize {
    let mut first: BTreeMap<(u32, &[u8]), SmallVec<[TensorId; 2]>> = BTreeMap::new();
    let mut merged = Vec::new();
    for (id, tensor) in graph.tensors() {
        let Some(data) = tensor.data.as_ref().filter(|data| data.bytes.len() <= CONSTANT) else {
            continue;
        };
        let is_open = tensor.ty.elements().is_none();
        if is_open || graph.consumers(id).is_empty() || graph.is_output(id) || graph.is_input(id) {
            continue;
        }
        let equal = first.entry((tensor.ty.dtype.code(), &data.bytes)).or_default();
        let is_same = |other: &&TensorId| {
            let other = graph.tensor(**other);
            other.ty.shape == tensor.ty.shape && other.encoding == tensor.encoding
        };
        match equal.iter().find(is_same) {
            Some(&other) => merged.push((id, other)),
            None => equal.push(id),
        }
    }
    for &(from, to) in &merged {
        graph.replace_uses(from, to);
    }
    merged.len()
}

fn nodes(graph: &mut Graph) -> usize {
    // by op and inputs; the rest is compared
    type Inputs = SmallVec<[Option<TensorId>; 4]>;
    let mut first: BTreeMap<(u32, Inputs), SmallVec<[NodeId; 2]>> = BTreeMap::new();
    let mut merged = 0;
    for id in graph.node_ids() {
        let node = graph.node(id);
        if node.inputs.is_empty() || !node.bodies.is_empty() || !pattern::is_pure(node) {
            continue;
        }
        let inputs = Inputs::from_slice(&node.inputs);
        let equal = first.entry((node.op.code(), inputs)).or_default();
        let earlier = equal.iter().copied().find(|&other| same(graph, id, other));
        match earlier {
            None => equal.push(id),
            Some(_) if graph.node(id).writes().any(|output| graph.is_output(output)) => {}
            Some(earlier) => {
                let pairs: Vec<(Option<TensorId>, Option<TensorId>)> = node
                    .outputs
                    .iter()
                    .copied()
                    .zip(graph.node(earlier).outputs.iter().copied())
                    .collect();
                graph.remove_node(id);
                for (from, to) in pairs {
                    if let (Some(from), Some(to)) = (from, to) {
                        graph.replace_uses(from, to);
                    }
                }
                merged += 1;
            }
        }
    }
    merged
}

/// Whether two nodes with equal op and inputs give the same.
fn same(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let (a, b) = (graph.node(a), graph.node(b));
    let encoding = |id: Option<TensorId>| id.and_then(|id| graph.tensor(id).encoding.as_ref());
    a.attributes == b.attributes
        && a.outputs.len() == b.outputs.len()
        && a.outputs
            .iter()
            .zip(&b.outputs)
            .all(|(a, b)| (a.is_none() || b.is_some()) && encoding(*a) == encoding(*b))
}
