// SPDX-License-Identifier: Apache-2.0
/* See run_report.h. */
#include "cli/run/report.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/tree.h"
#include "base/vec.h"

#include "cli/run/curves.h"
#include "cli/run/hang.h"
#include "cli/run/path_kernels.h"
#include "cli/run/story.h"
#include "cli/session.h"
#include "diagnosis/causes.h"
#include "diagnosis/log_read.h"
#include "facts/facts_json.h"

enum {
    RUN_JSON_MAX = 4 << 20
};

struct judged {
    struct cli *cli;
    const char *folder;
    const struct tree *run;
    struct run_story story;
    struct path_kernels kernels;
    struct run_curves curves;
    struct run_ranks ranks;
    struct diagnosis diagnosis;
    struct finding_list causes; /* of records and logs, the surest first */
    struct finding_list checks; /* expectations, the guard */
};

/* ---- expectations ---- */

enum status run_report_check_expect(const char *expect, struct err *err)
{
    struct str s = str_of(expect);
    if ((str_starts(s, "no:") && s.n > 3) || (str_starts(s, "yes:") && s.n > 4)) {
        return ST_OK;
    }
    return err_set(
        err, ST_USAGE,
        "'%s' is no expectation: write no:NAME or yes:NAME, where NAME is part of a "
        "library (its file and the folder that holds it, or with a slash its whole path) or function, "
        "as in no:hipblaslt; or kernel:NAME, part of a launched kernel or of what report --path calls it",
        expect);
}

/* The library's file with the folder that holds it: one name, libblas.so.3, is that of every BLAS where a
 * distribution lets the user choose, as blis-openmp/libblas.so.3. */
static const char *file_in_folder(const struct value *row)
{
    const char *path = row[RUN_STORY_PATH].string;
    const char *at = strrchr(path, '/');
    while (at != NULL && at > path && at[-1] != '/') {
        at--;
    }
    return at != NULL ? at : row[RUN_STORY_LIBRARY].string;
}

/* A name with a slash is asked of the whole path, another one of the file and the folder that holds it. */
static int64_t calls_matching(const struct report_table *t, const char *name, const char **ret_seen)
{
    int64_t calls = 0;
    for (size_t i = 0; i < t->row_count; i++) {
        const struct value *row = &t->cells[i * t->column_count];
        const char *file = strchr(name, '/') != NULL ? row[RUN_STORY_PATH].string
                                                     : file_in_folder(row);
        if (strcasestr(file, name) != NULL ||
            strcasestr(row[RUN_STORY_FUNCTION].string, name) != NULL) {
            calls += row[RUN_STORY_CALLS].integer;
            *ret_seen = file;
        }
    }
    return calls;
}

/* How often what `name` stands for was seen: calls of a library or function, or for "kernel:NAME" launches.
 * ret_doubt: why not seeing it proves nothing; NULL when it does. */
static int64_t count_seen(struct judged *j, const char *name, const char **ret_seen,
                          const char **ret_doubt)
{
    static const char kernel[] = "kernel:";
    if (strncmp(name, kernel, strlen(kernel)) == 0) {
        *ret_doubt = path_kernels_doubt(j->cli->arena, &j->kernels);
        return (int64_t)path_kernels_matching(&j->kernels, name + strlen(kernel), ret_seen);
    }
    *ret_doubt =
        j->story.calls == 0
            ? "No call of a hooked library was recorded at all, so absence proves nothing: "
              "the program may link its libraries statically."
            : NULL;
    return calls_matching(&j->story.libraries, name, ret_seen);
}

static void judge_expect(struct judged *j, const char *expect)
{
    struct arena *a = j->cli->arena;
    bool wanted = str_starts(str_of(expect), "yes:");
    const char *name = expect + (wanted ? 4 : 3);
    const char *seen = "";
    const char *doubt = NULL;
    int64_t count = count_seen(j, name, &seen, &doubt);
    bool kernel = strncmp(name, "kernel:", 7) == 0;
    struct finding *f = VEC_PUSH(a, &j->checks);
    *f = (struct finding){.confidence = 1};
    const char *text = arena_fmt(a, "%" PRId64 " %s match '%s'%s%s", count,
                                 kernel ? "launches" : "calls", name,
                                 count > 0 ? ", for instance in " : "", seen);
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "records", .text = text};
    if (count == 0 && doubt != NULL) {
        f->id = "expectation-untold";
        f->severity = SEVERITY_UNKNOWN;
        f->title = arena_fmt(a, "cannot tell whether %s holds", expect);
        f->claim = doubt;
    } else if ((count > 0) == wanted) {
        f->id = "expectation-met";
        f->severity = SEVERITY_OK;
        f->title = arena_fmt(a, "%s holds", expect);
        f->claim = text;
    } else {
        f->id = "expectation-broken";
        f->severity = SEVERITY_ERROR;
        f->title = arena_fmt(a, "%s does not hold", expect);
        f->claim =
            kernel   ? (wanted ? "The kernel was to be launched, and no launch of it was recorded."
                               : "The kernel was not to be launched, and it was.")
            : wanted ? "The library was to be used, and no call of it was recorded."
                     : "The library was to be left, and calls of it were recorded: the switch that "
                       "should have prevented them is not in effect.";
    }
}

