// SPDX-License-Identifier: Apache-2.0
/* assay watch in words: the report of --once, the verdict, one anomaly as a line of JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "base/str.h"
#include "base/vec.h"

#include "cli/session.h"
#include "cli/watch/watch.h"

static const struct report_column columns[] = {
    {"metric", "metric", 0}, {"rank", "rank", 0},     {"values", "values", 0},
    {"not_finite", NULL, 0}, {"median", "median", 5}, {"least", "least", 5},
    {"most", "most", 5},     {"last", "last", 5},     {"judged", NULL, 0},
};

static struct value number(double v)
{
    return isfinite(v) ? value_real(v) : (struct value){.kind = VALUE_NULL};
}

static void add_table(struct watch *w, struct report *r)
{
    size_t count = anomaly_series_count(w->set);
    struct value *cells = arena_array(w->cli->arena, count * ARRAY_LEN(columns), sizeof *cells);
    for (size_t i = 0; i < count; i++) {
        struct anomaly_view v = anomaly_series_view(w->set, i);
        struct value *row = cells + i * ARRAY_LEN(columns);
        row[0] = value_string(v.metric);
        row[1] = v.rank >= 0 ? value_int(v.rank) : (struct value){.kind = VALUE_NULL};
        row[2] = value_int((int64_t)v.count);
        row[3] = value_int((int64_t)v.not_finite);
        row[4] = number(v.median);
        row[5] = number(v.least);
        row[6] = number(v.most);
        row[7] = number(v.last);
        row[8] = value_bool(v.judged);
    }
    r->tables[r->table_count++] = (struct report_table){.key = "metrics",
                                                        .columns = columns,
                                                        .column_count = ARRAY_LEN(columns),
                                                        .cells = cells,
                                                        .row_count = count};
}

int watch_status(const struct watch *w)
{
    for (int s = (int)w->fail_on; s <= SEVERITY_ERROR; s++) {
        if (anomaly_count_severity(w->set, (enum severity)s) != 0) {
            return EXIT_FAULT;
        }
    }
    return EXIT_FINE;
}

/* A metric that spikes and shifts are looked for in, with enough values. */
static bool anything_judged(const struct watch *w)
{
    for (size_t i = 0; i < anomaly_series_count(w->set); i++) {
        struct anomaly_view v = anomaly_series_view(w->set, i);
        if (v.judged && v.looked) {
            return true;
        }
    }
    return false;
}

static void count_of(struct watch *w, struct strbuf *out, enum severity severity)
{
    uint64_t n = anomaly_count_severity(w->set, severity);
    if (n != 0) {
        strbuf_fmt(out, "%s%" PRIu64 " %s%s", out->n != 0 ? ", " : "", n, severity_name(severity),
                   n == 1 ? "" : "s");
    }
}

const char *watch_verdict(struct watch *w, int *ret_status)
{
    struct strbuf counts;
    strbuf_init(&counts, w->cli->arena, 200);
    count_of(w, &counts, SEVERITY_ERROR);
    count_of(w, &counts, SEVERITY_WARNING);
    count_of(w, &counts, SEVERITY_NOTE);
    *ret_status = watch_status(w);
    if (*ret_status == EXIT_FINE && !anything_judged(w)) {
        *ret_status = EXIT_UNKNOWN;
        return arena_fmt(
            w->cli->arena,
            "watch: %s%stoo few values to judge: %d values of the loss, the gradient norm or "
            "the step time are needed",
            counts.p, counts.n != 0 ? "; " : "", ANOMALY_WARM_UP);
    }
    return arena_fmt(w->cli->arena, "watch: %s in %" PRIu64 " values of %zu series",
                     counts.n != 0 ? counts.p : "no anomaly", w->values,
                     anomaly_series_count(w->set));
}

/* That nothing is wrong with a loss that was not understood must not be read out of the answer. */
static bool saw_loss(const struct watch *w)
{
    for (size_t i = 0; i < anomaly_series_count(w->set); i++) {
        if (str_ends(str_of(anomaly_series_view(w->set, i).metric), "loss")) {
            return true;
        }
    }
    return false;
}

