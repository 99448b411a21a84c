// SPDX-License-Identifier: Apache-2.0
/*
 * libamdhip64 on CPU memory. Device memory is mmap, virtual memory is PROT_NONE with memory mapped
 * over it, a kernel is one of a few C functions, and a SIGSEGV inside of one is a page fault of the
 * GPU, reported as the real run-time library reports it.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>

#include "fake.h"
#include "fake_count.h"

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NO_MEMORY = 2,
    INVALID_DEVICE = 101,
    NO_DEVICE = 100,
    NOT_FOUND = 500,
    INVALID_IMAGE = 200,
    ILLEGAL_ADDRESS = 700
};

#define GRANULE  ((size_t)2 << 20)
#define VARIABLE "ASSAY_FAKE_HIP"
#define MEMORY   ((size_t)16 << 30)

static int sticky;
static unsigned since_sync;
static struct sigaction previous;
static volatile bool in_kernel;
static sigjmp_buf out_of_kernel;
static struct timespec last_map;

/* --- faults ------------------------------------------------------------------------------------ */

static void report_and_abort(const void *address)
{
    char line[256];
    uintptr_t page = (uintptr_t)address & ~(uintptr_t)4095;
    int n = snprintf(line, sizeof line,
                     "Memory access fault by GPU node-1 (Agent handle: 0x55d0c0de) on address %p. "
                     "Reason: Page not present or supervisor privilege.\n",
                     (void *)page);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
    (void)ignored;
    abort();
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (!in_kernel) {
        if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != NULL) {
            previous.sa_sigaction(signal, info, context);
            return;
        }
        sigaction(signal, &previous, NULL);
        return; /* happens again, with the old action */
    }
    if (fake_asked(VARIABLE, "error700") || fake_asked(VARIABLE, "silent")) {
        siglongjmp(out_of_kernel, 1);
    }
    while (fake_asked(VARIABLE, "hang")) {
        pause();
    }
    report_and_abort(info->si_addr);
}

unsigned fake_hip_crowd(void)
{
    return since_sync;
}

int fake_hip_kernel(void (*work)(void *context), void *context)
{
    since_sync++;
    fake_count(FAKE_CALL_KERNEL);
    if (sticky != 0) {
        return sticky;
    }
    if (sigsetjmp(out_of_kernel, 1) != 0) {
        in_kernel = false;
        if (fake_asked(VARIABLE, "error700")) {
            sticky = ILLEGAL_ADDRESS;
        }
        return SUCCESS; /* launches are asynchronous: the error shows later */
    }
    in_kernel = true;
    work(context);
    in_kernel = false;
    return SUCCESS;
}

/* Whether a store of now would be lost. */
static bool lost(void)
{
    if (fake_asked(VARIABLE, "lost-stores-always")) {
        return true;
    }
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double since = (double)(t.tv_sec - last_map.tv_sec) +
                   (double)(t.tv_nsec - last_map.tv_nsec) / 1e9;
    return fake_asked(VARIABLE, "lost-stores") && since < 0.002;
}

/* --- start and devices ------------------------------------------------------------------------- */

FAKE_EXPORT int hipInit(unsigned flags)
{
    static bool done;
    if (flags != 0) {
        return INVALID_VALUE;
    }
    if (fake_asked(VARIABLE, "no-device")) {
        return INVALID_DEVICE;
    }
    if (!done) {
        struct sigaction action = {.sa_sigaction = on_fault};
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &previous);
        done = true;
    }
    return SUCCESS;
}

static int devices(void)
{
    const char *text = getenv("ASSAY_FAKE_HIP_DEVICES");
    return text != NULL ? (int)strtol(text, NULL, 10) : 1;
}

FAKE_EXPORT int hipGetDeviceCount(int *count)
{
    *count = fake_asked(VARIABLE, "no-device") ? 0 : devices();
    return *count == 0 ? NO_DEVICE : SUCCESS;
}

