// SPDX-License-Identifier: Apache-2.0
/* Names of conditions, looked up in facts and logs. */
#include "diagnosis/scope.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "diagnosis/series_field.h"

static enum lookup_state on_fact(void *ctx, const char *key, struct value *ret_value)
{
    const struct scope *s = ctx;
    if (s->facts == NULL) {
        return LOOKUP_UNKNOWN;
    }
    const struct fact *f = facts_get(s->facts, key);
    if (f == NULL) {
        /* An environment that was read in full makes every variable not listed absent. */
        bool variable = strncmp(key, "env.", 4) == 0 && strncmp(key, "env.worker.", 11) != 0;
        return variable && facts_get_bool(s->facts, "env.read", false) ? LOOKUP_ABSENT
                                                                       : LOOKUP_UNKNOWN;
    }
    switch (f->state) {
    case FACT_KNOWN: *ret_value = f->value; return LOOKUP_KNOWN;
    case FACT_ABSENT:
    case FACT_NOT_APPLICABLE: return LOOKUP_ABSENT;
    case FACT_DENIED: return LOOKUP_DENIED;
    default: return LOOKUP_UNKNOWN;
    }
}

static void on_each_key(void *ctx, const char *glob, void (*visit)(void *ctx2, const char *key),
                        void *ctx2)
{
    const struct scope *s = ctx;
    for (size_t i = 0; i < s->sorted_count; i++) {
        if (key_glob_match(glob, s->sorted_facts[i]->key, NULL)) {
            visit(ctx2, s->sorted_facts[i]->key);
        }
    }
}

const struct event_refs *scope_events(const struct scope *s, const char *pattern_id)
{
    return s->log != NULL ? map_get(s->events_by_pattern, str_of(pattern_id)) : NULL;
}

static const struct event_refs *visible(const struct scope *s, const char *pattern_id)
{
    return map_get(s->hidden, str_of(pattern_id)) != NULL ? NULL : scope_events(s, pattern_id);
}

static int64_t on_event_count(void *ctx, const char *pattern_id)
{
    const struct scope *s = ctx;
    if (s->log == NULL) {
        return -1;
    }
    const struct event_refs *refs = visible(s, pattern_id);
    if (refs == NULL) {
        return 0;
    }
    uint64_t all = log_facts_count(s->log, pattern_id); /* kept are only the first and the last */
    return all > refs->count ? (int64_t)all : (int64_t)refs->count;
}

static const char *on_event_capture(void *ctx, const char *pattern_id, int64_t index,
                                    const char *name)
{
    const struct event_refs *refs = visible(ctx, pattern_id);
    if (refs == NULL || index < 0 || (size_t)index >= refs->count) {
        return NULL;
    }
    const struct event *e = refs->items[index];
    for (size_t i = 0; i < e->capture_count; i++) {
        if (strcmp(e->captures[i].name, name) == 0) {
            return e->captures[i].value;
        }
    }
    return NULL;
}

static int64_t on_event_order(void *ctx, const char *pattern_id)
{
    const struct event_refs *refs = visible(ctx, pattern_id);
    return refs != NULL ? refs->items[0]->order : -1;
}

static enum lookup_state on_series(void *ctx, const char *name, const char *field,
                                   struct value *ret_value)
{
    const struct scope *s = ctx;
    if (s->log == NULL) {
        return LOOKUP_UNKNOWN;
    }
    const struct series *series = map_get(s->log->series, str_of(name));
    return series_field(s->scratch, series, field, ret_value) ? LOOKUP_KNOWN : LOOKUP_ABSENT;
}

static enum lookup_state on_run(void *ctx, const char *field, struct value *ret_value)
{
    const struct scope *s = ctx;
    return s->log == NULL                              ? LOOKUP_UNKNOWN
           : run_field(&s->log->run, field, ret_value) ? LOOKUP_KNOWN
                                                       : LOOKUP_ABSENT;
}

static bool first_time(struct scope *s, const char *text)
{
    if (map_get(s->seen_evidence, str_of(text)) != NULL) {
        return false;
    }
    map_put(s->seen_evidence, str_of(text), s);
    return true;
}

