/* The part of OpenHarmony's Neural Network Runtime (libneural_network_core, libneural_network_runtime; API
 * level 12) that we call. We wrote down names, types and codes as facts, in our own words.
 * `cargo xtask bindgen` generates the Rust declarations.
 *
 * The public headers could not be used anyway: they are not C11, because an enumeration has one byte.
 */
#ifndef POLYCHIP_SYS_NNRT_H
#define POLYCHIP_SYS_NNRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct OH_NNModel OH_NNModel;
typedef struct OH_NNCompilation OH_NNCompilation;
typedef struct OH_NNExecutor OH_NNExecutor;
typedef struct NN_TensorDesc NN_TensorDesc;
typedef struct NN_Tensor NN_Tensor;
typedef struct NN_QuantParam NN_QuantParam;

/* indices of tensors in the model: 16 bytes */
typedef struct {
    uint32_t *data;
    uint32_t size;
} OH_NN_UInt32Array;

/* results of all calls */
enum {
    OH_NN_SUCCESS = 0,
    OH_NN_FAILED = 1,
    OH_NN_INVALID_PARAMETER = 2,
    OH_NN_MEMORY_ERROR = 3,
    OH_NN_OPERATION_FORBIDDEN = 4,
    OH_NN_NULL_PTR = 5,
    OH_NN_INVALID_FILE = 6,
    OH_NN_INVALID_PATH = 8,
    OH_NN_TIMEOUT = 9,
    OH_NN_UNSUPPORTED = 10,
    OH_NN_CONNECTION_EXCEPTION = 11,
    OH_NN_SAVE_CACHE_EXCEPTION = 12,
    OH_NN_DYNAMIC_SHAPE = 13,
    OH_NN_UNAVAILABLE_DEVICE = 14,
};

/* kinds of device */
enum {
    OH_NN_OTHERS = 0,
    OH_NN_CPU = 1,
    OH_NN_GPU = 2,
    OH_NN_ACCELERATOR = 3,
};

/* activations fused into another operation: a parameter of one byte */
enum {
    OH_NN_FUSED_NONE = 0,
    OH_NN_FUSED_RELU = 1,
    OH_NN_FUSED_RELU6 = 2,
};

/* orders of axes */
enum {
    OH_NN_FORMAT_NONE = 0,
    OH_NN_FORMAT_NCHW = 1,
    OH_NN_FORMAT_NHWC = 2,
    OH_NN_FORMAT_ND = 3,
};

/* types of elements */
enum {
    OH_NN_UNKNOWN = 0,
    OH_NN_BOOL = 1,
    OH_NN_INT8 = 2,
    OH_NN_INT16 = 3,
    OH_NN_INT32 = 4,
    OH_NN_INT64 = 5,
    OH_NN_UINT8 = 6,
    OH_NN_UINT16 = 7,
    OH_NN_UINT32 = 8,
    OH_NN_UINT64 = 9,
    OH_NN_FLOAT16 = 10,
    OH_NN_FLOAT32 = 11,
    OH_NN_FLOAT64 = 12,
};

