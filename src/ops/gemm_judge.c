// SPDX-License-Identifier: Apache-2.0
/*
 * Operands in memory. Gaps between columns are filled whole when they are short; of a gap of
 * gigabytes only the ends, which is where a wrong index of one element goes.
 */
#include "ops/gemm_judge.h"

#include <math.h>
#include <string.h>

#include "ops/gemm_scan.h"

enum {
    GAP_WHOLE_BYTES = 4096,
    GAP_END_BYTES = 256,
    NAN_BYTE = 0xff,      /* repeated, a NaN in every format of IEEE kind and of OCP's 8-bit ones */
    FNUZ_NAN_BYTE = 0x80, /* the one NaN of AMD's */
    CANARY_BYTE = 0xc5    /* repeated: an unlikely number, and no NaN */
};

/* The number that C holds under GEMM_POISON_FINITE: no product of the grid gives it. */
#define FINITE_POISON 1.375

static void fill_gap(char *gap, size_t bytes, int byte)
{
    if (bytes <= GAP_WHOLE_BYTES) {
        memset(gap, byte, bytes);
        return;
    }
    memset(gap, byte, GAP_END_BYTES);
    memset(gap + bytes - GAP_END_BYTES, byte, GAP_END_BYTES);
}

/* Whether the filled bytes of a gap are as fill_gap left them. */
static bool gap_intact(const char *gap, size_t bytes, size_t *ret_at)
{
    for (size_t i = 0; i < bytes; i++) {
        if (bytes > GAP_WHOLE_BYTES && i == GAP_END_BYTES) {
            i = bytes - GAP_END_BYTES;
        }
        if ((unsigned char)gap[i] != CANARY_BYTE) {
            *ret_at = i;
            return false;
        }
    }
    return true;
}

/* A dense matrix into one with a leading dimension; no padding behind the last column. */
static void spread(char *to, const char *from, int64_t rows, int64_t columns, int64_t ld,
                   size_t size, int pad_byte)
{
    size_t column = (size_t)rows * size;
    size_t step = (size_t)ld * size;
    if (step == column) {
        memcpy(to, from, column * (size_t)columns);
        return;
    }
    for (int64_t j = 0; j < columns; j++) {
        memcpy(to + (size_t)j * step, from + (size_t)j * column, column);
        if (j + 1 < columns) {
            fill_gap(to + (size_t)j * step + column, step - column, pad_byte);
        }
    }
}

struct input {
    char *to;
    const char *dense;
    int64_t rows, columns, ld, stride;
};

static void fill_input(const struct input *in, int64_t batch, size_t size, int pad_byte)
{
    if (in->rows == 0 || in->columns == 0) {
        return;
    }
    size_t each = (size_t)(in->rows * in->columns) * size;
    size_t used = (size_t)(in->ld * (in->columns - 1) + in->rows) * size;
    for (int64_t i = 0; i < batch; i++) {
        char *to = in->to + (size_t)(i * in->stride) * size;
        spread(to, in->dense + (size_t)i * each, in->rows, in->columns, in->ld, size, pad_byte);
        if (i + 1 < batch) {
            fill_gap(to + used, (size_t)in->stride * size - used, pad_byte);
        }
    }
}

static void poison_cells(char *to, int64_t count, enum gemm_poison poison, enum dtype dtype)
{
    size_t size = dtype_info(dtype)->size;
    if (poison == GEMM_POISON_FINITE) {
        for (int64_t i = 0; i < count; i++) {
            dtype_set(dtype, to + (size_t)i * size, FINITE_POISON);
        }
        return;
    }
    uint32_t pattern = guard_poison_pattern(poison == GEMM_POISON_HIGH);
    size_t bytes = (size_t)count * size;
    size_t i = 0;
    for (; i + sizeof pattern <= bytes; i += sizeof pattern) {
        memcpy(to + i, &pattern, sizeof pattern);
    }
    memcpy(to + i, &pattern, bytes - i);
}

