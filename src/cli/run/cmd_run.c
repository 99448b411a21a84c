// SPDX-License-Identifier: Apache-2.0
/*
 * assay run: supervises any command, records what its libraries were asked to do, keeps everything in
 * a run folder, and says at the end what happened. The command's status is passed through.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/json_out.h"
#include "base/str.h"
#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/run/environment.h"
#include "cli/run/gpu_guard.h"
#include "cli/run/inputs.h"
#include "cli/run/kernel_log.h"
#include "cli/run/logs.h"
#include "cli/run/options.h"
#include "cli/run/report.h"
#include "cli/run/served.h"
#include "cli/run/stacks.h"
#include "cli/session.h"
#include "diagnosis/framing.h"
#include "diagnosis/metric_line.h"
#include "diagnosis/metric_table.h"
#include "diagnosis/prefix.h"
#include "facts/facts_json.h"
#include "recorder/line_ranks.h"
#include "recorder/marks.h"
#include "recorder/open_files.h"
#include "recorder/process_tree.h"
#include "recorder/record_format.h"
#include "recorder/record_reader.h"
#include "recorder/run_folder.h"
#include "recorder/supervise.h"
#include "study/epoch_steps.h"
#include "study/run_log.h"

enum {
    PATHS_MAX = 64
};

struct running {
    struct cli *cli;
    const struct knowledge *k;
    const char *folder;
    struct text_list notes;
    struct arena *scratch;          /* rewound after each line */
    struct run_gpu_guard gpu_guard; /* asked for with --guard */
    struct run_inputs_kept inputs;
    struct text_list opened;      /* data files that the job was seen reading */
    struct text_list environment; /* the command's, before the recorder's own variables */
    struct line_ranks ranks;
    struct metric_table tables[2]; /* last headers on standard output and standard error */
    struct epoch_steps epochs[2];
    int metrics;  /* file descriptor, -1 when it failed */
    double start; /* seconds, CLOCK_MONOTONIC */
};

static double monotonic_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what is written down ---- */

static const char *ending_name(enum run_ending e)
{
    static const char *const names[] = {
        [RUN_EXITED] = "exited",
        [RUN_SIGNALLED] = "signal",
        [RUN_TIMED_OUT] = "stopped at the time limit",
        [RUN_HUNG] = "stopped because it hung",
        [RUN_INTERRUPTED] = "interrupted",
        [RUN_NOT_STARTED] = "not started",
    };
    return names[e];
}

static void write_result(struct running *r, struct json_out *j, const struct supervise_result *s)
{
    struct arena *a = r->cli->arena;
    if (s == NULL) {
        json_field(j, "ending", "running");
        return;
    }
    json_field(j, "ending", ending_name(s->ending));
    json_key(j, "status");
    json_int(j, supervise_status(s));
    if (s->signal != 0) {
        const char *name = sigabbrev_np(s->signal);
        json_field(j, "signal", arena_fmt(a, "SIG%s", name != NULL ? name : "?"));
    }
    json_key(j, "seconds");
    json_real(j, s->seconds);
    json_key(j, "cpu_user_s");
    json_real(j, s->cpu_user_s);
    json_key(j, "cpu_system_s");
    json_real(j, s->cpu_system_s);
    json_key(j, "peak_memory_bytes");
    json_int(j, (int64_t)s->peak_memory_bytes);
    json_key(j, "hang_seen");
    json_bool(j, s->hang_seen);
    json_key(j, "processes_left_behind");
    json_int(j, (int64_t)s->left_behind);
    json_key(j, "end_realtime_ns");
    json_int(j, (int64_t)s->end_realtime_ns);
}

