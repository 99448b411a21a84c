// SPDX-License-Identifier: Apache-2.0
/* Errors against bounds, and the words for it. */
#include "ops/judge_op.h"

#include <math.h>
#include <string.h>

/* Sums over one tensor while it is compared. */
struct tally {
    double squared_error, squared_want;
    double worst_excess; /* error - bound of the worst element, or its ratio when inside */
};

static void describe(const struct op_array *want, bool is_gradient, struct op_judged *j)
{
    *j = (struct op_judged){
        .name = want->spec->name,
        .is_gradient = is_gradient,
        .dtype = want->dtype,
        .rank = want->rank,
        .count = want->count,
        .rms_limit = want->rms_limit,
    };
    memcpy(j->dim, want->dim, sizeof j->dim);
}

/* How far one element is beyond what is allowed, as a share of the bound: at most 1 is inside. */
static double share_of_bound(double got, double want, double bound, double largest)
{
    if (isnan(want)) {
        return isnan(got) ? 0 : INFINITY;
    }
    if (isinf(want) || fabs(want) + bound > largest) {
        bool beyond = isinf(got) && (got > 0) == (want > 0);
        if (beyond || isinf(want)) {
            return beyond ? 0 : INFINITY;
        }
    }
    double error = fabs(got - want);
    if (error == 0) {
        return 0;
    }
    /* A bound that is NaN or infinite allows any number, but not "no number". */
    if (!(bound < INFINITY)) {
        return isfinite(got) ? 0 : INFINITY;
    }
    double ratio = error / bound;
    return isnan(ratio) ? INFINITY : ratio;
}

static void take_element(const struct op_array *want, size_t i, double got, double largest,
                         struct op_judged *j, struct tally *t)
{
    double due = want->value[i], bound = want->bound[i];
    double share = share_of_bound(got, due, bound, largest);
    bool finite = isfinite(due) && isfinite(got);
    t->squared_error += finite ? (got - due) * (got - due) : 0;
    t->squared_want += isfinite(due) ? due * due : 0;
    if (!(share <= 1)) {
        j->over++;
        j->nans += isnan(got) && !isnan(due);
        j->infs += isinf(got) && isfinite(due);
    }
    if (i == 0 || share > j->ratio || (isnan(got) && !isnan(due) && !isnan(j->got))) {
        j->worst = i;
        j->got = got;
        j->want = due;
        j->bound = bound;
        j->error = fabs(got - due);
        j->ratio = share;
    }
}

void op_judge(const struct op_array *want, bool is_gradient, enum dtype dtype, const void *got,
              const void *poison, struct op_judged *ret_judged)
{
    struct op_judged *j = ret_judged;
    const struct dtype_info *info = dtype_info(dtype);
    struct tally t = {0};
    describe(want, is_gradient, j);
    j->dtype = dtype;
    for (size_t i = 0; i < want->count; i++) {
        const unsigned char *p = (const unsigned char *)got + i * info->size;
        take_element(want, i, dtype_get(dtype, p), info->largest, j, &t);
        j->poison += poison && memcmp(p, poison, info->size) == 0;
    }
    double floor = ldexp(1.0, info->min_exponent) * sqrt((double)want->count);
    j->rms = sqrt(t.squared_error) / (sqrt(t.squared_want) + floor);
    bool rms_fails = want->rms_limit > 0 && !(j->rms <= want->rms_limit);
    /* The bound already speaks for elements that are all noise, like a gradient that is exactly 0. */
    rms_fails = rms_fails && t.squared_want > 0;
    bool wrong = j->over || j->poison || rms_fails;
    j->verdict = wrong ? OP_VERDICT_INACCURATE : OP_VERDICT_PASS;
}

void op_judge_untold(const struct op_array *want, bool is_gradient, const char *why,
                     struct op_judged *ret_judged)
{
    describe(want, is_gradient, ret_judged);
    ret_judged->verdict = OP_VERDICT_UNTOLD;
    ret_judged->why = why;
}

enum op_verdict op_judge_worst(const struct op_judged *items, size_t count)
{
    enum op_verdict worst = OP_VERDICT_PASS;
    for (size_t i = 0; i < count; i++) {
        if (items[i].verdict == OP_VERDICT_INACCURATE) {
            return OP_VERDICT_INACCURATE;
        }
        worst = items[i].verdict == OP_VERDICT_UNTOLD ? OP_VERDICT_UNTOLD : worst;
    }
    return worst;
}

/* ---- words ---- */

