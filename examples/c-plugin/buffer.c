/* Buffers: memory of our own, and host memory that runs use in place.
 *
 * Invariants:
 * 1. Nothing is copied: the address that `begin_access` gives is the one that runs use.
 * 2. A buffer is either accessed by the host or used by runs, never both.
 */
#include "acme.h"

#include <stdlib.h>

/* A cache line: buffers of our own start on one. */
#define OWN_ALIGNMENT 64u

uint32_t acme_buffer_create(struct polychip_device *device, const struct polychip_memory *wanted,
                            struct polychip_buffer **out_buffer, struct polychip_error *error)
{
    struct polychip_memory memory;
    struct polychip_buffer *buffer;

    if (device == NULL || out_buffer == NULL || !acme_read(&memory, ACME_MEMORY, wanted)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_create: a pointer is null or the record is torn");
    }
    if (memory.kind != POLYCHIP_MEMORY_HOST) {
        return acme_fail(error, POLYCHIP_STATUS_UNSUPPORTED,
                         "buffer_create: memory kind %u is not offered: only host memory (0) is",
                         memory.kind);
    }
    if ((memory.alignment & (memory.alignment - 1)) != 0) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_create: alignment %llu is not a power of two",
                         (unsigned long long)memory.alignment);
    }
    const uint64_t alignment = memory.alignment > OWN_ALIGNMENT ? memory.alignment : OWN_ALIGNMENT;
    if (memory.bytes > SIZE_MAX - alignment) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY,
                         "buffer_create: %llu bytes are more than can be addressed",
                         (unsigned long long)memory.bytes);
    }
    /* aligned_alloc takes multiples of the alignment; a buffer of no bytes still has an address. */
    const uint64_t rounded = memory.bytes == 0
                                 ? alignment
                                 : (memory.bytes + alignment - 1) / alignment * alignment;
    buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "buffer_create: no memory for a buffer");
    }
    buffer->data = aligned_alloc(alignment, rounded);
    if (buffer->data == NULL) {
        free(buffer);
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "buffer_create: no memory for %llu bytes",
                         (unsigned long long)memory.bytes);
    }
    buffer->bytes = memory.bytes;
    buffer->owned = true;
    *out_buffer = buffer;
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_buffer_import(struct polychip_device *device, const struct polychip_memory *memory,
                            struct polychip_buffer **out_buffer, struct polychip_error *error)
{
    struct polychip_memory theirs;
    struct polychip_buffer *buffer;

    if (device == NULL || out_buffer == NULL || !acme_read(&theirs, ACME_MEMORY, memory)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_import: a pointer is null or the record is torn");
    }
    if (theirs.kind != POLYCHIP_MEMORY_HOST) {
        return acme_fail(error, POLYCHIP_STATUS_UNSUPPORTED,
                         "buffer_import: memory kind %u is not offered: only host memory (0) is",
                         theirs.kind);
    }
    if (theirs.data == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_import: host memory of %llu bytes has no address",
                         (unsigned long long)theirs.bytes);
    }
    if ((uintptr_t)theirs.data % _Alignof(float) != 0) {
        return acme_fail(error, POLYCHIP_STATUS_UNSUPPORTED,
                         "buffer_import: the address is not aligned to %zu bytes", _Alignof(float));
    }
    buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "buffer_import: no memory for a buffer");
    }
    buffer->data = theirs.data;
    buffer->bytes = theirs.bytes;
    *out_buffer = buffer;
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_buffer_begin_access(struct polychip_buffer *buffer, uint32_t access, uint64_t offset,
                                  uint64_t bytes, uint8_t **out_data, struct polychip_error *error)
{
    if (buffer == NULL || out_data == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "buffer_begin_access: a pointer is null");
    }
    if (access == 0 || (access & ~(uint32_t)(POLYCHIP_ACCESS_READ | POLYCHIP_ACCESS_WRITE)) != 0) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_begin_access: access %u is neither read (1) nor write (2) nor both",
                         access);
    }
    if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_begin_access: %llu bytes at %llu leave the buffer of %llu bytes",
                         (unsigned long long)bytes, (unsigned long long)offset,
                         (unsigned long long)buffer->bytes);
    }
    if (atomic_load(&buffer->runs) != 0) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_begin_access: a run uses the buffer: wait for its fence");
    }
    if (atomic_exchange(&buffer->accessed, true)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "buffer_begin_access: the access before has not ended");
    }
    /* Host memory is coherent: a chip would invalidate its range of the cache here for a read. */
    *out_data = buffer->data + offset;
    return POLYCHIP_STATUS_OK;
}

uint32_t acme_buffer_end_access(struct polychip_buffer *buffer, struct polychip_error *error)
{
    if (buffer == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "buffer_end_access: the buffer is null");
    }
    if (!atomic_exchange(&buffer->accessed, false)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "buffer_end_access: no access has begun");
    }
    /* A chip would flush the range here after a write. */
    return POLYCHIP_STATUS_OK;
}

void acme_buffer_destroy(struct polychip_buffer *buffer)
{
    if (buffer == NULL) {
        return;
    }
    if (buffer->owned) {
        free(buffer->data);
    }
    free(buffer);
}
