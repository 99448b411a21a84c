// SPDX-License-Identifier: Apache-2.0
/*
 * OpenCL over host memory: every buffer is made with CL_MEM_USE_HOST_PTR on memory of the CPU back
 * end, so that an implementation which takes host pointers without a copy (pocl) runs its kernels
 * right at our holes. Where it copies, the proof fails and says so.
 *
 * Source: OpenCL 1.2 specification, CL/cl.h.
 */
#include "device/opencl.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "device/library.h"

enum {
    CORE = 0,
    KERNELS
};

enum {
    REGIONS_MAX = 4096,
    KERNELS_MAX = 64,
    PLATFORMS_MAX = 16,
    DEVICES_MAX = 64
};

struct opencl_api {
    int (*platforms)(unsigned count, void **platforms, unsigned *ret_count);
    int (*devices)(void *platform, uint64_t type, unsigned count, void **devices,
                   unsigned *ret_count);
    int (*device_info)(void *device, unsigned what, size_t bytes, void *value, size_t *ret_bytes);
    void *(*context)(const intptr_t *properties, unsigned count, void *const *devices,
                     void (*notify)(const char *, const void *, size_t, void *), void *user,
                     int *ret_error);
    void *(*queue)(void *context, void *device, uint64_t properties, int *ret_error);
    void *(*buffer)(void *context, uint64_t flags, size_t bytes, void *host, int *ret_error);
    int (*buffer_release)(void *buffer);
    int (*finish)(void *queue);
    void *(*program)(void *context, unsigned count, const char **texts, const size_t *lengths,
                     int *ret_error);
    int (*build)(void *program, unsigned count, void *const *devices, const char *options,
                 void (*notify)(void *, void *), void *user);
    int (*build_info)(void *program, void *device, unsigned what, size_t bytes, void *value,
                      size_t *ret_bytes);
    void *(*kernel)(void *program, const char *name, int *ret_error);
    int (*argument)(void *kernel, unsigned index, size_t bytes, const void *value);
    int (*launch)(void *queue, void *kernel, unsigned dimensions, const size_t *offset,
                  const size_t *global, const size_t *local, unsigned event_count,
                  void *const *events, void **ret_event);
};

#define ROW(name, slot, feature)                   \
 {                                                 \
  name, offsetof(struct opencl_api, slot), feature \
 }
static const struct library_symbol symbols[] = {
    ROW("clGetPlatformIDs", platforms, CORE),
    ROW("clGetDeviceIDs", devices, CORE),
    ROW("clGetDeviceInfo", device_info, CORE),
    ROW("clCreateContext", context, CORE),
    ROW("clCreateCommandQueue", queue, CORE),
    ROW("clCreateBuffer", buffer, CORE),
    ROW("clReleaseMemObject", buffer_release, CORE),
    ROW("clFinish", finish, CORE),
    ROW("clCreateProgramWithSource", program, KERNELS),
    ROW("clBuildProgram", build, KERNELS),
    ROW("clGetProgramBuildInfo", build_info, KERNELS),
    ROW("clCreateKernel", kernel, KERNELS),
    ROW("clSetKernelArg", argument, KERNELS),
    ROW("clEnqueueNDRangeKernel", launch, KERNELS),
};
#undef ROW

static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};

struct opencl_device {
    struct device base;
    struct device *host; /* the CPU back end, which owns the memory */
    struct opencl_api api;
    struct library library;
    const char *missing[LIBRARY_FEATURES_MAX];
    void *id, *context, *queue;

    struct {
        char *base;
        size_t bytes;
    } regions[REGIONS_MAX];

    size_t region_count;

    struct {
        const struct kernel_text *text;
        void *kernel;
    } kernels[KERNELS_MAX];

    size_t kernel_count;
};

static enum status cl_status(struct opencl_device *cl, int code, struct err *err, const char *what)
{
    if (code == 0) {
        return ST_OK;
    }

    enum {
        OBJECT_ALLOCATION_FAILURE = -4,
        OUT_OF_RESOURCES = -5,
        OUT_OF_HOST_MEMORY = -6
    };

