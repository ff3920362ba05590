//! Which kernels a node is given to.
//!
//! A lowering answers `false` for what its kernels do not cover.

use polychip_lowering::OpClass;
use polychip_sdk::Result;

use super::fuse::Tail;
use super::{
    Lowering, attention, concat, conv, convert, elementwise, gather, integers, matmul, movement, nibbles,
    normalise, pool, reduce, resize, softmax,
};
use crate::part::Node;

/// Emits a node, with what is fused behind it, by the kernels of its class; `false` where they do not cover it.
pub(super) fn lower<'a>(l: &mut Lowering<'a>, node: &'a Node, tail: &Tail) -> Result<bool> {
    Ok(match OpClass::of(node.op) {
        OpClass::Convolution => integers::lower(l, node)? || conv::lower(l, node, tail)?,
        OpClass::Product => {
            integers::lower(l, node)? || nibbles::lower(l, node)? || matmul::lower(l, node, tail)?
        }
        OpClass::Attention => attention::lower(l, node, tail)?,
        OpClass::ElementWise => {
            elementwise::lower(l, node)? || gather::lower(l, node)? || convert::lower(l, node)?
        }
        OpClass::Movement => movement::lower(l, node)? || concat::lower(l, node)?,
        OpClass::Gather => gather::lower(l, node)?,
        OpClass::Normalisation => normalise::lower(l, node, tail)? || softmax::lower(l, node)?,
        OpClass::Reduction => reduce::lower(l, node)?,
        OpClass::Pooling => pool::lower(l, node)?,
        OpClass::Resize => resize::lower(l, node)?,
        OpClass::Quantise => integers::lower(l, node)? || convert::lower(l, node)?,
        OpClass::Recurrent
        | OpClass::Control
        | OpClass::Container
        | OpClass::Generate
        | OpClass::Sort
        | OpClass::Signal
        | OpClass::Text
        | OpClass::Other => false,
    })
}
