// SPDX-License-Identifier: Apache-2.0
/* See anomaly_source.h. Bytes come through base/input and the framer, as for diagnose. */
#include "study/anomaly_source.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/input.h"
#include "base/input_list.h"
#include "base/tree.h"

#include "diagnosis/framing.h"
#include "diagnosis/line_text.h"
#include "diagnosis/metric_line.h"
#include "diagnosis/metric_table.h"
#include "diagnosis/prefix.h"
#include "study/epoch_steps.h"

enum {
    FILES_MAX = 3,
    SHOWN_MAX = 8,
    TOLD_MAX = 24,
    METRIC_LINE_MAX = 2000, /* no metric line is longer */
    POLL_BYTES = 4 << 20,
    RUN_JSON_MAX = 8 << 20,
    YEAR = 1970
};

#define SAME_VALUE 1e-4 /* "3.9387" and "3.938654E+00" */

struct source_file {
    const char *path;
    int rank;
    struct epoch_steps epochs;
    bool times; /* metrics.jsonl: only when values came */
    struct input *input;
    struct framer *framer;
    struct metric_table *table;          /* its last header */
    uint64_t lines_before, bytes_before; /* of files that were replaced */
};

struct anomaly_source {
    struct arena *arena;
    struct arena *scratch;
    const char *folder; /* NULL: a log */
    const volatile int *stop;
    struct anomaly_sink sink;
    struct source_file files[FILES_MAX];
    size_t count;
    struct anomaly_progress progress;
    int64_t bar_base, bar_total; /* steps of the bars before, and of this one */

    struct {
        char name[METRIC_NAME_MAX];
        double value;
    } shown[SHOWN_MAX]; /* by the last bar */

    size_t shown_count;

    struct {
        char name[METRIC_NAME_MAX];
        int rank;
        int64_t step;
        double value;
    } told[TOLD_MAX]; /* last, with its step */

    size_t told_count;
    bool ranks;                            /* more than one rank speaks */
    int64_t bar;                           /* what the last progress bar said; -1 */
    int64_t examples, batch, accumulation; /* of HF Trainer's banner; 0: not seen */
    double time_last;                      /* of metrics.jsonl */
    int64_t step_last;
    bool step_time_named; /* the log names step times itself */
};

static double real(int64_t v)
{
    return (double)v;
}

/* ---- lines ---- */

/* Some trainers print one step in two forms, and ranks without a name all print it: the same value is one. */
static bool told_before(struct anomaly_source *s, int rank, const char *metric, double value,
                        int64_t step)
{
    for (size_t i = 0; i < s->told_count; i++) {
        if (s->told[i].rank == rank && strcmp(s->told[i].name, metric) == 0) {
            double before = s->told[i].value;
            bool same = s->told[i].step == step &&
                        ((isnan(before) && isnan(value)) || before == value ||
                         fabs(before - value) <= SAME_VALUE * fabs(before));
            s->told[i].step = step;
            s->told[i].value = value;
            return same;
        }
    }
    if (s->told_count < TOLD_MAX) {
        str_print(s->told[s->told_count].name, METRIC_NAME_MAX, "%s", metric);
        s->told[s->told_count].rank = rank;
        s->told[s->told_count].step = step;
        s->told[s->told_count++].value = value;
    }
    return false;
}

static void give(struct anomaly_source *s, const struct source_file *f, const struct prefix *p,
                 uint64_t line, const char *metric, double value, int64_t step)
{
    struct anomaly_sample sample = {.metric = metric,
                                    .rank = p->rank >= 0 ? p->rank : f->rank,
                                    .step = step,
                                    .value = value,
                                    .time = p->clock == CLOCK_WALL ? p->time : NAN,
                                    .file = f->path,
                                    .line = line};
    s->progress.values++;
    s->ranks |= sample.rank > 0;
    s->step_time_named |= strcmp(metric, "step_time") == 0;
    s->sink.sample(s->sink.ctx, &sample);
}

/*
 * Memory in use as trainers print it, in bytes: torchtitan "memory: 40.1GiB(42.1%)", Megatron
 * "max allocated: 1234.5 | ..." in MB, axolotl 'memory/max_active (GiB)': 40.1 and (gib).
 */
