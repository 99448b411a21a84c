// SPDX-License-Identifier: Apache-2.0
/* How a run ended; see run_end.h. */
#include "diagnosis/run_end.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "diagnosis/line_text.h"
#include "diagnosis/metric_layout.h"
#include "diagnosis/metric_line.h"

enum {
    MAX_BARS = 32,
    MAX_RANKS = 65536,
    CHILD_LINES = 16,
    RECOVERY_LINES = 3
};

/* Progress bars are told apart by their totals: training, evaluation and data have different ones. */
struct bar {
    int64_t total;
    int64_t highest;
    uint64_t seen;
    bool last_full;
};

struct run_reader {
    struct arena *arena;
    struct series_set *series;
    struct series_place step_time;
    /* over all files */
    struct bar bars[MAX_BARS];
    size_t bar_count;
    int64_t steps;
    int64_t announced_total; /* "Total optimization steps = 100" */
    int64_t named_total;     /* total of a step counter */
    uint64_t progress;
    unsigned char ranks[MAX_RANKS / 8];
    int rank_count;
    int killed_signal;
    int exit_code;
    int dead_rank;
    int root_rank; /* of torchrun's table */
    bool any_completed;
    bool any_died;
    bool any_progress_end;
    bool any_quiet_end; /* a file with progress whose last line is something else */
    const char *phase;
    /* of the file */
    bool ended;
    uint64_t ended_at;
    bool full_bar; /* the main bar is at N/N and nothing counted on since */
    bool dead;
    uint64_t dead_at;
    uint64_t file_progress_from;
    int child_lines; /* lines of the table still wanted */
    bool in_eval;
};

struct run_reader *run_reader_new(struct arena *a, struct series_set *series)
{
    struct run_reader *r = arena_alloc(a, sizeof *r);
    r->arena = a;
    r->series = series;
    r->steps = -1;
    r->announced_total = -1;
    r->named_total = -1;
    r->dead_rank = -1;
    r->root_rank = -1;
    return r;
}

void run_reader_begin_file(struct run_reader *r)
{
    r->ended = false;
    r->full_bar = false;
    r->dead = false;
    r->child_lines = 0;
    r->in_eval = false;
    r->file_progress_from = r->progress;
}

void run_reader_rank(struct run_reader *r, int rank)
{
    if (rank < 0 || rank >= MAX_RANKS) {
        return;
    }
    unsigned char bit = (unsigned char)(1u << (rank & 7));
    if ((r->ranks[rank >> 3] & bit) == 0) {
        r->ranks[rank >> 3] |= bit;
        r->rank_count++;
    }
}

uint64_t run_reader_progress_count(const struct run_reader *r)
{
    return r->progress;
}

static void went_on(struct run_reader *r)
{
    r->progress++;
    r->phase = r->in_eval ? "eval" : "train";
    if (r->dead && r->progress - r->dead_at >= RECOVERY_LINES) {
        r->dead = false; /* a worker or an attempt died, the run did not */
    }
}

static void count_step(struct run_reader *r, int64_t step, int64_t total)
{
    r->steps = step > r->steps ? step : r->steps;
    r->named_total = total > r->named_total ? total : r->named_total;
}

/* Postfixes of bars repeat a running average; it is a series like another. */
static void add_metrics(struct run_reader *r, const struct metric_line *m,
                        const struct line_context *line)
{
    for (size_t i = 0; i < m->count; i++) {
        series_add(r->series, m->items[i].name, line->rank, m->items[i].value, line->piece.line);
    }
}

static bool shows_training(const struct metric_line *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->items[i].name, "loss") == 0 || strcmp(m->items[i].name, "step") == 0) {
            return true;
        }
    }
    return false;
}

static struct str limited(struct str s)
{
    return str_slice(s, 0, EVENT_TEXT_MAX); /* no metric line is longer */
}

/* By place when the shape of the line is known. */
static void read_metrics(const struct line_context *line, struct shape_entry *shape,
                         struct arena *shapes, struct metric_line *ret_line)
{
    struct str body = limited(line->prefix.body);
    size_t body_at = (size_t)(body.p - line->piece.text.p);
    if (shape != NULL && shape->layout != NULL &&
        metric_layout_read(shape->layout, body, body_at, ret_line)) {
        return;
    }
    metric_line_parse(body, ret_line);
    if (shape != NULL && shape->layout == NULL) {
        shape->layout = metric_layout_new(shapes, ret_line, body, body_at);
    }
}

