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
#include "cli/run/expect.h"
#include "cli/run/hang.h"
#include "cli/run/last_words.h"
#include "cli/run/path_kernels.h"
#include "cli/run/rank_calls.h"
#include "cli/run/story.h"
#include "cli/run/story_signal.h"
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
    const char *asked = tree_text(j->run, "asked_to_stop", NULL);
    if (strcmp(ending, "exited") == 0) {
        return arena_fmt(a, "exited with status %s after %s s%s%s",
                         tree_text(j->run, "status", "?"), seconds,
                         asked != NULL ? ", asked to by " : "", asked != NULL ? asked : "");
    }
    if (strcmp(ending, "running") == 0) {
        return "still running, or its supervisor was killed";
    }
    if (strcmp(ending, "not started") == 0) {
        return arena_fmt(a, "%s: %s", ending, tree_text(j->run, "reason", "no reason was kept"));
    }
    if (strcmp(ending, "signal") == 0) {
        ending = arena_fmt(a, "killed by %s", tree_text(j->run, "signal", "?"));
    } else if (strcmp(ending, "interrupted") == 0 && asked != NULL) {
        ending = arena_fmt(a, "interrupted by %s", asked);
    }
    return arena_fmt(a, "%s after %s s", ending, seconds);
}

/* What a log tells of any fault of a GPU, whichever kernel it was: behind a record that names the kernel. */
static bool is_any_gpu_fault(const char *id)
{
    return strcmp(id, "gpu-kernel-access") == 0 || strcmp(id, "gpu-memory-fault") == 0;
}

/* The records' findings that name a kernel, an operand or a block of the GPU. */
static bool names_gpu_fault(const struct finding *f)
{
    return f->severity == SEVERITY_ERROR && f->confidence >= 0.6 &&
           (str_starts(str_of(f->id), "gpu-") || str_starts(str_of(f->id), "convolution-") ||
            str_starts(str_of(f->id), "gemm-"));
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

/* What broke is asked for where the command broke: not where it was stopped, or never began. */
static bool broke(const struct judged *j)
{
    const char *ending = tree_text(j->run, "ending", "");
    return strcmp(ending, "signal") == 0 ||
           (strcmp(ending, "exited") == 0 && tree_text(j->run, "asked_to_stop", NULL) == NULL);
}

/* "; …": the best that is known of an end that no rule explains. */
static const char *unexplained(const struct judged *j)
{
    struct arena *a = j->cli->arena;
    const char *status = tree_text(j->run, "status", "");
    for (size_t i = 0; i < j->story.processes.count; i++) {
        const struct run_process *p = &j->story.processes.items[i];
        if (strcmp(p->end, arena_fmt(a, RUN_STORY_LEFT, status)) == 0) {
            const char *slash = strrchr(p->program, '/');
            return arena_fmt(a, "; process %d, %s, called _exit(%s)", p->pid,
                             slash != NULL ? slash + 1 : p->program, status);
        }
    }
    static const char *const faults[] = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        if (strcmp(tree_text(j->run, "signal", ""), faults[i]) == 0) {
            return "; no record saw where: a static program, or a thread whose stack ran out";
        }
    }
    const struct finding_list *unknown = &j->diagnosis.unknown;
    for (size_t i = unknown->count; i-- > 0;) {
        const struct finding *f = &unknown->items[i];
        if (strcmp(f->id, "python-exception") == 0 && f->evidence.count > 0) {
            return arena_fmt(a, "; no rule explains '%s'", f->evidence.items[0].text);
        }
    }
    return "; no cause is known";
}

/* Whether a record tells how a process died. */
static bool saw_the_end(const struct judged *j)
{
    for (size_t i = 0; i < j->story.findings.count; i++) {
        const struct finding *f = &j->story.findings.items[i];
        if (f->severity == SEVERITY_ERROR && run_story_is_signal(f->id)) {
            return true;
        }
    }
    return false;
}

/* Causes that say "a process died, and this log does not say where": it is known from the record. */
static bool only_an_echo(const char *id)
{
    return strcmp(id, "crash-unexplained") == 0 || strcmp(id, "peer-died") == 0;
}

static void drop_ids(struct finding_list *list, const char *one, const char *other)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *id = list->items[i].id;
        if (strcmp(id, one) != 0 && strcmp(id, other) != 0) {
            list->items[kept++] = list->items[i];
        }
    }
    list->count = kept;
}

