// SPDX-License-Identifier: Apache-2.0
/*
 * Carrying a plan out. Routes take turns (A B C A B C), so that a machine that warms up, or another job
 * on it, meets all of them alike. A trial that is finished is never run again; what an interruption left
 * half done is moved aside.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/matrix/matrix.h"
#include "cli/trial.h"
#include "recorder/run_folder.h"

enum {
    PLAN_MAX = 1 << 20,
    ASIDE_MAX = 1000
};

static const struct fs live = {.prefix = ""};

const char *matrix_folder(const struct matrix *m, size_t route, uint64_t n)
{
    return arena_fmt(m->cli->arena, "%s/%s/%02" PRIu64, m->output,
                     m->plan->routes.items[route].name, n + 1);
}

bool matrix_failed(const struct compare_run *r, const char **ret_class)
{
    if (r->failed) {
        *ret_class = r->fault != NULL ? r->fault : r->ending;
        return true;
    }
    if (r->log.not_finite > 0) {
        *ret_class = "loss-not-finite";
        return true;
    }
    return false;
}

/* ---- the folder ---- */

static enum status make_folder(const char *path, struct err *err)
{
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return err_sys(err, errno, "cannot make the folder '%s'", path);
    }
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ST_USAGE, "'%s' is there and is no folder", path);
    }
    return ST_OK;
}

/* The plan with the commands it came to: another command is another experiment. */
static struct str identity(const struct matrix *m)
{
    struct strbuf out;
    strbuf_init(&out, m->cli->arena, 4 * PLAN_MAX);
    strbuf_add(&out, m->plan->text);
    for (size_t i = 0; i < m->plan->routes.count; i++) {
        const struct plan_route *r = &m->plan->routes.items[i];
        strbuf_fmt(&out, "\n# %s:", r->name);
        for (size_t w = 0; w < r->command.count; w++) {
            strbuf_fmt(&out, " %s", r->command.items[w]);
        }
    }
    strbuf_addc(&out, '\n');
    return strbuf_str(&out);
}

enum status matrix_open(struct matrix *m, struct err *err)
{
    struct arena *a = m->cli->arena;
    char full[PATH_MAX];
    TRY(make_folder(m->output, err));
    if (realpath(m->output, full) == NULL) {
        return err_sys(err, errno, "cannot use the folder '%s'", m->output);
    }
    m->output = arena_strdup(a, full);
    const char *lock = arena_fmt(a, "%s/.lock", m->output);
    m->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (m->lock < 0) {
        return err_sys(err, errno, "cannot write into the folder '%s'", m->output);
    }
    if (flock(m->lock, LOCK_EX | LOCK_NB) != 0) {
        return err_set(
            err, ST_DENIED,
            "another assay matrix works in '%s': wait for it, or give a folder of its own "
            "with --trials",
            m->output);
    }
    struct str before;
    struct str now = identity(m);
    const char *path = arena_fmt(a, "%s/plan.yaml", m->output);
    if (fs_read(&live, a, path, 4 * PLAN_MAX, &before, NULL) == ST_OK) {
        if (!str_eq(before, now)) {
            return err_set(err, ST_USAGE,
                           "'%s' holds the trials of another plan (or of another command); give "
                           "another folder with --trials",
                           m->output);
        }
        return ST_OK;
    }
    return run_folder_write(a, m->output, "plan.yaml", now, err);
}

/* What an interruption left: "02" becomes "02.unfinished-1". */
static enum status set_aside(struct matrix *m, const char *folder, struct err *err)
{
    for (int i = 1; i <= ASIDE_MAX && access(folder, F_OK) == 0; i++) {
        const char *to = arena_fmt(m->cli->arena, "%s.unfinished-%d", folder, i);
        if (access(to, F_OK) != 0 && rename(folder, to) != 0) {
            return err_sys(err, errno, "cannot move the unfinished trial '%s' aside", folder);
        }
    }
    return ST_OK;
}

/* ---- trials ---- */

struct showing {
    struct matrix *m;
    const char *what;
    double seconds; /* that the trial takes so far */
};

static const char *duration(struct arena *a, double s)
{
    if (s < 90) {
        return arena_fmt(a, "%.0f s", s);
    }
    return s < 5400 ? arena_fmt(a, "%.0f min", s / 60) : arena_fmt(a, "%.1f h", s / 3600);
}

