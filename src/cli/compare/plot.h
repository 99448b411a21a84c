// SPDX-License-Identifier: Apache-2.0
/* Two curves in a terminal: a small plot of characters, one mark each and one where both lie. */
#ifndef ASSAY_CLI_COMPARE_PLOT_H
#define ASSAY_CLI_COMPARE_PLOT_H

#include "base/str.h"

#include "study/run_log.h"

struct plot_curve {
    const char *name;
    const struct curve *curve;
};

/* `width` columns in all, at least 40. Nothing is drawn for less than two finite points. */
void plot_curves(struct strbuf *out, const char *title, const struct plot_curve *a,
                 const struct plot_curve *b, int width);

#endif
