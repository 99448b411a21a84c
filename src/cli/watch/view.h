// SPDX-License-Identifier: Apache-2.0
/* The screen of `assay watch`: a plot for each of the main metrics, and the last anomalies. */
#ifndef ASSAY_CLI_WATCH_VIEW_H
#define ASSAY_CLI_WATCH_VIEW_H

#include "study/anomaly.h"

enum {
    VIEW_POINTS = 512, /* of a plot; when they are full, two become one */
    VIEW_PLOTS = 5,
    VIEW_RECENT = 6,
    VIEW_LINE_MAX = 240
};

/* Least and most of the values that a point stands for: a spike is never averaged away. */
struct view_point {
    double least, most;
};

struct view_plot {
    struct view_point points[VIEW_POINTS];
    size_t count;
    uint64_t values, each; /* each point stands for so many values */
    int rank;              /* of the series that is shown: the lowest seen */
    double last;
};

struct watch_view {
    struct view_plot plots[VIEW_PLOTS];
    char recent[VIEW_RECENT][VIEW_LINE_MAX];
    enum severity severities[VIEW_RECENT];
    uint64_t recent_count;
};

void watch_view_init(struct watch_view *v);
void watch_view_value(struct watch_view *v, const struct anomaly_sample *sample);
void watch_view_anomaly(struct watch_view *v, enum severity severity, const char *line);

struct view_frame {
    int columns, rows;
    bool color, utf8;
    const char *head; /* first line */
};

/* One frame, to be written to the terminal as it is: goes home, draws, clears what is below. */
void watch_view_draw(const struct watch_view *v, const struct view_frame *frame,
                     struct strbuf *out);

#endif
