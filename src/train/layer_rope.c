// SPDX-License-Identifier: Apache-2.0
/*
 * Rotary position embedding in the half-split layout: with x = [x1, x2] the first rope.dim channels of
 * a head, y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin.
 *
 * Frequencies and angles are computed step by step in reals: in float32 the rounding of theta^(2i/d)
 * and of position * frequency is the frameworks' own. cos and sin are stored, the products too.
 */
#include "train/layer_parts.h"

static real power(double theta, real exponent)
{
    return (real)pow(theta, (double)exponent);
}

/* llama3: long waves are slowed, short ones kept, those between mixed. */
static real llama3(const struct rope_config *c, real inverse)
{
    real length = (real)(2 * M_PI) / inverse;
    if (length < (real)(c->original_length / c->high_freq_factor)) {
        return inverse;
    }
    if (length > (real)(c->original_length / c->low_freq_factor)) {
        return inverse / (real)c->factor;
    }
    real smooth = ((real)c->original_length / length - (real)c->low_freq_factor) /
                  (real)(c->high_freq_factor - c->low_freq_factor);
    return (1 - smooth) * inverse / (real)c->factor + smooth * inverse;
}

/* yarn: the channel whose wave turns `rotations` times in the original length. */
static double yarn_channel(const struct rope_config *c, double rotations)
{
    return (double)c->dim * log(c->original_length / (rotations * 2 * M_PI)) / (2 * log(c->theta));
}

static real yarn(const struct rope_config *c, size_t i, real p)
{
    double low = yarn_channel(c, c->beta_fast);
    double high = yarn_channel(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > (double)c->dim - 1 ? (double)c->dim - 1 : high;
    if (low == high) {
        high += 0.001;
    }
    real ramp = ((real)i - (real)low) / (real)(high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    real keep = 1 - ramp;
    return 1 / ((real)c->factor * p) * (1 - keep) + 1 / p * keep;
}

static real frequency(const struct rope_config *c, size_t i)
{
    real p = power(c->theta, (real)(2 * i) / (real)c->dim);
    switch (c->kind) {
    case ROPE_LINEAR: return 1 / p / (real)c->factor;
    case ROPE_LLAMA3: return llama3(c, 1 / p);
    case ROPE_YARN: return yarn(c, i, p);
    default: return 1 / p;
    }
}

/* Which of the position streams turns frequency i: time, or in M-RoPE's interleaved form every third
 * of the first 3 * section frequencies the height and the width. */
static size_t stream(const struct rope_config *c, size_t i)
{
    size_t s = i % 3;
    return s != 0 && i < 3 * c->section[s] ? s : 0;
}

struct table {
    const struct run *run;
    const real *inverse; /* [dim / 2] */
    const int32_t *positions;
    real *cos, *sin;
};

static void table_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct table *c = ctx;
    const struct rope_config *rope = &c->run->config->rope;
    size_t half = rope->dim / 2;
    size_t tokens = c->run->batch->tokens;
    bool streams = c->run->batch->positions != NULL;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        for (size_t i = 0; i < half; i++) {
            size_t s = streams ? stream(rope, i) : 0;
            real angle = (real)c->positions[s * tokens + t] * c->inverse[i];
            c->cos[t * half + i] = real_cos(angle) * (real)rope->attention_factor;
            c->sin[t * half + i] = real_sin(angle) * (real)rope->attention_factor;
        }
    }
}

void T(rope_table)(const struct run *run, struct tape *t, real **ret_cos, real **ret_sin)
{
    const struct train_batch *b = run->batch;
    size_t half = run->config->rope.dim / 2;
    struct tape_mark mark = tape_mark(run->scratch);
    real *inverse = T(take)(run->scratch, half);
    struct table c = {.run = run,
                      .inverse = inverse,
                      .positions = b->positions,
                      .cos = T(take)(t, b->tokens * half),
                      .sin = T(take)(t, b->tokens * half)};
    for (size_t i = 0; i < half; i++) {
        inverse[i] = frequency(&run->config->rope, i);
    }
    if (b->positions == NULL) {
        int32_t *place = tape_take(run->scratch, b->tokens, sizeof *place);
        for (size_t s = 0; s < b->sequences; s++) {
            for (size_t i = b->start[s]; i < b->start[s + 1]; i++) {
                place[i] = (int32_t)(i - b->start[s]);
            }
        }
        c.positions = place;
    }
    compute_parts(run->compute, b->tokens, part_rows(half), table_rows, &c);
    T(round_store)(run, c.cos, b->tokens * half);
    T(round_store)(run, c.sin, b->tokens * half);
    tape_rewind(run->scratch, mark);
    *ret_cos = c.cos;
    *ret_sin = c.sin;
}

struct rotation {
    const struct run *run;
    size_t heads;
    real *x;
    real sign; /* of the angle */
};

static void rotate_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct rotation *c = ctx;
    const struct run *run = c->run;
    size_t half = run->config->rope.dim / 2;
    size_t head_dim = run->config->head_dim;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        const real *cos = (const real *)run->cos + t * half;
        const real *sin = (const real *)run->sin + t * half;
        for (size_t h = 0; h < c->heads; h++) {
            real *x1 = c->x + (t * c->heads + h) * head_dim;
            real *x2 = x1 + half;
            for (size_t i = 0; i < half; i++) {
                real s = c->sign * sin[i];
                real y1 = T(store)(run, x1[i] * cos[i]) - T(store)(run, x2[i] * s);
                real y2 = T(store)(run, x2[i] * cos[i]) + T(store)(run, x1[i] * s);
                x1[i] = T(store)(run, y1);
                x2[i] = T(store)(run, y2);
            }
        }
    }
}

static void rotate(const struct run *run, size_t heads, real *x, real sign)
{
    struct rotation c = {.run = run, .heads = heads, .x = x, .sign = sign};
    compute_parts(run->compute, run->batch->tokens, part_rows(heads * run->config->head_dim),
                  rotate_rows, &c);
}

void T(rope_forward)(const struct run *run, size_t heads, real *x)
{
    rotate(run, heads, x, 1);
}

void T(rope_backward)(const struct run *run, size_t heads, real *dx)
{
    rotate(run, heads, dx, -1);
}
