//! Declarations of OpenHarmony's Neural Network Runtime: made by `cargo xtask bindgen` from `sys/headers/nnrt.h`, never edited.
//!
//! Sizes and offsets are checked at compile time against those that the C compiler gave.

#[repr(C)]
#[derive(Debug)]
pub struct OH_NNModel {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OH_NNCompilation {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct OH_NNExecutor {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NN_TensorDesc {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NN_Tensor {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct NN_QuantParam {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct OH_NN_UInt32Array {
    pub data: *mut u32,
    pub size: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of OH_NN_UInt32Array"][::core::mem::size_of::<OH_NN_UInt32Array>() - 16usize];
    ["Alignment of OH_NN_UInt32Array"][::core::mem::align_of::<OH_NN_UInt32Array>() - 8usize];
    ["Offset of field: OH_NN_UInt32Array::data"][::core::mem::offset_of!(OH_NN_UInt32Array, data) - 0usize];
    ["Offset of field: OH_NN_UInt32Array::size"][::core::mem::offset_of!(OH_NN_UInt32Array, size) - 8usize];
};
pub const OH_NN_SUCCESS: _bindgen_ty_1 = 0;
pub const OH_NN_FAILED: _bindgen_ty_1 = 1;
pub const OH_NN_INVALID_PARAMETER: _bindgen_ty_1 = 2;
pub const OH_NN_MEMORY_ERROR: _bindgen_ty_1 = 3;
pub const OH_NN_OPERATION_FORBIDDEN: _bindgen_ty_1 = 4;
pub const OH_NN_NULL_PTR: _bindgen_ty_1 = 5;
pub const OH_NN_INVALID_FILE: _bindgen_ty_1 = 6;
pub const OH_NN_INVALID_PATH: _bindgen_ty_1 = 8;
pub const OH_NN_TIMEOUT: _bindgen_ty_1 = 9;
pub const OH_NN_UNSUPPORTED: _bindgen_ty_1 = 10;
pub const OH_NN_CONNECTION_EXCEPTION: _bindgen_ty_1 = 11;
pub const OH_NN_SAVE_CACHE_EXCEPTION: _bindgen_ty_1 = 12;
pub const OH_NN_DYNAMIC_SHAPE: _bindgen_ty_1 = 13;
pub const OH_NN_UNAVAILABLE_DEVICE: _bindgen_ty_1 = 14;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const OH_NN_OTHERS: _bindgen_ty_2 = 0;
pub const OH_NN_CPU: _bindgen_ty_2 = 1;
pub const OH_NN_GPU: _bindgen_ty_2 = 2;
pub const OH_NN_ACCELERATOR: _bindgen_ty_2 = 3;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const OH_NN_FUSED_NONE: _bindgen_ty_3 = 0;
pub const OH_NN_FUSED_RELU: _bindgen_ty_3 = 1;
pub const OH_NN_FUSED_RELU6: _bindgen_ty_3 = 2;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub const OH_NN_FORMAT_NONE: _bindgen_ty_4 = 0;
pub const OH_NN_FORMAT_NCHW: _bindgen_ty_4 = 1;
pub const OH_NN_FORMAT_NHWC: _bindgen_ty_4 = 2;
pub const OH_NN_FORMAT_ND: _bindgen_ty_4 = 3;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub const OH_NN_UNKNOWN: _bindgen_ty_5 = 0;
pub const OH_NN_BOOL: _bindgen_ty_5 = 1;
pub const OH_NN_INT8: _bindgen_ty_5 = 2;
pub const OH_NN_INT16: _bindgen_ty_5 = 3;
pub const OH_NN_INT32: _bindgen_ty_5 = 4;
pub const OH_NN_INT64: _bindgen_ty_5 = 5;
pub const OH_NN_UINT8: _bindgen_ty_5 = 6;
pub const OH_NN_UINT16: _bindgen_ty_5 = 7;
pub const OH_NN_UINT32: _bindgen_ty_5 = 8;
pub const OH_NN_UINT64: _bindgen_ty_5 = 9;
pub const OH_NN_FLOAT16: _bindgen_ty_5 = 10;
pub const OH_NN_FLOAT32: _bindgen_ty_5 = 11;
pub const OH_NN_FLOAT64: _bindgen_ty_5 = 12;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub const OH_NN_OPS_ADD: _bindgen_ty_6 = 1;
pub const OH_NN_OPS_AVG_POOL: _bindgen_ty_6 = 2;
pub const OH_NN_OPS_BATCH_NORM: _bindgen_ty_6 = 3;
pub const OH_NN_OPS_CAST: _bindgen_ty_6 = 6;
pub const OH_NN_OPS_CONCAT: _bindgen_ty_6 = 7;
pub const OH_NN_OPS_CONV2D: _bindgen_ty_6 = 8;
pub const OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE: _bindgen_ty_6 = 10;
pub const OH_NN_OPS_DIV: _bindgen_ty_6 = 11;
pub const OH_NN_OPS_FULL_CONNECTION: _bindgen_ty_6 = 15;
pub const OH_NN_OPS_GATHER: _bindgen_ty_6 = 16;
pub const OH_NN_OPS_HSWISH: _bindgen_ty_6 = 17;
pub const OH_NN_OPS_LESS_EQUAL: _bindgen_ty_6 = 18;
pub const OH_NN_OPS_MATMUL: _bindgen_ty_6 = 19;
pub const OH_NN_OPS_MAXIMUM: _bindgen_ty_6 = 20;
pub const OH_NN_OPS_MAX_POOL: _bindgen_ty_6 = 21;
pub const OH_NN_OPS_MUL: _bindgen_ty_6 = 22;
pub const OH_NN_OPS_PAD: _bindgen_ty_6 = 24;
pub const OH_NN_OPS_POW: _bindgen_ty_6 = 25;
pub const OH_NN_OPS_SIGMOID: _bindgen_ty_6 = 28;
pub const OH_NN_OPS_SLICE: _bindgen_ty_6 = 29;
pub const OH_NN_OPS_SOFTMAX: _bindgen_ty_6 = 30;
pub const OH_NN_OPS_SPLIT: _bindgen_ty_6 = 32;
pub const OH_NN_OPS_SQRT: _bindgen_ty_6 = 33;
pub const OH_NN_OPS_STRIDED_SLICE: _bindgen_ty_6 = 37;
pub const OH_NN_OPS_SUB: _bindgen_ty_6 = 38;
pub const OH_NN_OPS_TANH: _bindgen_ty_6 = 39;
pub const OH_NN_OPS_TILE: _bindgen_ty_6 = 40;
pub const OH_NN_OPS_TRANSPOSE: _bindgen_ty_6 = 41;
pub const OH_NN_OPS_REDUCE_MEAN: _bindgen_ty_6 = 42;
pub const OH_NN_OPS_RESIZE_BILINEAR: _bindgen_ty_6 = 43;
pub const OH_NN_OPS_RESHAPE: _bindgen_ty_6 = 45;
pub const OH_NN_OPS_PRELU: _bindgen_ty_6 = 46;
pub const OH_NN_OPS_RELU: _bindgen_ty_6 = 47;
pub const OH_NN_OPS_RELU6: _bindgen_ty_6 = 48;
pub const OH_NN_OPS_LAYER_NORM: _bindgen_ty_6 = 49;
pub const OH_NN_OPS_REDUCE_PROD: _bindgen_ty_6 = 50;
pub const OH_NN_OPS_QUANT_DTYPE_CAST: _bindgen_ty_6 = 52;
pub const OH_NN_OPS_ABS: _bindgen_ty_6 = 58;
pub const OH_NN_OPS_ERF: _bindgen_ty_6 = 59;
pub const OH_NN_OPS_EXP: _bindgen_ty_6 = 60;
pub const OH_NN_OPS_LESS: _bindgen_ty_6 = 61;
pub const OH_NN_OPS_SELECT: _bindgen_ty_6 = 62;
pub const OH_NN_OPS_DEPTH_TO_SPACE: _bindgen_ty_6 = 65;
pub const OH_NN_OPS_EQUAL: _bindgen_ty_6 = 70;
pub const OH_NN_OPS_GREATER: _bindgen_ty_6 = 71;
pub const OH_NN_OPS_GREATER_EQUAL: _bindgen_ty_6 = 73;
pub const OH_NN_OPS_LEAKY_RELU: _bindgen_ty_6 = 74;
pub const OH_NN_OPS_CLIP: _bindgen_ty_6 = 76;
pub const OH_NN_OPS_COS: _bindgen_ty_6 = 79;
pub const OH_NN_OPS_LOG: _bindgen_ty_6 = 80;
pub const OH_NN_OPS_LOGICAL_AND: _bindgen_ty_6 = 81;
pub const OH_NN_OPS_LOGICAL_NOT: _bindgen_ty_6 = 82;
pub const OH_NN_OPS_NEG: _bindgen_ty_6 = 84;
pub const OH_NN_OPS_RECIPROCAL: _bindgen_ty_6 = 85;
pub const OH_NN_OPS_SIN: _bindgen_ty_6 = 86;
pub const OH_NN_OPS_LOGICAL_OR: _bindgen_ty_6 = 89;
pub const OH_NN_OPS_CEIL: _bindgen_ty_6 = 90;
pub const OH_NN_OPS_FLOOR: _bindgen_ty_6 = 93;
pub const OH_NN_OPS_LOG_SOFTMAX: _bindgen_ty_6 = 95;
pub const OH_NN_OPS_MINIMUM: _bindgen_ty_6 = 97;
pub const OH_NN_OPS_REDUCE_MAX: _bindgen_ty_6 = 99;
pub const OH_NN_OPS_REDUCE_MIN: _bindgen_ty_6 = 100;
pub const OH_NN_OPS_REDUCE_SUM: _bindgen_ty_6 = 101;
pub const OH_NN_OPS_SPACE_TO_DEPTH: _bindgen_ty_6 = 104;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
pub const NN_MINDSPORE_INT8: _bindgen_ty_7 = 32;
pub const NN_MINDSPORE_UINT8: _bindgen_ty_7 = 37;
pub const NN_MINDSPORE_FLOAT16: _bindgen_ty_7 = 42;
pub const NN_MINDSPORE_FLOAT32: _bindgen_ty_7 = 43;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
pub const OH_NN_TENSOR: _bindgen_ty_8 = 0;
pub const OH_NN_ADD_ACTIVATIONTYPE: _bindgen_ty_8 = 1;
pub const OH_NN_AVG_POOL_KERNEL_SIZE: _bindgen_ty_8 = 2;
pub const OH_NN_AVG_POOL_STRIDE: _bindgen_ty_8 = 3;
pub const OH_NN_AVG_POOL_PAD: _bindgen_ty_8 = 5;
pub const OH_NN_AVG_POOL_ACTIVATION_TYPE: _bindgen_ty_8 = 6;
pub const OH_NN_BATCH_NORM_EPSILON: _bindgen_ty_8 = 7;
pub const OH_NN_CONCAT_AXIS: _bindgen_ty_8 = 10;
pub const OH_NN_CONV2D_STRIDES: _bindgen_ty_8 = 11;
pub const OH_NN_CONV2D_PAD: _bindgen_ty_8 = 12;
pub const OH_NN_CONV2D_DILATION: _bindgen_ty_8 = 13;
pub const OH_NN_CONV2D_ACTIVATION_TYPE: _bindgen_ty_8 = 15;
pub const OH_NN_CONV2D_GROUP: _bindgen_ty_8 = 16;
pub const OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES: _bindgen_ty_8 = 24;
pub const OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD: _bindgen_ty_8 = 25;
pub const OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION: _bindgen_ty_8 = 26;
pub const OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE: _bindgen_ty_8 = 28;
pub const OH_NN_DIV_ACTIVATIONTYPE: _bindgen_ty_8 = 29;
pub const OH_NN_FULL_CONNECTION_ACTIVATIONTYPE: _bindgen_ty_8 = 32;
pub const OH_NN_MATMUL_TRANSPOSE_A: _bindgen_ty_8 = 33;
pub const OH_NN_MATMUL_TRANSPOSE_B: _bindgen_ty_8 = 34;
pub const OH_NN_MATMUL_ACTIVATION_TYPE: _bindgen_ty_8 = 35;
pub const OH_NN_MAX_POOL_KERNEL_SIZE: _bindgen_ty_8 = 36;
pub const OH_NN_MAX_POOL_STRIDE: _bindgen_ty_8 = 37;
pub const OH_NN_MAX_POOL_PAD: _bindgen_ty_8 = 39;
pub const OH_NN_MAX_POOL_ACTIVATION_TYPE: _bindgen_ty_8 = 40;
pub const OH_NN_MUL_ACTIVATION_TYPE: _bindgen_ty_8 = 41;
pub const OH_NN_PAD_CONSTANT_VALUE: _bindgen_ty_8 = 43;
pub const OH_NN_SOFTMAX_AXIS: _bindgen_ty_8 = 46;
pub const OH_NN_SPLIT_AXIS: _bindgen_ty_8 = 49;
pub const OH_NN_SPLIT_OUTPUT_NUM: _bindgen_ty_8 = 50;
pub const OH_NN_SPLIT_SIZE_SPLITS: _bindgen_ty_8 = 51;
pub const OH_NN_STRIDED_SLICE_BEGIN_MASK: _bindgen_ty_8 = 54;
pub const OH_NN_STRIDED_SLICE_END_MASK: _bindgen_ty_8 = 55;
pub const OH_NN_STRIDED_SLICE_ELLIPSIS_MASK: _bindgen_ty_8 = 56;
pub const OH_NN_STRIDED_SLICE_NEW_AXIS_MASK: _bindgen_ty_8 = 57;
pub const OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK: _bindgen_ty_8 = 58;
pub const OH_NN_SUB_ACTIVATIONTYPE: _bindgen_ty_8 = 59;
pub const OH_NN_REDUCE_MEAN_KEEP_DIMS: _bindgen_ty_8 = 60;
pub const OH_NN_RESIZE_BILINEAR_NEW_HEIGHT: _bindgen_ty_8 = 61;
pub const OH_NN_RESIZE_BILINEAR_NEW_WIDTH: _bindgen_ty_8 = 62;
pub const OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO: _bindgen_ty_8 = 63;
pub const OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE: _bindgen_ty_8 = 64;
pub const OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE: _bindgen_ty_8 = 65;
pub const OH_NN_LAYER_NORM_BEGIN_NORM_AXIS: _bindgen_ty_8 = 66;
pub const OH_NN_LAYER_NORM_EPSILON: _bindgen_ty_8 = 67;
pub const OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS: _bindgen_ty_8 = 68;
pub const OH_NN_REDUCE_PROD_KEEP_DIMS: _bindgen_ty_8 = 70;
pub const OH_NN_QUANT_DTYPE_CAST_SRC_T: _bindgen_ty_8 = 72;
pub const OH_NN_QUANT_DTYPE_CAST_DST_T: _bindgen_ty_8 = 73;
pub const OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE: _bindgen_ty_8 = 80;
pub const OH_NN_DEPTH_TO_SPACE_MODE: _bindgen_ty_8 = 81;
pub const OH_NN_LEAKY_RELU_NEGATIVE_SLOPE: _bindgen_ty_8 = 92;
pub const OH_NN_CLIP_MAX: _bindgen_ty_8 = 103;
pub const OH_NN_CLIP_MIN: _bindgen_ty_8 = 104;
pub const OH_NN_QUANT_DTYPE_CAST_AXIS: _bindgen_ty_8 = 126;
pub const OH_NN_AVG_POOL_ROUND_MODE: _bindgen_ty_8 = 109;
pub const OH_NN_MAX_POOL_ROUND_MODE: _bindgen_ty_8 = 114;
pub const OH_NN_FULL_CONNECTION_HAS_BIAS: _bindgen_ty_8 = 111;
pub const OH_NN_PAD_PADDING_MODE: _bindgen_ty_8 = 116;
pub const OH_NN_LOG_SOFTMAX_AXIS: _bindgen_ty_8 = 144;
pub const OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE: _bindgen_ty_8 = 150;
pub const OH_NN_REDUCE_MAX_KEEP_DIMS: _bindgen_ty_8 = 151;
pub const OH_NN_REDUCE_MIN_KEEP_DIMS: _bindgen_ty_8 = 154;
pub const OH_NN_REDUCE_SUM_KEEP_DIMS: _bindgen_ty_8 = 157;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
crate::symbols::symbols! {
    pub fn OH_NNDevice_GetAllDevicesID(ids: *mut *const usize, count: *mut u32) -> ::core::ffi::c_int;
    pub fn OH_NNDevice_GetName(id: usize, name: *mut *const ::core::ffi::c_char) -> ::core::ffi::c_int;
    pub fn OH_NNDevice_GetType(id: usize, type_: *mut ::core::ffi::c_int) -> ::core::ffi::c_int;
    pub fn OH_NNTensorDesc_Create() -> *mut NN_TensorDesc;
    pub fn OH_NNTensorDesc_Destroy(desc: *mut *mut NN_TensorDesc) -> ::core::ffi::c_int;
    pub fn OH_NNTensorDesc_SetDataType(
        desc: *mut NN_TensorDesc,
        type_: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNTensorDesc_SetShape(
        desc: *mut NN_TensorDesc,
        shape: *const i32,
        count: usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNTensorDesc_SetFormat(
        desc: *mut NN_TensorDesc,
        format: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNTensorDesc_GetByteSize(desc: *const NN_TensorDesc, bytes: *mut usize) -> ::core::ffi::c_int;
    pub fn OH_NNQuantParam_Create() -> *mut NN_QuantParam;
    pub fn OH_NNQuantParam_Destroy(param: *mut *mut NN_QuantParam) -> ::core::ffi::c_int;
    pub fn OH_NNQuantParam_SetScales(
        param: *mut NN_QuantParam,
        scales: *const f64,
        count: usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNQuantParam_SetZeroPoints(
        param: *mut NN_QuantParam,
        zeros: *const i32,
        count: usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNQuantParam_SetNumBits(
        param: *mut NN_QuantParam,
        bits: *const u32,
        count: usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_Construct() -> *mut OH_NNModel;
    pub fn OH_NNModel_Destroy(model: *mut *mut OH_NNModel);
    pub fn OH_NNModel_AddTensorToModel(
        model: *mut OH_NNModel,
        desc: *const NN_TensorDesc,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_SetTensorType(
        model: *mut OH_NNModel,
        index: u32,
        role: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_SetTensorData(
        model: *mut OH_NNModel,
        index: u32,
        data: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_SetTensorQuantParams(
        model: *mut OH_NNModel,
        index: u32,
        param: *mut NN_QuantParam,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_AddOperation(
        model: *mut OH_NNModel,
        operation: ::core::ffi::c_int,
        params: *const OH_NN_UInt32Array,
        inputs: *const OH_NN_UInt32Array,
        outputs: *const OH_NN_UInt32Array,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_SpecifyInputsAndOutputs(
        model: *mut OH_NNModel,
        inputs: *const OH_NN_UInt32Array,
        outputs: *const OH_NN_UInt32Array,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNModel_Finish(model: *mut OH_NNModel) -> ::core::ffi::c_int;
    pub fn OH_NNModel_GetAvailableOperations(
        model: *mut OH_NNModel,
        id: usize,
        available: *mut *const bool,
        count: *mut u32,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_Construct(model: *const OH_NNModel) -> *mut OH_NNCompilation;
    pub fn OH_NNCompilation_ConstructForCache() -> *mut OH_NNCompilation;
    pub fn OH_NNCompilation_Destroy(compilation: *mut *mut OH_NNCompilation);
    pub fn OH_NNCompilation_SetDevice(compilation: *mut OH_NNCompilation, id: usize) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_SetPerformanceMode(
        compilation: *mut OH_NNCompilation,
        mode: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_SetPriority(
        compilation: *mut OH_NNCompilation,
        priority: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_EnableFloat16(
        compilation: *mut OH_NNCompilation,
        enable: bool,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_Build(compilation: *mut OH_NNCompilation) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_ExportCacheToBuffer(
        compilation: *mut OH_NNCompilation,
        place: *const ::core::ffi::c_void,
        bytes: usize,
        used: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNCompilation_ImportCacheFromBuffer(
        compilation: *mut OH_NNCompilation,
        data: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNTensor_CreateWithFd(
        id: usize,
        desc: *mut NN_TensorDesc,
        fd: ::core::ffi::c_int,
        bytes: usize,
        offset: usize,
    ) -> *mut NN_Tensor;
    pub fn OH_NNTensor_Destroy(tensor: *mut *mut NN_Tensor) -> ::core::ffi::c_int;
    pub fn OH_NNExecutor_Construct(compilation: *mut OH_NNCompilation) -> *mut OH_NNExecutor;
    pub fn OH_NNExecutor_Destroy(executor: *mut *mut OH_NNExecutor);
    pub fn OH_NNExecutor_GetInputCount(
        executor: *const OH_NNExecutor,
        count: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNExecutor_GetOutputCount(
        executor: *const OH_NNExecutor,
        count: *mut usize,
    ) -> ::core::ffi::c_int;
    pub fn OH_NNExecutor_RunSync(
        executor: *mut OH_NNExecutor,
        inputs: *mut *mut NN_Tensor,
        input_count: usize,
        outputs: *mut *mut NN_Tensor,
        output_count: usize,
    ) -> ::core::ffi::c_int;
}
