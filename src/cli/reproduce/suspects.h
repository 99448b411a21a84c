// SPDX-License-Identifier: Apache-2.0
/*
 * Which recorded matrix products of a run are worth replaying, the likeliest first: the one that a
 * fault happened in; those that had not returned; those launched on a GPU since it was last at rest
 * when it reported a fault; then every distinct product, the most frequent first; then those that only the
 * logs of libraries still hold.
 */
#ifndef ASSAY_CLI_REPRODUCE_SUSPECTS_H
#define ASSAY_CLI_REPRODUCE_SUSPECTS_H

#include "base/arena.h"
#include "base/finding.h"

#include "recorder/fault_join.h"

enum suspect_reason {
    SUSPECT_FAULT = 0,
    SUSPECT_IN_FLIGHT,
    SUSPECT_LAUNCHED,
    SUSPECT_CALLED,
    SUSPECT_LOGGED,
    SUSPECT_REASON_COUNT
};

/* "a fault happened in it", ... */
const char *suspect_reason_name(enum suspect_reason reason);

struct suspect {
    enum suspect_reason reason;
    const char *record;   /* name of its file in the run folder */
    const char *function; /* "sgemm_" */
    const char *family;   /* of the hook table: "blas", "onednn", "hipblaslt" */
    const char *library;  /* path of the file that served it; NULL: the record does not tell */
    const char *runtime;  /* path of the run-time library of its GPU; NULL: none was mapped */
    struct record_gemm gemm;
    uint64_t begin_ns;       /* of the call, on the clock of its process */
    uint64_t calls;          /* of this product that the record still holds, and the one itself */
    char operand;            /* SUSPECT_FAULT: 'A', 'B', 'C', or 0 */
    bool write, before;      /* SUSPECT_FAULT: direction and side of the access */
    struct text_list layout; /* where the operands lay; for reasons before SUSPECT_CALLED */
    const char *story; /* SUSPECT_FAULT: "read 0 bytes past the end of operand B"; else NULL */
};

struct suspect_list {
    struct suspect *items;
    size_t count;
    size_t capacity;
};

struct suspects {
    struct suspect_list list;
    size_t records;      /* read */
    uint64_t calls;      /* of hooked functions, allocations left out */
    uint64_t gemm_calls; /* of them matrix products */
    size_t logged;       /* products of the list that only logs of libraries hold */
    bool faulted;        /* a process met a fatal signal or an error of a GPU */
    struct text_list notes;
};

/* Reads every record of the folder. A record that cannot be read is a note. */
enum status suspects_load(struct arena *a, const char *folder, struct suspects *ret_suspects,
                          struct err *err) MUST_USE;

/* Adds products that stand in the logs of libraries (run --library-logs) and in no record. */
enum status suspects_add_logged(struct arena *a, const char *folder, struct suspects *s,
                                struct err *err) MUST_USE;

#endif
