//! Declarations of ONNX Runtime's interface for providers: made by `cargo xtask bindgen` from `sys/headers/onnxruntime.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

pub const ORT_VERSION: _bindgen_ty_1 = 23;
pub const ORT_VERSION_SHAPES: _bindgen_ty_1 = 24;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const ORT_FAIL: _bindgen_ty_2 = 1;
pub const ORT_INVALID_ARGUMENT: _bindgen_ty_2 = 2;
pub const ORT_NOT_IMPLEMENTED: _bindgen_ty_2 = 9;
pub const ORT_INVALID_GRAPH: _bindgen_ty_2 = 10;
pub const ORT_EP_FAIL: _bindgen_ty_2 = 11;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const ORT_LOG_VERBOSE: _bindgen_ty_3 = 0;
pub const ORT_LOG_INFO: _bindgen_ty_3 = 1;
pub const ORT_LOG_WARNING: _bindgen_ty_3 = 2;
pub const ORT_LOG_ERROR: _bindgen_ty_3 = 3;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub const ORT_KIND_UNKNOWN: _bindgen_ty_4 = 0;
pub const ORT_KIND_TENSOR: _bindgen_ty_4 = 1;
pub const ORT_KIND_SEQUENCE: _bindgen_ty_4 = 2;
pub const ORT_KIND_MAP: _bindgen_ty_4 = 3;
pub const ORT_KIND_OPAQUE: _bindgen_ty_4 = 4;
pub const ORT_KIND_SPARSE: _bindgen_ty_4 = 5;
pub const ORT_KIND_OPTIONAL: _bindgen_ty_4 = 6;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub const ORT_ATTRIBUTE_UNDEFINED: _bindgen_ty_5 = 0;
pub const ORT_ATTRIBUTE_INT: _bindgen_ty_5 = 1;
pub const ORT_ATTRIBUTE_INTS: _bindgen_ty_5 = 2;
pub const ORT_ATTRIBUTE_FLOAT: _bindgen_ty_5 = 3;
pub const ORT_ATTRIBUTE_FLOATS: _bindgen_ty_5 = 4;
pub const ORT_ATTRIBUTE_STRING: _bindgen_ty_5 = 5;
pub const ORT_ATTRIBUTE_STRINGS: _bindgen_ty_5 = 6;
pub const ORT_ATTRIBUTE_GRAPH: _bindgen_ty_5 = 7;
pub const ORT_ATTRIBUTE_TENSOR: _bindgen_ty_5 = 8;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub const ORT_HARDWARE_CPU: _bindgen_ty_6 = 0;
pub const ORT_HARDWARE_GPU: _bindgen_ty_6 = 1;
pub const ORT_HARDWARE_NPU: _bindgen_ty_6 = 2;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
pub const ORT_COMPILED_NOT_OURS: _bindgen_ty_7 = 0;
pub const ORT_COMPILED_BEST: _bindgen_ty_7 = 1;
pub const ORT_COMPILED_OLD: _bindgen_ty_7 = 2;
pub const ORT_COMPILED_REFUSED: _bindgen_ty_7 = 3;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
pub type OrtPathChar = ::core::ffi::c_char;
#[repr(C)]
#[derive(Debug)]
pub struct OrtStatus {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtValue {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtTypeInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtTensorTypeAndShapeInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtKernelContext {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtSessionOptions {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtLogger {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtOpAttr {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtValueInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtExternalInitializerInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtKeyValuePairs {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtHardwareDevice {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtEpDevice {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtGraph {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtNode {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtEpGraphSupportInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtNodeComputeContext {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtRunOptions {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtMemoryInfo {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtMemoryDevice {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtAllocator {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtDataTransferImpl {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtSyncStreamImpl {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OrtKernelRegistry {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtApi {
    pub CreateStatus: ::core::option::Option<
        unsafe extern "C" fn(code: i32, words: *const ::core::ffi::c_char) -> *mut OrtStatus,
    >,
    pub unused_1: [*mut ::core::ffi::c_void; 1usize],
    pub GetErrorMessage:
        ::core::option::Option<unsafe extern "C" fn(status: *const OrtStatus) -> *const ::core::ffi::c_char>,
    pub unused_3: [*mut ::core::ffi::c_void; 48usize],
    pub GetTensorMutableData: ::core::option::Option<
        unsafe extern "C" fn(value: *mut OrtValue, out: *mut *mut ::core::ffi::c_void) -> *mut OrtStatus,
    >,
    pub FillStringTensor: ::core::option::Option<
        unsafe extern "C" fn(
            value: *mut OrtValue,
            strings: *const *const ::core::ffi::c_char,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub GetStringTensorDataLength: ::core::option::Option<
        unsafe extern "C" fn(value: *const OrtValue, bytes: *mut usize) -> *mut OrtStatus,
    >,
    pub GetStringTensorContent: ::core::option::Option<
        unsafe extern "C" fn(
            value: *const OrtValue,
            text: *mut ::core::ffi::c_void,
            bytes: usize,
            offsets: *mut usize,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub CastTypeInfoToTensorInfo: ::core::option::Option<
        unsafe extern "C" fn(
            type_: *const OrtTypeInfo,
            out: *mut *const OrtTensorTypeAndShapeInfo,
        ) -> *mut OrtStatus,
    >,
    pub GetOnnxTypeFromTypeInfo: ::core::option::Option<
        unsafe extern "C" fn(type_: *const OrtTypeInfo, out: *mut i32) -> *mut OrtStatus,
    >,
    pub unused_57: [*mut ::core::ffi::c_void; 3usize],
    pub GetTensorElementType: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtTensorTypeAndShapeInfo, out: *mut i32) -> *mut OrtStatus,
    >,
    pub GetDimensionsCount: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtTensorTypeAndShapeInfo, out: *mut usize) -> *mut OrtStatus,
    >,
    pub GetDimensions: ::core::option::Option<
        unsafe extern "C" fn(
            info: *const OrtTensorTypeAndShapeInfo,
            sizes: *mut i64,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub GetSymbolicDimensions: ::core::option::Option<
        unsafe extern "C" fn(
            info: *const OrtTensorTypeAndShapeInfo,
            names: *mut *const ::core::ffi::c_char,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub unused_64: [*mut ::core::ffi::c_void; 1usize],
    pub GetTensorTypeAndShape: ::core::option::Option<
        unsafe extern "C" fn(
            value: *const OrtValue,
            out: *mut *mut OrtTensorTypeAndShapeInfo,
        ) -> *mut OrtStatus,
    >,
    pub unused_66: [*mut ::core::ffi::c_void; 24usize],
    pub KernelContext_GetInput: ::core::option::Option<
        unsafe extern "C" fn(
            context: *const OrtKernelContext,
            index: usize,
            out: *mut *const OrtValue,
        ) -> *mut OrtStatus,
    >,
    pub KernelContext_GetOutput: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut OrtKernelContext,
            index: usize,
            sizes: *const i64,
            rank: usize,
            out: *mut *mut OrtValue,
        ) -> *mut OrtStatus,
    >,
    pub unused_92: [*mut ::core::ffi::c_void; 1usize],
    pub ReleaseStatus: ::core::option::Option<unsafe extern "C" fn(status: *mut OrtStatus)>,
    pub unused_94: [*mut ::core::ffi::c_void; 2usize],
    pub ReleaseValue: ::core::option::Option<unsafe extern "C" fn(value: *mut OrtValue)>,
    pub unused_97: [*mut ::core::ffi::c_void; 2usize],
    pub ReleaseTensorTypeAndShapeInfo:
        ::core::option::Option<unsafe extern "C" fn(info: *mut OrtTensorTypeAndShapeInfo)>,
    pub unused_100: [*mut ::core::ffi::c_void; 111usize],
    pub CreateOpAttr: ::core::option::Option<
        unsafe extern "C" fn(
            name: *const ::core::ffi::c_char,
            data: *const ::core::ffi::c_void,
            length: ::core::ffi::c_int,
            type_: i32,
            out: *mut *mut OrtOpAttr,
        ) -> *mut OrtStatus,
    >,
    pub ReleaseOpAttr: ::core::option::Option<unsafe extern "C" fn(attribute: *mut OrtOpAttr)>,
    pub unused_213: [*mut ::core::ffi::c_void; 34usize],
    pub Logger_LogMessage: ::core::option::Option<
        unsafe extern "C" fn(
            logger: *const OrtLogger,
            severity: i32,
            message: *const ::core::ffi::c_char,
            file: *const OrtPathChar,
            line: ::core::ffi::c_int,
            function: *const ::core::ffi::c_char,
        ) -> *mut OrtStatus,
    >,
    pub unused_248: [*mut ::core::ffi::c_void; 24usize],
    pub ReadOpAttr: ::core::option::Option<
        unsafe extern "C" fn(
            attribute: *const OrtOpAttr,
            type_: i32,
            data: *mut ::core::ffi::c_void,
            bytes: usize,
            needed: *mut usize,
        ) -> *mut OrtStatus,
    >,
    pub unused_273: [*mut ::core::ffi::c_void; 13usize],
    pub ReleaseNode: ::core::option::Option<unsafe extern "C" fn(node: *mut OrtNode)>,
    pub unused_287: [*mut ::core::ffi::c_void; 2usize],
    pub GetValueInfoName: ::core::option::Option<
        unsafe extern "C" fn(
            info: *const OrtValueInfo,
            name: *mut *const ::core::ffi::c_char,
        ) -> *mut OrtStatus,
    >,
    pub GetValueInfoTypeInfo: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtValueInfo, type_: *mut *const OrtTypeInfo) -> *mut OrtStatus,
    >,
    pub GetModelEditorApi: ::core::option::Option<unsafe extern "C" fn() -> *const OrtModelEditorApi>,
    pub unused_292: [*mut ::core::ffi::c_void; 3usize],
    pub CreateKeyValuePairs: ::core::option::Option<unsafe extern "C" fn(out: *mut *mut OrtKeyValuePairs)>,
    pub AddKeyValuePair: ::core::option::Option<
        unsafe extern "C" fn(
            pairs: *mut OrtKeyValuePairs,
            key: *const ::core::ffi::c_char,
            value: *const ::core::ffi::c_char,
        ),
    >,
    pub unused_297: [*mut ::core::ffi::c_void; 1usize],
    pub GetKeyValuePairs: ::core::option::Option<
        unsafe extern "C" fn(
            pairs: *const OrtKeyValuePairs,
            keys: *mut *const *const ::core::ffi::c_char,
            values: *mut *const *const ::core::ffi::c_char,
            count: *mut usize,
        ),
    >,
    pub unused_299: [*mut ::core::ffi::c_void; 1usize],
    pub ReleaseKeyValuePairs: ::core::option::Option<unsafe extern "C" fn(pairs: *mut OrtKeyValuePairs)>,
    pub unused_301: [*mut ::core::ffi::c_void; 6usize],
    pub HardwareDevice_Type:
        ::core::option::Option<unsafe extern "C" fn(device: *const OrtHardwareDevice) -> i32>,
    pub unused_308: [*mut ::core::ffi::c_void; 9usize],
    pub GetEpApi: ::core::option::Option<unsafe extern "C" fn() -> *const OrtEpApi>,
    pub unused_318: [*mut ::core::ffi::c_void; 8usize],
    pub ValueInfo_GetInitializerValue: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtValueInfo, value: *mut *const OrtValue) -> *mut OrtStatus,
    >,
    pub ValueInfo_GetExternalInitializerInfo: ::core::option::Option<
        unsafe extern "C" fn(
            info: *const OrtValueInfo,
            out: *mut *mut OrtExternalInitializerInfo,
        ) -> *mut OrtStatus,
    >,
    pub unused_328: [*mut ::core::ffi::c_void; 3usize],
    pub ValueInfo_IsConstantInitializer: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtValueInfo, out: *mut bool) -> *mut OrtStatus,
    >,
    pub ValueInfo_IsFromOuterScope: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtValueInfo, out: *mut bool) -> *mut OrtStatus,
    >,
    pub Graph_GetName: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, name: *mut *const ::core::ffi::c_char) -> *mut OrtStatus,
    >,
    pub Graph_GetModelPath: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, path: *mut *const OrtPathChar) -> *mut OrtStatus,
    >,
    pub unused_335: [*mut ::core::ffi::c_void; 1usize],
    pub Graph_GetNumOperatorSets: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Graph_GetOperatorSets: ::core::option::Option<
        unsafe extern "C" fn(
            graph: *const OrtGraph,
            domains: *mut *const ::core::ffi::c_char,
            versions: *mut i64,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Graph_GetNumInputs: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Graph_GetInputs: ::core::option::Option<
        unsafe extern "C" fn(
            graph: *const OrtGraph,
            inputs: *mut *const OrtValueInfo,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Graph_GetNumOutputs: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Graph_GetOutputs: ::core::option::Option<
        unsafe extern "C" fn(
            graph: *const OrtGraph,
            outputs: *mut *const OrtValueInfo,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Graph_GetNumInitializers: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Graph_GetInitializers: ::core::option::Option<
        unsafe extern "C" fn(
            graph: *const OrtGraph,
            initializers: *mut *const OrtValueInfo,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Graph_GetNumNodes: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Graph_GetNodes: ::core::option::Option<
        unsafe extern "C" fn(
            graph: *const OrtGraph,
            nodes: *mut *const OrtNode,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Graph_GetParentNode: ::core::option::Option<
        unsafe extern "C" fn(graph: *const OrtGraph, node: *mut *const OrtNode) -> *mut OrtStatus,
    >,
    pub unused_347: [*mut ::core::ffi::c_void; 2usize],
    pub Node_GetName: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, name: *mut *const ::core::ffi::c_char) -> *mut OrtStatus,
    >,
    pub Node_GetOperatorType: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, type_: *mut *const ::core::ffi::c_char) -> *mut OrtStatus,
    >,
    pub Node_GetDomain: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, domain: *mut *const ::core::ffi::c_char) -> *mut OrtStatus,
    >,
    pub unused_352: [*mut ::core::ffi::c_void; 1usize],
    pub Node_GetNumInputs: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Node_GetInputs: ::core::option::Option<
        unsafe extern "C" fn(
            node: *const OrtNode,
            inputs: *mut *const OrtValueInfo,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Node_GetNumOutputs: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Node_GetOutputs: ::core::option::Option<
        unsafe extern "C" fn(
            node: *const OrtNode,
            outputs: *mut *const OrtValueInfo,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Node_GetNumImplicitInputs: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Node_GetImplicitInputs: ::core::option::Option<
        unsafe extern "C" fn(
            node: *const OrtNode,
            inputs: *mut *const OrtValueInfo,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub Node_GetNumAttributes: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Node_GetAttributes: ::core::option::Option<
        unsafe extern "C" fn(
            node: *const OrtNode,
            attributes: *mut *const OrtOpAttr,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub unused_361: [*mut ::core::ffi::c_void; 1usize],
    pub OpAttr_GetTensorAttributeAsOrtValue: ::core::option::Option<
        unsafe extern "C" fn(attribute: *const OrtOpAttr, out: *mut *mut OrtValue) -> *mut OrtStatus,
    >,
    pub OpAttr_GetType: ::core::option::Option<
        unsafe extern "C" fn(attribute: *const OrtOpAttr, out: *mut i32) -> *mut OrtStatus,
    >,
    pub OpAttr_GetName: ::core::option::Option<
        unsafe extern "C" fn(
            attribute: *const OrtOpAttr,
            name: *mut *const ::core::ffi::c_char,
        ) -> *mut OrtStatus,
    >,
    pub Node_GetNumSubgraphs: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, count: *mut usize) -> *mut OrtStatus,
    >,
    pub Node_GetSubgraphs: ::core::option::Option<
        unsafe extern "C" fn(
            node: *const OrtNode,
            graphs: *mut *const OrtGraph,
            count: usize,
            attributes: *mut *const ::core::ffi::c_char,
        ) -> *mut OrtStatus,
    >,
    pub unused_367: [*mut ::core::ffi::c_void; 1usize],
    pub Node_GetEpName: ::core::option::Option<
        unsafe extern "C" fn(node: *const OrtNode, name: *mut *const ::core::ffi::c_char) -> *mut OrtStatus,
    >,
    pub ReleaseExternalInitializerInfo:
        ::core::option::Option<unsafe extern "C" fn(info: *mut OrtExternalInitializerInfo)>,
    pub ExternalInitializerInfo_GetFilePath: ::core::option::Option<
        unsafe extern "C" fn(info: *const OrtExternalInitializerInfo) -> *const OrtPathChar,
    >,
    pub ExternalInitializerInfo_GetFileOffset:
        ::core::option::Option<unsafe extern "C" fn(info: *const OrtExternalInitializerInfo) -> i64>,
    pub ExternalInitializerInfo_GetByteSize:
        ::core::option::Option<unsafe extern "C" fn(info: *const OrtExternalInitializerInfo) -> usize>,
    pub unused_373: [*mut ::core::ffi::c_void; 5usize],
    pub GetTensorData: ::core::option::Option<
        unsafe extern "C" fn(value: *const OrtValue, out: *mut *const ::core::ffi::c_void) -> *mut OrtStatus,
    >,
    pub GetSessionOptionsConfigEntries: ::core::option::Option<
        unsafe extern "C" fn(
            options: *const OrtSessionOptions,
            out: *mut *mut OrtKeyValuePairs,
        ) -> *mut OrtStatus,
    >,
    pub unused_380: [*mut ::core::ffi::c_void; 10usize],
    pub TensorTypeAndShape_HasShape:
        ::core::option::Option<unsafe extern "C" fn(info: *const OrtTensorTypeAndShapeInfo) -> bool>,
    pub unused_391: [*mut ::core::ffi::c_void; 23usize],
    pub GetTensorElementTypeAndShapeDataReference: ::core::option::Option<
        unsafe extern "C" fn(
            value: *const OrtValue,
            type_: *mut i32,
            sizes: *mut *const i64,
            rank: *mut usize,
        ) -> *mut OrtStatus,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtApi"][::core::mem::size_of::<OrtApi>() - 3320usize];
    ["Alignment of OrtApi"][::core::mem::align_of::<OrtApi>() - 8usize];
    ["Offset of field: OrtApi::CreateStatus"][::core::mem::offset_of!(OrtApi, CreateStatus) - 0usize];
    ["Offset of field: OrtApi::unused_1"][::core::mem::offset_of!(OrtApi, unused_1) - 8usize];
    ["Offset of field: OrtApi::GetErrorMessage"][::core::mem::offset_of!(OrtApi, GetErrorMessage) - 16usize];
    ["Offset of field: OrtApi::unused_3"][::core::mem::offset_of!(OrtApi, unused_3) - 24usize];
    ["Offset of field: OrtApi::GetTensorMutableData"]
        [::core::mem::offset_of!(OrtApi, GetTensorMutableData) - 408usize];
    ["Offset of field: OrtApi::FillStringTensor"]
        [::core::mem::offset_of!(OrtApi, FillStringTensor) - 416usize];
    ["Offset of field: OrtApi::GetStringTensorDataLength"]
        [::core::mem::offset_of!(OrtApi, GetStringTensorDataLength) - 424usize];
    ["Offset of field: OrtApi::GetStringTensorContent"]
        [::core::mem::offset_of!(OrtApi, GetStringTensorContent) - 432usize];
    ["Offset of field: OrtApi::CastTypeInfoToTensorInfo"]
        [::core::mem::offset_of!(OrtApi, CastTypeInfoToTensorInfo) - 440usize];
    ["Offset of field: OrtApi::GetOnnxTypeFromTypeInfo"]
        [::core::mem::offset_of!(OrtApi, GetOnnxTypeFromTypeInfo) - 448usize];
    ["Offset of field: OrtApi::unused_57"][::core::mem::offset_of!(OrtApi, unused_57) - 456usize];
    ["Offset of field: OrtApi::GetTensorElementType"]
        [::core::mem::offset_of!(OrtApi, GetTensorElementType) - 480usize];
    ["Offset of field: OrtApi::GetDimensionsCount"]
        [::core::mem::offset_of!(OrtApi, GetDimensionsCount) - 488usize];
    ["Offset of field: OrtApi::GetDimensions"][::core::mem::offset_of!(OrtApi, GetDimensions) - 496usize];
    ["Offset of field: OrtApi::GetSymbolicDimensions"]
        [::core::mem::offset_of!(OrtApi, GetSymbolicDimensions) - 504usize];
    ["Offset of field: OrtApi::unused_64"][::core::mem::offset_of!(OrtApi, unused_64) - 512usize];
    ["Offset of field: OrtApi::GetTensorTypeAndShape"]
        [::core::mem::offset_of!(OrtApi, GetTensorTypeAndShape) - 520usize];
    ["Offset of field: OrtApi::unused_66"][::core::mem::offset_of!(OrtApi, unused_66) - 528usize];
    ["Offset of field: OrtApi::KernelContext_GetInput"]
        [::core::mem::offset_of!(OrtApi, KernelContext_GetInput) - 720usize];
    ["Offset of field: OrtApi::KernelContext_GetOutput"]
        [::core::mem::offset_of!(OrtApi, KernelContext_GetOutput) - 728usize];
    ["Offset of field: OrtApi::unused_92"][::core::mem::offset_of!(OrtApi, unused_92) - 736usize];
    ["Offset of field: OrtApi::ReleaseStatus"][::core::mem::offset_of!(OrtApi, ReleaseStatus) - 744usize];
    ["Offset of field: OrtApi::unused_94"][::core::mem::offset_of!(OrtApi, unused_94) - 752usize];
    ["Offset of field: OrtApi::ReleaseValue"][::core::mem::offset_of!(OrtApi, ReleaseValue) - 768usize];
    ["Offset of field: OrtApi::unused_97"][::core::mem::offset_of!(OrtApi, unused_97) - 776usize];
    ["Offset of field: OrtApi::ReleaseTensorTypeAndShapeInfo"]
        [::core::mem::offset_of!(OrtApi, ReleaseTensorTypeAndShapeInfo) - 792usize];
    ["Offset of field: OrtApi::unused_100"][::core::mem::offset_of!(OrtApi, unused_100) - 800usize];
    ["Offset of field: OrtApi::CreateOpAttr"][::core::mem::offset_of!(OrtApi, CreateOpAttr) - 1688usize];
    ["Offset of field: OrtApi::ReleaseOpAttr"][::core::mem::offset_of!(OrtApi, ReleaseOpAttr) - 1696usize];
    ["Offset of field: OrtApi::unused_213"][::core::mem::offset_of!(OrtApi, unused_213) - 1704usize];
    ["Offset of field: OrtApi::Logger_LogMessage"]
        [::core::mem::offset_of!(OrtApi, Logger_LogMessage) - 1976usize];
    ["Offset of field: OrtApi::unused_248"][::core::mem::offset_of!(OrtApi, unused_248) - 1984usize];
    ["Offset of field: OrtApi::ReadOpAttr"][::core::mem::offset_of!(OrtApi, ReadOpAttr) - 2176usize];
    ["Offset of field: OrtApi::unused_273"][::core::mem::offset_of!(OrtApi, unused_273) - 2184usize];
    ["Offset of field: OrtApi::ReleaseNode"][::core::mem::offset_of!(OrtApi, ReleaseNode) - 2288usize];
    ["Offset of field: OrtApi::unused_287"][::core::mem::offset_of!(OrtApi, unused_287) - 2296usize];
    ["Offset of field: OrtApi::GetValueInfoName"]
        [::core::mem::offset_of!(OrtApi, GetValueInfoName) - 2312usize];
    ["Offset of field: OrtApi::GetValueInfoTypeInfo"]
        [::core::mem::offset_of!(OrtApi, GetValueInfoTypeInfo) - 2320usize];
    ["Offset of field: OrtApi::GetModelEditorApi"]
        [::core::mem::offset_of!(OrtApi, GetModelEditorApi) - 2328usize];
    ["Offset of field: OrtApi::unused_292"][::core::mem::offset_of!(OrtApi, unused_292) - 2336usize];
    ["Offset of field: OrtApi::CreateKeyValuePairs"]
        [::core::mem::offset_of!(OrtApi, CreateKeyValuePairs) - 2360usize];
    ["Offset of field: OrtApi::AddKeyValuePair"]
        [::core::mem::offset_of!(OrtApi, AddKeyValuePair) - 2368usize];
    ["Offset of field: OrtApi::unused_297"][::core::mem::offset_of!(OrtApi, unused_297) - 2376usize];
    ["Offset of field: OrtApi::GetKeyValuePairs"]
        [::core::mem::offset_of!(OrtApi, GetKeyValuePairs) - 2384usize];
    ["Offset of field: OrtApi::unused_299"][::core::mem::offset_of!(OrtApi, unused_299) - 2392usize];
    ["Offset of field: OrtApi::ReleaseKeyValuePairs"]
        [::core::mem::offset_of!(OrtApi, ReleaseKeyValuePairs) - 2400usize];
    ["Offset of field: OrtApi::unused_301"][::core::mem::offset_of!(OrtApi, unused_301) - 2408usize];
    ["Offset of field: OrtApi::HardwareDevice_Type"]
        [::core::mem::offset_of!(OrtApi, HardwareDevice_Type) - 2456usize];
    ["Offset of field: OrtApi::unused_308"][::core::mem::offset_of!(OrtApi, unused_308) - 2464usize];
    ["Offset of field: OrtApi::GetEpApi"][::core::mem::offset_of!(OrtApi, GetEpApi) - 2536usize];
    ["Offset of field: OrtApi::unused_318"][::core::mem::offset_of!(OrtApi, unused_318) - 2544usize];
    ["Offset of field: OrtApi::ValueInfo_GetInitializerValue"]
        [::core::mem::offset_of!(OrtApi, ValueInfo_GetInitializerValue) - 2608usize];
    ["Offset of field: OrtApi::ValueInfo_GetExternalInitializerInfo"]
        [::core::mem::offset_of!(OrtApi, ValueInfo_GetExternalInitializerInfo) - 2616usize];
    ["Offset of field: OrtApi::unused_328"][::core::mem::offset_of!(OrtApi, unused_328) - 2624usize];
    ["Offset of field: OrtApi::ValueInfo_IsConstantInitializer"]
        [::core::mem::offset_of!(OrtApi, ValueInfo_IsConstantInitializer) - 2648usize];
    ["Offset of field: OrtApi::ValueInfo_IsFromOuterScope"]
        [::core::mem::offset_of!(OrtApi, ValueInfo_IsFromOuterScope) - 2656usize];
    ["Offset of field: OrtApi::Graph_GetName"][::core::mem::offset_of!(OrtApi, Graph_GetName) - 2664usize];
    ["Offset of field: OrtApi::Graph_GetModelPath"]
        [::core::mem::offset_of!(OrtApi, Graph_GetModelPath) - 2672usize];
    ["Offset of field: OrtApi::unused_335"][::core::mem::offset_of!(OrtApi, unused_335) - 2680usize];
    ["Offset of field: OrtApi::Graph_GetNumOperatorSets"]
        [::core::mem::offset_of!(OrtApi, Graph_GetNumOperatorSets) - 2688usize];
    ["Offset of field: OrtApi::Graph_GetOperatorSets"]
        [::core::mem::offset_of!(OrtApi, Graph_GetOperatorSets) - 2696usize];
    ["Offset of field: OrtApi::Graph_GetNumInputs"]
        [::core::mem::offset_of!(OrtApi, Graph_GetNumInputs) - 2704usize];
    ["Offset of field: OrtApi::Graph_GetInputs"]
        [::core::mem::offset_of!(OrtApi, Graph_GetInputs) - 2712usize];
    ["Offset of field: OrtApi::Graph_GetNumOutputs"]
        [::core::mem::offset_of!(OrtApi, Graph_GetNumOutputs) - 2720usize];
    ["Offset of field: OrtApi::Graph_GetOutputs"]
        [::core::mem::offset_of!(OrtApi, Graph_GetOutputs) - 2728usize];
    ["Offset of field: OrtApi::Graph_GetNumInitializers"]
        [::core::mem::offset_of!(OrtApi, Graph_GetNumInitializers) - 2736usize];
    ["Offset of field: OrtApi::Graph_GetInitializers"]
        [::core::mem::offset_of!(OrtApi, Graph_GetInitializers) - 2744usize];
    ["Offset of field: OrtApi::Graph_GetNumNodes"]
        [::core::mem::offset_of!(OrtApi, Graph_GetNumNodes) - 2752usize];
    ["Offset of field: OrtApi::Graph_GetNodes"][::core::mem::offset_of!(OrtApi, Graph_GetNodes) - 2760usize];
    ["Offset of field: OrtApi::Graph_GetParentNode"]
        [::core::mem::offset_of!(OrtApi, Graph_GetParentNode) - 2768usize];
    ["Offset of field: OrtApi::unused_347"][::core::mem::offset_of!(OrtApi, unused_347) - 2776usize];
    ["Offset of field: OrtApi::Node_GetName"][::core::mem::offset_of!(OrtApi, Node_GetName) - 2792usize];
    ["Offset of field: OrtApi::Node_GetOperatorType"]
        [::core::mem::offset_of!(OrtApi, Node_GetOperatorType) - 2800usize];
    ["Offset of field: OrtApi::Node_GetDomain"][::core::mem::offset_of!(OrtApi, Node_GetDomain) - 2808usize];
    ["Offset of field: OrtApi::unused_352"][::core::mem::offset_of!(OrtApi, unused_352) - 2816usize];
    ["Offset of field: OrtApi::Node_GetNumInputs"]
        [::core::mem::offset_of!(OrtApi, Node_GetNumInputs) - 2824usize];
    ["Offset of field: OrtApi::Node_GetInputs"][::core::mem::offset_of!(OrtApi, Node_GetInputs) - 2832usize];
    ["Offset of field: OrtApi::Node_GetNumOutputs"]
        [::core::mem::offset_of!(OrtApi, Node_GetNumOutputs) - 2840usize];
    ["Offset of field: OrtApi::Node_GetOutputs"]
        [::core::mem::offset_of!(OrtApi, Node_GetOutputs) - 2848usize];
    ["Offset of field: OrtApi::Node_GetNumImplicitInputs"]
        [::core::mem::offset_of!(OrtApi, Node_GetNumImplicitInputs) - 2856usize];
    ["Offset of field: OrtApi::Node_GetImplicitInputs"]
        [::core::mem::offset_of!(OrtApi, Node_GetImplicitInputs) - 2864usize];
    ["Offset of field: OrtApi::Node_GetNumAttributes"]
        [::core::mem::offset_of!(OrtApi, Node_GetNumAttributes) - 2872usize];
    ["Offset of field: OrtApi::Node_GetAttributes"]
        [::core::mem::offset_of!(OrtApi, Node_GetAttributes) - 2880usize];
    ["Offset of field: OrtApi::unused_361"][::core::mem::offset_of!(OrtApi, unused_361) - 2888usize];
    ["Offset of field: OrtApi::OpAttr_GetTensorAttributeAsOrtValue"]
        [::core::mem::offset_of!(OrtApi, OpAttr_GetTensorAttributeAsOrtValue) - 2896usize];
    ["Offset of field: OrtApi::OpAttr_GetType"][::core::mem::offset_of!(OrtApi, OpAttr_GetType) - 2904usize];
    ["Offset of field: OrtApi::OpAttr_GetName"][::core::mem::offset_of!(OrtApi, OpAttr_GetName) - 2912usize];
    ["Offset of field: OrtApi::Node_GetNumSubgraphs"]
        [::core::mem::offset_of!(OrtApi, Node_GetNumSubgraphs) - 2920usize];
    ["Offset of field: OrtApi::Node_GetSubgraphs"]
        [::core::mem::offset_of!(OrtApi, Node_GetSubgraphs) - 2928usize];
    ["Offset of field: OrtApi::unused_367"][::core::mem::offset_of!(OrtApi, unused_367) - 2936usize];
    ["Offset of field: OrtApi::Node_GetEpName"][::core::mem::offset_of!(OrtApi, Node_GetEpName) - 2944usize];
    ["Offset of field: OrtApi::ReleaseExternalInitializerInfo"]
        [::core::mem::offset_of!(OrtApi, ReleaseExternalInitializerInfo) - 2952usize];
    ["Offset of field: OrtApi::ExternalInitializerInfo_GetFilePath"]
        [::core::mem::offset_of!(OrtApi, ExternalInitializerInfo_GetFilePath) - 2960usize];
    ["Offset of field: OrtApi::ExternalInitializerInfo_GetFileOffset"]
        [::core::mem::offset_of!(OrtApi, ExternalInitializerInfo_GetFileOffset) - 2968usize];
    ["Offset of field: OrtApi::ExternalInitializerInfo_GetByteSize"]
        [::core::mem::offset_of!(OrtApi, ExternalInitializerInfo_GetByteSize) - 2976usize];
    ["Offset of field: OrtApi::unused_373"][::core::mem::offset_of!(OrtApi, unused_373) - 2984usize];
    ["Offset of field: OrtApi::GetTensorData"][::core::mem::offset_of!(OrtApi, GetTensorData) - 3024usize];
    ["Offset of field: OrtApi::GetSessionOptionsConfigEntries"]
        [::core::mem::offset_of!(OrtApi, GetSessionOptionsConfigEntries) - 3032usize];
    ["Offset of field: OrtApi::unused_380"][::core::mem::offset_of!(OrtApi, unused_380) - 3040usize];
    ["Offset of field: OrtApi::TensorTypeAndShape_HasShape"]
        [::core::mem::offset_of!(OrtApi, TensorTypeAndShape_HasShape) - 3120usize];
    ["Offset of field: OrtApi::unused_391"][::core::mem::offset_of!(OrtApi, unused_391) - 3128usize];
    ["Offset of field: OrtApi::GetTensorElementTypeAndShapeDataReference"]
        [::core::mem::offset_of!(OrtApi, GetTensorElementTypeAndShapeDataReference) - 3312usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtApiBase {
    pub GetApi: ::core::option::Option<unsafe extern "C" fn(version: u32) -> *const OrtApi>,
    pub GetVersionString: ::core::option::Option<unsafe extern "C" fn() -> *const ::core::ffi::c_char>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtApiBase"][::core::mem::size_of::<OrtApiBase>() - 16usize];
    ["Alignment of OrtApiBase"][::core::mem::align_of::<OrtApiBase>() - 8usize];
    ["Offset of field: OrtApiBase::GetApi"][::core::mem::offset_of!(OrtApiBase, GetApi) - 0usize];
    ["Offset of field: OrtApiBase::GetVersionString"]
        [::core::mem::offset_of!(OrtApiBase, GetVersionString) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtNodeFusionOptions {
    pub ort_version_supported: u32,
    pub drop_constant_initializers: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtNodeFusionOptions"][::core::mem::size_of::<OrtNodeFusionOptions>() - 8usize];
    ["Alignment of OrtNodeFusionOptions"][::core::mem::align_of::<OrtNodeFusionOptions>() - 4usize];
    ["Offset of field: OrtNodeFusionOptions::ort_version_supported"]
        [::core::mem::offset_of!(OrtNodeFusionOptions, ort_version_supported) - 0usize];
    ["Offset of field: OrtNodeFusionOptions::drop_constant_initializers"]
        [::core::mem::offset_of!(OrtNodeFusionOptions, drop_constant_initializers) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtEpApi {
    pub CreateEpDevice: ::core::option::Option<
        unsafe extern "C" fn(
            factory: *mut OrtEpFactory,
            hardware: *const OrtHardwareDevice,
            metadata: *const OrtKeyValuePairs,
            options: *const OrtKeyValuePairs,
            out: *mut *mut OrtEpDevice,
        ) -> *mut OrtStatus,
    >,
    pub unused_1: [*mut ::core::ffi::c_void; 1usize],
    pub EpGraphSupportInfo_AddNodesToFuse: ::core::option::Option<
        unsafe extern "C" fn(
            info: *mut OrtEpGraphSupportInfo,
            nodes: *const *const OrtNode,
            count: usize,
            options: *const OrtNodeFusionOptions,
        ) -> *mut OrtStatus,
    >,
    pub unused_3: [*mut ::core::ffi::c_void; 1usize],
    pub NodeComputeContext_NodeName: ::core::option::Option<
        unsafe extern "C" fn(context: *const OrtNodeComputeContext) -> *const ::core::ffi::c_char,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtEpApi"][::core::mem::size_of::<OrtEpApi>() - 40usize];
    ["Alignment of OrtEpApi"][::core::mem::align_of::<OrtEpApi>() - 8usize];
    ["Offset of field: OrtEpApi::CreateEpDevice"][::core::mem::offset_of!(OrtEpApi, CreateEpDevice) - 0usize];
    ["Offset of field: OrtEpApi::unused_1"][::core::mem::offset_of!(OrtEpApi, unused_1) - 8usize];
    ["Offset of field: OrtEpApi::EpGraphSupportInfo_AddNodesToFuse"]
        [::core::mem::offset_of!(OrtEpApi, EpGraphSupportInfo_AddNodesToFuse) - 16usize];
    ["Offset of field: OrtEpApi::unused_3"][::core::mem::offset_of!(OrtEpApi, unused_3) - 24usize];
    ["Offset of field: OrtEpApi::NodeComputeContext_NodeName"]
        [::core::mem::offset_of!(OrtEpApi, NodeComputeContext_NodeName) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtModelEditorApi {
    pub unused_0: [*mut ::core::ffi::c_void; 6usize],
    pub CreateNode: ::core::option::Option<
        unsafe extern "C" fn(
            type_: *const ::core::ffi::c_char,
            domain: *const ::core::ffi::c_char,
            name: *const ::core::ffi::c_char,
            inputs: *const *const ::core::ffi::c_char,
            input_count: usize,
            outputs: *const *const ::core::ffi::c_char,
            output_count: usize,
            attributes: *mut *mut OrtOpAttr,
            attribute_count: usize,
            out: *mut *mut OrtNode,
        ) -> *mut OrtStatus,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtModelEditorApi"][::core::mem::size_of::<OrtModelEditorApi>() - 56usize];
    ["Alignment of OrtModelEditorApi"][::core::mem::align_of::<OrtModelEditorApi>() - 8usize];
    ["Offset of field: OrtModelEditorApi::unused_0"]
        [::core::mem::offset_of!(OrtModelEditorApi, unused_0) - 0usize];
    ["Offset of field: OrtModelEditorApi::CreateNode"]
        [::core::mem::offset_of!(OrtModelEditorApi, CreateNode) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtNodeComputeInfo {
    pub ort_version_supported: u32,
    pub CreateState: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtNodeComputeInfo,
            context: *mut OrtNodeComputeContext,
            state: *mut *mut ::core::ffi::c_void,
        ) -> *mut OrtStatus,
    >,
    pub Compute: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtNodeComputeInfo,
            state: *mut ::core::ffi::c_void,
            context: *mut OrtKernelContext,
        ) -> *mut OrtStatus,
    >,
    pub ReleaseState: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtNodeComputeInfo, state: *mut ::core::ffi::c_void),
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtNodeComputeInfo"][::core::mem::size_of::<OrtNodeComputeInfo>() - 32usize];
    ["Alignment of OrtNodeComputeInfo"][::core::mem::align_of::<OrtNodeComputeInfo>() - 8usize];
    ["Offset of field: OrtNodeComputeInfo::ort_version_supported"]
        [::core::mem::offset_of!(OrtNodeComputeInfo, ort_version_supported) - 0usize];
    ["Offset of field: OrtNodeComputeInfo::CreateState"]
        [::core::mem::offset_of!(OrtNodeComputeInfo, CreateState) - 8usize];
    ["Offset of field: OrtNodeComputeInfo::Compute"]
        [::core::mem::offset_of!(OrtNodeComputeInfo, Compute) - 16usize];
    ["Offset of field: OrtNodeComputeInfo::ReleaseState"]
        [::core::mem::offset_of!(OrtNodeComputeInfo, ReleaseState) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtEp {
    pub ort_version_supported: u32,
    pub GetName:
        ::core::option::Option<unsafe extern "C" fn(self_: *const OrtEp) -> *const ::core::ffi::c_char>,
    pub GetCapability: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            graph: *const OrtGraph,
            info: *mut OrtEpGraphSupportInfo,
        ) -> *mut OrtStatus,
    >,
    pub Compile: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            graphs: *mut *const OrtGraph,
            fused_nodes: *mut *const OrtNode,
            count: usize,
            infos: *mut *mut OrtNodeComputeInfo,
            context_nodes: *mut *mut OrtNode,
        ) -> *mut OrtStatus,
    >,
    pub ReleaseNodeComputeInfos: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtEp, infos: *mut *mut OrtNodeComputeInfo, count: usize),
    >,
    pub GetPreferredDataLayout:
        ::core::option::Option<unsafe extern "C" fn(self_: *mut OrtEp, layout: *mut i32) -> *mut OrtStatus>,
    pub ShouldConvertDataLayoutForOp: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            domain: *const ::core::ffi::c_char,
            type_: *const ::core::ffi::c_char,
            layout: i32,
            out: *mut ::core::ffi::c_int,
        ) -> *mut OrtStatus,
    >,
    pub SetDynamicOptions: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            keys: *const *const ::core::ffi::c_char,
            values: *const *const ::core::ffi::c_char,
            count: usize,
        ) -> *mut OrtStatus,
    >,
    pub OnRunStart: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtEp, options: *const OrtRunOptions) -> *mut OrtStatus,
    >,
    pub OnRunEnd: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            options: *const OrtRunOptions,
            synchronise: bool,
        ) -> *mut OrtStatus,
    >,
    pub CreateAllocator: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            memory: *const OrtMemoryInfo,
            out: *mut *mut OrtAllocator,
        ) -> *mut OrtStatus,
    >,
    pub CreateSyncStreamForDevice: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEp,
            device: *const OrtMemoryDevice,
            out: *mut *mut OrtSyncStreamImpl,
        ) -> *mut OrtStatus,
    >,
    pub GetCompiledModelCompatibilityInfo: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtEp, graph: *const OrtGraph) -> *const ::core::ffi::c_char,
    >,
    pub GetKernelRegistry: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtEp, out: *mut *const OrtKernelRegistry) -> *mut OrtStatus,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtEp"][::core::mem::size_of::<OrtEp>() - 112usize];
    ["Alignment of OrtEp"][::core::mem::align_of::<OrtEp>() - 8usize];
    ["Offset of field: OrtEp::ort_version_supported"]
        [::core::mem::offset_of!(OrtEp, ort_version_supported) - 0usize];
    ["Offset of field: OrtEp::GetName"][::core::mem::offset_of!(OrtEp, GetName) - 8usize];
    ["Offset of field: OrtEp::GetCapability"][::core::mem::offset_of!(OrtEp, GetCapability) - 16usize];
    ["Offset of field: OrtEp::Compile"][::core::mem::offset_of!(OrtEp, Compile) - 24usize];
    ["Offset of field: OrtEp::ReleaseNodeComputeInfos"]
        [::core::mem::offset_of!(OrtEp, ReleaseNodeComputeInfos) - 32usize];
    ["Offset of field: OrtEp::GetPreferredDataLayout"]
        [::core::mem::offset_of!(OrtEp, GetPreferredDataLayout) - 40usize];
    ["Offset of field: OrtEp::ShouldConvertDataLayoutForOp"]
        [::core::mem::offset_of!(OrtEp, ShouldConvertDataLayoutForOp) - 48usize];
    ["Offset of field: OrtEp::SetDynamicOptions"]
        [::core::mem::offset_of!(OrtEp, SetDynamicOptions) - 56usize];
    ["Offset of field: OrtEp::OnRunStart"][::core::mem::offset_of!(OrtEp, OnRunStart) - 64usize];
    ["Offset of field: OrtEp::OnRunEnd"][::core::mem::offset_of!(OrtEp, OnRunEnd) - 72usize];
    ["Offset of field: OrtEp::CreateAllocator"][::core::mem::offset_of!(OrtEp, CreateAllocator) - 80usize];
    ["Offset of field: OrtEp::CreateSyncStreamForDevice"]
        [::core::mem::offset_of!(OrtEp, CreateSyncStreamForDevice) - 88usize];
    ["Offset of field: OrtEp::GetCompiledModelCompatibilityInfo"]
        [::core::mem::offset_of!(OrtEp, GetCompiledModelCompatibilityInfo) - 96usize];
    ["Offset of field: OrtEp::GetKernelRegistry"]
        [::core::mem::offset_of!(OrtEp, GetKernelRegistry) - 104usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OrtEpFactory {
    pub ort_version_supported: u32,
    pub GetName: ::core::option::Option<
        unsafe extern "C" fn(self_: *const OrtEpFactory) -> *const ::core::ffi::c_char,
    >,
    pub GetVendor: ::core::option::Option<
        unsafe extern "C" fn(self_: *const OrtEpFactory) -> *const ::core::ffi::c_char,
    >,
    pub GetSupportedDevices: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEpFactory,
            hardware: *const *const OrtHardwareDevice,
            count: usize,
            devices: *mut *mut OrtEpDevice,
            most: usize,
            made: *mut usize,
        ) -> *mut OrtStatus,
    >,
    pub CreateEp: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEpFactory,
            hardware: *const *const OrtHardwareDevice,
            metadata: *const *const OrtKeyValuePairs,
            count: usize,
            options: *const OrtSessionOptions,
            logger: *const OrtLogger,
            out: *mut *mut OrtEp,
        ) -> *mut OrtStatus,
    >,
    pub ReleaseEp: ::core::option::Option<unsafe extern "C" fn(self_: *mut OrtEpFactory, ep: *mut OrtEp)>,
    pub GetVendorId: ::core::option::Option<unsafe extern "C" fn(self_: *const OrtEpFactory) -> u32>,
    pub GetVersion: ::core::option::Option<
        unsafe extern "C" fn(self_: *const OrtEpFactory) -> *const ::core::ffi::c_char,
    >,
    pub ValidateCompiledModelCompatibilityInfo: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEpFactory,
            hardware: *const *const OrtHardwareDevice,
            count: usize,
            info: *const ::core::ffi::c_char,
            out: *mut i32,
        ) -> *mut OrtStatus,
    >,
    pub CreateAllocator: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEpFactory,
            memory: *const OrtMemoryInfo,
            options: *const OrtKeyValuePairs,
            out: *mut *mut OrtAllocator,
        ) -> *mut OrtStatus,
    >,
    pub ReleaseAllocator:
        ::core::option::Option<unsafe extern "C" fn(self_: *mut OrtEpFactory, allocator: *mut OrtAllocator)>,
    pub CreateDataTransfer: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtEpFactory, out: *mut *mut OrtDataTransferImpl) -> *mut OrtStatus,
    >,
    pub IsStreamAware: ::core::option::Option<unsafe extern "C" fn(self_: *const OrtEpFactory) -> bool>,
    pub CreateSyncStreamForDevice: ::core::option::Option<
        unsafe extern "C" fn(
            self_: *mut OrtEpFactory,
            device: *const OrtMemoryDevice,
            options: *const OrtKeyValuePairs,
            out: *mut *mut OrtSyncStreamImpl,
        ) -> *mut OrtStatus,
    >,
    pub SetEnvironmentOptions: ::core::option::Option<
        unsafe extern "C" fn(self_: *mut OrtEpFactory, options: *const OrtKeyValuePairs) -> *mut OrtStatus,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OrtEpFactory"][::core::mem::size_of::<OrtEpFactory>() - 120usize];
    ["Alignment of OrtEpFactory"][::core::mem::align_of::<OrtEpFactory>() - 8usize];
    ["Offset of field: OrtEpFactory::ort_version_supported"]
        [::core::mem::offset_of!(OrtEpFactory, ort_version_supported) - 0usize];
    ["Offset of field: OrtEpFactory::GetName"][::core::mem::offset_of!(OrtEpFactory, GetName) - 8usize];
    ["Offset of field: OrtEpFactory::GetVendor"][::core::mem::offset_of!(OrtEpFactory, GetVendor) - 16usize];
    ["Offset of field: OrtEpFactory::GetSupportedDevices"]
        [::core::mem::offset_of!(OrtEpFactory, GetSupportedDevices) - 24usize];
    ["Offset of field: OrtEpFactory::CreateEp"][::core::mem::offset_of!(OrtEpFactory, CreateEp) - 32usize];
    ["Offset of field: OrtEpFactory::ReleaseEp"][::core::mem::offset_of!(OrtEpFactory, ReleaseEp) - 40usize];
    ["Offset of field: OrtEpFactory::GetVendorId"]
        [::core::mem::offset_of!(OrtEpFactory, GetVendorId) - 48usize];
    ["Offset of field: OrtEpFactory::GetVersion"]
        [::core::mem::offset_of!(OrtEpFactory, GetVersion) - 56usize];
    ["Offset of field: OrtEpFactory::ValidateCompiledModelCompatibilityInfo"]
        [::core::mem::offset_of!(OrtEpFactory, ValidateCompiledModelCompatibilityInfo) - 64usize];
    ["Offset of field: OrtEpFactory::CreateAllocator"]
        [::core::mem::offset_of!(OrtEpFactory, CreateAllocator) - 72usize];
    ["Offset of field: OrtEpFactory::ReleaseAllocator"]
        [::core::mem::offset_of!(OrtEpFactory, ReleaseAllocator) - 80usize];
    ["Offset of field: OrtEpFactory::CreateDataTransfer"]
        [::core::mem::offset_of!(OrtEpFactory, CreateDataTransfer) - 88usize];
    ["Offset of field: OrtEpFactory::IsStreamAware"]
        [::core::mem::offset_of!(OrtEpFactory, IsStreamAware) - 96usize];
    ["Offset of field: OrtEpFactory::CreateSyncStreamForDevice"]
        [::core::mem::offset_of!(OrtEpFactory, CreateSyncStreamForDevice) - 104usize];
    ["Offset of field: OrtEpFactory::SetEnvironmentOptions"]
        [::core::mem::offset_of!(OrtEpFactory, SetEnvironmentOptions) - 112usize];
};
