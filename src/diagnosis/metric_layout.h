// SPDX-License-Identifier: Apache-2.0
/* Where the metrics stand in lines of one shape (line_shape.h): the next one is read by place. */
#ifndef ASSAY_DIAGNOSIS_METRIC_LAYOUT_H
#define ASSAY_DIAGNOSIS_METRIC_LAYOUT_H

#include "base/arena.h"

#include "diagnosis/metric_line.h"
#include "diagnosis/series.h"

struct metric_layout;

/* From a line that was read; `body_at` is where its body began (behind time and rank). SHAPE_MARGIN bytes
 * behind a body must be readable, here and below. */
struct metric_layout *metric_layout_new(struct arena *a, const struct metric_line *line,
                                        struct str body, size_t body_at) MUST_USE RETURNS_NONNULL;

/*
 * The metrics of another body of the same shape, as metric_line_parse() gives them. False when they
 * cannot be read by place. Names live as long as the layout.
 */
bool metric_layout_read(const struct metric_layout *layout, struct str body, size_t body_at,
                        struct metric_line *ret_line);

/* True when all lines of the shape can be read by place, and their bodies begin at their front. */
bool metric_layout_is_whole(const struct metric_layout *layout);

/* What such a line shows, beside the values of its series. */
struct metric_layout_line {
    bool trains; /* a loss or a step is among them */
    bool evals;  /* an evaluation's loss comes first */
    int64_t step;
};

/* Adds the metrics of a line to their series, as metric_layout_read() gives them. */
struct metric_layout_line metric_layout_add(struct metric_layout *layout, const char *line,
                                            struct series_set *series, int rank, uint64_t number);

#endif
