// SPDX-License-Identifier: Apache-2.0
/*
 * libcuda on CPU memory: the names of the driver interface over the look-alike of HIP, whose functions
 * have the same meanings. ASSAY_FAKE_HIP plants for both. A page fault of the GPU is an error here, as
 * CUDA reports it: ask for "error700".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fake.h"

struct allocation;

int hipInit(unsigned flags);
int hipGetDeviceCount(int *count);
int hipDeviceGet(int *device, int ordinal);
int hipDeviceSynchronize(void);
int hipMalloc(void **address, size_t bytes);
int hipFree(void *address);
int hipMemcpyHtoD(void *to, const void *from, size_t bytes);
int hipMemcpyDtoH(void *to, const void *from, size_t bytes);
int hipMemcpyDtoD(void *to, const void *from, size_t bytes);
int hipMemcpyHtoDAsync(void *to, const void *from, size_t bytes, void *stream);
int hipMemcpyDtoHAsync(void *to, const void *from, size_t bytes, void *stream);
int hipHostMalloc(void **host, size_t bytes, unsigned flags);
int hipHostFree(void *host);
int hipMemsetD32(void *to, int pattern, size_t count);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream,
                          void **parameters, void **extra);
int hipMemGetAllocationGranularity(size_t *bytes, const struct allocation *what, int option);
int hipMemAddressReserve(void **address, size_t bytes, size_t alignment, void *wish,
                         unsigned long long flags);
int hipMemAddressFree(void *address, size_t bytes);
int hipMemCreate(void **handle, size_t bytes, const struct allocation *what,
                 unsigned long long flags);
int hipMemRelease(void *handle);
int hipMemMap(void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags);
int hipMemSetAccess(void *address, size_t bytes, const void *what, size_t count);
int hipMemUnmap(void *address, size_t bytes);

/* The same arguments under another name. */
#define SAME(cuda, hip, parameters, arguments) \
 FAKE_EXPORT int cuda parameters               \
 {                                             \
  return hip arguments;                        \
 }

SAME(cuInit, hipInit, (unsigned flags), (flags))
SAME(cuDeviceGetCount, hipGetDeviceCount, (int *count), (count))
SAME(cuDeviceGet, hipDeviceGet, (int *device, int ordinal), (device, ordinal))
SAME(cuCtxSynchronize, hipDeviceSynchronize, (void), ())
SAME(cuMemAlloc_v2, hipMalloc, (void **address, size_t bytes), (address, bytes))
SAME(cuMemFree_v2, hipFree, (void *address), (address))
SAME(cuMemcpyHtoD_v2, hipMemcpyHtoD, (void *to, const void *from, size_t n), (to, from, n))
SAME(cuMemcpyDtoH_v2, hipMemcpyDtoH, (void *to, const void *from, size_t n), (to, from, n))
SAME(cuMemcpyDtoD_v2, hipMemcpyDtoD, (void *to, const void *from, size_t n), (to, from, n))
SAME(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, (void *to, const void *from, size_t n, void *stream),
     (to, from, n, stream))
SAME(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, (void *to, const void *from, size_t n, void *stream),
     (to, from, n, stream))
SAME(cuMemHostAlloc, hipHostMalloc, (void **host, size_t bytes, unsigned flags),
     (host, bytes, flags))
SAME(cuMemFreeHost, hipHostFree, (void *host), (host))
SAME(cuMemsetD32_v2, hipMemsetD32, (void *to, unsigned pattern, size_t count),
     (to, (int)pattern, count))
SAME(cuModuleGetFunction, hipModuleGetFunction, (void **function, void *module, const char *name),
     (function, module, name))
SAME(cuLaunchKernel, hipModuleLaunchKernel,
     (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
      unsigned shared, void *stream, void **parameters, void **extra),
     (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))
SAME(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity,
     (size_t * bytes, const struct allocation *what, int option), (bytes, what, option))
SAME(cuMemAddressReserve, hipMemAddressReserve,
     (void **address, size_t bytes, size_t alignment, void *wish, unsigned long long flags),
     (address, bytes, alignment, wish, flags))
SAME(cuMemAddressFree, hipMemAddressFree, (void *address, size_t bytes), (address, bytes))
SAME(cuMemCreate, hipMemCreate,
     (void **handle, size_t bytes, const struct allocation *what, unsigned long long flags),
     (handle, bytes, what, flags))
SAME(cuMemRelease, hipMemRelease, (void *handle), (handle))
SAME(cuMemMap, hipMemMap,
     (void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags),
     (address, bytes, offset, handle, flags))
SAME(cuMemSetAccess, hipMemSetAccess, (void *address, size_t bytes, const void *what, size_t count),
     (address, bytes, what, count))
SAME(cuMemUnmap, hipMemUnmap, (void *address, size_t bytes), (address, bytes))

FAKE_EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    static int one;
    (void)device;
    *context = &one;
    return 0;
}

FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return 0;
}

FAKE_EXPORT int cuCtxSetCurrent(void *context)
{
    return context == NULL;
}

FAKE_EXPORT int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

FAKE_EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "Fake H200");
    return 0;
}

FAKE_EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)16 << 30;
    return 0;
}

FAKE_EXPORT int cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;
    *value = which == 75 ? 9 : 0; /* compute capability 9.0 */
    return 0;
}

FAKE_EXPORT int cuGetErrorName(int error, const char **name)
{
    *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
    return 0;
}

FAKE_EXPORT int cuGetErrorString(int error, const char **text)
{
    *text = error == 700 ? "an illegal memory access was encountered" : "another error";
    return 0;
}

/* PTX names its kernel; the look-alike of HIP wants "fake:" and that name. Kept for ever, as a module
 * that is never unloaded. */
FAKE_EXPORT int cuModuleLoadData(void **module, const void *image)
{
    const char *name = strstr(image, ".entry ");
    if (name == NULL) {
        return 200;
    }
    name += strlen(".entry ");
    size_t n = strcspn(name, " (\n");
    char *text = malloc(n + sizeof "fake:");
    if (text == NULL) {
        return 2;
    }
    memcpy(text, "fake:", sizeof "fake:" - 1);
    memcpy(text + sizeof "fake:" - 1, name, n);
    text[n + sizeof "fake:" - 1] = '\0';
    *module = text;
    return 0;
}