/* ---- logs ---- */

static enum status diagnose_logs(struct judged *j, const struct knowledge *k, const char *folder,
                                 struct err *err)
{
    struct arena *a = j->cli->arena;
    struct text_list train = {0};
    struct text_list kernel = {0};
    static const char *const names[] = {"stdout.log", "stderr.log"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = arena_fmt(a, "%s/%s", folder, names[i]);
        if (access(path, R_OK) == 0) {
            *VEC_PUSH(a, &train) = path;
        }
    }
    const char *path = arena_fmt(a, "%s/kernel.log", folder);
    if (access(path, R_OK) == 0) {
        *VEC_PUSH(a, &kernel) = path;
    }
    if (train.count == 0) {
        return ST_OK;
    }
    struct facts *facts = NULL;
    path = arena_fmt(a, "%s/facts.json", folder);
    if (access(path, R_OK) == 0) {
        TRY(session_facts_file(j->cli, k, path, &facts, err));
    }
    struct log_options options = {0};
    const struct log_facts *log;
    TRY(log_facts_read(a, k, &train, &kernel, &options, &log, err));
    diagnose(a, k, facts, log, &j->diagnosis);
    return ST_OK;
}

/* ---- the whole ---- */

static bool ended_well(const struct judged *j)
{
    return strcmp(tree_text(j->run, "ending", ""), "exited") == 0 &&
           strcmp(tree_text(j->run, "status", ""), "0") == 0;
}

static const char *ending_text(const struct judged *j)
{
    struct arena *a = j->cli->arena;
    const char *ending = tree_text(j->run, "ending", "unknown");
    const char *seconds = tree_text(j->run, "seconds", "?");
    double s;
    if (str_to_double(str_of(seconds), &s) == ST_OK) {
        seconds = arena_fmt(a, "%.1f", s);
    }
    if (strcmp(ending, "exited") == 0) {
        return arena_fmt(a, "exited with status %s after %s s", tree_text(j->run, "status", "?"),
                         seconds);
    }
    if (strcmp(ending, "signal") == 0) {
        return arena_fmt(a, "killed by %s after %s s", tree_text(j->run, "signal", "?"), seconds);
    }
    if (strcmp(ending, "running") == 0) {
        return "still running, or its supervisor was killed";
    }
    return arena_fmt(a, "%s after %s s", ending, seconds);
}

/* The surest first; of equally sure ones that of the records. */
static void sort_causes(struct finding_list *list)
{
    for (size_t i = 1; i < list->count; i++) {
        struct finding f = list->items[i];
        size_t k = i;
        for (; k > 0 && f.confidence > list->items[k - 1].confidence; k--) {
            list->items[k] = list->items[k - 1];
        }
        list->items[k] = f;
    }
}

static void collect(struct judged *j)
{
    struct arena *a = j->cli->arena;
    for (size_t i = 0; i < j->story.findings.count; i++) {
        const struct finding *f = &j->story.findings.items[i];
        *VEC_PUSH(a, f->severity == SEVERITY_ERROR ? &j->causes : &j->checks) = *f;
    }
    for (size_t i = 0; i < j->diagnosis.causes.count; i++) {
        *VEC_PUSH(a, &j->causes) = j->diagnosis.causes.items[i];
    }
    if (j->causes.count > 1) {
        sort_causes(&j->causes);
    }
    struct finding hang;
    if (strcmp(tree_text(j->run, "hang_seen", ""), "true") == 0 &&
        strcmp(tree_text(j->run, "ending", ""), "exited") != 0 &&
        run_hang_find(a, j->folder, &hang)) {
        *VEC_PUSH(a, &j->causes) = hang;
    }
    if (j->story.guarded_blocks > 0 && j->story.guard_proven) {
        struct finding *f = VEC_PUSH(a, &j->checks);
        *f = (struct finding){
            .id = "guard-proven",
            .severity = SEVERITY_OK,
            .confidence = 1,
            .title = arena_fmt(a, "guard proven at the start; %" PRIu64 " blocks were guarded",
                               j->story.guarded_blocks),
            .claim = "A planted over-read faulted in each process before anything "
                     "was judged."};
    }
}

