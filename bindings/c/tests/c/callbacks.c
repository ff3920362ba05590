/* Asynchronous runs, and the callbacks for them. */
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

static float pixels[3 * 96 * 96];
static const uint64_t image_shape[4] = {1, 3, 96, 96};

/* Arguments of a callback. */
struct told {
    sem_t ended;
    atomic_int calls;
    polychip_status_t status;
    pthread_t thread;
    polychip_run_t run;
    float best;
};

static void on_done(void *user, uint32_t status)
{
    struct told *told = user;
    told->status = status;
    told->thread = pthread_self();
    if (told->run != 0) {
        /* a callback may call the library */
        const void *data;
        OK(polychip_run_wait(told->run, 0, &failure));
        OK(polychip_run_output(told->run, 0, NULL, &data, &failure));
        told->best = ((const float *)data)[0];
    }
    told->calls++;
    sem_post(&told->ended);
}

static void callback_is_called_once_from_another_thread(polychip_session_t session, polychip_tensor_t image)
{
    struct told told = {.best = -1.0f};
    struct polychip_run_options options = {.struct_size = sizeof options, .on_done = on_done, .user = &told};
    sem_init(&told.ended, 0, 0);
    OK(polychip_session_submit(session, &image, 1, NULL, 0, &options, &told.run, &failure));
    sem_wait(&told.ended);
    CHECK(told.status == POLYCHIP_OK && told.calls == 1 && told.best >= 0.0f);
    CHECK(!pthread_equal(told.thread, pthread_self()));
    OK(polychip_run_wait(told.run, POLYCHIP_FOREVER, &failure));
    OK(polychip_run_destroy(told.run, &failure));
    CHECK(told.calls == 1);

    /* the run is destroyed before its end; the callback is still called */
    struct told alone = {.best = -1.0f};
    sem_init(&alone.ended, 0, 0);
    options.user = &alone;
    polychip_run_t run;
    OK(polychip_session_submit(session, &image, 1, NULL, 0, &options, &run, &failure));
    OK(polychip_run_destroy(run, &failure));
    sem_wait(&alone.ended);
    CHECK(alone.status == POLYCHIP_OK && alone.calls == 1);

    /* a blocking call refuses a callback */
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "on_done",
          polychip_session_run(session, &image, 1, NULL, 0, &options, POLYCHIP_FOREVER, NULL, &failure));
    /* and no callback is called for a run that was not started */
    polychip_tensor_t none = 0;
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "image",
          polychip_session_submit(session, &none, 1, NULL, 0, &options, &run, &failure));
    CHECK(alone.calls == 1);
}

static void wait_times_out_and_the_run_continues(polychip_session_t session, polychip_tensor_t image)
{
    int ran_out = 0;
    for (int turn = 0; turn < 200 && !ran_out; turn++) {
        polychip_run_t run;
        OK(polychip_session_submit(session, &image, 1, NULL, 0, NULL, &run, &failure));
        polychip_status_t status = polychip_run_wait(run, 0, &failure);
        CHECK(status == POLYCHIP_OK || status == POLYCHIP_ERROR_TIMEOUT);
        ran_out = status == POLYCHIP_ERROR_TIMEOUT;
        if (ran_out) {
            const void *data;
            CHECK(strstr(failure.message, "has not ended") != NULL);
            status = polychip_run_output(run, 0, NULL, &data, &failure);
            CHECK(status == POLYCHIP_ERROR_IN_FLIGHT && strstr(failure.message, "polychip_run_wait") != NULL);
        }
        OK(polychip_run_wait(run, POLYCHIP_FOREVER, &failure));
        OK(polychip_run_wait(run, 0, &failure));
        OK(polychip_run_destroy(run, &failure));
    }
    CHECK(ran_out);
}

static void cancelled_run_ends_once(polychip_session_t session, polychip_tensor_t image)
{
    for (int turn = 0; turn < 20; turn++) {
        polychip_run_t run;
        OK(polychip_session_submit(session, &image, 1, NULL, 0, NULL, &run, &failure));
        OK(polychip_run_cancel(run, &failure));
        polychip_status_t first = polychip_run_wait(run, POLYCHIP_FOREVER, &failure);
        CHECK(first == POLYCHIP_OK || first == POLYCHIP_ERROR_CANCELLED);
        CHECK(polychip_run_wait(run, 0, &failure) == first);
        OK(polychip_run_destroy(run, &failure));
    }
}

static void *wait_for(void *user)
{
    OK(polychip_run_wait(*(polychip_run_t *)user, POLYCHIP_FOREVER, &failure));
    return NULL;
}

static void several_threads_wait_for_one_run(polychip_session_t session, polychip_tensor_t image)
{
    for (int turn = 0; turn < 20; turn++) {
        polychip_run_t run;
        pthread_t threads[4];
        OK(polychip_session_submit(session, &image, 1, NULL, 0, NULL, &run, &failure));
        for (int at = 0; at < 4; at++) {
            CHECK(pthread_create(&threads[at], NULL, wait_for, &run) == 0);
        }
        for (int at = 0; at < 4; at++) {
            pthread_join(threads[at], NULL);
        }
        OK(polychip_run_destroy(run, &failure));
    }
}

