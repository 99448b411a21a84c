// SPDX-License-Identifier: Apache-2.0
/* Evaluation: three-valued logic over loosely typed values. */
#include "knowledge/expr_eval.h"

#include <math.h>
#include <string.h>

#include "base/version.h"

#include "knowledge/knowledge.h"

static const struct expr_node *at(const struct eval *ev, uint32_t node)
{
    return &ev->expr->nodes[node];
}

static struct operand unknown(void)
{
    return (struct operand){.state = LOOKUP_UNKNOWN};
}

static struct operand known(struct value v)
{
    return (struct operand){.state = LOOKUP_KNOWN, .v = v};
}

static struct operand of_truth(enum truth t)
{
    return t == TRUTH_UNKNOWN ? unknown() : known(value_bool(t == TRUTH_TRUE));
}

static struct operand look_up_fact(struct eval *ev, const char *text)
{
    const char *key = eval_key(ev, text);
    if (key == NULL || ev->scope->fact == NULL) {
        return unknown();
    }
    struct operand o = {0};
    o.state = ev->scope->fact(ev->scope->ctx, key, &o.v);
    if (o.state != LOOKUP_KNOWN) {
        o.v = (struct value){0};
    }
    if (ev->scope->knowledge != NULL && o.state == LOOKUP_KNOWN) {
        const struct fact_key *row = knowledge_fact_key(ev->scope->knowledge, key);
        o.is_version = row != NULL && strcmp(row->type, "version") == 0;
    }
    return o;
}

static int64_t event_count(const struct eval *ev, const char *id)
{
    return ev->scope->event_count != NULL ? ev->scope->event_count(ev->scope->ctx, id) : -1;
}

static struct operand capture_at(const struct eval *ev, const struct expr_node *n, int64_t index)
{
    if (index < 0 || ev->scope->event_capture == NULL) {
        return unknown();
    }
    const char *text = ev->scope->event_capture(ev->scope->ctx, n->text, index, n->text2);
    if (text == NULL) {
        return unknown();
    }
    struct operand o = known(value_string(text));
    o.is_capture = true;
    return o;
}

/* The capture of the first event that has one: a pattern's alternatives do not all fill it. */
static struct operand first_capture(const struct eval *ev, const struct expr_node *n, bool last)
{
    int64_t count = event_count(ev, n->text);
    for (int64_t i = 0; i < count; i++) {
        struct operand o = capture_at(ev, n, last ? count - 1 - i : i);
        if (o.state == LOOKUP_KNOWN) {
            return o;
        }
    }
    return unknown();
}

static struct operand extreme(const struct eval *ev, const struct expr_node *n)
{
    int64_t count = event_count(ev, n->text);
    bool any = false;
    double best = 0;
    for (int64_t i = 0; i < count; i++) {
        struct operand o = capture_at(ev, n, i);
        double x;
        if (o.state != LOOKUP_KNOWN || !value_number(&o.v, &x) || isnan(x)) {
            continue;
        }
        if (!any || (n->op == OP_MAX ? x > best : x < best)) {
            best = x;
        }
        any = true;
    }
    return any ? known(value_real(best)) : unknown();
}

static enum truth before(const struct eval *ev, const struct expr_node *n)
{
    int64_t a = event_count(ev, n->text);
    int64_t b = event_count(ev, n->text2);
    if (a < 0 || b < 0 || ev->scope->event_order == NULL) {
        return TRUTH_UNKNOWN;
    }
    if (a == 0 || b == 0) {
        return TRUTH_FALSE;
    }
    return ev->scope->event_order(ev->scope->ctx, n->text) <
           ev->scope->event_order(ev->scope->ctx, n->text2);
}

static struct operand integer_arithmetic(enum expr_op op, int64_t x, int64_t y, bool *ret_done)
{
    int64_t z = 0;
    *ret_done = (op == OP_ADD && !__builtin_add_overflow(x, y, &z)) ||
                (op == OP_SUB && !__builtin_sub_overflow(x, y, &z)) ||
                (op == OP_MUL && !__builtin_mul_overflow(x, y, &z));
    return known(value_int(z));
}

