// SPDX-License-Identifier: Apache-2.0
/*
 * One value head of the gated delta rule, in its two forms. All arrays are dense and time-major:
 * q, k, dq, dk [time, dim_k]; v, o, dv [time, dim_v]; g, beta [time]; states [dim_k, dim_v].
 *
 *   P = exp(g[t]) S;  r = P^T k[t];  d = beta[t] (v[t] - r);  S = P + k[t] d^T;  o[t] = scale S^T q[t]
 *
 * The prediction r reads the decayed state, the output the updated one (Yang et al., Gated Delta
 * Networks, arXiv 2412.06464; flash-linear-attention's naive_recurrent_gated_delta_rule).
 */
#ifndef ASSAY_OPS_OP_DELTA_H
#define ASSAY_OPS_OP_DELTA_H

#include <stddef.h>

#include "base/arena.h"

struct delta_head {
    size_t time, dim_k, dim_v;
    double scale;
    const double *q, *k, *v, *g, *beta;
    const double *h0; /* NULL: zero */
    double *o, *last; /* last: state after the end */
    /* backward; unused by the forward functions */
    const double *d_o, *d_last; /* d_last may be NULL: zero */
    double *dq, *dk, *dv, *dg, *dbeta, *dh0;
    /* per step, for bounds: Frobenius norms of P, S and the gradient of S before its step back, of r,
     * d and the gradient of d; NULL: not wanted */
    struct delta_norms *norms;
};

struct delta_norms {
    double P, S, dS, r, d, dd;
};

/* Step by step. Backward recomputes states from one checkpoint every 64 steps. */
void delta_recurrent_forward(struct delta_head *h, struct arena *scratch);
void delta_recurrent_backward(struct delta_head *h, struct arena *scratch);

/* In blocks of `chunk` steps with the triangular inverse (the WY form); the last may be shorter.
 * `norms` is not filled. */
void delta_chunked_forward(struct delta_head *h, size_t chunk, struct arena *scratch);
void delta_chunked_backward(struct delta_head *h, size_t chunk, struct arena *scratch);

#endif
