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
crate::symbols::symbols! {
    pub fn Neuron_getVersion(version: *mut NeuronRuntimeVersion) -> ::core::ffi::c_int;
    pub fn Neuron_getDeviceCount(numDevices: *mut u32) -> ::core::ffi::c_int;
    pub fn Neuron_getDevice(devIndex: u32, device: *mut *mut NeuronDevice) -> ::core::ffi::c_int;
    pub fn NeuronDevice_getName(
        device: *const NeuronDevice,
        name: *mut *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_create(model: *mut *mut NeuronModel) -> ::core::ffi::c_int;
    pub fn NeuronModel_free(model: *mut NeuronModel);
    pub fn NeuronModel_finish(model: *mut NeuronModel) -> ::core::ffi::c_int;
    pub fn NeuronModel_addOperand(
        model: *mut NeuronModel,
        type_: *const NeuronOperandType,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_setOperandValue(
        model: *mut NeuronModel,
        index: i32,
        buffer: *const ::core::ffi::c_void,
        length: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_setOperandSymmPerChannelQuantParams(
        model: *mut NeuronModel,
        index: i32,
        channelQuant: *const NeuronSymmPerChannelQuantParams,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_addOperation(
        model: *mut NeuronModel,
        type_: i32,
        inputCount: u32,
        inputs: *const u32,
        outputCount: u32,
        outputs: *const u32,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_identifyInputsAndOutputs(
        model: *mut NeuronModel,
        inputCount: u32,
        inputs: *const u32,
        outputCount: u32,
        outputs: *const u32,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_relaxComputationFloat32toFloat16(
        model: *mut NeuronModel,
        allow: bool,
    ) -> ::core::ffi::c_int;
    pub fn NeuronModel_restoreFromCompiledNetwork(
        model: *mut *mut NeuronModel,
        compilation: *mut *mut NeuronCompilation,
        buffer: *const ::core::ffi::c_void,
        size: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_create(
        model: *mut NeuronModel,
        compilation: *mut *mut NeuronCompilation,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_createWithOptions(
        model: *mut NeuronModel,
        compilation: *mut *mut NeuronCompilation,
        options: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_free(compilation: *mut NeuronCompilation);
    pub fn NeuronCompilation_finish(compilation: *mut NeuronCompilation) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_setPreference(
        compilation: *mut NeuronCompilation,
        preference: i32,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_setPriority(
        compilation: *mut NeuronCompilation,
        priority: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_setOptimizationHint(
        compilation: *mut NeuronCompilation,
        optimizationCode: u32,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_setOptimizationString(
        compilation: *mut NeuronCompilation,
        optimizationString: *const ::core::ffi::c_char,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_getSupportedOperations(
        compilation: *mut NeuronCompilation,
        operationCount: u32,
        supported: *mut bool,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_getCompiledNetworkSize(
        compilation: *mut NeuronCompilation,
        size: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_storeCompiledNetwork(
        compilation: *mut NeuronCompilation,
        buffer: *mut ::core::ffi::c_void,
        size: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_getInputPaddedSize(
        compilation: *mut NeuronCompilation,
        index: i32,
        size: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronCompilation_getOutputPaddedSize(
        compilation: *mut NeuronCompilation,
        index: i32,
        size: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_create(
        compilation: *mut NeuronCompilation,
        execution: *mut *mut NeuronExecution,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_free(execution: *mut NeuronExecution);
    pub fn NeuronExecution_setInput(
        execution: *mut NeuronExecution,
        index: i32,
        type_: *const NeuronOperandType,
        buffer: *const ::core::ffi::c_void,
        length: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_setOutput(
        execution: *mut NeuronExecution,
        index: i32,
        type_: *const NeuronOperandType,
        buffer: *mut ::core::ffi::c_void,
        length: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_setInputFromMemory(
        execution: *mut NeuronExecution,
        index: u32,
        type_: *const NeuronOperandType,
        memory: *const NeuronMemory,
        offset: usize,
        length: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_setOutputFromMemory(
        execution: *mut NeuronExecution,
        index: u32,
        type_: *const NeuronOperandType,
        memory: *const NeuronMemory,
        offset: usize,
        length: usize,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_setBoostHint(
        execution: *mut NeuronExecution,
        boostValue: u8,
    ) -> ::core::ffi::c_int;
    pub fn NeuronExecution_compute(execution: *mut NeuronExecution) -> ::core::ffi::c_int;
    pub fn NeuronMemory_createFromFd(
        size: usize,
        protect: ::core::ffi::c_int,
        fd: ::core::ffi::c_int,
        offset: usize,
        memory: *mut *mut NeuronMemory,
    ) -> ::core::ffi::c_int;
    pub fn NeuronMemory_createFromAHardwareBuffer(
        ahwb: *const AHardwareBuffer,
        memory: *mut *mut NeuronMemory,
    ) -> ::core::ffi::c_int;
    pub fn NeuronMemory_free(memory: *mut NeuronMemory);
}