FAKE_EXPORT int hipDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal < devices() ? SUCCESS : INVALID_DEVICE;
}

FAKE_EXPORT int hipGetDevice(int *device)
{
    *device = 0;
    return SUCCESS;
}

FAKE_EXPORT int hipSetDevice(int device)
{
    return device < devices() ? SUCCESS : INVALID_DEVICE;
}

FAKE_EXPORT int hipRuntimeGetVersion(int *version)
{
    *version = fake_asked(VARIABLE, "old-version") ? 50221153 : 70253211;
    return SUCCESS;
}

FAKE_EXPORT int hipDeviceGetName(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "Fake Radeon");
    return SUCCESS;
}

FAKE_EXPORT int hipDeviceTotalMem(size_t *bytes, int device)
{
    (void)device;
    *bytes = MEMORY;
    return SUCCESS;
}

FAKE_EXPORT int hipDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;

    enum {
        CLOCK_RATE = 5,
        MEMORY_BUS = 59,
        MEMORY_CLOCK = 60,
        PROCESSORS = 63
    };

    switch (which) {
    case CLOCK_RATE: *value = 2400000; return SUCCESS;
    case MEMORY_BUS: *value = 256; return SUCCESS;
    case MEMORY_CLOCK: *value = 1258000; return SUCCESS;
    case PROCESSORS: *value = 32; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

FAKE_EXPORT int hipGetDevicePropertiesR0600(void *properties, int device)
{
    (void)device;

    /* sizeof(hipDeviceProp_tR0600) and where gcnArchName stands in it */
    enum {
        RECORD = 1472,
        NAME_AT = 1160
    };

    memset(properties, 0, RECORD);
    memcpy(properties, "Fake Radeon", sizeof "Fake Radeon");
    memcpy((char *)properties + NAME_AT, "gfx1201", sizeof "gfx1201");
    return SUCCESS;
}

FAKE_EXPORT const char *hipGetErrorName(int error)
{
    switch (error) {
    case SUCCESS: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case NO_MEMORY: return "hipErrorOutOfMemory";
    case NO_DEVICE: return "hipErrorNoDevice";
    case INVALID_DEVICE: return "hipErrorInvalidDevice";
    case ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
    case NOT_FOUND: return "hipErrorNotFound";
    default: return "hipErrorUnknown";
    }
}

FAKE_EXPORT const char *hipGetErrorString(int error)
{
    return error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
           : error == NO_DEVICE     ? "no ROCm-capable device is detected"
           : error == NO_MEMORY     ? "out of memory"
                                    : "invalid argument";
}

static void (*at_sync)(void);

void fake_hip_at_sync(void (*work)(void))
{
    at_sync = work;
}

FAKE_EXPORT int hipDeviceSynchronize(void)
{
    fake_count(FAKE_CALL_SYNC);
    since_sync = 0;
    if (at_sync != NULL) {
        at_sync();
    }
    return sticky;
}

/* --- memory ------------------------------------------------------------------------------------ */

static size_t rounded(size_t bytes)
{
    return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

/* The size stands in the granule before the memory. */
FAKE_EXPORT int hipMalloc(void **address, size_t bytes)
{
    fake_count(FAKE_CALL_MEMORY);
    if (sticky != 0) {
        return sticky;
    }
    if (bytes > MEMORY || fake_asked(VARIABLE, "no-memory")) {
        return NO_MEMORY;
    }
    size_t total = rounded(bytes) + GRANULE;
    char *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        return NO_MEMORY;
    }
    memcpy(p, &total, sizeof total);
    *address = p + GRANULE;
    return SUCCESS;
}

FAKE_EXPORT int hipFree(void *address)
{
    if (address != NULL) {
        char *p = (char *)address - GRANULE;
        size_t total;
        memcpy(&total, p, sizeof total);
        munmap(p, total);
    }
    return sticky;
}

FAKE_EXPORT int hipMemcpyHtoD(void *to, const void *from, size_t bytes)
{
    fake_count(FAKE_CALL_TO_DEVICE);
    if (sticky == 0 && !lost()) {
        memcpy(to, from, bytes);
    }
    return sticky;
}

FAKE_EXPORT int hipMemcpyDtoH(void *to, const void *from, size_t bytes)
{
    fake_count(FAKE_CALL_TO_HOST);
    if (sticky == 0) {
        memcpy(to, from, bytes);
    }
    return sticky;
}

FAKE_EXPORT int hipMemcpyDtoD(void *to, const void *from, size_t bytes)
{
    return hipMemcpyHtoD(to, from, bytes);
}

FAKE_EXPORT int hipMemsetD32(void *to, int pattern, size_t count)
{
    fake_count(FAKE_CALL_FILL);
    if ((uintptr_t)to % sizeof pattern != 0) {
        return INVALID_VALUE;
    }
    for (size_t i = 0; sticky == 0 && !lost() && i < count; i++) {
        memcpy((char *)to + i * sizeof pattern, &pattern, sizeof pattern);
    }
    return sticky;
}

FAKE_EXPORT int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream)
{
    fake_count(FAKE_CALL_QUEUED);
    if (sticky == 0 && !lost() && stream == NULL) {
        memcpy(to, from, bytes);
    }
    return sticky;
}

