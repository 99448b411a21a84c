// SPDX-License-Identifier: Apache-2.0
/*
 * The gated delta rule in blocks of n steps. G is the running sum of g inside the block, S the state
 * before it, decay[i][j] = exp(G[i] - G[j]) for i >= j (the upper triangle would overflow):
 *
 *   A[i][j] = beta[i] decay[i][j] k[i].k[j]   (j < i)      L = I + A
 *   U = L^-1 (beta v),  W = L^-1 (beta exp(G) k),  N = U - W S
 *   M[i][j] = scale decay[i][j] q[i].k[j]     (j <= i)     O = scale exp(G) q S + M N
 *   S' = exp(G[n-1]) S + sum over i of exp(G[n-1] - G[i]) k[i] N[i]^T
 *
 * N holds what each step writes. Running sums of g and of its gradient are reals, float32 in float32, as
 * in the kernels: their cancellation is most of the error of A_log's gradient, and an error that is
 * expected of others has to be made here too. Step by step there are no such sums.
 */
#include <string.h>

#include "train/delta_inside.h"
#include "train/rows.h"

struct chunk {
    size_t n;
    const real *q, *k, *v, *beta;
    real *G;
    real *decay, *kk;  /* [n, n]: decay, k[i].k[j], both for j <= i */
    real *A, *M;       /* [n, n] */
    real *U, *N;       /* [n, dim_v] */
    real *W;           /* [n, dim_k] */
    real *head, *tail; /* [n]: exp(G[i]), exp(G[n-1] - G[i]) */
};

static real *reals(struct arena *a, size_t count)
{
    return arena_array(a, count, sizeof(real));
}

static struct chunk chunk_new(const struct delta_head *h, size_t most, struct arena *a)
{
    return (struct chunk){
        .G = reals(a, most),
        .decay = reals(a, most * most),
        .kk = reals(a, most * most),
        .A = reals(a, most * most),
        .M = reals(a, most * most),
        .U = reals(a, most * h->dim_v),
        .N = reals(a, most * h->dim_v),
        .W = reals(a, most * h->dim_k),
        .head = reals(a, most),
        .tail = reals(a, most),
    };
}

static void scores(const struct delta_head *h, struct chunk *c)
{
    size_t K = h->dim_k, n = c->n;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            size_t at = i * n + j;
            c->decay[at] = real_exp(c->G[i] - c->G[j]);
            c->kk[at] = rows_dot(c->k + i * K, c->k + j * K, K);
            c->A[at] = j < i ? c->beta[i] * c->decay[at] * c->kk[at] : 0;
            c->M[at] = h->scale * c->decay[at] * rows_dot(c->q + i * K, c->k + j * K, K);
        }
    }
}

/* Everything of a block that does not depend on the state, then N = U - W S. */
static void chunk_fill(const struct delta_head *h, size_t from, size_t n, const real *S,
                       struct chunk *c)
{
    size_t K = h->dim_k, V = h->dim_v;
    c->n = n;
    c->q = h->q + from * K;
    c->k = h->k + from * K;
    c->v = h->v + from * V;
    c->beta = h->beta + from;
    for (size_t i = 0; i < n; i++) {
        c->G[i] = h->g[from + i] + (i ? c->G[i - 1] : 0);
        c->head[i] = real_exp(c->G[i]);
    }
    for (size_t i = 0; i < n; i++) {
        c->tail[i] = real_exp(c->G[n - 1] - c->G[i]);
    }
    scores(h, c);
    for (size_t i = 0; i < n; i++) {
        real *U = c->U + i * V, *W = c->W + i * K, *N = c->N + i * V;
        rows_set(U, c->v + i * V, c->beta[i], V);
        rows_set(W, c->k + i * K, c->beta[i] * c->head[i], K);
        for (size_t j = 0; j < i; j++) {
            rows_add(U, c->U + j * V, -c->A[i * n + j], V);
            rows_add(W, c->W + j * K, -c->A[i * n + j], K);
        }
        memcpy(N, U, V * sizeof *N);
        for (size_t x = 0; x < K; x++) {
            rows_add(N, S + x * V, -W[x], V);
        }
    }
}

