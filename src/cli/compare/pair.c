// SPDX-License-Identifier: Apache-2.0
/* See compare_pair.h. */
#include "cli/compare/pair.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "cli/session.h"
#include "study/stats.h"

struct pairing {
    struct cli *cli;
    struct arena *arena;
    bool force;
    double max_ratio;
    struct compare_pair *p;
};

static struct finding *add(struct pairing *g, const char *id, enum severity severity,
                           const char *title, const char *claim)
{
    struct finding *f = VEC_PUSH(g->arena, &g->p->findings);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    return f;
}

static void add_lines(struct arena *a, struct finding *f, const char *source,
                      const struct text_list *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = source, .text = lines->items[i]};
    }
}

/* ---- may they be compared? ---- */

static void compare_inputs(struct pairing *g)
{
    struct compare_pair *p = g->p;
    struct arena *a = g->arena;
    /* Every run against the first of A: equality is transitive. */
    inputs_compare(a, &p->a->items[0].inputs, &p->b->items[0].inputs, &p->inputs);
    const struct compare_route *routes[2] = {p->a, p->b};
    for (int s = 0; s < 2; s++) {
        for (size_t i = 1; i < routes[s]->count; i++) {
            struct inputs_comparison c;
            inputs_compare(a, &p->a->items[0].inputs, &routes[s]->items[i].inputs, &c);
            if (c.verdict != INPUTS_SAME && p->inputs.verdict != INPUTS_DIFFER) {
                p->inputs = c;
            }
        }
    }
    const char *names = arena_fmt(a, "%s and %s", p->a->name, p->b->name);
    if (p->inputs.verdict == INPUTS_SAME) {
        add(g, "inputs-equal", SEVERITY_OK,
            arena_fmt(a, "%s read the same inputs: %zu %s equal", names, p->inputs.proven,
                      p->inputs.proven == 1 ? "digest is" : "digests are"),
            "Scripts, models and data that the command line and its configuration files name are "
            "equal byte for byte. What a program reads besides, unseen, is not on record.");
        return;
    }
    bool differ = p->inputs.verdict == INPUTS_DIFFER;
    p->refused = !g->force;
    struct finding *f = add(
        g, differ ? "inputs-differ" : "inputs-unproven",
        g->force ? SEVERITY_NOTE : SEVERITY_UNKNOWN,
        arena_fmt(a, differ ? "the inputs of %s differ" : "the inputs of %s are not proven equal",
                  names),
        g->force ? "Compared all the same, as --force asks: a difference below may come from the "
                   "inputs alone."
                 : "A difference between them could come from the inputs alone, so nothing is "
                   "compared. Freeze the inputs, or give --force to compare all the same.");
    add_lines(a, f, "run.json", differ ? &p->inputs.differ : &p->inputs.unknown);
}

static void compare_setups(struct pairing *g)
{
    struct compare_pair *p = g->p;
    struct arena *a = g->arena;
    struct text_list speed = {0};
    struct text_list loss = {0};
    struct text_list other = {0};
    setup_compare(a, &p->a->items[0].setup, &p->b->items[0].setup, &p->setup);
    for (size_t i = 0; i < p->setup.count; i++) {
        const struct setup_difference *d = &p->setup.items[i];
        const char *line = arena_fmt(a, "%s: %.80s in %s, %.80s in %s", d->name, d->a, p->a->name,
                                     d->b, p->b->name);
        /* Names of inputs: the digests, or the user with --force, settled that already. */
        bool settled = (d->bits & SETUP_INPUT) != 0;
        if ((d->bits & SETUP_SPEED) != 0 && !settled) {
            *VEC_PUSH(a, &speed) = line;
        }
        if ((d->bits & SETUP_LOSS) != 0 && !settled) {
            *VEC_PUSH(a, &loss) = line;
        }
        if ((d->bits & (SETUP_LOSS | SETUP_SPEED)) == 0) {
            *VEC_PUSH(a, &other) = line;
        }
    }
    p->like_work = speed.count == 0;
    p->like_losses = loss.count == 0;
    if (!p->like_work) {
        add_lines(
            a,
            add(g, "ratio-of-unlike-work", SEVERITY_NOTE,
                arena_fmt(a, "no ratios of %s and %s: the work of a step differs", p->a->name,
                          p->b->name),
                "A ratio of times over unlike work is no speed-up, and such ratios must not be "
                "multiplied with others."),
            "set-up", &speed);
    }
    if (!p->like_losses) {
        add_lines(
            a,
            add(g, "losses-of-unlike-training", SEVERITY_UNKNOWN,
                arena_fmt(a, "the losses of %s and %s are not comparable", p->a->name, p->b->name),
                "The set-ups differ in what the losses depend on, so a difference of losses "
                "says nothing of the stack."),
            "set-up", &loss);
    }
    if (other.count > 0) {
        add_lines(a,
                  add(g, "set-up-differs", SEVERITY_NOTE,
                      arena_fmt(a, "%s and %s are set up differently", p->a->name, p->b->name),
                      "These keys are not known to change the work or the losses; they may be the "
                      "contrast itself."),
                  "set-up", &other);
    }
    struct text_list environment;
    compare_environment(a, p->a->items[0].run, p->b->items[0].run, &environment);
    if (environment.count > 0) {
        add_lines(a,
                  add(g, "environment-differs", SEVERITY_NOTE,
                      arena_fmt(a, "%zu environment variables differ", environment.count),
                      environment.count == 1
                          ? "One factor: what differs below is its doing, or chance."
                          : "More than one factor: what differs below cannot be laid to one of "
                            "them."),
                  "run.json", &environment);
    }
}

