// SPDX-License-Identifier: Apache-2.0
/* Which leaves made a condition true, and which names a condition mentions. */
#include <string.h>

#include "knowledge/expr_eval.h"

static void explain(struct eval *ev, uint32_t node);

static void tell(struct eval *ev, const char *name, uint32_t node)
{
    if (ev->scope->used == NULL) {
        return;
    }
    struct operand o = eval_value(ev, node);
    if (o.state == LOOKUP_KNOWN) {
        ev->scope->used(ev->scope->ctx, name, &o.v);
    }
}

static void explain_event(const struct eval *ev, const char *id)
{
    if (ev->scope->used_event != NULL && ev->scope->event_count != NULL &&
        ev->scope->event_count(ev->scope->ctx, id) > 0) {
        ev->scope->used_event(ev->scope->ctx, id);
    }
}

static void explain_round(struct eval *ev, void *ctx)
{
    uint32_t child = *(const uint32_t *)ctx;
    if (eval_truth(ev, child) == TRUTH_TRUE) {
        explain(ev, child);
    }
}

/* Every leaf below a node, whatever its truth. */
static void explain_leaves(struct eval *ev, uint32_t node)
{
    const struct expr_node *n = &ev->expr->nodes[node];
    switch ((enum expr_op)n->op) {
    case OP_FACT: {
        const char *key = eval_key(ev, n->text);
        if (key != NULL && ev->scope->used_fact != NULL) {
            ev->scope->used_fact(ev->scope->ctx, key);
        }
        return;
    }
    case OP_RUN: tell(ev, arena_fmt(ev->scratch, "run.%s", n->text), node); return;
    case OP_SERIES:
        tell(ev, arena_fmt(ev->scratch, "series(%s).%s", n->text, n->text2), node);
        return;
    case OP_BEFORE:
        explain_event(ev, n->text2);
        explain_event(ev, n->text);
        return;
    case OP_EVENT:
    case OP_EVENT_COUNT:
    case OP_FIRST:
    case OP_LAST:
    case OP_MAX:
    case OP_MIN: explain_event(ev, n->text); return;
    case OP_ANY:
    case OP_ALL:
    case OP_COUNT: {
        uint32_t child = n->first;
        eval_each_index(ev, child, explain_round, &child);
        return;
    }
    default:
        for (uint32_t c = n->first; c != 0; c = ev->expr->nodes[c].next) {
            explain_leaves(ev, c);
        }
    }
}

static void explain(struct eval *ev, uint32_t node)
{
    const struct expr_node *n = &ev->expr->nodes[node];
    if (n->op != OP_AND && n->op != OP_OR) {
        explain_leaves(ev, node);
        return;
    }
    for (uint32_t c = n->first; c != 0; c = ev->expr->nodes[c].next) {
        if (eval_truth(ev, c) == TRUTH_TRUE) {
            explain(ev, c);
        }
    }
}

void expr_explain(const struct expr *e, const struct expr_scope *scope, struct arena *scratch)
{
    /* No rewind at the end: the scope's slots may keep what they hear on this very arena. */
    struct eval ev = {.expr = e, .scope = scope, .scratch = scratch};
    explain(&ev, e->root);
}

static bool names_event(const struct expr_node *n)
{
    return n->op == OP_EVENT || n->op == OP_EVENT_COUNT || n->op == OP_FIRST || n->op == OP_LAST ||
           n->op == OP_MAX || n->op == OP_MIN || n->op == OP_BEFORE;
}

void expr_each_event(const struct expr *e, void (*visit)(void *ctx, const char *pattern_id),
                     void *ctx)
{
    for (uint32_t i = 1; i < e->count; i++) {
        const struct expr_node *n = &e->nodes[i];
        if (names_event(n)) {
            visit(ctx, n->text);
        }
        if (n->op == OP_BEFORE) {
            visit(ctx, n->text2);
        }
    }
}

void expr_each_capture(const struct expr *e,
                       void (*visit)(void *ctx, const char *pattern_id, const char *name),
                       void *ctx)
{
    for (uint32_t i = 1; i < e->count; i++) {
        const struct expr_node *n = &e->nodes[i];
        if (n->op == OP_FIRST || n->op == OP_LAST || n->op == OP_MAX || n->op == OP_MIN) {
            visit(ctx, n->text, n->text2);
        }
    }
}

void expr_each_fact(const struct expr *e, void (*visit)(void *ctx, const char *key), void *ctx)
{
    for (uint32_t i = 1; i < e->count; i++) {
        if (e->nodes[i].op == OP_FACT) {
            visit(ctx, e->nodes[i].text);
        }
    }
}

bool expr_has_event(const struct expr *e)
{
    for (uint32_t i = 1; i < e->count; i++) {
        if (names_event(&e->nodes[i])) {
            return true;
        }
    }
    return false;
}

const char *expr_source(const struct expr *e)
{
    return e->source;
}
