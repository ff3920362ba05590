/* Use of memory without copies, and its release. */
#define _GNU_SOURCE
#include "check.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int released;

static void count_release(void *user)
{
    free(user);
    released++;
}

/* A tensor of floats on the heap, which its release frees. */
static polychip_tensor_t lend_heap(uint64_t length, float value, float **out_values)
{
    float *values = malloc(length * sizeof(float));
    CHECK(values != NULL);
    for (uint64_t at = 0; at < length; at++) {
        values[at] = value;
    }
    struct polychip_tensor_desc desc = desc_of(1, &length);
    polychip_tensor_t tensor;
    OK(polychip_tensor_lend(&desc, values, length * sizeof(float), count_release, values, &tensor, &failure));
    *out_values = values;
    return tensor;
}

static void run(polychip_session_t session, polychip_tensor_t input, polychip_tensor_t output)
{
    OK(polychip_session_run(session, &input, 1, &output, 1, NULL, POLYCHIP_FOREVER, NULL, &failure));
}

/* A run reads and writes the app's memory in place. */
static void app_memory_is_used_in_place(polychip_session_t relu)
{
    float *x, *y;
    void *data;
    uint64_t bytes;
    polychip_tensor_t input = lend_heap(5, -1.0f, &x), output = lend_heap(5, 7.0f, &y);
    OK(polychip_tensor_map(input, POLYCHIP_ACCESS_WRITE, &data, &bytes, &failure));
    CHECK(data == x && bytes == 5 * sizeof(float));
    ((float *)data)[3] = 4.5f;
    OK(polychip_tensor_unmap(input, &failure));
    run(relu, input, output);
    CHECK(y[0] == 0.0f && y[3] == 4.5f && y[4] == 0.0f);
    /* what the app writes between runs, the next run reads */
    x[4] = 2.5f;
    run(relu, input, output);
    CHECK(y[3] == 4.5f && y[4] == 2.5f);
    CHECK(released == 0);
    OK(polychip_tensor_destroy(input, &failure));
    OK(polychip_tensor_destroy(output, &failure));
}

/* An output of one session is the input of another. */
static void sessions_share_a_tensor(polychip_runtime_t runtime, polychip_session_t relu, polychip_session_t twice)
{
    uint64_t length = 3;
    struct polychip_tensor_desc desc = desc_of(1, &length);
    polychip_tensor_t x, between, y;
    void *data;
    OK(polychip_tensor_create(runtime, &desc, &x, &failure));
    OK(polychip_tensor_create(runtime, &desc, &between, &failure));
    OK(polychip_tensor_create(runtime, &desc, &y, &failure));
    for (int turn = 0; turn < 3; turn++) {
        OK(polychip_tensor_map(x, POLYCHIP_ACCESS_WRITE, &data, NULL, &failure));
        ((float *)data)[0] = -1.0f;
        ((float *)data)[1] = (float)turn;
        OK(polychip_tensor_unmap(x, &failure));
        run(relu, x, between);
        run(twice, between, y);
        OK(polychip_tensor_map(y, POLYCHIP_ACCESS_READ, &data, NULL, &failure));
        CHECK(((float *)data)[0] == 0.0f && ((float *)data)[1] == 2.0f * (float)turn);
        OK(polychip_tensor_unmap(y, &failure));
    }
    struct polychip_tensor_info info = {.struct_size = sizeof info};
    OK(polychip_tensor_describe(between, &info, &failure));
    CHECK(info.dtype == POLYCHIP_DTYPE_F32 && info.rank == 1 && info.shape[0] == 3 && info.bytes == 12);
    CHECK(info.name == NULL && info.open_axes == 0);
    OK(polychip_tensor_destroy(x, &failure));
    OK(polychip_tensor_destroy(between, &failure));
    OK(polychip_tensor_destroy(y, &failure));
}

/* Tensors destroyed while a run uses them are released after its end. */
static void memory_is_released_after_its_last_use(polychip_runtime_t runtime, const char *folder)
{
    polychip_session_t relu = open_session(runtime, folder, "relu.onnx", 0);
    float *x, *y;
    int before = released;
    polychip_tensor_t input = lend_heap(1 << 20, 3.0f, &x), output = lend_heap(1 << 20, 0.0f, &y);
    polychip_run_t handle;
    OK(polychip_session_submit(relu, &input, 1, &output, 1, NULL, &handle, &failure));
    OK(polychip_tensor_destroy(input, &failure));
    OK(polychip_tensor_destroy(output, &failure));
    /* the session is destroyed too, and the run continues */
    OK(polychip_session_destroy(relu, &failure));
    OK(polychip_run_wait(handle, POLYCHIP_FOREVER, &failure));
    OK(polychip_run_destroy(handle, &failure));
    CHECK(released == before + 2);
}

