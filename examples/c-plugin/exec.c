/* Runs: one queue thread per device computes them in the order of their arrival.
 *
 * Invariants:
 * 1. `execute` checks a run and takes it into the queue; it waits for nothing.
 * 2. No lock is held while a run computes.
 */
#include "acme.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *address(const struct polychip_fence *run, const struct acme_operand *operand)
{
    switch (operand->place) {
    case IN_PORT:
        return run->bound[operand->port].data;
    case IN_CONSTANTS:
        return (uint8_t *)(uintptr_t)(run->executable->constants + operand->offset);
    default:
        return run->executable->arena + operand->offset;
    }
}

static void run_compute(struct polychip_fence *run)
{
    const struct polychip_executable *executable = run->executable;
    uint32_t status = POLYCHIP_STATUS_OK;
    bool clocked;

    for (uint64_t wait = 0; wait < run->wait_count; wait++) {
        const uint32_t before = acme_fence_join(run->waits[wait]);
        if (status == POLYCHIP_STATUS_OK) {
            status = before;
        }
        acme_fence_release(run->waits[wait]);
    }
    run->wait_count = 0;
    if (status != POLYCHIP_STATUS_OK) {
        acme_fence_signal(run, status, "the run waited for one that failed");
        return;
    }
    run->timing.start_ns = acme_now_ns(executable->device->instance, &clocked);
    for (uint32_t at = 0; at < executable->step_count; at++) {
        const struct acme_step *step = &executable->steps[at];
        const uint8_t *inputs[2] = {NULL, NULL};

        for (uint32_t input = 0; input < step->input_count; input++) {
            inputs[input] = address(run, &step->inputs[input]);
        }
        acme_step_run(step, inputs, address(run, &step->output));
    }
    run->timing.end_ns = acme_now_ns(executable->device->instance, &clocked);
    if (clocked) {
        run->timing.valid |= POLYCHIP_TIMING_SPAN;
    }
    acme_fence_signal(run, POLYCHIP_STATUS_OK, "");
}

static void *queue_thread(void *argument)
{
    struct polychip_device *device = argument;

    for (;;) {
        struct polychip_fence *run;

        pthread_mutex_lock(&device->lock);
        while (device->head == NULL && !device->closing) {
            pthread_cond_wait(&device->work, &device->lock);
        }
        run = device->head;
        if (run != NULL) {
            device->head = run->next;
            if (device->head == NULL) {
                device->tail = NULL;
            }
        }
        pthread_mutex_unlock(&device->lock);
        if (run == NULL) {
            return NULL;
        }
        run_compute(run);
        acme_fence_release(run);
    }
}

bool acme_queue_open(struct polychip_device *device)
{
    if (pthread_mutex_init(&device->lock, NULL) != 0) {
        return false;
    }
    if (pthread_cond_init(&device->work, NULL) != 0) {
        pthread_mutex_destroy(&device->lock);
        return false;
    }
    if (pthread_create(&device->thread, NULL, queue_thread, device) != 0) {
        pthread_cond_destroy(&device->work);
        pthread_mutex_destroy(&device->lock);
        return false;
    }
    return true;
}

void acme_queue_close(struct polychip_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_signal(&device->work);
    pthread_mutex_unlock(&device->lock);
    pthread_join(device->thread, NULL);
    while (device->spare != NULL) {
        struct polychip_fence *next = device->spare->next;
        acme_fence_free(device->spare);
        device->spare = next;
    }
    pthread_cond_destroy(&device->work);
    pthread_mutex_destroy(&device->lock);
}

/* Takes one binding into the run. */
static uint32_t bind(struct polychip_fence *run, const void *theirs, struct polychip_error *error)
{
    const struct polychip_executable *executable = run->executable;
    struct polychip_binding binding;

    if (!acme_read(&binding, ACME_BINDING, theirs)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "execute: a binding is torn");
    }
    if (binding.port >= run->bound_count) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: port %u does not exist: there are %u", binding.port,
                            run->bound_count);
    }
    const struct acme_port *port = &executable->ports[binding.port];
    struct acme_bound *bound = &run->bound[binding.port];
    if (bound->buffer != NULL) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: port %u is bound twice", binding.port);
    }
    if (binding.buffer == NULL) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: the buffer of port %u is null", binding.port);
    }
    if (binding.bytes < port->bytes || binding.offset > binding.buffer->bytes ||
        binding.bytes > binding.buffer->bytes - binding.offset) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: port %u needs %llu bytes: %llu at %llu of a buffer of %llu given",
                            binding.port, (unsigned long long)port->bytes,
                            (unsigned long long)binding.bytes, (unsigned long long)binding.offset,
                            (unsigned long long)binding.buffer->bytes);
    }
    if ((uintptr_t)(binding.buffer->data + binding.offset) % _Alignof(float) != 0) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: port %u is not aligned to %zu bytes", binding.port,
                            _Alignof(float));
    }
    if (binding.dims != NULL) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: port %u has a fixed shape", binding.port);
    }
    if (atomic_load(&binding.buffer->accessed)) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, binding.port,
                            "execute: the host accesses the buffer of port %u", binding.port);
    }
    bound->buffer = binding.buffer;
    bound->data = binding.buffer->data + binding.offset;
    return POLYCHIP_STATUS_OK;
}

