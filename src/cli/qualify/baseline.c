// SPDX-License-Identifier: Apache-2.0
/*
 * This qualification against earlier ones: which stages came out worse, which findings are new or gone, which
 * figures left their noise. With three or more earlier runs the noise is measured (median and robust deviation);
 * with fewer it is assumed.
 */
#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/qualify/qualify.h"
#include "report/report_read.h"
#include "study/stats.h"

enum {
    RECORD_MAX = 64 << 20,
    BASELINES_MAX = 64,
    RUNS_FOR_NOISE = 3
};

/* Relative. A short timing on a machine that does other things as well varies by a tenth and more. */
static const double assumed_noise = 0.30;
static const double least_noise = 0.05;
static const double deviations = 3;

struct change {
    const char *what, *before, *now, *change;
};

struct comparison {
    struct qualify *q;
    struct report *earlier;
    size_t count;
    VEC_OF(struct change) changes;
    struct finding_list *findings;
};

static void add(struct comparison *c, const char *what, const char *before, const char *now,
                const char *change)
{
    *VEC_PUSH(c->q->cli->arena, &c->changes) = (struct change){what, before, now, change};
}

static void warn(struct comparison *c, const char *id, const char *title, const char *claim)
{
    struct arena *a = c->q->cli->arena;
    struct finding *f = VEC_PUSH(a, c->findings);
    *f = (struct finding){
        .id = id, .severity = SEVERITY_WARNING, .title = title, .claim = claim, .confidence = 0.9};
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "--baseline", .text = claim};
}

/* ---- stages ---- */

static int rank(const char *verdict)
{
    static const struct {
        const char *verdict;
        int rank;
    } rows[] = {{"passed", 0}, {"conditions", 1}, {"failed", 3}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].verdict, verdict) == 0) {
            return rows[i].rank;
        }
    }
    return 2;
}

static const char *verdict_of(const struct report *r, const char *stage)
{
    for (size_t i = 0; i < r->stage_count; i++) {
        if (strcmp(r->stages[i].name, stage) == 0) {
            return r->stages[i].verdict;
        }
    }
    return NULL;
}

/* Against the last of the earlier ones. */
static void compare_stages(struct comparison *c, const struct report *now)
{
    struct arena *a = c->q->cli->arena;
    const struct report *last = &c->earlier[c->count - 1];
    for (size_t i = 0; i < now->stage_count; i++) {
        const struct report_stage *s = &now->stages[i];
        const char *before = verdict_of(last, s->name);
        if (before == NULL || strcmp(before, s->verdict) == 0 ||
            strcmp(s->verdict, "not asked") == 0) {
            continue;
        }
        bool worse = rank(s->verdict) > rank(before);
        const char *what = arena_fmt(a, "stage %s", s->name);
        add(c, what, before, s->verdict, worse ? "worse" : "other");
        if (worse) {
            warn(c, "baseline-stage-worse",
                 arena_fmt(a, "Stage %s was '%s' and is '%s'", s->name, before, s->verdict),
                 s->summary != NULL ? s->summary : "");
        }
    }
}

/* ---- findings ---- */

static bool counts(const struct finding *f)
{
    return f->severity == SEVERITY_ERROR || f->severity == SEVERITY_WARNING ||
           f->severity == SEVERITY_UNKNOWN;
}

static const struct finding *find(const struct report *r, const char *id)
{
    for (size_t l = 0; l < r->list_count; l++) {
        for (size_t i = 0; i < r->lists[l].findings->count; i++) {
            const struct finding *f = &r->lists[l].findings->items[i];
            if (counts(f) && strcmp(f->id, id) == 0) {
                return f;
            }
        }
    }
    return NULL;
}

/* All stages that ran then were asked for now: what is not found any more is gone. */
static bool as_much_was_asked(const struct report *now, const struct report *before)
{
    for (size_t i = 0; i < now->stage_count; i++) {
        const char *then = verdict_of(before, now->stages[i].name);
        if (rank(now->stages[i].verdict) == 2 && then != NULL && rank(then) != 2) {
            return false;
        }
    }
    return true;
}

/* Findings of `of` that are not in `in`. */
static void compare_findings(struct comparison *c, const struct report *of, const struct report *in,
                             bool new)
{
    for (size_t l = 0; l < of->list_count; l++) {
        for (size_t i = 0; i < of->lists[l].findings->count; i++) {
            const struct finding *f = &of->lists[l].findings->items[i];
            if (!counts(f) || find(in, f->id) != NULL) {
                continue;
            }
            const char *severity = severity_name(f->severity);
            add(c, f->id, new ? "-" : severity, new ? severity : "-", new ? "new" : "gone");
        }
    }
}

