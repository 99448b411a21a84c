// SPDX-License-Identifier: Apache-2.0
/*
 * The causal depthwise convolution of Gated DeltaNet layers, with SiLU after it, over packed sequences
 * (zero before the start of each):
 *
 *   y[t][c] = silu(sum over j of weight[c][j] x[t - (taps - 1) + j][c])
 *
 * a cross-correlation as torch's Conv1d: the last tap belongs to the current token. No bias.
 */
#ifndef ASSAY_TRAIN_CONV1D_H
#define ASSAY_TRAIN_CONV1D_H

#include <stddef.h>

#include "train/real.h"

enum {
    CONV1D_TAPS_MAX = 64
};

struct conv1d {
    size_t channels;
    size_t taps;         /* 1 to CONV1D_TAPS_MAX */
    const size_t *start; /* [sequences + 1] */
    size_t sequences;
    enum precision precision;
    unsigned threads; /* 0: all cores */
};

/* x, y [tokens, channels], weight [channels, taps]; pre [tokens, channels], the value before silu, is
 * kept for backward. */
void T(conv1d_forward)(const struct conv1d *c, const real *x, const real *weight, real *pre,
                       real *y);

/* Sets dx and dweight (NULL: not wanted). */
void T(conv1d_backward)(const struct conv1d *c, const real *x, const real *weight, const real *pre,
                        const real *dy, real *dx, real *dweight);

#endif
