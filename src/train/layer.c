// SPDX-License-Identifier: Apache-2.0
/* What all layers use: storing, adding, showing; and the table of token mixers. */
#include "train/layer.h"

#include <stdio.h>
#include <string.h>

#include "train/layer_parts.h"

real *T(take)(struct tape *t, size_t n)
{
    return tape_take(t, n, sizeof(real));
}

struct vectors {
    real *x;
    const real *y;
};

#ifdef TRAIN_DOUBLE
void T(round_store)(const struct run *run, real *x, size_t n)
{
    (void)run;
    (void)x;
    (void)n;
}
#else
static void round_part(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct vectors *v = ctx;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        v->x[i] = rows_stored(v->x[i], true);
    }
}

void T(round_store)(const struct run *run, real *x, size_t n)
{
    if (run->precision == PRECISION_BF16) {
        struct vectors v = {.x = x};
        compute_parts(run->compute, n, PART_ELEMENTS, round_part, &v);
    }
}
#endif

static void add_part(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct vectors *v = ctx;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        v->x[i] += v->y[i];
    }
}

void T(add_store)(const struct run *run, real *x, const real *y, size_t n)
{
    struct vectors v = {.x = x, .y = y};
    compute_parts(run->compute, n, PART_ELEMENTS, add_part, &v);
    T(round_store)(run, x, n);
}

void T(grad_add)(const struct run *run, struct param *p, real *g)
{
    if (p->trainable) {
        T(round_store)(run, g, p->count);
        T(add_store)(run, p->grad, g, p->count);
    }
}

void T(watch)(const struct run *run, const char *module, const char *what, size_t rows,
              size_t width, const real *values)
{
    if (run->watch != NULL) {
        char name[400];
        snprintf(name, sizeof name, "%s.%s", module, what);
        run->watch(run->watch_ctx, name, rows, width, values);
    }
}

const struct T(layer_pass) T(layer_passes)[LAYER_KIND_COUNT] = {
    [LAYER_FULL_ATTENTION] = {T(attention_layer_forward), T(attention_layer_backward)},
    [LAYER_LINEAR_ATTENTION] = {T(linear_attention_forward), T(linear_attention_backward)},
    [LAYER_GATED_ATTENTION] = {T(gated_attention_forward), T(gated_attention_backward)},
};
