// SPDX-License-Identifier: Apache-2.0
/*
 * See run_log.h. All sources become one list of records; the curves are made from it at the end, when
 * the number of steps is known. Lines are read by diagnosis' metric_line_parse(), so that compare and
 * diagnose agree on what a line says.
 */
#include "study/run_log.h"

#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "base/input.h"
#include "base/vec.h"

#include "diagnosis/framing.h"
#include "diagnosis/metric_line.h"
#include "diagnosis/metric_table.h"
#include "study/epoch_steps.h"

enum {
    LINE_MAX_BYTES = 65536,
    BLOCK = 65536,
    STATE_MAX = 256 << 20
};

/* Steps beyond it are none; so differences of steps never overflow. */
#define STEP_MAX ((int64_t)1000000000000000)

struct record {
    int64_t step; /* -1 */
    double time, loss, eval_loss, grad_norm, step_time;
};

struct reader {
    struct arena *arena;
    struct run_log log;
    bool text_only; /* output of a run folder: its metrics are read from metrics.jsonl */
    bool metrics_only;
    double rank; /* whose metrics are taken; -1: no line told one */

    struct {
        struct record *items;
        size_t count;
        size_t capacity;
    } records;

    int64_t bar; /* last progress bar of training */
    struct metric_table table;
    struct epoch_steps epochs;
    char line[LINE_MAX_BYTES];
    size_t line_n;
};

/* ---- numbers beside words ---- */

/* The number behind `key` and separators, NaN without. */
static double number_after(struct str line, const char *key)
{
    size_t at = str_find(line, key, 0);
    if (at == SIZE_MAX) {
        return NAN;
    }
    at += strlen(key);
    for (int i = 0; i < 12 && at < line.n && strchr(" '\":=\t", line.p[at]) != NULL; i++) {
        at++;
    }
    size_t n;
    double v = metric_number(str_slice(line, at, line.n), &n);
    return n != 0 ? v : NAN;
}

/* Seconds in "H:MM:SS", as LLaMA-Factory prints elapsed_time ("1 day, 2:03:04" too). */
static double clock_after(struct str line, const char *key)
{
    size_t at = str_find(line, key, 0);
    if (at == SIZE_MAX) {
        return NAN;
    }
    struct str s = str_slice(line, at + strlen(key), line.n);
    size_t days_at = str_find(s, " day", 0);
    size_t colon = SIZE_MAX;
    double days = 0;
    while (s.n > 0 && (s.p[0] < '0' || s.p[0] > '9')) {
        s = str_slice(s, 1, s.n);
    }
    if (days_at < 24) {
        size_t n;
        days = metric_number(s, &n);
        s = str_slice(s, str_find_char(s, ',', 0) == SIZE_MAX ? 0 : str_find_char(s, ',', 0) + 1,
                      s.n);
        s = str_trim(s);
    }
    double seconds = 0;
    for (int part = 0; part < 3; part++) {
        size_t n;
        double v = metric_number(s, &n);
        colon = n;
        if (n == 0 || (part < 2 && (colon >= s.n || s.p[colon] != ':'))) {
            return NAN;
        }
        seconds = seconds * 60 + v;
        s = str_slice(s, part < 2 ? n + 1 : n, s.n);
    }
    return seconds + days * 86400;
}

/* Device memory as trainers print it, in bytes for each unit. */
static const struct {
    const char *key;
    double unit;
} memory_keys[] = {
    {"vram_reserved", 1 << 30}, /* LLaMA-Factory, RECORD_VRAM=1 */
    {"vram_allocated", 1 << 30},
    {"memory/device_reserved (GiB)", 1 << 30}, /* axolotl */
    {"memory/max_allocated (GiB)", 1 << 30},
    {"MaxMemAllocated", 1 << 30},      /* DeepSpeed, "12.3GB" */
    {"peak_memory_reserved", 1 << 30}, /* torchtune */
    {"peak_memory_alloc", 1 << 30},
};

