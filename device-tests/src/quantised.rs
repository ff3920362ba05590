//! Quantised share of a canonical graph: the nodes that an integer-only device could support.
//!
//! Invariants:
//! 1. A node counts as quantised where every tensor of reals that it reads or gives has an encoding;
//!    constant parameters that are no data (limits of Clip, scales of Resize) may be floats.
//! 2. QuantizeLinear and DequantizeLinear are borders and count on neither side, nor do nodes without
//!    any tensor of reals.

use polychip_graph::{Graph, Node, TensorId};
use polychip_ops::Op;

/// What of a graph is quantised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// Nodes that compute on reals.
    pub nodes: usize,
    /// Of those, the ones whose tensors are all quantised.
    pub quantised: usize,
    /// Multiply-accumulates of Conv, Gemm and MatMul nodes.
    pub macs: u64,
    /// Of those, the ones in quantised nodes.
    pub quantised_macs: u64,
    /// QuantizeLinear and DequantizeLinear nodes.
    pub borders: usize,
    /// The nodes that are not quantised: `op "name": float tensors`.
    pub rest: Vec<String>,
}

/// Looks through a canonical graph.
#[must_use]
pub fn share(graph: &Graph) -> Share {
    let mut share = Share::default();
    for (_, node) in graph.nodes() {
        if matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear) {
            share.borders += 1;
            continue;
        }
        let tensors = || node.reads().chain(node.writes()).map(|id| graph.tensor(id));
        let real = |tensor: &&polychip_graph::Tensor| tensor.encoding.is_some() || tensor.ty.dtype.is_float();
        if !tensors().any(|tensor| real(&tensor)) {
            continue;
        }
        let macs = multiply_accumulates(graph, node).unwrap_or(0);
        share.nodes += 1;
        share.macs += macs;
        let plain: Vec<&str> = node
            .inputs
            .iter()
            .enumerate()
            .filter(|&(index, _)| !is_setting(node.op, index))
            .filter_map(|(_, input)| *input)
            .chain(node.writes())
            .map(|id| graph.tensor(id))
            .filter(|tensor| tensor.encoding.is_none() && tensor.ty.dtype.is_float())
            .map(|tensor| tensor.name.as_str())
            .collect();
        if plain.is_empty() {
            share.quantised += 1;
            share.quantised_macs += macs;
        } else {
            share
                .rest
                .push(format!("{} {:?}: {}", node.label(), node.name, plain.join(", ")));
        }
    }
    share
}

fn is_setting(op: Op, index: usize) -> bool {
    matches!((op, index), (Op::Clip | Op::Resize, 1..) | (Op::Pad, 2))
}

fn multiply_accumulates(graph: &Graph, node: &Node) -> Option<u64> {
    let sizes = |id: Option<TensorId>| graph.tensor(id?).ty.sizes();
    let product = |sizes: &[usize]| sizes.iter().map(|&size| size as u64).product::<u64>();
    let given = product(&sizes(node.output(0))?);
    match node.op {
        Op::Conv => Some(given * product(sizes(node.input(1))?.get(1..)?)),
        Op::MatMul => Some(given * *sizes(node.input(0))?.last()? as u64),
        Op::Gemm => {
            let transposed = node.typed::<polychip_ops::operator::Gemm>().ok()?.trans_a;
            Some(given * sizes(node.input(0))?[usize::from(!transposed)] as u64)
        }
        _ => None,
    }
}
