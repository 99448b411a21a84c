// SPDX-License-Identifier: Apache-2.0
/* Which rank wrote a line of a job's output: the supervisor's side of line_format.h. */
#ifndef ASSAY_RECORDER_LINE_RANKS_H
#define ASSAY_RECORDER_LINE_RANKS_H

#include "base/arena.h"
#include "base/str.h"

enum {
    LINE_RANKS_PROCESSES_MAX = 256
};

struct lines_file;

struct line_ranks {
    const char *folder;
    struct lines_file *files[LINE_RANKS_PROCESSES_MAX];
    int pids[LINE_RANKS_PROCESSES_MAX];
    size_t count;
    double changed; /* when the folder had last changed as it was listed */
};

void line_ranks_start(const char *folder, struct line_ranks *ret_ranks);

/* The writer of the line (without its end), each of whose lines is told once. False when no process with a
 * rank is known to have written it. `scratch` is rewound. */
bool line_ranks_find(struct line_ranks *r, struct arena *scratch, struct str line, int *ret_rank,
                     int *ret_local_rank);

void line_ranks_end(struct line_ranks *r);

#endif
