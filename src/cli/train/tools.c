// SPDX-License-Identifier: Apache-2.0
/* assay train MODEL --plan: bytes before anything is started. --shrink DIR: a small model of the same family. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cli/session.h"
#include "cli/train/train.h"
#include "model/safetensors_write.h"
#include "train/shrink.h"

void train_plan_of(const struct train_job *job, struct plan *ret_plan)
{
    size_t longest = job->longest != 0 ? job->longest : (size_t)job->length;
    size_t packed = job->options.limits.tokens;
    struct plan_wish wish = {.config = &job->config,
                             .model = &job->model,
                             .optim = &job->options.optim,
                             .brief = job->options.brief,
                             .tokens = packed != 0 ? packed
                                                   : longest * job->options.limits.sequences,
                             .longest = longest,
                             .threads = job->model.threads};
    plan_make(&wish, ret_plan);
}

/* ---- --plan ---- */

static const struct report_column plan_columns[] = {
    {"kind", "kind", 0},
    {"bytes", "bytes", 0},
    {"how", "how", 0},
};

static const char *fits_text(struct arena *a, const struct train_job *job, const struct plan *p)
{
    size_t batch = job->options.limits.sequences;
    if (p->available == 0) {
        return "free memory could not be read";
    }
    if (p->fits == 0) {
        return arena_fmt(
            a,
            "%.2f GB are free: it does not fit; try --recompute, --lora, a smaller --batch or "
            "--length",
            (double)p->available / 1e9);
    }
    return arena_fmt(a, "%.2f GB are free: it fits, and so would --batch %" PRIu64,
                     (double)p->available / 1e9, p->fits * batch);
}

int train_plan(struct train_job *job)
{
    struct arena *a = job->cli->arena;
    struct plan p;
    train_plan_of(job, &p);
    size_t tokens = (size_t)job->length * job->options.limits.sequences;
    const char *precision = job->model.precision == PRECISION_F64 ? "8" : "4";

    const struct {
        const char *kind;
        uint64_t bytes;
        const char *how;
    } rows[] = {
        {"weights", p.weights,
         arena_fmt(a, "%" PRIu64 " at %s bytes", p.counts.weights + p.counts.adapters, precision)},
        {"gradients", p.gradients, arena_fmt(a, "%" PRIu64 " trained at %s", p.trained, precision)},
        {"gradients before", p.gradients_before, "for their cosine; none with --brief"},
        {"optimizer", p.optimizer,
         job->model.precision == PRECISION_BF16 && !job->options.optim.pure
             ? "two moments and a float32 master"
             : "two moments"},
        {"activations", p.activations,
         arena_fmt(a, "%zu tokens%s", tokens, job->model.recompute ? ", --recompute" : "")},
        {"logits", p.logits, "a chunk of rows at a time"},
        {"program", p.program, "this process now"},
        {"total", p.total, "peak"},
    };
    struct value *cells = arena_array(a, ARRAY_LEN(rows) * ARRAY_LEN(plan_columns), sizeof *cells);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cells[3 * i] = value_string(rows[i].kind);
        cells[3 * i + 1] = value_int((int64_t)rows[i].bytes);
        cells[3 * i + 2] = value_string(rows[i].how);
    }
    struct report r = {.command = "train", .schema_version = 1};
    r.tables[r.table_count++] = (struct report_table){.key = "plan",
                                                      .columns = plan_columns,
                                                      .column_count = ARRAY_LEN(plan_columns),
                                                      .cells = cells,
                                                      .row_count = ARRAY_LEN(rows)};
    r.numbers[r.number_count++] = (struct report_number){"available_bytes", (int64_t)p.available};
    r.numbers[r.number_count++] = (struct report_number){
        "batch_that_fits", (int64_t)(p.fits * job->options.limits.sequences)};
    if (job->config.vision != NULL) {
        *VEC_PUSH(a, &r.notes) = "the vision tower's weights are counted, pictures are not";
    }
    r.verdict = arena_fmt(a, "about %.2f GB at the peak; %s", (double)p.total / 1e9,
                          fits_text(a, job, &p));
    return session_report(job->cli, &r,
                          p.available == 0 ? EXIT_UNKNOWN
                          : p.fits == 0    ? EXIT_FAULT
                                           : EXIT_FINE);
}

/* ---- --shrink ---- */

/* 100M, 1.5B, 250000 */
static bool read_params(const char *text, uint64_t *ret)
{
    double factor = 1;
    double value;
    struct str s = str_of(text);
    if (s.n != 0 && strchr("kKmMbB", s.p[s.n - 1]) != NULL) {
        char unit = s.p[--s.n];
        factor = unit == 'k' || unit == 'K' ? 1e3 : unit == 'm' || unit == 'M' ? 1e6 : 1e9;
    }
    if (str_to_double(s, &value) != ST_OK || !(value > 0 && value * factor <= 1e15)) {
        return false;
    }
    *ret = (uint64_t)(value * factor);
    return true;
}

