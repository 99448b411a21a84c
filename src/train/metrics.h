// SPDX-License-Identifier: Apache-2.0
/*
 * What is written about each update: one line of JSON in metrics.jsonl (docs/train.md lists the keys).
 * Numbers that do not exist (a first cosine) are left out; NaN and infinities are null.
 */
#ifndef ASSAY_TRAIN_METRICS_H
#define ASSAY_TRAIN_METRICS_H

#include "train/clip.h"
#include "train/optim.h"

/* A decoder layer, or a part outside of them: "embed", "0", "1", ..., "norm", "head". */
struct metrics_group {
    const char *name;
    double grad_sq;
    double weight_sq;
    double change_sq;
    uint64_t count; /* trained elements */
};

struct metrics_row {
    uint64_t step; /* 1 after the first update */
    double epoch;  /* epochs done, with the fraction of the one under way */
    double loss;   /* mean over the labels of this update */
    double loss_mean;
    double loss_variance; /* of the last SAVE_WINDOW updates, this one included */
    double learning_rate; /* that this update used */
    double grad_norm;     /* before clipping */
    double clip_factor;
    double clipped_share; /* of all updates so far */
    double grad_cosine;   /* with the gradient of the update before; NaN: there is none */
    double update_ratio;  /* RMS of the changes / RMS of the weights; NaN: not counted */
    double changed_share; /* of trained elements */
    double stagnated_share;
    double zero_grad_share;
    uint64_t tokens; /* of this update */
    uint64_t labels;
    uint64_t tokens_seen;
    double seconds;        /* of this update */
    uint64_t memory_bytes; /* resident now */
    struct metrics_group *groups;
    size_t group_count;
};

/* Groups in the order of the parameters; param_group[i] is the group of parameter i. */
struct metrics_groups {
    struct metrics_group *items;
    size_t count;
    size_t capacity;
    size_t *param_group;
};

void metrics_groups_init(struct arena *a, const struct param_list *params,
                         struct metrics_groups *ret_groups);

/* Sums gradient and change of every parameter into `row`, groups included. */
void metrics_sum(struct metrics_groups *groups, const struct param_list *params,
                 const struct grad_stats *grads, const struct optim_change *changes,
                 struct metrics_row *row);

/* The line, with its end. */
void metrics_line(const struct metrics_row *row, struct strbuf *out);

/* One layer's attention. */
struct metrics_entropy {
    double sum; /* over tokens and heads, nats */
    uint64_t count;
};

/* What activations look like during an evaluation.
 *
 * Sparsity: share of the values between the halves of the MLPs that are below a hundredth of their tensor's
 * RMS. A gate of SiLU is hardly ever exactly 0: this says how many do no work.
 *
 * Entropy of attention: -sum p log p over the keys of a token, 0 when one key has everything, log(n) when n
 * keys share evenly. Its collapse goes before a divergence (Zhai et al. 2023, arXiv 2303.06296). */
struct metrics_activations {
    enum precision precision;
    uint64_t small;
    uint64_t count;
    struct metrics_entropy *entropy; /* [layers] */
    size_t layers;
};

/* A model_watch_fn; ctx is a struct metrics_activations. */
void metrics_watch(void *ctx, const char *name, size_t rows, size_t width, const void *values);

/* `activations` NULL: nobody looked. */
void metrics_eval_line(uint64_t step, double loss, uint64_t labels, double seconds,
                       const struct metrics_activations *activations, struct strbuf *out);

/* Resident memory of this process now and at most so far, from /proc/self/status; 0: not readable. */
uint64_t metrics_memory(bool peak);

#endif