/* run.json; `s` is NULL while the command runs, so that a run whose supervisor is killed says so. */
static enum status write_run(struct running *r, const struct supervise_result *s, struct err *err)
{
    struct arena *a = r->cli->arena;
    struct strbuf out;
    struct json_out j;
    char cwd[PATH_MAX];
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    strbuf_init(&out, a, (size_t)16 << 20);
    json_init(&j, &out);
    json_object(&j);
    json_key(&j, "schema_version");
    json_int(&j, 1);
    json_key(&j, "command");
    json_list(&j);
    for (size_t i = 0; i < r->cli->operands.count; i++) {
        json_string(&j, r->cli->operands.items[i]);
    }
    json_list_end(&j);
    json_field(&j, "directory", getcwd(cwd, sizeof cwd) != NULL ? cwd : "");
    json_field(&j, "host", host);
    json_field(&j, "assay_version", ASSAY_VERSION);
    if (r->gpu_guard.present) {
        json_key(&j, "gpu_guard");
        json_object(&j);
        json_key(&j, "proven");
        json_bool(&j, r->gpu_guard.proven);
        json_field(&j, "sentence", r->gpu_guard.sentence);
        json_object_end(&j);
    }
    json_key(&j, "start_monotonic_s");
    json_real(&j, r->start);
    write_result(r, &j, s);
    json_key(&j, "expect");
    json_list(&j);
    const char *expect;
    for (size_t i = 0; (expect = cli_repeat(r->cli, "expect", i)) != NULL; i++) {
        json_string(&j, expect);
    }
    json_list_end(&j);
    run_inputs_write(&r->inputs, &j);
    run_environment_write(&r->environment, &j);
    json_object_end(&j);
    strbuf_addc(&out, '\n');
    return run_folder_write(a, r->folder, "run.json", strbuf_str(&out), err);
}

static void write_facts(struct running *r)
{
    struct err err = {0};
    struct facts *facts;
    struct strbuf out;
    if (cli_flag(r->cli, "no-facts")) {
        return;
    }
    cli_progress(r->cli, "reading facts of this machine");
    if (session_collect(r->cli, r->k, "", NULL, &facts, &err) != ST_OK) {
        *VEC_PUSH(r->cli->arena, &r->notes) = arena_strdup(r->cli->arena, err.text);
        return;
    }
    strbuf_init(&out, r->cli->arena, (size_t)64 << 20);
    facts_write_json(facts, r->cli->arena, session_unit_of_key, (void *)(uintptr_t)r->k, &out);
    if (run_folder_write(r->cli->arena, r->folder, "facts.json", strbuf_str(&out), &err) != ST_OK) {
        *VEC_PUSH(r->cli->arena, &r->notes) = arena_strdup(r->cli->arena, err.text);
    }
}

/* ---- while it runs ---- */

/* The rank that the line names in front of it, as some launchers do, or else the one that was seen writing it. */
static void write_rank(struct running *r, struct str line, struct strbuf *out)
{
    int rank = prefix_parse(line, 0).rank;
    int local_rank = -1;
    if (rank < 0 && !line_ranks_find(&r->ranks, r->scratch, line, &rank, &local_rank)) {
        return;
    }
    strbuf_fmt(out, ", \"rank\": %d", rank);
    if (local_rank >= 0) {
        strbuf_fmt(out, ", \"local_rank\": %d", local_rank);
    }
}

static void on_line(void *ctx, int stream, const char *text, size_t n)
{
    struct running *r = ctx;
    struct metric_line m;
    struct arena_mark mark = arena_mark(r->scratch);
    struct str line = framing_plain(r->scratch, (struct str){.p = text, .n = n});
    metric_line_parse(line, &m);
    if (m.count == 0 && !m.final) {
        (void)metric_table_read(&r->tables[stream == 2], line, &m);
    }
    struct progress_bar bar;
    if (m.count != 0 && m.step < 0 && progress_bar_parse(line, &bar) && bar.training &&
        !bar.loading) {
        m.step = bar.done;
    }
    epoch_steps_line(&r->epochs[stream == 2], line, &m);
    bool save = run_log_is_save(line);
    if ((m.count == 0 && !save) || r->metrics < 0) {
        arena_rewind(r->scratch, mark);
        return;
    }
    struct strbuf out;
    strbuf_init(&out, r->scratch, 65536);
    strbuf_fmt(&out, "{\"t\": %.3f, \"stream\": %d", monotonic_s() - r->start, stream);
    if (m.step >= 0) {
        strbuf_fmt(&out, ", \"step\": %" PRId64, m.step);
    }
    write_rank(r, (struct str){.p = text, .n = n}, &out);
    if (save) {
        strbuf_addz(&out, ", \"event\": \"save\"");
    }
    if (m.final) { /* its loss is the mean of the run, not of a step */
        strbuf_addz(&out, ", \"train_runtime\": ");
        strbuf_fmt(&out, "%.3f", monotonic_s() - r->start);
    }
    for (size_t i = 0; i < m.count; i++) {
        if (strcmp(m.items[i].name, "step") != 0) {
            strbuf_addz(&out, ", \"");
            json_escape(&out, str_of(m.items[i].name));
            /* JSON has no NaN and no infinity: they are the texts "nan", "inf". */
            bool finite = isfinite(m.items[i].value);
            strbuf_fmt(&out, finite ? "\": %.17g" : "\": \"%g\"", m.items[i].value);
        }
    }
    strbuf_addz(&out, "}\n");
    struct str record = strbuf_str(&out);
    if (write(r->metrics, record.p, record.n) != (ssize_t)record.n) {
        close(r->metrics);
        r->metrics = -1;
    }
    arena_rewind(r->scratch, mark);
}

