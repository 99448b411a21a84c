// SPDX-License-Identifier: Apache-2.0
/* Learning-rate schedules. */
#include "train/schedule.h"

#include <math.h>

#include "base/attr.h"

#define DECAY       0.98
#define DECAY_EVERY 1000

static const char *const names[SCHEDULE_KIND_COUNT] = {"constant", "linear", "cosine",
                                                       "three-stage"};

const char *schedule_name(enum schedule_kind kind)
{
    return names[kind];
}

bool schedule_find(struct str name, enum schedule_kind *ret_kind)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(name, names[i])) {
            *ret_kind = (enum schedule_kind)i;
            return true;
        }
    }
    return false;
}

/* How far between the end of the warm-up and the last update, 0 to 1. */
static double progress(const struct schedule *s, uint64_t done)
{
    uint64_t span = s->steps > s->warmup ? s->steps - s->warmup : 1;
    uint64_t at = done - s->warmup;
    return at < span ? (double)at / (double)span : 1;
}

static double three_stage(const struct schedule *s, uint64_t done)
{
    if (done < s->warmup) {
        return s->minimum + (s->lr - s->minimum) * (double)done / (double)s->warmup;
    }
    if (done < s->hold) {
        return s->lr;
    }
    uint64_t whole = (done - s->hold) / DECAY_EVERY; /* a staircase */
    return s->lr * pow(DECAY, (double)whole);
}

double schedule_lr(const struct schedule *s, uint64_t done)
{
    if (s->kind == SCHEDULE_THREE_STAGE) {
        return three_stage(s, done);
    }
    if (done < s->warmup) {
        return s->lr * (double)done / (double)s->warmup;
    }
    switch (s->kind) {
    case SCHEDULE_LINEAR: return s->lr * (1 - progress(s, done));
    case SCHEDULE_COSINE:
        return s->minimum + (s->lr - s->minimum) * 0.5 * (1 + cos(M_PI * progress(s, done)));
    default: return s->lr;
    }
}
