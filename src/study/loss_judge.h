// SPDX-License-Identifier: Apache-2.0
/*
 * Are the losses of two routes the same up to noise? Three levels, each weaker and longer than the one
 * before; the first cannot be seen in a log and belongs to `assay probe`:
 *
 *   A  one operator on equal inputs, against a float64 reference (probe --torch).
 *   B  the first logged step, equal weights and batch: loss within 1e-3 passes, beyond 5e-3 fails; the
 *      gradient norm within 1 % passes, beyond 5 % fails. Between: open; level C decides, unless the paths
 *      part while runs of A are not seen to part from each other.
 *   C  the trajectory: means over windows of 20 steps. With at least three runs of the trusted route its
 *      own spread is the measure: max(3 sigma, 5e-3 of the loss), 3 replaced by Student's quantile where
 *      sigma rests on few runs and many windows are looked at, for one false alarm in a hundred. Without:
 *      5e-3 passes, 1.5e-2 fails, between nothing can be told. No signed drift: the mean difference stays
 *      within three standard errors, or below 1e-3 of the loss.
 *
 * Limits of B and C: two stacks of one job in public golden files (torchtitan on CUDA and ROCm: 9.5e-5 at
 * step 1, 1.2e-3 until step 24, 1.8e-2 at one step after the paths parted; Megatron-LM GB200 and H100, 82
 * pairs: median 2.2e-3 at step 1). A difference at one step after the paths parted says nothing: rounding
 * moves the weights to another, equally good path; so single steps are compared only before that.
 */
#ifndef ASSAY_STUDY_LOSS_JUDGE_H
#define ASSAY_STUDY_LOSS_JUDGE_H

#include <stdbool.h>

#include "base/arena.h"

#include "study/run_log.h"

enum loss_grade {
    LOSS_NOT_JUDGED = 0, /* nothing there to judge by */
    LOSS_SAME,
    LOSS_OPEN, /* between the limits, or too little to tell */
    LOSS_DIFFERENT,
};

#define LOSS_FIRST_PASS  1e-3 /* of the loss */
#define LOSS_FIRST_FAIL  5e-3
#define LOSS_GRAD_PASS   1e-2
#define LOSS_GRAD_FAIL   5e-2
#define LOSS_WINDOW_PASS 5e-3
#define LOSS_WINDOW_FAIL 1.5e-2 /* without runs that tell the noise */
#define LOSS_DRIFT_FLOOR 1e-3
#define LOSS_EVAL_PASS   1e-2
#define LOSS_EVAL_FAIL   3e-2
#define LOSS_FALSE_ALARM 0.01 /* of all windows together */

enum {
    LOSS_WINDOW_STEPS = 20,
    LOSS_NULL_RUNS = 3
};

struct loss_window {
    int64_t from, to; /* steps, inclusive */
    double mean_a, mean_b;
    double limit; /* for |mean_b - mean_a| */
};

struct loss_judgement {
    size_t common;  /* logged steps that all runs of both routes have */
    bool by_null;   /* the trusted route's own spread was the measure */
    bool equal;     /* every common value is the same as printed */
    bool a_repeats; /* two or more runs of A, equal to each other at every common step */
    int64_t first_step;
    int64_t first_difference; /* first logged step with values that differ; -1 none */
    int64_t parted;           /* first step beyond LOSS_FIRST_FAIL: no single steps after it; -1 */
    bool a_parts;             /* runs of A part from each other too: parting says nothing */
    bool unsettled; /* level B is open, and the paths part though those of A are not seen to */
    double before_parting; /* largest relative difference of single steps before it */

    enum loss_grade level_b;
    double first_a, first_b, first_relative;
    enum loss_grade first_grade;
    double grad_a, grad_b, grad_relative; /* NaN where no gradient norm is printed */
    enum loss_grade grad_grade;           /* part of level_b */

    enum loss_grade level_c;
    struct loss_window *windows;
    size_t window_count;
    size_t windows_beyond; /* over their limit */
    size_t worst;          /* index of the window that is nearest to, or furthest over, its limit */
    double sigma;          /* of the trusted route, of the worst window; NaN without */
    double multiple;       /* of sigma, that was the limit */

    enum loss_grade drift_grade;
    double drift;       /* mean over the windows of (b - a) / a */
    double drift_limit; /* the same unit; NaN with fewer than five windows */

    enum loss_grade eval_grade;
    size_t eval_common;
    double eval_worst; /* relative, signed */
    int64_t eval_step;

    size_t not_finite_a, not_finite_b; /* losses NaN or infinite, of all runs */
    enum loss_grade grade;             /* of everything */
};

/* A: the trusted route, na > 0 runs of it; B likewise. */
void loss_judge(struct arena *a, const struct run_log *const *run_a, size_t na,
                const struct run_log *const *run_b, size_t nb,
                struct loss_judgement *ret_judgement);

/* Evaluation loss that rises while the training loss falls. */
struct over_fitting {
    bool present;
    int64_t best_step;
    double best, last;
    int64_t last_step;
};

/* Present when the last evaluation loss is over 1 % above the lowest, the lowest is not the last but one
 * by chance (at least one value between or a rise at two values), and the training loss did not rise. */
void loss_over_fitting(struct arena *a, const struct run_log *log, struct over_fitting *ret_over);

#endif
