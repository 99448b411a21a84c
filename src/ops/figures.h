// SPDX-License-Identifier: Apache-2.0
/*
 * Figures of a device that explain slowness: latencies, bandwidths, matrix rates, a leak test. Each
 * stands beside the limit of the part where one is known. No stress test: a few seconds in all.
 */
#ifndef ASSAY_OPS_FIGURES_H
#define ASSAY_OPS_FIGURES_H

#include "device/device.h"

enum figure_verdict {
    FIGURE_FINE = 0,
    FIGURE_SLOW,     /* beyond what this kind of device needs, or under half of the part's limit */
    FIGURE_NO_LIMIT, /* measured, and nothing to hold it against */
    FIGURE_UNKNOWN,  /* could not be measured: `note` says why */
    FIGURE_VERDICT_COUNT
};

struct figure {
    char what[64]; /* "copy on the device" */
    char unit[16]; /* "GB/s" (10^9), "us", "TFLOP/s", "KiB" */
    double value;
    double limit; /* same unit; 0: none known. Latencies: at most; rates: the part's peak */
    enum figure_verdict verdict;
    char note[200];
};

enum {
    FIGURES_MAX = 24
};

struct figures {
    size_t count;
    struct figure items[FIGURES_MAX];
    char device[192]; /* its name */
};

/* Measures in a child with a deadline. What cannot be measured is a row; fails when the device
 * cannot be opened or the child ends badly. */
enum status figures_measure(enum device_kind kind, int index, struct figures *ret_figures,
                            struct err *err) MUST_USE;

/* "fine", "slow", "no limit known", "could not tell". */
const char *figure_verdict_name(enum figure_verdict verdict);

#endif
