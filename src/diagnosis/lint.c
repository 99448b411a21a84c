// SPDX-License-Identifier: Apache-2.0
/* Keys of training configurations against the tables of knowledge/lint. */
#include "diagnosis/lint.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/vec.h"

struct lint {
    struct arena *arena;
    const struct knowledge *k;
    struct finding_list *findings;
};

/* LLaMA-Factory takes every key of the Transformers trainer too. */
static bool program_takes(const struct lint_key *row, enum job_kind kind)
{
    return strcmp(row->program, job_kind_name(kind)) == 0 ||
           (kind == JOB_LLAMAFACTORY && strcmp(row->program, "transformers") == 0);
}

static bool is_trainer(enum job_kind kind)
{
    return kind == JOB_LLAMAFACTORY || kind == JOB_TRANSFORMERS;
}

/* The row for a key; a row that names it in full goes before one with a star. */
static const struct lint_key *row_of(const struct knowledge *k, enum job_kind kind, const char *key)
{
    const struct lint_key *best = NULL;
    for (size_t i = 0; i < k->lint_keys_count; i++) {
        const struct lint_key *row = &k->lint_keys[i];
        if (strcmp(row->key, "*") == 0 || !program_takes(row, kind)) {
            continue;
        }
        if (strcmp(row->key, key) == 0) {
            return row;
        }
        if (best == NULL && strchr(row->key, '*') != NULL && fnmatch(row->key, key, 0) == 0) {
            best = row;
        }
    }
    return best;
}

/* What a program does with keys that it does not know; NULL when nothing is said. */
static const struct lint_key *policy_of(const struct knowledge *k, enum job_kind kind)
{
    for (size_t i = 0; i < k->lint_keys_count; i++) {
        const struct lint_key *row = &k->lint_keys[i];
        if (strcmp(row->key, "*") == 0 && strcmp(row->program, job_kind_name(kind)) == 0) {
            return row;
        }
    }
    return NULL;
}

/* Small letters without dashes and underscores: "perDevice-train" is "perdevicetrain". */
static struct str folded(struct arena *a, const char *key)
{
    struct strbuf out;
    strbuf_init(&out, a, 300);
    for (const char *p = key; *p != '\0'; p++) {
        if (*p != '_' && *p != '-' && *p != ' ') {
            strbuf_addc(&out, (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p));
        }
    }
    return strbuf_str(&out);
}

static const char *nearest_key(struct lint *l, enum job_kind kind, const char *key)
{
    const char *best = NULL;
    struct str wanted = folded(l->arena, key);
    size_t limit = wanted.n >= 12 ? 4 : wanted.n >= 6 ? 3 : 2; /* at the limit counts as far */
    for (size_t i = 0; i < l->k->lint_keys_count; i++) {
        const struct lint_key *row = &l->k->lint_keys[i];
        if (row->type == LINT_WRONG_NAME || strchr(row->key, '*') != NULL ||
            !program_takes(row, kind)) {
            continue;
        }
        size_t d = str_distance(wanted, folded(l->arena, row->key), limit);
        if (d < limit) {
            limit = d;
            best = row->key;
        }
    }
    return best;
}

/* ---- values ---- */

/* 1, 0, or -1 for what is no truth value; the words of YAML 1.1 count. */
static int truth_word(const struct job_entry *e)
{
    static const char *const words[2][4] = {{"false", "no", "off", NULL},
                                            {"true", "yes", "on", NULL}};
    if (e->value.kind == VALUE_BOOL) {
        return e->value.boolean;
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; words[side][i] != NULL; i++) {
            if (e->value.kind == VALUE_STRING && strcasecmp(e->text, words[side][i]) == 0) {
                return side;
            }
        }
    }
    return -1;
}

/* Not ours to judge: null, "auto", and texts that OmegaConf or the shell fill in later. */
static bool is_open(const struct job_entry *e)
{
    return e->value.kind == VALUE_NULL || strstr(e->text, "${") != NULL ||
           strcmp(e->text, "auto") == 0;
}

static bool type_fits(const struct lint_key *row, const struct job_entry *e)
{
    int64_t i;
    double d;
    bool list = e->value.kind == VALUE_LIST;
    switch (row->type) {
    case LINT_BOOL: return truth_word(e) >= 0;
    case LINT_INT:
        return !list &&
               (str_to_i64(str_of(e->text), 10, &i) == ST_OK ||
                (str_to_double(str_of(e->text), &d) == ST_OK && d == floor(d) && isfinite(d)));
    case LINT_REAL: return !list && str_to_double(str_of(e->text), &d) == ST_OK;
    case LINT_STRING: return !list;
    default: return true;
    }
}

