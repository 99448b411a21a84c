// SPDX-License-Identifier: Apache-2.0
#include "train/patch_place.h"

#include "train/rows.h"

/* Two neighbours on one side of the table and their weights. */
struct taps {
    size_t at[2];
    real weight[2];
};

static struct taps taps_of(size_t index, size_t length, size_t side)
{
    real place = length > 1 ? (real)index * (real)(side - 1) / (real)(length - 1) : 0;
    size_t below = (size_t)place;
    real apart = place - (real)below;
    return (struct taps){{below, below + 1 < side ? below + 1 : side - 1}, {1 - apart, apart}};
}

/* Calls for each patch: its index and the four rows of the table with their weights. */
typedef void tap_fn(void *ctx, size_t patch, const size_t row[4], const real weight[4]);

static void each_patch(const struct patch_places *p, size_t side, tap_fn *fn, void *ctx)
{
    size_t patch = 0;
    for (size_t i = 0; i < p->pictures; i++) {
        const struct picture_grid *g = &p->grids[i];
        for (size_t j = 0; j < g->t * g->h * g->w; j++, patch++) {
            struct picture_place at = picture_place(g, p->merge, j);
            struct taps y = taps_of(at.row, g->h, side), x = taps_of(at.column, g->w, side);
            size_t row[4];
            real weight[4];
            for (size_t tap = 0; tap < 4; tap++) {
                row[tap] = y.at[tap / 2] * side + x.at[tap % 2];
                weight[tap] = y.weight[tap / 2] * x.weight[tap % 2];
            }
            fn(ctx, patch, row, weight);
        }
    }
}

struct table {
    size_t hidden;
    bool bf16;
    const real *from;
    real *to;
};

static void add_taps(void *ctx, size_t patch, const size_t row[4], const real weight[4])
{
    const struct table *t = ctx;
    real *x = t->to + patch * t->hidden;
    for (size_t i = 0; i < t->hidden; i++) {
        real sum = 0;
        for (size_t tap = 0; tap < 4; tap++) {
            sum += weight[tap] * t->from[row[tap] * t->hidden + i];
        }
        x[i] = rows_stored(x[i] + rows_stored(sum, t->bf16), t->bf16);
    }
}

static void spread_taps(void *ctx, size_t patch, const size_t row[4], const real weight[4])
{
    const struct table *t = ctx;
    for (size_t tap = 0; tap < 4; tap++) {
        rows_add(t->to + row[tap] * t->hidden, t->from + patch * t->hidden, weight[tap], t->hidden);
    }
}

void T(patch_table_forward)(const struct patch_places *p, size_t side, size_t hidden,
                            const real *table, real *x)
{
    struct table t = {hidden, p->precision == PRECISION_BF16, table, x};
    each_patch(p, side, add_taps, &t);
}

void T(patch_table_backward)(const struct patch_places *p, size_t side, size_t hidden,
                             const real *dx, real *dtable)
{
    struct table t = {hidden, p->precision == PRECISION_BF16, dx, dtable};
    memset(dtable, 0, side * side * hidden * sizeof *dtable);
    each_patch(p, side, spread_taps, &t);
}

void T(patch_angles)(const struct patch_places *p, size_t head_dim, double theta, real *ret_cos,
                     real *ret_sin)
{
    size_t quarter = head_dim / 4, half = head_dim / 2, patch = 0;
    for (size_t i = 0; i < p->pictures; i++) {
        const struct picture_grid *g = &p->grids[i];
        for (size_t j = 0; j < g->t * g->h * g->w; j++, patch++) {
            struct picture_place at = picture_place(g, p->merge, j);
            for (size_t f = 0; f < quarter; f++) {
                real turn = 1 / real_pow((real)theta, (real)(2 * f) / (real)half);
                real *c = ret_cos + patch * half + f, *s = ret_sin + patch * half + f;
                c[0] = real_cos((real)at.row * turn);
                s[0] = real_sin((real)at.row * turn);
                c[quarter] = real_cos((real)at.column * turn);
                s[quarter] = real_sin((real)at.column * turn);
            }
        }
    }
}

/* In float32 whatever the precision, rounded at the end, as transformers does it here. */
void T(patch_rotate)(const struct patch_places *p, size_t patches, size_t heads, size_t head_dim,
                     const real *cos, const real *sin, real direction, real *qkv)
{
    bool bf16 = p->precision == PRECISION_BF16;
    size_t half = head_dim / 2;
    for (size_t i = 0; i < patches * 2 * heads; i++) {
        size_t patch = i / (2 * heads), head = i % (2 * heads);
        const real *c = cos + patch * half, *s = sin + patch * half;
        real *x = qkv + (patch * 3 * heads + head) * head_dim;
        for (size_t j = 0; j < half; j++) {
            real a = x[j], b = x[j + half], turn = direction * s[j];
            x[j] = rows_stored(a * c[j] - b * turn, bf16);
            x[j + half] = rows_stored(b * c[j] + a * turn, bf16);
        }
    }
}
