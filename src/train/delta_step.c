// SPDX-License-Identifier: Apache-2.0
/* The gated delta rule step by step: the definition, and the form that the blocks are held against. */
#include <string.h>

#include "train/delta_inside.h"
#include "train/rows.h"

enum {
    SEGMENT = 64 /* steps between two states kept for backward */
};

/* One step: S becomes exp(g) S + k d^T. `r` and `d` are left for backward: the prediction and what is
 * written. */
static void step(const struct delta_head *h, size_t t, real *S, real *r, real *d)
{
    size_t K = h->dim_k, V = h->dim_v;
    const real *k = h->k + t * K, *v = h->v + t * V;
    real decay = real_exp(h->g[t]);
    memset(r, 0, V * sizeof *r);
    for (size_t i = 0; i < K; i++) {
        real *row = S + i * V;
        for (size_t j = 0; j < V; j++) {
            row[j] *= decay;
        }
        rows_add(r, row, k[i], V);
    }
    for (size_t j = 0; j < V; j++) {
        d[j] = h->beta[t] * (v[j] - r[j]);
    }
    for (size_t i = 0; i < K; i++) {
        rows_add(S + i * V, d, k[i], V);
    }
}

void T(delta_step_forward)(const struct delta_head *h, struct arena *scratch)
{
    size_t K = h->dim_k, V = h->dim_v;
    struct arena_mark mark = arena_mark(scratch);
    real *S = arena_array(scratch, K * V, sizeof *S);
    real *r = arena_array(scratch, V, sizeof *r), *d = arena_array(scratch, V, sizeof *d);
    for (size_t t = 0; t < h->time; t++) {
        step(h, t, S, r, d);
        real *o = h->o + t * V;
        memset(o, 0, V * sizeof *o);
        for (size_t i = 0; i < K; i++) {
            rows_add(o, S + i * V, h->scale * h->q[t * K + i], V);
        }
    }
    arena_rewind(scratch, mark);
}

/* What a step of backward needs beside the operands. */
struct back {
    real *S; /* [SEGMENT + 1, dim_k, dim_v]: states before each step of a segment, and after it */
    real *r, *d;   /* [SEGMENT, dim_v] */
    real *dS;      /* gradient of the state after the step */
    real *dd, *dr; /* [dim_v] */
};

/* dS += scale q do^T;  dq = scale S do;  dk = dS d;  dd = dS^T k;  dbeta = dd (v - r);  dv = beta dd;
 * dr = -dv;  dk += P dr;  dP = dS + k dr^T;  dg = <P, dP>;  dS = exp(g) dP */
static void step_back(const struct delta_head *h, size_t t, size_t in_segment, const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v;
    const real *before = b->S + in_segment * K * V, *after = before + K * V;
    const real *r = b->r + in_segment * V, *d = b->d + in_segment * V;
    const real *q = h->q + t * K, *k = h->k + t * K, *d_o = h->d_o + t * V;
    real decay = real_exp(h->g[t]), dbeta = 0, dg = 0;
    memset(b->dd, 0, V * sizeof(real));
    for (size_t i = 0; i < K; i++) {
        real *dS = b->dS + i * V;
        rows_add(dS, d_o, h->scale * q[i], V);
        h->dq[t * K + i] += h->scale * rows_dot(after + i * V, d_o, V);
        h->dk[t * K + i] += rows_dot(dS, d, V);
        rows_add(b->dd, dS, k[i], V);
    }
    for (size_t j = 0; j < V; j++) {
        dbeta += b->dd[j] * (h->v[t * V + j] - r[j]);
        h->dv[t * V + j] = h->beta[t] * b->dd[j];
        b->dr[j] = -h->beta[t] * b->dd[j];
    }
    for (size_t i = 0; i < K; i++) {
        real *dS = b->dS + i * V;
        const real *S = before + i * V;
        h->dk[t * K + i] += decay * rows_dot(S, b->dr, V);
        rows_add(dS, b->dr, k[i], V);
        dg += decay * rows_dot(S, dS, V);
        for (size_t j = 0; j < V; j++) {
            dS[j] *= decay;
        }
    }
    h->dbeta[t] = dbeta;
    h->dg[t] = dg;
}

static void keep_segment(const struct delta_head *h, size_t from, size_t n, const struct back *b)
{
    size_t size = h->dim_k * h->dim_v;
    for (size_t i = 0; i < n; i++) {
        memcpy(b->S + (i + 1) * size, b->S + i * size, size * sizeof(real));
        step(h, from + i, b->S + (i + 1) * size, b->r + i * h->dim_v, b->d + i * h->dim_v);
    }
}

void T(delta_step_backward)(const struct delta_head *h, struct arena *scratch)
{
    size_t V = h->dim_v, size = h->dim_k * V, segments = (h->time + SEGMENT - 1) / SEGMENT;
    struct arena_mark mark = arena_mark(scratch);
    struct back b = {
        .S = arena_array(scratch, (SEGMENT + 1) * size, sizeof(real)),
        .r = arena_array(scratch, SEGMENT * V, sizeof(real)),
        .d = arena_array(scratch, SEGMENT * V, sizeof(real)),
        .dS = arena_array(scratch, size, sizeof(real)),
        .dd = arena_array(scratch, V, sizeof(real)),
        .dr = arena_array(scratch, V, sizeof(real)),
    };
    real *first = arena_array(scratch, (segments + 1) * size, sizeof *first);
    for (size_t i = 0; i < segments; i++) {
        real *next = first + (i + 1) * size;
        memcpy(next, first + i * size, size * sizeof *next);
        for (size_t t = i * SEGMENT; t < h->time && t < (i + 1) * SEGMENT; t++) {
            step(h, t, next, b.r, b.d);
        }
    }
    for (size_t i = segments; i-- > 0;) {
        size_t from = i * SEGMENT, n = h->time - from < SEGMENT ? h->time - from : SEGMENT;
        memcpy(b.S, first + i * size, size * sizeof(real));
        keep_segment(h, from, n, &b);
        for (size_t t = n; t-- > 0;) {
            step_back(h, from + t, t, &b);
        }
    }
    arena_rewind(scratch, mark);
}