/* Calls counted so far in all records: grows while the job computes, silent or not. */
static uint64_t on_tick(void *ctx, double elapsed_s)
{
    struct running *r = ctx;
    (void)elapsed_s;
    struct arena_mark mark = arena_mark(r->scratch);
    struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    uint64_t calls = 0;
    if (fs_list(&fs, r->scratch, r->folder, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            struct str name = str_of(names[i]);
            if (str_starts(name, "record.") && str_ends(name, ".bin")) {
                const char *path = arena_fmt(r->scratch, "%s/%s", r->folder, names[i]);
                calls += record_reader_progress(path);
                if (cli_flag(r->cli, "marks")) {
                    marks_take(path);
                }
            }
        }
    }
    if (cli_flag(r->cli, "library-logs")) {
        run_logs_bound(r->scratch, r->folder);
    }
    arena_rewind(r->scratch, mark);
    pid_t pids[PROCESS_TREE_MAX];
    size_t processes = process_tree(getpid(), pids, PROCESS_TREE_MAX);
    for (size_t i = 0; i < processes && r->opened.count < OPEN_FILES_MAX; i++) {
        open_files_look(r->cli->arena, pids[i], r->folder, &r->opened);
    }
    return calls;
}

static void on_hung(void *ctx, double silent_s, const pid_t *children, size_t count)
{
    struct running *r = ctx;
    struct arena *a = r->cli->arena;
    cli_note(r->cli,
             "no output and no recorded call for %.0f s; taking the stacks of %zu processes "
             "(%s/stacks.*.txt)",
             silent_s, count, r->folder);
    for (size_t i = 0; i < count && i < PATHS_MAX; i++) {
        struct err err = {0};
        struct str text = run_stacks_take(a, children[i]);
        const char *name = arena_fmt(a, "stacks.%d.txt", (int)children[i]);
        if (run_folder_write(a, r->folder, name, text, &err) != ST_OK) {
            cli_note(r->cli, "%s", err.text);
        }
    }
}

/* ---- starting ---- */

/* Next to the program: the build folder, dist/, or an installation. */
static const char *record_library(struct arena *a)
{
    static const char *const places[] = {"", "../lib/", "../lib/assay/",
                                         "../lib/x86_64-linux-gnu/"};
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) {
        return NULL;
    }
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash == NULL) {
        return NULL;
    }
    slash[1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *path = arena_fmt(a, "%s%slibassay-record.so", exe, places[i]);
        if (access(path, R_OK) == 0) {
            return path;
        }
    }
    return NULL;
}

/* Ours with the changes of --env. */
static void take_environment(struct running *r)
{
    struct arena *a = r->cli->arena;
    const char *change;
    for (char **e = environ; *e != NULL; e++) {
        *VEC_PUSH(a, &r->environment) = *e;
    }
    for (size_t i = 0; (change = cli_repeat(r->cli, "env", i)) != NULL; i++) {
        struct str value = str_of(change);
        struct str name;
        bool set = str_has(value, "=");
        if (str_cut(&value, '=', &name) && set) {
            run_environment_set(a, &r->environment, str_dup(a, name), value.p);
        } else {
            run_environment_remove(&r->environment, name);
        }
    }
}

