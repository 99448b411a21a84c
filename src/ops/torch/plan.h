// SPDX-License-Identifier: Apache-2.0
/*
 * Which cases of each operator the user's PyTorch is tried on: sizes on both sides of tile borders,
 * the shapes of LoRA, masks, conventions, ragged ends of chunks.
 */
#ifndef ASSAY_OPS_TORCH_PLAN_H
#define ASSAY_OPS_TORCH_PLAN_H

#include "ops/op.h"

struct torch_plan_row {
    const char *op;
    const char *params; /* "m=17 n=16 k=64 values=grid"; what is not named has its fallback */
    /* A parameter on whose values implementations legitimately differ (what a query gives that may
     * look at nothing): the case is accepted when one of its choices fits; NULL: none. */
    const char *either;
    bool slow; /* not in the quick plan */
};

/* Rows of all operators, ending with a row whose op is NULL. */
extern const struct torch_plan_row torch_plan[];

/* True when the plan has a row for the operator; others are tried with their fallbacks. */
bool torch_plan_has(const char *op);

/* The case of a row: "<op> <dtype> <params> seed=<seed>" as op_case_parse reads it. */
enum status torch_plan_case(struct arena *a, const struct torch_plan_row *row, enum dtype dtype,
                            uint64_t seed, struct op_case *ret_case, struct err *err) MUST_USE;

#endif
