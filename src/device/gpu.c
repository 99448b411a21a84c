// SPDX-License-Identifier: Apache-2.0
/*
 * Opening a GPU through its driver interface, plain memory, kernels, and what an error number
 * means. Guarded mappings are in gpu_map.c.
 */
#include "device/gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

static enum device_event event_of(const struct gpu_traits *traits, int code)
{
    for (const struct gpu_error *e = traits->errors; e->number != 0; e++) {
        if (e->number == code) {
            return e->event;
        }
    }
    return DEVICE_EVENT_OTHER;
}

static void error_words(const struct gpu_device *gpu, int code, const char **ret_name,
                        const char **ret_text)
{
    const struct gpu_api *api = &gpu->api;
    const char *name = NULL;
    const char *text = NULL;
    if (api->error_name != NULL) {
        api->error_name(code, &name);
    } else if (api->error_name_of != NULL) {
        name = api->error_name_of(code);
    }
    if (api->error_text != NULL) {
        api->error_text(code, &text);
    } else if (api->error_text_of != NULL) {
        text = api->error_text_of(code);
    }
    *ret_name = name != NULL ? name : "unknown error";
    *ret_text = text != NULL ? text : "no text";
}

enum status gpu_check(struct gpu_device *gpu, int code, struct err *err, const char *what, ...)
{
    if (code == 0) {
        return ST_OK;
    }
    enum device_event event = event_of(gpu->traits, code);
    /* An ordinary refusal must not hide that the device is gone. */
    if (gpu->base.event < DEVICE_EVENT_MEMORY_FAULT || event == DEVICE_EVENT_MEMORY_FAULT) {
        gpu->base.event = event;
    }
    char call[200];
    va_list ap;
    va_start(ap, what);
    vsnprintf(call, sizeof call, what, ap);
    va_end(ap);
    const char *name;
    const char *text;
    error_words(gpu, code, &name, &text);
    return err_set(err, event == DEVICE_EVENT_NO_MEMORY ? ST_LIMIT : ST_IO,
                   "%s failed: %s (%d: %s)", call, name, code, text);
}

enum status gpu_need(const struct gpu_device *gpu, enum gpu_feature feature, struct err *err)
{
    if (gpu->missing[feature] == NULL) {
        return ST_OK;
    }
    return err_set(err, ST_UNSUPPORTED, "%s of %s is off: %s has no %s",
                   gpu->traits->feature_names[feature], gpu->traits->label, gpu->library.path,
                   gpu->missing[feature]);
}

/* --- opening ----------------------------------------------------------------------------------- */

/* An older library has functions of the same names over records of another layout. */
static void check_vmm_version(struct gpu_device *gpu)
{
    int version = 0;
    if (gpu->traits->vmm_since == 0 || gpu->missing[GPU_FEATURE_VMM] != NULL) {
        return;
    }
    if (gpu->api.version == NULL || gpu->api.version(&version) != 0 ||
        version < gpu->traits->vmm_since) {
        gpu->missing[GPU_FEATURE_VMM] = "virtual memory in its final form (it is too old)";
    }
}

static enum status load(struct gpu_device *gpu, struct arena *a,
                        const struct device_options *options, int *ret_count, struct err *err)
{
    const struct gpu_traits *traits = gpu->traits;
    TRY(library_open(a, options->library, traits->names, &gpu->library, err));
    library_bind(&gpu->library, traits->symbols, traits->symbol_count, &gpu->api, gpu->missing);
    TRY(gpu_need(gpu, GPU_FEATURE_MEMORY, err));
    check_vmm_version(gpu);
    TRY(gpu_check(gpu, gpu->api.init(0), err, "starting %s (%s)", traits->label,
                  gpu->library.path));
    int count = 0;
    TRY(gpu_check(gpu, gpu->api.count(&count), err, "counting the devices of %s", traits->label));
    if (count < 0) {
        return err_set(err, ST_FORMAT, "%s counts %d devices", traits->label, count);
    }
    *ret_count = count;
    return ST_OK;
}

static void version_text(const struct gpu_device *gpu, char *to, size_t size)
{
    int version = 0;
    to[0] = '\0';
    if (gpu->api.version != NULL && gpu->api.version(&version) == 0) {
        gpu->traits->version_text(version, to, size);
    }
}

