// SPDX-License-Identifier: Apache-2.0
/* One suspected product in isolation: under guard, and for comparison without. */
#ifndef ASSAY_CLI_REPRODUCE_REPLAY_H
#define ASSAY_CLI_REPRODUCE_REPLAY_H

#include "cli/probe/probe.h"
#include "cli/reproduce/case.h"

enum replay_verdict {
    REPLAY_NOT_TRIED = 0, /* `why`: no time, no such library */
    REPLAY_FAILED,        /* the fault came: reproduced */
    REPLAY_PASSED,
    REPLAY_UNTOLD, /* the library could not be opened, or declined every variant */
    REPLAY_VERDICT_COUNT
};

const char *replay_verdict_name(enum replay_verdict verdict);

struct replay {
    const struct suspect *suspect;
    struct reproduce_case what;
    enum replay_verdict verdict;
    const char *why;       /* one sentence, for NOT_TRIED and UNTOLD */
    struct probe_run run;  /* target and result of the guarded replay */
    uint64_t plain_probes; /* run without holes, and how many of those were at fault */
    uint64_t plain_faulty;
    enum gemm_fault_kind kind; /* FAILED: of the fault that is told */
    enum gemm_operand operand;
    uint64_t count;     /* of such faults */
    bool as_recorded;   /* the operand and direction that the record tells */
    bool same_function; /* through the recorded entry point */
    double seconds;
};

/* What guard_prove() said of each kind of device that was asked. */
struct replay_guards {
    struct guard_proof *proofs[DEVICE_KIND_COUNT]; /* NULL: not asked yet */
};

/* `library`: what is opened. `until_s`: CLOCK_MONOTONIC; what would take longer by far is not begun.
 * Where the guard of the device is not proven, nothing is tried. */
enum status replay_run(struct cli *cli, const struct suspect *suspect, const char *library,
                       struct replay_guards *guards, double until_s, const char *progress,
                       struct replay *ret_replay, struct err *err) MUST_USE;

double replay_now_s(void);

#endif
