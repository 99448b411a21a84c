// SPDX-License-Identifier: Apache-2.0
/* What figures.c and figures_gemm.c share. */
#ifndef ASSAY_OPS_FIGURES_INSIDE_H
#define ASSAY_OPS_FIGURES_INSIDE_H

#include "ops/figures.h"

/* Seconds of the monotonic clock. */
double figures_now(void);

/* A new row without a limit. */
struct figure *figures_add(struct figures *to, const char *what, const char *unit);
void figures_failed(struct figure *f, const struct err *err);

/* A rate that should be half of `limit` at least; 0: no judgement. */
void figures_set_rate(struct figure *f, double value, double limit);

/* One row for each number format of the device's own matrix library. */
void figures_gemm(struct device *device, struct arena *a, struct figures *to);

#endif
