// SPDX-License-Identifier: Apache-2.0
/*
 * Tables. Sonames: CMake soversions of the libraries and live maps. Versions by release: the
 * component table of ROCm's compatibility matrix and rocBLAS's changelog.
 */
#include "facts/lib_table.h"

#include <string.h>

const struct lib_row lib_rows[] = {
    // clang-format off
    {"amdhip64",      "amdhip64",      LIB_ROCM,  NULL,                       true},
    {"hsa-runtime64", "hsa-runtime64", LIB_ROCM,  NULL,                       true},
    {"hsakmt",        "hsakmt",        LIB_ROCM,  NULL,                       true},
    {"amd_comgr",     "amd_comgr",     LIB_ROCM,  NULL,                       true},
    {"hiprtc",        "hiprtc",        LIB_ROCM,  NULL,                       true},
    {"rocblas",       "rocblas",       LIB_ROCM,  NULL,                       true},
    {"hipblas",       "hipblas",       LIB_ROCM,  NULL,                       true},
    {"hipblaslt",     "hipblaslt",     LIB_ROCM,  NULL,                       true},
    {"miopen",        "MIOpen",        LIB_ROCM,  NULL,                       false},
    {"rccl",          "rccl",          LIB_ROCM,  NULL,                       false},
    {"rocsparse",     "rocsparse",     LIB_ROCM,  NULL,                       true},
    {"rocsolver",     "rocsolver",     LIB_ROCM,  NULL,                       true},
    {"rocfft",        "rocfft",        LIB_ROCM,  NULL,                       true},
    {"aotriton",      "aotriton_v2",   LIB_ROCM,  NULL,                       true},
    {"cuda",          "cuda",          LIB_CUDA,  NULL,                       true},
    {"cudart",        "cudart",        LIB_CUDA,  "nvidia-cuda-runtime",      true},
    {"cublas",        "cublas",        LIB_CUDA,  "nvidia-cublas",            true},
    {"cublaslt",      "cublasLt",      LIB_CUDA,  "nvidia-cublas",            true},
    {"cudnn",         "cudnn",         LIB_CUDA,  "nvidia-cudnn",             true},
    {"nccl",          "nccl",          LIB_CUDA,  "nvidia-nccl",              true},
    {"nvrtc",         "nvrtc",         LIB_CUDA,  "nvidia-cuda-nvrtc",        true},
    {"cusparselt",    "cusparseLt",    LIB_CUDA,  "nvidia-cusparselt",        true},
    {"torch_cpu",     "torch_cpu",     LIB_TORCH, NULL,                       false},
    {"torch_cuda",    "torch_cuda",    LIB_TORCH, NULL,                       false},
    {"torch_hip",     "torch_hip",     LIB_TORCH, NULL,                       false},
    {"c10",           "c10",           LIB_TORCH, NULL,                       false},
    {"c10_cuda",      "c10_cuda",      LIB_TORCH, NULL,                       false},
    {"c10_hip",       "c10_hip",       LIB_TORCH, NULL,                       false},
    // clang-format on
};
const size_t lib_row_count = ARRAY_LEN(lib_rows);

const struct lib_row *lib_row_of_file(const char *file_name)
{
    if (strncmp(file_name, "lib", 3) != 0) {
        return NULL;
    }
    const char *end = strstr(file_name, ".so");
    if (end == NULL) {
        return NULL;
    }
    struct str base = {.p = file_name + 3, .n = (size_t)(end - file_name) - 3};
    for (size_t i = 0; i < lib_row_count; i++) {
        if (str_is(base, lib_rows[i].base)) {
            return &lib_rows[i];
        }
    }
    return NULL;
}

static const struct {
    const char *soname;
    const char *series;
} soname_series[] = {
    {"libamdhip64.so.5", "5"}, {"libamdhip64.so.6", "6"},   {"libamdhip64.so.7", "7+"},
    {"libhiprtc.so.5", "5"},   {"libhiprtc.so.6", "6"},     {"libhiprtc.so.7", "7+"},
    {"librocblas.so.4", "6"},  {"librocblas.so.5", "7+"},   {"libhipblas.so.2", "6"},
    {"libhipblas.so.3", "7+"}, {"libhipblaslt.so.1", "7+"}, {"libamd_comgr.so.3", "7+"},
};

const char *lib_rocm_series(const char *soname)
{
    for (size_t i = 0; i < ARRAY_LEN(soname_series); i++) {
        if (strcmp(soname, soname_series[i].soname) == 0) {
            return soname_series[i].series;
        }
    }
    return NULL;
}

static const struct {
    const char *fact;
    const char *rocm;
    const char *version;
} versions_in_rocm[] = {
    // clang-format off
    {"rocblas",   "6.0", "4.0"},    {"rocblas",   "6.1", "4.1"},    {"rocblas",   "6.2", "4.2"},
    {"rocblas",   "6.3", "4.3"},    {"rocblas",   "6.4", "4.4"},    {"rocblas",   "7.0", "5.0"},
    {"rocblas",   "7.1", "5.1"},    {"rocblas",   "7.2", "5.2"},
    {"hipblaslt", "6.0", "0.6"},    {"hipblaslt", "6.1", "0.7"},    {"hipblaslt", "6.2", "0.8"},
    {"hipblaslt", "6.3", "0.10"},   {"hipblaslt", "6.4", "0.12"},   {"hipblaslt", "7.2", "1.2"},
    {"miopen",    "6.0", "3.0"},    {"miopen",    "6.1", "3.1"},    {"miopen",    "6.2", "3.2"},
    {"miopen",    "6.3", "3.3"},
    {"rccl",      "6.0", "2.18.3"}, {"rccl",      "6.1", "2.18.6"}, {"rccl",      "6.2", "2.20.5"},
    {"rccl",      "6.3", "2.21.5"},
    // clang-format on
};

const char *lib_version_in_rocm(const char *fact, const char *rocm_version)
{
    for (size_t i = 0; i < ARRAY_LEN(versions_in_rocm); i++) {
        size_t n = strlen(versions_in_rocm[i].rocm);
        if (strcmp(fact, versions_in_rocm[i].fact) == 0 &&
            strncmp(rocm_version, versions_in_rocm[i].rocm, n) == 0 &&
            (rocm_version[n] == '\0' || rocm_version[n] == '.')) {
            return versions_in_rocm[i].version;
        }
    }
    return NULL;
}

const char *lib_version_of_file_name(struct arena *a, const char *file_name)
{
    const char *at = strstr(file_name, ".so.");
    if (at == NULL) {
        return NULL;
    }
    struct str rest = str_of(at + strlen(".so."));
    struct str part;
    struct strbuf out;
    strbuf_init(&out, a, 64);
    size_t parts = 0;
    while (rest.n != 0 && str_cut(&rest, '.', &part)) {
        uint64_t number;
        /* ROCm puts its own release, 60304 for 6.3.4, behind the library's two numbers. */
        if (str_to_u64(part, 10, &number) != ST_OK || (parts == 2 && number >= 10000)) {
            break;
        }
        strbuf_fmt(&out, "%s%.*s", parts != 0 ? "." : "", STR_ARG(part));
        parts++;
    }
    return parts >= 2 ? out.p : NULL;
}
