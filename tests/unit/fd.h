// SPDX-License-Identifier: Apache-2.0
/*
 * Gradients against finite differences, in double: a function of several arrays, its gradient by each,
 * and the relative error |fd - gradient| / |gradient| of each array. Differences are of fourth order
 * with a step of 2e-5, good to about 1e-10 for functions of size 1; larger steps miss the bend of a
 * normalised query that is almost 0.
 */
#ifndef ASSAY_TESTS_FD_H
#define ASSAY_TESTS_FD_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "unit.h"

struct fd_tensor {
    const char *name;
    double *value;
    const double *grad;
    size_t count;
};

typedef double fd_loss_fn(void *ctx);

/* Numbers in [-1, 1), the same on every machine. */
static inline double fd_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-52 - 1;
}

static inline void fd_fill(double *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = fd_random(&seed);
    }
}

static inline double fd_slope(double *x, fd_loss_fn *loss, void *ctx)
{
    const double h = 2e-5, was = *x;
    double f[4];
    for (int i = 0; i < 4; i++) {
        static const int steps[4] = {-2, -1, 1, 2};
        *x = was + steps[i] * h;
        f[i] = loss(ctx);
    }
    *x = was;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

/* At most about `most` elements of each tensor, evenly spread (0: all). */
static inline void fd_check(const struct fd_tensor *t, size_t tensors, size_t most,
                            double tolerance, fd_loss_fn *loss, void *ctx)
{
    for (size_t i = 0; i < tensors; i++) {
        size_t step = most && t[i].count > most ? t[i].count / most : 1;
        double difference = 0, size = 0;
        for (size_t j = 0; j < t[i].count; j += step) {
            double fd = fd_slope(t[i].value + j, loss, ctx);
            difference += (fd - t[i].grad[j]) * (fd - t[i].grad[j]);
            size += t[i].grad[j] * t[i].grad[j];
        }
        double error = sqrt(difference) / sqrt(size);
        if (!(error <= tolerance)) {
            fail_msg("gradient of %s: relative error %.3g against finite differences, allowed %.3g",
                     t[i].name, error, tolerance);
        }
    }
}

/* |a - b| / |b| over whole arrays. */
static inline double fd_apart(const double *a, const double *b, size_t n)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference) / sqrt(size);
}

static inline void fd_assert_close(const char *what, const double *a, const double *b, size_t n,
                                   double tolerance)
{
    double error = fd_apart(a, b, n);
    if (!(error <= tolerance)) {
        fail_msg("%s: relative difference %.3g, allowed %.3g", what, error, tolerance);
    }
}

#endif
