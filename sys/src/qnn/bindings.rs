//! Declarations of the QNN libraries: made by `cargo xtask bindgen` from `sys/headers/qnn.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

pub type polychip_qnn_error = u64;
pub const POLYCHIP_QNN_SUCCESS: _bindgen_ty_1 = 0;
pub const POLYCHIP_QNN_ERROR_CODE_MASK: _bindgen_ty_1 = 65535;
pub const POLYCHIP_QNN_ERROR_NOT_SUPPORTED: _bindgen_ty_1 = 1000;
pub const POLYCHIP_QNN_ERROR_MEMORY: _bindgen_ty_1 = 1002;
pub const POLYCHIP_QNN_ERROR_GRAPH_NOT_ENABLED: _bindgen_ty_1 = 1100;
pub const POLYCHIP_QNN_ERROR_OP_REJECTED: _bindgen_ty_1 = 3110;
pub const POLYCHIP_QNN_ERROR_CREATE: _bindgen_ty_1 = 4000;
pub const POLYCHIP_QNN_ERROR_GRAPH_FIRST: _bindgen_ty_1 = 6000;
pub const POLYCHIP_QNN_ERROR_TENSOR_ID: _bindgen_ty_1 = 6004;
pub const POLYCHIP_QNN_ERROR_DEVICE_CONFIG: _bindgen_ty_1 = 14001;
pub const POLYCHIP_QNN_ERROR_BINARY_ZEROED: _bindgen_ty_1 = 30001;
pub const POLYCHIP_QNN_ERROR_BINARY_TRUNCATED: _bindgen_ty_1 = 30010;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_TYPE_I8: _bindgen_ty_2 = 8;
pub const POLYCHIP_QNN_TYPE_I16: _bindgen_ty_2 = 22;
pub const POLYCHIP_QNN_TYPE_I32: _bindgen_ty_2 = 50;
pub const POLYCHIP_QNN_TYPE_I64: _bindgen_ty_2 = 100;
pub const POLYCHIP_QNN_TYPE_U8: _bindgen_ty_2 = 264;
pub const POLYCHIP_QNN_TYPE_U16: _bindgen_ty_2 = 278;
pub const POLYCHIP_QNN_TYPE_U32: _bindgen_ty_2 = 306;
pub const POLYCHIP_QNN_TYPE_U64: _bindgen_ty_2 = 356;
pub const POLYCHIP_QNN_TYPE_F16: _bindgen_ty_2 = 534;
pub const POLYCHIP_QNN_TYPE_F32: _bindgen_ty_2 = 562;
pub const POLYCHIP_QNN_TYPE_SFIXED4: _bindgen_ty_2 = 772;
pub const POLYCHIP_QNN_TYPE_SFIXED8: _bindgen_ty_2 = 776;
pub const POLYCHIP_QNN_TYPE_SFIXED16: _bindgen_ty_2 = 790;
pub const POLYCHIP_QNN_TYPE_SFIXED32: _bindgen_ty_2 = 818;
pub const POLYCHIP_QNN_TYPE_UFIXED4: _bindgen_ty_2 = 1028;
pub const POLYCHIP_QNN_TYPE_UFIXED8: _bindgen_ty_2 = 1032;
pub const POLYCHIP_QNN_TYPE_UFIXED16: _bindgen_ty_2 = 1046;
pub const POLYCHIP_QNN_TYPE_UFIXED32: _bindgen_ty_2 = 1074;
pub const POLYCHIP_QNN_TYPE_BOOL8: _bindgen_ty_2 = 1288;
pub const POLYCHIP_QNN_TYPE_UNDEFINED: _bindgen_ty_2 = 2147483647;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_TENSOR_INPUT: _bindgen_ty_3 = 0;
pub const POLYCHIP_QNN_TENSOR_OUTPUT: _bindgen_ty_3 = 1;
pub const POLYCHIP_QNN_TENSOR_INPUT_OUTPUT: _bindgen_ty_3 = 2;
pub const POLYCHIP_QNN_TENSOR_NATIVE: _bindgen_ty_3 = 3;
pub const POLYCHIP_QNN_TENSOR_STATIC: _bindgen_ty_3 = 4;
pub const POLYCHIP_QNN_TENSOR_ABSENT: _bindgen_ty_3 = 5;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_FORMAT_DENSE: _bindgen_ty_4 = 0;
pub const POLYCHIP_QNN_MEMORY_RAW: _bindgen_ty_4 = 0;
pub const POLYCHIP_QNN_MEMORY_HANDLE: _bindgen_ty_4 = 1;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_TENSOR_V1: _bindgen_ty_5 = 1;
pub const POLYCHIP_QNN_TENSOR_V2: _bindgen_ty_5 = 2;
pub const POLYCHIP_QNN_OP_CONFIG_V1: _bindgen_ty_5 = 1;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_QUANT_DEFINED: _bindgen_ty_6 = 1;
pub const POLYCHIP_QNN_QUANT_NONE: _bindgen_ty_6 = 2147483647;
pub const POLYCHIP_QNN_ENCODING_PER_TENSOR: _bindgen_ty_6 = 0;
pub const POLYCHIP_QNN_ENCODING_PER_AXIS: _bindgen_ty_6 = 1;
pub const POLYCHIP_QNN_ENCODING_BITS_PER_TENSOR: _bindgen_ty_6 = 2;
pub const POLYCHIP_QNN_ENCODING_BITS_PER_AXIS: _bindgen_ty_6 = 3;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_PARAM_SCALAR: _bindgen_ty_7 = 0;
pub const POLYCHIP_QNN_PARAM_TENSOR: _bindgen_ty_7 = 1;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_LOG_ERROR: _bindgen_ty_8 = 1;
pub const POLYCHIP_QNN_LOG_WARN: _bindgen_ty_8 = 2;
pub const POLYCHIP_QNN_LOG_INFO: _bindgen_ty_8 = 3;
pub const POLYCHIP_QNN_LOG_VERBOSE: _bindgen_ty_8 = 4;
pub const POLYCHIP_QNN_LOG_DEBUG: _bindgen_ty_8 = 5;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_LIBRARY_SAVER: _bindgen_ty_9 = 2;
pub const POLYCHIP_QNN_LIBRARY_CPU: _bindgen_ty_9 = 3;
pub const POLYCHIP_QNN_LIBRARY_GPU: _bindgen_ty_9 = 4;
pub const POLYCHIP_QNN_LIBRARY_HTP: _bindgen_ty_9 = 6;
pub const POLYCHIP_QNN_LIBRARY_IR: _bindgen_ty_9 = 9;
pub type _bindgen_ty_9 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_log_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_log = *mut polychip_qnn_log_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_backend_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_backend = *mut polychip_qnn_backend_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_device_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_device = *mut polychip_qnn_device_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_context_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_context = *mut polychip_qnn_context_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_graph_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_graph = *mut polychip_qnn_graph_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_profile_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_profile = *mut polychip_qnn_profile_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_signal_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_signal = *mut polychip_qnn_signal_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_memory_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_memory = *mut polychip_qnn_memory_object;
#[repr(C)]
#[derive(Debug)]
pub struct polychip_qnn_system_object {
    _unused: [u8; 0],
}
pub type polychip_qnn_system = *mut polychip_qnn_system_object;
pub type polychip_qnn_event = u64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_version"][::core::mem::size_of::<polychip_qnn_version>() - 12usize];
    ["Alignment of polychip_qnn_version"][::core::mem::align_of::<polychip_qnn_version>() - 4usize];
    ["Offset of field: polychip_qnn_version::major"]
        [::core::mem::offset_of!(polychip_qnn_version, major) - 0usize];
    ["Offset of field: polychip_qnn_version::minor"]
        [::core::mem::offset_of!(polychip_qnn_version, minor) - 4usize];
    ["Offset of field: polychip_qnn_version::patch"]
        [::core::mem::offset_of!(polychip_qnn_version, patch) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_scale_offset {
    pub scale: f32,
    pub offset: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_scale_offset"][::core::mem::size_of::<polychip_qnn_scale_offset>() - 8usize];
    ["Alignment of polychip_qnn_scale_offset"][::core::mem::align_of::<polychip_qnn_scale_offset>() - 4usize];
    ["Offset of field: polychip_qnn_scale_offset::scale"]
        [::core::mem::offset_of!(polychip_qnn_scale_offset, scale) - 0usize];
    ["Offset of field: polychip_qnn_scale_offset::offset"]
        [::core::mem::offset_of!(polychip_qnn_scale_offset, offset) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_per_axis {
    pub axis: i32,
    pub count: u32,
    pub pairs: *mut polychip_qnn_scale_offset,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_per_axis"][::core::mem::size_of::<polychip_qnn_per_axis>() - 16usize];
    ["Alignment of polychip_qnn_per_axis"][::core::mem::align_of::<polychip_qnn_per_axis>() - 8usize];
    ["Offset of field: polychip_qnn_per_axis::axis"]
        [::core::mem::offset_of!(polychip_qnn_per_axis, axis) - 0usize];
    ["Offset of field: polychip_qnn_per_axis::count"]
        [::core::mem::offset_of!(polychip_qnn_per_axis, count) - 4usize];
    ["Offset of field: polychip_qnn_per_axis::pairs"]
        [::core::mem::offset_of!(polychip_qnn_per_axis, pairs) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_bits_per_tensor {
    pub bits: u32,
    pub scale: f32,
    pub offset: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_bits_per_tensor"]
        [::core::mem::size_of::<polychip_qnn_bits_per_tensor>() - 12usize];
    ["Alignment of polychip_qnn_bits_per_tensor"]
        [::core::mem::align_of::<polychip_qnn_bits_per_tensor>() - 4usize];
    ["Offset of field: polychip_qnn_bits_per_tensor::bits"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_tensor, bits) - 0usize];
    ["Offset of field: polychip_qnn_bits_per_tensor::scale"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_tensor, scale) - 4usize];
    ["Offset of field: polychip_qnn_bits_per_tensor::offset"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_tensor, offset) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_bits_per_axis {
    pub bits: u32,
    pub axis: i32,
    pub count: u32,
    pub scales: *mut f32,
    pub offsets: *mut i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_bits_per_axis"][::core::mem::size_of::<polychip_qnn_bits_per_axis>() - 32usize];
    ["Alignment of polychip_qnn_bits_per_axis"]
        [::core::mem::align_of::<polychip_qnn_bits_per_axis>() - 8usize];
    ["Offset of field: polychip_qnn_bits_per_axis::bits"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_axis, bits) - 0usize];
    ["Offset of field: polychip_qnn_bits_per_axis::axis"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_axis, axis) - 4usize];
    ["Offset of field: polychip_qnn_bits_per_axis::count"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_axis, count) - 8usize];
    ["Offset of field: polychip_qnn_bits_per_axis::scales"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_axis, scales) - 16usize];
    ["Offset of field: polychip_qnn_bits_per_axis::offsets"]
        [::core::mem::offset_of!(polychip_qnn_bits_per_axis, offsets) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_encoding {
    pub per_tensor: polychip_qnn_scale_offset,
    pub per_axis: polychip_qnn_per_axis,
    pub bits_per_tensor: polychip_qnn_bits_per_tensor,
    pub bits_per_axis: polychip_qnn_bits_per_axis,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_encoding"][::core::mem::size_of::<polychip_qnn_encoding>() - 32usize];
    ["Alignment of polychip_qnn_encoding"][::core::mem::align_of::<polychip_qnn_encoding>() - 8usize];
    ["Offset of field: polychip_qnn_encoding::per_tensor"]
        [::core::mem::offset_of!(polychip_qnn_encoding, per_tensor) - 0usize];
    ["Offset of field: polychip_qnn_encoding::per_axis"]
        [::core::mem::offset_of!(polychip_qnn_encoding, per_axis) - 0usize];
    ["Offset of field: polychip_qnn_encoding::bits_per_tensor"]
        [::core::mem::offset_of!(polychip_qnn_encoding, bits_per_tensor) - 0usize];
    ["Offset of field: polychip_qnn_encoding::bits_per_axis"]
        [::core::mem::offset_of!(polychip_qnn_encoding, bits_per_axis) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_quant {
    pub definition: u32,
    pub encoding: u32,
    pub values: polychip_qnn_encoding,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_quant"][::core::mem::size_of::<polychip_qnn_quant>() - 40usize];
    ["Alignment of polychip_qnn_quant"][::core::mem::align_of::<polychip_qnn_quant>() - 8usize];
    ["Offset of field: polychip_qnn_quant::definition"]
        [::core::mem::offset_of!(polychip_qnn_quant, definition) - 0usize];
    ["Offset of field: polychip_qnn_quant::encoding"]
        [::core::mem::offset_of!(polychip_qnn_quant, encoding) - 4usize];
    ["Offset of field: polychip_qnn_quant::values"]
        [::core::mem::offset_of!(polychip_qnn_quant, values) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_client_buffer {
    pub data: *mut ::core::ffi::c_void,
    pub size: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_client_buffer"][::core::mem::size_of::<polychip_qnn_client_buffer>() - 16usize];
    ["Alignment of polychip_qnn_client_buffer"]
        [::core::mem::align_of::<polychip_qnn_client_buffer>() - 8usize];
    ["Offset of field: polychip_qnn_client_buffer::data"]
        [::core::mem::offset_of!(polychip_qnn_client_buffer, data) - 0usize];
    ["Offset of field: polychip_qnn_client_buffer::size"]
        [::core::mem::offset_of!(polychip_qnn_client_buffer, size) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_tensor_memory {
    pub buffer: polychip_qnn_client_buffer,
    pub handle: polychip_qnn_memory,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_tensor_memory"][::core::mem::size_of::<polychip_qnn_tensor_memory>() - 16usize];
    ["Alignment of polychip_qnn_tensor_memory"]
        [::core::mem::align_of::<polychip_qnn_tensor_memory>() - 8usize];
    ["Offset of field: polychip_qnn_tensor_memory::buffer"]
        [::core::mem::offset_of!(polychip_qnn_tensor_memory, buffer) - 0usize];
    ["Offset of field: polychip_qnn_tensor_memory::handle"]
        [::core::mem::offset_of!(polychip_qnn_tensor_memory, handle) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_tensor_v1 {
    pub id: u32,
    pub name: *const ::core::ffi::c_char,
    pub kind: u32,
    pub format: u32,
    pub data_type: u32,
    pub quant: polychip_qnn_quant,
    pub rank: u32,
    pub dimensions: *mut u32,
    pub memory_type: u32,
    pub memory: polychip_qnn_tensor_memory,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_tensor_v1"][::core::mem::size_of::<polychip_qnn_tensor_v1>() - 112usize];
    ["Alignment of polychip_qnn_tensor_v1"][::core::mem::align_of::<polychip_qnn_tensor_v1>() - 8usize];
    ["Offset of field: polychip_qnn_tensor_v1::id"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, id) - 0usize];
    ["Offset of field: polychip_qnn_tensor_v1::name"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, name) - 8usize];
    ["Offset of field: polychip_qnn_tensor_v1::kind"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, kind) - 16usize];
    ["Offset of field: polychip_qnn_tensor_v1::format"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, format) - 20usize];
    ["Offset of field: polychip_qnn_tensor_v1::data_type"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, data_type) - 24usize];
    ["Offset of field: polychip_qnn_tensor_v1::quant"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, quant) - 32usize];
    ["Offset of field: polychip_qnn_tensor_v1::rank"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, rank) - 72usize];
    ["Offset of field: polychip_qnn_tensor_v1::dimensions"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, dimensions) - 80usize];
    ["Offset of field: polychip_qnn_tensor_v1::memory_type"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, memory_type) - 88usize];
    ["Offset of field: polychip_qnn_tensor_v1::memory"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v1, memory) - 96usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_sparse {
    pub words: [u32; 3usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_sparse"][::core::mem::size_of::<polychip_qnn_sparse>() - 12usize];
    ["Alignment of polychip_qnn_sparse"][::core::mem::align_of::<polychip_qnn_sparse>() - 4usize];
    ["Offset of field: polychip_qnn_sparse::words"]
        [::core::mem::offset_of!(polychip_qnn_sparse, words) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_tensor_v2 {
    pub id: u32,
    pub name: *const ::core::ffi::c_char,
    pub kind: u32,
    pub format: u32,
    pub data_type: u32,
    pub quant: polychip_qnn_quant,
    pub rank: u32,
    pub dimensions: *mut u32,
    pub memory_type: u32,
    pub memory: polychip_qnn_tensor_memory,
    pub dynamic_dimensions: *mut u8,
    pub sparse: polychip_qnn_sparse,
    pub produced: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_tensor_v2"][::core::mem::size_of::<polychip_qnn_tensor_v2>() - 136usize];
    ["Alignment of polychip_qnn_tensor_v2"][::core::mem::align_of::<polychip_qnn_tensor_v2>() - 8usize];
    ["Offset of field: polychip_qnn_tensor_v2::id"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, id) - 0usize];
    ["Offset of field: polychip_qnn_tensor_v2::name"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, name) - 8usize];
    ["Offset of field: polychip_qnn_tensor_v2::kind"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, kind) - 16usize];
    ["Offset of field: polychip_qnn_tensor_v2::format"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, format) - 20usize];
    ["Offset of field: polychip_qnn_tensor_v2::data_type"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, data_type) - 24usize];
    ["Offset of field: polychip_qnn_tensor_v2::quant"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, quant) - 32usize];
    ["Offset of field: polychip_qnn_tensor_v2::rank"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, rank) - 72usize];
    ["Offset of field: polychip_qnn_tensor_v2::dimensions"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, dimensions) - 80usize];
    ["Offset of field: polychip_qnn_tensor_v2::memory_type"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, memory_type) - 88usize];
    ["Offset of field: polychip_qnn_tensor_v2::memory"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, memory) - 96usize];
    ["Offset of field: polychip_qnn_tensor_v2::dynamic_dimensions"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, dynamic_dimensions) - 112usize];
    ["Offset of field: polychip_qnn_tensor_v2::sparse"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, sparse) - 120usize];
    ["Offset of field: polychip_qnn_tensor_v2::produced"]
        [::core::mem::offset_of!(polychip_qnn_tensor_v2, produced) - 132usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_tensor_versions {
    pub v1: polychip_qnn_tensor_v1,
    pub v2: polychip_qnn_tensor_v2,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_tensor_versions"]
        [::core::mem::size_of::<polychip_qnn_tensor_versions>() - 136usize];
    ["Alignment of polychip_qnn_tensor_versions"]
        [::core::mem::align_of::<polychip_qnn_tensor_versions>() - 8usize];
    ["Offset of field: polychip_qnn_tensor_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_tensor_versions, v1) - 0usize];
    ["Offset of field: polychip_qnn_tensor_versions::v2"]
        [::core::mem::offset_of!(polychip_qnn_tensor_versions, v2) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_tensor {
    pub version: u32,
    pub tensor: polychip_qnn_tensor_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_tensor"][::core::mem::size_of::<polychip_qnn_tensor>() - 144usize];
    ["Alignment of polychip_qnn_tensor"][::core::mem::align_of::<polychip_qnn_tensor>() - 8usize];
    ["Offset of field: polychip_qnn_tensor::version"]
        [::core::mem::offset_of!(polychip_qnn_tensor, version) - 0usize];
    ["Offset of field: polychip_qnn_tensor::tensor"]
        [::core::mem::offset_of!(polychip_qnn_tensor, tensor) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_scalar_value {
    pub float32: f32,
    pub float64: f64,
    pub unsigned64: u64,
    pub signed64: i64,
    pub unsigned32: u32,
    pub signed32: i32,
    pub unsigned16: u16,
    pub signed16: i16,
    pub unsigned8: u8,
    pub signed8: i8,
    pub boolean: u8,
    pub text: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_scalar_value"][::core::mem::size_of::<polychip_qnn_scalar_value>() - 8usize];
    ["Alignment of polychip_qnn_scalar_value"][::core::mem::align_of::<polychip_qnn_scalar_value>() - 8usize];
    ["Offset of field: polychip_qnn_scalar_value::float32"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, float32) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::float64"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, float64) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::unsigned64"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, unsigned64) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::signed64"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, signed64) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::unsigned32"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, unsigned32) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::signed32"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, signed32) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::unsigned16"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, unsigned16) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::signed16"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, signed16) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::unsigned8"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, unsigned8) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::signed8"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, signed8) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::boolean"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, boolean) - 0usize];
    ["Offset of field: polychip_qnn_scalar_value::text"]
        [::core::mem::offset_of!(polychip_qnn_scalar_value, text) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_scalar {
    pub data_type: u32,
    pub value: polychip_qnn_scalar_value,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_scalar"][::core::mem::size_of::<polychip_qnn_scalar>() - 16usize];
    ["Alignment of polychip_qnn_scalar"][::core::mem::align_of::<polychip_qnn_scalar>() - 8usize];
    ["Offset of field: polychip_qnn_scalar::data_type"]
        [::core::mem::offset_of!(polychip_qnn_scalar, data_type) - 0usize];
    ["Offset of field: polychip_qnn_scalar::value"]
        [::core::mem::offset_of!(polychip_qnn_scalar, value) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_param_value {
    pub scalar: polychip_qnn_scalar,
    pub tensor: polychip_qnn_tensor,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_param_value"][::core::mem::size_of::<polychip_qnn_param_value>() - 144usize];
    ["Alignment of polychip_qnn_param_value"][::core::mem::align_of::<polychip_qnn_param_value>() - 8usize];
    ["Offset of field: polychip_qnn_param_value::scalar"]
        [::core::mem::offset_of!(polychip_qnn_param_value, scalar) - 0usize];
    ["Offset of field: polychip_qnn_param_value::tensor"]
        [::core::mem::offset_of!(polychip_qnn_param_value, tensor) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_param {
    pub kind: u32,
    pub name: *const ::core::ffi::c_char,
    pub value: polychip_qnn_param_value,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_param"][::core::mem::size_of::<polychip_qnn_param>() - 160usize];
    ["Alignment of polychip_qnn_param"][::core::mem::align_of::<polychip_qnn_param>() - 8usize];
    ["Offset of field: polychip_qnn_param::kind"][::core::mem::offset_of!(polychip_qnn_param, kind) - 0usize];
    ["Offset of field: polychip_qnn_param::name"][::core::mem::offset_of!(polychip_qnn_param, name) - 8usize];
    ["Offset of field: polychip_qnn_param::value"]
        [::core::mem::offset_of!(polychip_qnn_param, value) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_op_config_v1 {
    pub name: *const ::core::ffi::c_char,
    pub package_name: *const ::core::ffi::c_char,
    pub type_name: *const ::core::ffi::c_char,
    pub param_count: u32,
    pub params: *mut polychip_qnn_param,
    pub input_count: u32,
    pub inputs: *mut polychip_qnn_tensor,
    pub output_count: u32,
    pub outputs: *mut polychip_qnn_tensor,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_op_config_v1"][::core::mem::size_of::<polychip_qnn_op_config_v1>() - 72usize];
    ["Alignment of polychip_qnn_op_config_v1"][::core::mem::align_of::<polychip_qnn_op_config_v1>() - 8usize];
    ["Offset of field: polychip_qnn_op_config_v1::name"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, name) - 0usize];
    ["Offset of field: polychip_qnn_op_config_v1::package_name"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, package_name) - 8usize];
    ["Offset of field: polychip_qnn_op_config_v1::type_name"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, type_name) - 16usize];
    ["Offset of field: polychip_qnn_op_config_v1::param_count"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, param_count) - 24usize];
    ["Offset of field: polychip_qnn_op_config_v1::params"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, params) - 32usize];
    ["Offset of field: polychip_qnn_op_config_v1::input_count"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, input_count) - 40usize];
    ["Offset of field: polychip_qnn_op_config_v1::inputs"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, inputs) - 48usize];
    ["Offset of field: polychip_qnn_op_config_v1::output_count"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, output_count) - 56usize];
    ["Offset of field: polychip_qnn_op_config_v1::outputs"]
        [::core::mem::offset_of!(polychip_qnn_op_config_v1, outputs) - 64usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_op_config_versions {
    pub v1: polychip_qnn_op_config_v1,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_op_config_versions"]
        [::core::mem::size_of::<polychip_qnn_op_config_versions>() - 72usize];
    ["Alignment of polychip_qnn_op_config_versions"]
        [::core::mem::align_of::<polychip_qnn_op_config_versions>() - 8usize];
    ["Offset of field: polychip_qnn_op_config_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_op_config_versions, v1) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_op_config {
    pub version: u32,
    pub op: polychip_qnn_op_config_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_op_config"][::core::mem::size_of::<polychip_qnn_op_config>() - 80usize];
    ["Alignment of polychip_qnn_op_config"][::core::mem::align_of::<polychip_qnn_op_config>() - 8usize];
    ["Offset of field: polychip_qnn_op_config::version"]
        [::core::mem::offset_of!(polychip_qnn_op_config, version) - 0usize];
    ["Offset of field: polychip_qnn_op_config::op"]
        [::core::mem::offset_of!(polychip_qnn_op_config, op) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_operation_name {
    pub package_name: *const ::core::ffi::c_char,
    pub name: *const ::core::ffi::c_char,
    pub target: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_operation_name"][::core::mem::size_of::<polychip_qnn_operation_name>() - 24usize];
    ["Alignment of polychip_qnn_operation_name"]
        [::core::mem::align_of::<polychip_qnn_operation_name>() - 8usize];
    ["Offset of field: polychip_qnn_operation_name::package_name"]
        [::core::mem::offset_of!(polychip_qnn_operation_name, package_name) - 0usize];
    ["Offset of field: polychip_qnn_operation_name::name"]
        [::core::mem::offset_of!(polychip_qnn_operation_name, name) - 8usize];
    ["Offset of field: polychip_qnn_operation_name::target"]
        [::core::mem::offset_of!(polychip_qnn_operation_name, target) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_config_value {
    pub custom: *const ::core::ffi::c_void,
    pub text: *const ::core::ffi::c_char,
    pub texts: *const *const ::core::ffi::c_char,
    pub unsigned64: u64,
    pub unsigned32: u32,
    pub unsigned8: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_config_value"][::core::mem::size_of::<polychip_qnn_config_value>() - 8usize];
    ["Alignment of polychip_qnn_config_value"][::core::mem::align_of::<polychip_qnn_config_value>() - 8usize];
    ["Offset of field: polychip_qnn_config_value::custom"]
        [::core::mem::offset_of!(polychip_qnn_config_value, custom) - 0usize];
    ["Offset of field: polychip_qnn_config_value::text"]
        [::core::mem::offset_of!(polychip_qnn_config_value, text) - 0usize];
    ["Offset of field: polychip_qnn_config_value::texts"]
        [::core::mem::offset_of!(polychip_qnn_config_value, texts) - 0usize];
    ["Offset of field: polychip_qnn_config_value::unsigned64"]
        [::core::mem::offset_of!(polychip_qnn_config_value, unsigned64) - 0usize];
    ["Offset of field: polychip_qnn_config_value::unsigned32"]
        [::core::mem::offset_of!(polychip_qnn_config_value, unsigned32) - 0usize];
    ["Offset of field: polychip_qnn_config_value::unsigned8"]
        [::core::mem::offset_of!(polychip_qnn_config_value, unsigned8) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_config {
    pub option: u32,
    pub value: polychip_qnn_config_value,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_config"][::core::mem::size_of::<polychip_qnn_config>() - 16usize];
    ["Alignment of polychip_qnn_config"][::core::mem::align_of::<polychip_qnn_config>() - 8usize];
    ["Offset of field: polychip_qnn_config::option"]
        [::core::mem::offset_of!(polychip_qnn_config, option) - 0usize];
    ["Offset of field: polychip_qnn_config::value"]
        [::core::mem::offset_of!(polychip_qnn_config, value) - 8usize];
};
pub type polychip_qnn_backend_config = polychip_qnn_config;
pub type polychip_qnn_context_config = polychip_qnn_config;
pub type polychip_qnn_graph_config = polychip_qnn_config;
pub type polychip_qnn_device_config = polychip_qnn_config;
pub type polychip_qnn_signal_config = polychip_qnn_config;
pub const POLYCHIP_QNN_CONFIG_CUSTOM: _bindgen_ty_10 = 0;
pub const POLYCHIP_QNN_CONTEXT_CONFIG_PRIORITY: _bindgen_ty_10 = 1;
pub const POLYCHIP_QNN_CONTEXT_CONFIG_ENABLE_GRAPHS: _bindgen_ty_10 = 5;
pub const POLYCHIP_QNN_DEVICE_CONFIG_PLATFORM_INFO: _bindgen_ty_10 = 1;
pub type _bindgen_ty_10 = ::core::ffi::c_uint;
pub const POLYCHIP_QNN_HTP_DEVICE_SOC: _bindgen_ty_11 = 0;
pub type _bindgen_ty_11 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_device_config {
    pub option: u32,
    pub soc_at_4: u32,
    pub soc_at_8: u32,
    pub zero: [u32; 5usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_device_config"]
        [::core::mem::size_of::<polychip_qnn_htp_device_config>() - 32usize];
    ["Alignment of polychip_qnn_htp_device_config"]
        [::core::mem::align_of::<polychip_qnn_htp_device_config>() - 4usize];
    ["Offset of field: polychip_qnn_htp_device_config::option"]
        [::core::mem::offset_of!(polychip_qnn_htp_device_config, option) - 0usize];
    ["Offset of field: polychip_qnn_htp_device_config::soc_at_4"]
        [::core::mem::offset_of!(polychip_qnn_htp_device_config, soc_at_4) - 4usize];
    ["Offset of field: polychip_qnn_htp_device_config::soc_at_8"]
        [::core::mem::offset_of!(polychip_qnn_htp_device_config, soc_at_8) - 8usize];
    ["Offset of field: polychip_qnn_htp_device_config::zero"]
        [::core::mem::offset_of!(polychip_qnn_htp_device_config, zero) - 12usize];
};
pub const POLYCHIP_QNN_HTP_GRAPH_OPTIMIZATION: _bindgen_ty_12 = 1;
pub const POLYCHIP_QNN_HTP_GRAPH_PRECISION: _bindgen_ty_12 = 2;
pub const POLYCHIP_QNN_HTP_GRAPH_VTCM_MB: _bindgen_ty_12 = 3;
pub const POLYCHIP_QNN_HTP_PRECISION_F32: _bindgen_ty_12 = 0;
pub const POLYCHIP_QNN_HTP_PRECISION_F16: _bindgen_ty_12 = 1;
pub type _bindgen_ty_12 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_optimization {
    pub kind: u32,
    pub number: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_optimization"]
        [::core::mem::size_of::<polychip_qnn_htp_optimization>() - 8usize];
    ["Alignment of polychip_qnn_htp_optimization"]
        [::core::mem::align_of::<polychip_qnn_htp_optimization>() - 4usize];
    ["Offset of field: polychip_qnn_htp_optimization::kind"]
        [::core::mem::offset_of!(polychip_qnn_htp_optimization, kind) - 0usize];
    ["Offset of field: polychip_qnn_htp_optimization::number"]
        [::core::mem::offset_of!(polychip_qnn_htp_optimization, number) - 4usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_htp_graph_value {
    pub unsigned64: u64,
    pub unsigned32: u32,
    pub optimization: polychip_qnn_htp_optimization,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_graph_value"][::core::mem::size_of::<polychip_qnn_htp_graph_value>() - 8usize];
    ["Alignment of polychip_qnn_htp_graph_value"]
        [::core::mem::align_of::<polychip_qnn_htp_graph_value>() - 8usize];
    ["Offset of field: polychip_qnn_htp_graph_value::unsigned64"]
        [::core::mem::offset_of!(polychip_qnn_htp_graph_value, unsigned64) - 0usize];
    ["Offset of field: polychip_qnn_htp_graph_value::unsigned32"]
        [::core::mem::offset_of!(polychip_qnn_htp_graph_value, unsigned32) - 0usize];
    ["Offset of field: polychip_qnn_htp_graph_value::optimization"]
        [::core::mem::offset_of!(polychip_qnn_htp_graph_value, optimization) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_htp_graph_config {
    pub option: u32,
    pub zero: u32,
    pub value: polychip_qnn_htp_graph_value,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_graph_config"]
        [::core::mem::size_of::<polychip_qnn_htp_graph_config>() - 16usize];
    ["Alignment of polychip_qnn_htp_graph_config"]
        [::core::mem::align_of::<polychip_qnn_htp_graph_config>() - 8usize];
    ["Offset of field: polychip_qnn_htp_graph_config::option"]
        [::core::mem::offset_of!(polychip_qnn_htp_graph_config, option) - 0usize];
    ["Offset of field: polychip_qnn_htp_graph_config::zero"]
        [::core::mem::offset_of!(polychip_qnn_htp_graph_config, zero) - 4usize];
    ["Offset of field: polychip_qnn_htp_graph_config::value"]
        [::core::mem::offset_of!(polychip_qnn_htp_graph_config, value) - 8usize];
};
pub const POLYCHIP_QNN_HTP_INFRASTRUCTURE_PERF: _bindgen_ty_13 = 0;
pub const POLYCHIP_QNN_HTP_POWER_DCVS_V3: _bindgen_ty_13 = 1;
pub const POLYCHIP_QNN_HTP_POWER_RPC_CONTROL_LATENCY: _bindgen_ty_13 = 2;
pub const POLYCHIP_QNN_HTP_POWER_RPC_POLLING_TIME: _bindgen_ty_13 = 3;
pub const POLYCHIP_QNN_HTP_POWER_MODE_PERFORMANCE: _bindgen_ty_13 = 16;
pub const POLYCHIP_QNN_HTP_POWER_MODE_POWER_SAVER: _bindgen_ty_13 = 1;
pub const POLYCHIP_QNN_HTP_VOLTAGE_DISABLE: _bindgen_ty_13 = 16;
pub const POLYCHIP_QNN_HTP_VOLTAGE_SVS2: _bindgen_ty_13 = 48;
pub const POLYCHIP_QNN_HTP_VOLTAGE_SVS: _bindgen_ty_13 = 64;
pub const POLYCHIP_QNN_HTP_VOLTAGE_SVS_PLUS: _bindgen_ty_13 = 80;
pub const POLYCHIP_QNN_HTP_VOLTAGE_NOM: _bindgen_ty_13 = 96;
pub const POLYCHIP_QNN_HTP_VOLTAGE_NOM_PLUS: _bindgen_ty_13 = 112;
pub const POLYCHIP_QNN_HTP_VOLTAGE_TURBO: _bindgen_ty_13 = 128;
pub const POLYCHIP_QNN_HTP_VOLTAGE_TURBO_PLUS: _bindgen_ty_13 = 144;
pub const POLYCHIP_QNN_HTP_VOLTAGE_MAX: _bindgen_ty_13 = 160;
pub type _bindgen_ty_13 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_dcvs_v3 {
    pub context_id: u32,
    pub set_dcvs_enable: u32,
    pub dcvs_enable: u32,
    pub power_mode: u32,
    pub set_sleep_latency: u32,
    pub sleep_latency_us: u32,
    pub set_sleep_disable: u32,
    pub sleep_disable: u32,
    pub set_bus: u32,
    pub bus_min: u32,
    pub bus_target: u32,
    pub bus_max: u32,
    pub set_core: u32,
    pub core_min: u32,
    pub core_target: u32,
    pub core_max: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_dcvs_v3"][::core::mem::size_of::<polychip_qnn_htp_dcvs_v3>() - 64usize];
    ["Alignment of polychip_qnn_htp_dcvs_v3"][::core::mem::align_of::<polychip_qnn_htp_dcvs_v3>() - 4usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::context_id"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, context_id) - 0usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::set_dcvs_enable"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, set_dcvs_enable) - 4usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::dcvs_enable"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, dcvs_enable) - 8usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::power_mode"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, power_mode) - 12usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::set_sleep_latency"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, set_sleep_latency) - 16usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::sleep_latency_us"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, sleep_latency_us) - 20usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::set_sleep_disable"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, set_sleep_disable) - 24usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::sleep_disable"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, sleep_disable) - 28usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::set_bus"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, set_bus) - 32usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::bus_min"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, bus_min) - 36usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::bus_target"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, bus_target) - 40usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::bus_max"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, bus_max) - 44usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::set_core"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, set_core) - 48usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::core_min"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, core_min) - 52usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::core_target"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, core_target) - 56usize];
    ["Offset of field: polychip_qnn_htp_dcvs_v3::core_max"]
        [::core::mem::offset_of!(polychip_qnn_htp_dcvs_v3, core_max) - 60usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_htp_power_value {
    pub dcvs_v3: polychip_qnn_htp_dcvs_v3,
    pub microseconds: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_power_value"]
        [::core::mem::size_of::<polychip_qnn_htp_power_value>() - 64usize];
    ["Alignment of polychip_qnn_htp_power_value"]
        [::core::mem::align_of::<polychip_qnn_htp_power_value>() - 4usize];
    ["Offset of field: polychip_qnn_htp_power_value::dcvs_v3"]
        [::core::mem::offset_of!(polychip_qnn_htp_power_value, dcvs_v3) - 0usize];
    ["Offset of field: polychip_qnn_htp_power_value::microseconds"]
        [::core::mem::offset_of!(polychip_qnn_htp_power_value, microseconds) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_htp_power_config {
    pub option: u32,
    pub value: polychip_qnn_htp_power_value,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_power_config"]
        [::core::mem::size_of::<polychip_qnn_htp_power_config>() - 68usize];
    ["Alignment of polychip_qnn_htp_power_config"]
        [::core::mem::align_of::<polychip_qnn_htp_power_config>() - 4usize];
    ["Offset of field: polychip_qnn_htp_power_config::option"]
        [::core::mem::offset_of!(polychip_qnn_htp_power_config, option) - 0usize];
    ["Offset of field: polychip_qnn_htp_power_config::value"]
        [::core::mem::offset_of!(polychip_qnn_htp_power_config, value) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_infrastructure {
    pub kind: u32,
    pub create_power_config: ::core::option::Option<
        unsafe extern "C" fn(device_id: u32, core_id: u32, out_id: *mut u32) -> polychip_qnn_error,
    >,
    pub destroy_power_config: ::core::option::Option<unsafe extern "C" fn(id: u32) -> polychip_qnn_error>,
    pub set_power_config: ::core::option::Option<
        unsafe extern "C" fn(
            id: u32,
            list: *const *const polychip_qnn_htp_power_config,
        ) -> polychip_qnn_error,
    >,
    pub reserved_memory_config: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_infrastructure"]
        [::core::mem::size_of::<polychip_qnn_htp_infrastructure>() - 40usize];
    ["Alignment of polychip_qnn_htp_infrastructure"]
        [::core::mem::align_of::<polychip_qnn_htp_infrastructure>() - 8usize];
    ["Offset of field: polychip_qnn_htp_infrastructure::kind"]
        [::core::mem::offset_of!(polychip_qnn_htp_infrastructure, kind) - 0usize];
    ["Offset of field: polychip_qnn_htp_infrastructure::create_power_config"]
        [::core::mem::offset_of!(polychip_qnn_htp_infrastructure, create_power_config) - 8usize];
    ["Offset of field: polychip_qnn_htp_infrastructure::destroy_power_config"]
        [::core::mem::offset_of!(polychip_qnn_htp_infrastructure, destroy_power_config) - 16usize];
    ["Offset of field: polychip_qnn_htp_infrastructure::set_power_config"]
        [::core::mem::offset_of!(polychip_qnn_htp_infrastructure, set_power_config) - 24usize];
    ["Offset of field: polychip_qnn_htp_infrastructure::reserved_memory_config"]
        [::core::mem::offset_of!(polychip_qnn_htp_infrastructure, reserved_memory_config) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_core_info_v1 {
    pub id: u32,
    pub kind: u32,
    pub extension: *const ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_core_info_v1"][::core::mem::size_of::<polychip_qnn_core_info_v1>() - 16usize];
    ["Alignment of polychip_qnn_core_info_v1"][::core::mem::align_of::<polychip_qnn_core_info_v1>() - 8usize];
    ["Offset of field: polychip_qnn_core_info_v1::id"]
        [::core::mem::offset_of!(polychip_qnn_core_info_v1, id) - 0usize];
    ["Offset of field: polychip_qnn_core_info_v1::kind"]
        [::core::mem::offset_of!(polychip_qnn_core_info_v1, kind) - 4usize];
    ["Offset of field: polychip_qnn_core_info_v1::extension"]
        [::core::mem::offset_of!(polychip_qnn_core_info_v1, extension) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_core_info_versions {
    pub v1: polychip_qnn_core_info_v1,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_core_info_versions"]
        [::core::mem::size_of::<polychip_qnn_core_info_versions>() - 16usize];
    ["Alignment of polychip_qnn_core_info_versions"]
        [::core::mem::align_of::<polychip_qnn_core_info_versions>() - 8usize];
    ["Offset of field: polychip_qnn_core_info_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_core_info_versions, v1) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_core_info {
    pub version: u32,
    pub info: polychip_qnn_core_info_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_core_info"][::core::mem::size_of::<polychip_qnn_core_info>() - 24usize];
    ["Alignment of polychip_qnn_core_info"][::core::mem::align_of::<polychip_qnn_core_info>() - 8usize];
    ["Offset of field: polychip_qnn_core_info::version"]
        [::core::mem::offset_of!(polychip_qnn_core_info, version) - 0usize];
    ["Offset of field: polychip_qnn_core_info::info"]
        [::core::mem::offset_of!(polychip_qnn_core_info, info) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_on_chip {
    pub vtcm_mb: u64,
    pub soc: u32,
    pub signed_pd: u8,
    pub dlbc: u8,
    pub arch: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_on_chip"][::core::mem::size_of::<polychip_qnn_htp_on_chip>() - 24usize];
    ["Alignment of polychip_qnn_htp_on_chip"][::core::mem::align_of::<polychip_qnn_htp_on_chip>() - 8usize];
    ["Offset of field: polychip_qnn_htp_on_chip::vtcm_mb"]
        [::core::mem::offset_of!(polychip_qnn_htp_on_chip, vtcm_mb) - 0usize];
    ["Offset of field: polychip_qnn_htp_on_chip::soc"]
        [::core::mem::offset_of!(polychip_qnn_htp_on_chip, soc) - 8usize];
    ["Offset of field: polychip_qnn_htp_on_chip::signed_pd"]
        [::core::mem::offset_of!(polychip_qnn_htp_on_chip, signed_pd) - 12usize];
    ["Offset of field: polychip_qnn_htp_on_chip::dlbc"]
        [::core::mem::offset_of!(polychip_qnn_htp_on_chip, dlbc) - 13usize];
    ["Offset of field: polychip_qnn_htp_on_chip::arch"]
        [::core::mem::offset_of!(polychip_qnn_htp_on_chip, arch) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_device_extension {
    pub kind: u32,
    pub on_chip: polychip_qnn_htp_on_chip,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_device_extension"]
        [::core::mem::size_of::<polychip_qnn_htp_device_extension>() - 32usize];
    ["Alignment of polychip_qnn_htp_device_extension"]
        [::core::mem::align_of::<polychip_qnn_htp_device_extension>() - 8usize];
    ["Offset of field: polychip_qnn_htp_device_extension::kind"]
        [::core::mem::offset_of!(polychip_qnn_htp_device_extension, kind) - 0usize];
    ["Offset of field: polychip_qnn_htp_device_extension::on_chip"]
        [::core::mem::offset_of!(polychip_qnn_htp_device_extension, on_chip) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_hardware_device_v1 {
    pub id: u32,
    pub kind: u32,
    pub core_count: u32,
    pub cores: *mut polychip_qnn_core_info,
    pub extension: *const ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_hardware_device_v1"]
        [::core::mem::size_of::<polychip_qnn_hardware_device_v1>() - 32usize];
    ["Alignment of polychip_qnn_hardware_device_v1"]
        [::core::mem::align_of::<polychip_qnn_hardware_device_v1>() - 8usize];
    ["Offset of field: polychip_qnn_hardware_device_v1::id"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device_v1, id) - 0usize];
    ["Offset of field: polychip_qnn_hardware_device_v1::kind"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device_v1, kind) - 4usize];
    ["Offset of field: polychip_qnn_hardware_device_v1::core_count"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device_v1, core_count) - 8usize];
    ["Offset of field: polychip_qnn_hardware_device_v1::cores"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device_v1, cores) - 16usize];
    ["Offset of field: polychip_qnn_hardware_device_v1::extension"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device_v1, extension) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_hardware_device_versions {
    pub v1: polychip_qnn_hardware_device_v1,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_hardware_device_versions"]
        [::core::mem::size_of::<polychip_qnn_hardware_device_versions>() - 32usize];
    ["Alignment of polychip_qnn_hardware_device_versions"]
        [::core::mem::align_of::<polychip_qnn_hardware_device_versions>() - 8usize];
    ["Offset of field: polychip_qnn_hardware_device_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device_versions, v1) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_hardware_device {
    pub version: u32,
    pub device: polychip_qnn_hardware_device_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_hardware_device"]
        [::core::mem::size_of::<polychip_qnn_hardware_device>() - 40usize];
    ["Alignment of polychip_qnn_hardware_device"]
        [::core::mem::align_of::<polychip_qnn_hardware_device>() - 8usize];
    ["Offset of field: polychip_qnn_hardware_device::version"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device, version) - 0usize];
    ["Offset of field: polychip_qnn_hardware_device::device"]
        [::core::mem::offset_of!(polychip_qnn_hardware_device, device) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_platform_info_v1 {
    pub device_count: u32,
    pub devices: *mut polychip_qnn_hardware_device,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_platform_info_v1"]
        [::core::mem::size_of::<polychip_qnn_platform_info_v1>() - 16usize];
    ["Alignment of polychip_qnn_platform_info_v1"]
        [::core::mem::align_of::<polychip_qnn_platform_info_v1>() - 8usize];
    ["Offset of field: polychip_qnn_platform_info_v1::device_count"]
        [::core::mem::offset_of!(polychip_qnn_platform_info_v1, device_count) - 0usize];
    ["Offset of field: polychip_qnn_platform_info_v1::devices"]
        [::core::mem::offset_of!(polychip_qnn_platform_info_v1, devices) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_platform_info_versions {
    pub v1: polychip_qnn_platform_info_v1,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_platform_info_versions"]
        [::core::mem::size_of::<polychip_qnn_platform_info_versions>() - 16usize];
    ["Alignment of polychip_qnn_platform_info_versions"]
        [::core::mem::align_of::<polychip_qnn_platform_info_versions>() - 8usize];
    ["Offset of field: polychip_qnn_platform_info_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_platform_info_versions, v1) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_platform_info {
    pub version: u32,
    pub info: polychip_qnn_platform_info_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_platform_info"][::core::mem::size_of::<polychip_qnn_platform_info>() - 24usize];
    ["Alignment of polychip_qnn_platform_info"]
        [::core::mem::align_of::<polychip_qnn_platform_info>() - 8usize];
    ["Offset of field: polychip_qnn_platform_info::version"]
        [::core::mem::offset_of!(polychip_qnn_platform_info, version) - 0usize];
    ["Offset of field: polychip_qnn_platform_info::info"]
        [::core::mem::offset_of!(polychip_qnn_platform_info, info) - 8usize];
};
pub const POLYCHIP_QNN_PROFILE_BASIC: _bindgen_ty_14 = 1;
pub const POLYCHIP_QNN_PROFILE_DETAILED: _bindgen_ty_14 = 2;
pub const POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES: _bindgen_ty_14 = 2006;
pub const POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES_LOWER: _bindgen_ty_14 = 2007;
pub const POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES_UPPER: _bindgen_ty_14 = 2008;
pub const POLYCHIP_QNN_EVENT_DDR_BYTES_FIRST: _bindgen_ty_14 = 2011;
pub const POLYCHIP_QNN_EVENT_DDR_BYTES_LAST: _bindgen_ty_14 = 2016;
pub type _bindgen_ty_14 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_event_data {
    pub kind: u32,
    pub unit: u32,
    pub value: u64,
    pub identifier: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_event_data"][::core::mem::size_of::<polychip_qnn_event_data>() - 24usize];
    ["Alignment of polychip_qnn_event_data"][::core::mem::align_of::<polychip_qnn_event_data>() - 8usize];
    ["Offset of field: polychip_qnn_event_data::kind"]
        [::core::mem::offset_of!(polychip_qnn_event_data, kind) - 0usize];
    ["Offset of field: polychip_qnn_event_data::unit"]
        [::core::mem::offset_of!(polychip_qnn_event_data, unit) - 4usize];
    ["Offset of field: polychip_qnn_event_data::value"]
        [::core::mem::offset_of!(polychip_qnn_event_data, value) - 8usize];
    ["Offset of field: polychip_qnn_event_data::identifier"]
        [::core::mem::offset_of!(polychip_qnn_event_data, identifier) - 16usize];
};
pub const POLYCHIP_QNN_MEMORY_ION: _bindgen_ty_15 = 1;
pub const POLYCHIP_QNN_MEMORY_CUSTOM: _bindgen_ty_15 = 2;
pub const POLYCHIP_QNN_MEMORY_DMA_BUF: _bindgen_ty_15 = 3;
pub type _bindgen_ty_15 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_memory_shape {
    pub rank: u32,
    pub dimensions: *mut u32,
    pub shape_config: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_memory_shape"][::core::mem::size_of::<polychip_qnn_memory_shape>() - 24usize];
    ["Alignment of polychip_qnn_memory_shape"][::core::mem::align_of::<polychip_qnn_memory_shape>() - 8usize];
    ["Offset of field: polychip_qnn_memory_shape::rank"]
        [::core::mem::offset_of!(polychip_qnn_memory_shape, rank) - 0usize];
    ["Offset of field: polychip_qnn_memory_shape::dimensions"]
        [::core::mem::offset_of!(polychip_qnn_memory_shape, dimensions) - 8usize];
    ["Offset of field: polychip_qnn_memory_shape::shape_config"]
        [::core::mem::offset_of!(polychip_qnn_memory_shape, shape_config) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_dma_buf {
    pub fd: i32,
    pub data: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_dma_buf"][::core::mem::size_of::<polychip_qnn_dma_buf>() - 16usize];
    ["Alignment of polychip_qnn_dma_buf"][::core::mem::align_of::<polychip_qnn_dma_buf>() - 8usize];
    ["Offset of field: polychip_qnn_dma_buf::fd"][::core::mem::offset_of!(polychip_qnn_dma_buf, fd) - 0usize];
    ["Offset of field: polychip_qnn_dma_buf::data"]
        [::core::mem::offset_of!(polychip_qnn_dma_buf, data) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_memory_source {
    pub ion_fd: i32,
    pub dma_buf: polychip_qnn_dma_buf,
    pub custom: *const ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_memory_source"][::core::mem::size_of::<polychip_qnn_memory_source>() - 16usize];
    ["Alignment of polychip_qnn_memory_source"]
        [::core::mem::align_of::<polychip_qnn_memory_source>() - 8usize];
    ["Offset of field: polychip_qnn_memory_source::ion_fd"]
        [::core::mem::offset_of!(polychip_qnn_memory_source, ion_fd) - 0usize];
    ["Offset of field: polychip_qnn_memory_source::dma_buf"]
        [::core::mem::offset_of!(polychip_qnn_memory_source, dma_buf) - 0usize];
    ["Offset of field: polychip_qnn_memory_source::custom"]
        [::core::mem::offset_of!(polychip_qnn_memory_source, custom) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_memory_descriptor {
    pub shape: polychip_qnn_memory_shape,
    pub data_type: u32,
    pub kind: u32,
    pub source: polychip_qnn_memory_source,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_memory_descriptor"]
        [::core::mem::size_of::<polychip_qnn_memory_descriptor>() - 48usize];
    ["Alignment of polychip_qnn_memory_descriptor"]
        [::core::mem::align_of::<polychip_qnn_memory_descriptor>() - 8usize];
    ["Offset of field: polychip_qnn_memory_descriptor::shape"]
        [::core::mem::offset_of!(polychip_qnn_memory_descriptor, shape) - 0usize];
    ["Offset of field: polychip_qnn_memory_descriptor::data_type"]
        [::core::mem::offset_of!(polychip_qnn_memory_descriptor, data_type) - 24usize];
    ["Offset of field: polychip_qnn_memory_descriptor::kind"]
        [::core::mem::offset_of!(polychip_qnn_memory_descriptor, kind) - 28usize];
    ["Offset of field: polychip_qnn_memory_descriptor::source"]
        [::core::mem::offset_of!(polychip_qnn_memory_descriptor, source) - 32usize];
};
pub const POLYCHIP_QNN_HTP_MEMORY_QURT: _bindgen_ty_16 = 0;
pub const POLYCHIP_QNN_HTP_MEMORY_SHARED: _bindgen_ty_16 = 1;
pub type _bindgen_ty_16 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_shared {
    pub fd: i32,
    pub offset: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_shared"][::core::mem::size_of::<polychip_qnn_htp_shared>() - 16usize];
    ["Alignment of polychip_qnn_htp_shared"][::core::mem::align_of::<polychip_qnn_htp_shared>() - 8usize];
    ["Offset of field: polychip_qnn_htp_shared::fd"]
        [::core::mem::offset_of!(polychip_qnn_htp_shared, fd) - 0usize];
    ["Offset of field: polychip_qnn_htp_shared::offset"]
        [::core::mem::offset_of!(polychip_qnn_htp_shared, offset) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_htp_memory {
    pub kind: u32,
    pub size: u64,
    pub shared: polychip_qnn_htp_shared,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_htp_memory"][::core::mem::size_of::<polychip_qnn_htp_memory>() - 32usize];
    ["Alignment of polychip_qnn_htp_memory"][::core::mem::align_of::<polychip_qnn_htp_memory>() - 8usize];
    ["Offset of field: polychip_qnn_htp_memory::kind"]
        [::core::mem::offset_of!(polychip_qnn_htp_memory, kind) - 0usize];
    ["Offset of field: polychip_qnn_htp_memory::size"]
        [::core::mem::offset_of!(polychip_qnn_htp_memory, size) - 8usize];
    ["Offset of field: polychip_qnn_htp_memory::shared"]
        [::core::mem::offset_of!(polychip_qnn_htp_memory, shared) - 16usize];
};
pub type polychip_qnn_log_callback = ::core::option::Option<
    unsafe extern "C" fn(
        format: *const ::core::ffi::c_char,
        level: u32,
        timestamp: u64,
        arguments: *mut ::core::ffi::c_void,
    ),
>;
pub type polychip_qnn_notify =
    ::core::option::Option<unsafe extern "C" fn(parameter: *mut ::core::ffi::c_void, status: u64)>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_table {
    pub has_capability: ::core::option::Option<unsafe extern "C" fn(key: u32) -> polychip_qnn_error>,
    pub backend_create: ::core::option::Option<
        unsafe extern "C" fn(
            log: polychip_qnn_log,
            config: *const *const polychip_qnn_backend_config,
            out_backend: *mut polychip_qnn_backend,
        ) -> polychip_qnn_error,
    >,
    pub reserved_2: *mut ::core::ffi::c_void,
    pub reserved_3: *mut ::core::ffi::c_void,
    pub build_id: ::core::option::Option<
        unsafe extern "C" fn(out_id: *mut *const ::core::ffi::c_char) -> polychip_qnn_error,
    >,
    pub reserved_5: *mut ::core::ffi::c_void,
    pub supported_operations: ::core::option::Option<
        unsafe extern "C" fn(
            backend: polychip_qnn_backend,
            out_count: *mut u32,
            out_operations: *mut *const polychip_qnn_operation_name,
        ) -> polychip_qnn_error,
    >,
    pub validate_op_config: ::core::option::Option<
        unsafe extern "C" fn(backend: polychip_qnn_backend, op: polychip_qnn_op_config) -> polychip_qnn_error,
    >,
    pub backend_free:
        ::core::option::Option<unsafe extern "C" fn(backend: polychip_qnn_backend) -> polychip_qnn_error>,
    pub context_create: ::core::option::Option<
        unsafe extern "C" fn(
            backend: polychip_qnn_backend,
            device: polychip_qnn_device,
            config: *const *const polychip_qnn_context_config,
            out_context: *mut polychip_qnn_context,
        ) -> polychip_qnn_error,
    >,
    pub reserved_10: *mut ::core::ffi::c_void,
    pub binary_size: ::core::option::Option<
        unsafe extern "C" fn(context: polychip_qnn_context, out_bytes: *mut u64) -> polychip_qnn_error,
    >,
    pub get_binary: ::core::option::Option<
        unsafe extern "C" fn(
            context: polychip_qnn_context,
            buffer: *mut ::core::ffi::c_void,
            bytes: u64,
            out_written: *mut u64,
        ) -> polychip_qnn_error,
    >,
    pub create_from_binary: ::core::option::Option<
        unsafe extern "C" fn(
            backend: polychip_qnn_backend,
            device: polychip_qnn_device,
            config: *const *const polychip_qnn_context_config,
            binary: *const ::core::ffi::c_void,
            bytes: u64,
            out_context: *mut polychip_qnn_context,
            profile: polychip_qnn_profile,
        ) -> polychip_qnn_error,
    >,
    pub context_free: ::core::option::Option<
        unsafe extern "C" fn(
            context: polychip_qnn_context,
            profile: polychip_qnn_profile,
        ) -> polychip_qnn_error,
    >,
    pub graph_create: ::core::option::Option<
        unsafe extern "C" fn(
            context: polychip_qnn_context,
            name: *const ::core::ffi::c_char,
            config: *const *const polychip_qnn_graph_config,
            out_graph: *mut polychip_qnn_graph,
        ) -> polychip_qnn_error,
    >,
    pub reserved_16: *mut ::core::ffi::c_void,
    pub reserved_17: *mut ::core::ffi::c_void,
    pub add_node: ::core::option::Option<
        unsafe extern "C" fn(graph: polychip_qnn_graph, op: polychip_qnn_op_config) -> polychip_qnn_error,
    >,
    pub finalize: ::core::option::Option<
        unsafe extern "C" fn(
            graph: polychip_qnn_graph,
            profile: polychip_qnn_profile,
            signal: polychip_qnn_signal,
        ) -> polychip_qnn_error,
    >,
    pub retrieve: ::core::option::Option<
        unsafe extern "C" fn(
            context: polychip_qnn_context,
            name: *const ::core::ffi::c_char,
            out_graph: *mut polychip_qnn_graph,
        ) -> polychip_qnn_error,
    >,
    pub execute: ::core::option::Option<
        unsafe extern "C" fn(
            graph: polychip_qnn_graph,
            inputs: *const polychip_qnn_tensor,
            input_count: u32,
            outputs: *mut polychip_qnn_tensor,
            output_count: u32,
            profile: polychip_qnn_profile,
            signal: polychip_qnn_signal,
        ) -> polychip_qnn_error,
    >,
    pub execute_async: ::core::option::Option<
        unsafe extern "C" fn(
            graph: polychip_qnn_graph,
            inputs: *const polychip_qnn_tensor,
            input_count: u32,
            outputs: *mut polychip_qnn_tensor,
            output_count: u32,
            profile: polychip_qnn_profile,
            signal: polychip_qnn_signal,
            notify: polychip_qnn_notify,
            notify_parameter: *mut ::core::ffi::c_void,
        ) -> polychip_qnn_error,
    >,
    pub reserved_23: *mut ::core::ffi::c_void,
    pub create_graph_tensor: ::core::option::Option<
        unsafe extern "C" fn(
            graph: polychip_qnn_graph,
            tensor: *mut polychip_qnn_tensor,
        ) -> polychip_qnn_error,
    >,
    pub log_create: ::core::option::Option<
        unsafe extern "C" fn(
            callback: polychip_qnn_log_callback,
            max_level: u32,
            out_log: *mut polychip_qnn_log,
        ) -> polychip_qnn_error,
    >,
    pub log_set_level: ::core::option::Option<
        unsafe extern "C" fn(log: polychip_qnn_log, max_level: u32) -> polychip_qnn_error,
    >,
    pub log_free: ::core::option::Option<unsafe extern "C" fn(log: polychip_qnn_log) -> polychip_qnn_error>,
    pub profile_create: ::core::option::Option<
        unsafe extern "C" fn(
            backend: polychip_qnn_backend,
            level: u32,
            out_profile: *mut polychip_qnn_profile,
        ) -> polychip_qnn_error,
    >,
    pub reserved_29: *mut ::core::ffi::c_void,
    pub profile_events: ::core::option::Option<
        unsafe extern "C" fn(
            profile: polychip_qnn_profile,
            out_events: *mut *const polychip_qnn_event,
            out_count: *mut u32,
        ) -> polychip_qnn_error,
    >,
    pub profile_sub_events: ::core::option::Option<
        unsafe extern "C" fn(
            event: polychip_qnn_event,
            out_events: *mut *const polychip_qnn_event,
            out_count: *mut u32,
        ) -> polychip_qnn_error,
    >,
    pub profile_event_data: ::core::option::Option<
        unsafe extern "C" fn(
            event: polychip_qnn_event,
            out_data: *mut polychip_qnn_event_data,
        ) -> polychip_qnn_error,
    >,
    pub reserved_33: *mut ::core::ffi::c_void,
    pub profile_free:
        ::core::option::Option<unsafe extern "C" fn(profile: polychip_qnn_profile) -> polychip_qnn_error>,
    pub memory_register: ::core::option::Option<
        unsafe extern "C" fn(
            context: polychip_qnn_context,
            descriptors: *const polychip_qnn_memory_descriptor,
            count: u32,
            out_handles: *mut polychip_qnn_memory,
        ) -> polychip_qnn_error,
    >,
    pub memory_deregister: ::core::option::Option<
        unsafe extern "C" fn(handles: *const polychip_qnn_memory, count: u32) -> polychip_qnn_error,
    >,
    pub platform_info: ::core::option::Option<
        unsafe extern "C" fn(
            log: polychip_qnn_log,
            out_info: *mut *const polychip_qnn_platform_info,
        ) -> polychip_qnn_error,
    >,
    pub platform_info_free: ::core::option::Option<
        unsafe extern "C" fn(
            log: polychip_qnn_log,
            info: *const polychip_qnn_platform_info,
        ) -> polychip_qnn_error,
    >,
    pub infrastructure: ::core::option::Option<
        unsafe extern "C" fn(
            out_infrastructure: *mut *const polychip_qnn_htp_infrastructure,
        ) -> polychip_qnn_error,
    >,
    pub device_create: ::core::option::Option<
        unsafe extern "C" fn(
            log: polychip_qnn_log,
            config: *const *const polychip_qnn_device_config,
            out_device: *mut polychip_qnn_device,
        ) -> polychip_qnn_error,
    >,
    pub reserved_41: *mut ::core::ffi::c_void,
    pub device_info: ::core::option::Option<
        unsafe extern "C" fn(
            device: polychip_qnn_device,
            out_info: *mut *const polychip_qnn_platform_info,
        ) -> polychip_qnn_error,
    >,
    pub device_free:
        ::core::option::Option<unsafe extern "C" fn(device: polychip_qnn_device) -> polychip_qnn_error>,
    pub signal_create: ::core::option::Option<
        unsafe extern "C" fn(
            backend: polychip_qnn_backend,
            config: *const *const polychip_qnn_signal_config,
            out_signal: *mut polychip_qnn_signal,
        ) -> polychip_qnn_error,
    >,
    pub signal_set_config: ::core::option::Option<
        unsafe extern "C" fn(
            signal: polychip_qnn_signal,
            config: *const *const polychip_qnn_signal_config,
        ) -> polychip_qnn_error,
    >,
    pub signal_trigger:
        ::core::option::Option<unsafe extern "C" fn(signal: polychip_qnn_signal) -> polychip_qnn_error>,
    pub signal_free:
        ::core::option::Option<unsafe extern "C" fn(signal: polychip_qnn_signal) -> polychip_qnn_error>,
    pub error_message: ::core::option::Option<
        unsafe extern "C" fn(
            error: polychip_qnn_error,
            out_message: *mut *const ::core::ffi::c_char,
        ) -> polychip_qnn_error,
    >,
    pub reserved_49: [*mut ::core::ffi::c_void; 5usize],
    pub validate_binary: ::core::option::Option<
        unsafe extern "C" fn(
            backend: polychip_qnn_backend,
            device: polychip_qnn_device,
            config: *const *const polychip_qnn_context_config,
            binary: *const ::core::ffi::c_void,
            bytes: u64,
        ) -> polychip_qnn_error,
    >,
    pub reserved_55: [*mut ::core::ffi::c_void; 13usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_table"][::core::mem::size_of::<polychip_qnn_table>() - 544usize];
    ["Alignment of polychip_qnn_table"][::core::mem::align_of::<polychip_qnn_table>() - 8usize];
    ["Offset of field: polychip_qnn_table::has_capability"]
        [::core::mem::offset_of!(polychip_qnn_table, has_capability) - 0usize];
    ["Offset of field: polychip_qnn_table::backend_create"]
        [::core::mem::offset_of!(polychip_qnn_table, backend_create) - 8usize];
    ["Offset of field: polychip_qnn_table::reserved_2"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_2) - 16usize];
    ["Offset of field: polychip_qnn_table::reserved_3"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_3) - 24usize];
    ["Offset of field: polychip_qnn_table::build_id"]
        [::core::mem::offset_of!(polychip_qnn_table, build_id) - 32usize];
    ["Offset of field: polychip_qnn_table::reserved_5"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_5) - 40usize];
    ["Offset of field: polychip_qnn_table::supported_operations"]
        [::core::mem::offset_of!(polychip_qnn_table, supported_operations) - 48usize];
    ["Offset of field: polychip_qnn_table::validate_op_config"]
        [::core::mem::offset_of!(polychip_qnn_table, validate_op_config) - 56usize];
    ["Offset of field: polychip_qnn_table::backend_free"]
        [::core::mem::offset_of!(polychip_qnn_table, backend_free) - 64usize];
    ["Offset of field: polychip_qnn_table::context_create"]
        [::core::mem::offset_of!(polychip_qnn_table, context_create) - 72usize];
    ["Offset of field: polychip_qnn_table::reserved_10"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_10) - 80usize];
    ["Offset of field: polychip_qnn_table::binary_size"]
        [::core::mem::offset_of!(polychip_qnn_table, binary_size) - 88usize];
    ["Offset of field: polychip_qnn_table::get_binary"]
        [::core::mem::offset_of!(polychip_qnn_table, get_binary) - 96usize];
    ["Offset of field: polychip_qnn_table::create_from_binary"]
        [::core::mem::offset_of!(polychip_qnn_table, create_from_binary) - 104usize];
    ["Offset of field: polychip_qnn_table::context_free"]
        [::core::mem::offset_of!(polychip_qnn_table, context_free) - 112usize];
    ["Offset of field: polychip_qnn_table::graph_create"]
        [::core::mem::offset_of!(polychip_qnn_table, graph_create) - 120usize];
    ["Offset of field: polychip_qnn_table::reserved_16"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_16) - 128usize];
    ["Offset of field: polychip_qnn_table::reserved_17"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_17) - 136usize];
    ["Offset of field: polychip_qnn_table::add_node"]
        [::core::mem::offset_of!(polychip_qnn_table, add_node) - 144usize];
    ["Offset of field: polychip_qnn_table::finalize"]
        [::core::mem::offset_of!(polychip_qnn_table, finalize) - 152usize];
    ["Offset of field: polychip_qnn_table::retrieve"]
        [::core::mem::offset_of!(polychip_qnn_table, retrieve) - 160usize];
    ["Offset of field: polychip_qnn_table::execute"]
        [::core::mem::offset_of!(polychip_qnn_table, execute) - 168usize];
    ["Offset of field: polychip_qnn_table::execute_async"]
        [::core::mem::offset_of!(polychip_qnn_table, execute_async) - 176usize];
    ["Offset of field: polychip_qnn_table::reserved_23"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_23) - 184usize];
    ["Offset of field: polychip_qnn_table::create_graph_tensor"]
        [::core::mem::offset_of!(polychip_qnn_table, create_graph_tensor) - 192usize];
    ["Offset of field: polychip_qnn_table::log_create"]
        [::core::mem::offset_of!(polychip_qnn_table, log_create) - 200usize];
    ["Offset of field: polychip_qnn_table::log_set_level"]
        [::core::mem::offset_of!(polychip_qnn_table, log_set_level) - 208usize];
    ["Offset of field: polychip_qnn_table::log_free"]
        [::core::mem::offset_of!(polychip_qnn_table, log_free) - 216usize];
    ["Offset of field: polychip_qnn_table::profile_create"]
        [::core::mem::offset_of!(polychip_qnn_table, profile_create) - 224usize];
    ["Offset of field: polychip_qnn_table::reserved_29"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_29) - 232usize];
    ["Offset of field: polychip_qnn_table::profile_events"]
        [::core::mem::offset_of!(polychip_qnn_table, profile_events) - 240usize];
    ["Offset of field: polychip_qnn_table::profile_sub_events"]
        [::core::mem::offset_of!(polychip_qnn_table, profile_sub_events) - 248usize];
    ["Offset of field: polychip_qnn_table::profile_event_data"]
        [::core::mem::offset_of!(polychip_qnn_table, profile_event_data) - 256usize];
    ["Offset of field: polychip_qnn_table::reserved_33"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_33) - 264usize];
    ["Offset of field: polychip_qnn_table::profile_free"]
        [::core::mem::offset_of!(polychip_qnn_table, profile_free) - 272usize];
    ["Offset of field: polychip_qnn_table::memory_register"]
        [::core::mem::offset_of!(polychip_qnn_table, memory_register) - 280usize];
    ["Offset of field: polychip_qnn_table::memory_deregister"]
        [::core::mem::offset_of!(polychip_qnn_table, memory_deregister) - 288usize];
    ["Offset of field: polychip_qnn_table::platform_info"]
        [::core::mem::offset_of!(polychip_qnn_table, platform_info) - 296usize];
    ["Offset of field: polychip_qnn_table::platform_info_free"]
        [::core::mem::offset_of!(polychip_qnn_table, platform_info_free) - 304usize];
    ["Offset of field: polychip_qnn_table::infrastructure"]
        [::core::mem::offset_of!(polychip_qnn_table, infrastructure) - 312usize];
    ["Offset of field: polychip_qnn_table::device_create"]
        [::core::mem::offset_of!(polychip_qnn_table, device_create) - 320usize];
    ["Offset of field: polychip_qnn_table::reserved_41"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_41) - 328usize];
    ["Offset of field: polychip_qnn_table::device_info"]
        [::core::mem::offset_of!(polychip_qnn_table, device_info) - 336usize];
    ["Offset of field: polychip_qnn_table::device_free"]
        [::core::mem::offset_of!(polychip_qnn_table, device_free) - 344usize];
    ["Offset of field: polychip_qnn_table::signal_create"]
        [::core::mem::offset_of!(polychip_qnn_table, signal_create) - 352usize];
    ["Offset of field: polychip_qnn_table::signal_set_config"]
        [::core::mem::offset_of!(polychip_qnn_table, signal_set_config) - 360usize];
    ["Offset of field: polychip_qnn_table::signal_trigger"]
        [::core::mem::offset_of!(polychip_qnn_table, signal_trigger) - 368usize];
    ["Offset of field: polychip_qnn_table::signal_free"]
        [::core::mem::offset_of!(polychip_qnn_table, signal_free) - 376usize];
    ["Offset of field: polychip_qnn_table::error_message"]
        [::core::mem::offset_of!(polychip_qnn_table, error_message) - 384usize];
    ["Offset of field: polychip_qnn_table::reserved_49"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_49) - 392usize];
    ["Offset of field: polychip_qnn_table::validate_binary"]
        [::core::mem::offset_of!(polychip_qnn_table, validate_binary) - 432usize];
    ["Offset of field: polychip_qnn_table::reserved_55"]
        [::core::mem::offset_of!(polychip_qnn_table, reserved_55) - 440usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_provider {
    pub library_id: u32,
    pub name: *const ::core::ffi::c_char,
    pub core_api: polychip_qnn_version,
    pub library_api: polychip_qnn_version,
    pub table: polychip_qnn_table,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_provider"][::core::mem::size_of::<polychip_qnn_provider>() - 584usize];
    ["Alignment of polychip_qnn_provider"][::core::mem::align_of::<polychip_qnn_provider>() - 8usize];
    ["Offset of field: polychip_qnn_provider::library_id"]
        [::core::mem::offset_of!(polychip_qnn_provider, library_id) - 0usize];
    ["Offset of field: polychip_qnn_provider::name"]
        [::core::mem::offset_of!(polychip_qnn_provider, name) - 8usize];
    ["Offset of field: polychip_qnn_provider::core_api"]
        [::core::mem::offset_of!(polychip_qnn_provider, core_api) - 16usize];
    ["Offset of field: polychip_qnn_provider::library_api"]
        [::core::mem::offset_of!(polychip_qnn_provider, library_api) - 28usize];
    ["Offset of field: polychip_qnn_provider::table"]
        [::core::mem::offset_of!(polychip_qnn_provider, table) - 40usize];
};
pub type polychip_qnn_get_providers = ::core::option::Option<
    unsafe extern "C" fn(
        out_list: *mut *const *const polychip_qnn_provider,
        out_count: *mut u32,
    ) -> polychip_qnn_error,
>;
pub const POLYCHIP_QNN_BINARY_INFO_V1: _bindgen_ty_17 = 1;
pub const POLYCHIP_QNN_BINARY_INFO_V2: _bindgen_ty_17 = 2;
pub const POLYCHIP_QNN_BINARY_INFO_V3: _bindgen_ty_17 = 3;
pub const POLYCHIP_QNN_GRAPH_INFO_V1: _bindgen_ty_17 = 1;
pub const POLYCHIP_QNN_GRAPH_INFO_V2: _bindgen_ty_17 = 2;
pub const POLYCHIP_QNN_GRAPH_INFO_V3: _bindgen_ty_17 = 3;
pub type _bindgen_ty_17 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_graph_info_v1 {
    pub name: *const ::core::ffi::c_char,
    pub input_count: u32,
    pub inputs: *mut polychip_qnn_tensor,
    pub output_count: u32,
    pub outputs: *mut polychip_qnn_tensor,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_graph_info_v1"][::core::mem::size_of::<polychip_qnn_graph_info_v1>() - 40usize];
    ["Alignment of polychip_qnn_graph_info_v1"]
        [::core::mem::align_of::<polychip_qnn_graph_info_v1>() - 8usize];
    ["Offset of field: polychip_qnn_graph_info_v1::name"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v1, name) - 0usize];
    ["Offset of field: polychip_qnn_graph_info_v1::input_count"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v1, input_count) - 8usize];
    ["Offset of field: polychip_qnn_graph_info_v1::inputs"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v1, inputs) - 16usize];
    ["Offset of field: polychip_qnn_graph_info_v1::output_count"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v1, output_count) - 24usize];
    ["Offset of field: polychip_qnn_graph_info_v1::outputs"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v1, outputs) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_graph_info_v2 {
    pub v1: polychip_qnn_graph_info_v1,
    pub updateable_count: u32,
    pub updateable: *mut polychip_qnn_tensor,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_graph_info_v2"][::core::mem::size_of::<polychip_qnn_graph_info_v2>() - 56usize];
    ["Alignment of polychip_qnn_graph_info_v2"]
        [::core::mem::align_of::<polychip_qnn_graph_info_v2>() - 8usize];
    ["Offset of field: polychip_qnn_graph_info_v2::v1"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v2, v1) - 0usize];
    ["Offset of field: polychip_qnn_graph_info_v2::updateable_count"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v2, updateable_count) - 40usize];
    ["Offset of field: polychip_qnn_graph_info_v2::updateable"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v2, updateable) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_graph_info_v3 {
    pub v2: polychip_qnn_graph_info_v2,
    pub extra_bytes: u32,
    pub extra: *const ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_graph_info_v3"][::core::mem::size_of::<polychip_qnn_graph_info_v3>() - 72usize];
    ["Alignment of polychip_qnn_graph_info_v3"]
        [::core::mem::align_of::<polychip_qnn_graph_info_v3>() - 8usize];
    ["Offset of field: polychip_qnn_graph_info_v3::v2"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v3, v2) - 0usize];
    ["Offset of field: polychip_qnn_graph_info_v3::extra_bytes"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v3, extra_bytes) - 56usize];
    ["Offset of field: polychip_qnn_graph_info_v3::extra"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_v3, extra) - 64usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_graph_info_versions {
    pub v1: polychip_qnn_graph_info_v1,
    pub v2: polychip_qnn_graph_info_v2,
    pub v3: polychip_qnn_graph_info_v3,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_graph_info_versions"]
        [::core::mem::size_of::<polychip_qnn_graph_info_versions>() - 72usize];
    ["Alignment of polychip_qnn_graph_info_versions"]
        [::core::mem::align_of::<polychip_qnn_graph_info_versions>() - 8usize];
    ["Offset of field: polychip_qnn_graph_info_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_versions, v1) - 0usize];
    ["Offset of field: polychip_qnn_graph_info_versions::v2"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_versions, v2) - 0usize];
    ["Offset of field: polychip_qnn_graph_info_versions::v3"]
        [::core::mem::offset_of!(polychip_qnn_graph_info_versions, v3) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_graph_info {
    pub version: u32,
    pub info: polychip_qnn_graph_info_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_graph_info"][::core::mem::size_of::<polychip_qnn_graph_info>() - 80usize];
    ["Alignment of polychip_qnn_graph_info"][::core::mem::align_of::<polychip_qnn_graph_info>() - 8usize];
    ["Offset of field: polychip_qnn_graph_info::version"]
        [::core::mem::offset_of!(polychip_qnn_graph_info, version) - 0usize];
    ["Offset of field: polychip_qnn_graph_info::info"]
        [::core::mem::offset_of!(polychip_qnn_graph_info, info) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_binary_info_v1 {
    pub library_id: u32,
    pub build_id: *const ::core::ffi::c_char,
    pub core_api: polychip_qnn_version,
    pub library_api: polychip_qnn_version,
    pub soc_version: *const ::core::ffi::c_char,
    pub hardware_blob_version: polychip_qnn_version,
    pub context_blob_version: polychip_qnn_version,
    pub hardware_blob_bytes: u32,
    pub hardware_blob: *const ::core::ffi::c_void,
    pub context_blob_bytes: u32,
    pub context_blob: *const ::core::ffi::c_void,
    pub tensor_count: u32,
    pub tensors: *mut polychip_qnn_tensor,
    pub graph_count: u32,
    pub graphs: *mut polychip_qnn_graph_info,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_binary_info_v1"][::core::mem::size_of::<polychip_qnn_binary_info_v1>() - 136usize];
    ["Alignment of polychip_qnn_binary_info_v1"]
        [::core::mem::align_of::<polychip_qnn_binary_info_v1>() - 8usize];
    ["Offset of field: polychip_qnn_binary_info_v1::library_id"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, library_id) - 0usize];
    ["Offset of field: polychip_qnn_binary_info_v1::build_id"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, build_id) - 8usize];
    ["Offset of field: polychip_qnn_binary_info_v1::core_api"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, core_api) - 16usize];
    ["Offset of field: polychip_qnn_binary_info_v1::library_api"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, library_api) - 28usize];
    ["Offset of field: polychip_qnn_binary_info_v1::soc_version"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, soc_version) - 40usize];
    ["Offset of field: polychip_qnn_binary_info_v1::hardware_blob_version"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, hardware_blob_version) - 48usize];
    ["Offset of field: polychip_qnn_binary_info_v1::context_blob_version"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, context_blob_version) - 60usize];
    ["Offset of field: polychip_qnn_binary_info_v1::hardware_blob_bytes"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, hardware_blob_bytes) - 72usize];
    ["Offset of field: polychip_qnn_binary_info_v1::hardware_blob"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, hardware_blob) - 80usize];
    ["Offset of field: polychip_qnn_binary_info_v1::context_blob_bytes"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, context_blob_bytes) - 88usize];
    ["Offset of field: polychip_qnn_binary_info_v1::context_blob"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, context_blob) - 96usize];
    ["Offset of field: polychip_qnn_binary_info_v1::tensor_count"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, tensor_count) - 104usize];
    ["Offset of field: polychip_qnn_binary_info_v1::tensors"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, tensors) - 112usize];
    ["Offset of field: polychip_qnn_binary_info_v1::graph_count"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, graph_count) - 120usize];
    ["Offset of field: polychip_qnn_binary_info_v1::graphs"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v1, graphs) - 128usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_binary_info_v2 {
    pub v1: polychip_qnn_binary_info_v1,
    pub extra_bytes: u32,
    pub extra: *const ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_binary_info_v2"][::core::mem::size_of::<polychip_qnn_binary_info_v2>() - 152usize];
    ["Alignment of polychip_qnn_binary_info_v2"]
        [::core::mem::align_of::<polychip_qnn_binary_info_v2>() - 8usize];
    ["Offset of field: polychip_qnn_binary_info_v2::v1"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v2, v1) - 0usize];
    ["Offset of field: polychip_qnn_binary_info_v2::extra_bytes"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v2, extra_bytes) - 136usize];
    ["Offset of field: polychip_qnn_binary_info_v2::extra"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v2, extra) - 144usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_binary_info_v3 {
    pub v2: polychip_qnn_binary_info_v2,
    pub soc: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_binary_info_v3"][::core::mem::size_of::<polychip_qnn_binary_info_v3>() - 160usize];
    ["Alignment of polychip_qnn_binary_info_v3"]
        [::core::mem::align_of::<polychip_qnn_binary_info_v3>() - 8usize];
    ["Offset of field: polychip_qnn_binary_info_v3::v2"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v3, v2) - 0usize];
    ["Offset of field: polychip_qnn_binary_info_v3::soc"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_v3, soc) - 152usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union polychip_qnn_binary_info_versions {
    pub v1: polychip_qnn_binary_info_v1,
    pub v2: polychip_qnn_binary_info_v2,
    pub v3: polychip_qnn_binary_info_v3,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_binary_info_versions"]
        [::core::mem::size_of::<polychip_qnn_binary_info_versions>() - 160usize];
    ["Alignment of polychip_qnn_binary_info_versions"]
        [::core::mem::align_of::<polychip_qnn_binary_info_versions>() - 8usize];
    ["Offset of field: polychip_qnn_binary_info_versions::v1"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_versions, v1) - 0usize];
    ["Offset of field: polychip_qnn_binary_info_versions::v2"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_versions, v2) - 0usize];
    ["Offset of field: polychip_qnn_binary_info_versions::v3"]
        [::core::mem::offset_of!(polychip_qnn_binary_info_versions, v3) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct polychip_qnn_binary_info {
    pub version: u32,
    pub info: polychip_qnn_binary_info_versions,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_binary_info"][::core::mem::size_of::<polychip_qnn_binary_info>() - 168usize];
    ["Alignment of polychip_qnn_binary_info"][::core::mem::align_of::<polychip_qnn_binary_info>() - 8usize];
    ["Offset of field: polychip_qnn_binary_info::version"]
        [::core::mem::offset_of!(polychip_qnn_binary_info, version) - 0usize];
    ["Offset of field: polychip_qnn_binary_info::info"]
        [::core::mem::offset_of!(polychip_qnn_binary_info, info) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_system_table {
    pub create: ::core::option::Option<
        unsafe extern "C" fn(out_system: *mut polychip_qnn_system) -> polychip_qnn_error,
    >,
    pub get_binary_info: ::core::option::Option<
        unsafe extern "C" fn(
            system: polychip_qnn_system,
            binary: *mut ::core::ffi::c_void,
            bytes: u64,
            out_info: *mut *const polychip_qnn_binary_info,
            out_info_bytes: *mut u64,
        ) -> polychip_qnn_error,
    >,
    pub get_metadata: ::core::option::Option<
        unsafe extern "C" fn(
            system: polychip_qnn_system,
            binary: *const ::core::ffi::c_void,
            bytes: u64,
            out_info: *mut *const polychip_qnn_binary_info,
        ) -> polychip_qnn_error,
    >,
    pub free: ::core::option::Option<unsafe extern "C" fn(system: polychip_qnn_system) -> polychip_qnn_error>,
    pub reserved_4: [*mut ::core::ffi::c_void; 9usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_system_table"][::core::mem::size_of::<polychip_qnn_system_table>() - 104usize];
    ["Alignment of polychip_qnn_system_table"][::core::mem::align_of::<polychip_qnn_system_table>() - 8usize];
    ["Offset of field: polychip_qnn_system_table::create"]
        [::core::mem::offset_of!(polychip_qnn_system_table, create) - 0usize];
    ["Offset of field: polychip_qnn_system_table::get_binary_info"]
        [::core::mem::offset_of!(polychip_qnn_system_table, get_binary_info) - 8usize];
    ["Offset of field: polychip_qnn_system_table::get_metadata"]
        [::core::mem::offset_of!(polychip_qnn_system_table, get_metadata) - 16usize];
    ["Offset of field: polychip_qnn_system_table::free"]
        [::core::mem::offset_of!(polychip_qnn_system_table, free) - 24usize];
    ["Offset of field: polychip_qnn_system_table::reserved_4"]
        [::core::mem::offset_of!(polychip_qnn_system_table, reserved_4) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct polychip_qnn_system_provider {
    pub library_id: u32,
    pub name: *const ::core::ffi::c_char,
    pub system_api: polychip_qnn_version,
    pub table: polychip_qnn_system_table,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of polychip_qnn_system_provider"]
        [::core::mem::size_of::<polychip_qnn_system_provider>() - 136usize];
    ["Alignment of polychip_qnn_system_provider"]
        [::core::mem::align_of::<polychip_qnn_system_provider>() - 8usize];
    ["Offset of field: polychip_qnn_system_provider::library_id"]
        [::core::mem::offset_of!(polychip_qnn_system_provider, library_id) - 0usize];
    ["Offset of field: polychip_qnn_system_provider::name"]
        [::core::mem::offset_of!(polychip_qnn_system_provider, name) - 8usize];
    ["Offset of field: polychip_qnn_system_provider::system_api"]
        [::core::mem::offset_of!(polychip_qnn_system_provider, system_api) - 16usize];
    ["Offset of field: polychip_qnn_system_provider::table"]
        [::core::mem::offset_of!(polychip_qnn_system_provider, table) - 32usize];
};
pub type polychip_qnn_system_get_providers = ::core::option::Option<
    unsafe extern "C" fn(
        out_list: *mut *const *const polychip_qnn_system_provider,
        out_count: *mut u32,
    ) -> polychip_qnn_error,
>;
