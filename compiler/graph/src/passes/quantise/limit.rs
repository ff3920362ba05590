//! Relu and Clip between what computes and its quantise.
//!
//! Rounding is monotone, so that limiting and rounding may change places. Where the encoding ends at the
//! limits, its clamp does the op's work and the op goes; elsewhere it limits what is rounded already, and
//! the tensor before it has the encoding of the one behind.
//!
//! Invariant: the integers behind the op stay equal to the bit.

use polychip_ops::{DType, Op};

use super::scale;
use crate::passes::{no_op, pattern};
use crate::{Encoding, Graph, Node, NodeId, Tensor};

/// Runs over the graph; returns the number of changes.
pub(super) fn run(graph: &mut Graph) -> usize {
    let mut changes = 0;
    for id in graph.node_ids() {
        changes += usize::from(at(graph, id).is_some());
    }
    changes
}

fn at(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.find_node(id)?;
    let (low, high) = limits(graph, node)?;
    let (x, y) = (node.input(0)?, node.output(0)?);
    let result = graph.tensor(y);
    let own = result.encoding.clone().filter(Encoding::is_per_tensor)?;
    let dtype = result.ty.dtype;
    let ends = range(dtype)?;
    let scale = *own.scales.first()?;
    let zero = own.zero_points.first().copied().unwrap_or(0);
    let stored = |real: f64| {
        let code = (real as f32 / scale).round_ties_even() + zero as f32;
        code.clamp(ends.0 as f32, ends.1 as f32)
    };
    let whole = stored(low) == ends.0 as f32 && stored(high) == ends.1 as f32;
    let source = graph.tensor(x);
    let same_grid = source.encoding.as_ref() == Some(&own) && source.ty.dtype == dtype;
    if whole && same_grid {
        return no_op::bypass(graph, id, x).then_some(());
    }
    let inner = source.typed && source.encoding.is_none() && source.ty.dtype == own.real;
    let maker = graph.producer(x).filter(|_| inner)?;
    if graph.only_consumer(x) != Some(id) || !scale::computes(graph.node(maker)) {
        return None;
    }
    if whole {
        graph.remove_node(id);
        graph.edit_node(maker, |node| {
            for output in node.outputs.iter_mut().filter(|output| **output == Some(x)) {
                *output = Some(y);
            }
        });
    } else {
        let Tensor { ty, encoding, .. } = graph.tensor_mut(x);
        ty.dtype = dtype;
        *encoding = Some(own);
    }
    Some(())
}

/// The limits of Relu, or of Clip with constant ones.
fn limits(graph: &Graph, node: &Node) -> Option<(f64, f64)> {
    let limit = |index: usize, none: f64| match node.input(index) {
        None => Some(none),
        Some(id) => pattern::scalar(graph, id),
    };
    let (low, high) = match node.op {
        Op::Relu => (0.0, f64::INFINITY),
        Op::Clip => (limit(1, f64::NEG_INFINITY)?, limit(2, f64::INFINITY)?),
        _ => return None,
    };
    (low <= high).then_some((low, high))
}

/// The smallest and the largest integer of a storage type whose codes are exact in `f32`.
fn range(dtype: DType) -> Option<(i32, i32)> {
    match dtype {
        DType::U8 => Some((0, 255)),
        DType::I8 => Some((-128, 127)),
        DType::U16 => Some((0, 65535)),
        DType::I16 => Some((-32768, 32767)),
        _ => None,
    }
}