/* The rows of `--why` for one interface. */
static void add_rows(const struct gpu_device *gpu, struct arena *a, int count,
                     struct device_feature_list *rows)
{
    const struct gpu_traits *traits = gpu->traits;
    for (size_t f = 0; f < GPU_FEATURE_COUNT; f++) {
        struct device_feature *row = VEC_PUSH(a, rows);
        str_print(row->backend, sizeof row->backend, "%s", traits->backend->name);
        str_print(row->feature, sizeof row->feature, "%s", traits->feature_names[f]);
        str_print(row->library, sizeof row->library, "%s", gpu->library.path);
        version_text(gpu, row->version, sizeof row->version);
        if (gpu->missing[f] != NULL) {
            row->state = FEATURE_MISSING;
            str_print(row->reason, sizeof row->reason, "the library has no %s", gpu->missing[f]);
        } else {
            str_print(row->reason, sizeof row->reason, "all symbols are there; %d device%s", count,
                      count == 1 ? "" : "s");
        }
    }
}

enum status gpu_probe(const struct gpu_traits *traits, struct arena *a,
                      const struct device_options *options, struct device_feature_list *rows,
                      int *ret_count, struct err *err)
{
    struct gpu_device gpu = {.traits = traits};
    struct err own = {0};
    int count = 0;
    enum status st = load(&gpu, a, options, &count, &own);
    if (st != ST_OK) {
        struct device_feature *row = VEC_PUSH(a, rows);
        str_print(row->backend, sizeof row->backend, "%s", traits->backend->name);
        str_print(row->feature, sizeof row->feature, "%s",
                  traits->feature_names[GPU_FEATURE_MEMORY]);
        str_print(row->library, sizeof row->library, "%s",
                  gpu.library.path != NULL ? gpu.library.path : "");
        str_print(row->reason, sizeof row->reason, "%s", own.text);
        row->state = gpu.library.path == NULL ? FEATURE_MISSING : FEATURE_BROKEN;
        return err_set(err, st, "%s", own.text);
    }
    add_rows(&gpu, a, count, rows);
    *ret_count = count;
    return ST_OK;
}

static int attribute(const struct gpu_device *gpu, int which)
{
    int value = 0;
    if (gpu->api.attribute == NULL || gpu->api.attribute(&value, which, gpu->ordinal) != 0) {
        return 0;
    }
    return value > 0 ? value : 0;
}

static void describe(struct gpu_device *gpu, int index)
{
    struct device_info *info = &gpu->base.info;
    const struct gpu_traits *traits = gpu->traits;

    enum {
        KHZ_PER_MHZ = 1000
    };

    info->kind = traits->backend->kind;
    info->index = index;
    size_t bytes = 0;
    if (gpu->missing[GPU_FEATURE_INFO] == NULL) {
        gpu->api.device_name(info->name, (int)sizeof info->name, gpu->ordinal);
        info->name[sizeof info->name - 1] = '\0';
        gpu->api.device_memory(&bytes, gpu->ordinal);
        info->compute_units = attribute(gpu, traits->attributes.compute_units);
        info->clock_mhz = attribute(gpu, traits->attributes.clock_khz) / KHZ_PER_MHZ;
        info->memory_clock_mhz = attribute(gpu, traits->attributes.memory_clock_khz) / KHZ_PER_MHZ;
        info->memory_bus_bits = attribute(gpu, traits->attributes.memory_bus_bits);
    } else {
        str_print(info->name, sizeof info->name, "%s device %d", traits->label, index);
    }
    info->memory_bytes = bytes;
    traits->arch(gpu, info->arch, sizeof info->arch);
    version_text(gpu, info->driver, sizeof info->driver);
}

static enum status set_current(struct gpu_device *gpu, struct err *err)
{
    const struct gpu_api *api = &gpu->api;
    if (api->set_device != NULL) {
        return gpu_check(gpu, api->set_device(gpu->ordinal), err, "choosing device %d",
                         gpu->ordinal);
    }
    TRY(gpu_check(gpu, api->context_retain(&gpu->context, gpu->ordinal), err,
                  "opening the context of device %d", gpu->ordinal));
    return gpu_check(gpu, api->context_set(gpu->context), err, "choosing device %d", gpu->ordinal);
}

