// SPDX-License-Identifier: Apache-2.0
/* See compare_tables.h. */
#include "cli/compare/tables.h"

#include <inttypes.h>
#include <math.h>

#define MIB 1048576.0

static struct value real(double v)
{
    return isfinite(v) ? value_real(v) : (struct value){0};
}

static struct value text(const char *s)
{
    return s != NULL ? value_string(s) : (struct value){0};
}

static struct value step(int64_t s)
{
    return s >= 0 ? value_int(s) : (struct value){0};
}

static size_t runs_of(const struct compare_route *routes, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += routes[i].count;
    }
    return n;
}

/* ---- runs ---- */

static const struct report_column time_columns[] = {
    {"route", "route", 0},
    {"run", "run", 0},
    {"ending", "ended", 0},
    {"seconds", "seconds", 5},
    {"steps", "steps", 0},
    {"seconds_per_step", "s/step", 4},
    {"seconds_per_step_p95", "p95", 4},
    {"start_seconds", "start", 3},
    {"warmup_seconds", "warm-up", 3},
    {"evaluation_seconds", "evaluation", 3},
    {"saving_seconds", "saving", 3},
    {"pause_seconds", "pauses", 3},
    {"checkpoints_saved", "saves", 0},
    {"step_time_source", NULL, 0},
};

static void time_row(struct arena *a, const struct compare_route *route,
                     const struct compare_run *r, struct value *row)
{
    (void)a;
    const struct step_time *t = &r->time;
    bool split = t->steady_count > 0;
    row[0] = text(route->name);
    row[1] = text(r->path);
    row[2] = text(r->ending);
    row[3] = real(r->seconds);
    row[4] = step(r->log.last_step);
    row[5] = real(t->seconds);
    row[6] = real(t->p95);
    row[7] = real(t->start_s);
    row[8] = split ? real(t->warmup_s) : (struct value){0};
    row[9] = split && t->evals > 0 ? real(t->eval_s) : (struct value){0};
    row[10] = split && t->saves > 0 ? real(t->save_s) : (struct value){0};
    row[11] = split ? real(t->pause_s) : (struct value){0};
    row[12] = value_int((int64_t)r->log.saves);
    row[13] = text(step_time_source_name(t->source));
}

static const struct report_column number_columns[] = {
    {"route", "route", 0},
    {"run", NULL, 0},
    {"first_loss", "first loss", 6},
    {"last_loss", "last loss", 6},
    {"train_loss", "mean loss", 6},
    {"evaluation_losses", "evaluation losses", 0},
    {"last_grad_norm", "grad norm", 4},
    {"not_finite", "NaN/inf", 0},
    {"peak_memory_mib", "memory MiB", 5},
    {"gpu_memory_mib", "GPU MiB", 5},
    {"fault", "fault", 0},
    {"libraries", "libraries that ran", 0},
};

static const char *eval_text(struct arena *a, const struct curve *c)
{
    struct strbuf out;
    strbuf_init(&out, a, 2000);
    for (size_t i = 0; i < c->count; i++) {
        strbuf_fmt(&out, "%s%.5g", i > 0 ? " " : "", c->items[i].value);
    }
    return c->count > 0 ? out.p : NULL;
}

static void number_row(struct arena *a, const struct compare_route *route,
                       const struct compare_run *r, struct value *row)
{
    const struct curve *l = &r->log.loss;
    const struct curve *g = &r->log.grad_norm;
    row[0] = text(route->name);
    row[1] = text(r->path);
    row[2] = real(l->count > 0 ? l->items[0].value : NAN);
    row[3] = real(l->count > 0 ? l->items[l->count - 1].value : NAN);
    row[4] = real(r->log.train_loss);
    row[5] = text(eval_text(a, &r->log.eval_loss));
    row[6] = real(g->count > 0 ? g->items[g->count - 1].value : NAN);
    row[7] = value_int((int64_t)r->log.not_finite);
    row[8] = real(r->peak_bytes / MIB);
    row[9] = real(r->log.gpu_memory_bytes / MIB);
    row[10] = text(r->fault);
    row[11] = text(r->libraries);
}

typedef void row_maker(struct arena *a, const struct compare_route *route,
                       const struct compare_run *r, struct value *row);

