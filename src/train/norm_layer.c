// SPDX-License-Identifier: Apache-2.0
#include "train/norm_layer.h"

#include "train/rows.h"

struct moments {
    real mean, inverse; /* inverse: 1 / sqrt(variance + eps) */
};

/* The mean first, then the squares about it: no cancellation. */
static struct moments moments_of(const struct norm_layer *n, const real *x)
{
    real sum = 0, squares = 0;
    for (size_t i = 0; i < n->width; i++) {
        sum += x[i];
    }
    real mean = sum / (real)n->width;
    for (size_t i = 0; i < n->width; i++) {
        squares += (x[i] - mean) * (x[i] - mean);
    }
    return (struct moments){mean, 1 / real_sqrt(squares / (real)n->width + (real)n->eps)};
}

void T(norm_layer_forward)(const struct norm_layer *n, const real *x, const real *weight,
                           const real *bias, real *y)
{
    bool bf16 = n->precision == PRECISION_BF16;
    for (size_t row = 0; row < n->rows; row++) {
        const real *from = x + row * n->width;
        struct moments m = moments_of(n, from);
        for (size_t i = 0; i < n->width; i++) {
            y[row * n->width + i] = rows_stored(
                (from[i] - m.mean) * m.inverse * weight[i] + bias[i], bf16);
        }
    }
}

/* With h = (x - mean) inverse and u = dy weight: dx = inverse (u - mean(u) - h mean(u h)) */
void T(norm_layer_backward)(const struct norm_layer *n, const real *x, const real *weight,
                            const real *dy, real *dx, real *dweight, real *dbias)
{
    bool bf16 = n->precision == PRECISION_BF16;
    size_t width = n->width;
    memset(dweight, 0, width * sizeof *dweight);
    memset(dbias, 0, width * sizeof *dbias);
    for (size_t row = 0; row < n->rows; row++) {
        const real *from = x + row * width, *d = dy + row * width;
        struct moments m = moments_of(n, from);
        real mean_u = 0, mean_uh = 0;
        for (size_t i = 0; i < width; i++) {
            real h = (from[i] - m.mean) * m.inverse, u = d[i] * weight[i];
            dweight[i] += d[i] * h;
            dbias[i] += d[i];
            mean_u += u;
            mean_uh += u * h;
        }
        mean_u /= (real)width;
        mean_uh /= (real)width;
        for (size_t i = 0; i < width; i++) {
            real h = (from[i] - m.mean) * m.inverse;
            dx[row * width + i] = rows_stored(m.inverse * (d[i] * weight[i] - mean_u - h * mean_uh),
                                              bf16);
        }
    }
}
