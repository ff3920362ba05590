//! Kernels on 8-bit quantised values (*codes*): products, depthwise convolutions, sums, pools and
//! conversions, with integer sums.
//!
//! 1. A code is an unsigned byte; code `q` of a tensor encodes `(q - zero) * scale`. Signed bytes become codes by
//!    flipping their top bit, which moves the zero by 128.
//! 2. Sums of products are exact in 32 bits: a plan refuses a depth that could overflow.
//! 3. A result is `round(sum * factor) + zero`, rounded to nearest even, then clamped to the
//!    allowed codes; `factor` is per output channel. Factors are relative to the result's scale, so
//!    no kernel divides at run time.
//! 4. 4-bit weights multiply rows of floats ([`Int4Plan`]) and become floats in registers. Weights in ggml's blocks
//!    multiply rows that are rounded to signed bytes at run time ([`BlockPlan`]); results are `f32`.
//!
//! Not here: 16-bit codes, and the choice of nodes that compute on codes.

#[cfg(target_arch = "x86_64")]
mod amx;
mod average;
mod blocks;
mod conv;
mod depthwise;
mod elementwise;
mod int4;
mod int8;
mod tile;
mod weights;

pub use average::AveragePlan;
pub use blocks::{BlockLayout, BlockPlan, BlockProduct, run_all};
pub use conv::ConvPlan;
pub use elementwise::{
    Rows, Sum, Zeros, add, dequantise, dynamic, flip, map, max_pool, multiply, quantise, requantise,
    subtract_zero,
};
pub use int4::{Int4Plan, Int4Weights};
pub use int8::CodeRange;
pub use tile::{Added, Output};
pub use weights::Weights;