/* A line of metrics, which went to their series. */
static void note_metrics(struct run_reader *r, bool trains, bool evals)
{
    if (trains) {
        r->in_eval = false;
        went_on(r);
    } else if (evals) {
        r->in_eval = true;
        r->phase = "eval";
    }
}

void run_reader_metrics(struct run_reader *r, const struct line_context *line,
                        struct shape_entry *shape, struct arena *shapes)
{
    struct metric_line m;
    read_metrics(line, shape, shapes, &m);
    add_metrics(r, &m, line);
    if (m.step >= 0) {
        count_step(r, m.step, m.total);
    }
    if (m.final) {
        return; /* run_reader_end() takes it */
    }
    note_metrics(r, shows_training(&m), m.count != 0 && strcmp(m.items[0].name, "eval_loss") == 0);
}

static struct bar *bar_of(struct run_reader *r, int64_t total)
{
    for (size_t i = 0; i < r->bar_count; i++) {
        if (r->bars[i].total == total) {
            return &r->bars[i];
        }
    }
    if (r->bar_count == MAX_BARS) {
        return NULL;
    }
    struct bar *b = &r->bars[r->bar_count++];
    *b = (struct bar){.total = total, .highest = -1};
    return b;
}

/* The bar of the training steps: the announced total, else the largest. */
static const struct bar *main_bar(const struct run_reader *r)
{
    const struct bar *best = NULL;
    for (size_t i = 0; i < r->bar_count; i++) {
        const struct bar *b = &r->bars[i];
        if (b->total == r->announced_total) {
            return b;
        }
        if (best == NULL || b->total > best->total) {
            best = b;
        }
    }
    return best;
}

static void note_bar(struct run_reader *r, const struct progress_bar *shown, int rank,
                     uint64_t line)
{
    const struct progress_bar bar = *shown;
    if (bar.loading) {
        r->phase = "load";
    }
    if (!bar.training) {
        return;
    }
    struct bar *b = bar_of(r, bar.total);
    if (b == NULL) {
        return;
    }
    b->seen++;
    b->highest = bar.done > b->highest ? bar.done : b->highest;
    b->last_full = bar.done == bar.total;
    if (b != main_bar(r)) {
        return; /* most likely the evaluation's */
    }
    r->full_bar = b->last_full;
    if (isfinite(bar.seconds_per_step)) {
        series_add_at(r->series, &r->step_time, "step_time", rank, bar.seconds_per_step, line);
    }
    if (bar.done > 0) {
        went_on(r);
    }
}

void run_reader_progress(struct run_reader *r, const struct line_context *line,
                         struct shape_entry *shape, struct arena *shapes)
{
    struct bar_places places;
    struct progress_bar bar;
    if (!bar_places_find(line->window, &places)) {
        return;
    }
    if (shape != NULL && shape->bar == NULL) {
        shape->bar = arena_alloc(shapes, sizeof *shape->bar);
        *shape->bar = places;
    }
    if (bar_places_read(&places, line->window, &bar)) {
        note_bar(r, &bar, line->rank, line->piece.line);
    }
}

bool run_reader_knows_places(const struct shape_entry *shape, const struct line_context *line)
{
    return line->prefix.none && (shape->layout == NULL || metric_layout_is_whole(shape->layout));
}

void run_reader_by_place(struct run_reader *r, struct shape_entry *shape, const struct piece *piece,
                         int rank)
{
    struct progress_bar bar;
    if (shape->layout != NULL) {
        struct metric_layout_line m = metric_layout_add(shape->layout, piece->text.p, r->series,
                                                        rank, piece->line);
        if (m.step >= 0) {
            count_step(r, m.step, -1);
        }
        note_metrics(r, m.trains, m.evals);
    }
    if (shape->bar != NULL && bar_places_read(shape->bar, piece->text, &bar)) {
        note_bar(r, &bar, rank, piece->line);
    }
}

