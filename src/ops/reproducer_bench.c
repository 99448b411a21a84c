// SPDX-License-Identifier: Apache-2.0
/*
 * The product as a line for the vendor's own bench, which maintainers have at hand. Flags as in the
 * documentation of hipblaslt-bench and rocblas-bench (ROCm 6 and 7).
 */
#include <inttypes.h>
#include <string.h>

#include "ops/reproducer_fill.h"

enum {
    LINE_MAX_BYTES = 2000
};

/* "bf16_r": AMD's names of number formats; NULL where its benches have none. */
static const char *bench_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F16: return "f16_r";
    case DTYPE_BF16: return "bf16_r";
    case DTYPE_F32: return "f32_r";
    case DTYPE_F64: return "f64_r";
    case DTYPE_F8_E4M3FN: return "f8_r";
    case DTYPE_F8_E5M2: return "bf8_r";
    default: return NULL;
    }
}

static const char *compute_of(const struct gemm_shape *s)
{
    return s->dtype_ab == DTYPE_F64          ? "f64_r"
           : s->compute == GEMM_COMPUTE_TF32 ? "xf32_r"
                                             : "f32_r";
}

static void add_hipblaslt(struct strbuf *out, const struct gemm_shape *s)
{
    static const char *const activations[GEMM_EPILOGUE_COUNT] = {
        [GEMM_EPILOGUE_RELU] = "relu",
        [GEMM_EPILOGUE_BIAS_RELU] = "relu",
        [GEMM_EPILOGUE_GELU] = "gelu",
        [GEMM_EPILOGUE_BIAS_GELU] = "gelu",
    };
    bool bias = s->epilogue == GEMM_EPILOGUE_BIAS || s->epilogue == GEMM_EPILOGUE_BIAS_RELU ||
                s->epilogue == GEMM_EPILOGUE_BIAS_GELU;
    strbuf_fmt(out,
               "hipblaslt-bench --api_method c -m %" PRId64 " -n %" PRId64 " -k %" PRId64
               " --lda %" PRId64 " --ldb %" PRId64 " --ldc %" PRId64 " --ldd %" PRId64
               " --stride_a %" PRId64 " --stride_b %" PRId64 " --stride_c %" PRId64
               " --stride_d %" PRId64 " --alpha %g --beta %g --transA %c --transB %c "
               "--batch_count %" PRId64
               " --a_type %s --b_type %s --c_type %s --d_type %s --scale_type %s --compute_type %s",
               s->m, s->n, s->k, s->lda, s->ldb, s->ldc, s->ldc, s->stride_a, s->stride_b,
               s->stride_c, s->stride_c, s->alpha, s->beta, s->transpose_a ? 'T' : 'N',
               s->transpose_b ? 'T' : 'N', s->batch, bench_type(s->dtype_ab),
               bench_type(s->dtype_ab), bench_type(s->dtype_c), bench_type(s->dtype_c),
               s->dtype_ab == DTYPE_F64 ? "f64_r" : "f32_r", compute_of(s));
    if (bias) {
        strbuf_fmt(out, " --bias_vector --bias_source d --bias_type %s", bench_type(s->dtype_c));
    }
    if (activations[s->epilogue] != NULL) {
        strbuf_fmt(out, " --activation_type %s", activations[s->epilogue]);
    }
}

static void add_rocblas(struct strbuf *out, const struct gemm_shape *s)
{
    strbuf_fmt(
        out,
        "rocblas-bench -f gemm_strided_batched_ex --transposeA %c --transposeB %c -m %" PRId64
        " -n %" PRId64 " -k %" PRId64 " --alpha %g --a_type %s --lda %" PRId64
        " --stride_a %" PRId64 " --b_type %s --ldb %" PRId64 " --stride_b %" PRId64
        " --beta %g --c_type %s --ldc %" PRId64 " --stride_c %" PRId64 " --d_type %s --ldd %" PRId64
        " --stride_d %" PRId64 " --batch_count %" PRId64 " --compute_type %s",
        s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N', s->m, s->n, s->k, s->alpha,
        bench_type(s->dtype_ab), s->lda, s->stride_a, bench_type(s->dtype_ab), s->ldb, s->stride_b,
        s->beta, bench_type(s->dtype_c), s->ldc, s->stride_c, bench_type(s->dtype_c), s->ldc,
        s->stride_c, s->batch, compute_of(s));
}

const char *reproducer_bench(struct arena *a, const struct reproducer *r)
{
    const struct gemm_shape *s = &r->diagnosis->probe.shape;
    const struct gemm_choice *choice = &r->diagnosis->fault.choice;
    bool hipblaslt = r->target->vendor == &gemm_vendor_hipblaslt;
    bool rocblas = r->target->vendor == &gemm_vendor_rocblas;
    struct strbuf out;
    if ((!hipblaslt && !rocblas) || bench_type(s->dtype_ab) == NULL ||
        bench_type(s->dtype_c) == NULL) {
        return NULL;
    }
    strbuf_init(&out, a, LINE_MAX_BYTES);
    if (hipblaslt) {
        add_hipblaslt(&out, s);
        strbuf_fmt(&out, " --algo_method index --solution_index %" PRId64, choice->id);
    } else {
        add_rocblas(&out, s);
        if (choice->id >= 0) {
            strbuf_fmt(&out, " --algo 1 --solution_index %" PRId64, choice->id);
        }
    }
    return out.p;
}
