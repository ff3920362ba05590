//! Stored integers: real values from them and back, where a tensor has an encoding.
//!
//! Invariant: `real = (stored - zero point) * scale`, and back by a division, halves to even, saturated.

use polychip_gpu_kernels::{Binary, Expression, Scalar, Unary};
use polychip_lowering::{Layout, Outcome, Refusal, TensorIndex};
use polychip_sdk::{Encoding, EncodingKind, Reason};

use super::builder::Lowering;
use super::map::{self, Operand};
use super::values::ValueId;

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
