//! Quantised tensors: real values from stored integers and back, and the two ops that do so in a model.
//!
//! Invariant: `real = (stored - zero point) * scale`, and back by a division, halves to even, saturated.

use polychip_gpu_kernels::{Binary, Expression, Scalar, Unary};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::{Attr, Op, axis};
use polychip_sdk::{Encoding, EncodingKind, Reason};

use super::map::{self, Operand};
use super::{Lowering, ValueId};

fn encoding<'a>(l: &Lowering<'a>, tensor: TensorIndex) -> Outcome<&'a Encoding> {
    let part = l.part;
    part.tensors[tensor]
        .encoding
        .as_ref()
        .ok_or_else(|| Refusal::op("a tensor without an encoding is not decoded"))
}

/// Scale and zero point of a tensor with one of each.
pub(super) fn single(l: &Lowering<'_>, tensor: TensorIndex) -> Option<(f32, i32)> {
    let encoding = l.part.tensors[tensor].encoding.as_ref()?;
    let scale = *encoding.scales.first()?;
    (encoding.kind == EncodingKind::PerTensor)
        .then(|| (scale, encoding.zero_points.first().copied().unwrap_or(0)))
}

/// What an expression becomes when a tensor with one scale is stored.
pub(super) fn encoded(real: Expression, scale: f32, zero: i32, to: Scalar) -> Expression {
    narrowed(steps(real, scale, zero), to)
}

/// A real value in whole steps of a scale, not yet as an integer.
pub(super) fn steps(real: Expression, scale: f32, zero: i32) -> Expression {
    let steps = real.with(Binary::Div, scale).unary(Unary::Round);
    if zero == 0 {
        steps
    } else {
        steps.with(Binary::Add, zero as f32)
    }
}

/// A whole number in a float as an integer.
fn narrowed(steps: Expression, to: Scalar) -> Expression {
    match to {
        Scalar::I32 => steps.cast(Scalar::I32),
        to => steps.saturate(to),
    }
}

/// The real value of a stored one.
pub(super) fn decoded(stored: Expression, scale: f32, zero: i32) -> Expression {
    real(stored.cast(Scalar::F32), scale, zero)
}

/// The real value of a stored one that was read as a float.
pub(super) fn real(stored: Expression, scale: f32, zero: i32) -> Expression {
    let moved = if zero == 0 {
        stored
    } else {
        stored.with(Binary::Sub, zero as f32)
    };
    moved.with(Binary::Mul, scale)
}

impl Lowering<'_> {
    /// Scales and zero points of a tensor as operands behind the first.
    fn scales(&mut self, tensor: TensorIndex, rank: usize) -> Outcome<Vec<Operand>> {
        let encoding = encoding(self, tensor)?;
        let EncodingKind::PerAxis { axis } = encoding.kind else {
            return Err(Refusal::new(
                Reason::Encoding,
                "scales per block are offered for constants only",
            ));
        };
        let dims = self.dims(tensor)?;
        if axis >= dims.len() || encoding.scales.len() != dims[axis] {
            return Err(Refusal::new(
                Reason::Encoding,
                format!("scales along axis {axis} of {dims:?}"),
            ));
        }
        let count = encoding.scales.len();
        let floats = |values: Vec<f32>| move || Ok(values.iter().flat_map(|v| v.to_le_bytes()).collect());
        let scales = self.constant(Scalar::F32, &[count], floats(encoding.scales.clone()))?;
        let mut operands = vec![Operand::along(scales, axis, rank)];
        if encoding.zero_points.iter().any(|&zero| zero != 0) {
            let zeros = encoding.zero_points.iter().map(|&zero| zero as f32).collect();
            let zeros = self.constant(Scalar::F32, &[count], floats(zeros))?;
            operands.push(Operand::along(zeros, axis, rank));
        }
        Ok(operands)
    }

    /// Writes the real values of stored integers.
    pub(super) fn decode(
        &mut self,
        tensor: TensorIndex,
        stored: ValueId,
        layout: Layout,
        real: ValueId,
    ) -> Outcome<()> {
        let dims = self.dims(tensor)?;
        let operand = Operand::of(stored, dims, layout)?;
        if let Some((scale, zero)) = single(self, tensor) {
            let expression = decoded(Expression::Operand(0), scale, zero);
            return map::launch(self, &expression, &[operand], dims, layout, real);
        }
        let mut operands = vec![operand];
        operands.extend(self.scales(tensor, dims.len())?);
        let mut float = Expression::Operand(0).cast(Scalar::F32);
        if operands.len() > 2 {
            float = float.binary(Binary::Sub, Expression::Operand(2));
        }
        let expression = float.binary(Binary::Mul, Expression::Operand(1));
        map::launch(self, &expression, &operands, dims, layout, real)
    }

    /// Writes the stored integers of real values.
    pub(super) fn encode(
        &mut self,
        tensor: TensorIndex,
        real: ValueId,
        layout: Layout,
        stored: ValueId,
    ) -> Outcome<()> {
        let dims = self.dims(tensor)?;
        let to = self.stored_scalar(tensor)?;
        let operand = Operand::of(real, dims, layout)?;
        if let Some((scale, zero)) = single(self, tensor) {
            let expression = encoded(Expression::Operand(0), scale, zero, to);
            return map::launch(self, &expression, &[operand], dims, layout, stored);
        }
        let mut operands = vec![operand];
        operands.extend(self.scales(tensor, dims.len())?);
        let mut steps = Expression::Operand(0)
            .binary(Binary::Div, Expression::Operand(1))
            .unary(Unary::Round);
        if operands.len() > 2 {
            steps = steps.binary(Binary::Add, Expression::Operand(2));
        }
        map::launch(self, &narrowed(steps, to), &operands, dims, layout, stored)
    }
}

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
    let blocks = node.attributes.int(Attr::BlockSize).unwrap_or(0);
    if blocks != 0 {
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
        let wanted = node.attributes.int(Attr::Axis).unwrap_or(1);
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
