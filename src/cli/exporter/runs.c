// SPDX-License-Identifier: Apache-2.0
/* The runs that the exporter follows: found, read, forgotten. Each has an arena of its own. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"

#include "cli/exporter/exporter.h"

#define DAY_S         86400.0
#define CLOSE_AFTER_S 30.0 /* an ended run is read for so long, then its files are closed */

double exporter_epoch(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_sample(void *ctx, const struct anomaly_sample *sample)
{
    struct exporter_run *r = ctx;
    r->values++;
    anomaly_add(r->set, sample);
}

static void on_fact(void *ctx, const char *name, double value)
{
    struct exporter_run *r = ctx;
    anomaly_fact(r->set, name, value);
}

static void run_free(struct exporter_run *r)
{
    struct arena *own = r->arena;
    anomaly_source_close(r->source);
    arena_free(r->scratch);
    arena_free(own);
}

static bool label_taken(const struct exporter *e, const char *label)
{
    for (size_t i = 0; i < e->run_count; i++) {
        if (strcmp(e->runs[i]->label, label) == 0) {
            return true;
        }
    }
    return false;
}

/* As found in a folder of runs, else the last part of the path; all of it where two runs would have the
 * same name. */
static void name_run(const struct exporter *e, struct exporter_run *r, const char *found_as)
{
    const char *slash = strrchr(r->path, '/');
    const char *last = slash != NULL ? slash + 1 : r->path;
    str_print(r->label, sizeof r->label, "%s", found_as != NULL ? found_as : last);
    if (label_taken(e, r->label)) {
        str_print(r->label, sizeof r->label, "%s", r->path);
    }
}

/* A place for one more run: a free one, else that of the run that ended first. */
static bool make_room(struct exporter *e)
{
    if (e->run_count < EXPORTER_RUNS_MAX) {
        return true;
    }
    size_t oldest = SIZE_MAX;
    for (size_t i = 0; i < e->run_count; i++) {
        bool over = e->runs[i]->ended_at > 0;
        if (over && (oldest == SIZE_MAX || e->runs[i]->ended_at < e->runs[oldest]->ended_at)) {
            oldest = i;
        }
    }
    if (oldest == SIZE_MAX) {
        return false;
    }
    run_free(e->runs[oldest]);
    e->runs[oldest] = e->runs[--e->run_count];
    return true;
}

/* When a run that was over before we came ended: run.json is written last. 0: it goes on. */
static double ended_when(struct exporter_run *r)
{
    struct stat st;
    int code;
    bool over = anomaly_source_run_ended(r->scratch, r->path, &code) &&
                stat(arena_fmt(r->scratch, "%s/run.json", r->path), &st) == 0;
    return over ? (double)st.st_mtime : 0;
}

/* `found_as`: its name below a folder of runs; NULL for a run that was named itself. */
static enum status add_run(struct exporter *e, const char *path, bool folder, const char *found_as,
                           struct err *err)
{
    struct arena *a = arena_new(0);
    struct exporter_run *r = arena_alloc(a, sizeof *r);
    const struct anomaly_sink sink = {.ctx = r, .sample = on_sample, .fact = on_fact};
    r->arena = a;
    r->scratch = arena_new(0);
    r->path = arena_strdup(a, path);
    r->folder = folder;
    r->discovered = found_as != NULL;
    r->last_value = NAN;
    r->set = anomaly_set_new(a, r->scratch, &e->rules);
    enum status got = anomaly_source_open(a, path, NULL, &sink, &r->source, err);
    if (got == ST_OK && anomaly_source_progress(r->source).stream) {
        got = err_set(err, ST_FORMAT, "'%s' is a pipe: the exporter takes files and folders", path);
    }
    if (got == ST_OK && !make_room(e)) {
        got = err_set(err, ST_LIMIT, "there are %d runs that go on: '%s' is left out",
                      EXPORTER_RUNS_MAX, path);
    }
    if (got != ST_OK) {
        run_free(r);
        return got;
    }
    r->progress = anomaly_source_progress(r->source);
    r->ended_at = folder ? ended_when(r) : 0;
    name_run(e, r, found_as);
    e->runs[e->run_count++] = r;
    return ST_OK;
}

enum status exporter_add(struct exporter *e, const char *path, struct err *err)
{
    struct stat st;
    char absolute[PATH_MAX];
    if (strcmp(path, "-") == 0) {
        return err_set(err, ST_USAGE, "the exporter takes files and folders, not standard input");
    }
    if (stat(path, &st) != 0 || realpath(path, absolute) == NULL) {
        return err_sys(err, errno, "cannot find '%s'", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return add_run(e, path, false, NULL, err);
    }
    if (anomaly_source_is_run(e->cli->arena, absolute)) {
        return add_run(e, absolute, true, NULL, err);
    }
    if (e->root_count == EXPORTER_ROOTS_MAX) {
        return err_set(err, ST_USAGE, "at most %d folders of runs are followed",
                       EXPORTER_ROOTS_MAX);
    }
    e->roots[e->root_count++] = arena_strdup(e->cli->arena, absolute);
    return ST_OK;
}

static bool known(const struct exporter *e, const char *path)
{
    for (size_t i = 0; i < e->run_count; i++) {
        if (strcmp(e->runs[i]->path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Runs in which nothing was written for a day are history: a folder of hundreds shows those that
 * matter. */
static bool recent(struct arena *scratch, const char *path)
{
    static const char *const names[] = {"run.json", "stdout.log", "stderr.log"};
    struct stat st;
    double newest = 0;
    if (!anomaly_source_is_run(scratch, path)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (stat(arena_fmt(scratch, "%s/%s", path, names[i]), &st) == 0) {
            newest = fmax(newest, (double)st.st_mtime);
        }
    }
    return exporter_epoch() - newest < DAY_S;
}

static void forget_history(struct exporter *e, struct arena *scratch)
{
    for (size_t i = e->run_count; i-- > 0;) {
        if (e->runs[i]->discovered && !recent(scratch, e->runs[i]->path)) {
            run_free(e->runs[i]);
            e->runs[i] = e->runs[--e->run_count];
        }
    }
}

/* One folder in a root. History does not displace history: it would be read again and again. */
static void discover_run(struct exporter *e, struct arena *scratch, const char *path,
                         const char *found_as)
{
    struct err err = {0};
    int code;
    if (known(e, path) || !recent(scratch, path)) {
        return;
    }
    if (e->run_count == EXPORTER_RUNS_MAX && anomaly_source_run_ended(scratch, path, &code)) {
        e->runs_left_out++;
        return;
    }
    if (add_run(e, path, true, found_as, &err) == ST_LIMIT) {
        e->runs_left_out++;
    }
}

/* The runs in a folder, and in its folders as deep as an experiment keeps them: TRIALS/ROUTE/REPEAT. */
static void discover_in(struct exporter *e, struct arena *scratch, const char *root,
                        const char *folder, int levels)
{
    struct fs live = {.prefix = ""};
    const char *const *names;
    size_t count;
    if (fs_list(&live, scratch, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t k = 0; k < count; k++) {
        const char *path = arena_fmt(scratch, "%s/%s", folder, names[k]);
        if (anomaly_source_is_run(scratch, path)) {
            discover_run(e, scratch, path, path + strlen(root) + 1);
        } else if (levels > 1 && fs_is_dir(&live, scratch, path)) {
            discover_in(e, scratch, root, path, levels - 1);
        }
    }
}

void exporter_discover(struct exporter *e)
{
    struct arena *scratch = arena_new(0);
    e->runs_left_out = 0;
    forget_history(e, scratch);
    for (size_t i = 0; i < e->root_count; i++) {
        discover_in(e, scratch, e->roots[i], e->roots[i], 2);
    }
    arena_free(scratch);
}

static bool poll_run(struct exporter_run *r)
{
    struct err err = {0};
    bool more = false;
    uint64_t before = r->values;
    struct stat st;
    r->unreadable = anomaly_source_poll(r->source, &more, &err) != ST_OK || stat(r->path, &st) != 0;
    r->progress = anomaly_source_progress(r->source);
    if (r->values != before) {
        /* What is read at the start was written before: at the file's last change, at the latest. */
        double now = exporter_epoch();
        r->last_value = r->progress.last_change < now ? r->progress.last_change : now;
    }
    if (r->progress.ended && !more) {
        double now = exporter_epoch();
        r->ended_at = r->ended_at > 0 ? r->ended_at : now;
        if (now - r->ended_at >= CLOSE_AFTER_S) {
            anomaly_source_finish(r->source);
            anomaly_finish(r->set);
            anomaly_source_close(r->source);
            r->source = NULL;
        }
    } else {
        r->ended_at = 0;
    }
    return more;
}

bool exporter_poll(struct exporter *e)
{
    bool any = false;
    for (size_t i = 0; i < e->run_count; i++) {
        if (e->runs[i]->source != NULL) {
            any |= poll_run(e->runs[i]);
        }
    }
    return any;
}

void exporter_close(struct exporter *e)
{
    for (size_t i = 0; i < e->run_count; i++) {
        run_free(e->runs[i]);
    }
    e->run_count = 0;
    gpu_readings_close(&e->gpus);
    http_server_close(e->server);
}
