// SPDX-License-Identifier: Apache-2.0
/*
 * What the launcher of a parallel job tells its processes through the environment: mpirun (Open MPI, MPICH, Intel),
 * srun, torchrun. Nothing is asked of a launcher's daemons and no library is needed.
 */
#ifndef ASSAY_CLI_FLEET_LAUNCHER_H
#define ASSAY_CLI_FLEET_LAUNCHER_H

#include "base/arena.h"
#include "base/err.h"

#include "ops/rendezvous.h"

struct launcher {
    const char *name; /* "Open MPI"; NULL: this process was started alone */
    int rank, ranks;
    int local_rank;   /* on this machine; 0 where it is not told */
    bool one_machine; /* all ranks are on it */
    bool has_mpi;     /* MPI_Init will find the other ranks */
    const char *job;  /* tells jobs apart; no spaces */
};

/* ST_FORMAT where a launcher's numbers make no sense. */
enum status launcher_read(struct arena *a, struct launcher *ret_launcher, struct err *err) MUST_USE;

/*
 * Where rank 0 waits for `service` ("collectives"): `named` (HOST:PORT) if not NULL, else a local socket where all
 * ranks are on one machine, else MASTER_ADDR or the first node of a Slurm step, at a port made from the job's
 * name. ST_USAGE: none of these is there.
 */
enum status launcher_place(struct arena *a, const struct launcher *l, const char *service,
                           const char *named, struct rendezvous_place *ret_place,
                           struct err *err) MUST_USE;

#endif