static void add_notes(struct watch *w, struct report *r)
{
    if (!saw_loss(w)) {
        *VEC_PUSH(w->cli->arena, &r->notes) =
            "no line was understood as a loss: what is said here is of the other metrics alone";
    }
    for (size_t i = 0; i < w->source_count; i++) {
        const char *note = anomaly_source_note(w->sources[i]);
        struct anomaly_progress p = anomaly_source_progress(w->sources[i]);
        if (note != NULL) {
            *VEC_PUSH(w->cli->arena, &r->notes) = note;
        }
        if (p.values == 0) {
            *VEC_PUSH(w->cli->arena, &r->notes) = arena_fmt(
                w->cli->arena, "'%s' holds no metric that is understood",
                w->cli->operands.items[i]);
        }
    }
    if (w->numbered) {
        *VEC_PUSH(w->cli->arena, &r->notes) =
            "names of the files tell no ranks: they are numbered from 0 in the order given";
    }
    if (w->left_out != 0) {
        *VEC_PUSH(w->cli->arena, &r->notes) = arena_fmt(
            w->cli->arena, "%" PRIu64 " more anomalies of the same kinds are not listed",
            w->left_out);
    }
    if (anomaly_dropped(w->set) != 0) {
        *VEC_PUSH(w->cli->arena, &r->notes) = arena_fmt(
            w->cli->arena,
            "%" PRIu64 " values of further metrics or ranks were not looked at: there "
            "are more than %d series",
            anomaly_dropped(w->set), ANOMALY_SERIES_MAX);
    }
}

int watch_report(struct watch *w)
{
    struct report r = {.command = "watch", .schema_version = 1};
    int status;
    if (w->values == 0) {
        return cli_fail(
            w->cli, EXIT_UNKNOWN,
            "no metric was found in '%s'%s: lines like \"{'loss': 1.2, 'grad_norm': 0.3}\" or "
            "\"step: 10 loss: 1.2\" are understood",
            w->cli->operands.items[0], w->source_count > 1 ? " and the others" : "");
    }
    r.verdict = watch_verdict(w, &status);
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &w->findings};
    add_table(w, &r);
    add_notes(w, &r);
    return session_report(w->cli, &r, status);
}

static void json_number(struct strbuf *out, const char *key, double v)
{
    if (isfinite(v)) {
        strbuf_fmt(out, ", \"%s\": %.17g", key, v);
    } else {
        strbuf_fmt(out, ", \"%s\": null", key);
    }
}

static void json_text(struct strbuf *out, const char *key, const char *text)
{
    strbuf_fmt(out, ", \"%s\": \"", key);
    json_escape(out, str_of(text));
    strbuf_addc(out, '"');
}

void watch_json(struct strbuf *out, const struct anomaly *a, const struct finding *f)
{
    strbuf_fmt(out, "{\"schema_version\": 1, \"kind\": \"%s\", \"severity\": \"%s\"",
               anomaly_kind_name(a->kind), severity_name(a->severity));
    json_text(out, "metric", a->metric);
    bool gpu = strncmp(a->metric, "gpu_", 4) == 0;
    strbuf_fmt(out, a->rank >= 0 ? ", \"%s\": %d" : ", \"%s\": null", gpu ? "gpu" : "rank",
               a->rank);
    strbuf_fmt(out, a->step >= 0 ? ", \"%s\": %" PRId64 : ", \"%s\": null",
               a->counted ? "value_number" : "step", a->step);
    json_number(out, "value", a->value);
    json_number(out, "low", a->low);
    json_number(out, "high", a->high);
    json_text(out, "title", f->title);
    json_text(out, "claim", f->claim);
    strbuf_addz(out, ", \"remedy\": [");
    for (size_t i = 0; i < f->remedy.count; i++) {
        strbuf_addz(out, i != 0 ? ", \"" : "\"");
        json_escape(out, str_of(f->remedy.items[i]));
        strbuf_addc(out, '"');
    }
    strbuf_addc(out, ']');
    if (a->file != NULL) {
        json_text(out, "file", a->file);
        strbuf_fmt(out, ", \"line\": %" PRIu64, a->line);
    }
    strbuf_addc(out, '}');
}
