// SPDX-License-Identifier: Apache-2.0
/*
 * A GPU run-time on CPU memory for tests of the recorder: the functions of CUDA (or with FAKE_HIP of HIP)
 * that the hooks wrap. Kernels are the two below; a fault in one becomes the sticky error 700, as on a
 * device. Virtual memory is mmap, so a hole is a hole. Kernel "hang" never ends: what is put on the device
 * behind it is not done, and waiting for it takes for ever. Writes from a stream happen at once; with
 * FAKE_GPU=late 300 ms later, as if the queue were long; FAKE_GPU=refuse declines them, FAKE_GPU=early once
 * only, FAKE_GPU=capturing says that every stream is being captured.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#ifdef FAKE_HIP
# define RT(name)      hip##name
# define DRV(name)     hip##name
# define MODULE_LAUNCH hipModuleLaunchKernel
# define GET_FUNCTION  hipModuleGetFunction
# define GET_PROC      hipGetProcAddress
# define LIBRARY       "libamdhip64.so.7"
#else
# define RT(name)      cuda##name
# define DRV(name)     cu##name
# define MODULE_LAUNCH cuLaunchKernel
# define GET_FUNCTION  cuModuleGetFunction
# define GET_PROC      cuGetProcAddress_v2
# define LIBRARY       "libcuda.so.1"
#endif

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

struct dim3 {
    unsigned x, y, z;
};

static int sticky;
static int stuck;
static sigjmp_buf jump;

static int is_mode(const char *mode)
{
    const char *asked = getenv("FAKE_GPU");
    return asked != NULL && strcmp(asked, mode) == 0;
}

static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(jump, 1);
}

/* Adds n numbers; "add_over" reads one element more, and throws it away. */
static void run(const char *kernel, void **arguments)
{
    if (strcmp(kernel, "hang") == 0) {
        stuck = 1;
        return;
    }
    const float *x = *(const float **)arguments[0];
    float *out = *(float **)arguments[1];
    int n = *(int *)arguments[2];
    struct sigaction ours = {.sa_handler = on_fault};
    struct sigaction old;
    sigaction(SIGSEGV, &ours, &old);
    if (sigsetjmp(jump, 1) == 0) {
        for (int i = 0; i < n; i++) {
            out[i] += x[i];
        }
        if (strcmp(kernel, "add_over") == 0) {
            volatile float beyond = x[n];
            (void)beyond;
        }
    } else {
        sticky = 700;
    }
    sigaction(SIGSEGV, &old, NULL);
}

int RT(Malloc)(void **p, size_t size)
{
    *p = NULL;
    return sticky != 0 ? sticky : posix_memalign(p, 256, size) == 0 ? 0 : 2;
}

int RT(Free)(void *p)
{
    free(p);
    return sticky;
}

int RT(GetDevice)(int *device)
{
    *device = 0;
    return 0;
}

int RT(Memcpy)(void *to, const void *from, size_t size, int kind)
{
    (void)kind;
    memcpy(to, from, size);
    return sticky;
}

int RT(MemsetAsync)(void *p, int value, size_t size, void *stream)
{
    (void)stream;
    memset(p, value, size);
    return sticky;
}

int RT(DeviceSynchronize)(void)
{
    while (stuck) {
        pause();
    }
    return sticky;
}

/* A host stub is the kernel's name itself here. */
int RT(LaunchKernel)(const void *stub, struct dim3 grid, struct dim3 block, void **arguments,
                     size_t shared, void *stream)
{
    (void)grid;
    (void)block;
    (void)shared;
    (void)stream;
    if (sticky == 0 && !stuck) {
        run(stub, arguments);
    }
    return 0; /* errors of kernels come later */
}

int MODULE_LAUNCH(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
    (void)extra;
    (void)(gx + gy + gz + bx + by + bz);
    (void)shared;
    (void)stream;
    if (sticky == 0 && !stuck) {
        run(function, arguments);
    }
    return 0;
}

int GET_FUNCTION(void **function, void *module, const char *name)
{
    static char names[32][256];
    static int used;
    (void)module;
    for (int i = 0; i < used; i++) {
        if (strcmp(names[i], name) == 0) {
            *function = names[i];
            return 0;
        }
    }
    if (used == 32) {
        return 2;
    }
    memcpy(names[used], name, strnlen(name, sizeof names[used] - 1));
    *function = names[used++];
    return 0;
}

/* The driver's own look-up. */
int GET_PROC(const char *symbol, void **pfn, int version, uint64_t flags, int *ret_status)
{
    (void)version;
    (void)flags;

    static const struct {
        const char *name;
        void *function;
    } known[] = {{STRING(MODULE_LAUNCH), (void *)MODULE_LAUNCH},
                 {STRING(GET_FUNCTION), (void *)GET_FUNCTION},
                 {"cuGetProcAddress", (void *)GET_PROC}};

    *pfn = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, symbol) == 0) {
            *pfn = known[i].function;
        }
    }
    if (ret_status != NULL) {
        *ret_status = *pfn == NULL;
    }
    return *pfn != NULL ? 0 : 500;
}

