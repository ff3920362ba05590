/* Blobs: a part's ports, steps and constants as bytes, and the executable made of them.
 *
 * Invariants:
 * 1. A blob is a header, the ports, the steps, the constants; it holds no addresses.
 * 2. `load` believes nothing: size, marks, hash, fingerprint, then each number.
 */
#include "acme.h"

#include <stdlib.h>
#include <string.h>

/* "ACM1" as little-endian bytes: a blob of the other byte order is foreign. */
#define BLOB_MAGIC 0x314d4341u

struct blob_header {
    uint32_t magic;
    uint32_t header_bytes;
    uint64_t bytes;
    uint64_t hash; /* of the bytes behind this field */
    char build_id[32];
    uint8_t content_fingerprint[32];
    uint32_t input_count;
    uint32_t output_count;
    uint32_t step_count;
    uint32_t reserved;
    uint64_t constant_bytes;
    uint64_t arena_bytes;
};

_Static_assert(sizeof(struct blob_header) == 120, "no padding reaches a blob");
_Static_assert(sizeof ACME_BUILD_ID <= 32, "the build id fits a blob");
_Static_assert(sizeof(struct acme_operand) == 24 + 8 * POLYCHIP_MAX_RANK, "no padding reaches a blob");
_Static_assert(sizeof(struct acme_step) == 8 + 3 * sizeof(struct acme_operand), "no padding");
_Static_assert(sizeof(struct acme_port) == 24 + 8 * POLYCHIP_MAX_RANK, "no padding reaches a blob");

/* FNV-1a, 64 bits: finds torn bytes, not forged ones. */
static uint64_t blob_hash(const uint8_t *data, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const size_t start = offsetof(struct blob_header, build_id);

    for (size_t at = start; at < bytes; at++) {
        hash = (hash ^ data[at]) * 0x100000001b3u;
    }
    return hash;
}

uint32_t acme_blob_write(const struct acme_lowering *lowering, struct polychip_blob **out_blob,
                         struct polychip_error *error)
{
    const struct polychip_graph *graph = &lowering->graph;
    const size_t port_bytes =
        (size_t)(graph->input_count + graph->output_count) * sizeof(struct acme_port);
    const size_t step_bytes = (size_t)lowering->step_count * sizeof(struct acme_step);
    const size_t constants = sizeof(struct blob_header) + port_bytes + step_bytes;
    struct blob_header header;
    struct polychip_blob *blob = calloc(1, sizeof *blob);

    if (blob != NULL) {
        blob->bytes = constants + (size_t)lowering->constant_bytes;
        blob->data = calloc(1, blob->bytes);
    }
    if (blob == NULL || blob->data == NULL) {
        free(blob);
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "compile: no memory for a blob");
    }
    memset(&header, 0, sizeof header);
    header.magic = BLOB_MAGIC;
    header.header_bytes = sizeof header;
    header.bytes = blob->bytes;
    memcpy(header.build_id, ACME_BUILD_ID, sizeof ACME_BUILD_ID);
    memcpy(header.content_fingerprint, graph->content_fingerprint, sizeof header.content_fingerprint);
    header.input_count = (uint32_t)graph->input_count;
    header.output_count = (uint32_t)graph->output_count;
    header.step_count = lowering->step_count;
    header.constant_bytes = lowering->constant_bytes;
    header.arena_bytes = lowering->arena_bytes;
    memcpy(blob->data, &header, sizeof header);
    if (port_bytes != 0) {
        memcpy(blob->data + sizeof header, lowering->ports, port_bytes);
    }
    if (step_bytes != 0) {
        memcpy(blob->data + sizeof header + port_bytes, lowering->steps, step_bytes);
    }
    for (uint32_t at = 0; at < graph->tensor_count; at++) {
        const struct acme_operand *place = &lowering->homes[at];
        struct polychip_tensor tensor;

        if (place->reserved != 0 && place->place == IN_CONSTANTS &&
            acme_tensor_at(&tensor, graph, at) && tensor.data_bytes != 0) {
            memcpy(blob->data + constants + place->offset, tensor.data, (size_t)tensor.data_bytes);
        }
    }
    header.hash = blob_hash(blob->data, blob->bytes);
    memcpy(blob->data, &header, sizeof header);
    *out_blob = blob;
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_blob_bytes(struct polychip_blob *blob, struct polychip_bytes *out_bytes,
                         struct polychip_error *error)
{
    if (blob == NULL || out_bytes == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "blob_bytes: a pointer is null");
    }
    if (blob->data == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "blob_bytes: an executable took the blob over");
    }
    out_bytes->data = blob->data;
    out_bytes->len = blob->bytes;
    return POLYCHIP_STATUS_OK;
}

