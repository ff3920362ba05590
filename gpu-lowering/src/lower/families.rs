//! Which family lowers a node.
//!
//! A family is asked in order; it answers `false` for what is not its own, and refuses with a reason what is its
//! own and not offered.

use super::Lowering;
use super::refusal::{self, Outcome};
use super::{
    arrange, attention, conv, elementwise, gather, matmul, movement, norm, pool, quantise, reduce, resize,
};
use crate::part::{Node, TensorIndex};

/// Lowers an anchor with the element-wise nodes around it.
pub(super) fn fused(
    l: &mut Lowering<'_>,
    anchor: &Node,
    members: &[usize],
    output: TensorIndex,
) -> Outcome<()> {
    let done = conv::fused(l, anchor, members, output)?
        || matmul::fused(l, anchor, members, output)?
        || elementwise::fused(l, members, output)?;
    if done {
        Ok(())
    } else {
        Err(refusal::op("nothing fuses here"))
    }
}

/// Lowers one node.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<()> {
    const FAMILIES: &[fn(&mut Lowering<'_>, &Node) -> Outcome<bool>] = &[
        conv::lower,
        matmul::lower,
        elementwise::lower,
        movement::lower,
        arrange::lower,
        gather::lower,
        attention::lower,
        pool::lower,
        quantise::lower,
        norm::lower,
        reduce::lower,
        resize::lower,
    ];
    for family in FAMILIES {
        if family(l, node)? {
            return Ok(());
        }
    }
    Err(refusal::op(format!("{} is not offered", node.op_name)))
}
