//! Element-wise arithmetic as an expression: what a chain of ops computes at one place of its output, whether
//! it is a kernel of its own or stands at the end of a product or a convolution.
//!
//! Invariant: the text and [`Expression::value`] mean the same; both compute in f32.

use serde::{Deserialize, Serialize};

/// A function of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the ONNX op of that name
pub enum Unary {
    Relu,
    Neg,
}

/// A function of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the ONNX op of that name
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// What is computed at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Expression {
    /// An operand; of an epilogue, number 0 is the sum of products.
    Operand(u32),
    /// A constant.
    Constant(f32),
    /// A function of one value.
    Unary(Unary, Box<Expression>),
    /// A function of two values.
    Binary(Binary, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// WGSL text over the names of operands, which are `f32` or `vec{width}<f32>`.
    #[must_use]
    pub fn text(&self, operands: &[&str], width: u32) -> String {
        match self {
            Expression::Operand(index) => operands[*index as usize].to_owned(),
            Expression::Constant(value) if width == 1 => format!("f32({value:?})"),
            Expression::Constant(value) => format!("vec{width}<f32>({value:?})"),
            Expression::Unary(function, x) => {
                let x = x.text(operands, width);
                match function {
                    Unary::Relu if width == 1 => format!("max({x}, 0.0)"),
                    Unary::Relu => format!("max({x}, vec{width}<f32>(0.0))"),
                    Unary::Neg => format!("(-{x})"),
                }
            }
            Expression::Binary(function, a, b) => {
                let (a, b) = (a.text(operands, width), b.text(operands, width));
                match function {
                    Binary::Add => format!("({a} + {b})"),
                    Binary::Sub => format!("({a} - {b})"),
                    Binary::Mul => format!("({a} * {b})"),
                    Binary::Div => format!("({a} / {b})"),
                    Binary::Min => format!("min({a}, {b})"),
                    Binary::Max => format!("max({a}, {b})"),
                }
            }
        }
    }

    /// The value for these operands.
    #[must_use]
    pub fn value(&self, operands: &[f32]) -> f32 {
        match self {
            Expression::Operand(index) => operands[*index as usize],
            Expression::Constant(value) => *value,
            Expression::Unary(function, x) => {
                let x = x.value(operands);
                match function {
                    Unary::Relu => x.max(0.0),
                    Unary::Neg => -x,
                }
            }
            Expression::Binary(function, a, b) => {
                let (a, b) = (a.value(operands), b.value(operands));
                match function {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    Binary::Min => a.min(b),
                    Binary::Max => a.max(b),
                }
            }
        }
    }
}
