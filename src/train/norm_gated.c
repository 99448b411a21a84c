// SPDX-License-Identifier: Apache-2.0
/* Rows are cut into fixed parts; the parts' gradients of the weight are summed in their order. */
#include "train/norm_gated.h"

#include "base/arena.h"
#include "base/pool.h"

#include "train/rows.h"

enum {
    PART = 256 /* rows of an item */
};

struct work {
    const struct norm_gated *n;
    const real *x, *z, *weight;
    real *y;
    const real *dy; /* NULL: forward */
    real *dx, *dz;
    real *part; /* [parts, width]: gradients of the weight */
};

static real inverse_rms(const struct norm_gated *n, const real *x)
{
    return 1 / real_sqrt(rows_dot(x, x, n->width) / (real)n->width + (real)n->eps);
}

static void forward_row(const struct work *w, size_t row)
{
    bool bf16 = w->n->precision == PRECISION_BF16;
    size_t at = row * w->n->width;
    real r = inverse_rms(w->n, w->x + at);
    for (size_t i = 0; i < w->n->width; i++) {
        real t = rows_stored(w->weight[i] * rows_stored(w->x[at + i] * r, bf16), bf16);
        w->y[at + i] = rows_stored(t * rows_silu(w->z[at + i]), bf16);
    }
}

/* dt = dy silu(z);  dz = dy t silu'(z);  dweight += dt n;  u = dt weight;
 * dx = r (u - x r^2 mean(u x)) */
static void backward_row(const struct work *w, size_t row, real *dweight)
{
    bool bf16 = w->n->precision == PRECISION_BF16;
    size_t at = row * w->n->width, width = w->n->width;
    const real *x = w->x + at;
    real *dx = w->dx + at;
    real r = inverse_rms(w->n, x);
    for (size_t i = 0; i < width; i++) {
        real z = w->z[at + i], dy = w->dy[at + i];
        real n = rows_stored(x[i] * r, bf16), t = rows_stored(w->weight[i] * n, bf16);
        real dt = rows_stored(dy * rows_silu(z), bf16);
        w->dz[at + i] = rows_stored(dy * t * rows_silu_slope(z), bf16);
        dweight[i] += dt * n;
        dx[i] = rows_stored(dt * w->weight[i], bf16);
    }
    real along = rows_dot(dx, x, width) * r * r / (real)width;
    for (size_t i = 0; i < width; i++) {
        dx[i] = rows_stored(r * (dx[i] - x[i] * along), bf16);
    }
}

static void part_run(void *ctx, size_t index)
{
    const struct work *w = ctx;
    size_t to = (index + 1) * PART < w->n->rows ? (index + 1) * PART : w->n->rows;
    for (size_t row = index * PART; row < to; row++) {
        if (w->dy) {
            backward_row(w, row, w->part + index * w->n->width);
        } else {
            forward_row(w, row);
        }
    }
}

static void run(struct work *w)
{
    struct pool_job job = {.count = (w->n->rows + PART - 1) / PART, .item = part_run, .ctx = w};
    pool_run(w->n->threads, &job);
}

void T(norm_gated_forward)(const struct norm_gated *n, const real *x, const real *z,
                           const real *weight, real *y)
{
    run(&(struct work){.n = n, .x = x, .z = z, .weight = weight, .y = y});
}

void T(norm_gated_backward)(const struct norm_gated *n, const real *x, const real *z,
                            const real *weight, const real *dy, real *dx, real *dz, real *dweight)
{
    struct arena *a = arena_new(0);
    size_t parts = (n->rows + PART - 1) / PART;
    struct work w = {.n = n,
                     .x = x,
                     .z = z,
                     .weight = weight,
                     .dy = dy,
                     .dx = dx,
                     .dz = dz,
                     .part = arena_array(a, parts * n->width, sizeof(real))};
    run(&w);
    memset(dweight, 0, n->width * sizeof *dweight);
    for (size_t p = 0; p < parts; p++) {
        rows_add(dweight, w.part + p * n->width, 1, n->width);
    }
    arena_free(a);
}
