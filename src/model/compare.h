// SPDX-License-Identifier: Apache-2.0
/*
 * Two checkpoints tensor by tensor, and replicas that should be the same bit for bit. Names match
 * when they are equal, or equal without what wrappers add (tensor_names.h). A head that one of them leaves
 * out because it is tied is compared with the embeddings there.
 */
#ifndef ASSAY_MODEL_COMPARE_H
#define ASSAY_MODEL_COMPARE_H

#include "model/checkpoint.h"

enum compare_state {
    COMPARE_EQUAL = 0, /* bit for bit, or value for value when the types differ */
    COMPARE_DIFFERENT,
    COMPARE_SHAPE,  /* shapes differ */
    COMPARE_OPAQUE, /* quantised types that differ: not looked into */
    COMPARE_ONLY_A,
    COMPARE_ONLY_B,
    COMPARE_UNREAD, /* bytes are missing */
    COMPARE_STATE_COUNT
};

/* Sums over elements that are finite in both. */
struct compare_tensor {
    const char *name; /* in A; in B when it is only there */
    const struct tensor_file *file_a;
    const struct tensor_file *file_b;
    const struct tensor *a;
    const struct tensor *b;
    enum compare_state state;
    uint64_t elements;
    uint64_t changed; /* elements of another value, NaN equal to NaN */
    uint64_t not_finite;
    double max_difference;
    double sum_difference_sq;
    double sum_a_sq;
    double sum_b_sq;
    double sum_ab;
};

struct compare {
    struct compare_tensor *tensors; /* A's in order of name, then those only in B */
    size_t count;
};

struct compare_options {
    unsigned threads; /* 0: all cores */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

const char *compare_state_name(enum compare_state s);
double compare_cosine(const struct compare_tensor *t);
/* Norm of the difference over the norm of A; 0 when A is zero. */
double compare_update_ratio(const struct compare_tensor *t);

/* Issues go to a's list: what is missing or of another shape, values that are not finite, bf16
 * stagnation (at least COMPARE_STAGNANT of a changed bf16 tensor's elements did not move). */
void compare_two(struct checkpoint *a, struct checkpoint *b, const struct compare_options *options,
                 struct compare *ret_compare);

/* Three or more: every tensor the same in all; the odd ones are named. Issues go to the first's. */
void compare_replicas(struct checkpoint *c, size_t count, const struct compare_options *options);

static const double COMPARE_STAGNANT = 0.9;

#endif
