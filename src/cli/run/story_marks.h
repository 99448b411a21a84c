// SPDX-License-Identifier: Apache-2.0
/* What progress marks (run --marks) say of a process that did not end well. */
#ifndef ASSAY_CLI_RUN_STORY_MARKS_H
#define ASSAY_CLI_RUN_STORY_MARKS_H

#include "cli/run/story.h"
#include "recorder/record_reader.h"

/* Adds a finding with the last call that each stream completed and the next ones, and a note where marks were asked
 * for and could not be made. */
void run_story_marks(struct arena *a, const struct record *r, const char *source,
                     struct run_story *story);

/* The one call that a stream stopped in, when marks stand behind every call and one stream alone has calls that are
 * not done among events[first, end); NULL when marks do not tell. */
const struct record_entry *run_story_marks_stopped(const struct record *r, size_t first,
                                                   size_t end);

/* "kernel add", "hipMemsetAsync of 4000 bytes", "hipblasLtMatmul NT 64x16x94 bfloat16" */
const char *run_story_work_text(struct arena *a, const struct record *r,
                                const struct record_entry *e);

#endif
