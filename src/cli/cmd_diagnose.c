// SPDX-License-Identifier: Apache-2.0
/*
 * assay diagnose: logs in, root causes out. Facts and a configuration make the answer surer; without
 * them it says what would settle an open question.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/klog.h>
#include <sys/mman.h>

#include "base/str.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "diagnosis/causes.h"
#include "diagnosis/log_read.h"

struct request {
    const struct knowledge *k;
    struct facts *facts; /* NULL when none were given */
    struct text_list kernel_logs;
    bool kernel_here;        /* this machine's kernel log is wanted */
    const char *memory_log;  /* path of this machine's kernel log in memory, or NULL */
    const char *window_note; /* what of it was left out, or NULL */
};

/* The text of this machine's kernel log. */
static enum status kernel_text(const struct cli *cli, struct str *ret_text, struct err *err)
{
    enum {
        READ_ALL = 3,
        SIZE = 10
    };

    int size = klogctl(SIZE, NULL, 0);
    char *text = arena_alloc(cli->arena, (size_t)(size > 0 ? size : 0) + 1);
    int n = size > 0 ? klogctl(READ_ALL, text, size) : -1;
    if (n < 0) {
        return err_sys(err, errno,
                       "cannot read this machine's kernel log; run as root, or give "
                       "--kernel-log FILE made by 'sudo dmesg > FILE'");
    }
    *ret_text = (struct str){.p = text, .n = (size_t)n};
    return ST_OK;
}

/* A text as a memory file, so that it is read like any other log. */
static enum status memory_file(const struct cli *cli, struct str text, const char **ret_path,
                               struct err *err)
{
    int fd = memfd_create("kernel log", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n || lseek(fd, 0, SEEK_SET) != 0) {
        return err_sys(err, errno, "cannot keep the kernel log in memory");
    }
    *ret_path = arena_fmt(cli->arena, "/proc/self/fd/%d", fd);
    return ST_OK;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct machine_clock clock_here(void)
{
    time_t now = time(NULL);
    struct tm tm = {0};
    localtime_r(&now, &tm);
    return (struct machine_clock){.boot = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_MONOTONIC),
                                  .utc_offset = (double)tm.tm_gmtoff};
}

/* This machine's kernel log, without what cannot belong to the run of `times`. A log
 * that may not be read is said and does not matter further. */
static enum status add_kernel_log_here(const struct cli *cli, struct request *r,
                                       const struct log_times *times, struct log_reader *reader,
                                       struct err *err)
{
    struct str text;
    struct err denied = {0};
    if (!r->kernel_here) {
        return ST_OK;
    }
    if (kernel_text(cli, &text, &denied) != ST_OK) {
        cli_note(cli, "%s", denied.text);
        return ST_OK;
    }
    struct machine_clock clock = clock_here();
    struct kernel_window window = kernel_window_of(times, &clock);
    size_t left_out;
    text = kernel_window_cut(cli->arena, text, &window, &left_out);
    if (left_out != 0) {
        r->window_note = arena_fmt(
            cli->arena,
            "%zu lines of this machine's kernel log were left out: they are from before or after the "
            "run, by the times %s; --kernel-log FILE takes all of a file",
            left_out, times->first <= times->last ? "in its log" : "its log was written");
    }
    TRY(memory_file(cli, text, &r->memory_log, err));
    return text.n != 0 ? log_reader_add(reader, r->memory_log, true, err) : ST_OK;
}

/* Facts from --facts FILE, from this machine with --here, and the configuration's on top. */
static enum status gather(const struct cli *cli, struct request *r, struct err *err)
{
    const char *from = cli_value(cli, "facts", NULL);
    bool here = cli_flag(cli, "here");
    if (from != NULL) {
        TRY(session_facts_file(cli, r->k, from, &r->facts, err));
    } else if (here) {
        TRY(session_collect(cli, r->k, "", cli_value(cli, "python", NULL), &r->facts, err));
    }
    if (cli_value(cli, "config", NULL) != NULL) {
        struct job_config config = {0};
        if (r->facts == NULL) {
            r->facts = facts_new(cli->arena);
        }
        TRY(session_config(cli, r->facts, &config, err));
    }
    const char *path;
    for (size_t i = 0; (path = cli_repeat(cli, "kernel-log", i)) != NULL; i++) {
        *VEC_PUSH(cli->arena, &r->kernel_logs) = path;
    }
    r->kernel_here = here && r->kernel_logs.count == 0;
    return ST_OK;
}