/* operations. Images are [n, h, w, c], weights of convolutions [out, kh, kw, in / group] */
enum {
    OH_NN_OPS_ADD = 1,
    OH_NN_OPS_AVG_POOL = 2,
    OH_NN_OPS_BATCH_NORM = 3,
    OH_NN_OPS_CAST = 6, /* no parameters; the second input is a constant i32 of no axes: a type of elements, above */
    OH_NN_OPS_CONCAT = 7,
    OH_NN_OPS_CONV2D = 8,
    OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE = 10,
    OH_NN_OPS_DIV = 11,
    OH_NN_OPS_FULL_CONNECTION = 15,
    OH_NN_OPS_GATHER = 16,
    OH_NN_OPS_HSWISH = 17,
    OH_NN_OPS_LESS_EQUAL = 18,
    OH_NN_OPS_MATMUL = 19,
    OH_NN_OPS_MAXIMUM = 20,
    OH_NN_OPS_MAX_POOL = 21,
    OH_NN_OPS_MUL = 22,
    OH_NN_OPS_PAD = 24,
    OH_NN_OPS_POW = 25,
    OH_NN_OPS_SIGMOID = 28,
    OH_NN_OPS_SLICE = 29,
    OH_NN_OPS_SOFTMAX = 30,
    OH_NN_OPS_SPLIT = 32,
    OH_NN_OPS_SQRT = 33,
    OH_NN_OPS_STRIDED_SLICE = 37,
    OH_NN_OPS_SUB = 38,
    OH_NN_OPS_TANH = 39,
    OH_NN_OPS_TILE = 40,
    OH_NN_OPS_TRANSPOSE = 41,
    OH_NN_OPS_REDUCE_MEAN = 42,
    OH_NN_OPS_RESIZE_BILINEAR = 43,
    OH_NN_OPS_RESHAPE = 45,
    OH_NN_OPS_PRELU = 46,
    OH_NN_OPS_RELU = 47,
    OH_NN_OPS_RELU6 = 48,
    OH_NN_OPS_LAYER_NORM = 49,
    OH_NN_OPS_REDUCE_PROD = 50,
    OH_NN_OPS_QUANT_DTYPE_CAST = 52,
    OH_NN_OPS_ABS = 58,
    OH_NN_OPS_ERF = 59,
    OH_NN_OPS_EXP = 60,
    OH_NN_OPS_LESS = 61,
    OH_NN_OPS_SELECT = 62,
    OH_NN_OPS_DEPTH_TO_SPACE = 65,
    OH_NN_OPS_EQUAL = 70,
    OH_NN_OPS_GREATER = 71,
    OH_NN_OPS_GREATER_EQUAL = 73,
    OH_NN_OPS_LEAKY_RELU = 74,
    OH_NN_OPS_CLIP = 76,
    OH_NN_OPS_COS = 79,
    OH_NN_OPS_LOG = 80,
    OH_NN_OPS_LOGICAL_AND = 81,
    OH_NN_OPS_LOGICAL_NOT = 82,
    OH_NN_OPS_NEG = 84,
    OH_NN_OPS_RECIPROCAL = 85,
    OH_NN_OPS_SIN = 86,
    OH_NN_OPS_LOGICAL_OR = 89,
    OH_NN_OPS_CEIL = 90,
    OH_NN_OPS_FLOOR = 93,
    OH_NN_OPS_LOG_SOFTMAX = 95,
    OH_NN_OPS_MINIMUM = 97,
    OH_NN_OPS_REDUCE_MAX = 99,
    OH_NN_OPS_REDUCE_MIN = 100,
    OH_NN_OPS_REDUCE_SUM = 101,
    OH_NN_OPS_SPACE_TO_DEPTH = 104,
};

/* Types of QUANT_DTYPE_CAST. The runtime passes both numbers to MindSpore Lite unchecked. The codes are
 * MindSpore Lite's, the names are ours. */
enum {
    NN_MINDSPORE_INT8 = 32,
    NN_MINDSPORE_UINT8 = 37,
    NN_MINDSPORE_FLOAT16 = 42,
    NN_MINDSPORE_FLOAT32 = 43,
};

/* Roles of tensors: data, or a parameter of an operation. The comment after a parameter is the type that
 * the runtime's checks require: b a boolean, i8, i32, i64 an integer, f a float, [n] a list. */
