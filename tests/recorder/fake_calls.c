// SPDX-License-Identifier: Apache-2.0
/*
 * Stands for the libraries of calls.def: each function wants 1, 2, 3, ... as its arguments, in the lower half of each
 * (an int's upper half is nobody's), and answers 42 then. On x86-64 integers and pointers travel the same way.
 */
#include <stdint.h>
#include <stdlib.h>

struct dim3 {
    unsigned x, y, z;
};

enum {
    FINE = 42
};

#define PARAMETERS                                                                          \
 uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, \
     uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11, uint64_t a12, uint64_t a13,      \
     uint64_t a14, uint64_t a15, uint64_t a16, uint64_t a17, uint64_t a18, uint64_t a19,    \
     uint64_t a20, uint64_t a21, uint64_t a22, uint64_t a23, uint64_t a24

#define ARGUMENTS                                                                                \
 a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, \
     a22, a23, a24

static int counted(const uint64_t *given, int count)
{
    for (int i = 0; i < count; i++) {
        /* A bool keeps one byte, and is 1 for whatever is not 0. */
        if ((uint32_t)given[i] != (uint32_t)(i + 1) && (uint8_t)given[i] != 1) {
            return -(i + 1);
        }
    }
    return FINE;
}

#define CALL(name, count)                 \
 int name(PARAMETERS)                     \
 {                                        \
  const uint64_t given[24] = {ARGUMENTS}; \
  return counted(given, count);           \
 }
#include "calls.def"
#undef CALL

/* ---- those with arguments that are looked into ---- */

#define ALLOCATE(name)                             \
 int name(void **ret, size_t size, unsigned flags) \
 {                                                 \
  *ret = malloc(size);                             \
  return flags == 7 && *ret != NULL ? 0 : 2;       \
 }
ALLOCATE(cudaMallocManaged)
ALLOCATE(cudaHostAlloc)
ALLOCATE(hipMallocManaged)
ALLOCATE(hipExtMallocWithFlags)
ALLOCATE(hipHostMalloc)

static int is_launch(struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream)
{
    return grid.x == 1 && grid.y == 2 && grid.z == 3 && block.x == 4 && block.y == 5 &&
           block.z == 6 && args != NULL && (unsigned)shared == 7 && (uintptr_t)stream == 8;
}

#define LAUNCH(name)                                                                      \
 int name(const void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared, \
          void *stream)                                                                   \
 {                                                                                        \
  return (uintptr_t)f == 9 && is_launch(grid, block, args, shared, stream) ? FINE : -1;   \
 }
LAUNCH(cudaLaunchKernel)
LAUNCH(__cudaLaunchKernel)
LAUNCH(hipLaunchKernel)
LAUNCH(cudaLaunchCooperativeKernel)
LAUNCH(hipLaunchCooperativeKernel)

int hipExtLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args,
                       size_t shared, void *stream, void *start, void *stop, int flags)
{
    return (uintptr_t)f == 9 && is_launch(grid, block, args, shared, stream) &&
                   (uintptr_t)start == 10 && (uintptr_t)stop == 11 && flags == 12
               ? FINE
               : -1;
}

#define LAUNCH_EX(name)                                                   \
 int name(const unsigned *config, const void *f, void **args)             \
 {                                                                        \
  return config[0] == 1 && (uintptr_t)f == 9 && args != NULL ? FINE : -1; \
 }
LAUNCH_EX(cudaLaunchKernelExC)
LAUNCH_EX(hipLaunchKernelExC)

#define DRIVER_EX(name)                                                                    \
 int name(const unsigned *config, void *f, void **args, void **extra)                      \
 {                                                                                         \
  return config[0] == 1 && (uintptr_t)f == 9 && args != NULL && extra == NULL ? FINE : -1; \
 }
DRIVER_EX(cuLaunchKernelEx)
DRIVER_EX(hipDrvLaunchKernelEx)
