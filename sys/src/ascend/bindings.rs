//! Declarations of AscendCL: made by `cargo xtask bindgen` from `sys/headers/ascend.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

pub const ACL_MAX_AXES: _bindgen_ty_1 = 128;
pub const ACL_MAX_NAME: _bindgen_ty_1 = 128;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const ACL_OK: _bindgen_ty_2 = 0;
pub const ACL_BAD_PARAMETER: _bindgen_ty_2 = 100000;
pub const ACL_NOT_INITIALISED: _bindgen_ty_2 = 100001;
pub const ACL_INITIALISED_BEFORE: _bindgen_ty_2 = 100002;
pub const ACL_BAD_MODEL_ID: _bindgen_ty_2 = 100011;
pub const ACL_RT_BAD_PARAMETER: _bindgen_ty_2 = 107000;
pub const ACL_RT_BAD_DEVICE: _bindgen_ty_2 = 107001;
pub const ACL_RT_NO_CONTEXT: _bindgen_ty_2 = 107002;
pub const ACL_RT_OTHER_CONTEXT: _bindgen_ty_2 = 107003;
pub const ACL_RT_TASK_ABORTED: _bindgen_ty_2 = 107022;
pub const ACL_GE_BAD_PARAMETER: _bindgen_ty_2 = 145000;
pub const ACL_GE_BAD_MODEL_ID: _bindgen_ty_2 = 145003;
pub const ACL_GE_BAD_MODEL_SIZE: _bindgen_ty_2 = 145006;
pub const ACL_NO_HOST_MEMORY: _bindgen_ty_2 = 200000;
pub const ACL_NOT_OFFERED: _bindgen_ty_2 = 200001;
pub const ACL_RT_NOT_OFFERED: _bindgen_ty_2 = 207000;
pub const ACL_RT_NO_MEMORY: _bindgen_ty_2 = 207001;
pub const ACL_RT_NO_DEVICE: _bindgen_ty_2 = 207004;
pub const ACL_RT_NO_RESOURCE: _bindgen_ty_2 = 207005;
pub const ACL_GE_NO_MEMORY: _bindgen_ty_2 = 245000;
pub const ACL_INTERNAL: _bindgen_ty_2 = 500000;
pub const ACL_GE_FAILED: _bindgen_ty_2 = 500002;
pub const ACL_RT_INTERNAL: _bindgen_ty_2 = 507000;
pub const ACL_RT_LOST_HEARTBEAT: _bindgen_ty_2 = 507010;
pub const ACL_RT_MODEL_FAILED: _bindgen_ty_2 = 507011;
pub const ACL_RT_CORE_TIMEOUT: _bindgen_ty_2 = 507014;
pub const ACL_RT_CORE_EXCEPTION: _bindgen_ty_2 = 507015;
pub const ACL_RT_DRIVER_INTERNAL: _bindgen_ty_2 = 507899;
pub const ACL_GE_INTERNAL: _bindgen_ty_2 = 545000;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const ACL_MALLOC_HUGE_FIRST: _bindgen_ty_3 = 0;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub const ACL_COPY_HOST_TO_DEVICE: _bindgen_ty_4 = 1;
pub const ACL_COPY_DEVICE_TO_HOST: _bindgen_ty_4 = 2;
pub const ACL_COPY_DEVICE_TO_DEVICE: _bindgen_ty_4 = 3;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub const ACL_MEMORY_DDR: _bindgen_ty_5 = 0;
pub const ACL_MEMORY_HBM: _bindgen_ty_5 = 1;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub const ACL_TYPE_F32: _bindgen_ty_6 = 0;
pub const ACL_TYPE_F16: _bindgen_ty_6 = 1;
pub const ACL_TYPE_I8: _bindgen_ty_6 = 2;
pub const ACL_TYPE_I32: _bindgen_ty_6 = 3;
pub const ACL_TYPE_U8: _bindgen_ty_6 = 4;
pub const ACL_TYPE_BF16: _bindgen_ty_6 = 27;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclmdlIODims {
    pub name: [::core::ffi::c_char; 128usize],
    pub count: usize,
    pub extents: [i64; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aclmdlIODims"][::core::mem::size_of::<aclmdlIODims>() - 1160usize];
    ["Alignment of aclmdlIODims"][::core::mem::align_of::<aclmdlIODims>() - 8usize];
    ["Offset of field: aclmdlIODims::name"][::core::mem::offset_of!(aclmdlIODims, name) - 0usize];
    ["Offset of field: aclmdlIODims::count"][::core::mem::offset_of!(aclmdlIODims, count) - 128usize];
    ["Offset of field: aclmdlIODims::extents"][::core::mem::offset_of!(aclmdlIODims, extents) - 136usize];
};
pub type aclrtContext = *mut ::core::ffi::c_void;
pub type aclrtStream = *mut ::core::ffi::c_void;
pub type aclrtEvent = *mut ::core::ffi::c_void;
#[repr(C)]
#[derive(Debug)]
pub struct aclmdlDesc {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct aclmdlDataset {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct aclDataBuffer {
    _unused: [u8; 0],
}
crate::symbols::symbols! {
    pub fn aclInit(configuration: *const ::core::ffi::c_char) -> ::core::ffi::c_int;
    pub fn aclGetRecentErrMsg() -> *const ::core::ffi::c_char;
    pub fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) -> ::core::ffi::c_int;
    pub fn aclrtGetDeviceCount(count: *mut u32) -> ::core::ffi::c_int;
    pub fn aclrtGetSocName() -> *const ::core::ffi::c_char;
    pub fn aclrtCreateContext(context: *mut aclrtContext, device: i32) -> ::core::ffi::c_int;
    pub fn aclrtDestroyContext(context: aclrtContext) -> ::core::ffi::c_int;
    pub fn aclrtSetCurrentContext(context: aclrtContext) -> ::core::ffi::c_int;
    pub fn aclrtCreateStream(stream: *mut aclrtStream) -> ::core::ffi::c_int;
    pub fn aclrtDestroyStream(stream: aclrtStream) -> ::core::ffi::c_int;
    pub fn aclrtSynchronizeStream(stream: aclrtStream) -> ::core::ffi::c_int;
    pub fn aclrtCreateEvent(event: *mut aclrtEvent) -> ::core::ffi::c_int;
    pub fn aclrtDestroyEvent(event: aclrtEvent) -> ::core::ffi::c_int;
    pub fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) -> ::core::ffi::c_int;
    pub fn aclrtEventElapsedTime(
        milliseconds: *mut f32,
        start: aclrtEvent,
        end: aclrtEvent,
    ) -> ::core::ffi::c_int;
    pub fn aclrtMalloc(
        memory: *mut *mut ::core::ffi::c_void,
        bytes: usize,
        policy: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn aclrtFree(memory: *mut ::core::ffi::c_void) -> ::core::ffi::c_int;
    pub fn aclrtMemcpy(
        to: *mut ::core::ffi::c_void,
        room: usize,
        from: *const ::core::ffi::c_void,
        bytes: usize,
        kind: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn aclrtMemcpyAsync(
        to: *mut ::core::ffi::c_void,
        room: usize,
        from: *const ::core::ffi::c_void,
        bytes: usize,
        kind: ::core::ffi::c_int,
        stream: aclrtStream,
    ) -> ::core::ffi::c_int;
    pub fn aclrtGetMemInfo(
        attribute: ::core::ffi::c_int,
        free_bytes: *mut usize,
        total_bytes: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn aclmdlQuerySizeFromMem(
        model: *const ::core::ffi::c_void,
        bytes: usize,
        work_bytes: *mut usize,
        weight_bytes: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn aclmdlLoadFromMemWithMem(
        model: *const ::core::ffi::c_void,
        bytes: usize,
        id: *mut u32,
        work: *mut ::core::ffi::c_void,
        work_bytes: usize,
        weights: *mut ::core::ffi::c_void,
        weight_bytes: usize,
    ) -> ::core::ffi::c_int;
    pub fn aclmdlUnload(id: u32) -> ::core::ffi::c_int;
    pub fn aclmdlCreateDesc() -> *mut aclmdlDesc;
    pub fn aclmdlDestroyDesc(description: *mut aclmdlDesc) -> ::core::ffi::c_int;
    pub fn aclmdlGetDesc(description: *mut aclmdlDesc, id: u32) -> ::core::ffi::c_int;
    pub fn aclmdlGetNumInputs(description: *mut aclmdlDesc) -> usize;
    pub fn aclmdlGetNumOutputs(description: *mut aclmdlDesc) -> usize;
    pub fn aclmdlGetInputSizeByIndex(description: *mut aclmdlDesc, index: usize) -> usize;
    pub fn aclmdlGetOutputSizeByIndex(description: *mut aclmdlDesc, index: usize) -> usize;
    pub fn aclmdlGetInputDims(
        description: *const aclmdlDesc,
        index: usize,
        dims: *mut aclmdlIODims,
    ) -> ::core::ffi::c_int;
    pub fn aclmdlGetOutputDims(
        description: *const aclmdlDesc,
        index: usize,
        dims: *mut aclmdlIODims,
    ) -> ::core::ffi::c_int;
    pub fn aclmdlGetInputDataType(description: *const aclmdlDesc, index: usize) -> ::core::ffi::c_int;
    pub fn aclmdlGetOutputDataType(description: *const aclmdlDesc, index: usize) -> ::core::ffi::c_int;
    pub fn aclCreateDataBuffer(memory: *mut ::core::ffi::c_void, bytes: usize) -> *mut aclDataBuffer;
    pub fn aclUpdateDataBuffer(
        buffer: *mut aclDataBuffer,
        memory: *mut ::core::ffi::c_void,
        bytes: usize,
    ) -> ::core::ffi::c_int;
    pub fn aclDestroyDataBuffer(buffer: *const aclDataBuffer) -> ::core::ffi::c_int;
    pub fn aclmdlCreateDataset() -> *mut aclmdlDataset;
    pub fn aclmdlAddDatasetBuffer(
        dataset: *mut aclmdlDataset,
        buffer: *mut aclDataBuffer,
    ) -> ::core::ffi::c_int;
    pub fn aclmdlDestroyDataset(dataset: *const aclmdlDataset) -> ::core::ffi::c_int;
    pub fn aclmdlExecuteAsync(
        id: u32,
        inputs: *const aclmdlDataset,
        outputs: *mut aclmdlDataset,
        stream: aclrtStream,
    ) -> ::core::ffi::c_int;
}
