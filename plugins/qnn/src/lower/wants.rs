//! Which order of axes each node wants.
//!
//! Not here: the plan of a part made from that (`polychip_lowering::layout::planned`).

use polychip_lowering::{Layout, Node, Outcome, Part, TensorIndex, layout};
use polychip_ops::{Attr, Op};

use crate::info::Info;
use polychip_lowering::layout::plan::Want;

const ROW: Want = Want::Fixed(Layout::RowMajor);
const LAST: Want = Want::Fixed(Layout::ChannelsLast);

/// What a node wants of its inputs and of its outputs.
pub(super) fn wants(node: &Node, infos: &[Outcome<Info>]) -> (Want, Want) {
    let shape = |tensor: Option<TensorIndex>| {
        tensor
            .and_then(|tensor| infos[tensor].as_ref().ok())
            .map(|info| info.shape.clone())
            .unwrap_or_default()
    };
    let input = shape(node.input(0));
    let rank = input.len();
    match node.op {
        Op::Conv
        | Op::QLinearConv
        | Op::ConvTranspose
        | Op::MaxPool
        | Op::AveragePool
        | Op::GlobalMaxPool
        | Op::GlobalAveragePool
        | Op::Resize
        | Op::DepthToSpace
        | Op::SpaceToDepth
        | Op::GridSample
        | Op::LRN
        | Op::InstanceNormalization
        | Op::GroupNormalization
        | Op::BatchNormalization => (LAST, LAST),
        Op::Softmax | Op::LogSoftmax => {
            let axis = polychip_ops::axis::normalise(node.attributes.int(Attr::Axis).unwrap_or(-1), rank);
            // the library computes along the last axis in memory
            match axis {
                Some(1) if rank >= 3 => (LAST, LAST),
                _ => (ROW, ROW),
            }
        }
        Op::ReduceMax
        | Op::ReduceMin
        | Op::ReduceMean
        | Op::ReduceSum
        | Op::ReduceSumSquare
        | Op::ReduceProd => match node.attributes.int(Attr::Keepdims).unwrap_or(1) {
            0 if shape(node.output(0)).len() <= 2 => (Want::Planned, ROW),
            0 => (ROW, ROW),
            _ => (Want::Planned, Want::Planned),
        },
        Op::ArgMax | Op::ArgMin => match node.attributes.int(Attr::Keepdims).unwrap_or(1) {
            0 => (ROW, ROW),
            _ => (Want::Planned, Want::Planned),
        },
        Op::Transpose => transposition(node, rank),
        Op::Tile | Op::Expand if shape(node.output(0)).len() != rank => (ROW, ROW),
        Op::Reshape
        | Op::Squeeze
        | Op::Unsqueeze
        | Op::Flatten
        | Op::Gather
        | Op::GatherElements
        | Op::GatherND
        | Op::ScatterElements
        | Op::ScatterND
        | Op::Gemm
        | Op::MatMul
        | Op::QLinearMatMul
        | Op::LayerNormalization
        | Op::RMSNormalization
        | Op::TopK => (ROW, ROW),
        _ => (Want::Planned, Want::Planned),
    }
}

/// A transposition of the model is none between the two orders it leads from and to.
fn transposition(node: &Node, rank: usize) -> (Want, Want) {
    let Some(perm) = node.attributes.ints(Attr::Perm) else {
        return (ROW, ROW);
    };
    let perm: Vec<usize> = perm.iter().map(|&axis| axis as usize).collect();
    let (row, last) = (Layout::RowMajor, Layout::ChannelsLast);
    if rank >= 3 && perm == row.to(last, rank) {
        (LAST, ROW)
    } else if rank >= 3 && perm == last.to(row, rank) {
        (ROW, LAST)
    } else {
        (ROW, ROW)
    }
}

/// Whether a node is lowered in either order.
pub(crate) fn is_planned(node: &Node, infos: &[Outcome<Info>]) -> bool {
    let (input, output) = wants(node, infos);
    input == Want::Planned || output == Want::Planned
}

/// The planned order of each node of a part.
pub(super) fn layouts(part: &Part, infos: &[Outcome<Info>]) -> Vec<Layout> {
    let extents = |tensor: TensorIndex| {
        let info = infos[tensor].as_ref().ok()?;
        Some((&info.shape[..], info.ty.bytes()))
    };
    layout::planned(part, extents, |node| wants(node, infos))
}
