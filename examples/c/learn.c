/* Runs a model until its session has settled on a plan, and prints its learning state before and after, in C.
 *
 *   cc -std=c11 learn.c $(pkg-config --cflags --libs polychip) -o learn
 *   ./learn examples/shapes/shapes.onnx cpu,openvino 400
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <polychip.h>

#define MOST_INPUTS 16

static struct polychip_failure failure = {.struct_size = sizeof(struct polychip_failure)};

/* Ends the program if a call failed. */
static void check(polychip_status_t status)
{
    if (status != POLYCHIP_OK) {
        fprintf(stderr, "%s: %s\n", polychip_status_text(status), failure.message);
        exit(1);
    }
}

static void run(polychip_session_t session, const polychip_tensor_t *inputs, uint64_t count, int runs)
{
    polychip_text_t report;
    const char *json;
    for (; runs > 0; runs--) {
        check(polychip_session_run(session, inputs, count, NULL, 0, NULL, POLYCHIP_FOREVER, NULL, &failure));
    }
    check(polychip_session_report(session, POLYCHIP_FORMAT_JSON, &report, &failure));
    check(polychip_text_get(report, &json, NULL, &failure));
    const char *learning = strstr(json, "\"learning\":{");
    const char *plan = learning == NULL ? NULL : strstr(learning, "\"plan\":\"");
    if (plan == NULL) {
        fprintf(stderr, "the session does not learn\n");
        exit(1);
    }
    plan += strlen("\"plan\":\"");
    int settled = strncmp(strstr(plan, "\"settled\":") + strlen("\"settled\":"), "true", 4) == 0;
    printf("%s on %.*s\n", settled ? "settled" : "cold", (int)strcspn(plan, "\""), plan);
    check(polychip_text_destroy(report, &failure));
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: learn MODEL.onnx DEVICES RUNS\n");
        return 2;
    }
    polychip_runtime_t runtime;
    polychip_model_t model;
    polychip_policy_t policy;
    polychip_session_t session;
    polychip_tensor_t inputs[MOST_INPUTS];
    uint64_t inputs_count;
    check(polychip_runtime_create(0, &runtime, &failure));
    check(polychip_model_load(runtime, arguments[1], &model, &failure));
    check(polychip_policy_create(&policy, &failure));
    check(polychip_policy_set(policy, "devices", arguments[2], &failure));
    check(polychip_policy_set(policy, "learn", "10%", &failure));
    check(polychip_session_create(runtime, model, policy, &session, &failure));
    check(polychip_session_counts(session, &inputs_count, NULL, &failure));
    for (uint64_t index = 0; index < inputs_count && index < MOST_INPUTS; index++) {
        struct polychip_tensor_info info = {.struct_size = sizeof info};
        check(polychip_session_input(session, index, &info, &failure));
        struct polychip_tensor_desc desc = {
            .struct_size = sizeof desc, .dtype = info.dtype, .rank = info.rank, .shape = info.shape};
        check(polychip_tensor_create(runtime, &desc, &inputs[index], &failure));
    }
    run(session, inputs, inputs_count, 1);
    run(session, inputs, inputs_count, atoi(arguments[3]));
    for (uint64_t index = 0; index < inputs_count && index < MOST_INPUTS; index++) {
        check(polychip_tensor_destroy(inputs[index], &failure));
    }
    check(polychip_session_destroy(session, &failure));
    check(polychip_policy_destroy(policy, &failure));
    check(polychip_model_destroy(model, &failure));
    check(polychip_runtime_destroy(runtime, &failure));
    return 0;
}
