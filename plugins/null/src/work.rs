//! Work of nodes: multiply-adds and bytes of a node, and their price in the script.
//!
//! Invariant: unknown extents count as 1, so that a cost always exists.

use polychip_ops::Op;
use polychip_ops::operator::Gemm;
use polychip_sdk::{GraphView, NodeView};

use crate::script::DeviceScript;

/// Time and energy of some nodes, without launch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Price {
    pub(crate) ns: f64,
    pub(crate) nj: f64,
    /// The share of `ns` that memory takes.
    pub(crate) memory_ns: f64,
    pub(crate) bytes: f64,
}

impl Price {
    /// The price of these nodes of a graph.
    pub(crate) fn of(
        script: &DeviceScript,
        graph: &GraphView<'_>,
        nodes: impl Iterator<Item = usize>,
    ) -> Price {
        let mut total = Price::default();
        for index in nodes {
            let node = graph.node(index);
            let work = script.work(node.op_name());
            let (macs, bytes) = (macs(graph, &node), bytes(graph, &node));
            let others = if macs > 0.0 { 0.0 } else { written(graph, &node) };
            total.ns += work.fixed_ns + (work.ps_per_mac * macs + work.ps_per_element * others) / 1e3;
            total.ns += work.ps_per_byte * bytes / 1e3;
            total.memory_ns += work.ps_per_byte * bytes / 1e3;
            total.bytes += bytes;
            total.nj += work.fixed_nj + (work.pj_per_mac * macs + work.pj_per_byte * bytes) / 1e3;
        }
        total
    }
}

fn extents(graph: &GraphView<'_>, tensor: Option<u32>) -> Vec<f64> {
    let dims = tensor.and_then(|tensor| graph.tensor(tensor).dims());
    dims.unwrap_or_default()
        .iter()
        .map(|&dim| if dim < 0 { 1.0 } else { dim as f64 })
        .collect()
}

/// Elements that a node writes.
fn written(graph: &GraphView<'_>, node: &NodeView<'_>) -> f64 {
    let outputs = node.outputs().flatten();
    outputs
        .map(|tensor| extents(graph, Some(tensor)).iter().product::<f64>())
        .sum()
}

/// Multiply-adds of a node: those of matrix products and convolutions, else 0.
pub(crate) fn macs(graph: &GraphView<'_>, node: &NodeView<'_>) -> f64 {
    let outputs: f64 = extents(graph, node.output(0)).iter().product();
    match node.op() {
        Op::Conv | Op::ConvInteger | Op::QLinearConv => {
            // the weight is [out, in / group, kernel…]
            let weight = if node.op() == Op::QLinearConv { 3 } else { 1 };
            let weight = extents(graph, node.input(weight));
            outputs * weight.iter().skip(1).product::<f64>()
        }
        Op::ConvTranspose => {
            let inputs: f64 = extents(graph, node.input(0)).iter().product();
            let weight = extents(graph, node.input(1));
            inputs * weight.iter().skip(1).product::<f64>()
        }
        Op::MatMul | Op::Gemm | Op::MatMulInteger | Op::QLinearMatMul => {
            let left = extents(graph, node.input(0));
            let transposed = node.typed::<Gemm>().is_ok_and(|gemm| gemm.trans_a);
            let inner = if transposed { left.first() } else { left.last() };
            outputs * inner.copied().unwrap_or(1.0)
        }
        _ => 0.0,
    }
}

/// Bytes that a node reads and writes.
pub(crate) fn bytes(graph: &GraphView<'_>, node: &NodeView<'_>) -> f64 {
    node.inputs()
        .chain(node.outputs())
        .flatten()
        .map(|tensor| {
            let bits = graph.tensor(tensor).dtype().bits().unwrap_or(64) as f64;
            extents(graph, Some(tensor)).iter().product::<f64>() * bits / 8.0
        })
        .sum()
}
