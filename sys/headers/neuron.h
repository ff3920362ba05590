/* The part of MediaTek's NeuronAdapter (libneuron_adapter and its successors) that we call. We wrote down
 * names, types and codes as facts, in our own words. `cargo xtask bindgen` generates the Rust
 * declarations.
 *
 * The interface resembles Android's NNAPI: operations, operand types, results and preferences have
 * NNAPI's numbers, followed by the vendor's own. "seen" marks a fact that was
 * observed in a trace of another client's calls; all other facts were read.
 */
#ifndef POLYCHIP_SYS_NEURON_H
#define POLYCHIP_SYS_NEURON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct NeuronModel NeuronModel;
typedef struct NeuronCompilation NeuronCompilation;
typedef struct NeuronExecution NeuronExecution;
typedef struct NeuronDevice NeuronDevice;
typedef struct NeuronMemory NeuronMemory;
/* Android's own; bytes only (AHARDWAREBUFFER_FORMAT_BLOB) */
typedef struct AHardwareBuffer AHardwareBuffer;

/* an operand: 24 bytes. A scalar has no extents. Only quantised types use scale and zero point */
typedef struct {
    int32_t type;
    uint32_t dimensionCount;
    const uint32_t *dimensions;
    float scale;
    int32_t zeroPoint;
} NeuronOperandType;

/* scales per index of an axis, without zero points: 16 bytes */
typedef struct {
    uint32_t channelDim;
    uint32_t scaleCount;
    const float *scales;
} NeuronSymmPerChannelQuantParams;

/* three bytes */
typedef struct {
    uint8_t major;
    uint8_t minor;
    uint8_t patch;
} NeuronRuntimeVersion;

/* results of all calls */
enum {
    NEURON_NO_ERROR = 0,
    NEURON_OUT_OF_MEMORY = 1,
    NEURON_INCOMPLETE = 2,
    NEURON_UNEXPECTED_NULL = 3,
    NEURON_BAD_DATA = 4,
    NEURON_OP_FAILED = 5,
    NEURON_UNMAPPABLE = 6,
    NEURON_BAD_STATE = 7,
    NEURON_BAD_VERSION = 8,
    NEURON_OUTPUT_INSUFFICIENT_SIZE = 9,
    NEURON_UNAVAILABLE_DEVICE = 10,
    NEURON_MISSED_DEADLINE_TRANSIENT = 11,
    NEURON_MISSED_DEADLINE_PERSISTENT = 12,
    NEURON_RESOURCE_EXHAUSTED_TRANSIENT = 13,
    NEURON_RESOURCE_EXHAUSTED_PERSISTENT = 14,
    NEURON_DEAD_OBJECT = 15,
};

/* types of operands */
enum {
    NEURON_FLOAT32 = 0,
    NEURON_INT32 = 1,
    NEURON_UINT32 = 2,
    NEURON_TENSOR_FLOAT32 = 3,
    NEURON_TENSOR_INT32 = 4,
    NEURON_TENSOR_QUANT8_ASYMM = 5,
    NEURON_BOOL = 6,
    NEURON_TENSOR_QUANT16_SYMM = 7,
    NEURON_TENSOR_FLOAT16 = 8,
    NEURON_TENSOR_BOOL8 = 9,
    NEURON_FLOAT16 = 10,
    NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL = 11,
    NEURON_TENSOR_QUANT16_ASYMM = 12,
    NEURON_TENSOR_QUANT8_SYMM = 13,
    NEURON_TENSOR_QUANT8_ASYMM_SIGNED = 14,
};

