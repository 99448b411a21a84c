// SPDX-License-Identifier: Apache-2.0
/*
 * The gated delta rule in blocks, as flash-linear-attention and transformers compute it, and its
 * gradient. Within a block of n steps, G the running sum of g, Gamma[i][j] = exp(G[i] - G[j]) for
 * i >= j (the upper triangle, which would overflow, is never formed):
 *   A = strict_lower(beta K K^T . Gamma);  T = (I + A)^-1;  U = T (beta V);  W = T (beta exp(G) K)
 *   N = U - W S;  M = lower(scale Q K^T . Gamma);  O = scale exp(G) Q S + M N
 *   S' = exp(G[n]) S + (exp(G[n] - G) K)^T N
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops/op_delta.h"

struct chunk {
    size_t n; /* steps */
    const double *q, *k, *v, *beta;
    double *G, *eG;     /* [n]: running sum of g, its exponential */
    double *A, *T, *M;  /* [n, n] */
    double *X, *U, *N;  /* [n, dim_v] */
    double *Y, *W, *Kb; /* [n, dim_k] */
};

/* c[m, n] += op(a) op(b), sum over k; a is stored [k, m] when `ta`, b [n, k] when `tb`. */
static void add_product(double *c, const double *a, const double *b, size_t m, size_t n, size_t k,
                        bool ta, bool tb)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t t = 0; t < k; t++) {
            double x = ta ? a[t * m + i] : a[i * k + t];
            const double *y = tb ? b + t : b + t * n;
            size_t step = tb ? k : 1;
            for (size_t j = 0; x != 0 && j < n; j++) {
                c[i * n + j] += x * y[j * step];
            }
        }
    }
}

static double gamma_of(const struct chunk *c, size_t i, size_t j)
{
    return exp(c->G[i] - c->G[j]);
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static double *zeros(struct arena *a, size_t count)
{
    return arena_array(a, count, sizeof(double));
}

/* Everything of a block that does not depend on the state. */
static void prepare(const struct delta_head *h, size_t from, size_t n, struct arena *a,
                    struct chunk *c)
{
    size_t K = h->dim_k, V = h->dim_v;
    *c = (struct chunk){.n = n,
                        .q = h->q + from * K,
                        .k = h->k + from * K,
                        .v = h->v + from * V,
                        .beta = h->beta + from,
                        .G = zeros(a, n),
                        .eG = zeros(a, n),
                        .A = zeros(a, n * n),
                        .T = zeros(a, n * n),
                        .M = zeros(a, n * n),
                        .X = zeros(a, n * V),
                        .U = zeros(a, n * V),
                        .N = zeros(a, n * V),
                        .Y = zeros(a, n * K),
                        .W = zeros(a, n * K),
                        .Kb = zeros(a, n * K)};
    for (size_t i = 0; i < n; i++) {
        c->G[i] = h->g[from + i] + (i ? c->G[i - 1] : 0);
        c->eG[i] = exp(c->G[i]);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            double decay = gamma_of(c, i, j);
            c->M[i * n + j] = h->scale * decay * dot(c->q + i * K, c->k + j * K, K);
            if (j < i) {
                c->A[i * n + j] = c->beta[i] * decay * dot(c->k + i * K, c->k + j * K, K);
            }
        }
        c->T[i * n + i] = 1;
        for (size_t j = 0; j < i; j++) {
            for (size_t l = j; l < i; l++) {
                c->T[i * n + j] -= c->A[i * n + l] * c->T[l * n + j];
            }
        }
        for (size_t j = 0; j < V; j++) {
            c->X[i * V + j] = c->beta[i] * c->v[i * V + j];
        }
        double tail = exp(c->G[n - 1] - c->G[i]);
        for (size_t j = 0; j < K; j++) {
            c->Y[i * K + j] = c->beta[i] * c->eG[i] * c->k[i * K + j];
            c->Kb[i * K + j] = tail * c->k[i * K + j];
        }
    }
    add_product(c->U, c->T, c->X, n, V, n, false, false);
    add_product(c->W, c->T, c->Y, n, K, n, false, false);
}

/* N = U - W S */
static void correct(const struct delta_head *h, struct chunk *c, const double *state)
{
    memset(c->N, 0, c->n * h->dim_v * sizeof(double));
    add_product(c->N, c->W, state, c->n, h->dim_v, h->dim_k, false, false);
    for (size_t i = 0; i < c->n * h->dim_v; i++) {
        c->N[i] = c->U[i] - c->N[i];
    }
}

/* S becomes exp(G[n]) S + Kb^T N */
static void advance(const struct delta_head *h, const struct chunk *c, double *state)
{
    for (size_t i = 0; i < h->dim_k * h->dim_v; i++) {
        state[i] *= c->eG[c->n - 1];
    }
    add_product(state, c->Kb, c->N, h->dim_k, h->dim_v, c->n, true, false);
}

