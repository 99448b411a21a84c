// SPDX-License-Identifier: Apache-2.0
/*
 * cuBLASLt as data. The logic is lt.c. Source of the numbers: cublasLt.h, cublas_api.h and
 * library_types.h of CUDA 12.9.
 */
#include <stddef.h>

#include "base/str.h"

#include "device/lt.h"

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                    "libcublasLt.so.11", "/usr/local/cuda/lib64/libcublasLt.so",
                                    "libcublasLt.so",    NULL};
static const char *const python_patterns[] = {"nvidia/cu1[0-9]/lib/libcublasLt.so.[0-9]*",
                                              "nvidia/cublas/lib/libcublasLt.so.[0-9]*", NULL};

#define ROW(name, slot, feature)                            \
 {                                                          \
  name, offsetof(struct lt_api, slot), LT_FEATURE_##feature \
 }
static const struct library_symbol symbols[] = {
    ROW("cublasLtCreate", create, CORE),
    ROW("cublasLtDestroy", destroy, CORE),
    ROW("cublasLtMatmul", matmul, CORE),
    ROW("cublasLtMatrixLayoutCreate", layout_create, CORE),
    ROW("cublasLtMatrixLayoutDestroy", layout_destroy, CORE),
    ROW("cublasLtMatrixLayoutSetAttribute", layout_set, CORE),
    ROW("cublasLtMatmulDescCreate", desc_create, CORE),
    ROW("cublasLtMatmulDescDestroy", desc_destroy, CORE),
    ROW("cublasLtMatmulDescSetAttribute", desc_set, CORE),
    ROW("cublasLtMatmulPreferenceCreate", preference_create, CORE),
    ROW("cublasLtMatmulPreferenceDestroy", preference_destroy, CORE),
    ROW("cublasLtMatmulPreferenceSetAttribute", preference_set, CORE),
    ROW("cublasLtMatmulAlgoGetHeuristic", heuristic, CORE),
    ROW("cublasLtMatmulAlgoGetIds", algorithm_ids, ALGORITHMS),
    ROW("cublasLtMatmulAlgoInit", algorithm_init, ALGORITHMS),
    ROW("cublasLtMatmulAlgoCheck", algorithm_check, ALGORITHMS),
    ROW("cublasLtMatmulAlgoCapGetAttribute", capability, ALGORITHMS),
    ROW("cublasLtMatmulAlgoConfigSetAttribute", config_set, ALGORITHMS),
    ROW("cublasLtMatmulAlgoConfigGetAttribute", config_get, ALGORITHMS),
    ROW("cublasLtGetVersion", version, VERSION),
    ROW("cublasLtGetStatusName", status_name, VERSION),
};
#undef ROW

static void version_text(const struct lt_api *api, void *handle, char *to, size_t size)
{
    (void)handle;

    enum {
        MAJOR = 10000,
        MINOR = 100
    };

    size_t v = api->version();
    str_print(to, size, "%zu.%zu.%zu", v / MAJOR, v % MAJOR / MINOR, v % MINOR);
}

static const char *status_text(const struct lt_api *api, int status)
{
    const char *name = api->status_name != NULL ? api->status_name(status) : NULL;
    return name != NULL ? name : "cuBLAS status";
}

static void describe(const struct lt_api *api, const unsigned char *algorithm,
                     struct gemm_choice *choice)
{
    enum {
        ID,
        TILE,
        SPLITK,
        REDUCTION,
        SWIZZLE,
        CUSTOM,
        STAGES,
        SETTINGS
    };

    int32_t values[SETTINGS] = {-1, 0, 0, 0, 0, 0, 0};
    for (int i = 0; api->config_get != NULL && i < SETTINGS; i++) {
        size_t written;
        api->config_get(algorithm, i, &values[i], sizeof values[i], &written);
    }
    choice->id = values[ID] < 0 ? 0 : values[ID];
    /* CUBLASLT_REDUCTION_SCHEME_INPLACE and _OUTPUT_TYPE; _COMPUTE_TYPE (2) adds up in float32. */
    const int narrow = 1 | 4;
    bool split = values[SPLITK] > 1 && (values[REDUCTION] & narrow) != 0;
    choice->narrow_sums = split ? (unsigned)values[SPLITK] : 0;
    str_print(choice->name, sizeof choice->name,
              "algo %d tile %d stages %d splitk %d reduction %d swizzle %d custom %d", values[ID],
              values[TILE], values[STAGES], values[SPLITK], values[REDUCTION], values[SWIZZLE],
              values[CUSTOM]);
}

static const int declined[] = {7 /* INVALID_VALUE */, 8 /* ARCH_MISMATCH */, 15 /* NOT_SUPPORTED */,
                               0};

static const struct lt_traits traits = {
    .vendor = &gemm_vendor_cublaslt,
    .kind = DEVICE_CUDA,
    .label = "cuBLASLt",
    .names = names,
    .python_patterns = python_patterns,
    .symbols = symbols,
    .symbol_count = ARRAY_LEN(symbols),
    .types = {[DTYPE_F32] = 0 + 1,
              [DTYPE_F64] = 1 + 1,
              [DTYPE_F16] = 2 + 1,
              [DTYPE_BF16] = 14 + 1,
              [DTYPE_F8_E4M3FN] = 28 + 1,
              [DTYPE_F8_E5M2] = 29 + 1},
    .compute_f32 = 68,
    .compute_f64 = 70,
    .compute_tf32 = 77,
    .operation_none = 0,
    .operation_transpose = 1,
    .epilogues = {[GEMM_EPILOGUE_NONE] = 1,
                  [GEMM_EPILOGUE_BIAS] = 4,
                  [GEMM_EPILOGUE_RELU] = 2,
                  [GEMM_EPILOGUE_GELU] = 32,
                  [GEMM_EPILOGUE_BIAS_RELU] = 6,
                  [GEMM_EPILOGUE_BIAS_GELU] = 36},
    .layout = {.batch = 5, .stride = 6},
    .desc = {.transpose_a = 3,
             .transpose_b = 4,
             .epilogue = 7,
             .bias = 8,
             .bias_type = 26,
             .scale_a = 17,
             .scale_b = 18},
    .preference_workspace = 1,
    .preference_alignment = 5,
    .algorithm_bytes = 64,
    .result_bytes = 96,
    .workspace_offset = 64,
    .state_offset = 72,
    .declined = declined,
    .fp8_only_tn = true,
    .version_text = version_text,
    .status_text = status_text,
    .describe = describe,
};

static enum status open_library(struct arena *a, struct device *device, const char *path,
                                struct gemm_library **ret_library, struct err *err)
{
    return lt_open(&traits, a, device, path, ret_library, err);
}

const struct gemm_vendor gemm_vendor_cublaslt = {
    .name = "cublaslt",
    .open = open_library,
    LT_VENDOR_CALLS,
};
