// SPDX-License-Identifier: Apache-2.0
/* Making a failing product smaller; used by gemm_localise.c. */
#ifndef ASSAY_OPS_GEMM_SHRINK_H
#define ASSAY_OPS_GEMM_SHRINK_H

#include "ops/gemm_localise.h"

struct gemm_shrink {
    struct arena *arena; /* scratch */
    struct arena *keep;  /* what the diagnosis points to */
    int64_t until_ms;    /* of the monotonic clock; 0: no limit */
    bool late;           /* a run was cut short by it: what it did not find says nothing */
    const struct gemm_target *target;
    enum gemm_fault_kind kind;
    enum gemm_operand operand;
    struct gemm_result *result; /* of the last run */
    bool first_only;            /* a run on a device may stop at its first fault */
    struct gemm_probe best;     /* fails as wanted */
    struct gemm_fault fault;
};

int64_t gemm_shrink_now_ms(void);

/* Runs the probes; outcomes are asked for one by one until the next run. */
enum status gemm_shrink_run(struct gemm_shrink *z, const struct gemm_probe_list *list,
                            struct err *err) MUST_USE;

/* The fault of probe `index` of the last run when it is of the wanted kind and operand, else NULL. */
const struct gemm_fault *gemm_shrink_outcome(const struct gemm_shrink *z, size_t index);

/* Makes z->best as small and plain as it still fails. */
enum status gemm_shrink(struct gemm_shrink *z, struct err *err) MUST_USE;

/* The variants of z->best one step away, and those with a size that fills a tile. Words live in `a`. */
enum status gemm_shrink_neighbours(struct gemm_shrink *z, struct arena *a,
                                   struct gemm_neighbour_list *ret, struct err *err) MUST_USE;

#endif
