// SPDX-License-Identifier: Apache-2.0
/* See gpu.h. */
#include "preload/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/record_file.h"

enum {
    PROBE_MAX = 64
};

/* Errors that a kernel's own doing brings: the numbers are the same in CUDA and HIP. */
static bool is_kernel_fault(int code)
{
    switch (code) {
    case 214: /* uncorrectable ECC */
    case 700: /* illegal address */
    case 701: /* launch out of resources */
    case 710: /* assert in a kernel */
    case 714: /* hardware stack error */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failure */ return true;
    default: return false;
    }
}

void gpu_close(struct record_entry *e, int result)
{
    if (e == NULL) {
        return;
    }
    struct record_header *h = record_file_now();
    uint32_t none = 0;
    if (is_kernel_fault(result) && h != NULL &&
        atomic_compare_exchange_strong(&h->gpu_fault.present, &none, 2)) {
        h->gpu_fault.code = result;
        h->gpu_fault.hook = e->hook;
        h->gpu_fault.ring = ring_index();
        h->gpu_fault.time_ns = clock_ns();
        h->gpu_fault.begin_ns = e->begin_ns;
        gpu_marks_look();
        atomic_store(&h->gpu_fault.present, 1);
    }
    gpu_marks_after(e, result);
    record_close(e, result);
}

static struct record_name *find(struct record_header *h, uint64_t key, bool make)
{
    struct record_name *rows = record_names(h);
    uint64_t x = key >> 3;
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(x >> 40) & (h->name_slots - 1);
    for (int i = 0; i < PROBE_MAX; i++, at = (at + 1) & (h->name_slots - 1)) {
        uint64_t here = atomic_load_explicit(&rows[at].key, memory_order_acquire);
        if (here == key) {
            return &rows[at];
        }
        if (here == 0 && !make) {
            return NULL;
        }
        /* Lost to another thread: it may have been the same kernel, else the next row is tried. */
        if (here == 0 &&
            (atomic_compare_exchange_strong(&rows[at].key, &here, key) || here == key)) {
            return &rows[at];
        }
    }
    return NULL;
}

bool gpu_count_launch(uint64_t key)
{
    struct record_header *h = record_file();
    struct record_name *row = h != NULL && key != 0 ? find(h, key, true) : NULL;
    return row != NULL && atomic_fetch_add_explicit(&row->launches, 1, memory_order_relaxed) == 0 &&
           row->name[0] == '\0';
}

void gpu_name(uint64_t key, const char *name)
{
    struct record_header *h = record_file();
    if (h == NULL || key == 0) {
        return;
    }
    struct record_name *row = find(h, key, true);
    if (row == NULL) {
        atomic_fetch_add_explicit(&h->lost_names, 1, memory_order_relaxed);
        return;
    }
    /* A handle may be given out again for another kernel after its module was unloaded. */
    size_t n = strnlen(name, sizeof row->name - 1);
    memcpy(row->name, name, n);
    row->name[n] = '\0';
}

/* cuFuncGetParamInfo(function, index, *offset, *size) of CUDA 12.4; HIP has none. */
typedef int (*param_info)(const void *, size_t, size_t *, size_t *);

void *gpu_driver_symbol(_Atomic(void *) *slot, const char *name, uint64_t caller)
{
    static const char none; /* looked for in vain */
    void *found = atomic_load_explicit(slot, memory_order_acquire);
    if (found != NULL) {
        return found != &none ? found : NULL;
    }
    static const char *const drivers[] = {"libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6",
                                          "libamdhip64.so.5"};
    int kept = errno;
    found = optional_symbol(name, caller);
    for (size_t i = 0; found == NULL && i < sizeof drivers / sizeof *drivers; i++) {
        void *handle = dlopen(drivers[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle != NULL) {
            found = raw_dlsym(handle, name);
            dlclose(handle);
        }
    }
    atomic_store_explicit(slot, found != NULL ? found : (void *)(uintptr_t)&none,
                          memory_order_release);
    errno = kept;
    return found;
}

void gpu_arguments(struct record_entry *e, const void *driver_function, void **arguments,
                   uint64_t caller)
{
    enum {
        MOST = sizeof e->u.launch.arguments / sizeof *e->u.launch.arguments
    };

    if (e == NULL || !settings.gpu_guard || arguments == NULL) {
        return;
    }
    static _Atomic(void *) slot;
    param_info ask = (param_info)gpu_driver_symbol(&slot, "cuFuncGetParamInfo", caller);
    uint32_t n = 0;
    for (; ask != NULL && n < MOST; n++) {
        size_t offset = 0;
        size_t size = 0;
        if (ask(driver_function, n, &offset, &size) != 0 || arguments[n] == NULL) {
            break;
        }
        uint64_t value = 0;
        memcpy(&value, arguments[n], size < sizeof value ? size : sizeof value);
        e->u.launch.arguments[n] = value;
    }
    e->u.launch.argument_bytes = n * (uint32_t)sizeof *e->u.launch.arguments;
}