static struct operand arithmetic(struct eval *ev, const struct expr_node *n)
{
    struct operand a = eval_value(ev, n->first);
    struct operand b = eval_value(ev, at(ev, n->first)->next);
    if (a.state != LOOKUP_KNOWN || b.state != LOOKUP_KNOWN) {
        return unknown();
    }
    if (a.v.kind == VALUE_INT && b.v.kind == VALUE_INT) {
        bool done;
        struct operand o = integer_arithmetic(n->op, a.v.integer, b.v.integer, &done);
        if (done) {
            return o;
        }
    }
    double x;
    double y;
    if (!value_number(&a.v, &x) || !value_number(&b.v, &y) || (n->op == OP_DIV && y == 0)) {
        return unknown();
    }
    double z = n->op == OP_ADD ? x + y : n->op == OP_SUB ? x - y : n->op == OP_MUL ? x * y : x / y;
    return isfinite(z) ? known(value_real(z)) : unknown();
}

static struct operand negate(struct eval *ev, const struct expr_node *n)
{
    struct operand a = eval_value(ev, n->first);
    double x;
    if (a.state != LOOKUP_KNOWN || !value_number(&a.v, &x)) {
        return unknown();
    }
    return known(value_real(-x));
}

static struct operand list_value(struct eval *ev, const struct expr_node *n)
{
    size_t count = 0;
    for (uint32_t c = n->first; c != 0; c = at(ev, c)->next) {
        count++;
    }
    struct value *items = arena_array(ev->scratch, count + 1, sizeof *items);
    count = 0;
    for (uint32_t c = n->first; c != 0; c = at(ev, c)->next) {
        items[count++] = eval_value(ev, c).v;
    }
    return known((struct value){.kind = VALUE_LIST, .list = {.items = items, .count = count}});
}

static struct operand measure(struct eval *ev, const struct expr_node *n)
{
    struct operand a = eval_value(ev, n->first);
    if (a.state != LOOKUP_KNOWN) {
        return unknown();
    }
    if (n->op == OP_LEN) {
        return a.v.kind == VALUE_LIST     ? known(value_int((int64_t)a.v.list.count))
               : a.v.kind == VALUE_STRING ? known(value_int((int64_t)strlen(a.v.string)))
                                          : unknown();
    }
    if (a.v.kind == VALUE_INT) {
        return n->op == OP_MAJOR ? a : known(value_int(0));
    }
    const char *text = a.v.kind == VALUE_STRING ? a.v.string
                       : a.v.kind == VALUE_REAL ? arena_fmt(ev->scratch, "%.10g", a.v.real)
                                                : "";
    if (!version_valid(str_of(text))) {
        return unknown();
    }
    long part = version_part(str_of(text), n->op == OP_MAJOR ? 0 : 1);
    return known(value_int(part < 0 ? 0 : part));
}

struct tally {
    uint32_t child;
    size_t yes;
    size_t no;
    size_t open;
};

static void tally_one(struct eval *ev, void *ctx)
{
    struct tally *t = ctx;
    enum truth truth = eval_truth(ev, t->child);
    t->yes += truth == TRUTH_TRUE;
    t->no += truth == TRUTH_FALSE;
    t->open += truth == TRUTH_UNKNOWN;
}

static struct operand quantified(struct eval *ev, const struct expr_node *n)
{
    struct tally t = {.child = n->first};
    size_t total = eval_each_index(ev, n->first, tally_one, &t);
    if (total == 0 || t.open == total) {
        return unknown();
    }
    switch (n->op) {
    case OP_ANY:
        return t.yes != 0 ? of_truth(TRUTH_TRUE) : t.open != 0 ? unknown() : of_truth(TRUTH_FALSE);
    case OP_ALL:
        return t.no != 0 ? of_truth(TRUTH_FALSE) : t.open != 0 ? unknown() : of_truth(TRUTH_TRUE);
    default: return known(value_int((int64_t)t.yes));
    }
}

