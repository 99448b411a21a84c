// SPDX-License-Identifier: Apache-2.0
/* assay train MODEL --data FILE: the run itself, what it says while it works and at its end. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/session.h"
#include "cli/train/train.h"

static volatile int interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

struct story {
    struct train_job *job;
    struct trainer *trainer;
    double began;
    uint64_t first_step; /* done before this process */
    double first_loss;
    double last_loss;
    double last_mean;
    uint64_t tokens;
    double busy; /* seconds of updates */
    uint64_t log_every;
    const char *checkpoint;
    struct plan plan; /* made before */
};

static double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "1:02:03" */
static const char *clock_text(char *to, size_t size, double seconds)
{
    uint64_t s = seconds > 0 && seconds < 1e9 ? (uint64_t)seconds : 0;
    str_print(to, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
    return to;
}

static void on_step(void *ctx, const struct metrics_row *row)
{
    struct story *s = ctx;
    char left[32];
    uint64_t steps = s->job->options.steps;
    uint64_t done = row->step - s->first_step;
    s->busy += row->seconds;
    s->tokens += row->tokens;
    s->first_loss = done == 1 ? row->loss : s->first_loss;
    s->last_loss = row->loss;
    s->last_mean = row->loss_mean;
    double rate = (double)s->tokens / s->busy;
    (void)clock_text(left, sizeof left,
                     (seconds_now() - s->began) / (double)done * (double)(steps - row->step));
    if (row->step == steps || row->step == s->first_step + 1 || row->step % s->log_every == 0) {
        cli_note(s->job->cli,
                 "update %" PRIu64 "/%" PRIu64
                 "  loss %.4f  norm %.3g  lr %.3g  %.0f tokens/s  %s left",
                 row->step, steps, row->loss, row->grad_norm, row->learning_rate, rate, left);
    }
    cli_progress(s->job->cli, "update %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f tokens/s  %s left",
                 row->step, steps, row->loss, rate, left);
}

static void on_micro(void *ctx, uint64_t step, uint64_t done, uint64_t of)
{
    const struct story *s = ctx;
    if (of > 1) {
        cli_progress(s->job->cli,
                     "update %" PRIu64 "/%" PRIu64 ": micro-batch %" PRIu64 " of %" PRIu64,
                     step + 1, s->job->options.steps, done, of);
    }
}

static void on_evaluated(void *ctx, uint64_t step, double loss)
{
    const struct story *s = ctx;
    cli_note(s->job->cli, "update %" PRIu64 ": evaluation loss %.4f", step, loss);
}

static void on_saved(void *ctx, const char *path)
{
    struct story *s = ctx;
    s->checkpoint = arena_strdup(s->job->arena, path);
    cli_note(s->job->cli, "wrote %s", path);
}

/* ---- before ---- */

/* What a run finds in its folder: nothing, or a checkpoint that it was asked to go on from. */
static enum status look_for_checkpoint(struct train_job *job, const char **ret_path,
                                       struct err *err)
{
    bool resume = cli_flag(job->cli, "resume");
    *ret_path = NULL;
    if (job->output == NULL) {
        return resume ? err_set(err, ST_USAGE, "--resume needs --save DIR, the folder of the run")
                      : ST_OK;
    }
    TRY(save_latest(job->arena, job->output, ret_path, err));
    if (*ret_path != NULL && !resume) {
        return err_set(
            err, ST_USAGE,
            "'%s' is there already: add --resume to go on from it, or name another folder",
            *ret_path);
    }
    if (*ret_path == NULL && resume) {
        cli_note(job->cli, "there is no checkpoint in '%s' yet; training begins at the start",
                 job->output);
    }
    return ST_OK;
}

static enum status count_steps(struct train_job *job, struct trainer *t, struct err *err)
{
    uint64_t each = trainer_epoch_steps(&t->source, job->options.accumulate);
    if (t->options.steps == 0) {
        t->options.steps = (uint64_t)ceil((double)each * job->epochs);
    }
    job->options.steps = t->options.schedule.steps = t->options.steps;
    if (t->options.schedule.warmup >= t->options.steps &&
        t->options.schedule.kind != SCHEDULE_THREE_STAGE && t->options.schedule.warmup != 0) {
        return err_set(err, ST_USAGE,
                       "--warmup %" PRIu64 " is as long as the whole run of %" PRIu64 " updates",
                       t->options.schedule.warmup, t->options.steps);
    }
    return ST_OK;
}

/* Says beforehand what would be killed by the system in the middle. */
static enum status plan_fits(struct train_job *job, const struct dataset *data, struct story *story,
                             struct err *err)
{
    struct plan p;
    for (size_t i = 0; i < data->samples.count; i++) {
        size_t n = data->samples.items[i].count;
        job->longest = n > job->longest ? n : job->longest;
    }
    train_plan_of(job, &p);
    story->plan = p;
    if (p.available != 0 && p.fits == 0) {
        return err_set(
            err, ST_LIMIT,
            "training would take about %.2f GB, and %.2f GB are free; 'assay train ... --plan' "
            "says what takes it",
            (double)p.total / 1e9, (double)p.available / 1e9);
    }
    return ST_OK;
}

static enum status prepare(struct train_job *job, struct trainer *t, struct dataset sets[2],
                           struct story *story, struct err *err)
{
    const char *checkpoint;
    TRY(look_for_checkpoint(job, &checkpoint, err));
    TRY(train_job_data(job, &sets[0], &sets[1], err));
    TRY(plan_fits(job, &sets[0], story, err));
    cli_progress(job->cli, "reading the model");
    TRY(model_open(job->arena, job->model_dir, &job->model, &t->model, err));
    t->params = model_params(t->model);
    t->train = &sets[0];
    t->eval = sets[1].samples.count != 0 ? &sets[1] : NULL;
    t->options = job->options;
    t->target = (struct save_target){.output = job->output,
                                     .model_folder = job->model_dir,
                                     .lora = &job->model.lora,
                                     .keep = job->keep};
    if (!(job->options.schedule.lr > 0)) {
        cli_note(job->cli, "--lr 0: loss and gradients are computed, the weights stay as they are");
    }
    trainer_init(t);
    TRY(count_steps(job, t, err));
    train_job_settings(job);
    t->target.settings = job->settings;
    t->target.setting_count = job->setting_count;
    if (checkpoint != NULL) {
        TRY(trainer_resume(t, checkpoint, err));
        cli_note(job->cli, "goes on from %s", checkpoint);
        if (t->resumed_otherwise != NULL) {
            cli_note(
                job->cli,
                "matrix products were computed by %s, and are by %s on %u threads now: the run goes on "
                "within rounding, but not bit for bit (--blas, --threads)",
                t->resumed_otherwise, t->arithmetic.products, t->arithmetic.threads);
        }
        story->checkpoint = checkpoint;
    }
    story->first_step = t->state.step;
    return ST_OK;
}

/* ---- after ---- */

static const struct report_column summary_columns[] = {
    {"updates", "updates", 0},
    {"tokens", "tokens", 0},
    {"first_loss", "first loss", 5},
    {"last_loss", "last loss", 5},
    {"mean_loss", "mean of last 100", 5},
    {"eval_loss", "evaluation", 5},
    {"tokens_per_second", "tokens/s", 4},
    {"planned_bytes", "planned bytes", 0},
    {"peak_bytes", "peak bytes", 0},
    {"checkpoint", "checkpoint", 0},
};

static struct value real_or_null(double x)
{
    return isfinite(x) ? value_real(x) : (struct value){.kind = VALUE_NULL};
}

static const struct report_column memory_columns[] = {
    {"memory", "memory", 0},
    {"planned_bytes", "planned bytes", 0},
    {"measured_bytes", "measured", 0},
};

/* What --plan counts, beside what this run took. */
static void add_memory(const struct story *s, struct report *r)
{
    const struct plan *p = &s->plan;
    const struct param_list *params = s->trainer->params;
    uint64_t size = params->precision == PRECISION_F64 ? sizeof(double) : sizeof(float);
    uint64_t weights = 0;
    uint64_t trained = 0;
    for (size_t i = 0; i < params->count; i++) {
        weights += params->items[i].count;
        trained += params->items[i].trainable ? params->items[i].count : 0;
    }

    const struct {
        const char *kind;
        uint64_t planned, measured;
    } rows[] = {
        {"weights", p->weights, weights * size},
        {"gradients", p->gradients, trained * size},
        {"gradients before", p->gradients_before,
         s->trainer->before != NULL ? trained * sizeof(float) : 0},
        {"optimizer", p->optimizer, optim_bytes(params, &s->job->options.optim)},
        {"activations and logits", p->activations + p->logits,
         model_activation_bytes(s->trainer->model)},
        {"peak, with the program", p->total, metrics_memory(true)},
    };

    size_t width = ARRAY_LEN(memory_columns);
    struct value *cells = arena_array(s->job->cli->arena, ARRAY_LEN(rows) * width, sizeof *cells);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cells[width * i] = value_string(rows[i].kind);
        cells[width * i + 1] = value_int((int64_t)rows[i].planned);
        cells[width * i + 2] = value_int((int64_t)rows[i].measured);
    }
    r->tables[r->table_count++] = (struct report_table){.key = "memory",
                                                        .columns = memory_columns,
                                                        .column_count = width,
                                                        .cells = cells,
                                                        .row_count = ARRAY_LEN(rows)};
}

