// SPDX-License-Identifier: Apache-2.0
/*
 * RMSNorm in its two conventions. With r = 1 / sqrt(mean(x^2) + eps):
 *   plain         n = store(r x)   y = store(w n)
 *   zero-centred  y = store((1 + w) (r x))
 * Everything between two stores is in the arithmetic's own format, as in the frameworks.
 */
#include "train/layer_parts.h"

struct rms {
    const struct run *run;
    const struct norm *l;
    size_t rows;
    const real *x, *dy, *w;
    real *y, *dx, *dw;
    real *r; /* [rows] */
};

static real inverse_rms(const struct norm *l, const real *x)
{
    return (real)(1 / sqrt(T(dot)(l->width, x, x) / (double)l->width + l->eps));
}

static void forward_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct rms *c = ctx;
    size_t width = c->l->width;
    bool plain = c->l->kind == NORM_PLAIN;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        const real *x = c->x + t * width;
        real *y = c->y + t * width;
        real r = inverse_rms(c->l, x);
        for (size_t i = 0; i < width; i++) {
            y[i] = plain ? c->w[i] * T(store)(c->run, x[i] * r) : (1 + c->w[i]) * (x[i] * r);
        }
    }
}

void T(norm_forward)(const struct run *run, const struct norm *l, size_t rows, const real *x,
                     real *y)
{
    struct rms c = {.run = run, .l = l, .rows = rows, .x = x, .w = l->weight->value, .y = y};
    compute_parts(run->compute, rows, part_rows(l->width), forward_rows, &c);
    T(round_store)(run, y, rows * l->width);
    T(watch)(run, l->module, "output", rows, l->width, y);
}

static void rms_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct rms *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        c->r[t] = inverse_rms(c->l, c->x + t * c->l->width);
    }
}

/* dw[i] = sum over rows of dy n, in order of the rows */
static void weight_columns(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct rms *c = ctx;
    size_t width = c->l->width;
    bool plain = c->l->kind == NORM_PLAIN;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        double sum = 0;
        for (size_t t = 0; t < c->rows; t++) {
            real n = c->x[t * width + i] * c->r[t];
            real d = c->dy[t * width + i];
            sum += (double)(plain ? T(store)(c->run, d * T(store)(c->run, n)) : d * n);
        }
        c->dw[i] = (real)sum;
    }
}

/* With u = dy w: dx = r u - x (r^3 / width) sum(u x) */
static void input_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct rms *c = ctx;
    size_t width = c->l->width;
    bool plain = c->l->kind == NORM_PLAIN;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        const real *x = c->x + t * width;
        const real *dy = c->dy + t * width;
        real *u = c->dx + t * width;
        for (size_t i = 0; i < width; i++) {
            u[i] = plain ? T(store)(c->run, dy[i] * c->w[i]) : dy[i] * (1 + c->w[i]);
        }
        real r = c->r[t];
        real back = (real)(T(dot)(width, u, x) / (double)width) * r * r * r;
        for (size_t i = 0; i < width; i++) {
            u[i] = r * u[i] - x[i] * back;
        }
    }
}

void T(norm_backward)(const struct run *run, const struct norm *l, size_t rows, const real *x,
                      const real *dy, real *dx)
{
    struct tape_mark mark = tape_mark(run->scratch);
    struct rms c = {
        .run = run, .l = l, .rows = rows, .x = x, .dy = dy, .w = l->weight->value, .dx = dx};
    c.r = T(take)(run->scratch, rows);
    c.dw = T(take)(run->scratch, l->width);
    T(watch)(run, l->module, "grad_output", rows, l->width, dy);
    compute_parts(run->compute, rows, part_rows(l->width), rms_rows, &c);
    if (l->weight->trainable) {
        compute_parts(run->compute, l->width, 16, weight_columns, &c);
        T(grad_add)(run, l->weight, c.dw);
    }
    compute_parts(run->compute, rows, part_rows(l->width), input_rows, &c);
    T(round_store)(run, dx, rows * l->width);
    tape_rewind(run->scratch, mark);
}