void gemm_layout_fill_output(const struct gemm_probe *probe, const struct gemm_case *numbers,
                             char *c)
{
    const struct gemm_shape *s = &probe->shape;
    size_t size = dtype_info(s->dtype_c)->size;
    struct input in = {.to = c,
                       .dense = numbers->c,
                       .rows = s->m,
                       .columns = s->n,
                       .ld = s->ldc,
                       .stride = s->stride_c};
    if (s->beta != 0) {
        fill_input(&in, s->batch, size, CANARY_BYTE);
        return;
    }
    if (s->m == 0 || s->n == 0) {
        return;
    }
    size_t used = (size_t)(s->ldc * (s->n - 1) + s->m) * size;
    for (int64_t i = 0; i < s->batch; i++) {
        char *to = c + (size_t)(i * s->stride_c) * size;
        for (int64_t j = 0; j < s->n; j++) {
            char *column = to + (size_t)(j * s->ldc) * size;
            poison_cells(column, s->m, probe->poison, s->dtype_c);
            if (j + 1 < s->n) {
                fill_gap(column + (size_t)s->m * size, (size_t)(s->ldc - s->m) * size, CANARY_BYTE);
            }
        }
        if (i + 1 < s->batch) {
            fill_gap(to + used, (size_t)s->stride_c * size - used, CANARY_BYTE);
        }
    }
}

void gemm_layout_fill(const struct gemm_probe *probe, const struct gemm_case *numbers,
                      const struct gemm_layout *layout)
{
    const struct gemm_shape *s = &probe->shape;
    size_t size = dtype_info(s->dtype_ab)->size;
    bool fnuz = s->dtype_ab == DTYPE_F8_E4M3FNUZ || s->dtype_ab == DTYPE_F8_E5M2FNUZ;
    int pad = probe->plain_padding ? 0 : fnuz ? FNUZ_NAN_BYTE : NAN_BYTE;
    struct input a = {.to = layout->a,
                      .dense = s->transpose_a ? numbers->a_transposed : numbers->a,
                      .rows = s->transpose_a ? s->k : s->m,
                      .columns = s->transpose_a ? s->m : s->k,
                      .ld = s->lda,
                      .stride = s->stride_a};
    struct input b = {.to = layout->b,
                      .dense = s->transpose_b ? numbers->b_transposed : numbers->b,
                      .rows = s->transpose_b ? s->n : s->k,
                      .columns = s->transpose_b ? s->k : s->n,
                      .ld = s->ldb,
                      .stride = s->stride_b};
    fill_input(&a, s->batch, size, pad);
    fill_input(&b, s->batch, size, pad);
    gemm_layout_fill_output(probe, numbers, layout->c);
}

/* --- judging ----------------------------------------------------------------------------------- */

struct judgement {
    const struct gemm_probe *probe;
    const struct gemm_case *numbers;
    struct gemm_bound bound;
    size_t size;
    struct gemm_fault *fault;
    double worst;
};

static inline double load(enum dtype dtype, const char *p)
{
    if (dtype == DTYPE_F32) {
        float f;
        memcpy(&f, p, sizeof f);
        return (double)f;
    }
    if (dtype == DTYPE_F64) {
        double d;
        memcpy(&d, p, sizeof d);
        return d;
    }
    return dtype_get(dtype, p);
}

static double wanted(const struct judgement *g, size_t cell)
{
    const struct gemm_shape *s = &g->probe->shape;
    double alpha = gemm_whole_alpha(s);
    double d = alpha != 0 ? alpha * g->numbers->product[cell] : 0;
    return s->beta != 0 ? d + s->beta * g->numbers->c_value[cell] : d;
}

static double allowed(const struct judgement *g, size_t cell, double want)
{
    const struct gemm_shape *s = &g->probe->shape;
    const struct gemm_bound *b = &g->bound;
    double alpha = gemm_whole_alpha(s);
    double magnitude = alpha != 0 ? fabs(alpha) * g->numbers->magnitude[cell] : 0;
    double addend = s->beta != 0 ? fabs(s->beta * g->numbers->c_value[cell]) : 0;
    return b->product * magnitude + b->addend * addend + b->absolute + b->output * fabs(want);
}

static bool still_poisoned(const struct gemm_probe *probe, const char *cell, size_t size)
{
    char pattern[8];
    poison_cells(pattern, 1, probe->poison, probe->shape.dtype_c);
    return probe->shape.beta == 0 && memcmp(cell, pattern, size) == 0;
}

/* Cells are counted; the first one of the worst kind is told. */
static void note_cell(struct judgement *g, const char *p, size_t cell, double want, double bound)
{
    struct gemm_fault *f = g->fault;
    double got = load(g->probe->shape.dtype_c, p);
    enum gemm_fault_kind kind = still_poisoned(g->probe, p, g->size) ? GEMM_LEAVES_UNWRITTEN
                                : !isfinite(got) && isfinite(want)   ? GEMM_NOT_FINITE
                                                                     : GEMM_INACCURATE;
    f->bad_cells++;
    if (f->kind != GEMM_OK && f->kind <= kind) {
        return;
    }
    f->kind = kind;
    f->operand = GEMM_OPERAND_C;
    f->row = (int64_t)cell % g->numbers->m;
    f->column = (int64_t)cell / g->numbers->m;
    f->got = got;
    f->want = want;
    f->bound = bound;
}

