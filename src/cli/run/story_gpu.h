// SPDX-License-Identifier: Apache-2.0
/* What a record says of an error that a kernel brought (700 and its kind). */
#ifndef ASSAY_CLI_RUN_STORY_GPU_H
#define ASSAY_CLI_RUN_STORY_GPU_H

#include "cli/run/story.h"
#include "recorder/maps_file.h"
#include "recorder/record_reader.h"

/* Adds a finding when a call returned such an error: the kernels and products that were launched since
 * the device was last known to be at rest, with the guarded blocks among their arguments. */
void run_story_gpu(struct arena *a, const struct record *r, const struct maps *maps,
                   const char *source, struct run_story *story);

#endif