/* operations that we use */
enum {
    NEURON_ADD = 0,
    NEURON_AVERAGE_POOL_2D = 1,
    NEURON_CONCATENATION = 2,
    NEURON_CONV_2D = 3,
    NEURON_DEPTHWISE_CONV_2D = 4,
    NEURON_DEPTH_TO_SPACE = 5,
    NEURON_DEQUANTIZE = 6,
    NEURON_FLOOR = 8,
    NEURON_FULLY_CONNECTED = 9,
    NEURON_LOGISTIC = 14,
    NEURON_MAX_POOL_2D = 17,
    NEURON_MUL = 18,
    NEURON_RELU = 19,
    NEURON_RELU1 = 20,
    NEURON_RELU6 = 21,
    NEURON_RESHAPE = 22,
    NEURON_RESIZE_BILINEAR = 23,
    NEURON_SOFTMAX = 25,
    NEURON_SPACE_TO_DEPTH = 26,
    NEURON_TANH = 28,
    NEURON_DIV = 30,
    NEURON_MEAN = 31,
    NEURON_PAD = 32,
    NEURON_SQUEEZE = 34,
    NEURON_STRIDED_SLICE = 35,
    NEURON_SUB = 36,
    NEURON_TRANSPOSE = 37,
    NEURON_ABS = 38,
    NEURON_ARGMAX = 39,
    NEURON_ARGMIN = 40,
    NEURON_CAST = 45,
    NEURON_EQUAL = 48,
    NEURON_EXP = 49,
    NEURON_EXPAND_DIMS = 50,
    NEURON_GATHER = 51,
    NEURON_GREATER = 53,
    NEURON_GREATER_EQUAL = 54,
    NEURON_GROUPED_CONV_2D = 55,
    NEURON_LESS = 58,
    NEURON_LESS_EQUAL = 59,
    NEURON_LOGICAL_AND = 61,
    NEURON_LOGICAL_NOT = 62,
    NEURON_LOGICAL_OR = 63,
    NEURON_MAXIMUM = 65,
    NEURON_MINIMUM = 66,
    NEURON_NEG = 67,
    NEURON_NOT_EQUAL = 68,
    NEURON_PAD_V2 = 69,
    NEURON_POW = 70,
    NEURON_PRELU = 71,
    NEURON_QUANTIZE = 72,
    NEURON_REDUCE_MAX = 77,
    NEURON_REDUCE_MIN = 78,
    NEURON_REDUCE_SUM = 80,
    NEURON_RSQRT = 83,
    NEURON_SELECT = 84,
    NEURON_SLICE = 86,
    NEURON_SPLIT = 87,
    NEURON_SQRT = 88,
    NEURON_TILE = 89,
    NEURON_TRANSPOSE_CONV_2D = 91,
    NEURON_RESIZE_NEAREST_NEIGHBOR = 94,
    NEURON_HARD_SWISH = 99,
    NEURON_BATCH_MATMUL = 102,
};

/* activations that an operation applies to its result */
enum {
    NEURON_FUSED_NONE = 0,
    NEURON_FUSED_RELU = 1,
    NEURON_FUSED_RELU1 = 2,
    NEURON_FUSED_RELU6 = 3,
};

/* implicit pads */
enum {
    NEURON_PADDING_SAME = 1,
    NEURON_PADDING_VALID = 2,
};

/* goals of a compilation */
enum {
    NEURON_PREFER_LOW_POWER = 0,
    NEURON_PREFER_FAST_SINGLE_ANSWER = 1,
    NEURON_PREFER_SUSTAINED_SPEED = 2,
    NEURON_PREFER_TURBO_BOOST = 3,
};

enum {
    NEURON_PRIORITY_LOW = 90,
    NEURON_PRIORITY_MEDIUM = 100,
    NEURON_PRIORITY_HIGH = 110,
};

/* bits */
enum {
    NEURON_OPTIMIZATION_NORMAL = 0,
    NEURON_OPTIMIZATION_LOW_LATENCY = 1,
    NEURON_OPTIMIZATION_DEEP_FUSION = 2,
    NEURON_OPTIMIZATION_BATCH_PROCESSING = 4,
};

int Neuron_getVersion(NeuronRuntimeVersion *version);
int Neuron_getDeviceCount(uint32_t *numDevices);
int Neuron_getDevice(uint32_t devIndex, NeuronDevice **device);
int NeuronDevice_getName(const NeuronDevice *device, const char **name);

/* A model: add operands, then values and operations, then name the ports (one client names them before
 * the operations: seen), then finish. */
