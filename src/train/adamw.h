// SPDX-License-Identifier: Apache-2.0
/*
 * The inner loop of AdamW (optim.h), in the widest vectors that this CPU has. Unlike the kernels of
 * kernel.h all of them give the same bits: every operation is one of IEEE 754 with its own rounding, and
 * none is contracted to FMA.
 */
#ifndef ASSAY_TRAIN_ADAMW_H
#define ASSAY_TRAIN_ADAMW_H

#include <stddef.h>

#include "train/optim.h"

/* How a parameter and its moments are stored. */
enum adamw_storage {
    ADAMW_F64 = 0,
    ADAMW_F32,
    ADAMW_MASTER, /* float32 master and moments beside a bfloat16 weight */
    ADAMW_PURE,   /* bfloat16 weight and moments */
    ADAMW_STORAGE_COUNT
};

/* Elements of one parameter, none of which overlap: doubles for ADAMW_F64, else floats. */
struct adamw_part {
    size_t count;
    const void *grad;
    void *m, *v;
    void *value;  /* the weight */
    void *master; /* of ADAMW_MASTER alone, else NULL */
};

/* With g = scale grad, each in double and rounded once where it is stored:
 *   m = beta1 m + (1 - beta1) g    v = beta2 v + (1 - beta2) g g
 *   w = w - decay w - rate m / (sqrt(v) / root2 + eps)
 */
struct adamw_rates {
    double scale;
    double beta1, beta2, eps;
    double decay; /* lr * weight_decay; 0 for a parameter that does not decay */
    double rate;  /* lr / (1 - beta1^t) */
    double root2; /* sqrt(1 - beta2^t) */
    bool still;   /* lr is 0: the moments move, the weights do not */
};

/* Updates the elements and *sets* ret_change. Its sums of squares run in eight interleaved parts. */
typedef void adamw_fn(const struct adamw_rates *r, const struct adamw_part *p,
                      struct optim_change *ret_change);

/* One loop for each way of storing. */
struct adamw_kernel {
    const char *name; /* "avx512" */
    adamw_fn *update[ADAMW_STORAGE_COUNT];
};

/* The kernels that this CPU can run, fastest first; NULL behind the last. */
const struct adamw_kernel *adamw_kernel_at(size_t index);

#endif
