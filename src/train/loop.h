// SPDX-License-Identifier: Apache-2.0
/*
 * The training loop: accumulate, clip, update, evaluate, save.
 *
 * The loss of an update is the sum over all its labels divided by their number, whatever micro-batches they
 * came in; gradients are those of that loss. An update never reaches across the end of an epoch: the last
 * one of it takes the micro-batches that are left. Order within an update: gradients, norm, clip, optimizer
 * with the learning rate of the updates done before, then the rate moves on.
 *
 * What is not finite stops the run before the weights are touched; the error names the first tensor.
 */
#ifndef ASSAY_TRAIN_LOOP_H
#define ASSAY_TRAIN_LOOP_H

#include "train/data_batch.h"
#include "train/metrics.h"
#include "train/model.h"
#include "train/save.h"
#include "train/schedule.h"

/* Who is told; every slot may be NULL. */
struct train_events {
    void (*step)(void *ctx, const struct metrics_row *row);
    /* Within an update, after each micro-batch. */
    void (*micro)(void *ctx, uint64_t step, uint64_t done, uint64_t of);
    void (*evaluated)(void *ctx, uint64_t step, double loss);
    void (*saved)(void *ctx, const char *path);
    void *ctx;
};

struct train_options {
    uint64_t steps;      /* updates of the whole run */
    uint64_t accumulate; /* micro-batches of an update */
    struct batch_limits limits;
    struct schedule schedule;
    struct clip clip; /* kind and limit; its statistics are the run's */
    struct optim_options optim;
    uint64_t eval_every; /* updates; 0: only at the end */
    uint64_t save_every; /* 0: only at the end */
    bool brief;          /* no cosine, no sums by layer: one copy of the gradients less */
    unsigned threads;
};

struct trainer {
    struct arena *arena;   /* of the run */
    struct arena *scratch; /* rewound after each update */
    struct train_options options;
    struct train_model *model;
    struct param_list *params;
    const struct dataset *train;
    const struct dataset *eval; /* NULL: none */
    struct batch_source source;
    struct optim optim;
    struct save_state state;
    struct save_target target; /* output NULL: nothing is written */
    struct train_events events;
    const volatile int *stop; /* NULL, or: ends the run after this update, with a checkpoint */
    float **before;           /* gradients of the update before; NULL when brief */
    bool have_before;
    struct grad_stats *grads;
    struct metrics_groups groups;
    int metrics_fd; /* -1: none */
    struct model_arithmetic arithmetic;
    const char *
        resumed_otherwise; /* after trainer_resume(): how the checkpoint was computed, when that gives
                                      other bits; else NULL */
    double last_eval;      /* NaN: not yet */
};

/* Model, data, options, target, events are set by the caller; makes the rest. */
void trainer_init(struct trainer *t);

/* Continues from a checkpoint: weights, moments, place; metrics.jsonl loses the lines behind it. */
enum status trainer_resume(struct trainer *t, const char *checkpoint, struct err *err) MUST_USE;

/* Opens output/metrics.jsonl and trains up to options.steps. Stopped by `stop` it saves and returns ST_OK
 * with fewer steps done. */
enum status trainer_run(struct trainer *t, struct err *err) MUST_USE;

/* One update. */
enum status trainer_step(struct trainer *t, struct metrics_row *ret_row, struct err *err) MUST_USE;

/* Mean loss over the labels of a dataset. */
enum status trainer_evaluate(struct trainer *t, const struct dataset *data, double *ret_loss,
                             uint64_t *ret_labels, struct err *err) MUST_USE;

/* Updates in one epoch with these options. */
uint64_t trainer_epoch_steps(struct batch_source *source, uint64_t accumulate);

/* ---- parts ---- */

/* Says which tensor of this batch is the first that is not finite, by running it again with a watch. */
enum status loop_not_finite(struct trainer *t, const struct train_batch *batch, const char *what,
                            struct err *err) MUST_USE;

/* metrics.jsonl: opened to append after step `after`. */
enum status loop_open_metrics(struct trainer *t, uint64_t after, struct err *err) MUST_USE;
enum status loop_write_metrics(struct trainer *t, struct str line, struct err *err) MUST_USE;

#endif
