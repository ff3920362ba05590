//! Floats to small integers and back.
//!
//! Invariant: `y = saturate(round(x / scale) + zero_point)`, halves to even; `x = (y - zero_point) * scale`.
//!
//! Both are element-wise chains: the expressions here serve fused chains too.

use serde::{Deserialize, Serialize};

use crate::{
    Access, Binary, Elementwise, Error, Expression, Generate, Kernel, Limits, Operand, Outcome, Result,
    Sample, Scalar, Unary, Values,
};

/// `QuantizeLinear`. Bindings: input, scale (`f32`), zero point if any (of the output's type), output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quantise {
    /// Type of the input: `f32` or `f16`.
    pub from: Scalar,
    /// Type of the output: `u8`, `i8`, `u16` or `i16`.
    pub to: Scalar,
    /// Shape.
    pub shape: Vec<u64>,
    /// Axis of the scales; `None` for one scale.
    pub axis: Option<usize>,
    /// Whether there is a zero point.
    pub zero_point: bool,
    /// How scale and zero point are bound.
    pub access: Access,
}

/// `DequantizeLinear`. Bindings: input, scale (`f32`), zero point if any (of the input's type), output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dequantise {
    /// Type of the input: `u8`, `i8`, `u16`, `i16` or `i32`.
    pub from: Scalar,
    /// Type of the output: `f32` or `f16`.
    pub to: Scalar,
    /// Shape.
    pub shape: Vec<u64>,
    /// Axis of the scales; `None` for one scale.
    pub axis: Option<usize>,
    /// Whether there is a zero point.
    pub zero_point: bool,
    /// How scale and zero point are bound.
    pub access: Access,
}

/// `QuantizeLinear` of `x` by a scale and a zero point (an integer of type `to`).
#[must_use]
pub fn quantised(x: Expression, scale: Expression, zero_point: Option<Expression>, to: Scalar) -> Expression {
    let steps = x.binary(Binary::Div, scale);
    let moved = match zero_point {
        Some(zero_point) => steps
            .unary(Unary::Round)
            .binary(Binary::Add, zero_point.cast(Scalar::F32)),
        None => steps,
    };
    moved.saturate(to)
}

/// `DequantizeLinear` of an integer `y` by a scale and a zero point (an integer of the same type).
#[must_use]
pub fn dequantised(y: Expression, scale: Expression, zero_point: Option<Expression>) -> Expression {
    let steps = match zero_point {
        Some(zero_point) => y
            .cast(Scalar::I32)
            .binary(Binary::Sub, zero_point.cast(Scalar::I32)),
        None => y,
    };
    steps.cast(Scalar::F32).binary(Binary::Mul, scale)
}

/// A chain over a tensor, its scales and its zero points.
fn chain(
    shape: &[u64],
    axis: Option<usize>,
    [from, of_zero_point, to]: [Scalar; 3],
    zero_point: bool,
    access: Access,
    expression: Expression,
) -> Result<Elementwise> {
    let mut strides = vec![0; shape.len()];
    if let Some(axis) = axis {
        *strides
            .get_mut(axis)
            .ok_or_else(|| Error::new(format!("quantise: axis {axis} of {shape:?}")))? = 1;
    }
    let scales = |scalar| Operand {
        scalar,
        access,
        strides: strides.clone(),
        offset: 0,
    };
    let mut operands = vec![Operand::dense(from, shape), scales(Scalar::F32)];
    if zero_point {
        operands.push(scales(of_zero_point));
    }
    Ok(Elementwise {
        shape: shape.to_vec(),
        operands,
        outcomes: vec![Outcome {
            scalar: to,
            expression,
        }],
    })
}

impl Quantise {
    fn chain(&self) -> Result<Elementwise> {
        if !matches!(self.to, Scalar::U8 | Scalar::I8 | Scalar::U16 | Scalar::I16) {
            return Err(Error::new(format!("quantise: to {}", self.to.name())));
        }
        let zero_point = self.zero_point.then(|| Expression::operand(2));
        let expression = quantised(
            Expression::operand(0),
            Expression::operand(1),
            zero_point,
            self.to,
        );
        let types = [self.from, self.to, self.to];
        chain(
            &self.shape,
            self.axis,
            types,
            self.zero_point,
            self.access,
            expression,
        )
    }
}

impl Generate for Quantise {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.chain()?.kernel(limits)
    }

    fn sample(&self) -> Sample {
        // scales as they are: positive, so that all integers are reached
        self.chain().map_or_else(
            |_| Sample::empty(),
            |chain| chain.sample_with(|number, values| scales(number == 1, values)),
        )
    }
}

impl Dequantise {
    fn chain(&self) -> Result<Elementwise> {
        if !matches!(
            self.from,
            Scalar::U8 | Scalar::I8 | Scalar::U16 | Scalar::I16 | Scalar::I32
        ) {
            return Err(Error::new(format!("dequantise: from {}", self.from.name())));
        }
        let zero_point = self.zero_point.then(|| Expression::operand(2));
        let expression = dequantised(Expression::operand(0), Expression::operand(1), zero_point);
        let types = [self.from, self.from, self.to];
        chain(
            &self.shape,
            self.axis,
            types,
            self.zero_point,
            self.access,
            expression,
        )
    }
}

impl Generate for Dequantise {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.chain()?.kernel(limits)
    }

    fn sample(&self) -> Sample {
        self.chain().map_or_else(
            |_| Sample::empty(),
            |chain| chain.sample_with(|number, values| scales(number == 1, values)),
        )
    }
}

fn scales(are: bool, values: Values) -> Values {
    match values {
        Values::F32(values) if are => Values::F32(values.iter().map(|x| 0.01 + x.abs() / 200.0).collect()),
        other => other,
    }
}
