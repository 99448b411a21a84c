// SPDX-License-Identifier: Apache-2.0
/* What the trials of a plan say: failures counted, contrasts tested, the place of a search. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "cli/matrix/losses.h"
#include "cli/matrix/matrix.h"
#include "cli/session.h"
#include "study/contrast.h"
#include "study/stats.h"

enum {
    CLASSES_MAX = 8,
    NAMES_BYTES_MAX = 4000
};

struct telling {
    struct matrix *m;
    struct arena *arena;
    const struct matrix_losses *losses; /* one a route */
    enum contrast_outcome *outcomes;    /* the same; CONTRAST_UNTOLD where it is void */
    struct finding_list findings;
};

struct count {
    uint64_t trials, failed;
    uint64_t broken, untold, met; /* trials whose expectation was */
    const char *classes;          /* "hipblaslt-kernel x3, SIGSEGV"; NULL */
    const char *first_class;
    const struct compare_run *first; /* that failed; NULL */
};

static struct finding *add(struct telling *t, const char *id, enum severity severity,
                           const char *title, const char *claim)
{
    struct finding *f = VEC_PUSH(t->arena, &t->findings);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    return f;
}

static void evidence(struct telling *t, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(t->arena, &f->evidence) = (struct evidence){.source = source, .text = text};
}

/* ---- counting ---- */

static struct count count_of(struct arena *a, const struct compare_route *r)
{
    struct count c = {.trials = r->count};
    const char *names[CLASSES_MAX];
    unsigned counts[CLASSES_MAX] = {0};
    size_t known = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct compare_run *run = &r->items[i];
        const char *class;
        c.broken += run->expect_broken > 0;
        c.untold += run->expect_broken == 0 && run->expect_untold > 0;
        c.met += run->expect_broken == 0 && run->expect_untold == 0 && run->expect_met > 0;
        if (!matrix_failed(run, &class)) {
            continue;
        }
        c.failed++;
        if (c.first == NULL) {
            c.first = run;
            c.first_class = class;
        }
        size_t at = 0;
        while (at < known && strcmp(names[at], class) != 0) {
            at++;
        }
        if (at < CLASSES_MAX) {
            names[at] = class;
            counts[at]++;
            known = at == known ? known + 1 : known;
        }
    }
    struct strbuf out;
    strbuf_init(&out, a, 2000);
    for (size_t i = 0; i < known; i++) {
        strbuf_fmt(&out, "%s%s", i > 0 ? ", " : "", names[i]);
        if (counts[i] > 1) {
            strbuf_fmt(&out, " x%u", counts[i]);
        }
    }
    c.classes = known > 0 ? out.p : NULL;
    return c;
}

/* ---- contrasts ---- */

static const char *proof_text(const struct count *c)
{
    if (c->broken > 0) {
        return "not in effect";
    }
    if (c->untold > 0) {
        return "not told";
    }
    return c->met > 0 ? "proven" : NULL;
}

static const char *change_of(struct arena *a, const struct plan_route *r)
{
    if (r->about != NULL) {
        return r->about;
    }
    return r->factor != NULL ? arena_fmt(a, "%s = %s", r->factor, r->level) : r->name;
}

static void passes(struct telling *t, const struct plan_route *r, const struct count *c,
                   const char *counts)
{
    const char *change = change_of(t->arena, r);
    const char *meaning =
        r->passes != NULL
            ? r->passes
            : arena_fmt(t->arena, "What the route changes takes part in the fault: %s.", change);
    struct finding *f = add(
        t, "contrast-passes", SEVERITY_NOTE,
        arena_fmt(t->arena, "%s fails less often than the base: %s", r->name, counts),
        c->failed > 0
            ? arena_fmt(t->arena, "%s It still fails: something else brings it too.", meaning)
            : arena_fmt(t->arena,
                        "%s Not observed is not fixed: these trials prove the bound below and "
                        "no more.",
                        meaning));
    evidence(t, f, r->name, contrast_rate_text(t->arena, c->failed, c->trials));
}

