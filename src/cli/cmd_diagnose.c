// SPDX-License-Identifier: Apache-2.0
/*
 * assay diagnose: logs in, root causes out. Facts and a configuration make the answer surer; without
 * them it says what would settle an open question.
 */
#include <string.h>
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
};

/* This machine's kernel log through a memory file, so that it is read like any other log. */
static enum status kernel_log_here(const struct cli *cli, const char **ret_path, struct err *err)
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
    int fd = memfd_create("kernel log", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET) != 0) {
        return err_sys(err, errno, "cannot keep the kernel log in memory");
    }
    *ret_path = arena_fmt(cli->arena, "/proc/self/fd/%d", fd);
    return ST_OK;
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
    if (here && r->kernel_logs.count == 0) {
        struct err denied = {0};
        if (kernel_log_here(cli, &path, &denied) == ST_OK) {
            *VEC_PUSH(cli->arena, &r->kernel_logs) = path;
        } else {
            cli_note(cli, "%s", denied.text);
        }
    }
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

static int judge(struct cli *cli, const struct request *r, const struct log_facts *log)
{
    struct diagnosis d;
    diagnose(cli->arena, r->k, r->facts, log, &d);
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
