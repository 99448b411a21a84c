// SPDX-License-Identifier: Apache-2.0
/*
 * Search for the place in an ordered list where a fault begins or ends, when a run with the fault fails
 * only sometimes. A position fails at its first failure, and counts as clean after `repeats` clean trials;
 * so "fails" is certain and "clean" is not, and the chance of a wrong "clean" is bounded in the result.
 * The two ends are tried first, with all their trials: they must differ.
 */
#ifndef ASSAY_STUDY_BISECT_H
#define ASSAY_STUDY_BISECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum bisect_state {
    BISECT_GOING = 0,
    BISECT_FOUND,
    BISECT_ENDS_ALIKE, /* both clean, or both fail */
};

struct bisect_position {
    uint64_t trials;
    uint64_t failed;
};

struct bisect {
    struct bisect_position *positions;
    size_t count;
    uint64_t repeats;
    size_t low, high; /* known to differ once the ends are done; found when neighbours */
};

void bisect_begin(struct arena *a, size_t count, uint64_t repeats, struct bisect *ret_bisect);

/* Where to try next. *ret_position is written for BISECT_GOING alone; with BISECT_FOUND the fault begins
 * or ends between low and high = low + 1. */
enum bisect_state bisect_next(struct bisect *b, size_t *ret_position);

void bisect_take(struct bisect *b, size_t position, bool failed);

/* True when a position is settled as failing, false as clean. */
bool bisect_fails(const struct bisect *b, size_t position);

/*
 * A bound for the chance that the result is wrong because a failing position passed all its trials: the
 * number of positions taken as clean, the ends aside, times (1 - r)^repeats. r is the lower end of
 * Wilson's 95 % interval for the failure rate at the end that fails, which gets all its trials. At most 1.
 */
double bisect_risk(const struct bisect *b);

#endif
