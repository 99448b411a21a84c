// SPDX-License-Identifier: Apache-2.0
/*
 * The oracle: one step of a model computed here in float64, and a framework's dump of the same step
 * held against it.
 *
 * A dump is judged by its error, not by its value: for each tensor the RMS of (dump - float64), relative
 * to the RMS of float64, is compared with the same figure of this program's own step in the dump's
 * precision, which rounds where an eager framework rounds. A sound stack makes about the same error;
 * a wrong operator makes a larger one, and everything behind it inherits that, so the first tensor in
 * the order of the step that is beyond the limit names the layer and the operator.
 */
#ifndef ASSAY_TRAIN_ORACLE_H
#define ASSAY_TRAIN_ORACLE_H

#include "train/capture.h"

struct oracle_options {
    const char *folder;              /* the model */
    struct model_options model;      /* precision: of the tensors written to `out` */
    const struct train_batch *batch; /* NULL: input_ids, labels, attention_mask of the dump */
    const char *against;             /* dump to judge; NULL: none */
    const char *out;                 /* file to write this program's own step to; NULL: none */
    /* A tensor may have this much more error than ours; 0: 3 in bfloat16, else 32. In float32 it may besides
     * have twice the error of a step whose loss is summed as frameworks sum it (model_options.float_loss). */
    double factor;
};

struct oracle_row {
    const char *name;
    enum capture_kind kind;
    double error;    /* RMS of dump - float64, relative to RMS of float64 */
    double expected; /* the same of this program in the dump's precision */
    double limit;    /* what was allowed */
    bool wrong;      /* !(error <= limit), or another shape */
    const char *why; /* in words when the figures are not the reason; else NULL */
};

struct oracle_report {
    enum precision precision; /* of the dump, as its activations or gradients are stored */
    double loss;              /* float64, mean over the labels */
    double dump_loss;         /* NaN: not in the dump */
    size_t labels;
    size_t tensors;                 /* of this program's step */
    VEC_OF(struct oracle_row) rows; /* in the order of the step: forward, backward, parameters */
    size_t wrong;                   /* rows */
    size_t first;                   /* index of the first wrong row; SIZE_MAX: none */
    size_t strange;                 /* tensors of the dump that have no counterpart here */
    const char *strange_example;
};

/* Computes, writes and compares as the options say. Without `against` the report has loss and counts
 * only. A dump that shares no tensor with the step is ST_FORMAT: nothing was compared. */
enum status oracle_run(struct arena *a, const struct oracle_options *options,
                       struct oracle_report *ret_report, struct err *err) MUST_USE;

/* "model.layers.3.self_attn.o_proj, output" of a row's name. */
const char *oracle_place(struct arena *a, const struct oracle_row *row);

#endif
