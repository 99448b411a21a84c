// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics and progress bars out of one line. Understands "key: value", "key=value", 'key': value
 * and "key": "value" in any mixture: HF Trainer dicts (numbers or strings), LLaMA-Factory and other
 * JSONL, tqdm postfixes, Megatron ('|'-separated), DeepSpeed, torchtitan, torchtune, axolotl.
 */
#ifndef ASSAY_DIAGNOSIS_METRIC_LINE_H
#define ASSAY_DIAGNOSIS_METRIC_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    METRICS_MAX = 24,
    METRIC_NAME_MAX = 40,
    METRIC_EXACT = 22 /* powers of ten up to this one are exact in a double */
};

struct metric {
    const char *name; /* canonical: loss, eval_loss, grad_norm, lr, step, step_time … */
    double value;     /* may be NaN or infinite */
    double scale;     /* of the number in the line */
    uint16_t at;      /* where that number stands */
};

struct metric_line {
    struct metric items[METRICS_MAX];
    char names[METRICS_MAX][METRIC_NAME_MAX]; /* of metrics that are named by the line alone */
    size_t count;
    bool final;   /* the closing dict of a run: train_runtime */
    bool special; /* more than numbers at fixed places: another line of its shape is read anew */
    int64_t step;
    int64_t total; /* "iteration 100/ 10000", current_steps/total_steps; -1 */
};

void metric_line_parse(struct str line, struct metric_line *ret_line);

struct progress_bar {
    int64_t done;
    int64_t total;
    double seconds_per_step; /* NaN when the bar gives none */
    bool training;           /* counts training steps, as far as its label and unit tell */
    bool loading;            /* "Loading checkpoint shards" */
};

/* Where the numbers of a bar stand, and what its words say: the same for all lines of a shape
 * (line_shape.h) without hexadecimal numbers. */
struct bar_places {
    size_t done_at;
    size_t done_n;
    size_t total_at;
    size_t total_n;
    size_t rate_at;
    size_t rate_n; /* 0: it gives none */
    bool per_step; /* the rate is seconds per step, else steps per second */
    bool training;
    bool loading;
};

/* False when the line shows no bar. A line may hold several; the last one counts. */
bool bar_places_find(struct str line, struct bar_places *ret_places);

/* The numbers at the places. False when they are none of a bar. */
bool bar_places_read(const struct bar_places *places, struct str line,
                     struct progress_bar *ret_bar);

/* Both at once. */
bool progress_bar_parse(struct str line, struct progress_bar *ret_bar);

/* `digits` times ten to the power of `exponent`, as metric_number() makes it. */
double metric_scale_far(double digits, int exponent);

static inline double metric_scale(double digits, int exponent)
{
    static const double powers[METRIC_EXACT + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (exponent < -METRIC_EXACT || exponent > METRIC_EXACT) {
        return metric_scale_far(digits, exponent);
    }
    return exponent < 0 ? digits / powers[-exponent] : digits * powers[exponent];
}

/* A number at the front of `s`, nan and inf in any case; *ret_length is its length, 0 without. */
double metric_number(struct str s, size_t *ret_length);

#endif