static void guard_variables(struct running *r, struct text_list *env)
{
    struct arena *a = r->cli->arena;
    double every = run_options_number(r->cli, "guard-every", 1);
    double least = run_options_number(r->cli, "guard-min", 1);
    if (!cli_flag(r->cli, "guard") && cli_value(r->cli, "guard-every", NULL) == NULL) {
        return;
    }
    run_environment_set(a, env, "ASSAY_RECORD_GUARD", arena_fmt(a, "%.0f", every));
    run_environment_set(a, env, "ASSAY_RECORD_GUARD_MIN", arena_fmt(a, "%.0f", least));
    if (strcmp(cli_value(r->cli, "guard-side", "end"), "begin") == 0) {
        run_environment_set(a, env, "ASSAY_RECORD_GUARD_BEGIN", "1");
    }
    if (cli_flag(r->cli, "serialize")) {
        run_environment_set(a, env, "CUDA_LAUNCH_BLOCKING", "1");
        run_environment_set(a, env, "AMD_SERIALIZE_KERNEL", "3");
    }
    if (cli_flag(r->cli, "quarantine")) {
        run_environment_set(a, env, "ASSAY_RECORD_QUARANTINE", "1");
    }
    run_gpu_guard_prove(r->cli, &r->gpu_guard);
    if (r->gpu_guard.proven) {
        run_environment_set(a, env, "ASSAY_RECORD_GPU_GUARD", "1");
        /* The framework's cache hands out parts of large blocks: no tensor would end at a hole. */
        run_environment_set(a, env, "PYTORCH_NO_CUDA_MEMORY_CACHING", "1");
        run_environment_set(a, env, "PYTORCH_NO_HIP_MEMORY_CACHING", "1");
    }
}

static enum status environment_of(struct running *r, char ***ret_environment, struct err *err)
{
    struct arena *a = r->cli->arena;
    struct text_list env = {0};
    take_environment(r);
    for (size_t i = 0; i < r->environment.count; i++) {
        *VEC_PUSH(a, &env) = r->environment.items[i];
    }
    const char *library = record_library(a);
    if (library == NULL) {
        return err_set(err, ST_ABSENT,
                       "libassay-record.so is not next to the assay program; a build "
                       "folder, dist/ and an installation hold both");
    }
    if (strpbrk(library, " :") != NULL) {
        return err_set(err, ST_UNSUPPORTED,
                       "'%s' has a space or a colon in its path, which LD_PRELOAD cannot hold; put "
                       "assay into a folder without",
                       library);
    }
    const char *before = run_environment_get(&env, "LD_PRELOAD");
    run_environment_set(a, &env, "LD_PRELOAD",
                        before != NULL && *before != '\0' ? arena_fmt(a, "%s:%s", library, before)
                                                          : library);
    run_environment_set(a, &env, "ASSAY_RECORD_DIR", r->folder);
    /* A program built with AddressSanitizer refuses to start behind a preloaded library otherwise. */
    const char *asan = run_environment_get(&env, "ASAN_OPTIONS");
    run_environment_set(a, &env, "ASAN_OPTIONS",
                        arena_fmt(a, "%s%sverify_asan_link_order=0", asan != NULL ? asan : "",
                                  asan != NULL && *asan != '\0' ? ":" : ""));
    if (cli_flag(r->cli, "marks")) {
        run_environment_set(a, &env, "ASSAY_RECORD_MARKS",
                            arena_fmt(a, "%.0f", run_options_number(r->cli, "marks", 1)));
    }
    run_logs_variables(r->cli, r->folder, &env, &r->notes);
    guard_variables(r, &env);
    char **list = arena_array(a, env.count + 1, sizeof *list);
    for (size_t i = 0; i < env.count; i++) {
        list[i] = arena_strdup(a, env.items[i]);
    }
    *ret_environment = list;
    return ST_OK;
}

