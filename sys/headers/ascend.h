/* The part of AscendCL (libascendcl), Huawei's runtime for Ascend boards, that we call. We wrote down
 * names, layouts and codes as facts, in our own words. `cargo xtask bindgen` generates the Rust
 * declarations; sys/tests/ascend_facts.rs checks sizes and offsets against the recorded facts.
 *
 * Signatures are those of API 1.x on 64-bit machines. A call returns 0 or one of the positive codes
 * below. Handles are opaque. Calls without a device argument use the thread's current context.
 */
#ifndef POLYCHIP_SYS_ASCEND_H
#define POLYCHIP_SYS_ASCEND_H

#include <stddef.h>
#include <stdint.h>

enum {
    ACL_MAX_AXES = 128,
    ACL_MAX_NAME = 128,
};

/* results of calls */
enum {
    ACL_OK = 0,
    ACL_BAD_PARAMETER = 100000,
    ACL_NOT_INITIALISED = 100001,
    ACL_INITIALISED_BEFORE = 100002,
    ACL_BAD_MODEL_ID = 100011,
    ACL_RT_BAD_PARAMETER = 107000,
    ACL_RT_BAD_DEVICE = 107001,
    ACL_RT_NO_CONTEXT = 107002,
    ACL_RT_OTHER_CONTEXT = 107003,
    ACL_RT_TASK_ABORTED = 107022,
    ACL_GE_BAD_PARAMETER = 145000,
    ACL_GE_BAD_MODEL_ID = 145003,
    ACL_GE_BAD_MODEL_SIZE = 145006,
    ACL_NO_HOST_MEMORY = 200000,
    ACL_NOT_OFFERED = 200001,
    ACL_RT_NOT_OFFERED = 207000,
    ACL_RT_NO_MEMORY = 207001,
    ACL_RT_NO_DEVICE = 207004,
    ACL_RT_NO_RESOURCE = 207005,
    ACL_GE_NO_MEMORY = 245000,
    ACL_INTERNAL = 500000,
    ACL_GE_FAILED = 500002,
    ACL_RT_INTERNAL = 507000,
    ACL_RT_LOST_HEARTBEAT = 507010,
    ACL_RT_MODEL_FAILED = 507011,
    ACL_RT_CORE_TIMEOUT = 507014,
    ACL_RT_CORE_EXCEPTION = 507015,
    ACL_RT_DRIVER_INTERNAL = 507899,
    ACL_GE_INTERNAL = 545000,
};

/* policies of aclrtMalloc */
enum {
    ACL_MALLOC_HUGE_FIRST = 0,
};

/* directions of copies */
enum {
    ACL_COPY_HOST_TO_DEVICE = 1,
    ACL_COPY_DEVICE_TO_HOST = 2,
    ACL_COPY_DEVICE_TO_DEVICE = 3,
};

/* kinds of memory for aclrtGetMemInfo */
enum {
    ACL_MEMORY_DDR = 0,
    ACL_MEMORY_HBM = 1,
};

/* element types */
enum {
    ACL_TYPE_F32 = 0,
    ACL_TYPE_F16 = 1,
    ACL_TYPE_I8 = 2,
    ACL_TYPE_I32 = 3,
    ACL_TYPE_U8 = 4,
    ACL_TYPE_BF16 = 27,
};

typedef struct {
    char name[ACL_MAX_NAME];
    size_t count;
    /* -1: unknown before the run */
    int64_t extents[ACL_MAX_AXES];
} aclmdlIODims;

typedef void *aclrtContext;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef struct aclmdlDesc aclmdlDesc;
typedef struct aclmdlDataset aclmdlDataset;
typedef struct aclDataBuffer aclDataBuffer;

/* `configuration` is a path, or null. Once per process. */
int aclInit(const char *configuration);
/* Message of the thread's last error; owned by the library. */
const char *aclGetRecentErrMsg(void);
int aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);
int aclrtGetDeviceCount(uint32_t *count);
/* Name of the chip, as for atc's --soc_version; null if unknown. */
const char *aclrtGetSocName(void);

/* Makes a context, which becomes the thread's current one. */
int aclrtCreateContext(aclrtContext *context, int32_t device);
int aclrtDestroyContext(aclrtContext context);
int aclrtSetCurrentContext(aclrtContext context);
int aclrtCreateStream(aclrtStream *stream);
int aclrtDestroyStream(aclrtStream stream);
int aclrtSynchronizeStream(aclrtStream stream);
int aclrtCreateEvent(aclrtEvent *event);
int aclrtDestroyEvent(aclrtEvent event);
int aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
int aclrtEventElapsedTime(float *milliseconds, aclrtEvent start, aclrtEvent end);

int aclrtMalloc(void **memory, size_t bytes, int policy);
int aclrtFree(void *memory);
int aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, int kind);
int aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, int kind, aclrtStream stream);
int aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total_bytes);

int aclmdlQuerySizeFromMem(const void *model, size_t bytes, size_t *work_bytes, size_t *weight_bytes);
int aclmdlLoadFromMemWithMem(const void *model, size_t bytes, uint32_t *id, void *work, size_t work_bytes, void *weights,
                             size_t weight_bytes);
int aclmdlUnload(uint32_t id);
aclmdlDesc *aclmdlCreateDesc(void);
int aclmdlDestroyDesc(aclmdlDesc *description);
int aclmdlGetDesc(aclmdlDesc *description, uint32_t id);
size_t aclmdlGetNumInputs(aclmdlDesc *description);
size_t aclmdlGetNumOutputs(aclmdlDesc *description);
size_t aclmdlGetInputSizeByIndex(aclmdlDesc *description, size_t index);
size_t aclmdlGetOutputSizeByIndex(aclmdlDesc *description, size_t index);
int aclmdlGetInputDims(const aclmdlDesc *description, size_t index, aclmdlIODims *dims);
int aclmdlGetOutputDims(const aclmdlDesc *description, size_t index, aclmdlIODims *dims);
int aclmdlGetInputDataType(const aclmdlDesc *description, size_t index);
int aclmdlGetOutputDataType(const aclmdlDesc *description, size_t index);

aclDataBuffer *aclCreateDataBuffer(void *memory, size_t bytes);
int aclUpdateDataBuffer(aclDataBuffer *buffer, void *memory, size_t bytes);
int aclDestroyDataBuffer(const aclDataBuffer *buffer);
aclmdlDataset *aclmdlCreateDataset(void);
int aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *buffer);
int aclmdlDestroyDataset(const aclmdlDataset *dataset);
int aclmdlExecuteAsync(uint32_t id, const aclmdlDataset *inputs, aclmdlDataset *outputs, aclrtStream stream);

#endif
