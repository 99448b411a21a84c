// SPDX-License-Identifier: Apache-2.0
/* The values of the template of CPU libraries: element formats, calling convention, numbers, bound. */
#include <math.h>
#include <string.h>

#include "ops/gemm_case.h"
#include "ops/reproducer_fill.h"

enum {
    GRID_LARGEST = 8,
    C_TWICE_LARGEST = 32
};

/* Numbers are compared over the whole extent, in memory twice. */
#define CHECKED_BYTES_MAX ((uint64_t)1 << 30)

static const char *const abi_words[BLAS_ABI_COUNT] = {
    [BLAS_CBLAS_COLUMN] = "cblas_column",
    [BLAS_CBLAS_ROW] = "cblas_row",
    [BLAS_FORTRAN] = "fortran",
    [BLAS_DNNL] = "dnnl",
    [BLAS_XSMM] = "fortran",
    [BLAS_BLI] = "bli",
    [BLAS_CBLAS_BATCH] = "cblas_batch",
};

/* From the words that device/blas.c puts into the name of a choice. */
static bool abi_of(const struct gemm_choice *choice, enum blas_abi *ret_abi)
{
    for (enum blas_abi abi = 0; abi < BLAS_ABI_COUNT; abi++) {
        if (str_ends(str_of(choice->name), blas_abi_name(abi)) &&
            str_has(str_of(choice->name), ", ")) {
            const char *words = strstr(choice->name, ", ") + 2;
            if (strcmp(words, blas_abi_name(abi)) == 0) {
                *ret_abi = abi;
                return true;
            }
        }
    }
    return false;
}

/* Small integers whose products and sums are exact, as large as that allows. */
static int grid_limit(const struct gemm_shape *s)
{
    int limit = GRID_LARGEST;
    double most = ldexp(1, (int)dtype_info(s->dtype_c)->mantissa_bits);
    while (limit > 1 && 2.0 * limit * limit * (double)s->k + C_TWICE_LARGEST > most) {
        limit /= 2;
    }
    return limit;
}

/* How one number of A (operand 0) or B (1) is drawn: gemm_case.h's values in a line of C. */
static const char *draw_text(struct arena *a, const struct gemm_probe *p)
{
    const struct gemm_shape *s = &p->shape;
    const struct dtype_info *in = dtype_info(s->dtype_ab);
    static const char sign[] = "(uniform() < 0.5 ? -1 : 1)";
    switch (p->values) {
    case GEMM_VALUES_RANDOM: return "2 * uniform() - 1";
    case GEMM_VALUES_WORST:
        return arena_fmt(a, "%s * (1 + uniform()) * (uniform() < 0.34 ? 16 : 0.015625)", sign);
    case GEMM_VALUES_DENORMAL:
        return arena_fmt(a, "%s * (operand == 0 ? ldexp(uniform(), %d) : 1 + uniform())", sign,
                         in->min_exponent);
    case GEMM_VALUES_HUGE: {
        double out = dtype_info(s->dtype_c)->largest;
        double least = in->largest < out ? in->largest : out;
        return arena_fmt(a, "%s * (0.5 + 0.5 * uniform()) * %.9g", sign,
                         sqrt(least / (8.0 * (double)(s->k > 0 ? s->k : 1))));
    }
    default: {
        int limit = grid_limit(s);
        return arena_fmt(a, "floor(%d * uniform()) - %d", 2 * limit + 1, limit);
    }
    }
}

static const char *bound_text(struct arena *a, const struct gemm_probe *p)
{
    struct gemm_bound b;
    gemm_bound_make(&p->shape, p->values, &b);
    if (b.exact) {
        return "0"; /* every product and sum is exact */
    }
    return arena_fmt(a,
                     "%.9g * fabs(alpha) * size + %.9g * fabs(beta * (beta != 0 ? before[at] : 0)) "
                     "+ %.9g + %.9g * fabs(want)",
                     b.product, b.addend, b.absolute, b.output);
}