static void fails_too(struct telling *t, const struct plan_route *r, const char *counts)
{
    const char *change = change_of(t->arena, r);
    add(t, "contrast-fails-too", SEVERITY_NOTE,
        arena_fmt(t->arena, "%s fails too: %s", r->name, counts),
        r->fails != NULL
            ? r->fails
            : arena_fmt(t->arena,
                        "The fault needs nothing of what the route leaves: %s is ruled "
                        "out as the only cause.",
                        change));
}

/* Neither failed: what is left to tell is whether they computed the same. */
static void idle(struct telling *t, size_t i, const struct count *c)
{
    const struct matrix_losses *l = &t->losses[i];
    const char *name = t->m->plan->routes.items[i].name;
    if (l->grade == LOSS_DIFFERENT || l->grade == LOSS_OPEN) {
        return; /* matrix_losses_judge() tells of it */
    }
    struct finding *f = add(
        t, "contrast-idle", SEVERITY_OK,
        arena_fmt(t->arena, "%s: %s", name, contrast_rate_text(t->arena, c->failed, c->trials)),
        l->grade == LOSS_SAME
            ? "The base did not fail either, and the losses agree within the limits of assay compare: a "
              "fault of what the route changes is ruled out down to this bound and to what losses "
              "show. assay probe --torch sees more."
            : "The base did not fail either: there is no fault to hold this against.");
    if (l->grade == LOSS_SAME && l->why != NULL) {
        evidence(t, f, name, l->why);
    } else if (l->cell != NULL && l->grade == LOSS_NOT_JUDGED) {
        evidence(t, f, name, arena_fmt(t->arena, "the losses are not compared: %s", l->cell));
    }
}

static void judge_contrast(struct telling *t, size_t i, const struct count *base)
{
    struct matrix *m = t->m;
    struct arena *a = t->arena;
    const struct plan_route *r = &m->plan->routes.items[i];
    struct count c = count_of(a, &m->routes[i]);
    struct contrast k;
    contrast_of(base->failed, base->trials, c.failed, c.trials, &k);
    const char *counts = arena_fmt(
        a, "%" PRIu64 " of %" PRIu64 " against %" PRIu64 " of %" PRIu64 " (p = %.2g)", c.failed,
        c.trials, base->failed, base->trials, k.p);
    if (c.broken + c.untold + base->broken + base->untold > 0) {
        if (c.broken + c.untold == 0) {
            return; /* the base's own finding says why */
        }
        add(t, "contrast-void", SEVERITY_UNKNOWN,
            arena_fmt(a,
                      "%s: the change is not proven to be in effect (%" PRIu64 " of %" PRIu64
                      " trials)",
                      r->name, c.broken + c.untold, c.trials),
            "An expectation of the route does not hold, or no call was recorded that could tell. "
            "Nothing can be concluded from this contrast.");
        return;
    }
    t->outcomes[i] = k.outcome;
    switch (k.outcome) {
    case CONTRAST_PASSES: passes(t, r, &c, counts); break;
    case CONTRAST_FAILS_TOO: fails_too(t, r, counts); break;
    case CONTRAST_WORSE:
        add(t, "contrast-worse", SEVERITY_ERROR,
            arena_fmt(a, "%s fails more often than the base: %s", r->name, counts),
            arena_fmt(a, "The change brings a fault: %s.", change_of(a, r)));
        break;
    case CONTRAST_BASE_FINE: idle(t, i, &c); break;
    default:
        add(t, "contrast-untold", c.failed > 0 ? SEVERITY_WARNING : SEVERITY_UNKNOWN,
            arena_fmt(a, "%s: may be chance: %s", r->name, counts),
            k.more > c.trials
                ? arena_fmt(a,
                            "%" PRIu64 " clean trials of the route would tell; there are %" PRIu64
                            ". More repeats of both need fewer.",
                            k.more, c.trials)
                : "More repeats are needed.");
    }
}

