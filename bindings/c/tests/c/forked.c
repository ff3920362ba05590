/* A child of fork is refused until it calls exec. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static int ended_well(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char **arguments)
{
    CHECK(count >= 3);
    polychip_runtime_t runtime, other;
    polychip_run_t run;
    float values[2] = {-1.0f, 1.0f}, answer[2] = {7.0f, 7.0f};
    uint64_t length = 2;
    OK(polychip_runtime_create(0, &runtime, &failure));
    polychip_session_t relu = open_session(runtime, arguments[1], "relu.onnx", 0);
    polychip_tensor_t input = lend(values, 1, &length), output = lend(answer, 1, &length);
    OK(polychip_session_run(relu, &input, 1, &output, 1, NULL, POLYCHIP_FOREVER, NULL, &failure));
    CHECK(answer[0] == 0.0f && answer[1] == 1.0f);
    if (count > 3) {
        /* the program that the child has called */
        return 0;
    }

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(POLYCHIP_ERROR_FORKED, "call exec",
              polychip_session_run(relu, &input, 1, &output, 1, NULL, POLYCHIP_FOREVER, NULL, &failure));
        FAILS(POLYCHIP_ERROR_FORKED, "call exec",
              polychip_session_submit(relu, &input, 1, NULL, 0, NULL, &run, &failure));
        FAILS(POLYCHIP_ERROR_FORKED, "call exec", polychip_runtime_create(0, &other, &failure));
        FAILS(POLYCHIP_ERROR_FORKED, "call exec", polychip_tensor_destroy(input, &failure));
        CHECK(strcmp(polychip_status_text(POLYCHIP_ERROR_FORKED), "forked") == 0);
        /* without what runs at exit: a leak checker finds threads missing here */
        _exit(0);
    }
    CHECK(ended_well(child));

    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(arguments[0], arguments[0], arguments[1], arguments[2], "again", (char *)NULL);
        _exit(1);
    }
    CHECK(ended_well(child));

    /* the parent continues */
    values[0] = 3.0f;
    OK(polychip_session_run(relu, &input, 1, &output, 1, NULL, POLYCHIP_FOREVER, NULL, &failure));
    CHECK(answer[0] == 3.0f);
    OK(polychip_tensor_destroy(input, &failure));
    OK(polychip_tensor_destroy(output, &failure));
    OK(polychip_session_destroy(relu, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
    return 0;
}
