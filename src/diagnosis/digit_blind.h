// SPDX-License-Identifier: Apache-2.0
/*
 * Whether an expression can tell one digit from another. One that cannot ("step \d+") matches either
 * all lines of a shape (line_shape.h) or none.
 */
#ifndef ASSAY_DIAGNOSIS_DIGIT_BLIND_H
#define ASSAY_DIAGNOSIS_DIGIT_BLIND_H

#include <stdbool.h>

/* True when no digit can be told from another; false also for syntax that is not understood. */
bool regex_is_digit_blind(const char *regex);

#endif
