// SPDX-License-Identifier: Apache-2.0
/* What came out: wrong results, late ranks, bandwidth; tables and the verdict. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"

#include "cli/fleet/collectives.h"
#include "study/stats.h"

enum {
    NAMES_MAX = 8,
    LARGE_BYTES = 16 << 20
};

static const double giga = 1e9;
static const double micro = 1e-6;
/* A rank is late where it comes so much later than the middle one, ... */
static const double late_ratio = 1.5;
/* ... and later by so much, which no scheduler explains, and by so many standard errors of its median. */
static const double late_least_s = 0.5e-3;
static const double late_errors = 4;
/* Standard error of a median of normal values over their deviation / sqrt(n): sqrt(pi / 2). */
static const double median_error = 1.2533;

const char *collectives_rank_name(const struct collectives_result *r, int rank)
{
    const struct collectives_rank *k = &r->rank[rank];
    if (k->host == NULL) {
        return arena_fmt(r->arena, "rank %d", rank);
    }
    if (k->device == NULL || r->job->mpi) {
        return arena_fmt(r->arena, "rank %d (%s)", rank, k->host);
    }
    return arena_fmt(r->arena, "rank %d (%s, %.*s)", rank, k->host, (int)strcspn(k->device, " "),
                     k->device);
}

const char *collectives_names(const struct collectives_result *r, const bool *marked,
                              int *ret_count)
{
    struct strbuf out;
    int count = 0;
    int told = 0;
    for (int i = 0; i < r->ranks; i++) {
        count += marked[i];
    }
    strbuf_init(&out, r->arena, 4000);
    for (int i = 0; i < r->ranks && told < NAMES_MAX; i++) {
        if (marked[i]) {
            const char *join = told == 0                                 ? ""
                               : told == count - 1 && count <= NAMES_MAX ? " and "
                                                                         : ", ";
            strbuf_fmt(&out, "%s%s", join, collectives_rank_name(r, i));
            told++;
        }
    }
    if (count > told) {
        strbuf_fmt(&out, " and %d more", count - told);
    }
    *ret_count = count;
    return out.p;
}

static struct finding *add(const struct collectives_result *r, struct finding_list *to,
                           enum severity severity, const char *id, const char *title,
                           const char *claim)
{
    struct finding *f = VEC_PUSH(r->arena, to);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    return f;
}

static size_t bytes_of(const struct collectives_result *r, const struct collective_trial *t)
{
    return collective_bytes(t->op, t->count, dtype_info(t->type)->size, r->ranks);
}

/* ---- wrong results ---- */

static void add_wrong(const struct collectives_result *r, const struct collectives_trial *t,
                      struct finding *f)
{
    enum {
        EVIDENCE_MAX = 16
    };

    for (size_t i = 0; i < t->wrong.count && f->evidence.count < EVIDENCE_MAX; i++) {
        const struct collectives_wrong *w = &t->wrong.items[i];
        const char *beyond = w->wrong.beyond ? "; bytes behind the result were written" : "";
        *VEC_PUSH(r->arena, &f->evidence) = (struct evidence){
            .source = collectives_rank_name(r, w->rank),
            .text = arena_fmt(
                r->arena,
                "%s of %zu bytes in %s: %zu wrong, the first is element %zu: %g, not %g%s",
                collective_op_name(t->trial.op), bytes_of(r, &t->trial),
                dtype_info(t->trial.type)->name, w->wrong.elements, w->wrong.first, w->wrong.got,
                w->wrong.wanted, beyond)};
    }
}

static void judge_results(const struct collectives_result *r, struct finding_list *to)
{
    bool *marked = arena_array(r->arena, (size_t)r->ranks, sizeof *marked);
    struct finding *f = NULL;
    size_t trials = 0;
    size_t checked = 0;
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct collectives_trial *t = &r->trials[i];
        checked += t->ran && t->trial.aim == COLLECTIVE_CHECK;
        if (t->wrong.count == 0) {
            continue;
        }
        trials++;
        if (f == NULL) {
            f = add(r, to, SEVERITY_ERROR, "collectives-wrong-result", "", "");
        }
        for (size_t k = 0; k < t->wrong.count; k++) {
            marked[t->wrong.items[k].rank] = true;
        }
        add_wrong(r, t, f);
    }
    if (f != NULL) {
        int count = 0;
        const char *names = collectives_names(r, marked, &count);
        f->title = count == r->ranks
                       ? "Collectives give wrong results on all ranks"
                       : arena_fmt(r->arena, "Collectives give wrong results on %s", names);
        f->claim = arena_fmt(
            r->arena,
            "%zu of %zu operations were not what they must be to the last bit. Ranks that add other "
            "gradients drift apart, and no message says so.",
            trials, checked);
        *VEC_PUSH(r->arena, &f->remedy) =
            "one switch at a time: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, "
            "NCCL_ALGO=Ring, NCCL_PROTO=Simple; what makes it pass names the path";
    }
}

/* ---- late ranks ---- */

