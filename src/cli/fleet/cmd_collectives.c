// SPDX-License-Identifier: Apache-2.0
/* assay collectives: options, and which process is what. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

#include "base/vec.h"

#include "cli/command_list.h"
#include "cli/fleet/collectives.h"
#include "cli/session.h"

enum {
    WORKERS_MAX = 64,
    KILL_AFTER_MS = 8000,
    POLL_NS = 10000000
};

static const size_t default_bytes = 256 << 20;
static const size_t default_bytes_cpu = 4 << 20;
static const double default_limit_s = 60;
static const double default_wait_s = 120;

/* ---- options ---- */

static enum status seconds_of(const struct cli *cli, const char *name, double fallback,
                              double *ret_seconds, struct err *err)
{
    const char *text = cli_value(cli, name, NULL);
    *ret_seconds = fallback;
    if (text != NULL && (str_to_double(str_of(text), ret_seconds) != ST_OK ||
                         !(*ret_seconds > 0 && *ret_seconds <= 1e7))) {
        return err_set(err, ST_USAGE, "--%s takes seconds above 0, not '%s'", name, text);
    }
    return ST_OK;
}

static enum status bytes_of(const struct cli *cli, size_t *ret_bytes, struct err *err)
{
    const char *text = cli_value(cli, "bytes", NULL);
    uint64_t unit = 1;
    uint64_t n = 0;
    *ret_bytes = default_bytes;
    if (text == NULL) {
        return ST_OK;
    }
    struct str s = str_of(text);
    if (s.n > 1 && (s.p[s.n - 1] == 'K' || s.p[s.n - 1] == 'M' || s.p[s.n - 1] == 'G')) {
        unit = s.p[s.n - 1] == 'K' ? 1 << 10 : s.p[s.n - 1] == 'M' ? 1 << 20 : 1 << 30;
        s.n--;
    }
    if (str_to_u64(s, 10, &n) != ST_OK || n > (8ull << 30) / unit || n * unit < 4096) {
        return err_set(err, ST_USAGE, "--bytes takes 4K to 8G, not '%s'", text);
    }
    *ret_bytes = n * unit;
    return ST_OK;
}

static enum status read_options(struct cli *cli, struct collectives_job *job, struct err *err)
{
    const char *device = cli_value(cli, "device", "auto");
    const char *transport = cli_value(cli, "transport", "auto");
    const char *least = cli_value(cli, "least-busbw", NULL);
    TRY(seconds_of(cli, "timeout", default_limit_s, &job->limit_s, err));
    TRY(seconds_of(cli, "wait", default_wait_s, &job->wait_s, err));
    TRY(bytes_of(cli, &job->bytes, err));
    if (least != NULL && (str_to_double(str_of(least), &job->least_busbw) != ST_OK ||
                          !(job->least_busbw > 0 && job->least_busbw < 1e6))) {
        return err_set(err, ST_USAGE, "--least-busbw takes GB/s above 0, not '%s'", least);
    }
    job->kind = DEVICE_KIND_COUNT;
    if (strcmp(device, "auto") != 0 && !device_kind_find(device, &job->kind)) {
        return err_set(err, ST_USAGE, "there is no device '%s'", device);
    }
    job->mpi = strcmp(transport, "mpi") == 0 || job->kind == DEVICE_CPU;
    if (job->kind == DEVICE_CPU && strcmp(transport, "nccl") == 0) {
        return err_set(err, ST_USAGE,
                       "NCCL and RCCL take memory of GPUs: --device cpu goes through MPI");
    }
    job->library = cli_value(cli, "library", NULL);
    return ST_OK;
}

/* ---- devices ---- */

int collectives_devices(struct cli *cli, enum device_kind wanted, enum device_kind *ret_kind)
{
    struct device_info_list devices = {0};
    struct device_feature_list why = {0};
    struct device_options options = {0};
    struct err err = {0};
    int counts[DEVICE_KIND_COUNT] = {0};
    if (device_list(cli->arena, &options, &devices, &why, &err) != ST_OK) {
        return 0;
    }
    for (size_t i = 0; i < devices.count; i++) {
        counts[devices.items[i].kind]++;
    }
    enum device_kind kind = wanted != DEVICE_KIND_COUNT ? wanted
                            : counts[DEVICE_CUDA] != 0  ? DEVICE_CUDA
                                                        : DEVICE_HIP;
    *ret_kind = kind;
    return counts[kind];
}