static void take_memory(struct reader *r, struct str line)
{
    for (size_t i = 0; i < ARRAY_LEN(memory_keys); i++) {
        double bytes = number_after(line, memory_keys[i].key) * memory_keys[i].unit;
        if (bytes > 0 && !(bytes <= r->log.gpu_memory_bytes)) {
            r->log.gpu_memory_bytes = bytes;
        }
    }
    /* torchtitan: "memory:  5.23GiB(6.60%)" */
    size_t at = str_find(line, "memory: ", 0);
    double gib = at != SIZE_MAX && str_has(line, "GiB(") ? number_after(line, "memory: ") : NAN;
    if (gib > 0 && !(gib * (1 << 30) <= r->log.gpu_memory_bytes)) {
        r->log.gpu_memory_bytes = gib * (1 << 30);
    }
}

/* What HF Trainer says of itself before the first step, and trainer_state.json holds. */
static const struct {
    const char *text;
    const char *name;
} sayings[] = {
    {"Instantaneous batch size per device =", "batch per device"},
    {"Gradient Accumulation steps =", "gradient accumulation"},
    {"Total train batch size (w. parallel, distributed & accumulation) =", "total batch"},
    {"Num examples =", "examples"},
    {"Number of trainable parameters =", "trainable parameters"},
    {"\"train_batch_size\":", "batch per device"},
};

static void take_saying(struct reader *r, const char *name, struct str value)
{
    for (size_t i = 0; i < r->log.said.count; i++) {
        if (strcmp(r->log.said.items[i].name, name) == 0) {
            return; /* evaluation says its own numbers later */
        }
    }
    *VEC_PUSH(r->arena, &r->log.said) = (struct run_log_saying){.name = name,
                                                                .value = str_dup(r->arena, value)};
}

static void take_sayings(struct reader *r, struct str line)
{
    for (size_t i = 0; i < ARRAY_LEN(sayings); i++) {
        size_t at = str_find(line, sayings[i].text, 0);
        if (at == SIZE_MAX) {
            continue;
        }
        struct str rest = str_trim(str_slice(line, at + strlen(sayings[i].text), line.n));
        size_t n = 0;
        while (n < rest.n && ((rest.p[n] >= '0' && rest.p[n] <= '9') || rest.p[n] == ',')) {
            n++;
        }
        if (n != 0 && rest.p[n - 1] == ',') {
            n--;
        }
        if (n != 0) {
            take_saying(r, sayings[i].name, str_slice(rest, 0, n));
        }
    }
    double total = number_after(line, "Total optimization steps =");
    if (total > 0 && total < 1e15) {
        r->log.total_steps = (int64_t)total;
    }
}

bool run_log_is_save(struct str line)
{
    static const char *const words[] = {"Saving model checkpoint", "saving model checkpoint",
                                        "Saving checkpoint",       "saving checkpoint",
                                        "Saving the checkpoint",   "Saving full checkpoint"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (str_has(line, words[i])) {
            return true;
        }
    }
    return false;
}

/* ---- lines ---- */

/* What no training prints counts as infinite: sums of it would be. */
static double bounded(double v)
{
    return v > 1e100 ? INFINITY : v < -1e100 ? -INFINITY : v;
}

static void add_record(struct reader *r, struct str line, const struct metric_line *m)
{
    struct record *rec = VEC_PUSH(r->arena, &r->records);
    *rec = (struct record){.step = m->step,
                           .time = number_after(line, "\"t\":"),
                           .loss = NAN,
                           .eval_loss = NAN,
                           .grad_norm = NAN,
                           .step_time = NAN};
    if (isnan(rec->time)) {
        rec->time = clock_after(line, "elapsed_time");
    }
    bool has_loss = false;
    for (size_t i = 0; i < m->count; i++) {
        const struct metric *v = &m->items[i];
        has_loss |= strcmp(v->name, "loss") == 0;
        rec->loss = strcmp(v->name, "loss") == 0 ? bounded(v->value) : rec->loss;
        rec->eval_loss = strcmp(v->name, "eval_loss") == 0 ? bounded(v->value) : rec->eval_loss;
        rec->grad_norm = strcmp(v->name, "grad_norm") == 0 ? bounded(v->value) : rec->grad_norm;
        rec->step_time = strcmp(v->name, "step_time") == 0 ? bounded(v->value) : rec->step_time;
    }
    /* A loss that is NaN must not look like no loss: infinity stands for both. */
    if (has_loss && isnan(rec->loss)) {
        rec->loss = INFINITY;
    }
    if (rec->step < 0 && r->bar >= 0 && has_loss) {
        rec->step = r->bar;
    }
    if (!has_loss && isnan(rec->eval_loss) && isnan(rec->step_time)) {
        r->records.count--;
    }
}

