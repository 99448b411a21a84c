// SPDX-License-Identifier: Apache-2.0
/*
 * Running what may crash: work in a forked child with a deadline, and how it ended, by name.
 *
 * isolate_run() is one child for one piece of work. isolate_batch() runs numbered items in one
 * child and catches a memory fault of the CPU inside it (sigsetjmp before each item), so that tens
 * of thousands of items a second are possible; it forks again only after an end that cannot be
 * jumped out of: an abort, an exit, a hang, a fault in another thread.
 *
 * The child inherits the parent's memory by copy; results come back through shared memory
 * (isolate_shared()). The parent must not have opened a GPU.
 */
#ifndef ASSAY_DEVICE_ISOLATE_H
#define ASSAY_DEVICE_ISOLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

enum ending {
    ENDING_OK = 0,
    ENDING_MEMORY_FAULT, /* SIGSEGV or SIGBUS: address and direction below */
    ENDING_DEVICE_FAULT, /* a GPU touched memory that is not mapped */
    ENDING_DEVICE_LOST,  /* context or device gone */
    ENDING_ILLEGAL,      /* illegal instruction: code for another processor */
    ENDING_ABORT,        /* SIGABRT: the library gave up; `text` has its last words */
    ENDING_SIGNAL,       /* any other signal */
    ENDING_EXIT,         /* the child left by exit() with `exit_status` */
    ENDING_HANG,         /* over its deadline, killed */
    ENDING_COUNT
};

struct isolate_end {
    enum ending ending;
    int signal;      /* 0 when none */
    int exit_status; /* of ENDING_EXIT */
    bool address_known;
    bool direction_known;
    bool is_write;
    uint64_t address;     /* first byte of the access, as the processor reports it */
    uint64_t instruction; /* 0 when unknown */
    char text[400];       /* last lines of the child's output, or the device's words; may be "" */
};

/* "ok", "memory fault", "device memory fault", "device lost", ... */
const char *ending_name(enum ending ending);

/* Zeroed memory shared with children forked later. NULL when the system refuses. */
void *isolate_shared(size_t bytes);
void isolate_shared_free(void *shared, size_t bytes);

/* Tells the parent, from inside a child, what the device reported; the last call before the child
 * returns or exits counts. Outside a child it does nothing. */
void isolate_report(enum ending ending, uint64_t address, bool address_known, const char *text);

/* Tells the parent, from inside an item of a batch, that a part of it is done: its deadline begins anew. */
void isolate_alive(void);

struct isolate_options {
    unsigned deadline_ms; /* 0: one minute */
    bool
        keep_stderr; /* let the child's stdout and stderr through instead of keeping the last lines */
};

/* Runs work(context) in a child. Fails only when no child can be made. */
enum status isolate_run(const struct isolate_options *options, void (*work)(void *context),
                        void *context, struct isolate_end *ret_end, struct err *err) MUST_USE;

struct isolate_batch {
    size_t first, count; /* items first ... first + count - 1 */
    void *context;
    /* In the child, once per child before its first item (open libraries, map guards). A failure
     * is ended by isolate_report() and _exit(), or by a crash; it then counts against the first
     * item of that child and stops the batch. May be NULL. */
    void (*start)(void *context);
    /* In the child. May fault. */
    void (*item)(void *context, size_t index);
    /* In the child, right after item `index` faulted and was jumped out of. May be NULL. */
    void (*faulted)(void *context, size_t index, const struct isolate_end *end);
    /* In the parent, for each item that did not end well, in order. May be NULL. */
    void (*ended)(void *context, size_t index, const struct isolate_end *end);
    /* In the parent, after ended() of an end that cost the child: whether the item is to run again in a
     * new one, because it has more to try. May be NULL. */
    bool (*again)(void *context, size_t index);
    /* In the parent, about ten times a second: items done. Return false to stop. May be NULL. */
    bool (*tick)(void *context, size_t done);
    unsigned item_deadline_ms; /* for one item; 0: one minute. The start of a child has 1 minute */
    bool no_jumps;             /* a fault ends its child: the library may have half done things */
    unsigned faults_per_child; /* fork afresh after so many jumps; 0: 1,000 */
    bool keep_stderr;
};

struct isolate_summary {
    size_t done;     /* items that were run, well or not */
    size_t faults;   /* of them, ended not ok */
    size_t children; /* forks */
    bool stopped;    /* by tick() */
};

/* Runs all items; ST_OK also when items crashed. Fails when no child can be made, or when three
 * children in a row end before their first item (the sentence says how). */
enum status isolate_batch(const struct isolate_batch *batch, struct isolate_summary *ret_summary,
                          struct err *err) MUST_USE;

#endif