/* Without a GPU, MPI over host memory is what an MPI launcher's ranks can do. */
static enum status choose(struct cli *cli, struct collectives_job *job, int *ret_devices,
                          struct err *err)
{
    const struct launcher *l = &job->launcher;
    bool named = cli_value(cli, "transport", NULL) != NULL || job->kind != DEVICE_KIND_COUNT;
    enum device_kind kind = job->kind;
    if (job->kind != DEVICE_CPU) {
        *ret_devices = collectives_devices(cli, job->kind, &kind);
    }
    if (*ret_devices > 0) {
        job->kind = kind;
    } else if (job->mpi || (!named && l->has_mpi)) {
        job->mpi = true;
        job->kind = DEVICE_CPU;
    } else if (l->name == NULL) {
        return err_set(
            err, ST_ABSENT,
            "neither CUDA nor HIP shows a GPU here (assay probe --why says why), and no launcher started "
            "this: MPI over host memory is tried with mpirun -np N assay collectives --transport mpi");
    }
    if (job->kind == DEVICE_CPU && cli_value(cli, "bytes", NULL) == NULL) {
        job->bytes = default_bytes_cpu;
    }
    if (job->mpi && !l->has_mpi) {
        return err_set(err, ST_USAGE,
                       "MPI needs its launcher: mpirun -np N assay collectives --transport mpi");
    }
    return ST_OK;
}

/* ---- processes ---- */

static pid_t start_worker(const struct collectives_job *job, int rank, int local_rank)
{
    pid_t pid = fork();
    if (pid == 0) {
        collectives_work(job, rank, local_rank);
    }
    return pid;
}

/* Of a worker in a process of its own, so that its crash is told with a sentence. */
static int wait_for(struct cli *cli, int rank, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
    }
    if (WIFSIGNALED(status)) {
        return cli_fail(cli, EXIT_FAULT,
                        "rank %d crashed in the device's or the collective library: signal %d (%s)",
                        rank, WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status);
}

/* They leave by themselves, or are killed. */
static void collect(const pid_t *workers, int count)
{
    struct timespec pause = {0, POLL_NS};
    for (int i = 0; i < count; i++) {
        int waited_ms = 0;
        while (waitpid(workers[i], NULL, WNOHANG) == 0) {
            if (waited_ms == KILL_AFTER_MS) {
                kill(workers[i], SIGKILL);
            }
            nanosleep(&pause, NULL);
            waited_ms += POLL_NS / 1000000;
        }
    }
}

