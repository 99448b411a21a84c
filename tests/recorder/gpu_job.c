// SPDX-License-Identifier: Apache-2.0
/*
 * A small GPU program over fake_gpu.c. usage: gpu_job good|over [direct|lookup] [STREAMS [KERNEL...]]
 *   direct  launches through the runtime, as compiled code does
 *   lookup  finds the launch function by name in the library, as Triton does
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAKE_HIP
# define RT(name)      hip##name
# define LIBRARY       "libamdhip64.so.7"
# define MODULE_LAUNCH "hipModuleLaunchKernel"
# define GET_FUNCTION  "hipModuleGetFunction"
#else
# define RT(name)      cuda##name
# define LIBRARY       "libcuda.so.1"
# define MODULE_LAUNCH "cuLaunchKernel"
# define GET_FUNCTION  "cuModuleGetFunction"
#endif

struct dim3 {
    unsigned x, y, z;
};

int RT(Malloc)(void **p, size_t size);
int RT(Free)(void *p);
int RT(MemsetAsync)(void *p, int value, size_t size, void *stream);
int RT(DeviceSynchronize)(void);
int RT(LaunchKernel)(const void *stub, struct dim3 grid, struct dim3 block, void **arguments,
                     size_t shared, void *stream);

typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);
typedef int (*get_function)(void **, void *, const char *);

static int launch(const char *how, const char *kernel, void **arguments, void *stream)
{
    struct dim3 one = {1, 1, 1};
    if (strcmp(how, "direct") == 0) {
        return RT(LaunchKernel)(kernel, one, one, arguments, 0, stream);
    }
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    launch_function f = library != NULL ? (launch_function)dlsym(library, MODULE_LAUNCH) : NULL;
    get_function get = library != NULL ? (get_function)dlsym(library, GET_FUNCTION) : NULL;
    void *function = NULL;
    if (f == NULL || get == NULL || get(&function, NULL, kernel) != 0) {
        return 500;
    }
    return f(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

int main(int argc, char **argv)
{
    const char *kernel = argc > 1 && strcmp(argv[1], "over") == 0 ? "add_over" : "add";
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
            printf("GPU error %d at step %d\n", rc != 0 ? rc : waited, step);
            return 1;
        }
        RT(Free)(x);
        RT(Free)(out);
    }
    puts("done");
    return 0;
}
