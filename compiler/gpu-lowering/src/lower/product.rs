//! What all products share: factors and what they add, and weights in blocks as constants.

use polychip_gpu_kernels::{Binary, Broadcast, Scalar};
use polychip_lowering::{Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Op, operator};
use polychip_sdk::Encoding;

use super::builder::Lowering;
use super::column_split;
use super::epilogue::{EpilogueBuilder, Sheet};
use super::values::{ValueId, float_bytes, quants_of};

/// Factors and orders of a product.
pub(super) fn factors(node: &Node) -> Outcome<operator::Gemm> {
    let none = || Refusal::op(node.op_name.clone());
    node.operator()?.product().ok_or_else(none)
}

/// Some columns of weights in blocks as a constant of so many bytes.
pub(super) fn packed_blocks(
    l: &mut Lowering<'_>,
    weights: TensorIndex,
    range: &column_split::ColumnRange,
    k: u32,
    bytes: u64,
) -> Outcome<ValueId> {
    let part = l.part;
    let none = || Refusal::constant("weights that are not in blocks");
    let encoding = part.tensors[weights].encoding.as_ref();
    let layout = encoding.and_then(Encoding::block_layout).ok_or_else(none)?;
    let quants = quants_of(part, weights).ok_or_else(none)?;
    let stored = k as usize / layout.elements() * layout.bytes();
    if layout.wider().is_none() {
        let first = range.first() as usize * stored;
        let count = range.count() as usize * stored;
        return l.stored_constant(bytes, weights, first..first + count);
    }
    l.packed(bytes, || {
        let bytes = part.tensors[weights].bytes().unwrap_or_default();
        let bytes = range.of(&bytes, stored);
        let mut wide = Vec::with_capacity(quants.bytes(k.into()) as usize * range.count() as usize);
        layout.widen(&bytes, &mut wide);
        Ok(wide)
    })
}

/// What a Gemm does to its sum: factors, and what it adds.
pub(super) fn summand(
    l: &mut Lowering<'_>,
    end: &mut EpilogueBuilder,
    node: &Node,
    y: TensorIndex,
) -> Outcome<()> {
    if node.op != Op::Gemm {
        return Ok(());
    }
    let operator::Gemm { alpha, beta, .. } = factors(node)?;
    if alpha != 1.0 {
        end.change(|sum| sum.with(Binary::Mul, alpha));
    }
    if let Some(c) = node.input(2)
        && beta != 0.0
    {
        let out = l.dims(y)?;
        let dims = l.dims(c)?;
        let column = Sheet::Matrix.broadcast(dims, out) == Some(Broadcast::Column);
        let value = if column && l.part.is_constant(c) {
            // sums are in f32, and so is what is added to them
            let part = l.part;
            let value = l.constant(Scalar::F32, dims, || {
                Ok(float_bytes(Scalar::F32, &part.tensors[c].reals()?))
            })?;
            end.operand(l, value, Broadcast::Column)
        } else {
            end.tensor(l, c, Sheet::Matrix, out)?
        };
        let value = if beta == 1.0 {
            value
        } else {
            value.with(Binary::Mul, beta)
        };
        end.change(|sum| sum.binary(Binary::Add, value));
    }
    Ok(())
}
