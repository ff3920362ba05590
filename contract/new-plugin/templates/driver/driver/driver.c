/*
 * A driver without a chip: it keeps the interface of xyz_driver.h and computes on the processor. It
 * takes the place of your library, so that the plugin has a real library to load. For Linux and macOS.
 *
 * With -DXYZ_FIRST_SESSION_HANGS, runs of the first session never end, not even when they are
 * interrupted, as if the chip hung: the plugin's test of resets builds it so.
 */
#define _POSIX_C_SOURCE 200809L
#include "xyz_driver.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMORY_BYTES (1ull << 30)
#define IMPORT_ALIGNMENT 64
#define MAX_WINDOW 64          /* elements of a pool's kernel */
#define CHECK_EVERY 4096       /* elements between two looks at interrupts */
#define NO_PORT UINT32_MAX
#define MAGIC 0x31575a58u      /* of compiled programs */

/* The chip, which all sessions share. */
static _Atomic uint64_t memory_used;
static _Atomic uint64_t energy_nj;
#ifdef XYZ_FIRST_SESSION_HANGS
static atomic_flag has_session = ATOMIC_FLAG_INIT;
#endif

static _Thread_local char last_error[256];

struct xyz_session {
    atomic_int interrupted;
    int hangs;
    /* readings of the power sensor: the mean since the last one */
    _Atomic uint64_t read_ns, read_energy_nj;
};

struct xyz_memory {
    uint8_t *data;
    uint64_t bytes;
    int is_own;
};

typedef struct tensor {
    uint32_t rank;
    uint32_t dims[XYZ_MAX_RANK];
    uint32_t port; /* NO_PORT: constant or scratch */
    uint32_t is_constant;
    uint64_t offset; /* of constant and scratch elements, in elements */
} tensor;

/* A compiled program is this header, then tensors, operations, and the elements of constants. */
typedef struct header {
    uint32_t magic;
    uint32_t version;
    uint32_t tensor_count;
    uint32_t operation_count;
    uint32_t port_count;
    uint32_t zero;
    uint64_t constant_elements;
    uint64_t scratch_elements;
} header;

struct xyz_program {
    xyz_session *session;
    header of;
    tensor *tensors;
    xyz_operation *operations;
    float *constants;
    float *scratch;
    float **places; /* of each tensor, in a run */
    uint64_t held_bytes;
};