enum {
    OH_NN_TENSOR = 0,
    OH_NN_ADD_ACTIVATIONTYPE = 1, /* i8 */
    OH_NN_AVG_POOL_KERNEL_SIZE = 2, /* i64 [2] */
    OH_NN_AVG_POOL_STRIDE = 3, /* i64 [2] */
    OH_NN_AVG_POOL_PAD = 5, /* i64 [4]: above, below, left, right */
    OH_NN_AVG_POOL_ACTIVATION_TYPE = 6, /* i8 */
    OH_NN_BATCH_NORM_EPSILON = 7, /* f */
    OH_NN_CONCAT_AXIS = 10, /* i64 */
    OH_NN_CONV2D_STRIDES = 11, /* i64 [2] */
    OH_NN_CONV2D_PAD = 12, /* i64 [4] */
    OH_NN_CONV2D_DILATION = 13, /* i64 [2] */
    OH_NN_CONV2D_ACTIVATION_TYPE = 15, /* i8 */
    OH_NN_CONV2D_GROUP = 16, /* i64 */
    OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES = 24, /* as of convolutions */
    OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD = 25,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION = 26,
    OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE = 28,
    OH_NN_DIV_ACTIVATIONTYPE = 29, /* i8 */
    OH_NN_FULL_CONNECTION_ACTIVATIONTYPE = 32, /* i8 */
    OH_NN_MATMUL_TRANSPOSE_A = 33, /* b */
    OH_NN_MATMUL_TRANSPOSE_B = 34, /* b */
    OH_NN_MATMUL_ACTIVATION_TYPE = 35, /* i8 */
    OH_NN_MAX_POOL_KERNEL_SIZE = 36, /* as of averages */
    OH_NN_MAX_POOL_STRIDE = 37,
    OH_NN_MAX_POOL_PAD = 39,
    OH_NN_MAX_POOL_ACTIVATION_TYPE = 40,
    OH_NN_MUL_ACTIVATION_TYPE = 41, /* i8 */
    OH_NN_PAD_CONSTANT_VALUE = 43, /* f */
    OH_NN_SOFTMAX_AXIS = 46, /* i64 */
    OH_NN_SPLIT_AXIS = 49, /* i64 */
    OH_NN_SPLIT_OUTPUT_NUM = 50, /* i64 */
    OH_NN_SPLIT_SIZE_SPLITS = 51, /* i64 [n] */
    OH_NN_STRIDED_SLICE_BEGIN_MASK = 54, /* i64, as the next four */
    OH_NN_STRIDED_SLICE_END_MASK = 55,
    OH_NN_STRIDED_SLICE_ELLIPSIS_MASK = 56,
    OH_NN_STRIDED_SLICE_NEW_AXIS_MASK = 57,
    OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK = 58,
    OH_NN_SUB_ACTIVATIONTYPE = 59, /* i8 */
    OH_NN_REDUCE_MEAN_KEEP_DIMS = 60, /* b */
    OH_NN_RESIZE_BILINEAR_NEW_HEIGHT = 61, /* i64 */
    OH_NN_RESIZE_BILINEAR_NEW_WIDTH = 62, /* i64 */
    OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO = 63, /* b */
    OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE = 64, /* i8: 0 asymmetric, 1 corners, 2 half pixels */
    OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE = 65, /* i64 */
    OH_NN_LAYER_NORM_BEGIN_NORM_AXIS = 66, /* i64 */
    OH_NN_LAYER_NORM_EPSILON = 67, /* f */
    OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS = 68, /* i64 */
    OH_NN_REDUCE_PROD_KEEP_DIMS = 70, /* b */
    OH_NN_QUANT_DTYPE_CAST_SRC_T = 72, /* i64: a code of MindSpore's, below */
    OH_NN_QUANT_DTYPE_CAST_DST_T = 73, /* i64 */
    OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE = 80, /* i64 */
    OH_NN_DEPTH_TO_SPACE_MODE = 81, /* i32: 0 DCR, 1 CRD */
    OH_NN_LEAKY_RELU_NEGATIVE_SLOPE = 92, /* f */
    OH_NN_CLIP_MAX = 103, /* f */
    OH_NN_CLIP_MIN = 104, /* f */
    OH_NN_QUANT_DTYPE_CAST_AXIS = 126, /* i64, optional: of scales per channel */
    OH_NN_AVG_POOL_ROUND_MODE = 109, /* i32: 0 down, 1 up */
    OH_NN_MAX_POOL_ROUND_MODE = 114, /* i32 */
    OH_NN_FULL_CONNECTION_HAS_BIAS = 111, /* b */
    OH_NN_PAD_PADDING_MODE = 116, /* i32: 0 constant, 1 reflect, 2 symmetric */
    OH_NN_LOG_SOFTMAX_AXIS = 144, /* i64 */
    OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE = 150, /* i64 */
    OH_NN_REDUCE_MAX_KEEP_DIMS = 151, /* b */
    OH_NN_REDUCE_MIN_KEEP_DIMS = 154, /* b */
    OH_NN_REDUCE_SUM_KEEP_DIMS = 157, /* b */
};

/* Devices. The library owns the list. The pointer must be null before the call. */
int OH_NNDevice_GetAllDevicesID(const size_t **ids, uint32_t *count);
int OH_NNDevice_GetName(size_t id, const char **name);
int OH_NNDevice_GetType(size_t id, int *type);

/* Descriptions of tensors. The caller that makes one destroys it; the call sets the caller's pointer to
 * null. */
