// SPDX-License-Identifier: Apache-2.0
/* A head of a segment is done by one thread, BLOCK query rows at a time against all its keys, so sums
 * over the segment have one order. */
#include "train/frame_attention.h"

#include "train/layer_parts.h"
#include "train/rows.h"

enum {
    BLOCK = 64 /* query rows */
};

struct work {
    const struct frame_attention *f;
    const real *qkv;
    real *y;
    const real *dy; /* NULL: forward */
    real *dqkv;
};

/* One head of one segment. */
struct part {
    const struct frame_attention *f;
    size_t n, row, width; /* tokens; reals of a token in qkv and in y */
    const real *q, *k, *v;
    real scale;
    bool bf16;
    real *p, *dp; /* [BLOCK, n] */
};

static void store_all(const struct part *h, real *x, size_t count)
{
    for (size_t i = 0; h->bf16 && i < count; i++) {
        x[i] = rows_stored(x[i], true);
    }
}

/* p[rows, n] of the queries from `first` on, before it is stored. */
static void probabilities(const struct part *h, size_t first, size_t rows)
{
    const struct compute *c = h->f->compute;
    T(gemm_part)
    (c, false, true, rows, h->n, h->f->dim, 1, h->q + first * h->row, h->row, h->k, h->row, 0, h->p,
     h->n);
    for (size_t i = 0; i < rows; i++) {
        real *p = h->p + i * h->n, most = -(real)INFINITY;
        for (size_t j = 0; j < h->n; j++) {
            p[j] = rows_stored(rows_stored(p[j], h->bf16) * h->scale, h->bf16);
            most = p[j] > most ? p[j] : most;
        }
        real inverse = (real)(1 / T(exp_row)(c, p, h->n, most));
        for (size_t j = 0; j < h->n; j++) {
            p[j] *= inverse;
        }
    }
}

static void part_forward(const struct part *h, real *y)
{
    for (size_t first = 0; first < h->n; first += BLOCK) {
        size_t rows = h->n - first < BLOCK ? h->n - first : BLOCK;
        probabilities(h, first, rows);
        store_all(h, h->p, rows * h->n);
        T(gemm_part)
        (h->f->compute, false, false, rows, h->f->dim, h->n, 1, h->p, h->n, h->v, h->row, 0,
         y + first * h->width, h->width);
    }
    for (size_t i = 0; i < h->n; i++) {
        store_all(h, y + i * h->width, h->f->dim);
    }
}

/* dp becomes scale p (dp - sum p dp), stored; p what was stored of it. */
static void softmax_backward(const struct part *h, size_t rows)
{
    store_all(h, h->dp, rows * h->n);
    for (size_t i = 0; i < rows; i++) {
        real *p = h->p + i * h->n, *dp = h->dp + i * h->n;
        real mean = (real)T(dot)(h->n, p, dp);
        for (size_t j = 0; j < h->n; j++) {
            dp[j] = rows_stored(rows_stored(p[j] * (dp[j] - mean), h->bf16) * h->scale, h->bf16);
            p[j] = rows_stored(p[j], h->bf16);
        }
    }
}

/* dp = dy v^T;  dv = p^T dy;  dq = ds k;  dk = ds^T q */
static void part_backward(const struct part *h, const real *dy, real *dq)
{
    const struct compute *c = h->f->compute;
    size_t n = h->n, dim = h->f->dim, row = h->row;
    real *dk = dq + h->width, *dv = dk + h->width;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t rows = n - first < BLOCK ? n - first : BLOCK;
        const real *d = dy + first * h->width, *q = h->q + first * row;
        real before = first ? 1 : 0; /* dk and dv are set by the first block, then added to */
        probabilities(h, first, rows);
        T(gemm_part)(c, false, true, rows, n, dim, 1, d, h->width, h->v, row, 0, h->dp, n);
        softmax_backward(h, rows);
        T(gemm_part)(c, true, false, n, dim, rows, 1, h->p, n, d, h->width, before, dv, row);
        T(gemm_part)
        (c, false, false, rows, dim, n, 1, h->dp, n, h->k, row, 0, dq + first * row, row);
        T(gemm_part)(c, true, false, n, dim, rows, 1, h->dp, n, q, row, before, dk, row);
    }
    for (size_t i = 0; i < n; i++) {
        store_all(h, dq + i * row, dim);
        store_all(h, dk + i * row, dim);
        store_all(h, dv + i * row, dim);
    }
}

static void parts_run(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct work *w = ctx;
    const struct frame_attention *f = w->f;
    size_t width = f->heads * f->dim;
    (void)lane;
    for (size_t item = from; item < to; item++) {
        size_t start = f->start[item / f->heads], n = f->start[item / f->heads + 1] - start;
        size_t at = start * width + item % f->heads * f->dim;
        size_t at_qkv = start * 3 * width + item % f->heads * f->dim;
        struct arena *a = arena_new(0);
        const real *qkv = w->qkv + at_qkv;
        struct part h = {.f = f,
                         .n = n,
                         .row = 3 * width,
                         .width = width,
                         .q = qkv,
                         .k = qkv + width,
                         .v = qkv + 2 * width,
                         .scale = 1 / real_sqrt((real)f->dim),
                         .bf16 = f->precision == PRECISION_BF16,
                         .p = arena_array(a, BLOCK * n, sizeof(real)),
                         .dp = w->dy ? arena_array(a, BLOCK * n, sizeof(real)) : NULL};
        if (w->dy) {
            part_backward(&h, w->dy + at, w->dqkv + at_qkv);
        } else {
            part_forward(&h, w->y + at);
        }
        arena_free(a);
    }
}

static void run(struct work *w)
{
    compute_parts(w->f->compute, w->f->segments * w->f->heads, 1, parts_run, w);
}

void T(frame_attention_forward)(const struct frame_attention *f, const real *qkv, real *y)
{
    run(&(struct work){.f = f, .qkv = qkv, .y = y});
}

void T(frame_attention_backward)(const struct frame_attention *f, const real *qkv, const real *dy,
                                 real *dqkv)
{
    run(&(struct work){.f = f, .qkv = qkv, .dy = dy, .dqkv = dqkv});
}
