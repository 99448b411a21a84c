// SPDX-License-Identifier: Apache-2.0
/* The evaluator's own parts, shared by expr_eval.c, expr_quantify.c and expr_explain.c. */
#ifndef ASSAY_KNOWLEDGE_EXPR_EVAL_H
#define ASSAY_KNOWLEDGE_EXPR_EVAL_H

#include "knowledge/expr.h"
#include "knowledge/expr_node.h"
#include "knowledge/expr_value.h"

enum {
    EXPR_MAX_BINDINGS = 8
};

/* Inside any(), all(), count(): what a '*' stands for right now. */
struct binding {
    const char *glob;     /* "gpu[*]", or a whole key with several '*' */
    const char *concrete; /* "gpu[3]" */
};

struct eval {
    const struct expr *expr;
    const struct expr_scope *scope;
    struct arena *scratch;
    struct binding bindings[EXPR_MAX_BINDINGS];
    size_t binding_count;
};

enum truth eval_truth(struct eval *ev, uint32_t node);
struct operand eval_value(struct eval *ev, uint32_t node);

/* The key with '$' and bound '*' filled in; NULL when one of them means nothing here. */
const char *eval_key(struct eval *ev, const char *key);

/* Calls body(ev, ctx) once for every combination of indexes the globs below `child` can take, with
 * the bindings set. Returns how many there were. */
size_t eval_each_index(struct eval *ev, uint32_t child, void (*body)(struct eval *ev, void *ctx),
                       void *ctx);

#endif
