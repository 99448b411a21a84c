// SPDX-License-Identifier: Apache-2.0
/*
 * Every tensor of one step by name: what oracle.c compares and writes. Names are those of the dump
 * (examples/dump_transformers.py):
 *
 *   loss                         mean over the labels
 *   logits                       [rows, vocab] of the positions in logits.rows
 *   act.<module>.output          [tokens, width], in the order of forward
 *   act.<module>.grad_output     gradient of that, in the order of backward
 *   grad.<parameter>             in the order of the parameters
 */
#ifndef ASSAY_TRAIN_CAPTURE_H
#define ASSAY_TRAIN_CAPTURE_H

#include <stdint.h>

#include "base/vec.h"

#include "train/model.h"

enum capture_kind {
    CAPTURE_LOSS = 0,
    CAPTURE_LOGITS,
    CAPTURE_FORWARD,
    CAPTURE_BACKWARD,
    CAPTURE_GRADIENT,
    CAPTURE_KIND_COUNT
};

struct captured {
    const char *name;
    enum capture_kind kind;
    size_t rank;
    size_t shape[PARAM_RANK_MAX];
    size_t count;
    const double *values;
};

struct capture {
    struct arena *arena;
    VEC_OF(struct captured) list; /* in the order of the step */
    double loss;                  /* mean over the labels */
    size_t labels;
    size_t parameters; /* trainable */
};

/* Positions at which logits are kept: `count` in the batch's own numbering. */
struct capture_rows {
    const size_t *at;
    size_t count;
};

/*
 * Opens the model, takes one step (forward, backward of the mean loss) and keeps all its tensors in
 * `a`. `rounded`: weights are rounded to bfloat16 first, whatever the precision of the arithmetic is.
 */
enum status capture_step(struct arena *a, const char *folder, const struct model_options *options,
                         bool rounded, const struct train_batch *batch,
                         const struct capture_rows *rows, struct capture *ret_capture,
                         struct err *err) MUST_USE;

/* Writes all tensors as a safetensors file, in float64 or float32. */
enum status capture_write(const struct capture *c, const char *path, enum precision precision,
                          const struct capture_rows *rows, struct err *err) MUST_USE;

#endif
