// SPDX-License-Identifier: Apache-2.0
/*
 * Curves and spans of time in a report: what a page draws and Markdown sums up. Text, JSON and JUnit
 * leave them out: the run folder's metrics.jsonl has every point.
 */
#ifndef ASSAY_REPORT_PLOT_H
#define ASSAY_REPORT_PLOT_H

#include <stdbool.h>

#include "base/finding.h"
#include "base/str.h"

enum {
    PLOT_CURVES_MAX = 8 /* told apart by colour and dashes on a page */
};

/* Points in rising x; y may be NaN or infinite, which leaves a gap. */
struct report_curve {
    const char *name;
    const double *x;
    const double *y;
    size_t count;
};

struct report_plot {
    const char *key;   /* "loss"; also the anchor on the page */
    const char *title; /* "loss" */
    const char *x_label;
    const char *y_label;
    bool logarithmic; /* y, where all values are above 0 */
    struct report_curve *curves;
    size_t curve_count; /* at most PLOT_CURVES_MAX */
};

/* Something that took time, in seconds since the start of its report. */
struct report_span {
    const char *name;
    const char *what; /* "" or a sentence */
    double from_s;
    double to_s;
    enum severity severity; /* OK draws it plainly, ERROR marks it */
};

/* Of the finite values; NaN where there is none. */
struct curve_summary {
    double first, last, least, most, median;
    double from_x, to_x;
    size_t finite;
    size_t not_finite;
    double first_not_finite_x; /* NaN when all are finite */
};

void report_curve_summary(const struct report_curve *c, struct curve_summary *ret_summary);

/* At most `room` points that look the same: the least and the most of each stretch, gaps kept. */
void report_curve_thin(struct arena *a, const struct report_curve *c, size_t room,
                       struct report_curve *ret_curve);

/* Whether a logarithmic axis can hold every value of the plot, and was asked for. */
bool report_plot_logarithmic(const struct report_plot *p);

/* Seconds, bytes and bare numbers as people read them: "0.0123", "1.2e-07". */
void report_number_text(struct strbuf *out, double v);

#endif