/* What a launcher says when it is asked to stop, which we did. */
static bool answers_our_stop(const struct finding *f)
{
    if (strcmp(f->id, "rank-closing-sigterm") == 0) {
        return true;
    }
    return strcmp(f->id, "python-exception") == 0 && strcmp(f->title, f->id) == 0 && /* once */
           f->evidence.count == 1 && strstr(f->evidence.items[0].text, "SignalException: ") != NULL;
}

static void drop_answers(struct finding_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!answers_our_stop(&list->items[i])) {
            list->items[kept++] = list->items[i];
        }
    }
    list->count = kept;
}

/* "Aborted (core dumped)" is explained by the record that saw it. */
static void drop_echoes(struct judged *j)
{
    const char *ending = tree_text(j->run, "ending", "");
    if (strncmp(ending, "stopped", strlen("stopped")) == 0 || strcmp(ending, "interrupted") == 0) {
        drop_answers(&j->diagnosis.unknown);
    }
    if (saw_the_end(j)) {
        drop_ids(&j->diagnosis.unknown, "core-dumped", "c-assertion");
        drop_ids(&j->diagnosis.secondary, "core-dumped", "c-assertion");
    }
}

/* numpy and scipy take their arrays from malloc, which the guard leaves alone. */
static void judge_operands(struct judged *j)
{
    struct arena *a = j->cli->arena;
    /* numpy makes one product when it is imported: beside guarded tensors it says nothing. */
    if (j->story.products == 0 || j->story.products_guarded > 0 || j->story.blocks_met > 0 ||
        !j->story.guard_proven) {
        return;
    }
    struct finding *f = VEC_PUSH(a, &j->checks);
    *f = (struct finding){
        .id = "guard-missed-products",
        .severity = SEVERITY_UNKNOWN,
        .confidence = 1,
        .title = arena_fmt(a, "none of the %" PRIu64 " recorded products had a guarded operand",
                           j->story.products),
        .claim =
            "The program takes its arrays from malloc, as numpy does, or they are smaller than "
            "--guard-min: a run without a fault says nothing of its products."};
    *VEC_PUSH(a, &f->remedy) = "assay reproduce RUN tries each of them with operands at holes";
    *VEC_PUSH(a, &f->remedy) = "assay probe --library PATH tries the whole library";
}

/* Which rank went first, where the log has the echo only: as far as the records saw them end. */
static void tell_first_rank(const struct judged *j, struct finding *f)
{
    const struct run_process *first = NULL;
    size_t ranks = 0;
    for (size_t i = 0; i < j->story.processes.count; i++) {
        const struct run_process *p = &j->story.processes.items[i];
        ranks += p->rank >= 0;
        if (p->rank >= 0 && p->end_ns != 0 && (first == NULL || p->end_ns < first->end_ns)) {
            first = p;
        }
    }
    if (ranks > 1 && first != NULL) {
        *VEC_PUSH(j->cli->arena, &f->evidence) = (struct evidence){
            .source = "records",
            .text = arena_fmt(
                j->cli->arena,
                "of the ranks whose end was seen rank %d (process %d) was the first: %s",
                first->rank, first->pid, first->end)};
    }
}

/* Evidence and remedies of `more` behind those of `f`. */
static struct finding with_more(struct arena *a, const struct finding *f,
                                const struct finding *more)
{
    struct finding out = *f;
    for (size_t i = 0; i < more->evidence.count; i++) {
        *VEC_PUSH(a, &out.evidence) = more->evidence.items[i];
    }
    for (size_t i = 0; i < more->remedy.count; i++) {
        *VEC_PUSH(a, &out.remedy) = more->remedy.items[i];
    }
    return out;
}

/* What the records know of a collective that some ranks did not come to. */
static void tell_calls_of_ranks(const struct judged *j, struct finding *f)
{
    struct finding ranks;
    if (rank_calls_judge(j->cli->arena, &j->story.processes, &ranks)) {
        *VEC_PUSH(j->cli->arena, &f->evidence) = (struct evidence){.source = "records",
                                                                   .text = ranks.title};
        *f = with_more(j->cli->arena, f, &ranks);
    }
}

