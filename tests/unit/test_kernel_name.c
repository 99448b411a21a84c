// SPDX-License-Identifier: Apache-2.0
/* Names of kernels as PyTorch 2.11 and cuDNN 9 launched them on an H200; and names that are none. */
#include <string.h>

#include "base/arena.h"

#include "recorder/kernel_name.h"
#include "unit.h"

static const struct {
    const char *mangled, *wanted;
} rows[] = {
    {"_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_25bfloat16_copy_kernel_cudaERNS_"
     "18TensorIteratorBaseEEUlN3c108BFloat16EE_St5arrayIPcLm2EEEEviT0_T1_",
     "at::native::vectorized_elementwise_kernel<bfloat16_copy_kernel_cuda, BFloat16>"},
    {"_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_"
     "18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EELi4E"
     "23TrivialOffsetCalculatorILi1EjES9_NS0_6memory12LoadWithCastILi1EEENSA_13StoreWithCastILi1EEEEEviT_T0_",
     "at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda, LoadWithCast>"},
    {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
     "at::native::vectorized_elementwise_kernel<FillFunctor>"},
    {"_ZN5cudnn19engines_precompiled16nchwToNhwcKernelI13__nv_bfloat16S2_fLb0ELb1ELNS_"
     "15cudnnKernelDataE2EEEvNS_20kernelParams",
     "cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, cudnnKernelData>"},
    {"_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi9ELb0ELb0ELi32EEEvPT0_",
     "softmax_warp_forward"},
    {"_Z25implicit_convolveNd_sgemmI13__nv_bfloat16Li3ELi1024ELi5ELi5EE",
     "implicit_convolveNd_sgemm<__nv_bfloat16>"},
    {"_Z4fillPfi", "fill"},
    {"add_forgotten_mask", "add_forgotten_mask"},
    {"nvjet_sm90_tst_128x80_64x8_4x2_h_bz_NNT", "nvjet_sm90_tst_128x80_64x8_4x2_h_bz_NNT"},
    {"_Z", "_Z"},
    {"_ZN", "_ZN"},
    {"_ZN9999999999999999999x", "_ZN9999999999999999999x"},
    {"_ZN6native", "native"},
    {"_ZN6nativ", "_ZN6nativ"},
    {"_Z3addIL", "add"},
    {"", ""},
};

static void names_are_read(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(kernel_name(a, rows[i].mangled), rows[i].wanted);
    }
    arena_free(a);
}

/* Every cut of a name is read within it. */
static void cut_names_are_read(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t n = strlen(rows[i].mangled); n > 0; n--) {
            char *cut = arena_alloc(a, n + 1);
            memcpy(cut, rows[i].mangled, n);
            cut[n] = '\0';
            assert_non_null(kernel_name(a, cut));
        }
    }
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(cut_names_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
