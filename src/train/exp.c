// SPDX-License-Identifier: Apache-2.0
/* Rows of exponentials: by the C library in double and as reference, else by the CPU's kernel. */
#include "train/kernel.h"
#include "train/layer_parts.h"

static void exponentials(const struct compute *c, const real *x, size_t n, real sign, real top,
                         real *y)
{
    const struct T(kernel) *kernel = T(kernel_at)(0);
    if (kernel->exp != NULL && !c->reference) {
        kernel->exp(x, n, sign, top, y);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = real_exp(sign * x[i] - top);
    }
}

double T(exp_row)(const struct compute *c, real *x, size_t n, real top)
{
    exponentials(c, x, n, 1, top, x);
    return T(sum)(n, x);
}

void T(exp_negative)(const struct compute *c, const real *x, size_t n, real *y)
{
    exponentials(c, x, n, -1, 0, y);
}