    bool memory = code <= OBJECT_ALLOCATION_FAILURE && code >= OUT_OF_HOST_MEMORY;
    cl->base.event = memory ? DEVICE_EVENT_NO_MEMORY : DEVICE_EVENT_OTHER;
    return err_set(err, memory ? ST_LIMIT : ST_IO, "OpenCL: %s failed with %d", what, code);
}

/* --- opening ----------------------------------------------------------------------------------- */

/* All devices of all platforms. */
static enum status load(struct opencl_device *cl, struct arena *a,
                        const struct device_options *options, void *devices[DEVICES_MAX],
                        int *ret_count, struct err *err)
{
    TRY(library_open(a, options->library, names, &cl->library, err));
    library_bind(&cl->library, symbols, ARRAY_LEN(symbols), &cl->api, cl->missing);
    if (cl->missing[CORE] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s, so it is not an OpenCL loader",
                       cl->library.path, cl->missing[CORE]);
    }
    void *platforms[PLATFORMS_MAX];
    unsigned platform_count = 0;

    enum {
        NO_PLATFORM = -1001
    };

    int code = cl->api.platforms(PLATFORMS_MAX, platforms, &platform_count);
    if (code == NO_PLATFORM || (code == 0 && platform_count == 0)) {
        return err_set(err, ST_ABSENT,
                       "%s finds no OpenCL platform (nothing usable in /etc/OpenCL/vendors)",
                       cl->library.path);
    }
    TRY(cl_status(cl, code, err, "asking for platforms"));
    const uint64_t every_type = 0xffffffff;
    unsigned total = 0;
    for (unsigned p = 0; p < platform_count && p < PLATFORMS_MAX && total < DEVICES_MAX; p++) {
        unsigned got = 0;
        if (cl->api.devices(platforms[p], every_type, DEVICES_MAX - total, devices + total, &got) ==
            0) {
            total += got < DEVICES_MAX - total ? got : DEVICES_MAX - total;
        }
    }
    *ret_count = (int)total;
    return ST_OK;
}

static void add_row(struct arena *a, struct device_feature_list *rows, const char *feature,
                    enum feature_state state, const char *library, const char *reason)
{
    struct device_feature *row = VEC_PUSH(a, rows);
    row->state = state;
    str_print(row->backend, sizeof row->backend, "opencl");
    str_print(row->feature, sizeof row->feature, "%s", feature);
    str_print(row->library, sizeof row->library, "%s", library);
    str_print(row->reason, sizeof row->reason, "%s", reason);
}

static enum status opencl_probe(struct arena *a, const struct device_options *options,
                                struct device_feature_list *rows, int *ret_count, struct err *err)
{
    struct opencl_device *cl = arena_alloc(a, sizeof *cl);
    void *devices[DEVICES_MAX];
    struct err own = {0};
    enum status st = load(cl, a, options, devices, ret_count, &own);
    if (st != ST_OK) {
        bool found = cl->library.path != NULL;
        add_row(a, rows, "memory", st == ST_ABSENT ? FEATURE_MISSING : FEATURE_BROKEN,
                found ? cl->library.path : "", own.text);
        return err_set(err, st, "%s", own.text);
    }
    add_row(a, rows, "memory", FEATURE_READY, cl->library.path, "all symbols are there");
    add_row(a, rows, "guard memory", FEATURE_READY, cl->library.path,
            "host pointers between pages without access; holds where they are not copied");
    bool kernels = cl->missing[KERNELS] == NULL;
    add_row(a, rows, "kernels", kernels ? FEATURE_READY : FEATURE_MISSING, cl->library.path,
            kernels ? "all symbols are there"
                    : arena_fmt(a, "the library has no symbol %s", cl->missing[KERNELS]));
    return ST_OK;
}