void run_reader_phase(struct run_reader *r, const struct line_context *line)
{
    struct str s = line->window;

    static const struct {
        const char *text;
        const char *phase;
    } rows[] = {
        {"unning Evaluation", "eval"},
        {"unning evaluation", "eval"},
        {"unning Prediction", "eval"},
        {"unning prediction", "eval"},
        {"unning training", "train"},
        {"tarting train", "train"},
        {"tarted train", "train"},
        {"tart train", "train"},
        {"the train", "train"},
        {"aving ", "save"},
        {"aved ", "save"},
        {"okeniz", "data"},
        {"onverting", "data"},
        {"rouping", "data"},
        {"acking", "data"},
        {"Map", "data"},
        {"Filter", "data"},
        {"Generating", "data"},
        {"oading", "load"},
    };

    int64_t total = -1;
    static const char *const totals[] = {"optimization steps", "training steps", "train steps",
                                         "training iterations", "train iterations"};
    for (size_t i = 0; i < ARRAY_LEN(totals) && total < 0; i++) {
        char digits[32];
        size_t n = 0;
        size_t at = str_find(s, totals[i], 0);
        for (size_t k = at == SIZE_MAX ? s.n : at + strlen(totals[i]); k < s.n && n < 20; k++) {
            if (isdigit((unsigned char)s.p[k])) { /* "1,200" too */
                digits[n++] = s.p[k];
            }
        }
        digits[n] = '\0';
        total = line_number(str_of(digits), "", -1);
    }
    if (total > 0) {
        r->announced_total = total;
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_has(s, rows[i].text)) {
            r->phase = rows[i].phase;
            r->in_eval = strcmp(rows[i].phase, "eval") == 0;
            return;
        }
    }
}

void run_reader_end(struct run_reader *r, const struct line_context *line)
{
    struct str s = line->window;
    /* "training is not finished", "if training has finished": sentences about it are no end */
    if (str_has(s, "not ") || str_has(s, "n't ") || str_has(s, " if ") || str_has(s, "If ") ||
        str_has(s, "after training is") || str_has(s, "when training is")) {
        return;
    }
    r->ended = true;
    r->ended_at = r->progress;
    r->dead = false;
}

static int signal_by_name(struct str s)
{
    static const struct {
        const char *name;
        int number;
    } rows[] = {{"SIGKILL", 9}, {"SIGSEGV", 11}, {"SIGABRT", 6}, {"SIGBUS", 7},
                {"SIGILL", 4},  {"SIGFPE", 8},   {"SIGTERM", 15}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_has(s, rows[i].name)) {
            return rows[i].number;
        }
    }
    return 0;
}

/* The signal a line reports, 0 for none; *ret_exit is a non-zero exit status. */
static int signal_of(struct str s, int *ret_exit)
{
    *ret_exit = 0;
    static const char *const exit_keys[] = {"exitcode",    "exit code",        "exited with code",
                                            "exit status", "exit with status", "exited with status",
                                            "return code", "returncode"};
    int64_t code = 0;
    for (size_t i = 0; i < ARRAY_LEN(exit_keys) && code == 0; i++) {
        code = line_number(s, exit_keys[i], 0);
    }
    if (code < 0 && code > -65) {
        return (int)-code;
    }
    if (code > 128 && code < 128 + 65) {
        return (int)code - 128;
    }
    static const char *const signal_keys[] = {"Signal ", "exited on signal ", "Caught signal ",
                                              "killed by signal "};
    for (size_t i = 0; i < ARRAY_LEN(signal_keys); i++) {
        int64_t n = line_number(s, signal_keys[i], 0);
        if (n > 0 && n < 65) {
            return (int)n;
        }
    }
    if (str_has(s, "Segmentation fault")) {
        return 11;
    }
    if (str_has(s, "Bus error") || str_has(s, "bus error")) {
        return 7;
    }
    if (str_has(s, "Aborted") || str_has(s, "terminate called")) {
        return 6;
    }
    int named = signal_by_name(s);
    if (named != 0) {
        return named;
    }
    if (str_has(s, "Killed") || str_has(s, "oom_kill") || str_has(s, "oom-kill")) {
        return 9;
    }
    *ret_exit = code > 0 && code < 256 ? (int)code : 0;
    return 0;
}