static enum status prepare(struct running *r, struct supervise_options *o, struct err *err)
{
    struct arena *a = r->cli->arena;
    TRY(run_options_check(r->cli, err));
    o->limit_s = run_options_number(r->cli, "timeout", 0);
    o->hang_s = run_options_number(r->cli, "hang", 600);
    const char *expect;
    for (size_t i = 0; (expect = cli_repeat(r->cli, "expect", i)) != NULL; i++) {
        TRY(run_report_check_expect(expect, err));
    }
    TRY(run_folder_make(a, cli_value(r->cli, "record", NULL), &r->folder, err));
    char **environment = NULL;
    TRY(environment_of(r, &environment, err));
    char **argv = arena_array(a, r->cli->operands.count + 1, sizeof *argv);
    for (size_t i = 0; i < r->cli->operands.count; i++) {
        argv[i] = arena_strdup(a, r->cli->operands.items[i]);
    }
    o->argv = argv;
    o->environment = environment;
    o->kill_hung = cli_flag(r->cli, "kill-hung");
    o->grace_s = 5;
    o->ctx = r;
    o->tick = on_tick;
    o->hung = on_hung;
    line_ranks_start(r->folder, &r->ranks);
    o->line = on_line;
    TRY(run_folder_log(a, r->folder, "stdout.log", &o->stdout_log, err));
    TRY(run_folder_log(a, r->folder, "stderr.log", &o->stderr_log, err));
    return run_folder_log(a, r->folder, "metrics.jsonl", &r->metrics, err);
}

/* ---- the end ---- */

static void tell_result(struct running *r, const struct supervise_result *s)
{
    if (s->ending == RUN_NOT_STARTED) {
        cli_note(r->cli, "cannot start '%s': %s (%s)", r->cli->operands.items[0], strerror(s->code),
                 err_name(s->code));
    }
    if (s->log_failed) {
        cli_note(r->cli,
                 "the logs of the run are not whole: %s; the command itself was not touched",
                 strerror(s->log_errno));
    }
    if (s->left_behind > 0) {
        cli_note(r->cli, "the command left %zu processes behind; they were stopped",
                 s->left_behind);
    }
}

/* The report goes to stderr: stdout belongs to the command. */
static int finish(struct running *r, const struct supervise_result *s)
{
    struct err err = {0};
    struct report report;
    int judged;
    int status = supervise_status(s);
    tell_result(r, s);
    run_folder_trim(r->scratch, r->folder);
    run_kernel_log_write(r->cli->arena, r->folder, r->start, &r->notes);
    cli_progress(r->cli, "digesting the files that the command was seen reading");
    run_inputs_add_opened(r->cli->arena, &r->opened, s->start_realtime_ns, &r->inputs);
    cli_progress(r->cli, NULL);
    if (write_run(r, s, &err) != ST_OK || run_served_write(r->scratch, r->folder, &err) != ST_OK ||
        run_report_make(r->cli, r->k, r->folder, NULL, &report, &judged, &err) != ST_OK) {
        cli_note(r->cli, "%s; the command's own status is passed through", err.text);
        return status;
    }
    for (size_t i = 0; i < r->notes.count; i++) {
        *VEC_PUSH(r->cli->arena, &report.notes) = r->notes.items[i];
    }
    *VEC_PUSH(r->cli->arena, &report.notes) = arena_fmt(r->cli->arena, "run folder: %s", r->folder);
    /* A broken expectation or a guard that could not be proven must not look like success. */
    return session_report_aside(r->cli, &report, status != 0 ? status : judged);
}

