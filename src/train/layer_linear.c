// SPDX-License-Identifier: Apache-2.0
/* Linear layers with bias and LoRA, and the embedding. */
#include "train/layer_parts.h"

/* y[n, width] += b[width] */
struct bias {
    real *y;
    const real *dy;
    const real *b;
    real *db;
    size_t n, width;
};

static void bias_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct bias *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        for (size_t i = 0; i < c->width; i++) {
            c->y[t * c->width + i] += c->b[i];
        }
    }
}

/* db[i] = sum over t of dy[t, i], in order of t */
static void bias_columns(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct bias *c = ctx;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        double sum = 0;
        for (size_t t = 0; t < c->n; t++) {
            sum += (double)c->dy[t * c->width + i];
        }
        c->db[i] = (real)sum;
    }
}

struct scaled {
    const real *x;
    real *y;
    real scale;
};

static void scale_part(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct scaled *c = ctx;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        c->y[i] = c->scale * c->x[i];
    }
}

/* y = scale * x, stored */
static void scale_store(const struct run *run, real scale, const real *x, real *y, size_t n)
{
    struct scaled c = {.x = x, .y = y, .scale = scale};
    compute_parts(run->compute, n, PART_ELEMENTS, scale_part, &c);
    T(round_store)(run, y, n);
}

/* grad[rows, columns] += dy[n, rows]^T x[n, columns] */
static void weight_gradient(const struct run *run, struct param *p, size_t n, size_t rows,
                            size_t columns, const real *dy, const real *x)
{
    if (!p->trainable) {
        return;
    }
    if (run->precision != PRECISION_BF16) {
        T(gemm)
        (run->compute, true, false, rows, columns, n, 1, dy, rows, x, columns, 1, p->grad, columns);
        return;
    }
    /* A framework makes the gradient of this micro-batch first, stores it, and adds what it stored. */
    struct tape_mark mark = tape_mark(run->scratch);
    real *g = T(take)(run->scratch, p->count);
    T(gemm)(run->compute, true, false, rows, columns, n, 1, dy, rows, x, columns, 0, g, columns);
    T(grad_add)(run, p, g);
    tape_rewind(run->scratch, mark);
}

/* dx[n, in] = or += dy[n, out] w[out, in], stored */
static void input_gradient(const struct run *run, size_t n, size_t out, size_t in, const real *dy,
                           const real *w, real *dx, enum gradient how)
{
    bool apart = how == GRADIENT_ADD && run->precision == PRECISION_BF16;
    struct tape_mark mark = tape_mark(run->scratch);
    real *to = apart ? T(take)(run->scratch, n * in) : dx;
    T(gemm)
    (run->compute, false, false, n, in, out, 1, dy, out, w, in,
     how == GRADIENT_ADD && !apart ? 1 : 0, to, in);
    T(round_store)(run, to, n * in);
    if (apart) {
        T(add_store)(run, dx, to, n * in);
    }
    tape_rewind(run->scratch, mark);
}

/* y[n, out] += scale * (x A^T) B^T; returns x A^T [n, r] */
static real *adapter_forward(const struct run *run, const struct linear *l, size_t n, const real *x,
                             real *y)
{
    size_t r = l->lora_a->dim[0];
    real *low = T(take)(run->kept, n * r);
    struct tape_mark mark = tape_mark(run->scratch);
    real *high = T(take)(run->scratch, n * l->out);
    T(gemm)
    (run->compute, false, true, n, r, l->in, 1, x, l->in, l->lora_a->value, l->in, 0, low, r);
    T(round_store)(run, low, n * r);
    T(gemm)
    (run->compute, false, true, n, l->out, r, 1, low, r, l->lora_b->value, r, 0, high, l->out);
    T(round_store)(run, high, n * l->out);
    scale_store(run, (real)l->lora_scale, high, high, n * l->out);
    T(add_store)(run, y, high, n * l->out);
    tape_rewind(run->scratch, mark);
    return low;
}

