/* A part becomes ports and steps: where each tensor is during a run, and what is computed in which order.
 *
 * Invariants:
 * 1. A node that is lowered has passed `acme_supports`.
 * 2. An output that is state is written last, when no step reads its other half any more.
 */
#include "acme.h"

#include <stdlib.h>
#include <string.h>

/* Tensors in the arena start on a cache line. */
#define ARENA_ALIGNMENT 64u

static void lowering_free(struct acme_lowering *lowering)
{
    free(lowering->homes);
    free(lowering->ports);
    free(lowering->steps);
}

/* Room for `bytes` bytes behind `*end`; false where there is none. */
static bool reserve(uint64_t *end, uint64_t bytes, uint64_t *out_offset)
{
    const uint64_t limit = SIZE_MAX / 4;

    if (bytes > limit || *end > limit - bytes - ARENA_ALIGNMENT) {
        return false;
    }
    *out_offset = *end;
    *end += (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    return true;
}

/* An f32 tensor of known shape as an operand without a place; false for any other. */
static bool shape_of(const struct polychip_tensor *tensor, struct acme_operand *out)
{
    uint64_t bytes;

    memset(out, 0, sizeof *out);
    if (tensor->dtype != POLYCHIP_DTYPE_F32 || tensor->encoding != NULL ||
        (tensor->flags & ~(uint32_t)POLYCHIP_TENSOR_CONSTANT) != 0 ||
        tensor->rank > POLYCHIP_MAX_RANK || (tensor->dims == NULL && tensor->rank != 0) ||
        !acme_extent(tensor->rank, tensor->dims, &bytes)) {
        return false;
    }
    out->rank = tensor->rank;
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        out->dims[axis] = tensor->dims[axis];
    }
    return true;
}

static uint32_t lower_ports(struct acme_lowering *lowering, struct polychip_error *error)
{
    const struct polychip_graph *graph = &lowering->graph;
    const uint64_t count = graph->input_count + graph->output_count;

    for (uint32_t port = 0; port < count; port++) {
        const bool output = port >= graph->input_count;
        const uint32_t at = output ? graph->outputs[port - graph->input_count] : graph->inputs[port];
        struct polychip_tensor tensor;
        struct acme_operand shape;
        struct acme_port *record = &lowering->ports[port];

        if (!acme_tensor_at(&tensor, graph, at) || !shape_of(&tensor, &shape)) {
            return acme_fail_at(error, POLYCHIP_STATUS_UNSUPPORTED, POLYCHIP_NO_INDEX, at,
                                "compile: tensor %u of a port is not f32 of a known shape", at);
        }
        record->flags = output ? POLYCHIP_PORT_OUTPUT : 0;
        record->state_port = POLYCHIP_NO_INDEX;
        record->rank = shape.rank;
        record->bytes = acme_operand_bytes(&shape);
        memcpy(record->dims, shape.dims, sizeof shape.dims);
        if (!output) {
            shape.place = IN_PORT;
            shape.port = port;
            shape.reserved = 1;
            lowering->homes[at] = shape;
        }
    }
    for (uint64_t pair = 0; pair < graph->state_count; pair++) {
        const struct polychip_state *state = &graph->states[pair];
        uint32_t input = 0;
        uint32_t output = 0;

        while (input < graph->input_count && graph->inputs[input] != state->input) {
            input++;
        }
        while (output < graph->output_count && graph->outputs[output] != state->output) {
            output++;
        }
        if (input == graph->input_count || output == graph->output_count) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, state->input,
                                "compile: in-out pair %llu is not an input and an output",
                                (unsigned long long)pair);
        }
        output += (uint32_t)graph->input_count;
        lowering->ports[input].flags |= POLYCHIP_PORT_STATE;
        lowering->ports[input].state_port = output;
        lowering->ports[output].flags |= POLYCHIP_PORT_STATE;
        lowering->ports[output].state_port = input;
    }
    return POLYCHIP_STATUS_OK;
}

/* The first output port of a tensor that may be written as soon as it is computed. */
static uint32_t early_port(const struct acme_lowering *lowering, uint32_t tensor)
{
    const struct polychip_graph *graph = &lowering->graph;

    for (uint32_t output = 0; output < graph->output_count; output++) {
        const uint32_t port = (uint32_t)graph->input_count + output;
        if (graph->outputs[output] == tensor &&
            (lowering->ports[port].flags & POLYCHIP_PORT_STATE) == 0) {
            return port;
        }
    }
    return POLYCHIP_NO_INDEX;
}