static int lead(struct cli *cli, struct collectives_job *job, int here)
{
    struct collectives_lead *l;
    struct err err = {0};
    struct finding_list findings = {0};
    struct report report = {.command = "collectives", .schema_version = 1};
    pid_t workers[WORKERS_MAX];
    int count = 0;
    if (collectives_lead_open(job, &l, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    for (; count < here; count++) {
        workers[count] = start_worker(job, job->launcher.rank + count,
                                      job->launcher.local_rank + count);
        if (workers[count] < 0) {
            collectives_lead_close(l, EXIT_UNKNOWN);
            collect(workers, count);
            return cli_fail(cli, EXIT_UNKNOWN, "no process can be started for rank %d", count);
        }
    }
    collectives_lead_run(l, &findings, &report);
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    /* Told before the others may go: a launcher kills all ranks once one ends with a status. */
    int status = session_report(cli, &report, session_exit(&findings));
    collectives_lead_close(l, status);
    collect(workers, count);
    return status;
}

static int run_collectives(struct cli *cli)
{
    struct err err = {0};
    struct collectives_job job = {.cli = cli};
    int devices = 0;
    if (cli->operands.count != 0) {
        return cli_fail(cli, EXIT_USAGE, "collectives takes no operand: '%s'",
                        cli->operands.items[0]);
    }
    if (read_options(cli, &job, &err) != ST_OK ||
        launcher_read(cli->arena, &job.launcher, &err) != ST_OK ||
        choose(cli, &job, &devices, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    bool alone = job.launcher.name == NULL;
    if (alone) {
        job.launcher.ranks = devices < WORKERS_MAX ? devices : WORKERS_MAX;
    }
    if (launcher_place(cli->arena, &job.launcher, "collectives", cli_value(cli, "rendezvous", NULL),
                       &job.place, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    if (job.launcher.rank == 0) {
        return lead(cli, &job, alone ? job.launcher.ranks : 1);
    }
    pid_t worker = start_worker(&job, job.launcher.rank, job.launcher.local_rank);
    return worker < 0 ? cli_fail(cli, EXIT_UNKNOWN, "no process can be started")
                      : wait_for(cli, job.launcher.rank, worker);
}

static const char *const description[] = {
    "Tries all-reduce, all-gather, reduce-scatter and broadcast between GPUs and between machines: NCCL on CUDA, RCCL "
    "on HIP, else MPI over host memory. Data are whole numbers whose sum is exact in float32, float16, bfloat16 and "
    "int32, so results must be equal to the last bit; sizes go from 8 bytes to --bytes, with odd counts. Then it "
    "measures bandwidth (algbw and busbw as the nccl-tests define them) and when each rank comes to a collective.",
    "Without a launcher: all GPUs of this machine, one process each. Under mpirun, srun or torchrun: one rank a "
    "process; rank 0 tells the result, and all ranks end with its exit status. Ranks on one machine meet by "
    "themselves; on several they find rank 0 through MASTER_ADDR, Slurm's list of nodes, or --rendezvous HOST:PORT.",
    "Each step has a limit (--timeout). When it passes, the result names the ranks that did not come to the operation, "
    "that did not start it, and that did not end it; all processes are ended.",
    "Exit 0: every result is exact, nobody is late. 1: a wrong result, a hang, a failure, a late rank, or less than "
    "--least-busbw. 2: it could not be tried, or one GPU alone.",
    NULL,
};

static const struct example examples[] = {
    {"assay collectives", "all GPUs of this machine"},
    {"srun --ntasks-per-node=8 --gpus-per-node=8 assay collectives", "all GPUs of an allocation"},
    {"mpirun -np 4 assay collectives --transport mpi",
     "MPI over host memory: the fall-back and its price"},
    {"assay collectives --least-busbw 300", "fail where NVLink does not carry what it should"},
    {0},
};

static const struct option_spec options[] = {
    {"device", 0, OPTION_VALUE, "auto|cuda|hip|cpu", "Whose memory; auto: the GPUs that answer"},
    {"transport", 0, OPTION_VALUE, "auto|nccl|mpi", "NCCL or RCCL, or MPI through host memory"},
    {"library", 0, OPTION_VALUE, "PATH",
     "This libnccl, librccl or libmpi instead of the usual one"},
    {"bytes", 0, OPTION_VALUE, "N",
     "Largest size, as in 16M; 256M unless given, 4M over host memory alone"},
    {"timeout", 0, OPTION_VALUE, "SECONDS", "Limit for one operation, 60 unless given"},
    {"wait", 0, OPTION_VALUE, "SECONDS", "How long rank 0 waits for all ranks, 120 unless given"},
    {"least-busbw", 0, OPTION_VALUE, "N",
     "GB/s of bus bandwidth that a large all-reduce must reach"},
    {"rendezvous", 0, OPTION_VALUE, "HOST:PORT", "Where rank 0 waits for the others"},
    {"format", 'f', OPTION_VALUE, "text|json|junit|html|markdown", "Form of the result"},
    {"json", 'j', OPTION_FLAG, NULL, "Same as --format json"},
    {0},
};

const struct command command_collectives = {
    .name = "collectives",
    .summary = "Try collectives between GPUs and nodes: exact, how fast, and who is late",
    .operands = "",
    .operand_kind = "none",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_collectives,
};
