//! Kernels on 8-bit codes: products, depthwise convolutions, sums, pools and conversions, summed in integers.
//!
//! 1. A code is an unsigned byte; code `q` of a tensor stands for `(q - zero) * scale`. Signed bytes are made codes by
//!    flipping their top bit, which moves the zero by 128.
//! 2. Sums of products are exact in 32 bits: a plan refuses a depth that could overflow.
//! 3. A result is `round(sum * factor) + zero`, rounded to nearest even, then clamped to the allowed codes; `factor`
//!    is per output channel. Factors are in steps of the result, so nothing divides at run time.
//! 4. Weights of 4 bits meet rows of floats ([`NibblePlan`]); they are made floats in registers.
//!
//! Not here: 16-bit codes, and which node computes in codes.

mod average;
mod conv;
mod depthwise;
mod elementwise;
mod nibbles;
mod tile;

pub use average::AveragePlan;
pub use conv::{ConvPlan, Target, Weights};
pub use elementwise::{
    Sum, add, dequantise, dynamic, flip, map, max_pool, multiply, quantise, subtract_zero,
};
pub use nibbles::{NibblePlan, Nibbles};
pub use tile::{Added, Output};

/// The codes that a result may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    /// The code of zero.
    pub zero: u8,
    /// The least code.
    pub low: u8,
    /// The greatest code.
    pub high: u8,
}

impl Codes {
    /// All codes.
    #[must_use]
    pub const fn all(zero: u8) -> Self {
        Self {
            zero,
            low: 0,
            high: 255,
        }
    }

    /// The limits less the zero, as floats.
    pub(crate) fn limits(self) -> (f32, f32) {
        let zero = f32::from(self.zero);
        (f32::from(self.low) - zero, f32::from(self.high) - zero)
    }
}
