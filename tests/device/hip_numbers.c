// SPDX-License-Identifier: Apache-2.0
/*
 * What the HIP back end believes of HIP, held against AMD's own header; compiled only where that
 * header is installed (package libamdhip64-dev). There is nothing to run.
 */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include "device/gpu.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is not " #b)

SAME(HIP_ATTRIBUTE_CLOCK_KHZ, hipDeviceAttributeClockRate);
SAME(HIP_ATTRIBUTE_MEMORY_BUS_BITS, hipDeviceAttributeMemoryBusWidth);
SAME(HIP_ATTRIBUTE_MEMORY_CLOCK_KHZ, hipDeviceAttributeMemoryClockRate);
SAME(HIP_ATTRIBUTE_COMPUTE_UNITS, hipDeviceAttributeMultiprocessorCount);
SAME(sizeof(struct gpu_allocation), sizeof(hipMemAllocationProp));
#if HIP_VERSION_MAJOR >= 6 /* HIP 5 had the members in another order, and is refused by vmm_since */
SAME(offsetof(struct gpu_allocation, location), offsetof(hipMemAllocationProp, location));
SAME(offsetof(struct gpu_allocation, win32), offsetof(hipMemAllocationProp, win32HandleMetaData));
#endif
SAME(sizeof(struct gpu_access), sizeof(hipMemAccessDesc));
SAME(offsetof(struct gpu_access, flags), offsetof(hipMemAccessDesc, flags));
SAME(1, hipMemAllocationTypePinned);
SAME(1, hipMemLocationTypeDevice);
SAME(3, hipMemAccessFlagsProtReadWrite);
SAME(1, hipMemAllocationGranularityRecommended);
SAME(2, hipHostRegisterMapped);
SAME(2, hipErrorOutOfMemory);
SAME(98, hipErrorInvalidDeviceFunction);
SAME(209, hipErrorNoBinaryForGpu);
SAME(214, hipErrorECCNotCorrectable);
SAME(700, hipErrorIllegalAddress);
SAME(702, hipErrorLaunchTimeOut);
SAME(709, hipErrorContextIsDestroyed);
SAME(710, hipErrorAssert);
SAME(719, hipErrorLaunchFailure);
SAME(999, hipErrorUnknown);

/* The arguments of functions that the recorder hooks (src/preload), as their kinds and order are assumed there. */
#define TAKES(function, ...)                                                             \
 _Static_assert(                                                                         \
     __builtin_types_compatible_p(__typeof__(&(function)), hipError_t (*)(__VA_ARGS__)), \
     #function " takes other arguments")

TAKES(hipMalloc, void **, size_t);
TAKES(hipMallocManaged, void **, size_t, unsigned int);
TAKES(hipExtMallocWithFlags, void **, size_t, unsigned int);
TAKES(hipHostMalloc, void **, size_t, unsigned int);
TAKES(hipHostFree, void *);
TAKES(hipMallocAsync, void **, size_t, hipStream_t);
TAKES(hipFreeAsync, void *, hipStream_t);
TAKES(hipMemMap, void *, size_t, size_t, hipMemGenericAllocationHandle_t, unsigned long long);
TAKES(hipMemUnmap, void *, size_t);
TAKES(hipMemcpy, void *, const void *, size_t, hipMemcpyKind);
TAKES(hipMemcpyAsync, void *, const void *, size_t, hipMemcpyKind, hipStream_t);
TAKES(hipMemcpyWithStream, void *, const void *, size_t, hipMemcpyKind, hipStream_t);
TAKES(hipMemset, void *, int, size_t);
TAKES(hipMemsetAsync, void *, int, size_t, hipStream_t);
TAKES(hipStreamSynchronize, hipStream_t);
TAKES(hipEventSynchronize, hipEvent_t);
TAKES(hipStreamWaitEvent, hipStream_t, hipEvent_t, unsigned int);
TAKES(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *);
TAKES(hipLaunchKernel, const void *, dim3, dim3, void **, size_t, hipStream_t);
TAKES(hipLaunchCooperativeKernel, const void *, dim3, dim3, void **, unsigned int, hipStream_t);
TAKES(hipModuleLaunchKernel, hipFunction_t, unsigned int, unsigned int, unsigned int, unsigned int,
      unsigned int, unsigned int, unsigned int, hipStream_t, void **, void **);
TAKES(hipGraphLaunch, hipGraphExec_t, hipStream_t);
#if HIP_VERSION_MAJOR >= 6
TAKES(hipModuleLaunchCooperativeKernel, hipFunction_t, unsigned int, unsigned int, unsigned int,
      unsigned int, unsigned int, unsigned int, unsigned int, hipStream_t, void **);
#endif

int main(void)
{
    return 0;
}
#if HIP_VERSION >= 60200000
TAKES(hipGetProcAddress, const char *, void **, int, uint64_t, hipDriverProcAddressQueryResult *);
#endif
#ifdef hipEnablePerThreadDefaultStream /* HIP 7 */
SAME(2, hipEnablePerThreadDefaultStream);
TAKES(hipGetDriverEntryPoint, const char *, void **, unsigned long long,
      hipDriverEntryPointQueryResult *);
#endif