int NeuronModel_create(NeuronModel **model);
void NeuronModel_free(NeuronModel *model);
int NeuronModel_finish(NeuronModel *model);
int NeuronModel_addOperand(NeuronModel *model, const NeuronOperandType *type);
/* Values of more than 128 bytes are not copied: they must live until NeuronCompilation_finish returns. */
int NeuronModel_setOperandValue(NeuronModel *model, int32_t index, const void *buffer, size_t length);
int NeuronModel_setOperandSymmPerChannelQuantParams(NeuronModel *model, int32_t index,
                                                    const NeuronSymmPerChannelQuantParams *channelQuant);
int NeuronModel_addOperation(NeuronModel *model, int32_t type, uint32_t inputCount, const uint32_t *inputs,
                             uint32_t outputCount, const uint32_t *outputs);
int NeuronModel_identifyInputsAndOutputs(NeuronModel *model, uint32_t inputCount, const uint32_t *inputs,
                                         uint32_t outputCount, const uint32_t *outputs);
/* after finish (seen) */
int NeuronModel_relaxComputationFloat32toFloat16(NeuronModel *model, bool allow);
/* Both read what NeuronCompilation_storeCompiledNetwork of the same major version wrote. */
int NeuronModel_restoreFromCompiledNetwork(NeuronModel **model, NeuronCompilation **compilation, const void *buffer,
                                           size_t size);

int NeuronCompilation_create(NeuronModel *model, NeuronCompilation **compilation);
int NeuronCompilation_createWithOptions(NeuronModel *model, NeuronCompilation **compilation, const char *options);
void NeuronCompilation_free(NeuronCompilation *compilation);
int NeuronCompilation_finish(NeuronCompilation *compilation);
int NeuronCompilation_setPreference(NeuronCompilation *compilation, int32_t preference);
int NeuronCompilation_setPriority(NeuronCompilation *compilation, int priority);
int NeuronCompilation_setOptimizationHint(NeuronCompilation *compilation, uint32_t optimizationCode);
int NeuronCompilation_setOptimizationString(NeuronCompilation *compilation, const char *optimizationString);
/* before finish; one boolean per operation, in the order in which they were added */
int NeuronCompilation_getSupportedOperations(NeuronCompilation *compilation, uint32_t operationCount, bool *supported);
int NeuronCompilation_getCompiledNetworkSize(NeuronCompilation *compilation, size_t *size);
int NeuronCompilation_storeCompiledNetwork(NeuronCompilation *compilation, void *buffer, const size_t size);
/* memory that a port needs, which may be more than its elements */
int NeuronCompilation_getInputPaddedSize(NeuronCompilation *compilation, int32_t index, size_t *size);
int NeuronCompilation_getOutputPaddedSize(NeuronCompilation *compilation, int32_t index, size_t *size);

int NeuronExecution_create(NeuronCompilation *compilation, NeuronExecution **execution);
void NeuronExecution_free(NeuronExecution *execution);
/* a null type keeps the model's type of the port */
int NeuronExecution_setInput(NeuronExecution *execution, int32_t index, const NeuronOperandType *type, const void *buffer,
                             size_t length);
int NeuronExecution_setOutput(NeuronExecution *execution, int32_t index, const NeuronOperandType *type, void *buffer,
                              size_t length);
/* the memory must live until the execution is freed or bound to other memory */
int NeuronExecution_setInputFromMemory(NeuronExecution *execution, uint32_t index, const NeuronOperandType *type,
                                       const NeuronMemory *memory, size_t offset, size_t length);
int NeuronExecution_setOutputFromMemory(NeuronExecution *execution, uint32_t index, const NeuronOperandType *type,
                                        const NeuronMemory *memory, size_t offset, size_t length);
/* 0 to 100 */
int NeuronExecution_setBoostHint(NeuronExecution *execution, uint8_t boostValue);
/* blocks */
int NeuronExecution_compute(NeuronExecution *execution);

/* protect: PROT_READ 1, PROT_WRITE 2 */
int NeuronMemory_createFromFd(size_t size, int protect, int fd, size_t offset, NeuronMemory **memory);
/* returns a bad state on systems other than Android */
int NeuronMemory_createFromAHardwareBuffer(const AHardwareBuffer *ahwb, NeuronMemory **memory);
void NeuronMemory_free(NeuronMemory *memory);

#endif
