/* Every mistake of an app is a status with a message. */
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

static polychip_runtime_t runtime;
static polychip_session_t session;
static const char *folder;

static void handles(void)
{
    struct polychip_tensor_info info = {.struct_size = sizeof info};
    polychip_text_t text;
    uint64_t count;

    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "is 0", polychip_runtime_device_count(0, &count, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "a handle of a session, not of a runtime",
          polychip_runtime_device_count(session, &count, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "a handle of a runtime, not of a tensor",
          polychip_tensor_describe(runtime, &info, &failure));

    uint64_t shape[1] = {4};
    struct polychip_tensor_desc desc = desc_of(1, shape);
    polychip_tensor_t tensor;
    OK(polychip_tensor_create(runtime, &desc, &tensor, &failure));
    OK(polychip_tensor_destroy(tensor, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "was destroyed", polychip_tensor_describe(tensor, &info, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "was destroyed", polychip_tensor_destroy(tensor, &failure));
    OK(polychip_tensor_destroy(0, &failure));

    /* arbitrary numbers */
    uint64_t numbers[] = {1,          0xffffffff,     UINT64_MAX,     (uint64_t)(uintptr_t)&info,
                          tensor + 1, tensor ^ (1ull << 40), runtime + 16, session | 0xf0000000};
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++) {
        FAILS(POLYCHIP_ERROR_BAD_HANDLE, "", polychip_tensor_describe(numbers[at], &info, &failure));
        FAILS(POLYCHIP_ERROR_BAD_HANDLE, "", polychip_session_report(numbers[at], 0, &text, &failure));
        FAILS(POLYCHIP_ERROR_BAD_HANDLE, "", polychip_run_wait(numbers[at], 0, &failure));
        FAILS(POLYCHIP_ERROR_BAD_HANDLE, "", polychip_model_destroy(numbers[at], &failure));
    }
}

static void pointers_and_text(void)
{
    polychip_runtime_t other;
    polychip_model_t model;
    polychip_policy_t policy;
    uint64_t index;

    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "out_runtime is null", polychip_runtime_create(0, NULL, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "path is null", polychip_model_load(runtime, NULL, &model, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "path is not UTF-8",
          polychip_model_load(runtime, "models/\xff\xfe.onnx", &model, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "name is null",
          polychip_session_input_index(session, NULL, &index, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "image",
          polychip_session_input_index(session, "no such input", &index, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "inputs is null",
          polychip_session_run(session, NULL, 1, NULL, 0, NULL, 0, NULL, &failure));
    OK(polychip_policy_create(&policy, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "value is not UTF-8",
          polychip_policy_set(policy, "devices", "cpu\xc3", &failure));
    OK(polychip_policy_destroy(policy, &failure));

    /* without a record, no message is written */
    CHECK(polychip_runtime_create(0, NULL, NULL) == POLYCHIP_ERROR_BAD_ARGUMENT);
    CHECK(polychip_runtime_create(0, &other, NULL) == POLYCHIP_OK);
    CHECK(polychip_runtime_destroy(other, NULL) == POLYCHIP_OK);
}

static void sizes(void)
{
    uint32_t wrong[] = {0, 3, 4, sizeof(struct polychip_failure) - 1, UINT32_MAX};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        struct polychip_failure record;
        memset(&record, 0x5a, sizeof record);
        record.struct_size = wrong[at];
        CHECK(polychip_policy_destroy(0, &record) == POLYCHIP_ERROR_BAD_ARGUMENT);
        /* a record of unknown size is not written */
        CHECK(record.message[0] == 0x5a && record.struct_size == wrong[at]);
    }
    struct polychip_tensor_info info = {.struct_size = 8};
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "struct_size of polychip_tensor_info is 8",
          polychip_session_input(session, 0, &info, &failure));
    struct polychip_run_options options = {0};
    polychip_tensor_t none = 0;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "struct_size of polychip_run_options is 0",
          polychip_session_run(session, &none, 1, NULL, 0, &options, 0, NULL, &failure));
    struct polychip_listed_device device = {.struct_size = UINT32_MAX};
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "struct_size", polychip_runtime_device(runtime, 0, &device, &failure));

    /* a longer struct of a later version: the rest is left unchanged */
    struct {
        struct polychip_tensor_info info;
        uint64_t later[2];
    } longer;
    memset(&longer, 0x5a, sizeof longer);
    longer.info.struct_size = sizeof longer;
    OK(polychip_session_input(session, 0, &longer.info, &failure));
    CHECK(longer.info.rank == 4 && longer.info.struct_size == sizeof longer);
    CHECK(longer.later[1] == 0x5a5a5a5a5a5a5a5a);
}

static void models(void)
{
    polychip_model_t model = 77;
    char path[4096];
    FAILS(POLYCHIP_ERROR_IO, "no/such.onnx", polychip_model_load(runtime, "no/such.onnx", &model, &failure));
    FAILS(POLYCHIP_ERROR_BAD_MODEL, "noise",
          polychip_model_load_bytes(runtime, "noise", "this is no model", 16, NULL, NULL, &model, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "data is null",
          polychip_model_load_bytes(runtime, "none", NULL, 16, NULL, NULL, &model, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "elements",
          polychip_model_load_bytes(runtime, "endless", "x", UINT64_MAX, NULL, NULL, &model, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "descriptor -1",
          polychip_model_load_file(runtime, "file", -1, 0, 0, &model, &failure));
    FAILS(POLYCHIP_ERROR_IO, "descriptor 999999",
          polychip_model_load_file(runtime, "file", 999999, 0, 0, &model, &failure));

    snprintf(path, sizeof path, "%s/relu.onnx", folder);
    FILE *file = fopen(path, "rb");
    char bytes[4096];
    CHECK(file != NULL);
    size_t length = fread(bytes, 1, sizeof bytes, file);
    FAILS(POLYCHIP_ERROR_IO, "file",
          polychip_model_load_file(runtime, "file", fileno(file), 0, 1 << 20, &model, &failure));
    OK(polychip_model_load_file(runtime, "file", fileno(file), 0, 0, &model, &failure));
    fclose(file);
    polychip_model_t bound;
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "M", polychip_model_bind(model, "M", 3, &bound, &failure));
    OK(polychip_model_destroy(model, &failure));
    for (size_t cut = 0; cut < length; cut++) {
        polychip_status_t status =
            polychip_model_load_bytes(runtime, "torn", bytes, cut, NULL, NULL, &model, &failure);
        if (status == POLYCHIP_OK) {
            OK(polychip_model_destroy(model, &failure));
        } else {
            CHECK(status == POLYCHIP_ERROR_BAD_MODEL && failure.message[0] != '\0');
        }
    }
}

static void settings(void)
{
    polychip_policy_t policy;
    polychip_builder_t builder;
    polychip_model_t model;
    polychip_session_t other;
    char path[4096];
    OK(polychip_policy_create(&policy, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "its settings are: background, background-planning",
          polychip_policy_set(policy, "objective", "latency", &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "\"fast\" is not one of latency, energy",
          polychip_policy_set(policy, "policy", "fast", &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "invalid time", polychip_policy_set(policy, "deadline", "soon", &failure));
    OK(polychip_policy_set(policy, "devices", "npu:7", &failure));
    snprintf(path, sizeof path, "%s/relu.onnx", folder);
    OK(polychip_model_load(runtime, path, &model, &failure));
    polychip_model_t bound;
    OK(polychip_model_bind(model, "N", 3, &bound, &failure));
    FAILS(POLYCHIP_ERROR_BAD_PLUGIN, "npu:7",
          polychip_session_create(runtime, bound, policy, &other, &failure));
    OK(polychip_model_destroy(bound, &failure));
    OK(polychip_model_destroy(model, &failure));
    OK(polychip_policy_destroy(policy, &failure));

    OK(polychip_builder_create(&builder, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "PLUGIN.KEY=VALUE", polychip_builder_set(builder, "set", "cpu", &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "plugins, profile",
          polychip_builder_set(builder, "plugin", "there", &failure));
    OK(polychip_builder_destroy(builder, &failure));
}

static void tensors(void)
{
    static float values[16];
    uint64_t shape[17] = {4, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct polychip_tensor_desc desc = desc_of(2, shape);
    polychip_tensor_t tensor;
    void *data;

    desc.dtype = 0;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "dtype 0", polychip_tensor_create(runtime, &desc, &tensor, &failure));
    desc.dtype = POLYCHIP_DTYPE_STRING;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "packed", polychip_tensor_create(runtime, &desc, &tensor, &failure));
    desc.dtype = POLYCHIP_DTYPE_F32;
    desc.rank = 17;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "rank 17", polychip_tensor_create(runtime, &desc, &tensor, &failure));
    desc.rank = UINT32_MAX;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "rank", polychip_tensor_create(runtime, &desc, &tensor, &failure));
    desc.rank = 2;
    desc.shape = NULL;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "shape is null", polychip_tensor_create(runtime, &desc, &tensor, &failure));
    uint64_t endless[2] = {UINT64_MAX, UINT64_MAX};
    desc.shape = endless;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "too large", polychip_tensor_create(runtime, &desc, &tensor, &failure));
    desc.shape = shape;
    int64_t columns[2] = {1, 4};
    desc.strides = columns;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "row-major",
          polychip_tensor_lend(&desc, values, sizeof values, NULL, NULL, &tensor, &failure));
    int64_t rows[2] = {3, 1};
    desc.strides = rows;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "takes 48 bytes, 47 were given",
          polychip_tensor_lend(&desc, values, 47, NULL, NULL, &tensor, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "were given",
          polychip_tensor_lend(&desc, values, UINT64_MAX, NULL, NULL, &tensor, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "data is null",
          polychip_tensor_lend(&desc, NULL, 48, NULL, NULL, &tensor, &failure));
    // any address will do: devices that cannot use it have copies
    OK(polychip_tensor_lend(&desc, (char *)values + 2, 48, NULL, NULL, &tensor, &failure));
    OK(polychip_tensor_destroy(tensor, &failure));
    OK(polychip_tensor_lend(&desc, values, sizeof values, NULL, NULL, &tensor, &failure));

    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "not mapped", polychip_tensor_unmap(tensor, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "access 0", polychip_tensor_map(tensor, 0, &data, NULL, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "out_data is null",
          polychip_tensor_map(tensor, POLYCHIP_ACCESS_READ, NULL, NULL, &failure));
    OK(polychip_tensor_map(tensor, POLYCHIP_ACCESS_READ, &data, NULL, &failure));
    FAILS(POLYCHIP_ERROR_IN_FLIGHT, "mapped already",
          polychip_tensor_map(tensor, POLYCHIP_ACCESS_READ, &data, NULL, &failure));
    OK(polychip_tensor_unmap(tensor, &failure));
    OK(polychip_tensor_destroy(tensor, &failure));

    struct polychip_import import = {
        .struct_size = sizeof import, .kind = POLYCHIP_IMPORT_FILE, .descriptor = -1, .offset = 0};
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "descriptor -1", polychip_tensor_import(&desc, &import, &tensor, &failure));
    import.kind = 9;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "kind 9", polychip_tensor_import(&desc, &import, &tensor, &failure));
    import.kind = POLYCHIP_IMPORT_FILE;
    import.descriptor = open("/dev/null", O_RDWR);
    CHECK(import.descriptor >= 0);
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "the file has 0 bytes",
          polychip_tensor_import(&desc, &import, &tensor, &failure));
    import.kind = POLYCHIP_IMPORT_DMA_BUF;
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "dma-buf", polychip_tensor_import(&desc, &import, &tensor, &failure));
    close(import.descriptor);
}

static void runs(void)
{
    static float pixels[3 * 96 * 96], wrong[10], answers[12];
    uint64_t image[4] = {1, 3, 96, 96}, row[2] = {1, 12};
    polychip_tensor_t right = lend(pixels, 4, image), small = lend(wrong, 0, NULL), answer = lend(answers, 2, row);
    struct polychip_tensor_desc desc = desc_of(4, image);
    desc.dtype = POLYCHIP_DTYPE_I32;
    polychip_tensor_t whole, inputs[2] = {right, right};
    polychip_run_t run, twice;
    const void *data;
    void *open;

    OK(polychip_tensor_create(runtime, &desc, &whole, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "2 inputs were given, the model has 1",
          polychip_session_submit(session, inputs, 2, NULL, 0, NULL, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "2 outputs were given",
          polychip_session_submit(session, inputs, 1, inputs, 2, NULL, &run, &failure));
    inputs[0] = 0;
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "image", polychip_session_submit(session, inputs, 1, NULL, 0, NULL, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "holds f32, the tensor i32",
          polychip_session_submit(session, &whole, 1, NULL, 0, NULL, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "does not fit",
          polychip_session_submit(session, &small, 1, NULL, 0, NULL, &run, &failure));
    polychip_tensor_t little = lend(wrong, 4, (uint64_t[]){1, 3, 1, 1});
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "does not fit",
          polychip_session_submit(session, &little, 1, NULL, 0, NULL, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "a handle of a session, not of a tensor",
          polychip_session_submit(session, &session, 1, NULL, 0, NULL, &run, &failure));
    struct polychip_run_options options = {.struct_size = sizeof options, .late = 9};
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "late 9",
          polychip_session_submit(session, &right, 1, NULL, 0, &options, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "out_run is null",
          polychip_session_submit(session, &right, 1, NULL, 0, NULL, NULL, &failure));
    /* runs on mapped memory are refused */
    OK(polychip_tensor_map(right, POLYCHIP_ACCESS_WRITE, &open, NULL, &failure));
    FAILS(POLYCHIP_ERROR_IN_FLIGHT, "input \"image\": the tensor is mapped",
          polychip_session_run(session, &right, 1, NULL, 0, NULL, POLYCHIP_FOREVER, NULL, &failure));
    OK(polychip_tensor_unmap(right, &failure));

    OK(polychip_session_run(session, &right, 1, &answer, 1, NULL, POLYCHIP_FOREVER, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "bound by the app", polychip_run_output(run, 0, NULL, &data, &failure));
    OK(polychip_run_destroy(run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "was destroyed", polychip_run_wait(run, 0, &failure));
    OK(polychip_session_run(session, &right, 1, NULL, 0, NULL, POLYCHIP_FOREVER, &run, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "no output 1", polychip_run_output(run, 1, NULL, &data, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "out_data is null", polychip_run_output(run, 0, NULL, NULL, &failure));
    OK(polychip_run_output(run, 0, NULL, &data, &failure));
    OK(polychip_run_destroy(run, &failure));

    /* only one run at a time may write a tensor */
    OK(polychip_session_submit(session, &right, 1, &answer, 1, NULL, &run, &failure));
    polychip_status_t status = polychip_session_submit(session, &right, 1, &answer, 1, NULL, &twice, &failure);
    if (status == POLYCHIP_OK) {
        DIE("two runs write one tensor");
    }
    CHECK(status == POLYCHIP_ERROR_IN_FLIGHT);
    OK(polychip_run_wait(run, POLYCHIP_FOREVER, &failure));
    OK(polychip_run_destroy(run, &failure));

    polychip_text_t text;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "format 7", polychip_session_report(session, 7, &text, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "level 9", polychip_log_set(9, NULL, NULL, &failure));
    polychip_tensor_t all[] = {right, small, answer, whole, little};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        OK(polychip_tensor_destroy(all[at], &failure));
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    folder = arguments[1];
    OK(polychip_runtime_create(0, &runtime, &failure));
    polychip_model_t model;
    OK(polychip_model_load(runtime, arguments[2], &model, &failure));
    OK(polychip_session_create(runtime, model, 0, &session, &failure));
    OK(polychip_model_destroy(model, &failure));
    handles();
    pointers_and_text();
    sizes();
    models();
    settings();
    tensors();
    runs();
    OK(polychip_session_destroy(session, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "was destroyed", polychip_session_record(session, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
    return 0;
}
