// SPDX-License-Identifier: Apache-2.0
/* The pass of a Gated DeltaNet layer: linear_attention.h has the formulas and the parameters. */
#include "train/conv1d.h"
#include "train/delta.h"
#include "train/layer_parts.h"
#include "train/linear_attention.h"
#include "train/norm_gated.h"
#include "train/rows.h"

enum {
    CHUNK = 64 /* steps of a block, as transformers and flash-linear-attention have it */
};

/* What backward needs; all [tokens, ...]. */
struct kept {
    real *qkv, *pre, *mixed; /* before the convolution, before silu, after it */
    real *z, *a, *beta, *g;
    real *o, *y; /* of the rule, and after the norm */
    void *out, *in_qkv, *in_z, *in_b, *in_a;
};

static struct delta delta_of(const struct run *run)
{
    const struct linear_attention_config *c = &run->config->linear_attention;
    return (struct delta){
        .heads = c->heads,
        .v_heads = c->v_heads,
        .dim_k = c->dim_k,
        .dim_v = c->dim_v,
        .chunk = run->compute->reference ? 0 : CHUNK,
        .start = run->batch->start,
        .sequences = run->batch->sequences,
        .precision = run->precision,
        .compute = run->compute,
    };
}

static struct conv1d conv_of(const struct run *run, const struct linear_attention *l)
{
    return (struct conv1d){
        .channels = l->qkv.out,
        .taps = run->config->linear_attention.taps,
        .start = run->batch->start,
        .sequences = run->batch->sequences,
        .precision = run->precision,
        .threads = run->compute->threads,
    };
}

static struct norm_gated norm_of(const struct run *run)
{
    const struct linear_attention_config *c = &run->config->linear_attention;
    return (struct norm_gated){
        .rows = run->batch->tokens * c->v_heads,
        .width = c->dim_v,
        .eps = run->config->norm_eps,
        .precision = run->precision,
        .threads = run->compute->threads,
    };
}

static struct kept *kept_new(const struct run *run, const struct linear_attention *l)
{
    size_t n = run->batch->tokens;
    struct kept *k = tape_take(run->kept, 1, sizeof *k);
    *k = (struct kept){
        .qkv = T(take)(run->kept, n * l->qkv.out),
        .pre = T(take)(run->kept, n * l->qkv.out),
        .mixed = T(take)(run->kept, n * l->qkv.out),
        .z = T(take)(run->kept, n * l->z.out),
        .a = T(take)(run->kept, n * l->a.out),
        .beta = T(take)(run->kept, n * l->b.out),
        .g = T(take)(run->kept, n * l->a.out),
        .o = T(take)(run->kept, n * l->z.out),
        .y = T(take)(run->kept, n * l->z.out),
    };
    return k;
}

/* beta in place of b, and g from a: both small. g stays float32 in every precision. */
static void gates(const struct run *run, const struct linear_attention *l, struct kept *k)
{
    const real *a_log = l->a_log->value, *dt = l->dt_bias->value;
    size_t heads = l->a.out;
    for (size_t i = 0; i < run->batch->tokens * heads; i++) {
        k->beta[i] = rows_sigmoid(k->beta[i]);
        k->g[i] = -real_exp(a_log[i % heads]) * rows_softplus(k->a[i] + dt[i % heads]);
    }
    T(round_store)(run, k->beta, run->batch->tokens * heads);
}

void *T(linear_attention_forward)(const struct run *run, const void *layer, const real *x, real *y)
{
    const struct linear_attention *l = layer;
    size_t n = run->batch->tokens;
    struct kept *k = kept_new(run, l);
    struct delta d = delta_of(run);
    struct conv1d c = conv_of(run, l);
    struct norm_gated norm = norm_of(run);
    k->in_qkv = T(linear_forward)(run, &l->qkv, n, x, k->qkv);
    k->in_z = T(linear_forward)(run, &l->z, n, x, k->z);
    k->in_b = T(linear_forward)(run, &l->b, n, x, k->beta);
    k->in_a = T(linear_forward)(run, &l->a, n, x, k->a);
    T(conv1d_forward)(&c, k->qkv, l->conv->value, k->pre, k->mixed);
    T(watch)(run, l->module, "conv1d.output", n, c.channels, k->mixed);
    gates(run, l, k);
    T(delta_forward)(&d, k->mixed, k->g, k->beta, k->o);
    T(watch)(run, l->module, "delta_rule.output", n, l->z.out, k->o);
    T(norm_gated_forward)(&norm, k->o, k->z, l->norm->value, k->y);
    T(watch)(run, l->module, "norm.output", n, l->z.out, k->y);
    k->out = T(linear_forward)(run, &l->out, n, k->y, y);
    return k;
}

