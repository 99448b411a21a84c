// SPDX-License-Identifier: Apache-2.0
/*
 * hipBLASLt as data. The logic is lt.c. Source of the numbers: hipblaslt.h of hipBLASLt (releases
 * of ROCm 6 and 7), hipblas-common.h, library_types.h of HIP.
 */
#include <stddef.h>
#include <string.h>

#include "base/str.h"

#include "device/lt.h"

static const char *const names[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so",
                                    "/opt/rocm/lib/libhipblaslt.so", NULL};
static const char *const python_patterns[] = {"torch/lib/libhipblaslt.so*",
                                              "_rocm_sdk_libraries*/lib/libhipblaslt.so*", NULL};

#define ROW(name, slot, feature)                            \
 {                                                          \
  name, offsetof(struct lt_api, slot), LT_FEATURE_##feature \
 }
static const struct library_symbol symbols[] = {
    ROW("hipblasLtCreate", create, CORE),
    ROW("hipblasLtDestroy", destroy, CORE),
    ROW("hipblasLtMatmul", matmul, CORE),
    ROW("hipblasLtMatrixLayoutCreate", layout_create, CORE),
    ROW("hipblasLtMatrixLayoutDestroy", layout_destroy, CORE),
    ROW("hipblasLtMatrixLayoutSetAttribute", layout_set, CORE),
    ROW("hipblasLtMatmulDescCreate", desc_create, CORE),
    ROW("hipblasLtMatmulDescDestroy", desc_destroy, CORE),
    ROW("hipblasLtMatmulDescSetAttribute", desc_set, CORE),
    ROW("hipblasLtMatmulPreferenceCreate", preference_create, CORE),
    ROW("hipblasLtMatmulPreferenceDestroy", preference_destroy, CORE),
    ROW("hipblasLtMatmulPreferenceSetAttribute", preference_set, CORE),
    ROW("hipblasLtMatmulAlgoGetHeuristic", heuristic, CORE),
    ROW("hipblasLtGetVersion", version_of, VERSION),
};
#undef ROW

static void version_text(const struct lt_api *api, void *handle, char *to, size_t size)
{
    enum {
        MAJOR = 100000,
        MINOR = 100
    };

    int v = 0;
    if (api->version_of(handle, &v) == 0) {
        str_print(to, size, "%d.%d.%d", v / MAJOR, v % MAJOR / MINOR, v % MINOR);
    }
}

static const char *status_text(const struct lt_api *api, int status)
{
    (void)api;
    static const char *const texts[] = {
        "HIPBLAS_STATUS_SUCCESS",        "HIPBLAS_STATUS_NOT_INITIALIZED",
        "HIPBLAS_STATUS_ALLOC_FAILED",   "HIPBLAS_STATUS_INVALID_VALUE",
        "HIPBLAS_STATUS_MAPPING_ERROR",  "HIPBLAS_STATUS_EXECUTION_FAILED",
        "HIPBLAS_STATUS_INTERNAL_ERROR", "HIPBLAS_STATUS_NOT_SUPPORTED",
        "HIPBLAS_STATUS_ARCH_MISMATCH",  "HIPBLAS_STATUS_HANDLE_IS_NULLPTR",
        "HIPBLAS_STATUS_INVALID_ENUM",   "HIPBLAS_STATUS_UNKNOWN",
    };
    return status >= 0 && (size_t)status < ARRAY_LEN(texts) ? texts[status] : "hipBLAS status";
}

/* The record begins with the solution's index (what hipblaslt_ext::getIndexFromAlgo() returns). */
static void describe(const struct lt_api *api, const unsigned char *algorithm,
                     struct gemm_choice *choice)
{
    (void)api;
    int32_t index;
    memcpy(&index, algorithm, sizeof index);
    choice->id = index < 0 ? 0 : index;
    str_print(choice->name, sizeof choice->name, "solution %d", index);
}

/* INTERNAL_ERROR is among them: the library folds "not implemented" into it. */
static const int declined[] = {3 /* INVALID_VALUE */, 6 /* INTERNAL_ERROR */, 7 /* NOT_SUPPORTED */,
                               8 /* ARCH_MISMATCH */, 0};

static const struct lt_traits traits = {
    .vendor = &gemm_vendor_hipblaslt,
    .kind = DEVICE_HIP,
    .label = "hipBLASLt",
    .names = names,
    .python_patterns = python_patterns,
    .symbols = symbols,
    .symbol_count = ARRAY_LEN(symbols),
    .types = {[DTYPE_F32] = 0 + 1,
              [DTYPE_F64] = 1 + 1,
              [DTYPE_F16] = 2 + 1,
              [DTYPE_BF16] = 14 + 1,
              [DTYPE_F8_E4M3FN] = 28 + 1,
              [DTYPE_F8_E5M2] = 29 + 1,
              [DTYPE_F8_E4M3FNUZ] = 1000 + 1,
              [DTYPE_F8_E5M2FNUZ] = 1001 + 1},
    .compute_f32 = 2,
    .compute_f64 = 7,
    .compute_tf32 = 6,
    .operation_none = 111,
    .operation_transpose = 112,
    .epilogues = {[GEMM_EPILOGUE_NONE] = 1,
                  [GEMM_EPILOGUE_BIAS] = 4,
                  [GEMM_EPILOGUE_RELU] = 2,
                  [GEMM_EPILOGUE_GELU] = 32,
                  [GEMM_EPILOGUE_BIAS_RELU] = 6,
                  [GEMM_EPILOGUE_BIAS_GELU] = 36},
    .layout = {.batch = 0, .stride = 1},
    .desc = {.transpose_a = 0,
             .transpose_b = 1,
             .epilogue = 2,
             .bias = 3,
             .bias_type = 4,
             .scale_a = 5,
             .scale_b = 6},
    .preference_workspace = 1,
    .preference_alignment = -1,
    .algorithm_bytes = 24,
    .result_bytes = 56,
    .workspace_offset = 24,
    .state_offset = 32,
    .declined = declined,
    .version_text = version_text,
    .status_text = status_text,
    .describe = describe,
};

static enum status open_library(struct arena *a, struct device *device, const char *path,
                                struct gemm_library **ret_library, struct err *err)
{
    return lt_open(&traits, a, device, path, ret_library, err);
}

const struct gemm_vendor gemm_vendor_hipblaslt = {
    .name = "hipblaslt",
    .open = open_library,
    LT_VENDOR_CALLS,
};
