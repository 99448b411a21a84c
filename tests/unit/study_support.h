// SPDX-License-Identifier: Apache-2.0
/* Made-up training runs for the tests of src/study: a loss that falls, noise of the data that all runs of
 * a job share, noise of the path that each has for itself. */
#ifndef ASSAY_TESTS_STUDY_SUPPORT_H
#define ASSAY_TESTS_STUDY_SUPPORT_H

#include <math.h>

#include "base/vec.h"

#include "study/run_log.h"
#include "study/stats.h"
#include "unit.h"

static inline void near_to(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) {
        fail_msg("got %.17g, wanted %.17g", got, want);
    }
}

struct made_run {
    int steps;
    int every;     /* one value logged for so many steps, their mean */
    double path;   /* standard deviation of the path's noise, relative to the loss, once parted */
    double memory; /* of that noise from step to step, 0..1 */
    int parts_at;  /* before it the noise is 1e-4 */
    double scale;  /* planted: the loss times that, from parts_at on */
    double first;  /* planted: the first loss times that */
    double slope;  /* planted: grows to that relative difference at the end */
    double eval_rise; /* of the evaluation loss, per evaluation, after the half */
};

#define MADE_RUN                    \
 ((struct made_run){.steps = 100,   \
                    .every = 1,     \
                    .path = 4e-3,   \
                    .memory = 0.8,  \
                    .parts_at = 10, \
                    .scale = 1,     \
                    .first = 1})

static inline void make_run(struct arena *a, const struct made_run *m, uint64_t seed,
                            struct run_log *ret)
{
    struct stats_random data;
    struct stats_random own;
    stats_random_seed(&data, 7);
    stats_random_seed(&own, 1000 + seed);
    *ret = (struct run_log){.path = "made",
                            .kind = RUN_LOG_LINES,
                            .total_steps = m->steps,
                            .last_step = m->steps,
                            .train_loss = NAN,
                            .train_runtime_s = NAN,
                            .gpu_memory_bytes = NAN};
    double noise = 0;
    double sum = 0;
    for (int i = 1; i <= m->steps; i++) {
        double fresh = stats_random_normal(&own) * sqrt(1 - m->memory * m->memory);
        noise = m->memory * noise + fresh;
        double loss = 1 + 1.2 * exp(-i / 30.0) + 0.06 * stats_random_normal(&data);
        double relative = i < m->parts_at ? 1e-4 * noise : m->path * noise;
        double planted = i == 1 ? m->first : i >= m->parts_at ? m->scale : 1;
        planted += m->slope * i / m->steps;
        loss *= planted * (1 + relative);
        sum += loss;
        if (i % m->every == 0) {
            double logged = sum / m->every;
            *VEC_PUSH(a, &ret->loss) = (struct curve_point){
                .step = i, .value = round(logged * 1e4) / 1e4, .time = 0.5 * i};
            sum = 0;
        }
        if (i % 20 == 0) {
            int after = i > m->steps / 2 ? (i - m->steps / 2) / 20 : 0;
            double eval = (1.3 + 0.5 * exp(-i / 30.0)) * planted * (1 + 0.5 * relative);
            *VEC_PUSH(a, &ret->eval_loss) = (struct curve_point){
                .step = i, .value = eval + m->eval_rise * after, .time = NAN};
        }
    }
}

#endif