static void judge_base(struct telling *t, const struct count *base)
{
    struct arena *a = t->arena;
    const char *name = t->m->plan->routes.items[t->m->plan->base].name;
    const char *rate = contrast_rate_text(a, base->failed, base->trials);
    if (base->broken + base->untold > 0) {
        add(t, "base-void", SEVERITY_UNKNOWN,
            arena_fmt(a,
                      "%s is not proven to be what the plan expects (%" PRIu64 " of %" PRIu64
                      " trials)",
                      name, base->broken + base->untold, base->trials),
            "Where the base does not take the path that the routes leave, a contrast says nothing "
            "of that path.");
    }
    if (base->trials == 0) {
        add(t, "base-untold", SEVERITY_UNKNOWN, "the base has no finished trial",
            "Nothing can be told without it.");
    } else if (base->failed == 0) {
        add(t, "base-passes", SEVERITY_OK, arena_fmt(a, "%s: %s", name, rate),
            "Not observed is not fixed: a fault that is rarer than this bound stays unseen.");
    } else {
        struct finding *f = add(t, "base-fails", SEVERITY_ERROR,
                                arena_fmt(a, "%s fails: %s (%s)", name, rate, base->classes),
                                "The fault that the contrasts are held against.");
        const struct compare_run *first = base->first;
        evidence(t, f, first->path,
                 first->fault_title != NULL ? first->fault_title : base->first_class);
        for (size_t i = 0; i < first->fault_evidence.count; i++) {
            *VEC_PUSH(a, &f->evidence) = first->fault_evidence.items[i];
        }
    }
}

/* ---- tables ---- */

static struct value real(double v)
{
    return isfinite(v) ? value_real(v) : (struct value){0};
}

static struct value text(const char *s)
{
    return s != NULL ? value_string(s) : (struct value){0};
}

static const struct report_column route_columns[] = {
    {"route", "route", 0},
    {"factor", NULL, 0},
    {"level", NULL, 0},
    {"trials", "trials", 0},
    {"failed", "failed", 0},
    {"failure_rate", NULL, 0},
    {"low", "95 % from", 3},
    {"high", "to", 3},
    {"faults", "faults", 0},
    {"change_in_effect", "change", 0},
    {"seconds", "seconds", 4},
    {"seconds_per_step", "s/step", 4},
    {"p", "p", 2},
    {"losses", "losses", 0},
};

static double median_of(struct arena *a, const struct compare_route *r, bool steps)
{
    double *v = arena_array(a, r->count + 1, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        const char *class;
        double one = steps ? r->items[i].time.seconds : r->items[i].seconds;
        if (!matrix_failed(&r->items[i], &class) && one > 0) {
            v[n++] = one;
        }
    }
    return stats_median(a, v, n);
}

static void route_row(struct telling *t, size_t i, const struct count *base, struct value *row)
{
    struct matrix *m = t->m;
    const struct plan_route *r = &m->plan->routes.items[i];
    struct count c = count_of(t->arena, &m->routes[i]);
    double low = NAN;
    double high = NAN;
    if (c.trials > 0) {
        stats_wilson(c.failed, c.trials, 0.95, &low, &high);
        high = c.failed == 0 ? stats_zero_bound(c.trials, 0.95) : high;
    }
    bool contrast = i != m->plan->base && !m->plan->bisect && c.trials > 0 && base->trials > 0;
    row[0] = text(r->name);
    row[1] = text(r->factor);
    row[2] = text(r->level);
    row[3] = value_int((int64_t)c.trials);
    row[4] = value_int((int64_t)c.failed);
    row[5] = real(c.trials > 0 ? (double)c.failed / (double)c.trials : NAN);
    row[6] = real(low);
    row[7] = real(high);
    row[8] = text(c.classes);
    row[9] = text(proof_text(&c));
    row[10] = real(median_of(t->arena, &m->routes[i], false));
    row[11] = real(median_of(t->arena, &m->routes[i], true));
    row[12] = real(contrast ? stats_fisher(base->failed, base->trials - base->failed, c.failed,
                                           c.trials - c.failed)
                            : NAN);
    row[13] = text(t->losses[i].cell);
}