static bool memory_of(struct str body, double *ret_bytes)
{
    static const struct {
        const char *key;
        const char *unit; /* must follow the number; NULL: none needed */
        double scale;
    } rows[] = {
        {"memory: ", "GiB", 1073741824.0},           {"max allocated: ", NULL, 1048576.0},
        {"max_active (GiB)': ", NULL, 1073741824.0}, {"max_mem_active(gib)': ", NULL, 1073741824.0},
        {"max_active(gib)': ", NULL, 1073741824.0},  {"max_memory_allocated_gb': ", NULL, 1e9}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t at = str_find(body, rows[i].key, 0);
        if (at == SIZE_MAX) {
            continue;
        }
        struct str rest = str_trim(str_slice(body, at + strlen(rows[i].key), body.n));
        size_t n;
        double v = metric_number(rest, &n);
        bool unit = rows[i].unit == NULL || str_starts(str_slice(rest, n, rest.n), rows[i].unit);
        if (n != 0 && unit && v >= 0) {
            *ret_bytes = v * rows[i].scale;
            return true;
        }
    }
    return false;
}

static void tell_epoch(struct anomaly_source *s)
{
    if (s->examples > 0 && s->batch > 0) {
        double steps = ceil(real(s->examples) / real(s->batch));
        s->sink.fact(s->sink.ctx, "one epoch", steps);
    }
}

/* The banner that HF Trainer prints before it begins: "  Num examples = 1,000". */
static void read_banner(struct anomaly_source *s, struct str body)
{
    const struct {
        const char *key;
        int64_t *to;
    } rows[] = {{"Num examples = ", &s->examples},
                {"Total train batch size (w. parallel, distributed & accumulation) = ", &s->batch},
                {"Gradient Accumulation steps = ", &s->accumulation},
                {"Total optimization steps = ", &s->progress.total}};

    if (!str_has(body, " = ")) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t at = str_find(body, rows[i].key, 0);
        int64_t v = 0;
        for (size_t k = at == SIZE_MAX ? body.n : at + strlen(rows[i].key); k < body.n; k++) {
            char c = body.p[k];
            if (c >= '0' && c <= '9' && v < INT64_MAX / 100) {
                v = v * 10 + (c - '0');
            } else if (c != ',') { /* "1,000" */
                break;
            }
        }
        if (v > 0) {
            *rows[i].to = v;
            tell_epoch(s);
        }
    }
    if (s->accumulation > 1 && str_has(body, "Gradient Accumulation")) {
        s->sink.fact(s->sink.ctx, "gradient accumulation", real(s->accumulation));
    }
}

/* True when the piece is a bar of training steps. Bars that begin anew (one an epoch) go on counting. */
static bool read_bar(struct anomaly_source *s, const struct source_file *f, const struct prefix *p,
                     struct piece piece)
{
    struct progress_bar bar;
    if (memchr(piece.text.p, '[', piece.text.n) == NULL || !progress_bar_parse(piece.text, &bar) ||
        !bar.training || bar.loading || bar.total < s->bar_total || bar.total < s->progress.total) {
        return false; /* those of evaluation are shorter */
    }
    if (bar.total > s->bar_total) {
        s->bar_base = 0;
    } else if (s->bar >= 0 && bar.done < s->bar - s->bar_base) {
        s->bar_base += bar.total;
    }
    bool moved = s->bar_base + bar.done > s->bar;
    s->bar_total = bar.total;
    s->bar = s->bar_base + bar.done;
    s->progress.total = s->bar_base == 0 && bar.total > s->progress.total ? bar.total
                                                                          : s->progress.total;
    s->progress.step = s->bar > s->progress.step ? s->bar : s->progress.step;
    if (s->progress.step > s->progress.total) {
        s->progress.total = -1;
    }
    if (moved && isfinite(bar.seconds_per_step) && bar.done > 1) {
        give(s, f, p, piece.line, "step_time", bar.seconds_per_step, s->bar);
    }
    return true;
}

