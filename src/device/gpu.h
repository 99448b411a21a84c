// SPDX-License-Identifier: Apache-2.0
/*
 * The one logic over the driver interfaces of CUDA and HIP. The two differ in names, numbers and a
 * few signatures; those are the data of struct gpu_traits in cuda.c and hip.c.
 *
 * Source: cuda.h 12.9; hip_runtime_api.h 5.2 (Debian) and 6.3 (ROCm/HIP). Handles are pointers,
 * device addresses 64-bit integers in both.
 */
#ifndef ASSAY_DEVICE_GPU_H
#define ASSAY_DEVICE_GPU_H

#include "device/device.h"
#include "device/library.h"

enum gpu_feature {
    GPU_FEATURE_MEMORY = 0, /* without it there is no device */
    GPU_FEATURE_INFO,
    GPU_FEATURE_KERNELS,
    GPU_FEATURE_VMM,
    GPU_FEATURE_HOST,
    GPU_FEATURE_QUEUE,
    GPU_FEATURE_COUNT
};

/* hipDeviceAttribute_t; checked against the header where it is installed. */
enum {
    HIP_ATTRIBUTE_CLOCK_KHZ = 5,
    HIP_ATTRIBUTE_MEMORY_BUS_BITS = 59,
    HIP_ATTRIBUTE_MEMORY_CLOCK_KHZ = 60,
    HIP_ATTRIBUTE_COMPUTE_UNITS = 63
};

/* struct CUmemLocation, hipMemLocation. */
struct gpu_location {
    int32_t type; /* 1: device */
    int32_t id;
};

/* CUmemAllocationProp, hipMemAllocationProp. HIP 5 had another order of members: see vmm_since. */
struct gpu_allocation {
    int32_t type; /* 1: pinned */
    int32_t handle_types;
    struct gpu_location location;
    void *win32;
    unsigned char flags[8];
};

/* CUmemAccessDesc, hipMemAccessDesc. */
struct gpu_access {
    struct gpu_location location;
    int32_t flags; /* 3: read and write */
};

/* Every function returns the interface's error number. */
struct gpu_api {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int size, int device);
    int (*device_memory)(size_t *bytes, int device);
    int (*attribute)(int *value, int which, int device);
    int (*context_retain)(void **context, int device); /* CUDA only */
    int (*context_set)(void *context);                 /* CUDA only */
    int (*context_release)(int device);                /* CUDA only */
    int (*set_device)(int device);                     /* HIP only */
    int (*error_text)(int error, const char **text);   /* CUDA */
    int (*error_name)(int error, const char **name);   /* CUDA */
    const char *(*error_text_of)(int error);           /* HIP */
    const char *(*error_name_of)(int error);           /* HIP */
    int (*alloc)(uint64_t *address, size_t bytes);
    int (*free)(uint64_t address);
    int (*to_device)(uint64_t to, const void *from, size_t bytes);
    int (*to_host)(void *to, uint64_t from, size_t bytes);
    int (*on_device)(uint64_t to, uint64_t from, size_t bytes);
    int (*fill32)(uint64_t to, unsigned pattern, size_t count);
    int (*sync)(void);
    int (*module_load)(void **module, const void *image);
    int (*module_function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared_bytes, void *stream, void **parameters,
                  void **extra);
    int (*granularity)(size_t *bytes, const struct gpu_allocation *what, int option);
    int (*reserve)(uint64_t *address, size_t bytes, size_t alignment, uint64_t wish,
                   unsigned long long flags);
    int (*release_range)(uint64_t address, size_t bytes);
    int (*create)(uint64_t *handle, size_t bytes, const struct gpu_allocation *what,
                  unsigned long long flags);
    int (*release)(uint64_t handle);
    int (*map)(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
               unsigned long long flags);
    int (*unmap)(uint64_t address, size_t bytes);
    int (*set_access)(uint64_t address, size_t bytes, const struct gpu_access *what, size_t count);
    int (*host_register)(void *host, size_t bytes, unsigned flags);
    int (*host_unregister)(void *host);
    int (*host_address)(uint64_t *address, void *host, unsigned flags);
    int (*host_alloc)(void **host, size_t bytes, unsigned flags);
    int (*host_free)(void *host);
    int (*queue_to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*queue_to_host)(void *to, uint64_t from, size_t bytes, void *stream);
};

struct gpu_error {
    int number;
    enum device_event event;
};

/* Ways to guarded memory, in the order they are tried; device.map_path is an index + 1. */
enum gpu_map_path {
    GPU_MAP_VMM = 0,
    GPU_MAP_HOST,
    GPU_MAP_PLAIN,
    GPU_MAP_COUNT
};