void *T(linear_forward)(const struct run *run, const struct linear *l, size_t n, const real *x,
                        real *y)
{
    T(gemm)
    (run->compute, false, true, n, l->out, l->in, 1, x, l->in, l->weight->value, l->in, 0, y,
     l->out);
    if (l->bias != NULL) {
        struct bias c = {.y = y, .b = l->bias->value, .width = l->out};
        compute_parts(run->compute, n, part_rows(l->out), bias_rows, &c);
    }
    T(round_store)(run, y, n * l->out); /* the bias is added before the only rounding */
    real *low = l->lora_a != NULL ? adapter_forward(run, l, n, x, y) : NULL;
    T(watch)(run, l->module, "output", n, l->out, y);
    return low;
}

/* dB += (s dy)^T low; dlow = (s dy) B; dA += dlow^T x; dx += dlow A */
static void adapter_backward(const struct run *run, const struct linear *l, size_t n,
                             const real *low, const real *x, const real *dy, real *dx)
{
    size_t r = l->lora_a->dim[0];
    struct tape_mark mark = tape_mark(run->scratch);
    real *dhigh = T(take)(run->scratch, n * l->out);
    real *dlow = T(take)(run->scratch, n * r);
    scale_store(run, (real)l->lora_scale, dy, dhigh, n * l->out);
    weight_gradient(run, l->lora_b, n, l->out, r, dhigh, low);
    input_gradient(run, n, l->out, r, dhigh, l->lora_b->value, dlow, GRADIENT_SET);
    weight_gradient(run, l->lora_a, n, r, l->in, dlow, x);
    if (dx != NULL) {
        input_gradient(run, n, r, l->in, dlow, l->lora_a->value, dx, GRADIENT_ADD);
    }
    tape_rewind(run->scratch, mark);
}

void T(linear_backward)(const struct run *run, const struct linear *l, size_t n, const void *kept,
                        const real *x, const real *dy, real *dx, enum gradient how)
{
    T(watch)(run, l->module, "grad_output", n, l->out, dy);
    weight_gradient(run, l->weight, n, l->out, l->in, dy, x);
    if (l->bias != NULL && l->bias->trainable) {
        struct tape_mark mark = tape_mark(run->scratch);
        struct bias c = {.dy = dy, .db = T(take)(run->scratch, l->out), .n = n, .width = l->out};
        compute_parts(run->compute, l->out, 64, bias_columns, &c);
        T(grad_add)(run, l->bias, c.db);
        tape_rewind(run->scratch, mark);
    }
    if (dx != NULL) {
        input_gradient(run, n, l->out, l->in, dy, l->weight->value, dx, how);
    }
    if (l->lora_a != NULL) {
        adapter_backward(run, l, n, kept, x, dy, dx);
    }
}

/* ---- embedding ---- */

struct embedding {
    const int32_t *ids;
    size_t tokens, width;
    const real *table;
    real *x;
    const real *dx;
    real *grad;
};

static void embed_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct embedding *c = ctx;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        memcpy(c->x + t * c->width, c->table + (size_t)c->ids[t] * c->width,
               c->width * sizeof(real));
    }
}

void T(embed_forward)(const struct run *run, const struct param *table, real *x)
{
    size_t width = table->dim[1];
    struct embedding c = {.ids = run->batch->ids, .width = width, .table = table->value, .x = x};
    compute_parts(run->compute, run->batch->tokens, part_rows(width), embed_rows, &c);
}

/* Rows that meet in one entry of the table are added in the order of the tokens, by columns. */
static void embed_columns(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct embedding *c = ctx;
    (void)lane;
    for (size_t t = 0; t < c->tokens; t++) {
        real *g = c->grad + (size_t)c->ids[t] * c->width;
        const real *d = c->dx + t * c->width;
        for (size_t i = from; i < to; i++) {
            g[i] += d[i];
        }
    }
}

void T(embed_backward)(const struct run *run, struct param *table, const real *dx)
{
    if (!table->trainable) {
        return;
    }
    struct tape_mark mark = tape_mark(run->scratch);
    struct embedding c = {.ids = run->batch->ids,
                          .tokens = run->batch->tokens,
                          .width = table->dim[1],
                          .dx = dx,
                          .grad = table->grad};
    bool apart = run->precision == PRECISION_BF16;
    if (apart) {
        c.grad = T(take)(run->scratch, table->count);
        memset(c.grad, 0, table->count * sizeof(real));
    }
    compute_parts(run->compute, c.width, 64, embed_columns, &c);
    if (apart) {
        T(grad_add)(run, table, c.grad);
    }
    tape_rewind(run->scratch, mark);
}
