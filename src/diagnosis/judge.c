// SPDX-License-Identifier: Apache-2.0
/* Rules over facts. Start at doctor_judge(). */
#include "diagnosis/judge.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "diagnosis/scope.h"

struct bench {
    struct arena *arena;
    const struct knowledge *k;
    const struct facts *facts;
    struct scope scope;
    struct finding_list *findings;
    struct health *health;
    int weight_all;
    int weight_told;
};

struct names {
    const char **items;
    size_t count;
    size_t capacity;
};

/* The concrete prefix that `each` ("gpu[*]", "lib.*") stands for at the front of a key, or NULL. */
static const char *instance_of(struct arena *a, const char *each, const char *key)
{
    const char *star = strchr(each, '*');
    if (star == NULL) {
        return NULL;
    }
    size_t head = (size_t)(star - each);
    if (strncmp(each, key, head) != 0) {
        return NULL;
    }
    const char *tail = star + 1;
    char stop = *tail != '\0' ? *tail : '.';
    const char *end = strchr(key + head, stop);
    if (end == NULL || end == key + head || strncmp(end, tail, strlen(tail)) != 0) {
        return NULL;
    }
    size_t length = (size_t)(end - key) + strlen(tail);
    return key[length] == '.' ? arena_copy(a, key, length) : NULL;
}

static struct names instances(struct bench *b, const char *each)
{
    struct names out = {0};
    for (size_t i = 0; i < b->scope.sorted_count; i++) {
        const char *name = instance_of(b->arena, each, b->scope.sorted_facts[i]->key);
        if (name != NULL && (out.count == 0 || strcmp(out.items[out.count - 1], name) != 0)) {
            *VEC_PUSH(b->arena, &out) = name;
        }
    }
    return out;
}

/* "gpu[*]" when gpu.count was denied or unreadable: that there is none is then not known. */
static bool cannot_count(struct bench *b, const char *each)
{
    size_t bracket = str_find_char(str_of(each), '[', 0);
    if (bracket == SIZE_MAX) {
        return false;
    }
    const char *key = arena_fmt(b->arena, "%.*s.count", (int)bracket, each);
    const struct fact *f = facts_get(b->facts, key);
    return f != NULL && (f->state == FACT_DENIED || f->state == FACT_UNREADABLE);
}

/* `$.x` with the dollar filled in. */
static const char *with_dollar(struct bench *b, const char *key)
{
    if (key[0] != '$' || b->scope.expr.dollar == NULL) {
        return key;
    }
    return arena_fmt(b->arena, "%s%s", b->scope.expr.dollar, key + 1);
}

static void add_evidence(struct bench *b, const struct rule *r, struct evidence_list *evidence)
{
    b->scope.seen_evidence = map_new(b->arena);
    for (size_t i = 0; i < r->evidence.count; i++) {
        const char *key = with_dollar(b, r->evidence.items[i]);
        if (strchr(key, '*') == NULL) {
            scope_add_fact(&b->scope, key, evidence);
            continue;
        }
        for (size_t f = 0; f < b->scope.sorted_count; f++) {
            if (key_glob_match(key, b->scope.sorted_facts[f]->key, NULL)) {
                scope_add_fact(&b->scope, b->scope.sorted_facts[f]->key, evidence);
            }
        }
    }
    if (evidence->count == 0) {
        scope_explain(&b->scope, r->when, evidence);
    }
}

static void fill_list(struct bench *b, const struct text_list *from, struct text_list *to)
{
    for (size_t i = 0; i < from->count; i++) {
        *VEC_PUSH(b->arena, to) = scope_fill(&b->scope, from->items[i]);
    }
}

static void fired(struct bench *b, const struct rule *r)
{
    struct finding f = {
        .id = r->id,
        .severity = r->severity,
        .title = scope_fill(&b->scope, r->title),
        .claim = scope_fill(&b->scope, r->claim),
        .links = r->links,
        .confidence = 0.95,
    };
    add_evidence(b, r, &f.evidence);
    fill_list(b, &r->remedy, &f.remedy);
    *VEC_PUSH(b->arena, b->findings) = f;
}

