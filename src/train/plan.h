// SPDX-License-Identifier: Apache-2.0
/*
 * How many bytes a training takes, before it starts: from config.json alone, by the shapes that the model's files
 * declare and the buffers that its forward and backward take. Pictures are not counted: what they need
 * follows from their number.
 */
#ifndef ASSAY_TRAIN_PLAN_H
#define ASSAY_TRAIN_PLAN_H

#include "train/config.h"
#include "train/model.h"
#include "train/optim.h"

struct plan_counts {
    uint64_t weights;  /* elements of all parameters */
    uint64_t adapters; /* of LoRA's; 0 without it */
    uint64_t low;      /* LoRA: reals kept a token, all layers together */
};

/* Exact for text models and vision towers of the families that config_read() knows. */
void plan_count(const struct model_config *config, const struct lora_options *lora,
                struct plan_counts *ret_counts);

struct plan_wish {
    const struct model_config *config;
    const struct model_options *model;
    const struct optim_options *optim;
    bool brief;     /* no copy of the gradients before */
    size_t tokens;  /* of a micro-batch */
    size_t longest; /* tokens of its longest sequence */
    unsigned threads;
};

struct plan {
    struct plan_counts counts;
    uint64_t trained; /* elements */
    uint64_t weights; /* bytes, as the following */
    uint64_t gradients;
    uint64_t gradients_before;
    uint64_t optimizer;
    uint64_t activations; /* kept for backward, and buffers of one layer's backward */
    uint64_t logits;
    uint64_t program; /* this process without any of it */
    uint64_t total;
    uint64_t available; /* memory that this process may still take; 0: not readable */
    uint64_t
        fits; /* micro-batches of the wished size that fit beside each other in it: the factor that
                           the batch may grow by; 0: not even one */
};

void plan_make(const struct plan_wish *wish, struct plan *ret_plan);

#endif
