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
pub struct Symbols {
    __library: ::libloading::Library,
    pub aclInit: Result<
        unsafe extern "C" fn(configuration: *const ::core::ffi::c_char) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclGetRecentErrMsg: Result<unsafe extern "C" fn() -> *const ::core::ffi::c_char, ::libloading::Error>,
    pub aclrtGetVersion: Result<
        unsafe extern "C" fn(major: *mut i32, minor: *mut i32, patch: *mut i32) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtGetDeviceCount:
        Result<unsafe extern "C" fn(count: *mut u32) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtGetSocName: Result<unsafe extern "C" fn() -> *const ::core::ffi::c_char, ::libloading::Error>,
    pub aclrtCreateContext: Result<
        unsafe extern "C" fn(context: *mut aclrtContext, device: i32) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtDestroyContext:
        Result<unsafe extern "C" fn(context: aclrtContext) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtSetCurrentContext:
        Result<unsafe extern "C" fn(context: aclrtContext) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtCreateStream:
        Result<unsafe extern "C" fn(stream: *mut aclrtStream) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtDestroyStream:
        Result<unsafe extern "C" fn(stream: aclrtStream) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtSynchronizeStream:
        Result<unsafe extern "C" fn(stream: aclrtStream) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtCreateEvent:
        Result<unsafe extern "C" fn(event: *mut aclrtEvent) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtDestroyEvent:
        Result<unsafe extern "C" fn(event: aclrtEvent) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclrtRecordEvent: Result<
        unsafe extern "C" fn(event: aclrtEvent, stream: aclrtStream) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtEventElapsedTime: Result<
        unsafe extern "C" fn(
            milliseconds: *mut f32,
            start: aclrtEvent,
            end: aclrtEvent,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtMalloc: Result<
        unsafe extern "C" fn(
            memory: *mut *mut ::core::ffi::c_void,
            bytes: usize,
            policy: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtFree: Result<
        unsafe extern "C" fn(memory: *mut ::core::ffi::c_void) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtMemcpy: Result<
        unsafe extern "C" fn(
            to: *mut ::core::ffi::c_void,
            room: usize,
            from: *const ::core::ffi::c_void,
            bytes: usize,
            kind: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtMemcpyAsync: Result<
        unsafe extern "C" fn(
            to: *mut ::core::ffi::c_void,
            room: usize,
            from: *const ::core::ffi::c_void,
            bytes: usize,
            kind: ::core::ffi::c_int,
            stream: aclrtStream,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclrtGetMemInfo: Result<
        unsafe extern "C" fn(
            attribute: ::core::ffi::c_int,
            free_bytes: *mut usize,
            total_bytes: *mut usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlQuerySizeFromMem: Result<
        unsafe extern "C" fn(
            model: *const ::core::ffi::c_void,
            bytes: usize,
            work_bytes: *mut usize,
            weight_bytes: *mut usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlLoadFromMemWithMem: Result<
        unsafe extern "C" fn(
            model: *const ::core::ffi::c_void,
            bytes: usize,
            id: *mut u32,
            work: *mut ::core::ffi::c_void,
            work_bytes: usize,
            weights: *mut ::core::ffi::c_void,
            weight_bytes: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlUnload: Result<unsafe extern "C" fn(id: u32) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclmdlCreateDesc: Result<unsafe extern "C" fn() -> *mut aclmdlDesc, ::libloading::Error>,
    pub aclmdlDestroyDesc:
        Result<unsafe extern "C" fn(description: *mut aclmdlDesc) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclmdlGetDesc: Result<
        unsafe extern "C" fn(description: *mut aclmdlDesc, id: u32) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlGetNumInputs:
        Result<unsafe extern "C" fn(description: *mut aclmdlDesc) -> usize, ::libloading::Error>,
    pub aclmdlGetNumOutputs:
        Result<unsafe extern "C" fn(description: *mut aclmdlDesc) -> usize, ::libloading::Error>,
    pub aclmdlGetInputSizeByIndex: Result<
        unsafe extern "C" fn(description: *mut aclmdlDesc, index: usize) -> usize,
        ::libloading::Error,
    >,
    pub aclmdlGetOutputSizeByIndex: Result<
        unsafe extern "C" fn(description: *mut aclmdlDesc, index: usize) -> usize,
        ::libloading::Error,
    >,
    pub aclmdlGetInputDims: Result<
        unsafe extern "C" fn(
            description: *const aclmdlDesc,
            index: usize,
            dims: *mut aclmdlIODims,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlGetOutputDims: Result<
        unsafe extern "C" fn(
            description: *const aclmdlDesc,
            index: usize,
            dims: *mut aclmdlIODims,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlGetInputDataType: Result<
        unsafe extern "C" fn(description: *const aclmdlDesc, index: usize) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlGetOutputDataType: Result<
        unsafe extern "C" fn(description: *const aclmdlDesc, index: usize) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclCreateDataBuffer: Result<
        unsafe extern "C" fn(memory: *mut ::core::ffi::c_void, bytes: usize) -> *mut aclDataBuffer,
        ::libloading::Error,
    >,
    pub aclUpdateDataBuffer: Result<
        unsafe extern "C" fn(
            buffer: *mut aclDataBuffer,
            memory: *mut ::core::ffi::c_void,
            bytes: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclDestroyDataBuffer:
        Result<unsafe extern "C" fn(buffer: *const aclDataBuffer) -> ::core::ffi::c_int, ::libloading::Error>,
    pub aclmdlCreateDataset: Result<unsafe extern "C" fn() -> *mut aclmdlDataset, ::libloading::Error>,
    pub aclmdlAddDatasetBuffer: Result<
        unsafe extern "C" fn(dataset: *mut aclmdlDataset, buffer: *mut aclDataBuffer) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlDestroyDataset: Result<
        unsafe extern "C" fn(dataset: *const aclmdlDataset) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub aclmdlExecuteAsync: Result<
        unsafe extern "C" fn(
            id: u32,
            inputs: *const aclmdlDataset,
            outputs: *mut aclmdlDataset,
            stream: aclrtStream,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
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
        let aclInit = unsafe { __library.get(b"aclInit\0") }.map(|sym| *sym);
        let aclGetRecentErrMsg = unsafe { __library.get(b"aclGetRecentErrMsg\0") }.map(|sym| *sym);
        let aclrtGetVersion = unsafe { __library.get(b"aclrtGetVersion\0") }.map(|sym| *sym);
        let aclrtGetDeviceCount = unsafe { __library.get(b"aclrtGetDeviceCount\0") }.map(|sym| *sym);
        let aclrtGetSocName = unsafe { __library.get(b"aclrtGetSocName\0") }.map(|sym| *sym);
        let aclrtCreateContext = unsafe { __library.get(b"aclrtCreateContext\0") }.map(|sym| *sym);
        let aclrtDestroyContext = unsafe { __library.get(b"aclrtDestroyContext\0") }.map(|sym| *sym);
        let aclrtSetCurrentContext = unsafe { __library.get(b"aclrtSetCurrentContext\0") }.map(|sym| *sym);
        let aclrtCreateStream = unsafe { __library.get(b"aclrtCreateStream\0") }.map(|sym| *sym);
        let aclrtDestroyStream = unsafe { __library.get(b"aclrtDestroyStream\0") }.map(|sym| *sym);
        let aclrtSynchronizeStream = unsafe { __library.get(b"aclrtSynchronizeStream\0") }.map(|sym| *sym);
        let aclrtCreateEvent = unsafe { __library.get(b"aclrtCreateEvent\0") }.map(|sym| *sym);
        let aclrtDestroyEvent = unsafe { __library.get(b"aclrtDestroyEvent\0") }.map(|sym| *sym);
        let aclrtRecordEvent = unsafe { __library.get(b"aclrtRecordEvent\0") }.map(|sym| *sym);
        let aclrtEventElapsedTime = unsafe { __library.get(b"aclrtEventElapsedTime\0") }.map(|sym| *sym);
        let aclrtMalloc = unsafe { __library.get(b"aclrtMalloc\0") }.map(|sym| *sym);
        let aclrtFree = unsafe { __library.get(b"aclrtFree\0") }.map(|sym| *sym);
        let aclrtMemcpy = unsafe { __library.get(b"aclrtMemcpy\0") }.map(|sym| *sym);
        let aclrtMemcpyAsync = unsafe { __library.get(b"aclrtMemcpyAsync\0") }.map(|sym| *sym);
        let aclrtGetMemInfo = unsafe { __library.get(b"aclrtGetMemInfo\0") }.map(|sym| *sym);
        let aclmdlQuerySizeFromMem = unsafe { __library.get(b"aclmdlQuerySizeFromMem\0") }.map(|sym| *sym);
        let aclmdlLoadFromMemWithMem =
            unsafe { __library.get(b"aclmdlLoadFromMemWithMem\0") }.map(|sym| *sym);
        let aclmdlUnload = unsafe { __library.get(b"aclmdlUnload\0") }.map(|sym| *sym);
        let aclmdlCreateDesc = unsafe { __library.get(b"aclmdlCreateDesc\0") }.map(|sym| *sym);
        let aclmdlDestroyDesc = unsafe { __library.get(b"aclmdlDestroyDesc\0") }.map(|sym| *sym);
        let aclmdlGetDesc = unsafe { __library.get(b"aclmdlGetDesc\0") }.map(|sym| *sym);
        let aclmdlGetNumInputs = unsafe { __library.get(b"aclmdlGetNumInputs\0") }.map(|sym| *sym);
        let aclmdlGetNumOutputs = unsafe { __library.get(b"aclmdlGetNumOutputs\0") }.map(|sym| *sym);
        let aclmdlGetInputSizeByIndex =
            unsafe { __library.get(b"aclmdlGetInputSizeByIndex\0") }.map(|sym| *sym);
        let aclmdlGetOutputSizeByIndex =
            unsafe { __library.get(b"aclmdlGetOutputSizeByIndex\0") }.map(|sym| *sym);
        let aclmdlGetInputDims = unsafe { __library.get(b"aclmdlGetInputDims\0") }.map(|sym| *sym);
        let aclmdlGetOutputDims = unsafe { __library.get(b"aclmdlGetOutputDims\0") }.map(|sym| *sym);
        let aclmdlGetInputDataType = unsafe { __library.get(b"aclmdlGetInputDataType\0") }.map(|sym| *sym);
        let aclmdlGetOutputDataType = unsafe { __library.get(b"aclmdlGetOutputDataType\0") }.map(|sym| *sym);
        let aclCreateDataBuffer = unsafe { __library.get(b"aclCreateDataBuffer\0") }.map(|sym| *sym);
        let aclUpdateDataBuffer = unsafe { __library.get(b"aclUpdateDataBuffer\0") }.map(|sym| *sym);
        let aclDestroyDataBuffer = unsafe { __library.get(b"aclDestroyDataBuffer\0") }.map(|sym| *sym);
        let aclmdlCreateDataset = unsafe { __library.get(b"aclmdlCreateDataset\0") }.map(|sym| *sym);
        let aclmdlAddDatasetBuffer = unsafe { __library.get(b"aclmdlAddDatasetBuffer\0") }.map(|sym| *sym);
        let aclmdlDestroyDataset = unsafe { __library.get(b"aclmdlDestroyDataset\0") }.map(|sym| *sym);
        let aclmdlExecuteAsync = unsafe { __library.get(b"aclmdlExecuteAsync\0") }.map(|sym| *sym);
        Ok(Symbols {
            __library,
            aclInit,
            aclGetRecentErrMsg,
            aclrtGetVersion,
            aclrtGetDeviceCount,
            aclrtGetSocName,
            aclrtCreateContext,
            aclrtDestroyContext,
            aclrtSetCurrentContext,
            aclrtCreateStream,
            aclrtDestroyStream,
            aclrtSynchronizeStream,
            aclrtCreateEvent,
            aclrtDestroyEvent,
            aclrtRecordEvent,
            aclrtEventElapsedTime,
            aclrtMalloc,
            aclrtFree,
            aclrtMemcpy,
            aclrtMemcpyAsync,
            aclrtGetMemInfo,
            aclmdlQuerySizeFromMem,
            aclmdlLoadFromMemWithMem,
            aclmdlUnload,
            aclmdlCreateDesc,
            aclmdlDestroyDesc,
            aclmdlGetDesc,
            aclmdlGetNumInputs,
            aclmdlGetNumOutputs,
            aclmdlGetInputSizeByIndex,
            aclmdlGetOutputSizeByIndex,
            aclmdlGetInputDims,
            aclmdlGetOutputDims,
            aclmdlGetInputDataType,
            aclmdlGetOutputDataType,
            aclCreateDataBuffer,
            aclUpdateDataBuffer,
            aclDestroyDataBuffer,
            aclmdlCreateDataset,
            aclmdlAddDatasetBuffer,
            aclmdlDestroyDataset,
            aclmdlExecuteAsync,
        })
    }
    pub unsafe fn aclInit(&self, configuration: *const ::core::ffi::c_char) -> ::core::ffi::c_int {
        unsafe { (self.aclInit.as_ref().expect("Expected function, got error."))(configuration) }
    }
    pub unsafe fn aclGetRecentErrMsg(&self) -> *const ::core::ffi::c_char {
        unsafe {
            (self
                .aclGetRecentErrMsg
                .as_ref()
                .expect("Expected function, got error."))()
        }
    }
    pub unsafe fn aclrtGetVersion(
        &self,
        major: *mut i32,
        minor: *mut i32,
        patch: *mut i32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtGetVersion
                .as_ref()
                .expect("Expected function, got error."))(major, minor, patch)
        }
    }
    pub unsafe fn aclrtGetDeviceCount(&self, count: *mut u32) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtGetDeviceCount
                .as_ref()
                .expect("Expected function, got error."))(count)
        }
    }
    pub unsafe fn aclrtGetSocName(&self) -> *const ::core::ffi::c_char {
        unsafe {
            (self
                .aclrtGetSocName
                .as_ref()
                .expect("Expected function, got error."))()
        }
    }
    pub unsafe fn aclrtCreateContext(&self, context: *mut aclrtContext, device: i32) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtCreateContext
                .as_ref()
                .expect("Expected function, got error."))(context, device)
        }
    }
    pub unsafe fn aclrtDestroyContext(&self, context: aclrtContext) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtDestroyContext
                .as_ref()
                .expect("Expected function, got error."))(context)
        }
    }
    pub unsafe fn aclrtSetCurrentContext(&self, context: aclrtContext) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtSetCurrentContext
                .as_ref()
                .expect("Expected function, got error."))(context)
        }
    }
    pub unsafe fn aclrtCreateStream(&self, stream: *mut aclrtStream) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtCreateStream
                .as_ref()
                .expect("Expected function, got error."))(stream)
        }
    }
    pub unsafe fn aclrtDestroyStream(&self, stream: aclrtStream) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtDestroyStream
                .as_ref()
                .expect("Expected function, got error."))(stream)
        }
    }
    pub unsafe fn aclrtSynchronizeStream(&self, stream: aclrtStream) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtSynchronizeStream
                .as_ref()
                .expect("Expected function, got error."))(stream)
        }
    }
    pub unsafe fn aclrtCreateEvent(&self, event: *mut aclrtEvent) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtCreateEvent
                .as_ref()
                .expect("Expected function, got error."))(event)
        }
    }
    pub unsafe fn aclrtDestroyEvent(&self, event: aclrtEvent) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtDestroyEvent
                .as_ref()
                .expect("Expected function, got error."))(event)
        }
    }
    pub unsafe fn aclrtRecordEvent(&self, event: aclrtEvent, stream: aclrtStream) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtRecordEvent
                .as_ref()
                .expect("Expected function, got error."))(event, stream)
        }
    }
    pub unsafe fn aclrtEventElapsedTime(
        &self,
        milliseconds: *mut f32,
        start: aclrtEvent,
        end: aclrtEvent,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtEventElapsedTime
                .as_ref()
                .expect("Expected function, got error."))(milliseconds, start, end)
        }
    }
    pub unsafe fn aclrtMalloc(
        &self,
        memory: *mut *mut ::core::ffi::c_void,
        bytes: usize,
        policy: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.aclrtMalloc.as_ref().expect("Expected function, got error."))(memory, bytes, policy) }
    }
    pub unsafe fn aclrtFree(&self, memory: *mut ::core::ffi::c_void) -> ::core::ffi::c_int {
        unsafe { (self.aclrtFree.as_ref().expect("Expected function, got error."))(memory) }
    }
    pub unsafe fn aclrtMemcpy(
        &self,
        to: *mut ::core::ffi::c_void,
        room: usize,
        from: *const ::core::ffi::c_void,
        bytes: usize,
        kind: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.aclrtMemcpy.as_ref().expect("Expected function, got error."))(to, room, from, bytes, kind)
        }
    }
    pub unsafe fn aclrtMemcpyAsync(
        &self,
        to: *mut ::core::ffi::c_void,
        room: usize,
        from: *const ::core::ffi::c_void,
        bytes: usize,
        kind: ::core::ffi::c_int,
        stream: aclrtStream,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtMemcpyAsync
                .as_ref()
                .expect("Expected function, got error."))(to, room, from, bytes, kind, stream)
        }
    }
    pub unsafe fn aclrtGetMemInfo(
        &self,
        attribute: ::core::ffi::c_int,
        free_bytes: *mut usize,
        total_bytes: *mut usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclrtGetMemInfo
                .as_ref()
                .expect("Expected function, got error."))(attribute, free_bytes, total_bytes)
        }
    }
    pub unsafe fn aclmdlQuerySizeFromMem(
        &self,
        model: *const ::core::ffi::c_void,
        bytes: usize,
        work_bytes: *mut usize,
        weight_bytes: *mut usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlQuerySizeFromMem
                .as_ref()
                .expect("Expected function, got error."))(model, bytes, work_bytes, weight_bytes)
        }
    }
    pub unsafe fn aclmdlLoadFromMemWithMem(
        &self,
        model: *const ::core::ffi::c_void,
        bytes: usize,
        id: *mut u32,
        work: *mut ::core::ffi::c_void,
        work_bytes: usize,
        weights: *mut ::core::ffi::c_void,
        weight_bytes: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlLoadFromMemWithMem
                .as_ref()
                .expect("Expected function, got error."))(
                model,
                bytes,
                id,
                work,
                work_bytes,
                weights,
                weight_bytes,
            )
        }
    }
    pub unsafe fn aclmdlUnload(&self, id: u32) -> ::core::ffi::c_int {
        unsafe { (self.aclmdlUnload.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn aclmdlCreateDesc(&self) -> *mut aclmdlDesc {
        unsafe {
            (self
                .aclmdlCreateDesc
                .as_ref()
                .expect("Expected function, got error."))()
        }
    }
    pub unsafe fn aclmdlDestroyDesc(&self, description: *mut aclmdlDesc) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlDestroyDesc
                .as_ref()
                .expect("Expected function, got error."))(description)
        }
    }
    pub unsafe fn aclmdlGetDesc(&self, description: *mut aclmdlDesc, id: u32) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlGetDesc
                .as_ref()
                .expect("Expected function, got error."))(description, id)
        }
    }
    pub unsafe fn aclmdlGetNumInputs(&self, description: *mut aclmdlDesc) -> usize {
        unsafe {
            (self
                .aclmdlGetNumInputs
                .as_ref()
                .expect("Expected function, got error."))(description)
        }
    }
    pub unsafe fn aclmdlGetNumOutputs(&self, description: *mut aclmdlDesc) -> usize {
        unsafe {
            (self
                .aclmdlGetNumOutputs
                .as_ref()
                .expect("Expected function, got error."))(description)
        }
    }
    pub unsafe fn aclmdlGetInputSizeByIndex(&self, description: *mut aclmdlDesc, index: usize) -> usize {
        unsafe {
            (self
                .aclmdlGetInputSizeByIndex
                .as_ref()
                .expect("Expected function, got error."))(description, index)
        }
    }
    pub unsafe fn aclmdlGetOutputSizeByIndex(&self, description: *mut aclmdlDesc, index: usize) -> usize {
        unsafe {
            (self
                .aclmdlGetOutputSizeByIndex
                .as_ref()
                .expect("Expected function, got error."))(description, index)
        }
    }
    pub unsafe fn aclmdlGetInputDims(
        &self,
        description: *const aclmdlDesc,
        index: usize,
        dims: *mut aclmdlIODims,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlGetInputDims
                .as_ref()
                .expect("Expected function, got error."))(description, index, dims)
        }
    }
    pub unsafe fn aclmdlGetOutputDims(
        &self,
        description: *const aclmdlDesc,
        index: usize,
        dims: *mut aclmdlIODims,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlGetOutputDims
                .as_ref()
                .expect("Expected function, got error."))(description, index, dims)
        }
    }
    pub unsafe fn aclmdlGetInputDataType(
        &self,
        description: *const aclmdlDesc,
        index: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlGetInputDataType
                .as_ref()
                .expect("Expected function, got error."))(description, index)
        }
    }
    pub unsafe fn aclmdlGetOutputDataType(
        &self,
        description: *const aclmdlDesc,
        index: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlGetOutputDataType
                .as_ref()
                .expect("Expected function, got error."))(description, index)
        }
    }
    pub unsafe fn aclCreateDataBuffer(
        &self,
        memory: *mut ::core::ffi::c_void,
        bytes: usize,
    ) -> *mut aclDataBuffer {
        unsafe {
            (self
                .aclCreateDataBuffer
                .as_ref()
                .expect("Expected function, got error."))(memory, bytes)
        }
    }
    pub unsafe fn aclUpdateDataBuffer(
        &self,
        buffer: *mut aclDataBuffer,
        memory: *mut ::core::ffi::c_void,
        bytes: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclUpdateDataBuffer
                .as_ref()
                .expect("Expected function, got error."))(buffer, memory, bytes)
        }
    }
    pub unsafe fn aclDestroyDataBuffer(&self, buffer: *const aclDataBuffer) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclDestroyDataBuffer
                .as_ref()
                .expect("Expected function, got error."))(buffer)
        }
    }
    pub unsafe fn aclmdlCreateDataset(&self) -> *mut aclmdlDataset {
        unsafe {
            (self
                .aclmdlCreateDataset
                .as_ref()
                .expect("Expected function, got error."))()
        }
    }
    pub unsafe fn aclmdlAddDatasetBuffer(
        &self,
        dataset: *mut aclmdlDataset,
        buffer: *mut aclDataBuffer,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlAddDatasetBuffer
                .as_ref()
                .expect("Expected function, got error."))(dataset, buffer)
        }
    }
    pub unsafe fn aclmdlDestroyDataset(&self, dataset: *const aclmdlDataset) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlDestroyDataset
                .as_ref()
                .expect("Expected function, got error."))(dataset)
        }
    }
    pub unsafe fn aclmdlExecuteAsync(
        &self,
        id: u32,
        inputs: *const aclmdlDataset,
        outputs: *mut aclmdlDataset,
        stream: aclrtStream,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .aclmdlExecuteAsync
                .as_ref()
                .expect("Expected function, got error."))(id, inputs, outputs, stream)
        }
    }
}