#ifndef FAKE_HIP
/* As the runtime of CUDA 13 launches: by the driver, which it finds by its look-up. */
int __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **arguments,
                       size_t shared, void *stream)
{
    static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
    if (launch == NULL) {
        int (*get)(const char *, void **, int, uint64_t, int *);
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
        *(void **)&get = library != NULL ? dlsym(library, STRING(GET_PROC)) : NULL;
        if (get == NULL || get("cuLaunchKernel", (void **)&launch, 12000, 0, NULL) != 0) {
            return 500;
        }
    }
    return launch(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared,
                  stream, arguments, NULL);
}

int cuKernelGetName(const char **name, const void *kernel)
{
    *name = kernel;
    return 0;
}
#endif

#ifdef FAKE_HIP
const char *hipKernelNameRefByPtr(const void *stub, void *stream)
{
    (void)stream;
    return stub;
}
#else
int cudaFuncGetName(const char **name, const void *stub)
{
    *name = stub;
    return 0;
}

int cuFuncGetParamInfo(const void *function, size_t index, size_t *offset, size_t *size)
{
    (void)function;
    *offset = index * 8;
    *size = index < 2 ? 8 : 4;
    return index < 3 ? 0 : 1;
}
#endif

/* ---- writes from a stream ---- */

#ifdef FAKE_HIP
# define HOST_REGISTER hipHostRegister
# define HOST_POINTER  hipHostGetDevicePointer
# define WRITE_VALUE   hipStreamWriteValue32
# define IS_CAPTURING  hipStreamIsCapturing
#else
# define HOST_REGISTER cuMemHostRegister_v2
# define HOST_POINTER  cuMemHostGetDevicePointer_v2
# define WRITE_VALUE   cuStreamWriteValue32_v2
# define IS_CAPTURING  cuStreamIsCapturing
#endif

int HOST_REGISTER(void *p, size_t size, unsigned flags)
{
    (void)p;
    (void)size;
    (void)flags;
    static int asked;
    return is_mode("refuse") ? 801 : is_mode("early") && asked++ == 0 ? 201 : 0;
}

int HOST_POINTER(uint64_t *device, void *p, unsigned flags)
{
    (void)flags;
    *device = (uint64_t)(uintptr_t)p;
    return 0;
}

int IS_CAPTURING(void *stream, int *capturing)
{
    (void)stream;
    *capturing = is_mode("capturing");
    return 0;
}

struct late_write {
    volatile uint32_t *to;
    uint32_t value;
};

static void *write_late(void *what)
{
    struct late_write w = *(struct late_write *)what;
    usleep(300000);
    *w.to = *w.to < w.value ? w.value : *w.to; /* a stream keeps its order */
    free(what);
    return NULL;
}

int WRITE_VALUE(void *stream, uint64_t to, uint32_t value, unsigned flags)
{
    (void)stream;
    (void)flags;
    pthread_t thread;
    if (stuck || sticky != 0) {
        return 0; /* queued behind what never ends */
    }
    if (!is_mode("late")) {
        *(volatile uint32_t *)(uintptr_t)to = value;
        return 0;
    }
    struct late_write *w = malloc(sizeof *w);
    if (w == NULL) {
        return 2;
    }
    *w = (struct late_write){(volatile uint32_t *)(uintptr_t)to, value};
    return pthread_create(&thread, NULL, write_late, w);
}

/* ---- virtual memory ---- */

int DRV(MemGetAllocationGranularity)(size_t *granule, const void *properties, int option)
{
    (void)properties;
    (void)option;
    *granule = 65536;
    return 0;
}

int DRV(MemAddressReserve)(uint64_t *address, size_t size, size_t alignment, uint64_t hint,
                           unsigned long long flags)
{
    (void)alignment;
    (void)hint;
    (void)flags;
    char *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return 2;
    }
    *address = ((uint64_t)(uintptr_t)p + 65535) & ~UINT64_C(65535);
    return 0;
}

int DRV(MemCreate)(uint64_t *handle, size_t size, const void *properties, unsigned long long flags)
{
    (void)properties;
    (void)flags;
    *handle = size;
    return 0;
}

int DRV(MemMap)(uint64_t address, size_t size, size_t offset, uint64_t handle,
                unsigned long long flags)
{
    (void)address;
    (void)offset;
    (void)flags;
    return handle == size ? 0 : 1;
}

int DRV(MemSetAccess)(uint64_t address, size_t size, const void *access, size_t count)
{
    (void)access;
    (void)count;
    return mprotect((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE) == 0 ? 0 : 1;
}
