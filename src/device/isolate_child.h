// SPDX-License-Identifier: Apache-2.0
/*
 * What isolate_run() and isolate_batch() share: making a child, watching its last words, and
 * reading how it ended. Not for other modules.
 */
#ifndef ASSAY_DEVICE_ISOLATE_CHILD_H
#define ASSAY_DEVICE_ISOLATE_CHILD_H

#include <setjmp.h>

#include <sys/types.h>

#include "device/isolate.h"

/* In memory shared by parent and child. */
struct isolate_page {
    bool reported;           /* isolate_report() or the fault handler wrote `end` */
    bool done;               /* the work returned */
    volatile unsigned alive; /* isolate_alive() counts */
    struct isolate_end end;
};

/* Where the child's fault handler may jump; all in the child's own memory. */
struct isolate_jump {
    sigjmp_buf where;
    bool armed;
    pid_t thread; /* only this thread may jump */
};

struct isolate_child {
    pid_t pid;
    int pipe; /* the child's stderr, or a pipe that only tells of its death */
    char tail[1024];
    size_t tail_n;
};

/* Forks. Returns 0 in *ret_child->pid in the child, which has its handlers set: faults are written
 * to `page`, and jumped out of when `jump` is not NULL and armed. */
enum status isolate_fork(bool keep_stderr, struct isolate_page *page, struct isolate_jump *jump,
                         struct isolate_child *ret_child, struct err *err) MUST_USE;

/* Waits up to `wait_ms` for the child, draining its stderr. True when it has ended. */
bool isolate_wait(struct isolate_child *child, int wait_ms, int *ret_status);

/* Kills the child and those it started, and collects it. */
void isolate_kill(struct isolate_child *child);

/* Closes the pipe. */
void isolate_release(struct isolate_child *child);

/* How it ended, from its wait status and what it wrote on the page. */
void isolate_judge(const struct isolate_child *child, const struct isolate_page *page, int status,
                   struct isolate_end *ret_end);

/* The last lines of its stderr. */
void isolate_last_words(const struct isolate_child *child, char *ret_text, size_t size);

/* Milliseconds of the monotonic clock. */
int64_t isolate_now_ms(void);

#endif
