/* Four threads run one executable of the C plugin at once, with others waiting for their fences; then
 * damaged blobs and bad calls. Linked with the plugin's own sources, so that a sanitizer sees all of it.
 * Prints "passed" at its end; aborts with words where something is wrong.
 */
#define _POSIX_C_SOURCE 200809L
#include "polychip_plugin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 4
#define ROUNDS 200
#define COUNT 12

static _Thread_local struct polychip_error record;
static const struct polychip_plugin_table *table;
static struct polychip_device *device;
static struct polychip_executable *executable;
static atomic_int told;

#define CHECK(condition)                                                                            \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            fprintf(stderr, "line %d: %s [%.*s]\n", __LINE__, #condition, (int)record.message_len,   \
                    (const char *)record.message);                                                  \
            abort();                                                                                \
        }                                                                                           \
    } while (0)

static struct polychip_error *fresh(void)
{
    memset(&record, 0, sizeof record);
    record.struct_size = sizeof record;
    return &record;
}

/* The call is refused with this status, which the record says too, with words. */
#define REFUSED(status_wanted, call)                                                                \
    do {                                                                                            \
        CHECK((call) == (status_wanted));                                                           \
        CHECK(record.status == (status_wanted) && record.message_len > 0);                          \
    } while (0)

static uint64_t now(void *user)
{
    struct timespec time;

    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void signalled(void *user, uint32_t status)
{
    (void)user;
    if (status == POLYCHIP_STATUS_OK) {
        atomic_fetch_add(&told, 1);
    }
}

static struct polychip_buffer *buffer_of(uint64_t bytes)
{
    const struct polychip_memory wanted = {
        .struct_size = sizeof wanted, .fd = POLYCHIP_NO_FD, .bytes = bytes, .alignment = 64};
    struct polychip_buffer *buffer = NULL;

    CHECK(table->buffer_create(device, &wanted, &buffer, fresh()) == POLYCHIP_STATUS_OK);
    return buffer;
}

static void copy(struct polychip_buffer *buffer, float *values, uint32_t access)
{
    uint8_t *data = NULL;

    CHECK(table->buffer_begin_access(buffer, access, 0, COUNT * sizeof *values, &data, fresh()) ==
          POLYCHIP_STATUS_OK);
    if (access == POLYCHIP_ACCESS_READ) {
        memcpy(values, data, COUNT * sizeof *values);
    } else {
        memcpy(data, values, COUNT * sizeof *values);
    }
    CHECK(table->buffer_end_access(buffer, fresh()) == POLYCHIP_STATUS_OK);
}

static void *wait_for(void *fence)
{
    CHECK(table->fence_wait(fence, UINT64_MAX, fresh()) == POLYCHIP_STATUS_OK);
    CHECK(table->fence_on_signal(fence, signalled, NULL, fresh()) == POLYCHIP_STATUS_OK);
    return NULL;
}

static struct polychip_binding binding(uint32_t port, struct polychip_buffer *buffer)
{
    return (struct polychip_binding){.struct_size = sizeof(struct polychip_binding),
                                     .port = port,
                                     .buffer = buffer,
                                     .bytes = COUNT * sizeof(float)};
}

/* Runs relu(x + [0, 1, 2, 3]) again and again, each time twice, the second run behind the first. */
static void *run(void *argument)
{
    const float first = *(const float *)argument;
    struct polychip_buffer *input = buffer_of(COUNT * sizeof(float));
    struct polychip_buffer *output = buffer_of(COUNT * sizeof(float));
    const struct polychip_binding bindings[2] = {binding(0, input), binding(1, output)};

    for (int round = 0; round < ROUNDS; round++) {
        struct polychip_submit submit = {.struct_size = sizeof submit,
                                         .priority = POLYCHIP_PRIORITY_NORMAL,
                                         .bindings = bindings,
                                         .binding_count = 2,
                                         .binding_stride = sizeof bindings[0],
                                         .deadline_ns = POLYCHIP_NO_DEADLINE};
        struct polychip_fence *fences[2] = {NULL, NULL};
        struct polychip_timing timing = {.struct_size = sizeof timing};
        float values[COUNT];
        float results[COUNT];
        pthread_t waiters[2];
        uint32_t status;

        for (int at = 0; at < COUNT; at++) {
            values[at] = first + (float)(at - round);
        }
        copy(input, values, POLYCHIP_ACCESS_READ | POLYCHIP_ACCESS_WRITE);
        CHECK(table->execute(executable, &submit, &fences[0], fresh()) == POLYCHIP_STATUS_OK);
        CHECK(table->fence_on_signal(fences[0], signalled, NULL, fresh()) == POLYCHIP_STATUS_OK);
        submit.waits = &fences[0];
        submit.wait_count = 1;
        CHECK(table->execute(executable, &submit, &fences[1], fresh()) == POLYCHIP_STATUS_OK);
        if (round % 10 == 0) {
            for (int waiter = 0; waiter < 2; waiter++) {
                CHECK(pthread_create(&waiters[waiter], NULL, wait_for, fences[0]) == 0);
            }
            for (int waiter = 0; waiter < 2; waiter++) {
                pthread_join(waiters[waiter], NULL);
            }
        }
        if (round % 2 == 0) {
            table->fence_destroy(fences[0]); /* the run behind it continues */
            fences[0] = NULL;
        }
        do {
            status = table->fence_wait(fences[1], 1000, fresh());
        } while (status == POLYCHIP_STATUS_TIMEOUT);
        CHECK(status == POLYCHIP_STATUS_OK);
        CHECK(table->fence_timing(fences[1], &timing, fresh()) == POLYCHIP_STATUS_OK);
        CHECK(timing.queued_ns <= timing.start_ns && timing.start_ns <= timing.end_ns);
        table->fence_destroy(fences[0]);
        table->fence_destroy(fences[1]);
        copy(output, results, POLYCHIP_ACCESS_READ);
        for (int at = 0; at < COUNT; at++) {
            const float sum = values[at] + (float)(at % 4);
            CHECK(results[at] == (sum < 0 ? 0 : sum));
        }
    }
    table->buffer_destroy(input);
    table->buffer_destroy(output);
    return NULL;
}

static void damaged_blobs(struct polychip_graph *graph, uint8_t *bytes, uint64_t count)
{
    struct polychip_load_source source = {.struct_size = sizeof source, .graph = graph};
    struct polychip_executable *loaded = NULL;

    for (uint64_t at = 0; at < count; at++) {
        uint8_t *part = malloc(at + 1);

        bytes[at] ^= 0x41;
        source.bytes = (struct polychip_bytes){bytes, count};
        REFUSED(POLYCHIP_STATUS_BAD_BLOB, table->load(device, &source, &loaded, fresh()));
        bytes[at] ^= 0x41;
        /* a block of its own, so that a sanitizer sees a byte too many */
        CHECK(part != NULL);
        memcpy(part, bytes, at);
        source.bytes = (struct polychip_bytes){part, at};
        REFUSED(POLYCHIP_STATUS_BAD_BLOB, table->load(device, &source, &loaded, fresh()));
        free(part);
    }
    source.bytes = (struct polychip_bytes){bytes, count};
    graph->content_fingerprint[0] ^= 1;
    REFUSED(POLYCHIP_STATUS_BAD_BLOB, table->load(device, &source, &loaded, fresh()));
    graph->content_fingerprint[0] ^= 1;
    CHECK(loaded == NULL);
    CHECK(table->load(device, &source, &loaded, fresh()) == POLYCHIP_STATUS_OK);
    table->executable_destroy(loaded);
}

static void bad_calls(void)
{
    static float memory[2 * COUNT];
    struct polychip_memory host = {.struct_size = sizeof host,
                                   .data = (uint8_t *)memory,
                                   .fd = POLYCHIP_NO_FD,
                                   .bytes = sizeof memory};
    struct polychip_buffer *buffer = NULL;
    struct polychip_fence *fence = NULL;
    struct polychip_fence *no_fence = NULL;
    struct polychip_port port = {.struct_size = sizeof port};
    uint8_t *data = NULL;

    host.struct_size = 12; /* inside `data` */
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->buffer_import(device, &host, &buffer, fresh()));
    host.struct_size = sizeof host;
    host.kind = POLYCHIP_MEMORY_DMA_BUF;
    REFUSED(POLYCHIP_STATUS_UNSUPPORTED, table->buffer_import(device, &host, &buffer, fresh()));
    host.kind = POLYCHIP_MEMORY_HOST;
    host.data++;
    REFUSED(POLYCHIP_STATUS_UNSUPPORTED, table->buffer_import(device, &host, &buffer, fresh()));
    host.data--;
    host.alignment = 3;
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->buffer_create(device, &host, &buffer, fresh()));
    host.alignment = 0;
    CHECK(buffer == NULL);
    CHECK(table->buffer_import(device, &host, &buffer, fresh()) == POLYCHIP_STATUS_OK);
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT,
            table->buffer_begin_access(buffer, POLYCHIP_ACCESS_READ, 90, 7, &data, fresh()));
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT,
            table->buffer_begin_access(buffer, POLYCHIP_ACCESS_READ, UINT64_MAX, 2, &data, fresh()));
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->buffer_begin_access(buffer, 4, 0, 4, &data, fresh()));
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->buffer_end_access(buffer, fresh()));
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->port_info(executable, 2, &port, fresh()));

    struct polychip_binding bindings[2] = {binding(0, buffer), binding(1, buffer)};
    struct polychip_submit submit = {.struct_size = sizeof submit,
                                     .bindings = bindings,
                                     .binding_count = 2,
                                     .binding_stride = sizeof bindings[0],
                                     .waits = &no_fence,
                                     .deadline_ns = POLYCHIP_NO_DEADLINE};
    bindings[1].offset = COUNT * sizeof(float) - 4; /* over the end of the input */
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->execute(executable, &submit, &fence, fresh()));
    bindings[1].offset = COUNT * sizeof(float) + 4; /* over the end of the buffer */
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->execute(executable, &submit, &fence, fresh()));
    bindings[1].offset = COUNT * sizeof(float);
    bindings[1].port = 0;
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->execute(executable, &submit, &fence, fresh()));
    bindings[1].port = 1;
    submit.wait_count = 1;
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->execute(executable, &submit, &fence, fresh()));
    submit.wait_count = 0;
    submit.binding_count = 1;
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->execute(executable, &submit, &fence, fresh()));
    submit.binding_count = 2;
    CHECK(fence == NULL);
    CHECK(table->execute(executable, &submit, NULL, NULL) == POLYCHIP_STATUS_BAD_ARGUMENT);
    CHECK(table->execute(executable, &submit, &fence, NULL) == POLYCHIP_STATUS_OK);
    CHECK(table->fence_wait(fence, UINT64_MAX, fresh()) == POLYCHIP_STATUS_OK);
    CHECK(memory[COUNT] == 0 && memory[COUNT + 3] == 3); /* in place: the host's own memory */
    table->fence_destroy(fence);
    table->buffer_destroy(buffer);

    table->blob_destroy(NULL);
    table->executable_destroy(NULL);
    table->buffer_destroy(NULL);
    table->fence_destroy(NULL);
    table->device_close(NULL);
    table->destroy(NULL);
}