static const char *counted(const struct cli *cli, size_t n, const char *one, const char *many)
{
    return arena_fmt(cli->arena, "%zu %s", n, n == 1 ? one : many);
}

static const char *verdict_of(const struct cli *cli, const struct log_facts *log,
                              const struct diagnosis *d, int *ret_status)
{
    *ret_status = EXIT_FAULT;
    if (d->causes.count != 0) {
        return arena_fmt(cli->arena, "diagnose: %s named%s",
                         counted(cli, d->causes.count, "cause", "causes"),
                         d->causes.count > 1 ? ", the likeliest first" : "");
    }
    if (d->unknown.count != 0) {
        return arena_fmt(
            cli->arena, "diagnose: no known cause; %s that no rule explains",
            counted(cli, d->unknown.count, "kind of fault line", "kinds of fault lines"));
    }
    if (log->run.died) {
        return "diagnose: the run died, and no line of the log says why";
    }
    *ret_status = EXIT_FINE;
    return arena_fmt(cli->arena, "diagnose: no fault found in %s%s",
                     counted(cli, (size_t)log->run.lines, "line", "lines"),
                     log->run.completed ? "; the run completed" : "");
}

/* What else would help, when the answer is open. */
static void ask_for_more(const struct cli *cli, const struct request *r,
                         const struct log_facts *log, struct diagnosis *d)
{
    bool open = d->causes.count == 0 ? d->unknown.count != 0 || log->run.died
                                     : d->causes.items[0].confidence < 0.8;
    if (!open) {
        return;
    }
    if (!log->has_kernel_log) {
        *VEC_PUSH(cli->arena, &d->notes) =
            "the kernel log would help: sudo dmesg -T > kernel.log (after a reboot: journalctl -k -b "
            "-1 > kernel.log), then --kernel-log kernel.log";
    }
    if (r->facts == NULL) {
        *VEC_PUSH(cli->arena, &d->notes) =
            "facts of the machine would help: assay doctor --facts --json > facts.json there, then "
            "--facts facts.json (on the machine itself: --here)";
    }
}

/* Evidence from the memory file says where it really came from. */
static void name_sources(const struct request *r, struct finding_list *list)
{
    for (size_t i = 0; r->memory_log != NULL && i < list->count; i++) {
        struct evidence_list *e = &list->items[i].evidence;
        for (size_t k = 0; k < e->count; k++) {
            if (strcmp(e->items[k].source, r->memory_log) == 0) {
                e->items[k].source = "kernel log";
            }
        }
    }
}

static int judge(struct cli *cli, const struct request *r, const struct log_facts *log)
{
    struct diagnosis d;
    diagnose(cli->arena, r->k, r->facts, log, &d);
    for (size_t i = 0; i < log->notes.count; i++) {
        *VEC_PUSH(cli->arena, &d.notes) = log->notes.items[i];
    }
    if (r->window_note != NULL) {
        *VEC_PUSH(cli->arena, &d.notes) = r->window_note;
    }
    name_sources(r, &d.causes);
    name_sources(r, &d.secondary);
    name_sources(r, &d.unknown);
    ask_for_more(cli, r, log, &d);
    int status;
    struct report report = {.command = "diagnose", .schema_version = 1, .notes = d.notes};
    report.verdict = verdict_of(cli, log, &d, &status);
    report.lists[report.list_count++] = (struct report_list){
        .key = "causes", .findings = &d.causes, .causes = true};
    report.lists[report.list_count++] = (struct report_list){
        .key = "secondary", .heading = "follows from it:", .findings = &d.secondary, .brief = true};
    report.lists[report.list_count++] = (struct report_list){
        .key = "unknown", .heading = "not explained:", .findings = &d.unknown, .brief = true};
    return session_report(cli, &report, status);
}

static volatile int stop_requested;

static void on_interrupt(int sig)
{
    (void)sig;
    stop_requested = 1;
}

static void on_progress(void *ctx, const char *path, uint64_t taken, uint64_t total)
{
    const struct cli *cli = ctx;
    if (total != 0) {
        cli_progress(cli, "reading %s: %.0f of %.0f MB", path, (double)taken / 1e6,
                     (double)total / 1e6);
    } else {
        cli_progress(cli, "reading %s: %.0f MB", path, (double)taken / 1e6);
    }
}