static int report_run(const struct story *s)
{
    struct train_job *job = s->job;
    struct trainer *t = s->trainer;
    struct report r = {.command = "train", .schema_version = 1};
    struct value *row = arena_array(job->cli->arena, ARRAY_LEN(summary_columns), sizeof *row);
    uint64_t done = t->state.step - s->first_step;
    row[0] = value_int((int64_t)t->state.step);
    row[1] = value_int((int64_t)t->state.tokens);
    row[2] = real_or_null(done != 0 ? s->first_loss : NAN);
    row[3] = real_or_null(done != 0 ? s->last_loss : NAN);
    row[4] = real_or_null(done != 0 ? s->last_mean : NAN);
    row[5] = real_or_null(t->last_eval);
    row[6] = real_or_null(s->busy > 0 ? (double)s->tokens / s->busy : NAN);
    row[7] = value_int((int64_t)s->plan.total);
    row[8] = value_int((int64_t)metrics_memory(true));
    if (s->checkpoint != NULL) {
        row[9] = value_string(s->checkpoint);
    }
    r.tables[r.table_count++] = (struct report_table){.key = "run",
                                                      .columns = summary_columns,
                                                      .column_count = ARRAY_LEN(summary_columns),
                                                      .cells = row,
                                                      .row_count = 1};
    add_memory(s, &r);
    bool whole = t->state.step == t->options.steps;
    if (done == 0) {
        r.verdict = arena_fmt(job->cli->arena,
                              "nothing to do: all %" PRIu64 " updates were done before",
                              t->options.steps);
    } else {
        r.verdict = arena_fmt(job->cli->arena,
                              "%s %" PRIu64 " of %" PRIu64 " updates: loss %.4f to %.4f",
                              whole ? "trained" : "stopped after", t->state.step, t->options.steps,
                              s->first_loss, s->last_loss);
    }
    return session_report(job->cli, &r, whole ? EXIT_FINE : EXIT_UNKNOWN);
}