/* dA_log = sum dg g;  da = dg (-exp(A_log)) softplus'(a + dt_bias), which is also ddt_bias, summed;
 * db = dbeta beta (1 - beta). da and db take the place of dg and dbeta. */
static void gates_backward(const struct run *run, const struct linear_attention *l,
                           const struct kept *k, real *dg, real *dbeta)
{
    const real *a_log = l->a_log->value, *dt = l->dt_bias->value;
    size_t heads = l->a.out, n = run->batch->tokens;
    real *da_log = T(take)(run->scratch, heads), *ddt = T(take)(run->scratch, heads);
    memset(da_log, 0, heads * sizeof *da_log);
    memset(ddt, 0, heads * sizeof *ddt);
    for (size_t i = 0; i < n * heads; i++) {
        size_t h = i % heads;
        da_log[h] += dg[i] * k->g[i];
        dg[i] *= -real_exp(a_log[h]) * rows_softplus_slope(k->a[i] + dt[h]);
        ddt[h] += dg[i];
        dbeta[i] *= k->beta[i] * (1 - k->beta[i]);
    }
    T(grad_add)(run, l->a_log, da_log);
    T(grad_add)(run, l->dt_bias, ddt);
    T(round_store)(run, dg, n * heads);
    T(round_store)(run, dbeta, n * heads);
}

void T(linear_attention_backward)(const struct run *run, const void *layer, const void *kept,
                                  const real *x, const real *dy, real *dx)
{
    const struct linear_attention *l = layer;
    const struct kept *k = kept;
    size_t n = run->batch->tokens, v_width = l->z.out, heads = l->a.out;
    struct tape_mark mark = tape_mark(run->scratch);
    struct delta d = delta_of(run);
    struct conv1d c = conv_of(run, l);
    struct norm_gated norm = norm_of(run);
    real *d_y = T(take)(run->scratch, n * v_width), *d_o = T(take)(run->scratch, n * v_width);
    real *dz = T(take)(run->scratch, n * v_width), *dnorm = T(take)(run->scratch, norm.width);
    real *dmixed = T(take)(run->scratch, n * c.channels);
    real *dqkv = T(take)(run->scratch, n * c.channels);
    real *dconv = T(take)(run->scratch, c.channels * c.taps);
    real *dg = T(take)(run->scratch, n * heads), *dbeta = T(take)(run->scratch, n * heads);
    T(linear_backward)(run, &l->out, n, k->out, k->y, dy, d_y, GRADIENT_SET);
    T(watch)(run, l->module, "norm.grad_output", n, v_width, d_y);
    T(norm_gated_backward)(&norm, k->o, k->z, l->norm->value, d_y, d_o, dz, dnorm);
    T(grad_add)(run, l->norm, dnorm);
    T(watch)(run, l->module, "delta_rule.grad_output", n, v_width, d_o);
    T(delta_backward)(&d, k->mixed, k->g, k->beta, d_o, dmixed, dg, dbeta);
    T(conv1d_backward)(&c, k->qkv, l->conv->value, k->pre, dmixed, dqkv, dconv);
    T(grad_add)(run, l->conv, dconv);
    gates_backward(run, l, k, dg, dbeta);
    T(linear_backward)(run, &l->qkv, n, k->in_qkv, x, dqkv, dx, GRADIENT_SET);
    T(linear_backward)(run, &l->z, n, k->in_z, x, dz, dx, GRADIENT_ADD);
    T(linear_backward)(run, &l->b, n, k->in_b, x, dbeta, dx, GRADIENT_ADD);
    T(linear_backward)(run, &l->a, n, k->in_a, x, dg, dx, GRADIENT_ADD);
    tape_rewind(run->scratch, mark);
}
