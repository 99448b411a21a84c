// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA as data: the driver library's symbols, numbers and words. The logic is gpu.c.
 * Source: cuda.h 12.9. Where a symbol has a version suffix, it is the one that header selects.
 */
#include <stddef.h>

#include "base/str.h"

#include "device/gpu.h"

static const char *const names[] = {"libcuda.so.1", "libcuda.so",
                                    "/usr/local/nvidia/lib64/libcuda.so.1",
                                    "/usr/lib/wsl/lib/libcuda.so.1", NULL};

static const char *const feature_names[GPU_FEATURE_COUNT] = {
    "memory",       "device information",     "kernels",
    "guard memory", "registered host memory", "copies in the background",
};

#define ROW(name, slot, feature)                              \
 {                                                            \
  name, offsetof(struct gpu_api, slot), GPU_FEATURE_##feature \
 }
static const struct library_symbol symbols[] = {
    ROW("cuInit", init, MEMORY),
    ROW("cuDeviceGetCount", count, MEMORY),
    ROW("cuDeviceGet", device_get, MEMORY),
    ROW("cuDevicePrimaryCtxRetain", context_retain, MEMORY),
    ROW("cuDevicePrimaryCtxRelease_v2", context_release, MEMORY),
    ROW("cuCtxSetCurrent", context_set, MEMORY),
    ROW("cuCtxSynchronize", sync, MEMORY),
    ROW("cuMemAlloc_v2", alloc, MEMORY),
    ROW("cuMemFree_v2", free, MEMORY),
    ROW("cuMemcpyHtoD_v2", to_device, MEMORY),
    ROW("cuMemcpyDtoH_v2", to_host, MEMORY),
    ROW("cuMemcpyDtoD_v2", on_device, MEMORY),
    ROW("cuMemsetD32_v2", fill32, MEMORY),
    ROW("cuDriverGetVersion", version, INFO),
    ROW("cuDeviceGetName", device_name, INFO),
    ROW("cuDeviceTotalMem_v2", device_memory, INFO),
    ROW("cuDeviceGetAttribute", attribute, INFO),
    ROW("cuGetErrorName", error_name, INFO),
    ROW("cuGetErrorString", error_text, INFO),
    ROW("cuModuleLoadData", module_load, KERNELS),
    ROW("cuModuleGetFunction", module_function, KERNELS),
    ROW("cuLaunchKernel", launch, KERNELS),
    ROW("cuMemGetAllocationGranularity", granularity, VMM),
    ROW("cuMemAddressReserve", reserve, VMM),
    ROW("cuMemAddressFree", release_range, VMM),
    ROW("cuMemCreate", create, VMM),
    ROW("cuMemRelease", release, VMM),
    ROW("cuMemMap", map, VMM),
    ROW("cuMemUnmap", unmap, VMM),
    ROW("cuMemSetAccess", set_access, VMM),
    ROW("cuMemHostRegister_v2", host_register, HOST),
    ROW("cuMemHostUnregister", host_unregister, HOST),
    ROW("cuMemHostGetDevicePointer_v2", host_address, HOST),
    ROW("cuMemHostAlloc", host_alloc, QUEUE),
    ROW("cuMemFreeHost", host_free, QUEUE),
    ROW("cuMemcpyHtoDAsync_v2", queue_to_device, QUEUE),
    ROW("cuMemcpyDtoHAsync_v2", queue_to_host, QUEUE),
};
#undef ROW

static const struct gpu_error errors[] = {
    {2, DEVICE_EVENT_NO_MEMORY},      /* OUT_OF_MEMORY */
    {209, DEVICE_EVENT_ILLEGAL},      /* NO_BINARY_FOR_GPU */
    {214, DEVICE_EVENT_LOST},         /* ECC_UNCORRECTABLE */
    {220, DEVICE_EVENT_LOST},         /* NVLINK_UNCORRECTABLE */
    {700, DEVICE_EVENT_MEMORY_FAULT}, /* ILLEGAL_ADDRESS */
    {702, DEVICE_EVENT_LOST},         /* LAUNCH_TIMEOUT */
    {709, DEVICE_EVENT_LOST},         /* CONTEXT_IS_DESTROYED */
    {710, DEVICE_EVENT_LOST},         /* ASSERT */
    {714, DEVICE_EVENT_LOST},         /* HARDWARE_STACK_ERROR */
    {715, DEVICE_EVENT_ILLEGAL},      /* ILLEGAL_INSTRUCTION */
    {716, DEVICE_EVENT_LOST},         /* MISALIGNED_ADDRESS */
    {717, DEVICE_EVENT_MEMORY_FAULT}, /* INVALID_ADDRESS_SPACE */
    {718, DEVICE_EVENT_LOST},         /* INVALID_PC */
    {719, DEVICE_EVENT_LOST},         /* LAUNCH_FAILED */
    {999, DEVICE_EVENT_LOST},         /* UNKNOWN */
    {0, DEVICE_EVENT_NONE},
};

static void version_text(int version, char *to, size_t size)
{
    enum {
        MAJOR = 1000,
        MINOR = 10
    };

    str_print(to, size, "%d.%d", version / MAJOR, version % MAJOR / MINOR);
}

static void arch(struct gpu_device *gpu, char *to, size_t size)
{
    enum {
        COMPUTE_CAPABILITY_MAJOR = 75,
        COMPUTE_CAPABILITY_MINOR = 76
    };

    int major = 0;
    int minor = 0;
    if (gpu->api.attribute == NULL ||
        gpu->api.attribute(&major, COMPUTE_CAPABILITY_MAJOR, gpu->ordinal) != 0 ||
        gpu->api.attribute(&minor, COMPUTE_CAPABILITY_MINOR, gpu->ordinal) != 0) {
        return;
    }
    str_print(to, size, "sm_%d%d", major, minor);
}

/* The driver translates PTX text itself. */
static enum status image(struct gpu_device *gpu, const struct kernel_text *text,
                         const void **ret_image, struct err *err)
{
    (void)gpu;
    if (text->ptx == NULL) {
        return err_set(err, ST_UNSUPPORTED, "kernel %s has no form for CUDA", text->name);
    }
    *ret_image = text->ptx;
    return ST_OK;
}

static const struct gpu_traits traits = {
    .backend = &device_backend_cuda,
    .label = "CUDA",
    .names = names,
    .symbols = symbols,
    .symbol_count = ARRAY_LEN(symbols),
    .feature_names = feature_names,
    .errors = errors,
    .attributes = {.compute_units = 16,
                   .clock_khz = 13,
                   .memory_clock_khz = 36,
                   .memory_bus_bits = 37},
    .version_text = version_text,
    .arch = arch,
    .image = image,
};

static enum status cuda_probe(struct arena *a, const struct device_options *options,
                              struct device_feature_list *rows, int *ret_count, struct err *err)
{
    return gpu_probe(&traits, a, options, rows, ret_count, err);
}

static enum status cuda_open(struct arena *a, const struct device_options *options, int index,
                             struct device **ret_device, struct err *err)
{
    return gpu_open(&traits, a, options, index, ret_device, err);
}

static const char *const map_paths[] = {GPU_MAP_PATH_NAMES, NULL};

const struct device_backend device_backend_cuda = {
    .name = "cuda",
    .kind = DEVICE_CUDA,
    .map_paths = map_paths,
    .probe = cuda_probe,
    .open = cuda_open,
    GPU_BACKEND_CALLS,
};
