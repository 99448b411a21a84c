// SPDX-License-Identifier: Apache-2.0
/*
 * Steps that are counted anew in each epoch ("epoch 3, step 0"), as one count over the run. Without it a log of
 * short epochs looks like many restarts. A step that goes back while the epoch does not grow is one.
 */
#ifndef ASSAY_STUDY_EPOCH_STEPS_H
#define ASSAY_STUDY_EPOCH_STEPS_H

#include "diagnosis/metric_line.h"

struct epoch_steps {
    int64_t base; /* steps of the epochs before */
    int64_t last; /* the last step as it was printed */
    double epoch; /* of that step; NaN: none was named */
    double named; /* the last one that a line named */
    bool mixed;   /* lines of several ranks: steps stay as they are */
};

struct epoch_steps epoch_steps_begin(void);

/* A line that names an epoch, with a step or before one ("Epoch 2/10"). */
void epoch_steps_line(struct epoch_steps *e, struct str line, struct metric_line *line_metrics);

#endif
