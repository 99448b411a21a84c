// SPDX-License-Identifier: Apache-2.0
/*
 * Causal attention over packed sequences, and the token mixer around it.
 *
 * A block of BLOCK query rows of one head sees all its keys at once, so the softmax is the plain one
 * and its rounding points are those of an eager framework: scores stored, scaled and stored, softmax in
 * the arithmetic's format, probabilities stored. No matrix over all tokens exists; backward makes the
 * blocks again.
 */
#include "train/layer_parts.h"

enum {
    BLOCK = 64 /* query rows */
};

/* Rows first .. first + rows - 1 of a sequence that begins at token `start`. */
struct block {
    size_t start, first, rows;
};

struct attend {
    const struct run *run;
    const real *q, *k, *v, *dy;
    real *y, *dq, *dk, *dv;
    real *entropy; /* [tokens, heads]; NULL: not wanted */
    size_t q_width, kv_width, head_dim, group;
    const struct block *blocks;
    real *memory; /* of lane i from i * lane_reals on */
    size_t lane_reals;
};

/* One block of one query head: P[rows, keys] before it is stored. Masked entries are 0. */
static void probabilities(const struct attend *c, const struct block *b, size_t head, real *p)
{
    const struct run *run = c->run;
    size_t keys = b->first + b->rows;
    real scale = (real)(1 / sqrt((double)c->head_dim));
    const real *q = c->q + (b->start + b->first) * c->q_width + head * c->head_dim;
    const real *k = c->k + b->start * c->kv_width + head / c->group * c->head_dim;
    /* S[rows, keys] = Q[rows, d] K[keys, d]^T */
    T(gemm_part)
    (run->compute, false, true, b->rows, keys, c->head_dim, 1, q, c->q_width, k, c->kv_width, 0, p,
     keys);
    for (size_t i = 0; i < b->rows; i++) {
        real *row = p + i * keys;
        size_t seen = b->first + i + 1;
        for (size_t j = 0; j < seen; j++) {
            row[j] = T(store)(run, T(store)(run, row[j]) * scale);
        }
        double sum = T(exp_row)(run->compute, row, seen, T(largest)(seen, row));
        real inverse = (real)(1 / sum);
        for (size_t j = 0; j < seen; j++) {
            row[j] *= inverse;
        }
        memset(row + seen, 0, (keys - seen) * sizeof(real));
    }
}

static void store_all(const struct run *run, real *x, size_t n)
{
    for (size_t i = 0; run->precision == PRECISION_BF16 && i < n; i++) {
        x[i] = T(store)(run, x[i]);
    }
}

/* -sum p log p of each row, in nats, before the probabilities are stored. */
static void entropies(const struct attend *c, const struct block *b, size_t head, const real *p)
{
    size_t keys = b->first + b->rows;
    for (size_t i = 0; i < b->rows; i++) {
        double sum = 0;
        for (size_t j = 0; j <= b->first + i; j++) {
            double pj = (double)p[i * keys + j];
            sum -= pj == 0 ? 0 : pj * log(pj);
        }
        c->entropy[(b->start + b->first + i) * c->run->config->heads + head] = (real)sum;
    }
}

/* Item: one block of one query head. */
static void forward_items(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct attend *c = ctx;
    size_t heads = c->run->config->heads;
    real *p = c->memory + lane * c->lane_reals;
    for (size_t item = from; item < to; item++) {
        const struct block *b = &c->blocks[item / heads];
        size_t head = item % heads;
        size_t keys = b->first + b->rows;
        probabilities(c, b, head, p);
        if (c->entropy != NULL) {
            entropies(c, b, head, p);
        }
        store_all(c->run, p, b->rows * keys);
        /* Y[rows, d] = P[rows, keys] V[keys, d] */
        T(gemm_part)
        (c->run->compute, false, false, b->rows, c->head_dim, keys, 1, p, keys,
         c->v + b->start * c->kv_width + head / c->group * c->head_dim, c->kv_width, 0,
         c->y + (b->start + b->first) * c->q_width + head * c->head_dim, c->q_width);
    }
}

