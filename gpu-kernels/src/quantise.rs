//! Floats to small integers and back.
//!
//! Invariant: `y = saturate(round(x / scale) + zero_point)`, halves to even; `x = (y - zero_point) * scale`.
//!
//! Both are element-wise chains: the expressions here serve fused chains too.

use serde::{Deserialize, Serialize};

use crate::{Access, Scalar};

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
