// SPDX-License-Identifier: Apache-2.0
/*
 * A small GPU program over fake_gpu.c. usage: gpu_job good|over [direct|lookup|entry|chevron] [STREAMS [KERNEL...]]
 *   direct  launches through the runtime, as compiled code does
 *   lookup  finds the launch function by name in the library, as Triton does
 *   entry   asks the driver's own look-up for it, as Triton does on AMD, and runtimes that are linked in
 *   chevron launches as compiled code does since CUDA 13
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FAKE_HIP
# define RT(name)      hip##name
# define LIBRARY       "libamdhip64.so.7"
# define MODULE_LAUNCH "hipModuleLaunchKernel"
# define GET_FUNCTION  "hipModuleGetFunction"
# define GET_PROC      "hipGetProcAddress"
#else
# define RT(name)      cuda##name
# define LIBRARY       "libcuda.so.1"
# define MODULE_LAUNCH "cuLaunchKernel"
# define GET_FUNCTION  "cuModuleGetFunction"
# define GET_PROC      "cuGetProcAddress_v2"
#endif

struct dim3 {
    unsigned x, y, z;
};

int RT(Malloc)(void **p, size_t size);
int RT(Free)(void *p);
int RT(MemsetAsync)(void *p, int value, size_t size, void *stream);
int RT(DeviceSynchronize)(void);
int __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **arguments,
                       size_t shared, void *stream);
int RT(LaunchKernel)(const void *stub, struct dim3 grid, struct dim3 block, void **arguments,
                     size_t shared, void *stream);

typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);
typedef int (*get_function)(void **, void *, const char *);
typedef int (*proc_function)(const char *, void **, int, uint64_t, int *);

static int launch(const char *how, char *kernel, void **arguments, void *stream)
{
    struct dim3 one = {1, 1, 1};
    if (strcmp(how, "direct") == 0) {
        return RT(LaunchKernel)(kernel, one, one, arguments, 0, stream);
    }
#ifndef FAKE_HIP
    if (strcmp(how, "chevron") == 0) {
        return __cudaLaunchKernel(kernel, one, one, arguments, 0, stream);
    }
#endif
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    launch_function f = library != NULL ? (launch_function)dlsym(library, MODULE_LAUNCH) : NULL;
    get_function get = library != NULL ? (get_function)dlsym(library, GET_FUNCTION) : NULL;
    if (strcmp(how, "entry") == 0) {
        proc_function proc = library != NULL ? (proc_function)dlsym(library, GET_PROC) : NULL;
        /* The look-up may be looked up as well: it is the same one since CUDA 12. */
        if (proc == NULL ||
            (GET_PROC[0] == 'c' && proc("cuGetProcAddress", (void **)&proc, 12040, 0, NULL) != 0) ||
            proc(MODULE_LAUNCH, (void **)&f, 12040, 0, NULL) != 0 ||
            proc(GET_FUNCTION, (void **)&get, 12040, 0, NULL) != 0) {
            return 500;
        }
    }
    void *function = NULL;
    if (f == NULL || get == NULL || get(&function, NULL, kernel) != 0) {
        return 500;
    }
    return f(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

int main(int argc, char **argv)
{
    char add[] = "add", add_over[] = "add_over";
    char *kernel = argc > 1 && strcmp(argv[1], "over") == 0 ? add_over : add;
    const char *how = argc > 2 ? argv[2] : "direct";
    int streams = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1;
    /* A name that nobody has must stay one: the recorder defines it for whoever does have it. */
    if (dlsym(RTLD_DEFAULT, "ncclAllReduce") != NULL) {
        puts("ncclAllReduce appeared from nowhere");
        return 9;
    }
    for (int step = 0; step < 10; step++) {
        void *x = NULL;
        void *out = NULL;
        int n = 1000;
        void *stream = (void *)(uintptr_t)(step % streams);
        if (RT(Malloc)(&x, (size_t)n * 4) != 0 || RT(Malloc)(&out, (size_t)n * 4) != 0) {
            puts("out of memory");
            return 1;
        }
        RT(MemsetAsync)(x, 0, (size_t)n * 4, stream);
        RT(MemsetAsync)(out, 0, (size_t)n * 4, stream);
        void *arguments[] = {&x, &out, &n};
        int rc = launch(how, kernel, arguments, stream);
        for (int k = 4; k < argc && rc == 0; k++) { /* further kernels, by name */
            rc = launch(how, argv[k], arguments, stream);
        }
        int waited = RT(DeviceSynchronize)();
        if (rc != 0 || waited != 0) {
            /* As a framework and NVIDIA's driver tell it; the page is nobody's. */
            fprintf(stderr,
                    "torch.AcceleratorError: %s error: an illegal memory access was encountered\n",
                    LIBRARY[3] == 'c' ? "CUDA" : "HIP");
            fprintf(
                stderr,
                "NVRM: Xid (PCI:0000:00:06): 31, pid=%d, name=job, channel 0x0000000a, intr 00000000. MMU Fault: "
                "ENGINE GRAPHICS GPC0 GPCCLIENT_T1_16 faulted @ 0x1_00000000. Fault is of type FAULT_PDE "
                "ACCESS_TYPE_VIRT_READ\n",
                (int)getpid());
            printf("GPU error %d at step %d\n", rc != 0 ? rc : waited, step);
            return 1;
        }
        RT(Free)(x);
        RT(Free)(out);
    }
    puts("done");
    return 0;
}
