// SPDX-License-Identifier: Apache-2.0
/*
 * Judges what an implementation produced against a solved problem: element by element against the
 * bound, as a whole against the RMS limit where the operator sets one. NaN fails, an element that
 * was never written fails, and what was not given or cannot be compared is "could not tell".
 */
#ifndef ASSAY_OPS_JUDGE_OP_H
#define ASSAY_OPS_JUDGE_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/finding.h"

#include "ops/op.h"

enum op_verdict {
    OP_VERDICT_PASS = 0,
    OP_VERDICT_INACCURATE,
    OP_VERDICT_UNTOLD,
    OP_VERDICT_COUNT
};

/* One tensor's trial. */
struct op_judged {
    const char *name; /* of the tensor: "y", or "x" with is_gradient */
    bool is_gradient;
    enum op_verdict verdict;
    const char *why; /* OP_VERDICT_UNTOLD: half a sentence; else NULL */
    enum dtype dtype;
    size_t rank;
    int64_t dim[OP_RANK_MAX];
    size_t count;
    size_t over;   /* elements beyond their bound, the following three included */
    size_t nans;   /* NaN where a number was due */
    size_t infs;   /* infinite where a number was due */
    size_t poison; /* still the bit pattern that was there before the call */
    size_t worst;  /* flat index of the element that is farthest beyond its bound */
    double got, want, error, bound; /* of that element */
    double ratio;                   /* error / bound there; infinite when bound is 0 */
    double rms, rms_limit;          /* RMS(error)/RMS(want); limit 0: none */
};

/* `got` holds want->count elements of `dtype`, dense. `poison` is one element's bytes, or NULL. */
void op_judge(const struct op_array *want, bool is_gradient, enum dtype dtype, const void *got,
              const void *poison, struct op_judged *ret_judged);

/* A tensor that was not produced or cannot be compared. `why` must outlive the record. */
void op_judge_untold(const struct op_array *want, bool is_gradient, const char *why,
                     struct op_judged *ret_judged);

/* The worst verdict: inaccurate before untold before pass. */
enum op_verdict op_judge_worst(const struct op_judged *items, size_t count);

/* "[3, 17]" */
const char *op_index_text(struct arena *a, const struct op_judged *judged, size_t flat);

/* One line: what was measured of this tensor. */
const char *op_judged_text(struct arena *a, const struct op_judged *judged);

/* All tensors of one case as a finding with id operator-correct, operator-inaccurate,
 * operator-not-finite, operator-not-written or operator-untold. `where` names the implementation
 * ("torch 2.11 on cpu", a file) and becomes the source of the evidence. */
void op_judge_finding(struct arena *a, const struct op_case *c, const char *where,
                      const struct op_judged *items, size_t count, struct finding *ret_finding);

#endif
