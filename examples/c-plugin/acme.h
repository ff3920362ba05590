/* What the files of the plugin share: the objects behind the contract's opaque handles.
 *
 * Invariants:
 * 1. A handle is a pointer to the struct of its name here; the contract declares those names.
 * 2. A record of the host is read through `acme_read` and written through `acme_write`, which keep to
 *    the bytes that both sides know. Nothing else touches one.
 * 3. Each call that can fail returns what `acme_fail` returned, or `POLYCHIP_STATUS_OK`.
 */
#ifndef ACME_H
#define ACME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "polychip_plugin.h"

#define ACME_NAME "acme"
#define ACME_VERSION "1.0.0"
/* Raised with every change of the blobs or of the figures; part of each blob. */
#define ACME_BUILD_ID "acme-1.0.0-blob1"

/* Text of a literal. */
#define ACME_TEXT(literal) \
    { (const uint8_t *)(literal), sizeof(literal) - 1 }

struct polychip_instance {
    const struct polychip_host_services *services; /* outlives the instance */
    struct polychip_host_services known;           /* the calls of `services` that both sides know */
};

struct polychip_device {
    struct polychip_instance *instance;
    pthread_t thread;
    pthread_mutex_t lock;        /* guards the fields below */
    pthread_cond_t work;         /* `head` is set, or `closing` */
    struct polychip_fence *head; /* the run that starts next */
    struct polychip_fence *tail;
    struct polychip_fence *spare; /* fences that nobody holds */
    bool closing;
};

struct polychip_buffer {
    uint8_t *data;
    uint64_t bytes;
    bool owned;
    atomic_bool accessed; /* between begin_access and end_access */
    atomic_uint runs;     /* runs that use the buffer */
};

struct polychip_blob {
    uint8_t *data;
    size_t bytes;
};

/* Where a tensor is during a run. */
enum acme_place { IN_PORT = 0, IN_CONSTANTS = 1, IN_ARENA = 2 };

struct acme_operand {
    uint32_t place;  /* enum acme_place */
    uint32_t port;   /* of a port */
    uint64_t offset; /* in the constants or in the arena, in bytes */
    uint32_t rank;
    uint32_t reserved;
    int64_t dims[POLYCHIP_MAX_RANK];
};

/* One operation: POLYCHIP_OP_IDENTITY, _RELU or _ADD. */
struct acme_step {
    uint32_t op;
    uint32_t input_count;
    struct acme_operand inputs[2];
    struct acme_operand output;
};

struct acme_port {
    uint32_t flags;
    uint32_t state_port;
    uint32_t rank;
    uint32_t reserved;
    uint64_t bytes;
    int64_t dims[POLYCHIP_MAX_RANK];
};

struct polychip_executable {
    struct polychip_device *device;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t step_count;
    struct acme_port *ports;
    struct acme_step *steps;
    const uint8_t *constants; /* in `blob`, or in the bytes that the host keeps */
    uint64_t constant_bytes;
    uint8_t *arena;
    uint64_t arena_bytes;
    uint8_t *blob; /* owned, or null */
};

/* A buffer that a run uses, at its port. */
struct acme_bound {
    struct polychip_buffer *buffer;
    uint8_t *data;
};

struct polychip_fence {
    struct polychip_device *device;
    struct polychip_fence *next; /* in the queue, or among the spare ones; of the device */
    atomic_uint holders;

    /* Of the run; the host's thread writes them before the queue has the fence. */
    struct polychip_executable *executable;
    struct acme_bound *bound; /* per port */
    uint32_t bound_count;
    uint32_t bound_capacity;
    struct polychip_fence **waits;
    uint64_t wait_count;
    uint64_t wait_capacity;

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t ended;
    bool signalled;
    uint32_t status;
    const char *words; /* static */
    struct polychip_timing timing;
    struct acme_listener *listeners;
};

/* A part on its way to a blob. */
struct acme_lowering {
    struct polychip_graph graph;
    struct acme_operand *homes; /* per tensor; `reserved` is 1 where the tensor has one */
    struct acme_port *ports;
    struct acme_step *steps;
    uint32_t step_count;
    uint64_t constant_bytes;
    uint64_t arena_bytes;
};