/* ---- ends ---- */

static size_t failures(const struct compare_route *r, const struct compare_run **ret_first)
{
    size_t n = 0;
    for (size_t i = r->count; i-- > 0;) {
        if (r->items[i].failed) {
            n++;
            *ret_first = &r->items[i];
        }
    }
    return n;
}

/* A log that stops may be of a run that was killed: that is not the same as one that ended. */
static void compare_unseen_ends(struct pairing *g)
{
    const struct compare_pair *p = g->p;
    const struct compare_route *routes[2] = {p->a, p->b};
    const char *unseen = NULL;
    size_t count = 0;
    size_t all = p->a->count + p->b->count;
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < routes[s]->count; i++) {
            const struct compare_run *r = &routes[s]->items[i];
            if (!r->end_known) {
                count++;
                unseen = r->path;
            }
        }
    }
    if (count == 0) {
        return;
    }
    struct finding *f = add(
        g, "end-not-seen", count < all ? SEVERITY_UNKNOWN : SEVERITY_NOTE,
        arena_fmt(g->arena, "the end of %zu of %zu runs is not in what was given", count, all),
        count < all ? "A run without an end may still go on, or was killed; the others ended."
                    : "Nothing tells whether they ended well.");
    *VEC_PUSH(g->arena, &f->evidence) = (struct evidence){.source = unseen,
                                                          .text = "no closing line and no fault"};
}

static void compare_ends(struct pairing *g)
{
    struct compare_pair *p = g->p;
    struct arena *a = g->arena;
    const struct compare_run *bad_a = NULL;
    const struct compare_run *bad_b = NULL;
    size_t na = failures(p->a, &bad_a);
    size_t nb = failures(p->b, &bad_b);
    if (na == 0 && nb == 0) {
        return;
    }
    const struct compare_run *bad = bad_b != NULL ? bad_b : bad_a;
    const char *counts = arena_fmt(a, "%zu of %zu runs of %s failed, %zu of %zu of %s", na,
                                   p->a->count, p->a->name, nb, p->b->count, p->b->name);
    /* Failures on both sides may be one fault of both; that is not "no difference". */
    double chance = stats_fisher(na, p->a->count - na, nb, p->b->count - nb);
    bool differ = (na > 0) != (nb > 0) || chance < 0.05;
    struct finding *f = add(g, differ ? "completion-differs" : "both-fail",
                            differ ? SEVERITY_ERROR : SEVERITY_UNKNOWN, counts,
                            differ
                                ? arena_fmt(a,
                                            "One route ends well more often than the other; of "
                                            "equal routes that happens with p = %.2g.",
                                            chance)
                                : "Both routes fail alike: what they have in common is at fault, "
                                  "and their numbers prove nothing.");
    const char *why = bad->fault != NULL
                          ? arena_fmt(a, "%s: %s (%s)", bad->ending, bad->fault_title, bad->fault)
                          : bad->ending;
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = bad->path, .text = why};
}

/* ---- ratios ---- */

