/* What one step computes: Identity, Relu and Add on f32, Add with NumPy broadcasting.
 *
 * Invariants:
 * 1. Shapes were checked at `load`: each input broadcasts to the output.
 * 2. Memory may have any alignment: elements are copied in and out.
 */
#include "acme.h"

#include <string.h>

static float get(const uint8_t *data, uint64_t index)
{
    float value;

    memcpy(&value, data + index * sizeof value, sizeof value);
    return value;
}

static void set(uint8_t *data, uint64_t index, float value)
{
    memcpy(data + index * sizeof value, &value, sizeof value);
}

static uint64_t elements(const struct acme_operand *operand)
{
    uint64_t count = 1;

    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        count *= (uint64_t)operand->dims[axis];
    }
    return count;
}

/* Elements from one index of each output axis to the next; 0 along an axis that is repeated. */
static void broadcast(const struct acme_operand *input, const struct acme_operand *output,
                      uint64_t strides[POLYCHIP_MAX_RANK])
{
    uint64_t step = 1;

    for (uint32_t back = 1; back <= output->rank; back++) {
        const uint32_t axis = output->rank - back;
        strides[axis] = 0;
        if (back <= input->rank) {
            const int64_t extent = input->dims[input->rank - back];
            strides[axis] = extent == 1 ? 0 : step;
            step *= (uint64_t)extent;
        }
    }
}

static void add(const struct acme_step *step, const uint8_t *left, const uint8_t *right,
                uint8_t *output)
{
    uint64_t left_strides[POLYCHIP_MAX_RANK] = {0};
    uint64_t right_strides[POLYCHIP_MAX_RANK] = {0};
    int64_t at[POLYCHIP_MAX_RANK] = {0};
    const uint64_t count = elements(&step->output);
    uint64_t left_index = 0;
    uint64_t right_index = 0;

    broadcast(&step->inputs[0], &step->output, left_strides);
    broadcast(&step->inputs[1], &step->output, right_strides);
    for (uint64_t index = 0; index < count; index++) {
        set(output, index, get(left, left_index) + get(right, right_index));
        for (uint32_t axis = step->output.rank; axis-- > 0;) {
            left_index += left_strides[axis];
            right_index += right_strides[axis];
            if (++at[axis] < step->output.dims[axis]) {
                break;
            }
            left_index -= left_strides[axis] * (uint64_t)at[axis];
            right_index -= right_strides[axis] * (uint64_t)at[axis];
            at[axis] = 0;
        }
    }
}

void acme_step_run(const struct acme_step *step, const uint8_t *const inputs[2], uint8_t *output)
{
    const uint64_t count = elements(&step->output);

    switch (step->op) {
    case POLYCHIP_OP_ADD:
        add(step, inputs[0], inputs[1], output);
        break;
    case POLYCHIP_OP_RELU:
        for (uint64_t index = 0; index < count; index++) {
            const float value = get(inputs[0], index);
            set(output, index, value < 0.0f ? 0.0f : value); /* NaN stays NaN */
        }
        break;
    default: /* POLYCHIP_OP_IDENTITY */
        if (count != 0) {
            memcpy(output, inputs[0], count * sizeof(float));
        }
        break;
    }
}
