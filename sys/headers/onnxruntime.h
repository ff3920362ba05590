/* The interface between ONNX Runtime and execution providers in separate libraries. We wrote down names,
 * layouts and codes as facts, in our own words. `cargo xtask bindgen` generates the Rust declarations.
 * bindings/onnxruntime calls them; its tests run with libraries of several releases.
 *
 * Layouts are those of release 1.23 on 64-bit machines; later releases only append to a table. A table
 * of a version contains every function of that version. A function that returns an `OrtStatus` returns
 * null on success; otherwise the caller releases the status. The entries that we do not call are gaps.
 */
#ifndef POLYCHIP_SYS_ONNXRUNTIME_H
#define POLYCHIP_SYS_ONNXRUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* the version of the tables that we request: the first one with providers that compile */
    ORT_VERSION = 23,
    /* the first one with the two calls at the end of `OrtApi` below */
    ORT_VERSION_SHAPES = 24,
};

/* codes of a status */
enum {
    ORT_FAIL = 1,
    ORT_INVALID_ARGUMENT = 2,
    ORT_NOT_IMPLEMENTED = 9,
    ORT_INVALID_GRAPH = 10,
    ORT_EP_FAIL = 11,
};

/* severities of a message */
enum {
    ORT_LOG_VERBOSE = 0,
    ORT_LOG_INFO = 1,
    ORT_LOG_WARNING = 2,
    ORT_LOG_ERROR = 3,
};

/* kinds of value */
enum {
    ORT_KIND_UNKNOWN = 0,
    ORT_KIND_TENSOR = 1,
    ORT_KIND_SEQUENCE = 2,
    ORT_KIND_MAP = 3,
    ORT_KIND_OPAQUE = 4,
    ORT_KIND_SPARSE = 5,
    ORT_KIND_OPTIONAL = 6,
};

/* kinds of attribute */
enum {
    ORT_ATTRIBUTE_UNDEFINED = 0,
    ORT_ATTRIBUTE_INT = 1,
    ORT_ATTRIBUTE_INTS = 2,
    ORT_ATTRIBUTE_FLOAT = 3,
    ORT_ATTRIBUTE_FLOATS = 4,
    ORT_ATTRIBUTE_STRING = 5,
    ORT_ATTRIBUTE_STRINGS = 6,
    ORT_ATTRIBUTE_GRAPH = 7,
    ORT_ATTRIBUTE_TENSOR = 8,
};

/* kinds of hardware */
enum {
    ORT_HARDWARE_CPU = 0,
    ORT_HARDWARE_GPU = 1,
    ORT_HARDWARE_NPU = 2,
};

/* compatibility of a model that was compiled before, as a factory reports it */
enum {
    ORT_COMPILED_NOT_OURS = 0,
    ORT_COMPILED_BEST = 1,
    ORT_COMPILED_OLD = 2,
    ORT_COMPILED_REFUSED = 3,
};

/* paths have the system's character type */
#ifdef _WIN32
typedef uint16_t OrtPathChar;
#else
typedef char OrtPathChar;
#endif

/* types that only ONNX Runtime accesses */
typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtLogger OrtLogger;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtExternalInitializerInfo OrtExternalInitializerInfo;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtSyncStreamImpl OrtSyncStreamImpl;
typedef struct OrtKernelRegistry OrtKernelRegistry;

typedef struct OrtEpApi OrtEpApi;
typedef struct OrtModelEditorApi OrtModelEditorApi;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;

