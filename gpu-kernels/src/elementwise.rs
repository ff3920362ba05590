//! A chain of element-wise ops as one kernel: broadcasting and strided operands in, one or several tensors out.
//!
//! Invariants:
//! 1. Outputs are dense and row-major, all of one shape; a thread writes whole words, so the last word of a
//!    tensor of bytes may be written beyond its end.
//! 2. An operand's place is `offset + sum(index[i] * strides[i])`, in elements: 0 where it is broadcast, negative
//!    where it is reversed. So slices, transposes and expansions of operands cost nothing extra.

use serde::{Deserialize, Serialize};

use crate::{Access, Expression, Scalar};

/// A tensor that is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// Type in memory.
    pub scalar: Scalar,
    /// [`Access::Read`], or [`Access::Constant`] of packed constants.
    pub access: Access,
    /// Elements from one place to the next along each axis of the kernel's shape.
    pub strides: Vec<i64>,
    /// Elements before the one at index 0 of all axes.
    pub offset: u64,
}

/// A tensor that is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Type in memory; the expression's type must be [`Scalar::computed`] of it.
    pub scalar: Scalar,
    /// What it holds, over the kernel's operands.
    pub expression: Expression,
}

/// Expressions over operands at each place of a shape. Bindings: the operands, then the outcomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elementwise {
    /// Shape of all outcomes.
    pub shape: Vec<u64>,
    /// Operands.
    pub operands: Vec<Operand>,
    /// Outcomes.
    pub outcomes: Vec<Outcome>,
}
