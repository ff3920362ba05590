//! QuantizeLinear and DequantizeLinear: the two ops that change between real values and integers in a model.

use polychip_gpu_kernels::{Binary, Expression, Scalar, Unary};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::{Op, Operator, axis};

use super::builder::Lowering;
use super::map::{self, Operand};

/// Lowers QuantizeLinear and DequantizeLinear.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    if !matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear) {
        return Ok(false);
    }
    let (Some(x), Some(scale), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Err(Refusal::op(format!("{} without operands", node.op_name)));
    };
    let dims = l.dims(x)?;
    let rank = dims.len();
    let (wanted, block) = match node.operator()? {
        Operator::QuantizeLinear(own) => (own.axis, own.block),
        Operator::DequantizeLinear(own) => (own.axis, own.block),
        _ => return Ok(false),
    };
    if block != 0 {
        return Err(Refusal::attribute("scales per block are not offered"));
    }
    // these two see the stored integers, whatever encodings say
    let (quantises, from_kind, to_kind) = match node.op {
        Op::QuantizeLinear => (true, Storage::Real, l.outer_kind(y)),
        _ => (false, l.outer_kind(x), Storage::Real),
    };
    let from = if l.is_channels_only(x) {
        Layout::ChannelsLast
    } else {
        Layout::RowMajor
    };
    let value = l.get(x, from, from_kind)?;
    let along = |l: &mut Lowering<'_>, t: TensorIndex| -> Outcome<Operand> {
        let own = l.dims(t)?;
        let value = if l.part.is_constant(t) {
            let kind = l.outer_kind(t);
            l.get(t, Layout::RowMajor, kind)?
        } else {
            l.rows(t)?
        };
        if own.iter().product::<usize>() == 1 {
            return Ok(Operand::single(value, rank));
        }
        let axis = axis::normalise(wanted, rank)
            .filter(|&axis| own == &dims[axis..=axis])
            .ok_or_else(|| {
                Refusal::attribute(format!("scales of shape {own:?} along axis {wanted} of {dims:?}"))
            })?;
        Ok(Operand::along(value, axis, rank))
    };
    let mut operands = vec![Operand::of(value, dims, from)?];
    operands.push(along(l, scale)?);
    if let Some(zero) = node.input(2) {
        operands.push(along(l, zero)?);
    }
    let zero = (operands.len() > 2).then(|| Expression::Operand(2).cast(Scalar::F32));
    let (_, target) = l.destination(y, from, to_kind)?;
    l.define(y, from, to_kind, target)?;
    let to = l.stored(target).scalar;
    let expression = if quantises {
        let steps = Expression::Operand(0)
            .binary(Binary::Div, Expression::Operand(1))
            .unary(Unary::Round);
        let moved = match zero {
            Some(zero) => steps.binary(Binary::Add, zero),
            None => steps,
        };
        if !matches!(to, Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16) {
            return Err(Refusal::dtype(format!(
                "quantisation to {} is not offered",
                to.name()
            )));
        }
        moved.saturate(to)
    } else {
        let float = Expression::Operand(0).cast(Scalar::F32);
        let moved = match zero {
            Some(zero) => float.binary(Binary::Sub, zero),
            None => float,
        };
        moved.binary(Binary::Mul, Expression::Operand(1))
    };
    map::launch(l, &expression, &operands, dims, from, target)?;
    Ok(true)
}