static double figure_of(const struct compare_run *r, enum pair_ratio what)
{
    switch (what) {
    case PAIR_STEP: return r->time.seconds;
    case PAIR_RUNTIME: return r->failed || !r->end_known ? NAN : r->seconds;
    case PAIR_START: return r->time.start_s;
    case PAIR_MEMORY: return r->peak_bytes;
    case PAIR_GPU_MEMORY: return r->log.gpu_memory_bytes;
    default: return NAN;
    }
}

static size_t figures(struct arena *a, const struct compare_route *r, enum pair_ratio what,
                      double **ret_values)
{
    size_t n = 0;
    *ret_values = arena_array(a, r->count + 1, sizeof **ret_values);
    for (size_t i = 0; i < r->count; i++) {
        double v = figure_of(&r->items[i], what);
        if (isfinite(v) && v > 0) {
            (*ret_values)[n++] = v;
        }
    }
    return n;
}

/* Times with warm-up in them beside times without are no pair. */
static bool same_source(const struct compare_pair *p)
{
    return (p->a->items[0].time.source == STEP_TIME_RUNTIME) ==
           (p->b->items[0].time.source == STEP_TIME_RUNTIME);
}

static void make_ratios(struct pairing *g)
{
    struct compare_pair *p = g->p;
    for (int what = 0; what < PAIR_RATIO_COUNT; what++) {
        double *va;
        double *vb;
        struct ratio *r = &p->ratios[what];
        *r = (struct ratio){.value = NAN, .low = NAN, .high = NAN};
        size_t na = figures(g->arena, p->a, what, &va);
        size_t nb = figures(g->arena, p->b, what, &vb);
        if (!p->like_work || na == 0 || nb == 0 || (what == PAIR_STEP && !same_source(p))) {
            continue;
        }
        const struct step_time *ta = &p->a->items[0].time;
        const struct step_time *tb = &p->b->items[0].time;
        if (what == PAIR_STEP && p->a->count == 1 && p->b->count == 1 && ta->steady_count > 0 &&
            tb->steady_count > 0) {
            ratio_of_steps(g->arena, ta->steady, ta->steady_count, tb->steady, tb->steady_count, r);
        } else {
            ratio_of_runs(g->arena, va, na, vb, nb, r);
        }
    }
    const struct ratio *step = &p->ratios[PAIR_STEP];
    if (g->max_ratio > 0 && !isfinite(step->value)) {
        add(g, "time-not-told", SEVERITY_UNKNOWN, "no ratio of the time per step",
            "--max-ratio asks for one, and there is none: see the notes on times and set-up.");
    } else if (g->max_ratio > 0 && !(step->value <= g->max_ratio)) {
        bool sure = step->method != RATIO_NONE && step->low > g->max_ratio;
        add(g, "too-slow", sure ? SEVERITY_ERROR : SEVERITY_UNKNOWN,
            arena_fmt(g->arena, "%s takes %.3g times the time per step of %s; %.3g was allowed",
                      p->b->name, step->value, p->a->name, g->max_ratio),
            sure ? "The whole 95 % interval lies above what was allowed."
                 : "The 95 % interval does not lie above what was allowed, or there is none: "
                   "repeat the runs.");
    }
}

/* ---- losses ---- */

static enum severity severity_of(enum loss_grade g)
{
    switch (g) {
    case LOSS_SAME: return SEVERITY_OK;
    case LOSS_DIFFERENT: return SEVERITY_ERROR;
    default: return SEVERITY_UNKNOWN;
    }
}

static void find_first_step(struct pairing *g)
{
    const struct loss_judgement *j = &g->p->loss;
    if (j->level_b == LOSS_NOT_JUDGED || j->level_b == LOSS_SAME) {
        return;
    }
    bool differs = j->level_b == LOSS_DIFFERENT;
    enum severity open = j->unsettled ? SEVERITY_UNKNOWN : SEVERITY_NOTE;
    add(g, "first-step-differs", differs ? SEVERITY_ERROR : open,
        arena_fmt(g->arena, "step %" PRId64 ": loss %.6g and %.6g (%+.2e)%s", j->first_step,
                  j->first_a, j->first_b, j->first_relative,
                  isfinite(j->grad_relative)
                      ? arena_fmt(g->arena, ", gradient norm %.4g and %.4g (%+.1e)", j->grad_a,
                                  j->grad_b, j->grad_relative)
                      : ""),
        differs ? "At the first step weights and batch are equal, so this is more than rounding: "
                  "another operator result, other data, other initial weights or dropout."
        : j->unsettled
            ? arena_fmt(
                  g->arena,
                  "More than most pairs of sound stacks differ by, and the losses part at step "
                  "%" PRId64 ", which runs of A are not seen to do among themselves. A fault of "
                  "one backward looks like this: assay probe --torch settles it.",
                  j->parted)
            : "More than most pairs of sound stacks differ by, less than a fault usually makes; the "
              "trajectory decides.");
}