static void collect(struct judged *j)
{
    struct arena *a = j->cli->arena;
    for (size_t i = 0; i < j->story.findings.count; i++) {
        const struct finding *f = &j->story.findings.items[i];
        *VEC_PUSH(a, f->severity == SEVERITY_ERROR ? &j->causes : &j->checks) = *f;
    }
    bool seen = saw_the_end(j);
    double named = 0; /* the surest that names a fault of the GPU */
    for (size_t i = 0; i < j->causes.count; i++) {
        const struct finding *f = &j->causes.items[i];
        named = names_gpu_fault(f) && f->confidence > named ? f->confidence : named;
    }
    for (size_t i = 0; i < j->diagnosis.causes.count; i++) {
        struct finding f = j->diagnosis.causes.items[i];
        if (strcmp(f.id, "peer-died") == 0 || strcmp(f.id, "collective-timeout") == 0) {
            tell_first_rank(j, &f);
            tell_calls_of_ranks(j, &f);
        }
        if (is_any_gpu_fault(f.id) && f.confidence > named && named > 0) {
            f.confidence = named;
        }
        if (!(seen && only_an_echo(f.id))) {
            *VEC_PUSH(a, &j->causes) = f;
        }
    }
    if (j->causes.count > 1) {
        sort_causes(&j->causes);
    }
    struct finding hang;
    if (strcmp(tree_text(j->run, "hang_seen", ""), "true") == 0 &&
        strcmp(tree_text(j->run, "ending", ""), "exited") != 0 &&
        run_hang_find(a, j->folder, &hang)) {
        struct finding ranks;
        *VEC_PUSH(a, &j->causes) = rank_calls_judge(a, &j->story.processes, &ranks)
                                       ? with_more(a, &ranks, &hang)
                                       : hang;
    }
    if (j->story.guarded_blocks > 0 && j->story.guard_proven) {
        struct finding *f = VEC_PUSH(a, &j->checks);
        *f = (struct finding){
            .id = "guard-proven",
            .severity = SEVERITY_OK,
            .confidence = 1,
            .title = arena_fmt(a, "guard proven at the start; %" PRIu64 " blocks were guarded",
                               j->story.blocks_met),
            .claim =
                "A planted over-read faulted in each process before anything was judged. A read "
                "of the few bytes up to the alignment of a block (64 in PyTorch) is not seen: "
                "assay reproduce RUN tries the recorded products to the byte."};
    }
    judge_operands(j);
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
    if (!ended_well(j) && !isnan(j->curves.last_step)) {
        ending = arena_fmt(a, "%s (last step told: %.0f)", ending, j->curves.last_step);
    }
    if (j->causes.count > 0) {
        return arena_fmt(a, "run: %s: %s", ending, j->causes.items[0].title);
    }
    if (!ended_well(j)) {
        return arena_fmt(a, "run: %s%s", ending, broke(j) ? unexplained(j) : "");
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

static void add_notes(struct judged *j, const char *folder, struct report *r)
{
    struct arena *a = j->cli->arena;
    drop_echoes(j);
    for (size_t i = 0; i < j->diagnosis.notes.count; i++) {
        const char *note = j->diagnosis.notes.items[i];
        bool echo = saw_the_end(j) && (strstr(note, "crash-unexplained") != NULL ||
                                       strstr(note, "peer-died") != NULL);
        if (!echo) {
            *VEC_PUSH(a, &r->notes) = note;
        }
    }
    if (j->story.no_room > 0) {
        *VEC_PUSH(a, &r->notes) = arena_fmt(
            a,
            "the calls of %zu processes were not recorded: no room on the disk of %s (a "
            "process takes 10 MiB and 1 MiB a thread), or ulimit -f does not let "
            "its file have 150 MiB",
            j->story.no_room, folder);
    } else if (j->story.record_count == 0 &&
               strcmp(tree_text(j->run, "ending", ""), "not started") != 0) {
        *VEC_PUSH(a, &r->notes) = "no process left a record: none called a hooked library, or the "
                                  "program is static or setuid and takes no preloaded library";
    }
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
    last_words_add(a, folder, &j->story.findings);
    collect(j);
    judge_gpu_guard(j);
    const struct tree *kept = tree_get(j->run, "expect");
    for (const struct tree *t = kept != NULL ? kept->child : NULL; t != NULL; t = t->next) {
        run_expect_judge(a, t->text, &j->story, &j->kernels, &j->checks);
    }
    for (size_t i = 0; expects != NULL && i < expects->count; i++) {
        run_expect_judge(a, expects->items[i], &j->story, &j->kernels, &j->checks);
    }
    struct report r = {.command = "run", .schema_version = 1, .notes = j->story.notes};
    draw(j, folder, &r);
    tell(j, &r);
    struct report_table ranks = tell_ranks(j);
    add_notes(j, folder, &r);
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
