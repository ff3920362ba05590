//! Declarations of MediaTek's NeuronAdapter: made by `cargo xtask bindgen` from `sys/headers/neuron.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

#[repr(C)]
#[derive(Debug)]
pub struct NeuronModel {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NeuronCompilation {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NeuronExecution {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NeuronDevice {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NeuronMemory {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct AHardwareBuffer {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct NeuronOperandType {
    pub type_: i32,
    pub dimensionCount: u32,
    pub dimensions: *const u32,
    pub scale: f32,
    pub zeroPoint: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of NeuronOperandType"][::core::mem::size_of::<NeuronOperandType>() - 24usize];
    ["Alignment of NeuronOperandType"][::core::mem::align_of::<NeuronOperandType>() - 8usize];
    ["Offset of field: NeuronOperandType::type_"][::core::mem::offset_of!(NeuronOperandType, type_) - 0usize];
    ["Offset of field: NeuronOperandType::dimensionCount"]
        [::core::mem::offset_of!(NeuronOperandType, dimensionCount) - 4usize];
    ["Offset of field: NeuronOperandType::dimensions"]
        [::core::mem::offset_of!(NeuronOperandType, dimensions) - 8usize];
    ["Offset of field: NeuronOperandType::scale"]
        [::core::mem::offset_of!(NeuronOperandType, scale) - 16usize];
    ["Offset of field: NeuronOperandType::zeroPoint"]
        [::core::mem::offset_of!(NeuronOperandType, zeroPoint) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct NeuronSymmPerChannelQuantParams {
    pub channelDim: u32,
    pub scaleCount: u32,
    pub scales: *const f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of NeuronSymmPerChannelQuantParams"]
        [::core::mem::size_of::<NeuronSymmPerChannelQuantParams>() - 16usize];
    ["Alignment of NeuronSymmPerChannelQuantParams"]
        [::core::mem::align_of::<NeuronSymmPerChannelQuantParams>() - 8usize];
    ["Offset of field: NeuronSymmPerChannelQuantParams::channelDim"]
        [::core::mem::offset_of!(NeuronSymmPerChannelQuantParams, channelDim) - 0usize];
    ["Offset of field: NeuronSymmPerChannelQuantParams::scaleCount"]
        [::core::mem::offset_of!(NeuronSymmPerChannelQuantParams, scaleCount) - 4usize];
    ["Offset of field: NeuronSymmPerChannelQuantParams::scales"]
        [::core::mem::offset_of!(NeuronSymmPerChannelQuantParams, scales) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct NeuronRuntimeVersion {
    pub major: u8,
    pub minor: u8,
    pub patch: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of NeuronRuntimeVersion"][::core::mem::size_of::<NeuronRuntimeVersion>() - 3usize];
    ["Alignment of NeuronRuntimeVersion"][::core::mem::align_of::<NeuronRuntimeVersion>() - 1usize];
    ["Offset of field: NeuronRuntimeVersion::major"]
        [::core::mem::offset_of!(NeuronRuntimeVersion, major) - 0usize];
    ["Offset of field: NeuronRuntimeVersion::minor"]
        [::core::mem::offset_of!(NeuronRuntimeVersion, minor) - 1usize];
    ["Offset of field: NeuronRuntimeVersion::patch"]
        [::core::mem::offset_of!(NeuronRuntimeVersion, patch) - 2usize];
};
pub const NEURON_NO_ERROR: _bindgen_ty_1 = 0;
pub const NEURON_OUT_OF_MEMORY: _bindgen_ty_1 = 1;
pub const NEURON_INCOMPLETE: _bindgen_ty_1 = 2;
pub const NEURON_UNEXPECTED_NULL: _bindgen_ty_1 = 3;
pub const NEURON_BAD_DATA: _bindgen_ty_1 = 4;
pub const NEURON_OP_FAILED: _bindgen_ty_1 = 5;
pub const NEURON_UNMAPPABLE: _bindgen_ty_1 = 6;
pub const NEURON_BAD_STATE: _bindgen_ty_1 = 7;
pub const NEURON_BAD_VERSION: _bindgen_ty_1 = 8;
pub const NEURON_OUTPUT_INSUFFICIENT_SIZE: _bindgen_ty_1 = 9;
pub const NEURON_UNAVAILABLE_DEVICE: _bindgen_ty_1 = 10;
pub const NEURON_MISSED_DEADLINE_TRANSIENT: _bindgen_ty_1 = 11;
pub const NEURON_MISSED_DEADLINE_PERSISTENT: _bindgen_ty_1 = 12;
pub const NEURON_RESOURCE_EXHAUSTED_TRANSIENT: _bindgen_ty_1 = 13;
pub const NEURON_RESOURCE_EXHAUSTED_PERSISTENT: _bindgen_ty_1 = 14;
pub const NEURON_DEAD_OBJECT: _bindgen_ty_1 = 15;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const NEURON_FLOAT32: _bindgen_ty_2 = 0;
pub const NEURON_INT32: _bindgen_ty_2 = 1;
pub const NEURON_UINT32: _bindgen_ty_2 = 2;
pub const NEURON_TENSOR_FLOAT32: _bindgen_ty_2 = 3;
pub const NEURON_TENSOR_INT32: _bindgen_ty_2 = 4;
pub const NEURON_TENSOR_QUANT8_ASYMM: _bindgen_ty_2 = 5;
pub const NEURON_BOOL: _bindgen_ty_2 = 6;
pub const NEURON_TENSOR_QUANT16_SYMM: _bindgen_ty_2 = 7;
pub const NEURON_TENSOR_FLOAT16: _bindgen_ty_2 = 8;
pub const NEURON_TENSOR_BOOL8: _bindgen_ty_2 = 9;
pub const NEURON_FLOAT16: _bindgen_ty_2 = 10;
pub const NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL: _bindgen_ty_2 = 11;
pub const NEURON_TENSOR_QUANT16_ASYMM: _bindgen_ty_2 = 12;
pub const NEURON_TENSOR_QUANT8_SYMM: _bindgen_ty_2 = 13;
pub const NEURON_TENSOR_QUANT8_ASYMM_SIGNED: _bindgen_ty_2 = 14;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const NEURON_ADD: _bindgen_ty_3 = 0;
pub const NEURON_AVERAGE_POOL_2D: _bindgen_ty_3 = 1;
pub const NEURON_CONCATENATION: _bindgen_ty_3 = 2;
pub const NEURON_CONV_2D: _bindgen_ty_3 = 3;
pub const NEURON_DEPTHWISE_CONV_2D: _bindgen_ty_3 = 4;
pub const NEURON_DEPTH_TO_SPACE: _bindgen_ty_3 = 5;
pub const NEURON_DEQUANTIZE: _bindgen_ty_3 = 6;
pub const NEURON_FLOOR: _bindgen_ty_3 = 8;
pub const NEURON_FULLY_CONNECTED: _bindgen_ty_3 = 9;
pub const NEURON_LOGISTIC: _bindgen_ty_3 = 14;
pub const NEURON_MAX_POOL_2D: _bindgen_ty_3 = 17;
pub const NEURON_MUL: _bindgen_ty_3 = 18;
pub const NEURON_RELU: _bindgen_ty_3 = 19;
pub const NEURON_RELU1: _bindgen_ty_3 = 20;
pub const NEURON_RELU6: _bindgen_ty_3 = 21;
pub const NEURON_RESHAPE: _bindgen_ty_3 = 22;
pub const NEURON_RESIZE_BILINEAR: _bindgen_ty_3 = 23;
pub const NEURON_SOFTMAX: _bindgen_ty_3 = 25;
pub const NEURON_SPACE_TO_DEPTH: _bindgen_ty_3 = 26;
pub const NEURON_TANH: _bindgen_ty_3 = 28;
pub const NEURON_DIV: _bindgen_ty_3 = 30;
pub const NEURON_MEAN: _bindgen_ty_3 = 31;
pub const NEURON_PAD: _bindgen_ty_3 = 32;
pub const NEURON_SQUEEZE: _bindgen_ty_3 = 34;
pub const NEURON_STRIDED_SLICE: _bindgen_ty_3 = 35;
pub const NEURON_SUB: _bindgen_ty_3 = 36;
pub const NEURON_TRANSPOSE: _bindgen_ty_3 = 37;
pub const NEURON_ABS: _bindgen_ty_3 = 38;
pub const NEURON_ARGMAX: _bindgen_ty_3 = 39;
pub const NEURON_ARGMIN: _bindgen_ty_3 = 40;
pub const NEURON_CAST: _bindgen_ty_3 = 45;
pub const NEURON_EQUAL: _bindgen_ty_3 = 48;
pub const NEURON_EXP: _bindgen_ty_3 = 49;
pub const NEURON_EXPAND_DIMS: _bindgen_ty_3 = 50;
pub const NEURON_GATHER: _bindgen_ty_3 = 51;
pub const NEURON_GREATER: _bindgen_ty_3 = 53;
pub const NEURON_GREATER_EQUAL: _bindgen_ty_3 = 54;
pub const NEURON_GROUPED_CONV_2D: _bindgen_ty_3 = 55;
pub const NEURON_LESS: _bindgen_ty_3 = 58;
pub const NEURON_LESS_EQUAL: _bindgen_ty_3 = 59;
pub const NEURON_LOGICAL_AND: _bindgen_ty_3 = 61;
pub const NEURON_LOGICAL_NOT: _bindgen_ty_3 = 62;
pub const NEURON_LOGICAL_OR: _bindgen_ty_3 = 63;
pub const NEURON_MAXIMUM: _bindgen_ty_3 = 65;
pub const NEURON_MINIMUM: _bindgen_ty_3 = 66;
pub const NEURON_NEG: _bindgen_ty_3 = 67;
pub const NEURON_NOT_EQUAL: _bindgen_ty_3 = 68;
pub const NEURON_PAD_V2: _bindgen_ty_3 = 69;
pub const NEURON_POW: _bindgen_ty_3 = 70;
pub const NEURON_PRELU: _bindgen_ty_3 = 71;
pub const NEURON_QUANTIZE: _bindgen_ty_3 = 72;
pub const NEURON_REDUCE_MAX: _bindgen_ty_3 = 77;
pub const NEURON_REDUCE_MIN: _bindgen_ty_3 = 78;
pub const NEURON_REDUCE_SUM: _bindgen_ty_3 = 80;
pub const NEURON_RSQRT: _bindgen_ty_3 = 83;
pub const NEURON_SELECT: _bindgen_ty_3 = 84;
pub const NEURON_SLICE: _bindgen_ty_3 = 86;
pub const NEURON_SPLIT: _bindgen_ty_3 = 87;
pub const NEURON_SQRT: _bindgen_ty_3 = 88;
pub const NEURON_TILE: _bindgen_ty_3 = 89;
pub const NEURON_TRANSPOSE_CONV_2D: _bindgen_ty_3 = 91;
pub const NEURON_RESIZE_NEAREST_NEIGHBOR: _bindgen_ty_3 = 94;
pub const NEURON_HARD_SWISH: _bindgen_ty_3 = 99;
pub const NEURON_BATCH_MATMUL: _bindgen_ty_3 = 102;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub const NEURON_FUSED_NONE: _bindgen_ty_4 = 0;
pub const NEURON_FUSED_RELU: _bindgen_ty_4 = 1;
pub const NEURON_FUSED_RELU1: _bindgen_ty_4 = 2;
pub const NEURON_FUSED_RELU6: _bindgen_ty_4 = 3;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub const NEURON_PADDING_SAME: _bindgen_ty_5 = 1;
pub const NEURON_PADDING_VALID: _bindgen_ty_5 = 2;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub const NEURON_PREFER_LOW_POWER: _bindgen_ty_6 = 0;
pub const NEURON_PREFER_FAST_SINGLE_ANSWER: _bindgen_ty_6 = 1;
pub const NEURON_PREFER_SUSTAINED_SPEED: _bindgen_ty_6 = 2;
pub const NEURON_PREFER_TURBO_BOOST: _bindgen_ty_6 = 3;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
pub const NEURON_PRIORITY_LOW: _bindgen_ty_7 = 90;
pub const NEURON_PRIORITY_MEDIUM: _bindgen_ty_7 = 100;
pub const NEURON_PRIORITY_HIGH: _bindgen_ty_7 = 110;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
pub const NEURON_OPTIMIZATION_NORMAL: _bindgen_ty_8 = 0;
pub const NEURON_OPTIMIZATION_LOW_LATENCY: _bindgen_ty_8 = 1;
pub const NEURON_OPTIMIZATION_DEEP_FUSION: _bindgen_ty_8 = 2;
pub const NEURON_OPTIMIZATION_BATCH_PROCESSING: _bindgen_ty_8 = 4;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
pub struct Symbols {
    __library: ::libloading::Library,
    pub Neuron_getVersion: Result<
        unsafe extern "C" fn(version: *mut NeuronRuntimeVersion) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub Neuron_getDeviceCount:
        Result<unsafe extern "C" fn(numDevices: *mut u32) -> ::core::ffi::c_int, ::libloading::Error>,
    pub Neuron_getDevice: Result<
        unsafe extern "C" fn(devIndex: u32, device: *mut *mut NeuronDevice) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronDevice_getName: Result<
        unsafe extern "C" fn(
            device: *const NeuronDevice,
            name: *mut *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_create:
        Result<unsafe extern "C" fn(model: *mut *mut NeuronModel) -> ::core::ffi::c_int, ::libloading::Error>,
    pub NeuronModel_free: Result<unsafe extern "C" fn(model: *mut NeuronModel), ::libloading::Error>,
    pub NeuronModel_finish:
        Result<unsafe extern "C" fn(model: *mut NeuronModel) -> ::core::ffi::c_int, ::libloading::Error>,
    pub NeuronModel_addOperand: Result<
        unsafe extern "C" fn(model: *mut NeuronModel, type_: *const NeuronOperandType) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_setOperandValue: Result<
        unsafe extern "C" fn(
            model: *mut NeuronModel,
            index: i32,
            buffer: *const ::core::ffi::c_void,
            length: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_setOperandSymmPerChannelQuantParams: Result<
        unsafe extern "C" fn(
            model: *mut NeuronModel,
            index: i32,
            channelQuant: *const NeuronSymmPerChannelQuantParams,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_addOperation: Result<
        unsafe extern "C" fn(
            model: *mut NeuronModel,
            type_: i32,
            inputCount: u32,
            inputs: *const u32,
            outputCount: u32,
            outputs: *const u32,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_identifyInputsAndOutputs: Result<
        unsafe extern "C" fn(
            model: *mut NeuronModel,
            inputCount: u32,
            inputs: *const u32,
            outputCount: u32,
            outputs: *const u32,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_relaxComputationFloat32toFloat16: Result<
        unsafe extern "C" fn(model: *mut NeuronModel, allow: bool) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronModel_restoreFromCompiledNetwork: Result<
        unsafe extern "C" fn(
            model: *mut *mut NeuronModel,
            compilation: *mut *mut NeuronCompilation,
            buffer: *const ::core::ffi::c_void,
            size: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_create: Result<
        unsafe extern "C" fn(
            model: *mut NeuronModel,
            compilation: *mut *mut NeuronCompilation,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_createWithOptions: Result<
        unsafe extern "C" fn(
            model: *mut NeuronModel,
            compilation: *mut *mut NeuronCompilation,
            options: *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_free:
        Result<unsafe extern "C" fn(compilation: *mut NeuronCompilation), ::libloading::Error>,
    pub NeuronCompilation_finish: Result<
        unsafe extern "C" fn(compilation: *mut NeuronCompilation) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_setPreference: Result<
        unsafe extern "C" fn(compilation: *mut NeuronCompilation, preference: i32) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_setPriority: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            priority: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_setOptimizationHint: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            optimizationCode: u32,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_setOptimizationString: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            optimizationString: *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_getSupportedOperations: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            operationCount: u32,
            supported: *mut bool,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_getCompiledNetworkSize: Result<
        unsafe extern "C" fn(compilation: *mut NeuronCompilation, size: *mut usize) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_storeCompiledNetwork: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            buffer: *mut ::core::ffi::c_void,
            size: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_getInputPaddedSize: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            index: i32,
            size: *mut usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronCompilation_getOutputPaddedSize: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            index: i32,
            size: *mut usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_create: Result<
        unsafe extern "C" fn(
            compilation: *mut NeuronCompilation,
            execution: *mut *mut NeuronExecution,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_free:
        Result<unsafe extern "C" fn(execution: *mut NeuronExecution), ::libloading::Error>,
    pub NeuronExecution_setInput: Result<
        unsafe extern "C" fn(
            execution: *mut NeuronExecution,
            index: i32,
            type_: *const NeuronOperandType,
            buffer: *const ::core::ffi::c_void,
            length: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_setOutput: Result<
        unsafe extern "C" fn(
            execution: *mut NeuronExecution,
            index: i32,
            type_: *const NeuronOperandType,
            buffer: *mut ::core::ffi::c_void,
            length: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_setInputFromMemory: Result<
        unsafe extern "C" fn(
            execution: *mut NeuronExecution,
            index: u32,
            type_: *const NeuronOperandType,
            memory: *const NeuronMemory,
            offset: usize,
            length: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_setOutputFromMemory: Result<
        unsafe extern "C" fn(
            execution: *mut NeuronExecution,
            index: u32,
            type_: *const NeuronOperandType,
            memory: *const NeuronMemory,
            offset: usize,
            length: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_setBoostHint: Result<
        unsafe extern "C" fn(execution: *mut NeuronExecution, boostValue: u8) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronExecution_compute: Result<
        unsafe extern "C" fn(execution: *mut NeuronExecution) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronMemory_createFromFd: Result<
        unsafe extern "C" fn(
            size: usize,
            protect: ::core::ffi::c_int,
            fd: ::core::ffi::c_int,
            offset: usize,
            memory: *mut *mut NeuronMemory,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronMemory_createFromAHardwareBuffer: Result<
        unsafe extern "C" fn(
            ahwb: *const AHardwareBuffer,
            memory: *mut *mut NeuronMemory,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub NeuronMemory_free: Result<unsafe extern "C" fn(memory: *mut NeuronMemory), ::libloading::Error>,
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
        let Neuron_getVersion = unsafe { __library.get(b"Neuron_getVersion\0") }.map(|sym| *sym);
        let Neuron_getDeviceCount = unsafe { __library.get(b"Neuron_getDeviceCount\0") }.map(|sym| *sym);
        let Neuron_getDevice = unsafe { __library.get(b"Neuron_getDevice\0") }.map(|sym| *sym);
        let NeuronDevice_getName = unsafe { __library.get(b"NeuronDevice_getName\0") }.map(|sym| *sym);
        let NeuronModel_create = unsafe { __library.get(b"NeuronModel_create\0") }.map(|sym| *sym);
        let NeuronModel_free = unsafe { __library.get(b"NeuronModel_free\0") }.map(|sym| *sym);
        let NeuronModel_finish = unsafe { __library.get(b"NeuronModel_finish\0") }.map(|sym| *sym);
        let NeuronModel_addOperand = unsafe { __library.get(b"NeuronModel_addOperand\0") }.map(|sym| *sym);
        let NeuronModel_setOperandValue =
            unsafe { __library.get(b"NeuronModel_setOperandValue\0") }.map(|sym| *sym);
        let NeuronModel_setOperandSymmPerChannelQuantParams =
            unsafe { __library.get(b"NeuronModel_setOperandSymmPerChannelQuantParams\0") }.map(|sym| *sym);
        let NeuronModel_addOperation =
            unsafe { __library.get(b"NeuronModel_addOperation\0") }.map(|sym| *sym);
        let NeuronModel_identifyInputsAndOutputs =
            unsafe { __library.get(b"NeuronModel_identifyInputsAndOutputs\0") }.map(|sym| *sym);
        let NeuronModel_relaxComputationFloat32toFloat16 =
            unsafe { __library.get(b"NeuronModel_relaxComputationFloat32toFloat16\0") }.map(|sym| *sym);
        let NeuronModel_restoreFromCompiledNetwork =
            unsafe { __library.get(b"NeuronModel_restoreFromCompiledNetwork\0") }.map(|sym| *sym);
        let NeuronCompilation_create =
            unsafe { __library.get(b"NeuronCompilation_create\0") }.map(|sym| *sym);
        let NeuronCompilation_createWithOptions =
            unsafe { __library.get(b"NeuronCompilation_createWithOptions\0") }.map(|sym| *sym);
        let NeuronCompilation_free = unsafe { __library.get(b"NeuronCompilation_free\0") }.map(|sym| *sym);
        let NeuronCompilation_finish =
            unsafe { __library.get(b"NeuronCompilation_finish\0") }.map(|sym| *sym);
        let NeuronCompilation_setPreference =
            unsafe { __library.get(b"NeuronCompilation_setPreference\0") }.map(|sym| *sym);
        let NeuronCompilation_setPriority =
            unsafe { __library.get(b"NeuronCompilation_setPriority\0") }.map(|sym| *sym);
        let NeuronCompilation_setOptimizationHint =
            unsafe { __library.get(b"NeuronCompilation_setOptimizationHint\0") }.map(|sym| *sym);
        let NeuronCompilation_setOptimizationString =
            unsafe { __library.get(b"NeuronCompilation_setOptimizationString\0") }.map(|sym| *sym);
        let NeuronCompilation_getSupportedOperations =
            unsafe { __library.get(b"NeuronCompilation_getSupportedOperations\0") }.map(|sym| *sym);
        let NeuronCompilation_getCompiledNetworkSize =
            unsafe { __library.get(b"NeuronCompilation_getCompiledNetworkSize\0") }.map(|sym| *sym);
        let NeuronCompilation_storeCompiledNetwork =
            unsafe { __library.get(b"NeuronCompilation_storeCompiledNetwork\0") }.map(|sym| *sym);
        let NeuronCompilation_getInputPaddedSize =
            unsafe { __library.get(b"NeuronCompilation_getInputPaddedSize\0") }.map(|sym| *sym);
        let NeuronCompilation_getOutputPaddedSize =
            unsafe { __library.get(b"NeuronCompilation_getOutputPaddedSize\0") }.map(|sym| *sym);
        let NeuronExecution_create = unsafe { __library.get(b"NeuronExecution_create\0") }.map(|sym| *sym);
        let NeuronExecution_free = unsafe { __library.get(b"NeuronExecution_free\0") }.map(|sym| *sym);
        let NeuronExecution_setInput =
            unsafe { __library.get(b"NeuronExecution_setInput\0") }.map(|sym| *sym);
        let NeuronExecution_setOutput =
            unsafe { __library.get(b"NeuronExecution_setOutput\0") }.map(|sym| *sym);
        let NeuronExecution_setInputFromMemory =
            unsafe { __library.get(b"NeuronExecution_setInputFromMemory\0") }.map(|sym| *sym);
        let NeuronExecution_setOutputFromMemory =
            unsafe { __library.get(b"NeuronExecution_setOutputFromMemory\0") }.map(|sym| *sym);
        let NeuronExecution_setBoostHint =
            unsafe { __library.get(b"NeuronExecution_setBoostHint\0") }.map(|sym| *sym);
        let NeuronExecution_compute = unsafe { __library.get(b"NeuronExecution_compute\0") }.map(|sym| *sym);
        let NeuronMemory_createFromFd =
            unsafe { __library.get(b"NeuronMemory_createFromFd\0") }.map(|sym| *sym);
        let NeuronMemory_createFromAHardwareBuffer =
            unsafe { __library.get(b"NeuronMemory_createFromAHardwareBuffer\0") }.map(|sym| *sym);
        let NeuronMemory_free = unsafe { __library.get(b"NeuronMemory_free\0") }.map(|sym| *sym);
        Ok(Symbols {
            __library,
            Neuron_getVersion,
            Neuron_getDeviceCount,
            Neuron_getDevice,
            NeuronDevice_getName,
            NeuronModel_create,
            NeuronModel_free,
            NeuronModel_finish,
            NeuronModel_addOperand,
            NeuronModel_setOperandValue,
            NeuronModel_setOperandSymmPerChannelQuantParams,
            NeuronModel_addOperation,
            NeuronModel_identifyInputsAndOutputs,
            NeuronModel_relaxComputationFloat32toFloat16,
            NeuronModel_restoreFromCompiledNetwork,
            NeuronCompilation_create,
            NeuronCompilation_createWithOptions,
            NeuronCompilation_free,
            NeuronCompilation_finish,
            NeuronCompilation_setPreference,
            NeuronCompilation_setPriority,
            NeuronCompilation_setOptimizationHint,
            NeuronCompilation_setOptimizationString,
            NeuronCompilation_getSupportedOperations,
            NeuronCompilation_getCompiledNetworkSize,
            NeuronCompilation_storeCompiledNetwork,
            NeuronCompilation_getInputPaddedSize,
            NeuronCompilation_getOutputPaddedSize,
            NeuronExecution_create,
            NeuronExecution_free,
            NeuronExecution_setInput,
            NeuronExecution_setOutput,
            NeuronExecution_setInputFromMemory,
            NeuronExecution_setOutputFromMemory,
            NeuronExecution_setBoostHint,
            NeuronExecution_compute,
            NeuronMemory_createFromFd,
            NeuronMemory_createFromAHardwareBuffer,
            NeuronMemory_free,
        })
    }
    pub unsafe fn Neuron_getVersion(&self, version: *mut NeuronRuntimeVersion) -> ::core::ffi::c_int {
        unsafe {
            (self
                .Neuron_getVersion
                .as_ref()
                .expect("Expected function, got error."))(version)
        }
    }
    pub unsafe fn Neuron_getDeviceCount(&self, numDevices: *mut u32) -> ::core::ffi::c_int {
        unsafe {
            (self
                .Neuron_getDeviceCount
                .as_ref()
                .expect("Expected function, got error."))(numDevices)
        }
    }
    pub unsafe fn Neuron_getDevice(
        &self,
        devIndex: u32,
        device: *mut *mut NeuronDevice,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .Neuron_getDevice
                .as_ref()
                .expect("Expected function, got error."))(devIndex, device)
        }
    }
    pub unsafe fn NeuronDevice_getName(
        &self,
        device: *const NeuronDevice,
        name: *mut *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronDevice_getName
                .as_ref()
                .expect("Expected function, got error."))(device, name)
        }
    }
    pub unsafe fn NeuronModel_create(&self, model: *mut *mut NeuronModel) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_create
                .as_ref()
                .expect("Expected function, got error."))(model)
        }
    }
    pub unsafe fn NeuronModel_free(&self, model: *mut NeuronModel) {
        unsafe {
            (self
                .NeuronModel_free
                .as_ref()
                .expect("Expected function, got error."))(model)
        }
    }
    pub unsafe fn NeuronModel_finish(&self, model: *mut NeuronModel) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_finish
                .as_ref()
                .expect("Expected function, got error."))(model)
        }
    }
    pub unsafe fn NeuronModel_addOperand(
        &self,
        model: *mut NeuronModel,
        type_: *const NeuronOperandType,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_addOperand
                .as_ref()
                .expect("Expected function, got error."))(model, type_)
        }
    }
    pub unsafe fn NeuronModel_setOperandValue(
        &self,
        model: *mut NeuronModel,
        index: i32,
        buffer: *const ::core::ffi::c_void,
        length: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_setOperandValue
                .as_ref()
                .expect("Expected function, got error."))(model, index, buffer, length)
        }
    }
    pub unsafe fn NeuronModel_setOperandSymmPerChannelQuantParams(
        &self,
        model: *mut NeuronModel,
        index: i32,
        channelQuant: *const NeuronSymmPerChannelQuantParams,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_setOperandSymmPerChannelQuantParams
                .as_ref()
                .expect("Expected function, got error."))(model, index, channelQuant)
        }
    }
    pub unsafe fn NeuronModel_addOperation(
        &self,
        model: *mut NeuronModel,
        type_: i32,
        inputCount: u32,
        inputs: *const u32,
        outputCount: u32,
        outputs: *const u32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_addOperation
                .as_ref()
                .expect("Expected function, got error."))(
                model,
                type_,
                inputCount,
                inputs,
                outputCount,
                outputs,
            )
        }
    }
    pub unsafe fn NeuronModel_identifyInputsAndOutputs(
        &self,
        model: *mut NeuronModel,
        inputCount: u32,
        inputs: *const u32,
        outputCount: u32,
        outputs: *const u32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_identifyInputsAndOutputs
                .as_ref()
                .expect("Expected function, got error."))(
                model, inputCount, inputs, outputCount, outputs
            )
        }
    }
    pub unsafe fn NeuronModel_relaxComputationFloat32toFloat16(
        &self,
        model: *mut NeuronModel,
        allow: bool,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_relaxComputationFloat32toFloat16
                .as_ref()
                .expect("Expected function, got error."))(model, allow)
        }
    }
    pub unsafe fn NeuronModel_restoreFromCompiledNetwork(
        &self,
        model: *mut *mut NeuronModel,
        compilation: *mut *mut NeuronCompilation,
        buffer: *const ::core::ffi::c_void,
        size: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronModel_restoreFromCompiledNetwork
                .as_ref()
                .expect("Expected function, got error."))(model, compilation, buffer, size)
        }
    }
    pub unsafe fn NeuronCompilation_create(
        &self,
        model: *mut NeuronModel,
        compilation: *mut *mut NeuronCompilation,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_create
                .as_ref()
                .expect("Expected function, got error."))(model, compilation)
        }
    }
    pub unsafe fn NeuronCompilation_createWithOptions(
        &self,
        model: *mut NeuronModel,
        compilation: *mut *mut NeuronCompilation,
        options: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_createWithOptions
                .as_ref()
                .expect("Expected function, got error."))(model, compilation, options)
        }
    }
    pub unsafe fn NeuronCompilation_free(&self, compilation: *mut NeuronCompilation) {
        unsafe {
            (self
                .NeuronCompilation_free
                .as_ref()
                .expect("Expected function, got error."))(compilation)
        }
    }
    pub unsafe fn NeuronCompilation_finish(&self, compilation: *mut NeuronCompilation) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_finish
                .as_ref()
                .expect("Expected function, got error."))(compilation)
        }
    }
    pub unsafe fn NeuronCompilation_setPreference(
        &self,
        compilation: *mut NeuronCompilation,
        preference: i32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_setPreference
                .as_ref()
                .expect("Expected function, got error."))(compilation, preference)
        }
    }
    pub unsafe fn NeuronCompilation_setPriority(
        &self,
        compilation: *mut NeuronCompilation,
        priority: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_setPriority
                .as_ref()
                .expect("Expected function, got error."))(compilation, priority)
        }
    }
    pub unsafe fn NeuronCompilation_setOptimizationHint(
        &self,
        compilation: *mut NeuronCompilation,
        optimizationCode: u32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_setOptimizationHint
                .as_ref()
                .expect("Expected function, got error."))(compilation, optimizationCode)
        }
    }
    pub unsafe fn NeuronCompilation_setOptimizationString(
        &self,
        compilation: *mut NeuronCompilation,
        optimizationString: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_setOptimizationString
                .as_ref()
                .expect("Expected function, got error."))(compilation, optimizationString)
        }
    }
    pub unsafe fn NeuronCompilation_getSupportedOperations(
        &self,
        compilation: *mut NeuronCompilation,
        operationCount: u32,
        supported: *mut bool,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_getSupportedOperations
                .as_ref()
                .expect("Expected function, got error."))(compilation, operationCount, supported)
        }
    }
    pub unsafe fn NeuronCompilation_getCompiledNetworkSize(
        &self,
        compilation: *mut NeuronCompilation,
        size: *mut usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_getCompiledNetworkSize
                .as_ref()
                .expect("Expected function, got error."))(compilation, size)
        }
    }
    pub unsafe fn NeuronCompilation_storeCompiledNetwork(
        &self,
        compilation: *mut NeuronCompilation,
        buffer: *mut ::core::ffi::c_void,
        size: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_storeCompiledNetwork
                .as_ref()
                .expect("Expected function, got error."))(compilation, buffer, size)
        }
    }
    pub unsafe fn NeuronCompilation_getInputPaddedSize(
        &self,
        compilation: *mut NeuronCompilation,
        index: i32,
        size: *mut usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_getInputPaddedSize
                .as_ref()
                .expect("Expected function, got error."))(compilation, index, size)
        }
    }
    pub unsafe fn NeuronCompilation_getOutputPaddedSize(
        &self,
        compilation: *mut NeuronCompilation,
        index: i32,
        size: *mut usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronCompilation_getOutputPaddedSize
                .as_ref()
                .expect("Expected function, got error."))(compilation, index, size)
        }
    }
    pub unsafe fn NeuronExecution_create(
        &self,
        compilation: *mut NeuronCompilation,
        execution: *mut *mut NeuronExecution,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_create
                .as_ref()
                .expect("Expected function, got error."))(compilation, execution)
        }
    }
    pub unsafe fn NeuronExecution_free(&self, execution: *mut NeuronExecution) {
        unsafe {
            (self
                .NeuronExecution_free
                .as_ref()
                .expect("Expected function, got error."))(execution)
        }
    }
    pub unsafe fn NeuronExecution_setInput(
        &self,
        execution: *mut NeuronExecution,
        index: i32,
        type_: *const NeuronOperandType,
        buffer: *const ::core::ffi::c_void,
        length: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_setInput
                .as_ref()
                .expect("Expected function, got error."))(execution, index, type_, buffer, length)
        }
    }
    pub unsafe fn NeuronExecution_setOutput(
        &self,
        execution: *mut NeuronExecution,
        index: i32,
        type_: *const NeuronOperandType,
        buffer: *mut ::core::ffi::c_void,
        length: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_setOutput
                .as_ref()
                .expect("Expected function, got error."))(execution, index, type_, buffer, length)
        }
    }
    pub unsafe fn NeuronExecution_setInputFromMemory(
        &self,
        execution: *mut NeuronExecution,
        index: u32,
        type_: *const NeuronOperandType,
        memory: *const NeuronMemory,
        offset: usize,
        length: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_setInputFromMemory
                .as_ref()
                .expect("Expected function, got error."))(
                execution, index, type_, memory, offset, length
            )
        }
    }
    pub unsafe fn NeuronExecution_setOutputFromMemory(
        &self,
        execution: *mut NeuronExecution,
        index: u32,
        type_: *const NeuronOperandType,
        memory: *const NeuronMemory,
        offset: usize,
        length: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_setOutputFromMemory
                .as_ref()
                .expect("Expected function, got error."))(
                execution, index, type_, memory, offset, length
            )
        }
    }
    pub unsafe fn NeuronExecution_setBoostHint(
        &self,
        execution: *mut NeuronExecution,
        boostValue: u8,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_setBoostHint
                .as_ref()
                .expect("Expected function, got error."))(execution, boostValue)
        }
    }
    pub unsafe fn NeuronExecution_compute(&self, execution: *mut NeuronExecution) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronExecution_compute
                .as_ref()
                .expect("Expected function, got error."))(execution)
        }
    }
    pub unsafe fn NeuronMemory_createFromFd(
        &self,
        size: usize,
        protect: ::core::ffi::c_int,
        fd: ::core::ffi::c_int,
        offset: usize,
        memory: *mut *mut NeuronMemory,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronMemory_createFromFd
                .as_ref()
                .expect("Expected function, got error."))(size, protect, fd, offset, memory)
        }
    }
    pub unsafe fn NeuronMemory_createFromAHardwareBuffer(
        &self,
        ahwb: *const AHardwareBuffer,
        memory: *mut *mut NeuronMemory,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .NeuronMemory_createFromAHardwareBuffer
                .as_ref()
                .expect("Expected function, got error."))(ahwb, memory)
        }
    }
    pub unsafe fn NeuronMemory_free(&self, memory: *mut NeuronMemory) {
        unsafe {
            (self
                .NeuronMemory_free
                .as_ref()
                .expect("Expected function, got error."))(memory)
        }
    }
}