/* A row for every run of every route. */
static struct report_table per_run(struct arena *a, const struct compare_route *routes,
                                   size_t count, struct report_table t, row_maker *make)
{
    struct value *cells = arena_array(a, runs_of(routes, count) * t.column_count, sizeof *cells);
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < routes[i].count; r++) {
            make(a, &routes[i], &routes[i].items[r], &cells[t.row_count++ * t.column_count]);
        }
    }
    t.cells = cells;
    return t;
}

struct report_table compare_times_table(struct arena *a, const struct compare_route *routes,
                                        size_t count)
{
    return per_run(a, routes, count,
                   (struct report_table){.key = "runs",
                                         .heading = "runs:",
                                         .columns = time_columns,
                                         .column_count = ARRAY_LEN(time_columns)},
                   time_row);
}

struct report_table compare_numbers_table(struct arena *a, const struct compare_route *routes,
                                          size_t count)
{
    return per_run(a, routes, count,
                   (struct report_table){.key = "numbers",
                                         .heading = "numbers:",
                                         .columns = number_columns,
                                         .column_count = ARRAY_LEN(number_columns)},
                   number_row);
}

/* ---- pairs ---- */

static const struct report_column ratio_columns[] = {
    {"routes", "routes", 0},    {"figure", "ratio of", 0}, {"ratio", "ratio", 4},
    {"low", "95 % from", 4},    {"high", "to", 4},         {"method", "interval", 0},
    {"runs_or_steps", NULL, 0},
};

static const char *const figure_names[PAIR_RATIO_COUNT] = {
    [PAIR_STEP] = "seconds per step",
    [PAIR_RUNTIME] = "seconds of the run",
    [PAIR_START] = "seconds until the first step",
    [PAIR_MEMORY] = "memory of the largest process",
    [PAIR_GPU_MEMORY] = "GPU memory",
};

static const char *method_text(struct arena *a, const struct ratio *r)
{
    switch (r->method) {
    case RATIO_RUNS: return arena_fmt(a, "bootstrap over %zu and %zu runs", r->count_a, r->count_b);
    case RATIO_STEPS:
        return arena_fmt(a, "bootstrap over %zu and %zu steps, blocks of %zu", r->count_a,
                         r->count_b, r->block);
    default: return "none: repeat the runs";
    }
}

struct report_table compare_ratios_table(struct arena *a, const struct compare_pair *pairs,
                                         size_t count)
{
    struct report_table t = {.key = "ratios",
                             .heading = "ratios:",
                             .columns = ratio_columns,
                             .column_count = ARRAY_LEN(ratio_columns)};
    struct value *cells = arena_array(a, (count * PAIR_RATIO_COUNT + 1) * t.column_count,
                                      sizeof *cells);
    for (size_t i = 0; i < count; i++) {
        for (int what = 0; what < PAIR_RATIO_COUNT && !pairs[i].refused; what++) {
            const struct ratio *r = &pairs[i].ratios[what];
            if (!isfinite(r->value)) {
                continue;
            }
            struct value *row = &cells[t.row_count++ * t.column_count];
            row[0] = text(arena_fmt(a, "%s / %s", pairs[i].b->name, pairs[i].a->name));
            row[1] = text(figure_names[what]);
            row[2] = real(r->value);
            row[3] = real(r->low);
            row[4] = real(r->high);
            row[5] = text(method_text(a, r));
            row[6] = value_int((int64_t)(r->count_a + r->count_b));
        }
    }
    t.cells = cells;
    return t;
}

static const struct report_column level_columns[] = {
    {"routes", "routes", 0}, {"level", "level", 0},  {"what", "what", 0},
    {"a", "A", 6},           {"b", "other", 6},      {"difference", "difference", 3},
    {"limit", "limit", 3},   {"grade", "judged", 0}, {"measure", "measure", 0},
};

enum {
    LEVEL_ROWS = 7
};

struct levels {
    struct arena *arena;
    struct report_table *t;
    struct value *cells;
    const char *routes;
};

static const char *grade_name(enum loss_grade g)
{
    static const char *const names[] = {[LOSS_NOT_JUDGED] = "not judged",
                                        [LOSS_SAME] = "same",
                                        [LOSS_OPEN] = "could not tell",
                                        [LOSS_DIFFERENT] = "different"};
    return names[g];
}

