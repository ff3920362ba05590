/* Names the shape in a picture, as the first command of the README does, in C.
 *
 *   cc -std=c11 label.c $(pkg-config --cflags --libs polychip) -o label
 *   ./label examples/shapes/shapes.onnx examples/shapes/star.ppm examples/shapes/labels.txt
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <polychip.h>

#include "ppm.h"

/* Failure of the last call; each thread has its own record. */
static struct polychip_failure failure = {.struct_size = sizeof(struct polychip_failure)};

/* Ends the program if a call failed. */
static void check(polychip_status_t status, const char *what)
{
    if (status != POLYCHIP_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, polychip_status_text(status), failure.message);
        exit(1);
    }
}

/* Called when the library no longer uses the memory of the tensor. */
static void release(void *planes)
{
    free(planes);
}

/* Prints the label on a line, counted from 0. */
static void print_label(const char *path, size_t line, float probability)
{
    char label[64] = "";
    FILE *file = fopen(path, "r");
    for (size_t at = 0; file != NULL && at <= line; at++) {
        if (fgets(label, sizeof label, file) == NULL) {
            label[0] = '\0';
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    label[strcspn(label, "\r\n")] = '\0';
    printf("%s: probability %.4f\n", label, (double)probability);
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: label MODEL.onnx PICTURE.ppm LABELS.txt\n");
        return 2;
    }
    unsigned width, height;
    float *planes = read_ppm(arguments[2], &width, &height);
    if (planes == NULL) {
        fprintf(stderr, "%s is no PPM picture of 8 bits\n", arguments[2]);
        return 1;
    }

    polychip_runtime_t runtime;
    check(polychip_runtime_create(0, &runtime, &failure), "runtime");
    polychip_model_t model;
    check(polychip_model_load(runtime, arguments[1], &model, &failure), "model");
    polychip_policy_t policy;
    check(polychip_policy_create(&policy, &failure), "policy");
    check(polychip_policy_set(policy, "policy", "latency", &failure), "policy");
    polychip_session_t session;
    check(polychip_session_create(runtime, model, policy, &session, &failure), "session");

    /* the picture is read in place, and freed by `release` */
    uint64_t shape[4] = {1, 3, height, width};
    struct polychip_tensor_desc desc = {
        .struct_size = sizeof desc, .dtype = POLYCHIP_DTYPE_F32, .rank = 4, .shape = shape};
    polychip_tensor_t image;
    check(polychip_tensor_lend(&desc, planes, (uint64_t)width * height * 3 * sizeof(float), release, planes, &image,
                               &failure),
          "image");

    /* a first run and a warm run, for the report */
    polychip_run_t run = 0;
    for (int turn = 0; turn < 2; turn++) {
        check(polychip_run_destroy(run, &failure), "run");
        check(polychip_session_run(session, &image, 1, NULL, 0, NULL, POLYCHIP_FOREVER, &run, &failure), "run");
    }

    struct polychip_tensor_info output = {.struct_size = sizeof output};
    const void *data;
    check(polychip_run_output(run, 0, &output, &data, &failure), "output");
    if (output.dtype != POLYCHIP_DTYPE_F32) {
        fprintf(stderr, "the output holds no f32\n");
        return 1;
    }
    const float *probabilities = (const float *)data;
    size_t best = 0;
    for (size_t index = 1; index < output.bytes / sizeof(float); index++) {
        best = probabilities[index] > probabilities[best] ? index : best;
    }
    print_label(arguments[3], best, probabilities[best]);

    polychip_text_t report;
    const char *words;
    check(polychip_session_report(session, POLYCHIP_FORMAT_TEXT, &report, &failure), "report");
    check(polychip_text_get(report, &words, NULL, &failure), "report");
    printf("\n%s\n", words);

    /* in any order; objects in use live until their last use */
    check(polychip_text_destroy(report, &failure), "report");
    check(polychip_run_destroy(run, &failure), "run");
    check(polychip_tensor_destroy(image, &failure), "image");
    check(polychip_session_destroy(session, &failure), "session");
    check(polychip_policy_destroy(policy, &failure), "policy");
    check(polychip_model_destroy(model, &failure), "model");
    check(polychip_runtime_destroy(runtime, &failure), "runtime");
    return 0;
}