static void describe(struct opencl_device *cl, int index)
{
    enum {
        COMPUTE_UNITS = 0x1002,
        CLOCK = 0x100c,
        MEMORY = 0x101f,
        NAME = 0x102b,
        DRIVER = 0x102d,
        VERSION = 0x102f
    };
    struct device_info *info = &cl->base.info;
    unsigned units = 0;
    unsigned clock = 0;
    info->kind = DEVICE_OPENCL;
    info->index = index;
    cl->api.device_info(cl->id, NAME, sizeof info->name - 1, info->name, NULL);
    cl->api.device_info(cl->id, DRIVER, sizeof info->driver - 1, info->driver, NULL);
    cl->api.device_info(cl->id, VERSION, sizeof info->arch - 1, info->arch, NULL);
    cl->api.device_info(cl->id, MEMORY, sizeof info->memory_bytes, &info->memory_bytes, NULL);
    cl->api.device_info(cl->id, COMPUTE_UNITS, sizeof units, &units, NULL);
    cl->api.device_info(cl->id, CLOCK, sizeof clock, &clock, NULL);
    info->compute_units = (int)units;
    info->clock_mhz = (int)clock;
    info->granule_bytes = cl->host->info.granule_bytes;
}

static enum status opencl_open(struct arena *a, const struct device_options *options, int index,
                               struct device **ret_device, struct err *err)
{
    struct opencl_device *cl = arena_alloc(a, sizeof *cl);
    void *devices[DEVICES_MAX];
    int count = 0;
    cl->base.backend = &device_backend_opencl;
    cl->base.arena = a;
    TRY(load(cl, a, options, devices, &count, err));
    if (index < 0 || index >= count) {
        return err_set(err, ST_ABSENT, "OpenCL has %d device%s, and no opencl:%d", count,
                       count == 1 ? "" : "s", index);
    }
    TRY(device_open(a, DEVICE_CPU, 0, NULL, &cl->host, err));
    cl->id = devices[index];
    int code = 0;
    cl->context = cl->api.context(NULL, 1, &cl->id, NULL, NULL, &code);
    TRY(cl_status(cl, code, err, "making a context"));
    cl->queue = cl->api.queue(cl->context, cl->id, 0, &code);
    TRY(cl_status(cl, code, err, "making a queue"));
    describe(cl, index);
    *ret_device = &cl->base;
    return ST_OK;
}

static void opencl_close(struct device *device)
{
    struct opencl_device *cl = (struct opencl_device *)device;
    cl->api.finish(cl->queue);
    device_close(cl->host);
}

/* --- memory: the CPU back end's, remembered ---------------------------------------------------- */

static enum status remember(struct opencl_device *cl, void *base, size_t bytes, struct err *err)
{
    if (cl->region_count >= REGIONS_MAX) {
        return err_set(err, ST_LIMIT, "%d allocations of OpenCL are in use", REGIONS_MAX);
    }
    cl->regions[cl->region_count].base = base;
    cl->regions[cl->region_count++].bytes = bytes;
    return ST_OK;
}

static void forget(struct opencl_device *cl, const void *base)
{
    for (size_t i = 0; i < cl->region_count; i++) {
        if (cl->regions[i].base == base) {
            cl->regions[i] = cl->regions[--cl->region_count];
            return;
        }
    }
}

static struct device *host_of(struct device *device)
{
    struct opencl_device *cl = (struct opencl_device *)device;
    cl->host->map_strength_set = device->map_strength_set;
    cl->host->map_strength = device->map_strength;
    return cl->host;
}

static enum status opencl_alloc(struct device *device, size_t bytes, void **ret_address,
                                struct err *err)
{
    struct opencl_device *cl = (struct opencl_device *)device;
    void *address;
    TRY(device_alloc(cl->host, bytes, &address, err));
    enum status st = remember(cl, address, bytes, err);
    if (st != ST_OK) {
        device_free(cl->host, address);
        return st;
    }
    *ret_address = address;
    return ST_OK;
}

static void opencl_free(struct device *device, void *address)
{
    forget((struct opencl_device *)device, address);
    device_free(host_of(device), address);
}