static void find_trajectory(struct pairing *g)
{
    const struct loss_judgement *j = &g->p->loss;
    struct arena *a = g->arena;
    if (j->window_count > 0 && j->windows_beyond > 0) {
        const struct loss_window *w = &j->windows[j->worst];
        struct finding *f = add(
            g, "trajectory-differs", severity_of(j->level_c),
            arena_fmt(a, "%zu of %zu windows lie beyond the limit", j->windows_beyond,
                      j->window_count),
            j->by_null ? "The difference is larger than runs of A differ among themselves."
            : j->level_c == LOSS_OPEN
                ? "The difference is between the fixed limits: three runs of A would tell whether "
                  "it is noise."
                : "The difference is larger than noise between sound stacks is known to be.");
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = "losses",
            .text = arena_fmt(a, "steps %" PRId64 "-%" PRId64 ": mean %.6g and %.6g, limit %.2g",
                              w->from, w->to, w->mean_a, w->mean_b, w->limit)};
    }
    if (j->drift_grade == LOSS_DIFFERENT || j->drift_grade == LOSS_OPEN) {
        add(g, "losses-drift", severity_of(j->drift_grade),
            arena_fmt(a, "the losses of %s are %s by %.2e of the loss throughout", g->p->b->name,
                      j->drift > 0 ? "higher" : "lower", fabs(j->drift)),
            arena_fmt(a,
                      "Noise goes both ways; a difference of one sign beyond three standard errors "
                      "(%.1e) does not.",
                      j->drift_limit));
    }
    if (j->eval_grade == LOSS_DIFFERENT || j->eval_grade == LOSS_OPEN) {
        add(g, "evaluation-differs", severity_of(j->eval_grade),
            arena_fmt(a, "evaluation loss at step %" PRId64 " differs by %+.2e", j->eval_step,
                      j->eval_worst),
            "The same data evaluated on both routes.");
    }
}

static void judge_losses(struct pairing *g)
{
    struct compare_pair *p = g->p;
    struct arena *a = g->arena;
    const struct compare_route *routes[2] = {p->a, p->b};
    const struct run_log **logs[2];
    for (int s = 0; s < 2; s++) {
        logs[s] = arena_array(a, routes[s]->count, sizeof *logs[s]);
        for (size_t i = 0; i < routes[s]->count; i++) {
            logs[s][i] = &routes[s]->items[i].log;
        }
    }
    loss_judge(a, logs[0], p->a->count, logs[1], p->b->count, &p->loss);
    const struct loss_judgement *j = &p->loss;
    if (!p->like_losses) {
        p->loss.grade = LOSS_NOT_JUDGED;
        return;
    }
    if (j->not_finite_a + j->not_finite_b > 0) {
        bool both = j->not_finite_a > 0 && j->not_finite_b > 0;
        add(g, "losses-not-finite", both ? SEVERITY_UNKNOWN : SEVERITY_ERROR,
            arena_fmt(a, "losses that are NaN or infinite: %zu in %s, %zu in %s", j->not_finite_a,
                      p->a->name, j->not_finite_b, p->b->name),
            both ? "Both routes are sick; nothing is proven about the stack."
                 : "One route loses its numbers, the other does not.");
    }
    find_first_step(g);
    find_trajectory(g);
    if (j->a_repeats && !j->equal) {
        add(g, "not-repeated", SEVERITY_NOTE,
            arena_fmt(a, "%s repeats its losses exactly, %s differs from step %" PRId64 " on",
                      p->a->name, p->b->name, j->first_difference),
            "So the difference is none of A's own noise: the routes compute differently. How much two "
            "sound stacks may differ is what the limits say; which operator it is, assay probe "
            "--torch.");
    }
    if (j->grade == LOSS_SAME) {
        add(g, "losses-agree", SEVERITY_OK,
            arena_fmt(a, "the losses agree over %zu common steps", j->common),
            j->by_null ? "Within the spread that the runs of A have among themselves."
                       : "Within the fixed limits; how much runs of A differ among themselves is "
                         "not known (three runs of A would tell).");
    } else if (j->grade == LOSS_NOT_JUDGED) {
        add(g, "losses-not-told", SEVERITY_UNKNOWN, "there are no losses at common steps",
            "The routes print no loss, or at different steps: set the same logging interval.");
    } else if (j->grade == LOSS_OPEN && j->window_count == 0) {
        add(g, "too-few-steps", SEVERITY_UNKNOWN,
            arena_fmt(a, "%zu common steps are no trajectory", j->common),
            "At least five logged steps are needed, better 100.");
    }
}

