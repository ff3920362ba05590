//! Which order of axes each node wants.
//!
//! Not here: the plan of a part made from that (`polychip_lowering::layout::planned`).

use polychip_lowering::layout::plan::Want;
use polychip_lowering::{Layout, Node, OpClass, Outcome, Part, TensorIndex, layout};
use polychip_ops::{Attr, Op};

use crate::info::Info;

const ROW: (Want, Want) = (Want::Fixed(Layout::RowMajor), Want::Fixed(Layout::RowMajor));
const LAST: (Want, Want) = (
    Want::Fixed(Layout::ChannelsLast),
    Want::Fixed(Layout::ChannelsLast),
);
const EITHER: (Want, Want) = (Want::Planned, Want::Planned);

/// What a node wants of its inputs and of its outputs.
pub(super) fn wants(node: &Node, infos: &[Outcome<Info>]) -> (Want, Want) {
    let rank = |tensor: Option<TensorIndex>| {
        let info = tensor.and_then(|tensor| infos[tensor].as_ref().ok());
        info.map_or(0, |info| info.shape.len())
    };
    let images = matches!(
        node.op,
        Op::Conv
            | Op::MaxPool
            | Op::AveragePool
            | Op::GlobalMaxPool
            | Op::GlobalAveragePool
            | Op::Resize
            | Op::DepthToSpace
            | Op::SpaceToDepth
            | Op::BatchNormalization
            | Op::PRelu
    );
    // of a PRelu the channels must be last, and of an image they are elsewhere
    if images && (node.op != Op::PRelu || rank(node.input(0)) >= 3) {
        return LAST;
    }
    if OpClass::of(node.op) == OpClass::Reduction && node.attributes.int(Attr::Keepdims) == Some(0) {
        return ROW;
    }
    match node.op {
        Op::Tile | Op::Expand if rank(node.input(0)) != rank(node.output(0)) => ROW,
        Op::Transpose => transpose(node, rank(node.input(0))),
        Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze | Op::Where => ROW,
        Op::Gather | Op::Gemm | Op::MatMul | Op::LayerNormalization => ROW,
        _ => EITHER,
    }
}

/// Between the two orders, names of axes change and nothing moves.
fn transpose(node: &Node, axes: usize) -> (Want, Want) {
    let perm = node.attributes.ints(Attr::Perm).unwrap_or(&[]);
    let is =
        |from: Layout, to: Layout| axes >= 3 && perm.iter().map(|&axis| axis as usize).eq(from.to(to, axes));
    if is(Layout::RowMajor, Layout::ChannelsLast) {
        (LAST.0, ROW.1)
    } else if is(Layout::ChannelsLast, Layout::RowMajor) {
        (ROW.0, LAST.1)
    } else {
        ROW
    }
}

/// Whether a node is lowered in either order.
pub(super) fn is_planned(node: &Node, infos: &[Outcome<Info>]) -> bool {
    let (input, output) = wants(node, infos);
    input == Want::Planned || output == Want::Planned
}

/// The planned order of each node of a part.
pub(super) fn layouts(part: &Part, infos: &[Outcome<Info>]) -> Vec<Layout> {
    let stored = |tensor: TensorIndex| {
        let info = infos[tensor].as_ref().ok()?;
        Some((&info.shape[..], info.ty.bytes()))
    };
    layout::planned(part, stored, |node| wants(node, infos))
}
