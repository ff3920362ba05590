//! How much folding may compute and keep in all, so that a small file cannot ask for hours or for all memory.
//!
//! Invariants:
//! 1. Work is counted before a node is computed; what does not fit stays in the graph and is computed in each run.
//! 2. Nothing depends on a clock: same graph, same nodes folded.

use std::cell::Cell;

use polychip_ops::Op;

use crate::{Container, Graph, Node, TensorId};

/// Work for each byte of the model's own constants: weights may be cast, transposed and reshaped a few times.
const WORK_PER_BYTE: u64 = 32;
/// Bytes for each byte of the model's own constants: from 4 bits to floats is eight.
const BYTES_PER_BYTE: u64 = 8;

/// What is left for a graph and all bodies in it.
#[derive(Debug)]
pub(in crate::passes) struct Budget {
    work: Cell<u64>,
    bytes: Cell<u64>,
}

impl Budget {
    /// What a graph may take: what any may, and more by its own constants.
    pub(in crate::passes) fn of(graph: &Graph, work: u64, bytes: u64) -> Budget {
        let constants = constants(graph);
        let all = |any: u64, per_byte: u64| Cell::new(any.saturating_add(constants.saturating_mul(per_byte)));
        Budget {
            work: all(work, WORK_PER_BYTE),
            bytes: all(bytes, BYTES_PER_BYTE),
        }
    }

    /// Takes the work of a node, where there is as much.
    pub(super) fn take_work(&self, graph: &Graph, node: &Node) -> bool {
        take(&self.work, work(graph, node))
    }

    /// Takes room for constants, where there is as much.
    pub(super) fn take_bytes(&self, bytes: usize) -> bool {
        take(&self.bytes, bytes as u64)
    }
}

fn take(left: &Cell<u64>, amount: u64) -> bool {
    let rest = left.get().checked_sub(amount);
    left.set(rest.unwrap_or(left.get()));
    rest.is_some()
}

fn constants(graph: &Graph) -> u64 {
    let own = graph.tensors().filter_map(|(_, tensor)| tensor.data.as_ref());
    let own: u64 = own.map(|data| data.bytes.len() as u64).sum();
    let bodies = graph.nodes().flat_map(|(_, node)| &node.bodies);
    bodies.fold(own, |all, body| all.saturating_add(constants(&body.graph)))
}

/// Bytes that a node reads and makes, and its multiply-adds.
fn work(graph: &Graph, node: &Node) -> u64 {
    let elements = |tensor: TensorId| {
        let tensor = graph.tensor(tensor);
        let known = tensor.typed && tensor.container == Container::Tensor;
        known.then(|| tensor.ty.elements()).flatten().unwrap_or(1) as u64
    };
    // strings count as a word each
    let bytes = |tensor: TensorId| {
        let count = elements(tensor);
        let dtype = graph.tensor(tensor).ty.dtype;
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| dtype.byte_len(count));
        bytes.map_or(count.saturating_mul(8), |bytes| bytes as u64)
    };
    let moved = node
        .reads()
        .chain(node.writes())
        .map(bytes)
        .fold(0, u64::saturating_add);
    moved.saturating_add(multiply_adds(node, &elements))
}

/// Multiply-adds of an op that combines two operands. Exact for a matrix product, where each of the three extents
/// belongs to two of the three tensors; for a convolution, low by a factor of at most the window size.
fn multiply_adds(node: &Node, elements: &dyn Fn(TensorId) -> u64) -> u64 {
    let contracts = matches!(
        node.op,
        Op::MatMul
            | Op::Gemm
            | Op::MatMulInteger
            | Op::QLinearMatMul
            | Op::Conv
            | Op::ConvInteger
            | Op::QLinearConv
            | Op::ConvTranspose
            | Op::DeformConv
            | Op::Einsum
            | Op::Attention
            | Op::LSTM
            | Op::GRU
            | Op::RNN
            | Op::DFT
            | Op::STFT
            | Op::NonMaxSuppression
    );
    if !contracts {
        return 0;
    }
    let mut sizes: Vec<u64> = node.reads().map(elements).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let factor = |k: usize| sizes.get(k).copied().unwrap_or(1).max(1) as f64;
    let made = node.writes().map(elements).max().unwrap_or(1).max(1) as f64;
    // saturates
    (factor(0) * factor(1) * made).sqrt() as u64
}