/* dS = scale * store(P * (dP - sum over keys of P dP)) in place of dP; P becomes what was stored. */
static void softmax_backward(const struct attend *c, size_t rows, size_t keys, real *p, real *dp)
{
    const struct run *run = c->run;
    real scale = (real)(1 / sqrt((double)c->head_dim));
    store_all(run, dp, rows * keys);
    for (size_t i = 0; i < rows; i++) {
        real *pi = p + i * keys;
        real *di = dp + i * keys;
        real mean = (real)T(dot)(keys, pi, di);
        for (size_t j = 0; j < keys; j++) {
            di[j] = T(store)(run, T(store)(run, pi[j] * (di[j] - mean)) * scale);
            pi[j] = T(store)(run, pi[j]);
        }
    }
}

/* One block of one query head: sets dq, adds to the head's dk and dv [sequence, head_dim]. With P made again,
 *   dP = dY V^T    dV += P^T dY    dS = softmax backward of dP    dQ = dS K    dK += dS^T Q
 * all of [rows, keys], [rows, d] or [keys, d]. p and dp: room for [rows, keys]. */
static void backward_block(const struct attend *c, const struct block *b, size_t head, real *p,
                           real *dp, real *dk, real *dv)
{
    const struct compute *compute = c->run->compute;
    size_t d = c->head_dim;
    size_t keys = b->first + b->rows;
    size_t q_at = (b->start + b->first) * c->q_width + head * d;
    size_t kv_at = b->start * c->kv_width + head / c->group * d;
    probabilities(c, b, head, p);
    /* dP = dY V^T */
    T(gemm_part)
    (compute, false, true, b->rows, keys, d, 1, c->dy + q_at, c->q_width, c->v + kv_at, c->kv_width,
     0, dp, keys);
    softmax_backward(c, b->rows, keys, p, dp);
    /* dV += P^T dY */
    T(gemm_part)
    (compute, true, false, keys, d, b->rows, 1, p, keys, c->dy + q_at, c->q_width, 1, dv, d);
    /* dQ = dS K */
    T(gemm_part)
    (compute, false, false, b->rows, d, keys, 1, dp, keys, c->k + kv_at, c->kv_width, 0,
     c->dq + q_at, c->q_width);
    /* dK += dS^T Q */
    T(gemm_part)
    (compute, true, false, keys, d, b->rows, 1, dp, keys, c->q + q_at, c->q_width, 1, dk, d);
}

/* dk and dv of one key head: the heads that share it are stored one by one, then summed. */
static void add_head(const struct attend *c, size_t start, size_t length, size_t kv_head,
                     const real *d_head, real *d_all)
{
    for (size_t t = 0; t < length; t++) {
        const real *from = d_head + t * c->head_dim;
        real *to = d_all + (start + t) * c->kv_width + kv_head * c->head_dim;
        for (size_t i = 0; i < c->head_dim; i++) {
            to[i] += T(store)(c->run, from[i]);
        }
    }
}

/* Item: one key head of one sequence, so that its gradients have one writer. */
static void backward_items(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct attend *c = ctx;
    const struct train_batch *batch = c->run->batch;
    size_t kv_heads = c->run->config->kv_heads;
    for (size_t item = from; item < to; item++) {
        size_t start = batch->start[item / kv_heads];
        size_t length = batch->start[item / kv_heads + 1] - start;
        size_t kv_head = item % kv_heads;
        real *p = c->memory + lane * c->lane_reals;
        real *dp = p + BLOCK * length;
        real *dk = dp + BLOCK * length;
        real *dv = dk + length * c->head_dim;
        for (size_t h = kv_head * c->group; h < (kv_head + 1) * c->group; h++) {
            memset(dk, 0, length * c->head_dim * sizeof(real));
            memset(dv, 0, length * c->head_dim * sizeof(real));
            for (size_t first = 0; first < length; first += BLOCK) {
                size_t rows = length - first < BLOCK ? length - first : BLOCK;
                const struct block b = {.start = start, .first = first, .rows = rows};
                backward_block(c, &b, h, p, dp, dk, dv);
            }
            add_head(c, start, length, kv_head, dk, c->dk);
            add_head(c, start, length, kv_head, dv, c->dv);
        }
    }
}

