// SPDX-License-Identifier: Apache-2.0
/*
 * The processor as a device: addresses are pointers, a launch is a loop, a guarded mapping is mmap
 * with pages of no access on both sides.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/fs.h"
#include "base/vec.h"

#include "device/device.h"

/* Plain allocations are mappings too; their size stands in front of the address. */
enum {
    CPU_HEADER_BYTES = 64
};

/* No single mapping of ours is larger than this. */
#define CPU_BYTES_MAX ((size_t)1 << 46)

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* One "key : value" line of /proc/cpuinfo. */
static struct str cpuinfo_value(struct str text, const char *key)
{
    struct str line;
    while (str_cut_line(&text, &line)) {
        struct str name;
        if (str_starts(line, key) && str_cut(&line, ':', &name)) {
            return str_trim(line);
        }
    }
    return str_of(NULL);
}

static void describe(struct arena *a, struct device_info *info)
{
    static const struct fs live = {.prefix = ""};
    struct str text = {0};
    struct str name = STR("CPU");
    if (fs_read(&live, a, "/proc/cpuinfo", (size_t)4 << 20, &text, NULL) == ST_OK) {
        struct str model = cpuinfo_value(text, "model name");
        name = model.n > 0 ? model : name;
    }
    size_t n = name.n < sizeof info->name ? name.n : sizeof info->name - 1;
    memcpy(info->name, name.p, n);
    info->name[n] = '\0';
#if defined(__x86_64__)
    memcpy(info->arch, "x86-64", sizeof "x86-64");
#elif defined(__aarch64__)
    memcpy(info->arch, "aarch64", sizeof "aarch64");
#endif
    info->kind = DEVICE_CPU;
    info->index = 0;
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * page_bytes();
    info->granule_bytes = page_bytes();
    info->compute_units = (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static enum status cpu_probe(struct arena *a, const struct device_options *options,
                             struct device_feature_list *rows, int *ret_count, struct err *err)
{
    (void)options;
    (void)err;
    *VEC_PUSH(a, rows) = (struct device_feature){
        .backend = "cpu",
        .feature = "memory",
        .state = FEATURE_READY,
        .reason = "this processor's own memory",
    };
    *VEC_PUSH(a, rows) = (struct device_feature){
        .backend = "cpu",
        .feature = "guard memory",
        .state = FEATURE_READY,
        .reason = "pages without access (mmap, PROT_NONE) on both sides of an operand",
    };
    *ret_count = 1;
    return ST_OK;
}

static enum status cpu_open(struct arena *a, const struct device_options *options, int index,
                            struct device **ret_device, struct err *err)
{
    (void)options;
    if (index != 0) {
        return err_set(err, ST_ABSENT, "there is one CPU device, cpu:0, and no cpu:%d", index);
    }
    struct device *device = arena_alloc(a, sizeof *device);
    device->backend = &device_backend_cpu;
    device->arena = a;
    describe(a, &device->info);
    *ret_device = device;
    return ST_OK;
}

static void cpu_close(struct device *device)
{
    (void)device;
}

static enum status cpu_alloc(struct device *device, size_t bytes, void **ret_address,
                             struct err *err)
{
    if (bytes > CPU_BYTES_MAX) {
        device->event = DEVICE_EVENT_NO_MEMORY;
        return err_set(err, ST_LIMIT, "%zu bytes are more than a processor can address", bytes);
    }
    size_t total = bytes + CPU_HEADER_BYTES;
    char *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        device->event = DEVICE_EVENT_NO_MEMORY;
        return err_sys(err, errno, "cannot allocate %zu bytes", bytes);
    }
    memcpy(p, &total, sizeof total);
    *ret_address = p + CPU_HEADER_BYTES;
    return ST_OK;
}

static void cpu_free(struct device *device, void *address)
{
    (void)device;
    char *p = (char *)address - CPU_HEADER_BYTES;
    size_t total;
    memcpy(&total, p, sizeof total);
    munmap(p, total);
}

static enum status cpu_write(struct device *device, void *to, const void *from_host, size_t bytes,
                             struct err *err)
{
    (void)device;
    (void)err;
    memcpy(to, from_host, bytes);
    return ST_OK;
}

static enum status cpu_read(struct device *device, void *to_host, const void *from, size_t bytes,
                            struct err *err)
{
    return cpu_write(device, to_host, from, bytes, err);
}

static enum status cpu_fill(struct device *device, void *to, uint32_t pattern, size_t bytes,
                            struct err *err)
{
    (void)device;
    (void)err;
    char *p = to;
    size_t whole = bytes - bytes % sizeof pattern;
    for (size_t i = 0; i < whole; i += sizeof pattern) {
        memcpy(p + i, &pattern, sizeof pattern);
    }
    memcpy(p + whole, &pattern, bytes - whole);
    return ST_OK;
}

static enum status cpu_copy(struct device *device, void *to, const void *from, size_t bytes,
                            struct err *err)
{
    (void)device;
    (void)err;
    memmove(to, from, bytes);
    return ST_OK;
}

static enum status cpu_sync(struct device *device, struct err *err)
{
    (void)device;
    (void)err;
    return ST_OK;
}

static enum status cpu_launch(struct device *device, const struct kernel_text *text,
                              const struct kernel_launch *launch, struct err *err)
{
    (void)device;
    if (text->cpu == NULL) {
        return err_set(err, ST_UNSUPPORTED, "kernel %s has no form for the CPU", text->name);
    }
    for (size_t i = 0; i < launch->groups * launch->group_size; i++) {
        text->cpu(i, launch->arguments);
    }
    return ST_OK;
}

/* Kernels have been seen to read hundreds of bytes too far; closed pages cost addresses only. */
enum {
    HOLE_PAGES = 16
};

static enum status cpu_map(struct device *device, size_t bytes, struct device_mapping *ret_mapping,
                           struct err *err)
{
    size_t page = page_bytes();
    if (bytes > CPU_BYTES_MAX) {
        return err_set(err, ST_LIMIT, "%zu bytes are more than a processor can address", bytes);
    }
    enum guard_strength strength = device->map_strength_set ? device->map_strength : GUARD_FAULT;
    size_t usable = bytes == 0 ? page : (bytes + page - 1) / page * page;
    size_t hole = HOLE_PAGES * page;
    size_t total = usable + 2 * hole;
    /* MAP_NORESERVE: an operand of 4 GiB of which a test touches the borders costs its borders. */
    char *p = mmap(NULL, total, strength == GUARD_FAULT ? PROT_NONE : PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        device->event = DEVICE_EVENT_NO_MEMORY;
        return err_sys(err, errno, "cannot map %zu bytes", total);
    }
    if (strength == GUARD_FAULT && mprotect(p + hole, usable, PROT_READ | PROT_WRITE) != 0) {
        int saved = errno;
        munmap(p, total);
        device->event = DEVICE_EVENT_NO_MEMORY;
        return err_sys(err, saved, "cannot open %zu bytes between closed pages", usable);
    }
    *ret_mapping = (struct device_mapping){
        .base = p + hole,
        .bytes = usable,
        .reserved = p,
        .reserved_bytes = total,
        .strength = strength,
        .mappings = strength == GUARD_FAULT ? 3 : 1,
    };
    return ST_OK;
}

static void cpu_unmap(struct device *device, struct device_mapping *mapping)
{
    (void)device;
    munmap(mapping->reserved, mapping->reserved_bytes);
}

static const char *const map_paths[] = {"pages without access", NULL};

const struct device_backend device_backend_cpu = {
    .name = "cpu",
    .kind = DEVICE_CPU,
    .map_paths = map_paths,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_write,
    .read = cpu_read,
    .fill = cpu_fill,
    .copy = cpu_copy,
    .sync = cpu_sync,
    .host_alloc = cpu_alloc,
    .host_free = cpu_free,
    .queue_write = cpu_write,
    .queue_read = cpu_read,
    .launch = cpu_launch,
    .map = cpu_map,
    .unmap = cpu_unmap,
};
