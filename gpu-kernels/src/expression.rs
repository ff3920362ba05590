//! Element-wise arithmetic as an expression: the computation of one output element by a chain of
//! ops, either as a separate kernel or as the epilogue of a product or convolution.
//!
//! Invariants:
//! 1. The text and [`Expression::evaluate`] mean the same; floats are computed in f32, whatever their storage.
//! 2. A NaN among the operands of an arithmetic function gives NaN, as in ONNX. WGSL's own `min`,
//!    `max`, `clamp` and `sign` do not guarantee this, so the text compares values and tests bits.
//!    As in WGSL, subnormal numbers may count as zero, and a device need not support infinities.
//! 3. Trigonometric functions are as exact as the device's own, for arguments of a few turns.
//!
//! The text calls functions whose names start with `px_`; [`WgslBuilder::kernel`](crate::WgslBuilder::kernel) declares those
//! that a body names.

mod functions;
mod value;
mod wgsl;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, Scalar};

pub(crate) use functions::declarations;
pub use value::Number;

/// Type of a value in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// 32-bit float: all floats.
    F32,
    /// 32-bit signed integer: `i32`, `i16` and `i8` tensors.
    I32,
    /// 32-bit unsigned integer: `u32`, `u16` and `u8` tensors.
    U32,
    /// 64-bit signed integer, on devices that have them.
    I64,
    /// Boolean.
    Bool,
}

impl Type {
    /// Type in WGSL, of `width` values.
    #[must_use]
    pub fn text(self, width: u32) -> String {
        let one = match self {
            Type::F32 => "f32",
            Type::I32 => "i32",
            Type::U32 => "u32",
            Type::I64 => "i64",
            Type::Bool => "bool",
        };
        match width {
            1 => one.to_owned(),
            width => format!("vec{width}<{one}>"),
        }
    }
}

impl Scalar {
    /// Type in which elements are computed.
    #[must_use]
    pub fn computed(self) -> Type {
        match self {
            Scalar::F32 | Scalar::F16 => Type::F32,
            Scalar::I32 | Scalar::I16 | Scalar::I8 => Type::I32,
            Scalar::U32 | Scalar::U16 | Scalar::U8 => Type::U32,
            Scalar::I64 => Type::I64,
            Scalar::Bool => Type::Bool,
        }
    }
}

/// A function of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the ONNX op of that name
pub enum Unary {
    Relu,
    Neg,
    Abs,
    Sign,
    Exp,
    Log,
    Sqrt,
    Reciprocal,
    Erf,
    Sigmoid,
    Tanh,
    HardSwish,
    /// By the error function.
    Gelu,
    /// By the hyperbolic tangent.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    Mish,
    Softplus,
    Softsign,
    Floor,
    Ceil,
    /// Rounds halves to even.
    Round,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Not,
    BitwiseNot,
    IsNan,
    /// Either infinity.
    IsInf,
    /// `+inf` only.
    IsPositiveInf,
    /// `-inf` only.
    IsNegativeInf,
}

/// A function of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the ONNX op of that name
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers are truncated toward zero; division by zero gives the dividend.
    Div,
    Min,
    Max,
    /// For floats only.
    Pow,
    /// The remainder has the divisor's sign (`fmod = 0`).
    Mod,
    /// The remainder has the dividend's sign (`fmod = 1`).
    FMod,
    /// Operands: `x` and the slope of its negative side. Serves `LeakyRelu`, too.
    PRelu,
    /// Operands: `x` and alpha.
    Elu,
    /// Operands: `x` and alpha.
    Celu,
    /// Operands: `x` and alpha.
    ThresholdedRelu,
    /// `x * sigmoid(alpha * x)`. Operands: `x` and alpha.
    Swish,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Xor,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    /// For unsigned integers; a shift by 32 or more gives zero.
    ShiftLeft,
    /// For unsigned integers; a shift by 32 or more gives zero.
    ShiftRight,
}

/// The computation of one element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Expression {
    /// An operand, by index; in an epilogue, operand 0 is the sum of products.
    Operand(u32),
    /// A constant.
    Constant(f32),
    /// A constant integer; [`Expression::Cast`] gives it another type.
    Integer(i32),
    /// A function of one value.
    Unary(Unary, Box<Expression>),
    /// A function of two values, of one type.
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// `Where`: a condition, the value if it is true, the value if it is false.
    Select(Box<Expression>, Box<Expression>, Box<Expression>),
    /// ONNX `Cast`: floats to integers cut toward zero, integers wrap around, `bool` is `x != 0`; `f16` rounds.
    Cast(Scalar, Box<Expression>),
    /// Converts a float to an 8- or 16-bit integer like `QuantizeLinear`: rounds halves to even,
    /// then saturates.
    Saturate(Scalar, Box<Expression>),
}

impl Expression {
    /// Operand `index`.
    #[must_use]
    pub fn operand(index: u32) -> Expression {
        Expression::Operand(index)
    }

    /// `function(self)`.
    #[must_use]
    pub fn unary(self, function: Unary) -> Expression {
        Expression::Unary(function, Box::new(self))
    }