static struct report_table routes_table(struct telling *t, const struct count *base)
{
    size_t count = t->m->plan->routes.count;
    struct report_table table = {.key = "routes",
                                 .heading = t->m->plan->bisect ? "positions:" : "routes:",
                                 .columns = route_columns,
                                 .column_count = ARRAY_LEN(route_columns)};
    struct value *cells = arena_array(t->arena, count * table.column_count, sizeof *cells);
    for (size_t i = 0; i < count; i++) {
        route_row(t, i, base, &cells[table.row_count++ * table.column_count]);
    }
    table.cells = cells;
    return table;
}

/* ---- a search ---- */

static const char *judge_search(struct telling *t)
{
    struct matrix *m = t->m;
    struct arena *a = t->arena;
    const struct bisect *b = &m->search;
    const struct plan_route *r = m->plan->routes.items;
    if (m->found == BISECT_GOING) {
        add(t, "search-unfinished", SEVERITY_UNKNOWN, "the search is not finished",
            "The same command goes on where it stopped.");
        return "could not tell: the search is not finished";
    }
    if (m->found == BISECT_ENDS_ALIKE) {
        bool fail = bisect_fails(b, 0);
        const char *title =
            fail ? arena_fmt(a, "both ends fail: %s and %s", r[0].level, r[b->count - 1].level)
                 : arena_fmt(a, "neither end fails: %s", contrast_rate_text(a, 0, 2 * b->repeats));
        add(t, "ends-alike", fail ? SEVERITY_ERROR : SEVERITY_UNKNOWN, title,
            fail ? "The fault begins outside the list: it has no clean end to search from."
                 : "There is no fault to place, or it is rarer than this bound: more repeats.");
        return arena_fmt(a, "%s: %s", fail ? "fails everywhere" : "could not tell", title);
    }
    bool begins = bisect_fails(b, b->high);
    const struct compare_route *bad = &m->routes[begins ? b->high : b->low];
    const char *class = "";
    for (size_t i = 0; i < bad->count && !matrix_failed(&bad->items[i], &class); i++) {
    }
    const struct bisect_position *clean = &b->positions[begins ? b->low : b->high];
    const char *title = begins
                            ? arena_fmt(a,
                                        "the fault begins with %s; %s is the last without it (%s)",
                                        r[b->high].level, r[b->low].level, class)
                            : arena_fmt(a, "the fault ends with %s; %s is the last with it (%s)",
                                        r[b->high].level, r[b->low].level, class);
    struct finding *f = add(
        t, "fault-placed", SEVERITY_ERROR, title,
        arena_fmt(a,
                  "A failure is certain, a clean position is not: the chance that one failing "
                  "position passed all its trials is at most about %.2g.",
                  bisect_risk(b)));
    evidence(t, f, r[begins ? b->low : b->high].name,
             contrast_rate_text(a, clean->failed, clean->trials));
    evidence(t, f, r[begins ? b->high : b->low].name,
             contrast_rate_text(a, b->positions[begins ? b->high : b->low].failed,
                                b->positions[begins ? b->high : b->low].trials));
    return title;
}

/* ---- the whole ---- */

/* Names of the routes with this outcome, "openblas, generic"; NULL where there are none. */
static const char *names_with(const struct telling *t, enum contrast_outcome outcome)
{
    struct strbuf out;
    strbuf_init(&out, t->arena, NAMES_BYTES_MAX);
    for (size_t i = 0; i < t->m->plan->routes.count; i++) {
        if (t->outcomes[i] == outcome) {
            strbuf_fmt(&out, "%s%s", out.n > 0 ? ", " : "", t->m->plan->routes.items[i].name);
        }
    }
    return out.n > 0 ? out.p : NULL;
}

