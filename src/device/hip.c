// SPDX-License-Identifier: Apache-2.0
/*
 * HIP as data: the run-time library's symbols, numbers and words, and hiprtc, which turns kernel
 * source into code for the device at hand. The logic is gpu.c.
 *
 * Source: hip_runtime_api.h and hiprtc.h of ROCm 5.2 and 6.3. Attribute numbers are those of both;
 * the record of a virtual memory allocation is that of 6, and 5.2 had another.
 */
#include <stddef.h>
#include <string.h>

#include "base/str.h"

#include "device/gpu.h"

static const char *const names[] = {"libamdhip64.so.7",
                                    "libamdhip64.so.6",
                                    "libamdhip64.so.5",
                                    "libamdhip64.so",
                                    "/opt/rocm/lib/libamdhip64.so",
                                    NULL};

static const char *const feature_names[GPU_FEATURE_COUNT] = {
    "memory",       "device information",     "kernels",
    "guard memory", "registered host memory", "copies in the background",
};

#define ROW(name, slot, feature)                              \
 {                                                            \
  name, offsetof(struct gpu_api, slot), GPU_FEATURE_##feature \
 }
static const struct library_symbol symbols[] = {
    ROW("hipInit", init, MEMORY),
    ROW("hipGetDeviceCount", count, MEMORY),
    ROW("hipDeviceGet", device_get, MEMORY),
    ROW("hipSetDevice", set_device, MEMORY),
    ROW("hipDeviceSynchronize", sync, MEMORY),
    ROW("hipMalloc", alloc, MEMORY),
    ROW("hipFree", free, MEMORY),
    ROW("hipMemcpyHtoD", to_device, MEMORY),
    ROW("hipMemcpyDtoH", to_host, MEMORY),
    ROW("hipMemcpyDtoD", on_device, MEMORY),
    ROW("hipMemsetD32", fill32, MEMORY),
    ROW("hipRuntimeGetVersion", version, INFO),
    ROW("hipDeviceGetName", device_name, INFO),
    ROW("hipDeviceTotalMem", device_memory, INFO),
    ROW("hipDeviceGetAttribute", attribute, INFO),
    ROW("hipGetErrorName", error_name_of, INFO),
    ROW("hipGetErrorString", error_text_of, INFO),
    ROW("hipModuleLoadData", module_load, KERNELS),
    ROW("hipModuleGetFunction", module_function, KERNELS),
    ROW("hipModuleLaunchKernel", launch, KERNELS),
    ROW("hipMemGetAllocationGranularity", granularity, VMM),
    ROW("hipMemAddressReserve", reserve, VMM),
    ROW("hipMemAddressFree", release_range, VMM),
    ROW("hipMemCreate", create, VMM),
    ROW("hipMemRelease", release, VMM),
    ROW("hipMemMap", map, VMM),
    ROW("hipMemUnmap", unmap, VMM),
    ROW("hipMemSetAccess", set_access, VMM),
    ROW("hipHostRegister", host_register, HOST),
    ROW("hipHostUnregister", host_unregister, HOST),
    ROW("hipHostGetDevicePointer", host_address, HOST),
    ROW("hipHostMalloc", host_alloc, QUEUE),
    ROW("hipHostFree", host_free, QUEUE),
    ROW("hipMemcpyHtoDAsync", queue_to_device, QUEUE),
    ROW("hipMemcpyDtoHAsync", queue_to_host, QUEUE),
};
#undef ROW

static const struct gpu_error errors[] = {
    {2, DEVICE_EVENT_NO_MEMORY},      /* hipErrorOutOfMemory */
    {98, DEVICE_EVENT_ILLEGAL},       /* hipErrorInvalidDeviceFunction */
    {209, DEVICE_EVENT_ILLEGAL},      /* hipErrorNoBinaryForGpu */
    {214, DEVICE_EVENT_LOST},         /* hipErrorECCNotCorrectable */
    {700, DEVICE_EVENT_MEMORY_FAULT}, /* hipErrorIllegalAddress */
    {702, DEVICE_EVENT_LOST},         /* hipErrorLaunchTimeOut */
    {709, DEVICE_EVENT_LOST},         /* hipErrorContextIsDestroyed */
    {710, DEVICE_EVENT_LOST},         /* hipErrorAssert */
    {719, DEVICE_EVENT_LOST},         /* hipErrorLaunchFailure */
    {999, DEVICE_EVENT_LOST},         /* hipErrorUnknown */
    {0, DEVICE_EVENT_NONE},
};

