//! An expression's value by plain scalar code: the reference with which its text is compared.
//!
//! Invariant: functions that a device approximates are computed in f64 and rounded once.

use half::f16;

use super::{Binary, Expression, Type, Unary};
use crate::Scalar;

/// A value of one of the types of registers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// 32-bit float.
    F32(f32),
    /// 32-bit signed integer.
    I32(i32),
    /// 32-bit unsigned integer.
    U32(u32),
    /// 64-bit signed integer.
    I64(i64),
    /// Boolean.
    Bool(bool),
}

impl Number {
    /// Its type.
    #[must_use]
    pub fn kind(self) -> Type {
        match self {
            Number::F32(_) => Type::F32,
            Number::I32(_) => Type::I32,
            Number::U32(_) => Type::U32,
            Number::I64(_) => Type::I64,
            Number::Bool(_) => Type::Bool,
        }
    }

    /// The value in f64, exact except for large 64-bit integers; a boolean is 0 or 1.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Number::F32(x) => x.into(),
            Number::I32(x) => x.into(),
            Number::U32(x) => x.into(),
            Number::I64(x) => x as f64,
            Number::Bool(x) => u8::from(x).into(),
        }
    }

    /// The value after an ONNX `Cast`.
    #[must_use]
    pub fn cast(self, to: Scalar) -> Number {
        let whole = match self {
            Number::F32(x) => x as i64,
            Number::I32(x) => x.into(),
            Number::U32(x) => x.into(),
            Number::I64(x) => x,
            Number::Bool(x) => x.into(),
        };
        match to {
            Scalar::F32 => Number::F32(match self {
                Number::I64(x) => x as f32,
                other => other.to_f64() as f32,
            }),
            Scalar::F16 => Number::F32(f16::from_f32(self.to_f64() as f32).to_f32()),
            Scalar::I32 => Number::I32(match self {
                Number::F32(x) => x as i32,
                _ => whole as i32,
            }),
            Scalar::U32 => Number::U32(match self {
                Number::F32(x) => x as u32,
                _ => whole as u32,
            }),
            Scalar::I64 => Number::I64(whole),
            Scalar::I8 => Number::I32((whole as i8).into()),
            Scalar::I16 => Number::I32((whole as i16).into()),
            Scalar::U8 => Number::U32((whole as u8).into()),
            Scalar::U16 => Number::U32((whole as u16).into()),
            Scalar::Bool => Number::Bool(match self {
                Number::F32(x) => x != 0.0,
                _ => whole != 0,
            }),
        }
    }
}

impl Expression {
    /// The value for these operands, all floats; NaN if the value is not a float.
    #[must_use]
    pub fn value(&self, operands: &[f32]) -> f32 {
        let operands: Vec<Number> = operands.iter().map(|x| Number::F32(*x)).collect();
        match self.evaluate(&operands) {
            Number::F32(x) => x,
            _ => f32::NAN,
        }
    }

    /// The value for these operands. What [`Expression::kind`] refuses gives NaN.
    #[must_use]
    pub fn evaluate(&self, operands: &[Number]) -> Number {
        match self {
            Expression::Operand(index) => operands[*index as usize],
            Expression::Constant(value) => Number::F32(*value),
            Expression::Integer(value) => Number::I32(*value),
            Expression::Unary(function, x) => unary(*function, x.evaluate(operands)),
            Expression::Binary(function, a, b) => {
                binary(*function, a.evaluate(operands), b.evaluate(operands))
            }
            Expression::Select(c, a, b) => match c.evaluate(operands) {
                Number::Bool(true) => a.evaluate(operands),
                _ => b.evaluate(operands),
            },
            Expression::Cast(to, x) => x.evaluate(operands).cast(*to),
            Expression::Saturate(to, x) => {
                let x = x.evaluate(operands).to_f64().round_ties_even();
                match to {
                    Scalar::U8 => Number::U32(x.clamp(0.0, 255.0) as u32),
                    Scalar::I8 => Number::I32(x.clamp(-128.0, 127.0) as i32),
                    Scalar::U16 => Number::U32(x.clamp(0.0, 65_535.0) as u32),
                    Scalar::I16 => Number::I32(x.clamp(-32_768.0, 32_767.0) as i32),
                    _ => Number::F32(f32::NAN),
                }
            }
        }
    }
}

fn unary(function: Unary, x: Number) -> Number {
    match x {
        Number::F32(x) => of_float(function, x),
        Number::I32(x) => match function {
            Unary::Relu => Number::I32(x.max(0)),
            Unary::Neg => Number::I32(x.wrapping_neg()),
            Unary::Abs => Number::I32(x.wrapping_abs()),
            Unary::Sign => Number::I32(x.signum()),
            Unary::BitwiseNot => Number::I32(!x),
            _ => Number::F32(f32::NAN),
        },
        Number::I64(x) => match function {
            Unary::Relu => Number::I64(x.max(0)),
            Unary::Neg => Number::I64(x.wrapping_neg()),
            Unary::Abs => Number::I64(x.wrapping_abs()),
            Unary::Sign => Number::I64(x.signum()),
            Unary::BitwiseNot => Number::I64(!x),
            _ => Number::F32(f32::NAN),
        },
        Number::U32(x) => match function {
            Unary::Relu | Unary::Abs => Number::U32(x),
            Unary::Sign => Number::U32(x.min(1)),
            Unary::BitwiseNot => Number::U32(!x),
            _ => Number::F32(f32::NAN),
        },
        Number::Bool(x) => match function {
            Unary::Not => Number::Bool(!x),
            _ => Number::F32(f32::NAN),
        },
    }
}

