// SPDX-License-Identifier: Apache-2.0
/* The gated delta rule step by step, and its gradient by walking the steps back. */
#include <math.h>
#include <string.h>

#include "ops/op_delta.h"

enum {
    CHECKPOINT = 64
};

static double norm(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

/* One step on `state`, which is S before and after; r and d [dim_v] are left for the caller. When
 * `decayed` is given, P is copied there. */
static void step(const struct delta_head *h, size_t t, double *state, double *decayed, double *r,
                 double *d)
{
    const double *k = h->k + t * h->dim_k, *v = h->v + t * h->dim_v;
    double decay = exp(h->g[t]);
    memset(r, 0, h->dim_v * sizeof *r);
    for (size_t i = 0; i < h->dim_k; i++) {
        double *row = state + i * h->dim_v;
        for (size_t j = 0; j < h->dim_v; j++) {
            row[j] *= decay;
            r[j] += k[i] * row[j];
        }
    }
    if (decayed) {
        memcpy(decayed, state, h->dim_k * h->dim_v * sizeof *state);
    }
    for (size_t j = 0; j < h->dim_v; j++) {
        d[j] = h->beta[t] * (v[j] - r[j]);
    }
    for (size_t i = 0; i < h->dim_k; i++) {
        for (size_t j = 0; j < h->dim_v; j++) {
            state[i * h->dim_v + j] += k[i] * d[j];
        }
    }
}

static void start(const struct delta_head *h, double *state)
{
    size_t bytes = h->dim_k * h->dim_v * sizeof *state;
    if (h->h0) {
        memcpy(state, h->h0, bytes);
    } else {
        memset(state, 0, bytes);
    }
}

static void record(const struct delta_head *h, size_t t, const double *decayed, const double *state,
                   const double *r, const double *d)
{
    if (h->norms) {
        struct delta_norms *n = &h->norms[t];
        n->P = norm(decayed, h->dim_k * h->dim_v);
        n->S = norm(state, h->dim_k * h->dim_v);
        n->r = norm(r, h->dim_v);
        n->d = norm(d, h->dim_v);
    }
}

void delta_recurrent_forward(struct delta_head *h, struct arena *scratch)
{
    size_t size = h->dim_k * h->dim_v;
    struct arena_mark mark = arena_mark(scratch);
    double *r = arena_array(scratch, h->dim_v, sizeof(double));
    double *d = arena_array(scratch, h->dim_v, sizeof(double));
    double *decayed = h->norms ? arena_array(scratch, size, sizeof(double)) : NULL;
    double *state = h->last;
    start(h, state);
    for (size_t t = 0; t < h->time; t++) {
        const double *q = h->q + t * h->dim_k;
        double *o = h->o + t * h->dim_v;
        step(h, t, state, decayed, r, d);
        record(h, t, decayed, state, r, d);
        memset(o, 0, h->dim_v * sizeof *o);
        for (size_t i = 0; i < h->dim_k; i++) {
            for (size_t j = 0; j < h->dim_v; j++) {
                o[j] += h->scale * q[i] * state[i * h->dim_v + j];
            }
        }
    }
    arena_rewind(scratch, mark);
}

/* What one step back works on. */
struct back {
    double *dS;          /* gradient of the state, in and out */
    const double *P, *S; /* decayed and updated state of the step */
    const double *r, *d; /* prediction and correction of the step */
    double *dd, *dr;     /* [dim_v] */
};

/* dS += s q do^T; dq = s S do; dk = dS d; dd = dS^T k; dbeta = dd.(v - r); dv = beta dd;
 * dr = -beta dd; dk += P dr; dP = dS + k dr^T; dg = <P, dP>; dS becomes exp(g) dP */
static void step_back(struct delta_head *h, size_t t, const struct back *b)
{
    const double *q = h->q + t * h->dim_k, *k = h->k + t * h->dim_k, *d_o = h->d_o + t * h->dim_v;
    double *dq = h->dq + t * h->dim_k, *dk = h->dk + t * h->dim_k;
    double decay = exp(h->g[t]), along = 0, dbeta = 0;
    memset(b->dd, 0, h->dim_v * sizeof *b->dd);
    for (size_t i = 0; i < h->dim_k; i++) {
        double *dS = b->dS + i * h->dim_v;
        const double *S = b->S + i * h->dim_v;
        double sum_q = 0, sum_k = 0;
        for (size_t j = 0; j < h->dim_v; j++) {
            dS[j] += h->scale * q[i] * d_o[j];
            sum_q += S[j] * d_o[j];
            sum_k += dS[j] * b->d[j];
            b->dd[j] += dS[j] * k[i];
        }
        dq[i] = h->scale * sum_q;
        dk[i] = sum_k;
    }
    for (size_t j = 0; j < h->dim_v; j++) {
        dbeta += b->dd[j] * (h->v[t * h->dim_v + j] - b->r[j]);
        h->dv[t * h->dim_v + j] = h->beta[t] * b->dd[j];
        b->dr[j] = -h->beta[t] * b->dd[j];
    }
    if (h->norms) {
        h->norms[t].dS = norm(b->dS, h->dim_k * h->dim_v);
        h->norms[t].dd = norm(b->dd, h->dim_v);
    }
    for (size_t i = 0; i < h->dim_k; i++) {
        double *dS = b->dS + i * h->dim_v;
        const double *P = b->P + i * h->dim_v;
        double sum_k = 0;
        for (size_t j = 0; j < h->dim_v; j++) {
            sum_k += P[j] * b->dr[j];
            dS[j] += k[i] * b->dr[j];
            along += P[j] * dS[j];
            dS[j] *= decay;
        }
        dk[i] += sum_k;
    }
    h->dg[t] = along;
    h->dbeta[t] = dbeta;
}

/* States of one block, replayed from its first one, then walked back. */
struct block {
    double *P, *S, *r, *d; /* of each step of the block */
};

static void walk_block(struct delta_head *h, size_t from, size_t to, const double *checkpoint,
                       const struct block *w, struct back *b)
{
    size_t size = h->dim_k * h->dim_v;
    for (size_t t = from; t < to; t++) {
        size_t i = t - from;
        memcpy(w->S + i * size, i ? w->S + (i - 1) * size : checkpoint, size * sizeof(double));
        step(h, t, w->S + i * size, w->P + i * size, w->r + i * h->dim_v, w->d + i * h->dim_v);
        record(h, t, w->P + i * size, w->S + i * size, w->r + i * h->dim_v, w->d + i * h->dim_v);
    }
    for (size_t t = to; t-- > from;) {
        size_t i = t - from;
        b->P = w->P + i * size;
        b->S = w->S + i * size;
        b->r = w->r + i * h->dim_v;
        b->d = w->d + i * h->dim_v;
        step_back(h, t, b);
    }
}

void delta_recurrent_backward(struct delta_head *h, struct arena *scratch)
{
    size_t size = h->dim_k * h->dim_v, blocks = (h->time + CHECKPOINT - 1) / CHECKPOINT;
    struct arena_mark mark = arena_mark(scratch);
    double *checkpoints = arena_array(scratch, blocks * size, sizeof(double));
    double *state = arena_array(scratch, size, sizeof(double));
    struct block w = {
        .P = arena_array(scratch, CHECKPOINT * size, sizeof(double)),
        .S = arena_array(scratch, CHECKPOINT * size, sizeof(double)),
        .r = arena_array(scratch, CHECKPOINT * h->dim_v, sizeof(double)),
        .d = arena_array(scratch, CHECKPOINT * h->dim_v, sizeof(double)),
    };
    struct back b = {
        .dS = h->dh0,
        .dd = arena_array(scratch, h->dim_v, sizeof(double)),
        .dr = arena_array(scratch, h->dim_v, sizeof(double)),
    };
    start(h, state);
    for (size_t t = 0; t < h->time; t++) {
        if (t % CHECKPOINT == 0) {
            memcpy(checkpoints + t / CHECKPOINT * size, state, size * sizeof(double));
        }
        step(h, t, state, NULL, w.r, w.d);
    }
    for (size_t i = 0; i < size; i++) {
        b.dS[i] = h->d_last ? h->d_last[i] : 0;
    }
    for (size_t block = blocks; block-- > 0;) {
        size_t from = block * CHECKPOINT, end = from + CHECKPOINT;
        walk_block(h, from, end < h->time ? end : h->time, checkpoints + block * size, &w, &b);
    }
    arena_rewind(scratch, mark);
}
