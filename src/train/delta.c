// SPDX-License-Identifier: Apache-2.0
/* The gated delta rule over heads and sequences: normalises queries and keys, gathers one head of one
 * sequence, has it computed, and scatters the results. */
#include "train/delta.h"

#include <stdbool.h>

#include "train/delta_inside.h"
#include "train/rows.h"

#define L2_EPS ((real)1e-6) /* inside the root, beside the sum of squares */

struct work {
    const struct delta *d;
    const real *qkv, *g, *beta;
    real *o;
    const real *d_o; /* NULL: forward */
    real *dqkv, *dg, *dbeta;
};

/* One key head of one sequence, and the value heads that use it. */
struct group {
    const struct work *w;
    size_t key_head, from, time;
    size_t row, v_row; /* reals of a token in qkv and o */
    struct arena *arena;
    struct delta_head h;
    real *dq, *dk;
};

static real *reals(struct arena *a, size_t count)
{
    return arena_array(a, count, sizeof(real));
}

static real inverse_length(const real *x, size_t n)
{
    return 1 / real_sqrt(rows_dot(x, x, n) + L2_EPS);
}

/* x / sqrt(sum of squares + eps), row by row of the head that begins at `column` of qkv. */
static const real *normalised(const struct group *g, size_t column)
{
    size_t K = g->w->d->dim_k;
    real *to = reals(g->arena, g->time * K);
    for (size_t t = 0; t < g->time; t++) {
        const real *x = g->w->qkv + (g->from + t) * g->row + column;
        rows_set(to + t * K, x, inverse_length(x, K), K);
    }
    return to;
}

/* From the gradient of y = x r, r = 1 / sqrt(sum x^2 + eps): dx = r (dy - y (y . dy)) */
static void unnormalise(const struct group *g, size_t column, const real *y, const real *dy)
{
    size_t K = g->w->d->dim_k;
    bool bf16 = g->w->d->precision == PRECISION_BF16;
    for (size_t t = 0; t < g->time; t++) {
        size_t at = (g->from + t) * g->row + column;
        const real *yt = y + t * K, *dyt = dy + t * K;
        real r = inverse_length(g->w->qkv + at, K), along = rows_dot(yt, dyt, K);
        for (size_t i = 0; i < K; i++) {
            g->w->dqkv[at + i] = rows_stored(r * (dyt[i] - yt[i] * along), bf16);
        }
    }
}

/* Rows of `width` reals at `column` of each token; `row` reals apart. */
static const real *gather(const struct group *g, const real *x, size_t row, size_t column,
                          size_t width)
{
    real *to = reals(g->arena, g->time * width);
    for (size_t t = 0; t < g->time; t++) {
        memcpy(to + t * width, x + (g->from + t) * row + column, width * sizeof *to);
    }
    return to;
}

static void scatter(const struct group *g, const real *x, real *to, size_t row, size_t column,
                    size_t width, bool bf16)
{
    for (size_t t = 0; t < g->time; t++) {
        for (size_t i = 0; i < width; i++) {
            to[(g->from + t) * row + column + i] = rows_stored(x[t * width + i], bf16);
        }
    }
}

static void value_head_forward(struct group *g, size_t head)
{
    const struct delta *d = g->w->d;
    g->h.o = reals(g->arena, g->time * d->dim_v);
    if (d->chunk) {
        T(delta_chunk_forward)(&g->h, d->chunk, g->arena);
    } else {
        T(delta_step_forward)(&g->h, g->arena);
    }
    scatter(g, g->h.o, g->w->o, g->v_row, head * d->dim_v, d->dim_v,
            d->precision == PRECISION_BF16);
}

static void value_head_backward(struct group *g, size_t head)
{
    const struct delta *d = g->w->d;
    bool bf16 = d->precision == PRECISION_BF16;
    size_t column = head * d->dim_v;
    g->h.d_o = gather(g, g->w->d_o, g->v_row, column, d->dim_v);
    g->h.dq = g->dq;
    g->h.dk = g->dk;
    g->h.dv = reals(g->arena, g->time * d->dim_v);
    g->h.dg = reals(g->arena, g->time);
    g->h.dbeta = reals(g->arena, g->time);
    if (d->chunk) {
        T(delta_chunk_backward)(&g->h, d->chunk, g->arena);
    } else {
        T(delta_step_backward)(&g->h, g->arena);
    }
    scatter(g, g->h.dv, g->w->dqkv, g->row, 2 * d->heads * d->dim_k + column, d->dim_v, bf16);
    scatter(g, g->h.dg, g->w->dg, d->v_heads, head, 1, false); /* g is float32 everywhere */
    scatter(g, g->h.dbeta, g->w->dbeta, d->v_heads, head, 1, bf16);
}

static void group_run(const struct work *w, size_t index)
{
    const struct delta *d = w->d;
    size_t sequence = index / d->heads, K = d->dim_k, copies = d->v_heads / d->heads;
    struct group g = {.w = w,
                      .key_head = index % d->heads,
                      .from = d->start[sequence],
                      .time = d->start[sequence + 1] - d->start[sequence],
                      .row = 2 * d->heads * K + d->v_heads * d->dim_v,
                      .v_row = d->v_heads * d->dim_v,
                      .arena = arena_new(0)};
    size_t at_q = g.key_head * K, at_k = d->heads * K + at_q;
    g.h = (struct delta_head){.compute = d->compute,
                              .time = g.time,
                              .dim_k = K,
                              .dim_v = d->dim_v,
                              .scale = 1 / real_sqrt((real)K),
                              .q = normalised(&g, at_q),
                              .k = normalised(&g, at_k)};
    g.dq = reals(g.arena, g.time * K);
    g.dk = reals(g.arena, g.time * K);
    for (size_t i = 0; i < copies; i++) {
        struct arena_mark mark = arena_mark(g.arena);
        size_t head = g.key_head * copies + i;
        g.h.v = gather(&g, w->qkv, g.row, 2 * d->heads * K + head * d->dim_v, d->dim_v);
        g.h.g = gather(&g, w->g, d->v_heads, head, 1);
        g.h.beta = gather(&g, w->beta, d->v_heads, head, 1);
        if (w->d_o) {
            value_head_backward(&g, head);
        } else {
            value_head_forward(&g, head);
        }
        arena_rewind(g.arena, mark);
    }
    if (w->d_o) {
        unnormalise(&g, at_q, g.h.q, g.dq);
        unnormalise(&g, at_k, g.h.k, g.dk);
    }
    arena_free(g.arena);
}

static void groups_run(void *ctx, unsigned lane, size_t from, size_t to)
{
    (void)lane;
    for (size_t i = from; i < to; i++) {
        group_run(ctx, i);
    }
}

static void run(struct work *w)
{
    compute_parts(w->d->compute, w->d->sequences * w->d->heads, 1, groups_run, w);
}

void T(delta_forward)(const struct delta *d, const real *qkv, const real *g, const real *beta,
                      real *o)
{
    run(&(struct work){.d = d, .qkv = qkv, .g = g, .beta = beta, .o = o});
}

void T(delta_backward)(const struct delta *d, const real *qkv, const real *g, const real *beta,
                       const real *d_o, real *dqkv, real *dg, real *dbeta)
{
    run(&(struct work){.d = d,
                       .qkv = qkv,
                       .g = g,
                       .beta = beta,
                       .d_o = d_o,
                       .dqkv = dqkv,
                       .dg = dg,
                       .dbeta = dbeta});
}
