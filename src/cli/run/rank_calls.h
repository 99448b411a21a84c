// SPDX-License-Identifier: Apache-2.0
/*
 * Collectives of the ranks of a job against each other: which rank is behind, and where two of them called different
 * things. Ranks of one communicator make the same calls in the same order; a job with several communicators a rank
 * is not judged, since records do not tell which of them belong together.
 */
#ifndef ASSAY_CLI_RUN_RANK_CALLS_H
#define ASSAY_CLI_RUN_RANK_CALLS_H

#include "base/arena.h"
#include "base/finding.h"

#include "cli/run/story.h"
#include "recorder/record_reader.h"

/* What a rank called of NCCL or RCCL between all ranks (sends and receives left out). */
struct rank_calls {
    uint64_t total;
    uint64_t
        first; /* number of items[0], counted from 0: earlier ones are not on record any more */

    struct rank_call {
        const char *function;
        uint64_t count; /* elements */
        uint64_t communicator;
    } * items;

    size_t count;
    size_t capacity;
};

/* NULL when the process called none. */
const struct rank_calls *rank_calls_read(struct arena *a, const struct record *r);

/*
 * A finding of class collective-timeout (a rank is behind) or collective-desync (ranks called different things), with
 * one line of evidence a rank; false when the ranks agree, or when they cannot be told apart.
 */
bool rank_calls_judge(struct arena *a, const struct run_process_list *processes,
                      struct finding *ret_finding);

#endif