bool scope_add_fact(struct scope *s, const char *key, struct evidence_list *evidence)
{
    const struct fact *f = s->facts != NULL ? facts_get(s->facts, key) : NULL;
    if (f == NULL) {
        return false;
    }
    struct strbuf text;
    strbuf_init(&text, s->arena, 2000);
    strbuf_fmt(&text, "%s = ", key);
    if (f->state == FACT_KNOWN) {
        value_print(&text, &f->value);
    } else {
        strbuf_fmt(&text, "(%s)", fact_state_name(f->state));
    }
    if (first_time(s, text.p)) {
        *VEC_PUSH(s->arena, evidence) = (struct evidence){.source = f->source, .text = text.p};
    }
    return f->state == FACT_KNOWN;
}

static void used_fact(void *ctx, const char *key)
{
    struct scope *s = ctx;
    scope_add_fact(s, key, s->evidence);
}

/* What was joined and decoded from several lines (page faults, Xids, fault blocks) goes behind the
 * line that stands for them. Events of written patterns show themselves. */
static void add_decoded(const struct event *e, struct strbuf *out)
{
    if (e->pattern->regex != NULL || strcmp(e->pattern->id, "python-exception") == 0) {
        return;
    }
    const char *sep = "  => ";
    for (size_t i = 0; i < e->capture_count; i++) {
        strbuf_fmt(out, "%s%s %s", sep, e->captures[i].name, e->captures[i].value);
        sep = ", ";
    }
}

static void used_event(void *ctx, const char *pattern_id)
{
    struct scope *s = ctx;
    const struct event_refs *refs = visible(s, pattern_id);
    if (refs == NULL) {
        return;
    }
    const struct event *e = refs->items[0];
    const char *id = arena_fmt(s->arena, "%s:%" PRIu64, e->source, e->line);
    if (!first_time(s, id)) {
        return;
    }
    struct strbuf text;
    strbuf_init(&text, s->arena, 4096);
    strbuf_addz(&text, e->text);
    add_decoded(e, &text);
    if (refs->count > 1) {
        strbuf_fmt(&text, "  (%zu times)", refs->count);
    }
    *VEC_PUSH(s->arena, s->evidence) = (struct evidence){
        .source = e->source, .line = (long)e->line, .text = text.p};
}

static void used_name(void *ctx, const char *name, const struct value *value)
{
    struct scope *s = ctx;
    struct strbuf text;
    strbuf_init(&text, s->arena, 400);
    strbuf_fmt(&text, "%s = ", name);
    value_print(&text, value);
    if (first_time(s, text.p)) {
        *VEC_PUSH(s->arena, s->evidence) = (struct evidence){.source = "log", .text = text.p};
    }
}

void scope_explain(struct scope *s, const struct expr *when, struct evidence_list *evidence)
{
    s->evidence = evidence;
    expr_explain(when, &s->expr, s->scratch);
    s->evidence = NULL;
}

void scope_hide(struct scope *s, const char *pattern_id)
{
    map_put(s->hidden, str_of(pattern_id), s);
}

/* {event(ID).NAME}, {run.steps}, {series(loss).last} in a text. */
static void fill_expression(struct scope *s, const char *text, struct strbuf *out)
{
    const struct expr *e;
    struct value v;
    if (expr_compile(s->arena, text, "text", &e, NULL) == ST_OK &&
        expr_value(e, &s->expr, s->arena, &v) == LOOKUP_KNOWN) {
        value_print(out, &v);
    } else {
        strbuf_addz(out, "(unknown)");
    }
}

/* The value of one {key} in a text. */
static void fill_key(struct scope *s, struct str key, struct strbuf *out)
{
    const char *name = str_dup(s->arena, key);
    if (strchr(name, '(') != NULL || strncmp(name, "run.", 4) == 0) {
        fill_expression(s, name, out);
        return;
    }
    const struct fact *f = s->facts != NULL ? facts_get(s->facts, name) : NULL;
    if (f != NULL && f->state == FACT_KNOWN) {
        value_print(out, &f->value);
    } else if (f != NULL) {
        strbuf_fmt(out, "(%s)", fact_state_name(f->state));
    } else {
        strbuf_addz(out, "(unknown)");
    }
}

