/* What the device runs: Identity, Relu and Add on f32 of known shapes. Each refusal has its reason.
 *
 * Invariants:
 * 1. A yes is kept by `compile`: both ask `acme_supports`.
 * 2. A graph whose indices lead nowhere is an error of the call, not a reason.
 */
#include "acme.h"

#include <stdio.h>
#include <string.h>

/* The first element of an array of records, and those behind it by the array's own stride. */
static const void *element(const void *first, uint64_t count, uint64_t stride, uint64_t index)
{
    if (first == NULL || index >= count) {
        return NULL;
    }
    return (const uint8_t *)first + index * stride;
}

bool acme_node_at(struct polychip_node *out, const struct polychip_graph *graph, uint64_t index)
{
    return acme_read(out, ACME_NODE,
                     element(graph->nodes, graph->node_count, graph->node_stride, index));
}

bool acme_tensor_at(struct polychip_tensor *out, const struct polychip_graph *graph, uint64_t index)
{
    return acme_read(out, ACME_TENSOR,
                     element(graph->tensors, graph->tensor_count, graph->tensor_stride, index));
}

uint32_t acme_graph_read(struct polychip_graph *out, const struct polychip_graph *graph,
                         struct polychip_error *error)
{
    if (!acme_read(out, ACME_GRAPH, graph)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "the graph is null or its size ends inside a field");
    }
    if ((out->nodes == NULL && out->node_count != 0) ||
        (out->tensors == NULL && out->tensor_count != 0) ||
        (out->inputs == NULL && out->input_count != 0) ||
        (out->outputs == NULL && out->output_count != 0) ||
        (out->states == NULL && out->state_count != 0)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "an array of the graph is null");
    }
    if ((out->node_count > 1 && out->node_stride < sizeof(uint32_t)) ||
        (out->tensor_count > 1 && out->tensor_stride < sizeof(uint32_t))) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "records of the graph overlap");
    }
    if (out->node_count >= UINT32_MAX || out->tensor_count >= UINT32_MAX ||
        out->input_count >= UINT32_MAX || out->output_count >= UINT32_MAX) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "the graph has 2^32 parts or more");
    }
    for (uint64_t port = 0; port < out->input_count + out->output_count; port++) {
        const uint32_t tensor = port < out->input_count ? out->inputs[port]
                                                        : out->outputs[port - out->input_count];
        if (tensor >= out->tensor_count) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, tensor,
                                "port %llu names tensor %u of %llu", (unsigned long long)port, tensor,
                                (unsigned long long)out->tensor_count);
        }
    }
    return POLYCHIP_STATUS_OK;
}

bool acme_extent(uint32_t rank, const int64_t *dims, uint64_t *out_bytes)
{
    uint64_t bytes = sizeof(float);
    bool empty = false;

    for (uint32_t axis = 0; axis < rank; axis++) {
        if (dims[axis] < 0) {
            return false;
        }
        if (dims[axis] == 0) {
            empty = true;
        } else if ((uint64_t)dims[axis] > (uint64_t)INT64_MAX / bytes) {
            return false;
        } else {
            bytes *= (uint64_t)dims[axis];
        }
    }
    *out_bytes = empty ? 0 : bytes;
    return true;
}

uint64_t acme_operand_bytes(const struct acme_operand *operand)
{
    uint64_t bytes = 0;

    acme_extent(operand->rank, operand->dims, &bytes);
    return bytes;
}

/* Whether NumPy's rules repeat `input` to the shape of `output`. */
bool acme_broadcasts(const struct acme_operand *input, const struct acme_operand *output)
{
    if (input->rank > output->rank) {
        return false;
    }
    for (uint32_t back = 1; back <= input->rank; back++) {
        const int64_t from = input->dims[input->rank - back];
        if (from != 1 && from != output->dims[output->rank - back]) {
            return false;
        }
    }
    return true;
}

/* The reason against one tensor, or POLYCHIP_SUPPORT_YES. */
static uint32_t tensor_reason(const struct polychip_tensor *tensor, struct acme_operand *out_shape,
                              char *detail, size_t capacity)
{
    uint64_t bytes;

    if ((tensor->flags & (POLYCHIP_TENSOR_UNTYPED | POLYCHIP_TENSOR_CONTAINER)) != 0 ||
        tensor->dtype != POLYCHIP_DTYPE_F32) {
        snprintf(detail, capacity, "element type %u, only f32 (1) is", tensor->dtype);
        return POLYCHIP_SUPPORT_DTYPE;
    }
    if (tensor->encoding != NULL) {
        snprintf(detail, capacity, "a quantised operand");
        return POLYCHIP_SUPPORT_ENCODING;
    }
    if ((tensor->flags & (POLYCHIP_TENSOR_UNRANKED | POLYCHIP_TENSOR_UPPER_BOUND)) != 0) {
        snprintf(detail, capacity, "an operand whose extents the run makes");
        return POLYCHIP_SUPPORT_DYNAMIC_SHAPE;
    }
    if (tensor->rank > POLYCHIP_MAX_RANK) {
        snprintf(detail, capacity, "%u, at most %d", tensor->rank, POLYCHIP_MAX_RANK);
        return POLYCHIP_SUPPORT_RANK;
    }
    out_shape->rank = tensor->rank;
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        if (tensor->dims[axis] == POLYCHIP_DIM_UNKNOWN) {
            snprintf(detail, capacity, "extent %u", axis);
            return POLYCHIP_SUPPORT_DYNAMIC_SHAPE;
        }
        out_shape->dims[axis] = tensor->dims[axis];
    }
    if (!acme_extent(tensor->rank, tensor->dims, &bytes) || bytes > SIZE_MAX / 4) {
        snprintf(detail, capacity, "a tensor of more bytes than can be addressed");
        return POLYCHIP_SUPPORT_SHAPE;
    }
    if ((tensor->flags & POLYCHIP_TENSOR_CONSTANT) != 0 &&
        (tensor->data_bytes != bytes || (tensor->data == NULL && bytes != 0))) {
        snprintf(detail, capacity, "a constant of %llu bytes whose shape holds %llu",
                 (unsigned long long)tensor->data_bytes, (unsigned long long)bytes);
        return POLYCHIP_SUPPORT_SHAPE;
    }
    return POLYCHIP_SUPPORT_YES;
}

