// SPDX-License-Identifier: Apache-2.0
/* assay train MODEL --oracle: one step here, and a framework's dump of the same step judged by it. */
#include "train/oracle.h"

#include <inttypes.h>
#include <math.h>

#include "cli/session.h"
#include "cli/train/train.h"
#include "train/data_batch.h"

enum {
    ROWS_SHOWN = 10 /* in text; JSON has all */
};

static const struct report_column row_columns[] = {
    {"tensor", "tensor", 0},           {"error", "error", 3}, {"expected", "expected", 3},
    {"share_of_limit", "of limit", 3}, {"wrong", "wrong", 0},
};

static double share(const struct oracle_row *row)
{
    return row->limit > 0 ? row->error / row->limit : row->error > 0 ? INFINITY : 0;
}

/* The first micro-batch of --data, in the order of the files. */
static enum status own_batch(struct train_job *job, struct train_batch *ret_batch,
                             const struct train_batch **ret, struct err *err)
{
    struct dataset sets[2];
    if (cli_repeat(job->cli, "data", 0) == NULL) {
        *ret = NULL;
        return ST_OK;
    }
    TRY(train_job_data(job, &sets[0], &sets[1], err));
    struct dataset *data = arena_alloc(job->arena, sizeof *data);
    struct batch_source source;
    struct batch_limits limits = job->options.limits;
    limits.shuffle = false;
    *data = sets[0];
    batch_source_init(job->arena, data, &limits, &source);
    if (!batch_next(&source, job->arena, ret_batch)) {
        return err_set(err, ST_FORMAT, "the data hold no sample for a batch");
    }
    *ret = ret_batch;
    return ST_OK;
}

/* The rows for the table: in the order of the step; for text the worst ones. */
static void add_table(const struct cli *cli, const struct oracle_report *o, struct report *r)
{
    size_t n = o->rows.count;
    bool all = cli_flag(cli, "json") || n <= ROWS_SHOWN;
    bool *shown = arena_array(cli->arena, n, sizeof *shown);
    size_t count = all ? n : ROWS_SHOWN;
    for (size_t k = 0; k < count; k++) {
        size_t worst = SIZE_MAX;
        for (size_t i = 0; i < n; i++) {
            const struct oracle_row *row = &o->rows.items[i];
            if (!shown[i] && (worst == SIZE_MAX || !(share(row) <= share(&o->rows.items[worst])))) {
                worst = i;
            }
        }
        shown[worst] = true;
    }
    struct value *cells = arena_array(cli->arena, count * ARRAY_LEN(row_columns), sizeof *cells);
    struct value *cell = cells;
    for (size_t i = 0; i < n; i++) {
        const struct oracle_row *row = &o->rows.items[i];
        if (shown[i]) {
            *cell++ = value_string(row->name);
            *cell++ = value_real(row->error);
            *cell++ = value_real(row->expected);
            *cell++ = value_real(share(row));
            *cell++ = value_bool(row->wrong);
        }
    }
    r->tables[r->table_count++] = (struct report_table){.key = "tensors",
                                                        .columns = row_columns,
                                                        .column_count = ARRAY_LEN(row_columns),
                                                        .cells = cells,
                                                        .row_count = count};
}

static const char *claim_of(struct arena *a, const struct oracle_report *o)
{
    const struct oracle_row *row = &o->rows.items[o->first];
    if (row->why != NULL) {
        return arena_fmt(a, "The first tensor that cannot be compared is the %s: %s.",
                         oracle_place(a, row), row->why);
    }
    return arena_fmt(
        a,
        "The first tensor in the order of the step that is beyond its limit is the %s: "
        "its error is %.3g of its size, where rounding explains %.3g (limit %.3g). %zu "
        "of %zu tensors are beyond their limits; those behind the first may only "
        "inherit it.",
        oracle_place(a, row), row->error, row->expected, row->limit, o->wrong, o->rows.count);
}

static void add_finding(struct arena *a, const struct oracle_report *o, const char *dump,
                        struct finding_list *list)
{
    if (o->wrong == 0) {
        return;
    }
    const struct oracle_row *row = &o->rows.items[o->first];
    struct finding *f = VEC_PUSH(a, list);
    *f = (struct finding){
        .id = "step-diverges",
        .severity = SEVERITY_ERROR,
        .title = arena_fmt(a, "the step leaves float64 at the %s", oracle_place(a, row)),
        .claim = claim_of(a, o),
        .confidence = 1};
    *VEC_PUSH(a, &f->evidence) = (struct evidence){
        .source = dump,
        .text = arena_fmt(a, "%s: error %.3g, limit %.3g", row->name, row->error, row->limit)};
}

static const char *verdict_of(struct arena *a, const struct oracle_report *o, const char *against)
{
    static const char *const precisions[PRECISION_COUNT] = {"float64", "float32", "bfloat16"};
    if (against == NULL) {
        return arena_fmt(a, "loss %.10g over %zu labels; %zu tensors", o->loss, o->labels,
                         o->tensors);
    }
    const char *loss = isfinite(o->dump_loss) ? arena_fmt(a, "%.10g", o->dump_loss)
                                              : "not in the dump";
    return arena_fmt(a, "%s: %zu tensors of a %s step compared, %zu wrong; loss %.10g, theirs %s",
                     o->wrong == 0 ? "equal up to rounding" : "diverges", o->rows.count,
                     precisions[o->precision], o->wrong, o->loss, loss);
}

int train_oracle(struct train_job *job)
{
    struct cli *cli = job->cli;
    struct err err = {0};
    struct train_batch batch;
    struct oracle_report o;
    struct finding_list findings = {0};
    struct oracle_options options = {.folder = job->model_dir,
                                     .model = job->model,
                                     .against = cli_value(cli, "against", NULL),
                                     .out = cli_value(cli, "dump", NULL)};
    if (options.against == NULL && options.out == NULL) {
        return cli_fail(
            cli, EXIT_USAGE,
            "--oracle needs a dump to judge (--against FILE), or a file to write its own "
            "step to (--dump FILE)");
    }
    cli_progress(cli, "one step in float64");
    enum status s = own_batch(job, &batch, &options.batch, &err);
    s = s == ST_OK ? oracle_run(job->arena, &options, &o, &err) : s;
    cli_progress(cli, NULL);
    if (s != ST_OK) {
        return cli_fail(cli, train_exit(s), "%s", err.text);
    }
    struct report r = {.command = "train", .schema_version = 1};
    r.verdict = verdict_of(cli->arena, &o, options.against);
    if (options.against != NULL) {
        add_finding(cli->arena, &o, options.against, &findings);
        add_table(cli, &o, &r);
        r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &findings};
    }
    if (o.strange != 0) {
        *VEC_PUSH(cli->arena, &r.notes) = arena_fmt(
            cli->arena,
            "%zu tensors of the dump have no counterpart here and were not compared, such as %s",
            o.strange, o.strange_example);
    }
    return session_report(cli, &r, session_exit(&findings));
}