void acme_blob_destroy(struct polychip_blob *blob)
{
    if (blob != NULL) {
        free(blob->data);
        free(blob);
    }
}

/* Whether an operand lies inside its place. */
static bool operand_holds(const struct polychip_executable *executable,
                          const struct acme_operand *operand, bool written)
{
    uint64_t bytes;
    uint64_t room;

    if (operand->rank > POLYCHIP_MAX_RANK || !acme_extent(operand->rank, operand->dims, &bytes)) {
        return false;
    }
    switch (operand->place) {
    case IN_PORT:
        if (operand->port >= executable->input_count + executable->output_count ||
            (written && operand->port < executable->input_count) || operand->offset != 0) {
            return false;
        }
        room = executable->ports[operand->port].bytes;
        break;
    case IN_CONSTANTS:
        room = written ? 0 : executable->constant_bytes;
        break;
    case IN_ARENA:
        room = executable->arena_bytes;
        break;
    default:
        return false;
    }
    return operand->offset <= room && bytes <= room - operand->offset;
}

static bool step_holds(const struct polychip_executable *executable, const struct acme_step *step)
{
    const uint32_t wanted = step->op == POLYCHIP_OP_ADD ? 2 : 1;

    if ((step->op != POLYCHIP_OP_ADD && step->op != POLYCHIP_OP_RELU &&
         step->op != POLYCHIP_OP_IDENTITY) ||
        step->input_count != wanted || !operand_holds(executable, &step->output, true)) {
        return false;
    }
    for (uint32_t input = 0; input < wanted; input++) {
        if (!operand_holds(executable, &step->inputs[input], false) ||
            !acme_broadcasts(&step->inputs[input], &step->output) ||
            (wanted == 1 &&
             acme_operand_bytes(&step->inputs[input]) != acme_operand_bytes(&step->output))) {
            return false;
        }
    }
    return true;
}

static bool port_holds(const struct polychip_executable *executable, uint32_t port)
{
    const struct acme_port *record = &executable->ports[port];
    const uint32_t count = executable->input_count + executable->output_count;
    const uint32_t side = port < executable->input_count ? 0 : POLYCHIP_PORT_OUTPUT;
    uint64_t bytes;

    if (record->rank > POLYCHIP_MAX_RANK || !acme_extent(record->rank, record->dims, &bytes) ||
        bytes != record->bytes || (record->flags & POLYCHIP_PORT_OUTPUT) != side) {
        return false;
    }
    if ((record->flags & POLYCHIP_PORT_STATE) == 0) {
        return record->state_port == POLYCHIP_NO_INDEX;
    }
    return record->state_port < count && executable->ports[record->state_port].state_port == port;
}

static uint32_t read_blob(struct polychip_executable *executable, const uint8_t *data, size_t bytes,
                          const struct polychip_graph *graph, struct polychip_error *error)
{
    struct blob_header header;
    char build_id[sizeof header.build_id] = ACME_BUILD_ID;

    if (data == NULL || bytes < sizeof header) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_BLOB, "load: %zu bytes are no blob", bytes);
    }
    memcpy(&header, data, sizeof header);
    if (header.magic != BLOB_MAGIC || header.header_bytes != sizeof header ||
        memcmp(header.build_id, build_id, sizeof build_id) != 0) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_BLOB, "load: the blob is not of build %s",
                         ACME_BUILD_ID);
    }
    if (header.bytes != bytes || header.hash != blob_hash(data, bytes)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_BLOB, "load: the blob is torn");
    }
    if (graph != NULL && memcmp(header.content_fingerprint, graph->content_fingerprint,
                                sizeof header.content_fingerprint) != 0) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_BLOB, "load: the blob is of another part");
    }
    const uint64_t ports = (uint64_t)header.input_count + header.output_count;
    const uint64_t room = bytes - sizeof header;
    if (ports > room / sizeof(struct acme_port) ||
        header.step_count > (room - ports * sizeof(struct acme_port)) / sizeof(struct acme_step) ||
        header.constant_bytes != room - ports * sizeof(struct acme_port) -
                                     header.step_count * sizeof(struct acme_step)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_BLOB, "load: the blob's tables do not fit its size");
    }
    executable->input_count = header.input_count;
    executable->output_count = header.output_count;
    executable->step_count = header.step_count;
    executable->constant_bytes = header.constant_bytes;
    executable->arena_bytes = header.arena_bytes;
    executable->ports = calloc((size_t)ports + 1, sizeof *executable->ports);
    executable->steps = calloc((size_t)header.step_count + 1, sizeof *executable->steps);
    executable->arena = malloc(header.arena_bytes == 0 ? 1 : (size_t)header.arena_bytes);
    if (executable->ports == NULL || executable->steps == NULL || executable->arena == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "load: no memory for an executable");
    }
    const uint8_t *at = data + sizeof header;
    memcpy(executable->ports, at, (size_t)ports * sizeof *executable->ports);
    at += ports * sizeof *executable->ports;
    memcpy(executable->steps, at, header.step_count * sizeof *executable->steps);
    executable->constants = at + header.step_count * sizeof *executable->steps;
    for (uint32_t port = 0; port < ports; port++) {
        if (!port_holds(executable, port)) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_BLOB, POLYCHIP_NO_INDEX, port,
                                "load: port %u of the blob is broken", port);
        }
    }
    for (uint32_t step = 0; step < header.step_count; step++) {
        if (!step_holds(executable, &executable->steps[step])) {
            return acme_fail(error, POLYCHIP_STATUS_BAD_BLOB, "load: step %u of the blob is broken", step);
        }
    }
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_load(struct polychip_device *device, const struct polychip_load_source *source,
                   struct polychip_executable **out_executable, struct polychip_error *error)
{
    struct polychip_load_source known;
    struct polychip_graph graph;
    struct polychip_executable *executable;
    uint32_t status;

