//! Normalisations: a mean and a spread of each row, and every value by them.
//!
//! Invariants:
//! 1. Sums are in f32; the spread is summed about the mean, in a pass of its own.
//! 2. Scale and bias are of the tensor's type and are packed constants or not, as stated.
//!
//! Not here: batch normalisation, which is an element-wise chain.

use serde::{Deserialize, Serialize};

use crate::{Access, Scalar};

/// `LayerNormalization` of `[rows, count]`, or `RMSNormalization`. Bindings: input, scale, bias if any, output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerNorm {
    /// Type of all: `f32` or `f16`.
    pub scalar: Scalar,
    /// Rows.
    pub rows: u64,
    /// Values of a row, of the scale and of the bias.
    pub count: u64,
    /// Added to the spread.
    pub epsilon: f32,
    /// Whether the mean counts as 0 (`RMSNormalization`).
    pub rms: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// How scale and bias are bound.
    pub access: Access,
}

/// `GroupNormalization`; `InstanceNormalization` where there are as many groups as channels. Bindings: input,
/// scale `[channels]`, bias `[channels]`, output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupNorm {
    /// Type of all: `f32` or `f16`.
    pub scalar: Scalar,
    /// Images.
    pub images: u64,
    /// Channels.
    pub channels: u64,
    /// Groups, a divisor of the channels.
    pub groups: u64,
    /// Places of an image.
    pub places: u64,
    /// Whether the layout is `[images, places, channels]`, else `[images, channels, places]`.
    pub channels_last: bool,
    /// Added to the spread.
    pub epsilon: f32,
    /// How scale and bias are bound.
    pub access: Access,
}

/// `LpNormalization` of `[outer, count, inner]` along `count`. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LpNorm {
    /// Type of both: `f32` or `f16`.
    pub scalar: Scalar,
    /// Rows before the axis.
    pub outer: u64,
    /// Values of a row.
    pub count: u64,
    /// Values after the axis.
    pub inner: u64,
    /// 1 or 2.
    pub p: u32,
}

/// `LRN`: local response normalisation across channels. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lrn {
    /// Type of both: `f32` or `f16`.
    pub scalar: Scalar,
    /// Images.
    pub images: u64,
    /// Channels.
    pub channels: u64,
    /// Places of an image.
    pub places: u64,
    /// Whether the layout is `[images, places, channels]`, else `[images, channels, places]`.
    pub channels_last: bool,
    /// Channels of a sum.
    pub size: u64,
    /// Factor of the sum, which is divided by `size`.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Added to the sum.
    pub bias: f32,
}
