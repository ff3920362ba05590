//! Chooses the kernels of a node; support, estimates and programs all use this choice.
//!
//! Invariants:
//! 1. A `lower` function returns `false` for a node that it does not cover, before it adds anything.
//! 2. A node that no kernel covers falls to the reference evaluator, never to a wrong result.

use polychip_ops::OpClass;
use polychip_sdk::Result;

use super::builder::Lowering;
use super::encoding::is_rounded;
use super::epilogue::FusedEpilogue;
use super::{
    argreduce, attention, blocks, body, cached, cast, concat, control, conv, conv_transpose, cumulative,
    data_dependent, einsum, elementwise, elementwise_int, forest, gather, gemm_int, int4, int8, integers,
    loss, matmul, movement, normalise, pool, recurrent, reduce, reference, resize, resize_axes, reverse,
    rotary, sample, scan, scatter, selection, softmax, sort, statistics, window_max,
};
use crate::part::{Node, TensorIndex};

/// Emits one node with its fused epilogue.
pub(super) fn emit(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<()> {
    let filled = |t: &Option<TensorIndex>| t.is_some_and(|t| l.part.tensors[t].fill.is_some());
    if node.outputs.iter().all(filled) {
        // its readers make it, as a constant
        return Ok(());
    }
    let done = l.all_known(node)
        && (int8::lower(l, node, fused)?
            || by_class(l, node, fused)?
            || reverse::lower(l, node)?
            || selection::lower(l, node)?);
    if !done && node.bodies.is_empty() {
        if !data_dependent::lower(l, node)? {
            reference::lower(l, node)?;
        }
    } else if !done && !control::lower(l, node)? && !scan::lower(l, node)? {
        body::lower(l, node)?;
    }
    let outputs: &[_] = match fused.output {
        Some(output) => &[Some(output)],
        None => &node.outputs[..],
    };
    for &tensor in outputs.iter().flatten() {
        if !is_rounded(l.part, node, tensor) {
            l.round_to_encoding(tensor)?;
        }
    }
    Ok(())
}

/// Emits a node by the kernels of its class; `false` where they do not cover it.
fn by_class(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<bool> {
    Ok(match node.op.class() {
        OpClass::Convolution => {
            integers::lower(l, node)?
                || conv::lower(l, node, fused)?
                || conv::lower_computed(l, node)?
                || conv_transpose::lower(l, node)?
                || sample::lower(l, node)?
        }
        OpClass::Product => {
            integers::lower(l, node)?
                || blocks::lower(l, node, &fused.beside)?
                || int4::lower(l, node)?
                || matmul::lower(l, node, fused)?
                || gemm_int::lower(l, node)?
                || einsum::lower(l, node)?
        }
        OpClass::Attention => {
            cached::lower(l, node)? || attention::lower(l, node, fused)? || rotary::lower(l, node)?
        }
        OpClass::ElementWise => {
            elementwise::lower(l, node)?
                || gather::lower(l, node)?
                || cast::lower(l, node)?
                || elementwise_int::lower(l, node)?
        }
        OpClass::Movement => movement::lower(l, node)? || concat::lower(l, node)?,
        OpClass::Gather => {
            gather::lower(l, node)?
                || scatter::lower(l, node)?
                || scatter::lower_rows(l, node)?
                || argreduce::lower(l, node)?
        }
        OpClass::Normalisation => {
            normalise::lower(l, node, fused)?
                || statistics::lower(l, node)?
                || softmax::lower(l, node)?
                || argreduce::lower(l, node)?
        }
        OpClass::Reduction => {
            reduce::lower(l, node)?
                || statistics::lower(l, node)?
                || argreduce::lower(l, node)?
                || cumulative::lower(l, node)?
                || loss::lower(l, node)?
        }
        OpClass::Pooling => pool::lower(l, node)? || sample::lower(l, node)? || window_max::lower(l, node)?,
        OpClass::Resize => {
            resize::lower(l, node)?
                || resize::lower_plain(l, node)?
                || sample::lower(l, node)?
                || resize_axes::lower(l, node)?
        }
        OpClass::Sort => sort::lower(l, node)?,
        OpClass::Quantise => integers::lower(l, node)? || cast::lower(l, node)?,
        #[cfg(feature = "fourier")]
        OpClass::Signal => super::fourier::lower(l, node)?,
        #[cfg(not(feature = "fourier"))]
        OpClass::Signal => false,
        OpClass::Recurrent => recurrent::lower(l, node)?,
        OpClass::Other => forest::lower(l, node)?,
        OpClass::Generate => argreduce::lower(l, node)?,
        OpClass::Control | OpClass::Container | OpClass::Text => false,
    })
}