static void start(const struct delta_head *h, double *state)
{
    for (size_t i = 0; i < h->dim_k * h->dim_v; i++) {
        state[i] = h->h0 ? h->h0[i] : 0;
    }
}

void delta_chunked_forward(struct delta_head *h, size_t chunk, struct arena *scratch)
{
    size_t K = h->dim_k, V = h->dim_v;
    start(h, h->last);
    for (size_t from = 0; from < h->time; from += chunk) {
        struct arena_mark mark = arena_mark(scratch);
        size_t n = h->time - from < chunk ? h->time - from : chunk;
        struct chunk c;
        prepare(h, from, n, scratch, &c);
        correct(h, &c, h->last);
        double *o = h->o + from * V;
        memset(o, 0, n * V * sizeof *o);
        add_product(o, c.q, h->last, n, V, K, false, false);
        for (size_t i = 0; i < n * V; i++) {
            o[i] *= h->scale * c.eG[i / V];
        }
        add_product(o, c.M, c.N, n, V, n, false, false);
        advance(h, &c, h->last);
        arena_rewind(scratch, mark);
    }
}

/* ---- backward ---- */

/* Gradients inside a block. */
struct chunk_back {
    double *dG;                 /* [n] */
    double *dN, *dX;            /* [n, dim_v] */
    double *dM, *dT, *dA;       /* [n, n] */
    double *dW, *dY, *dKb, *qS; /* [n, dim_k]; qS = do S^T */
    double *dS;                 /* next gradient of the state */
};

static struct chunk_back back_new(const struct delta_head *h, size_t n, struct arena *a)
{
    size_t K = h->dim_k, V = h->dim_v;
    return (struct chunk_back){
        .dG = zeros(a, n),
        .dN = zeros(a, n * V),
        .dX = zeros(a, n * V),
        .dM = zeros(a, n * n),
        .dT = zeros(a, n * n),
        .dA = zeros(a, n * n),
        .dW = zeros(a, n * K),
        .dY = zeros(a, n * K),
        .dKb = zeros(a, n * K),
        .qS = zeros(a, n * K),
        .dS = zeros(a, K * V),
    };
}

/* dN = M^T dO + Kb dS';  dM = lower(dO N^T);  dKb = N dS'^T;  qS = dO S^T
 * dS = exp(G[n]) dS' + scale (exp(G) Q)^T dO - W^T dN */
static void back_through_output(const struct delta_head *h, const struct chunk *c,
                                const double *d_o, const double *state, const double *dS_next,
                                struct arena *a, struct chunk_back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    double *scaled = zeros(a, n * K), *minus = zeros(a, n * V);
    add_product(b->dN, c->M, d_o, n, V, n, true, false);
    add_product(b->dN, c->Kb, dS_next, n, V, K, false, false);
    add_product(b->dM, d_o, c->N, n, n, V, false, true);
    add_product(b->dKb, c->N, dS_next, n, K, V, false, true);
    add_product(b->qS, d_o, state, n, K, V, false, true);
    for (size_t i = 0; i < n * K; i++) {
        scaled[i] = h->scale * c->eG[i / K] * c->q[i];
    }
    for (size_t i = 0; i < n * V; i++) {
        minus[i] = -b->dN[i];
    }
    for (size_t i = 0; i < K * V; i++) {
        b->dS[i] = c->eG[n - 1] * dS_next[i];
    }
    add_product(b->dS, scaled, d_o, K, V, n, true, false);
    add_product(b->dS, c->W, minus, K, V, n, true, false);
    add_product(b->dW, minus, state, n, K, V, false, true);
}

/* dT = dU X^T + dW Y^T with dU = dN;  dX = T^T dU;  dY = T^T dW;  dA = strict_lower(-T^T dT T^T) */
static void back_through_inverse(const struct delta_head *h, const struct chunk *c, struct arena *a,
                                 struct chunk_back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    double *left = zeros(a, n * n);
    add_product(b->dT, b->dN, c->X, n, n, V, false, true);
    add_product(b->dT, b->dW, c->Y, n, n, K, false, true);
    add_product(b->dX, c->T, b->dN, n, V, n, true, false);
    add_product(b->dY, c->T, b->dW, n, K, n, true, false);
    add_product(left, c->T, b->dT, n, n, n, true, false);
    add_product(b->dA, left, c->T, n, n, n, false, true);
    for (size_t i = 0; i < n * n; i++) {
        b->dA[i] = i % n < i / n ? -b->dA[i] : 0;
    }
}

