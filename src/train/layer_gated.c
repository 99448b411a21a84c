// SPDX-License-Identifier: Apache-2.0
/* The pass of attention with an output gate: linear_attention.h has the formula. */
#include "train/layer_parts.h"
#include "train/linear_attention.h"
#include "train/rows.h"

/* What backward needs; widths as of the projections. */
struct kept {
    real *q, *k, *v, *gate; /* before norm and rotation */
    real *q_turned, *k_turned;
    real *attended, *gated;
    void *in_q, *in_k, *in_v, *out;
};

/* Reals of a token in queries, and in keys. */
struct widths {
    size_t n, q, k, dim;
};

static struct widths widths_of(const struct run *run, const struct attention *l)
{
    return (struct widths){run->batch->tokens, l->o.in, l->k.out, run->config->head_dim};
}

static struct kept *kept_new(const struct run *run, const struct widths *w)
{
    struct kept *k = tape_take(run->kept, 1, sizeof *k);
    *k = (struct kept){
        .q = T(take)(run->kept, w->n * w->q),
        .k = T(take)(run->kept, w->n * w->k),
        .v = T(take)(run->kept, w->n * w->k),
        .gate = T(take)(run->kept, w->n * w->q),
        .q_turned = T(take)(run->kept, w->n * w->q),
        .k_turned = T(take)(run->kept, w->n * w->k),
        .attended = T(take)(run->kept, w->n * w->q),
        .gated = T(take)(run->kept, w->n * w->q),
    };
    return k;
}

/* The projection gives, head by head, a query and then its gate. */
static void split(const struct widths *w, const real *both, real *q, real *gate)
{
    for (size_t i = 0; i < w->n * w->q / w->dim; i++) {
        memcpy(q + i * w->dim, both + 2 * i * w->dim, w->dim * sizeof *q);
        memcpy(gate + i * w->dim, both + (2 * i + 1) * w->dim, w->dim * sizeof *gate);
    }
}

static void join(const struct widths *w, const real *q, const real *gate, real *both)
{
    for (size_t i = 0; i < w->n * w->q / w->dim; i++) {
        memcpy(both + 2 * i * w->dim, q + i * w->dim, w->dim * sizeof *q);
        memcpy(both + (2 * i + 1) * w->dim, gate + i * w->dim, w->dim * sizeof *gate);
    }
}

void *T(gated_attention_forward)(const struct run *run, const void *layer, const real *x, real *y)
{
    const struct attention *l = layer;
    struct widths w = widths_of(run, l);
    struct kept *k = kept_new(run, &w);
    struct tape_mark mark = tape_mark(run->scratch);
    bool bf16 = run->precision == PRECISION_BF16;
    real *both = T(take)(run->scratch, w.n * 2 * w.q);
    k->in_q = T(linear_forward)(run, &l->q, w.n, x, both);
    k->in_k = T(linear_forward)(run, &l->k, w.n, x, k->k);
    k->in_v = T(linear_forward)(run, &l->v, w.n, x, k->v);
    split(&w, both, k->q, k->gate);
    T(norm_forward)(run, &l->q_norm, w.n * w.q / w.dim, k->q, k->q_turned);
    T(norm_forward)(run, &l->k_norm, w.n * w.k / w.dim, k->k, k->k_turned);
    T(rope_forward)(run, w.q / w.dim, k->q_turned);
    T(rope_forward)(run, w.k / w.dim, k->k_turned);
    T(attention_forward)(run, l->module, k->q_turned, k->k_turned, k->v, k->attended);
    for (size_t i = 0; i < w.n * w.q; i++) {
        k->gated[i] = k->attended[i] * rows_stored(rows_sigmoid(k->gate[i]), bf16);
    }
    T(round_store)(run, k->gated, w.n * w.q);
    T(watch)(run, l->module, "gated", w.n, w.q, k->gated);
    k->out = T(linear_forward)(run, &l->o, w.n, k->gated, y);
    tape_rewind(run->scratch, mark);
    return k;
}

/* With s = sigmoid(gate), in place: d becomes the gradient of what was attended, dgate that of the
 * gate: d s and d attended s (1 - s). */
static void gate_backward(const struct run *run, const struct widths *w, const struct kept *k,
                          real *d, real *dgate)
{
    bool bf16 = run->precision == PRECISION_BF16;
    for (size_t i = 0; i < w->n * w->q; i++) {
        real s = rows_stored(rows_sigmoid(k->gate[i]), bf16);
        dgate[i] = rows_stored(d[i] * k->attended[i], bf16) * s * (1 - s);
        d[i] *= s;
    }
    T(round_store)(run, d, w->n * w->q);
    T(round_store)(run, dgate, w->n * w->q);
}

void T(gated_attention_backward)(const struct run *run, const void *layer, const void *kept,
                                 const real *x, const real *dy, real *dx)
{
    const struct attention *l = layer;
    const struct kept *k = kept;
    struct widths w = widths_of(run, l);
    struct tape_mark mark = tape_mark(run->scratch);
    real *d = T(take)(run->scratch, w.n * w.q), *dgate = T(take)(run->scratch, w.n * w.q);
    real *dq = T(take)(run->scratch, w.n * w.q), *both = T(take)(run->scratch, w.n * 2 * w.q);
    real *dk = T(take)(run->scratch, w.n * w.k), *dv = T(take)(run->scratch, w.n * w.k);
    T(linear_backward)(run, &l->o, w.n, k->out, k->gated, dy, d, GRADIENT_SET);
    gate_backward(run, &w, k, d, dgate);
    T(attention_backward)(run, k->q_turned, k->k_turned, k->v, d, dq, dk, dv);
    T(rope_backward)(run, w.q / w.dim, dq);
    T(rope_backward)(run, w.k / w.dim, dk);
    T(norm_backward)(run, &l->q_norm, w.n * w.q / w.dim, k->q, dq, dq);
    T(norm_backward)(run, &l->k_norm, w.n * w.k / w.dim, k->k, dk, dk);
    join(&w, dq, dgate, both);
    T(linear_backward)(run, &l->q, w.n, k->in_q, x, both, dx, GRADIENT_SET);
    T(linear_backward)(run, &l->k, w.n, k->in_k, x, dk, dx, GRADIENT_ADD);
    T(linear_backward)(run, &l->v, w.n, k->in_v, x, dv, dx, GRADIENT_ADD);
    tape_rewind(run->scratch, mark);
}