void run_reader_death(struct run_reader *r, const struct line_context *line)
{
    struct str s = line->window;
    if (str_has(s, "closing signal") || str_has(s, "set to trap")) {
        return; /* torchrun ends the others: a consequence */
    }
    int exit_code;
    int signal = signal_of(s, &exit_code);
    bool guess = str_has(s, "some potential root causes"); /* Ray lists signals it can think of */
    bool limit = str_has(s, "DUE TO TIME LIMIT");
    bool fatal = str_has(s, "Fatal Python error") || str_has(s, "core dumped");
    if (signal == 0 && exit_code == 0 && !limit && !fatal) {
        return;
    }
    /* the first report is nearest to the cause, and a kill says more than an abort that follows */
    if (r->killed_signal == 0) {
        r->killed_signal = guess ? 0 : signal;
    }
    if (r->exit_code == 0) {
        r->exit_code = exit_code;
    }
    if (r->dead_rank < 0) {
        r->dead_rank = line->rank >= 0 ? line->rank : (int)line_number(s, "local_rank:", -1);
    }
    if (!r->dead) {
        r->dead = true;
        r->dead_at = r->progress;
    }
}

void run_reader_child(struct run_reader *r, const struct line_context *line, bool head)
{
    if (head) {
        r->child_lines = CHILD_LINES;
        return;
    }
    r->child_lines--;
    struct str body = str_trim(line->prefix.body);
    if (str_starts(body, "rank ")) {
        int64_t rank = line_number(body, "rank", -1);
        size_t colon = str_find_char(body, ':', 0);
        rank = colon != SIZE_MAX ? line_number(str_slice(body, colon, body.n), ":", rank) : rank;
        if (rank >= 0 && r->root_rank < 0) {
            r->root_rank = (int)rank;
        }
    } else if (str_starts(body, "exitcode")) {
        int exit_code;
        int signal = signal_of(body, &exit_code);
        /* the table knows which process failed first */
        r->killed_signal = signal != 0 ? signal : r->killed_signal;
        r->exit_code = exit_code != 0 ? exit_code : r->exit_code;
        r->dead = true;
        r->dead_at = r->progress;
    } else if (str_starts(body, "traceback")) {
        r->child_lines = 0;
    }
}

bool run_reader_wants_lines(const struct run_reader *r)
{
    return r->child_lines > 0;
}

bool run_reader_completed(const struct run_reader *r, uint64_t *ret_at)
{
    if (r->ended) {
        *ret_at = r->ended_at;
        return true;
    }
    *ret_at = r->progress;
    return r->full_bar;
}

void run_reader_end_file(struct run_reader *r, struct str last_piece, bool failed)
{
    uint64_t at;
    bool died = failed || r->dead;
    r->any_died |= died;
    r->any_completed |= run_reader_completed(r, &at) && !died;
    if (r->progress == r->file_progress_from) {
        return;
    }
    struct progress_bar bar;
    struct metric_line m;
    bool progress = progress_bar_parse(last_piece, &bar) && bar.done < bar.total;
    if (!progress && !r->ended && !r->full_bar) {
        metric_line_parse(last_piece, &m);
        progress = shows_training(&m) && !m.final;
    }
    r->any_progress_end |= progress;
    r->any_quiet_end |= !progress;
}

void run_reader_finish(struct run_reader *r, const struct tracebacks *t,
                       struct run_summary *ret_run)
{
    const struct bar *bar = main_bar(r);
    int64_t steps = bar != NULL && bar->highest > r->steps ? bar->highest : r->steps;
    int64_t total = r->announced_total > 0 ? r->announced_total : r->named_total;
    total = total < 0 && bar != NULL ? bar->total : total;
    const struct root_exception *e = tracebacks_root(t, r->root_rank);
    int failed_rank = r->root_rank >= 0           ? r->root_rank
                      : e != NULL && e->rank >= 0 ? e->rank
                      : r->any_died               ? r->dead_rank
                                                  : -1;
    const char *phase = r->phase;
    if (phase == NULL && e != NULL &&
        (e->import_time || str_ends(str_of(e->type), "ImportError") ||
         str_ends(str_of(e->type), "ModuleNotFoundError"))) {
        phase = "import";
    }
    *ret_run = (struct run_summary){
        .completed = r->any_completed && !r->any_died,
        .died = r->any_died,
        .killed_signal = r->any_died ? r->killed_signal : 0,
        .exit_code = r->any_died ? r->exit_code : 0,
        .steps = steps,
        .total_steps = total,
        .ranks = r->rank_count,
        .phase = phase,
        .last_line_is_progress = r->any_progress_end && !r->any_quiet_end,
        .first_failed_rank = failed_rank >= 0 ? arena_fmt(r->arena, "%d", failed_rank) : NULL,
        .exception = e != NULL ? e->type : NULL,
        .exception_text = e != NULL ? e->message : NULL,
    };
}