static void level_row(struct levels *l, const char *level, const char *what, double va, double vb,
                      double difference, double limit, const char *grade, const char *measure)
{
    struct value *row = &l->cells[l->t->row_count++ * l->t->column_count];
    row[0] = text(l->routes);
    row[1] = text(level);
    row[2] = text(what);
    row[3] = real(va);
    row[4] = real(vb);
    row[5] = real(difference);
    row[6] = real(limit);
    row[7] = text(grade);
    row[8] = text(measure);
}

static const char *null_measure(struct arena *a, const struct compare_pair *p)
{
    const struct loss_judgement *j = &p->loss;
    if (!j->by_null) {
        return "fixed limit: fewer than 3 runs of A";
    }
    return isfinite(j->multiple)
               ? arena_fmt(a, "spread of %zu runs of A, %.1f sigma", p->a->count, j->multiple)
               : arena_fmt(a, "spread of %zu runs of A", p->a->count);
}

static void pair_rows(struct levels *l, const struct compare_pair *p)
{
    struct arena *a = l->arena;
    const struct loss_judgement *j = &p->loss;
    bool like = p->like_losses;
    const char *unlike = "not judged: unlike training";
    level_row(l, "A", "operators on equal inputs", NAN, NAN, NAN, NAN, "not in a log",
              "assay probe --torch");
    if (j->common == 0) {
        return;
    }
    level_row(l, "B", arena_fmt(a, "loss at step %" PRId64, j->first_step), j->first_a, j->first_b,
              j->first_relative, LOSS_FIRST_PASS, like ? grade_name(j->first_grade) : unlike,
              "relative, fails at 5e-3");
    if (isfinite(j->grad_relative)) {
        level_row(l, "B", "gradient norm", j->grad_a, j->grad_b, j->grad_relative, LOSS_GRAD_PASS,
                  like ? grade_name(j->grad_grade) : unlike, "relative, fails at 5e-2");
    }
    if (j->window_count > 0) {
        const struct loss_window *w = &j->windows[j->worst];
        level_row(l, "C", arena_fmt(a, "mean, steps %" PRId64 "-%" PRId64, w->from, w->to),
                  w->mean_a, w->mean_b, w->mean_b - w->mean_a, w->limit,
                  like ? grade_name(j->level_c) : unlike, null_measure(a, p));
    }
    if (isfinite(j->drift)) {
        level_row(l, "C", "signed drift", NAN, NAN, j->drift, j->drift_limit,
                  like ? grade_name(j->drift_grade) : unlike, "mean of relative differences");
    }
    if (j->eval_common > 0) {
        level_row(l, "C", arena_fmt(a, "evaluation, step %" PRId64, j->eval_step), NAN, NAN,
                  j->eval_worst, LOSS_EVAL_PASS, like ? grade_name(j->eval_grade) : unlike,
                  arena_fmt(a, "worst of %zu, relative", j->eval_common));
    }
    const char *parting =
        j->first_difference < 0
            ? arena_fmt(a, "equal as printed at all %zu common steps", j->common)
        : j->parted < 0 ? arena_fmt(a, "first differ at step %" PRId64 ", never by more than %.1e",
                                    j->first_difference, j->before_parting)
                        : arena_fmt(a, "first differ at step %" PRId64 ", part at step %" PRId64,
                                    j->first_difference, j->parted);
    level_row(l, "", parting, NAN, NAN, NAN, NAN, "-",
              j->parted < 0 ? "" : "no single steps compared after it");
}

struct report_table compare_levels_table(struct arena *a, const struct compare_pair *pairs,
                                         size_t count)
{
    struct report_table t = {.key = "levels",
                             .heading = "losses:",
                             .columns = level_columns,
                             .column_count = ARRAY_LEN(level_columns)};
    struct levels l = {.arena = a, .t = &t};
    l.cells = arena_array(a, (count * LEVEL_ROWS + 1) * t.column_count, sizeof *l.cells);
    for (size_t i = 0; i < count; i++) {
        l.routes = arena_fmt(a, "%s - %s", pairs[i].b->name, pairs[i].a->name);
        if (!pairs[i].refused) {
            pair_rows(&l, &pairs[i]);
        }
    }
    t.cells = l.cells;
    return t;
}
