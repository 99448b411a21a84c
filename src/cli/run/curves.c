// SPDX-License-Identifier: Apache-2.0
/* See run_curves.h. */
#include "cli/run/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/json_cursor.h"
#include "base/vec.h"

enum {
    METRICS_MAX_BYTES = 256 << 20,
    METRICS_KINDS = 48,
    PROCESSES_SHOWN = 24,
    RANKS_MAX = 1024,
    RANK_VALUES_LEAST = 8 /* step times of a rank before it is compared */
};

/* ---- reading ---- */

const struct run_metric *run_curves_find(const struct run_curves *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->items[i].name, name) == 0) {
            return &c->items[i];
        }
    }
    return NULL;
}

static struct run_metric *metric_of(struct arena *a, struct run_curves *c, struct str name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (str_is(name, c->items[i].name)) {
            return &c->items[i];
        }
    }
    if (c->count == METRICS_KINDS) {
        return NULL;
    }
    struct run_metric *m = VEC_PUSH(a, c);
    *m = (struct run_metric){.name = str_dup(a, name)};
    return m;
}

static void add_point(struct arena *a, struct run_metric *m, double x, double y, double t)
{
    if (m->count != 0 && !(x > m->x[m->count - 1])) {
        return;
    }
    if (m->count == m->capacity) {
        size_t more = m->capacity == 0 ? 256 : m->capacity * 2;
        size_t have = m->capacity * sizeof(double);
        m->x = arena_grow(a, m->x, have, more * sizeof(double));
        m->y = arena_grow(a, m->y, have, more * sizeof(double));
        m->t = arena_grow(a, m->t, have, more * sizeof(double));
        m->capacity = more;
    }
    m->x[m->count] = x;
    m->y[m->count] = y;
    m->t[m->count++] = t;
}

struct field {
    struct str name;
    double value;
};

/* A number, or what stands for one that JSON cannot write: null, or a text "nan", "inf", "-inf". */
static bool read_number(struct json_cursor *j, double *ret_value)
{
    char first = json_cursor_peek(j);
    struct json_text text;
    if (first == 'n') {
        *ret_value = NAN;
        return json_cursor_skip(j, &text.raw);
    }
    if (first == '-' || (first >= '0' && first <= '9')) {
        return json_cursor_real(j, ret_value);
    }
    if (first != '"') {
        (void)json_cursor_skip(j, &text.raw);
        return false;
    }
    return json_cursor_string(j, &text) && !text.escaped &&
           str_to_double(text.raw, ret_value) == ST_OK;
}

static size_t read_line(struct str line, struct field *fields, size_t room)
{
    struct json_cursor j;
    struct json_text key;
    size_t n = 0;
    json_cursor_init(&j, line);
    if (!json_cursor_enter(&j, '{')) {
        return 0;
    }
    while (json_cursor_key(&j, &key)) {
        double value;
        if (read_number(&j, &value) && n < room && !key.escaped) {
            fields[n++] = (struct field){.name = key.raw, .value = value};
        }
    }
    return j.error == NULL ? n : 0;
}

static bool take_field(const struct field *fields, size_t n, const char *name, double *ret_value)
{
    for (size_t i = 0; i < n; i++) {
        if (str_is(fields[i].name, name) && isfinite(fields[i].value)) {
            *ret_value = fields[i].value;
            return true;
        }
    }
    return false;
}

/* The reference trainer writes the length of each step, 'assay run' the time of each line. */
static bool time_of(const struct run_curves *c, const struct field *fields, size_t n, double *ret_t)
{
    double took;
    if (take_field(fields, n, "t", ret_t)) {
        return true;
    }
    if (!take_field(fields, n, "seconds", &took) && !take_field(fields, n, "eval_seconds", &took)) {
        return false;
    }
    *ret_t = (isnan(c->last_s) ? 0 : c->last_s) + took;
    return true;
}

/* Names of the reference trainer. */
static struct str canonical(struct str name)
{
    static const char *const rows[][2] = {
        {"learning_rate", "lr"}, {"tokens_per_second", "tokens_per_s"}, {"seconds", "step_time"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_is(name, rows[i][0])) {
            return str_of(rows[i][1]);
        }
    }
    return name;
}

