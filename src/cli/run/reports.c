// SPDX-License-Identifier: Apache-2.0
/* Several runs and records in one report; see run_report.h. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

#include "cli/run/curves.h"
#include "cli/run/report.h"
#include "report/report_read.h"

enum {
    RECORD_MAX = 64 << 20,
    PARTS_MAX = 256
};

struct gathered {
    struct cli *cli;
    struct report *parts;
    size_t part_count;
    struct run_drawn *runs; /* of the parts that are runs */
    const struct report **run_parts;
    size_t run_count;
    size_t recorded; /* of the runs, by 'assay run' */
    const struct report *qualification;
    size_t outcomes[SEVERITY_COUNT];
};

/* The last part of the path, or the whole where two have the same. */
static const char *name_of(struct arena *a, const struct text_list *paths, size_t index)
{
    char full[PATH_MAX];
    const char *path = realpath(paths->items[index], full) != NULL ? full : paths->items[index];
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    for (size_t i = 0; i < paths->count; i++) {
        const char *other = strrchr(paths->items[i], '/');
        other = other != NULL ? other + 1 : paths->items[i];
        if (i != index && strcmp(other, name) == 0) {
            return paths->items[index];
        }
    }
    return arena_strdup(a, name);
}

static enum status add_record(struct gathered *g, const char *path, const char *name,
                              struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = g->cli->arena;
    struct str text;
    char full[PATH_MAX];
    struct report *r = &g->parts[g->part_count];
    if (realpath(path, full) == NULL) {
        return err_set(err, ST_ABSENT, "there is no run folder and no record '%s'", path);
    }
    TRY(fs_read(&live, a, full, RECORD_MAX, &text, err));
    TRY(report_read(a, text, path, r, err));
    g->outcomes[r->outcome]++;
    if (r->stage_count != 0 && g->qualification == NULL) {
        struct report *kept = arena_alloc(a, sizeof *kept);
        *kept = *r;
        g->qualification = kept;
        return ST_OK;
    }
    r->name = name;
    g->part_count++;
    return ST_OK;
}

static void keep_curves(struct gathered *g, struct report *r, const char *name,
                        const struct run_curves *c)
{
    r->name = name;
    r->plot_count = 0; /* drawn together */
    g->outcomes[r->outcome]++;
    g->part_count++;
    g->run_parts[g->run_count] = r;
    g->runs[g->run_count++] = (struct run_drawn){.name = name, .curves = c};
}

/* Metrics alone, as the reference trainer leaves them: curves, and whether they stay finite. They do not
 * tell how the run ended. */
static enum status add_metrics(struct gathered *g, const char *path, const char *name,
                               struct err *err)
{
    struct arena *a = g->cli->arena;
    struct report *r = &g->parts[g->part_count];
    struct run_curves *c = arena_alloc(a, sizeof *c);
    struct finding_list *list = arena_alloc(a, sizeof *list);
    TRY(run_curves_read(a, path, c, NULL, err));
    *r = (struct report){.command = "metrics", .schema_version = 1, .outcome = SEVERITY_UNKNOWN};
    r->verdict = "metrics alone: they do not tell how the run ended";
    const struct run_metric *loss = run_curves_find(c, "loss");
    for (size_t i = 0; loss != NULL && i < loss->count; i++) {
        if (isfinite(loss->y[i])) {
            continue;
        }
        struct finding *f = VEC_PUSH(a, list);
        *f = (struct finding){
            .id = "loss-not-finite",
            .severity = SEVERITY_ERROR,
            .confidence = 1,
            .title = arena_fmt(a, "the loss is not finite, first at step %.0f", loss->x[i]),
            .claim = "A step whose loss is no number teaches nothing, and its gradients "
                     "damage the weights."};
        r->outcome = SEVERITY_ERROR;
        r->verdict = f->title;
        break;
    }
    r->lists[r->list_count++] = (struct report_list){.key = "findings", .findings = list};
    keep_curves(g, r, name, c);
    return ST_OK;
}

static enum status add_run(struct gathered *g, const struct knowledge *k, const char *path,
                           const char *name, const struct text_list *expects, struct err *err)
{
    struct arena *a = g->cli->arena;
    struct report *r = &g->parts[g->part_count];
    int status;
    TRY(run_report_make(g->cli, k, path, expects, r, &status, err));
    g->recorded++;
    struct run_curves *c = arena_alloc(a, sizeof *c);
    *c = (struct run_curves){.first_s = NAN, .last_s = NAN, .last_step = NAN};
    if (run_curves_read(a, path, c, NULL, NULL) != ST_OK) {
        c->count = 0;
    }
    keep_curves(g, r, name, c);
    return ST_OK;
}

/* ---- the table of routes ---- */

static const char *about_of(const struct report *r, const char *name)
{
    for (size_t i = 0; i < r->about_count; i++) {
        if (strcmp(r->about[i].name, name) == 0) {
            return r->about[i].text;
        }
    }
    return NULL;
}

static struct value text_or_null(const char *text)
{
    return text != NULL ? value_string(text) : (struct value){.kind = VALUE_NULL};
}

static struct value last_of(const struct run_metric *m)
{
    return m != NULL && m->count != 0 ? value_real(m->y[m->count - 1])
                                      : (struct value){.kind = VALUE_NULL};
}