static bool value_allowed(const struct lint_key *row, const struct job_entry *e)
{
    if (row->values.count == 0 || e->value.kind == VALUE_LIST) {
        return true;
    }
    for (size_t i = 0; i < row->values.count; i++) {
        if (strcmp(row->values.items[i], e->text) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- findings ---- */

static struct finding *add_finding(struct lint *l, const char *id, enum severity severity,
                                   const struct job_entry *e)
{
    struct finding *f = VEC_PUSH(l->arena, l->findings);
    f->id = id;
    f->severity = severity;
    f->confidence = 0.95;
    *VEC_PUSH(l->arena, &f->evidence) = (struct evidence){
        .source = e->file,
        .line = e->line,
        .text = arena_fmt(l->arena, "%s: %.200s", e->key, e->text)};
    return f;
}

static void wrong_name(struct lint *l, const struct lint_key *row, const struct job_entry *e)
{
    struct finding *f = add_finding(l, "config-wrong-key", row->severity, e);
    f->title = arena_fmt(l->arena, "there is no key '%s' in %s", e->key, job_kind_name(e->kind));
    f->claim = row->says;
    if (row->instead != NULL) {
        *VEC_PUSH(l->arena, &f->remedy) = arena_fmt(l->arena, "write: %s", row->instead);
    }
}

static void unknown_key(struct lint *l, const struct job_entry *e)
{
    const struct lint_key *policy = policy_of(l->k, e->kind);
    const char *near = nearest_key(l, e->kind, e->key);
    if (policy == NULL || (policy->near_only && near == NULL)) {
        return;
    }
    struct finding *f = add_finding(l, "config-unknown-key", policy->severity, e);
    f->title = near != NULL
                   ? arena_fmt(l->arena, "unknown key '%s'; did you mean '%s'?", e->key, near)
                   : arena_fmt(l->arena, "unknown key '%s' for %s", e->key, job_kind_name(e->kind));
    f->claim = policy->says;
    *VEC_PUSH(l->arena, &f->remedy) = near != NULL
                                          ? arena_fmt(l->arena, "write: %s: %s", near, e->text)
                                          : "remove the line";
}

static void wrong_type(struct lint *l, const struct lint_key *row, const struct job_entry *e)
{
    static const char *const wanted[] = {
        [LINT_BOOL] = "true or false", [LINT_INT] = "a whole number", [LINT_REAL] = "a number",
        [LINT_STRING] = "one text",    [LINT_LIST] = "a list",
    };
    struct finding *f = add_finding(l, "config-wrong-type", SEVERITY_ERROR, e);
    f->title = arena_fmt(l->arena, "'%s' should be %s", e->key, wanted[row->type]);
    f->claim = arena_fmt(l->arena, "it is '%.100s'; the default is %s", e->text,
                         row->fallback != NULL ? row->fallback : "none");
}

static void wrong_value(struct lint *l, const struct lint_key *row, const struct job_entry *e)
{
    struct finding *f = add_finding(l, "config-wrong-value", SEVERITY_ERROR, e);
    struct strbuf all;
    strbuf_init(&all, l->arena, 2000);
    for (size_t i = 0; i < row->values.count; i++) {
        strbuf_fmt(&all, "%s%s", i != 0 ? ", " : "", row->values.items[i]);
    }
    f->title = arena_fmt(l->arena, "'%.80s' is no value of '%s'", e->text, e->key);
    f->claim = arena_fmt(l->arena, "it takes: %s%s%s", all.p,
                         row->fallback != NULL ? "; default " : "",
                         row->fallback != NULL ? row->fallback : "");
}

static void check_entry(struct lint *l, const struct job_entry *e)
{
    const struct lint_key *row = row_of(l->k, e->kind, e->key);
    if (row == NULL) {
        unknown_key(l, e);
    } else if (row->type == LINT_WRONG_NAME) {
        wrong_name(l, row, e);
    } else if (is_open(e)) {
        return;
    } else if (!type_fits(row, e)) {
        wrong_type(l, row, e);
    } else if (!value_allowed(row, e)) {
        wrong_value(l, row, e);
    }
}

void lint_keys(struct arena *arena, const struct knowledge *k, const struct job_config *c,
               struct finding_list *findings)
{
    struct lint l = {.arena = arena, .k = k, .findings = findings};
    for (size_t i = 0; i < c->entries.count; i++) {
        if (c->entries.items[i].kind != JOB_UNKNOWN) {
            check_entry(&l, &c->entries.items[i]);
        }
    }
    for (size_t i = 0; i < c->problems.count; i++) {
        struct finding *f = VEC_PUSH(arena, findings);
        *f = (struct finding){.id = "config-file-not-read",
                              .severity = SEVERITY_ERROR,
                              .title = "a file that the configuration names could not be read",
                              .claim = c->problems.items[i],
                              .confidence = 0.95};
    }
    if (c->file != NULL && c->kind == JOB_UNKNOWN) {
        struct finding *f = VEC_PUSH(arena, findings);
        *f = (struct finding){
            .id = "config-kind-unknown",
            .severity = SEVERITY_UNKNOWN,
            .title = arena_fmt(arena, "%s: no key tells which program this file is for", c->file),
            .claim =
                "LLaMA-Factory, Transformers, DeepSpeed and accelerate files are known by their "
                "keys."};
    }
}

/* ---- facts ---- */

static struct value typed(const struct lint_key *row, const struct job_entry *e)
{
    enum lint_type type = row != NULL ? row->type : LINT_ANY;
    int64_t i;
    double d;
    if (type == LINT_BOOL && truth_word(e) >= 0) {
        return value_bool(truth_word(e) != 0);
    }
    if (type == LINT_INT && str_to_i64(str_of(e->text), 10, &i) == ST_OK) {
        return value_int(i);
    }
    if ((type == LINT_REAL || type == LINT_INT) && str_to_double(str_of(e->text), &d) == ST_OK) {
        return value_real(d);
    }
    return type == LINT_STRING ? value_string(e->text) : e->value;
}

static void entry_fact(struct arena *a, const struct knowledge *k, const struct job_entry *e,
                       struct facts *facts)
{
    const char *where = e->line != 0 ? arena_fmt(a, "%s:%d", e->file, e->line) : e->file;
    const char *prefix = is_trainer(e->kind) ? "setting" : job_kind_name(e->kind);
    const char *key = arena_fmt(a, "%s.%s", prefix, e->key);
    if (e->value.kind == VALUE_NULL) {
        return; /* as if it were not written */
    }
    if (!is_trainer(e->kind) && strcmp(e->text, "auto") == 0) {
        facts_set_state(facts, key, FACT_NOT_APPLICABLE, where, "taken from the trainer");
        return;
    }
    if (is_open(e) && strcmp(e->text, "auto") != 0) {
        facts_set_state(facts, key, FACT_UNREADABLE, where, "filled in at run time");
        return;
    }
    facts_set(facts, key, typed(row_of(k, e->kind, e->key), e), where);
    if (is_trainer(e->kind)) {
        facts_bool(facts, arena_fmt(a, "written.%s", e->key), true, where);
    }
}

/* Defaults of the trainer for keys that nobody wrote; keys without one are absent. */
static void default_facts(struct arena *a, const struct knowledge *k, enum job_kind kind,
                          struct facts *facts)
{
    for (size_t i = 0; i < k->lint_keys_count; i++) {
        const struct lint_key *row = &k->lint_keys[i];
        if (row->type == LINT_WRONG_NAME || strchr(row->key, '*') != NULL ||
            !program_takes(row, kind)) {
            continue;
        }
        const char *key = arena_fmt(a, "setting.%s", row->key);
        if (facts_get(facts, key) != NULL) {
            continue;
        }
        const char *source = arena_fmt(a, "default of %s", row->program);
        if (row->fallback == NULL) {
            facts_set_state(facts, key, FACT_ABSENT, source, "not written");
            continue;
        }
        struct job_entry e = {.text = row->fallback, .value = value_string(row->fallback)};
        facts_set(facts, key, typed(row, &e), source);
    }
}

void lint_facts(struct arena *arena, const struct knowledge *k, const struct job_config *c,
                struct facts *facts)
{
    enum job_kind trainer = JOB_UNKNOWN;
    for (size_t i = 0; i < c->entries.count; i++) {
        const struct job_entry *e = &c->entries.items[i];
        if (e->kind != JOB_UNKNOWN) {
            entry_fact(arena, k, e, facts);
        }
        trainer = is_trainer(e->kind) && trainer != JOB_LLAMAFACTORY ? e->kind : trainer;
    }
    if (trainer != JOB_UNKNOWN) {
        default_facts(arena, k, trainer, facts);
    }
}
