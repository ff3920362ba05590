/* Fences: the end of one run, waited for from any thread, told to listeners, timed.
 *
 * Invariants:
 * 1. A fence comes from the device's spare ones, so that a warm run allocates nothing.
 * 2. A fence is held by the host until `fence_destroy`, by the queue until the run has ended, and by
 *    each run that waits for it. The last holder gives it back to its device.
 * 3. No lock is held while the host is called.
 */
#define _POSIX_C_SOURCE 200809L
#include "acme.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Someone to be told. */
struct acme_listener {
    struct acme_listener *next;
    void (*signalled)(void *user, uint32_t status);
    void *user;
};

void acme_fence_free(struct polychip_fence *fence)
{
    pthread_cond_destroy(&fence->ended);
    pthread_mutex_destroy(&fence->lock);
    free(fence->bound);
    free(fence->waits);
    free(fence);
}

static struct polychip_fence *fence_new(struct polychip_device *device)
{
    struct polychip_fence *fence = calloc(1, sizeof *fence);
    pthread_condattr_t clock;

    if (fence == NULL) {
        return NULL;
    }
    fence->device = device;
    if (pthread_mutex_init(&fence->lock, NULL) != 0) {
        free(fence);
        return NULL;
    }
    if (pthread_condattr_init(&clock) != 0) {
        pthread_mutex_destroy(&fence->lock);
        free(fence);
        return NULL;
    }
    /* Timeouts must not follow the wall clock when someone sets it. */
    const bool made = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) == 0 &&
                      pthread_cond_init(&fence->ended, &clock) == 0;
    pthread_condattr_destroy(&clock);
    if (!made) {
        pthread_mutex_destroy(&fence->lock);
        free(fence);
        return NULL;
    }
    return fence;
}

struct polychip_fence *acme_fence_take(struct polychip_device *device)
{
    struct polychip_fence *fence;

    pthread_mutex_lock(&device->lock);
    fence = device->spare;
    if (fence != NULL) {
        device->spare = fence->next;
    }
    pthread_mutex_unlock(&device->lock);
    if (fence == NULL) {
        fence = fence_new(device);
    }
    if (fence != NULL) {
        fence->next = NULL;
        fence->bound_count = 0;
        fence->wait_count = 0;
        fence->signalled = false;
        fence->status = POLYCHIP_STATUS_OK;
        fence->words = "";
        fence->listeners = NULL;
        memset(&fence->timing, 0, sizeof fence->timing);
        atomic_store(&fence->holders, 1);
    }
    return fence;
}

void acme_fence_release(struct polychip_fence *fence)
{
    struct polychip_device *device = fence->device;

    if (atomic_fetch_sub(&fence->holders, 1) != 1) {
        return;
    }
    pthread_mutex_lock(&device->lock);
    fence->next = device->spare;
    device->spare = fence;
    pthread_mutex_unlock(&device->lock);
}

/* Ends the run of a fence: its buffers are free, then its status is there, then the host is called. */
void acme_fence_signal(struct polychip_fence *fence, uint32_t status, const char *words)
{
    struct acme_listener *listener;

    for (uint32_t port = 0; port < fence->bound_count; port++) {
        atomic_fetch_sub(&fence->bound[port].buffer->runs, 1);
    }
    pthread_mutex_lock(&fence->lock);
    fence->status = status;
    fence->words = words;
    fence->signalled = true;
    listener = fence->listeners;
    fence->listeners = NULL;
    pthread_cond_broadcast(&fence->ended);
    pthread_mutex_unlock(&fence->lock);
    while (listener != NULL) {
        struct acme_listener *next = listener->next;
        listener->signalled(listener->user, status);
        free(listener);
        listener = next;
    }
}

uint32_t acme_fence_join(struct polychip_fence *fence)
{
    uint32_t status;

    pthread_mutex_lock(&fence->lock);
    while (!fence->signalled) {
        pthread_cond_wait(&fence->ended, &fence->lock);
    }
    status = fence->status;
    pthread_mutex_unlock(&fence->lock);
    return status;
}

uint32_t acme_fence_wait(struct polychip_fence *fence, uint64_t timeout_ns,
                         struct polychip_error *error)
{
    struct timespec until;
    uint32_t status;
    const char *words;
    bool late = false;

    if (fence == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "fence_wait: the fence is null");
    }
    /* Past a century nobody waits any more, and the sum below cannot overflow. */
    const bool limited = timeout_ns < 100ull * 365 * 24 * 3600 * 1000000000;
    if (limited) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(timeout_ns / 1000000000);
        until.tv_nsec += (long)(timeout_ns % 1000000000);
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
    }
    pthread_mutex_lock(&fence->lock);
    while (!fence->signalled && !late) {
        late = limited ? pthread_cond_timedwait(&fence->ended, &fence->lock, &until) != 0
                       : pthread_cond_wait(&fence->ended, &fence->lock) != 0;
    }
    status = fence->signalled ? fence->status : POLYCHIP_STATUS_TIMEOUT;
    words = fence->signalled ? fence->words : "the run goes on";
    pthread_mutex_unlock(&fence->lock);
    if (status == POLYCHIP_STATUS_TIMEOUT && late) {
        return acme_fail(error, status, "fence_wait: %s after %llu ns", words,
                         (unsigned long long)timeout_ns);
    }
    return status == POLYCHIP_STATUS_OK ? status : acme_fail(error, status, "%s", words);
}

uint32_t acme_fence_on_signal(struct polychip_fence *fence,
                              void (*signalled)(void *user, uint32_t status), void *user,
                              struct polychip_error *error)
{
    struct acme_listener *listener;
    bool ended;

    if (fence == NULL || signalled == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "fence_on_signal: a pointer is null");
    }
    listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "fence_on_signal: no memory");
    }
    listener->signalled = signalled;
    listener->user = user;
    pthread_mutex_lock(&fence->lock);
    ended = fence->signalled;
    if (!ended) {
        listener->next = fence->listeners;
        fence->listeners = listener;
    }
    pthread_mutex_unlock(&fence->lock);
    if (ended) {
        free(listener);
        signalled(user, fence->status);
    }
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_fence_timing(struct polychip_fence *fence, struct polychip_timing *out_timing,
                           struct polychip_error *error)
{
    struct polychip_timing timing;
    bool ended;

    if (fence == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "fence_timing: the fence is null");
    }
    pthread_mutex_lock(&fence->lock);
    ended = fence->signalled;
    timing = fence->timing;
    pthread_mutex_unlock(&fence->lock);
    if (!ended) {
        return acme_fail(error, POLYCHIP_STATUS_TIMEOUT, "fence_timing: the run goes on");
    }
    if (!acme_write(out_timing, ACME_TIMING, &timing)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "fence_timing: the record is null or torn");
    }
    return POLYCHIP_STATUS_OK;
}

void acme_fence_destroy(struct polychip_fence *fence)
{
    if (fence != NULL) {
        acme_fence_release(fence);
    }
}
