// SPDX-License-Identifier: Apache-2.0
/*
 * What a contrast of a base route and a route that differs in one thing tells of a fault: failures
 * counted on both, Fisher's exact test between, and bounds where nothing failed. "Not observed" is never
 * "fixed".
 */
#ifndef ASSAY_STUDY_CONTRAST_H
#define ASSAY_STUDY_CONTRAST_H

#include <stdint.h>

#include "base/arena.h"

enum contrast_outcome {
    CONTRAST_UNTOLD = 0, /* too few trials, or a difference that may be chance */
    CONTRAST_BASE_FINE,  /* the base did not fail: there is nothing to rule out */
    CONTRAST_PASSES, /* fails less often than the base: what it changes takes part in the fault */
    CONTRAST_FAILS_TOO, /* fails, and not less often than chance allows: what it changes is not all of it */
    CONTRAST_WORSE, /* fails more often than the base */
};

#define CONTRAST_LEVEL 0.05 /* of Fisher's test, two-sided */

struct contrast {
    enum contrast_outcome outcome;
    double p;      /* of Fisher's test */
    uint64_t more; /* UNTOLD: clean trials of the route that would settle it; 0 unknown */
};

void contrast_of(uint64_t base_failed, uint64_t base_trials, uint64_t failed, uint64_t trials,
                 struct contrast *ret_contrast);

/* "0 of 12 failed: failure rate below 22 % at 95 %", "5 of 12 failed: 42 % (19 % to 68 %)". */
const char *contrast_rate_text(struct arena *a, uint64_t failed, uint64_t trials);

#endif