static enum status opencl_map(struct device *device, size_t bytes,
                              struct device_mapping *ret_mapping, struct err *err)
{
    struct opencl_device *cl = (struct opencl_device *)device;
    struct device_mapping mapping;
    TRY(device_backend_cpu.map(host_of(device), bytes, &mapping, err));
    enum status st = remember(cl, mapping.base, mapping.bytes, err);
    if (st != ST_OK) {
        device_backend_cpu.unmap(cl->host, &mapping);
        return st;
    }
    *ret_mapping = mapping;
    return ST_OK;
}

static void opencl_unmap(struct device *device, struct device_mapping *mapping)
{
    forget((struct opencl_device *)device, mapping->base);
    device_backend_cpu.unmap(host_of(device), mapping);
}

static enum status opencl_write(struct device *device, void *to, const void *from, size_t bytes,
                                struct err *err)
{
    return device_write(host_of(device), to, from, bytes, err);
}

static enum status opencl_read(struct device *device, void *to, const void *from, size_t bytes,
                               struct err *err)
{
    TRY(device_sync(device, err));
    return device_read(host_of(device), to, from, bytes, err);
}

static enum status opencl_fill(struct device *device, void *to, uint32_t pattern, size_t bytes,
                               struct err *err)
{
    return device_fill(host_of(device), to, pattern, bytes, err);
}

static enum status opencl_copy(struct device *device, void *to, const void *from, size_t bytes,
                               struct err *err)
{
    return device_copy(host_of(device), to, from, bytes, err);
}

static enum status opencl_host_alloc(struct device *device, size_t bytes, void **ret_host,
                                     struct err *err)
{
    return device_alloc(((struct opencl_device *)device)->host, bytes, ret_host, err);
}

static void opencl_host_free(struct device *device, void *host)
{
    device_free(((struct opencl_device *)device)->host, host);
}

static enum status opencl_sync(struct device *device, struct err *err)
{
    struct opencl_device *cl = (struct opencl_device *)device;
    return cl_status(cl, cl->api.finish(cl->queue), err, "waiting for the queue");
}

void *opencl_queue(struct device *device)
{
    return ((struct opencl_device *)device)->queue;
}

enum status opencl_buffer(struct device *device, const void *address, void **ret_buffer,
                          size_t *ret_offset, struct err *err)
{
    struct opencl_device *cl = (struct opencl_device *)device;

    enum {
        READ_WRITE = 1,
        USE_HOST_PTR = 8,
        ALIGNMENT = 128
    };

    *ret_buffer = NULL;
    char *p = (char *)(uintptr_t)address;
    for (size_t i = 0; address != NULL && i < cl->region_count; i++) {
        char *end = cl->regions[i].base + cl->regions[i].bytes;
        if (p >= cl->regions[i].base && p < end) {
            int code = 0;
            size_t ahead = ret_offset != NULL ? (uintptr_t)p % ALIGNMENT : 0;
            ahead = ahead <= (size_t)(p - cl->regions[i].base) ? ahead : 0;
            if (ret_offset != NULL) {
                *ret_offset = ahead;
            }
            p -= ahead;
            *ret_buffer = cl->api.buffer(cl->context, READ_WRITE | USE_HOST_PTR, (size_t)(end - p),
                                         p, &code);
            return cl_status(cl, code, err, "making a buffer over host memory");
        }
    }
    return address == NULL
               ? ST_OK
               : err_set(err, ST_USAGE, "%p is no address of this OpenCL device", address);
}

void opencl_buffer_release(struct device *device, void *buffer)
{
    if (buffer != NULL) {
        ((struct opencl_device *)device)->api.buffer_release(buffer);
    }
}

/* --- kernels ----------------------------------------------------------------------------------- */

static enum status build(struct opencl_device *cl, const struct kernel_text *text,
                         void **ret_kernel, struct err *err)
{
    enum {
        BUILD_LOG = 0x1183
    };

    int code = 0;
    const char *source = text->opencl;
    void *program = cl->api.program(cl->context, 1, &source, NULL, &code);
    TRY(cl_status(cl, code, err, "reading a kernel's source"));
    code = cl->api.build(program, 1, &cl->id, "", NULL, NULL);
    if (code != 0) {
        char log[600] = "";
        cl->api.build_info(program, cl->id, BUILD_LOG, sizeof log - 1, log, NULL);
        return err_set(err, ST_IO, "OpenCL does not build the kernel %s (%d): %s", text->name, code,
                       log);
    }
    *ret_kernel = cl->api.kernel(program, text->name, &code);
    return cl_status(cl, code, err, "finding a kernel in its program");
}

