//! Reductions along axes, by a tree in the memory of a workgroup.
//!
//! Invariant: floats are summed in f32, integers in their own type; the order of a sum is fixed by the shape.

use serde::{Deserialize, Serialize};

use crate::Scalar;

/// What is made of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // each is ONNX `Reduce` of that name
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

/// A reduction. Bindings: input, output of the same type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reduce {
    /// Type of both: `f32`, `f16`, or (not of logarithms and roots) `i32`, `i64`.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Axes that go.
    pub axes: Vec<usize>,
    /// What is made of the values.
    pub reduction: Reduction,
}

/// `ArgMax` or `ArgMin`. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArgReduce {
    /// Type of the input: `f32`, `f16`, `i32`, `i8` or `u8`.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Axis that goes.
    pub axis: usize,
    /// Whether the largest is looked for.
    pub largest: bool,
    /// Whether the last of several equal ones counts.
    pub last: bool,
    /// Type of the output: `i64` (no device needs 64-bit integers for it) or `i32`.
    pub index: Scalar,
}
