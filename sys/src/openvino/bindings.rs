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
pub struct Symbols {
    __library: ::libloading::Library,
    pub ov_get_openvino_version:
        Result<unsafe extern "C" fn(version: *mut ov_version_t) -> ov_status_e, ::libloading::Error>,
    pub ov_version_free: Result<unsafe extern "C" fn(version: *mut ov_version_t), ::libloading::Error>,
    pub ov_get_error_info:
        Result<unsafe extern "C" fn(status: ov_status_e) -> *const ::core::ffi::c_char, ::libloading::Error>,
    pub ov_get_last_err_msg:
        Result<unsafe extern "C" fn() -> *const ::core::ffi::c_char, ::libloading::Error>,
    pub ov_free: Result<unsafe extern "C" fn(content: *const ::core::ffi::c_char), ::libloading::Error>,
    pub ov_core_create:
        Result<unsafe extern "C" fn(core: *mut *mut ov_core_t) -> ov_status_e, ::libloading::Error>,
    pub ov_core_free: Result<unsafe extern "C" fn(core: *mut ov_core_t), ::libloading::Error>,
    pub ov_core_get_available_devices: Result<
        unsafe extern "C" fn(core: *const ov_core_t, devices: *mut ov_available_devices_t) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_available_devices_free:
        Result<unsafe extern "C" fn(devices: *mut ov_available_devices_t), ::libloading::Error>,
    pub ov_core_get_versions_by_device_name: Result<
        unsafe extern "C" fn(
            core: *const ov_core_t,
            device_name: *const ::core::ffi::c_char,
            versions: *mut ov_core_version_list_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_core_versions_free:
        Result<unsafe extern "C" fn(versions: *mut ov_core_version_list_t), ::libloading::Error>,
    pub ov_core_set_property: Result<
        unsafe extern "C" fn(
            core: *const ov_core_t,
            device_name: *const ::core::ffi::c_char,
            ...
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_core_get_property: Result<
        unsafe extern "C" fn(
            core: *const ov_core_t,
            device_name: *const ::core::ffi::c_char,
            property_key: *const ::core::ffi::c_char,
            property_value: *mut *mut ::core::ffi::c_char,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_core_read_model_from_memory_buffer: Result<
        unsafe extern "C" fn(
            core: *const ov_core_t,
            model_str: *const ::core::ffi::c_char,
            str_len: usize,
            weights: *const ov_tensor_t,
            model: *mut *mut ov_model_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_core_compile_model: Result<
        unsafe extern "C" fn(
            core: *const ov_core_t,
            model: *const ov_model_t,
            device_name: *const ::core::ffi::c_char,
            property_args_size: usize,
            compiled_model: *mut *mut ov_compiled_model_t,
            ...
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_core_import_model: Result<
        unsafe extern "C" fn(
            core: *const ov_core_t,
            content: *const ::core::ffi::c_char,
            content_size: usize,
            device_name: *const ::core::ffi::c_char,
            compiled_model: *mut *mut ov_compiled_model_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_model_free: Result<unsafe extern "C" fn(model: *mut ov_model_t), ::libloading::Error>,
    pub ov_model_inputs_size: Result<
        unsafe extern "C" fn(model: *const ov_model_t, input_size: *mut usize) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_model_outputs_size: Result<
        unsafe extern "C" fn(model: *const ov_model_t, output_size: *mut usize) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_model_const_input_by_index: Result<
        unsafe extern "C" fn(
            model: *const ov_model_t,
            index: usize,
            input_port: *mut *mut ov_output_const_port_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_model_const_output_by_index: Result<
        unsafe extern "C" fn(
            model: *const ov_model_t,
            index: usize,
            output_port: *mut *mut ov_output_const_port_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_inputs_size: Result<
        unsafe extern "C" fn(compiled_model: *const ov_compiled_model_t, size: *mut usize) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_outputs_size: Result<
        unsafe extern "C" fn(compiled_model: *const ov_compiled_model_t, size: *mut usize) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_input_by_index: Result<
        unsafe extern "C" fn(
            compiled_model: *const ov_compiled_model_t,
            index: usize,
            input_port: *mut *mut ov_output_const_port_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_output_by_index: Result<
        unsafe extern "C" fn(
            compiled_model: *const ov_compiled_model_t,
            index: usize,
            output_port: *mut *mut ov_output_const_port_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_create_infer_request: Result<
        unsafe extern "C" fn(
            compiled_model: *const ov_compiled_model_t,
            infer_request: *mut *mut ov_infer_request_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_get_property: Result<
        unsafe extern "C" fn(
            compiled_model: *const ov_compiled_model_t,
            property_key: *const ::core::ffi::c_char,
            property_value: *mut *mut ::core::ffi::c_char,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_export_model: Result<
        unsafe extern "C" fn(
            compiled_model: *const ov_compiled_model_t,
            export_model_path: *const ::core::ffi::c_char,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_compiled_model_free:
        Result<unsafe extern "C" fn(compiled_model: *mut ov_compiled_model_t), ::libloading::Error>,
    pub ov_port_get_element_type: Result<
        unsafe extern "C" fn(
            port: *const ov_output_const_port_t,
            tensor_type: *mut ov_element_type_e,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_port_get_any_name: Result<
        unsafe extern "C" fn(
            port: *const ov_output_const_port_t,
            tensor_name: *mut *mut ::core::ffi::c_char,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_const_port_get_shape: Result<
        unsafe extern "C" fn(
            port: *const ov_output_const_port_t,
            tensor_shape: *mut ov_shape_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_output_const_port_free:
        Result<unsafe extern "C" fn(port: *mut ov_output_const_port_t), ::libloading::Error>,
    pub ov_shape_free:
        Result<unsafe extern "C" fn(shape: *mut ov_shape_t) -> ov_status_e, ::libloading::Error>,
    pub ov_tensor_create: Result<
        unsafe extern "C" fn(
            type_: ov_element_type_e,
            shape: ov_shape_t,
            tensor: *mut *mut ov_tensor_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_tensor_create_from_host_ptr: Result<
        unsafe extern "C" fn(
            type_: ov_element_type_e,
            shape: ov_shape_t,
            host_ptr: *mut ::core::ffi::c_void,
            tensor: *mut *mut ov_tensor_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_tensor_get_byte_size: Result<
        unsafe extern "C" fn(tensor: *const ov_tensor_t, byte_size: *mut usize) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_tensor_get_shape: Result<
        unsafe extern "C" fn(tensor: *const ov_tensor_t, shape: *mut ov_shape_t) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_tensor_free: Result<unsafe extern "C" fn(tensor: *mut ov_tensor_t), ::libloading::Error>,
    pub ov_infer_request_set_input_tensor_by_index: Result<
        unsafe extern "C" fn(
            infer_request: *mut ov_infer_request_t,
            idx: usize,
            tensor: *const ov_tensor_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_set_output_tensor_by_index: Result<
        unsafe extern "C" fn(
            infer_request: *mut ov_infer_request_t,
            idx: usize,
            tensor: *const ov_tensor_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_infer: Result<
        unsafe extern "C" fn(infer_request: *mut ov_infer_request_t) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_start_async: Result<
        unsafe extern "C" fn(infer_request: *mut ov_infer_request_t) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_wait: Result<
        unsafe extern "C" fn(infer_request: *mut ov_infer_request_t) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_wait_for: Result<
        unsafe extern "C" fn(infer_request: *mut ov_infer_request_t, timeout: i64) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_cancel: Result<
        unsafe extern "C" fn(infer_request: *mut ov_infer_request_t) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_set_callback: Result<
        unsafe extern "C" fn(
            infer_request: *mut ov_infer_request_t,
            callback: *const ov_callback_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_infer_request_get_profiling_info: Result<
        unsafe extern "C" fn(
            infer_request: *mut ov_infer_request_t,
            profiling_infos: *mut ov_profiling_info_list_t,
        ) -> ov_status_e,
        ::libloading::Error,
    >,
    pub ov_profiling_info_list_free:
        Result<unsafe extern "C" fn(profiling_infos: *mut ov_profiling_info_list_t), ::libloading::Error>,
    pub ov_infer_request_free:
        Result<unsafe extern "C" fn(infer_request: *mut ov_infer_request_t), ::libloading::Error>,
}
impl Symbols {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: AsRef<::std::ffi::OsStr>,
    {
        let path = path.as_ref();
        let library = unsafe { ::libloading::Library::new(path) }?;
        unsafe { Self::from_library(library) }
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let ov_get_openvino_version = unsafe { __library.get(b"ov_get_openvino_version\0") }.map(|sym| *sym);
        let ov_version_free = unsafe { __library.get(b"ov_version_free\0") }.map(|sym| *sym);
        let ov_get_error_info = unsafe { __library.get(b"ov_get_error_info\0") }.map(|sym| *sym);
        let ov_get_last_err_msg = unsafe { __library.get(b"ov_get_last_err_msg\0") }.map(|sym| *sym);
        let ov_free = unsafe { __library.get(b"ov_free\0") }.map(|sym| *sym);
        let ov_core_create = unsafe { __library.get(b"ov_core_create\0") }.map(|sym| *sym);
        let ov_core_free = unsafe { __library.get(b"ov_core_free\0") }.map(|sym| *sym);
        let ov_core_get_available_devices =
            unsafe { __library.get(b"ov_core_get_available_devices\0") }.map(|sym| *sym);
        let ov_available_devices_free =
            unsafe { __library.get(b"ov_available_devices_free\0") }.map(|sym| *sym);
        let ov_core_get_versions_by_device_name =
            unsafe { __library.get(b"ov_core_get_versions_by_device_name\0") }.map(|sym| *sym);
        let ov_core_versions_free = unsafe { __library.get(b"ov_core_versions_free\0") }.map(|sym| *sym);
        let ov_core_set_property = unsafe { __library.get(b"ov_core_set_property\0") }.map(|sym| *sym);
        let ov_core_get_property = unsafe { __library.get(b"ov_core_get_property\0") }.map(|sym| *sym);
        let ov_core_read_model_from_memory_buffer =
            unsafe { __library.get(b"ov_core_read_model_from_memory_buffer\0") }.map(|sym| *sym);
        let ov_core_compile_model = unsafe { __library.get(b"ov_core_compile_model\0") }.map(|sym| *sym);
        let ov_core_import_model = unsafe { __library.get(b"ov_core_import_model\0") }.map(|sym| *sym);
        let ov_model_free = unsafe { __library.get(b"ov_model_free\0") }.map(|sym| *sym);
        let ov_model_inputs_size = unsafe { __library.get(b"ov_model_inputs_size\0") }.map(|sym| *sym);
        let ov_model_outputs_size = unsafe { __library.get(b"ov_model_outputs_size\0") }.map(|sym| *sym);
        let ov_model_const_input_by_index =
            unsafe { __library.get(b"ov_model_const_input_by_index\0") }.map(|sym| *sym);
        let ov_model_const_output_by_index =
            unsafe { __library.get(b"ov_model_const_output_by_index\0") }.map(|sym| *sym);
        let ov_compiled_model_inputs_size =
            unsafe { __library.get(b"ov_compiled_model_inputs_size\0") }.map(|sym| *sym);
        let ov_compiled_model_outputs_size =
            unsafe { __library.get(b"ov_compiled_model_outputs_size\0") }.map(|sym| *sym);
        let ov_compiled_model_input_by_index =
            unsafe { __library.get(b"ov_compiled_model_input_by_index\0") }.map(|sym| *sym);
        let ov_compiled_model_output_by_index =
            unsafe { __library.get(b"ov_compiled_model_output_by_index\0") }.map(|sym| *sym);
        let ov_compiled_model_create_infer_request =
            unsafe { __library.get(b"ov_compiled_model_create_infer_request\0") }.map(|sym| *sym);
        let ov_compiled_model_get_property =
            unsafe { __library.get(b"ov_compiled_model_get_property\0") }.map(|sym| *sym);
        let ov_compiled_model_export_model =
            unsafe { __library.get(b"ov_compiled_model_export_model\0") }.map(|sym| *sym);
        let ov_compiled_model_free = unsafe { __library.get(b"ov_compiled_model_free\0") }.map(|sym| *sym);
        let ov_port_get_element_type =
            unsafe { __library.get(b"ov_port_get_element_type\0") }.map(|sym| *sym);
        let ov_port_get_any_name = unsafe { __library.get(b"ov_port_get_any_name\0") }.map(|sym| *sym);
        let ov_const_port_get_shape = unsafe { __library.get(b"ov_const_port_get_shape\0") }.map(|sym| *sym);
        let ov_output_const_port_free =
            unsafe { __library.get(b"ov_output_const_port_free\0") }.map(|sym| *sym);
        let ov_shape_free = unsafe { __library.get(b"ov_shape_free\0") }.map(|sym| *sym);
        let ov_tensor_create = unsafe { __library.get(b"ov_tensor_create\0") }.map(|sym| *sym);
        let ov_tensor_create_from_host_ptr =
            unsafe { __library.get(b"ov_tensor_create_from_host_ptr\0") }.map(|sym| *sym);
        let ov_tensor_get_byte_size = unsafe { __library.get(b"ov_tensor_get_byte_size\0") }.map(|sym| *sym);
        let ov_tensor_get_shape = unsafe { __library.get(b"ov_tensor_get_shape\0") }.map(|sym| *sym);
        let ov_tensor_free = unsafe { __library.get(b"ov_tensor_free\0") }.map(|sym| *sym);
        let ov_infer_request_set_input_tensor_by_index =
            unsafe { __library.get(b"ov_infer_request_set_input_tensor_by_index\0") }.map(|sym| *sym);
        let ov_infer_request_set_output_tensor_by_index =
            unsafe { __library.get(b"ov_infer_request_set_output_tensor_by_index\0") }.map(|sym| *sym);
        let ov_infer_request_infer = unsafe { __library.get(b"ov_infer_request_infer\0") }.map(|sym| *sym);
        let ov_infer_request_start_async =
            unsafe { __library.get(b"ov_infer_request_start_async\0") }.map(|sym| *sym);
        let ov_infer_request_wait = unsafe { __library.get(b"ov_infer_request_wait\0") }.map(|sym| *sym);
        let ov_infer_request_wait_for =
            unsafe { __library.get(b"ov_infer_request_wait_for\0") }.map(|sym| *sym);
        let ov_infer_request_cancel = unsafe { __library.get(b"ov_infer_request_cancel\0") }.map(|sym| *sym);
        let ov_infer_request_set_callback =
            unsafe { __library.get(b"ov_infer_request_set_callback\0") }.map(|sym| *sym);
        let ov_infer_request_get_profiling_info =
            unsafe { __library.get(b"ov_infer_request_get_profiling_info\0") }.map(|sym| *sym);
        let ov_profiling_info_list_free =
            unsafe { __library.get(b"ov_profiling_info_list_free\0") }.map(|sym| *sym);
        let ov_infer_request_free = unsafe { __library.get(b"ov_infer_request_free\0") }.map(|sym| *sym);
        Ok(Symbols {
            __library,
            ov_get_openvino_version,
            ov_version_free,
            ov_get_error_info,
            ov_get_last_err_msg,
            ov_free,
            ov_core_create,
            ov_core_free,
            ov_core_get_available_devices,
            ov_available_devices_free,
            ov_core_get_versions_by_device_name,
            ov_core_versions_free,
            ov_core_set_property,
            ov_core_get_property,
            ov_core_read_model_from_memory_buffer,
            ov_core_compile_model,
            ov_core_import_model,
            ov_model_free,
            ov_model_inputs_size,
            ov_model_outputs_size,
            ov_model_const_input_by_index,
            ov_model_const_output_by_index,
            ov_compiled_model_inputs_size,
            ov_compiled_model_outputs_size,
            ov_compiled_model_input_by_index,
            ov_compiled_model_output_by_index,
            ov_compiled_model_create_infer_request,
            ov_compiled_model_get_property,
            ov_compiled_model_export_model,
            ov_compiled_model_free,
            ov_port_get_element_type,
            ov_port_get_any_name,
            ov_const_port_get_shape,
            ov_output_const_port_free,
            ov_shape_free,
            ov_tensor_create,
            ov_tensor_create_from_host_ptr,
            ov_tensor_get_byte_size,
            ov_tensor_get_shape,
            ov_tensor_free,
            ov_infer_request_set_input_tensor_by_index,
            ov_infer_request_set_output_tensor_by_index,
            ov_infer_request_infer,
            ov_infer_request_start_async,
            ov_infer_request_wait,
            ov_infer_request_wait_for,
            ov_infer_request_cancel,
            ov_infer_request_set_callback,
            ov_infer_request_get_profiling_info,
            ov_profiling_info_list_free,
            ov_infer_request_free,
        })
    }
    pub unsafe fn ov_get_openvino_version(&self, version: *mut ov_version_t) -> ov_status_e {
        unsafe {
            (self
                .ov_get_openvino_version
                .as_ref()
                .expect("Expected function, got error."))(version)
        }
    }
    pub unsafe fn ov_version_free(&self, version: *mut ov_version_t) {
        unsafe {
            (self
                .ov_version_free
                .as_ref()
                .expect("Expected function, got error."))(version)
        }
    }
    pub unsafe fn ov_get_error_info(&self, status: ov_status_e) -> *const ::core::ffi::c_char {
        unsafe {
            (self
                .ov_get_error_info
                .as_ref()
                .expect("Expected function, got error."))(status)
        }
    }
    pub unsafe fn ov_get_last_err_msg(&self) -> *const ::core::ffi::c_char {
        unsafe {
            (self
                .ov_get_last_err_msg
                .as_ref()
                .expect("Expected function, got error."))()
        }
    }
    pub unsafe fn ov_free(&self, content: *const ::core::ffi::c_char) {
        unsafe { (self.ov_free.as_ref().expect("Expected function, got error."))(content) }
    }
    pub unsafe fn ov_core_create(&self, core: *mut *mut ov_core_t) -> ov_status_e {
        unsafe {
            (self
                .ov_core_create
                .as_ref()
                .expect("Expected function, got error."))(core)
        }
    }
    pub unsafe fn ov_core_free(&self, core: *mut ov_core_t) {
        unsafe { (self.ov_core_free.as_ref().expect("Expected function, got error."))(core) }
    }
    pub unsafe fn ov_core_get_available_devices(
        &self,
        core: *const ov_core_t,
        devices: *mut ov_available_devices_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_core_get_available_devices
                .as_ref()
                .expect("Expected function, got error."))(core, devices)
        }
    }
    pub unsafe fn ov_available_devices_free(&self, devices: *mut ov_available_devices_t) {
        unsafe {
            (self
                .ov_available_devices_free
                .as_ref()
                .expect("Expected function, got error."))(devices)
        }
    }
    pub unsafe fn ov_core_get_versions_by_device_name(
        &self,
        core: *const ov_core_t,
        device_name: *const ::core::ffi::c_char,
        versions: *mut ov_core_version_list_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_core_get_versions_by_device_name
                .as_ref()
                .expect("Expected function, got error."))(core, device_name, versions)
        }
    }
    pub unsafe fn ov_core_versions_free(&self, versions: *mut ov_core_version_list_t) {
        unsafe {
            (self
                .ov_core_versions_free
                .as_ref()
                .expect("Expected function, got error."))(versions)
        }
    }
    pub unsafe fn ov_core_get_property(
        &self,
        core: *const ov_core_t,
        device_name: *const ::core::ffi::c_char,
        property_key: *const ::core::ffi::c_char,
        property_value: *mut *mut ::core::ffi::c_char,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_core_get_property
                .as_ref()
                .expect("Expected function, got error."))(
                core, device_name, property_key, property_value
            )
        }
    }
    pub unsafe fn ov_core_read_model_from_memory_buffer(
        &self,
        core: *const ov_core_t,
        model_str: *const ::core::ffi::c_char,
        str_len: usize,
        weights: *const ov_tensor_t,
        model: *mut *mut ov_model_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_core_read_model_from_memory_buffer
                .as_ref()
                .expect("Expected function, got error."))(core, model_str, str_len, weights, model)
        }
    }
    pub unsafe fn ov_core_import_model(
        &self,
        core: *const ov_core_t,
        content: *const ::core::ffi::c_char,
        content_size: usize,
        device_name: *const ::core::ffi::c_char,
        compiled_model: *mut *mut ov_compiled_model_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_core_import_model
                .as_ref()
                .expect("Expected function, got error."))(
                core,
                content,
                content_size,
                device_name,
                compiled_model,
            )
        }
    }
    pub unsafe fn ov_model_free(&self, model: *mut ov_model_t) {
        unsafe {
            (self
                .ov_model_free
                .as_ref()
                .expect("Expected function, got error."))(model)
        }
    }
    pub unsafe fn ov_model_inputs_size(
        &self,
        model: *const ov_model_t,
        input_size: *mut usize,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_model_inputs_size
                .as_ref()
                .expect("Expected function, got error."))(model, input_size)
        }
    }
    pub unsafe fn ov_model_outputs_size(
        &self,
        model: *const ov_model_t,
        output_size: *mut usize,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_model_outputs_size
                .as_ref()
                .expect("Expected function, got error."))(model, output_size)
        }
    }
    pub unsafe fn ov_model_const_input_by_index(
        &self,
        model: *const ov_model_t,
        index: usize,
        input_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_model_const_input_by_index
                .as_ref()
                .expect("Expected function, got error."))(model, index, input_port)
        }
    }
    pub unsafe fn ov_model_const_output_by_index(
        &self,
        model: *const ov_model_t,
        index: usize,
        output_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_model_const_output_by_index
                .as_ref()
                .expect("Expected function, got error."))(model, index, output_port)
        }
    }
    pub unsafe fn ov_compiled_model_inputs_size(
        &self,
        compiled_model: *const ov_compiled_model_t,
        size: *mut usize,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_inputs_size
                .as_ref()
                .expect("Expected function, got error."))(compiled_model, size)
        }
    }
    pub unsafe fn ov_compiled_model_outputs_size(
        &self,
        compiled_model: *const ov_compiled_model_t,
        size: *mut usize,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_outputs_size
                .as_ref()
                .expect("Expected function, got error."))(compiled_model, size)
        }
    }
    pub unsafe fn ov_compiled_model_input_by_index(
        &self,
        compiled_model: *const ov_compiled_model_t,
        index: usize,
        input_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_input_by_index
                .as_ref()
                .expect("Expected function, got error."))(compiled_model, index, input_port)
        }
    }
    pub unsafe fn ov_compiled_model_output_by_index(
        &self,
        compiled_model: *const ov_compiled_model_t,
        index: usize,
        output_port: *mut *mut ov_output_const_port_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_output_by_index
                .as_ref()
                .expect("Expected function, got error."))(compiled_model, index, output_port)
        }
    }
    pub unsafe fn ov_compiled_model_create_infer_request(
        &self,
        compiled_model: *const ov_compiled_model_t,
        infer_request: *mut *mut ov_infer_request_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_create_infer_request
                .as_ref()
                .expect("Expected function, got error."))(compiled_model, infer_request)
        }
    }
    pub unsafe fn ov_compiled_model_get_property(
        &self,
        compiled_model: *const ov_compiled_model_t,
        property_key: *const ::core::ffi::c_char,
        property_value: *mut *mut ::core::ffi::c_char,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_get_property
                .as_ref()
                .expect("Expected function, got error."))(
                compiled_model, property_key, property_value
            )
        }
    }
    pub unsafe fn ov_compiled_model_export_model(
        &self,
        compiled_model: *const ov_compiled_model_t,
        export_model_path: *const ::core::ffi::c_char,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_compiled_model_export_model
                .as_ref()
                .expect("Expected function, got error."))(compiled_model, export_model_path)
        }
    }
    pub unsafe fn ov_compiled_model_free(&self, compiled_model: *mut ov_compiled_model_t) {
        unsafe {
            (self
                .ov_compiled_model_free
                .as_ref()
                .expect("Expected function, got error."))(compiled_model)
        }
    }
    pub unsafe fn ov_port_get_element_type(
        &self,
        port: *const ov_output_const_port_t,
        tensor_type: *mut ov_element_type_e,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_port_get_element_type
                .as_ref()
                .expect("Expected function, got error."))(port, tensor_type)
        }
    }
    pub unsafe fn ov_port_get_any_name(
        &self,
        port: *const ov_output_const_port_t,
        tensor_name: *mut *mut ::core::ffi::c_char,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_port_get_any_name
                .as_ref()
                .expect("Expected function, got error."))(port, tensor_name)
        }
    }
    pub unsafe fn ov_const_port_get_shape(
        &self,
        port: *const ov_output_const_port_t,
        tensor_shape: *mut ov_shape_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_const_port_get_shape
                .as_ref()
                .expect("Expected function, got error."))(port, tensor_shape)
        }
    }
    pub unsafe fn ov_output_const_port_free(&self, port: *mut ov_output_const_port_t) {
        unsafe {
            (self
                .ov_output_const_port_free
                .as_ref()
                .expect("Expected function, got error."))(port)
        }
    }
    pub unsafe fn ov_shape_free(&self, shape: *mut ov_shape_t) -> ov_status_e {
        unsafe {
            (self
                .ov_shape_free
                .as_ref()
                .expect("Expected function, got error."))(shape)
        }
    }
    pub unsafe fn ov_tensor_create(
        &self,
        type_: ov_element_type_e,
        shape: ov_shape_t,
        tensor: *mut *mut ov_tensor_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_tensor_create
                .as_ref()
                .expect("Expected function, got error."))(type_, shape, tensor)
        }
    }
    pub unsafe fn ov_tensor_create_from_host_ptr(
        &self,
        type_: ov_element_type_e,
        shape: ov_shape_t,
        host_ptr: *mut ::core::ffi::c_void,
        tensor: *mut *mut ov_tensor_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_tensor_create_from_host_ptr
                .as_ref()
                .expect("Expected function, got error."))(type_, shape, host_ptr, tensor)
        }
    }
    pub unsafe fn ov_tensor_get_byte_size(
        &self,
        tensor: *const ov_tensor_t,
        byte_size: *mut usize,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_tensor_get_byte_size
                .as_ref()
                .expect("Expected function, got error."))(tensor, byte_size)
        }
    }
    pub unsafe fn ov_tensor_get_shape(
        &self,
        tensor: *const ov_tensor_t,
        shape: *mut ov_shape_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_tensor_get_shape
                .as_ref()
                .expect("Expected function, got error."))(tensor, shape)
        }
    }
    pub unsafe fn ov_tensor_free(&self, tensor: *mut ov_tensor_t) {
        unsafe {
            (self
                .ov_tensor_free
                .as_ref()
                .expect("Expected function, got error."))(tensor)
        }
    }
    pub unsafe fn ov_infer_request_set_input_tensor_by_index(
        &self,
        infer_request: *mut ov_infer_request_t,
        idx: usize,
        tensor: *const ov_tensor_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_set_input_tensor_by_index
                .as_ref()
                .expect("Expected function, got error."))(infer_request, idx, tensor)
        }
    }
    pub unsafe fn ov_infer_request_set_output_tensor_by_index(
        &self,
        infer_request: *mut ov_infer_request_t,
        idx: usize,
        tensor: *const ov_tensor_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_set_output_tensor_by_index
                .as_ref()
                .expect("Expected function, got error."))(infer_request, idx, tensor)
        }
    }
    pub unsafe fn ov_infer_request_infer(&self, infer_request: *mut ov_infer_request_t) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_infer
                .as_ref()
                .expect("Expected function, got error."))(infer_request)
        }
    }
    pub unsafe fn ov_infer_request_start_async(&self, infer_request: *mut ov_infer_request_t) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_start_async
                .as_ref()
                .expect("Expected function, got error."))(infer_request)
        }
    }
    pub unsafe fn ov_infer_request_wait(&self, infer_request: *mut ov_infer_request_t) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_wait
                .as_ref()
                .expect("Expected function, got error."))(infer_request)
        }
    }
    pub unsafe fn ov_infer_request_wait_for(
        &self,
        infer_request: *mut ov_infer_request_t,
        timeout: i64,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_wait_for
                .as_ref()
                .expect("Expected function, got error."))(infer_request, timeout)
        }
    }
    pub unsafe fn ov_infer_request_cancel(&self, infer_request: *mut ov_infer_request_t) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_cancel
                .as_ref()
                .expect("Expected function, got error."))(infer_request)
        }
    }
    pub unsafe fn ov_infer_request_set_callback(
        &self,
        infer_request: *mut ov_infer_request_t,
        callback: *const ov_callback_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_set_callback
                .as_ref()
                .expect("Expected function, got error."))(infer_request, callback)
        }
    }
    pub unsafe fn ov_infer_request_get_profiling_info(
        &self,
        infer_request: *mut ov_infer_request_t,
        profiling_infos: *mut ov_profiling_info_list_t,
    ) -> ov_status_e {
        unsafe {
            (self
                .ov_infer_request_get_profiling_info
                .as_ref()
                .expect("Expected function, got error."))(infer_request, profiling_infos)
        }
    }
    pub unsafe fn ov_profiling_info_list_free(&self, profiling_infos: *mut ov_profiling_info_list_t) {
        unsafe {
            (self
                .ov_profiling_info_list_free
                .as_ref()
                .expect("Expected function, got error."))(profiling_infos)
        }
    }
    pub unsafe fn ov_infer_request_free(&self, infer_request: *mut ov_infer_request_t) {
        unsafe {
            (self
                .ov_infer_request_free
                .as_ref()
                .expect("Expected function, got error."))(infer_request)
        }
    }
}
