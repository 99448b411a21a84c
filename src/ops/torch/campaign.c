// SPDX-License-Identifier: Apache-2.0
/* Loops over the plan; the problem of a case is solved once for all ways and placements of it. */
#include "ops/torch/campaign.h"

#include <string.h>
#include <time.h>

#include "base/vec.h"

#include "ops/torch/localise.h"

/* Ends of the worker (fault, crash, hang) after which the rest of a row is left out. */
#define ENDS_MAX 2

static const struct placement {
    enum torch_layout layout;
    enum torch_side side;
} placements[] = {
    {TORCH_DENSE, TORCH_SIDE_END},
    {TORCH_DENSE, TORCH_SIDE_BEGIN},
    {TORCH_TOKEN_MAJOR, TORCH_SIDE_END}, /* what models do comes before what they might do */
    {TORCH_LAST_TOKEN_MAJOR, TORCH_SIDE_END},
    {TORCH_PADDED, TORCH_SIDE_END},
    {TORCH_TRANSPOSED, TORCH_SIDE_END},
};

struct campaign {
    struct torch_agent *agent;
    struct arena *arena;   /* of the result */
    struct arena *scratch; /* of one case */
    const struct torch_campaign_options *o;
    struct torch_campaign_result *result;
    size_t done, total;
};

static struct torch_row *row_of(struct campaign *g, const struct op *op, const char *way,
                                enum dtype dtype, enum torch_row_layout layout)
{
    struct torch_rows *rows = &g->result->rows;
    for (size_t i = rows->count; i-- > 0;) {
        struct torch_row *r = &rows->items[i];
        if (r->layout == layout && r->dtype == dtype && strcmp(r->op, op->name) == 0 &&
            strcmp(r->way, way) == 0) {
            return r;
        }
    }
    struct torch_row *r = VEC_PUSH(g->arena, rows);
    *r = (struct torch_row){.op = op->name,
                            .way = arena_strdup(g->arena, way),
                            .dtype = dtype,
                            .layout = layout,
                            .no_backward = op->backward == NULL};
    r->forward.verdict = r->backward.verdict = TORCH_NOT_RUN;
    return r;
}

/* Copies texts of a probe's result, which live on scratch, to the campaign's arena. */
static const char *keep(struct campaign *g, const char *text)
{
    return text != NULL ? arena_strdup(g->arena, text) : NULL;
}

static bool ends_worker(enum torch_verdict v)
{
    return v == TORCH_FAULTED || v == TORCH_CRASHED || v == TORCH_TIMEOUT || v == TORCH_MISALIGNED;
}

/* Which of two verdicts a cell shows: what is there in one case and not in another is there. */
static int rank(enum torch_verdict v)
{
    return v == TORCH_NOT_RUN ? 0 : v == TORCH_MISSING ? 1 : v == TORCH_OK ? 2 : 3 + (int)v;
}

static void note_step(struct campaign *g, struct torch_cell *cell, const struct torch_step *step,
                      const struct torch_result *r, const struct torch_probe *probe,
                      const char *case_text)
{
    if (step->verdict == TORCH_NOT_RUN) {
        return;
    }
    cell->probes++;
    cell->missing += step->verdict == TORCH_MISSING;
    cell->bad += step->verdict > TORCH_MISSING;
    if (step->verdict == TORCH_OK) {
        cell->passes = keep(g, case_text);
    }
    if (step->worst.tensor != NULL &&
        (cell->worst.tensor == NULL || !(step->worst.ratio <= cell->worst.ratio))) {
        cell->worst = step->worst;
        cell->worst.tensor = keep(g, step->worst.tensor);
        cell->worst.index = keep(g, step->worst.index);
    }
    if (rank(step->verdict) > rank(cell->verdict)) {
        cell->verdict = step->verdict;
        cell->case_text = keep(g, case_text);
        cell->probe = *probe;
        cell->probe.way = keep(g, probe->way);
        cell->message = keep(g, r->message);
        cell->fault = r->fault;
        cell->fault.operand = keep(g, r->fault.operand);
        cell->fault.library = keep(g, r->fault.library);
    }
}