/* Where a tensor is read from: a constant gets its place at its first use. */
static uint32_t home(struct acme_lowering *lowering, uint32_t tensor, struct acme_operand *out,
                     struct polychip_error *error)
{
    struct acme_operand *known = &lowering->homes[tensor];
    struct polychip_tensor record;

    if (known->reserved == 0) {
        if (!acme_tensor_at(&record, &lowering->graph, tensor) || !shape_of(&record, known) ||
            (record.flags & POLYCHIP_TENSOR_CONSTANT) == 0) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, tensor,
                                "compile: tensor %u is read before it is computed", tensor);
        }
        if (record.data_bytes != acme_operand_bytes(known) ||
            (record.data == NULL && record.data_bytes != 0) ||
            !reserve(&lowering->constant_bytes, record.data_bytes, &known->offset)) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, POLYCHIP_NO_INDEX, tensor,
                                "compile: constant %u has %llu bytes, its shape holds %llu", tensor,
                                (unsigned long long)record.data_bytes,
                                (unsigned long long)acme_operand_bytes(known));
        }
        known->place = IN_CONSTANTS;
        known->reserved = 1;
    }
    *out = *known;
    out->reserved = 0;
    return POLYCHIP_STATUS_OK;
}

static void copy_step(struct acme_lowering *lowering, const struct acme_operand *from,
                      const struct acme_operand *to)
{
    struct acme_step *step = &lowering->steps[lowering->step_count++];

    step->op = POLYCHIP_OP_IDENTITY;
    step->input_count = 1;
    step->inputs[0] = *from;
    step->output = *to;
}

static uint32_t lower_nodes(struct acme_lowering *lowering, struct polychip_error *error)
{
    for (uint32_t index = 0; index < lowering->graph.node_count; index++) {
        struct polychip_node node;
        struct polychip_tensor tensor;
        char detail[POLYCHIP_SUPPORT_DETAIL_BYTES];
        uint32_t reason;
        struct acme_step *step = &lowering->steps[lowering->step_count];
        uint32_t status =
            acme_supports(&lowering->graph, index, &reason, detail, sizeof detail, error);

        if (status != POLYCHIP_STATUS_OK) {
            return status;
        }
        if (reason != POLYCHIP_SUPPORT_YES) {
            return acme_fail_at(error, POLYCHIP_STATUS_UNSUPPORTED, index, POLYCHIP_NO_INDEX,
                                "compile: node %u: %s", index, detail);
        }
        acme_node_at(&node, &lowering->graph, index);
        step->op = node.op;
        step->input_count = (uint32_t)node.input_count;
        for (uint32_t operand = 0; operand < node.input_count; operand++) {
            status = home(lowering, node.inputs[operand], &step->inputs[operand], error);
            if (status != POLYCHIP_STATUS_OK) {
                return status;
            }
        }
        const uint32_t result = node.outputs[0];
        if (lowering->homes[result].reserved != 0) {
            return acme_fail_at(error, POLYCHIP_STATUS_BAD_ARGUMENT, index, result,
                                "compile: tensor %u is computed twice", result);
        }
        acme_tensor_at(&tensor, &lowering->graph, result);
        shape_of(&tensor, &step->output);
        step->output.port = early_port(lowering, result);
        if (step->output.port != POLYCHIP_NO_INDEX) {
            step->output.place = IN_PORT;
        } else {
            step->output.port = 0;
            step->output.place = IN_ARENA;
            if (!reserve(&lowering->arena_bytes, acme_operand_bytes(&step->output),
                         &step->output.offset)) {
                return acme_fail_at(error, POLYCHIP_STATUS_OUT_OF_MEMORY, index, result,
                                    "compile: the part's tensors cannot be addressed");
            }
        }
        lowering->homes[result] = step->output;
        lowering->homes[result].reserved = 1;
        lowering->step_count++;
    }
    return POLYCHIP_STATUS_OK;
}

