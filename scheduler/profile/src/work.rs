//! Arithmetic and memory traffic of a node, which the roofline prices.
//!
//! Counts are multiply-adds and bytes. A size that is unknown before the run counts as one.

use std::collections::BTreeSet;

use polychip_graph::{Graph, Node, Tensor, TensorId};
use polychip_ops::operator::Gemm;
use polychip_ops::{Dim, Op};

/// The work of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Multiply-adds.
    pub macs: u64,
    /// Bytes read and written, constants included.
    pub bytes: u64,
}

/// The work of a node of a graph.
pub fn of_node(graph: &Graph, node: &Node) -> Work {
    let bytes = node
        .reads()
        .chain(node.writes())
        .map(|id| bytes(graph.tensor(id)))
        .fold(0, u64::saturating_add);
    Work {
        macs: macs(graph, node),
        bytes,
    }
}

/// Bytes of a tensor.
pub fn bytes(tensor: &Tensor) -> u64 {
    if let Some(data) = &tensor.data
        && tensor
            .encoding
            .as_ref()
            .is_some_and(|encoding| encoding.block_layout().is_some())
    {
        return data.bytes.len() as u64;
    }
    let elements = usize::try_from(elements(tensor)).unwrap_or(usize::MAX);
    tensor
        .ty
        .dtype
        .byte_len(elements)
        .map_or(u64::MAX, |bytes| bytes as u64)
}

/// Bytes that a graph reads and writes, without constants.
#[must_use]
pub fn border_of(graph: &Graph) -> u64 {
    let ids: BTreeSet<TensorId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    ids.iter()
        .map(|id| bytes(graph.tensor(*id)))
        .fold(0, u64::saturating_add)
}

fn elements(tensor: &Tensor) -> u64 {
    tensor
        .ty
        .shape
        .iter()
        .flatten()
        .map(size)
        .fold(1, u64::saturating_mul)
}

fn size(dim: &Dim) -> u64 {
    dim.known().map_or(1, |size| size as u64)
}

fn macs(graph: &Graph, node: &Node) -> u64 {
    let shape = |id: Option<TensorId>| -> Vec<u64> {
        id.and_then(|id| graph.tensor(id).ty.shape.as_ref())
            .map_or_else(Vec::new, |s| s.iter().map(size).collect())
    };
    let output = node.output(0).map_or(1, |id| elements(graph.tensor(id)));
    let input = node.input(0).map_or(1, |id| elements(graph.tensor(id)));
    let product = |values: &[u64]| values.iter().copied().fold(1, u64::saturating_mul);
    match node.op {
        // weights [out channels, in channels / groups, kernel...]
        Op::Conv | Op::ConvInteger => {
            output.saturating_mul(product(shape(node.input(1)).get(1..).unwrap_or_default()))
        }
        Op::QLinearConv => output.saturating_mul(product(shape(node.input(3)).get(1..).unwrap_or_default())),
        // weights [in channels, out channels / groups, kernel...]: each input value meets every tap
        Op::ConvTranspose => input.saturating_mul(product(shape(node.input(1)).get(1..).unwrap_or_default())),
        Op::MatMul | Op::MatMulInteger | Op::QLinearMatMul => {
            output.saturating_mul(shape(node.input(0)).last().copied().unwrap_or(1))
        }
        Op::Gemm => {
            let a = shape(node.input(0));
            let transposed = node.typed::<Gemm>().is_ok_and(|gemm| gemm.trans_a);
            let k = if transposed { a.first() } else { a.last() };
            output.saturating_mul(k.copied().unwrap_or(1))
        }
        Op::Attention => {
            // scores and weighted values: query rows × key rows × head size, twice
            let keys = shape(node.input(1));
            let rows = keys.iter().rev().nth(1).copied().unwrap_or(1);
            input.saturating_mul(rows).saturating_mul(2)
        }
        // each step of each direction meets the weights of its gates, those for the input and those for the state
        Op::LSTM | Op::GRU | Op::RNN => {
            let steps = product(shape(node.input(0)).get(..2).unwrap_or_default());
            let weights = |index| product(&shape(node.input(index)));
            steps.saturating_mul(weights(1).saturating_add(weights(2)))
        }
        _ => output.max(input),
    }
}

#[cfg(test)]
mod tests {
    use polychip_ops::{DType, TensorType};

    use super::*;

    fn work(op: Op, inputs: &[&[usize]], output: &[usize]) -> Work {
        let mut graph = Graph::new("work");
        let mut add =
            |shape: &[usize]| graph.add_tensor(Tensor::new("t", TensorType::known(DType::F32, shape)));
        let inputs: Vec<_> = inputs.iter().map(|shape| Some(add(shape))).collect();
        let output = add(output);
        let id = graph.add_node(Node::new(op, inputs, vec![Some(output)]));
        of_node(&graph, graph.node(id))
    }

    #[test]
    fn a_convolution_counts_each_tap_of_each_output() {
        let found = work(Op::Conv, &[&[1, 4, 8, 8], &[6, 4, 3, 3]], &[1, 6, 8, 8]);
        assert_eq!(found.macs, 6 * 8 * 8 * 4 * 9);
        assert_eq!(found.bytes, 4 * (4 * 64 + 6 * 4 * 9 + 6 * 64));
    }

    #[test]
    fn a_recurrence_counts_the_weights_of_each_step() {
        let (hidden, input, steps) = (128, 64, 500);
        let shapes: [&[usize]; 3] = [
            &[steps, 1, input],
            &[1, 4 * hidden, input],
            &[1, 4 * hidden, hidden],
        ];
        let found = work(Op::LSTM, &shapes, &[steps, 1, 1, hidden]);
        assert_eq!(found.macs, (steps * 4 * hidden * (input + hidden)) as u64);
    }

    #[test]
    fn a_matrix_product_counts_its_inner_size() {
        assert_eq!(
            work(Op::MatMul, &[&[2, 3, 5], &[5, 7]], &[2, 3, 7]).macs,
            2 * 3 * 5 * 7
        );
    }
}
