// SPDX-License-Identifier: Apache-2.0
/*
 * The learning rate of an update, by how many were done before it, as transformers' get_*_schedule do:
 * with a warm-up of w > 0 updates the first one has rate 0.
 *
 *     warm-up      lr * k / w                                k < w
 *     constant     lr
 *     linear       lr * (N - k) / (N - w)
 *     cosine       lr * (r + (1 - r) * (1 + cos(pi * (k - w) / (N - w))) / 2)      r: minimum / lr
 *     three-stage  start + (lr - start) * k / w, k < w;  lr, k < hold;
 *                  then lr * 0.98^floor((k - hold) / 1000)
 *
 * The last is the schedule that practitioners wrote up for Llama-2 on MI210: 1e-6 to 6e-5 over 500
 * updates, held to 5000. Sources: transformers/optimization.py.
 */
#ifndef ASSAY_TRAIN_SCHEDULE_H
#define ASSAY_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum schedule_kind {
    SCHEDULE_CONSTANT = 0,
    SCHEDULE_LINEAR,
    SCHEDULE_COSINE,
    SCHEDULE_THREE_STAGE,
    SCHEDULE_KIND_COUNT
};

struct schedule {
    enum schedule_kind kind;
    double lr;      /* the highest */
    double minimum; /* cosine: where it ends; three-stage: where it starts */
    uint64_t warmup;
    uint64_t steps; /* N; linear and cosine end there and stay at their last value beyond it */
    uint64_t hold;  /* three-stage: first update of the decay */
};

/* Rate of the update after `done` others. */
double schedule_lr(const struct schedule *s, uint64_t done);

const char *schedule_name(enum schedule_kind kind); /* "three-stage" */
bool schedule_find(struct str name, enum schedule_kind *ret_kind);

#endif