/* Outputs in memory of the run are read in place. */
static void outputs_stay_until_the_run_is_destroyed(polychip_session_t relu)
{
    uint64_t length = 2;
    float first[2] = {1.0f, -2.0f}, second[2] = {5.0f, 6.0f};
    polychip_tensor_t a = lend(first, 1, &length), b = lend(second, 1, &length);
    polychip_run_t one, two;
    const void *of_one, *again, *of_two;
    struct polychip_tensor_info info = {.struct_size = sizeof info};
    OK(polychip_session_run(relu, &a, 1, NULL, 0, NULL, POLYCHIP_FOREVER, &one, &failure));
    OK(polychip_run_output(one, 0, &info, &of_one, &failure));
    OK(polychip_session_run(relu, &b, 1, NULL, 0, NULL, POLYCHIP_FOREVER, &two, &failure));
    OK(polychip_run_output(two, 0, NULL, &of_two, &failure));
    OK(polychip_run_output(one, 0, NULL, &again, &failure));
    CHECK(of_one == again && of_one != of_two);
    CHECK(((const float *)of_one)[0] == 1.0f && ((const float *)of_one)[1] == 0.0f);
    CHECK(((const float *)of_two)[0] == 5.0f && ((const float *)of_two)[1] == 6.0f);
    CHECK(info.rank == 1 && info.shape[0] == 2 && info.bytes == 8);
    uint64_t latency = 0, late = 1;
    OK(polychip_run_timing(one, &latency, &late, &failure));
    CHECK(latency > 0 && late == 0);
    OK(polychip_run_destroy(one, &failure));
    OK(polychip_run_destroy(two, &failure));
    OK(polychip_tensor_destroy(a, &failure));
    OK(polychip_tensor_destroy(b, &failure));
}

/* Tensors determine the sizes that the model leaves open. */
static void tensors_determine_open_sizes(polychip_session_t relu)
{
    struct polychip_tensor_info info = {.struct_size = sizeof info};
    OK(polychip_session_input(relu, 0, &info, &failure));
    CHECK(strcmp(info.name, "x") == 0 && info.rank == 1 && info.open_axes == 1 && info.bytes == 0);
    OK(polychip_session_output(relu, 0, &info, &failure));
    CHECK(strcmp(info.name, "y") == 0);
    for (uint64_t length = 1; length < 20; length += 6) {
        float *x, *y;
        polychip_tensor_t input = lend_heap(length, (float)length, &x), output = lend_heap(length, 0.0f, &y);
        run(relu, input, output);
        CHECK(y[0] == (float)length && y[length - 1] == (float)length);
        OK(polychip_tensor_destroy(input, &failure));
        OK(polychip_tensor_destroy(output, &failure));
    }
}

/* A memory file is visible through the app's own mapping, too. */
static void memory_file_is_imported(polychip_session_t relu)
{
    uint64_t length = 1024;
    int file = memfd_create("tensor", 0);
    CHECK(file >= 0 && ftruncate(file, 3 * 4096) == 0);
    float *values = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(values != MAP_FAILED);
    struct polychip_tensor_desc desc = desc_of(1, &length);
    struct polychip_import import = {
        .struct_size = sizeof import, .kind = POLYCHIP_IMPORT_FILE, .descriptor = file, .offset = 0};
    polychip_tensor_t input, output, outside;
    OK(polychip_tensor_import(&desc, &import, &input, &failure));
    import.offset = 4096;
    OK(polychip_tensor_import(&desc, &import, &output, &failure));
    import.offset = 3 * 4096 - 4;
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "the file has 12288 bytes",
          polychip_tensor_import(&desc, &import, &outside, &failure));
    close(file);
    values[7] = 7.5f;
    values[8] = -7.5f;
    run(relu, input, output);
    CHECK(values[1024 + 7] == 7.5f && values[1024 + 8] == 0.0f);
    OK(polychip_tensor_destroy(input, &failure));
    OK(polychip_tensor_destroy(output, &failure));
    munmap(values, 3 * 4096);
}