/* Output ports whose tensor was computed elsewhere. State last, from the arena: pairs may swap. */
static uint32_t lower_outputs(struct acme_lowering *lowering, struct polychip_error *error)
{
    const struct polychip_graph *graph = &lowering->graph;
    const uint32_t inputs = (uint32_t)graph->input_count;

    for (uint32_t output = 0; output < graph->output_count; output++) {
        struct acme_operand from;
        struct acme_operand to;
        uint32_t status = home(lowering, graph->outputs[output], &from, error);

        if (status != POLYCHIP_STATUS_OK) {
            return status;
        }
        to = from;
        if ((lowering->ports[inputs + output].flags & POLYCHIP_PORT_STATE) == 0) {
            if (from.place != IN_PORT || from.port != inputs + output) {
                to.place = IN_PORT;
                to.port = inputs + output;
                to.offset = 0;
                copy_step(lowering, &from, &to);
            }
        } else if (from.place == IN_PORT && from.port < inputs) {
            to.place = IN_ARENA;
            to.port = 0;
            if (!reserve(&lowering->arena_bytes, acme_operand_bytes(&to), &to.offset)) {
                return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY,
                                 "compile: the part's tensors cannot be addressed");
            }
            copy_step(lowering, &from, &to);
            /* The second half, from the arena to the port, follows below. */
            lowering->ports[inputs + output].reserved = lowering->step_count;
        }
    }
    for (uint32_t output = 0; output < graph->output_count; output++) {
        struct acme_port *port = &lowering->ports[inputs + output];
        struct acme_operand from;
        struct acme_operand to;

        if ((port->flags & POLYCHIP_PORT_STATE) == 0) {
            continue;
        }
        if (port->reserved != 0) {
            from = lowering->steps[port->reserved - 1].output;
            port->reserved = 0;
        } else {
            home(lowering, graph->outputs[output], &from, NULL);
        }
        to = from;
        to.place = IN_PORT;
        to.port = inputs + output;
        to.offset = 0;
        copy_step(lowering, &from, &to);
    }
    return POLYCHIP_STATUS_OK;
}

/* Layouts and precision are wishes: every port is row-major, every run exact. */
static uint32_t check_requests(const struct polychip_compile_options *options, uint64_t ports,
                               struct polychip_error *error)
{
    if ((options->ports == NULL && options->port_count != 0) ||
        (options->port_stride < sizeof(uint32_t) && options->port_count > 1)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "compile: the requests of layouts are null or overlap");
    }
    for (uint64_t at = 0; at < options->port_count; at++) {
        struct polychip_port_request request;

        if (!acme_read(&request, ACME_PORT_REQUEST,
                       (const uint8_t *)options->ports + at * options->port_stride) ||
            request.port >= ports || request.layout > POLYCHIP_LAYOUT_VENDOR) {
            return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                             "compile: request %llu is torn, or of layout %u for port %u of %llu",
                             (unsigned long long)at, request.layout, request.port,
                             (unsigned long long)ports);
        }
    }
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_compile(struct polychip_device *device, const struct polychip_graph *graph,
                      const struct polychip_compile_options *options,
                      struct polychip_blob **out_blob, struct polychip_error *error)
{
    struct acme_lowering lowering;
    struct polychip_compile_options known;
    uint32_t status;

    if (device == NULL || out_blob == NULL || !acme_read(&known, ACME_COMPILE_OPTIONS, options)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "compile: a pointer is null or the options are torn");
    }
    memset(&lowering, 0, sizeof lowering);
    status = acme_graph_read(&lowering.graph, graph, error);
    if (status != POLYCHIP_STATUS_OK) {
        return status;
    }
    const uint64_t ports = lowering.graph.input_count + lowering.graph.output_count;
    status = check_requests(&known, ports, error);
    if (status != POLYCHIP_STATUS_OK) {
        return status;
    }
    const uint64_t steps = lowering.graph.node_count + 2 * lowering.graph.output_count;
    if (steps >= UINT32_MAX || ports >= UINT32_MAX) {
        return acme_fail(error, POLYCHIP_STATUS_UNSUPPORTED, "compile: the part has 2^32 steps or more");
    }
    lowering.homes = calloc((size_t)lowering.graph.tensor_count + 1, sizeof *lowering.homes);
    lowering.ports = calloc((size_t)ports + 1, sizeof *lowering.ports);
    lowering.steps = calloc((size_t)steps + 1, sizeof *lowering.steps);
    if (lowering.homes == NULL || lowering.ports == NULL || lowering.steps == NULL) {
        status = acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "compile: no memory for the part");
    }
    if (status == POLYCHIP_STATUS_OK) {
        status = lower_ports(&lowering, error);
    }
    if (status == POLYCHIP_STATUS_OK) {
        status = lower_nodes(&lowering, error);
    }
    if (status == POLYCHIP_STATUS_OK) {
        status = lower_outputs(&lowering, error);
    }
    if (status == POLYCHIP_STATUS_OK) {
        status = acme_blob_write(&lowering, out_blob, error);
    }
    lowering_free(&lowering);
    return status;
}
