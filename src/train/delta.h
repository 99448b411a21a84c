// SPDX-License-Identifier: Apache-2.0
/*
 * The gated delta rule of Gated DeltaNet layers (Yang et al., arXiv 2412.06464), forward and backward,
 * over packed sequences: each starts with an empty state. Per value head, S [dim_k, dim_v]:
 *
 *   P = exp(g) S;  d = beta (v - P^T k);  S = P + k d^T;  o = S^T q / sqrt(dim_k)
 *
 * with q and k divided by sqrt(sum of squares + 1e-6) first. The prediction reads the decayed state,
 * the output the updated one. Value head h uses key head h / (v_heads / heads). Two forms, equal in
 * exact arithmetic: step by step, and in blocks (the form that transformers and
 * flash-linear-attention train with). Sums over copies of a key head and over time run in one order,
 * whatever the number of threads.
 */
#ifndef ASSAY_TRAIN_DELTA_H
#define ASSAY_TRAIN_DELTA_H

#include <stddef.h>

#include "train/compute.h"
#include "train/real.h"

struct delta {
    size_t heads;   /* of queries and keys */
    size_t v_heads; /* a multiple of heads */
    size_t dim_k;
    size_t dim_v;
    size_t chunk;        /* steps of a block; 0: step by step */
    const size_t *start; /* [sequences + 1] */
    size_t sequences;
    enum precision precision; /* bfloat16: o and gradients of stored tensors are rounded */
    const struct compute *compute;
};

/* qkv [tokens, 2 heads dim_k + v_heads dim_v], a row being queries, keys, values, head by head; g (the
 * logarithm of the decay, at most 0) and beta [tokens, v_heads]; o [tokens, v_heads dim_v] is set. */
void T(delta_forward)(const struct delta *d, const real *qkv, const real *g, const real *beta,
                      real *o);

/* Of the same operands and the gradient of o: sets dqkv, dg and dbeta. */
void T(delta_backward)(const struct delta *d, const real *qkv, const real *g, const real *beta,
                       const real *d_o, real *dqkv, real *dg, real *dbeta);

#endif