/* What the interface calls the smallest mapping; 2 MiB where it does not say. */
static void find_granule(struct gpu_device *gpu)
{
    const size_t usual = (size_t)2 << 20;
    const struct gpu_allocation what = {.type = 1, .location = {.type = 1, .id = gpu->ordinal}};
    size_t granule = 0;
    gpu->granule = usual;
    if (gpu->missing[GPU_FEATURE_VMM] == NULL &&
        gpu->api.granularity(&granule, &what, gpu->traits->granularity_option) == 0 &&
        granule > 0 && granule <= (size_t)1 << 30 && (granule & (granule - 1)) == 0) {
        gpu->granule = granule;
    }
    gpu->base.info.granule_bytes = gpu->granule;
}

enum status gpu_open(const struct gpu_traits *traits, struct arena *a,
                     const struct device_options *options, int index, struct device **ret_device,
                     struct err *err)
{
    struct gpu_device *gpu = arena_alloc(a, sizeof *gpu);
    gpu->traits = traits;
    gpu->base.backend = traits->backend;
    gpu->base.arena = a;
    int count = 0;
    TRY(load(gpu, a, options, &count, err));
    if (index < 0 || index >= count) {
        return err_set(err, ST_ABSENT, "%s has %d device%s, and no %s:%d", traits->label, count,
                       count == 1 ? "" : "s", traits->backend->name, index);
    }
    gpu->ordinal = index;
    TRY(gpu_check(gpu, gpu->api.device_get(&gpu->ordinal, index), err, "asking for device %d",
                  index));
    TRY(set_current(gpu, err));
    describe(gpu, index);
    find_granule(gpu);
    *ret_device = &gpu->base;
    return ST_OK;
}

void gpu_close(struct device *device)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    if (gpu->context != NULL && gpu->api.context_release != NULL) {
        gpu->api.context_release(gpu->ordinal);
    }
}

/* --- memory ------------------------------------------------------------------------------------ */

static uint64_t address_of(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

enum status gpu_alloc(struct device *device, size_t bytes, void **ret_address, struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    uint64_t address = 0;
    TRY(gpu_check(gpu, gpu->api.alloc(&address, bytes == 0 ? 1 : bytes), err,
                  "allocating %zu bytes", bytes));
    *ret_address = (void *)(uintptr_t)address;
    return ST_OK;
}

void gpu_free(struct device *device, void *address)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    gpu->api.free(address_of(address));
}

enum status gpu_write(struct device *device, void *to, const void *from_host, size_t bytes,
                      struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    return gpu_check(gpu, gpu->api.to_device(address_of(to), from_host, bytes), err,
                     "copying %zu bytes to the device", bytes);
}

enum status gpu_read(struct device *device, void *to_host, const void *from, size_t bytes,
                     struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    return gpu_check(gpu, gpu->api.to_host(to_host, address_of(from), bytes), err,
                     "copying %zu bytes from the device", bytes);
}

enum status gpu_copy(struct device *device, void *to, const void *from, size_t bytes,
                     struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    return gpu_check(gpu, gpu->api.on_device(address_of(to), address_of(from), bytes), err,
                     "copying %zu bytes on the device", bytes);
}

/* fill32 wants an address that is a multiple of 4; the ends are written from the host. */
enum status gpu_fill(struct device *device, void *to, uint32_t pattern, size_t bytes,
                     struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;

    enum {
        WORD = sizeof pattern
    };

    uint8_t cycle[2 * WORD];
    memcpy(cycle, &pattern, WORD);
    memcpy(cycle + WORD, &pattern, WORD);
    size_t head = (WORD - address_of(to) % WORD) % WORD;
    head = head < bytes ? head : bytes;
    size_t words = (bytes - head) / WORD;
    size_t tail = bytes - head - words * WORD;
    uint32_t turned; /* the pattern as it stands behind the head */
    memcpy(&turned, cycle + head, WORD);
    char *p = to;
    if (head > 0) {
        TRY(gpu_write(device, p, cycle, head, err));
    }
    if (words > 0) {
        TRY(gpu_check(gpu, gpu->api.fill32(address_of(p + head), turned, words), err,
                      "filling %zu bytes", bytes));
    }
    return tail > 0 ? gpu_write(device, p + head + words * WORD, cycle + head, tail, err) : ST_OK;
}