/* S' of the file's head comment, in place. */
static void chunk_advance(const struct delta_head *h, const struct chunk *c, real *S)
{
    size_t K = h->dim_k, V = h->dim_v;
    for (size_t x = 0; x < K; x++) {
        real *row = S + x * V;
        for (size_t j = 0; j < V; j++) {
            row[j] *= c->head[c->n - 1];
        }
        for (size_t i = 0; i < c->n; i++) {
            rows_add(row, c->N + i * V, c->tail[i] * c->k[i * K + x], V);
        }
    }
}

void T(delta_chunk_forward)(const struct delta_head *h, size_t chunk, struct arena *scratch)
{
    size_t K = h->dim_k, V = h->dim_v;
    struct arena_mark mark = arena_mark(scratch);
    struct chunk c = chunk_new(h, chunk < h->time ? chunk : h->time, scratch);
    real *S = reals(scratch, K * V);
    for (size_t from = 0; from < h->time; from += chunk) {
        size_t n = h->time - from < chunk ? h->time - from : chunk;
        chunk_fill(h, from, n, S, &c);
        for (size_t i = 0; i < n; i++) {
            real *o = h->o + (from + i) * V;
            memset(o, 0, V * sizeof *o);
            for (size_t x = 0; x < K; x++) {
                rows_add(o, S + x * V, h->scale * c.head[i] * c.q[i * K + x], V);
            }
            for (size_t j = 0; j <= i; j++) {
                rows_add(o, c.N + j * V, c.M[i * n + j], V);
            }
        }
        chunk_advance(h, &c, S);
    }
    arena_rewind(scratch, mark);
}

/* ---- backward ---- */

struct back {
    real *dG;
    real *dN; /* [n, dim_v], then the gradient of beta v */
    real *dW; /* [n, dim_k], then that of beta exp(G) k */
    real *dS; /* [dim_k, dim_v]: gradient of the state after the block */
    real *dS_before;
};

/* dN = M^T dO + tail k dS';  dW = -S dN;  dS = exp(G[n-1]) dS' + scale exp(G) q dO^T - W^T dN */
static void back_to_state(const struct delta_head *h, const struct chunk *c, size_t from,
                          const real *S, const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    rows_set(b->dS_before, b->dS, c->head[n - 1], K * V);
    for (size_t j = 0; j < n; j++) {
        real *dN = b->dN + j * V;
        memset(dN, 0, V * sizeof *dN);
        for (size_t i = j; i < n; i++) {
            rows_add(dN, h->d_o + (from + i) * V, c->M[i * n + j], V);
        }
        for (size_t x = 0; x < K; x++) {
            rows_add(dN, b->dS + x * V, c->tail[j] * c->k[j * K + x], V);
        }
        for (size_t x = 0; x < K; x++) {
            b->dW[j * K + x] = -rows_dot(S + x * V, dN, V);
            rows_add(b->dS_before + x * V, h->d_o + (from + j) * V,
                     h->scale * c->head[j] * c->q[j * K + x], V);
            rows_add(b->dS_before + x * V, dN, -c->W[j * K + x], V);
        }
    }
}

/* Solves L^T X = dN and L^T Y = dW in place. */
static void back_through_solve(const struct delta_head *h, const struct chunk *c,
                               const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    for (size_t i = n; i-- > 0;) {
        for (size_t j = 0; j < i; j++) {
            rows_add(b->dN + j * V, b->dN + i * V, -c->A[i * n + j], V);
            rows_add(b->dW + j * K, b->dW + i * K, -c->A[i * n + j], K);
        }
    }
}