    /// `function(self, other)`.
    #[must_use]
    pub fn binary(self, function: Binary, other: Expression) -> Expression {
        Expression::Binary(function, Box::new(self), Box::new(other))
    }

    /// `function(self, constant)`.
    #[must_use]
    pub fn with(self, function: Binary, constant: f32) -> Expression {
        self.binary(function, Expression::Constant(constant))
    }

    /// ONNX `Cast`.
    #[must_use]
    pub fn cast(self, to: Scalar) -> Expression {
        Expression::Cast(to, Box::new(self))
    }

    /// Rounds and saturates a float as `QuantizeLinear` does after scaling.
    #[must_use]
    pub fn saturate(self, to: Scalar) -> Expression {
        Expression::Saturate(to, Box::new(self))
    }

    /// `Where(self, then, otherwise)`.
    #[must_use]
    pub fn select(self, then: Expression, otherwise: Expression) -> Expression {
        Expression::Select(Box::new(self), Box::new(then), Box::new(otherwise))
    }

    /// `Clip` to these limits.
    #[must_use]
    pub fn clip(self, least: Option<f32>, most: Option<f32>) -> Expression {
        let above = match least {
            Some(least) => self.with(Binary::Max, least),
            None => self,
        };
        match most {
            Some(most) => above.with(Binary::Min, most),
            None => above,
        }
    }

    /// `HardSigmoid`.
    #[must_use]
    pub fn hard_sigmoid(self, alpha: f32, beta: f32) -> Expression {
        self.with(Binary::Mul, alpha)
            .with(Binary::Add, beta)
            .clip(Some(0.0), Some(1.0))
    }

    /// `Selu`.
    #[must_use]
    pub fn selu(self, alpha: f32, gamma: f32) -> Expression {
        self.with(Binary::Elu, alpha).with(Binary::Mul, gamma)
    }

    /// `LeakyRelu`.
    #[must_use]
    pub fn leaky_relu(self, alpha: f32) -> Expression {
        self.with(Binary::PRelu, alpha)
    }

    /// Appends `chain` to `self`: operand 0 of `chain` becomes `self`, and the indices of all other
    /// operands of `chain` increase by `shift`.
    #[must_use]
    pub fn then(&self, chain: &Expression, shift: u32) -> Expression {
        let go = |x: &Expression| Box::new(self.then(x, shift));
        match chain {
            Expression::Operand(0) => self.clone(),
            Expression::Operand(index) => Expression::Operand(index + shift),
            Expression::Constant(_) | Expression::Integer(_) => chain.clone(),
            Expression::Unary(function, x) => Expression::Unary(*function, go(x)),
            Expression::Binary(function, a, b) => Expression::Binary(*function, go(a), go(b)),
            Expression::Select(c, a, b) => Expression::Select(go(c), go(a), go(b)),
            Expression::Cast(to, x) => Expression::Cast(*to, go(x)),
            Expression::Saturate(to, x) => Expression::Saturate(*to, go(x)),
        }
    }

    /// The highest operand index plus one; 0 without operands.
    #[must_use]
    pub fn operands(&self) -> u32 {
        match self {
            Expression::Operand(index) => index.saturating_add(1),
            Expression::Constant(_) | Expression::Integer(_) => 0,
            Expression::Unary(_, x) | Expression::Cast(_, x) | Expression::Saturate(_, x) => x.operands(),
            Expression::Binary(_, a, b) => a.operands().max(b.operands()),
            Expression::Select(c, a, b) => c.operands().max(a.operands()).max(b.operands()),
        }
    }

