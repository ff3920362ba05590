//! One tensor of a flat graph: type, shape, and, for a constant, where its bytes lie.

use crate::encoding::polychip_encoding;
use crate::sized::sized;
use crate::span::polychip_text;

/// An extent that is not known before the run.
pub const POLYCHIP_DIM_UNKNOWN: i64 = -1;

/// The tensor is a constant: `data` holds its elements.
pub const POLYCHIP_TENSOR_CONSTANT: u32 = 1;
/// The extents are upper bounds; the actual ones are known after the run.
pub const POLYCHIP_TENSOR_UPPER_BOUND: u32 = 2;
/// Not even the rank is known: `rank` is 0 and says nothing.
pub const POLYCHIP_TENSOR_UNRANKED: u32 = 4;
/// Not even the data type is known: `dtype` says nothing. Comes with `POLYCHIP_TENSOR_UNRANKED`.
pub const POLYCHIP_TENSOR_UNTYPED: u32 = 8;
/// A sequence or optional of tensors, packed into bytes: `dtype` is `POLYCHIP_DTYPE_U8`, and the one extent is the most
/// bytes. Comes with `POLYCHIP_TENSOR_UPPER_BOUND`. The form, little-endian: u32 what it is (0 nothing, 1 a tensor, 2 a
/// sequence), u32 how many tensors follow, u64 the bytes of the whole; per tensor u32 `POLYCHIP_DTYPE_*`, u32 rank, as
/// many u64 extents, u64 bytes of its elements, the elements as in `polychip_tensor`, and zeros up to a multiple of 8.
/// A port of strings carries the same form (1, a tensor).
pub const POLYCHIP_TENSOR_CONTAINER: u32 = 16;

/// No file stands behind a constant.
pub const POLYCHIP_NO_FD: i64 = -1;

/// A tensor. Elements are little-endian in row-major (ONNX) order; types of less than a byte are
/// packed, first element in the low bits; a string is its byte count as u32, then UTF-8 text.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct polychip_tensor {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_DTYPE_*` of the stored elements.
    pub dtype: u32,
    /// Bits `POLYCHIP_TENSOR_*`.
    pub flags: u32,
    /// Number of extents.
    pub rank: u32,
    /// `rank` extents; `POLYCHIP_DIM_UNKNOWN` where not known. Not followed when `rank` is 0: a scalar, unless the
    /// flags say `POLYCHIP_TENSOR_UNRANKED`.
    pub dims: *const i64,
    /// Name in the model, for messages only.
    pub name: polychip_text,
    /// Quantisation, or null.
    pub encoding: *const polychip_encoding,
    /// Elements of a constant, at an address of any alignment; they stay there as long as an executable
    /// that was loaded with the graph, and at least for the call.
    pub data: *const u8,
    /// Bytes of `data`.
    pub data_bytes: u64,
    /// File that `data` is mapped from, or `POLYCHIP_NO_FD`. The host keeps it open.
    pub fd: i64,
    /// Offset of `data` in the file, in bytes.
    pub fd_offset: u64,
}

impl Default for polychip_tensor {
    fn default() -> Self {
        Self {
            struct_size: 0,
            dtype: 0,
            flags: 0,
            rank: 0,
            dims: std::ptr::null(),
            name: polychip_text::default(),
            encoding: std::ptr::null(),
            data: std::ptr::null(),
            data_bytes: 0,
            fd: POLYCHIP_NO_FD,
            fd_offset: 0,
        }
    }
}

sized!(polychip_tensor);
