// SPDX-License-Identifier: Apache-2.0
/* One thread does one head of one segment, so sums over the segment have one order. */
#include "train/frame_attention.h"

#include "base/arena.h"
#include "base/pool.h"

#include "train/rows.h"

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
    size_t tokens, row; /* row: reals of a token in qkv */
    const real *q, *k, *v;
    real scale;
    bool bf16;
    real *p, *dp; /* [tokens] */
};

/* The probabilities of query i over the segment. */
static void probabilities(const struct part *h, size_t i)
{
    real most = -(real)INFINITY, sum = 0;
    for (size_t j = 0; j < h->tokens; j++) {
        real s = rows_dot(h->q + i * h->row, h->k + j * h->row, h->f->dim);
        h->p[j] = rows_stored(rows_stored(s, h->bf16) * h->scale, h->bf16);
        most = h->p[j] > most ? h->p[j] : most;
    }
    for (size_t j = 0; j < h->tokens; j++) {
        h->p[j] = real_exp(h->p[j] - most);
        sum += h->p[j];
    }
    for (size_t j = 0; j < h->tokens; j++) {
        h->p[j] /= sum;
    }
}

static void part_forward(const struct part *h, real *y)
{
    size_t dim = h->f->dim, stride = h->f->heads * dim;
    for (size_t i = 0; i < h->tokens; i++) {
        real *to = y + i * stride;
        probabilities(h, i);
        memset(to, 0, dim * sizeof *to);
        for (size_t j = 0; j < h->tokens; j++) {
            rows_add(to, h->v + j * h->row, rows_stored(h->p[j], h->bf16), dim);
        }
        for (size_t x = 0; x < dim; x++) {
            to[x] = rows_stored(to[x], h->bf16);
        }
    }
}

/* dv[j] += p dy;  dp = dy . v[j];  ds = p (dp - sum p dp);  dq += ds scale k[j];  dk[j] += ds scale q */
static void part_backward(const struct part *h, const real *dy, real *dq)
{
    size_t dim = h->f->dim, stride = h->f->heads * dim;
    real *dk = dq + stride, *dv = dk + stride;
    for (size_t i = 0; i < h->tokens; i++) {
        for (size_t x = 0; x < dim; x++) {
            dq[i * h->row + x] = dk[i * h->row + x] = dv[i * h->row + x] = 0;
        }
    }
    for (size_t i = 0; i < h->tokens; i++) {
        const real *d = dy + i * stride;
        real mean = 0;
        probabilities(h, i);
        for (size_t j = 0; j < h->tokens; j++) {
            h->dp[j] = rows_stored(rows_dot(d, h->v + j * h->row, dim), h->bf16);
            rows_add(dv + j * h->row, d, rows_stored(h->p[j], h->bf16), dim);
            mean += h->p[j] * h->dp[j];
        }
        for (size_t j = 0; j < h->tokens; j++) {
            real ds = rows_stored(h->p[j] * (h->dp[j] - mean), h->bf16);
            ds = rows_stored(ds * h->scale, h->bf16);
            rows_add(dq + i * h->row, h->k + j * h->row, ds, dim);
            rows_add(dk + j * h->row, h->q + i * h->row, ds, dim);
        }
    }
    for (size_t i = 0; h->bf16 && i < h->tokens; i++) {
        for (size_t x = 0; x < dim; x++) {
            dq[i * h->row + x] = rows_stored(dq[i * h->row + x], true);
            dk[i * h->row + x] = rows_stored(dk[i * h->row + x], true);
            dv[i * h->row + x] = rows_stored(dv[i * h->row + x], true);
        }
    }
}

static void part_run(void *ctx, size_t index)
{
    const struct work *w = ctx;
    const struct frame_attention *f = w->f;
    size_t segment = index / f->heads, head = index % f->heads, width = f->heads * f->dim;
    size_t from = f->start[segment], tokens = f->start[segment + 1] - from;
    struct arena *a = arena_new(0);
    const real *qkv = w->qkv + from * 3 * width + head * f->dim;
    struct part h = {.f = f,
                     .tokens = tokens,
                     .row = 3 * width,
                     .q = qkv,
                     .k = qkv + width,
                     .v = qkv + 2 * width,
                     .scale = 1 / real_sqrt((real)f->dim),
                     .bf16 = f->precision == PRECISION_BF16,
                     .p = arena_array(a, tokens, sizeof(real)),
                     .dp = arena_array(a, tokens, sizeof(real))};
    size_t at = from * width + head * f->dim;
    if (w->dy) {
        part_backward(&h, w->dy + at, w->dqkv + from * 3 * width + head * f->dim);
    } else {
        part_forward(&h, w->y + at);
    }
    arena_free(a);
}

static void run(struct work *w)
{
    struct pool_job job = {.count = w->f->segments * w->f->heads, .item = part_run, .ctx = w};
    pool_run(w->f->threads, &job);
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
