// SPDX-License-Identifier: Apache-2.0
/* Other commands as child processes, and what their records say. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/qualify/qualify.h"
#include "cli/session.h"
#include "cli/trial.h"
#include "report/report_read.h"

enum {
    RECORD_MAX = 64 << 20,
    WORDS_MAX = 1 << 20,
    POLL_NS = 50000000
};

static const double grace_s = 10;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Its exit status; -1 when it was stopped. */
static int wait_for(struct qualify *q, pid_t pid, const char *what, double limit_s)
{
    double began = now_s();
    double asked = 0; /* to end */
    struct timespec pause = {0, POLL_NS};
    int status = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        double now = now_s();
        if (asked == 0 && (now - began > limit_s || trial_was_interrupted())) {
            kill(pid, SIGTERM);
            asked = now;
        } else if (asked > 0 && now - asked > grace_s) {
            kill(pid, SIGKILL);
        }
        cli_progress(q->cli, "stage %s: %.0f s", what, now - began);
        nanosleep(&pause, NULL);
    }
    if (asked > 0 || got < 0 || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

static char **arguments(struct arena *a, const struct text_list *words, const char *output)
{
    const char *const head[] = {words->items[0], "--json", "--quiet", "--output", output};
    char **argv = arena_array(a, words->count + ARRAY_LEN(head) + 2, sizeof *argv);
    size_t n = 0;
    argv[n++] = arena_strdup(a, "assay");
    for (size_t i = 0; i < ARRAY_LEN(head); i++) {
        argv[n++] = arena_strdup(a, head[i]);
    }
    for (size_t i = 1; i < words->count; i++) {
        argv[n++] = arena_strdup(a, words->items[i]);
    }
    return argv;
}

/* What the child said last on its standard error. */
static const char *last_words(struct arena *a, const char *errors)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    struct str line;
    struct str last = {0};
    if (fs_read(&live, a, errors, WORDS_MAX, &text, NULL) != ST_OK) {
        return "";
    }
    while (str_cut_line(&text, &line)) {
        last = line.n != 0 ? line : last;
    }
    if (str_starts(last, "assay: ")) {
        last = str_slice(last, 7, last.n);
    }
    return str_dup(a, str_slice(last, 0, last.n < 600 ? last.n : 600));
}

static enum status no_record(struct arena *a, const char *errors, const char *command, int exit,
                             double limit_s, struct err *err)
{
    const char *last = last_words(a, errors);
    if (last[0] != '\0') {
        return err_set(err, ST_UNSUPPORTED, "%s", last);
    }
    return exit < 0 ? err_set(err, ST_UNSUPPORTED,
                              "'assay %s' crashed, or was stopped after its limit of %.0f s",
                              command, limit_s)
                    : err_set(err, ST_UNSUPPORTED, "'assay %s' left no record (exit status %d)",
                              command, exit);
}

enum status qualify_child(struct qualify *q, const char *what, const struct text_list *words,
                          double limit_s, struct report *ret_report, int *ret_exit, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = q->cli->arena;
    const char *output = arena_fmt(a, "%s/.record.json", q->folder);
    const char *errors = arena_fmt(a, "%s/.record.err", q->folder);
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    unlink(output);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int failed = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments(a, words, output),
                             environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        return err_sys(err, failed, "cannot start 'assay %s'", words->items[0]);
    }
    int exit = wait_for(q, pid, what, limit_s);
    struct str text;
    enum status status = fs_read(&live, a, output, RECORD_MAX, &text, err);
    if (trial_was_interrupted()) { /* what it says of its end is our doing */
        status = err_set(err, ST_UNSUPPORTED, "interrupted");
    } else if (status == ST_OK) {
        status = report_read(a, text, arena_fmt(a, "the record of 'assay %s'", words->items[0]),
                             ret_report, err);
    } else {
        status = no_record(a, errors, words->items[0], exit, limit_s, err);
    }
    unlink(output);
    unlink(errors);
    *ret_exit = exit;
    return status;
}

void qualify_not_run(struct stage_result *s, const char *reason, const char *needs)
{
    s->state = STAGE_NOT_RUN;
    s->reason = reason;
    s->needs = needs;
}

void qualify_take(struct qualify *q, const struct report *r, struct finding_list *to)
{
    for (size_t l = 0; l < r->list_count; l++) {
        const struct finding_list *list = r->lists[l].findings;
        for (size_t i = 0; i < list->count; i++) {
            if (list->items[i].severity != SEVERITY_OK) {
                *VEC_PUSH(q->cli->arena, to) = list->items[i];
            }
        }
    }
}

void qualify_judge(struct qualify *q, const char *id, int weight, struct stage_result *s)
{
    int exit = session_exit(&s->findings);
    enum severity worst = exit == EXIT_FAULT ? SEVERITY_WARNING : SEVERITY_OK;
    for (size_t i = 0; i < s->findings.count; i++) {
        worst = s->findings.items[i].severity == SEVERITY_ERROR ? SEVERITY_ERROR : worst;
    }
    *VEC_PUSH(q->cli->arena, &s->health) = (struct health_row){
        .id = id, .severity = worst, .weight = weight, .lost = health_lost(worst, weight)};
    s->health.score = health_score(&s->health);
    s->health.confidence = exit == EXIT_UNKNOWN ? 0 : 1;
}

const struct report_table *qualify_table(const struct report *r, const char *key)
{
    for (size_t i = 0; i < r->table_count; i++) {
        if (strcmp(r->tables[i].key, key) == 0) {
            return &r->tables[i];
        }
    }
    return NULL;
}

struct value qualify_cell(const struct report_table *t, size_t row, const char *column)
{
    for (size_t c = 0; t != NULL && c < t->column_count; c++) {
        if (strcmp(t->columns[c].key, column) == 0) {
            return t->cells[row * t->column_count + c];
        }
    }
    return (struct value){.kind = VALUE_NULL};
}

const char *qualify_text(const struct report_table *t, size_t row, const char *column)
{
    struct value v = qualify_cell(t, row, column);
    return v.kind == VALUE_STRING ? v.string : "";
}