/* A bar is drawn again and again, and shows the value of some steps ago until there is a new one. */
static bool shown_before(struct anomaly_source *s, const char *name, double value)
{
    for (size_t i = 0; i < s->shown_count; i++) {
        if (strcmp(s->shown[i].name, name) == 0) {
            bool same = s->shown[i].value == value || (isnan(value) && isnan(s->shown[i].value));
            s->shown[i].value = value;
            return same;
        }
    }
    if (s->shown_count < SHOWN_MAX) {
        str_print(s->shown[s->shown_count].name, METRIC_NAME_MAX, "%s", name);
        s->shown[s->shown_count++].value = value;
    }
    return false;
}

static void read_line(struct anomaly_source *s, struct source_file *f, struct piece piece)
{
    piece.text = str_slice(piece.text, 0, METRIC_LINE_MAX);
    if (piece.text.n < 4) {
        return;
    }
    struct prefix p = prefix_parse(piece.text, YEAR);
    struct metric_line m;
    bool bar = read_bar(s, f, &p, piece);
    metric_line_parse(p.body, &m);
    if (m.count == 0 && !m.final) {
        (void)metric_table_read(f->table, piece.text, &m);
    }
    read_banner(s, p.body);
    if (!s->ranks) { /* several ranks in one log do not pass an epoch together */
        epoch_steps_line(&f->epochs, p.body, &m);
    }
    if (m.step >= 0) {
        s->progress.step = m.step > s->progress.step ? m.step : s->progress.step;
        s->progress.total = m.total > s->progress.total ? m.total : s->progress.total;
    }
    if (m.final) { /* averages of the whole run */
        s->progress.ended = true;
        return;
    }
    /* HF Trainer prints its metrics without a step, behind the bar that counted it. */
    int64_t step = m.step >= 0 ? m.step : s->bar > 0 ? s->bar : -1;
    for (size_t i = 0; i < m.count; i++) {
        if (strcmp(m.items[i].name, "step") != 0 &&
            !(bar && shown_before(s, m.items[i].name, m.items[i].value)) &&
            !(m.step >= 0 && told_before(s, p.rank >= 0 ? p.rank : f->rank, m.items[i].name,
                                         m.items[i].value, m.step))) {
            give(s, f, &p, piece.line, m.items[i].name, m.items[i].value, step);
        }
    }
    double bytes;
    if (memory_of(p.body, &bytes)) {
        give(s, f, &p, piece.line, "memory", bytes, step);
    }
}

/* metrics.jsonl of a run folder: a step time that a rank printed, where the lines of the output do not tell whose
 * they are. False when the line tells no rank. */
static bool read_rank_time(struct anomaly_source *s, const struct source_file *f,
                           struct piece piece, struct str text)
{
    int64_t rank;
    double seconds;
    struct metric_line m;
    if (str_to_i64(line_behind(text, "\"rank\": ", ",}"), 10, &rank) != ST_OK || rank < 0 ||
        rank > INT32_MAX) {
        return false;
    }
    metric_line_parse(text, &m);
    if (str_to_double(line_behind(text, "\"step_time\": ", ",}"), &seconds) == ST_OK) {
        struct prefix own = {.rank = (int)rank, .clock = CLOCK_NONE};
        give(s, f, &own, piece.line, "step_time", seconds, m.step);
    }
    return rank > 0; /* the times of the first rank's lines serve as before */
}

/* metrics.jsonl of a run folder: the time between steps, where the log itself tells none. */
static void read_time(struct anomaly_source *s, const struct source_file *f, struct piece piece)
{
    struct metric_line m;
    struct str text = str_slice(piece.text, 0, METRIC_LINE_MAX);
    if (read_rank_time(s, f, piece, text)) {
        return;
    }
    if (s->step_time_named || s->ranks || !str_has(text, "\"loss\": ")) {
        return;
    }
    metric_line_parse(text, &m);
    struct str digits = line_behind(text, "\"t\": ", ",}");
    double t;
    if (str_to_double(digits, &t) != ST_OK) {
        return;
    }
    int64_t step = m.step >= 0 ? m.step : s->step_last + 1;
    if (isfinite(s->time_last) && step > s->step_last && t >= s->time_last) {
        struct prefix none = {.rank = -1, .clock = CLOCK_NONE};
        double each = (t - s->time_last) / real(step - s->step_last);
        give(s, f, &none, piece.line, "step_time", each, m.step);
        s->step_time_named = false;
    }
    s->time_last = t;
    s->step_last = step;
}