const char *op_index_text(struct arena *a, const struct op_judged *judged, size_t flat)
{
    size_t at[OP_RANK_MAX] = {0};
    struct strbuf b;
    strbuf_init(&b, a, 200);
    for (size_t d = judged->rank; d-- > 0;) {
        at[d] = flat % (size_t)judged->dim[d];
        flat /= (size_t)judged->dim[d];
    }
    strbuf_addc(&b, '[');
    for (size_t d = 0; d < judged->rank; d++) {
        strbuf_fmt(&b, "%s%zu", d ? ", " : "", at[d]);
    }
    strbuf_addc(&b, ']');
    return b.p;
}

static const char *name_of(struct arena *a, const struct op_judged *j)
{
    return j->is_gradient ? arena_fmt(a, "gradient of %s", j->name) : j->name;
}

const char *op_judged_text(struct arena *a, const struct op_judged *j)
{
    struct strbuf b;
    strbuf_init(&b, a, 800);
    strbuf_fmt(&b, "%s (%s): ", name_of(a, j), dtype_info(j->dtype)->name);
    if (j->verdict == OP_VERDICT_UNTOLD) {
        strbuf_fmt(&b, "could not tell: %s", j->why ? j->why : "not given");
        return b.p;
    }
    if (j->poison) {
        strbuf_fmt(&b, "%zu of %zu elements never written; ", j->poison, j->count);
    }
    if (j->nans || j->infs) {
        strbuf_fmt(&b, "%zu NaN and %zu infinite of %zu; ", j->nans, j->infs, j->count);
    }
    if (j->over) {
        strbuf_fmt(&b,
                   "%zu of %zu elements beyond their bound, worst at %s: got %.9g, expected %.9g, "
                   "error %.3g, allowed %.3g",
                   j->over, j->count, op_index_text(a, j, j->worst), j->got, j->want, j->error,
                   j->bound);
    } else {
        strbuf_fmt(&b, "all %zu elements within their bound, worst at %.2g of it", j->count,
                   j->ratio);
    }
    if (j->rms_limit > 0) {
        strbuf_fmt(&b, "; RMS error %.3g of RMS value, allowed %.3g", j->rms, j->rms_limit);
    }
    return b.p;
}

/* The kind of fault that explains most: unwritten before not finite before inaccurate. */
static const char *id_of(const struct op_judged *items, size_t count)
{
    bool poison = false, strange = false;
    for (size_t i = 0; i < count; i++) {
        poison |= items[i].poison > 0;
        strange |= items[i].nans + items[i].infs > 0;
    }
    switch (op_judge_worst(items, count)) {
    case OP_VERDICT_PASS: return "operator-correct";
    case OP_VERDICT_UNTOLD: return "operator-untold";
    default:
        return poison    ? "operator-not-written"
               : strange ? "operator-not-finite"
                         : "operator-inaccurate";
    }
}

/* "y, gradient of x" of those with that verdict. */
static const char *names_with(struct arena *a, const struct op_judged *items, size_t count,
                              enum op_verdict verdict)
{
    struct strbuf b;
    strbuf_init(&b, a, 600);
    for (size_t i = 0; i < count; i++) {
        if (items[i].verdict == verdict) {
            strbuf_fmt(&b, "%s%s", b.n ? ", " : "", name_of(a, &items[i]));
        }
    }
    return b.p;
}

void op_judge_finding(struct arena *a, const struct op_case *c, const char *where,
                      const struct op_judged *items, size_t count, struct finding *ret_finding)
{
    static const enum severity severities[OP_VERDICT_COUNT] = {
        [OP_VERDICT_PASS] = SEVERITY_OK,
        [OP_VERDICT_INACCURATE] = SEVERITY_ERROR,
        [OP_VERDICT_UNTOLD] = SEVERITY_UNKNOWN,
    };
    enum op_verdict worst = op_judge_worst(items, count);
    const char *names = names_with(a, items, count, worst), *op = c->op->name;
    struct finding f = {.id = id_of(items, count), .severity = severities[worst], .confidence = 1};
    switch (worst) {
    case OP_VERDICT_PASS: f.title = arena_fmt(a, "%s is correct: %s", op, names); break;
    case OP_VERDICT_UNTOLD: f.title = arena_fmt(a, "%s: could not tell about %s", op, names); break;
    default: f.title = arena_fmt(a, "%s is wrong: %s", op, names); break;
    }
    f.claim = arena_fmt(a, "%s, compared with the float64 reference (%s). Case: %s", where,
                        c->op->what, op_case_text(a, c));
    for (size_t i = 0; i < count; i++) {
        *VEC_PUSH(a, &f.evidence) = (struct evidence){.source = where,
                                                      .text = op_judged_text(a, &items[i])};
    }
    *ret_finding = f;
}