static struct report_table routes(struct gathered *g)
{
    static const char *const results[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "nothing wrong",
        [SEVERITY_ERROR] = "fault",
        [SEVERITY_UNKNOWN] = "could not tell",
    };
    static const struct report_column columns[] = {
        {"run", "run", 0},
        {"result", "result", 0},
        {"ended", "ended", 0},
        {"last_step", "last step", 9},
        {"loss", "last loss", 5},
        {"grad_norm", "last gradient norm", 4},
        {"peak_memory", "peak host memory", 0},
    };

    enum {
        COLUMNS = sizeof columns / sizeof *columns
    };

    struct value *cells = arena_array(g->cli->arena, g->run_count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < g->run_count; i++) {
        struct value *row = &cells[i * COLUMNS];
        const struct run_curves *c = g->runs[i].curves;
        row[0] = value_string(g->runs[i].name);
        row[1] = text_or_null(results[g->run_parts[i]->outcome]);
        row[2] = text_or_null(about_of(g->run_parts[i], "ended"));
        if (!isnan(c->last_step)) {
            row[3] = value_int((int64_t)c->last_step);
        }
        row[4] = last_of(run_curves_find(c, "loss"));
        row[5] = last_of(run_curves_find(c, "grad_norm"));
        row[6] = text_or_null(about_of(g->run_parts[i], "peak memory of the host"));
    }
    return (struct report_table){.key = "runs",
                                 .heading = "runs beside each other:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = g->run_count};
}

/* "2 runs: nothing wrong in 1, a fault in 1 (hipblaslt)". */
static const char *verdict_of(struct gathered *g, size_t count)
{
    struct arena *a = g->cli->arena;

    static const struct {
        enum severity outcome;
        const char *text;
    } rows[] = {{SEVERITY_ERROR, "a fault in"},
                {SEVERITY_UNKNOWN, "could not tell for"},
                {SEVERITY_OK, "nothing wrong in"}};
    struct strbuf out;
    strbuf_init(&out, a, 1000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (g->outcomes[rows[i].outcome] != 0) {
            strbuf_fmt(&out, "%s%s %zu of %zu", out.n != 0 ? ", " : "", rows[i].text,
                       g->outcomes[rows[i].outcome], count);
        }
    }
    strbuf_addz(&out, g->run_count == count ? " runs" : " runs and records");
    if (g->qualification != NULL && g->qualification->verdict != NULL) {
        strbuf_fmt(&out, "; the qualification: %s", g->qualification->verdict);
    }
    return out.p;
}

bool run_report_is_metrics(struct arena *a, const char *folder)
{
    static const struct fs live = {.prefix = ""};
    char full[PATH_MAX];
    return realpath(folder, full) != NULL &&
           !fs_exists(&live, a, arena_fmt(a, "%s/run.json", full)) &&
           fs_exists(&live, a, arena_fmt(a, "%s/metrics.jsonl", full));
}

enum status run_report_many(struct cli *cli, const struct knowledge *k,
                            const struct text_list *paths, const struct text_list *expects,
                            struct report *ret_report, int *ret_status, struct err *err)
{
    struct arena *a = cli->arena;
    struct gathered g = {.cli = cli};
    if (paths->count > PARTS_MAX) {
        return err_set(err, ST_LIMIT, "a report holds at most %d runs and records, not %zu",
                       PARTS_MAX, paths->count);
    }
    g.parts = arena_array(a, paths->count + 1, sizeof *g.parts);
    g.runs = arena_array(a, paths->count + 1, sizeof *g.runs);
    g.run_parts = arena_array(a, paths->count + 1, sizeof *g.run_parts);
    for (size_t i = 0; i < paths->count; i++) {
        const char *path = paths->items[i];
        const char *name = name_of(a, paths, i);
        char full[PATH_MAX];
        struct fs live = {.prefix = ""};
        bool folder = realpath(path, full) != NULL && fs_is_dir(&live, a, full);
        if (!folder) {
            TRY(add_record(&g, path, name, err));
        } else if (run_report_is_metrics(a, full)) {
            TRY(add_metrics(&g, arena_strdup(a, full), name, err));
        } else {
            TRY(add_run(&g, k, full, name, expects, err));
        }
    }
    if (g.recorded == 0 && expects->count != 0) {
        return err_set(err, ST_USAGE,
                       "--expect asks what a run called, and no run folder was given");
    }
    struct report r = {.command = "report", .schema_version = 1};
    if (g.qualification != NULL) {
        r = *g.qualification;
    }
    r.verdict = verdict_of(&g, paths->count);
    r.outcome = g.outcomes[SEVERITY_ERROR] != 0     ? SEVERITY_ERROR
                : g.outcomes[SEVERITY_UNKNOWN] != 0 ? SEVERITY_UNKNOWN
                                                    : SEVERITY_OK;
    run_curves_plot(a, g.runs, g.run_count, &r);
    if (g.run_count > 1 && r.table_count < ARRAY_LEN(r.tables)) {
        r.tables[r.table_count++] = routes(&g);
    }
    r.parts = g.parts;
    r.part_count = g.part_count;
    if (g.qualification != NULL && paths->count == 1) {
        r.verdict = g.qualification->verdict;
    } else if (g.qualification == NULL && paths->count == 1) { /* a record alone is the report */
        struct report together = r;
        r = g.parts[0];
        r.name = NULL;
        memcpy(r.plots, together.plots, sizeof r.plots);
        r.plot_count = together.plot_count;
    }
    *ret_status = r.outcome == SEVERITY_ERROR     ? EXIT_FAULT
                  : r.outcome == SEVERITY_UNKNOWN ? EXIT_UNKNOWN
                                                  : EXIT_FINE;
    *ret_report = r;
    return ST_OK;
}