static enum status find_kernel(struct opencl_device *cl, const struct kernel_text *text,
                               void **ret_kernel, struct err *err)
{
    for (size_t i = 0; i < cl->kernel_count; i++) {
        if (cl->kernels[i].text == text) {
            *ret_kernel = cl->kernels[i].kernel;
            return ST_OK;
        }
    }
    if (text->opencl == NULL || cl->missing[KERNELS] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "kernel %s cannot run: %s", text->name,
                       text->opencl == NULL ? "it has no form for OpenCL" : cl->missing[KERNELS]);
    }
    TRY(build(cl, text, ret_kernel, err));
    if (cl->kernel_count < KERNELS_MAX) {
        cl->kernels[cl->kernel_count].text = text;
        cl->kernels[cl->kernel_count++].kernel = *ret_kernel;
    }
    return ST_OK;
}

static enum status set_arguments(struct opencl_device *cl, void *kernel,
                                 const struct kernel_launch *launch,
                                 void *buffers[KERNEL_ARGUMENTS_MAX], struct err *err)
{
    static const size_t sizes[] = {[KERNEL_POINTER] = sizeof(void *),
                                   [KERNEL_I64] = sizeof(int64_t),
                                   [KERNEL_I32] = sizeof(int32_t),
                                   [KERNEL_F32] = sizeof(float)};
    for (size_t i = 0; i < launch->argument_count; i++) {
        const void *value = &launch->arguments[i];
        if (launch->types[i] == KERNEL_POINTER) {
            TRY(opencl_buffer(&cl->base, launch->arguments[i].pointer, &buffers[i], NULL, err));
            value = &buffers[i];
        }
        TRY(cl_status(cl, cl->api.argument(kernel, (unsigned)i, sizes[launch->types[i]], value),
                      err, "setting an argument of a kernel"));
    }
    return ST_OK;
}

static enum status opencl_launch(struct device *device, const struct kernel_text *text,
                                 const struct kernel_launch *launch, struct err *err)
{
    struct opencl_device *cl = (struct opencl_device *)device;
    void *kernel = NULL;
    TRY(find_kernel(cl, text, &kernel, err));
    void *buffers[KERNEL_ARGUMENTS_MAX] = {0};
    enum status st = set_arguments(cl, kernel, launch, buffers, err);
    if (st == ST_OK) {
        size_t global = launch->groups * launch->group_size;
        st = cl_status(
            cl,
            cl->api.launch(cl->queue, kernel, 1, NULL, &global, &launch->group_size, 0, NULL, NULL),
            err, "launching a kernel");
    }
    if (st == ST_OK) {
        st = cl_status(cl, cl->api.finish(cl->queue), err, "waiting for a kernel");
    }
    for (size_t i = 0; i < launch->argument_count; i++) {
        opencl_buffer_release(device, buffers[i]);
    }
    return st;
}

static const char *const map_paths[] = {"host pointers between pages without access", NULL};

const struct device_backend device_backend_opencl = {
    .name = "opencl",
    .kind = DEVICE_OPENCL,
    .map_paths = map_paths,
    .probe = opencl_probe,
    .open = opencl_open,
    .close = opencl_close,
    .alloc = opencl_alloc,
    .free = opencl_free,
    .write = opencl_write,
    .read = opencl_read,
    .fill = opencl_fill,
    .copy = opencl_copy,
    .sync = opencl_sync,
    .host_alloc = opencl_host_alloc,
    .host_free = opencl_host_free,
    .queue_write = opencl_write,
    .queue_read = opencl_read,
    .launch = opencl_launch,
    .map = opencl_map,
    .unmap = opencl_unmap,
};
