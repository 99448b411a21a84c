// SPDX-License-Identifier: Apache-2.0
/*
 * One table of functions over every place where a kernel can run: this CPU, CUDA, HIP, OpenCL.
 *
 * GPU libraries are opened with dlopen, never linked: they are the thing under test. A library or
 * symbol that is missing disables the feature it serves and leaves a sentence (device_why()).
 *
 * A process that has opened a GPU cannot be forked and go on using it, so device_list() and
 * device_why() ask in a child; device_open() is for code that runs inside isolate_run().
 */
#ifndef ASSAY_DEVICE_DEVICE_H
#define ASSAY_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum device_kind {
    DEVICE_CPU = 0,
    DEVICE_CUDA,
    DEVICE_HIP,
    DEVICE_OPENCL,
    DEVICE_KIND_COUNT
};

/* What a device says of itself. Fixed size, because it crosses from a child process. */
struct device_info {
    enum device_kind kind;
    int index;       /* within its kind */
    char name[128];  /* "NVIDIA H200" */
    char arch[64];   /* "sm_90", "gfx1201:sramecc-:xnack-", "x86-64", "OpenCL 3.0" */
    char driver[64]; /* "13.0": what the run-time library calls its version; "" when unknown */
    uint64_t memory_bytes;
    size_t granule_bytes; /* the smallest mapping; 0 where the back end cannot map */
    int compute_units;    /* cores, SMs, CUs; 0 when unknown */
    int clock_mhz;        /* highest, 0 when unknown */
    int memory_clock_mhz; /* 0 when unknown */
    int memory_bus_bits;  /* 0 when unknown */
};

struct device_info_list {
    struct device_info *items;
    size_t count;
    size_t capacity;
};

/* One row of `--why`: a feature of a back end or vendor library, and why it is or is not there. */
enum feature_state {
    FEATURE_READY = 0,
    FEATURE_MISSING, /* library or symbol not there: the feature is off */
    FEATURE_BROKEN,  /* there, and does not do what it should (proof failed, error at start) */
    FEATURE_STATE_COUNT
};

struct device_feature {
    char backend[16]; /* "cuda", "hip", "opencl", "cpu", or a vendor: "cublaslt" */
    char feature[32]; /* "memory", "guard memory", "kernels", "kernel source", "matrix products" */
    enum feature_state state;
    char library[256]; /* path it was loaded from; "" when it was not found */
    char version[64];  /* "" when the library does not tell */
    char reason[400];  /* one sentence, also when ready */
};

struct device_feature_list {
    struct device_feature *items;
    size_t count;
    size_t capacity;
};

/* Where the run-time libraries are taken from; NULL: the usual names and places of each kind. */
struct device_options {
    const char *library; /* path of libcuda, libamdhip64 or libOpenCL */
};

/* What a failed call means for the device. From MEMORY_FAULT on, it cannot be used again in this
 * process. */
enum device_event {
    DEVICE_EVENT_NONE = 0,
    DEVICE_EVENT_NO_MEMORY,
    DEVICE_EVENT_OTHER,        /* an error with a text and no class; the device goes on */
    DEVICE_EVENT_MEMORY_FAULT, /* a kernel touched an address that is not mapped */
    DEVICE_EVENT_ILLEGAL,      /* illegal instruction, no code for this device */
    DEVICE_EVENT_LOST,         /* context or device gone, kernel aborted */
    DEVICE_EVENT_COUNT
};

union kernel_argument {
    void *pointer;
    int64_t i64;
    int32_t i32;
    float f32;
};

/* One kernel in the languages of the back ends; NULL where there is none. Build results are kept
 * by the address of this record, which must outlive the device. */
struct kernel_text {
    const char *name;
    const char *ptx;    /* CUDA: PTX text */
    const char *hip;    /* HIP: C++ source for hiprtc */
    const char *opencl; /* OpenCL C source */
    /* CPU: called once for each work item. */
    void (*cpu)(size_t item, const union kernel_argument *arguments);
};

enum kernel_type {
    KERNEL_POINTER = 0,
    KERNEL_I64,
    KERNEL_I32,
    KERNEL_F32
};

struct kernel_launch {
    size_t groups, group_size; /* one dimension: groups * group_size work items */
    size_t argument_count;     /* at most 16 */
    const union kernel_argument *arguments;
    const enum kernel_type *types;
};

enum {
    KERNEL_ARGUMENTS_MAX = 16
};

/* How far a guarded mapping keeps its promise; device.h's back ends say it, guard.h proves it. */
enum guard_strength {
    GUARD_NONE = 0, /* nothing is noticed */
    GUARD_CANARY,   /* plain memory with canaries: over-writes are seen afterwards, reads never */
    GUARD_FAULT,    /* the page next door is not mapped: reads and writes fault */
    GUARD_STRENGTH_COUNT
};

/* Memory with a hole of at least one granule on both sides. */
struct device_mapping {
    void *base; /* first usable byte */
    size_t bytes;
    void *reserved; /* the whole reservation, holes included */
    size_t reserved_bytes;
    uint64_t handle; /* the back end's own */
    enum guard_strength strength;
    unsigned path;     /* index into the back end's map_paths */
    unsigned mappings; /* how many of the system's mappings it costs; 0: none of the limited kind */
};

struct device;