fn of_float(function: Unary, single: f32) -> Number {
    let x = f64::from(single);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let softplus = |x: f64| {
        if x > 0.0 {
            x + (-x).exp().ln_1p()
        } else {
            x.exp().ln_1p()
        }
    };
    let y = match function {
        Unary::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Reciprocal => 1.0 / x,
        Unary::Erf => erf(x),
        Unary::Sigmoid => sigmoid(x),
        Unary::Tanh => x.tanh(),
        Unary::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Unary::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Unary::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Unary::Silu => x * sigmoid(x),
        Unary::Mish => x * softplus(x).tanh(),
        Unary::Softplus => softplus(x),
        Unary::Softsign => x / (1.0 + x.abs()),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Asinh => x.asinh(),
        Unary::Acosh => x.acosh(),
        Unary::Atanh => x.atanh(),
        Unary::IsNan => return Number::Bool(x.is_nan()),
        Unary::IsInf => return Number::Bool(x.is_infinite()),
        Unary::IsPositiveInf => return Number::Bool(x == f64::INFINITY),
        Unary::IsNegativeInf => return Number::Bool(x == f64::NEG_INFINITY),
        Unary::Not | Unary::BitwiseNot => f64::NAN,
    };
    Number::F32(y as f32)
}

/// The error function: its power series up to 3, the continued fraction of its complement beyond.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..80 {
            let n = f64::from(n);
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
        }
        return (sum * 2.0 / std::f64::consts::PI.sqrt()).copysign(x);
    }
    if a > 6.0 {
        return 1.0f64.copysign(x);
    }
    let mut fraction = a;
    for n in (1..60).rev() {
        fraction = a + f64::from(n) / 2.0 / fraction;
    }
    (1.0 - (-a * a).exp() / (fraction * std::f64::consts::PI.sqrt())).copysign(x)
}

fn binary(function: Binary, a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::F32(a), Number::F32(b)) => of_floats(function, a, b),
        (Number::I32(a), Number::I32(b)) => match of_integers(function, a.into(), b.into()) {
            Number::I64(x) => Number::I32(x as i32),
            other => other,
        },
        (Number::U32(a), Number::U32(b)) => match function {
            Binary::ShiftLeft => Number::U32(a.checked_shl(b).unwrap_or(0)),
            Binary::ShiftRight => Number::U32(a.checked_shr(b).unwrap_or(0)),
            // as wide as needed: 64 bits hold all sums, and the low half of all products
            _ => match of_integers(function, a.into(), b.into()) {
                Number::I64(x) => Number::U32(x as u32),
                other => other,
            },
        },
        (Number::I64(a), Number::I64(b)) => of_integers(function, a, b),
        (Number::Bool(a), Number::Bool(b)) => match function {
            Binary::And => Number::Bool(a & b),
            Binary::Or => Number::Bool(a | b),
            Binary::Xor => Number::Bool(a ^ b),
            Binary::Equal => Number::Bool(a == b),
            _ => Number::F32(f32::NAN),
        },
        _ => Number::F32(f32::NAN),
    }
}

fn of_floats(function: Binary, a: f32, b: f32) -> Number {
    let (x, y) = (f64::from(a), f64::from(b));
    let z = match function {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Min | Binary::Max if x.is_nan() || y.is_nan() => f64::NAN,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Pow if x == 1.0 || y == 0.0 => 1.0,
        // the text has no negative zero here
        Binary::Pow if x == 0.0 => 0.0f64.powf(y),
        Binary::Pow => x.powf(y),
        Binary::Mod => x - y * (x / y).floor(),
        Binary::FMod => x % y,
        Binary::PRelu if x < 0.0 => x * y,
        Binary::Elu if x < 0.0 => y * (x.exp() - 1.0),
        Binary::Celu if x < 0.0 => y * ((x / y).exp() - 1.0),
        Binary::PRelu | Binary::Elu | Binary::Celu => x,
        Binary::ThresholdedRelu => {
            if x <= y {
                0.0
            } else {
                x
            }
        }
        Binary::Swish => x / (1.0 + (-(y * x)).exp()),
        Binary::Equal => return Number::Bool(x == y),
        Binary::Less => return Number::Bool(x < y),
        Binary::LessOrEqual => return Number::Bool(x <= y),
        Binary::Greater => return Number::Bool(x > y),
        Binary::GreaterOrEqual => return Number::Bool(x >= y),
        _ => f64::NAN,
    };
    Number::F32(z as f32)
}

fn of_integers(function: Binary, a: i64, b: i64) -> Number {
    Number::I64(match function {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div if b == 0 => a,
        Binary::Div => a.wrapping_div(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Mod | Binary::FMod if b == 0 => 0,
        Binary::Mod => {
            let r = a.wrapping_rem(b);
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }
        Binary::FMod => a.wrapping_rem(b),
        Binary::PRelu if a < 0 => a.wrapping_mul(b),
        Binary::PRelu => a,
        Binary::BitwiseAnd => a & b,
        Binary::BitwiseOr => a | b,
        Binary::BitwiseXor => a ^ b,
        Binary::Equal => return Number::Bool(a == b),
        Binary::Less => return Number::Bool(a < b),
        Binary::LessOrEqual => return Number::Bool(a <= b),
        Binary::Greater => return Number::Bool(a > b),
        Binary::GreaterOrEqual => return Number::Bool(a >= b),
        _ => return Number::F32(f32::NAN),
    })
}