static void add_line(struct arena *a, struct run_curves *c, const struct field *fields, size_t n)
{
    double t;
    double step;
    if (!time_of(c, fields, n, &t)) {
        return;
    }
    c->first_s = isnan(c->first_s) ? t : c->first_s;
    c->last_s = t;
    if (take_field(fields, n, "step", &step)) {
        c->by_step = true;
        c->last_step = isnan(c->last_step) || step > c->last_step ? step : c->last_step;
    } else {
        step = c->last_step;
    }
    for (size_t i = 0; i < n; i++) {
        struct str name = fields[i].name;
        if (str_is(name, "t") || str_is(name, "step") || str_is(name, "stream") ||
            str_is(name, "rank") || str_is(name, "local_rank")) {
            continue;
        }
        struct run_metric *m = metric_of(a, c, canonical(name));
        if (m != NULL) {
            add_point(a, m, isnan(step) ? (double)m->count + 1 : step, fields[i].value, t);
        }
    }
}

/* A rank's own, made at its first line; NULL when there are too many. */
static struct run_curves *curves_of(struct arena *a, struct run_ranks *ranks, double rank)
{
    for (size_t i = 0; i < ranks->count; i++) {
        if (ranks->items[i].rank == (int)rank) {
            return &ranks->items[i].curves;
        }
    }
    if (ranks->count == RANKS_MAX) {
        return NULL;
    }
    struct run_rank *r = VEC_PUSH(a, ranks);
    *r = (struct run_rank){.rank = (int)rank,
                           .curves = {.first_s = NAN, .last_s = NAN, .last_step = NAN}};
    return &r->curves;
}

static int by_rank(const void *px, const void *py)
{
    const struct run_rank *x = px;
    const struct run_rank *y = py;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Lines without a rank are those of the lowest: it is the one that prints what is printed once. */
static void read_text(struct arena *a, struct str text, struct run_ranks *ranks)
{
    struct field fields[64];
    struct str line;
    double lowest = INFINITY;
    struct str again = text;
    while (str_cut_line(&again, &line)) {
        size_t n = read_line(line, fields, ARRAY_LEN(fields));
        double rank;
        if (take_field(fields, n, "rank", &rank) && rank >= 0 && rank < lowest) {
            lowest = rank;
        }
    }
    while (str_cut_line(&text, &line)) {
        size_t n = read_line(line, fields, ARRAY_LEN(fields));
        double rank = isinf(lowest) ? -1 : lowest;
        take_field(fields, n, "rank", &rank);
        struct run_curves *c = rank <= INT32_MAX ? curves_of(a, ranks, rank) : NULL;
        if (c != NULL) {
            add_line(a, c, fields, n);
        }
    }
    if (ranks->count > 1) {
        qsort(ranks->items, ranks->count, sizeof *ranks->items, by_rank);
    }
}

enum status run_curves_read(struct arena *a, const char *folder, struct run_curves *ret_curves,
                            struct run_ranks *ret_ranks, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct run_ranks ranks = {0};
    struct arena *scratch = arena_new(0);
    struct str text;
    enum status status = fs_read(&live, scratch, arena_fmt(a, "%s/metrics.jsonl", folder),
                                 METRICS_MAX_BYTES, &text, err);
    if (status == ST_OK) {
        read_text(a, text, &ranks);
        *ret_curves = ranks.count > 0
                          ? ranks.items[0].curves
                          : (struct run_curves){.first_s = NAN, .last_s = NAN, .last_step = NAN};
        if (ret_ranks != NULL) {
            *ret_ranks = ranks.count > 1 ? ranks : (struct run_ranks){0};
        }
    }
    arena_free(scratch);
    return status;
}

/* ---- plots ---- */

struct plot_row {
    const char *metric;
    const char *title;
    const char *unit;
    bool logarithmic;
    double scale; /* of the values; 0 is 1 */
};

static const struct plot_row plot_rows[] = {
    {"loss", "Loss", "", false, 0},
    {"eval_loss", "Loss on held-out data", "", false, 0},
    {"step_time", "Step time", "s", false, 0},
    {"tokens_per_s", "Throughput", "tokens/s", false, 0},
    {"grad_norm", "Gradient norm", "", true, 0},
    {"lr", "Learning rate", "", false, 0},
    {"memory_bytes", "Memory", "GiB", false, 0x1p-30},
};

enum {
    STEP_TIME_ROW = 2
};

/* Lines are stamped in milliseconds: faster jobs would show steps of that clock. */
#define DERIVED_STEP_MIN_S 0.005

/* Time between two lines of the loss over the steps between them, where the job prints no step time. */
static bool derive_step_time(struct arena *a, const struct run_curves *c, struct report_curve *to)
{
    const struct run_metric *m = run_curves_find(c, "loss");
    if (m == NULL || m->count < 3 || !c->by_step ||
        !(m->t[m->count - 1] - m->t[0] >= DERIVED_STEP_MIN_S * (double)m->count)) {
        return false;
    }
    double *y = arena_array(a, m->count, sizeof *y);
    for (size_t i = 1; i < m->count; i++) {
        y[i - 1] = (m->t[i] - m->t[i - 1]) / (m->x[i] - m->x[i - 1]);
    }
    to->x = m->x + 1;
    to->y = y;
    to->count = m->count - 1;
    return true;
}

static bool curve_of(struct arena *a, const struct run_curves *c, const struct plot_row *row,
                     struct report_curve *ret_curve)
{
    const struct run_metric *m = run_curves_find(c, row->metric);
    if (m != NULL && m->count > 0) {
        ret_curve->x = m->x;
        ret_curve->y = m->y;
        ret_curve->count = m->count;
        if (row->scale > 0) {
            double *y = arena_array(a, m->count, sizeof *y);
            for (size_t i = 0; i < m->count; i++) {
                y[i] = m->y[i] * row->scale;
            }
            ret_curve->y = y;
        }
        return true;
    }
    return strcmp(row->metric, "step_time") == 0 && derive_step_time(a, c, ret_curve);
}

void run_curves_plot(struct arena *a, const struct run_drawn *runs, size_t count,
                     struct report *report)
{
    for (size_t row = 0; row < ARRAY_LEN(plot_rows); row++) {
        struct report_plot p = {.key = plot_rows[row].metric,
                                .title = plot_rows[row].title,
                                .x_label = "line",
                                .y_label = plot_rows[row].unit,
                                .logarithmic = plot_rows[row].logarithmic};
        p.curves = arena_array(a, PLOT_CURVES_MAX, sizeof *p.curves);
        for (size_t i = 0; i < count && p.curve_count < PLOT_CURVES_MAX; i++) {
            struct report_curve *c = &p.curves[p.curve_count];
            if (curve_of(a, runs[i].curves, &plot_rows[row], c)) {
                c->name = count > 1 ? runs[i].name : p.key;
                p.x_label = runs[i].curves->by_step ? "step" : p.x_label;
                p.curve_count++;
            }
        }
        if (p.curve_count > 0 && report->plot_count < ARRAY_LEN(report->plots)) {
            report->plots[report->plot_count++] = p;
        }
    }
    if (count > PLOT_CURVES_MAX) {
        *VEC_PUSH(a, &report->notes) = arena_fmt(
            a, "the curves show at most %d of the %zu runs; the others are in the tables and below",
            PLOT_CURVES_MAX, count);
    }
}

/* ---- ranks ---- */

/* As the straggler rule of 'assay watch' has it. */
#define SLOW_RATIO 1.15

static int by_value(const void *px, const void *py)
{
    double x = *(const double *)px;
    double y = *(const double *)py;
    return (x > y) - (x < y);
}

/* The lower of the two middle ones: of two ranks the slower is compared with the faster. NaN without values. */
static double median(struct arena *a, const double *values, size_t count)
{
    double *sorted = arena_array(a, count + 1, sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            sorted[n++] = values[i];
        }
    }
    if (n == 0) {
        return NAN;
    }
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[(n - 1) / 2];
}

