/* 64 threads use one session, and destroy objects that others are using. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 64
#define ROUNDS 20

static polychip_runtime_t runtime;
static polychip_session_t session, fleeting;
static atomic_int answered, gone;

/* Each thread receives the outputs for its own inputs. */
static void *use(void *user)
{
    float number = (float)(uintptr_t)user;
    struct polychip_run_options options = {.struct_size = sizeof options, .queue_timeout_ns = 60000000000};
    uint64_t length = 64;
    for (int round = 0; round < ROUNDS; round++) {
        float x[64], y[64];
        for (int at = 0; at < 64; at++) {
            x[at] = at % 2 ? -1.0f : number + (float)round;
            y[at] = -7.0f;
        }
        polychip_tensor_t input = lend(x, 1, &length), output = lend(y, 1, &length);
        OK(polychip_session_run(session, &input, 1, &output, 1, &options, POLYCHIP_FOREVER, NULL, &failure));
        for (int at = 0; at < 64; at++) {
            CHECK(y[at] == (at % 2 ? 0.0f : number + (float)round));
        }
        OK(polychip_tensor_destroy(input, &failure));
        FAILS(POLYCHIP_ERROR_BAD_HANDLE, "was destroyed", polychip_tensor_destroy(input, &failure));
        OK(polychip_tensor_destroy(output, &failure));
        answered++;
    }
    return NULL;
}

/* Threads that use a session while another one destroys it receive outputs, or an error that it was destroyed. */
static void *race(void *user)
{
    uintptr_t number = (uintptr_t)user;
    float x[1] = {2.0f}, y[1] = {0.0f};
    uint64_t one = 1;
    struct polychip_run_options options = {.struct_size = sizeof options, .queue_timeout_ns = 60000000000};
    polychip_tensor_t input = lend(x, 1, &one), output = lend(y, 1, &one);
    for (int round = 0; round < ROUNDS; round++) {
        if (number == 7 && round == 3) {
            OK(polychip_session_destroy(fleeting, &failure));
        }
        y[0] = 0.0f;
        polychip_status_t status =
            polychip_session_run(fleeting, &input, 1, &output, 1, &options, POLYCHIP_FOREVER, NULL, &failure);
        if (status == POLYCHIP_OK) {
            CHECK(y[0] == 2.0f);
        } else {
            CHECK(status == POLYCHIP_ERROR_BAD_HANDLE && strstr(failure.message, "was destroyed") != NULL);
            gone++;
        }
    }
    OK(polychip_tensor_destroy(input, &failure));
    OK(polychip_tensor_destroy(output, &failure));
    return NULL;
}

static void all(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    for (uintptr_t at = 0; at < THREADS; at++) {
        CHECK(pthread_create(&threads[at], NULL, work, (void *)at) == 0);
    }
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    OK(polychip_runtime_create(0, &runtime, &failure));
    session = open_session(runtime, arguments[1], "relu.onnx", 0);
    fleeting = open_session(runtime, arguments[1], "relu.onnx", 0);
    all(use);
    CHECK(answered == THREADS * ROUNDS);
    all(race);
    CHECK(gone > 0);
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
    return 0;
}
