//! Quantisation of a tensor: how stored integers map to real values.
//!
//! Invariant: real = (stored − zero_point) × scale, with the scale and zero point of the element's
//! tensor, of its slice along `axis`, or of its block of `block_size` elements along `axis`. Blocks
//! that hold their own scales follow the formula of their layout instead.

use crate::sized::sized;

/// One scale and zero point for the whole tensor.
pub const POLYCHIP_ENCODING_PER_TENSOR: u32 = 1;
/// One scale and zero point per index of `axis`.
pub const POLYCHIP_ENCODING_PER_AXIS: u32 = 2;
/// One scale and zero point per block of `block_size` elements along `axis`. The arrays are in
/// row-major order of the tensor's shape, with `axis` divided by `block_size` and rounded up.
pub const POLYCHIP_ENCODING_PER_BLOCK: u32 = 3;
/// Blocks that hold their scales beside their values, in the layout `block_layout`. For constants
/// only. Since 1.2.
///
/// - Blocks lie along the last axis, whose extent is a multiple of the number of values in a block.
/// - `data` consists of whole blocks, and `dtype` is `POLYCHIP_DTYPE_U8`. `dims` count values, not
///   bytes.
/// - `scales` and `zero_points` are empty.
/// - If precision may be reduced, a product with such a constant may round its other operand to 8
///   bits, with one scale per 32 neighbours along the axis.
/// - A device that does not know the layout refuses the nodes that read the constant.
pub const POLYCHIP_ENCODING_BLOCKS: u32 = 4;

/// 18 bytes for 32 values: f16 scale `d`, then 16 bytes with 4-bit values `q`. The low halves of
/// the bytes are values 0 to 15, the high halves values 16 to 31. Value: (q - 8) d. All block
/// layouts are ggml's, and their numbers are little-endian.
pub const POLYCHIP_BLOCKS_Q4_0: u32 = 1;
/// 20 bytes for 32 values: f16 `d`, f16 `m`, 16 bytes as in Q4_0. Value: q d + m.
pub const POLYCHIP_BLOCKS_Q4_1: u32 = 2;
/// 34 bytes for 32 values: f16 `d`, 32 signed bytes `q`. Value: q d.
pub const POLYCHIP_BLOCKS_Q8_0: u32 = 3;
/// 144 bytes for 256 values in 8 groups of 32. Value: q d s - dmin m.
///
/// - f16 `d`, f16 `dmin`.
/// - 12 bytes b with a 6-bit scale `s` and a 6-bit minimum `m` for each group g. If g < 4, then
///   `s = b[g] & 63` and `m = b[g + 4] & 63`. If g >= 4, then
///   `s = (b[g + 4] & 15) | (b[g - 4] >> 6 << 4)` and `m = (b[g + 4] >> 4) | (b[g] >> 6 << 4)`.
/// - 128 bytes with 4-bit values `q`: 32 bytes for two groups. Their low halves belong to the first
///   group, their high halves to the second.
pub const POLYCHIP_BLOCKS_Q4_K: u32 = 4;
/// 176 bytes for 256 values: as Q4_K, with 32 more bytes before the last 128. In these, bit g of
/// byte i is the fifth bit of value i of group g.
pub const POLYCHIP_BLOCKS_Q5_K: u32 = 5;
/// 210 bytes for 256 values. Value: (q - 32) d s.
///
/// - 128 bytes with the low 4 bits of `q`: 64 bytes for 128 values. Their low halves belong to
///   values 0 to 63, their high halves to values 64 to 127.
/// - 64 bytes with the 2 high bits of `q`: 32 bytes for 128 values. Bits 2k and 2k + 1 of byte i
///   belong to value 32 k + i.
/// - 16 signed scales `s`, each for 16 values.
/// - f16 `d`.
pub const POLYCHIP_BLOCKS_Q6_K: u32 = 6;
/// 22 bytes for 32 values: f16 `d`, 4 bytes whose bit i is the fifth bit of value i, 16 bytes as in
/// Q4_0. Value: (q - 16) d. This layout and those below since 1.3.
pub const POLYCHIP_BLOCKS_Q5_0: u32 = 7;
/// 24 bytes for 32 values: f16 `d`, f16 `m`, then as Q5_0. Value: q d + m.
pub const POLYCHIP_BLOCKS_Q5_1: u32 = 8;
/// 84 bytes for 256 values in 16 groups. Value: q d s - dmin m.
///
/// - 16 bytes with a scale `s` in the low half and a minimum `m` in the high half.
/// - 64 bytes with 2-bit values `q`: 32 bytes for 128 values. Bits 2k and 2k + 1 of byte i are
///   value 32 k + i.
/// - f16 `d`, f16 `dmin`.
pub const POLYCHIP_BLOCKS_Q2_K: u32 = 9;
/// 110 bytes for 256 values in 16 groups. Value: (q - 4) d (s - 32).
///
/// - 32 bytes with the high bit of `q`: bit k of byte i belongs to value 32 k + i.
/// - 64 bytes with the 2 low bits of `q`, as in Q2_K.
/// - 12 bytes b with a 6-bit scale `s` for each group g. Its 4 low bits are `b[g] & 15` if g < 8,
///   else `b[g - 8] >> 4`. Its 2 high bits are bits 2k and 2k + 1 of `b[8 + g % 4]`, where k is g /
///   4, rounded down.
/// - f16 `d`.
pub const POLYCHIP_BLOCKS_Q3_K: u32 = 10;
/// 18 bytes for 32 values, as Q4_0. Value: t(q) d, where `q` is an index into this table `t`: -127,
/// -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113.
pub const POLYCHIP_BLOCKS_IQ4_NL: u32 = 11;
/// 136 bytes for 256 values in 8 groups of 32. Value: t(q) d (s - 32), with the table `t` of
/// IQ4_NL.
///
/// - f16 `d`.
/// - 2 bytes with the 2 high bits of the scale `s` of each group: group 0 has the lowest bits.
/// - 4 bytes with the 4 low bits of each scale: group 0 has the low half of the first byte, group 1
///   its high half.
/// - 128 bytes with 4-bit values `q`: 16 bytes per group, as in Q4_0.
pub const POLYCHIP_BLOCKS_IQ4_XS: u32 = 12;
/// 17 bytes for 32 values: a byte `e`, then 16 bytes with 4-bit values `q`, as in Q4_0. Value: t(q)
/// 2^(e - 128), where `q` is an index into this table `t`: 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3,
/// -4, -6, -8, -12.
pub const POLYCHIP_BLOCKS_MXFP4: u32 = 13;

/// Scale and zero point of a quantised tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_encoding {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// One of `POLYCHIP_ENCODING_*`.
    pub kind: u32,
    /// Axis of the encoding, counted from the front. Always the last axis for
    /// `POLYCHIP_ENCODING_BLOCKS`; unused for `POLYCHIP_ENCODING_PER_TENSOR`.
    pub axis: u32,
    /// Elements in a block; 0 for encodings without blocks.
    pub block_size: u32,
    /// `scale_count` scales.
    pub scales: *const f32,
    /// Number of scales.
    pub scale_count: u64,
    /// `zero_point_count` zero points; null: all 0.
    pub zero_points: *const i32,
    /// 0 or `scale_count`.
    pub zero_point_count: u64,
    /// Data type of the real values that an op sees (`POLYCHIP_DTYPE_*`, usually F32).
    pub real_dtype: u32,
    /// `POLYCHIP_BLOCKS_*` for `POLYCHIP_ENCODING_BLOCKS`, otherwise 0. Since 1.2.
    pub block_layout: u32,
}

sized!(polychip_encoding);
