// SPDX-License-Identifier: Apache-2.0
/* What a record tells of the guard: whether it was proven, what it saw, and whether products ran on guarded blocks. */
#ifndef ASSAY_CLI_RUN_STORY_GUARD_H
#define ASSAY_CLI_RUN_STORY_GUARD_H

#include "cli/run/story.h"
#include "recorder/record_reader.h"

/* `source`: name of the record. Adds findings, notes and counts to the story. */
void run_story_guard(struct arena *a, const struct record *r, const char *source,
                     struct run_story *story);

#endif