/* What a back end provides. All pointers are set; a function that cannot be served returns
 * ST_UNSUPPORTED with a sentence. Addresses are device addresses; for cpu and opencl (over host
 * memory) they are plain pointers. */
struct device_backend {
    const char *name;
    enum device_kind kind;
    /* Ways to guarded memory, best first, NULL at the end. */
    const char *const *map_paths;
    /* Loads libraries and counts devices; rows say what is there and what is not. */
    enum status (*probe)(struct arena *a, const struct device_options *options,
                         struct device_feature_list *rows, int *ret_count, struct err *err);
    enum status (*open)(struct arena *a, const struct device_options *options, int index,
                        struct device **ret_device, struct err *err);
    void (*close)(struct device *device);
    enum status (*alloc)(struct device *device, size_t bytes, void **ret_address, struct err *err);
    void (*free)(struct device *device, void *address);
    enum status (*write)(struct device *device, void *to, const void *from_host, size_t bytes,
                         struct err *err);
    enum status (*read)(struct device *device, void *to_host, const void *from, size_t bytes,
                        struct err *err);
    /* 32-bit pattern, repeated; a tail of 1 to 3 bytes gets the first bytes of the pattern. */
    enum status (*fill)(struct device *device, void *to, uint32_t pattern, size_t bytes,
                        struct err *err);
    enum status (*copy)(struct device *device, void *to, const void *from, size_t bytes,
                        struct err *err);
    enum status (*sync)(struct device *device, struct err *err);
    /* Host memory for the two below; on a device that has no other it is plain memory of the arena. */
    enum status (*host_alloc)(struct device *device, size_t bytes, void **ret_host,
                              struct err *err);
    void (*host_free)(struct device *device, void *host);
    /* write and read in order with what was launched, which need not be done when they return: the
     * host memory is host_alloc's and is left alone until sync. */
    enum status (*queue_write)(struct device *device, void *to, const void *from_host, size_t bytes,
                               struct err *err);
    enum status (*queue_read)(struct device *device, void *to_host, const void *from, size_t bytes,
                              struct err *err);
    enum status (*launch)(struct device *device, const struct kernel_text *text,
                          const struct kernel_launch *launch, struct err *err);
    enum status (*map)(struct device *device, size_t bytes, struct device_mapping *ret_mapping,
                       struct err *err);
    void (*unmap)(struct device *device, struct device_mapping *mapping);
};

/* Every device begins with this; back ends put their own behind it. */
struct device {
    const struct device_backend *backend;
    struct arena *arena;
    struct device_info info;
    enum device_event event; /* the worst since it was opened */
    unsigned map_path;       /* index + 1 into map_paths: only this way; 0: the first that works */
    bool map_strength_set;   /* test hook: see guard.h */
    enum guard_strength map_strength;
};

extern const struct device_backend device_backend_cpu;
extern const struct device_backend device_backend_cuda;
extern const struct device_backend device_backend_hip;
extern const struct device_backend device_backend_opencl;

/* "cpu", "cuda", "hip", "opencl". */
const char *device_kind_name(enum device_kind kind);
bool device_kind_find(const char *name, enum device_kind *ret_kind);
const char *device_event_name(enum device_event event);
const char *feature_state_name(enum feature_state state);

/* The back ends of this build, DEVICE_CPU first; NULL for a kind that has none. */
const struct device_backend *device_backend_of(enum device_kind kind);

/* Opens device `index` of a kind. It lives in `a`; close it before the arena goes. */
enum status device_open(struct arena *a, enum device_kind kind, int index,
                        const struct device_options *options, struct device **ret_device,
                        struct err *err) MUST_USE;

/* NULL is fine. */
void device_close(struct device *device);

/* Every device of every back end, and one row for every feature of every back end and vendor
 * library. Asked in a child with a deadline; a library that crashes or hangs there becomes a row. */
enum status device_list(struct arena *a, const struct device_options *options,
                        struct device_info_list *ret_devices, struct device_feature_list *ret_why,
                        struct err *err) MUST_USE;

/* The calls of the table, for short. */
enum status device_alloc(struct device *device, size_t bytes, void **ret_address,
                         struct err *err) MUST_USE;
void device_free(struct device *device, void *address);
enum status device_write(struct device *device, void *to, const void *from_host, size_t bytes,
                         struct err *err) MUST_USE;
enum status device_read(struct device *device, void *to_host, const void *from, size_t bytes,
                        struct err *err) MUST_USE;
enum status device_fill(struct device *device, void *to, uint32_t pattern, size_t bytes,
                        struct err *err) MUST_USE;
enum status device_copy(struct device *device, void *to, const void *from, size_t bytes,
                        struct err *err) MUST_USE;
enum status device_sync(struct device *device, struct err *err) MUST_USE;
enum status device_host_alloc(struct device *device, size_t bytes, void **ret_host,
                              struct err *err) MUST_USE;
void device_host_free(struct device *device, void *host); /* NULL is fine */
enum status device_queue_write(struct device *device, void *to, const void *from_host, size_t bytes,
                               struct err *err) MUST_USE;
enum status device_queue_read(struct device *device, void *to_host, const void *from, size_t bytes,
                              struct err *err) MUST_USE;
enum status device_launch(struct device *device, const struct kernel_text *text,
                          const struct kernel_launch *launch, struct err *err) MUST_USE;

#endif