/* 50221153 is 5.2.21153; 70253211 is 7.2.53211. */
static void version_text(int version, char *to, size_t size)
{
    enum {
        MAJOR = 10000000,
        MINOR = 100000
    };

    str_print(to, size, "%d.%d.%d", version / MAJOR, version % MAJOR / MINOR, version % MINOR);
}

/* --- the name of the instruction set ----------------------------------------------------------- */

/* The properties record has changed its layout between versions under two symbol names, so it is
 * not read as a struct: the name is the one text in it that begins with "gfx". */
enum {
    PROPERTIES_BYTES = 16384
};

static void arch(struct gpu_device *gpu, char *to, size_t size)
{
    struct {
        int (*properties)(void *properties, int device);
    } api = {0};

    static const char *const versions[] = {"hipGetDevicePropertiesR0600", "hipGetDeviceProperties"};
    unsigned char *record = arena_alloc(gpu->base.arena, PROPERTIES_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(versions) && api.properties == NULL; i++) {
        const struct library_symbol row = {versions[i], 0, 0};
        const char *missing[LIBRARY_FEATURES_MAX] = {0};
        library_bind(&gpu->library, &row, 1, &api, missing);
    }
    if (api.properties == NULL || api.properties(record, gpu->ordinal) != 0) {
        return;
    }
    for (size_t i = 0; i + 4 < PROPERTIES_BYTES; i++) {
        if (memcmp(record + i, "gfx", 3) == 0) {
            size_t n = 0;
            while (i + n < PROPERTIES_BYTES && n + 1 < size && record[i + n] > ' ' &&
                   record[i + n] < 0x7f) {
                to[n] = (char)record[i + n];
                n++;
            }
            to[n] = '\0';
            return;
        }
    }
}

/* --- hiprtc ------------------------------------------------------------------------------------ */

struct hiprtc_api {
    int (*create)(void **program, const char *source, const char *name, int header_count,
                  const char **headers, const char **include_names);
    int (*compile)(void *program, int option_count, const char **options);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *to);
    int (*code_size)(void *program, size_t *bytes);
    int (*code)(void *program, char *to);
    int (*destroy)(void **program);
};

#define ROW(name, slot)                      \
 {                                           \
  name, offsetof(struct hiprtc_api, slot), 0 \
 }
static const struct library_symbol hiprtc_symbols[] = {
    ROW("hiprtcCreateProgram", create),       ROW("hiprtcCompileProgram", compile),
    ROW("hiprtcGetProgramLogSize", log_size), ROW("hiprtcGetProgramLog", log),
    ROW("hiprtcGetCodeSize", code_size),      ROW("hiprtcGetCode", code),
    ROW("hiprtcDestroyProgram", destroy),
};
#undef ROW

static const char *const hiprtc_names[] = {"libhiprtc.so.7",
                                           "libhiprtc.so.6",
                                           "libhiprtc.so.5",
                                           "libhiprtc.so",
                                           "/opt/rocm/lib/libhiprtc.so",
                                           NULL};

/* Up to ROCm 6 the run-time library has these functions too. */
static enum status open_hiprtc(struct gpu_device *gpu, struct hiprtc_api *ret_api, struct err *err)
{
    struct library library = {0};
    const char *missing[LIBRARY_FEATURES_MAX] = {0};
    struct hiprtc_api api = {0};
    enum status st = library_open(gpu->base.arena, NULL, hiprtc_names, &library, err);
    if (st != ST_OK) {
        library = gpu->library;
    }
    library_bind(&library, hiprtc_symbols, ARRAY_LEN(hiprtc_symbols), &api, missing);
    if (missing[0] != NULL) {
        return st != ST_OK
                   ? err_context(err, "kernels cannot be compiled")
                   : err_set(err, ST_UNSUPPORTED, "kernels cannot be compiled: %s has no %s",
                             library.path, missing[0]);
    }
    *ret_api = api;
    return ST_OK;
}