struct report_table run_curves_ranks(struct arena *a, const struct run_ranks *ranks,
                                     const char **ret_slow)
{
    static const struct report_column columns[] = {{"rank", "rank", 0},
                                                   {"values", "values of the loss", 0},
                                                   {"last_step", "last step", 0},
                                                   {"step_time", "median step s", 4},
                                                   {"last_loss", "last loss", 6}};
    struct value *cells = arena_array(a, ranks->count * ARRAY_LEN(columns) + 1, sizeof *cells);
    double *times = arena_array(a, ranks->count + 1, sizeof *times);
    size_t slowest = 0;
    *ret_slow = NULL;
    for (size_t i = 0; i < ranks->count; i++) {
        const struct run_rank *r = &ranks->items[i];
        const struct run_metric *loss = run_curves_find(&r->curves, "loss");
        struct report_curve steps = {0};
        struct value *row = &cells[i * ARRAY_LEN(columns)];
        bool timed = curve_of(a, &r->curves, &plot_rows[STEP_TIME_ROW], &steps);
        times[i] = timed && steps.count >= RANK_VALUES_LEAST ? median(a, steps.y, steps.count)
                                                             : NAN;
        slowest = times[i] > times[slowest] || isnan(times[slowest]) ? i : slowest;
        row[0] = value_int(r->rank);
        row[1] = value_int(loss != NULL ? (int64_t)loss->count : 0);
        if (!isnan(r->curves.last_step)) {
            row[2] = value_int((int64_t)r->curves.last_step);
        }
        if (!isnan(times[i])) {
            row[3] = value_real(times[i]);
        }
        if (loss != NULL && loss->count > 0) {
            row[4] = value_real(loss->y[loss->count - 1]);
        }
    }
    double middle = median(a, times, ranks->count);
    if (ranks->count > 1 && times[slowest] > SLOW_RATIO * middle) {
        *ret_slow = arena_fmt(a, "rank %d takes %.4g s a step, the median of the ranks is %.4g s",
                              ranks->items[slowest].rank, times[slowest], middle);
    }
    return (struct report_table){.key = "ranks",
                                 .heading = "ranks by their own lines:",
                                 .columns = columns,
                                 .column_count = ARRAY_LEN(columns),
                                 .cells = cells,
                                 .row_count = ranks->count};
}

