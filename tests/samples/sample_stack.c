// SPDX-License-Identifier: Apache-2.0
/* Stand-ins for libraries of a ROCm PyTorch, one for each macro: only names and needs matter. */
#ifdef SAMPLE_C10
void check_fail(void) __asm__("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs");

void check_fail(void)
{}
#endif

#ifdef SAMPLE_HIP
const char *hip_flag(void);

const char *hip_flag(void)
{
    return "HIP_LAUNCH_BLOCKING";
}
#endif

#ifdef SAMPLE_TORCH_HIP
const char *torch_flag(void);

const char *torch_flag(void)
{
    return "TORCH_BLAS_PREFER_HIPBLASLT";
}
#endif

#ifdef SAMPLE_EXTENSION
/* Built against the other C++ ABI. */
void check_fail(void) __asm__(
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
void run(void);

void run(void)
{
    check_fail();
}
#endif
