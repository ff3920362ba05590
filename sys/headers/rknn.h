/* The part of Rockchip's NPU runtime (librknnrt on a board, librknn_api for a connected board) that we call.
 * We wrote down names, layouts and codes as facts, in our own words. `cargo xtask bindgen` generates the
 * Rust declarations; sys/tests/rknn_facts.rs checks sizes and offsets against the recorded facts.
 *
 * Layouts are those of release 2.3.2 on 64-bit machines. A call returns 0 or one of the negative codes
 * below.
 */
#ifndef POLYCHIP_SYS_RKNN_H
#define POLYCHIP_SYS_RKNN_H

#include <stdint.h>

enum {
    RKNN_MAX_DIMS = 16,
    RKNN_MAX_NAME = 256,
};

/* results of calls */
enum {
    RKNN_OK = 0,
    RKNN_FAIL = -1,
    RKNN_TIMEOUT = -2,
    RKNN_NO_DEVICE = -3,
    RKNN_NO_MEMORY = -4,
    RKNN_BAD_PARAMETER = -5,
    RKNN_BAD_MODEL = -6,
    RKNN_BAD_CONTEXT = -7,
    RKNN_BAD_INPUT = -8,
    RKNN_BAD_OUTPUT = -9,
    RKNN_OTHER_DEVICE = -10,
    RKNN_OTHER_PRECOMPILE = -11,
    RKNN_OTHER_OPTIMISATION = -12,
    RKNN_OTHER_PLATFORM = -13,
};

/* flags of init */
enum {
    RKNN_FLAG_COLLECT_TIMES = 8,
    RKNN_FLAG_NO_INPUT_FLUSH = 0x4000,
    RKNN_FLAG_NO_OUTPUT_INVALIDATE = 0x8000,
};

/* queries, each with the record that it fills */
enum {
    RKNN_ASK_COUNTS = 0,        /* rknn_counts */
    RKNN_ASK_INPUT = 1,         /* rknn_tensor_attr, whose index the caller sets */
    RKNN_ASK_OUTPUT = 2,        /* rknn_tensor_attr, whose index the caller sets */
    RKNN_ASK_TIMES = 3,         /* rknn_times; only with RKNN_FLAG_COLLECT_TIMES */
    RKNN_ASK_RUN_TIME = 4,      /* rknn_run_time */
    RKNN_ASK_VERSIONS = 5,      /* rknn_versions */
    RKNN_ASK_MEMORY = 6,        /* rknn_memory_sizes */
    RKNN_ASK_CUSTOM_STRING = 7, /* rknn_custom_string */
};

/* element types */
enum {
    RKNN_TYPE_F32 = 0,
    RKNN_TYPE_F16 = 1,
    RKNN_TYPE_I8 = 2,
    RKNN_TYPE_U8 = 3,
    RKNN_TYPE_I16 = 4,
    RKNN_TYPE_U16 = 5,
    RKNN_TYPE_I32 = 6,
    RKNN_TYPE_U32 = 7,
    RKNN_TYPE_I64 = 8,
    RKNN_TYPE_BOOL = 9,
};

/* orders of a tensor's elements */
enum {
    RKNN_ORDER_NCHW = 0,
    RKNN_ORDER_NHWC = 1,
    RKNN_ORDER_NC1HWC2 = 2,
    RKNN_ORDER_UNDEFINED = 3,
};

/* quantisation of a tensor: qnt_type */
enum {
    RKNN_QUANT_NONE = 0,
    RKNN_QUANT_DFP = 1,
    RKNN_QUANT_AFFINE = 2,
};

/* cores for set_core_mask; add the values */
enum {
    RKNN_CORE_AUTO = 0,
    RKNN_CORE_0 = 1,
    RKNN_CORE_1 = 2,
    RKNN_CORE_2 = 4,
};

/* directions of mem_sync */
enum {
    RKNN_SYNC_TO_DEVICE = 1,
    RKNN_SYNC_FROM_DEVICE = 2,
};

typedef uint64_t rknn_context;

/* description of an input or output */
typedef struct {
    uint32_t index;
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS];
    char name[RKNN_MAX_NAME];
    uint32_t n_elems;
    uint32_t size;
    int32_t fmt;
    int32_t type;
    int32_t qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride;
    uint32_t size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

/* memory of a context */
typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    int32_t offset;
    uint32_t size;
    uint32_t flags;
    void *priv_data;
} rknn_tensor_mem;

/* an input that is copied */
typedef struct {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through;
    int32_t type;
    int32_t fmt;
} rknn_input;

/* an output that is copied */
typedef struct {
    uint8_t want_float;
    uint8_t is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

typedef struct {
    uint64_t ctx;
    int32_t real_model_offset;
    uint32_t real_model_size;
    int32_t model_buffer_fd;
    uint32_t model_buffer_flags;
    uint8_t reserved[112];
} rknn_init_extend;

typedef struct {
    uint64_t frame_id;
    int32_t non_block;
    int32_t timeout_ms;
    int32_t fence_fd;
} rknn_run_extend;

typedef struct {
    uint64_t frame_id;
} rknn_output_extend;

typedef struct {
    uint32_t n_input;
    uint32_t n_output;
} rknn_counts;

typedef struct {
    char *data;
    uint64_t length;
} rknn_times;

typedef struct {
    int64_t microseconds;
} rknn_run_time;

typedef struct {
    char api[RKNN_MAX_NAME];
    char driver[RKNN_MAX_NAME];
} rknn_versions;

typedef struct {
    uint32_t weight_bytes;
    uint32_t internal_bytes;
    uint64_t dma_bytes;
    uint32_t sram_bytes;
    uint32_t free_sram_bytes;
    uint32_t reserved[10];
} rknn_memory_sizes;

typedef struct {
    char text[1024];
} rknn_custom_string;

/* If `size` is 0, `model` is a path. */
int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flags, rknn_init_extend *extend);
/* Makes another context of the same model, which shares the weights. */
int rknn_dup_context(rknn_context *context, rknn_context *out);
int rknn_destroy(rknn_context context);
int rknn_query(rknn_context context, int32_t command, void *info, uint32_t size);
int rknn_inputs_set(rknn_context context, uint32_t count, rknn_input *inputs);
int rknn_set_core_mask(rknn_context context, int32_t mask);
int rknn_run(rknn_context context, rknn_run_extend *extend);
int rknn_outputs_get(rknn_context context, uint32_t count, rknn_output *outputs, rknn_output_extend *extend);
int rknn_outputs_release(rknn_context context, uint32_t count, rknn_output *outputs);
rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size);
/* `virt` is the address of the file's first byte. The memory is `size` bytes from `offset` on. */
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context context, int32_t fd, void *virt, uint32_t size, int32_t offset);
int rknn_destroy_mem(rknn_context context, rknn_tensor_mem *memory);
int rknn_set_io_mem(rknn_context context, rknn_tensor_mem *memory, rknn_tensor_attr *attr);
int rknn_mem_sync(rknn_context context, rknn_tensor_mem *memory, int32_t direction);

#endif