/* Of the middle rank, or the earlier of the two in the middle. */
static double usual_arrival(const struct collectives_result *r)
{
    double *v = arena_array(r->arena, (size_t)r->ranks, sizeof *v);
    for (int i = 0; i < r->ranks; i++) {
        v[i] = r->rank[i].arrival_s;
    }
    stats_sort(v, (size_t)r->ranks);
    return v[(r->ranks - 1) / 2];
}

static bool is_late(const struct collectives_rank *k, double usual)
{
    double later = k->arrival_s - usual;
    return k->arrival_s > late_ratio * usual && later > late_least_s &&
           later > late_errors * median_error * k->arrival_spread_s / sqrt(k->arrivals);
}

static void judge_arrivals(const struct collectives_result *r, struct finding_list *to)
{
    double usual = usual_arrival(r);
    bool *marked = arena_array(r->arena, (size_t)r->ranks, sizeof *marked);
    int count = 0;
    for (int i = 0; i < r->ranks; i++) {
        marked[i] = is_late(&r->rank[i], usual);
    }
    const char *names = collectives_names(r, marked, &count);
    if (count == 0) {
        return;
    }
    struct finding *f = add(
        r, to, SEVERITY_WARNING, "collectives-straggler",
        arena_fmt(r->arena, "Late at each collective: %s", names),
        "All ranks do the same work on their device's memory and meet; the last one sets the "
        "pace of all.");
    for (int i = 0; i < r->ranks; i++) {
        if (marked[i]) {
            *VEC_PUSH(r->arena, &f->evidence) = (struct evidence){
                .source = collectives_rank_name(r, i),
                .text = arena_fmt(
                    r->arena, "comes after %.3f ms (spread %.3f), the middle rank after %.3f ms",
                    r->rank[i].arrival_s * 1e3, r->rank[i].arrival_spread_s * 1e3, usual * 1e3)};
        }
    }
    *VEC_PUSH(r->arena, &f->remedy) =
        "assay probe --figures there and on a healthy rank; look for throttling, another "
        "process on the device, a busy or wrongly bound processor core";
}

/* ---- bandwidth ---- */

static double algbw(const struct collectives_result *r, const struct collectives_trial *t)
{
    return (double)bytes_of(r, &t->trial) / t->seconds / giga;
}

static double busbw(const struct collectives_result *r, const struct collectives_trial *t)
{
    return algbw(r, t) * collective_bus_factor(t->trial.op, r->ranks);
}

/* The largest all-reduce that was timed. */
static const struct collectives_trial *largest(const struct collectives_result *r)
{
    const struct collectives_trial *best = NULL;
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct collectives_trial *t = &r->trials[i];
        if (t->ran && t->trial.aim == COLLECTIVE_TIME && t->trial.op == COLLECTIVE_ALL_REDUCE) {
            best = t;
        }
    }
    return best;
}

static void judge_bandwidth(const struct collectives_result *r, struct finding_list *to)
{
    const struct collectives_trial *t = largest(r);
    double least = r->job->least_busbw;
    if (!(least > 0)) {
        return;
    }
    if (t == NULL || bytes_of(r, &t->trial) < LARGE_BYTES / 2) {
        add(r, to, SEVERITY_UNKNOWN, "collectives-bandwidth-unknown",
            "The bandwidth that was asked for could not be measured",
            "--least-busbw speaks of an all-reduce of 16 MiB or more.");
    } else if (!(busbw(r, t) >= least)) {
        add(r, to, SEVERITY_WARNING, "collectives-slow",
            arena_fmt(r->arena,
                      "all-reduce of %zu bytes: bus bandwidth %.1f GB/s, %.1f were asked for",
                      bytes_of(r, &t->trial), busbw(r, t), least),
            "The links or the way NCCL took over them are slower than was asked for.");
    }
}

/* ---- tables ---- */

static struct value real_or_null(double x)
{
    return isfinite(x) ? value_real(x) : (struct value){.kind = VALUE_NULL};
}

