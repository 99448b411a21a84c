// SPDX-License-Identifier: Apache-2.0
/* What a fatal signal outside of recorded products was: a pointer to nothing, a stack that ran out, abort(), or a
 * signal that somebody sent. */
#ifndef ASSAY_CLI_RUN_STORY_SIGNAL_H
#define ASSAY_CLI_RUN_STORY_SIGNAL_H

#include "base/arena.h"
#include "base/finding.h"

#include "recorder/fault_join.h"

#define RUN_SIGNAL_FATAL    "fatal-signal"   /* a fault of the processor */
#define RUN_SIGNAL_OVERFLOW "stack-overflow" /* no room on the stack */
#define RUN_SIGNAL_ABORT    "aborted"        /* abort() */
#define RUN_SIGNAL_SENT     "signal-sent"    /* by a process */

/* Fills id, title, claim, confidence and remedy. `frames`: names from the innermost on, as run_stack_name gives
 * them. */
void run_story_signal(struct arena *a, const struct record_header *head,
                      const struct fault_story *fault, const struct text_list *frames,
                      struct finding *f);

/* Whether a finding is one of the above: the end of a process, seen from inside it. */
bool run_story_is_signal(const char *id);

#endif