static enum truth covers(struct eval *ev, const struct expr_node *n)
{
    struct operand have = eval_value(ev, n->first);
    struct operand gfx = eval_value(ev, at(ev, n->first)->next);
    if (have.state != LOOKUP_KNOWN || gfx.state != LOOKUP_KNOWN || gfx.v.kind != VALUE_STRING) {
        return TRUTH_UNKNOWN;
    }
    if (n->op == OP_SAME_FAMILY) {
        return have.v.kind == VALUE_STRING
                   ? (enum truth)gfx_same_family(have.v.string, gfx.v.string)
                   : TRUTH_UNKNOWN;
    }
    if (have.v.kind == VALUE_STRING) {
        return gfx_covers(have.v.string, gfx.v.string);
    }
    if (have.v.kind != VALUE_LIST) {
        return TRUTH_UNKNOWN;
    }
    for (size_t i = 0; i < have.v.list.count; i++) {
        const struct value *item = &have.v.list.items[i];
        if (item->kind == VALUE_STRING && gfx_covers(item->string, gfx.v.string)) {
            return TRUTH_TRUE;
        }
    }
    return TRUTH_FALSE;
}

static enum truth compare(struct eval *ev, const struct expr_node *n)
{
    struct operand a = eval_value(ev, n->first);
    struct operand b = eval_value(ev, at(ev, n->first)->next);
    bool open = a.state == LOOKUP_UNKNOWN || a.state == LOOKUP_DENIED ||
                b.state == LOOKUP_UNKNOWN || b.state == LOOKUP_DENIED;
    if (open) {
        return TRUTH_UNKNOWN;
    }
    if (n->op == OP_EQ || n->op == OP_NE) {
        enum truth t = value_equal(ev->scratch, &a, &b);
        return n->op == OP_EQ ? t : !t;
    }
    if (n->op == OP_IN) {
        return value_in(ev->scratch, &a, &b);
    }
    if (n->op == OP_MATCHES) {
        return a.v.kind == VALUE_NULL ? TRUTH_FALSE : value_matches(&a.v, b.v.string);
    }
    int order;
    if (!value_order(ev->scratch, &a, &b, &order)) {
        return TRUTH_UNKNOWN;
    }
    switch (n->op) {
    case OP_LT: return order < 0;
    case OP_LE: return order <= 0;
    case OP_GT: return order > 0;
    default: return order >= 0;
    }
}

/* known(), absent(), denied(): about the state, not the value. */
static enum truth about_state(struct eval *ev, const struct expr_node *n)
{
    enum lookup_state state = eval_value(ev, n->first).state;
    if (n->op == OP_KNOWN) {
        return state == LOOKUP_KNOWN;
    }
    if (n->op == OP_DENIED) {
        return state == LOOKUP_DENIED;
    }
    return state == LOOKUP_UNKNOWN || state == LOOKUP_DENIED ? TRUTH_UNKNOWN
                                                             : (enum truth)(state == LOOKUP_ABSENT);
}

static enum truth logic(struct eval *ev, const struct expr_node *n)
{
    enum truth decisive = n->op == OP_AND ? TRUTH_FALSE : TRUTH_TRUE;
    enum truth a = eval_truth(ev, n->first);
    if (a == decisive) {
        return a;
    }
    enum truth b = eval_truth(ev, at(ev, n->first)->next);
    if (b == decisive || a == TRUTH_UNKNOWN) {
        return b == decisive ? b : TRUTH_UNKNOWN;
    }
    return b;
}

static enum truth event_truth(const struct eval *ev, const struct expr_node *n)
{
    int64_t count = event_count(ev, n->text);
    return count < 0 ? TRUTH_UNKNOWN : (enum truth)(count > 0);
}

