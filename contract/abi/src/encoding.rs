//! Quantisation of a tensor: how stored integers stand for real values.
//!
//! Invariant: real = (stored − zero_point) × scale, with the scale and zero point of the element's
//! tensor, slice along `axis`, or block of `block_size` elements along `axis`.

use crate::sized::sized;

/// One scale and zero point for the whole tensor.
pub const POLYCHIP_ENCODING_PER_TENSOR: u32 = 1;
/// One scale and zero point per index of `axis`.
pub const POLYCHIP_ENCODING_PER_AXIS: u32 = 2;
/// One scale and zero point per block of `block_size` elements along `axis`; the arrays are in
/// row-major order of the tensor's shape with `axis` divided by `block_size`, rounded up.
pub const POLYCHIP_ENCODING_PER_BLOCK: u32 = 3;

/// Scale and zero point of a quantised tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_encoding {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// One of `POLYCHIP_ENCODING_*`.
    pub kind: u32,
    /// Axis of per-axis and per-block encodings, counted from the front.
    pub axis: u32,
    /// Elements in a block; 0 unless per block.
    pub block_size: u32,
    /// `scale_count` scales.
    pub scales: *const f32,
    /// Number of scales.
    pub scale_count: u64,
    /// `zero_point_count` zero points; null means all 0.
    pub zero_points: *const i32,
    /// 0 or `scale_count`.
    pub zero_point_count: u64,
    /// Data type of the real value that an op sees (`POLYCHIP_DTYPE_*`, usually F32).
    pub real_dtype: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(polychip_encoding);
