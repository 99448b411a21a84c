// SPDX-License-Identifier: Apache-2.0
/* Gradient norms and clipping. */
#include "train/clip.h"

#include <math.h>

#include "base/pool.h"

enum {
    PART = 1 << 15,
    LANES = 8
};

#define ZCLIP_ALPHA     0.97
#define ZCLIP_THRESHOLD 2.5
#define CLIP_EPS        1e-6

static double factor_to(double limit, double norm)
{
    double factor = limit / (norm + CLIP_EPS);
    return factor < 1 ? factor : 1;
}

static void warm_up(struct clip *c, double norm)
{
    c->warmup[c->seen++] = norm;
    if (c->seen < ZCLIP_WARMUP) {
        return;
    }
    for (size_t i = 0; i < ZCLIP_WARMUP; i++) {
        c->mean += c->warmup[i] / ZCLIP_WARMUP;
    }
    for (size_t i = 0; i < ZCLIP_WARMUP; i++) {
        double d = c->warmup[i] - c->mean;
        c->variance += d * d / ZCLIP_WARMUP;
    }
}

static double zclip(struct clip *c, double norm)
{
    double limit = c->max_norm;
    if (c->seen < ZCLIP_WARMUP) {
        warm_up(c, norm);
        return factor_to(limit, norm);
    }
    double sigma = sqrt(c->variance);
    double z = (norm - c->mean) / (sigma + CLIP_EPS);
    double taken = norm;
    if (z > ZCLIP_THRESHOLD) {
        taken = c->mean + ZCLIP_THRESHOLD * sigma / (z / ZCLIP_THRESHOLD);
        limit = taken < limit ? taken : limit;
    }
    c->mean = ZCLIP_ALPHA * c->mean + (1 - ZCLIP_ALPHA) * taken;
    double d = taken - c->mean;
    c->variance = ZCLIP_ALPHA * c->variance + (1 - ZCLIP_ALPHA) * d * d;
    return factor_to(limit, norm);
}

double clip_factor(struct clip *c, double norm)
{
    switch (c->kind) {
    case CLIP_FIXED: return factor_to(c->max_norm, norm);
    case CLIP_ZCLIP: return zclip(c, norm);
    default: return 1;
    }
}

/* ---- looking at gradients ---- */

struct part {
    size_t param;
    size_t first;
    size_t count;
    struct grad_stats stats;
};

struct look {
    const struct param_list *params;
    float *const *before;
    bool have_before;
    struct part *parts;
};

static inline double grad_at(const struct param *p, bool wide, size_t i)
{
    return wide ? ((const double *)p->grad)[i] : (double)((const float *)p->grad)[i];
}

/* In eight interleaved runs, an order that vector units like. */
static inline __attribute__((always_inline)) void look_at(const struct param *p, const bool wide,
                                                          float *before, const bool had,
                                                          struct part *part)
{
    double sum_sq[LANES] = {0};
    double dot[LANES] = {0};
    double before_sq[LANES] = {0};
    struct grad_stats sum = {0};
    size_t end = part->first + part->count;
    for (size_t first = part->first; first < end; first += LANES) {
        size_t n = end - first < LANES ? end - first : LANES;
        for (size_t j = 0; j < n; j++) {
            double g = grad_at(p, wide, first + j);
            sum_sq[j] += g * g;
            sum.zeros += g == 0;
            sum.nonfinite += !isfinite(g);
        }
        for (size_t j = 0; before != NULL && j < n; j++) {
            double g = grad_at(p, wide, first + j);
            double b = had ? (double)before[first + j] : 0;
            dot[j] += g * b;
            before_sq[j] += b * b;
            before[first + j] = (float)g;
        }
    }
    for (size_t j = 0; j < LANES; j++) {
        sum.sum_sq += sum_sq[j];
        sum.dot += dot[j];
        sum.before_sq += before_sq[j];
    }
    part->stats = sum;
}

static void look_part(void *ctx, size_t index)
{
    const struct look *l = ctx;
    struct part *part = &l->parts[index];
    const struct param *p = &l->params->items[part->param];
    float *before = l->before != NULL ? l->before[part->param] : NULL;
    if (l->params->precision == PRECISION_F64) {
        look_at(p, true, before, l->have_before, part);
    } else {
        look_at(p, false, before, l->have_before, part);
    }
}

void grad_look(struct arena *scratch, const struct param_list *params, float *const *before,
               bool have_before, unsigned threads, struct grad_stats *ret_stats)
{
    struct arena_mark mark = arena_mark(scratch);
    size_t count = 0;
    for (size_t i = 0; i < params->count; i++) {
        count += params->items[i].trainable ? (params->items[i].count + PART - 1) / PART : 0;
        ret_stats[i] = (struct grad_stats){0};
    }
    struct part *parts = arena_array(scratch, count, sizeof *parts);
    size_t n = 0;
    for (size_t i = 0; i < params->count; i++) {
        const struct param *p = &params->items[i];
        for (size_t first = 0; p->trainable && first < p->count; first += PART) {
            size_t left = p->count - first;
            parts[n++] = (struct part){
                .param = i, .first = first, .count = left < PART ? left : PART};
        }
    }
    struct look l = {params, before, have_before, parts};
    struct pool_job job = {.count = n, .item = look_part, .ctx = &l};
    pool_run(threads, &job);
    for (size_t i = 0; i < n; i++) {
        struct grad_stats *sum = &ret_stats[parts[i].param];
        sum->sum_sq += parts[i].stats.sum_sq;
        sum->dot += parts[i].stats.dot;
        sum->before_sq += parts[i].stats.before_sq;
        sum->zeros += parts[i].stats.zeros;
        sum->nonfinite += parts[i].stats.nonfinite;
    }
    arena_rewind(scratch, mark);
}

double grad_norm(const struct grad_stats *stats, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += stats[i].sum_sq;
    }
    return sqrt(sum);
}
