//! Which order of axes each node wants.
//!
//! Not here: the plan of a part made from that (`polychip_lowering::layout::planned`).

use polychip_lowering::layout::plan::Want;
use polychip_lowering::{Layout, Node, OpClass, Outcome, Part, TensorIndex, layout};
use polychip_ops::{Attr, Op};

use crate::info::Info;

const ROW: Want = Want::Fixed(Layout::RowMajor);
const LAST: Want = Want::Fixed(Layout::ChannelsLast);

/// What a node wants of its inputs and of its outputs.
pub(super) fn wants(node: &Node, infos: &[Outcome<Info>]) -> (Want, Want) {
    let rank = |tensor: Option<TensorIndex>| {
        let info = tensor.and_then(|tensor| infos[tensor].as_ref().ok());
        info.map_or(0, |info| info.shape.len())
    };
    let axes = rank(node.input(0));
    match OpClass::of(node.op) {
        OpClass::Convolution | OpClass::Pooling | OpClass::Resize => return (LAST, LAST),
        OpClass::Product | OpClass::Gather => return (ROW, ROW),
        OpClass::Reduction if node.attributes.int(Attr::Keepdims) == Some(0) => {
            return match rank(node.output(0)) {
                0..=2 => (Want::Planned, ROW),
                _ => (ROW, ROW),
            };
        }
        _ => {}
    }
    match node.op {
        Op::DepthToSpace | Op::SpaceToDepth | Op::BatchNormalization => (LAST, LAST),
        Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze => (ROW, ROW),
        // the library moves no truth values
        Op::Equal | Op::Greater | Op::GreaterOrEqual | Op::Less | Op::LessOrEqual => (ROW, ROW),
        Op::And | Op::Or | Op::Not | Op::Where => (ROW, ROW),
        Op::Tile | Op::Expand if rank(node.output(0)) != axes => (ROW, ROW),
        Op::Transpose => {
            let (row, last) = (Layout::RowMajor, Layout::ChannelsLast);
            let perm = node.attributes.ints(Attr::Perm).unwrap_or(&[]);
            let is = |to: Vec<usize>| axes >= 3 && perm.iter().map(|&axis| axis as usize).eq(to);
            // between the two orders, names of axes change and nothing moves
            if is(row.to(last, axes)) {
                (LAST, ROW)
            } else if is(last.to(row, axes)) {
                (ROW, LAST)
            } else {
                (ROW, ROW)
            }
        }
        _ => (Want::Planned, Want::Planned),
    }
}

/// Whether a node is lowered in either order.
pub(super) fn is_planned(node: &Node, infos: &[Outcome<Info>]) -> bool {
    let (input, output) = wants(node, infos);
    [input, output].contains(&Want::Planned)
}

/// The planned order of each node of a part.
pub(super) fn layouts(part: &Part, infos: &[Outcome<Info>]) -> Vec<Layout> {
    let stored = |tensor: TensorIndex| {
        infos[tensor]
            .as_ref()
            .ok()
            .map(|info| (&info.shape[..], info.ty.bytes()))
    };
    layout::planned(part, stored, |node| wants(node, infos))
}