static void drain(struct anomaly_source *s, struct source_file *f, bool at_end)
{
    struct frame frame;
    while (framer_next(f->framer, at_end, true, &frame)) {
        struct frame_cursor cursor;
        frame_cursor_init(&cursor, &frame);
        while (cursor.at < frame.n) {
            size_t n = 0;
            while (cursor.at + n < frame.n && frame.p[cursor.at + n] != '\n' &&
                   frame.p[cursor.at + n] != '\r') {
                n++;
            }
            bool windowed = cursor.at == 0 && frame.continued;
            struct piece piece = frame_piece(&cursor, n);
            if (!windowed && f->times) {
                read_time(s, f, piece);
            } else if (!windowed) {
                read_line(s, f, piece);
            }
            frame_cursor_next(&cursor, n);
        }
    }
}

/* ---- files ---- */

static enum status file_open(struct anomaly_source *s, struct source_file *f, struct err *err)
{
    struct arena_mark mark = arena_mark(s->arena);
    enum status got = input_open(s->arena, f->path, s->stop, &f->input, err);
    if (got != ST_OK) {
        f->input = NULL;
        arena_rewind(s->arena, mark);
        return got;
    }
    f->framer = f->framer != NULL ? f->framer : framer_new(s->arena);
    f->table = f->table != NULL ? f->table : arena_alloc(s->arena, sizeof *f->table);
    return ST_OK;
}

static enum status file_poll(struct anomaly_source *s, struct source_file *f, bool *ret_more,
                             struct err *err)
{
    if (f->input == NULL && file_open(s, f, err) != ST_OK) {
        return s->folder != NULL && err->status == ST_ABSENT ? ST_OK : err->status;
    }
    size_t taken = 0;
    for (;;) {
        size_t room;
        char *p = framer_space(f->framer, &room);
        size_t n;
        TRY(input_read(f->input, p, room, &n, err));
        framer_commit(f->framer, n);
        drain(s, f, false);
        taken += n;
        if (n == 0) {
            break;
        }
        if (taken >= POLL_BYTES || s->progress.stream) {
            *ret_more = true;
            return ST_OK;
        }
    }
    if (s->progress.stream) {
        s->progress.ended = true;
    } else if (input_reopen_rotated(f->input)) {
        drain(s, f, true);
        f->lines_before += framer_newlines(f->framer);
        f->bytes_before += framer_bytes(f->framer);
        framer_reset(f->framer);
        s->progress.restarts++;
        s->bar = -1;
        s->bar_base = 0;
        *ret_more = true;
    }
    return ST_OK;
}

bool anomaly_source_run_ended(struct arena *scratch, const char *folder, int *ret_code)
{
    struct arena_mark mark = arena_mark(scratch);
    struct fs live = {.prefix = ""};
    struct str text;
    const struct tree *t;
    bool ended = false;
    int64_t code;
    const char *path = arena_fmt(scratch, "%s/run.json", folder);
    struct tree_limits limits = {.bytes = RUN_JSON_MAX, .nodes = 200000, .depth = 32};
    *ret_code = -1;
    if (fs_read(&live, scratch, path, RUN_JSON_MAX, &text, NULL) == ST_OK &&
        tree_from_json(scratch, text, path, limits, &t, NULL) == ST_OK) {
        ended = strcmp(tree_text(t, "ending", "running"), "running") != 0;
        if (ended && str_to_i64(str_of(tree_text(t, "status", "")), 10, &code) == ST_OK &&
            code >= 0 && code <= INT_MAX) {
            *ret_code = (int)code;
        }
    }
    arena_rewind(scratch, mark);
    return ended;
}

