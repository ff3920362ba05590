//! Softmax and its logarithm.
//!
//! Invariant: computed in f32 from the largest value of a row, so that no exponential overflows.

use serde::{Deserialize, Serialize};

use crate::Scalar;

/// Softmax of `[outer, count, inner]` along `count`. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Softmax {
    /// Type of both: `f32` or `f16`.
    pub scalar: Scalar,
    /// Rows before the axis.
    pub outer: u64,
    /// Values of a row.
    pub count: u64,
    /// Values after the axis.
    pub inner: u64,
    /// Whether the logarithm is wanted.
    pub log: bool,
}