struct operand eval_value(struct eval *ev, uint32_t node)
{
    const struct expr_node *n = at(ev, node);
    switch ((enum expr_op)n->op) {
    case OP_NULL: return (struct operand){.state = LOOKUP_ABSENT};
    case OP_BOOL: return known(value_bool(n->integer != 0));
    case OP_INT: return known(value_int(n->integer));
    case OP_REAL: return known(value_real(n->real));
    case OP_STRING: return known(value_string(n->text));
    case OP_LIST: return list_value(ev, n);
    case OP_FACT: return look_up_fact(ev, n->text);
    case OP_RUN: {
        struct operand o = {0};
        o.state = ev->scope->run != NULL ? ev->scope->run(ev->scope->ctx, n->text, &o.v) : o.state;
        return o;
    }
    case OP_SERIES: {
        struct operand o = {0};
        o.state = ev->scope->series != NULL
                      ? ev->scope->series(ev->scope->ctx, n->text, n->text2, &o.v)
                      : o.state;
        return o;
    }
    case OP_EVENT_COUNT: {
        int64_t count = event_count(ev, n->text);
        return count < 0 ? unknown() : known(value_int(count));
    }
    case OP_FIRST: return first_capture(ev, n, false);
    case OP_LAST: return first_capture(ev, n, true);
    case OP_MAX:
    case OP_MIN: return extreme(ev, n);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV: return arithmetic(ev, n);
    case OP_NEG: return negate(ev, n);
    case OP_ANY:
    case OP_ALL:
    case OP_COUNT: return quantified(ev, n);
    case OP_LEN:
    case OP_MAJOR:
    case OP_MINOR: return measure(ev, n);
    default: return of_truth(eval_truth(ev, node));
    }
}

/* A value where a condition is expected: true, not 0; a text says nothing by being there. */
static enum truth value_truth(const struct operand *o)
{
    if (o->state == LOOKUP_ABSENT) {
        return TRUTH_FALSE;
    }
    double x;
    if (o->state != LOOKUP_KNOWN || o->v.kind == VALUE_STRING || !value_number(&o->v, &x)) {
        struct operand yes = known(value_bool(true));
        return o->state == LOOKUP_KNOWN && o->v.kind == VALUE_STRING &&
                       value_equal(NULL, o, &yes) == TRUTH_TRUE
                   ? TRUTH_TRUE
                   : TRUTH_UNKNOWN;
    }
    return x != 0;
}

enum truth eval_truth(struct eval *ev, uint32_t node)
{
    const struct expr_node *n = at(ev, node);
    switch ((enum expr_op)n->op) {
    case OP_NOT: {
        enum truth t = eval_truth(ev, n->first);
        return t == TRUTH_UNKNOWN ? t : !t;
    }
    case OP_AND:
    case OP_OR: return logic(ev, n);
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_IN:
    case OP_MATCHES: return compare(ev, n);
    case OP_KNOWN:
    case OP_ABSENT:
    case OP_DENIED: return about_state(ev, n);
    case OP_COVERS:
    case OP_SAME_FAMILY: return covers(ev, n);
    case OP_EVENT: return event_truth(ev, n);
    case OP_BEFORE: return before(ev, n);
    default: {
        struct operand o = eval_value(ev, node);
        return value_truth(&o);
    }
    }
}

enum truth expr_truth(const struct expr *e, const struct expr_scope *scope, struct arena *scratch)
{
    struct arena_mark mark = arena_mark(scratch);
    struct eval ev = {.expr = e, .scope = scope, .scratch = scratch};
    enum truth t = eval_truth(&ev, e->root);
    arena_rewind(scratch, mark);
    return t;
}

enum lookup_state expr_value(const struct expr *e, const struct expr_scope *scope,
                             struct arena *scratch, struct value *ret_value)
{
    struct eval ev = {.expr = e, .scope = scope, .scratch = scratch};
    struct operand o = eval_value(&ev, e->root);
    if (o.state == LOOKUP_KNOWN) {
        *ret_value = o.v;
    }
    return o.state;
}