static void submit_waits_for_a_free_slot(polychip_runtime_t runtime, const char *path, polychip_tensor_t image)
{
    polychip_policy_t policy;
    polychip_model_t model;
    polychip_session_t session;
    polychip_run_t one, two = 0;
    OK(polychip_policy_create(&policy, &failure));
    OK(polychip_policy_set(policy, "in-flight", "1", &failure));
    OK(polychip_model_load(runtime, path, &model, &failure));
    OK(polychip_session_create(runtime, model, policy, &session, &failure));
    OK(polychip_session_submit(session, &image, 1, NULL, 0, NULL, &one, &failure));
    FAILS(POLYCHIP_ERROR_IN_FLIGHT, "1 run is in flight",
          polychip_session_submit(session, &image, 1, NULL, 0, NULL, &two, &failure));
    FAILS(POLYCHIP_ERROR_WOULD_BLOCK, "1 run is in flight",
          polychip_session_try_submit(session, &image, 1, NULL, 0, NULL, &two, &failure));
    OK(polychip_run_wait(one, POLYCHIP_FOREVER, &failure));
    OK(polychip_session_try_submit(session, &image, 1, NULL, 0, NULL, &two, &failure));
    OK(polychip_run_wait(two, POLYCHIP_FOREVER, &failure));
    OK(polychip_run_destroy(two, &failure));
    /* its outputs occupy no slot */
    struct polychip_run_options options = {.struct_size = sizeof options, .queue_timeout_ns = 10000000000};
    OK(polychip_session_submit(session, &image, 1, NULL, 0, &options, &two, &failure));
    OK(polychip_run_destroy(one, &failure));
    OK(polychip_run_wait(two, POLYCHIP_FOREVER, &failure));
    OK(polychip_run_destroy(two, &failure));
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_model_destroy(model, &failure));
    OK(polychip_policy_destroy(policy, &failure));
}

static atomic_int records;

static void on_record(void *user, uint32_t level, const char *source, const char *message)
{
    CHECK(user == &records && level >= POLYCHIP_LOG_ERROR && level <= POLYCHIP_LOG_TRACE);
    CHECK(strncmp(source, "polychip", 8) == 0 && message[0] != '\0');
    records++;
}

/* The app's log receives the library's records. An unreadable profile is an error, not a record. */
static void records_reach_the_log(const char *folder)
{
    polychip_builder_t builder;
    polychip_runtime_t runtime;
    polychip_text_t text;
    const char *words;
    char profile[4096];
    OK(polychip_log_set(POLYCHIP_LOG_TRACE, on_record, &records, &failure));
    OK(polychip_builder_create(&builder, &failure));
    OK(polychip_builder_set(builder, "plugins", folder, &failure));
    snprintf(profile, sizeof profile, "%s/relu.onnx", folder);
    OK(polychip_builder_set(builder, "profile", profile, &failure));
    FAILS(POLYCHIP_ERROR_BAD_PROFILE, "file is not a database", polychip_runtime_create(builder, &runtime, &failure));
    snprintf(profile, sizeof profile, "%s/callbacks.profile", folder);
    OK(polychip_builder_set(builder, "profile", profile, &failure));
    OK(polychip_runtime_create(builder, &runtime, &failure));
    OK(polychip_runtime_refusals(runtime, &text, &failure));
    OK(polychip_text_get(text, &words, NULL, &failure));
    /* the folder holds a file that is named like a plugin but is none */
    CHECK(strstr(words, "libpolychip_plugin_none.so") != NULL);
    CHECK(records > 0);
    OK(polychip_log_set(POLYCHIP_LOG_OFF, NULL, NULL, &failure));
    int before = records;
    OK(polychip_runtime_destroy(runtime, &failure));
    OK(polychip_runtime_create(builder, &runtime, &failure));
    CHECK(records == before);
    OK(polychip_text_destroy(text, &failure));
    OK(polychip_builder_destroy(builder, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    polychip_runtime_t runtime;
    polychip_model_t model;
    polychip_session_t session;
    OK(polychip_runtime_create(0, &runtime, &failure));
    OK(polychip_model_load(runtime, arguments[2], &model, &failure));
    OK(polychip_session_create(runtime, model, 0, &session, &failure));
    polychip_tensor_t image = lend(pixels, 4, image_shape);
    callback_is_called_once_from_another_thread(session, image);
    wait_times_out_and_the_run_continues(session, image);
    cancelled_run_ends_once(session, image);
    several_threads_wait_for_one_run(session, image);
    submit_waits_for_a_free_slot(runtime, arguments[2], image);
    records_reach_the_log(arguments[1]);
    OK(polychip_tensor_destroy(image, &failure));
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_model_destroy(model, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
    /* callback threads end after a second without work */
    sleep(2);
    return 0;
}
