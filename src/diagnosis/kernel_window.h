// SPDX-License-Identifier: Apache-2.0
/*
 * The part of a machine's kernel log that can belong to a run: an old Xid or fault is no evidence
 * for a newer run. Times of training logs are taken as local time and as UTC, whichever takes in more,
 * because their text does not say which it is.
 */
#ifndef ASSAY_DIAGNOSIS_KERNEL_WINDOW_H
#define ASSAY_DIAGNOSIS_KERNEL_WINDOW_H

#include "base/arena.h"
#include "base/str.h"

/* What the training logs say of the run's time. */
struct log_times {
    double first;   /* first and last time in the lines, seconds since the epoch as if their text */
    double last;    /* were UTC; NaN without */
    double written; /* the files were last written, seconds since the epoch; NaN for streams */
};

/* How the machine's clocks stand. */
struct machine_clock {
    double boot;       /* seconds since the epoch when the kernel's clock was 0 */
    double utc_offset; /* of local time, seconds */
};

struct kernel_window {
    double from; /* seconds since boot; -infinity: since the boot */
    double to;   /* infinity: until now */
};

/* Ten minutes before the first time to five behind the last; without times in the lines, everything
 * from the boot to five minutes after the files were written. */
struct kernel_window kernel_window_of(const struct log_times *times,
                                      const struct machine_clock *clock);

/* The lines inside the window; one without a time goes with the line before it. */
struct str kernel_window_cut(struct arena *a, struct str text, const struct kernel_window *window,
                             size_t *ret_left_out);

#endif