static void find_over_fitting(struct pairing *g, const struct compare_route *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct over_fitting *o = &r->items[i].over;
        if (o->present) {
            struct finding *f = add(
                g, "over-fitting", SEVERITY_NOTE,
                arena_fmt(g->arena, "%s over-fits from step %" PRId64 " on", r->name, o->best_step),
                "The evaluation loss rises while the training loss falls: that is over-fitting, "
                "whatever the final training loss. The checkpoint to keep is the lowest.");
            *VEC_PUSH(g->arena, &f->evidence) = (struct evidence){
                .source = r->items[i].path,
                .text = arena_fmt(g->arena,
                                  "evaluation loss %.6g at step %" PRId64 ", %.6g at step %" PRId64,
                                  o->best, o->best_step, o->last, o->last_step)};
            return;
        }
    }
}

/* A run that became slower on its way: its mean hides how much. */
static void find_slow_stretch(struct pairing *g, const struct compare_route *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct step_time *t = &r->items[i].time;
        if (t->slow_steps > 0) {
            struct finding *f = add(
                g, "slow-stretch", SEVERITY_NOTE,
                arena_fmt(g->arena,
                          "%s is slower over %.0f steps: %.3g s a step, %.3g s in the median",
                          r->name, t->slow_steps, t->slow_seconds, t->median),
                "Sixteen long steps or more in a row are no pause: they count as steps like the others. A GPU "
                "that throttles, a neighbour on the machine, data that come slower.");
            *VEC_PUSH(g->arena, &f->evidence) = (struct evidence){.source = r->items[i].path,
                                                                  .text = "step times of this run"};
            return;
        }
    }
}

/* ---- verdict ---- */

static const char *first_title(const struct finding_list *l, enum severity s)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].severity == s) {
            return l->items[i].title;
        }
    }
    return NULL;
}

static void conclude(struct pairing *g)
{
    struct compare_pair *p = g->p;
    struct arena *a = g->arena;
    p->status = session_exit(&p->findings);
    const char *speed = "";
    const struct ratio *r = &p->ratios[PAIR_STEP];
    if (!p->refused && isfinite(r->value)) {
        speed = r->method != RATIO_NONE ? arena_fmt(a, "; time per step %.3g times (%.3g to %.3g)",
                                                    r->value, r->low, r->high)
                                        : arena_fmt(a, "; time per step %.3g times", r->value);
    }
    if (p->status == EXIT_FAULT) {
        p->verdict = arena_fmt(a, "different: %s%s", first_title(&p->findings, SEVERITY_ERROR),
                               speed);
    } else if (p->status == EXIT_UNKNOWN) {
        p->verdict = arena_fmt(a, "could not tell: %s%s",
                               first_title(&p->findings, SEVERITY_UNKNOWN), speed);
    } else {
        p->verdict = arena_fmt(
            a, "same: %s%s%s",
            first_title(&p->findings, SEVERITY_OK) != NULL ? "the losses agree" : "no difference",
            p->inputs.verdict == INPUTS_SAME ? "" : " (inputs not proven equal)", speed);
    }
}

void compare_pair_make(struct cli *cli, const struct compare_route *a,
                       const struct compare_route *b, bool force, double max_ratio,
                       struct compare_pair *ret_pair)
{
    struct compare_pair *p = ret_pair;
    *p = (struct compare_pair){.a = a, .b = b};
    struct pairing g = {
        .cli = cli, .arena = cli->arena, .force = force, .max_ratio = max_ratio, .p = p};
    compare_inputs(&g);
    if (!p->refused) {
        compare_ends(&g);
        compare_unseen_ends(&g);
        compare_setups(&g);
        make_ratios(&g);
        judge_losses(&g);
        find_over_fitting(&g, a);
        find_over_fitting(&g, b);
        find_slow_stretch(&g, a);
        find_slow_stretch(&g, b);
    }
    conclude(&g);
}