enum status gpu_sync(struct device *device, struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    return gpu_check(gpu, gpu->api.sync(), err, "waiting for the device");
}

/* --- copies that do not wait ------------------------------------------------------------------- */

/* Without the calls for it, plain memory and copies that wait: slower, and as right. */
static bool has_queue(const struct gpu_device *gpu)
{
    return gpu->missing[GPU_FEATURE_QUEUE] == NULL;
}

enum status gpu_host_alloc(struct device *device, size_t bytes, void **ret_host, struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    void *host = NULL;
    if (!has_queue(gpu)) {
        *ret_host = arena_alloc(device->arena, bytes);
        return ST_OK;
    }
    TRY(gpu_check(gpu, gpu->api.host_alloc(&host, bytes, 0), err,
                  "allocating %zu bytes of host memory", bytes));
    *ret_host = host;
    return ST_OK;
}

void gpu_host_free(struct device *device, void *host)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    if (has_queue(gpu)) {
        gpu->api.host_free(host);
    }
}

enum status gpu_queue_write(struct device *device, void *to, const void *from_host, size_t bytes,
                            struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    if (!has_queue(gpu)) {
        return gpu_write(device, to, from_host, bytes, err);
    }
    return gpu_check(gpu, gpu->api.queue_to_device(address_of(to), from_host, bytes, NULL), err,
                     "queueing a copy of %zu bytes to the device", bytes);
}

enum status gpu_queue_read(struct device *device, void *to_host, const void *from, size_t bytes,
                           struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    if (!has_queue(gpu)) {
        return gpu_read(device, to_host, from, bytes, err);
    }
    return gpu_check(gpu, gpu->api.queue_to_host(to_host, address_of(from), bytes, NULL), err,
                     "queueing a copy of %zu bytes from the device", bytes);
}

/* --- kernels ----------------------------------------------------------------------------------- */

static enum status find_kernel(struct gpu_device *gpu, const struct kernel_text *text,
                               void **ret_function, struct err *err)
{
    for (size_t i = 0; i < gpu->kernel_count; i++) {
        if (gpu->kernels[i].text == text) {
            *ret_function = gpu->kernels[i].function;
            return ST_OK;
        }
    }
    TRY(gpu_need(gpu, GPU_FEATURE_KERNELS, err));
    const void *image;
    TRY(gpu->traits->image(gpu, text, &image, err));
    void *module = NULL;
    void *function = NULL;
    TRY(gpu_check(gpu, gpu->api.module_load(&module, image), err, "loading the kernel %s",
                  text->name));
    TRY(gpu_check(gpu, gpu->api.module_function(&function, module, text->name), err,
                  "finding the kernel %s in its module", text->name));
    if (gpu->kernel_count < GPU_KERNELS_MAX) {
        gpu->kernels[gpu->kernel_count].text = text;
        gpu->kernels[gpu->kernel_count++].function = function;
    }
    *ret_function = function;
    return ST_OK;
}

enum status gpu_launch(struct device *device, const struct kernel_text *text,
                       const struct kernel_launch *launch, struct err *err)
{
    struct gpu_device *gpu = (struct gpu_device *)device;
    void *function;
    TRY(find_kernel(gpu, text, &function, err));
    if (launch->groups > INT32_MAX || launch->group_size > 1024) {
        return err_set(err, ST_USAGE, "kernel %s: %zu groups of %zu are too many", text->name,
                       launch->groups, launch->group_size);
    }
    union kernel_argument values[KERNEL_ARGUMENTS_MAX];
    void *parameters[KERNEL_ARGUMENTS_MAX];
    for (size_t i = 0; i < launch->argument_count; i++) {
        values[i] = launch->arguments[i];
        parameters[i] = &values[i];
    }
    return gpu_check(gpu,
                     gpu->api.launch(function, (unsigned)launch->groups, 1, 1,
                                     (unsigned)launch->group_size, 1, 1, 0, NULL, parameters, NULL),
                     err, "launching the kernel %s", text->name);
}
