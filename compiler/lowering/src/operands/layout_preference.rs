//! Which order of axes each node wants.
//!
//! Not here: the plan of a part made from that (`layout::planned`).

use polychip_ops::operator::{Along, ArgReduce, Reduce, Transpose};
use polychip_ops::{Op, OpClass};

use super::builder::Vendor;
use super::info::Info;
use crate::layout::plan::Want;
use crate::{Layout, Node, Outcome, Part, TensorIndex, layout};

const ROW: Want = Want::Fixed(Layout::RowMajor);
const LAST: Want = Want::Fixed(Layout::ChannelsLast);
const EITHER: (Want, Want) = (Want::Planned, Want::Planned);

/// What a node wants of its inputs and of its outputs.
pub(super) fn layout_preference(node: &Node, infos: &[Outcome<Info>], vendor: &dyn Vendor) -> (Want, Want) {
    let rank = |tensor: Option<TensorIndex>| {
        let info = tensor.and_then(|tensor| infos[tensor].as_ref().ok());
        info.map_or(0, |info| info.shape.len())
    };
    let axes = rank(node.input(0));
    if let Some(order) = vendor.order(node.op, axes) {
        return (Want::Fixed(order), Want::Fixed(order));
    }
    match node.op.class() {
        OpClass::Convolution | OpClass::Pooling | OpClass::Resize => return (LAST, LAST),
        OpClass::Product | OpClass::Gather => return (ROW, ROW),
        _ => {}
    }
    match node.op {
        Op::DepthToSpace
        | Op::SpaceToDepth
        | Op::GridSample
        | Op::LRN
        | Op::InstanceNormalization
        | Op::GroupNormalization
        | Op::BatchNormalization => (LAST, LAST),
        Op::Softmax | Op::LogSoftmax if vendor.traits().softmax_last => {
            let along = node.typed::<Along>().ok();
            match along.and_then(|along| polychip_ops::axis::normalise(along.axis, axes)) {
                Some(1) if axes >= 3 => (LAST, LAST),
                _ => (ROW, ROW),
            }
        }
        Op::ArgMax | Op::ArgMin if node.typed::<ArgReduce>().is_ok_and(|arg| !arg.keepdims) => (ROW, ROW),
        _ if node.typed::<Reduce>().is_ok_and(|reduce| !reduce.keepdims) => match rank(node.output(0)) {
            0..=2 => (Want::Planned, ROW),
            _ => (ROW, ROW),
        },
        Op::Transpose => transposition(node, axes),
        Op::Tile | Op::Expand if rank(node.output(0)) != axes => (ROW, ROW),
        Op::Reshape
        | Op::Squeeze
        | Op::Unsqueeze
        | Op::Flatten
        | Op::LayerNormalization
        | Op::RMSNormalization
        | Op::TopK => (ROW, ROW),
        _ => EITHER,
    }
}

/// A transposition of the model is none between the two orders it leads from and to: names of axes change.
fn transposition(node: &Node, rank: usize) -> (Want, Want) {
    let perm = node
        .typed::<Transpose>()
        .ok()
        .and_then(|transpose| transpose.perm);
    let perm = perm.unwrap_or_default();
    let (row, last) = (Layout::RowMajor, Layout::ChannelsLast);
    let is = |to: Vec<usize>| rank >= 3 && perm.iter().map(|&axis| axis as usize).eq(to);
    if is(row.to(last, rank)) {
        (LAST, ROW)
    } else if is(last.to(row, rank)) {
        (ROW, LAST)
    } else {
        (ROW, ROW)
    }
}

/// Whether a node is lowered in either order.
pub(super) fn is_planned(node: &Node, infos: &[Outcome<Info>], vendor: &dyn Vendor) -> bool {
    let (input, output) = layout_preference(node, infos, vendor);
    [input, output].contains(&Want::Planned)
}

/// The planned order of each node of a part.
pub(super) fn layouts(part: &Part, infos: &[Outcome<Info>], vendor: &dyn Vendor) -> Vec<Layout> {
    let stored = |tensor: TensorIndex| {
        let info = infos[tensor].as_ref().ok()?;
        Some((&info.shape[..], info.ty.bytes()))
    };
    layout::planned(part, stored, |node| layout_preference(node, infos, vendor))
}