static struct report_table checks_table(const struct collectives_result *r)
{
    static const struct report_column columns[] = {{"operation", "operation", 0},
                                                   {"type", "type", 0},
                                                   {"sizes", "sizes", 0},
                                                   {"exact", "exact", 0}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(r->arena, (size_t)COLLECTIVE_OP_COUNT * DTYPE_COUNT * COLUMNS,
                                      sizeof *cells);
    size_t rows = 0;
    for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
        for (int type = 0; type < DTYPE_COUNT; type++) {
            int64_t sizes = 0;
            int64_t exact = 0;
            for (size_t i = 0; i < r->trial_count; i++) {
                const struct collectives_trial *t = &r->trials[i];
                bool is = t->ran && t->trial.aim == COLLECTIVE_CHECK && (int)t->trial.op == op &&
                          (int)t->trial.type == type;
                sizes += is;
                exact += is && t->wrong.count == 0;
            }
            if (sizes != 0) {
                struct value *row = &cells[rows++ * COLUMNS];
                row[0] = value_string(collective_op_name((enum collective_op)op));
                row[1] = value_string(dtype_info((enum dtype)type)->name);
                row[2] = value_int(sizes);
                row[3] = value_int(exact);
            }
        }
    }
    return (struct report_table){.key = "checks",
                                 .heading = "held against the sum that is known:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = rows};
}

static struct report_table bandwidth_table(const struct collectives_result *r)
{
    static const struct report_column columns[] = {{"operation", "operation", 0},
                                                   {"bytes", "bytes", 0},
                                                   {"time_us", "time us", 5},
                                                   {"algbw_gb_per_s", "algbw GB/s", 5},
                                                   {"busbw_gb_per_s", "busbw GB/s", 5}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(r->arena, (r->trial_count + 1) * COLUMNS, sizeof *cells);
    size_t rows = 0;
    for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
        for (size_t i = 0; i < r->trial_count; i++) {
            const struct collectives_trial *t = &r->trials[i];
            if (!t->ran || t->trial.aim != COLLECTIVE_TIME || (int)t->trial.op != op) {
                continue;
            }
            struct value *row = &cells[rows++ * COLUMNS];
            row[0] = value_string(collective_op_name(t->trial.op));
            row[1] = value_int((int64_t)bytes_of(r, &t->trial));
            row[2] = real_or_null(t->seconds / micro);
            row[3] = real_or_null(algbw(r, t));
            row[4] = real_or_null(busbw(r, t));
        }
    }
    return (struct report_table){.key = "bandwidth",
                                 .heading = "float32, time of the slowest rank:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = rows};
}

static struct report_table ranks_table(const struct collectives_result *r)
{
    static const struct report_column columns[] = {{"rank", "rank", 0},
                                                   {"host", "host", 0},
                                                   {"device", "device", 0},
                                                   {"arrival_us", "comes after us", 5},
                                                   {"spread_us", "spread us", 3}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(r->arena, (size_t)r->ranks * COLUMNS, sizeof *cells);
    for (int i = 0; i < r->ranks; i++) {
        const struct collectives_rank *k = &r->rank[i];
        struct value *row = &cells[i * COLUMNS];
        row[0] = value_int(i);
        row[1] = value_string(k->host != NULL ? k->host : "did not come");
        row[2] = value_string(k->device != NULL ? k->device : "-");
        row[3] = real_or_null(k->arrival_s / micro);
        row[4] = real_or_null(k->arrival_spread_s / micro);
    }
    return (struct report_table){.key = "ranks",
                                 .heading = "the ranks, and when they come to a collective:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = (size_t)r->ranks};
}

/* ---- the verdict ---- */

static const char *verdict_of(const struct collectives_result *r, bool stopped,
                              const struct finding_list *findings)
{
    const struct collectives_trial *t = largest(r);
    size_t ran = 0;
    for (size_t i = 0; i < r->trial_count; i++) {
        ran += r->trials[i].ran;
    }
    if (stopped) {
        return arena_fmt(r->arena, "%s; %zu of %zu trials had run",
                         findings->items[findings->count - 1].title, ran, r->trial_count);
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->items[i].severity != SEVERITY_NOTE) {
            return findings->items[i].title;
        }
    }
    if (t == NULL) {
        return arena_fmt(r->arena, "%d ranks: every result is exact", r->ranks);
    }
    return arena_fmt(
        r->arena, "%d ranks: every result is exact; all-reduce of %zu bytes at %.3g GB/s (busbw)",
        r->ranks, bytes_of(r, &t->trial), busbw(r, t));
}

static void tell_notes(const struct collectives_result *r, struct report *report)
{
    struct arena *a = r->arena;
    const char *library = r->rank[0].library;
    if (library != NULL) {
        *VEC_PUSH(a, &report->notes) = arena_fmt(a, "through %s", library);
    }
    if (r->job->mpi) {
        *VEC_PUSH(a, &report->notes) =
            r->job->kind == DEVICE_CPU
                ? "MPI over host memory: the links of GPUs were not tried"
                : "MPI through host memory: times hold the copies from the device and back";
    }
}

void collectives_judge(const struct collectives_result *r, bool stopped,
                       struct finding_list *findings, struct report *report)
{
    const struct finding_list early = *findings;
    if (r->ranks == 1 && !stopped) {
        add(r, findings, SEVERITY_UNKNOWN, "collectives-one-rank",
            "One rank alone: nothing was sent between devices",
            "This machine shows one GPU, and no launcher started more ranks.");
    }
    judge_results(r, findings);
    if (!stopped) {
        judge_arrivals(r, findings);
        judge_bandwidth(r, findings);
    }
    /* The verdict of an early end is the finding of that end. */
    report->verdict = verdict_of(r, stopped, stopped ? &early : findings);
    report->tables[report->table_count++] = checks_table(r);
    report->tables[report->table_count++] = bandwidth_table(r);
    report->tables[report->table_count++] = ranks_table(r);
    report->numbers[report->number_count++] = (struct report_number){"rank_count", r->ranks};
    tell_notes(r, report);
}
