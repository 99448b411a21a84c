// SPDX-License-Identifier: Apache-2.0
/*
 * How wide the vectors are that this processor computes with, for loops that are written more than once.
 * All of them give the same results; who tests them chooses a level himself.
 */
#ifndef ASSAY_BASE_SIMD_H
#define ASSAY_BASE_SIMD_H

#include <stdbool.h>

#if defined(__x86_64__)
# include <cpuid.h>
#endif

enum simd {
    SIMD_NONE = 0, /* what every processor can that we run on */
    SIMD_AVX2,
    SIMD_AVX512 /* with byte lanes, VBMI, AES and carry-less products: Ice Lake, Zen 4 and newer */
};

#if defined(__x86_64__)
# define TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
# define TARGET_AVX512                                                                        \
  __attribute__((                                                                             \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,aes," \
             "vaes,pclmul,vpclmulqdq,bmi,bmi2,lzcnt,popcnt")))
#endif

#if defined(__x86_64__)
/* AES and carry-less products on wide vectors, which older compilers do not know by name. Intel SDM, CPUID
 * leaf 7. */
static inline bool simd_has_wide_aes(void)
{
    const unsigned both = 1u << 9 | 1u << 10;
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & both) == both;
}
#endif

static inline enum simd simd_found(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) {
        return SIMD_NONE;
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq") &&
        simd_has_wide_aes()) {
        return SIMD_AVX512;
    }
    return SIMD_AVX2;
#else
    return SIMD_NONE;
#endif
}

/* Asked once: CPUID takes a virtual machine tens of microseconds. */
static inline enum simd simd_best(void)
{
    static _Atomic int known = -1;
    int best = known;
    if (best < 0) {
        best = (int)simd_found();
        known = best;
    }
    return (enum simd)best;
}

#endif
