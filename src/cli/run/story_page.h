// SPDX-License-Identifier: Apache-2.0
/* The page that a GPU faulted on, as the logs of the run tell it, joined to a record (recorder/page_join.h). */
#ifndef ASSAY_CLI_RUN_STORY_PAGE_H
#define ASSAY_CLI_RUN_STORY_PAGE_H

#include "cli/run/story.h"
#include "recorder/maps_file.h"
#include "recorder/page_join.h"

/* Adds a finding where a page lies near a block or an operand of this process; nothing where its fault is told to
 * the operand already, or where it ended well. `source` names the record. */
void run_story_page(struct arena *a, const struct record *r, const struct maps *maps,
                    const char *source, const struct fault_pages *pages, struct run_story *story);

#endif