/* A needed fact that exists and could not be read makes the rule "could not tell". */
static const struct fact *blocked_by(struct bench *b, const struct rule *r)
{
    for (size_t i = 0; i < r->needs.count; i++) {
        const struct fact *f = facts_get(b->facts, with_dollar(b, r->needs.items[i]));
        if (f != NULL && (f->state == FACT_DENIED || f->state == FACT_UNREADABLE)) {
            return f;
        }
    }
    return NULL;
}

static void not_told(struct bench *b, const struct rule *r, const struct fact *blocker)
{
    struct finding f = {
        .id = r->id,
        .severity = SEVERITY_UNKNOWN,
        .title = arena_fmt(b->arena, "could not tell (%s): %s is %s", r->id, blocker->key,
                           fact_state_name(blocker->state)),
        .claim = arena_fmt(b->arena, "%s is %s%s%s", blocker->key, fact_state_name(blocker->state),
                           blocker->reason != NULL ? ": " : "",
                           blocker->reason != NULL ? blocker->reason : ""),
    };
    b->scope.seen_evidence = map_new(b->arena);
    scope_add_fact(&b->scope, blocker->key, &f.evidence);
    *VEC_PUSH(b->arena, b->findings) = f;
}

/* One rule for one instance; true when it fired. */
static bool try_rule(struct bench *b, const struct rule *r, const char *dollar, bool *ret_blocked)
{
    b->scope.expr.dollar = dollar;
    enum truth t = scope_truth(&b->scope, r->when);
    if (t == TRUTH_TRUE) {
        fired(b, r);
        return true;
    }
    const struct fact *blocker = t == TRUTH_UNKNOWN ? blocked_by(b, r) : NULL;
    if (blocker != NULL) {
        not_told(b, r, blocker);
        *ret_blocked = true;
    }
    return false;
}

static void judge_rule(struct bench *b, const struct rule *r)
{
    bool hit = false;
    bool blocked = false;
    if (r->each == NULL) {
        hit = try_rule(b, r, NULL, &blocked);
    } else {
        struct names names = instances(b, r->each);
        blocked = names.count == 0 && cannot_count(b, r->each);
        for (size_t i = 0; i < names.count; i++) {
            hit = try_rule(b, r, names.items[i], &blocked) || hit;
        }
    }
    b->scope.expr.dollar = NULL;
    b->weight_all += r->weight;
    b->weight_told += blocked ? 0 : r->weight;
    *VEC_PUSH(b->arena, b->health) = (struct health_row){
        .id = r->id,
        .severity = hit       ? r->severity
                    : blocked ? SEVERITY_UNKNOWN
                              : SEVERITY_OK,
        .weight = r->weight,
        .lost = hit ? health_lost(r->severity, r->weight) : 0};
}

int health_lost(enum severity severity, int weight)
{
    enum {
        WARNING_SHARE = 4
    };

    return severity == SEVERITY_ERROR ? weight
           : severity == SEVERITY_WARNING || severity == SEVERITY_NOTE
               ? (weight + WARNING_SHARE - 1) / WARNING_SHARE
               : 0;
}

int health_score(const struct health *health)
{
    int score = 100;
    enum severity worst = SEVERITY_OK;
    for (size_t i = 0; i < health->count; i++) {
        const struct health_row *r = &health->items[i];
        score -= r->lost;
        if (r->lost > 0 && r->severity != SEVERITY_UNKNOWN && r->severity > worst) {
            worst = r->severity;
        }
    }
    if (worst == SEVERITY_ERROR) {
        score = score < HEALTH_WITH_ERROR ? score : HEALTH_WITH_ERROR;
        return score > 0 ? score : 0;
    }
    return score > HEALTH_WITH_ERROR ? score : HEALTH_WITH_ERROR + 1;
}