    /// Type of the value for operands of these types.
    ///
    /// # Errors
    /// A function is not defined for its operands' types, or an operand is missing.
    pub fn kind(&self, operands: &[Type]) -> Result<Type> {
        use Binary as B;
        use Unary as U;
        let refuse = |what: String, types: &[Type]| {
            Err(Error::new(format!(
                "expression: {what} is not defined for {types:?}"
            )))
        };
        match self {
            Expression::Operand(index) => operands.get(*index as usize).copied().ok_or_else(|| {
                Error::new(format!(
                    "expression: operand {index} of {} is missing",
                    operands.len()
                ))
            }),
            Expression::Constant(_) => Ok(Type::F32),
            Expression::Integer(_) => Ok(Type::I32),
            Expression::Unary(function, x) => {
                let x = x.kind(operands)?;
                match (function, x) {
                    (U::Not, Type::Bool) => Ok(Type::Bool),
                    (U::BitwiseNot, Type::I32 | Type::U32 | Type::I64) => Ok(x),
                    (U::IsNan | U::IsInf | U::IsPositiveInf | U::IsNegativeInf, Type::F32) => Ok(Type::Bool),
                    (U::Relu | U::Neg | U::Abs | U::Sign, Type::I32 | Type::I64) => Ok(x),
                    (U::Relu | U::Abs | U::Sign, Type::U32) => Ok(x),
                    (
                        U::Not | U::BitwiseNot | U::IsNan | U::IsInf | U::IsPositiveInf | U::IsNegativeInf,
                        _,
                    ) => refuse(format!("{function:?}"), &[x]),
                    (_, Type::F32) => Ok(x),
                    _ => refuse(format!("{function:?}"), &[x]),
                }
            }
            Expression::Binary(function, a, b) => {
                let (a, b) = (a.kind(operands)?, b.kind(operands)?);
                let types = [a, b];
                if a != b {
                    return refuse(format!("{function:?}"), &types);
                }
                match (function, a) {
                    (B::And | B::Or | B::Xor | B::Equal, Type::Bool) => Ok(Type::Bool),
                    (_, Type::Bool) | (B::And | B::Or | B::Xor, _) => refuse(format!("{function:?}"), &types),
                    (B::Equal | B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual, _) => {
                        Ok(Type::Bool)
                    }
                    (B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor, Type::I32 | Type::U32 | Type::I64)
                    | (B::ShiftLeft | B::ShiftRight, Type::U32)
                    | (B::Add | B::Sub | B::Mul | B::Div | B::Min | B::Max | B::Mod | B::FMod, _) => Ok(a),
                    (B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor | B::ShiftLeft | B::ShiftRight, _) => {
                        refuse(format!("{function:?}"), &types)
                    }
                    (B::PRelu, Type::I32 | Type::F32) => Ok(a),
                    (_, Type::F32) => Ok(a),
                    _ => refuse(format!("{function:?}"), &types),
                }
            }
            Expression::Select(c, a, b) => {
                let types = [c.kind(operands)?, a.kind(operands)?, b.kind(operands)?];
                match types {
                    [Type::Bool, a, b] if a == b => Ok(a),
                    _ => refuse("Where".to_owned(), &types),
                }
            }
            Expression::Cast(to, x) => {
                x.kind(operands)?;
                Ok(to.computed())
            }
            Expression::Saturate(to, x) => {
                let x = x.kind(operands)?;
                let narrow = matches!(to, Scalar::U8 | Scalar::I8 | Scalar::U16 | Scalar::I16);
                match x {
                    Type::F32 if narrow => Ok(to.computed()),
                    _ => refuse(format!("saturation to {}", to.name()), &[x]),
                }
            }
        }
    }

    /// The functions of it, the innermost first, each behind a point.
    pub(crate) fn describe(&self, name: &mut String) {
        self.walk(&mut |x| {
            let function = match x {
                Expression::Unary(function, _) => format!(".{function:?}"),
                Expression::Binary(function, _, _) => format!(".{function:?}"),
                Expression::Select(..) => ".where".to_owned(),
                Expression::Cast(to, _) | Expression::Saturate(to, _) => format!(".{}", to.name()),
                Expression::Operand(_) | Expression::Constant(_) | Expression::Integer(_) => return,
            };
            name.push_str(&function.to_ascii_lowercase());
        });
    }

    /// How far off a device may be in f32, of the largest value.
    pub(crate) fn tolerance(&self) -> f64 {
        let mut tolerance: f64 = 1e-5;
        self.walk(&mut |x| {
            let off: f64 = match x {
                Expression::Unary(Unary::Sin | Unary::Cos, _) => 1e-3,
                Expression::Unary(
                    Unary::Tan | Unary::Asin | Unary::Acos | Unary::Atan | Unary::Acosh | Unary::Atanh,
                    _,
                ) => 2e-3,
                Expression::Binary(Binary::Pow, _, _) => 1e-4,
                _ => 0.0,
            };
            tolerance = tolerance.max(off);
        });
        tolerance
    }

    /// Whether a float is rounded to an integer somewhere.
    pub(crate) fn saturates(&self) -> bool {
        let mut saturates = false;
        self.walk(&mut |x| saturates |= matches!(x, Expression::Saturate(..)));
        saturates
    }

    fn walk(&self, see: &mut impl FnMut(&Expression)) {
        match self {
            Expression::Operand(_) | Expression::Constant(_) | Expression::Integer(_) => (),
            Expression::Unary(_, x) | Expression::Cast(_, x) | Expression::Saturate(_, x) => x.walk(see),
            Expression::Binary(_, a, b) => {
                a.walk(see);
                b.walk(see);
            }
            Expression::Select(c, a, b) => {
                c.walk(see);
                a.walk(see);
                b.walk(see);
            }
        }
        see(self);
    }

    /// Whether any intermediate value is a 64-bit integer, for operands of these types.
    ///
    /// # Errors
    /// As [`Expression::kind`].
    pub fn needs_int64(&self, operands: &[Type]) -> Result<bool> {
        if self.kind(operands)? == Type::I64 {
            return Ok(true);
        }
        Ok(match self {
            Expression::Operand(_) | Expression::Constant(_) | Expression::Integer(_) => false,
            Expression::Unary(_, x) | Expression::Cast(_, x) | Expression::Saturate(_, x) => {
                x.needs_int64(operands)?
            }
            Expression::Binary(_, a, b) => a.needs_int64(operands)? || b.needs_int64(operands)?,
            Expression::Select(c, a, b) => {
                c.needs_int64(operands)? || a.needs_int64(operands)? || b.needs_int64(operands)?
            }
        })
    }
}

#[cfg(test)]
mod tests;
