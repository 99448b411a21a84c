// SPDX-License-Identifier: Apache-2.0
/* A recorded product as a product to try: the library's kind, the shape, the ways it is called. */
#ifndef ASSAY_CLI_REPRODUCE_CASE_H
#define ASSAY_CLI_REPRODUCE_CASE_H

#include "cli/reproduce/suspects.h"
#include "device/device.h"
#include "ops/gemm_trial.h"

struct reproduce_case {
    const struct gemm_vendor *vendor;
    enum device_kind device_kind;
    struct gemm_probe_list
        probes;        /* both sides of the operands, all choices of the library, values;
                                    * scalars that were not recorded are tried in two ways */
    double operations; /* of all probes and their references */
};

/* ST_UNSUPPORTED: no library of this kind, no such number format, or sizes that a record of a call
 * that was refused holds (negative, absurd). The sentence says which. */
enum status reproduce_case_make(struct arena *a, const struct suspect *suspect,
                                struct reproduce_case *ret_case, struct err *err) MUST_USE;

/* Whether a choice of the library is the function, on a device the algorithm, that was recorded. */
bool reproduce_case_same_function(const struct suspect *suspect, const struct gemm_choice *choice);

#endif
