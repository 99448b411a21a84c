// SPDX-License-Identifier: Apache-2.0
/* What to do about a convolution at fault. */
#ifndef ASSAY_CLI_RUN_STORY_CONVOLUTION_H
#define ASSAY_CLI_RUN_STORY_CONVOLUTION_H

#include "base/arena.h"
#include "base/finding.h"

#include "recorder/record_format.h"

/* Adds the line that repeats it alone, and the ways around it. */
void run_story_convolution(struct arena *a, const struct record_convolution *c, struct finding *f);

#endif