static struct attend attend_of(const struct run *run, const real *q, const real *k, const real *v)
{
    const struct model_config *m = run->config;
    return (struct attend){.run = run,
                           .q = q,
                           .k = k,
                           .v = v,
                           .q_width = m->heads * m->head_dim,
                           .kv_width = m->kv_heads * m->head_dim,
                           .head_dim = m->head_dim,
                           .group = m->heads / m->kv_heads};
}

static size_t longest(const struct train_batch *b)
{
    size_t most = 0;
    for (size_t s = 0; s < b->sequences; s++) {
        size_t n = b->start[s + 1] - b->start[s];
        most = n > most ? n : most;
    }
    return most;
}

static void lane_memory(struct attend *c, size_t reals)
{
    c->lane_reals = (reals + 15) / 16 * 16;
    c->memory = T(take)(c->run->scratch, c->lane_reals * c->run->compute->threads);
}

void T(attention_forward)(const struct run *run, const char *module, const real *q, const real *k,
                          const real *v, real *y)
{
    const struct train_batch *b = run->batch;
    struct tape_mark mark = tape_mark(run->scratch);
    struct attend c = attend_of(run, q, k, v);
    struct block *blocks = tape_take(run->scratch, b->tokens / BLOCK + b->sequences,
                                     sizeof *blocks);
    size_t count = 0;
    for (size_t s = 0; s < b->sequences; s++) {
        size_t length = b->start[s + 1] - b->start[s];
        for (size_t first = 0; first < length; first += BLOCK) {
            size_t rows = length - first < BLOCK ? length - first : BLOCK;
            blocks[count++] = (struct block){.start = b->start[s], .first = first, .rows = rows};
        }
    }
    c.blocks = blocks;
    c.y = y;
    if (run->watch != NULL) {
        c.entropy = T(take)(run->scratch, b->tokens * run->config->heads);
    }
    lane_memory(&c, BLOCK * longest(b));
    compute_parts(run->compute, count * run->config->heads, 1, forward_items, &c);
    T(round_store)(run, y, b->tokens * c.q_width);
    if (c.entropy != NULL) {
        T(watch)(run, module, "entropy", b->tokens, run->config->heads, c.entropy);
    }
    tape_rewind(run->scratch, mark);
}

void T(attention_backward)(const struct run *run, const real *q, const real *k, const real *v,
                           const real *dy, real *dq, real *dk, real *dv)
{
    const struct train_batch *b = run->batch;
    struct tape_mark mark = tape_mark(run->scratch);
    struct attend c = attend_of(run, q, k, v);
    size_t n = longest(b);
    c.dy = dy;
    c.dq = dq;
    c.dk = dk;
    c.dv = dv;
    lane_memory(&c, 2 * (BLOCK + c.head_dim) * n);
    memset(dk, 0, b->tokens * c.kv_width * sizeof(real));
    memset(dv, 0, b->tokens * c.kv_width * sizeof(real));
    compute_parts(run->compute, b->sequences * run->config->kv_heads, 1, backward_items, &c);
    T(round_store)(run, dq, b->tokens * c.q_width);
    T(round_store)(run, dk, b->tokens * c.kv_width);
    T(round_store)(run, dv, b->tokens * c.kv_width);
    tape_rewind(run->scratch, mark);
}

/* ---- the mixer: projections, head norms, rotation, attention, projection ---- */