#define GPU_MAP_PATH_NAMES "virtual memory", "registered host memory", "plain memory with canaries"

/* The rows of a back end's table that both share. */
#define GPU_BACKEND_CALLS                                                                        \
 .close = gpu_close, .alloc = gpu_alloc, .free = gpu_free, .write = gpu_write, .read = gpu_read, \
 .fill = gpu_fill, .copy = gpu_copy, .sync = gpu_sync, .launch = gpu_launch, .map = gpu_map,     \
 .unmap = gpu_unmap, .host_alloc = gpu_host_alloc, .host_free = gpu_host_free,                   \
 .queue_write = gpu_queue_write, .queue_read = gpu_queue_read

struct gpu_device;

struct gpu_traits {
    const struct device_backend *backend;
    const char *label; /* "CUDA" */
    const char *const *names;
    const struct library_symbol *symbols;
    size_t symbol_count;
    const char *const *feature_names;
    const struct gpu_error *errors; /* ends with number 0 */

    struct {
        int compute_units, clock_khz, memory_clock_khz, memory_bus_bits;
    } attributes;

    int vmm_since;          /* version() from which the records above are right; 0: always */
    int granularity_option; /* 0: the advertised minimum; 1: the recommended size */
    unsigned settle_ms;     /* sleep after a fresh mapping, before it is believed */
    unsigned range_maps;    /* mappings of the system that one guarded range costs */
    unsigned verify_tries;  /* write-verify after a mapping; 0: not needed */
    void (*version_text)(int version, char *to, size_t size);
    void (*arch)(struct gpu_device *gpu, char *to, size_t size);
    /* A kernel's image for module_load, on the device's arena. */
    enum status (*image)(struct gpu_device *gpu, const struct kernel_text *text,
                         const void **ret_image, struct err *err);
};

enum {
    GPU_KERNELS_MAX = 64
};

struct gpu_device {
    struct device base;
    const struct gpu_traits *traits;
    struct gpu_api api;
    struct library library;
    const char *missing[LIBRARY_FEATURES_MAX];
    int ordinal; /* the interface's device number */
    void *context;
    size_t granule;
    bool path_failed[GPU_MAP_COUNT];
    char path_reason[GPU_MAP_COUNT][200]; /* why a path is not used */

    struct {
        const struct kernel_text *text;
        void *function;
    } kernels[GPU_KERNELS_MAX];

    size_t kernel_count;
};

enum status gpu_probe(const struct gpu_traits *traits, struct arena *a,
                      const struct device_options *options, struct device_feature_list *rows,
                      int *ret_count, struct err *err);
enum status gpu_open(const struct gpu_traits *traits, struct arena *a,
                     const struct device_options *options, int index, struct device **ret_device,
                     struct err *err);
void gpu_close(struct device *device);
enum status gpu_alloc(struct device *device, size_t bytes, void **ret_address, struct err *err);
void gpu_free(struct device *device, void *address);
enum status gpu_write(struct device *device, void *to, const void *from_host, size_t bytes,
                      struct err *err);
enum status gpu_read(struct device *device, void *to_host, const void *from, size_t bytes,
                     struct err *err);
enum status gpu_fill(struct device *device, void *to, uint32_t pattern, size_t bytes,
                     struct err *err);
enum status gpu_copy(struct device *device, void *to, const void *from, size_t bytes,
                     struct err *err);
enum status gpu_sync(struct device *device, struct err *err);
enum status gpu_host_alloc(struct device *device, size_t bytes, void **ret_host, struct err *err);
void gpu_host_free(struct device *device, void *host);
enum status gpu_queue_write(struct device *device, void *to, const void *from_host, size_t bytes,
                            struct err *err);
enum status gpu_queue_read(struct device *device, void *to_host, const void *from, size_t bytes,
                           struct err *err);
enum status gpu_launch(struct device *device, const struct kernel_text *text,
                       const struct kernel_launch *launch, struct err *err);
enum status gpu_map(struct device *device, size_t bytes, struct device_mapping *ret_mapping,
                    struct err *err);
void gpu_unmap(struct device *device, struct device_mapping *mapping);

/* ST_OK for 0; else a sentence "<what> failed: <name> (<number>: <text>)" and the device's event. */
enum status gpu_check(struct gpu_device *gpu, int code, struct err *err, const char *what, ...)
    PRINTF_LIKE(4, 5);

/* ST_UNSUPPORTED with the missing symbol when a feature is off. */
enum status gpu_need(const struct gpu_device *gpu, enum gpu_feature feature, struct err *err);

#endif
