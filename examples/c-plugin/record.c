/* Records that cross the contract: errors, and the prefix of a struct that both sides know.
 *
 * Invariants:
 * 1. Nothing past the smaller of the two sizes is read or written, and the host's `struct_size` stays.
 * 2. A size that ends inside a field is refused.
 * 3. A message is UTF-8 and cut at a character boundary.
 */
#include "acme.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where each field ends, in bytes: a struct may be cut between two fields, but not inside one. */
#define END(name, field) \
    (offsetof(struct polychip_##name, field) + sizeof(((struct polychip_##name *)0)->field))

static const uint16_t BINDING_ENDS[] = {
    END(binding, struct_size), END(binding, port), END(binding, buffer), END(binding, offset),
    END(binding, bytes), END(binding, dims), END(binding, rank)};
static const uint16_t COMPILE_OPTIONS_ENDS[] = {
    END(compile_options, struct_size), END(compile_options, precision), END(compile_options,
    threads), END(compile_options, operating_point), END(compile_options, ports),
    END(compile_options, port_count), END(compile_options, port_stride)};
static const uint16_t DEVICE_INFO_ENDS[] = {
    END(device_info, struct_size), END(device_info, kind), END(device_info, flags),
    END(device_info, import_kinds), END(device_info, export_kinds), END(device_info,
    import_alignment), END(device_info, name), END(device_info, vendor), END(device_info, soc),
    END(device_info, driver), END(device_info, memory_bytes), END(device_info, peak_macs_per_s),
    END(device_info, peak_bytes_per_s), END(device_info, settings), END(device_info,
    rates_measured_s), END(device_info, link_bytes_per_s), END(device_info, preemption),
    END(device_info, queue_depth), END(device_info, preemption_bound_ns), END(device_info,
    switch_ns)};
static const uint16_t ERROR_ENDS[] = {
    END(error, struct_size), END(error, status), END(error, vendor_code), END(error, node),
    END(error, tensor), END(error, message_len), END(error, reserved), END(error, message)};
static const uint16_t EXECUTABLE_INFO_ENDS[] = {
    END(executable_info, struct_size), END(executable_info, flags), END(executable_info,
    input_count), END(executable_info, output_count), END(executable_info, constant_bytes),
    END(executable_info, arena_bytes)};
static const uint16_t GRAPH_ENDS[] = {
    END(graph, struct_size), END(graph, flags), END(graph, name), END(graph, nodes), END(graph,
    node_count), END(graph, node_stride), END(graph, tensors), END(graph, tensor_count), END(graph,
    tensor_stride), END(graph, inputs), END(graph, input_count), END(graph, outputs), END(graph,
    output_count), END(graph, groups), END(graph, group_count), END(graph, group_stride),
    END(graph, states), END(graph, state_count), END(graph, structure_fingerprint), END(graph,
    content_fingerprint)};
static const uint16_t HOST_SERVICES_ENDS[] = {
    END(host_services, struct_size), END(host_services, flags), END(host_services, user),
    END(host_services, log), END(host_services, now_ns), END(host_services, sleep_until_ns),
    END(host_services, store_read), END(host_services, store_write), END(host_services,
    configuration)};
static const uint16_t LOAD_SOURCE_ENDS[] = {
    END(load_source, struct_size), END(load_source, threads), END(load_source, blob),
    END(load_source, bytes), END(load_source, graph)};
static const uint16_t MEMORY_ENDS[] = {
    END(memory, struct_size), END(memory, kind), END(memory, data), END(memory, fd), END(memory,
    handle), END(memory, offset), END(memory, bytes), END(memory, alignment)};
static const uint16_t NODE_ENDS[] = {
    END(node, struct_size), END(node, op), END(node, domain), END(node, op_name), END(node, name),
    END(node, inputs), END(node, input_count), END(node, outputs), END(node, output_count),
    END(node, attributes), END(node, attribute_count), END(node, attribute_stride), END(node,
    bodies), END(node, body_count), END(node, body_stride), END(node, decomposition)};
static const uint16_t PLUGIN_INFO_ENDS[] = {
    END(plugin_info, struct_size), END(plugin_info, flags), END(plugin_info, name),
    END(plugin_info, version), END(plugin_info, build_id)};
static const uint16_t PORT_ENDS[] = {
    END(port, struct_size), END(port, flags), END(port, dtype), END(port, layout), END(port, rank),
    END(port, state_port), END(port, alignment), END(port, memory_kinds), END(port, bytes),
    END(port, dims), END(port, strides), END(port, encoding)};
static const uint16_t PORT_REQUEST_ENDS[] = {
    END(port_request, struct_size), END(port_request, port), END(port_request, layout),
    END(port_request, reserved)};
static const uint16_t SUBMIT_ENDS[] = {
    END(submit, struct_size), END(submit, priority), END(submit, bindings), END(submit,
    binding_count), END(submit, binding_stride), END(submit, waits), END(submit, wait_count),
    END(submit, deadline_ns)};
static const uint16_t SUPPORT_ENDS[] = {
    END(support, struct_size), END(support, reason), END(support, detail_len), END(support,
    reserved), END(support, detail)};
static const uint16_t TENSOR_ENDS[] = {
    END(tensor, struct_size), END(tensor, dtype), END(tensor, flags), END(tensor, rank),
    END(tensor, dims), END(tensor, name), END(tensor, encoding), END(tensor, data), END(tensor,
    data_bytes), END(tensor, fd), END(tensor, fd_offset)};
static const uint16_t TIMING_ENDS[] = {
    END(timing, struct_size), END(timing, valid), END(timing, queued_ns), END(timing, start_ns),
    END(timing, end_ns), END(timing, energy_uj)};

struct layout {
    size_t size;
    const uint16_t *ends;
    size_t count;
};

#define LAYOUT(name, ends) \
    { sizeof(struct polychip_##name), ends, sizeof(ends) / sizeof((ends)[0]) }

static const struct layout LAYOUTS[] = {
    [ACME_BINDING] = LAYOUT(binding, BINDING_ENDS),
    [ACME_COMPILE_OPTIONS] = LAYOUT(compile_options, COMPILE_OPTIONS_ENDS),
    [ACME_DEVICE_INFO] = LAYOUT(device_info, DEVICE_INFO_ENDS),
    [ACME_ERROR] = LAYOUT(error, ERROR_ENDS),
    [ACME_EXECUTABLE_INFO] = LAYOUT(executable_info, EXECUTABLE_INFO_ENDS),
    [ACME_GRAPH] = LAYOUT(graph, GRAPH_ENDS),
    [ACME_HOST_SERVICES] = LAYOUT(host_services, HOST_SERVICES_ENDS),
    [ACME_LOAD_SOURCE] = LAYOUT(load_source, LOAD_SOURCE_ENDS),
    [ACME_MEMORY] = LAYOUT(memory, MEMORY_ENDS),
    [ACME_NODE] = LAYOUT(node, NODE_ENDS),
    [ACME_PLUGIN_INFO] = LAYOUT(plugin_info, PLUGIN_INFO_ENDS),
    [ACME_PORT] = LAYOUT(port, PORT_ENDS),
    [ACME_PORT_REQUEST] = LAYOUT(port_request, PORT_REQUEST_ENDS),
    [ACME_SUBMIT] = LAYOUT(submit, SUBMIT_ENDS),
    [ACME_SUPPORT] = LAYOUT(support, SUPPORT_ENDS),
    [ACME_TENSOR] = LAYOUT(tensor, TENSOR_ENDS),
    [ACME_TIMING] = LAYOUT(timing, TIMING_ENDS),
};

/* Bytes of a record that both sides know; 0 where it is null, or its size ends inside a field. */
static size_t common(const struct layout *layout, const void *theirs)
{
    uint32_t size;

    if (theirs == NULL) {
        return 0;
    }
    memcpy(&size, theirs, sizeof size);
    if (size >= layout->size) {
        return layout->size;
    }
    for (size_t field = 0; field < layout->count; field++) {
        /* Behind the last field of an older build, padding may round the size up to 8. */
        if (size == layout->ends[field] || size == (layout->ends[field] + 7u) / 8 * 8) {
            return size;
        }
    }
    return 0;
}

/* Copies the host's record into ours; what the host does not know is zero. */
bool acme_read(void *mine, enum acme_record record, const void *theirs)
{
    const struct layout *layout = &LAYOUTS[record];
    const size_t bytes = common(layout, theirs);

    memset(mine, 0, layout->size);
    if (bytes != 0) {
        memcpy(mine, theirs, bytes);
    }
    return bytes != 0;
}

/* Copies our record into the host's, behind its `struct_size`. */
bool acme_write(void *theirs, enum acme_record record, const void *mine)
{
    const size_t bytes = common(&LAYOUTS[record], theirs);
    const size_t head = sizeof(uint32_t);

    if (bytes != 0) {
        memcpy((uint8_t *)theirs + head, (const uint8_t *)mine + head, bytes - head);
    }
    return bytes != 0;
}

static uint32_t fail(struct polychip_error *error, uint32_t status, uint32_t node, uint32_t tensor,
                     const char *format, va_list arguments)
{
    struct polychip_error record;
    char words[POLYCHIP_ERROR_MESSAGE_BYTES];

    if (error == NULL) {
        return status;
    }
    memset(&record, 0, sizeof record);
    record.status = status;
    record.node = node;
    record.tensor = tensor;
    const int written = vsnprintf(words, sizeof words, format, arguments);
    if (written > 0) {
        size_t length = (size_t)written < sizeof words ? (size_t)written : sizeof words - 1;
        if ((size_t)written > length) {
            /* Words were cut: drop the bytes of a character that is not whole. */
            while (length > 0 && ((unsigned char)words[length - 1] & 0xc0) == 0x80) {
                length--;
            }
            if (length > 0 && ((unsigned char)words[length - 1] & 0x80) != 0) {
                length--;
            }
        }
        record.message_len = (uint32_t)length;
        memcpy(record.message, words, length);
    }
    acme_write(error, ACME_ERROR, &record);
    return status;
}

uint32_t acme_fail(struct polychip_error *error, uint32_t status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fail(error, status, POLYCHIP_NO_INDEX, POLYCHIP_NO_INDEX, format, arguments);
    va_end(arguments);
    return status;
}

uint32_t acme_fail_at(struct polychip_error *error, uint32_t status, uint32_t node, uint32_t tensor,
                      const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fail(error, status, node, tensor, format, arguments);
    va_end(arguments);
    return status;
}

/* The host's clock, where the host gives one. */
uint64_t acme_now_ns(const struct polychip_instance *instance, bool *known)
{
    *known = instance->known.now_ns != NULL;
    return *known ? instance->known.now_ns(instance->known.user) : 0;
}