static int32_t fail(int32_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return code;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Takes bytes of the chip's memory, or fails. */
static int32_t reserve(uint64_t bytes) {
    uint64_t used = atomic_load(&memory_used);
    do {
        if (bytes > MEMORY_BYTES - used)
            return fail(XYZ_OUT_OF_MEMORY, "%llu bytes do not fit the chip: %llu of %llu are in use",
                        (unsigned long long)bytes, (unsigned long long)used,
                        (unsigned long long)MEMORY_BYTES);
    } while (!atomic_compare_exchange_weak(&memory_used, &used, used + bytes));
    return XYZ_OK;
}

uint32_t xyz_version(void) { return XYZ_VERSION_MAJOR << 16 | XYZ_VERSION_MINOR; }

const char *xyz_last_error(void) { return last_error; }

int32_t xyz_device_count(uint32_t *out_count) {
    *out_count = 1;
    return XYZ_OK;
}

int32_t xyz_session_open(uint32_t device, xyz_session **out_session) {
    if (device != 0)
        return fail(XYZ_BAD_ARGUMENT, "device %u of 1", device);
    xyz_session *session = calloc(1, sizeof *session);
    if (!session)
        return fail(XYZ_OUT_OF_MEMORY, "no host memory for a session");
#ifdef XYZ_FIRST_SESSION_HANGS
    session->hangs = !atomic_flag_test_and_set(&has_session);
#endif
    atomic_store(&session->read_ns, now_ns());
    atomic_store(&session->read_energy_nj, atomic_load(&energy_nj));
    *out_session = session;
    return XYZ_OK;
}

void xyz_session_close(xyz_session *session) { free(session); }

int32_t xyz_session_info(xyz_session *session, xyz_device_info *out_info) {
    (void)session;
    xyz_device_info info = {
        .name = "xyz, simulated",
        .firmware = "none",
        .memory_bytes = MEMORY_BYTES,
        .bytes_per_s = 1000000000u,
        .macs_per_s = 1000000000u,
        .import_alignment = IMPORT_ALIGNMENT,
        .is_simulated = 1,
    };
    *out_info = info;
    return XYZ_OK;
}

int32_t xyz_session_interrupt(xyz_session *session) {
    atomic_store(&session->interrupted, 1);
    return XYZ_OK;
}

int32_t xyz_memory_allocate(xyz_session *session, uint64_t bytes, xyz_memory **out_memory) {
    (void)session;
    int32_t code = reserve(bytes);
    if (code != XYZ_OK)
        return code;
    xyz_memory *memory = calloc(1, sizeof *memory);
    void *data = NULL;
    if (!memory || posix_memalign(&data, IMPORT_ALIGNMENT, bytes ? (size_t)bytes : 1) != 0) {
        free(memory);
        atomic_fetch_sub(&memory_used, bytes);
        return fail(XYZ_OUT_OF_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    }
    memset(data, 0, (size_t)bytes);
    *memory = (xyz_memory){.data = data, .bytes = bytes, .is_own = 1};
    *out_memory = memory;
    return XYZ_OK;
}

int32_t xyz_memory_import(xyz_session *session, void *host, uint64_t bytes, xyz_memory **out_memory) {
    (void)session;
    if ((uintptr_t)host % IMPORT_ALIGNMENT != 0)
        return fail(XYZ_UNSUPPORTED, "host memory at %p; the chip needs a multiple of %d bytes", host,
                    IMPORT_ALIGNMENT);
    xyz_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return fail(XYZ_OUT_OF_MEMORY, "no host memory for an import");
    *memory = (xyz_memory){.data = host, .bytes = bytes};
    *out_memory = memory;
    return XYZ_OK;
}

static int32_t check_range(const xyz_memory *memory, uint64_t offset, uint64_t bytes) {
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return fail(XYZ_BAD_ARGUMENT, "%llu bytes at %llu of memory of %llu bytes",
                    (unsigned long long)bytes, (unsigned long long)offset,
                    (unsigned long long)memory->bytes);
    return XYZ_OK;
}

int32_t xyz_memory_write(xyz_memory *memory, uint64_t offset, const void *from, uint64_t bytes) {
    int32_t code = check_range(memory, offset, bytes);
    if (code == XYZ_OK && bytes != 0)
        memcpy(memory->data + offset, from, (size_t)bytes);
    return code;
}

int32_t xyz_memory_read(xyz_memory *memory, uint64_t offset, void *to, uint64_t bytes) {
    int32_t code = check_range(memory, offset, bytes);
    if (code == XYZ_OK && bytes != 0)
        memcpy(to, memory->data + offset, (size_t)bytes);
    return code;
}

void xyz_memory_free(xyz_memory *memory) {
    if (!memory)
        return;
    if (memory->is_own) {
        atomic_fetch_sub(&memory_used, memory->bytes);
        free(memory->data);
    }
    free(memory);
}

/* Number of elements; UINT64_MAX if they exceed the chip's memory. */
static uint64_t elements(uint32_t rank, const uint32_t *dims) {
    uint64_t count = 1;
    for (uint32_t axis = 0; axis < rank; axis++)
        if (dims[axis] == 0)
            return 0;
    for (uint32_t axis = 0; axis < rank; axis++) {
        count *= dims[axis];
        if (count > MEMORY_BYTES / sizeof(float))
            return UINT64_MAX;
    }
    return count;
}

/* Checks an operation against the shapes of its tensors. */
static int32_t check_operation(const xyz_operation *operation, const tensor *tensors, uint32_t count) {
    uint32_t inputs = operation->kind == XYZ_ADD ? 2 : 1;
    if (operation->kind < XYZ_COPY || operation->kind > XYZ_MAX_POOL)
        return fail(XYZ_UNSUPPORTED, "operation of kind %u", operation->kind);
    if (operation->output >= count || tensors[operation->output].is_constant)
        return fail(XYZ_BAD_ARGUMENT, "an operation writes to no tensor of the graph");
    const tensor *to = &tensors[operation->output];
    for (uint32_t input = 0; input < inputs; input++) {
        uint32_t from = operation->inputs[input];
        if (from >= count || from == operation->output)
            return fail(XYZ_BAD_ARGUMENT, "input %u of an operation is no tensor that it can read", input);
        if (operation->kind != XYZ_MAX_POOL &&
            elements(tensors[from].rank, tensors[from].dims) != elements(to->rank, to->dims))
            return fail(XYZ_UNSUPPORTED, "the sizes of input %u and output differ", input);
    }
    if (operation->kind != XYZ_MAX_POOL)
        return XYZ_OK;
    const tensor *from = &tensors[operation->inputs[0]];
    if (from->rank != 4 || to->rank != 4 || from->dims[0] != to->dims[0] || from->dims[1] != to->dims[1])
        return fail(XYZ_UNSUPPORTED, "a pool needs images of shape [n, c, h, w]");
    uint64_t window = (uint64_t)operation->kernel[0] * operation->kernel[1];
    if (window == 0 || window > MAX_WINDOW)
        return fail(XYZ_UNSUPPORTED, "pool of %u x %u elements; the limit is %d elements",
                    operation->kernel[0], operation->kernel[1], MAX_WINDOW);
    for (int axis = 0; axis < 2; axis++)
        if (operation->strides[axis] == 0 || operation->dilations[axis] == 0)
            return fail(XYZ_BAD_ARGUMENT, "a pool has a stride or dilation of 0");
    return XYZ_OK;
}

/* Lays out a graph: fills `out_header` and `tensors`. */
static int32_t lay_out(const xyz_graph *graph, header *out_header, tensor *tensors) {
    header of = {.magic = MAGIC,
                 .version = xyz_version(),
                 .tensor_count = graph->tensor_count,
                 .operation_count = graph->operation_count,
                 .port_count = graph->port_count};
    for (uint32_t at = 0; at < graph->tensor_count; at++) {
        const xyz_tensor *given = &graph->tensors[at];
        if (given->rank > XYZ_MAX_RANK)
            return fail(XYZ_UNSUPPORTED, "rank %u; the limit is %d", given->rank, XYZ_MAX_RANK);
        tensors[at] = (tensor){.rank = given->rank, .port = NO_PORT, .is_constant = given->is_constant};
        memcpy(tensors[at].dims, given->dims, sizeof given->dims);
        if (elements(given->rank, given->dims) == UINT64_MAX)
            return fail(XYZ_UNSUPPORTED, "tensor %u does not fit the chip's memory", at);
    }
    for (uint32_t port = 0; port < graph->port_count; port++) {
        uint32_t at = graph->ports[port];
        if (at >= graph->tensor_count || tensors[at].is_constant || tensors[at].port != NO_PORT)
            return fail(XYZ_BAD_ARGUMENT, "port %u is no tensor that a run can bind", port);
        tensors[at].port = port;
    }
    for (uint32_t at = 0; at < graph->tensor_count; at++) {
        uint64_t count = elements(tensors[at].rank, tensors[at].dims);
        uint64_t *end = tensors[at].is_constant ? &of.constant_elements : &of.scratch_elements;
        if (tensors[at].port == NO_PORT) {
            tensors[at].offset = *end;
            *end += count;
        }
    }
    for (uint32_t at = 0; at < graph->operation_count; at++) {
        int32_t code = check_operation(&graph->operations[at], tensors, graph->tensor_count);
        if (code != XYZ_OK)
            return code;
    }
    *out_header = of;
    return XYZ_OK;
}

static tensor *laid_out(const xyz_graph *graph, header *out_header, int32_t *out_code) {
    tensor *tensors = calloc(graph->tensor_count + 1u, sizeof *tensors);
    if (!tensors) {
        *out_code = fail(XYZ_OUT_OF_MEMORY, "no host memory to compile");
        return NULL;
    }
    *out_code = lay_out(graph, out_header, tensors);
    if (*out_code == XYZ_OK)
        return tensors;
    free(tensors);
    return NULL;
}

int32_t xyz_graph_check(xyz_session *session, const xyz_graph *graph) {
    (void)session;
    header of;
    int32_t code;
    free(laid_out(graph, &of, &code));
    return code;
}

/* Bytes of a program, or UINT64_MAX if its header is absurd. */
static uint64_t program_bytes(const header *of) {
    if (of->constant_elements > MEMORY_BYTES || of->scratch_elements > MEMORY_BYTES)
        return UINT64_MAX;
    return sizeof *of + of->tensor_count * (uint64_t)sizeof(tensor) +
           of->operation_count * (uint64_t)sizeof(xyz_operation) + of->constant_elements * sizeof(float);
}

int32_t xyz_graph_compile(xyz_session *session, const xyz_graph *graph, uint8_t **out_bytes,
                          uint64_t *out_size) {
    (void)session;
    header of;
    int32_t code;
    tensor *tensors = laid_out(graph, &of, &code);
    if (!tensors)
        return code;
    uint64_t size = program_bytes(&of);
    uint8_t *bytes = size == UINT64_MAX ? NULL : malloc((size_t)size);
    if (!bytes) {
        free(tensors);
        return fail(XYZ_OUT_OF_MEMORY, "no host memory for the compiled program");
    }
    uint8_t *end = bytes;
    memcpy(end, &of, sizeof of);
    end += sizeof of;
    memcpy(end, tensors, of.tensor_count * sizeof *tensors);
    end += of.tensor_count * sizeof *tensors;
    if (of.operation_count != 0)
        memcpy(end, graph->operations, of.operation_count * sizeof(xyz_operation));
    end += of.operation_count * sizeof(xyz_operation);
    for (uint32_t at = 0; at < of.tensor_count; at++) {
        uint64_t count = elements(tensors[at].rank, tensors[at].dims);
        if (tensors[at].is_constant && count != 0)
            memcpy(end + tensors[at].offset * sizeof(float), graph->tensors[at].elements,
                   (size_t)count * sizeof(float));
    }
    free(tensors);
    *out_bytes = bytes;
    *out_size = size;
    return XYZ_OK;
}

void xyz_bytes_free(uint8_t *bytes) { free(bytes); }

/* Checks what a run relies on: tensors within constants and scratch memory, ports, operations. */
static int32_t check_program(const xyz_program *program) {
    const header *of = &program->of;
    for (uint32_t at = 0; at < of->tensor_count; at++) {
        const tensor *one = &program->tensors[at];
        uint64_t limit = one->is_constant ? of->constant_elements : of->scratch_elements;
        uint64_t count = one->rank > XYZ_MAX_RANK ? UINT64_MAX : elements(one->rank, one->dims);
        if (count == UINT64_MAX || (one->port != NO_PORT && one->port >= of->port_count) ||
            (one->port == NO_PORT && (one->offset > limit || count > limit - one->offset)))
            return fail(XYZ_BAD_PROGRAM, "tensor %u of the program is out of bounds", at);
    }
    for (uint32_t at = 0; at < of->operation_count; at++)
        if (check_operation(&program->operations[at], program->tensors, of->tensor_count) != XYZ_OK)
            return XYZ_BAD_PROGRAM;
    return XYZ_OK;
}

int32_t xyz_program_load(xyz_session *session, const void *bytes, uint64_t size,
                         xyz_program **out_program, xyz_program_info *out_info) {
    header of;
    if (size < sizeof of)
        return fail(XYZ_BAD_PROGRAM, "%llu bytes are no program", (unsigned long long)size);
    memcpy(&of, bytes, sizeof of);
    if (of.magic != MAGIC || of.version != xyz_version() || program_bytes(&of) != size)
        return fail(XYZ_BAD_PROGRAM, "these bytes are no program of driver %d.%d", XYZ_VERSION_MAJOR,
                    XYZ_VERSION_MINOR);
    uint64_t held = (of.constant_elements + of.scratch_elements) * sizeof(float);
    int32_t code = reserve(held);
    if (code != XYZ_OK)
        return code;
    xyz_program *program = calloc(1, sizeof *program);
    if (program) {
        program->session = session;
        program->of = of;
        program->held_bytes = held;
        program->tensors = calloc(of.tensor_count + 1u, sizeof(tensor));
        program->operations = calloc(of.operation_count + 1u, sizeof(xyz_operation));
        program->constants = calloc((size_t)of.constant_elements + 1, sizeof(float));
        program->scratch = calloc((size_t)of.scratch_elements + 1, sizeof(float));
        program->places = calloc(of.tensor_count + 1u, sizeof(float *));
    }
    if (!program || !program->tensors || !program->operations || !program->constants ||
        !program->scratch || !program->places) {
        if (program)
            xyz_program_unload(program);
        else
            atomic_fetch_sub(&memory_used, held);
        return fail(XYZ_OUT_OF_MEMORY, "no memory to load the program");
    }
    const uint8_t *from = (const uint8_t *)bytes + sizeof of;
    memcpy(program->tensors, from, of.tensor_count * sizeof(tensor));
    from += of.tensor_count * sizeof(tensor);
    memcpy(program->operations, from, of.operation_count * sizeof(xyz_operation));
    from += of.operation_count * sizeof(xyz_operation);
    memcpy(program->constants, from, (size_t)of.constant_elements * sizeof(float));
    code = check_program(program);
    if (code != XYZ_OK) {
        xyz_program_unload(program);
        return code;
    }
    *out_info = (xyz_program_info){.constant_bytes = of.constant_elements * sizeof(float),
                                   .scratch_bytes = of.scratch_elements * sizeof(float),
                                   .operation_count = of.operation_count,
                                   .port_count = of.port_count};
    *out_program = program;
    return XYZ_OK;
}

void xyz_program_unload(xyz_program *program) {
    if (!program)
        return;
    atomic_fetch_sub(&memory_used, program->held_bytes);
    free(program->tensors);
    free(program->operations);
    free(program->constants);
    free(program->scratch);
    free(program->places);
    free(program);
}

static int is_interrupted(xyz_session *session) { return atomic_load(&session->interrupted); }

/* The largest element of a window; NaN only if the first one is. */
static float largest(const xyz_operation *by, const float *image, uint32_t height, uint32_t width,
                     uint64_t row, uint64_t column) {
    float best = 0.0f;
    int has_any = 0;
    for (uint64_t i = 0; i < by->kernel[0]; i++) {
        int64_t y = (int64_t)(row * by->strides[0] + i * by->dilations[0]) - by->pads[0];
        if (y < 0 || y >= height)
            continue;
        for (uint64_t j = 0; j < by->kernel[1]; j++) {
            int64_t x = (int64_t)(column * by->strides[1] + j * by->dilations[1]) - by->pads[1];
            if (x < 0 || x >= width)
                continue;
            float value = image[y * width + x];
            if (!has_any || value > best)
                best = value;
            has_any = 1;
        }
    }
    return best;
}

static int32_t max_pool(xyz_program *program, const xyz_operation *by) {
    const tensor *from = &program->tensors[by->inputs[0]], *to = &program->tensors[by->output];
    const float *image = program->places[by->inputs[0]];
    float *out = program->places[by->output];
    uint64_t images = (uint64_t)to->dims[0] * to->dims[1];
    for (uint64_t at = 0; at < images; at++, image += (uint64_t)from->dims[2] * from->dims[3])
        for (uint64_t row = 0; row < to->dims[2]; row++) {
            if (is_interrupted(program->session))
                return XYZ_INTERRUPTED;
            for (uint64_t column = 0; column < to->dims[3]; column++)
                *out++ = largest(by, image, from->dims[2], from->dims[3], row, column);
        }
    return XYZ_OK;
}

static int32_t element_wise(xyz_program *program, const xyz_operation *by) {
    const tensor *to = &program->tensors[by->output];
    const float *left = program->places[by->inputs[0]];
    const float *right = by->kind == XYZ_ADD ? program->places[by->inputs[1]] : left;
    float *out = program->places[by->output];
    uint64_t count = elements(to->rank, to->dims);
    for (uint64_t begin = 0; begin < count; begin += CHECK_EVERY) {
        uint64_t end = count - begin < CHECK_EVERY ? count : begin + CHECK_EVERY;
        if (is_interrupted(program->session))
            return XYZ_INTERRUPTED;
        for (uint64_t at = begin; at < end; at++)
            out[at] = by->kind == XYZ_ADD ? left[at] + right[at]
                      /* NaN stays NaN */
                      : by->kind == XYZ_RELU && left[at] < 0.0f ? 0.0f
                                                                : left[at];
    }
    return XYZ_OK;
}

/* Finds the memory of every tensor. */
static int32_t bind(xyz_program *program, const xyz_binding *bindings) {
    for (uint32_t at = 0; at < program->of.tensor_count; at++) {
        const tensor *one = &program->tensors[at];
        if (one->port == NO_PORT) {
            program->places[at] = (one->is_constant ? program->constants : program->scratch) + one->offset;
            continue;
        }
        const xyz_binding *binding = &bindings[one->port];
        uint64_t bytes = elements(one->rank, one->dims) * sizeof(float);
        if (binding->offset % sizeof(float) != 0)
            return fail(XYZ_BAD_ARGUMENT, "port %u is bound at byte %llu, no multiple of 4", one->port,
                        (unsigned long long)binding->offset);
        int32_t code = check_range(binding->memory, binding->offset, bytes);
        if (code != XYZ_OK)
            return code;
        program->places[at] = (float *)(void *)(binding->memory->data + binding->offset);
    }
    return XYZ_OK;
}

int32_t xyz_program_run(xyz_program *program, const xyz_binding *bindings, uint64_t *out_run_ns,
                        uint64_t *out_step_ns) {
    int32_t code = bind(program, bindings);
    if (code != XYZ_OK)
        return code;
    while (program->session->hangs)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    uint64_t begun = now_ns(), moved = 0;
    for (uint32_t at = 0; at < program->of.operation_count && code == XYZ_OK; at++) {
        const xyz_operation *operation = &program->operations[at];
        const tensor *to = &program->tensors[operation->output];
        uint64_t step = now_ns();
        code = is_interrupted(program->session) ? XYZ_INTERRUPTED
               : operation->kind == XYZ_MAX_POOL ? max_pool(program, operation)
                                                 : element_wise(program, operation);
        moved += elements(to->rank, to->dims) * sizeof(float);
        if (out_step_ns)
            out_step_ns[at] = now_ns() - step;
    }
    /* the figure of a chip that does not exist: 1 nJ for each byte written */
    atomic_fetch_add(&energy_nj, moved);
    atomic_store(&program->session->interrupted, 0);
    if (code != XYZ_OK)
        return fail(code, "the run was interrupted");
    *out_run_ns = now_ns() - begun;
    return XYZ_OK;
}

int32_t xyz_sensors_read(xyz_session *session, xyz_sensors *out_sensors) {
    uint64_t now = now_ns(), energy = atomic_load(&energy_nj);
    uint64_t spent = energy - atomic_exchange(&session->read_energy_nj, energy);
    uint64_t passed = now - atomic_exchange(&session->read_ns, now);
    /* nanojoules each nanosecond are watts */
    uint64_t power_mw = passed == 0 ? 0 : (uint64_t)(1000.0 * (double)spent / (double)passed);
    *out_sensors = (xyz_sensors){
        .valid = XYZ_SENSOR_TEMPERATURE | XYZ_SENSOR_POWER | XYZ_SENSOR_ENERGY | XYZ_SENSOR_MEMORY,
        /* 40 °C at rest and 1 K more for each watt */
        .temperature_mc = (int32_t)(40000 + (power_mw < 60000 ? power_mw : 60000)),
        .power_mw = power_mw,
        .energy_uj = energy / 1000,
        .memory_used_bytes = atomic_load(&memory_used),
    };
    return XYZ_OK;
}
