// SPDX-License-Identifier: Apache-2.0
/* Rows of exponentials. */
#include "train/layer_parts.h"

double T(exp_row)(const struct compute *c, real *x, size_t n, real top)
{
    double sum = 0;
    (void)c;
    for (size_t i = 0; i < n; i++) {
        x[i] = R(exp)(x[i] - top);
        sum += (double)x[i];
    }
    return sum;
}

void T(exp_negative)(const struct compute *c, const real *x, size_t n, real *y)
{
    (void)c;
    for (size_t i = 0; i < n; i++) {
        y[i] = R(exp)(-x[i]);
    }
}
