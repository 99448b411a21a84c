// SPDX-License-Identifier: Apache-2.0
/* AdamW in fixed parts of each parameter, so that sums are the same with any number of threads. */
#include "train/optim.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

enum {
    PART = 1 << 15 /* elements that one work item updates */
};

/* How a parameter is stored: a constant at every call of update(), which the compiler then takes apart. */
enum storage {
    STORED_F64 = 0,
    STORED_F32,
    STORED_MASTER, /* float32 master beside the bfloat16 weight */
    STORED_PURE    /* bfloat16 weight and moments */
};

struct part {
    size_t param;
    size_t first;
    size_t count;
    struct optim_change change;
};

struct step {
    struct optim *o;
    struct part *parts;
    enum storage storage;
    double lr;
    double scale;
    double correction1; /* 1 - b1^t */
    double root2;       /* sqrt(1 - b2^t) */
};

static enum storage storage_of(const struct optim *o)
{
    switch (o->params->precision) {
    case PRECISION_F64: return STORED_F64;
    case PRECISION_BF16: return o->options.pure ? STORED_PURE : STORED_MASTER;
    default: return STORED_F32;
    }
}

/* Nearest bfloat16, ties to even, NaN kept. */
static inline float to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) {
        bits |= 0x00400000u;
    } else {
        bits += 0x7fffu + ((bits >> 16) & 1u);
    }
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline double load(const void *p, size_t i, bool wide)
{
    return wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* Stores with one rounding and gives back what is there now. */
static inline double store(void *p, size_t i, double x, enum storage s)
{
    if (s == STORED_F64) {
        ((double *)p)[i] = x;
        return x;
    }
    float f = (float)x;
    ((float *)p)[i] = s == STORED_PURE ? to_bf16(f) : f;
    return ((float *)p)[i];
}

static inline __attribute__((always_inline)) void update(const struct step *s, struct part *part,
                                                         const enum storage how)
{
    const struct optim_options *opt = &s->o->options;
    const struct param *p = &s->o->params->items[part->param];
    const struct optim_state *state = &s->o->states[part->param];
    const bool wide = how == STORED_F64;
    const double decay = p->decay ? s->lr * opt->weight_decay : 0;
    const double rate = s->lr / s->correction1;
    void *weight = how == STORED_MASTER ? state->master : p->value;
    struct optim_change sum = {0};
    for (size_t i = part->first; i < part->first + part->count; i++) {
        double g = load(p->grad, i, wide) * s->scale;
        double m = store(state->m, i, load(state->m, i, wide) * opt->beta1 + (1 - opt->beta1) * g,
                         how);
        double v = store(state->v, i,
                         load(state->v, i, wide) * opt->beta2 + (1 - opt->beta2) * g * g, how);
        double w = load(weight, i, wide);
        double before = load(p->value, i, wide);
        double step = rate * m / (sqrt(v) / s->root2 + opt->eps) + decay * w;
        /* Without this an infinite moment times a rate of zero would be NaN. */
        double after = s->lr == 0 ? w : w - decay * w - rate * m / (sqrt(v) / s->root2 + opt->eps);
        double now = store(weight, i, after, how);
        if (how == STORED_MASTER) {
            now = to_bf16((float)now);
            ((float *)p->value)[i] = (float)now;
        }
        double moved = now - before;
        sum.weight_sq += now * now;
        sum.change_sq += moved * moved;
        sum.changed += moved != 0;
        sum.stagnated += moved == 0 && step != 0;
    }
    part->change = sum;
}

static void run_part(void *ctx, size_t index)
{
    const struct step *s = ctx;
    struct part *part = &s->parts[index];
    switch (s->storage) {
    case STORED_F64: update(s, part, STORED_F64); break;
    case STORED_F32: update(s, part, STORED_F32); break;
    case STORED_MASTER: update(s, part, STORED_MASTER); break;
    case STORED_PURE: update(s, part, STORED_PURE); break;
    }
}

static struct part *make_parts(struct arena *a, const struct param_list *params, size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < params->count; i++) {
        if (params->items[i].trainable) {
            count += (params->items[i].count + PART - 1) / PART;
        }
    }
    struct part *parts = arena_array(a, count, sizeof *parts);
    size_t n = 0;
    for (size_t i = 0; i < params->count; i++) {
        const struct param *p = &params->items[i];
        for (size_t first = 0; p->trainable && first < p->count; first += PART) {
            size_t left = p->count - first;
            parts[n++] = (struct part){
                .param = i, .first = first, .count = left < PART ? left : PART};
        }
    }
    *ret_count = n;
    return parts;
}

void optim_step(struct optim *o, double lr, double scale)
{
    struct arena_mark mark = arena_mark(o->arena);
    size_t count;
    o->steps++;
    struct step s = {.o = o,
                     .parts = make_parts(o->arena, o->params, &count),
                     .storage = storage_of(o),
                     .lr = lr,
                     .scale = scale,
                     .correction1 = 1 - pow(o->options.beta1, (double)o->steps),
                     .root2 = sqrt(1 - pow(o->options.beta2, (double)o->steps))};
    struct pool_job job = {.count = count, .item = run_part, .ctx = &s};
    pool_run(o->options.threads, &job);
    memset(o->change, 0, o->params->count * sizeof *o->change);
    for (size_t i = 0; i < count; i++) {
        struct optim_change *sum = &o->change[s.parts[i].param];
        const struct optim_change *part = &s.parts[i].change;
        sum->weight_sq += part->weight_sq;
        sum->change_sq += part->change_sq;
        sum->changed += part->changed;
        sum->stagnated += part->stagnated;
    }
    arena_rewind(o->arena, mark);
}

void optim_init(struct arena *a, struct param_list *params, const struct optim_options *options,
                struct optim *ret_optim)
{
    struct optim o = {.options = *options,
                      .params = params,
                      .states = arena_array(a, params->count, sizeof *o.states),
                      .change = arena_array(a, params->count, sizeof *o.change),
                      .arena = a};
    size_t size = params->precision == PRECISION_F64 ? sizeof(double) : sizeof(float);
    for (size_t i = 0; i < params->count; i++) {
        if (params->items[i].trainable) {
            o.states[i].m = arena_array(a, params->items[i].count, size);
            o.states[i].v = arena_array(a, params->items[i].count, size);
            if (storage_of(&o) == STORED_MASTER) {
                o.states[i].master = arena_array(a, params->items[i].count, sizeof(float));
            }
        }
    }
    optim_take_weights(&o);
    *ret_optim = o;
}

void optim_take_weights(struct optim *o)
{
    for (size_t i = 0; i < o->params->count; i++) {
        if (o->states[i].master != NULL) {
            memcpy(o->states[i].master, o->params->items[i].value,
                   o->params->items[i].count * sizeof(float));
        }
    }
}

uint64_t optim_bytes(const struct param_list *params, const struct optim_options *options)
{
    uint64_t bytes = 0;
    uint64_t each = params->precision == PRECISION_F64 ? 2 * sizeof(double) : 2 * sizeof(float);
    if (params->precision == PRECISION_BF16 && !options->pure) {
        each += sizeof(float);
    }
    for (size_t i = 0; i < params->count; i++) {
        bytes += params->items[i].trainable ? params->items[i].count * each : 0;
    }
    return bytes;
}
