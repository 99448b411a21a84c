// SPDX-License-Identifier: Apache-2.0
/* See matrix_losses.h. */
#include "cli/matrix/losses.h"

#include <string.h>

#include "base/vec.h"

#include "cli/compare/pair.h"
#include "study/contrast.h"

enum {
    NAMES_BYTES_MAX = 4000
};

struct compare_route matrix_clean(struct arena *a, const struct compare_route *r)
{
    struct compare_route out = {.name = r->name};
    for (size_t i = 0; i < r->count; i++) {
        const char *class;
        if (!matrix_failed(&r->items[i], &class)) {
            *VEC_PUSH(a, &out) = r->items[i];
        }
    }
    return out;
}

/* The first sentence that is as grave as the grade. */
static const char *why_of(const struct compare_pair *p)
{
    enum severity wanted = p->loss.grade == LOSS_DIFFERENT ? SEVERITY_ERROR : SEVERITY_UNKNOWN;
    for (size_t i = 0; i < p->findings.count; i++) {
        const struct finding *f = &p->findings.items[i];
        if (p->loss.grade == LOSS_SAME ? strcmp(f->id, "losses-agree") == 0
                                       : f->severity == wanted) {
            return f->title;
        }
    }
    return NULL;
}

static struct matrix_losses losses_of(struct matrix *m, size_t base, size_t route)
{
    static const char *const names[] = {[LOSS_NOT_JUDGED] = "unlike",
                                        [LOSS_SAME] = "same",
                                        [LOSS_OPEN] = "could not tell",
                                        [LOSS_DIFFERENT] = "different"};
    struct arena *a = m->cli->arena;
    struct compare_route *of_base = arena_alloc(a, sizeof *of_base);
    struct compare_route *of_route = arena_alloc(a, sizeof *of_route);
    struct compare_pair p;
    *of_base = matrix_clean(a, &m->routes[base]);
    *of_route = matrix_clean(a, &m->routes[route]);
    if (of_base->count == 0 || of_route->count == 0 || of_base->items[0].log.loss.count == 0) {
        return (struct matrix_losses){0};
    }
    compare_pair_make(m->cli, of_base, of_route, false, 0, &p);
    if (p.refused) {
        return (struct matrix_losses){
            .cell = p.inputs.verdict == INPUTS_DIFFER ? "other inputs" : "inputs unproven"};
    }
    return (struct matrix_losses){
        .cell = names[p.loss.grade], .grade = p.loss.grade, .why = why_of(&p)};
}

const struct matrix_losses *matrix_losses_make(struct matrix *m)
{
    size_t count = m->plan->routes.count;
    struct matrix_losses *out = arena_array(m->cli->arena, count, sizeof *out);
    for (size_t i = 0; i < count && !m->plan->bisect; i++) {
        if (i != m->plan->base) {
            out[i] = losses_of(m, m->plan->base, i);
        }
    }
    return out;
}

const char *matrix_losses_names(struct matrix *m, const struct matrix_losses *l,
                                enum loss_grade grade)
{
    struct strbuf out;
    strbuf_init(&out, m->cli->arena, NAMES_BYTES_MAX);
    for (size_t i = 0; i < m->plan->routes.count; i++) {
        if (i != m->plan->base && l[i].grade == grade && l[i].cell != NULL) {
            strbuf_fmt(&out, "%s%s", out.n > 0 ? ", " : "", m->plan->routes.items[i].name);
        }
    }
    return out.n > 0 ? out.p : NULL;
}

/* Where every judged route differs from the base: do two of them at least agree with each other? */
static bool base_alone(struct matrix *m, const struct matrix_losses *l)
{
    size_t first = SIZE_MAX;
    size_t agreeing = 0;
    for (size_t i = 0; i < m->plan->routes.count; i++) {
        if (l[i].grade == LOSS_SAME || l[i].grade == LOSS_OPEN) {
            return false;
        }
        if (l[i].grade == LOSS_DIFFERENT && first == SIZE_MAX) {
            first = i;
        } else if (l[i].grade == LOSS_DIFFERENT) {
            if (losses_of(m, first, i).grade != LOSS_SAME) {
                return false;
            }
            agreeing++;
        }
    }
    return agreeing > 0;
}

static const char *whose_fault(struct matrix *m, const struct matrix_losses *l, bool alone,
                               const char *route)
{
    struct arena *a = m->cli->arena;
    const char *base = m->plan->routes.items[m->plan->base].name;
    const char *with_base = matrix_losses_names(m, l, LOSS_SAME);
    if (alone) {
        return arena_fmt(a,
                         "%s stands alone: the routes agree with each other and not with it. What "
                         "they leave computes wrongly.",
                         base);
    }
    if (with_base != NULL) {
        return arena_fmt(a, "%s and the base agree, so the suspect is what %s changes.", with_base,
                         route);
    }
    return "No other route tells which of the two is wrong: add a third way.";
}

void matrix_losses_judge(struct matrix *m, const struct matrix_losses *l,
                         struct finding_list *findings)
{
    struct arena *a = m->cli->arena;
    bool alone = base_alone(m, l);
    for (size_t i = 0; i < m->plan->routes.count; i++) {
        const struct plan_route *r = &m->plan->routes.items[i];
        if (l[i].grade != LOSS_DIFFERENT && l[i].grade != LOSS_OPEN) {
            continue;
        }
        bool differ = l[i].grade == LOSS_DIFFERENT;
        const char *what = r->about != NULL ? r->about : r->name;
        struct finding *f = VEC_PUSH(a, findings);
        *f = (struct finding){
            .id = differ ? "contrast-losses-differ" : "contrast-losses-open",
            .severity = differ ? SEVERITY_ERROR : SEVERITY_UNKNOWN,
            .confidence = 1,
            .title = arena_fmt(a,
                               differ ? "%s trains otherwise than the base, without failing"
                                      : "%s: whether it trains as the base does cannot be told",
                               r->name),
            .claim = differ
                         ? arena_fmt(a, "The change is: %s. %s", what,
                                     whose_fault(m, l, alone, r->name))
                         : "More logged steps, or three clean trials of the base, would settle it; "
                           "assay compare shows both."};
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = r->name, .text = l[i].why != NULL ? l[i].why : "see assay compare"};
        uint64_t trials = m->routes[i].count;
        uint64_t clean = matrix_clean(a, &m->routes[i]).count;
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = r->name, .text = contrast_rate_text(a, trials - clean, trials)};
    }
}
