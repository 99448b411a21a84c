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
    real *A, *M;       /* [n, n], 0 above the diagonal */
    real *U, *N;       /* [n, dim_v] */
    real *W;           /* [n, dim_k] */
    real *head, *tail; /* [n]: exp(G[i]), exp(G[n-1] - G[i]) */
    real *q_read;      /* [n, dim_k]: scale exp(G) q, by which a step reads the state */
    real *k_write;     /* [n, dim_k]: exp(G[n-1] - G) k, by which it writes the next one */
};

static real *reals(struct arena *a, size_t count)
{
    return arena_array(a, count, sizeof(real));
}

/* Dense operands; out[m, n] = alpha op(a) op(b) + beta out. */
static void product(const struct delta_head *h, bool ta, bool tb, size_t m, size_t n, size_t k,
                    real alpha, const real *a, const real *b, real beta, real *out)
{
    T(gemm_part)
    (h->compute, ta, tb, m, n, k, alpha, a, ta ? m : k, b, tb ? k : n, beta, out, n);
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
        .q_read = reals(a, most * h->dim_k),
        .k_write = reals(a, most * h->dim_k),
    };
}

static void scores(const struct delta_head *h, struct chunk *c)
{
    size_t K = h->dim_k, n = c->n;
    product(h, false, true, n, n, K, 1, c->k, c->k, 0, c->kk);
    product(h, false, true, n, n, K, h->scale, c->q, c->k, 0, c->M);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            size_t at = i * n + j;
            c->decay[at] = j <= i ? real_exp(c->G[i] - c->G[j]) : 0;
            c->A[at] = j < i ? c->beta[i] * c->decay[at] * c->kk[at] : 0;
            c->M[at] = j <= i ? c->decay[at] * c->M[at] : 0;
        }
    }
}

static void decays(const struct delta_head *h, size_t from, struct chunk *c)
{
    size_t n = c->n, K = h->dim_k;
    for (size_t i = 0; i < n; i++) {
        c->G[i] = h->g[from + i] + (i ? c->G[i - 1] : 0);
        c->head[i] = real_exp(c->G[i]);
        rows_set(c->q_read + i * K, c->q + i * K, h->scale * c->head[i], K);
    }
    for (size_t i = 0; i < n; i++) {
        c->tail[i] = real_exp(c->G[n - 1] - c->G[i]);
        rows_set(c->k_write + i * K, c->k + i * K, c->tail[i], K);
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
    decays(h, from, c);
    scores(h, c);
    for (size_t i = 0; i < n; i++) {
        real *U = c->U + i * V, *W = c->W + i * K;
        rows_set(U, c->v + i * V, c->beta[i], V);
        rows_set(W, c->k + i * K, c->beta[i] * c->head[i], K);
        for (size_t j = 0; j < i; j++) {
            rows_add(U, c->U + j * V, -c->A[i * n + j], V);
            rows_add(W, c->W + j * K, -c->A[i * n + j], K);
        }
    }
    memcpy(c->N, c->U, n * V * sizeof(real));
    product(h, false, false, n, V, K, -1, c->W, S, 1, c->N);
}

/* S' of the file's head comment, in place. */
static void chunk_advance(const struct delta_head *h, const struct chunk *c, real *S)
{
    size_t size = h->dim_k * h->dim_v;
    for (size_t i = 0; i < size; i++) {
        S[i] *= c->head[c->n - 1];
    }
    product(h, true, false, h->dim_k, h->dim_v, c->n, 1, c->k_write, c->N, 1, S);
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
        product(h, false, false, n, V, K, 1, c.q_read, S, 0, h->o + from * V);
        product(h, false, false, n, V, n, 1, c.M, c.N, 1, h->o + from * V);
        chunk_advance(h, &c, S);
    }
    arena_rewind(scratch, mark);
}

/* ---- backward ---- */

struct back {
    real *dG;
    real *dN;      /* [n, dim_v], then the gradient of beta v */
    real *dW;      /* [n, dim_k], then that of beta exp(G) k */
    real *dM, *dA; /* [n, n], then what they give to q.k and beta k.k */
    real *read;    /* [n, dim_k]: gradient of q by its read of the state */
    real *write;   /* [n, dim_k]: gradient of k by its write to the next */
    real *dS;      /* [dim_k, dim_v]: gradient of the state after the block */
    real *dS_before;
};