struct kept {
    real *q_raw, *k_raw; /* before the head norms; NULL without them */
    real *q, *k, *v;     /* as attention saw them */
    real *mixed;         /* its output */
    void *q_low, *k_low, *v_low, *o_low;
};

/* x, y [tokens, hidden]; q and mixed [tokens, heads * head_dim], k and v [tokens, kv_heads * head_dim]. */
void *T(attention_layer_forward)(const struct run *run, const void *layer, const real *x, real *y)
{
    const struct attention *l = layer;
    const struct model_config *m = run->config;
    size_t n = run->batch->tokens;
    struct kept *s = tape_take(run->kept, 1, sizeof *s);
    *s = (struct kept){0};
    s->q = T(take)(run->kept, n * l->q.out);
    s->k = T(take)(run->kept, n * l->k.out);
    s->v = T(take)(run->kept, n * l->v.out);
    s->mixed = T(take)(run->kept, n * l->o.in);
    if (l->q_norm.weight != NULL) {
        s->q_raw = T(take)(run->kept, n * l->q.out);
        s->k_raw = T(take)(run->kept, n * l->k.out);
        s->q_low = T(linear_forward)(run, &l->q, n, x, s->q_raw);
        s->k_low = T(linear_forward)(run, &l->k, n, x, s->k_raw);
        T(norm_forward)(run, &l->q_norm, n * m->heads, s->q_raw, s->q);
        T(norm_forward)(run, &l->k_norm, n * m->kv_heads, s->k_raw, s->k);
    } else {
        s->q_low = T(linear_forward)(run, &l->q, n, x, s->q);
        s->k_low = T(linear_forward)(run, &l->k, n, x, s->k);
    }
    s->v_low = T(linear_forward)(run, &l->v, n, x, s->v);
    T(rope_forward)(run, m->heads, s->q);
    T(rope_forward)(run, m->kv_heads, s->k);
    T(attention_forward)(run, l->module, s->q, s->k, s->v, s->mixed);
    T(watch)(run, l->module, "mixed", n, l->o.in, s->mixed);
    s->o_low = T(linear_forward)(run, &l->o, n, s->mixed, y);
    return s;
}

/* The same steps in reverse order: o, attention, rotation, head norms, then dx = that of v + k + q. */
void T(attention_layer_backward)(const struct run *run, const void *layer, const void *kept,
                                 const real *x, const real *dy, real *dx)
{
    const struct attention *l = layer;
    const struct kept *s = kept;
    const struct model_config *m = run->config;
    size_t n = run->batch->tokens;
    struct tape_mark mark = tape_mark(run->scratch);
    real *dmixed = T(take)(run->scratch, n * l->o.in);
    real *dq = T(take)(run->scratch, n * l->q.out);
    real *dk = T(take)(run->scratch, n * l->k.out);
    real *dv = T(take)(run->scratch, n * l->v.out);
    T(linear_backward)(run, &l->o, n, s->o_low, s->mixed, dy, dmixed, GRADIENT_SET);
    T(attention_backward)(run, s->q, s->k, s->v, dmixed, dq, dk, dv);
    T(rope_backward)(run, m->heads, dq);
    T(rope_backward)(run, m->kv_heads, dk);
    if (l->q_norm.weight != NULL) {
        T(norm_backward)(run, &l->q_norm, n * m->heads, s->q_raw, dq, dq);
        T(norm_backward)(run, &l->k_norm, n * m->kv_heads, s->k_raw, dk, dk);
    }
    T(linear_backward)(run, &l->v, n, s->v_low, x, dv, dx, GRADIENT_SET);
    T(linear_backward)(run, &l->k, n, s->k_low, x, dk, dx, GRADIENT_ADD);
    T(linear_backward)(run, &l->q, n, s->q_low, x, dq, dx, GRADIENT_ADD);
    tape_rewind(run->scratch, mark);
}