FAKE_EXPORT int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream)
{
    fake_count(FAKE_CALL_QUEUED);
    if (sticky == 0 && stream == NULL) {
        memcpy(to, from, bytes);
    }
    return sticky;
}

FAKE_EXPORT int hipHostMalloc(void **host, size_t bytes, unsigned flags)
{
    return flags != 0 ? INVALID_VALUE : hipMalloc(host, bytes);
}

FAKE_EXPORT int hipHostFree(void *host)
{
    return hipFree(host);
}

FAKE_EXPORT int hipHostRegister(void *host, size_t bytes, unsigned flags)
{
    (void)host;
    (void)flags;
    return bytes == 0 ? INVALID_VALUE : sticky;
}

FAKE_EXPORT int hipHostUnregister(void *host)
{
    (void)host;
    return sticky;
}

FAKE_EXPORT int hipHostGetDevicePointer(void **address, void *host, unsigned flags)
{
    (void)flags;
    *address = host;
    return sticky;
}

/* --- virtual memory ---------------------------------------------------------------------------- */

#ifndef FAKE_NO_VMM
struct allocation {
    int32_t type, handle_types, location_type, location_id;
};

FAKE_EXPORT int hipMemGetAllocationGranularity(size_t *bytes, const struct allocation *what,
                                               int option)
{
    /* The advertised minimum is smaller than what the hardware maps. */
    enum {
        MINIMUM = 4096
    };

    *bytes = option == 0 ? MINIMUM : GRANULE;
    return what->type == 1 && what->location_type == 1 ? SUCCESS : INVALID_VALUE;
}

FAKE_EXPORT int hipMemAddressReserve(void **address, size_t bytes, size_t alignment, void *wish,
                                     unsigned long long flags)
{
    (void)alignment;
    (void)wish;
    if (flags != 0 || bytes == 0 || bytes % 4096 != 0) {
        return INVALID_VALUE;
    }
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return NO_MEMORY;
    }
    *address = p;
    return SUCCESS;
}

FAKE_EXPORT int hipMemAddressFree(void *address, size_t bytes)
{
    return munmap(address, bytes) == 0 ? SUCCESS : INVALID_VALUE;
}

/* The handle is a file of memory, so that it may be mapped more than once. */
FAKE_EXPORT int hipMemCreate(void **handle, size_t bytes, const struct allocation *what,
                             unsigned long long flags)
{
    fake_count(FAKE_CALL_MEMORY);
    if (what->type != 1 || flags != 0 || bytes % 4096 != 0) {
        return INVALID_VALUE;
    }
    if (bytes > MEMORY || fake_asked(VARIABLE, "no-memory")) {
        return NO_MEMORY;
    }
    int fd = memfd_create("fake-hip", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        return NO_MEMORY;
    }
    *handle = (void *)(intptr_t)(fd + 1);
    return SUCCESS;
}

