//! Declarations of Rockchip's NPU runtime: made by `cargo xtask bindgen` from `sys/headers/rknn.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

pub const RKNN_MAX_DIMS: _bindgen_ty_1 = 16;
pub const RKNN_MAX_NAME: _bindgen_ty_1 = 256;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const RKNN_OK: _bindgen_ty_2 = 0;
pub const RKNN_FAIL: _bindgen_ty_2 = -1;
pub const RKNN_TIMEOUT: _bindgen_ty_2 = -2;
pub const RKNN_NO_DEVICE: _bindgen_ty_2 = -3;
pub const RKNN_NO_MEMORY: _bindgen_ty_2 = -4;
pub const RKNN_BAD_PARAMETER: _bindgen_ty_2 = -5;
pub const RKNN_BAD_MODEL: _bindgen_ty_2 = -6;
pub const RKNN_BAD_CONTEXT: _bindgen_ty_2 = -7;
pub const RKNN_BAD_INPUT: _bindgen_ty_2 = -8;
pub const RKNN_BAD_OUTPUT: _bindgen_ty_2 = -9;
pub const RKNN_OTHER_DEVICE: _bindgen_ty_2 = -10;
pub const RKNN_OTHER_PRECOMPILE: _bindgen_ty_2 = -11;
pub const RKNN_OTHER_OPTIMISATION: _bindgen_ty_2 = -12;
pub const RKNN_OTHER_PLATFORM: _bindgen_ty_2 = -13;
pub type _bindgen_ty_2 = ::core::ffi::c_int;
pub const RKNN_FLAG_COLLECT_TIMES: _bindgen_ty_3 = 8;
pub const RKNN_FLAG_NO_INPUT_FLUSH: _bindgen_ty_3 = 16384;
pub const RKNN_FLAG_NO_OUTPUT_INVALIDATE: _bindgen_ty_3 = 32768;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub const RKNN_ASK_COUNTS: _bindgen_ty_4 = 0;
pub const RKNN_ASK_INPUT: _bindgen_ty_4 = 1;
pub const RKNN_ASK_OUTPUT: _bindgen_ty_4 = 2;
pub const RKNN_ASK_TIMES: _bindgen_ty_4 = 3;
pub const RKNN_ASK_RUN_TIME: _bindgen_ty_4 = 4;
pub const RKNN_ASK_VERSIONS: _bindgen_ty_4 = 5;
pub const RKNN_ASK_MEMORY: _bindgen_ty_4 = 6;
pub const RKNN_ASK_CUSTOM_STRING: _bindgen_ty_4 = 7;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub const RKNN_TYPE_F32: _bindgen_ty_5 = 0;
pub const RKNN_TYPE_F16: _bindgen_ty_5 = 1;
pub const RKNN_TYPE_I8: _bindgen_ty_5 = 2;
pub const RKNN_TYPE_U8: _bindgen_ty_5 = 3;
pub const RKNN_TYPE_I16: _bindgen_ty_5 = 4;
pub const RKNN_TYPE_U16: _bindgen_ty_5 = 5;
pub const RKNN_TYPE_I32: _bindgen_ty_5 = 6;
pub const RKNN_TYPE_U32: _bindgen_ty_5 = 7;
pub const RKNN_TYPE_I64: _bindgen_ty_5 = 8;
pub const RKNN_TYPE_BOOL: _bindgen_ty_5 = 9;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub const RKNN_ORDER_NCHW: _bindgen_ty_6 = 0;
pub const RKNN_ORDER_NHWC: _bindgen_ty_6 = 1;
pub const RKNN_ORDER_NC1HWC2: _bindgen_ty_6 = 2;
pub const RKNN_ORDER_UNDEFINED: _bindgen_ty_6 = 3;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
pub const RKNN_QUANT_NONE: _bindgen_ty_7 = 0;
pub const RKNN_QUANT_DFP: _bindgen_ty_7 = 1;
pub const RKNN_QUANT_AFFINE: _bindgen_ty_7 = 2;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
pub const RKNN_CORE_AUTO: _bindgen_ty_8 = 0;
pub const RKNN_CORE_0: _bindgen_ty_8 = 1;
pub const RKNN_CORE_1: _bindgen_ty_8 = 2;
pub const RKNN_CORE_2: _bindgen_ty_8 = 4;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
pub const RKNN_SYNC_TO_DEVICE: _bindgen_ty_9 = 1;
pub const RKNN_SYNC_FROM_DEVICE: _bindgen_ty_9 = 2;
pub type _bindgen_ty_9 = ::core::ffi::c_uint;
pub type rknn_context = u64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_tensor_attr {
    pub index: u32,
    pub n_dims: u32,
    pub dims: [u32; 16usize],
    pub name: [::core::ffi::c_char; 256usize],
    pub n_elems: u32,
    pub size: u32,
    pub fmt: i32,
    pub type_: i32,
    pub qnt_type: i32,
    pub fl: i8,
    pub zp: i32,
    pub scale: f32,
    pub w_stride: u32,
    pub size_with_stride: u32,
    pub pass_through: u8,
    pub h_stride: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_tensor_attr"][::core::mem::size_of::<rknn_tensor_attr>() - 376usize];
    ["Alignment of rknn_tensor_attr"][::core::mem::align_of::<rknn_tensor_attr>() - 4usize];
    ["Offset of field: rknn_tensor_attr::index"][::core::mem::offset_of!(rknn_tensor_attr, index) - 0usize];
    ["Offset of field: rknn_tensor_attr::n_dims"][::core::mem::offset_of!(rknn_tensor_attr, n_dims) - 4usize];
    ["Offset of field: rknn_tensor_attr::dims"][::core::mem::offset_of!(rknn_tensor_attr, dims) - 8usize];
    ["Offset of field: rknn_tensor_attr::name"][::core::mem::offset_of!(rknn_tensor_attr, name) - 72usize];
    ["Offset of field: rknn_tensor_attr::n_elems"]
        [::core::mem::offset_of!(rknn_tensor_attr, n_elems) - 328usize];
    ["Offset of field: rknn_tensor_attr::size"][::core::mem::offset_of!(rknn_tensor_attr, size) - 332usize];
    ["Offset of field: rknn_tensor_attr::fmt"][::core::mem::offset_of!(rknn_tensor_attr, fmt) - 336usize];
    ["Offset of field: rknn_tensor_attr::type_"][::core::mem::offset_of!(rknn_tensor_attr, type_) - 340usize];
    ["Offset of field: rknn_tensor_attr::qnt_type"]
        [::core::mem::offset_of!(rknn_tensor_attr, qnt_type) - 344usize];
    ["Offset of field: rknn_tensor_attr::fl"][::core::mem::offset_of!(rknn_tensor_attr, fl) - 348usize];
    ["Offset of field: rknn_tensor_attr::zp"][::core::mem::offset_of!(rknn_tensor_attr, zp) - 352usize];
    ["Offset of field: rknn_tensor_attr::scale"][::core::mem::offset_of!(rknn_tensor_attr, scale) - 356usize];
    ["Offset of field: rknn_tensor_attr::w_stride"]
        [::core::mem::offset_of!(rknn_tensor_attr, w_stride) - 360usize];
    ["Offset of field: rknn_tensor_attr::size_with_stride"]
        [::core::mem::offset_of!(rknn_tensor_attr, size_with_stride) - 364usize];
    ["Offset of field: rknn_tensor_attr::pass_through"]
        [::core::mem::offset_of!(rknn_tensor_attr, pass_through) - 368usize];
    ["Offset of field: rknn_tensor_attr::h_stride"]
        [::core::mem::offset_of!(rknn_tensor_attr, h_stride) - 372usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_tensor_mem {
    pub virt_addr: *mut ::core::ffi::c_void,
    pub phys_addr: u64,
    pub fd: i32,
    pub offset: i32,
    pub size: u32,
    pub flags: u32,
    pub priv_data: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_tensor_mem"][::core::mem::size_of::<rknn_tensor_mem>() - 40usize];
    ["Alignment of rknn_tensor_mem"][::core::mem::align_of::<rknn_tensor_mem>() - 8usize];
    ["Offset of field: rknn_tensor_mem::virt_addr"]
        [::core::mem::offset_of!(rknn_tensor_mem, virt_addr) - 0usize];
    ["Offset of field: rknn_tensor_mem::phys_addr"]
        [::core::mem::offset_of!(rknn_tensor_mem, phys_addr) - 8usize];
    ["Offset of field: rknn_tensor_mem::fd"][::core::mem::offset_of!(rknn_tensor_mem, fd) - 16usize];
    ["Offset of field: rknn_tensor_mem::offset"][::core::mem::offset_of!(rknn_tensor_mem, offset) - 20usize];
    ["Offset of field: rknn_tensor_mem::size"][::core::mem::offset_of!(rknn_tensor_mem, size) - 24usize];
    ["Offset of field: rknn_tensor_mem::flags"][::core::mem::offset_of!(rknn_tensor_mem, flags) - 28usize];
    ["Offset of field: rknn_tensor_mem::priv_data"]
        [::core::mem::offset_of!(rknn_tensor_mem, priv_data) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_input {
    pub index: u32,
    pub buf: *mut ::core::ffi::c_void,
    pub size: u32,
    pub pass_through: u8,
    pub type_: i32,
    pub fmt: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_input"][::core::mem::size_of::<rknn_input>() - 32usize];
    ["Alignment of rknn_input"][::core::mem::align_of::<rknn_input>() - 8usize];
    ["Offset of field: rknn_input::index"][::core::mem::offset_of!(rknn_input, index) - 0usize];
    ["Offset of field: rknn_input::buf"][::core::mem::offset_of!(rknn_input, buf) - 8usize];
    ["Offset of field: rknn_input::size"][::core::mem::offset_of!(rknn_input, size) - 16usize];
    ["Offset of field: rknn_input::pass_through"]
        [::core::mem::offset_of!(rknn_input, pass_through) - 20usize];
    ["Offset of field: rknn_input::type_"][::core::mem::offset_of!(rknn_input, type_) - 24usize];
    ["Offset of field: rknn_input::fmt"][::core::mem::offset_of!(rknn_input, fmt) - 28usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_output {
    pub want_float: u8,
    pub is_prealloc: u8,
    pub index: u32,
    pub buf: *mut ::core::ffi::c_void,
    pub size: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_output"][::core::mem::size_of::<rknn_output>() - 24usize];
    ["Alignment of rknn_output"][::core::mem::align_of::<rknn_output>() - 8usize];
    ["Offset of field: rknn_output::want_float"][::core::mem::offset_of!(rknn_output, want_float) - 0usize];
    ["Offset of field: rknn_output::is_prealloc"][::core::mem::offset_of!(rknn_output, is_prealloc) - 1usize];
    ["Offset of field: rknn_output::index"][::core::mem::offset_of!(rknn_output, index) - 4usize];
    ["Offset of field: rknn_output::buf"][::core::mem::offset_of!(rknn_output, buf) - 8usize];
    ["Offset of field: rknn_output::size"][::core::mem::offset_of!(rknn_output, size) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_init_extend {
    pub ctx: u64,
    pub real_model_offset: i32,
    pub real_model_size: u32,
    pub model_buffer_fd: i32,
    pub model_buffer_flags: u32,
    pub reserved: [u8; 112usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_init_extend"][::core::mem::size_of::<rknn_init_extend>() - 136usize];
    ["Alignment of rknn_init_extend"][::core::mem::align_of::<rknn_init_extend>() - 8usize];
    ["Offset of field: rknn_init_extend::ctx"][::core::mem::offset_of!(rknn_init_extend, ctx) - 0usize];
    ["Offset of field: rknn_init_extend::real_model_offset"]
        [::core::mem::offset_of!(rknn_init_extend, real_model_offset) - 8usize];
    ["Offset of field: rknn_init_extend::real_model_size"]
        [::core::mem::offset_of!(rknn_init_extend, real_model_size) - 12usize];
    ["Offset of field: rknn_init_extend::model_buffer_fd"]
        [::core::mem::offset_of!(rknn_init_extend, model_buffer_fd) - 16usize];
    ["Offset of field: rknn_init_extend::model_buffer_flags"]
        [::core::mem::offset_of!(rknn_init_extend, model_buffer_flags) - 20usize];
    ["Offset of field: rknn_init_extend::reserved"]
        [::core::mem::offset_of!(rknn_init_extend, reserved) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_run_extend {
    pub frame_id: u64,
    pub non_block: i32,
    pub timeout_ms: i32,
    pub fence_fd: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_run_extend"][::core::mem::size_of::<rknn_run_extend>() - 24usize];
    ["Alignment of rknn_run_extend"][::core::mem::align_of::<rknn_run_extend>() - 8usize];
    ["Offset of field: rknn_run_extend::frame_id"]
        [::core::mem::offset_of!(rknn_run_extend, frame_id) - 0usize];
    ["Offset of field: rknn_run_extend::non_block"]
        [::core::mem::offset_of!(rknn_run_extend, non_block) - 8usize];
    ["Offset of field: rknn_run_extend::timeout_ms"]
        [::core::mem::offset_of!(rknn_run_extend, timeout_ms) - 12usize];
    ["Offset of field: rknn_run_extend::fence_fd"]
        [::core::mem::offset_of!(rknn_run_extend, fence_fd) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_output_extend {
    pub frame_id: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_output_extend"][::core::mem::size_of::<rknn_output_extend>() - 8usize];
    ["Alignment of rknn_output_extend"][::core::mem::align_of::<rknn_output_extend>() - 8usize];
    ["Offset of field: rknn_output_extend::frame_id"]
        [::core::mem::offset_of!(rknn_output_extend, frame_id) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_counts {
    pub n_input: u32,
    pub n_output: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_counts"][::core::mem::size_of::<rknn_counts>() - 8usize];
    ["Alignment of rknn_counts"][::core::mem::align_of::<rknn_counts>() - 4usize];
    ["Offset of field: rknn_counts::n_input"][::core::mem::offset_of!(rknn_counts, n_input) - 0usize];
    ["Offset of field: rknn_counts::n_output"][::core::mem::offset_of!(rknn_counts, n_output) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_times {
    pub data: *mut ::core::ffi::c_char,
    pub length: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_times"][::core::mem::size_of::<rknn_times>() - 16usize];
    ["Alignment of rknn_times"][::core::mem::align_of::<rknn_times>() - 8usize];
    ["Offset of field: rknn_times::data"][::core::mem::offset_of!(rknn_times, data) - 0usize];
    ["Offset of field: rknn_times::length"][::core::mem::offset_of!(rknn_times, length) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_run_time {
    pub microseconds: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_run_time"][::core::mem::size_of::<rknn_run_time>() - 8usize];
    ["Alignment of rknn_run_time"][::core::mem::align_of::<rknn_run_time>() - 8usize];
    ["Offset of field: rknn_run_time::microseconds"]
        [::core::mem::offset_of!(rknn_run_time, microseconds) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_versions {
    pub api: [::core::ffi::c_char; 256usize],
    pub driver: [::core::ffi::c_char; 256usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_versions"][::core::mem::size_of::<rknn_versions>() - 512usize];
    ["Alignment of rknn_versions"][::core::mem::align_of::<rknn_versions>() - 1usize];
    ["Offset of field: rknn_versions::api"][::core::mem::offset_of!(rknn_versions, api) - 0usize];
    ["Offset of field: rknn_versions::driver"][::core::mem::offset_of!(rknn_versions, driver) - 256usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_memory_sizes {
    pub weight_bytes: u32,
    pub internal_bytes: u32,
    pub dma_bytes: u64,
    pub sram_bytes: u32,
    pub free_sram_bytes: u32,
    pub reserved: [u32; 10usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_memory_sizes"][::core::mem::size_of::<rknn_memory_sizes>() - 64usize];
    ["Alignment of rknn_memory_sizes"][::core::mem::align_of::<rknn_memory_sizes>() - 8usize];
    ["Offset of field: rknn_memory_sizes::weight_bytes"]
        [::core::mem::offset_of!(rknn_memory_sizes, weight_bytes) - 0usize];
    ["Offset of field: rknn_memory_sizes::internal_bytes"]
        [::core::mem::offset_of!(rknn_memory_sizes, internal_bytes) - 4usize];
    ["Offset of field: rknn_memory_sizes::dma_bytes"]
        [::core::mem::offset_of!(rknn_memory_sizes, dma_bytes) - 8usize];
    ["Offset of field: rknn_memory_sizes::sram_bytes"]
        [::core::mem::offset_of!(rknn_memory_sizes, sram_bytes) - 16usize];
    ["Offset of field: rknn_memory_sizes::free_sram_bytes"]
        [::core::mem::offset_of!(rknn_memory_sizes, free_sram_bytes) - 20usize];
    ["Offset of field: rknn_memory_sizes::reserved"]
        [::core::mem::offset_of!(rknn_memory_sizes, reserved) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rknn_custom_string {
    pub text: [::core::ffi::c_char; 1024usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of rknn_custom_string"][::core::mem::size_of::<rknn_custom_string>() - 1024usize];
    ["Alignment of rknn_custom_string"][::core::mem::align_of::<rknn_custom_string>() - 1usize];
    ["Offset of field: rknn_custom_string::text"][::core::mem::offset_of!(rknn_custom_string, text) - 0usize];
};
crate::symbols::symbols! {
    pub fn rknn_init(
        context: *mut rknn_context,
        model: *mut ::core::ffi::c_void,
        size: u32,
        flags: u32,
        extend: *mut rknn_init_extend,
    ) -> ::core::ffi::c_int;
    pub fn rknn_dup_context(context: *mut rknn_context, out: *mut rknn_context) -> ::core::ffi::c_int;
    pub fn rknn_destroy(context: rknn_context) -> ::core::ffi::c_int;
    pub fn rknn_query(
        context: rknn_context,
        command: i32,
        info: *mut ::core::ffi::c_void,
        size: u32,
    ) -> ::core::ffi::c_int;
    pub fn rknn_inputs_set(context: rknn_context, count: u32, inputs: *mut rknn_input) -> ::core::ffi::c_int;
    pub fn rknn_set_core_mask(context: rknn_context, mask: i32) -> ::core::ffi::c_int;
    pub fn rknn_run(context: rknn_context, extend: *mut rknn_run_extend) -> ::core::ffi::c_int;
    pub fn rknn_outputs_get(
        context: rknn_context,
        count: u32,
        outputs: *mut rknn_output,
        extend: *mut rknn_output_extend,
    ) -> ::core::ffi::c_int;
    pub fn rknn_outputs_release(
        context: rknn_context,
        count: u32,
        outputs: *mut rknn_output,
    ) -> ::core::ffi::c_int;
    pub fn rknn_create_mem(context: rknn_context, size: u32) -> *mut rknn_tensor_mem;
    pub fn rknn_create_mem_from_fd(
        context: rknn_context,
        fd: i32,
        virt: *mut ::core::ffi::c_void,
        size: u32,
        offset: i32,
    ) -> *mut rknn_tensor_mem;
    pub fn rknn_destroy_mem(context: rknn_context, memory: *mut rknn_tensor_mem) -> ::core::ffi::c_int;
    pub fn rknn_set_io_mem(
        context: rknn_context,
        memory: *mut rknn_tensor_mem,
        attr: *mut rknn_tensor_attr,
    ) -> ::core::ffi::c_int;
    pub fn rknn_mem_sync(
        context: rknn_context,
        memory: *mut rknn_tensor_mem,
        direction: i32,
    ) -> ::core::ffi::c_int;
}
