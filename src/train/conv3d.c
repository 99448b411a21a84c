// SPDX-License-Identifier: Apache-2.0
#include "train/conv3d.h"

#include "train/rows.h"

/* A place of y, taken apart. */
struct place {
    size_t batch, out, at[3];
};

static size_t cells(const struct conv3d *c)
{
    return c->size[0] / c->kernel[0] * (c->size[1] / c->kernel[1]) * (c->size[2] / c->kernel[2]);
}

static struct place place_of(const struct conv3d *c, size_t y)
{
    struct place p;
    for (int i = 2; i >= 0; i--) {
        p.at[i] = y % (c->size[i] / c->kernel[i]);
        y /= c->size[i] / c->kernel[i];
    }
    p.out = y % c->out;
    p.batch = y / c->out;
    return p;
}

/* Of x: the first of the kernel[2] neighbours that tap row (channel, i, j) reads for place p. */
static size_t tap_row(const struct conv3d *c, const struct place *p, size_t channel, size_t i,
                      size_t j)
{
    size_t depth = p->at[0] * c->kernel[0] + i, row = p->at[1] * c->kernel[1] + j;
    size_t volume = p->batch * c->in + channel;
    return ((volume * c->size[0] + depth) * c->size[1] + row) * c->size[2] +
           p->at[2] * c->kernel[2];
}

/* The rows of the kernel, in the order of the weight. */
static size_t tap_rows(const struct conv3d *c)
{
    return c->in * c->kernel[0] * c->kernel[1];
}

static size_t tap_row_at(const struct conv3d *c, const struct place *p, size_t row)
{
    size_t plane = row / c->kernel[1];
    return tap_row(c, p, plane / c->kernel[0], plane % c->kernel[0], row % c->kernel[1]);
}

void T(conv3d_forward)(const struct conv3d *c, const real *x, const real *weight, const real *bias,
                       real *y)
{
    size_t rows = tap_rows(c), n = c->kernel[2];
    for (size_t i = 0; i < c->batch * c->out * cells(c); i++) {
        struct place p = place_of(c, i);
        real sum = bias[p.out];
        for (size_t row = 0; row < rows; row++) {
            sum += rows_dot(weight + (p.out * rows + row) * n, x + tap_row_at(c, &p, row), n);
        }
        y[i] = rows_stored(sum, c->precision == PRECISION_BF16);
    }
}

void T(conv3d_backward)(const struct conv3d *c, const real *x, const real *weight, const real *dy,
                        real *dx, real *dweight, real *dbias)
{
    size_t rows = tap_rows(c), n = c->kernel[2];
    memset(dweight, 0, c->out * rows * n * sizeof *dweight);
    memset(dbias, 0, c->out * sizeof *dbias);
    if (dx) {
        memset(dx, 0, c->batch * c->in * c->size[0] * c->size[1] * c->size[2] * sizeof *dx);
    }
    for (size_t i = 0; i < c->batch * c->out * cells(c); i++) {
        struct place p = place_of(c, i);
        dbias[p.out] += dy[i];
        for (size_t row = 0; row < rows; row++) {
            size_t at = tap_row_at(c, &p, row), of = (p.out * rows + row) * n;
            rows_add(dweight + of, x + at, dy[i], n);
            if (dx) {
                rows_add(dx + at, weight + of, dy[i], n);
            }
        }
    }
}
