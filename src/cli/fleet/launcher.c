// SPDX-License-Identifier: Apache-2.0
/* See launcher.h. Names of variables: the manuals of mpirun (Open MPI 4 and 5), Hydra, srun and torchrun. */
#include "cli/fleet/launcher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot/fleet.h"

enum {
    PORT_FIRST = 20000, /* below the range that Linux gives to outgoing connections (32768) */
    PORT_COUNT = 12000
};

/* In this order: mpirun inside a Slurm allocation sees variables of both. */
static const struct row {
    const char *name, *rank, *ranks, *local_rank;
    const char *local_ranks; /* how many on this machine */
    const char *machines;    /* or how many machines */
    const char *job[2];
    bool has_mpi;
} rows[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     true},
    /* srun sets no MPI_LOCALNRANKS, so that its row is not hidden by --mpi=pmi2. */
    {"MPICH",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {NULL, NULL},
     true},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     NULL,
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
     false},
    /* Not SLURM_NTASKS: that is there in a batch script, too, which is no rank. */
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     true},
};

static const char *of(const char *name)
{
    const char *value = name != NULL ? getenv(name) : NULL;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static enum status number(const char *name, int least, int most, int *ret_number, struct err *err)
{
    uint64_t n = 0;
    if (str_to_u64(str_of(of(name)), 10, &n) != ST_OK || n < (uint64_t)least ||
        n > (uint64_t)most) {
        return err_set(err, ST_FORMAT, "%s is '%s': a number from %d to %d was expected", name,
                       of(name), least, most);
    }
    *ret_number = (int)n;
    return ST_OK;
}

/* Letters, digits and dots alone: it becomes a word of a line and the name of a socket. */
static const char *plain(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c != '\0'; c++) {
        bool good = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                    (*c >= 'A' && *c <= 'Z') || *c == '.' || *c == '-';
        *c = good ? *c : '_';
    }
    return copy;
}

static enum status read_row(struct arena *a, const struct row *r, struct launcher *l,
                            struct err *err)
{
    int here = 0;
    l->name = r->name;
    l->has_mpi = r->has_mpi;
    l->one_machine = false;
    TRY(number(r->ranks, 1, RENDEZVOUS_RANKS_MAX, &l->ranks, err));
    TRY(number(r->rank, 0, l->ranks - 1, &l->rank, err));
    if (of(r->local_rank) != NULL) {
        TRY(number(r->local_rank, 0, RENDEZVOUS_RANKS_MAX, &l->local_rank, err));
    }
    if (of(r->local_ranks) != NULL) {
        TRY(number(r->local_ranks, 1, RENDEZVOUS_RANKS_MAX, &here, err));
        l->one_machine = here == l->ranks;
    } else if (of(r->machines) != NULL) {
        TRY(number(r->machines, 1, RENDEZVOUS_RANKS_MAX, &here, err));
        l->one_machine = here == 1;
    }
    l->one_machine = l->one_machine || l->ranks == 1;
    const char *first = of(r->job[0]);
    const char *second = of(r->job[1]);
    /* Without a name: the ranks of one machine share a session; their parents may be wrappers of their own. */
    l->job = plain(
        a, first == NULL && second == NULL
               ? arena_fmt(a, "%s-%d", l->one_machine ? "session" : "job",
                           l->one_machine ? (int)getsid(0) : l->ranks)
               : arena_fmt(a, "%s.%s", first != NULL ? first : "", second != NULL ? second : ""));
    return ST_OK;
}

enum status launcher_read(struct arena *a, struct launcher *ret_launcher, struct err *err)
{
    struct launcher l = {
        .ranks = 1, .one_machine = true, .job = arena_fmt(a, "alone-%d", (int)getpid())};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool hydra = strcmp(rows[i].name, "MPICH") == 0;
        if (of(rows[i].rank) != NULL && of(rows[i].ranks) != NULL &&
            (!hydra || of(rows[i].local_ranks) != NULL)) {
            TRY(read_row(a, &rows[i], &l, err));
            break;
        }
    }
    *ret_launcher = l;
    return ST_OK;
}

static unsigned port_of(const char *key)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *key != '\0'; key++) {
        h = (h ^ (unsigned char)*key) * 16777619u;
    }
    return PORT_FIRST + h % PORT_COUNT;
}

static enum status named_place(struct arena *a, const char *named, struct rendezvous_place *p,
                               struct err *err)
{
    const char *colon = strrchr(named, ':');
    uint64_t port = 0;
    if (colon == NULL || colon == named || str_to_u64(str_of(colon + 1), 10, &port) != ST_OK ||
        port < 1 || port > 65535) {
        return err_set(err, ST_USAGE, "--rendezvous takes HOST:PORT, not '%s'", named);
    }
    p->host = str_dup(a, (struct str){.p = named, .n = (size_t)(colon - named)});
    p->port = (unsigned)port;
    return ST_OK;
}

static enum status first_node(struct arena *a, const char *list, const char **ret_host,
                              struct err *err)
{
    struct text_list hosts;
    TRY(fleet_hosts_read(a, str_of(list), "the node list of Slurm", &hosts, err));
    if (hosts.count == 0) {
        return err_set(err, ST_FORMAT, "the node list of Slurm is empty");
    }
    *ret_host = hosts.items[0];
    return ST_OK;
}

enum status launcher_place(struct arena *a, const struct launcher *l, const char *service,
                           const char *named, struct rendezvous_place *ret_place, struct err *err)
{
    struct rendezvous_place p = {.rank = l->rank, .ranks = l->ranks};
    p.key = arena_fmt(a, "%s-%s", l->job, service);
    if (named != NULL) {
        TRY(named_place(a, named, &p, err));
    } else if (l->one_machine) {
        p.socket = arena_fmt(a, "assay-%u-%s", (unsigned)getuid(), p.key);
    } else {
        const char *nodes = of("SLURM_STEP_NODELIST");
        p.host = of("MASTER_ADDR");
        p.port = port_of(p.key);
        if (p.host == NULL && nodes != NULL) {
            TRY(first_node(a, nodes, &p.host, err));
        }
    }
    if (p.socket == NULL && p.host == NULL) {
        return err_set(
            err, ST_USAGE,
            "the ranks are on several machines and nothing says where rank 0 is: set MASTER_ADDR to its "
            "machine for all ranks (mpirun -x MASTER_ADDR=node01), or give --rendezvous HOST:PORT");
    }
    *ret_place = p;
    return ST_OK;
}