static int run_prepared(struct train_job *job, struct trainer *t, struct story *story)
{
    struct err err = {0};
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    story->began = seconds_now();
    t->stop = &interrupted;
    t->events = (struct train_events){.step = on_step,
                                      .micro = on_micro,
                                      .evaluated = on_evaluated,
                                      .saved = on_saved,
                                      .ctx = story};
    enum status status = trainer_run(t, &err);
    cli_progress(job->cli, NULL);
    if (status ==
        ST_FORMAT) { /* a value that is not finite: a fault of the run, not of its input */
        return cli_fail(job->cli, EXIT_FAULT, "%s", err.text);
    }
    if (status != ST_OK) {
        return cli_fail(job->cli, train_exit(status), "%s", err.text);
    }
    return report_run(story);
}

int train_run(struct train_job *job)
{
    struct err err = {0};
    struct dataset sets[2];
    struct trainer t = {.arena = job->arena, .scratch = arena_new(0)};
    struct story story = {.job = job, .trainer = &t, .log_every = 10};
    enum status status = prepare(job, &t, sets, &story, &err);
    int result = status != ST_OK ? cli_fail(job->cli, train_exit(status), "%s", err.text)
                                 : run_prepared(job, &t, &story);
    if (t.model != NULL) {
        model_close(t.model);
    }
    arena_free(t.scratch);
    return result;
}
