//! Declarations of the OpenVINO C library: made by `cargo xtask bindgen` from `sys/headers/openvino.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

pub const OV_STATUS_OK: ov_status_e = 0;
pub const OV_STATUS_GENERAL_ERROR: ov_status_e = -1;
pub const OV_STATUS_NOT_IMPLEMENTED: ov_status_e = -2;
pub const OV_STATUS_NETWORK_NOT_LOADED: ov_status_e = -3;
pub const OV_STATUS_PARAMETER_MISMATCH: ov_status_e = -4;
pub const OV_STATUS_NOT_FOUND: ov_status_e = -5;
pub const OV_STATUS_OUT_OF_BOUNDS: ov_status_e = -6;
pub const OV_STATUS_UNEXPECTED: ov_status_e = -7;
pub const OV_STATUS_REQUEST_BUSY: ov_status_e = -8;
pub const OV_STATUS_RESULT_NOT_READY: ov_status_e = -9;
pub const OV_STATUS_NOT_ALLOCATED: ov_status_e = -10;
pub const OV_STATUS_INFER_NOT_STARTED: ov_status_e = -11;
pub const OV_STATUS_NETWORK_NOT_READ: ov_status_e = -12;
pub const OV_STATUS_INFER_CANCELLED: ov_status_e = -13;
pub const OV_STATUS_INVALID_C_PARAM: ov_status_e = -14;
pub const OV_STATUS_UNKNOWN_C_ERROR: ov_status_e = -15;
pub const OV_STATUS_NOT_IMPLEMENT_C_METHOD: ov_status_e = -16;
pub const OV_STATUS_UNKNOWN_EXCEPTION: ov_status_e = -17;
pub type ov_status_e = ::core::ffi::c_int;
pub const OV_ELEMENT_DYNAMIC: ov_element_type_e = 0;
pub const OV_ELEMENT_BOOLEAN: ov_element_type_e = 1;
pub const OV_ELEMENT_BF16: ov_element_type_e = 2;
pub const OV_ELEMENT_F16: ov_element_type_e = 3;
pub const OV_ELEMENT_F32: ov_element_type_e = 4;
pub const OV_ELEMENT_F64: ov_element_type_e = 5;
pub const OV_ELEMENT_I4: ov_element_type_e = 6;
pub const OV_ELEMENT_I8: ov_element_type_e = 7;
pub const OV_ELEMENT_I16: ov_element_type_e = 8;
pub const OV_ELEMENT_I32: ov_element_type_e = 9;
pub const OV_ELEMENT_I64: ov_element_type_e = 10;
pub const OV_ELEMENT_U1: ov_element_type_e = 11;
pub const OV_ELEMENT_U2: ov_element_type_e = 12;
pub const OV_ELEMENT_U3: ov_element_type_e = 13;
pub const OV_ELEMENT_U4: ov_element_type_e = 14;
pub const OV_ELEMENT_U6: ov_element_type_e = 15;
pub const OV_ELEMENT_U8: ov_element_type_e = 16;
pub const OV_ELEMENT_U16: ov_element_type_e = 17;
pub const OV_ELEMENT_U32: ov_element_type_e = 18;
pub const OV_ELEMENT_U64: ov_element_type_e = 19;
pub const OV_ELEMENT_NF4: ov_element_type_e = 20;
pub const OV_ELEMENT_F8E4M3: ov_element_type_e = 21;
pub const OV_ELEMENT_F8E5M2: ov_element_type_e = 22;
pub const OV_ELEMENT_STRING: ov_element_type_e = 23;
pub const OV_ELEMENT_F4E2M1: ov_element_type_e = 24;
pub const OV_ELEMENT_F8E8M0: ov_element_type_e = 25;
pub type ov_element_type_e = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct ov_core {
    _unused: [u8; 0],
}
pub type ov_core_t = ov_core;
#[repr(C)]
#[derive(Debug)]
pub struct ov_model {
    _unused: [u8; 0],
}
pub type ov_model_t = ov_model;
#[repr(C)]
#[derive(Debug)]
pub struct ov_compiled_model {
    _unused: [u8; 0],
}
pub type ov_compiled_model_t = ov_compiled_model;
#[repr(C)]
#[derive(Debug)]
pub struct ov_infer_request {
    _unused: [u8; 0],
}
pub type ov_infer_request_t = ov_infer_request;
#[repr(C)]
#[derive(Debug)]
pub struct ov_tensor {
    _unused: [u8; 0],
}
pub type ov_tensor_t = ov_tensor;
#[repr(C)]
#[derive(Debug)]
pub struct ov_output_const_port {
    _unused: [u8; 0],
}
pub type ov_output_const_port_t = ov_output_const_port;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_version {
    pub buildNumber: *const ::core::ffi::c_char,
    pub description: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_version"][::core::mem::size_of::<ov_version>() - 16usize];
    ["Alignment of ov_version"][::core::mem::align_of::<ov_version>() - 8usize];
    ["Offset of field: ov_version::buildNumber"][::core::mem::offset_of!(ov_version, buildNumber) - 0usize];
    ["Offset of field: ov_version::description"][::core::mem::offset_of!(ov_version, description) - 8usize];
};
pub type ov_version_t = ov_version;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_core_version {
    pub device_name: *const ::core::ffi::c_char,
    pub version: ov_version_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_core_version"][::core::mem::size_of::<ov_core_version>() - 24usize];
    ["Alignment of ov_core_version"][::core::mem::align_of::<ov_core_version>() - 8usize];
    ["Offset of field: ov_core_version::device_name"]
        [::core::mem::offset_of!(ov_core_version, device_name) - 0usize];
    ["Offset of field: ov_core_version::version"][::core::mem::offset_of!(ov_core_version, version) - 8usize];
};
pub type ov_core_version_t = ov_core_version;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_core_version_list {
    pub versions: *mut ov_core_version_t,
    pub size: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_core_version_list"][::core::mem::size_of::<ov_core_version_list>() - 16usize];
    ["Alignment of ov_core_version_list"][::core::mem::align_of::<ov_core_version_list>() - 8usize];
    ["Offset of field: ov_core_version_list::versions"]
        [::core::mem::offset_of!(ov_core_version_list, versions) - 0usize];
    ["Offset of field: ov_core_version_list::size"]
        [::core::mem::offset_of!(ov_core_version_list, size) - 8usize];
};
pub type ov_core_version_list_t = ov_core_version_list;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_available_devices {
    pub devices: *mut *mut ::core::ffi::c_char,
    pub size: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_available_devices"][::core::mem::size_of::<ov_available_devices>() - 16usize];
    ["Alignment of ov_available_devices"][::core::mem::align_of::<ov_available_devices>() - 8usize];
    ["Offset of field: ov_available_devices::devices"]
        [::core::mem::offset_of!(ov_available_devices, devices) - 0usize];
    ["Offset of field: ov_available_devices::size"]
        [::core::mem::offset_of!(ov_available_devices, size) - 8usize];
};
pub type ov_available_devices_t = ov_available_devices;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_shape {
    pub rank: i64,
    pub dims: *mut i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_shape"][::core::mem::size_of::<ov_shape>() - 16usize];
    ["Alignment of ov_shape"][::core::mem::align_of::<ov_shape>() - 8usize];
    ["Offset of field: ov_shape::rank"][::core::mem::offset_of!(ov_shape, rank) - 0usize];
    ["Offset of field: ov_shape::dims"][::core::mem::offset_of!(ov_shape, dims) - 8usize];
};
pub type ov_shape_t = ov_shape;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_callback {
    pub callback_func: ::core::option::Option<unsafe extern "C" fn(args: *mut ::core::ffi::c_void)>,
    pub args: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_callback"][::core::mem::size_of::<ov_callback>() - 16usize];
    ["Alignment of ov_callback"][::core::mem::align_of::<ov_callback>() - 8usize];
    ["Offset of field: ov_callback::callback_func"]
        [::core::mem::offset_of!(ov_callback, callback_func) - 0usize];
    ["Offset of field: ov_callback::args"][::core::mem::offset_of!(ov_callback, args) - 8usize];
};
pub type ov_callback_t = ov_callback;
pub const OV_PROFILING_NOT_RUN: ov_profiling_status_e = 0;
pub const OV_PROFILING_OPTIMIZED_OUT: ov_profiling_status_e = 1;
pub const OV_PROFILING_EXECUTED: ov_profiling_status_e = 2;
pub type ov_profiling_status_e = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_profiling_info {
    pub status: ov_profiling_status_e,
    pub real_time: i64,
    pub cpu_time: i64,
    pub node_name: *const ::core::ffi::c_char,
    pub exec_type: *const ::core::ffi::c_char,
    pub node_type: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_profiling_info"][::core::mem::size_of::<ov_profiling_info>() - 48usize];
    ["Alignment of ov_profiling_info"][::core::mem::align_of::<ov_profiling_info>() - 8usize];
    ["Offset of field: ov_profiling_info::status"]
        [::core::mem::offset_of!(ov_profiling_info, status) - 0usize];
    ["Offset of field: ov_profiling_info::real_time"]
        [::core::mem::offset_of!(ov_profiling_info, real_time) - 8usize];
    ["Offset of field: ov_profiling_info::cpu_time"]
        [::core::mem::offset_of!(ov_profiling_info, cpu_time) - 16usize];
    ["Offset of field: ov_profiling_info::node_name"]
        [::core::mem::offset_of!(ov_profiling_info, node_name) - 24usize];
    ["Offset of field: ov_profiling_info::exec_type"]
        [::core::mem::offset_of!(ov_profiling_info, exec_type) - 32usize];
    ["Offset of field: ov_profiling_info::node_type"]
        [::core::mem::offset_of!(ov_profiling_info, node_type) - 40usize];
};
pub type ov_profiling_info_t = ov_profiling_info;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ov_profiling_info_list {
    pub profiling_infos: *mut ov_profiling_info_t,
    pub size: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ov_profiling_info_list"][::core::mem::size_of::<ov_profiling_info_list>() - 16usize];
    ["Alignment of ov_profiling_info_list"][::core::mem::align_of::<ov_profiling_info_list>() - 8usize];
    ["Offset of field: ov_profiling_info_list::profiling_infos"]
        [::core::mem::offset_of!(ov_profiling_info_list, profiling_infos) - 0usize];
    ["Offset of field: ov_profiling_info_list::size"]
        [::core::mem::offset_of!(ov_profiling_info_list, size) - 8usize];
};
pub type ov_profiling_info_list_t = ov_profiling_info_list;
crate::symbols::symbols! {
    pub fn ov_get_openvino_version(version: *mut ov_version_t) -> ov_status_e;
    pub fn ov_version_free(version: *mut ov_version_t);
    pub fn ov_get_error_info(status: ov_status_e) -> *const ::core::ffi::c_char;
    pub fn ov_get_last_err_msg() -> *const ::core::ffi::c_char;
    pub fn ov_free(content: *const ::core::ffi::c_char);
    pub fn ov_core_create(core: *mut *mut ov_core_t) -> ov_status_e;
    pub fn ov_core_free(core: *mut ov_core_t);
    pub fn ov_core_get_available_devices(
        core: *const ov_core_t,
        devices: *mut ov_available_devices_t,
    ) -> ov_status_e;
    pub fn ov_available_devices_free(devices: *mut ov_available_devices_t);
    pub fn ov_core_get_versions_by_device_name(
        core: *const ov_core_t,
        device_name: *const ::core::ffi::c_char,
        versions: *mut ov_core_version_list_t,
    ) -> ov_status_e;
    pub fn ov_core_versions_free(versions: *mut ov_core_version_list_t);
    pub fn ov_core_get_property(
        core: *const ov_core_t,
        device_name: *const ::core::ffi::c_char,
        property_key: *const ::core::ffi::c_char,
        property_value: *mut *mut ::core::ffi::c_char,
    ) -> ov_status_e;
    pub fn ov_core_read_model_from_memory_buffer(
        core: *const ov_core_t,
        model_str: *const ::core::ffi::c_char,
        str_len: usize,
        weights: *const ov_tensor_t,
        model: *mut *mut ov_model_t,
    ) -> ov_status_e;
    pub fn ov_core_import_model(
        core: *const ov_core_t,
        content: *const ::core::ffi::c_char,
        content_size: usize,
        device_name: *const ::core::ffi::c_char,
        compiled_model: *mut *mut ov_compiled_model_t,
    ) -> ov_status_e;
    pub fn ov_model_free(model: *mut ov_model_t);
    pub fn ov_model_inputs_size(model: *const ov_model_t, input_size: *mut usize) -> ov_status_e;
    pub fn ov_model_outputs_size(model: *const ov_model_t, output_size: *mut usize) -> ov_status_e;
    pub fn ov_model_const_input_by_index(
        model: *const ov_model_t,
        index: usize,
        input_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e;
    pub fn ov_model_const_output_by_index(
        model: *const ov_model_t,
        index: usize,
        output_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e;
    pub fn ov_compiled_model_inputs_size(
        compiled_model: *const ov_compiled_model_t,
        size: *mut usize,
    ) -> ov_status_e;
    pub fn ov_compiled_model_outputs_size(
        compiled_model: *const ov_compiled_model_t,
        size: *mut usize,
    ) -> ov_status_e;
    pub fn ov_compiled_model_input_by_index(
        compiled_model: *const ov_compiled_model_t,
        index: usize,
        input_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e;
    pub fn ov_compiled_model_output_by_index(
        compiled_model: *const ov_compiled_model_t,
        index: usize,
        output_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e;
    pub fn ov_compiled_model_create_infer_request(
        compiled_model: *const ov_compiled_model_t,
        infer_request: *mut *mut ov_infer_request_t,
    ) -> ov_status_e;
    pub fn ov_compiled_model_get_property(
        compiled_model: *const ov_compiled_model_t,
        property_key: *const ::core::ffi::c_char,
        property_value: *mut *mut ::core::ffi::c_char,
    ) -> ov_status_e;
    pub fn ov_compiled_model_export_model(
        compiled_model: *const ov_compiled_model_t,
        export_model_path: *const ::core::ffi::c_char,
    ) -> ov_status_e;
    pub fn ov_compiled_model_free(compiled_model: *mut ov_compiled_model_t);
    pub fn ov_port_get_element_type(
        port: *const ov_output_const_port_t,
        tensor_type: *mut ov_element_type_e,
    ) -> ov_status_e;
    pub fn ov_port_get_any_name(
        port: *const ov_output_const_port_t,
        tensor_name: *mut *mut ::core::ffi::c_char,
    ) -> ov_status_e;
    pub fn ov_const_port_get_shape(
        port: *const ov_output_const_port_t,
        tensor_shape: *mut ov_shape_t,
    ) -> ov_status_e;
    pub fn ov_output_const_port_free(port: *mut ov_output_const_port_t);
    pub fn ov_shape_free(shape: *mut ov_shape_t) -> ov_status_e;
    pub fn ov_tensor_create(
        type_: ov_element_type_e,
        shape: ov_shape_t,
        tensor: *mut *mut ov_tensor_t,
    ) -> ov_status_e;
    pub fn ov_tensor_create_from_host_ptr(
        type_: ov_element_type_e,
        shape: ov_shape_t,
        host_ptr: *mut ::core::ffi::c_void,
        tensor: *mut *mut ov_tensor_t,
    ) -> ov_status_e;
    pub fn ov_tensor_get_byte_size(tensor: *const ov_tensor_t, byte_size: *mut usize) -> ov_status_e;
    pub fn ov_tensor_get_shape(tensor: *const ov_tensor_t, shape: *mut ov_shape_t) -> ov_status_e;
    pub fn ov_tensor_free(tensor: *mut ov_tensor_t);
    pub fn ov_infer_request_set_input_tensor_by_index(
        infer_request: *mut ov_infer_request_t,
        idx: usize,
        tensor: *const ov_tensor_t,
    ) -> ov_status_e;
    pub fn ov_infer_request_set_output_tensor_by_index(
        infer_request: *mut ov_infer_request_t,
        idx: usize,
        tensor: *const ov_tensor_t,
    ) -> ov_status_e;
    pub fn ov_infer_request_infer(infer_request: *mut ov_infer_request_t) -> ov_status_e;
    pub fn ov_infer_request_start_async(infer_request: *mut ov_infer_request_t) -> ov_status_e;
    pub fn ov_infer_request_wait(infer_request: *mut ov_infer_request_t) -> ov_status_e;
    pub fn ov_infer_request_wait_for(infer_request: *mut ov_infer_request_t, timeout: i64) -> ov_status_e;
    pub fn ov_infer_request_cancel(infer_request: *mut ov_infer_request_t) -> ov_status_e;
    pub fn ov_infer_request_set_callback(
        infer_request: *mut ov_infer_request_t,
        callback: *const ov_callback_t,
    ) -> ov_status_e;
    pub fn ov_infer_request_get_profiling_info(
        infer_request: *mut ov_infer_request_t,
        profiling_infos: *mut ov_profiling_info_list_t,
    ) -> ov_status_e;
    pub fn ov_profiling_info_list_free(profiling_infos: *mut ov_profiling_info_list_t);
    pub fn ov_infer_request_free(infer_request: *mut ov_infer_request_t);
    variadic:
    pub fn ov_core_set_property(
        core: *const ov_core_t,
        device_name: *const ::core::ffi::c_char,
        ...
    ) -> ov_status_e;
    pub fn ov_core_compile_model(
        core: *const ov_core_t,
        model: *const ov_model_t,
        device_name: *const ::core::ffi::c_char,
        property_args_size: usize,
        compiled_model: *mut *mut ov_compiled_model_t,
        ...
    ) -> ov_status_e;
}