/* What `run` asked the device before the command began. */
static void judge_gpu_guard(struct judged *j)
{
    const struct tree *guard = tree_get(j->run, "gpu_guard");
    struct arena *a = j->cli->arena;
    if (guard == NULL) {
        return;
    }
    bool proven = strcmp(tree_text(guard, "proven", ""), "true") == 0;
    struct finding *f = VEC_PUSH(a, &j->checks);
    *f = (struct finding){.id = proven ? "gpu-guard-proven" : "gpu-guard-not-proven",
                          .severity = proven ? SEVERITY_OK : SEVERITY_UNKNOWN,
                          .confidence = 1,
                          .claim = tree_text(guard, "sentence", "")};
    f->title = proven
                   ? arena_fmt(a, "guard proven on the GPU; %" PRIu64 " device blocks were guarded",
                               j->story.gpu_guarded_blocks)
                   : "the guard could not be proven on the GPU: device memory was not guarded";
}

static int status_of(const struct judged *j)
{
    if (j->causes.count > 0 || !ended_well(j)) {
        return EXIT_FAULT;
    }
    return session_exit(&j->checks);
}

static const char *verdict_of(const struct judged *j, int status)
{
    struct arena *a = j->cli->arena;
    const char *ending = ending_text(j);
    if (j->causes.count > 0) {
        return arena_fmt(a, "run: %s: %s", ending, j->causes.items[0].title);
    }
    if (!ended_well(j)) {
        return arena_fmt(a, "run: %s; no cause is known", ending);
    }
    if (status == EXIT_FAULT) {
        return arena_fmt(a, "run: %s; an expectation does not hold", ending);
    }
    if (status == EXIT_UNKNOWN) {
        return arena_fmt(a, "run: %s; could not tell everything that was asked", ending);
    }
    return arena_fmt(a, "run: %s; no fault observed, %" PRIu64 " library calls recorded", ending,
                     j->story.calls);
}

/* ---- for a page ---- */

static void draw(struct judged *j, const char *folder, struct report *r)
{
    struct arena *a = j->cli->arena;
    struct err err = {0};
    j->curves = (struct run_curves){.first_s = NAN, .last_s = NAN, .last_step = NAN};
    enum status status = run_curves_read(a, folder, &j->curves, &j->ranks, &err);
    if (status != ST_OK && status != ST_ABSENT) {
        *VEC_PUSH(a, &r->notes) = arena_fmt(a, "the metrics cannot be drawn: %s", err.text);
    }
    size_t count = j->ranks.count > 1 ? j->ranks.count : 1;
    struct run_drawn *drawn = arena_array(a, count, sizeof *drawn);
    drawn[0] = (struct run_drawn){.name = folder, .curves = &j->curves};
    for (size_t i = 0; i < j->ranks.count; i++) {
        drawn[i] = (struct run_drawn){.name = arena_fmt(a, "rank %d", j->ranks.items[i].rank),
                                      .curves = &j->ranks.items[i].curves};
    }
    run_curves_plot(a, drawn, count < PLOT_CURVES_MAX ? count : PLOT_CURVES_MAX, r);
    run_curves_spans(a, j->run, &j->curves, &j->story, r);
}

static struct report_table tell_ranks(struct judged *j)
{
    struct arena *a = j->cli->arena;
    const char *slow = NULL;
    struct report_table t = run_curves_ranks(a, &j->ranks, &slow);
    if (slow != NULL) {
        *VEC_PUSH(a, &j->checks) = (struct finding){
            .id = "rank-slow",
            .severity = SEVERITY_NOTE,
            .confidence = 0.8,
            .title = slow,
            .claim = "Each step of the others waits for it, where gradients are exchanged."};
    }
    return t;
}

static const char *bytes_text(struct arena *a, const char *text)
{
    uint64_t n;
    if (str_to_u64(str_of(text), 10, &n) != ST_OK || n == 0) {
        return NULL;
    }
    return n < (1 << 20)   ? arena_fmt(a, "%.0f KiB", (double)n / 1024)
           : n < (1 << 30) ? arena_fmt(a, "%.0f MiB", (double)n / (1 << 20))
                           : arena_fmt(a, "%.2f GiB", (double)n / (1 << 30));
}

static void tell(struct judged *j, struct report *r)
{
    struct arena *a = j->cli->arena;
    struct strbuf command;
    strbuf_init(&command, a, 2000);
    const struct tree *words = tree_get(j->run, "command");
    for (const struct tree *t = words != NULL ? words->child : NULL; t != NULL; t = t->next) {
        strbuf_fmt(&command, "%s%s", command.n != 0 ? " " : "", t->text != NULL ? t->text : "");
    }
    report_tell(r, "command", command.p);
    report_tell(r, "ended", ending_text(j));
    report_tell(r, "host", tree_text(j->run, "host", NULL));
    if (!isnan(j->curves.last_step)) {
        report_tell(r, "last step", arena_fmt(a, "%.0f", j->curves.last_step));
    }
    report_tell(r, "peak memory of the host",
                bytes_text(a, tree_text(j->run, "peak_memory_bytes", "")));
    const struct tree *guard = tree_get(j->run, "gpu_guard");
    report_tell(r, "guard on the GPU",
                guard == NULL                                         ? NULL
                : strcmp(tree_text(guard, "proven", ""), "true") == 0 ? "proven"
                                                                      : "not proven");
}

