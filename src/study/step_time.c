// SPDX-License-Identifier: Apache-2.0
/* See step_time.h. */
#include "study/step_time.h"

#include <math.h>
#include <stdbool.h>

#include "study/stats.h"

enum {
    INTERVALS_MIN = 4, /* fewer tell nothing of what is usual */
    STRETCH_MIN = 16   /* so many long ones in a row are no pause: so the run steps now */
};

struct interval {
    double seconds; /* a step */
    double steps;
    bool eval, save;
};

struct intervals {
    struct interval *items;
    size_t count;
};

/* Was there an evaluation at a step in [from, to)? It runs after its step was logged. */
static bool has_eval(const struct curve *eval, int64_t from, int64_t to)
{
    for (size_t i = 0; i < eval->count; i++) {
        if (eval->items[i].step >= from && eval->items[i].step < to) {
            return true;
        }
    }
    return false;
}

/* Was a checkpoint written after the line at `from`? */
static bool has_save(const struct run_log *log, double from, double to)
{
    for (size_t i = 0; i < log->save_times.count; i++) {
        if (log->save_times.items[i] >= from && log->save_times.items[i] < to) {
            return true;
        }
    }
    return false;
}

static struct intervals between_stamps(struct arena *a, const struct run_log *log)
{
    const struct curve *c = &log->loss;
    struct intervals out = {.items = arena_array(a, c->count + 1, sizeof *out.items)};
    for (size_t i = 1; i < c->count; i++) {
        const struct curve_point *from = &c->items[i - 1];
        const struct curve_point *to = &c->items[i];
        double steps = (double)(to->step - from->step);
        double seconds = (to->time - from->time) / steps;
        if (seconds > 0 && steps > 0) {
            out.items[out.count++] = (struct interval){
                .seconds = seconds,
                .steps = steps,
                .eval = has_eval(&log->eval_loss, from->step, to->step),
                .save = has_save(log, from->time, to->time)};
        }
    }
    return out;
}

static struct intervals printed(struct arena *a, const struct run_log *log)
{
    const struct curve *c = &log->step_time;
    struct intervals out = {.items = arena_array(a, c->count + 1, sizeof *out.items)};
    for (size_t i = 0; i < c->count; i++) {
        double steps = i > 0 ? (double)(c->items[i].step - c->items[i - 1].step) : 1;
        if (isfinite(c->items[i].value)) {
            out.items[out.count++] = (struct interval){.seconds = c->items[i].value,
                                                       .steps = steps};
        }
    }
    return out;
}

/* The largest length that is still usual; evaluation aside. */
static double usual_limit(struct arena *a, const struct intervals *in, double *ret_median)
{
    double *v = arena_array(a, in->count + 1, sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < in->count; i++) {
        if (!in->items[i].eval && !in->items[i].save) {
            v[n++] = in->items[i].seconds;
        }
    }
    *ret_median = stats_median(a, v, n);
    double spread = 5 * stats_robust_sd(a, v, n);
    double floor = 0.25 * *ret_median;
    return *ret_median + (spread > floor ? spread : floor);
}

/* Long intervals that follow each other from `from` on; evaluation and saving between them do not end it. */
static size_t stretch_at(const struct intervals *in, size_t from, double limit)
{
    size_t n = 0;
    for (size_t i = from; i < in->count; i++) {
        const struct interval *v = &in->items[i];
        if (v->eval || v->save) {
            continue;
        }
        if (v->seconds <= limit) {
            break;
        }
        n++;
    }
    return n;
}

static void sort_out(struct arena *a, const struct intervals *in, struct step_time *t)
{
    double median;
    double limit = usual_limit(a, in, &median);
    bool warm = false;
    size_t stretch = 0; /* intervals of it that are still to come */
    double slow_steps = 0;
    double slow_seconds = 0;
    double steps = 0;
    double seconds = 0;
    t->steady = arena_array(a, in->count + 1, sizeof *t->steady);
    for (size_t i = 0; i < in->count; i++) {
        const struct interval *v = &in->items[i];
        double extra = (v->seconds - median) * v->steps;
        extra = extra > 0 ? extra : 0;
        if (v->eval) {
            t->evals++;
            t->eval_s += extra;
            continue;
        }
        if (v->save) {
            t->saves++;
            t->save_s += extra;
            continue;
        }
        if (warm && stretch == 0 && v->seconds > limit) {
            size_t n = stretch_at(in, i, limit);
            stretch = n >= STRETCH_MIN ? n : 0;
        }
        if (stretch > 0 || v->seconds <= limit) {
            warm = true;
            slow_steps += stretch > 0 ? v->steps : 0;
            slow_seconds += stretch > 0 ? v->seconds * v->steps : 0;
            stretch -= stretch > 0;
            t->steady[t->steady_count++] = v->seconds;
            steps += v->steps;
            seconds += v->seconds * v->steps;
        } else if (!warm) {
            t->warmup_steps += (int64_t)v->steps;
            t->warmup_s += extra;
        } else {
            t->pauses++;
            t->pause_s += extra;
        }
    }
    t->slow_steps = slow_steps;
    t->slow_seconds = slow_steps > 0 ? slow_seconds / slow_steps : NAN;
    t->seconds = steps > 0 ? seconds / steps : NAN;
    t->median = stats_median(a, t->steady, t->steady_count);
    t->p95 = stats_quantile(a, t->steady, t->steady_count, 0.95);
}

void step_time_of(struct arena *a, const struct run_log *log, struct step_time *ret_time)
{
    struct step_time t = {
        .seconds = NAN, .median = NAN, .p95 = NAN, .start_s = NAN, .slow_seconds = NAN};
    struct intervals in = printed(a, log);
    t.source = STEP_TIME_PRINTED;
    if (in.count < INTERVALS_MIN) {
        in = between_stamps(a, log);
        t.source = STEP_TIME_STAMPS;
    }
    if (log->loss.count > 0) {
        t.start_s = log->loss.items[0].time;
    }
    if (in.count >= INTERVALS_MIN) {
        sort_out(a, &in, &t);
    } else if (log->train_runtime_s > 0 && log->last_step > 0) {
        t.source = STEP_TIME_RUNTIME;
        t.seconds = log->train_runtime_s / (double)log->last_step;
    } else {
        t.source = STEP_TIME_NONE;
    }
    *ret_time = t;
}

const char *step_time_source_name(enum step_time_source s)
{
    static const char *const names[] = {
        [STEP_TIME_NONE] = "no times",
        [STEP_TIME_STAMPS] = "time stamps of the lines",
        [STEP_TIME_PRINTED] = "step times that the program printed",
        [STEP_TIME_RUNTIME] = "train_runtime over all steps, with warm-up and pauses in it",
    };
    return names[s];
}
