// SPDX-License-Identifier: Apache-2.0
/* The words of one line of a library's log as names and values, whatever form they stand in. */
#ifndef ASSAY_RECORDER_LIBRARY_LOG_PAIRS_H
#define ASSAY_RECORDER_LIBRARY_LOG_PAIRS_H

#include "base/str.h"

enum {
    PAIRS_MAX = 160
};

struct pair {
    struct str group; /* "Adesc" of Adesc=[type=R_32F rows=4]; empty outside */
    struct str name;
    struct str value;
};

struct pairs {
    struct pair items[PAIRS_MAX];
    size_t count;
};

/* "-m 64 --lda 64 --any_stride --alpha 1": a name without a value has an empty one. A word that begins with '-' and
 * a digit is a value. */
void pairs_of_flags(struct str line, struct pairs *ret);

/* "{ rocblas_function: "rocblas_gemm_ex", transA: 'N', M: 12 }": quotation marks are taken off. */
void pairs_of_flow(struct str line, struct pairs *ret);

/* "A=0x1 Adesc=[type=R_32F rows=4] stream=0x0" */
void pairs_of_trace(struct str line, struct pairs *ret);

/* The value of the first of `names` (NULL at the end) that is there, in the group; empty when none is. */
struct str pairs_get(const struct pairs *p, const char *group, const char *const *names);

/* As a whole number; `fallback` when it is not there or none. */
int64_t pairs_int(const struct pairs *p, const char *group, const char *const *names,
                  int64_t fallback);

/* As a real number; NaN when it is not there or none. */
double pairs_real(const struct pairs *p, const char *const *names);

#endif
