// SPDX-License-Identifier: Apache-2.0
/*
 * The one logic over cuBLASLt and hipBLASLt, which have the same shape: a handle, descriptors with
 * numbered attributes, a heuristic, and a call with an algorithm. What differs are numbers, the
 * size of two records, and a few functions that only cuBLASLt has.
 *
 * Source: cublasLt.h 12.9; hipblaslt.h of hipBLASLt (ROCm 6.x and 7.x), hipblas-common.h.
 */
#ifndef ASSAY_DEVICE_LT_H
#define ASSAY_DEVICE_LT_H

#include "device/device.h"
#include "device/gemm.h"
#include "device/library.h"

enum lt_feature {
    LT_FEATURE_CORE = 0,
    LT_FEATURE_ALGORITHMS,
    LT_FEATURE_VERSION,
    LT_FEATURE_COUNT
};

struct lt_api {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                  const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                  void *d, void *d_layout, const void *algorithm, void *workspace,
                  size_t workspace_bytes, void *stream);
    int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*layout_destroy)(void *layout);
    int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
    int (*desc_create)(void **desc, int compute, int scale_type);
    int (*desc_destroy)(void *desc);
    int (*desc_set)(void *desc, int attribute, const void *value, size_t bytes);
    int (*preference_create)(void **preference);
    int (*preference_destroy)(void *preference);
    int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
    int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                     int wanted, void *results, int *count);
    /* cuBLASLt only */
    int (*algorithm_ids)(void *handle, int compute, int scale, int a, int b, int c, int d,
                         int wanted, int *ids, int *count);
    int (*algorithm_init)(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                          void *algorithm);
    int (*algorithm_check)(void *handle, void *desc, void *a, void *b, void *c, void *d,
                           const void *algorithm, void *result);
    int (*capability)(const void *algorithm, int which, void *value, size_t bytes, size_t *written);
    int (*config_set)(void *algorithm, int which, const void *value, size_t bytes);
    int (*config_get)(const void *algorithm, int which, void *value, size_t bytes, size_t *written);
    size_t (*version)(void);
    const char *(*status_name)(int status);
    /* hipBLASLt only */
    int (*version_of)(void *handle, int *version);
};

/* The largest of the two records that describe an algorithm: cublasLtMatmulAlgo_t. */
enum {
    LT_ALGORITHM_BYTES_MAX = 64,
    LT_RESULT_BYTES_MAX = 96
};

struct lt_traits {
    const struct gemm_vendor *vendor;
    enum device_kind kind;
    const char *label;
    const char *const *names;
    const char *const *python_patterns; /* below site-packages; NULL at the end */
    const struct library_symbol *symbols;
    size_t symbol_count;
    int types[DTYPE_COUNT]; /* the library's number of a dtype plus 1; 0: it has none */
    int compute_f32, compute_f64, compute_tf32;
    int operation_none, operation_transpose;
    int epilogues[GEMM_EPILOGUE_COUNT];

    struct {
        int batch, stride;
    } layout;

    struct {
        int transpose_a, transpose_b, epilogue, bias, bias_type, scale_a, scale_b;
    } desc;

    int preference_workspace;
    int preference_alignment; /* of A; B, C, D follow; -1: the library does not ask */
    size_t algorithm_bytes, result_bytes, workspace_offset, state_offset;
    const int *declined; /* status numbers that mean "not this problem"; ends with 0 */
    bool fp8_only_tn;
    void (*version_text)(const struct lt_api *api, void *handle, char *to, size_t size);
    const char *(*status_text)(const struct lt_api *api, int status);
    /* Id, name and narrow_sums of a choice from its record. */
    void (*describe)(const struct lt_api *api, const unsigned char *algorithm,
                     struct gemm_choice *choice);
};

/* The descriptors of one problem. */
struct lt_problem {
    struct gemm_shape shape;
    bool ready;
    void *desc, *a, *b, *c;
    int compute, scale; /* the library's numbers */
};

struct lt_pool; /* see lt_algorithms.c */

struct gemm_library {
    const struct lt_traits *traits;
    struct arena *arena;
    struct device *device;
    struct lt_api api;
    struct library library;
    const char *missing[LIBRARY_FEATURES_MAX];
    void *handle;
    char version[128];
    struct lt_problem problem; /* of the last shape */
    struct arena *pool_arena;  /* NULL until there is a pool */
    struct lt_pool *pools;
};

enum {
    LT_WORKSPACE_BYTES = 32 << 20
};

enum status lt_open(const struct lt_traits *traits, struct arena *a, struct device *device,
                    const char *path, struct gemm_library **ret_library, struct err *err);
void lt_close(struct gemm_library *library);
const char *lt_version(const struct gemm_library *library);
bool lt_supports(const struct gemm_library *library, const struct gemm_shape *shape);
enum status lt_choices(struct gemm_library *library, const struct gemm_shape *shape,
                       struct gemm_choice *ret_choices, size_t capacity, size_t *ret_count,
                       struct err *err);
enum status lt_run(struct gemm_library *library, const struct gemm_shape *shape,
                   const struct gemm_operands *operands, const struct gemm_choice *choice,
                   struct err *err);

/* Descriptors for the shape, kept until the next one. */
enum status lt_prepare(struct gemm_library *library, const struct gemm_shape *shape,
                       struct err *err);

/* Algorithms of cuBLASLt that say they can do the problem, behind what is in the list. All that there are
 * are asked for the first problem of a kind (formats, transposes, epilogue, alignment) and for every
 * 64th; in between only those that could do one of the kind before, because asking for all takes longer
 * than running them. */
void lt_enumerate(struct gemm_library *library, struct gemm_choice *choices, size_t capacity,
                  size_t *count);

/* Adds one unless it is among the first `known` of the list. */
void lt_add_choice(struct gemm_library *library, const unsigned char *algorithm,
                   size_t workspace_bytes, size_t known, struct gemm_choice *choices,
                   size_t capacity, size_t *count);

#define LT_VENDOR_CALLS                                                                    \
 .close = lt_close, .version = lt_version, .supports = lt_supports, .choices = lt_choices, \
 .run = lt_run

#endif