/* Nothing to judge is not "nothing wrong". */
static int nothing_to_read(const struct cli *cli, const struct log_facts *log)
{
    const char *what = cli->operands.count != 0 ? cli->operands.items[0] : "the kernel log";
    if (log->run.bytes == 0) {
        return cli_fail(cli, EXIT_UNKNOWN, "'%s' is empty: there is nothing to diagnose", what);
    }
    if (log->run.looks_binary && log->events.count == 0) {
        return cli_fail(
            cli, EXIT_UNKNOWN,
            "'%s' looks like a binary file, not a log; give the text that the run printed", what);
    }
    return EXIT_FINE;
}

/* State of --follow: what was said last. */
struct following {
    struct cli *cli;
    const struct request *request;
    struct log_reader *reader;
    const char *last_class;
    int status;
};

static void say_event(struct cli *cli, const struct event *e)
{
    if (e->pattern->kind == PATTERN_FAULT || e->pattern->kind == PATTERN_CONSEQUENCE) {
        cli_note(cli, "%s:%" PRIu64 ": %s: %.200s", e->source, e->line, e->pattern->id, e->text);
    }
}

/* New lines: named on stderr; a new likeliest cause is reported in full. */
static bool on_fresh(void *ctx, const struct event *const *events, size_t count)
{
    struct following *f = ctx;
    for (size_t i = 0; i < count; i++) {
        say_event(f->cli, events[i]);
    }
    const struct log_facts *log = log_reader_facts(f->reader);
    struct diagnosis d;
    diagnose(f->cli->arena, f->request->k, f->request->facts, log, &d);
    const char *class = d.causes.count != 0 ? d.causes.items[0].id : NULL;
    if (class != NULL && (f->last_class == NULL || strcmp(class, f->last_class) != 0)) {
        f->last_class = class;
        f->status = judge(f->cli, f->request, log);
    }
    return stop_requested == 0;
}

static bool on_idle(void *ctx)
{
    (void)ctx;
    return stop_requested == 0;
}

/* When the log's lines are from, read by a reader of its own: the follower begins with nothing. */
static enum status times_of(const struct cli *cli, const struct request *r,
                            const struct log_options *options, struct log_times *ret_times,
                            struct err *err)
{
    struct log_reader *reader;
    TRY(log_reader_new(cli->arena, r->k, options, &reader, err));
    enum status got = log_reader_add(reader, cli->operands.items[0], false, err);
    *ret_times = log_reader_times(reader);
    ret_times->last = ret_times->first <= ret_times->last ? seconds_of(CLOCK_REALTIME) + 86400
                                                          : NAN;
    ret_times->written = NAN; /* it still grows */
    log_reader_free(reader);
    return got;
}

