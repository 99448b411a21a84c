// SPDX-License-Identifier: Apache-2.0
/* AdamW in fixed parts of each parameter, so that sums are the same with any number of threads; the loop
 * over elements is in adamw.c. */
#include "train/optim.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

#include "train/adamw.h"

enum {
    PART = 1 << 15 /* elements that one work item updates */
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
    adamw_fn *update;
    struct adamw_rates rates; /* of parameters that decay */
};

static enum adamw_storage storage_of(const struct optim *o)
{
    switch (o->params->precision) {
    case PRECISION_F64: return ADAMW_F64;
    case PRECISION_BF16: return o->options.pure ? ADAMW_PURE : ADAMW_MASTER;
    default: return ADAMW_F32;
    }
}

static void run_part(void *ctx, size_t index)
{
    const struct step *s = ctx;
    struct part *part = &s->parts[index];
    const struct param *p = &s->o->params->items[part->param];
    const struct optim_state *state = &s->o->states[part->param];
    size_t size = s->o->params->precision == PRECISION_F64 ? sizeof(double) : sizeof(float);
    size_t at = part->first * size;
    struct adamw_part elements = {.count = part->count,
                                  .grad = (const char *)p->grad + at,
                                  .m = (char *)state->m + at,
                                  .v = (char *)state->v + at,
                                  .value = (char *)p->value + at};
    struct adamw_rates rates = s->rates;
    if (state->master != NULL) {
        elements.master = (char *)state->master + at;
    }
    rates.decay = p->decay ? rates.decay : 0;
    s->update(&rates, &elements, &part->change);
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
    const struct optim_options *opt = &o->options;
    struct step s = {.o = o,
                     .parts = make_parts(o->arena, o->params, &count),
                     .update = adamw_kernel_at(0)->update[storage_of(o)],
                     .rates = {.scale = scale,
                               .beta1 = opt->beta1,
                               .beta2 = opt->beta2,
                               .eps = opt->eps,
                               .decay = lr * opt->weight_decay,
                               .rate = lr / (1 - pow(opt->beta1, (double)o->steps)),
                               .root2 = sqrt(1 - pow(opt->beta2, (double)o->steps)),
                               .still = lr == 0}};
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
            if (storage_of(&o) == ADAMW_MASTER) {
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