/* record.c */
/* The records of the contract that this plugin reads or fills in. */
enum acme_record {
    ACME_BINDING,
    ACME_COMPILE_OPTIONS,
    ACME_DEVICE_INFO,
    ACME_ERROR,
    ACME_EXECUTABLE_INFO,
    ACME_GRAPH,
    ACME_HOST_SERVICES,
    ACME_LOAD_SOURCE,
    ACME_MEMORY,
    ACME_NODE,
    ACME_PLUGIN_INFO,
    ACME_PORT,
    ACME_PORT_REQUEST,
    ACME_SUBMIT,
    ACME_SUPPORT,
    ACME_TENSOR,
    ACME_TIMING,
};
uint32_t acme_fail(struct polychip_error *error, uint32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint32_t acme_fail_at(struct polychip_error *error, uint32_t status, uint32_t node, uint32_t tensor,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
bool acme_read(void *mine, enum acme_record record, const void *theirs);
bool acme_write(void *theirs, enum acme_record record, const void *mine);
uint64_t acme_now_ns(const struct polychip_instance *instance, bool *known);

/* caps.c */
uint32_t acme_query_support(struct polychip_device *device, const struct polychip_graph *graph,
                            struct polychip_support *out_support, uint64_t stride,
                            struct polychip_error *error);
/* Reads and checks a graph's own arrays; tensors and nodes are read one by one. */
uint32_t acme_graph_read(struct polychip_graph *out, const struct polychip_graph *graph,
                         struct polychip_error *error);
bool acme_node_at(struct polychip_node *out, const struct polychip_graph *graph, uint64_t index);
bool acme_tensor_at(struct polychip_tensor *out, const struct polychip_graph *graph, uint64_t index);
/* One of POLYCHIP_SUPPORT_*, with words; or a status other than OK for a broken graph. */
uint32_t acme_supports(const struct polychip_graph *graph, uint32_t index, uint32_t *out_reason,
                       char *detail, size_t capacity, struct polychip_error *error);
/* False where the tensor cannot be held; elements and bytes of a static f32 tensor otherwise. */
bool acme_extent(uint32_t rank, const int64_t *dims, uint64_t *out_bytes);
uint64_t acme_operand_bytes(const struct acme_operand *operand);
bool acme_broadcasts(const struct acme_operand *input, const struct acme_operand *output);

/* lower.c */
uint32_t acme_compile(struct polychip_device *device, const struct polychip_graph *graph,
                      const struct polychip_compile_options *options,
                      struct polychip_blob **out_blob, struct polychip_error *error);

/* blob.c */
uint32_t acme_blob_write(const struct acme_lowering *lowering, struct polychip_blob **out_blob,
                         struct polychip_error *error);
uint32_t acme_blob_bytes(struct polychip_blob *blob, struct polychip_bytes *out_bytes,
                         struct polychip_error *error);
void acme_blob_destroy(struct polychip_blob *blob);
uint32_t acme_load(struct polychip_device *device, const struct polychip_load_source *source,
                   struct polychip_executable **out_executable, struct polychip_error *error);
uint32_t acme_executable_info(struct polychip_executable *executable,
                              struct polychip_executable_info *out_info,
                              struct polychip_error *error);
uint32_t acme_port_info(struct polychip_executable *executable, uint32_t port,
                        struct polychip_port *out_port, struct polychip_error *error);
void acme_executable_destroy(struct polychip_executable *executable);

/* buffer.c */
uint32_t acme_buffer_create(struct polychip_device *device, const struct polychip_memory *wanted,
                            struct polychip_buffer **out_buffer, struct polychip_error *error);
uint32_t acme_buffer_import(struct polychip_device *device, const struct polychip_memory *memory,
                            struct polychip_buffer **out_buffer, struct polychip_error *error);
uint32_t acme_buffer_begin_access(struct polychip_buffer *buffer, uint32_t access, uint64_t offset,
                                  uint64_t bytes, uint8_t **out_data, struct polychip_error *error);
uint32_t acme_buffer_end_access(struct polychip_buffer *buffer, struct polychip_error *error);
void acme_buffer_destroy(struct polychip_buffer *buffer);

/* exec.c */
bool acme_queue_open(struct polychip_device *device);
void acme_queue_close(struct polychip_device *device);
uint32_t acme_execute(struct polychip_executable *executable, const struct polychip_submit *submit,
                      struct polychip_fence **out_fence, struct polychip_error *error);

/* fence.c */
struct polychip_fence *acme_fence_take(struct polychip_device *device);
void acme_fence_release(struct polychip_fence *fence);
void acme_fence_signal(struct polychip_fence *fence, uint32_t status, const char *words);
uint32_t acme_fence_join(struct polychip_fence *fence);
void acme_fence_free(struct polychip_fence *fence);
uint32_t acme_fence_wait(struct polychip_fence *fence, uint64_t timeout_ns,
                         struct polychip_error *error);
uint32_t acme_fence_on_signal(struct polychip_fence *fence,
                              void (*signalled)(void *user, uint32_t status), void *user,
                              struct polychip_error *error);
uint32_t acme_fence_timing(struct polychip_fence *fence, struct polychip_timing *out_timing,
                           struct polychip_error *error);
void acme_fence_destroy(struct polychip_fence *fence);

/* kernel.c */
void acme_step_run(const struct acme_step *step, const uint8_t *const inputs[2], uint8_t *output);

#endif