static const char *verdict_of_failures(struct telling *t, uint64_t failed, uint64_t trials)
{
    const char *left = names_with(t, CONTRAST_PASSES);
    const char *stays = names_with(t, CONTRAST_FAILS_TOO);
    const char *worse = names_with(t, CONTRAST_WORSE);
    struct strbuf out;
    strbuf_init(&out, t->arena, 4 * NAMES_BYTES_MAX);
    strbuf_fmt(&out, "%" PRIu64 " of %" PRIu64 " trials failed", failed, trials);
    strbuf_fmt(&out, "%s%s", left != NULL ? "; the fault leaves with " : "",
               left != NULL ? left : "");
    strbuf_fmt(&out, "%s%s", stays != NULL ? "; it stays with " : "", stays != NULL ? stays : "");
    strbuf_fmt(&out, "%s%s", worse != NULL ? "; it comes with " : "", worse != NULL ? worse : "");
    if (left == NULL && stays == NULL && worse == NULL) {
        strbuf_addz(&out, "; no contrast tells where the fault is");
    }
    return out.p;
}

static const char *judge_routes(struct telling *t, const struct count *base)
{
    struct matrix *m = t->m;
    struct arena *a = t->arena;
    uint64_t trials = 0;
    uint64_t failed = 0;
    judge_base(t, base);
    for (size_t i = 0; i < m->plan->routes.count; i++) {
        struct count c = count_of(a, &m->routes[i]);
        trials += c.trials;
        failed += c.failed;
        if (i != m->plan->base && c.trials > 0 && base->trials > 0) {
            judge_contrast(t, i, base);
        }
    }
    matrix_losses_judge(m, t->losses, &t->findings);
    if (trials == 0) {
        return "could not tell: no trial is finished";
    }
    const char *first = failed > 0 ? verdict_of_failures(t, failed, trials)
                                   : arena_fmt(a, "no failure observed: %s",
                                               contrast_rate_text(a, 0, trials));
    const char *differ = matrix_losses_names(m, t->losses, LOSS_DIFFERENT);
    const char *open = matrix_losses_names(m, t->losses, LOSS_OPEN);
    if (differ != NULL) {
        return arena_fmt(a, "%s; trains otherwise than the base: %s", first, differ);
    }
    return open != NULL ? arena_fmt(a, "%s; losses not settled: %s", first, open) : first;
}

void matrix_report(struct matrix *m, struct report *ret_report, int *ret_status)
{
    struct telling t = {.m = m, .arena = m->cli->arena, .losses = matrix_losses_make(m)};
    t.outcomes = arena_array(t.arena, m->plan->routes.count, sizeof *t.outcomes);
    struct count base = count_of(t.arena, &m->routes[m->plan->base]);
    struct report r = {.command = "matrix", .schema_version = 1};
    r.verdict = m->plan->bisect ? judge_search(&t) : judge_routes(&t, &base);
    *ret_status = session_exit(&t.findings);
    if (m->stopped) {
        r.verdict = arena_fmt(t.arena, "interrupted after %zu of %zu trials: %s", m->done,
                              m->planned, r.verdict);
        *VEC_PUSH(t.arena, &r.notes) = "the same command goes on where it stopped";
        *ret_status = *ret_status == EXIT_FAULT ? EXIT_FAULT : EXIT_UNKNOWN;
    }
    if (m->resumed > 0) {
        *VEC_PUSH(t.arena, &r.notes) = arena_fmt(
            t.arena, "%zu trials were finished before and not run again", m->resumed);
    }
    *VEC_PUSH(t.arena, &r.notes) = arena_fmt(t.arena, "run folders: %s", m->output);
    struct finding_list *kept = arena_alloc(t.arena, sizeof *kept);
    *kept = t.findings;
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = kept};
    r.tables[r.table_count++] = routes_table(&t, &base);
    r.numbers[r.number_count++] = (struct report_number){"trials", (int64_t)m->done};
    r.numbers[r.number_count++] = (struct report_number){"resumed", (int64_t)m->resumed};
    *ret_report = r;
}