/* What may stand between braces: a fact key. Shell's ${X}, JSON and {a,b} are left alone. */
static bool is_key(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (strchr(" \t\n,:'\"{}", s.p[i]) != NULL) {
            return false;
        }
    }
    return s.n != 0 && memchr(s.p, '.', s.n) != NULL;
}

const char *scope_fill(struct scope *s, const char *text)
{
    if (text == NULL || (strpbrk(text, "{$") == NULL)) {
        return text;
    }
    struct strbuf with_dollar;
    strbuf_init(&with_dollar, s->arena, 1 << 16);
    for (const char *p = text; *p != '\0'; p++) {
        if (strncmp(p, "{$}", 3) == 0 && s->expr.dollar != NULL) {
            /* {$} is the name itself: "flash-attn" of "pkg.flash-attn", "gpu[0]" of "gpu[0]". */
            const char *dot = strchr(s->expr.dollar, '.');
            strbuf_addz(&with_dollar, dot != NULL ? dot + 1 : s->expr.dollar);
            p += 2;
        } else if (*p == '$' && s->expr.dollar != NULL && p[1] == '.') {
            strbuf_addz(&with_dollar, s->expr.dollar);
        } else {
            strbuf_addc(&with_dollar, *p);
        }
    }
    struct str rest = strbuf_str(&with_dollar);
    struct strbuf out;
    strbuf_init(&out, s->arena, 1 << 16);
    for (;;) {
        size_t open = str_find_char(rest, '{', 0);
        size_t close = open == SIZE_MAX ? SIZE_MAX : str_find_char(rest, '}', open);
        if (close == SIZE_MAX) {
            break;
        }
        struct str key = str_slice(rest, open + 1, close);
        bool shell = open != 0 && rest.p[open - 1] == '$';
        if (shell || !is_key(key)) {
            strbuf_add(&out, str_slice(rest, 0, open + 1));
            rest = str_slice(rest, open + 1, rest.n);
            continue;
        }
        strbuf_add(&out, str_slice(rest, 0, open));
        fill_key(s, key, &out);
        rest = str_slice(rest, close + 1, rest.n);
    }
    strbuf_add(&out, rest);
    return out.p;
}

static void index_events(struct scope *s)
{
    for (size_t i = 0; i < s->log->events.count; i++) {
        const struct event *e = &s->log->events.items[i];
        struct event_refs *refs = map_get(s->events_by_pattern, str_of(e->pattern->id));
        if (refs == NULL) {
            refs = arena_alloc(s->arena, sizeof *refs);
            map_put(s->events_by_pattern, str_of(e->pattern->id), refs);
        }
        *VEC_PUSH(s->arena, refs) = e;
    }
}

void scope_init(struct scope *s, struct arena *arena, const struct knowledge *k,
                const struct facts *facts, const struct log_facts *log)
{
    *s = (struct scope){
        .arena = arena,
        .scratch = arena_new(0),
        .facts = facts,
        .log = log,
        .events_by_pattern = map_new(arena),
        .hidden = map_new(arena),
        .seen_evidence = map_new(arena),
        .expr = {.ctx = s,
                 .fact = on_fact,
                 .each_key = on_each_key,
                 .event_count = on_event_count,
                 .event_capture = on_event_capture,
                 .event_order = on_event_order,
                 .series = on_series,
                 .run = on_run,
                 .used_fact = used_fact,
                 .used_event = used_event,
                 .used = used_name,
                 .knowledge = k},
    };
    if (facts != NULL) {
        s->sorted_facts = facts_sorted(facts, arena, &s->sorted_count);
    }
    if (log != NULL) {
        index_events(s);
    }
}

void scope_done(struct scope *s)
{
    arena_free(s->scratch);
    s->scratch = NULL;
}

enum truth scope_truth(struct scope *s, const struct expr *when)
{
    return expr_truth(when, &s->expr, s->scratch);
}
