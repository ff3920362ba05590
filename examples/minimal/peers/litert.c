/* The same as polychip-minimal with LiteRT's C library: `litert MODEL.tflite`. Linked to the library of the wheel that PyPI
 * has; the wheel brings no header, so that the functions it needs are declared here. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *Object;
typedef struct {
    uint32_t rank; /* in the lowest seven bits */
    int32_t sizes[8];
    uint32_t strides[8];
} Layout;
typedef struct {
    int32_t element;
    Layout layout;
    uint64_t room[16]; /* a later release may say more */
} Type;

int LiteRtCreateEnvironment(int count, const void *options, Object *out);
int LiteRtCreateModelFromFile(Object environment, const char *path, Object *out);
int LiteRtCreateOptions(Object *out);
int LiteRtSetOptionsHardwareAccelerators(Object options, int which);
int LiteRtCreateCompiledModel(Object environment, Object model, Object options, Object *out);
int LiteRtGetModelSignature(Object model, size_t index, Object *out);
int LiteRtGetNumSignatureInputs(Object signature, size_t *out);
int LiteRtGetNumSignatureOutputs(Object signature, size_t *out);
int LiteRtGetSignatureInputTensorByIndex(Object signature, size_t index, Object *out);
int LiteRtGetSignatureOutputTensorByIndex(Object signature, size_t index, Object *out);
int LiteRtGetRankedTensorType(Object tensor, Type *out);
int LiteRtCompiledModelResizeInputTensor(Object compiled, size_t signature, size_t index, const int *sizes, size_t rank);
int LiteRtGetCompiledModelOutputTensorLayouts(Object compiled, size_t signature, size_t count, Layout *out, _Bool update);
int LiteRtGetCompiledModelInputBufferRequirements(Object compiled, size_t signature, size_t index, Object *out);
int LiteRtGetCompiledModelOutputBufferRequirements(Object compiled, size_t signature, size_t index, Object *out);
int LiteRtCreateManagedTensorBufferFromRequirements(Object environment, const Type *type, Object needs, Object *out);
int LiteRtGetTensorBufferPackedSize(Object buffer, size_t *out);
int LiteRtLockTensorBuffer(Object buffer, void **address, int mode);
int LiteRtUnlockTensorBuffer(Object buffer);
int LiteRtRunCompiledModel(Object compiled, size_t signature, size_t input_count, Object *inputs, size_t output_count,
    Object *outputs);

enum { CPU = 1, READ = 0, WRITE = 1 };

static void check(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: status %d\n", what, status);
        exit(1);
    }
}
#define TRY(call) check(call, #call)

int main(int count, char **arguments)
{
    Object environment, model, options, compiled, signature, tensor, needs, inputs[16], outputs[16];
    size_t input_count, output_count, bytes;
    float *values;
    Layout layouts[16];
    Type type;
    if (count < 2) {
        return 2;
    }
    TRY(LiteRtCreateEnvironment(0, NULL, &environment));
    TRY(LiteRtCreateModelFromFile(environment, arguments[1], &model));
    TRY(LiteRtCreateOptions(&options));
    TRY(LiteRtSetOptionsHardwareAccelerators(options, CPU));
    TRY(LiteRtCreateCompiledModel(environment, model, options, &compiled));
    TRY(LiteRtGetModelSignature(model, 0, &signature));
    TRY(LiteRtGetNumSignatureInputs(signature, &input_count));
    TRY(LiteRtGetNumSignatureOutputs(signature, &output_count));
    if (input_count > 16 || output_count > 16) {
        return 2;
    }
    for (size_t at = 0; at < input_count; at++) {
        TRY(LiteRtGetSignatureInputTensorByIndex(signature, at, &tensor));
        TRY(LiteRtGetRankedTensorType(tensor, &type));
        /* sizes that the model leaves open are 1 */
        for (int axis = 0; axis < 8; axis++) {
            type.layout.sizes[axis] = type.layout.sizes[axis] < 1 ? 1 : type.layout.sizes[axis];
        }
        TRY(LiteRtCompiledModelResizeInputTensor(compiled, 0, at, type.layout.sizes, type.layout.rank & 127));
        TRY(LiteRtGetCompiledModelInputBufferRequirements(compiled, 0, at, &needs));
        TRY(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needs, &inputs[at]));
        TRY(LiteRtGetTensorBufferPackedSize(inputs[at], &bytes));
        TRY(LiteRtLockTensorBuffer(inputs[at], (void **)&values, WRITE));
        for (size_t place = 0; place < bytes / sizeof *values; place++) {
            values[place] = 0.5f;
        }
        TRY(LiteRtUnlockTensorBuffer(inputs[at]));
    }
    TRY(LiteRtGetCompiledModelOutputTensorLayouts(compiled, 0, output_count, layouts, 1));
    for (size_t at = 0; at < output_count; at++) {
        TRY(LiteRtGetSignatureOutputTensorByIndex(signature, at, &tensor));
        TRY(LiteRtGetRankedTensorType(tensor, &type));
        type.layout = layouts[at];
        TRY(LiteRtGetCompiledModelOutputBufferRequirements(compiled, 0, at, &needs));
        TRY(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needs, &outputs[at]));
    }
    TRY(LiteRtRunCompiledModel(compiled, 0, input_count, inputs, output_count, outputs));
    for (size_t at = 0; at < output_count; at++) {
        TRY(LiteRtGetTensorBufferPackedSize(outputs[at], &bytes));
        TRY(LiteRtLockTensorBuffer(outputs[at], (void **)&values, READ));
        printf("output %zu:", at);
        for (size_t place = 0; place < bytes / sizeof *values && place < 5; place++) {
            printf(" %g", values[place]);
        }
        printf("\n");
        TRY(LiteRtUnlockTensorBuffer(outputs[at]));
    }
    return 0;
}
