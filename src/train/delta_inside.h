// SPDX-License-Identifier: Apache-2.0
/* One sequence of one value head of the gated delta rule, gathered: between delta.c and its two forms.
 * q and k are normalised already; all arrays are dense and time-major. */
#ifndef ASSAY_TRAIN_DELTA_INSIDE_H
#define ASSAY_TRAIN_DELTA_INSIDE_H

#include <stddef.h>

#include "base/arena.h"

#include "train/compute.h"
#include "train/real.h"

struct delta_head {
    const struct compute *compute;
    size_t time, dim_k, dim_v;
    real scale;
    const real *q, *k; /* [time, dim_k] */
    const real *v;     /* [time, dim_v] */
    const real *g, *beta;
    real *o;         /* [time, dim_v], set by forward */
    const real *d_o; /* the rest is for backward */
    real *dq, *dk;   /* added to: value heads share them */
    real *dv;        /* set */
    real *dg, *dbeta;
};

void T(delta_step_forward)(const struct delta_head *h, struct arena *scratch);
void T(delta_step_backward)(const struct delta_head *h, struct arena *scratch);
void T(delta_chunk_forward)(const struct delta_head *h, size_t chunk, struct arena *scratch);
void T(delta_chunk_backward)(const struct delta_head *h, size_t chunk, struct arena *scratch);

#endif