/* the runtime's functions; the number of an unused gap is that of its first entry */
typedef struct OrtApi {
    OrtStatus *(*CreateStatus)(int32_t code, const char *words);
    void *unused_1[1];
    const char *(*GetErrorMessage)(const OrtStatus *status);
    void *unused_3[48];
    OrtStatus *(*GetTensorMutableData)(OrtValue *value, void **out);
    OrtStatus *(*FillStringTensor)(OrtValue *value, const char *const *strings, size_t count);
    OrtStatus *(*GetStringTensorDataLength)(const OrtValue *value, size_t *bytes);
    OrtStatus *(*GetStringTensorContent)(const OrtValue *value, void *text, size_t bytes, size_t *offsets,
        size_t count);
    /* null if the type is not a tensor */
    OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *type, const OrtTensorTypeAndShapeInfo **out);
    OrtStatus *(*GetOnnxTypeFromTypeInfo)(const OrtTypeInfo *type, int32_t *out);
    void *unused_57[3];
    OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *info, int32_t *out);
    OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *info, size_t *out);
    OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *info, int64_t *sizes, size_t count);
    OrtStatus *(*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo *info, const char **names, size_t count);
    void *unused_64[1];
    OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
    void *unused_66[24];
    /* null where an optional input is not given */
    OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *context, size_t index, const OrtValue **out);
    /* null if no node reads the output */
    OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *context, size_t index, const int64_t *sizes, size_t rank,
        OrtValue **out);
    void *unused_92[1];
    void (*ReleaseStatus)(OrtStatus *status);
    void *unused_94[2];
    void (*ReleaseValue)(OrtValue *value);
    void *unused_97[2];
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *info);
    void *unused_100[111];
    /* copies the data; `length` is the bytes of a string or the elements of a list */
    OrtStatus *(*CreateOpAttr)(const char *name, const void *data, int length, int32_t type, OrtOpAttr **out);
    void (*ReleaseOpAttr)(OrtOpAttr *attribute);
    void *unused_213[34];
    OrtStatus *(*Logger_LogMessage)(const OrtLogger *logger, int32_t severity, const char *message,
        const OrtPathChar *file, int line, const char *function);
    void *unused_248[24];
    /* fails if the buffer is too small, and returns the required size */
    OrtStatus *(*ReadOpAttr)(const OrtOpAttr *attribute, int32_t type, void *data, size_t bytes, size_t *needed);
    void *unused_273[13];
    void (*ReleaseNode)(OrtNode *node);
    void *unused_287[2];
    OrtStatus *(*GetValueInfoName)(const OrtValueInfo *info, const char **name);
    OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *info, const OrtTypeInfo **type);
    const OrtModelEditorApi *(*GetModelEditorApi)(void); /* null in a build without it */
    void *unused_292[3];
    void (*CreateKeyValuePairs)(OrtKeyValuePairs **out);
    void (*AddKeyValuePair)(OrtKeyValuePairs *pairs, const char *key, const char *value);
    void *unused_297[1];
    void (*GetKeyValuePairs)(const OrtKeyValuePairs *pairs, const char *const **keys, const char *const **values,
        size_t *count);
    void *unused_299[1];
    void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *pairs);
    void *unused_301[6];
    int32_t (*HardwareDevice_Type)(const OrtHardwareDevice *device);
    void *unused_308[9];
    const OrtEpApi *(*GetEpApi)(void);
    void *unused_318[8];
    /* null if there is none */
    OrtStatus *(*ValueInfo_GetInitializerValue)(const OrtValueInfo *info, const OrtValue **value);
    /* null if the value is not in a file beside the model; the caller releases it */
    OrtStatus *(*ValueInfo_GetExternalInitializerInfo)(const OrtValueInfo *info, OrtExternalInitializerInfo **out);
    void *unused_328[3];
    OrtStatus *(*ValueInfo_IsConstantInitializer)(const OrtValueInfo *info, bool *out);
    OrtStatus *(*ValueInfo_IsFromOuterScope)(const OrtValueInfo *info, bool *out);
    OrtStatus *(*Graph_GetName)(const OrtGraph *graph, const char **name);
    OrtStatus *(*Graph_GetModelPath)(const OrtGraph *graph, const OrtPathChar **path); /* empty where it came from memory */
    void *unused_335[1];
    OrtStatus *(*Graph_GetNumOperatorSets)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetOperatorSets)(const OrtGraph *graph, const char **domains, int64_t *versions, size_t count);
    OrtStatus *(*Graph_GetNumInputs)(const OrtGraph *graph, size_t *count); /* initialisers that are inputs, too */
    OrtStatus *(*Graph_GetInputs)(const OrtGraph *graph, const OrtValueInfo **inputs, size_t count);
    OrtStatus *(*Graph_GetNumOutputs)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetOutputs)(const OrtGraph *graph, const OrtValueInfo **outputs, size_t count);
    OrtStatus *(*Graph_GetNumInitializers)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetInitializers)(const OrtGraph *graph, const OrtValueInfo **initializers, size_t count);
    OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetNodes)(const OrtGraph *graph, const OrtNode **nodes, size_t count); /* in topological order */
    OrtStatus *(*Graph_GetParentNode)(const OrtGraph *graph, const OrtNode **node); /* null for the main graph */
    void *unused_347[2];
    OrtStatus *(*Node_GetName)(const OrtNode *node, const char **name);
    OrtStatus *(*Node_GetOperatorType)(const OrtNode *node, const char **type);
    OrtStatus *(*Node_GetDomain)(const OrtNode *node, const char **domain);
    void *unused_352[1];
    OrtStatus *(*Node_GetNumInputs)(const OrtNode *node, size_t *count);
    /* null where an optional input is not given */
    OrtStatus *(*Node_GetInputs)(const OrtNode *node, const OrtValueInfo **inputs, size_t count);
    OrtStatus *(*Node_GetNumOutputs)(const OrtNode *node, size_t *count);
    /* null if an optional output is not requested */
    OrtStatus *(*Node_GetOutputs)(const OrtNode *node, const OrtValueInfo **outputs, size_t count);
    OrtStatus *(*Node_GetNumImplicitInputs)(const OrtNode *node, size_t *count);
    OrtStatus *(*Node_GetImplicitInputs)(const OrtNode *node, const OrtValueInfo **inputs, size_t count);
    OrtStatus *(*Node_GetNumAttributes)(const OrtNode *node, size_t *count);
    OrtStatus *(*Node_GetAttributes)(const OrtNode *node, const OrtOpAttr **attributes, size_t count);
    void *unused_361[1];
    /* the caller releases it */
    OrtStatus *(*OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr *attribute, OrtValue **out);
    OrtStatus *(*OpAttr_GetType)(const OrtOpAttr *attribute, int32_t *out);
    OrtStatus *(*OpAttr_GetName)(const OrtOpAttr *attribute, const char **name);
    OrtStatus *(*Node_GetNumSubgraphs)(const OrtNode *node, size_t *count);
    OrtStatus *(*Node_GetSubgraphs)(const OrtNode *node, const OrtGraph **graphs, size_t count,
        const char **attributes);
    void *unused_367[1];
    OrtStatus *(*Node_GetEpName)(const OrtNode *node, const char **name); /* null where no provider has it yet */
    void (*ReleaseExternalInitializerInfo)(OrtExternalInitializerInfo *info);
    const OrtPathChar *(*ExternalInitializerInfo_GetFilePath)(const OrtExternalInitializerInfo *info);
    int64_t (*ExternalInitializerInfo_GetFileOffset)(const OrtExternalInitializerInfo *info);
    size_t (*ExternalInitializerInfo_GetByteSize)(const OrtExternalInitializerInfo *info);
    void *unused_373[5];
    OrtStatus *(*GetTensorData)(const OrtValue *value, const void **out);
    OrtStatus *(*GetSessionOptionsConfigEntries)(const OrtSessionOptions *options, OrtKeyValuePairs **out);
    void *unused_380[10];
    /* a tensor without a known rank has none */
    bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *info);
    void *unused_391[23];
    OrtStatus *(*GetTensorElementTypeAndShapeDataReference)(const OrtValue *value, int32_t *type,
        const int64_t **sizes, size_t *rank);
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version); /* null where the runtime is older */
    const char *(*GetVersionString)(void);
} OrtApiBase;

