// SPDX-License-Identifier: Apache-2.0
/*
 * This machine's own figures over time (--history): measured once more, held against what the file knows of this host,
 * device and stack, and added to it.
 */
#include "study/history.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/vec.h"

#include "cli/qualify/qualify.h"

static const double figures_limit_s = 300;

/* What says which software is measured; a fact that is not known is left out. */
static const char *const stack_facts[] = {
    "kernel.release",      "driver.nvidia.version", "driver.amdgpu.version",
    "hip.runtime_version", "torch.version",
};

/* ---- what is measured ---- */

static bool less_is_better(const char *unit)
{
    static const char *const units[] = {"s", "ms", "us", "ns", "s/step", "KiB", "MiB"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(unit, units[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Launch latency, bandwidths, matrix rates of the device that is qualified. */
static void measure(struct qualify *q, struct history_figure *to, size_t *count, size_t most)
{
    struct arena *a = q->cli->arena;
    struct text_list words = {0};
    struct report r;
    struct err err = {0};
    int exit;
    *VEC_PUSH(a, &words) = "probe";
    *VEC_PUSH(a, &words) = "--figures";
    *VEC_PUSH(a, &words) = q->backend != NULL ? q->backend : "cpu";
    if (qualify_child(q, "figures of the device", &words, figures_limit_s, &r, &exit, &err) !=
        ST_OK) {
        *VEC_PUSH(a, &q->notes) = arena_fmt(a, "figures of the device were not measured: %s",
                                            err.text);
        return;
    }
    const struct report_table *t = qualify_table(&r, "figures");
    for (size_t i = 0; t != NULL && i < t->row_count && *count < most; i++) {
        struct value v = qualify_cell(t, i, "value");
        double x = v.kind == VALUE_REAL ? v.real : v.kind == VALUE_INT ? (double)v.integer : NAN;
        const char *unit = qualify_text(t, i, "unit");
        /* Zero is what a growth should be, and a median of it bounds nothing; a call on the CPU takes as long as the
         * clock's own error. */
        bool latency = less_is_better(unit);
        if (x > 0 && strcmp(unit, "KiB") != 0 && !(latency && q->backend == NULL)) {
            to[(*count)++] = (struct history_figure){qualify_text(t, i, "what"), unit, latency, x};
        }
    }
}

static struct history_key key_of(struct qualify *q)
{
    struct arena *a = q->cli->arena;
    static char host[65];
    struct strbuf stack;
    int64_t gpus = facts_get_int(q->facts, "gpu.count", 0);
    gethostname(host, sizeof host - 1);
    strbuf_init(&stack, a, 2000);
    for (size_t i = 0; i < ARRAY_LEN(stack_facts); i++) {
        const char *value = facts_get_string(q->facts, stack_facts[i], NULL);
        if (value != NULL) {
            strbuf_fmt(&stack, "%s%s=%.200s", stack.n != 0 ? " " : "", stack_facts[i], value);
        }
    }
    const char *device = strcmp(q->device, "cpu") == 0
                             ? facts_get_string(q->facts, "cpu.model", "cpu")
                             : arena_fmt(a, "%d x %s", (int)gpus,
                                         facts_get_string(q->facts, "gpu[0].name", "GPU"));
    return (struct history_key){host, device, stack.p};
}

/* ---- comparing ---- */

struct row {
    const char *name, *now, *before, *result;
};

struct comparison {
    struct qualify *q;
    struct history *history;
    struct history_key key;
    struct finding_list *findings;
    VEC_OF(struct row) rows;
};

static void tell_slower(struct comparison *c, const struct history_figure *f,
                        const struct history_verdict *v, bool other_stack)
{
    struct arena *a = c->q->cli->arena;
    struct finding *w = VEC_PUSH(a, c->findings);
    *w = (struct finding){
        .id = "history-slower",
        .severity = SEVERITY_WARNING,
        .title = arena_fmt(a, "%s: slower than this machine's own baseline: %.2fx, bound %.2f",
                           f->name, v->ratio, v->bound),
        .claim = arena_fmt(
            a,
            "%.4g %s now; the median of %zu earlier %s is %.4g, with a median deviation of %.2g.",
            f->value, f->unit, v->count, v->count == 1 ? "run" : "runs", v->median, v->mad),
        .confidence = v->measured ? 0.9 : 0.6};
    *VEC_PUSH(a, &w->evidence) = (struct evidence){
        .source = cli_value(c->q->cli, "history", ""),
        .text = other_stack ? "measured on this host and device with another stack"
                            : "measured on this host, device and stack"};
    *VEC_PUSH(a, &w->remedy) =
        other_stack
            ? "an update of the stack may be the cause: assay diff of two snapshots names it"
            : "look for another load, throttling (assay exporter, assay watch --gpus), a lower "
              "power limit; then run it once more";
}

/* True: the value belongs into the baseline. */
static enum status compare(struct comparison *c, const struct history_figure *f, bool *ret_keep,
                           struct err *err)
{
    struct arena *a = c->q->cli->arena;
    double values[HISTORY_RUNS];
    size_t n = 0;
    struct history_key any = c->key;
    TRY(history_values(c->history, &c->key, f, values, &n, err));
    bool other = n == 0;
    if (other) {
        any.stack = NULL;
        TRY(history_values(c->history, &any, f, values, &n, err));
    }
    *ret_keep = true;
    const char *now = arena_fmt(a, "%.4g %s", f->value, f->unit);
    if (n == 0) {
        *VEC_PUSH(a, &c->rows) = (struct row){f->name, now, "-", "first"};
        return ST_OK;
    }
    struct history_verdict v = history_judge(a, values, n, f);
    if (v.worse) {
        tell_slower(c, f, &v, other);
        *ret_keep = other;
    }
    *VEC_PUSH(a, &c->rows) = (struct row){f->name, now,
                                          arena_fmt(a, "%.4g, deviation %.2g, n = %zu%s", v.median,
                                                    v.mad, n, other ? ", another stack" : ""),
                                          arena_fmt(a, "%.2fx, bound %.2f%s: %s", v.ratio, v.bound,
                                                    v.measured ? "" : " (assumed)",
                                                    v.worse ? "slower" : "as usual")};
    return ST_OK;
}

static struct report_table table_of(const struct comparison *c)
{
    static const struct report_column columns[] = {{"figure", "figure", 0},
                                                   {"now", "now", 0},
                                                   {"baseline", "median of earlier runs", 0},
                                                   {"result", "slower by", 0}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(c->q->cli->arena, c->rows.count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < c->rows.count; i++) {
        const struct row *r = &c->rows.items[i];
        cells[i * COLUMNS] = value_string(r->name);
        cells[i * COLUMNS + 1] = value_string(r->now);
        cells[i * COLUMNS + 2] = value_string(r->before);
        cells[i * COLUMNS + 3] = value_string(r->result);
    }
    return (struct report_table){.key = "history",
                                 .heading = "against this machine's own earlier runs:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = c->rows.count};
}

static enum status compare_all(struct comparison *c, const struct history_figure *figures,
                               size_t count, struct err *err)
{
    struct arena *a = c->q->cli->arena;
    struct history_figure *kept = arena_array(a, count + 1, sizeof *kept);
    size_t keep = 0;
    for (size_t i = 0; i < count; i++) {
        bool good;
        TRY(compare(c, &figures[i], &good, err));
        if (good) {
            kept[keep++] = figures[i];
        }
    }
    return keep != 0 ? history_add(c->history, &c->key, (int64_t)time(NULL), kept, keep, err)
                     : ST_OK;
}

enum status qualify_history_check(struct qualify *q, struct err *err)
{
    const char *path = cli_value(q->cli, "history", NULL);
    struct history *h;
    if (path == NULL) {
        return ST_OK;
    }
    TRY(history_open(q->cli->arena, path, &h, err));
    history_close(h);
    return ST_OK;
}

enum status qualify_history(struct qualify *q, struct finding_list *findings,
                            struct report_table *ret_table, struct err *err)
{
    enum {
        FIGURES_MAX = 200
    };

    struct arena *a = q->cli->arena;
    const char *path = cli_value(q->cli, "history", NULL);
    struct comparison c = {.q = q, .findings = findings};
    struct history_figure *figures = arena_array(a, FIGURES_MAX, sizeof *figures);
    size_t count = 0;
    *ret_table = (struct report_table){0};
    if (path == NULL) {
        return ST_OK;
    }
    for (size_t i = 0; i < q->figures.count && count < FIGURES_MAX; i++) {
        const struct qualify_figure *f = &q->figures.items[i];
        figures[count++] = (struct history_figure){f->name, f->unit, less_is_better(f->unit),
                                                   f->value};
    }
    measure(q, figures, &count, FIGURES_MAX);
    c.key = key_of(q);
    TRY(history_open(a, path, &c.history, err));
    enum status st = compare_all(&c, figures, count, err);
    history_close(c.history);
    if (st == ST_OK) {
        *ret_table = table_of(&c);
    }
    return st;
}