static size_t ends_of(const struct torch_row *row)
{
    size_t n = 0;
    n += ends_worker(row->forward.verdict) ? row->forward.bad : 0;
    n += ends_worker(row->backward.verdict) ? row->backward.bad : 0;
    return n;
}

/* Names operand and pad of the first fault of a row. */
static enum status explain_fault(struct campaign *g, const struct op_problem *p,
                                 struct torch_cell *cell, struct err *err)
{
    struct torch_place_of_fault found = {0};
    TRY(torch_localise(g->agent, g->scratch, p, &cell->probe, &cell->fault, &found, err));
    if (cell->fault.operand == NULL) {
        cell->fault.operand = keep(g, found.operand);
    }
    cell->clean_pad = found.clean_pad;
    if (found.elsewhere) {
        cell->message = keep(g, "it stays when no operand is guarded, so it is in memory that "
                                "torch allocated itself");
    }
    return ST_OK;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool must_stop(struct campaign *g)
{
    g->result->stopped = g->result->stopped || (g->o->stop != NULL && g->o->stop(g->o->context));
    return g->result->stopped;
}

static enum status run_probe(struct campaign *g, const struct op_problem *p, struct torch_row *row,
                             const struct torch_probe *probe, bool *ret_accurate, struct err *err)
{
    struct arena_mark mark = arena_mark(g->scratch);
    struct torch_result r = {0};
    double since = now_s();
    enum status st = torch_trial_run(g->agent, g->scratch, p, probe, &r, err);
    row->seconds += now_s() - since;
    if (st == ST_LIMIT) {
        g->result->skipped++;
        arena_rewind(g->scratch, mark);
        return ST_OK;
    }
    TRY(st);
    const char *text = op_case_text(g->scratch, &p->c);
    bool first_end = ends_of(row) == 0;
    *ret_accurate = r.forward.verdict != TORCH_INACCURATE && r.backward.verdict != TORCH_INACCURATE;
    if (r.forward.verdict != TORCH_NOT_RUN || r.backward.verdict != TORCH_NOT_RUN) {
        g->result->probes++;
    }
    note_step(g, &row->forward, &r.forward, &r, probe, text);
    note_step(g, &row->backward, &r.backward, &r, probe, text);
    struct torch_cell *cell = r.backward.verdict == TORCH_FAULTED ? &row->backward : &row->forward;
    if (first_end && cell->verdict == TORCH_FAULTED) {
        st = explain_fault(g, p, cell, err);
    }
    arena_rewind(g->scratch, mark);
    return st;
}

/* Whether a layout is another one than dense for this problem. */
static bool has_layout(const struct op_problem *p, enum torch_layout layout)
{
    size_t four = 0;
    for (size_t i = 0; i < p->c.op->input_count; i++) {
        four += p->input[i].spec != NULL && p->input[i].rank == 4 && p->input[i].dim[1] > 1 &&
                p->input[i].dim[2] > 1;
    }
    return layout == TORCH_LAST_TOKEN_MAJOR ? four > 1 : layout != TORCH_TOKEN_MAJOR || four > 0;
}

/* All placements of one case for one way. */
static enum status run_way(struct campaign *g, const struct op_problem *p, const char *way,
                           bool *ret_accurate, struct err *err)
{
    *ret_accurate = true;
    for (size_t i = 0; i < ARRAY_LEN(placements) && !must_stop(g); i++) {
        bool dense = placements[i].layout == TORCH_DENSE;
        if (!has_layout(p, placements[i].layout)) {
            continue;
        }
        struct torch_row *row = row_of(g, p->c.op, way, p->c.dtype,
                                       dense ? TORCH_ROW_DENSE : TORCH_ROW_STRIDED);
        if (ends_of(row) >= ENDS_MAX) {
            g->result->skipped++;
            continue;
        }
        struct torch_probe probe = {.way = way,
                                    .layout = placements[i].layout,
                                    .side = placements[i].side,
                                    .only = "",
                                    .backward = p->c.op->backward != NULL,
                                    .deadline_ms = g->o->deadline_ms};
        bool accurate = true;
        TRY(run_probe(g, p, row, &probe, &accurate, err));
        *ret_accurate = *ret_accurate && accurate;
        if (row->forward.missing == row->forward.probes && row->forward.missing > 0 && i == 0) {
            break; /* not there in any layout */
        }
    }
    return ST_OK;
}

static enum status make_problem(struct campaign *g, const struct op_case *c,
                                struct op_problem *ret_problem, struct err *err)
{
    TRY(op_problem_make(g->scratch, c, ret_problem, err));
    op_problem_fill(ret_problem);
    op_problem_solve(ret_problem, c->op->backward != NULL);
    return ST_OK;
}

static void take_rows(struct campaign *g, const struct op_case *c, const char *way,
                      struct torch_row ret_rows[2])
{
    for (int k = 0; k < 2; k++) {
        ret_rows[k] = *row_of(g, c->op, way, c->dtype, (enum torch_row_layout)k);
    }
}

static void put_rows(struct campaign *g, const struct op_case *c, const char *way,
                     const struct torch_row rows[2])
{
    for (int k = 0; k < 2; k++) {
        *row_of(g, c->op, way, c->dtype, (enum torch_row_layout)k) = rows[k];
    }
}

static size_t bad_of(const struct torch_row rows[2])
{
    return rows[0].forward.bad + rows[0].backward.bad + rows[1].forward.bad + rows[1].backward.bad;
}

/* Says on the rows which choice was taken; `before`: the rows without this case. */
static void note_choice(struct campaign *g, struct torch_row rows[2],
                        const struct torch_row before[2], const char *text)
{
    for (int k = 0; k < 2; k++) {
        const struct torch_cell *now = &rows[k].forward, *then = &before[k].forward;
        bool judged = now->worst.tensor != NULL &&
                      now->probes - now->missing > then->probes - then->missing;
        rows[k].note = judged ? keep(g, text) : rows[k].note;
    }
}

/* A case in which implementations may differ: the choice that fits is the one that is noted, and
 * where none fits the one with the fewest bad probes. */
static enum status run_either(struct campaign *g, const struct op_case *c, const char *param,
                              const char *way, struct err *err)
{
    const struct op_param *choices = NULL;
    for (size_t i = 0; i < c->op->param_count; i++) {
        choices = strcmp(c->op->params[i].name, param) == 0 ? &c->op->params[i] : choices;
    }
    if (choices == NULL || choices->choices == NULL) {
        return err_set(err, ST_USAGE, "'%s' has no choice '%s'", c->op->name, param);
    }
    struct torch_row before[2], rows[2], best[2] = {0};
    take_rows(g, c, way, before);
    size_t probes = g->result->probes;
    bool accurate = false;
    for (size_t i = 0; choices->choices[i] != NULL && !accurate && !must_stop(g); i++) {
        struct op_case one = *c;
        struct op_problem p;
        struct arena_mark mark = arena_mark(g->scratch);
        TRY(op_case_set(&one, str_of(param), str_of(choices->choices[i]), err));
        TRY(make_problem(g, &one, &p, err));
        put_rows(g, c, way, before); /* verdicts of a choice that did not fit do not count */
        g->result->probes = probes;
        TRY(run_way(g, &p, way, &accurate, err));
        arena_rewind(g->scratch, mark);
        take_rows(g, c, way, rows);
        if (accurate || i == 0 || bad_of(rows) < bad_of(best)) {
            note_choice(g, rows, before,
                        arena_fmt(g->scratch, "%s: %s%s", param, accurate ? "" : "nearest to ",
                                  choices->choices[i]));
            memcpy(best, rows, sizeof best);
        }
    }
    put_rows(g, c, way, best);
    return ST_OK;
}

static enum status run_case(struct campaign *g, const struct torch_plan_row *plan, enum dtype dtype,
                            struct err *err)
{
    struct op_case c;
    TRY(torch_plan_case(g->scratch, plan, dtype, g->o->seed, &c, err));
    if (op_case_check(&c, err) != ST_OK) {
        return err_context(err, "plan row '%s %s'", plan->op, plan->params);
    }
    const struct tree *ways = tree_get(torch_agent_hello(g->agent)->variants, plan->op);
    if (ways == NULL || ways->child == NULL) {
        return ST_OK;
    }
    struct op_problem p;
    if (plan->either == NULL) {
        TRY(make_problem(g, &c, &p, err));
    }
    for (const struct tree *w = ways->child; w != NULL; w = w->next) {
        const char *way = w->text != NULL ? w->text : "?";
        bool accurate;
        if (plan->either != NULL) {
            TRY(run_either(g, &c, plan->either, way, err));
        } else {
            TRY(run_way(g, &p, way, &accurate, err));
        }
    }
    return ST_OK;
}

static bool wanted(const struct torch_campaign_options *o, const char *op)
{
    for (size_t i = 0; i < o->op_count; i++) {
        if (strcmp(o->ops[i], op) == 0) {
            return true;
        }
    }
    return o->op_count == 0;
}

static enum status run_row(struct campaign *g, const struct torch_plan_row *plan, struct err *err)
{
    for (size_t d = 0; d < g->o->dtype_count && !must_stop(g); d++) {
        g->done++;
        if (g->o->progress != NULL) {
            g->o->progress(
                g->o->context, g->done, g->total,
                arena_fmt(g->scratch, "%s %s", plan->op, dtype_info(g->o->dtypes[d])->name));
        }
        struct arena_mark mark = arena_mark(g->scratch);
        TRY(run_case(g, plan, g->o->dtypes[d], err));
        g->result->cases_done += !g->result->stopped;
        arena_rewind(g->scratch, mark);
    }
    return ST_OK;
}

/* Adds one step of the strided row to that of the dense one, which has the same verdict. */
static void add_cell(struct torch_cell *to, const struct torch_cell *from)
{
    to->probes += from->probes;
    to->bad += from->bad;
    to->missing += from->missing;
    if (from->worst.tensor != NULL &&
        (to->worst.tensor == NULL || !(from->worst.ratio <= to->worst.ratio))) {
        to->worst = from->worst;
    }
}

/* Makes one row of two that came out alike, or of one whose twin was never tried. */
static void merge_rows(struct torch_rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        struct torch_row r = rows->items[i];
        struct torch_row *twin = NULL;
        for (size_t k = 0; k < kept && r.layout == TORCH_ROW_STRIDED; k++) {
            struct torch_row *d = &rows->items[k];
            bool same = d->layout == TORCH_ROW_DENSE && d->dtype == r.dtype &&
                        strcmp(d->op, r.op) == 0 && strcmp(d->way, r.way) == 0;
            twin = same ? d : twin;
        }
        bool empty = r.forward.probes == 0 && r.backward.probes == 0;
        if (twin != NULL && (empty || (twin->forward.verdict == r.forward.verdict &&
                                       twin->backward.verdict == r.backward.verdict))) {
            add_cell(&twin->forward, &r.forward);
            add_cell(&twin->backward, &r.backward);
            twin->seconds += r.seconds;
            twin->layout = TORCH_ROW_ALL;
        } else if (!empty) {
            rows->items[kept++] = r;
        }
    }
    rows->count = kept;
}

enum status torch_campaign_run(struct torch_agent *agent, struct arena *a,
                               const struct torch_campaign_options *options,
                               struct torch_campaign_result *ret_result, struct err *err)
{
    *ret_result = (struct torch_campaign_result){0};
    struct campaign g = {
        .agent = agent, .arena = a, .scratch = arena_new(0), .o = options, .result = ret_result};
    enum status st = ST_OK;
    for (int counting = 1; counting >= 0; counting--) {
        for (size_t i = 0; op_table[i] != NULL && st == ST_OK; i++) {
            const struct torch_plan_row fallback = {.op = op_table[i]->name, .params = ""};
            const struct torch_plan_row *r = torch_plan_has(fallback.op) ? torch_plan : &fallback;
            for (; r->op != NULL && st == ST_OK && wanted(options, fallback.op); r++) {
                bool ours = strcmp(r->op, fallback.op) == 0 && !(options->quick && r->slow);
                g.total += ours && counting ? options->dtype_count : 0;
                st = ours && !counting ? run_row(&g, r, err) : ST_OK;
                if (r == &fallback) {
                    break;
                }
            }
        }
    }
    ret_result->cases = g.total;
    arena_free(g.scratch);
    merge_rows(&ret_result->rows);
    return st;
}
