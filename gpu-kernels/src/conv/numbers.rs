//! Types of one scalar: of pixels, weights and sums.

use super::Conv;
use crate::Scalar;

/// Types and products of one scalar.
pub(super) struct Numbers {
    /// Four steps of one pixel.
    pub(super) four: &'static str,
    /// Its size, in bytes.
    pub(super) four_bytes: u32,
    /// Four columns: of floats for one step, of bytes for four.
    pub(super) weight: &'static str,
    /// Its size, in bytes.
    pub(super) weight_bytes: u32,
    /// Vectors of weights per four steps.
    pub(super) steps: u32,
    /// Four sums.
    pub(super) sum: &'static str,
    /// Four steps of padding.
    pub(super) zero: String,
}

impl Conv {
    pub(super) fn numbers(&self) -> Numbers {
        match self.scalar {
            Scalar::F32 => Numbers {
                four: "vec4<f32>",
                four_bytes: 16,
                weight: "vec4<f32>",
                weight_bytes: 16,
                steps: 4,
                sum: "vec4<f32>",
                zero: "vec4<f32>()".into(),
            },
            Scalar::F16 => Numbers {
                four: "vec4<f16>",
                four_bytes: 8,
                weight: "vec4<f16>",
                weight_bytes: 8,
                steps: 4,
                sum: "vec4<f32>",
                zero: "vec4<f16>()".into(),
            },
            _ => Numbers {
                four: "u32",
                four_bytes: 4,
                weight: "vec4<u32>",
                weight_bytes: 16,
                steps: 1,
                sum: "vec4<i32>",
                zero: format!("{}u", u32::from_le_bytes([self.zero_signed() as u8; 4])),
            },
        }
    }
}