/* options for fusing nodes */
typedef struct OrtNodeFusionOptions {
    uint32_t ort_version_supported;
    bool drop_constant_initializers; /* constants are not inputs of the fused node, and the runtime may release them */
} OrtNodeFusionOptions;

/* the runtime's functions for providers */
struct OrtEpApi {
    OrtStatus *(*CreateEpDevice)(OrtEpFactory *factory, const OrtHardwareDevice *hardware,
        const OrtKeyValuePairs *metadata,
                                 const OrtKeyValuePairs *options, OrtEpDevice **out);
    void *unused_1[1];
    OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *info, const OrtNode *const *nodes,
        size_t count,
                                                    const OrtNodeFusionOptions *options);
    void *unused_3[1];
    const char *(*NodeComputeContext_NodeName)(const OrtNodeComputeContext *context);
};

/* the runtime's functions that make graphs */
struct OrtModelEditorApi {
    void *unused_0[6];
    /* the node takes the attributes; the caller releases the node, unless it passes it to a graph */
    OrtStatus *(*CreateNode)(const char *type, const char *domain, const char *name, const char *const *inputs,
        size_t input_count, const char *const *outputs, size_t output_count, OrtOpAttr **attributes,
        size_t attribute_count, OrtNode **out);
};

/* the computation of a fused node; the provider makes it */
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
struct OrtNodeComputeInfo {
    uint32_t ort_version_supported;
    OrtStatus *(*CreateState)(OrtNodeComputeInfo *self, OrtNodeComputeContext *context, void **state);
    OrtStatus *(*Compute)(OrtNodeComputeInfo *self, void *state, OrtKernelContext *context); /* from several threads */
    void (*ReleaseState)(OrtNodeComputeInfo *self, void *state);
};