/* Ranks of a job print values of their own: those of the lowest rank that speaks are the run's. */
static bool is_other_rank(struct reader *r, struct str line)
{
    double rank = number_after(line, "\"rank\":");
    if (isnan(rank) || rank == r->rank) {
        return false;
    }
    if (r->rank >= 0 && rank > r->rank) {
        return true;
    }
    if (r->rank >= 0) {
        r->records.count = 0;
    }
    r->rank = rank;
    return false;
}

static void take_line(struct reader *r, struct str line)
{
    struct metric_line m;
    struct progress_bar bar;
    r->log.lines++;
    if (r->metrics_only && is_other_rank(r, line)) {
        return;
    }
    metric_line_parse(line, &m);
    if (m.count == 0 && !m.final && !r->metrics_only) {
        (void)metric_table_read(&r->table, line, &m);
    }
    bool is_bar = progress_bar_parse(line, &bar) && bar.training && !bar.loading && bar.done >= 0 &&
                  bar.done < STEP_MAX && bar.total < STEP_MAX;
    m.step = is_bar && m.count != 0 && m.step < 0 ? bar.done : m.step;
    epoch_steps_line(&r->epochs, line, &m);
    if (is_bar) {
        r->log.last_step = bar.done > r->log.last_step ? bar.done : r->log.last_step;
        r->log.total_steps = bar.total > 0 ? bar.total : r->log.total_steps;
    }
    if (m.total > 0) {
        r->log.total_steps = m.total;
    }
    take_memory(r, line);
    if (r->metrics_only && str_has(line, "\"event\": \"save\"")) {
        *VEC_PUSH(r->arena, &r->log.save_times) = number_after(line, "\"t\":");
    }
    if (!r->metrics_only) {
        take_sayings(r, line);
        r->log.saves += run_log_is_save(line);
    }
    if (m.final) {
        r->log.finished = true;
        double runtime = number_after(line, "train_runtime");
        r->log.train_runtime_s = isnan(runtime) ? r->log.train_runtime_s : runtime;
        double loss = number_after(line, "train_loss");
        r->log.train_loss = isnan(loss) ? r->log.train_loss : loss;
        return;
    }
    if (m.count == 0 || r->text_only) {
        return;
    }
    m.step = m.step < STEP_MAX ? m.step : -1;
    r->bar = is_bar ? bar.done : -1; /* a bar beside the numbers, in the same line */
    r->log.last_step = m.step > r->log.last_step ? m.step : r->log.last_step;
    if (r->records.count < RUN_LOG_RECORDS_MAX) {
        add_record(r, line, &m);
    }
}

/* What was read so far is a line; colours are no part of it. */
static void feed_end(struct reader *r)
{
    if (r->line_n != 0) {
        r->line_n = framing_strip(r->line, r->line_n);
        take_line(r, (struct str){.p = r->line, .n = r->line_n});
        r->line_n = 0;
    }
}

static void feed(struct reader *r, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n' || p[i] == '\r') {
            feed_end(r);
        } else if (r->line_n < sizeof r->line) {
            r->line[r->line_n++] = p[i]; /* what is longer is cut: no metrics stand so far right */
        }
    }
}

static enum status read_lines(struct reader *r, const char *path, struct err *err)
{
    struct input *in;
    char block[BLOCK];
    size_t n = 0;
    TRY(input_open(r->arena, path, NULL, &in, err));
    enum status status;
    while ((status = input_read(in, block, sizeof block, &n, err)) == ST_OK && n != 0) {
        feed(r, block, n);
    }
    feed_end(r);
    input_close(in);
    return status;
}

/* ---- trainer_state.json ---- */

static bool is_state(struct str text)
{
    return str_starts(str_trim(str_slice(text, 0, text.n < 4096 ? text.n : 4096)), "{") &&
           str_find(text, "\"log_history\"", 0) != SIZE_MAX;
}