/* dN = M^T dO + k_write dS';  dW = -dN S^T;  dS = exp(G[n-1]) dS' + q_read^T dO - W^T dN */
static void back_to_state(const struct delta_head *h, const struct chunk *c, const real *d_o,
                          const real *S, const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    product(h, true, false, n, V, n, 1, c->M, d_o, 0, b->dN);
    product(h, false, false, n, V, K, 1, c->k_write, b->dS, 1, b->dN);
    product(h, false, true, n, K, V, -1, b->dN, S, 0, b->dW);
    rows_set(b->dS_before, b->dS, c->head[n - 1], K * V);
    product(h, true, false, K, V, n, 1, c->q_read, d_o, 1, b->dS_before);
    product(h, true, false, K, V, n, -1, c->W, b->dN, 1, b->dS_before);
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

/* dM = dO N^T (what i reads of j) and dA = -(X U^T + Y W^T) (what i foresees of j), both below the
 * diagonal, dM on it too; and from them the gradients of q, k, beta and of the decays between. */
static void back_through_pairs(const struct delta_head *h, const struct chunk *c, size_t from,
                               const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    real *dq = h->dq + from * K, *dk = h->dk + from * K;
    product(h, false, true, n, n, V, 1, h->d_o + from * V, c->N, 0, b->dM);
    product(h, false, true, n, n, V, -1, b->dN, c->U, 0, b->dA);
    product(h, false, true, n, n, K, -1, b->dW, c->W, 1, b->dA);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            size_t at = i * n + j;
            real dM = j <= i ? b->dM[at] : 0, e = j < i ? b->dA[at] * c->decay[at] : 0;
            real flow = dM * c->M[at] + (j < i ? b->dA[at] * c->A[at] : 0);
            b->dG[i] += flow;
            b->dG[j] -= flow;
            h->dbeta[from + i] += j < i ? e * c->kk[at] : 0;
            b->dM[at] = dM * c->decay[at] * h->scale;
            b->dA[at] = e * c->beta[i];
        }
    }
    product(h, false, false, n, K, n, 1, b->dM, c->k, 1, dq);
    product(h, true, false, n, K, n, 1, b->dM, c->q, 1, dk);
    product(h, false, false, n, K, n, 1, b->dA, c->k, 1, dk);
    product(h, true, false, n, K, n, 1, b->dA, c->k, 1, dk);
}

/* What each step has alone: its read of the state, its write to it, and beta v, beta exp(G) k. */
static void back_through_steps(const struct delta_head *h, const struct chunk *c, size_t from,
                               const real *S, const struct back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    product(h, false, true, n, K, V, h->scale, h->d_o + from * V, S, 0, b->read);
    product(h, false, true, n, K, V, 1, c->N, b->dS, 0, b->write);
    for (size_t i = 0; i < n; i++) {
        real *read = b->read + i * K, *write = b->write + i * K, *dY = b->dW + i * K;
        real *dk = h->dk + (from + i) * K, weight = c->beta[i] * c->head[i];
        real foresee = rows_dot(c->k + i * K, dY, K);
        real reads = c->head[i] * rows_dot(read, c->q + i * K, K);
        real writes = c->tail[i] * rows_dot(write, c->k + i * K, K);
        rows_add(h->dq + (from + i) * K, read, c->head[i], K);
        rows_add(dk, write, c->tail[i], K);
        rows_add(dk, dY, weight, K);
        h->dbeta[from + i] += c->head[i] * foresee + rows_dot(c->v + i * V, b->dN + i * V, V);
        rows_set(h->dv + (from + i) * V, b->dN + i * V, c->beta[i], V);
        b->dG[i] += reads + weight * foresee - writes;
        b->dG[n - 1] += writes;
    }
}

static void chunk_back(const struct delta_head *h, const struct chunk *c, size_t from,
                       const real *S, struct back *b)
{
    size_t n = c->n, size = h->dim_k * h->dim_v;
    back_to_state(h, c, h->d_o + from * h->dim_v, S, b);
    back_through_solve(h, c, b);
    memset(b->dG, 0, n * sizeof *b->dG);
    memset(h->dbeta + from, 0, n * sizeof *h->dbeta);
    b->dG[n - 1] = c->head[n - 1] * rows_dot(S, b->dS, size);
    back_through_pairs(h, c, from, b);
    back_through_steps(h, c, from, S, b);
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
        .dM = reals(scratch, most * most),
        .dA = reals(scratch, most * most),
        .read = reals(scratch, most * h->dim_k),
        .write = reals(scratch, most * h->dim_k),
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
