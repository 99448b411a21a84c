// SPDX-License-Identifier: Apache-2.0
/*
 * What the records of a run folder say: which libraries served which calls, and, where a process met a
 * fatal signal or its guard saw something, what happened to which operand of which call.
 */
#ifndef ASSAY_CLI_RUN_STORY_H
#define ASSAY_CLI_RUN_STORY_H

#include "base/arena.h"
#include "base/finding.h"

#include "report/report.h"

/* Columns of run_story.libraries that others read. */
enum {
    RUN_STORY_LIBRARY = 0,
    RUN_STORY_FUNCTION = 1,
    RUN_STORY_CALLS = 3,
    RUN_STORY_PATH = 6,
};

#define RUN_STORY_LEFT   "left by _exit(%s)"
#define RUN_STORY_NO_END "no end seen: killed, exec, or running"

struct rank_calls;

/* One recorded process, and when it lived by the monotonic clock of its machine. */
struct run_process {
    int pid;
    int rank; /* -1: not told */
    const char *program;
    const char *end; /* "exited", "left by _exit(0)", "signal SEGV", RUN_STORY_NO_END */
    uint64_t calls;  /* allocations left out */
    uint64_t start_ns;
    uint64_t end_ns;                      /* 0: it was killed, or still runs */
    bool fatal;                           /* met a fatal signal */
    const struct rank_calls *collectives; /* NULL: none called; rank_calls.h */
};

struct run_process_list {
    struct run_process *items;
    size_t count;
    size_t capacity;
};

struct run_story {
    struct finding_list findings; /* faults first */
    struct report_table libraries;
    struct report_table process_table;
    struct text_list notes;
    struct run_process_list processes; /* one for each record */
    size_t record_count;
    size_t no_room;          /* processes whose record found no room on the disk */
    uint64_t calls;          /* recorded in all processes, allocations left out */
    uint64_t guarded_blocks; /* handed out by the guard */
    uint64_t gpu_guarded_blocks;
    uint64_t
        blocks_met; /* of guarded_blocks, without the one that each process proves the guard with */
    uint64_t products;         /* on the CPU, in guarded processes, that the rings still hold */
    uint64_t products_guarded; /* of them: with an operand in a guarded block */
    bool guard_proven;         /* in every process that asked for it */
};

/* Reads every record.<pid>.bin in the folder. A record that cannot be read is a note. */
enum status run_story_load(struct arena *a, const char *folder, struct run_story *ret_story,
                           struct err *err) MUST_USE;

#endif
