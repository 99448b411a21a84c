// SPDX-License-Identifier: Apache-2.0
/*
 * The condition language of docs/knowledge.md: compiled once, evaluated three-valued. The caller
 * supplies what names mean through a scope, so that doctor (facts only) and diagnose (facts,
 * events, series, run) share one evaluator.
 */
#ifndef ASSAY_KNOWLEDGE_EXPR_H
#define ASSAY_KNOWLEDGE_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/value.h"

struct expr;
struct knowledge;

enum truth {
    TRUTH_UNKNOWN = -1,
    TRUTH_FALSE = 0,
    TRUTH_TRUE = 1
};

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
    /* Told by expr_explain() about every leaf that made the condition true; may be NULL. `used`
     * gets the name as written: "run.steps", "series(loss).nan_count". */
    void (*used_fact)(void *ctx, const char *key);
    void (*used_event)(void *ctx, const char *pattern_id);
    void (*used)(void *ctx, const char *name, const struct value *value);
    /* '$' in a rule with `for:`; NULL elsewhere. */
    const char *dollar;
    const struct knowledge *knowledge; /* types of fact keys; may be NULL */
};

/* `where` ("causes/shm.yaml:12") is put into messages, which point at the column. */
enum status expr_compile(struct arena *a, const char *text, const char *where,
                         const struct expr **ret_expr, struct err *err) MUST_USE;

/* `scratch` is left as it was found. */
enum truth expr_truth(const struct expr *e, const struct expr_scope *scope, struct arena *scratch);

/* The value of an expression, for texts: "event(hip-oom).size", "run.steps". */
enum lookup_state expr_value(const struct expr *e, const struct expr_scope *scope,
                             struct arena *scratch, struct value *ret_value);

/* Tells the scope's used_* slots which leaves made a true condition true: all of an `and`, only the
 * true branches of an `or`, only the true items of any() and count(). Leaves below `not` count.
 * `scratch` may be the arena that the slots keep what they hear on. */
void expr_explain(const struct expr *e, const struct expr_scope *scope, struct arena *scratch);

/* True when the condition mentions event() anywhere: see `with_event`. */
bool expr_has_event(const struct expr *e);

/* The text it was compiled from. */
const char *expr_source(const struct expr *e);

/* Every pattern id, capture and fact key (with its '$' and '*') that the condition mentions, for
 * checks; an id or a key that is mentioned twice is reported twice. */
void expr_each_event(const struct expr *e, void (*visit)(void *ctx, const char *pattern_id),
                     void *ctx);
void expr_each_capture(const struct expr *e,
                       void (*visit)(void *ctx, const char *pattern_id, const char *name),
                       void *ctx);
void expr_each_fact(const struct expr *e, void (*visit)(void *ctx, const char *key), void *ctx);

/* True when the concrete key matches a key with '*': "[*]" stands for digits, any other '*' for any
 * text. ret_star, when not NULL, gets what the first '*' stood for. */
bool key_glob_match(const char *glob, const char *key, struct str *ret_star);

/* True when the target name or list item `have` ("gfx90a:xnack-", "gfx12-generic") runs on the ISA
 * `gfx` ("gfx1201"). Families of generic targets: LLVM AMDGPUUsage, "Generic Processor". */
bool gfx_covers(const char *have, const char *gfx);

/* "gfx1030" and "gfx1036": the same name without its last two characters (minor, stepping). */
bool gfx_same_family(const char *a, const char *b);

#endif