static void show(void *ctx, double seconds)
{
    struct showing *s = ctx;
    const struct matrix *m = s->m;
    s->seconds = seconds;
    struct arena *scratch = arena_new(0);
    const char *left = "";
    if (m->ran > 0 && m->planned > m->done) {
        double rest = m->spent_s / (double)m->ran * (double)(m->planned - m->done) - seconds;
        left = arena_fmt(scratch, ", %s %s left", m->plan->bisect ? "at most" : "about",
                         duration(scratch, rest > 0 ? rest : 0));
    }
    cli_progress(m->cli, "trial %zu of %zu: %s, %s%s", m->done + 1, m->planned, s->what,
                 duration(scratch, seconds), left);
    arena_free(scratch);
}

static enum status load(struct matrix *m, size_t route, const char *folder, struct err *err)
{
    struct compare_run run;
    const char *class = NULL;
    TRY(compare_run_load(m->cli, m->k, folder, &run, err));
    *VEC_PUSH(m->cli->arena, &m->routes[route]) = run;
    m->done++;
    bool failed = matrix_failed(&run, &class);
    cli_progress(m->cli, NULL);
    /* "failed: exit 3", or a cause and how the run ended */
    const char *more = failed && strcmp(class, run.ending) != 0
                           ? arena_fmt(m->cli->arena, " (%s)", run.ending)
                           : "";
    cli_note(m->cli, "%s, trial %zu: %s%s%s", m->plan->routes.items[route].name,
             m->routes[route].count, failed ? "failed: " : "", failed ? class : run.ending, more);
    return ST_OK;
}

/* Trial number n of a route: run unless it is done. */
static enum status one_trial(struct matrix *m, size_t route, uint64_t n, struct err *err)
{
    struct arena *a = m->cli->arena;
    const struct plan_route *r = &m->plan->routes.items[route];
    const char *folder = matrix_folder(m, route, n);
    if (trial_is_finished(a, folder)) {
        m->resumed++;
        return load(m, route, folder, err);
    }
    TRY(make_folder(arena_fmt(a, "%s/%s", m->output, r->name), err));
    TRY(set_aside(m, folder, err));
    struct showing s = {.m = m, .what = arena_fmt(a, "%s, repeat %" PRIu64, r->name, n + 1)};
    struct trial t = {.route = r,
                      .folder = folder,
                      .time_limit_s = m->plan->time_limit_s,
                      .hang_s = m->plan->hang_s,
                      .facts = n == 0};
    TRY(trial_run(m->cli, &t, show, &s, err));
    if (trial_was_interrupted() || !trial_is_finished(a, folder)) {
        m->stopped = true;
        cli_progress(m->cli, NULL);
        return ST_OK;
    }
    TRY(load(m, route, folder, err));
    m->spent_s += s.seconds;
    m->ran++;
    return ST_OK;
}

static enum status search(struct matrix *m, struct err *err)
{
    struct arena *a = m->cli->arena;
    size_t positions = m->plan->routes.count;
    bisect_begin(a, positions, (uint64_t)m->plan->repeats, &m->search);
    m->planned = 2 * m->search.repeats;
    for (size_t n = positions - 1; n > 1; n = (n + 1) / 2) {
        m->planned += m->search.repeats;
    }
    size_t at;
    while (!m->stopped && (m->found = bisect_next(&m->search, &at)) == BISECT_GOING) {
        const char *class;
        TRY(one_trial(m, at, m->search.positions[at].trials, err));
        if (!m->stopped) {
            const struct compare_route *r = &m->routes[at];
            bisect_take(&m->search, at, matrix_failed(&r->items[r->count - 1], &class));
        }
    }
    return ST_OK;
}

enum status matrix_run(struct matrix *m, struct err *err)
{
    size_t count = m->plan->routes.count;
    m->routes = arena_array(m->cli->arena, count, sizeof *m->routes);
    for (size_t i = 0; i < count; i++) {
        m->routes[i].name = m->plan->routes.items[i].name;
    }
    trial_catch_signals();
    if (m->plan->bisect) {
        return search(m, err);
    }
    m->planned = count * (size_t)m->plan->repeats;
    for (uint64_t n = 0; n < (uint64_t)m->plan->repeats; n++) {
        for (size_t i = 0; i < count && !m->stopped; i++) {
            TRY(one_trial(m, i, n, err));
        }
    }
    return ST_OK;
}