int main(void)
{
    static const int64_t dims[] = {3, 4};
    static const float bias[] = {0, 1, 2, 3};
    static const float firsts[THREADS] = {-3, 0, 50, 100};
    static const uint32_t add_inputs[] = {0, 1}, sum[] = {2}, result[] = {3}, input[] = {0};
    const struct polychip_host_services services = {.struct_size = sizeof services, .now_ns = now};
    struct polychip_instance *instance = NULL;
    struct polychip_blob *blob = NULL;
    struct polychip_bytes bytes = {NULL, 0};
    struct polychip_tensor tensors[4];
    struct polychip_node nodes[2];
    struct polychip_support support[2];
    struct polychip_graph graph;
    pthread_t threads[THREADS];

    table = polychip_plugin_query(POLYCHIP_ABI_MAJOR, POLYCHIP_ABI_MINOR + 1);
    CHECK(table != NULL && polychip_plugin_query(POLYCHIP_ABI_MAJOR + 1, 0) == NULL);
    CHECK(table->create(&services, &instance, fresh()) == POLYCHIP_STATUS_OK);
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->device_open(instance, 1, &device, fresh()));
    CHECK(table->device_open(instance, 0, &device, fresh()) == POLYCHIP_STATUS_OK);

    memset(tensors, 0, sizeof tensors);
    for (int at = 0; at < 4; at++) {
        tensors[at].struct_size = sizeof tensors[at];
        tensors[at].dtype = POLYCHIP_DTYPE_F32;
        tensors[at].rank = at == 1 ? 1 : 2;
        tensors[at].dims = at == 1 ? dims + 1 : dims;
        tensors[at].fd = POLYCHIP_NO_FD;
    }
    tensors[1].flags = POLYCHIP_TENSOR_CONSTANT;
    tensors[1].data = (const uint8_t *)bias;
    tensors[1].data_bytes = sizeof bias;
    memset(nodes, 0, sizeof nodes);
    memset(support, 0, sizeof support);
    for (int at = 0; at < 2; at++) {
        nodes[at].struct_size = sizeof nodes[at];
        nodes[at].op = at == 0 ? POLYCHIP_OP_ADD : POLYCHIP_OP_RELU;
        nodes[at].inputs = at == 0 ? add_inputs : sum;
        nodes[at].input_count = at == 0 ? 2 : 1;
        nodes[at].outputs = at == 0 ? sum : result;
        nodes[at].output_count = 1;
        support[at].struct_size = sizeof support[at];
    }
    memset(&graph, 0, sizeof graph);
    graph.struct_size = sizeof graph;
    graph.nodes = nodes;
    graph.node_count = 2;
    graph.node_stride = sizeof nodes[0];
    graph.tensors = tensors;
    graph.tensor_count = 4;
    graph.tensor_stride = sizeof tensors[0];
    graph.inputs = input;
    graph.input_count = 1;
    graph.outputs = result;
    graph.output_count = 1;
    CHECK(table->query_support(device, &graph, support, sizeof support[0], fresh()) == POLYCHIP_STATUS_OK);
    CHECK(support[0].reason == POLYCHIP_SUPPORT_YES && support[1].reason == POLYCHIP_SUPPORT_YES);

    const struct polychip_compile_options options = {.struct_size = sizeof options,
                                                     .operating_point = POLYCHIP_NO_INDEX};
    CHECK(table->compile(device, &graph, &options, &blob, fresh()) == POLYCHIP_STATUS_OK);
    CHECK(table->blob_bytes(blob, &bytes, fresh()) == POLYCHIP_STATUS_OK);
    uint8_t *cached = malloc(bytes.len);
    CHECK(cached != NULL);
    memcpy(cached, bytes.data, bytes.len);
    struct polychip_load_source source = {.struct_size = sizeof source, .blob = blob, .graph = &graph};
    CHECK(table->load(device, &source, &executable, fresh()) == POLYCHIP_STATUS_OK);
    REFUSED(POLYCHIP_STATUS_BAD_ARGUMENT, table->load(device, &source, &executable, fresh()));
    table->blob_destroy(blob);

    for (int at = 0; at < THREADS; at++) {
        CHECK(pthread_create(&threads[at], NULL, run, (void *)(uintptr_t)&firsts[at]) == 0);
    }
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
    }
    CHECK(atomic_load(&told) == THREADS * (ROUNDS + 2 * ROUNDS / 10));
    damaged_blobs(&graph, cached, bytes.len);
    bad_calls();
    free(cached);
    table->executable_destroy(executable);
    table->device_close(device);
    table->destroy(instance);
    puts("passed");
    return 0;
}