/* A state is read in place by the next run. */
static void state_persists_between_runs(polychip_runtime_t runtime, const char *folder)
{
    polychip_session_t sum = open_session(runtime, folder, "sum.onnx", 0);
    uint64_t length = 2, count_inputs, count_outputs, x, s;
    float add[2] = {1.0f, 10.0f};
    OK(polychip_session_counts(sum, &count_inputs, &count_outputs, &failure));
    CHECK(count_inputs == 2 && count_outputs == 2);
    OK(polychip_session_input_index(sum, "x", &x, &failure));
    OK(polychip_session_input_index(sum, "s", &s, &failure));
    CHECK(x + s == 1);
    OK(polychip_session_bind_state(sum, "s", "t", &failure));
    polychip_tensor_t inputs[2] = {0, 0};
    inputs[x] = lend(add, 1, &length);
    uint64_t z;
    OK(polychip_session_output_index(sum, "z", &z, &failure));
    for (int turn = 1; turn <= 5; turn++) {
        polychip_run_t handle;
        const void *data;
        int since = turn > 3 ? turn - 3 : turn;
        OK(polychip_session_run(sum, inputs, 2, NULL, 0, NULL, POLYCHIP_FOREVER, &handle, &failure));
        OK(polychip_run_output(handle, z, NULL, &data, &failure));
        CHECK(((const float *)data)[1] == 10.0f * (float)since);
        OK(polychip_run_destroy(handle, &failure));
        if (turn == 3) {
            OK(polychip_session_reset_state(sum, &failure));
        }
    }
    /* it is saved, and restored to the session */
    polychip_tensor_t state;
    polychip_run_t run;
    const void *data;
    void *mapped;
    uint64_t bytes;
    OK(polychip_session_state(sum, "s", &state, &failure));
    OK(polychip_tensor_map(state, POLYCHIP_ACCESS_READ, &mapped, &bytes, &failure));
    CHECK(bytes == sizeof add && ((float *)mapped)[1] == 20.0f);
    OK(polychip_tensor_unmap(state, &failure));
    OK(polychip_session_reset_state(sum, &failure));
    OK(polychip_session_set_state(sum, "s", state, &failure));
    OK(polychip_session_run(sum, inputs, 2, NULL, 0, NULL, POLYCHIP_FOREVER, &run, &failure));
    OK(polychip_run_output(run, z, NULL, &data, &failure));
    CHECK(((const float *)data)[1] == 30.0f);
    OK(polychip_run_destroy(run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "its inputs are", polychip_session_state(sum, "none", &state, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "state", polychip_session_set_state(sum, "x", state, &failure));
    OK(polychip_session_close(sum, &failure));
    FAILS(POLYCHIP_ERROR_CLOSED, "closed",
          polychip_session_run(sum, inputs, 2, NULL, 0, NULL, POLYCHIP_FOREVER, NULL, &failure));
    OK(polychip_tensor_destroy(state, &failure));
    OK(polychip_tensor_destroy(inputs[x], &failure));
    OK(polychip_session_destroy(sum, &failure));
}

/* Bytes of a model are read in place. */
static void borrowed_models_are_released(polychip_runtime_t runtime, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/relu.onnx", folder);
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(4096);
    CHECK(file != NULL && bytes != NULL);
    size_t length = fread(bytes, 1, 4096, file);
    fclose(file);
    int before = released;
    polychip_model_t model;
    /* invalid bytes are not released: they remain the app's */
    FAILS(POLYCHIP_ERROR_BAD_MODEL, "lent",
          polychip_model_load_bytes(runtime, "lent", bytes, length - 3, count_release, bytes, &model, &failure));
    CHECK(released == before);
    OK(polychip_model_load_bytes(runtime, "lent", bytes, length, count_release, bytes, &model, &failure));
    polychip_session_t relu;
    OK(polychip_session_create(runtime, model, 0, &relu, &failure));
    OK(polychip_model_destroy(model, &failure));
    float values[1] = {-1.0f}, answer[1] = {5.0f};
    uint64_t one = 1;
    polychip_tensor_t input = lend(values, 1, &one), output = lend(answer, 1, &one);
    run(relu, input, output);
    CHECK(answer[0] == 0.0f && released == before);
    OK(polychip_tensor_destroy(input, &failure));
    OK(polychip_tensor_destroy(output, &failure));
    OK(polychip_session_destroy(relu, &failure));
    CHECK(released == before + 1);
}

static void nothing_was_copied(polychip_session_t session)
{
    polychip_text_t report;
    const char *words;
    uint64_t bytes;
    OK(polychip_session_report(session, POLYCHIP_FORMAT_JSON, &report, &failure));
    OK(polychip_text_get(report, &words, &bytes, &failure));
    CHECK(strlen(words) == bytes && strstr(words, "\"copies\":0,") != NULL);
    OK(polychip_text_destroy(report, &failure));
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    polychip_runtime_t runtime;
    OK(polychip_runtime_create(0, &runtime, &failure));
    polychip_session_t relu = open_session(runtime, arguments[1], "relu.onnx", 0);
    polychip_session_t twice = open_session(runtime, arguments[1], "twice.onnx", 0);
    uint64_t devices;
    OK(polychip_runtime_device_count(runtime, &devices, &failure));
    struct polychip_listed_device device = {.struct_size = sizeof device};
    OK(polychip_runtime_device(runtime, 0, &device, &failure));
    CHECK(devices >= 1 && strcmp(device.name, "cpu:0") == 0 && strcmp(device.kind, "cpu") == 0);
    /* sessions keep what they need of it */
    app_memory_is_used_in_place(relu);
    sessions_share_a_tensor(runtime, relu, twice);
    outputs_stay_until_the_run_is_destroyed(relu);
    tensors_determine_open_sizes(relu);
    memory_file_is_imported(relu);
    nothing_was_copied(relu);
    memory_is_released_after_its_last_use(runtime, arguments[1]);
    state_persists_between_runs(runtime, arguments[1]);
    borrowed_models_are_released(runtime, arguments[1]);
    OK(polychip_runtime_destroy(runtime, &failure));
    OK(polychip_session_destroy(relu, &failure));
    OK(polychip_session_destroy(twice, &failure));
    return 0;
}