/* a provider of one session, which our library makes; a null entry is not implemented */
struct OrtEp {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEp *self);
    OrtStatus *(*GetCapability)(OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *info);
    OrtStatus *(*Compile)(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **context_nodes);
    void (*ReleaseNodeComputeInfos)(OrtEp *self, OrtNodeComputeInfo **infos, size_t count);
    OrtStatus *(*GetPreferredDataLayout)(OrtEp *self, int32_t *layout);
    OrtStatus *(*ShouldConvertDataLayoutForOp)(OrtEp *self, const char *domain, const char *type, int32_t layout,
        int *out);
    OrtStatus *(*SetDynamicOptions)(OrtEp *self, const char *const *keys, const char *const *values, size_t count);
    OrtStatus *(*OnRunStart)(OrtEp *self, const OrtRunOptions *options);
    OrtStatus *(*OnRunEnd)(OrtEp *self, const OrtRunOptions *options, bool synchronise);
    OrtStatus *(*CreateAllocator)(OrtEp *self, const OrtMemoryInfo *memory, OrtAllocator **out);
    OrtStatus *(*CreateSyncStreamForDevice)(OrtEp *self, const OrtMemoryDevice *device, OrtSyncStreamImpl **out);
    const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *self, const OrtGraph *graph);
    OrtStatus *(*GetKernelRegistry)(OrtEp *self, const OrtKernelRegistry **out); /* from version 24 on */
};

/* the factory of providers, which the library makes */
struct OrtEpFactory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEpFactory *self);
    const char *(*GetVendor)(const OrtEpFactory *self);
    OrtStatus *(*GetSupportedDevices)(OrtEpFactory *self, const OrtHardwareDevice *const *hardware, size_t count,
                                      OrtEpDevice **devices, size_t most, size_t *made);
    OrtStatus *(*CreateEp)(OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                           const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
                           const OrtLogger *logger, OrtEp **out);
    void (*ReleaseEp)(OrtEpFactory *self, OrtEp *ep);
    uint32_t (*GetVendorId)(const OrtEpFactory *self);
    const char *(*GetVersion)(const OrtEpFactory *self);
    OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                                                         size_t count, const char *info, int32_t *out);
    OrtStatus *(*CreateAllocator)(OrtEpFactory *self, const OrtMemoryInfo *memory, const OrtKeyValuePairs *options,
                                  OrtAllocator **out);
    void (*ReleaseAllocator)(OrtEpFactory *self, OrtAllocator *allocator);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *self, OrtDataTransferImpl **out);
    bool (*IsStreamAware)(const OrtEpFactory *self);
    OrtStatus *(*CreateSyncStreamForDevice)(OrtEpFactory *self, const OrtMemoryDevice *device,
                                            const OrtKeyValuePairs *options, OrtSyncStreamImpl **out);
    OrtStatus *(*SetEnvironmentOptions)(OrtEpFactory *self, const OrtKeyValuePairs *options); /* from version 24 on */
};

#endif
