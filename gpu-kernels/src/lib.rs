//! GPU kernels: generators of shader text, launch arithmetic, and the scalar reference of each
//! kernel.
//!
//! Invariants:
//! 1. No driver is called here: a [`Kernel`] is text and numbers.
//! 2. Every generator provides a sample with expected results, computed by scalar code
//!    ([`Sample`]). Tests, and the first use of a variant on a device, compare the kernel with it.
//! 3. A kernel that exceeds a device's limits is an error here ([`Kernel::check`]), because drivers
//!    do not check.
//!
//! Not here: which kernel a node gets, and where tensors are in memory (`compiler/gpu-lowering`).
//! Start reading at [`Kernel`], then [`Generate`].

#![forbid(unsafe_code)]

mod attention;
mod conv;
mod copy;
mod depthwise;
mod element;
mod elementwise;
mod epilogue;
mod error;
mod expression;
mod gemm;
mod gemv;
mod grid;
mod kernel;
mod limits;
mod movement;
mod norm;
mod pool;
mod quantise;
mod reduce;
mod reduction;
mod resize;
mod rotary;
mod rows;
mod sample;
mod sample_shapes;
mod scalar;
mod softmax;
mod wgsl;
mod window;

pub use attention::{Attention, Mask, NewRows, Past, PastCopy, RotaryTables, VisiblePast};
pub use conv::{Conv, ConvTile, Direction, Threads};
pub use copy::Copy;
pub use depthwise::Depthwise;
pub use elementwise::{Elementwise, Operand, Outcome};
pub use epilogue::{Broadcast, Columns, DeclaredEpilogue, Epilogue, EpilogueOperand};
pub use error::{Error, Result};
pub use expression::{Binary, Expression, Number, Type, Unary};
pub use gemm::{BatchAxis, Gemm, GemmInt8, GemmTile, Quants, Right, pack_b};
pub use gemv::{ExpandBlocks, Gemv, RmsScale, Teams};
pub use kernel::{Access, Binding, Generate, Kernel};
pub use limits::{Features, Limits};
pub use movement::{
    Concat, CumSum, Gather, GatherElements, GatherNd, OneHot, Pad, PadMode, ScatterElements, ScatterNd,
    Slice, Tile, Transpose, Trilu,
};
pub use norm::{GroupNorm, LayerNorm, LpNorm, Lrn};
pub use pool::{GlobalPool, Pool, PoolKind};
pub use quantise::{Dequantise, Quantise, dequantised, quantised};
pub use reduce::{ArgReduce, Reduce, Reduction};
pub use resize::{Coordinates, Interpolation, Resize, ResizeAxis, Rounding};
pub use rotary::Rotary;
pub use sample::{Sample, Values};
pub use scalar::Scalar;
pub use softmax::Softmax;
pub use wgsl::WgslBuilder;
pub use window::{Image, ImageLayout, Window};
