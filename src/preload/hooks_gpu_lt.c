// SPDX-License-Identifier: Apache-2.0
/*
 * cuBLASLt and hipBLASLt: one shape of call over descriptors, which are asked for their content through
 * the library's own functions. Attribute numbers from cublasLt.h and hipblaslt.h. */
#include <math.h>

#include "preload/gpu.h"

/* What differs between the two. */
struct lt {
    const char *layout_get, *desc_get;
    int layout_type, layout_rows, layout_columns, layout_ld, layout_batch, layout_stride;
    int desc_transpose_a, desc_transpose_b, desc_epilogue, desc_bias;
    int no_op;
};

static const struct lt cublaslt = {
    "cublasLtMatrixLayoutGetAttribute",
    "cublasLtMatmulDescGetAttribute",
    0,
    2,
    3,
    4,
    5,
    6,
    3,
    4,
    7,
    8,
    0,
};

static const struct lt hipblaslt = {
    "hipblasLtMatrixLayoutGetAttribute",
    "hipblasLtMatmulDescGetAttribute",
    2,
    4,
    5,
    6,
    0,
    1,
    0,
    1,
    2,
    3,
    111,
};

typedef int (*get_attribute)(const void *, int, void *, size_t, size_t *);

static int64_t attribute(get_attribute get, const void *of, int which, size_t size)
{
    int64_t value = 0;
    size_t written = 0;
    return get != NULL && of != NULL && get(of, which, &value, size, &written) == 0 ? value : 0;
}

struct matmul {
    const void *desc, *layout_a, *layout_b, *layout_c;
    const void *a, *b, *c, *d;
    const uint64_t *algorithm; /* opaque; its first word tells one from another */
    const void *stream;
};