uint32_t acme_supports(const struct polychip_graph *graph, uint32_t index, uint32_t *out_reason,
                       char *detail, size_t capacity, struct polychip_error *error)
{
    struct polychip_node node;
    struct acme_operand shapes[3];
    uint64_t input_count;

    memset(shapes, 0, sizeof shapes);
    detail[0] = 0;
    if (!acme_node_at(&node, graph, index) || (node.inputs == NULL && node.input_count != 0) ||
        (node.outputs == NULL && node.output_count != 0)) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, index, POLYCHIP_NO_INDEX,
                            "node %u is null, is torn or misses an array", index);
    }
    switch (node.op) {
    case POLYCHIP_OP_IDENTITY:
    case POLYCHIP_OP_RELU:
        input_count = 1;
        break;
    case POLYCHIP_OP_ADD:
        input_count = 2;
        break;
    default:
        snprintf(detail, capacity, "%.*s", (int)(node.op_name.len < 64 ? node.op_name.len : 64),
                 node.op_name.len == 0 ? "" : (const char *)node.op_name.data);
        *out_reason = POLYCHIP_SUPPORT_OP;
        return POLYCHIP_STATUS_OK;
    }
    if (node.body_count != 0) {
        snprintf(detail, capacity, "a body graph");
        *out_reason = POLYCHIP_SUPPORT_BODY;
        return POLYCHIP_STATUS_OK;
    }
    if (node.attribute_count != 0) {
        snprintf(detail, capacity, "%llu attributes, none is known of this op",
                 (unsigned long long)node.attribute_count);
        *out_reason = POLYCHIP_SUPPORT_ATTRIBUTE;
        return POLYCHIP_STATUS_OK;
    }
    if (node.input_count != input_count || node.output_count != 1) {
        return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, index, POLYCHIP_NO_INDEX,
                            "node %u has %llu inputs and %llu outputs: op %u has %llu and 1", index,
                            (unsigned long long)node.input_count,
                            (unsigned long long)node.output_count, node.op,
                            (unsigned long long)input_count);
    }
    for (uint64_t operand = 0; operand <= input_count; operand++) {
        const uint32_t at = operand < input_count ? node.inputs[operand] : node.outputs[0];
        struct polychip_tensor tensor;

        if (!acme_tensor_at(&tensor, graph, at) || (tensor.dims == NULL && tensor.rank != 0)) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, index, at,
                                "node %u names tensor %u, which the graph does not hold", index, at);
        }
        *out_reason = tensor_reason(&tensor, &shapes[operand], detail, capacity);
        if (*out_reason != POLYCHIP_SUPPORT_YES) {
            return POLYCHIP_STATUS_OK;
        }
    }
    for (uint64_t operand = 0; operand < input_count; operand++) {
        const bool fits = node.op == POLYCHIP_OP_ADD
                              ? acme_broadcasts(&shapes[operand], &shapes[input_count])
                              : shapes[operand].rank == shapes[1].rank &&
                                    memcmp(shapes[operand].dims, shapes[1].dims,
                                           sizeof shapes[1].dims) == 0;
        if (!fits) {
            snprintf(detail, capacity, "the shape of input %llu does not give the output's",
                     (unsigned long long)operand);
            *out_reason = POLYCHIP_SUPPORT_SHAPE;
            return POLYCHIP_STATUS_OK;
        }
    }
    *out_reason = POLYCHIP_SUPPORT_YES;
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_query_support(struct polychip_device *device, const struct polychip_graph *graph,
                            struct polychip_support *out_support, uint64_t stride,
                            struct polychip_error *error)
{
    struct polychip_graph known;
    uint32_t status = acme_graph_read(&known, graph, error);

    if (status != POLYCHIP_STATUS_OK) {
        return status;
    }
    if (device == NULL || (out_support == NULL && known.node_count != 0) ||
        (stride < sizeof(uint32_t) && known.node_count > 1)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "query_support: a pointer is null or the records overlap");
    }
    for (uint32_t node = 0; node < known.node_count; node++) {
        struct polychip_support record;
        char detail[POLYCHIP_SUPPORT_DETAIL_BYTES];

        memset(&record, 0, sizeof record);
        status = acme_supports(&known, node, &record.reason, detail, sizeof detail, error);
        if (status != POLYCHIP_STATUS_OK) {
            return status;
        }
        record.detail_len = (uint32_t)strlen(detail);
        memcpy(record.detail, detail, record.detail_len);
        if (!acme_write((uint8_t *)out_support + node * stride, ACME_SUPPORT, &record)) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, node, POLYCHIP_NO_INDEX,
                                "query_support: record %u is torn", node);
        }
    }
    return POLYCHIP_STATUS_OK;
}
