// SPDX-License-Identifier: Apache-2.0
/* Updates in a row, with evaluation and checkpoints between them. */
#include "train/loop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 1 << 20
};

static double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t trainer_epoch_steps(struct batch_source *source, uint64_t accumulate)
{
    return (batch_count(source) + accumulate - 1) / accumulate;
}

static void computed_by(const struct trainer *t, struct save_state *s)
{
    str_print(s->products, sizeof s->products, "%s", t->arithmetic.products);
    s->threads = t->arithmetic.threads;
}

void trainer_init(struct trainer *t)
{
    size_t n = t->params->count;
    batch_source_init(t->arena, t->train, &t->options.limits, &t->source);
    optim_init(t->arena, t->params, &t->options.optim, &t->optim);
    metrics_groups_init(t->arena, t->params, &t->groups);
    t->grads = arena_array(t->arena, n, sizeof *t->grads);
    t->before = NULL;
    t->have_before = false;
    t->metrics_fd = -1;
    t->last_eval = NAN;
    t->arithmetic = model_arithmetic(t->model);
    t->resumed_otherwise = NULL;
    t->state = (struct save_state){.clip = t->options.clip, .data_hash = data_hash(t->train)};
    computed_by(t, &t->state);
    t->target.params = t->params;
    t->target.optim = &t->optim;
    if (!t->options.brief) {
        t->before = arena_array(t->arena, n, sizeof *t->before);
        for (size_t i = 0; i < n; i++) {
            if (t->params->items[i].trainable) {
                t->before[i] = arena_array(t->arena, t->params->items[i].count, sizeof(float));
            }
        }
    }
}

enum status trainer_resume(struct trainer *t, const char *checkpoint, struct err *err)
{
    struct save_state state;
    struct arena_mark mark = arena_mark(t->scratch);
    TRY(save_load(t->scratch, checkpoint, &t->target, &t->optim, &state, err));
    arena_rewind(t->scratch, mark);
    if (state.data_hash != t->state.data_hash) {
        return err_set(
            err, ST_USAGE,
            "the training data are not those that '%s' was written with (hash %016" PRIx64
            ", now %016" PRIx64 "); a resumed run goes on with the data it began with",
            checkpoint, state.data_hash, t->state.data_hash);
    }
    bool other = strcmp(state.products, t->state.products) != 0;
    if (state.products[0] != '\0' &&
        (other || (t->arithmetic.library && state.threads != t->state.threads))) {
        t->resumed_otherwise = arena_fmt(t->arena, "%s on %" PRIu64 " threads", state.products,
                                         state.threads);
    }
    computed_by(t, &state);
    state.clip.kind = t->options.clip.kind;
    state.clip.max_norm = t->options.clip.max_norm;
    t->state = state;
    t->source.place = state.place;
    return ST_OK;
}

/* ---- one update ---- */

struct micro_batches {
    struct train_batch *items;
    size_t count;
    uint64_t tokens;
    uint64_t labels;
};

/* The micro-batches of the next update; all of one epoch. */
static void gather(struct trainer *t, struct micro_batches *ret)
{
    struct micro_batches m = {
        .items = arena_array(t->scratch, (size_t)t->options.accumulate, sizeof *m.items)};
    while (m.count < t->options.accumulate) {
        if (!batch_next(&t->source, t->scratch, &m.items[m.count])) {
            if (m.count != 0) {
                break;
            }
            continue; /* the epoch had ended with the update before */
        }
        m.tokens += m.items[m.count].tokens;
        m.labels += batch_labels(&m.items[m.count]);
        m.count++;
    }
    *ret = m;
}

/* Sum of losses; gradients of the mean over all labels. */
static enum status accumulate(struct trainer *t, const struct micro_batches *m, double *ret_sum,
                              struct err *err)
{
    double sum = 0;
    model_zero_grad(t->model);
    for (size_t i = 0; i < m->count; i++) {
        double part;
        size_t labels;
        TRY(model_forward(t->model, &m->items[i], &part, &labels, err));
        if (!isfinite(part)) {
            return loop_not_finite(t, &m->items[i], "the loss", err);
        }
        sum += part;
        model_backward(t->model, 1.0 / (double)m->labels);
        if (t->events.micro != NULL) {
            t->events.micro(t->events.ctx, t->state.step, i + 1, m->count);
        }
    }
    *ret_sum = sum;
    return ST_OK;
}

