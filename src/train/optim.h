// SPDX-License-Identifier: Apache-2.0
/*
 * AdamW over a list of parameters, as torch.optim.AdamW computes it: decay first and decoupled from the
 * gradient, both moments corrected for their start, eps added after the correction.
 *
 *     p -= lr * wd * p                                (parameters with `decay` only)
 *     m  = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g g
 *     p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)        t = 1, 2, ...
 *
 * Each element is computed in double and rounded once to where it is stored. Under PRECISION_BF16 the
 * optimizer keeps a float32 master of every weight and stores its bfloat16 rounding in the parameter
 * (what frameworks call bf16 with float32 weights); with `pure` there is no master, and weights and
 * moments are themselves bfloat16 (pure_bf16): an update below half a step of the format is lost, and
 * counted as stagnated.
 *
 * Results do not depend on the number of threads. Source: torch/optim/adamw.py, Loshchilov and Hutter
 * 2019, "Decoupled Weight Decay Regularization", algorithm 2.
 */
#ifndef ASSAY_TRAIN_OPTIM_H
#define ASSAY_TRAIN_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#include "train/param.h"

struct optim_options {
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    bool pure;        /* with PRECISION_BF16: no float32 master, moments in bfloat16 */
    unsigned threads; /* 0: all cores */
};

#define OPTIM_DEFAULTS ((struct optim_options){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8})

/* Per parameter; NULL for those that are not trained. Reals of the list's precision. */
struct optim_state {
    void *m;
    void *v;
    void *master; /* float32; NULL unless bfloat16 with a master */
};

/* What the last step did to a parameter. */
struct optim_change {
    double weight_sq;   /* sum of squares of the weights after the step */
    double change_sq;   /* sum of squares of their changes, as stored */
    uint64_t changed;   /* elements whose stored value is another one now */
    uint64_t stagnated; /* elements whose update was not zero and did not change the stored value */
};

struct optim {
    struct optim_options options;
    struct param_list *params;
    struct optim_state *states;  /* one a parameter */
    struct optim_change *change; /* one a parameter, of the last step */
    struct arena *arena;
    uint64_t steps; /* done so far */
};

/* Zero moments. The list, with its gradients, must live as long as the optimizer. */
void optim_init(struct arena *a, struct param_list *params, const struct optim_options *options,
                struct optim *ret_optim);

/* One update with the gradients times `scale` (what clipping decided). lr 0 leaves every weight as it
 * is, bit for bit. */
void optim_step(struct optim *o, double lr, double scale);

/* After weights were loaded into the parameters: masters follow them. */
void optim_take_weights(struct optim *o);

/* Bytes of moments and masters that optim_init() takes for a list. */
uint64_t optim_bytes(const struct param_list *params, const struct optim_options *options);

#endif