static int follow(struct cli *cli, struct request *r, const struct log_options *options)
{
    struct err err = {0};
    struct following f = {.cli = cli, .request = r, .status = EXIT_FINE};
    if (cli->operands.count != 1) {
        return cli_fail(cli, EXIT_USAGE, "--follow takes one log");
    }
    if (log_reader_new(cli->arena, r->k, options, &f.reader, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    enum status got = ST_OK;
    for (size_t i = 0; got == ST_OK && i < r->kernel_logs.count; i++) {
        got = log_reader_add(f.reader, r->kernel_logs.items[i], true, &err);
    }
    bool stream = strcmp(cli->operands.items[0], "-") == 0;
    struct log_times times = {.first = NAN, .last = NAN, .written = NAN};
    if (got == ST_OK && r->kernel_here && !stream) {
        got = times_of(cli, r, options, &times, &err);
    }
    if (got == ST_OK) {
        got = add_kernel_log_here(cli, r, &times, f.reader, &err);
    }
    cli_note(cli, "following %s; end with Ctrl-C", cli->operands.items[0]);
    const struct log_follower follower = {.ctx = &f, .fresh = on_fresh, .idle = on_idle};
    if (got == ST_OK) {
        got = log_reader_follow(f.reader, cli->operands.items[0], false, &follower, &err);
    }
    if (got != ST_OK) {
        log_reader_free(f.reader);
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    int status = f.last_class != NULL ? f.status : judge(cli, r, log_reader_facts(f.reader));
    log_reader_free(f.reader);
    return status;
}

/* The training logs first: they say which part of this machine's kernel log is of their time. */
static enum status read_all(const struct cli *cli, struct request *r,
                            const struct log_options *options, const struct log_facts **ret_log,
                            struct err *err)
{
    struct log_reader *reader;
    TRY(log_reader_new(cli->arena, r->k, options, &reader, err));
    enum status got = ST_OK;
    for (size_t i = 0; got == ST_OK && i < cli->operands.count; i++) {
        got = log_reader_add(reader, cli->operands.items[i], false, err);
    }
    for (size_t i = 0; got == ST_OK && i < r->kernel_logs.count; i++) {
        got = log_reader_add(reader, r->kernel_logs.items[i], true, err);
    }
    struct log_times times = log_reader_times(reader);
    if (got == ST_OK) {
        got = add_kernel_log_here(cli, r, &times, reader, err);
    }
    if (got == ST_OK) {
        *ret_log = log_reader_facts(reader);
    }
    log_reader_free(reader);
    return got;
}

static int run_diagnose(struct cli *cli)
{
    struct err err = {0};
    struct request r = {0};
    if (cli->operands.count == 0 && cli_value(cli, "kernel-log", NULL) == NULL &&
        !cli_flag(cli, "here")) {
        return cli_fail(cli, EXIT_USAGE,
                        "diagnose needs a log: assay diagnose train.log, or - for standard input");
    }
    if (cli_flag(cli, "python") && !cli_flag(cli, "here")) {
        return cli_fail(cli, EXIT_USAGE,
                        "--python names an environment of this machine: give --here with it");
    }
    if (session_knowledge(cli, &r.k, &err) != ST_OK || gather(cli, &r, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    struct log_options options = {.progress = on_progress, .ctx = cli, .stop = &stop_requested};
    if (cli_flag(cli, "follow")) {
        return follow(cli, &r, &options);
    }
    const struct log_facts *log;
    if (read_all(cli, &r, &options, &log, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    if (stop_requested != 0) {
        cli_note(cli, "interrupted: the answer rests on what was read until then");
    }
    int status = nothing_to_read(cli, log);
    return status != EXIT_FINE ? status : judge(cli, &r, log);
}

static const char *const description[] = {
    "Names the root cause of a failed run from its logs: files, folders of rank logs, standard input "
    "(-), plain or compressed by gzip or zstd. Every cause comes with the lines it rests on, what to "
    "do, and where it was discussed; errors that only follow from it are listed apart.",
    "The kernel log (--kernel-log), facts of the machine (--facts, made there by 'assay doctor --facts "
    "--json') and the training configuration (--config) make the answer surer. Without them it says "
    "what would settle an open question. --here reads facts of this machine and, of its kernel log, "
    "what is from the time of the run.",
    NULL,
};

static const struct example examples[] = {
    {"assay diagnose train.log", "what broke this run?"},
    {"python train.py 2>&1 | tee train.log | assay diagnose -", "straight from the run"},
    {"assay diagnose --here train.log",
     "the run was on this machine: use its facts and kernel log"},
    {"assay diagnose --kernel-log dmesg.txt --facts facts.json logs/",
     "everything a reporter sent"},
    {"assay diagnose --follow train.log", "watch a log that still grows"},
    {0},
};

static const struct option_spec options[] = {
    {"kernel-log", 'k', OPTION_REPEAT, "FILE",
     "Kernel log of the job's machine (dmesg, journalctl -k)"},
    {"facts", 'F', OPTION_VALUE, "FILE",
     "Facts of the job's machine, from assay doctor --facts --json"},
    {"config", 'c', OPTION_REPEAT, "FILE", "Training configuration of the job"},
    {"here", 0, OPTION_FLAG, NULL, "The job ran here: read facts and kernel log of this machine"},
    {"python", 0, OPTION_VALUE, "PATH", "With --here: the environment of the job"},
    {"follow", 0, OPTION_FLAG, NULL, "Keep reading a log that grows, and report each new cause"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_diagnose = {
    .name = "diagnose",
    .summary = "Name the root cause of a failed run from its logs",
    .operands = "[LOG...]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_diagnose,
};
