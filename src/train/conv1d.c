// SPDX-License-Identifier: Apache-2.0
/* Each thread takes a block of channels over all tokens: no two write to the same place, and the sums
 * over time have one order. */
#include "train/conv1d.h"

#include "base/pool.h"

#include "train/rows.h"

enum {
    BLOCK = 64 /* channels of an item */
};

struct work {
    const struct conv1d *c;
    const real *x, *weight;
    real *pre, *y;
    const real *kept, *dy; /* dy NULL: forward */
    real *dx, *dweight;
};

static void forward_token(const struct work *w, size_t first, size_t t, size_t from, size_t n)
{
    const struct conv1d *c = w->c;
    bool bf16 = c->precision == PRECISION_BF16;
    real sum[BLOCK] = {0};
    for (size_t back = c->taps; back-- > 0;) {
        if (t < first + back) {
            continue;
        }
        const real *x = w->x + (t - back) * c->channels + from;
        for (size_t i = 0; i < n; i++) {
            sum[i] += w->weight[(from + i) * c->taps + c->taps - 1 - back] * x[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = t * c->channels + from + i;
        w->pre[at] = rows_stored(sum[i], bf16);
        w->y[at] = rows_stored(rows_silu(w->pre[at]), bf16);
    }
}

/* dpre = dy silu'(pre);  dx[t - back] += weight[tap] dpre;  dweight[tap] += x[t - back] dpre */
static void backward_token(const struct work *w, size_t first, size_t t, size_t from, size_t n)
{
    const struct conv1d *c = w->c;
    bool bf16 = c->precision == PRECISION_BF16;
    real d[BLOCK];
    for (size_t i = 0; i < n; i++) {
        size_t at = t * c->channels + from + i;
        d[i] = rows_stored(w->dy[at] * rows_silu_slope(w->kept[at]), bf16);
        w->dx[at] = 0;
    }
    for (size_t back = 0; back < c->taps && first + back <= t; back++) {
        size_t at = (t - back) * c->channels + from, tap = c->taps - 1 - back;
        for (size_t i = 0; i < n; i++) {
            w->dx[at + i] += w->weight[(from + i) * c->taps + tap] * d[i];
        }
        for (size_t i = 0; w->dweight && i < n; i++) {
            w->dweight[(from + i) * c->taps + tap] += w->x[at + i] * d[i];
        }
    }
}

static void finish_backward(const struct work *w, size_t from, size_t n)
{
    const struct conv1d *c = w->c;
    for (size_t t = c->start[0]; t < c->start[c->sequences]; t++) {
        for (size_t i = 0; i < n; i++) {
            size_t at = t * c->channels + from + i;
            w->dx[at] = rows_stored(w->dx[at], c->precision == PRECISION_BF16);
        }
    }
}

static void block_run(void *ctx, size_t index)
{
    const struct work *w = ctx;
    const struct conv1d *c = w->c;
    size_t from = index * BLOCK, n = c->channels - from < BLOCK ? c->channels - from : BLOCK;
    if (w->dweight) {
        memset(w->dweight + from * c->taps, 0, n * c->taps * sizeof(real));
    }
    for (size_t s = 0; s < c->sequences; s++) {
        for (size_t t = c->start[s]; t < c->start[s + 1]; t++) {
            if (w->dy) {
                backward_token(w, c->start[s], t, from, n);
            } else {
                forward_token(w, c->start[s], t, from, n);
            }
        }
    }
    if (w->dy) {
        finish_backward(w, from, n);
    }
}

static void run(struct work *w)
{
    struct pool_job job = {
        .count = (w->c->channels + BLOCK - 1) / BLOCK, .item = block_run, .ctx = w};
    pool_run(w->c->threads, &job);
}

void T(conv1d_forward)(const struct conv1d *c, const real *x, const real *weight, real *pre,
                       real *y)
{
    run(&(struct work){.c = c, .x = x, .weight = weight, .pre = pre, .y = y});
}

void T(conv1d_backward)(const struct conv1d *c, const real *x, const real *weight, const real *pre,
                        const real *dy, real *dx, real *dweight)
{
    run(&(struct work){
        .c = c, .x = x, .weight = weight, .kept = pre, .dy = dy, .dx = dx, .dweight = dweight});
}
