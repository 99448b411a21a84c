// SPDX-License-Identifier: Apache-2.0
/*
 * assay collectives: the processes. A worker is one rank: it opens one device and the library, does one trial after the
 * other, and tells how far it is. The lead, in the process of rank 0, touches neither device nor library: it says
 * what is tried, waits with a limit, and so can name who did not arrive when all workers hang.
 */
#ifndef ASSAY_CLI_FLEET_COLLECTIVES_H
#define ASSAY_CLI_FLEET_COLLECTIVES_H

#include "cli/command.h"
#include "cli/fleet/launcher.h"
#include "ops/collective_trial.h"
#include "report/report.h"

struct collectives_job {
    struct cli *cli;
    struct launcher launcher;
    struct rendezvous_place place;
    enum device_kind kind; /* DEVICE_KIND_COUNT: the first GPU interface that answers */
    bool mpi;              /* through MPI and host memory */
    const char *library;   /* NULL: the usual one */
    size_t bytes;          /* largest size; that of rank 0 counts */
    double limit_s;        /* for one step */
    double wait_s;         /* for all ranks to come */
    double least_busbw;    /* GB/s of a large all-reduce; 0: not asked */
};

/* Does the work of a rank until rank 0 says that it ends, with the exit status that rank 0 gives. Never returns. */
_Noreturn void collectives_work(const struct collectives_job *job, int rank, int local_rank);

/* Devices that this machine shows, 0 if none; *ret_kind is CUDA or HIP. Asked in a child. */
int collectives_devices(struct cli *cli, enum device_kind wanted, enum device_kind *ret_kind);

struct collectives_lead;

/* Opens the place; call before workers are started. */
enum status collectives_lead_open(const struct collectives_job *job,
                                  struct collectives_lead **ret_lead, struct err *err) MUST_USE;

/* Everything, into findings, tables and a verdict. */
void collectives_lead_run(struct collectives_lead *lead, struct finding_list *findings,
                          struct report *report);

/* Lets all ranks go with this exit status. */
void collectives_lead_close(struct collectives_lead *lead, int status);

/* ---- what the lead found (collectives_report.c) ---- */

enum {
    COLLECTIVES_TRIALS_MAX = 400
};

#define COLLECTIVES_BYTES_MAX ((size_t)8 << 30)

struct collectives_rank {
    const char *host, *device, *library; /* NULL until told */
    bool answered;                       /* the present step */
    bool alive;                          /* answered when it was late */
    unsigned entered, queued, done;      /* number of the last trial */
    double arrival_s, arrival_spread_s;  /* median, robust deviation; NAN when not measured */
    double arrivals;                     /* how many times it was measured */
};

struct collectives_wrong {
    int rank;
    struct collective_wrong wrong;
};

struct collectives_trial {
    struct collective_trial trial;
    VEC_OF(struct collectives_wrong) wrong;
    double seconds; /* TIME: median of the slowest rank; NAN when it did not come to that */
    bool ran;
};

struct collectives_result {
    const struct collectives_job *job;
    struct arena *arena;
    int ranks;
    struct collectives_rank *rank;
    struct collectives_trial *trials;
    size_t trial_count;
};

/* "rank 3 (node07, cuda:1)" */
const char *collectives_rank_name(const struct collectives_result *r, int rank);

/* "ranks 1, 2 and 5" of those that are marked, with hosts where few; *ret_count of them. */
const char *collectives_names(const struct collectives_result *r, const bool *marked,
                              int *ret_count);

/* Findings about wrong results, stragglers, bandwidth; tables; the verdict. `stopped` when a finding about an early
 * end is there already. */
void collectives_judge(const struct collectives_result *r, bool stopped,
                       struct finding_list *findings, struct report *report);

#endif