/* ---- time ---- */

struct span_list {
    struct report_span *items;
    size_t count;
    size_t capacity;
};

static double number_of(const struct tree *run, const char *key)
{
    double v;
    return str_to_double(str_of(tree_text(run, key, "")), &v) == ST_OK && isfinite(v) ? v : NAN;
}

static void add_span(struct arena *a, struct span_list *spans, const char *name, const char *what,
                     double from_s, double to_s, enum severity severity)
{
    if (from_s >= 0 && to_s >= from_s) {
        *VEC_PUSH(a, spans) = (struct report_span){
            .name = name, .what = what, .from_s = from_s, .to_s = to_s, .severity = severity};
    }
}

static void add_phases(struct arena *a, const struct run_curves *c, double seconds,
                       struct span_list *spans)
{
    if (isnan(c->first_s)) {
        return;
    }
    add_span(a, spans, "start", "to the first line of metrics", 0, c->first_s, SEVERITY_OK);
    const char *what = "first to last line of metrics";
    if (!isnan(c->last_step)) {
        what = arena_fmt(a, "first to last line of metrics, last step %.0f", c->last_step);
    }
    add_span(a, spans, "training", what, c->first_s, c->last_s, SEVERITY_OK);
    const struct run_metric *eval = run_curves_find(c, "eval_loss");
    for (size_t i = 0; eval != NULL && i < eval->count && i < PROCESSES_SHOWN; i++) {
        add_span(a, spans, "held-out loss", arena_fmt(a, "step %.0f: %.4g", eval->x[i], eval->y[i]),
                 eval->t[i], eval->t[i], SEVERITY_NOTE);
    }
    const struct run_metric *loss = run_curves_find(c, "loss");
    for (size_t i = 0; loss != NULL && i < loss->count; i++) {
        if (!isfinite(loss->y[i])) {
            add_span(a, spans, "loss not finite", arena_fmt(a, "first at step %.0f", loss->x[i]),
                     loss->t[i], loss->t[i], SEVERITY_ERROR);
            break;
        }
    }
    add_span(a, spans, "end", "after the last line of metrics", c->last_s, seconds, SEVERITY_OK);
}

static void add_processes(struct arena *a, const struct run_story *story, double start_s,
                          double seconds, struct span_list *spans)
{
    for (size_t i = 0; i < story->processes.count && i < PROCESSES_SHOWN; i++) {
        const struct run_process *p = &story->processes.items[i];
        double from = (double)p->start_ns * 1e-9 - start_s;
        double to = p->end_ns != 0 ? (double)p->end_ns * 1e-9 - start_s : seconds;
        const char *rank = p->rank >= 0 ? arena_fmt(a, "rank %d, ", p->rank) : "";
        const char *what = arena_fmt(a, "%s%s%s", rank, p->program,
                                     p->fatal ? ": fatal signal" : "");
        add_span(a, spans, arena_fmt(a, "process %d", p->pid), what, from > 0 ? from : 0, to,
                 p->fatal ? SEVERITY_ERROR : SEVERITY_OK);
    }
}

void run_curves_spans(struct arena *a, const struct tree *run, const struct run_curves *curves,
                      const struct run_story *story, struct report *report)
{
    struct span_list spans = {0};
    double seconds = number_of(run, "seconds");
    double start = number_of(run, "start_monotonic_s");
    if (isnan(seconds)) { /* the supervisor was killed: as far as metrics go */
        seconds = curves->last_s;
    }
    add_phases(a, curves, seconds, &spans);
    if (!isnan(start)) {
        add_processes(a, story, start, seconds, &spans);
    }
    report->spans = spans.items;
    report->span_count = spans.count;
}
