// SPDX-License-Identifier: Apache-2.0
/*
 * Guarded mappings of a GPU, by three ways of falling strength: virtual memory with reserved holes;
 * host memory between closed pages, registered with the device; plain memory for canaries. The
 * first that works is used; what does not work leaves its reason.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <sys/mman.h>

#include "base/str.h"

#include "device/gpu.h"

/* A word that plain memory does not hold by chance. */
enum {
    VERIFY_WORD = 0x5ca1ab1e,
    VERIFY_BYTES = 4096
};

static void sleep_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static enum status verify_at(struct gpu_device *gpu, uint64_t address, size_t bytes, uint32_t word,
                             bool *ret_good, struct err *err)
{
    uint32_t seen[VERIFY_BYTES / sizeof(uint32_t)] = {0};
    size_t n = bytes < sizeof seen ? bytes / sizeof seen[0] : ARRAY_LEN(seen);
    TRY(gpu_check(gpu, gpu->api.fill32(address, word, n), err, "filling a fresh mapping"));
    TRY(gpu_check(gpu, gpu->api.sync(), err, "waiting for the device"));
    TRY(gpu_check(gpu, gpu->api.to_host(seen, address, n * sizeof seen[0]), err,
                  "reading a fresh mapping"));
    *ret_good = true;
    for (size_t i = 0; i < n; i++) {
        *ret_good = *ret_good && seen[i] == word;
    }
    return ST_OK;
}

/* Some devices lose stores into a mapping for a few milliseconds after it was made. Both ends must
 * hold two different words in turn before it is used. */
static enum status settle(struct gpu_device *gpu, uint64_t base, size_t bytes, struct err *err)
{
    const struct gpu_traits *traits = gpu->traits;
    sleep_ms(traits->settle_ms);
    size_t end = bytes > VERIFY_BYTES ? bytes - VERIFY_BYTES : 0;
    unsigned good_in_row = 0;
    for (unsigned round = 0; round < traits->verify_tries; round++) {
        uint32_t word = (uint32_t)VERIFY_WORD + round;
        bool first = false;
        bool last = false;
        TRY(verify_at(gpu, base, bytes, word, &first, err));
        TRY(verify_at(gpu, base + end, bytes, ~word, &last, err));
        good_in_row = first && last ? good_in_row + 1 : 0;
        if (good_in_row == 2) {
            return ST_OK;
        }
        if (good_in_row == 0) {
            sleep_ms(traits->settle_ms * (round + 1));
        }
    }
    return traits->verify_tries == 0
               ? ST_OK
               : err_set(err, ST_IO,
                         "memory that was just mapped at 0x%llx does not keep what is written to "
                         "it, also after %u tries",
                         (unsigned long long)base, traits->verify_tries);
}

static enum status open_range(struct gpu_device *gpu, uint64_t base, size_t bytes,
                              uint64_t *ret_handle, struct err *err)
{
    const struct gpu_api *api = &gpu->api;
    const struct gpu_allocation what = {.type = 1, .location = {.type = 1, .id = gpu->ordinal}};
    const struct gpu_access access = {.location = what.location, .flags = 3};
    uint64_t handle = 0;
    TRY(gpu_check(gpu, api->create(&handle, bytes, &what, 0), err, "creating %zu bytes", bytes));
    enum status st = gpu_check(gpu, api->map(base, bytes, 0, handle, 0), err, "mapping %zu bytes",
                               bytes);
    if (st == ST_OK) {
        st = gpu_check(gpu, api->set_access(base, bytes, &access, 1), err,
                       "opening %zu mapped bytes", bytes);
        st = st == ST_OK ? settle(gpu, base, bytes, err) : st;
        if (st != ST_OK) {
            api->unmap(base, bytes);
        }
    }
    if (st != ST_OK) {
        api->release(handle);
        return st;
    }
    *ret_handle = handle;
    return ST_OK;
}

static enum status map_vmm(struct gpu_device *gpu, size_t bytes, struct device_mapping *ret_mapping,
                           struct err *err)
{
    TRY(gpu_need(gpu, GPU_FEATURE_VMM, err));
    size_t granule = gpu->granule;
    size_t usable = (bytes + granule - 1) / granule * granule;
    size_t total = usable + 2 * granule;
    uint64_t reserved = 0;
    TRY(gpu_check(gpu, gpu->api.reserve(&reserved, total, granule, 0, 0), err,
                  "reserving %zu bytes of addresses", total));
    uint64_t handle = 0;
    enum status st = open_range(gpu, reserved + granule, usable, &handle, err);
    if (st != ST_OK) {
        gpu->api.release_range(reserved, total);
        return st;
    }
    *ret_mapping = (struct device_mapping){
        .base = (void *)(uintptr_t)(reserved + granule),
        .bytes = usable,
        .reserved = (void *)(uintptr_t)reserved,
        .reserved_bytes = total,
        .handle = handle,
        .strength = GUARD_FAULT,
        .mappings = gpu->traits->range_maps,
    };
    return ST_OK;
}