/* ---- figures ---- */

static double figure_of(const struct report *r, const char *name)
{
    const struct report_table *t = qualify_table(r, "figures");
    for (size_t i = 0; t != NULL && i < t->row_count; i++) {
        struct value v = qualify_cell(t, i, "value");
        if (strcmp(qualify_text(t, i, "figure"), name) == 0) {
            return v.kind == VALUE_REAL ? v.real : v.kind == VALUE_INT ? (double)v.integer : NAN;
        }
    }
    return NAN;
}

static void compare_figure(struct comparison *c, const struct qualify_figure *f)
{
    struct arena *a = c->q->cli->arena;
    double *v = arena_array(a, c->count, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        double x = figure_of(&c->earlier[i], f->name);
        if (x > 0) {
            v[n++] = x;
        }
    }
    if (n == 0) {
        return;
    }
    double median = stats_median(a, v, n);
    double noise = n >= RUNS_FOR_NOISE
                       ? fmax(deviations * stats_robust_sd(a, v, n), least_noise * median)
                       : assumed_noise * median;
    bool slower = !(f->value >= median - noise); /* NaN is slower */
    bool faster = f->value > median + noise;
    const char *before = arena_fmt(a, "%.4g %s (noise %.2g, %s of %zu)", median, f->unit, noise,
                                   n >= RUNS_FOR_NOISE ? "measured, median" : "assumed, median", n);
    add(c, f->name, before, arena_fmt(a, "%.4g %s", f->value, f->unit),
        slower   ? "slower"
        : faster ? "faster"
                 : "within noise");
    if (slower) {
        warn(c, "baseline-slower",
             arena_fmt(a, "%s: %.4g %s, below the earlier %.4g by more than the noise", f->name,
                       f->value, f->unit, median),
             before);
    }
}

/* ---- the whole ---- */

static enum status read_all(struct comparison *c, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = c->q->cli->arena;
    const char *path;
    while ((path = cli_repeat(c->q->cli, "baseline", c->count)) != NULL) {
        struct str text;
        struct report *r = &c->earlier[c->count];
        if (c->count == BASELINES_MAX) {
            return err_set(err, ST_LIMIT, "at most %d files are compared with", BASELINES_MAX);
        }
        TRY(fs_read(&live, a, path, RECORD_MAX, &text, err));
        TRY(report_read(a, text, path, r, err));
        if (strcmp(r->command, "qualify") != 0) {
            return err_set(err, ST_FORMAT,
                           "'%s' is a record of 'assay %s': --baseline takes a qualification.json",
                           path, r->command);
        }
        c->count++;
    }
    return ST_OK;
}

static struct report_table table_of(struct comparison *c)
{
    static const struct report_column columns[] = {
        {"what", "what", 0}, {"before", "before", 0}, {"now", "now", 0}, {"change", "change", 0}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(c->q->cli->arena, c->changes.count * COLUMNS + 1,
                                      sizeof *cells);
    for (size_t i = 0; i < c->changes.count; i++) {
        cells[i * COLUMNS] = value_string(c->changes.items[i].what);
        cells[i * COLUMNS + 1] = value_string(c->changes.items[i].before);
        cells[i * COLUMNS + 2] = value_string(c->changes.items[i].now);
        cells[i * COLUMNS + 3] = value_string(c->changes.items[i].change);
    }
    return (struct report_table){.key = "changes",
                                 .heading = "against the earlier qualification:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = c->changes.count};
}

enum status qualify_baseline(struct qualify *q, const struct report *now,
                             struct finding_list *findings, struct report_table *ret_table,
                             struct err *err)
{
    struct comparison c = {.q = q, .findings = findings};
    c.earlier = arena_array(q->cli->arena, BASELINES_MAX, sizeof *c.earlier);
    TRY(read_all(&c, err));
    if (c.count != 0) {
        compare_findings(&c, now, &c.earlier[c.count - 1], true);
        if (as_much_was_asked(now, &c.earlier[c.count - 1])) {
            compare_findings(&c, &c.earlier[c.count - 1], now, false);
        }
        compare_stages(&c, now);
        for (size_t i = 0; i < q->figures.count; i++) {
            compare_figure(&c, &q->figures.items[i]);
        }
    }
    *ret_table = table_of(&c);
    return ST_OK;
}