/* Adds the part of a pair (i, j), j <= i: scores of M and, below the diagonal, of A. */
static void back_through_pair(struct delta_head *h, const struct chunk *c, size_t from, size_t i,
                              size_t j, struct chunk_back *b)
{
    size_t K = h->dim_k, n = c->n;
    double decay = gamma_of(c, i, j);
    double m = b->dM[i * n + j] * decay * h->scale;
    double e = j < i ? b->dA[i * n + j] * decay : 0;
    double *dq = h->dq + (from + i) * K, *dki = h->dk + (from + i) * K,
           *dkj = h->dk + (from + j) * K;
    const double *q = c->q + i * K, *ki = c->k + i * K, *kj = c->k + j * K;
    double sum = 0;
    for (size_t x = 0; x < K; x++) {
        dq[x] += m * kj[x];
        dkj[x] += m * q[x] + e * c->beta[i] * ki[x];
        dki[x] += e * c->beta[i] * kj[x];
        sum += ki[x] * kj[x];
    }
    h->dbeta[from + i] += e * sum;
    double flow = b->dM[i * n + j] * c->M[i * n + j] + b->dA[i * n + j] * c->A[i * n + j];
    b->dG[i] += flow;
    b->dG[j] -= flow;
}

/* The parts of a single step, and the running sum of dG from the end. */
static void back_through_steps(struct delta_head *h, const struct chunk *c, size_t from,
                               struct chunk_back *b)
{
    size_t K = h->dim_k, V = h->dim_v, n = c->n;
    for (size_t i = 0; i < n; i++) {
        double tail = exp(c->G[n - 1] - c->G[i]), to_last = 0;
        for (size_t x = 0; x < K; x++) {
            size_t at = i * K + x, out = from * K + at;
            double read = h->scale * c->eG[i] * b->qS[at];
            h->dq[out] += read;
            h->dk[out] += tail * b->dKb[at] + c->beta[i] * c->eG[i] * b->dY[at];
            h->dbeta[from + i] += c->eG[i] * c->k[at] * b->dY[at];
            b->dG[i] += read * c->q[at] + c->Y[at] * b->dY[at];
            to_last += c->Kb[at] * b->dKb[at];
        }
        b->dG[i] -= to_last;
        b->dG[n - 1] += to_last;
        for (size_t x = 0; x < V; x++) {
            h->dv[(from + i) * V + x] = c->beta[i] * b->dX[i * V + x];
            h->dbeta[from + i] += c->v[i * V + x] * b->dX[i * V + x];
        }
    }
    double sum = 0;
    for (size_t i = n; i-- > 0;) {
        sum += b->dG[i];
        h->dg[from + i] = sum;
    }
}

static void back_chunk(struct delta_head *h, size_t from, size_t n, const double *state,
                       struct arena *a)
{
    struct chunk c;
    prepare(h, from, n, a, &c);
    correct(h, &c, state);
    struct chunk_back b = back_new(h, n, a);
    back_through_output(h, &c, h->d_o + from * h->dim_v, state, h->dh0, a, &b);
    back_through_inverse(h, &c, a, &b);
    b.dG[n - 1] += c.eG[n - 1] * dot(state, h->dh0, h->dim_k * h->dim_v);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            back_through_pair(h, &c, from, i, j, &b);
        }
    }
    back_through_steps(h, &c, from, &b);
    memcpy(h->dh0, b.dS, h->dim_k * h->dim_v * sizeof(double));
}

void delta_chunked_backward(struct delta_head *h, size_t chunk, struct arena *scratch)
{
    size_t size = h->dim_k * h->dim_v, chunks = (h->time + chunk - 1) / chunk;
    struct arena_mark mark = arena_mark(scratch);
    double *states = zeros(scratch, (chunks + 1) * size);
    start(h, states);
    for (size_t i = 0; i < chunks; i++) {
        struct arena_mark inner = arena_mark(scratch);
        size_t from = i * chunk, n = h->time - from < chunk ? h->time - from : chunk;
        struct chunk c;
        prepare(h, from, n, scratch, &c);
        correct(h, &c, states + i * size);
        memcpy(states + (i + 1) * size, states + i * size, size * sizeof(double));
        advance(h, &c, states + (i + 1) * size);
        arena_rewind(scratch, inner);
    }
    memset(h->dq, 0, h->time * h->dim_k * sizeof(double));
    memset(h->dk, 0, h->time * h->dim_k * sizeof(double));
    memset(h->dbeta, 0, h->time * sizeof(double));
    for (size_t i = 0; i < size; i++) {
        h->dh0[i] = h->d_last ? h->d_last[i] : 0;
    }
    for (size_t i = chunks; i-- > 0;) {
        struct arena_mark inner = arena_mark(scratch);
        size_t from = i * chunk, n = h->time - from < chunk ? h->time - from : chunk;
        back_chunk(h, from, n, states + i * size, scratch);
        arena_rewind(scratch, inner);
    }
    arena_rewind(scratch, mark);
}