/* Host memory between two closed pages. The device sees only what is registered. */
static enum status map_host(struct gpu_device *gpu, size_t bytes,
                            struct device_mapping *ret_mapping, struct err *err)
{
    TRY(gpu_need(gpu, GPU_FEATURE_HOST, err));
    size_t granule = gpu->granule;
    size_t usable = (bytes + granule - 1) / granule * granule;
    size_t total = usable + 2 * granule;
    char *p = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        gpu->base.event = DEVICE_EVENT_NO_MEMORY;
        return err_sys(err, errno, "cannot map %zu bytes of host memory", total);
    }

    enum {
        REGISTER_MAPPED = 2
    };
    enum status st = ST_OK;
    uint64_t address = 0;
    if (mprotect(p + granule, usable, PROT_READ | PROT_WRITE) != 0) {
        st = err_sys(err, errno, "cannot open %zu bytes of host memory", usable);
    }
    if (st == ST_OK) {
        st = gpu_check(gpu, gpu->api.host_register(p + granule, usable, REGISTER_MAPPED), err,
                       "registering %zu bytes of host memory", usable);
    }
    if (st == ST_OK) {
        st = gpu_check(gpu, gpu->api.host_address(&address, p + granule, 0), err,
                       "asking for the device address of host memory");
        if (st != ST_OK) {
            gpu->api.host_unregister(p + granule);
        }
    }
    if (st != ST_OK) {
        munmap(p, total);
        return st;
    }

    enum {
        HOST_MAPPINGS = 3
    };

    *ret_mapping = (struct device_mapping){
        .base = (void *)(uintptr_t)address,
        .bytes = usable,
        .reserved = p,
        .reserved_bytes = total,
        .handle = granule, /* where the registered part begins */
        .strength = GUARD_FAULT,
        .mappings = HOST_MAPPINGS,
    };
    return ST_OK;
}

static enum status map_plain(struct gpu_device *gpu, size_t bytes,
                             struct device_mapping *ret_mapping, struct err *err)
{
    void *address;
    TRY(gpu_alloc(&gpu->base, bytes, &address, err));
    *ret_mapping = (struct device_mapping){
        .base = address,
        .bytes = bytes,
        .reserved = address,
        .reserved_bytes = bytes,
        .strength = GUARD_CANARY,
    };
    return ST_OK;
}

static enum status map_by(struct gpu_device *gpu, enum gpu_map_path path, size_t bytes,
                          struct device_mapping *ret_mapping, struct err *err)
{
    static enum status (*const ways[GPU_MAP_COUNT])(struct gpu_device *, size_t,
                                                    struct device_mapping *, struct err *) = {
        [GPU_MAP_VMM] = map_vmm,
        [GPU_MAP_HOST] = map_host,
        [GPU_MAP_PLAIN] = map_plain,
    };
    struct device_mapping mapping;
    TRY(ways[path](gpu, bytes, &mapping, err));
    mapping.path = (unsigned)path;
    *ret_mapping = mapping;
    return ST_OK;
}

enum status gpu_map(struct device *device, size_t bytes, struct device_mapping *ret_mapping,
                    struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    if (bytes > (size_t)1 << 46) {
        return err_set(err, ST_LIMIT, "%zu bytes are more than any device has", bytes);
    }
    size_t want = bytes == 0 ? 1 : bytes;
    if (device->map_strength_set) {
        TRY(map_by(gpu, GPU_MAP_PLAIN, want, ret_mapping, err));
        ret_mapping->strength = device->map_strength;
        return ST_OK;
    }
    if (device->map_path != 0) {
        return map_by(gpu, (enum gpu_map_path)(device->map_path - 1), want, ret_mapping, err);
    }
    enum status st = ST_UNSUPPORTED;
    for (size_t path = 0; path < GPU_MAP_COUNT; path++) {
        if (gpu->path_failed[path]) {
            continue;
        }
        st = map_by(gpu, (enum gpu_map_path)path, want, ret_mapping, err);
        /* Out of memory is no reason to guard less. */
        if (st == ST_OK ||
            (device->event != DEVICE_EVENT_NONE && device->event != DEVICE_EVENT_OTHER)) {
            return st;
        }
        device->event = DEVICE_EVENT_NONE;
        gpu->path_failed[path] = true;
        str_print(gpu->path_reason[path], sizeof gpu->path_reason[path], "%s",
                  err != NULL ? err->text : "");
    }
    return st;
}

void gpu_unmap(struct device *device, struct device_mapping *mapping)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    const struct gpu_api *api = &gpu->api;
    if (mapping->strength < GUARD_FAULT) {
        gpu_free(device, mapping->reserved);
    } else if (mapping->path == GPU_MAP_HOST) {
        api->host_unregister((char *)mapping->reserved + mapping->handle);
        munmap(mapping->reserved, mapping->reserved_bytes);
    } else {
        api->unmap((uint64_t)(uintptr_t)mapping->base, mapping->bytes);
        api->release(mapping->handle);
        api->release_range((uint64_t)(uintptr_t)mapping->reserved, mapping->reserved_bytes);
    }
}