NN_TensorDesc *OH_NNTensorDesc_Create(void);
int OH_NNTensorDesc_Destroy(NN_TensorDesc **desc);
int OH_NNTensorDesc_SetDataType(NN_TensorDesc *desc, int type);
int OH_NNTensorDesc_SetShape(NN_TensorDesc *desc, const int32_t *shape, size_t count);
int OH_NNTensorDesc_SetFormat(NN_TensorDesc *desc, int format);
int OH_NNTensorDesc_GetByteSize(const NN_TensorDesc *desc, size_t *bytes);

/* Quantisation: real = (stored - zero point) x scale, per tensor or per channel. All three lists have the
 * same length. The runtime refuses any number of bits but 8. */
NN_QuantParam *OH_NNQuantParam_Create(void);
int OH_NNQuantParam_Destroy(NN_QuantParam **param);
int OH_NNQuantParam_SetScales(NN_QuantParam *param, const double *scales, size_t count);
int OH_NNQuantParam_SetZeroPoints(NN_QuantParam *param, const int32_t *zeros, size_t count);
int OH_NNQuantParam_SetNumBits(NN_QuantParam *param, const uint32_t *bits, size_t count);

/* Models. Tensors are numbered in the order in which they are added. A model copies the descriptions. */
OH_NNModel *OH_NNModel_Construct(void);
void OH_NNModel_Destroy(OH_NNModel **model);
int OH_NNModel_AddTensorToModel(OH_NNModel *model, const NN_TensorDesc *desc);
int OH_NNModel_SetTensorType(OH_NNModel *model, uint32_t index, int role);
int OH_NNModel_SetTensorData(OH_NNModel *model, uint32_t index, const void *data, size_t bytes);
int OH_NNModel_SetTensorQuantParams(OH_NNModel *model, uint32_t index, NN_QuantParam *param);
int OH_NNModel_AddOperation(OH_NNModel *model, int operation, const OH_NN_UInt32Array *params,
                            const OH_NN_UInt32Array *inputs, const OH_NN_UInt32Array *outputs);
int OH_NNModel_SpecifyInputsAndOutputs(OH_NNModel *model, const OH_NN_UInt32Array *inputs,
                                       const OH_NN_UInt32Array *outputs);
int OH_NNModel_Finish(OH_NNModel *model);
/* The model owns the list, which has one answer per operation. The pointer must be null before the call. */
int OH_NNModel_GetAvailableOperations(OH_NNModel *model, size_t id, const bool **available, uint32_t *count);

/* Compilations: of a model, or of bytes that another compilation exported, which are imported before
 * Build. */
OH_NNCompilation *OH_NNCompilation_Construct(const OH_NNModel *model);
OH_NNCompilation *OH_NNCompilation_ConstructForCache(void);
void OH_NNCompilation_Destroy(OH_NNCompilation **compilation);
int OH_NNCompilation_SetDevice(OH_NNCompilation *compilation, size_t id);
int OH_NNCompilation_SetPerformanceMode(OH_NNCompilation *compilation, int mode);
int OH_NNCompilation_SetPriority(OH_NNCompilation *compilation, int priority);
int OH_NNCompilation_EnableFloat16(OH_NNCompilation *compilation, bool enable);
int OH_NNCompilation_Build(OH_NNCompilation *compilation);
/* `bytes` is the size of the buffer. If it is too small, the call returns an invalid parameter; no call
 * reports the required size. */
int OH_NNCompilation_ExportCacheToBuffer(OH_NNCompilation *compilation, const void *place, size_t bytes, size_t *used);
int OH_NNCompilation_ImportCacheFromBuffer(OH_NNCompilation *compilation, const void *data, size_t bytes);

/* Tensors over a file, which the library maps: the size of the file, and the offset of the elements. */
NN_Tensor *OH_NNTensor_CreateWithFd(size_t id, NN_TensorDesc *desc, int fd, size_t bytes, size_t offset);
int OH_NNTensor_Destroy(NN_Tensor **tensor);

/* Runs, one at a time per executor. The call blocks. */
OH_NNExecutor *OH_NNExecutor_Construct(OH_NNCompilation *compilation);
void OH_NNExecutor_Destroy(OH_NNExecutor **executor);
int OH_NNExecutor_GetInputCount(const OH_NNExecutor *executor, size_t *count);
int OH_NNExecutor_GetOutputCount(const OH_NNExecutor *executor, size_t *count);
int OH_NNExecutor_RunSync(OH_NNExecutor *executor, NN_Tensor *inputs[], size_t input_count, NN_Tensor *outputs[],
                          size_t output_count);

#endif