/* The pair j <= i: through M (what i reads of j) and, below the diagonal, A (what i foresees of j). */
static void back_through_pair(const struct delta_head *h, const struct chunk *c, size_t from,
                              size_t i, size_t j, const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n, at = i * n + j;
    real dM = rows_dot(h->d_o + (from + i) * V, c->N + j * V, V);
    real m = dM * c->decay[at] * h->scale;
    rows_add(h->dq + (from + i) * K, c->k + j * K, m, K);
    rows_add(h->dk + (from + j) * K, c->q + i * K, m, K);
    real flow = dM * c->M[at];
    if (j < i) {
        real dA = -(rows_dot(b->dN + i * V, c->U + j * V, V) +
                    rows_dot(b->dW + i * K, c->W + j * K, K));
        real e = dA * c->decay[at];
        rows_add(h->dk + (from + i) * K, c->k + j * K, e * c->beta[i], K);
        rows_add(h->dk + (from + j) * K, c->k + i * K, e * c->beta[i], K);
        h->dbeta[from + i] += e * c->kk[at];
        flow += dA * c->A[at];
    }
    b->dG[i] += flow;
    b->dG[j] -= flow;
}

/* What step i has alone: its read of the state, its write to it, and beta v, beta exp(G) k. */
static void back_through_step(const struct delta_head *h, const struct chunk *c, size_t from,
                              size_t i, const real *S, const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    const real *q = c->q + i * K, *k = c->k + i * K, *dY = b->dW + i * K;
    real *dq = h->dq + (from + i) * K, *dk = h->dk + (from + i) * K;
    real read = 0, write = 0, foresee = rows_dot(k, dY, K);
    for (size_t x = 0; x < K; x++) {
        real qS = h->scale * c->head[i] * rows_dot(S + x * V, h->d_o + (from + i) * V, V);
        real to_state = c->tail[i] * rows_dot(b->dS + x * V, c->N + i * V, V);
        dq[x] += qS;
        dk[x] += to_state + c->beta[i] * c->head[i] * dY[x];
        read += qS * q[x];
        write += to_state * k[x];
    }
    h->dbeta[from + i] += c->head[i] * foresee + rows_dot(c->v + i * V, b->dN + i * V, V);
    rows_set(h->dv + (from + i) * V, b->dN + i * V, c->beta[i], V);
    b->dG[i] += read + c->beta[i] * c->head[i] * foresee - write;
    b->dG[n - 1] += write;
}

static void chunk_back(const struct delta_head *h, const struct chunk *c, size_t from,
                       const real *S, struct back *b)
{
    size_t n = c->n, size = h->dim_k * h->dim_v;
    back_to_state(h, c, from, S, b);
    back_through_solve(h, c, b);
    memset(b->dG, 0, n * sizeof *b->dG);
    memset(h->dbeta + from, 0, n * sizeof *h->dbeta);
    b->dG[n - 1] = c->head[n - 1] * rows_dot(S, b->dS, size);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            back_through_pair(h, c, from, i, j, b);
        }
        back_through_step(h, c, from, i, S, b);
    }
    real sum = 0;
    for (size_t i = n; i-- > 0;) {
        sum += b->dG[i];
        h->dg[from + i] = sum;
    }
    real *swap = b->dS;
    b->dS = b->dS_before;
    b->dS_before = swap;
}

void T(delta_chunk_backward)(const struct delta_head *h, size_t chunk, struct arena *scratch)
{
    size_t size = h->dim_k * h->dim_v, chunks = (h->time + chunk - 1) / chunk;
    size_t most = chunk < h->time ? chunk : h->time;
    struct arena_mark mark = arena_mark(scratch);
    struct chunk c = chunk_new(h, most, scratch);
    struct back b = {
        .dG = reals(scratch, most),
        .dN = reals(scratch, most * h->dim_v),
        .dW = reals(scratch, most * h->dim_k),
        .dS = reals(scratch, size),
        .dS_before = reals(scratch, size),
    };
    real *states = reals(scratch, chunks * size);
    for (size_t i = 0; i + 1 < chunks; i++) {
        chunk_fill(h, i * chunk, chunk, states + i * size, &c);
        memcpy(states + (i + 1) * size, states + i * size, size * sizeof(real));
        chunk_advance(h, &c, states + (i + 1) * size);
    }
    for (size_t i = chunks; i-- > 0;) {
        size_t from = i * chunk, n = h->time - from < chunk ? h->time - from : chunk;
        chunk_fill(h, from, n, states + i * size, &c);
        chunk_back(h, &c, from, states + i * size, &b);
    }
    arena_rewind(scratch, mark);
}
