// SPDX-License-Identifier: Apache-2.0
/*
 * The three-dimensional convolution whose stride is its kernel, by its definition: what patch
 * embedding is declared as. When every volume is one kernel, as the patches of a batch are, it is the
 * linear layer of the same weight seen as [out, in temporal height width]: the tower computes that, and
 * this when plain loops are asked for.
 *
 *   y[b][o][d][h][w] = bias[o] + sum over c i j k of
 *                      weight[o][c][i][j][k] x[b][c][d kd + i][h kh + j][w kw + k]
 */
#ifndef ASSAY_TRAIN_CONV3D_H
#define ASSAY_TRAIN_CONV3D_H

#include <stddef.h>

#include "train/real.h"

struct conv3d {
    size_t batch, in, out;
    size_t size[3];   /* of x: depth, height, width; multiples of the kernel */
    size_t kernel[3]; /* and stride */
    enum precision precision;
};

/* x [batch, in, depth, height, width], weight [out, in, kernel...], bias [out],
 * y [batch, out, depth / kernel, height / kernel, width / kernel]. */
void T(conv3d_forward)(const struct conv3d *c, const real *x, const real *weight, const real *bias,
                       real *y);

/* Sets dx (NULL: not wanted), dweight and dbias. */
void T(conv3d_backward)(const struct conv3d *c, const real *x, const real *weight, const real *dy,
                        real *dx, real *dweight, real *dbias);

#endif
