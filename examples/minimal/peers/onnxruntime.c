/* The same as polychip-minimal with ONNX Runtime's C library: `onnxruntime MODEL.onnx`. Linked to the library of the wheel
 * that PyPI has; the wheel brings no header, so that the functions it needs stand here by their places in the table, which
 * later releases only add to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Api Api;
typedef struct {
    const Api *(*get)(uint32_t version);
    const char *(*version)(void);
} Base;
const Base *OrtGetApiBase(void);

enum {
    ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_OPTIONS = 10, INPUT_COUNT = 30,
    OUTPUT_COUNT = 31, INPUT_TYPE = 33, INPUT_NAME = 36, OUTPUT_NAME = 37, CREATE_TENSOR = 49, DATA = 51,
    AS_TENSOR_TYPE = 55, RANK = 61, SIZES = 62, COUNT = 64, TYPE_AND_SHAPE = 65, CPU_MEMORY = 69, ALLOCATOR = 78,
};
#define CALL(at, ...) ((void *(*)(__VA_ARGS__))((void *const *)api)[at])

static const Api *api;

static void check(void *status)
{
    if (status != NULL) {
        fprintf(stderr, "%s\n", ((const char *(*)(void *))((void *const *)api)[ERROR_MESSAGE])(status));
        exit(1);
    }
}

int main(int count, char **arguments)
{
    void *env, *options, *session, *memory, *allocator, *inputs[16], *outputs[16] = {0};
    const char *input_names[16], *output_names[16];
    size_t input_count, output_count;
    if (count < 2) {
        return 2;
    }
    api = OrtGetApiBase()->get(1);
    check(CALL(CREATE_ENV, int, const char *, void **)(2, "minimal", &env));
    check(CALL(CREATE_OPTIONS, void **)(&options));
    check(CALL(CREATE_SESSION, void *, const char *, void *, void **)(env, arguments[1], options, &session));
    check(CALL(ALLOCATOR, void **)(&allocator));
    check(CALL(CPU_MEMORY, int, int, void **)(1, 0, &memory));
    check(CALL(INPUT_COUNT, void *, size_t *)(session, &input_count));
    check(CALL(OUTPUT_COUNT, void *, size_t *)(session, &output_count));
    if (input_count > 16 || output_count > 16) {
        return 2;
    }
    for (size_t at = 0; at < input_count; at++) {
        void *type, *tensor;
        size_t rank, elements = 1;
        int64_t sizes[16];
        check(CALL(INPUT_NAME, void *, size_t, void *, const char **)(session, at, allocator, &input_names[at]));
        check(CALL(INPUT_TYPE, void *, size_t, void **)(session, at, &type));
        check(CALL(AS_TENSOR_TYPE, void *, void **)(type, &tensor));
        check(CALL(RANK, void *, size_t *)(tensor, &rank));
        check(CALL(SIZES, void *, int64_t *, size_t)(tensor, sizes, rank));
        for (size_t axis = 0; axis < rank; axis++) {
            sizes[axis] = sizes[axis] < 1 ? 1 : sizes[axis];
            elements *= (size_t)sizes[axis];
        }
        float *values = malloc(elements * sizeof *values);
        for (size_t place = 0; place < elements; place++) {
            values[place] = 0.5f;
        }
        check(CALL(CREATE_TENSOR, void *, void *, size_t, const int64_t *, size_t, int, void **)(
            memory, values, elements * sizeof *values, sizes, rank, 1, &inputs[at]));
    }
    for (size_t at = 0; at < output_count; at++) {
        check(CALL(OUTPUT_NAME, void *, size_t, void *, const char **)(session, at, allocator, &output_names[at]));
    }
    check(CALL(RUN, void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **)(
        session, NULL, input_names, inputs, input_count, output_names, output_count, outputs));
    for (size_t at = 0; at < output_count; at++) {
        void *info;
        float *values;
        size_t elements;
        check(CALL(TYPE_AND_SHAPE, void *, void **)(outputs[at], &info));
        check(CALL(COUNT, void *, size_t *)(info, &elements));
        check(CALL(DATA, void *, void **)(outputs[at], (void **)&values));
        printf("%s:", output_names[at]);
        for (size_t place = 0; place < elements && place < 5; place++) {
            printf(" %g", values[place]);
        }
        printf("\n");
    }
    return 0;
}
