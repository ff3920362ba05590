//! What a node's work is, for rooflines.

use polychip_ops::Op;
use polychip_ops::operator::Gemm;
use polychip_sdk::{GraphView, NodeView};

/// Multiply-adds, and bytes to and from memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiply-adds of a product or convolution.
    pub macs: u64,
    /// Bytes of the node's tensors.
    pub bytes: u64,
}

/// A node's work on a chip that stores reals in so many bytes, and integers that encode reals as they are.
#[must_use]
pub fn work(graph: &GraphView<'_>, node: &NodeView<'_>, real_bytes: u64) -> Work {
    let elements = |tensor: u32| -> u64 {
        let shape = graph.tensor(tensor).shape().unwrap_or_default();
        shape
            .iter()
            .fold(1, |product, &extent| product.saturating_mul(extent as u64))
    };
    let tensors = node.inputs().chain(node.outputs()).flatten();
    let width = |tensor: u32| {
        let tensor = graph.tensor(tensor);
        let stored = tensor.encoding().and_then(|_| tensor.dtype().byte_width());
        stored.map_or(real_bytes, |width| width as u64)
    };
    let bytes = tensors
        .map(|tensor| elements(tensor).saturating_mul(width(tensor)))
        .fold(0, u64::saturating_add);
    let made = node.output(0).map_or(0, elements);
    let shape = |place: usize| node.input(place).and_then(|tensor| graph.tensor(tensor).shape());
    let terms = match (node.op(), shape(0), shape(1)) {
        // [m, c / group, h, w]
        (Op::Conv, _, Some(weights)) => weights[1..].iter().product(),
        // [c, m / group, h, w], each input element to each place of the kernel
        (Op::ConvTranspose, Some(from), Some(weights)) => {
            let all: usize = weights[1..].iter().product();
            let macs = from.iter().product::<usize>().saturating_mul(all) as u64;
            return Work { macs, bytes };
        }
        (Op::MatMul, Some(from), _) => from.last().copied().unwrap_or(0),
        (Op::Gemm, Some(from), _) => match node.typed::<Gemm>() {
            Ok(gemm) if gemm.trans_a => from.first().copied().unwrap_or(0),
            _ => from.last().copied().unwrap_or(0),
        },
        _ => 0,
    };
    Work {
        macs: made.saturating_mul(terms as u64),
        bytes,
    }
}