/* A number of the state itself, before or behind its log_history. */
static double state_number(struct str head, struct str rest, const char *key)
{
    double v = number_after(head, key);
    return isnan(v) ? number_after(rest, key) : v;
}

/* The objects of log_history, each as one line. Written by Python's json module: NaN and Infinity may
 * stand bare, which no JSON reader takes; objects are flat. */
static void take_state(struct reader *r, struct str text)
{
    size_t at = str_find(text, "\"log_history\"", 0);
    size_t end = str_find_char(text, ']', at);
    end = end == SIZE_MAX ? text.n : end;
    for (;;) {
        size_t open = str_find_char(text, '{', at);
        size_t close = open < end ? str_find_char(text, '}', open) : SIZE_MAX;
        if (close == SIZE_MAX || close > end) {
            break;
        }
        for (size_t i = open; i <= close && r->line_n < sizeof r->line; i++) {
            r->line[r->line_n++] = text.p[i] == '\n' || text.p[i] == '\r' ? ' ' : text.p[i];
        }
        feed_end(r);
        at = close + 1;
    }
    struct str head = str_slice(text, 0, str_find(text, "\"log_history\"", 0));
    struct str rest = str_slice(text, end, text.n);
    double step = state_number(head, rest, "\"global_step\":");
    double total = state_number(head, rest, "\"max_steps\":");
    if (step >= 0 && step < 1e15) {
        r->log.last_step = (int64_t)step;
    }
    if (total > 0 && total < 1e15) {
        r->log.total_steps = (int64_t)total;
    }
    take_sayings(r, rest);
    r->log.finished |= r->log.last_step >= 0 && r->log.last_step == r->log.total_steps;
}

/* ---- curves ---- */

static void put(struct arena *a, struct curve *c, int64_t step, double value, double time)
{
    /* A resumed run prints its steps again, and several ranks print one step. */
    if (c->count > 0 && c->items[c->count - 1].step == step) {
        return;
    }
    while (c->count > 0 && c->items[c->count - 1].step > step) {
        c->count--;
    }
    if (c->count > 0 && c->items[c->count - 1].step == step) {
        c->count--;
    }
    *VEC_PUSH(a, c) = (struct curve_point){.step = step, .value = value, .time = time};
}

/* Steps for records without any: n values over the steps that were seen. */
static void count_steps(struct reader *r)
{
    size_t losses = 0;
    bool printed = false;
    for (size_t i = 0; i < r->records.count; i++) {
        losses += !isnan(r->records.items[i].loss);
        printed |= r->records.items[i].step >= 0;
    }
    if (printed || losses == 0) {
        return;
    }
    int64_t every = r->log.last_step / (int64_t)losses;
    r->log.steps_from = every >= 1 ? RUN_LOG_STEPS_COUNTED : RUN_LOG_STEPS_INDEX;
    every = every >= 1 ? every : 1;
    int64_t at = 0;
    for (size_t i = 0; i < r->records.count; i++) {
        at += isnan(r->records.items[i].loss) ? 0 : every;
        r->records.items[i].step = at;
    }
}

static void make_curves(struct reader *r)
{
    struct run_log *l = &r->log;
    int64_t last = 0;
    count_steps(r);
    for (size_t i = 0; i < r->records.count; i++) {
        const struct record *rec = &r->records.items[i];
        int64_t step = rec->step >= 0 ? rec->step : last; /* an evaluation after that step */
        last = step;
        if (!isnan(rec->loss)) {
            put(r->arena, &l->loss, step, rec->loss, rec->time);
        }
        if (!isnan(rec->loss) && !isnan(rec->grad_norm)) {
            put(r->arena, &l->grad_norm, step, rec->grad_norm, rec->time);
        }
        if (!isnan(rec->eval_loss)) {
            put(r->arena, &l->eval_loss, step, rec->eval_loss, rec->time);
        }
        if (rec->step_time > 0) {
            put(r->arena, &l->step_time, step, rec->step_time, rec->time);
        }
        l->last_step = step > l->last_step ? step : l->last_step;
    }
    for (size_t i = 0; i < l->loss.count; i++) {
        l->not_finite += !isfinite(l->loss.items[i].value);
    }
}

