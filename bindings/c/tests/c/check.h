/* Shared by the test programs: a call that must succeed, and one that must fail with a message. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <polychip.h>

/* What the library was built with (bindings/c/src/ffi.rs). */
_Static_assert(sizeof(struct polychip_failure) == 2048, "failure");
_Static_assert(sizeof(struct polychip_run_options) == 40, "options");
_Static_assert(sizeof(struct polychip_listed_device) == 32, "device");
_Static_assert(sizeof(struct polychip_tensor_desc) == 32, "desc");
_Static_assert(sizeof(struct polychip_tensor_info) == 168, "info");
_Static_assert(sizeof(struct polychip_import) == 24, "import");
_Static_assert(sizeof(struct polychip_wanted) == 32, "wanted");
_Static_assert(sizeof(struct polychip_measure_options) == 40, "measure options");

/* Of the calling thread. */
static _Thread_local struct polychip_failure failure = {.struct_size = sizeof(struct polychip_failure)};

#define DIE(...)                                                                                                       \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, "\n");                                                                                         \
        exit(1);                                                                                                       \
    } while (0)

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            DIE("%s", #what);                                                                                          \
        }                                                                                                              \
    } while (0)

/* The call succeeds. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        polychip_status_t status_ = (call);                                                                            \
        if (status_ != POLYCHIP_OK) {                                                                                  \
            DIE("%s: %s: %s", #call, polychip_status_text(status_), failure.message);                                  \
        }                                                                                                              \
    } while (0)

/* The call fails with this status, and its message holds these words. */
#define FAILS(wanted, words, call)                                                                                     \
    do {                                                                                                               \
        failure.message[0] = '\0';                                                                                     \
        polychip_status_t status_ = (call);                                                                            \
        if (status_ != (wanted) || failure.status != status_ || strstr(failure.message, (words)) == NULL ||            \
            failure.message_bytes != strlen(failure.message)) {                                                        \
            DIE("%s: %s: %s; wanted %s: %s", #call, polychip_status_text(status_), failure.message,                    \
                polychip_status_text(wanted), words);                                                                  \
        }                                                                                                              \
    } while (0)

/* A row of floats, the input of the small models of these tests. */
static inline struct polychip_tensor_desc desc_of(uint32_t rank, const uint64_t *shape)
{
    struct polychip_tensor_desc desc = {
        .struct_size = sizeof desc, .dtype = POLYCHIP_DTYPE_F32, .rank = rank, .shape = shape};
    return desc;
}

/* A tensor over floats that the caller keeps alive. */
static inline polychip_tensor_t lend(float *data, uint32_t rank, const uint64_t *shape)
{
    struct polychip_tensor_desc desc = desc_of(rank, shape);
    uint64_t bytes = sizeof(float);
    for (uint32_t axis = 0; axis < rank; axis++) {
        bytes *= shape[axis];
    }
    polychip_tensor_t tensor;
    OK(polychip_tensor_lend(&desc, data, bytes, NULL, NULL, &tensor, &failure));
    return tensor;
}

/* A session of a model beside which nothing is loaded. */
static inline polychip_session_t open_session(polychip_runtime_t runtime, const char *folder, const char *name,
                                              polychip_policy_t policy)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    polychip_model_t model;
    OK(polychip_model_load(runtime, path, &model, &failure));
    polychip_session_t session;
    OK(polychip_session_create(runtime, model, policy, &session, &failure));
    /* the session keeps what it needs */
    OK(polychip_model_destroy(model, &failure));
    return session;
}

#endif
