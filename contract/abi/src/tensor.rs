//! A tensor of a flat graph: type, shape, and the bytes of a constant.

use crate::encoding::polychip_encoding;
use crate::sized::sized;
use crate::span::polychip_text;

/// An extent that is unknown before the run.
pub const POLYCHIP_DIM_UNKNOWN: i64 = -1;

/// The tensor is a constant: `data` holds its elements.
pub const POLYCHIP_TENSOR_CONSTANT: u32 = 1;
/// The extents are upper bounds. The actual ones are known after the run.
pub const POLYCHIP_TENSOR_UPPER_BOUND: u32 = 2;
/// The rank is unknown: `rank` is 0 and has no meaning.
pub const POLYCHIP_TENSOR_UNRANKED: u32 = 4;
/// The data type is unknown: `dtype` has no meaning. Set together with `POLYCHIP_TENSOR_UNRANKED`.
pub const POLYCHIP_TENSOR_UNTYPED: u32 = 8;
/// A sequence or optional of tensors, packed into bytes. `dtype` is `POLYCHIP_DTYPE_U8`, the rank
/// is 1, and the extent is the maximum number of bytes. Set together with
/// `POLYCHIP_TENSOR_UPPER_BOUND`. Tensors of strings at ports are packed in the same way, with kind
/// 1. The packed form is little-endian:
///
/// - a header: u32 kind (0 nothing, 1 a tensor, 2 a sequence), u32 number of tensors, u64 total
///   number of bytes
/// - for each tensor: u32 `POLYCHIP_DTYPE_*`, u32 rank, a u64 per extent, u64 number of bytes of
///   the elements, the elements as in `polychip_tensor`, and zeros up to a multiple of 8
pub const POLYCHIP_TENSOR_CONTAINER: u32 = 16;

/// No file backs the constant.
pub const POLYCHIP_NO_FD: i64 = -1;

/// A tensor. Elements are little-endian in row-major (ONNX) order. Types of less than a byte are
/// packed, first element in the low bits. A string is its byte count as u32, then UTF-8 text.
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
    /// `rank` extents; `POLYCHIP_DIM_UNKNOWN` for an unknown one. Not followed if `rank` is 0,
    /// which means a scalar unless `POLYCHIP_TENSOR_UNRANKED` is set.
    pub dims: *const i64,
    /// Name in the model, for messages only.
    pub name: polychip_text,
    /// Quantisation, or null.
    pub encoding: *const polychip_encoding,
    /// Elements of a constant, at an address of any alignment. They are valid during the call and,
    /// if the graph was passed to `load`, until that executable is destroyed.
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