static bool is_fine(const struct judgement *g, const char *cells, size_t cell, int64_t count)
{
    const struct gemm_shape *s = &g->probe->shape;
    const struct gemm_column column = {
        .dtype = s->dtype_c,
        .got = cells,
        .rows = count,
        .alpha = gemm_whole_alpha(s),
        .beta = s->beta,
        .product = g->numbers->product + cell,
        .magnitude = g->numbers->exact ? NULL : g->numbers->magnitude + cell,
        .c_value = g->numbers->c_value + cell,
        .bound = &g->bound,
        .worst = g->worst < 1 ? g->worst : 1,
    };
    return gemm_column_is_fine(&column);
}

/* `count` cells one behind another, of one column or of several without gaps. */
static void judge_cells(struct judgement *g, const char *cells, size_t cell, int64_t count)
{
    if (is_fine(g, cells, cell, count)) {
        return;
    }
    enum dtype dtype = g->probe->shape.dtype_c;
    for (int64_t i = 0; i < count; i++, cell++) {
        const char *p = cells + (size_t)i * g->size;
        double got = load(dtype, p);
        double want = wanted(g, cell);
        if (g->numbers->exact) {
            if (got != want) {
                note_cell(g, p, cell, want, 0);
            }
            continue;
        }
        double bound = allowed(g, cell, want);
        double error = fabs(got - want);
        if (!(error <= bound)) {
            note_cell(g, p, cell, want, bound);
        } else if (error > g->worst * bound) {
            g->worst = error / bound;
        }
    }
}

static void judge_gap(struct judgement *g, const char *gap, size_t bytes, size_t from_column)
{
    size_t at;
    if (gap_intact(gap, bytes, &at)) {
        return;
    }
    if (g->fault->kind != GEMM_WRITES_GAP) {
        g->fault->kind = GEMM_WRITES_GAP;
        g->fault->operand = GEMM_OPERAND_C;
        g->fault->distance = (int64_t)at;
        g->fault->row = g->numbers->m + (int64_t)(at / g->size);
        g->fault->column = (int64_t)from_column;
    }
}

/* One product of the batch; `cell` is its first. */
static void judge_matrix(struct judgement *g, const char *c, size_t cell)
{
    const struct gemm_shape *s = &g->probe->shape;
    if (s->ldc == s->m) {
        judge_cells(g, c, cell, s->m * s->n);
        return;
    }
    for (int64_t j = 0; j < s->n; j++, cell += (size_t)s->m) {
        const char *column = c + (size_t)(j * s->ldc) * g->size;
        judge_cells(g, column, cell, s->m);
        if (j + 1 < s->n) {
            judge_gap(g, column + (size_t)s->m * g->size, (size_t)(s->ldc - s->m) * g->size,
                      (size_t)j);
        }
    }
}

void gemm_judge(const struct gemm_probe *probe, const struct gemm_case *numbers,
                const struct gemm_layout *layout, struct gemm_fault *ret_fault, double *worst)
{
    const struct gemm_shape *s = &probe->shape;
    struct judgement g = {.probe = probe,
                          .numbers = numbers,
                          .size = dtype_info(s->dtype_c)->size,
                          .fault = ret_fault,
                          .worst = *worst};
    gemm_bound_make(s, probe->values, &g.bound);
    if (probe->narrow_sums > 1 && dtype_info(s->dtype_c)->size < 4) {
        /* Each part is rounded, and each addition, beta C among what is added; sums of small whole
         * numbers stay exact. */
        double more = (probe->narrow_sums + 1) * dtype_unit_roundoff(s->dtype_c) * 1.1;
        g.bound.product += more;
        g.bound.addend += more;
    }
    for (int64_t b = 0; b < s->batch && s->m > 0 && s->n > 0; b++) {
        const char *c = layout->c + (size_t)(b * s->stride_c) * g.size;
        size_t used = (size_t)(s->ldc * (s->n - 1) + s->m) * g.size;
        judge_matrix(&g, c, (size_t)(b * s->m * s->n));
        if (b + 1 < s->batch) {
            judge_gap(&g, c + used, (size_t)s->stride_c * g.size - used, (size_t)s->n - 1);
        }
    }
    *worst = g.worst;
}
