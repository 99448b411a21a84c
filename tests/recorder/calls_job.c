// SPDX-License-Identifier: Apache-2.0
/* Calls every function of fake_calls.c with the arguments that it wants; says which did not get them. */
#include <stdint.h>
#include <stdio.h>

struct dim3 {
    unsigned x, y, z;
};

/* cudaLaunchConfig_t, and CUlaunchConfig: see hooks_gpu_launch.c. */
struct config {
    struct dim3 grid, block;
    size_t shared;
    void *stream;
    void *attributes;
    unsigned count;
};

#define VALUES 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24

#define PARAMETERS                                                                             \
 uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,     \
     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, \
     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t

#define CALL(name, count) int name(PARAMETERS);
#include "calls.def"
#undef CALL

#define ALLOCATE(name)  int name(void **ret, size_t size, unsigned flags);
#define LAUNCH(name)    int name(const void *, struct dim3, struct dim3, void **, size_t, void *);
#define LAUNCH_EX(name) int name(const void *, const void *, void **);
#define DRIVER_EX(name) int name(const void *, void *, void **, void **);
#define OTHERS                       \
 ALLOCATE(cudaMallocManaged)         \
 ALLOCATE(cudaHostAlloc)             \
 ALLOCATE(hipMallocManaged)          \
 ALLOCATE(hipExtMallocWithFlags)     \
 ALLOCATE(hipHostMalloc)             \
 LAUNCH(cudaLaunchKernel)            \
 LAUNCH(__cudaLaunchKernel)          \
 LAUNCH(hipLaunchKernel)             \
 LAUNCH(cudaLaunchCooperativeKernel) \
 LAUNCH(hipLaunchCooperativeKernel)  \
 LAUNCH_EX(cudaLaunchKernelExC)      \
 LAUNCH_EX(hipLaunchKernelExC)       \
 DRIVER_EX(cuLaunchKernelEx)         \
 DRIVER_EX(hipDrvLaunchKernelEx)
OTHERS
int hipExtLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *, void *,
                       void *, int);

static int wrong;

static void expect(const char *name, int got, int wanted)
{
    if (got != wanted) {
        printf("%s: %d\n", name, got);
        wrong = 1;
    }
}

int main(void)
{
    static const struct dim3 grid = {1, 2, 3}, block = {4, 5, 6};
    const struct config config = {grid, block, 7, NULL, NULL, 0};
    void *args[1] = {NULL}, *p = NULL, *f = (void *)9;
#define CALL(name, count) expect(#name, name(VALUES), 42);
#include "calls.def"
#undef CALL
#undef ALLOCATE
#undef LAUNCH
#undef LAUNCH_EX
#undef DRIVER_EX
#define ALLOCATE(name)  expect(#name, name(&p, 4096, 7), 0);
#define LAUNCH(name)    expect(#name, name(f, grid, block, args, 7, (void *)8), 42);
#define LAUNCH_EX(name) expect(#name, name(&config, f, args), 42);
#define DRIVER_EX(name) expect(#name, name(&config, f, args, NULL), 42);
    OTHERS
    expect("hipExtLaunchKernel",
           hipExtLaunchKernel(f, grid, block, args, 7, (void *)8, (void *)10, (void *)11, 12), 42);
    return wrong;
}