static bool is_checked(enum gemm_fault_kind kind)
{
    return kind == GEMM_WRITES_GAP || kind == GEMM_LEAVES_UNWRITTEN || kind == GEMM_READS_OUTPUT ||
           kind == GEMM_USES_PADDING || kind == GEMM_NOT_FINITE || kind == GEMM_INACCURATE;
}

/* A fault at an edge is shown by touching alone; others want numbers, some of them compared. */
static void add_format_words(struct fill *f, enum gemm_fault_kind kind, enum dtype dtype)
{
    const char *format = dtype == DTYPE_BF16 ? "bf16" : "plain";
    if (fill_is_edge(kind)) {
        fill_word(f, "edge");
    } else {
        fill_word(f, "values");
        fill_word(f, arena_fmt(f->arena, "values_%s", format));
    }
    if (is_checked(kind)) {
        fill_word(f, "check");
        fill_word(f, arena_fmt(f->arena, "check_%s", format));
    } else if (!fill_is_edge(kind)) {
        fill_word(f, "signals");
    }
    if (kind == GEMM_WRITES_GAP) {
        fill_word(f, "gap");
    }
    if (dtype == DTYPE_BF16) {
        fill_word(f, "bits");
    }
}

static enum status check_fits(const struct reproducer *r, struct err *err)
{
    const struct gemm_fault *fault = &r->diagnosis->fault;
    const struct gemm_shape *s = &r->diagnosis->probe.shape;
    if (fault->kind == GEMM_FLOAT_MODE || fault->kind == GEMM_DEVICE_LOST) {
        return err_set(err, ST_UNSUPPORTED,
                       "there is no reproducer for a fault of this kind (%s): the report of the "
                       "trial is all there is",
                       gemm_fault_slug(fault->kind));
    }
    uint64_t bytes = gemm_extent_c(s) * dtype_info(s->dtype_c)->size;
    if (is_checked(fault->kind) && bytes > CHECKED_BYTES_MAX) {
        return err_set(err, ST_UNSUPPORTED,
                       "no reproducer: its C would span %llu bytes, and numbers are compared up to "
                       "1 GiB",
                       (unsigned long long)bytes);
    }
    return ST_OK;
}

enum status fill_cpu(struct fill *f, const struct reproducer *r, struct err *err)
{
    const struct gemm_probe *p = &r->diagnosis->probe;
    const struct gemm_fault *fault = &r->diagnosis->fault;
    const struct gemm_shape *s = &p->shape;
    enum blas_abi abi;
    TRY(check_fits(r, err));
    if (!abi_of(&fault->choice, &abi)) {
        return err_set(err, ST_UNSUPPORTED, "no template of a reproducer knows how to call '%s'",
                       fault->choice.name);
    }
    const char *symbol = fill_symbol(f->arena, &fault->choice);
    struct str name = str_of(symbol);
    bool wide = str_ends(name, "64_") || str_ends(name, "_64") || abi == BLAS_DNNL ||
                abi == BLAS_BLI;
    fill_text(f, "SYMBOL", symbol);
    fill_text(f, "INT", wide ? "long" : "int");
    fill_text(f, "INPUT",
              s->dtype_ab == DTYPE_F32   ? "float"
              : s->dtype_ab == DTYPE_F64 ? "double"
              : s->dtype_ab == DTYPE_F16 ? "_Float16"
                                         : "uint16_t");
    fill_text(f, "OUTPUT", s->dtype_c == DTYPE_F64 ? "double" : "float");
    fill_text(f, "DRAW", draw_text(f->arena, p));
    fill_text(f, "BOUND", bound_text(f->arena, p));
    fill_word(f, abi_words[abi]);
    fill_word(f, abi != BLAS_CBLAS_BATCH && s->batch > 1 ? "loop" : "once");
    add_format_words(f, fault->kind, s->dtype_ab);
    if (r->target->variable != NULL) {
        fill_word(f, "variable");
        fill_text(f, "VARIABLE", r->target->variable);
        fill_text(f, "VALUE", fill_plain(f->arena, r->target->value));
    }
    return ST_OK;
}