static void remember_loss(struct save_state *s, double loss, struct metrics_row *row)
{
    s->window[s->step % SAVE_WINDOW] = loss;
    size_t n = s->step + 1 < SAVE_WINDOW ? (size_t)s->step + 1 : SAVE_WINDOW;
    double mean = 0;
    double variance = 0;
    for (size_t i = 0; i < n; i++) {
        mean += s->window[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        variance += (s->window[i] - mean) * (s->window[i] - mean) / (double)n;
    }
    row->loss_mean = mean;
    row->loss_variance = variance;
}

static enum status check_gradients(struct trainer *t, const struct micro_batches *m, double norm,
                                   struct err *err)
{
    if (isfinite(norm)) {
        return ST_OK;
    }
    return loop_not_finite(t, &m->items[m->count - 1], "the norm of the gradients", err);
}

static double epochs_done(const struct trainer *t)
{
    return (double)t->source.place.epoch +
           (double)t->source.place.next / (double)t->train->samples.count;
}

enum status trainer_step(struct trainer *t, struct metrics_row *ret_row, struct err *err)
{
    double began = seconds_now();
    struct arena_mark mark = arena_mark(t->scratch);
    struct save_state *s = &t->state;
    struct metrics_row row = {.learning_rate = schedule_lr(&t->options.schedule, s->step)};
    struct micro_batches m;
    double sum = 0;
    gather(t, &m);
    TRY(accumulate(t, &m, &sum, err));
    grad_look(t->scratch, t->params, t->before, t->have_before, t->options.threads, t->grads);
    t->have_before = t->before != NULL;
    row.grad_norm = grad_norm(t->grads, t->params->count);
    TRY(check_gradients(t, &m, row.grad_norm, err));
    row.clip_factor = clip_factor(&s->clip, row.grad_norm);
    optim_step(&t->optim, row.learning_rate, row.clip_factor);
    row.loss = sum / (double)m.labels;
    remember_loss(s, row.loss, &row);
    s->step++;
    s->place = t->source.place;
    s->tokens += m.tokens;
    s->labels += m.labels;
    s->clipped += row.clip_factor < 1;
    row.step = s->step;
    row.epoch = epochs_done(t);
    row.tokens = m.tokens;
    row.labels = m.labels;
    row.tokens_seen = s->tokens;
    row.clipped_share = (double)s->clipped / (double)s->step;
    row.memory_bytes = metrics_memory(false);
    if (!t->options.brief) {
        metrics_sum(&t->groups, t->params, t->grads, t->optim.change, &row);
    }
    row.seconds = seconds_now() - began;
    *ret_row = row;
    arena_rewind(t->scratch, mark);
    return ST_OK;
}

enum status trainer_evaluate(struct trainer *t, const struct dataset *data, double *ret_loss,
                             uint64_t *ret_labels, struct err *err)
{
    struct batch_source source;
    struct batch_limits limits = t->options.limits;
    struct train_batch batch;
    struct arena_mark mark = arena_mark(t->scratch);
    double sum = 0;
    uint64_t labels = 0;
    limits.shuffle = false;
    batch_source_init(t->scratch, data, &limits, &source);
    struct arena_mark each = arena_mark(t->scratch);
    while (batch_next(&source, t->scratch, &batch)) {
        double part;
        size_t count;
        TRY(model_forward(t->model, &batch, &part, &count, err));
        sum += part;
        labels += count;
        arena_rewind(t->scratch, each);
    }
    arena_rewind(t->scratch, mark);
    *ret_loss = sum / (double)labels;
    *ret_labels = labels;
    return ST_OK;
}

/* ---- the run ---- */

static enum status evaluate_and_tell(struct trainer *t, struct err *err)
{
    double began = seconds_now();
    double loss;
    uint64_t labels;
    struct strbuf line;
    struct arena_mark mark = arena_mark(t->scratch);
    struct metrics_activations seen = {.precision = t->params->precision,
                                       .layers = model_layers(t->model)};
    seen.entropy = arena_array(t->scratch, seen.layers, sizeof *seen.entropy);
    model_watch(t->model, t->options.brief ? NULL : metrics_watch, &seen);
    enum status status = trainer_evaluate(t, t->eval, &loss, &labels, err);
    model_watch(t->model, NULL, NULL);
    TRY(status);
    t->last_eval = loss;
    strbuf_init(&line, t->scratch, LINE_MAX_BYTES);
    metrics_eval_line(t->state.step, loss, labels, seconds_now() - began,
                      t->options.brief ? NULL : &seen, &line);
    TRY(loop_write_metrics(t, strbuf_str(&line), err));
    arena_rewind(t->scratch, mark);
    if (t->events.evaluated != NULL) {
        t->events.evaluated(t->events.ctx, t->state.step, loss);
    }
    return ST_OK;
}

static enum status save_and_tell(struct trainer *t, struct err *err)
{
    struct arena_mark mark = arena_mark(t->scratch);
    const char *path;
    if (t->target.output == NULL) {
        return ST_OK;
    }
    TRY(save_checkpoint(t->scratch, &t->target, &t->state, &path, err));
    if (t->events.saved != NULL) {
        t->events.saved(t->events.ctx, path);
    }
    arena_rewind(t->scratch, mark);
    return ST_OK;
}

static bool due(uint64_t every, uint64_t step, bool last)
{
    return last || (every != 0 && step % every == 0);
}

static enum status one_step(struct trainer *t, struct err *err)
{
    struct metrics_row row;
    struct strbuf line;
    TRY(trainer_step(t, &row, err));
    struct arena_mark mark = arena_mark(t->scratch);
    strbuf_init(&line, t->scratch, LINE_MAX_BYTES);
    metrics_line(&row, &line);
    TRY(loop_write_metrics(t, strbuf_str(&line), err));
    arena_rewind(t->scratch, mark);
    if (t->events.step != NULL) {
        t->events.step(t->events.ctx, &row);
    }
    bool last = t->state.step == t->options.steps || (t->stop != NULL && *t->stop != 0);
    if (t->eval != NULL && due(t->options.eval_every, row.step, last)) {
        TRY(evaluate_and_tell(t, err));
    }
    return due(t->options.save_every, row.step, last) ? save_and_tell(t, err) : ST_OK;
}

enum status trainer_run(struct trainer *t, struct err *err)
{
    enum status status = ST_OK;
    if (t->target.output != NULL) {
        TRY(loop_open_metrics(t, t->state.step, err));
    }
    while (status == ST_OK && t->state.step < t->options.steps &&
           (t->stop == NULL || *t->stop == 0)) {
        status = one_step(t, err);
    }
    if (t->metrics_fd >= 0) {
        (void)close(t->metrics_fd);
        t->metrics_fd = -1;
    }
    return status;
}
