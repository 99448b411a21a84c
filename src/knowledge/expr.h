// SPDX-License-Identifier: Apache-2.0
/*
 * The condition language of docs/knowledge.md: compiled once, evaluated three-valued. The caller
 * supplies what names mean through a scope, so that doctor (facts only) and diagnose (facts,
 * events, series, run) share one evaluator.
 */
#ifndef ASSAY_KNOWLEDGE_EXPR_H
#define ASSAY_KNOWLEDGE_EXPR_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/value.h"

struct expr;
struct knowledge;

enum truth { TRUTH_UNKNOWN = -1, TRUTH_FALSE = 0, TRUTH_TRUE = 1 };

enum lookup_state {
    LOOKUP_UNKNOWN = 0, /* nobody read it, or reading failed */
    LOOKUP_KNOWN,
    LOOKUP_ABSENT, /* looked for and not there */
    LOOKUP_DENIED,
};

/* What names mean. Every slot may be NULL: the name is then unknown. */
struct expr_scope {
    void *ctx;
    /* A fact key, without globs. */
    enum lookup_state (*fact)(void *ctx, const char *key, struct value *ret_value);
    /* Calls visit(ctx2, key) for each known key that matches a glob with '*'. */
    void (*each_key)(void *ctx, const char *glob, void (*visit)(void *ctx2, const char *key),
                     void *ctx2);
    /* Number of events of a pattern id; -1 when there is no log at all. */
    int64_t (*event_count)(void *ctx, const char *pattern_id);
    /* Named capture of event number `index` (0-based) of a pattern id; NULL when it has none. */
    const char *(*event_capture)(void *ctx, const char *pattern_id, int64_t index,
                                 const char *name);
    /* Order of the first event of an id over all logs; -1 when there is none. */
    int64_t (*event_order)(void *ctx, const char *pattern_id);
    /* series(name).field and run.field. */
    enum lookup_state (*series)(void *ctx, const char *series, const char *field,
                                struct value *ret_value);
    enum lookup_state (*run)(void *ctx, const char *field, struct value *ret_value);
    /* Told for every leaf that was used, for evidence; NULL when nobody cares. */
    void (*used_fact)(void *ctx, const char *key);
    void (*used_event)(void *ctx, const char *pattern_id);
    /* '$' in a rule with `for:`; NULL elsewhere. */
    const char *dollar;
    const struct knowledge *knowledge; /* types of fact keys; may be NULL */
};

/* `where` ("causes/shm.yaml:12") is put into messages. */
enum status expr_compile(struct arena *a, const char *text, const char *where,
                         const struct expr **ret_expr, struct err *err) MUST_USE;

enum truth expr_truth(const struct expr *e, const struct expr_scope *scope, struct arena *scratch);

/* True when the condition mentions event() anywhere: see `with_event`. */
bool expr_has_event(const struct expr *e);

/* True when the target name or list item `have` ("gfx90a:xnack-", "gfx12-generic") runs on the ISA
 * `gfx` ("gfx1201"). Families of generic targets: LLVM AMDGPUUsage, "Generic Processor". */
bool gfx_covers(const char *have, const char *gfx);

#endif