    if (device == NULL || out_executable == NULL || !acme_read(&known, ACME_LOAD_SOURCE, source)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "load: a pointer is null or the source is torn");
    }
    if (known.blob != NULL && known.blob->data == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "load: the blob has been loaded before");
    }
    const bool has_graph = acme_read(&graph, ACME_GRAPH, known.graph);
    executable = calloc(1, sizeof *executable);
    if (executable == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "load: no memory for an executable");
    }
    executable->device = device;
    status = read_blob(executable, known.blob != NULL ? known.blob->data : known.bytes.data,
                       known.blob != NULL ? known.blob->bytes : (size_t)known.bytes.len,
                       has_graph ? &graph : NULL, error);
    if (status != POLYCHIP_STATUS_OK) {
        acme_executable_destroy(executable);
        return status;
    }
    if (known.blob != NULL) {
        executable->blob = known.blob->data;
        known.blob->data = NULL;
    }
    *out_executable = executable;
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_executable_info(struct polychip_executable *executable,
                              struct polychip_executable_info *out_info,
                              struct polychip_error *error)
{
    struct polychip_executable_info info;

    memset(&info, 0, sizeof info);
    if (executable != NULL) {
        info.input_count = executable->input_count;
        info.output_count = executable->output_count;
        info.constant_bytes = executable->constant_bytes;
        info.arena_bytes = executable->arena_bytes;
    }
    if (executable == NULL || !acme_write(out_info, ACME_EXECUTABLE_INFO, &info)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "executable_info: a pointer is null or the record is torn");
    }
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_port_info(struct polychip_executable *executable, uint32_t port,
                        struct polychip_port *out_port, struct polychip_error *error)
{
    struct polychip_port record;

    if (executable == NULL || out_port == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "port_info: a pointer is null");
    }
    if (port >= executable->input_count + executable->output_count) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, port,
                            "port_info: port %u does not exist: there are %u", port,
                            executable->input_count + executable->output_count);
    }
    const struct acme_port *known = &executable->ports[port];
    memset(&record, 0, sizeof record);
    record.flags = known->flags;
    record.dtype = POLYCHIP_DTYPE_F32;
    record.layout = POLYCHIP_LAYOUT_ROW_MAJOR;
    record.rank = known->rank;
    record.state_port = known->state_port;
    record.alignment = _Alignof(float);
    record.memory_kinds = 1u << POLYCHIP_MEMORY_HOST;
    record.bytes = known->bytes;
    memcpy(record.dims, known->dims, sizeof record.dims);
    if (!acme_write(out_port, ACME_PORT, &record)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "port_info: the record is torn");
    }
    return POLYCHIP_STATUS_OK;
}

void acme_executable_destroy(struct polychip_executable *executable)
{
    if (executable != NULL) {
        free(executable->ports);
        free(executable->steps);
        free(executable->arena);
        free(executable->blob);
        free(executable);
    }
}