/* The type that config.json says its weights have. */
static enum dtype stored_as(const struct model_config *c)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    enum dtype t;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *text = tree_text(c->text, keys[i], tree_text(c->root, keys[i], NULL));
        if (text != NULL && dtype_find(str_of(text), &t) && dtype_info(t)->is_float) {
            return t;
        }
    }
    return DTYPE_F32;
}

/* Random weights for the configuration in `draft`, written to `folder`. */
static enum status fill_and_save(struct train_job *job, const char *draft, const char *folder,
                                 struct err *err)
{
    struct train_model *model;
    struct model_options options = job->model;
    options.random = true;
    options.precision = PRECISION_F32;
    options.lora = (struct lora_options){0};
    TRY(model_open(job->arena, draft, &options, &model, err));
    struct param_list *params = model_params(model);
    for (size_t i = 0; i < params->count; i++) {
        params->items[i].file_dtype = stored_as(&job->config);
    }
    struct save_target target = {.model_folder = draft, .params = params};
    enum status status = save_model(job->arena, folder, &target, err);
    model_close(model);
    return status;
}

static enum status write_small(struct train_job *job, const char *folder, uint64_t params,
                               uint64_t *ret_params, struct err *err)
{
    const char *text;
    const char *draft = arena_fmt(job->arena, "%s.draft", folder);
    TRY(shrink_config(job->arena, &job->config, params, &text, ret_params, err));
    if (access(folder, F_OK) == 0) {
        return err_set(err, ST_USAGE, "'%s' is there already; name a folder that is not", folder);
    }
    TRY(save_make_folder(draft, err));
    enum status status = save_copy_files(job->arena, job->model_dir, draft, false, err);
    if (status == ST_OK) {
        status = safe_file_write(job->arena, arena_fmt(job->arena, "%s/config.json", draft),
                                 str_of(text), err);
    }
    if (status == ST_OK) {
        status = fill_and_save(job, draft, folder, err);
    }
    struct err second;
    (void)!save_remove_folder(job->arena, draft, &second);
    return status;
}

int train_shrink(struct train_job *job)
{
    struct err err = {0};
    uint64_t params = 100000000;
    const char *wished = cli_value(job->cli, "params", NULL);
    const char *folder = train_absolute(job, cli_value(job->cli, "shrink", NULL));
    if (wished != NULL && !read_params(wished, &params)) {
        return cli_fail(job->cli, EXIT_USAGE,
                        "--params takes a number such as 250000, 20M or 1.5B, not '%s'", wished);
    }
    enum status status = write_small(job, folder, params, &params, &err);
    if (status != ST_OK) {
        return cli_fail(job->cli, train_exit(status), "%s", err.text);
    }
    struct report r = {.command = "train", .schema_version = 1};
    r.numbers[r.number_count++] = (struct report_number){"parameters", (int64_t)params};
    r.verdict = arena_fmt(job->cli->arena,
                          "wrote '%s': %" PRIu64 " parameters, random weights, seed %" PRIu64,
                          folder, params, job->options.limits.seed);
    return session_report(job->cli, &r, EXIT_FINE);
}

/* ---- --convert ---- */

int train_convert(struct train_job *job)
{
    struct err err = {0};
    struct train_model *model;
    struct model_options options = job->model;
    const char *folder = train_absolute(job, cli_value(job->cli, "convert", NULL));
    options.precision = PRECISION_F32;
    options.lora = (struct lora_options){0};
    if (job->model.lora.rank != 0) {
        return cli_fail(job->cli, EXIT_USAGE,
                        "--convert writes the model as it is: leave --lora and --adapter out");
    }
    cli_progress(job->cli, "reading %s", job->model_dir);
    enum status status = model_open(job->arena, job->model_dir, &options, &model, &err);
    uint64_t values = 0;
    if (status == ST_OK) {
        struct save_target target = {.model_folder = job->model_dir, .params = model_params(model)};
        for (size_t i = 0; i < target.params->count; i++) {
            values += target.params->items[i].count;
        }
        status = save_model(job->arena, folder, &target, &err);
        model_close(model);
    }
    cli_progress(job->cli, NULL);
    if (status != ST_OK) {
        return cli_fail(job->cli, train_exit(status), "%s", err.text);
    }
    struct report r = {.command = "train", .schema_version = 1};
    r.numbers[r.number_count++] = (struct report_number){"parameters", (int64_t)values};
    r.verdict = arena_fmt(job->cli->arena, "wrote '%s': %" PRIu64 " parameters", folder, values);
    return session_report(job->cli, &r, EXIT_FINE);
}