/* An output may share memory with its other half of a state, and with no other port. */
static uint32_t check_memory(const struct polychip_fence *run, struct polychip_error *error)
{
    const struct polychip_executable *executable = run->executable;

    for (uint32_t output = executable->input_count; output < run->bound_count; output++) {
        const struct acme_port *port = &executable->ports[output];
        const uintptr_t start = (uintptr_t)run->bound[output].data;

        for (uint32_t other = 0; other < run->bound_count; other++) {
            const uintptr_t at = (uintptr_t)run->bound[other].data;
            if (other != output && other != port->state_port &&
                start < at + executable->ports[other].bytes && at < start + port->bytes) {
                return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, output,
                                    "execute: output port %u shares memory with port %u", output,
                                    other);
            }
        }
    }
    return POLYCHIP_STATUS_OK;
}

/* Room for the ports and waits of a run; allocates only where the fence never had as many. */
static bool make_room(struct polychip_fence *run, uint32_t ports, uint64_t waits)
{
    if (ports > run->bound_capacity) {
        struct acme_bound *bound = calloc(ports, sizeof *bound);
        if (bound == NULL) {
            return false;
        }
        free(run->bound);
        run->bound = bound;
        run->bound_capacity = ports;
    }
    if (waits > run->wait_capacity) {
        struct polychip_fence **list = calloc(waits, sizeof *list);
        if (list == NULL) {
            return false;
        }
        free(run->waits);
        run->waits = list;
        run->wait_capacity = waits;
    }
    if (ports != 0) {
        memset(run->bound, 0, ports * sizeof *run->bound);
    }
    run->bound_count = ports;
    return true;
}

uint32_t acme_execute(struct polychip_executable *executable, const struct polychip_submit *submit,
                      struct polychip_fence **out_fence, struct polychip_error *error)
{
    struct polychip_submit known;
    struct polychip_fence *run;
    struct polychip_device *device;
    uint32_t status = POLYCHIP_STATUS_OK;
    bool clocked;

    if (executable == NULL || out_fence == NULL || !acme_read(&known, ACME_SUBMIT, submit) ||
        (known.bindings == NULL && known.binding_count != 0) ||
        (known.binding_stride < sizeof(uint32_t) && known.binding_count > 1) ||
        (known.waits == NULL && known.wait_count != 0)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "execute: a pointer is null or the submission is torn");
    }
    const uint32_t ports = executable->input_count + executable->output_count;
    if (known.binding_count != ports) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "execute: %llu bindings for %u ports",
                         (unsigned long long)known.binding_count, ports);
    }
    device = executable->device;
    run = acme_fence_take(device);
    if (run == NULL || !make_room(run, ports, known.wait_count)) {
        if (run != NULL) {
            acme_fence_release(run);
        }
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "execute: no memory for a run");
    }
    run->executable = executable;
    for (uint32_t at = 0; at < ports && status == POLYCHIP_STATUS_OK; at++) {
        status = bind(run, (const uint8_t *)known.bindings + at * known.binding_stride, error);
    }
    if (status == POLYCHIP_STATUS_OK) {
        status = check_memory(run, error);
    }
    for (uint64_t wait = 0; wait < known.wait_count && status == POLYCHIP_STATUS_OK; wait++) {
        if (known.waits[wait] == NULL) {
            status = acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "execute: fence %llu to wait for is null",
                               (unsigned long long)wait);
        }
    }
    if (status != POLYCHIP_STATUS_OK) {
        run->bound_count = 0;
        acme_fence_release(run);
        return status;
    }
    for (uint32_t port = 0; port < ports; port++) {
        atomic_fetch_add(&run->bound[port].buffer->runs, 1);
    }
    for (uint64_t wait = 0; wait < known.wait_count; wait++) {
        run->waits[wait] = known.waits[wait];
        atomic_fetch_add(&run->waits[wait]->holders, 1);
    }
    run->wait_count = known.wait_count;
    run->timing.queued_ns = acme_now_ns(device->instance, &clocked);
    run->timing.valid = clocked ? POLYCHIP_TIMING_QUEUED : 0;
    atomic_store(&run->holders, 2); /* the host and the queue */
    *out_fence = run;
    pthread_mutex_lock(&device->lock);
    if (device->tail != NULL) {
        device->tail->next = run;
    } else {
        device->head = run;
    }
    device->tail = run;
    pthread_cond_signal(&device->work);
    pthread_mutex_unlock(&device->lock);
    return POLYCHIP_STATUS_OK;
}