enum {
    CODE_BYTES_MAX = 64 << 20,
    LOG_BYTES_MAX = 1 << 20
};

static enum status read_code(struct gpu_device *gpu, const struct hiprtc_api *api, void *program,
                             const char *name, const void **ret_code, struct err *err)
{
    size_t bytes = 0;
    if (api->code_size(program, &bytes) != 0 || bytes == 0 || bytes > CODE_BYTES_MAX) {
        return err_set(err, ST_FORMAT, "hiprtc gives %zu bytes of code for the kernel %s", bytes,
                       name);
    }
    char *code = arena_alloc(gpu->base.arena, bytes);
    if (api->code(program, code) != 0) {
        return err_set(err, ST_IO, "hiprtc does not hand out the code of the kernel %s", name);
    }
    *ret_code = code;
    return ST_OK;
}

static enum status image(struct gpu_device *gpu, const struct kernel_text *text,
                         const void **ret_image, struct err *err)
{
    struct arena *a = gpu->base.arena;
    struct hiprtc_api api = {0};
    if (text->hip == NULL) {
        return err_set(err, ST_UNSUPPORTED, "kernel %s has no form for HIP", text->name);
    }
    TRY(open_hiprtc(gpu, &api, err));
    void *program = NULL;
    int code = api.create(&program, text->hip, "assay.hip", 0, NULL, NULL);
    if (code != 0) {
        return err_set(err, ST_IO, "hiprtcCreateProgram failed with %d", code);
    }
    const char *options[1];
    int option_count = 0;
    if (gpu->base.info.arch[0] != '\0') {
        options[option_count++] = arena_fmt(a, "--offload-arch=%s", gpu->base.info.arch);
    }
    code = api.compile(program, option_count, options);
    enum status st;
    if (code != 0) {
        size_t bytes = 0;
        char *log = arena_alloc(a, LOG_BYTES_MAX);
        if (api.log_size(program, &bytes) == 0 && bytes > 0 && bytes < LOG_BYTES_MAX) {
            api.log(program, log);
        }
        st = err_set(err, ST_IO, "hiprtc does not compile the kernel %s for %s (%d): %s",
                     text->name, gpu->base.info.arch, code, log);
    } else {
        st = read_code(gpu, &api, program, text->name, ret_image, err);
    }
    api.destroy(&program);
    return st;
}

/* The recommended granule, because the minimum that HIP advertises (4 KiB) is smaller than what some
 * cards map. 5 ms: on some cards stores are lost for about 2 ms after a mapping is made. */
static const struct gpu_traits traits = {
    .backend = &device_backend_hip,
    .label = "HIP",
    .names = names,
    .symbols = symbols,
    .symbol_count = ARRAY_LEN(symbols),
    .feature_names = feature_names,
    .errors = errors,
    .attributes = {.compute_units = HIP_ATTRIBUTE_COMPUTE_UNITS,
                   .clock_khz = HIP_ATTRIBUTE_CLOCK_KHZ,
                   .memory_clock_khz = HIP_ATTRIBUTE_MEMORY_CLOCK_KHZ,
                   .memory_bus_bits = HIP_ATTRIBUTE_MEMORY_BUS_BITS},
    .vmm_since = 60000000,
    .granularity_option = 1,
    .settle_ms = 5,
    .range_maps = 3,
    .verify_tries = 8,
    .version_text = version_text,
    .arch = arch,
    .image = image,
};

static enum status hip_probe(struct arena *a, const struct device_options *options,
                             struct device_feature_list *rows, int *ret_count, struct err *err)
{
    return gpu_probe(&traits, a, options, rows, ret_count, err);
}

static enum status hip_open(struct arena *a, const struct device_options *options, int index,
                            struct device **ret_device, struct err *err)
{
    return gpu_open(&traits, a, options, index, ret_device, err);
}

static const char *const map_paths[] = {GPU_MAP_PATH_NAMES, NULL};

const struct device_backend device_backend_hip = {
    .name = "hip",
    .kind = DEVICE_HIP,
    .map_paths = map_paths,
    .probe = hip_probe,
    .open = hip_open,
    GPU_BACKEND_CALLS,
};
