//! Which lowering a node is given to.
//!
//! A lowering answers `false` for what is not its own, and refuses with a reason what is its own and not offered.

use polychip_lowering::{Node, Outcome, Refusal, TensorIndex};
use polychip_ops::OpClass;

use super::builder::Lowering;
use super::{
    arrange, attention, conv, elementwise, gather, matmul, movement, norm, pool, quantise, reduce, resize,
    rotary,
};

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
        Err(Refusal::op("nothing fuses here"))
    }
}

/// Lowers one node.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<()> {
    let done = match node.op.class() {
        OpClass::Convolution => conv::lower(l, node)?,
        OpClass::Product => matmul::lower(l, node)?,
        OpClass::Attention => attention::lower(l, node)? || rotary::lower(l, node)?,
        OpClass::ElementWise => elementwise::lower(l, node)?,
        OpClass::Movement => movement::lower(l, node)? || arrange::lower(l, node)?,
        OpClass::Gather => gather::lower(l, node)? || arrange::lower(l, node)?,
        OpClass::Normalisation => norm::lower(l, node)?,
        OpClass::Reduction => reduce::lower(l, node)? || arrange::lower(l, node)?,
        OpClass::Pooling => pool::lower(l, node)?,
        OpClass::Resize => resize::lower(l, node)?,
        OpClass::Quantise => quantise::lower(l, node)?,
        OpClass::Recurrent
        | OpClass::Control
        | OpClass::Container
        | OpClass::Generate
        | OpClass::Sort
        | OpClass::Signal
        | OpClass::Text
        | OpClass::Other => false,
    };
    if done {
        Ok(())
    } else {
        Err(Refusal::op(format!("{} is not offered", node.op_name)))
    }
}