static int run_run(struct cli *cli)
{
    struct err err = {0};
    struct running r = {
        .cli = cli, .metrics = -1, .epochs = {epoch_steps_begin(), epoch_steps_begin()}};
    struct supervise_options o = {.stdout_log = -1, .stderr_log = -1};
    struct supervise_result result = {0};
    if (cli->operands.count == 0) {
        return cli_fail(cli, EXIT_USAGE, "run needs a command: assay run -- python train.py");
    }
    r.scratch = arena_new(0);
    if (session_knowledge(cli, &r.k, &err) != ST_OK || prepare(&r, &o, &err) != ST_OK) {
        arena_free(r.scratch);
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    write_facts(&r);
    cli_progress(cli, "reading the inputs that the command names");
    run_inputs_take(cli->arena, &cli->operands, &r.inputs);
    cli_progress(cli, NULL);
    r.start = monotonic_s();
    if (write_run(&r, NULL, &err) != ST_OK || supervise(&o, &result, &err) != ST_OK) {
        arena_free(r.scratch);
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    int status = finish(&r, &result);
    line_ranks_end(&r.ranks);
    arena_free(r.scratch);
    return status;
}

static const char *const description[] = {
    "Runs a command under supervision and keeps a run folder: its output, metrics parsed from it, the "
    "kernel log of its time, facts of the machine, and for each process a record of the calls its "
    "maths libraries received, readable after any crash. The command is not changed: output, signals and "
    "status are passed through. The report goes to standard error; 'assay report RUN' shows it again.",
    "--guard makes every tensor end at an unmapped page, on the CPU and on a GPU of CUDA or HIP: an "
    "access outside faults there and then, and the report names operand or kernel. The guard proves "
    "itself on planted faults first; when it cannot, the answer is 'could not tell'. On a GPU the "
    "framework's memory cache is switched off for the run, and --serialize makes the faulting launch "
    "the one that reports the error.",
    "Exit status: the command's; 128 + signal; 124 after a time limit; where the command ended with 0, "
    "1 for a broken expectation and 2 where what was asked could not be told.",
    NULL,
};

static const struct example examples[] = {
    {"assay run -- python train.py", "record a run; say what broke it"},
    {"assay run --guard -- python train.py", "stop at the first access outside a tensor"},
    {"assay run --expect no:mkl -- python train.py", "prove that a library was really left"},
    {"assay run --record runs/a --timeout 3600 --hang 120 -- torchrun --nproc-per-node 2 train.py",
     "name the folder, limit the time, notice a hang"},
    {0},
};

static const struct option_spec options[] = {
    {"record", 'r', OPTION_VALUE, "DIR", "Run folder (default: assay-run-TIME-PID here)"},
    {"guard", 'g', OPTION_FLAG, NULL, "Let tensors end at an unmapped page"},
    {"guard-every", 0, OPTION_VALUE, "N",
     "Guard one CPU block in N; device blocks are all guarded"},
    {"guard-min", 0, OPTION_VALUE, "BYTES", "Guard only blocks of at least BYTES"},
    {"guard-side", 0, OPTION_VALUE, "end|begin",
     "Where the unmapped page of CPU blocks lies (default: end)"},
    {"serialize", 0, OPTION_FLAG, NULL,
     "With --guard: one kernel at a time, so that the one at fault is known"},
    {"quarantine", 0, OPTION_FLAG, NULL,
     "With --guard: freed CPU blocks stay unmapped, so that use after free faults"},
    {"env", 'e', OPTION_REPEAT, "NAME=VALUE",
     "Set a variable for the command alone; NAME without a value removes it"},
    {"expect", 0, OPTION_REPEAT, "WHAT",
     "no:NAME, yes:NAME: a library or function, by part of name or path; or kernel:NAME"},
    {"marks", 0, OPTION_VALUE, "N",
     "Let the GPU mark every N-th call of each stream: how far it came when it faults or hangs"},
    {"library-logs", 0, OPTION_VALUE, "NAMES",
     "Keep the logs of maths libraries: all, or of hipblaslt,rocblas,miopen,cublaslt,cudnn"},
    {"timeout", 0, OPTION_VALUE, "SECONDS", "Stop the command after so long"},
    {"hang", 0, OPTION_VALUE, "SECONDS",
     "Take stacks after so long without output or call (default: 600)"},
    {"kill-hung", 0, OPTION_FLAG, NULL, "Stop the command once it counts as hung"},
    {"no-facts", 0, OPTION_FLAG, NULL, "Do not collect facts of the machine first"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_run = {
    .name = "run",
    .summary = "Supervise and record a command; name the cause when it breaks",
    .operands = "-- COMMAND [ARG...]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_run,
};
