// SPDX-License-Identifier: Apache-2.0
/*
 * Is a merged model its base plus its LoRA adapter? For each adapted weight W the merged one should be
 * W + s B A, with A [r, in], B [out, r] and s = alpha / r, or alpha / sqrt(r) with use_rslora; every
 * other tensor should be the base's, or the adapter's where modules_to_save kept it whole.
 *
 * An element is right when it is off by no more than the roundings of a merge explain: one of the sum in
 * the merged type, those of the product in the adapter's or the merged type, and r + 4 of float32.
 *
 * Source: peft/tuners/lora/layer.py (get_delta_weight, merge), peft/tuners/lora/config.py.
 */
#ifndef ASSAY_MODEL_MERGE_H
#define ASSAY_MODEL_MERGE_H

#include "model/compare.h"

enum merge_state {
    MERGE_RIGHT = 0,
    MERGE_ABSENT, /* the merged weight is the base's */
    MERGE_SCALED, /* a multiple of the delta was added: another alpha, rank, or sign */
    MERGE_OTHER,  /* the difference is not the delta */
    MERGE_UNREAD, /* no such tensor, or values that cannot be read: an issue says which */
    MERGE_STATE_COUNT
};

struct merge_module {
    const char *name; /* of the weight in the base */
    uint64_t rank;
    double scale;    /* that adapter_config.json asks for */
    double fitted;   /* scale that explains the difference best; NaN when the delta is zero */
    double residual; /* norm of difference minus delta over norm of the delta */
    uint64_t elements;
    uint64_t outside; /* elements that roundings do not explain */
    enum merge_state state;
};

struct merge {
    struct merge_module *modules;
    size_t count;
};

const char *merge_state_name(enum merge_state s);

/* Issues go to the base's list. ST_ABSENT, ST_DENIED, ST_FORMAT: the adapter's folder or its
 * configuration. ST_UNSUPPORTED: an adapter of another kind, or DoRA. */
enum status merge_check(struct checkpoint *base, struct checkpoint *merged, const char *adapter,
                        const struct compare_options *options, struct merge *ret_merge,
                        struct err *err) MUST_USE;

#endif