enum status anomaly_source_poll(struct anomaly_source *s, bool *ret_more, struct err *err)
{
    enum status worst = ST_OK;
    *ret_more = false;
    uint64_t bytes = 0;
    uint64_t lines = 0;
    /* Before the logs are read: what was written before the end is not missed. */
    if (s->folder != NULL) {
        s->progress.ended = anomaly_source_run_ended(s->scratch, s->folder, &s->progress.exit_code);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct source_file *f = &s->files[i];
        struct stat st;
        enum status got = file_poll(s, f, ret_more, err);
        worst = got != ST_OK ? got : worst;
        if (!s->progress.stream && stat(f->path, &st) == 0 &&
            !((double)st.st_mtime <= s->progress.last_change)) {
            s->progress.last_change = (double)st.st_mtime;
        }
        if (f->input != NULL) {
            bytes += f->bytes_before + framer_bytes(f->framer);
            lines += f->lines_before + framer_newlines(f->framer);
        }
    }
    s->progress.bytes = bytes;
    s->progress.lines = lines;
    return worst;
}

void anomaly_source_finish(struct anomaly_source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->files[i].input != NULL) {
            drain(s, &s->files[i], true);
        }
    }
}

static void add_file(struct anomaly_source *s, const char *path, bool times)
{
    s->files[s->count++] = (struct source_file){.path = arena_strdup(s->arena, path),
                                                .rank = input_list_rank(path),
                                                .epochs = epoch_steps_begin(),
                                                .times = times};
}

bool anomaly_source_is_run(struct arena *scratch, const char *path)
{
    struct stat st;
    struct arena_mark mark = arena_mark(scratch);
    bool run = stat(arena_fmt(scratch, "%s/run.json", path), &st) == 0 && S_ISREG(st.st_mode);
    arena_rewind(scratch, mark);
    return run;
}

static enum status open_folder(struct anomaly_source *s, const char *path, struct err *err)
{
    static const char *const names[] = {"stdout.log", "stderr.log", "metrics.jsonl"};
    if (!anomaly_source_is_run(s->scratch, path)) {
        return err_set(
            err, ST_FORMAT,
            "'%s' is a folder without run.json: give the folder that 'assay run' made, or "
            "a log file",
            path);
    }
    char absolute[PATH_MAX];
    if (realpath(path, absolute) == NULL) {
        return err_sys(err, errno, "cannot find the folder '%s'", path);
    }
    s->folder = arena_strdup(s->arena, absolute);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        add_file(s, arena_fmt(s->scratch, "%s/%s", path, names[i]), i == 2);
    }
    return ST_OK;
}

enum status anomaly_source_open(struct arena *a, const char *path, const volatile int *stop,
                                const struct anomaly_sink *sink, struct anomaly_source **ret_source,
                                struct err *err)
{
    struct anomaly_source *s = arena_alloc(a, sizeof *s);
    *s = (struct anomaly_source){.arena = a,
                                 .scratch = arena_new(0),
                                 .stop = stop,
                                 .sink = *sink,
                                 .bar = -1,
                                 .time_last = NAN};
    s->progress = (struct anomaly_progress){
        .step = -1, .total = -1, .exit_code = -1, .last_change = NAN};
    struct stat st;
    enum status got = ST_OK;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        got = open_folder(s, path, err);
    } else {
        add_file(s, path, false);
        got = file_open(s, &s->files[0], err);
        s->progress.stream = got == ST_OK && input_mtime(s->files[0].input) == 0;
    }
    if (got != ST_OK) {
        arena_free(s->scratch);
        return got;
    }
    *ret_source = s;
    return ST_OK;
}

void anomaly_source_rank(struct anomaly_source *s, int rank)
{
    for (size_t i = 0; i < s->count; i++) {
        s->files[i].rank = rank;
    }
}

struct anomaly_progress anomaly_source_progress(const struct anomaly_source *s)
{
    return s->progress;
}

const char *anomaly_source_note(const struct anomaly_source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->files[i].input != NULL && input_note(s->files[i].input) != NULL) {
            return input_note(s->files[i].input);
        }
    }
    return NULL;
}

void anomaly_source_close(struct anomaly_source *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        input_close(s->files[i].input);
    }
    arena_free(s->scratch);
}