static uint64_t number(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static void describe(const struct lt *lt, uint64_t caller, const struct matmul *x,
                     struct record_gemm *g)
{
    get_attribute layout = (get_attribute)optional_symbol(lt->layout_get, caller);
    get_attribute desc = (get_attribute)optional_symbol(lt->desc_get, caller);
    int64_t rows_a = attribute(layout, x->layout_a, lt->layout_rows, 8);
    int64_t columns_a = attribute(layout, x->layout_a, lt->layout_columns, 8);
    g->transpose_a = attribute(desc, x->desc, lt->desc_transpose_a, 4) != lt->no_op;
    g->transpose_b = attribute(desc, x->desc, lt->desc_transpose_b, 4) != lt->no_op;
    g->m = attribute(layout, x->layout_c, lt->layout_rows, 8);
    g->n = attribute(layout, x->layout_c, lt->layout_columns, 8);
    g->k = g->transpose_a ? rows_a : columns_a;
    g->lda = attribute(layout, x->layout_a, lt->layout_ld, 8);
    g->ldb = attribute(layout, x->layout_b, lt->layout_ld, 8);
    g->ldc = attribute(layout, x->layout_c, lt->layout_ld, 8);
    g->stride_a = attribute(layout, x->layout_a, lt->layout_stride, 8);
    g->stride_b = attribute(layout, x->layout_b, lt->layout_stride, 8);
    g->stride_c = attribute(layout, x->layout_c, lt->layout_stride, 8);
    int64_t batch = attribute(layout, x->layout_a, lt->layout_batch, 4);
    g->batch = batch > 0 ? (uint32_t)batch : 1;
    g->types = RECORD_TYPES_CUDA;
    g->type_a = (uint16_t)attribute(layout, x->layout_a, lt->layout_type, 4);
    g->type_b = (uint16_t)attribute(layout, x->layout_b, lt->layout_type, 4);
    g->type_c = (uint16_t)attribute(layout, x->layout_c, lt->layout_type, 4);
    g->epilogue = (uint8_t)attribute(desc, x->desc, lt->desc_epilogue, 4);
    g->bias = (uint64_t)attribute(desc, x->desc, lt->desc_bias, 8);
    g->a = number(x->a);
    g->b = number(x->b);
    g->c = number(x->c);
    g->d = number(x->d);
    g->alpha = (double)NAN;
    g->beta = (double)NAN;
    g->algorithm = x->algorithm != NULL ? *x->algorithm : UINT64_MAX;
    g->stream = number(x->stream);
}

/* The descriptors are read before the entry is begun: those questions are calls of the library. */
static struct record_entry *begin_matmul(enum hook hook, const struct lt *lt, uint64_t caller,
                                         const struct matmul *x)
{
    if (!settings.on) {
        return NULL;
    }
    struct record_gemm g = {0};
    gpu_guard_stream(number(x->stream));
    describe(lt, caller, x, &g);
    struct record_entry *e = record_begin(hook, RECORD_GEMM, caller);
    if (e != NULL) {
        e->u.gemm = g;
        gpu_marks_number(e, hook == HOOK_HIPBLASLT_MATMUL ? GPU_HIP : GPU_CUDA, g.stream, caller);
        record_open(e);
    }
    return e;
}

#define LT_MATMUL(name, id, lt)                                                                   \
 EXPORT int name(void *handle, const void *desc, const void *alpha, const void *a,                \
                 const void *layout_a, const void *b, const void *layout_b, const void *beta,     \
                 const void *c, const void *layout_c, void *d, const void *layout_d,              \
                 const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);   \
 EXPORT int name(void *handle, const void *desc, const void *alpha, const void *a,                \
                 const void *layout_a, const void *b, const void *layout_b, const void *beta,     \
                 const void *c, const void *layout_c, void *d, const void *layout_d,              \
                 const void *algorithm, void *workspace, size_t workspace_bytes, void *stream)    \
 {                                                                                                \
  typedef int (*real)(void *, const void *, const void *, const void *, const void *,             \
                      const void *, const void *, const void *, const void *, const void *,       \
                      void *, const void *, const void *, void *, size_t, void *);                \
  real f = (real)real_symbol(id, CALLER());                                                       \
  if (f == NULL) {                                                                                \
   return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                                   \
  }                                                                                               \
  const struct matmul x = {desc,      layout_a, layout_b, layout_d != NULL ? layout_d : layout_c, \
                           a,         b,        c,        d,                                      \
                           algorithm, stream};                                                    \
  struct record_entry *e = begin_matmul(id, &(lt), CALLER(), &x);                                 \
  int rc = f(handle, desc, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d,       \
             algorithm, workspace, workspace_bytes, stream);                                      \
  gpu_marks_after(e, rc);                                                                         \
  record_close(e, rc);                                                                            \
  return rc;                                                                                      \
 }

LT_MATMUL(cublasLtMatmul, HOOK_CUBLASLT_MATMUL, cublaslt)
LT_MATMUL(hipblasLtMatmul, HOOK_HIPBLASLT_MATMUL, hipblaslt)

/* Heuristics have crashed too: the entry stands before they are asked. */
#define LT_HEURISTIC(name, id)                                                                   \
 EXPORT int name(void *handle, const void *desc, const void *layout_a, const void *layout_b,     \
                 const void *layout_c, const void *layout_d, const void *preference, int wanted, \
                 void *ret, int *ret_count);                                                     \
 EXPORT int name(void *handle, const void *desc, const void *layout_a, const void *layout_b,     \
                 const void *layout_c, const void *layout_d, const void *preference, int wanted, \
                 void *ret, int *ret_count)                                                      \
 {                                                                                               \
  typedef int (*real)(void *, const void *, const void *, const void *, const void *,            \
                      const void *, const void *, int, void *, int *);                           \
  real f = (real)real_symbol(id, CALLER());                                                      \
  if (f == NULL) {                                                                               \
   return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                                  \
  }                                                                                              \
  struct record_entry *e = record_begin(id, RECORD_CALL, CALLER());                              \
  if (e != NULL) {                                                                               \
   e->u.call = (struct record_call){{number(desc), number(layout_a), number(layout_b),           \
                                     number(layout_c), (uint64_t)(unsigned)wanted}};             \
   record_open(e);                                                                               \
  }                                                                                              \
  int rc = f(handle, desc, layout_a, layout_b, layout_c, layout_d, preference, wanted, ret,      \
             ret_count);                                                                         \
  record_close(e, rc);                                                                           \
  return rc;                                                                                     \
 }

LT_HEURISTIC(cublasLtMatmulAlgoGetHeuristic, HOOK_CUBLASLT_HEURISTIC)
LT_HEURISTIC(hipblasLtMatmulAlgoGetHeuristic, HOOK_HIPBLASLT_HEURISTIC)
