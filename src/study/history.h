// SPDX-License-Identifier: Apache-2.0
/*
 * Figures of earlier qualifications in an SQLite file: one run a row, under the host, the device and the stack that it
 * was measured on. One writer at a time; a second waits for at most ten seconds.
 *
 * Tables: run(id, at, host, device, stack), figure(run, name, unit, less, value). at is Unix time in seconds; a figure
 * with less = 1 is better when it is smaller. PRAGMA application_id is HISTORY_APPLICATION, user_version 1.
 */
#ifndef ASSAY_STUDY_HISTORY_H
#define ASSAY_STUDY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum {
    HISTORY_APPLICATION = 0x61737379, /* "assy" */
    HISTORY_RUNS = 30,                /* newest ones that are compared with */
    HISTORY_MEASURED = 5              /* from so many on, noise is measured and not assumed */
};

struct history;

struct history_key {
    const char *host, *device, *stack;
};

struct history_figure {
    const char *name, *unit;
    bool less; /* is better */
    double value;
};

/* Opens the file, or makes it. ST_FORMAT: it is no SQLite file, is damaged, or is another program's. */
enum status history_open(struct arena *a, const char *path, struct history **ret_history,
                         struct err *err) MUST_USE;
void history_close(struct history *h);

/* One run with its figures, all or nothing. Values that are not finite are left out. */
enum status history_add(struct history *h, const struct history_key *key, int64_t at,
                        const struct history_figure *figures, size_t count,
                        struct err *err) MUST_USE;

/* Values of a figure of the same name and unit, newest first, at most HISTORY_RUNS; key->stack NULL takes every
 * stack of that host and device. */
enum status history_values(struct history *h, const struct history_key *key,
                           const struct history_figure *figure, double ret_values[HISTORY_RUNS],
                           size_t *ret_count, struct err *err) MUST_USE;

/* How a value compares with earlier ones. */
struct history_verdict {
    size_t count;
    double median, mad; /* MAD as it is, without a factor */
    bool measured;      /* the bound comes from the values */
    double
        ratio; /* how many times worse than the median: above 1 is worse; NaN for a value that is no number */
    double bound; /* highest ratio that is noise */
    bool worse;   /* !(ratio <= bound) */
};

/* Bound: 1 + max(8 %, 4 * 1.4826 MAD / median) from HISTORY_MEASURED values on, else 1.5. count > 0. */
struct history_verdict history_judge(struct arena *a, const double *values, size_t count,
                                     const struct history_figure *now);

#endif
