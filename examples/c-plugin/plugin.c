/* The plugin: its table, its one export, instances and devices.
 *
 * Invariants:
 * 1. `polychip_plugin_query` and `plugin_info` touch static data only.
 * 2. A device has one queue thread from `device_open` to `device_close`, which joins it.
 */
#include "acme.h"

#include <stdlib.h>
#include <string.h>

static uint32_t plugin_info(struct polychip_plugin_info *out_info)
{
    const struct polychip_plugin_info info = {
        .name = ACME_TEXT(ACME_NAME),
        .version = ACME_TEXT(ACME_VERSION),
        .build_id = ACME_TEXT(ACME_BUILD_ID),
    };
    return acme_write(out_info, ACME_PLUGIN_INFO, &info) ? POLYCHIP_STATUS_OK
                                                    : POLYCHIP_STATUS_BAD_ARGUMENT;
}

static uint32_t create(const struct polychip_host_services *host,
                       struct polychip_instance **out_instance, struct polychip_error *error)
{
    struct polychip_instance *instance;

    if (out_instance == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "create: out_instance is null");
    }
    instance = calloc(1, sizeof *instance);
    if (instance == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "create: no memory for an instance");
    }
    if (!acme_read(&instance->known, ACME_HOST_SERVICES, host)) {
        free(instance);
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "create: the host services are null or torn");
    }
    instance->services = host;
    *out_instance = instance;
    return POLYCHIP_STATUS_OK;
}

static void destroy(struct polychip_instance *instance)
{
    free(instance);
}

static uint32_t device_count(struct polychip_instance *instance, uint32_t *out_count,
                             struct polychip_error *error)
{
    if (instance == NULL || out_count == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "device_count: a pointer is null");
    }
    *out_count = 1;
    return POLYCHIP_STATUS_OK;
}

static uint32_t device_open(struct polychip_instance *instance, uint32_t index,
                            struct polychip_device **out_device, struct polychip_error *error)
{
    struct polychip_device *device;

    if (instance == NULL || out_device == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT, "device_open: a pointer is null");
    }
    if (index != 0) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "device_open: device %u does not exist: there is 1", index);
    }
    device = calloc(1, sizeof *device);
    if (device == NULL) {
        return acme_fail(error, POLYCHIP_STATUS_OUT_OF_MEMORY, "device_open: no memory for a device");
    }
    device->instance = instance;
    if (!acme_queue_open(device)) {
        free(device);
        return acme_fail(error, POLYCHIP_STATUS_TRANSIENT, "device_open: the queue thread did not start");
    }
    *out_device = device;
    return POLYCHIP_STATUS_OK;
}

static uint32_t device_info(struct polychip_device *device, struct polychip_device_info *out_info,
                            struct polychip_error *error)
{
    const struct polychip_device_info info = {
        .kind = POLYCHIP_DEVICE_NPU,
        .flags = POLYCHIP_DEVICE_EMULATED | POLYCHIP_DEVICE_SHARES_HOST_MEMORY |
                 POLYCHIP_DEVICE_SERIAL,
        .import_kinds = 1u << POLYCHIP_MEMORY_HOST,
        .import_alignment = _Alignof(float),
        .name = ACME_TEXT("Acme One"),
        .vendor = ACME_TEXT("Acme"),
        .driver = ACME_TEXT(ACME_VERSION),
        .preemption = POLYCHIP_PREEMPTION_NONE,
        .queue_depth = 1,
    };
    if (device == NULL || !acme_write(out_info, ACME_DEVICE_INFO, &info)) {
        return acme_fail(error, POLYCHIP_STATUS_BAD_ARGUMENT,
                         "device_info: a pointer is null or the record is torn");
    }
    return POLYCHIP_STATUS_OK;
}

static void device_close(struct polychip_device *device)
{
    if (device == NULL) {
        return;
    }
    acme_queue_close(device);
    free(device);
}

static const struct polychip_plugin_table TABLE = {
    .struct_size = sizeof(struct polychip_plugin_table),
    .abi_major = POLYCHIP_ABI_MAJOR,
    .abi_minor = POLYCHIP_ABI_MINOR,
    .plugin_info = plugin_info,
    .create = create,
    .destroy = destroy,
    .device_count = device_count,
    .device_open = device_open,
    .device_info = device_info,
    .device_close = device_close,
    .query_support = acme_query_support,
    .compile = acme_compile,
    .blob_bytes = acme_blob_bytes,
    .blob_destroy = acme_blob_destroy,
    .load = acme_load,
    .executable_info = acme_executable_info,
    .port_info = acme_port_info,
    .executable_destroy = acme_executable_destroy,
    .buffer_create = acme_buffer_create,
    .buffer_import = acme_buffer_import,
    .buffer_begin_access = acme_buffer_begin_access,
    .buffer_end_access = acme_buffer_end_access,
    .buffer_destroy = acme_buffer_destroy,
    .execute = acme_execute,
    .fence_wait = acme_fence_wait,
    .fence_on_signal = acme_fence_on_signal,
    .fence_timing = acme_fence_timing,
    .fence_destroy = acme_fence_destroy,
};

const struct polychip_plugin_table *polychip_plugin_query(uint32_t host_major, uint32_t host_minor)
{
    (void)host_minor; /* a host of any minor reads the prefix that it knows */
    return host_major == POLYCHIP_ABI_MAJOR ? &TABLE : NULL;
}