static struct reader *reader_new(struct arena *a, const char *path)
{
    struct reader *r = arena_alloc(a, sizeof *r);
    r->arena = a;
    r->bar = -1;
    r->rank = -1;
    r->epochs = epoch_steps_begin();
    r->log = (struct run_log){.path = path,
                              .last_step = -1,
                              .total_steps = -1,
                              .train_loss = NAN,
                              .train_runtime_s = NAN,
                              .gpu_memory_bytes = NAN};
    return r;
}

static enum status finish(struct reader *r, struct run_log *ret_log, struct err *err)
{
    make_curves(r);
    if (r->log.kind != RUN_LOG_FOLDER && r->log.loss.count == 0 && r->log.eval_loss.count == 0 &&
        r->log.last_step < 0) {
        return err_set(err, ST_FORMAT,
                       "'%s' holds no loss and no step: expected a run folder of 'assay run', a "
                       "trainer_state.json, a metrics file of JSON lines or a training log",
                       r->log.path);
    }
    *ret_log = r->log;
    return ST_OK;
}

static enum status read_folder(struct reader *r, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    static const char *const texts[] = {"stdout.log", "stderr.log"};
    const char *path = arena_fmt(r->arena, "%s/metrics.jsonl", r->log.path);
    r->log.kind = RUN_LOG_FOLDER;
    r->metrics_only = true;
    if (fs_exists(&live, r->arena, path)) {
        TRY(read_lines(r, path, err));
    }
    r->metrics_only = false;
    r->text_only = true;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        path = arena_fmt(r->arena, "%s/%s", r->log.path, texts[i]);
        if (fs_exists(&live, r->arena, path)) {
            TRY(read_lines(r, path, err));
        }
    }
    return ST_OK;
}

enum status run_log_parse(struct arena *a, struct str text, const char *name,
                          struct run_log *ret_log, struct err *err)
{
    struct reader *r = reader_new(a, name);
    r->log.kind = RUN_LOG_LINES;
    if (is_state(text)) {
        r->log.kind = RUN_LOG_TRAINER_STATE;
        take_state(r, text);
    } else {
        feed(r, text.p, text.n);
        feed_end(r);
    }
    return finish(r, ret_log, err);
}

/* The state in the last checkpoint of an output folder, or NULL. */
static const char *last_checkpoint(struct arena *a, const struct fs *fs, const char *path)
{
    const char *const *names = NULL;
    const char *best = NULL;
    size_t count = 0;
    uint64_t last = 0;
    if (fs_list(fs, a, path, &names, &count, NULL) != ST_OK) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        uint64_t step;
        const char *state = arena_fmt(a, "%s/%s/trainer_state.json", path, names[i]);
        if (str_starts(name, "checkpoint-") &&
            str_to_u64(str_slice(name, 11, name.n), 10, &step) == ST_OK &&
            (best == NULL || step > last) && fs_exists(fs, a, state)) {
            best = state;
            last = step;
        }
    }
    return best;
}

enum status run_log_read(struct arena *a, const char *path, struct run_log *ret_log,
                         struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct reader *r = reader_new(a, path);
    const char *file = path;
    if (fs_is_dir(&live, a, path)) {
        if (fs_exists(&live, a, arena_fmt(a, "%s/run.json", path))) {
            TRY(read_folder(r, err));
            return finish(r, ret_log, err);
        }
        file = arena_fmt(a, "%s/trainer_state.json", path);
        if (!fs_exists(&live, a, file)) {
            file = arena_fmt(a, "%s/trainer_log.jsonl", path);
        }
        if (!fs_exists(&live, a, file)) {
            file = last_checkpoint(a, &live, path);
        }
        if (file == NULL) {
            return err_set(err, ST_ABSENT,
                           "the folder '%s' holds no run.json, no trainer_state.json and no "
                           "trainer_log.jsonl: give a run folder, an output folder or a log",
                           path);
        }
    }
    struct str text;
    r->log.kind = RUN_LOG_LINES;
    if (str_ends(str_of(file), ".json")) {
        TRY(fs_read(&live, a, file, STATE_MAX, &text, err));
        if (is_state(text)) {
            r->log.kind = RUN_LOG_TRAINER_STATE;
            take_state(r, text);
            return finish(r, ret_log, err);
        }
    }
    TRY(read_lines(r, file, err));
    return finish(r, ret_log, err);
}
