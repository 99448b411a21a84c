// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a command and watches it: its output is passed through unchanged and kept, signals are passed
 * on, time limits and silence are noticed, every process it leaves behind is seen. Whatever happens to
 * the logs (disk full, folder gone), the command goes on.
 */
#ifndef ASSAY_RECORDER_SUPERVISE_H
#define ASSAY_RECORDER_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/err.h"

enum run_ending {
    RUN_EXITED = 0,  /* code */
    RUN_SIGNALLED,   /* signal */
    RUN_TIMED_OUT,   /* stopped by us: limit_s */
    RUN_HUNG,        /* stopped by us: silent for hang_s, and --kill-hung */
    RUN_INTERRUPTED, /* we were asked to end, and passed it on */
    RUN_NOT_STARTED, /* exec failed: code is the errno */
};

struct supervise_options {
    char *const *argv;          /* NULL-terminated */
    char *const *environment;   /* NULL-terminated */
    int stdout_log, stderr_log; /* file descriptors, -1: none */
    double limit_s;             /* 0: none */
    double hang_s;              /* silence that is reported; 0: never */
    bool kill_hung;
    double grace_s; /* between SIGTERM and SIGKILL */
    void *ctx;
    /* About once a second while the command runs. Returns a number that grows while work is done
     * (recorded calls), so that a silent job that computes is not taken for hung. */
    uint64_t (*tick)(void *ctx, double elapsed_s);
    /* Silent for hang_s: called once; may take some seconds. `children`: all processes of the job. */
    void (*hung)(void *ctx, double silent_s, const pid_t *children, size_t count);
    /* Whole lines as they come; stream 1 or 2. May be NULL. */
    void (*line)(void *ctx, int stream, const char *text, size_t n);
};

struct supervise_result {
    enum run_ending ending;
    int code;   /* exit status, or errno when not started */
    int signal; /* that ended it */
    int asked;  /* the signal that asked us to end, and was passed on; 0: none */
    bool core;
    double seconds;
    double cpu_user_s, cpu_system_s; /* the job and all it waited for */
    uint64_t peak_memory_bytes;      /* of its largest process */
    bool hang_seen;
    double hang_after_s;
    bool log_failed; /* a log could not be written to its end */
    int log_errno;
    size_t left_behind; /* processes still there at the end, which were stopped */
    uint64_t start_realtime_ns, end_realtime_ns;
};

/* Fails only when nothing could be started for a reason of ours (no pipe, no process). */
enum status supervise(const struct supervise_options *o, struct supervise_result *ret_result,
                      struct err *err) MUST_USE;

/* The status a shell would give: the code, or 128 + signal. 124 for a time limit as timeout(1). */
int supervise_status(const struct supervise_result *r);

#endif