FAKE_EXPORT int hipMemRelease(void *handle)
{
    return close((int)(intptr_t)handle - 1) == 0 ? SUCCESS : INVALID_VALUE;
}

FAKE_EXPORT int hipMemMap(void *address, size_t bytes, size_t offset, void *handle,
                          unsigned long long flags)
{
    if (offset != 0 || flags != 0) {
        return INVALID_VALUE;
    }
    void *p = mmap(address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)(intptr_t)handle - 1, 0);
    return p == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}

FAKE_EXPORT int hipMemSetAccess(void *address, size_t bytes, const void *what, size_t count)
{
    int32_t access[3];
    if (count != 1 || fake_asked(VARIABLE, "set-access-fails")) {
        return INVALID_VALUE;
    }
    memcpy(access, what, sizeof access);
    if (access[0] != 1 || access[2] != 3) {
        return INVALID_VALUE;
    }
    clock_gettime(CLOCK_MONOTONIC, &last_map);
    return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0 ? SUCCESS : INVALID_VALUE;
}

FAKE_EXPORT int hipMemUnmap(void *address, size_t bytes)
{
    void *p = mmap(address, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return p == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}
#endif

/* --- kernels ----------------------------------------------------------------------------------- */

struct call {
    void (*function)(void **parameters);
    void **parameters;
};

static void copy_one(void **p)
{
    uintptr_t from = *(uintptr_t *)p[0] + (uintptr_t)(*(int64_t *)p[1] * 4);
    uintptr_t to = *(uintptr_t *)p[2] + (uintptr_t)(*(int64_t *)p[3] * 4);
    uint32_t value = *(volatile uint32_t *)from;
    if (!lost()) {
        *(volatile uint32_t *)to = value;
    }
}

static void touch(void **p)
{
    uintptr_t at = *(uintptr_t *)p[0] + (uintptr_t) * (int64_t *)p[1];
    uint32_t seen = 0;
    for (int64_t i = 0; i < *(int64_t *)p[2]; i++, at++) {
        if (*(int32_t *)p[3] != 0) {
            *(volatile uint8_t *)at = 90;
        } else {
            seen ^= *(volatile uint8_t *)at;
        }
    }
    *(uint32_t *)*(uintptr_t *)p[4] = seen;
}

static void nothing(void **p)
{
    (void)p;
}

static const struct {
    const char *name;
    void (*function)(void **parameters);
} kernels[] = {
    {"assay_copy_one", copy_one},
    {"assay_touch", touch},
    {"assay_nothing", nothing},
};

static void run_call(void *context)
{
    const struct call *call = context;
    call->function(call->parameters);
}

/* "Code" is the text "fake:" and the kernel's name, from the fake hiprtc. */
FAKE_EXPORT int hipModuleLoadData(void **module, const void *image)
{
    if (memcmp(image, "fake:", 5) != 0) {
        return INVALID_IMAGE;
    }
    *module = (void *)(uintptr_t)image;
    return sticky;
}

FAKE_EXPORT int hipModuleGetFunction(void **function, void *module, const char *name)
{
    if (strcmp((char *)module + 5, name) != 0) {
        return NOT_FOUND;
    }
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *function = (void *)(uintptr_t)&kernels[i];
            return sticky;
        }
    }
    return NOT_FOUND;
}

FAKE_EXPORT int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                      void *stream, void **parameters, void **extra)
{
    (void)shared;
    (void)stream;
    (void)extra;
    if (gx * gy * gz * bx * by * bz == 0) {
        return INVALID_VALUE;
    }
    void (*target)(void **parameters);
    memcpy(&target, (char *)function + offsetof(__typeof__(kernels[0]), function), sizeof target);
    struct call call = {target, parameters};
    return fake_hip_kernel(run_call, &call);
}
