//! Checks tables that are indexed by position: angles of rotations, and position embeddings.
//!
//! Invariant: a table with too few rows for the capacity is refused when the model is opened, not
//! when a text reaches its end.

use polychip_graph::{Graph, TensorId};
use polychip_ops::Op;
use polychip_ops::operator::Along;

use super::tensors::dims;
use crate::{Error, Result};

/// Whether a tensor is the positions, in any shape and type.
fn are_positions(graph: &Graph, id: TensorId, positions: TensorId) -> bool {
    let mut at = id;
    loop {
        if at == positions {
            return true;
        }
        let Some(node) = graph.producer(at).map(|id| graph.node(id)) else {
            return false;
        };
        let moves = matches!(
            node.op,
            Op::Cast | Op::Identity | Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten | Op::Expand
        );
        match node.input(0).filter(|_| moves) {
            Some(from) => at = from,
            None => return false,
        }
    }
}

/// Refuses tables with fewer positions than the capacity.
pub(super) fn check(graph: &Graph, capacity: usize) -> Result<()> {
    let Some(positions) = graph.input_named("positions") else {
        return Ok(());
    };
    for (_, node) in graph.nodes() {
        let (tables, index, axis): (&[usize], _, _) = match node.op {
            Op::RotaryEmbedding => (&[1, 2], 3, 0),
            Op::Gather => match node.typed::<Along>() {
                Ok(gather) => (&[0], 1, gather.axis),
                Err(_) => continue,
            },
            _ => continue,
        };
        if !node
            .input(index)
            .is_some_and(|id| are_positions(graph, id, positions))
        {
            continue;
        }
        for id in tables.iter().filter_map(|&slot| node.input(slot)) {
            let Some(sizes) = dims(graph, id) else { continue };
            let axis = if axis < 0 { axis + sizes.len() as i64 } else { axis };
            let count = usize::try_from(axis).ok().and_then(|axis| sizes.get(axis));
            if let Some(count) = count.filter(|&&count| count < capacity) {
                return Err(Error::unsupported(format!(
                    "node {:?} ({}) of the graph looks positions up in {:?}, which has {count} rows, fewer than the context length of {capacity}",
                    node.name,
                    node.label(),
                    graph.tensor(id).name
                )));
            }
        }
    }
    Ok(())
}
