// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of back ends, and the calls of the table under short names. What a back end does
 * is in its own file; this one only chooses and checks.
 */
#include "device/device.h"

#include <string.h>

static const struct device_backend *const backends[DEVICE_KIND_COUNT] = {
    [DEVICE_CPU] = &device_backend_cpu,
    [DEVICE_CUDA] = &device_backend_cuda,
    [DEVICE_HIP] = &device_backend_hip,
    [DEVICE_OPENCL] = &device_backend_opencl,
};

static const char *const kind_names[DEVICE_KIND_COUNT] = {"cpu", "cuda", "hip", "opencl"};

const char *device_kind_name(enum device_kind kind)
{
    return kind < DEVICE_KIND_COUNT ? kind_names[kind] : "unknown";
}

bool device_kind_find(const char *name, enum device_kind *ret_kind)
{
    for (size_t i = 0; i < DEVICE_KIND_COUNT; i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            *ret_kind = (enum device_kind)i;
            return true;
        }
    }
    return false;
}

const char *device_event_name(enum device_event event)
{
    static const char *const names[DEVICE_EVENT_COUNT] = {
        "none", "out of memory", "memory fault", "illegal instruction", "device lost", "error",
    };
    return event < DEVICE_EVENT_COUNT ? names[event] : "unknown";
}

const char *feature_state_name(enum feature_state state)
{
    static const char *const names[FEATURE_STATE_COUNT] = {"ready", "missing", "broken"};
    return state < FEATURE_STATE_COUNT ? names[state] : "unknown";
}

const struct device_backend *device_backend_of(enum device_kind kind)
{
    return kind < DEVICE_KIND_COUNT ? backends[kind] : NULL;
}

enum status device_open(struct arena *a, enum device_kind kind, int index,
                        const struct device_options *options, struct device **ret_device,
                        struct err *err)
{
    const struct device_backend *backend = device_backend_of(kind);
    if (backend == NULL) {
        return err_set(err, ST_UNSUPPORTED, "this build has no back end '%s'",
                       device_kind_name(kind));
    }
    static const struct device_options none;
    return backend->open(a, options != NULL ? options : &none, index, ret_device, err);
}

void device_close(struct device *device)
{
    if (device != NULL) {
        device->backend->close(device);
    }
}

enum status device_alloc(struct device *device, size_t bytes, void **ret_address, struct err *err)
{
    return device->backend->alloc(device, bytes, ret_address, err);
}

void device_free(struct device *device, void *address)
{
    if (address != NULL) {
        device->backend->free(device, address);
    }
}

enum status device_write(struct device *device, void *to, const void *from_host, size_t bytes,
                         struct err *err)
{
    return bytes == 0 ? ST_OK : device->backend->write(device, to, from_host, bytes, err);
}

enum status device_read(struct device *device, void *to_host, const void *from, size_t bytes,
                        struct err *err)
{
    return bytes == 0 ? ST_OK : device->backend->read(device, to_host, from, bytes, err);
}

enum status device_fill(struct device *device, void *to, uint32_t pattern, size_t bytes,
                        struct err *err)
{
    return bytes == 0 ? ST_OK : device->backend->fill(device, to, pattern, bytes, err);
}

enum status device_copy(struct device *device, void *to, const void *from, size_t bytes,
                        struct err *err)
{
    return bytes == 0 ? ST_OK : device->backend->copy(device, to, from, bytes, err);
}

enum status device_sync(struct device *device, struct err *err)
{
    return device->backend->sync(device, err);
}

enum status device_host_alloc(struct device *device, size_t bytes, void **ret_host, struct err *err)
{
    return device->backend->host_alloc(device, bytes == 0 ? 1 : bytes, ret_host, err);
}

void device_host_free(struct device *device, void *host)
{
    if (host != NULL) {
        device->backend->host_free(device, host);
    }
}

enum status device_queue_write(struct device *device, void *to, const void *from_host, size_t bytes,
                               struct err *err)
{
    return bytes == 0 ? ST_OK : device->backend->queue_write(device, to, from_host, bytes, err);
}

enum status device_queue_read(struct device *device, void *to_host, const void *from, size_t bytes,
                              struct err *err)
{
    return bytes == 0 ? ST_OK : device->backend->queue_read(device, to_host, from, bytes, err);
}

enum status device_launch(struct device *device, const struct kernel_text *text,
                          const struct kernel_launch *launch, struct err *err)
{
    if (launch->argument_count > KERNEL_ARGUMENTS_MAX) {
        return err_set(err, ST_USAGE, "kernel %s has %zu arguments, more than %d", text->name,
                       launch->argument_count, KERNEL_ARGUMENTS_MAX);
    }
    return device->backend->launch(device, text, launch, err);
}