static struct finding switch_finding(struct bench *b, const struct known_switch *s,
                                     const char *title, const char *env_key, const char *read_key)
{
    struct finding f = {.id = s->effect == SWITCH_BUILD_TIME ? "switch-build-time"
                                                             : "switch-without-effect",
                        .severity = SEVERITY_NOTE,
                        .title = title,
                        .claim = s->says,
                        .confidence = 0.9};
    b->scope.seen_evidence = map_new(b->arena);
    scope_add_fact(&b->scope, env_key, &f.evidence);
    scope_add_fact(&b->scope, read_key, &f.evidence);
    if (s->instead != NULL) {
        *VEC_PUSH(b->arena, &f.remedy) = s->instead;
    }
    if (s->source != NULL && strncmp(s->source, "http", 4) == 0) {
        *VEC_PUSH(b->arena, &f.links) = s->source;
    }
    return f;
}

/* A variable that is set: does it do anything here? */
static void judge_switch(struct bench *b, const struct known_switch *s)
{
    const char *env_key = arena_fmt(b->arena, "env.%s", s->name);
    const char *read_key = arena_fmt(b->arena, "switch.%s.read_by", s->name);
    const struct fact *env = facts_get(b->facts, env_key);
    if (env == NULL || env->state != FACT_KNOWN) {
        return;
    }
    const struct fact *read_by = facts_get(b->facts, read_key);
    const char *title = NULL;
    if (s->effect == SWITCH_NONE || s->effect == SWITCH_OBSOLETE) {
        title = arena_fmt(b->arena, "%s is set and does nothing", s->name);
    } else if (s->effect == SWITCH_DEBUG_ONLY) {
        title = arena_fmt(b->arena, "%s is set and works only in debug builds", s->name);
    } else if (s->effect == SWITCH_BUILD_TIME) {
        title = arena_fmt(b->arena,
                          "%s is set: it is read when something is built, and changes nothing that "
                          "is installed",
                          s->name);
    } else if (s->read_by.count != 0 && read_by != NULL && read_by->value.kind == VALUE_LIST &&
               read_by->value.list.count == 0) {
        title = arena_fmt(
            b->arena, "%s is set, and no library that would be loaded contains its name", s->name);
    }
    if (title != NULL) {
        struct finding f = switch_finding(b, s, title, env_key, read_key);
        *VEC_PUSH(b->arena, b->findings) = f;
    }
}

static int severity_rank(enum severity s)
{
    static const int ranks[SEVERITY_COUNT] = {
        [SEVERITY_ERROR] = 0, [SEVERITY_WARNING] = 1, [SEVERITY_UNKNOWN] = 2,
        [SEVERITY_NOTE] = 3,  [SEVERITY_OK] = 4,
    };
    return ranks[s];
}

static int by_severity(const void *a, const void *b)
{
    const struct finding *x = a;
    const struct finding *y = b;
    int d = severity_rank(x->severity) - severity_rank(y->severity);
    if (d != 0) {
        return d;
    }
    d = strcmp(x->id, y->id);
    return d != 0 ? d : strcmp(x->title, y->title);
}

void findings_sort(struct finding_list *findings)
{
    if (findings->count != 0) {
        qsort(findings->items, findings->count, sizeof *findings->items, by_severity);
    }
}

void doctor_judge(struct arena *arena, const struct knowledge *k, const struct facts *facts,
                  const char *stage, struct finding_list *findings, struct health *ret_health)
{
    *ret_health = (struct health){0};
    struct bench *b = arena_alloc(arena, sizeof *b);
    b->arena = arena;
    b->k = k;
    b->facts = facts;
    b->findings = findings;
    b->health = ret_health;
    scope_init(&b->scope, arena, k, facts, NULL);
    for (size_t i = 0; i < k->rules_count; i++) {
        /* Rules about a configuration say nothing, and weigh nothing, without one. */
        bool config = strcmp(k->rules[i].stage, "config") == 0;
        if (stage != NULL ? strcmp(k->rules[i].stage, stage) == 0
                          : !config || facts_get(facts, "config.kind") != NULL) {
            judge_rule(b, &k->rules[i]);
        }
    }
    if (stage == NULL || strcmp(stage, "stack") == 0) {
        for (size_t i = 0; i < k->switches_count; i++) {
            judge_switch(b, &k->switches[i]);
        }
    }
    ret_health->score = health_score(ret_health);
    ret_health->confidence = b->weight_all > 0 ? (double)b->weight_told / b->weight_all : 0;
    findings_sort(findings);
    scope_done(&b->scope);
}