static enum status read_run(struct judged *j, const char *folder, struct err *err)
{
    struct arena *a = j->cli->arena;
    struct fs fs = {.prefix = ""};
    struct str text;
    const char *path = arena_fmt(a, "%s/run.json", folder);
    if (fs_read(&fs, a, path, RUN_JSON_MAX, &text, err) != ST_OK) {
        return err_context(err, "%s is no run folder", folder);
    }
    return tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &j->run, err);
}

enum status run_report_make(struct cli *cli, const struct knowledge *k, const char *folder,
                            const struct text_list *expects, struct report *ret_report,
                            int *ret_status, struct err *err)
{
    struct arena *a = cli->arena;
    struct judged *j = arena_alloc(a, sizeof *j);
    j->cli = cli;
    char full[PATH_MAX];
    if (realpath(folder, full) == NULL) {
        return err_set(err, ST_ABSENT, "there is no run folder %s", folder);
    }
    folder = arena_strdup(a, full);
    j->folder = folder;
    TRY(read_run(j, folder, err));
    TRY(run_story_load(a, folder, &j->story, err));
    struct kernel_paths table;
    struct text_list unread = {0}; /* the story has a note of each */
    TRY(path_kernels_table(cli, &table, err));
    TRY(path_kernels_read(a, folder, &table, &j->kernels, &unread, err));
    TRY(diagnose_logs(j, k, folder, err));
    collect(j);
    judge_gpu_guard(j);
    const struct tree *kept = tree_get(j->run, "expect");
    for (const struct tree *t = kept != NULL ? kept->child : NULL; t != NULL; t = t->next) {
        judge_expect(j, t->text);
    }
    for (size_t i = 0; expects != NULL && i < expects->count; i++) {
        judge_expect(j, expects->items[i]);
    }
    struct report r = {.command = "run", .schema_version = 1, .notes = j->story.notes};
    draw(j, folder, &r);
    tell(j, &r);
    struct report_table ranks = tell_ranks(j);
    for (size_t i = 0; i < j->diagnosis.notes.count; i++) {
        *VEC_PUSH(a, &r.notes) = j->diagnosis.notes.items[i];
    }
    if (j->story.no_room > 0) {
        *VEC_PUSH(a, &r.notes) = arena_fmt(
            a,
            "the calls of %zu processes were not recorded: no room on the disk of %s (a "
            "process takes 10 MiB and 1 MiB a thread)",
            j->story.no_room, folder);
    } else if (j->story.record_count == 0) {
        *VEC_PUSH(a, &r.notes) = "no process left a record: none called a hooked library, or the "
                                 "program is static or setuid and takes no preloaded library";
    }
    *ret_status = status_of(j);
    r.outcome = *ret_status == EXIT_FAULT     ? SEVERITY_ERROR
                : *ret_status == EXIT_UNKNOWN ? SEVERITY_UNKNOWN
                                              : SEVERITY_OK;
    r.verdict = verdict_of(j, *ret_status);
    r.lists[r.list_count++] = (struct report_list){
        .key = "causes", .findings = &j->causes, .causes = true};
    r.lists[r.list_count++] = (struct report_list){.key = "secondary",
                                                   .heading = "follows from it:",
                                                   .findings = &j->diagnosis.secondary,
                                                   .brief = true};
    r.lists[r.list_count++] = (struct report_list){.key = "unknown",
                                                   .heading = "not explained:",
                                                   .findings = &j->diagnosis.unknown,
                                                   .brief = true};
    r.lists[r.list_count++] = (struct report_list){
        .key = "checks", .heading = "checks:", .findings = &j->checks};
    if (j->story.libraries.row_count > 0) {
        r.tables[r.table_count++] = j->story.libraries;
    }
    if (j->story.processes.count > 1) {
        r.tables[r.table_count++] = j->story.process_table;
    }
    if (j->ranks.count > 1) {
        r.tables[r.table_count++] = ranks;
    }
    r.numbers[r.number_count++] = (struct report_number){"calls", (int64_t)j->story.calls};
    r.numbers[r.number_count++] = (struct report_number){"guarded_blocks",
                                                         (int64_t)j->story.guarded_blocks};
    *ret_report = r;
    return ST_OK;
}
