// SPDX-License-Identifier: Apache-2.0
/*
 * What the names of a condition mean: facts of a machine and, when there is a log, its events, series
 * and run summary. One scope serves doctor (no log) and diagnose.
 */
#ifndef ASSAY_DIAGNOSIS_SCOPE_H
#define ASSAY_DIAGNOSIS_SCOPE_H

#include "base/finding.h"
#include "base/map.h"

#include "diagnosis/events.h"
#include "facts/facts.h"
#include "knowledge/expr.h"

struct scope {
    struct expr_scope expr; /* hand this to expr_truth() */
    struct arena *arena;    /* what is kept: evidence, filled texts */
    struct arena *scratch; /* for evaluating; rewound by expr_truth() and expr_explain(), so nothing
                              that is kept may be made on it */
    const struct facts *facts; /* NULL: nothing was read */
    const struct fact *const *sorted_facts;
    size_t sorted_count;
    const struct log_facts *log;    /* NULL: no log */
    struct map *events_by_pattern;  /* id -> struct event_refs */
    struct map *hidden;             /* pattern ids that count as not seen: explained by a cause */
    struct evidence_list *evidence; /* where expr_explain() collects; NULL when nobody does */
    struct map *seen_evidence;      /* keeps each item once */
};

struct event_refs {
    const struct event **items;
    size_t count;
    size_t capacity;
};

/* facts and log may be NULL. The scope must not be moved after this; end it with scope_done(). */
void scope_init(struct scope *s, struct arena *arena, const struct knowledge *k,
                const struct facts *facts, const struct log_facts *log);

void scope_done(struct scope *s);

/* True, false or unknown under this scope. */
enum truth scope_truth(struct scope *s, const struct expr *when);

/* From now on events of this pattern count as not there. */
void scope_hide(struct scope *s, const char *pattern_id);

/* Adds to `evidence` what made the condition true: event lines, facts with value and source. */
void scope_explain(struct scope *s, const struct expr *when, struct evidence_list *evidence);

/* Adds one fact as evidence, "key = value" with its source; false when it has no value. */
bool scope_add_fact(struct scope *s, const char *key, struct evidence_list *evidence);

/* The text with each {key} replaced by the fact's value and '$' by the scope's dollar. A key
 * without a value becomes "(unknown)". */
const char *scope_fill(struct scope *s, const char *text);

/* The events of a pattern, hidden ones too; NULL when there is none. */
const struct event_refs *scope_events(const struct scope *s, const char *pattern_id);

#endif
