/*
 * The interface of the xyz driver, version 1.2. This header and xyz_driver.c take the place of your
 * SDK: replace both, then src/driver.
 *
 * Threads: every call may be made from any thread at any time, except that a program runs once at a
 * time, and that closing, freeing or unloading an object is the last call with it.
 * Results: each call that can fail returns one of XYZ_OK and its neighbours. A failed call writes no
 * output and leaves a text for xyz_last_error.
 */
#ifndef XYZ_DRIVER_H
#define XYZ_DRIVER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XYZ_VERSION_MAJOR 1
#define XYZ_VERSION_MINOR 2

enum {
    XYZ_OK = 0,
    XYZ_BAD_ARGUMENT = 1,
    XYZ_UNSUPPORTED = 2,   /* the chip cannot do this */
    XYZ_OUT_OF_MEMORY = 3,
    XYZ_BAD_PROGRAM = 4,   /* bytes that are not a program of this driver */
    XYZ_INTERRUPTED = 5,   /* xyz_session_interrupt ended the run */
    XYZ_DEVICE_LOST = 6    /* every later call of the session fails, too */
};

/* The version: major << 16 | minor. Another major version is another interface; a later minor one only
 * adds calls. */
uint32_t xyz_version(void);

/* What the calling thread's last failed call complains about. Valid until its next call. */
const char *xyz_last_error(void);

/* Number of chips in this machine. */
int32_t xyz_device_count(uint32_t *out_count);

/* ---- A chip in use ---- */

typedef struct xyz_session xyz_session;

typedef struct xyz_device_info {
    char name[64];
    char firmware[32];
    uint64_t memory_bytes;     /* of the chip */
    uint64_t bytes_per_s;      /* peak rate of its memory */
    uint64_t macs_per_s;       /* peak multiply-adds of f32 */
    uint32_t import_alignment; /* of host memory that the chip uses in place, in bytes */
    uint32_t is_simulated;     /* 1: no chip; the processor computes */
} xyz_device_info;

int32_t xyz_session_open(uint32_t device, xyz_session **out_session);

/* Everything made in the session must be gone. */
void xyz_session_close(xyz_session *session);

int32_t xyz_session_info(xyz_session *session, xyz_device_info *out_info);

/* Ends the run in progress, or else the next one, as soon as the chip can. */
int32_t xyz_session_interrupt(xyz_session *session);

/* ---- Memory ---- */

typedef struct xyz_memory xyz_memory;

/* Memory of the chip. */
int32_t xyz_memory_allocate(xyz_session *session, uint64_t bytes, xyz_memory **out_memory);

/* Host memory that the chip uses in place. It must stay valid until xyz_memory_free.
 * XYZ_UNSUPPORTED if the address is no multiple of import_alignment. */
int32_t xyz_memory_import(xyz_session *session, void *host, uint64_t bytes, xyz_memory **out_memory);

/* Copies between the host and the chip. Blocks. */
int32_t xyz_memory_write(xyz_memory *memory, uint64_t offset, const void *from, uint64_t bytes);
int32_t xyz_memory_read(xyz_memory *memory, uint64_t offset, void *to, uint64_t bytes);

void xyz_memory_free(xyz_memory *memory);

/* ---- The compiler ---- */

#define XYZ_MAX_RANK 4

typedef struct xyz_tensor {
    uint32_t rank;
    uint32_t dims[XYZ_MAX_RANK];
    uint32_t is_constant;
    const float *elements; /* of a constant; xyz_graph_check does not read them */
} xyz_tensor;

/* Kinds of operations, on tensors of f32. */
enum {
    XYZ_COPY = 1,
    XYZ_RELU = 2,
    XYZ_ADD = 3,
    XYZ_MAX_POOL = 4 /* of images [n, c, h, w] */
};

typedef struct xyz_operation {
    uint32_t kind;
    uint32_t inputs[2]; /* tensors; the second only for XYZ_ADD */
    uint32_t output;    /* a tensor that is no constant and that no other operation writes */
    /* XYZ_MAX_POOL: by axis, height first */
    uint32_t kernel[2];
    uint32_t strides[2];
    uint32_t dilations[2];
    uint32_t pads[2]; /* before the image */
} xyz_operation;

typedef struct xyz_graph {
    const xyz_tensor *tensors;
    uint32_t tensor_count;
    const xyz_operation *operations; /* in the order in which they run */
    uint32_t operation_count;
    const uint32_t *ports; /* tensors that each run binds to memory; none twice, no constants */
    uint32_t port_count;
} xyz_graph;

/* Whether xyz_graph_compile would take this graph. Cheap. */
int32_t xyz_graph_check(xyz_session *session, const xyz_graph *graph);

/* Compiles a graph to bytes that this version of the driver loads in any process. */
int32_t xyz_graph_compile(xyz_session *session, const xyz_graph *graph, uint8_t **out_bytes,
                          uint64_t *out_size);
void xyz_bytes_free(uint8_t *bytes);

/* ---- Programs ---- */

typedef struct xyz_program xyz_program;

typedef struct xyz_program_info {
    uint64_t constant_bytes;
    uint64_t scratch_bytes; /* for tensors between operations */
    uint32_t operation_count;
    uint32_t port_count;
} xyz_program_info;

int32_t xyz_program_load(xyz_session *session, const void *bytes, uint64_t size,
                         xyz_program **out_program, xyz_program_info *out_info);
void xyz_program_unload(xyz_program *program);

typedef struct xyz_binding {
    xyz_memory *memory;
    uint64_t offset; /* of the tensor's first element; a multiple of 4 */
} xyz_binding;

/* Runs the program and waits for its end. `bindings` has an entry for each port, in order. An output may
 * share memory with no other port. `out_run_ns` is the time on the chip. `out_step_ns`, if not null, takes
 * the time of each operation. */
int32_t xyz_program_run(xyz_program *program, const xyz_binding *bindings, uint64_t *out_run_ns,
                        uint64_t *out_step_ns);

/* ---- Sensors (since version 1.1) ---- */

enum {
    XYZ_SENSOR_TEMPERATURE = 1,
    XYZ_SENSOR_POWER = 2,
    XYZ_SENSOR_ENERGY = 4,
    XYZ_SENSOR_MEMORY = 8
};

typedef struct xyz_sensors {
    uint32_t valid; /* which sensors the chip has; the fields of the others mean nothing */
    int32_t temperature_mc;     /* thousandths of a degree Celsius */
    uint64_t power_mw;
    uint64_t energy_uj;         /* since the driver was loaded */
    uint64_t memory_used_bytes;
} xyz_sensors;

int32_t xyz_sensors_read(xyz_session *session, xyz_sensors *out_sensors);

#ifdef __cplusplus
}
#endif

#endif
