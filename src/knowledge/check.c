// SPDX-License-Identifier: Apache-2.0
/* References between the files: pattern ids, classes, fact keys, names in texts. */
#include <string.h>

#include "knowledge/load.h"

struct check {
    struct loader *l;
    const struct knowledge *k;
    const char *where;
    const char *each; /* what '$' stands for in this rule, or NULL */
};

static const char *nearest_id(const struct knowledge *k, const char *id)
{
    const char *best = NULL;
    size_t best_distance = 4;
    for (size_t i = 0; i < k->patterns_count; i++) {
        size_t d = str_distance(str_of(id), str_of(k->patterns[i].id), 4);
        if (d < best_distance) {
            best_distance = d;
            best = k->patterns[i].id;
        }
    }
    return best;
}

/* Events that the log reader makes itself, from several lines or from numbers it decodes, and what
 * they carry; see docs/knowledge.md, "Synthetic events". */
static const struct {
    const char *id;
    const char *captures; /* a space at both ends of each */
} reader_events[] = {
    {"amdgpu-page-fault",
     " hub vmid pasid pid process client rw permission walker mapping more_faults "
     "status address pci device_gone compute "},
    {"nvidia-xid", " xid name class pid process pci text meaning "},
    {"rocr-fault-block", " error kernel address grid workgroup queue gpu "},
    {"python-exception", " type message module file function code_line rank final recovered "
                         "own_file own_line own_code own_raise "},
};

/* Captures of a reader's event, or NULL. */
static const char *reader_captures(const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(reader_events); i++) {
        if (strcmp(reader_events[i].id, id) == 0) {
            return reader_events[i].captures;
        }
    }
    return NULL;
}

static void check_capture(void *ctx, const char *id, const char *name)
{
    struct check *c = ctx;
    const char *list = reader_captures(id);
    if (list != NULL) {
        if (strstr(list, arena_fmt(c->l->arena, " %s ", name)) == NULL) {
            load_problem(c->l, c->where, "'%.80s' has no capture '%.80s'; it has:%s", id, name,
                         list);
        }
        return;
    }
    for (size_t i = 0; i < c->k->patterns_count; i++) {
        const struct pattern *p = &c->k->patterns[i];
        if (strcmp(p->id, id) != 0) {
            continue;
        }
        const char *text = p->capture != NULL ? p->capture : "";
        if (strstr(text, arena_fmt(c->l->arena, "(?<%s>", name)) == NULL &&
            strstr(text, arena_fmt(c->l->arena, "(?P<%s>", name)) == NULL) {
            load_problem(c->l, c->where, "the pattern '%.80s' (%s) captures no '%.80s'", id,
                         p->where, name);
        }
        return;
    }
}

static void check_event(void *ctx, const char *id)
{
    struct check *c = ctx;
    if (reader_captures(id) == NULL && map_get(c->l->pattern_ids, str_of(id)) == NULL) {
        const char *near = nearest_id(c->k, id);
        load_problem(c->l, c->where, "there is no pattern '%.80s'%s%s%s", id,
                     near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                     near != NULL ? "'?" : "");
    }
}

/* The key with '$' replaced by the rule's `for`, so that it can be looked up in the table. */
static const char *key_of(struct check *c, const char *key)
{
    if (strchr(key, '$') == NULL) {
        return key;
    }
    if (c->each == NULL) {
        load_problem(c->l, c->where, "'%.100s' uses '$', which only a rule with 'for' has", key);
        return NULL;
    }
    struct strbuf out;
    strbuf_init(&out, c->l->arena, 1000);
    for (const char *p = key; *p != '\0'; p++) {
        if (*p == '$') {
            strbuf_addz(&out, c->each);
        } else {
            strbuf_addc(&out, *p);
        }
    }
    return out.p;
}

static void check_key(void *ctx, const char *written)
{
    struct check *c = ctx;
    const char *key = key_of(c, written);
    if (key != NULL && knowledge_fact_key(c->k, key) == NULL) {
        load_problem(c->l, c->where, "there is no fact key '%.100s' in fact_keys.tsv", key);
    }
}

static void check_condition(struct check *c, const struct expr *e)
{
    if (e != NULL) {
        expr_each_event(e, check_event, c);
        expr_each_capture(e, check_capture, c);
        expr_each_fact(e, check_key, c);
    }
}

/* {key} or {event(ID).NAME} in a text. */
static void check_filler(struct check *c, const char *name)
{
    if (strchr(name, '(') == NULL && strncmp(name, "run.", 4) != 0) {
        check_key(c, name);
        return;
    }
    const struct expr *e;
    struct err err = {0};
    if (expr_compile(c->l->arena, name, c->where, &e, &err) != ST_OK) {
        *VEC_PUSH(c->l->arena, c->l->problems) = arena_strdup(c->l->arena, err.text);
        return;
    }
    check_condition(c, e);
}

/* The same test of what stands between braces as where texts are filled (diagnosis/scope.c). */
static void check_text(struct check *c, const char *text)
{
    struct str rest = str_of(text);
    for (;;) {
        size_t open = str_find_char(rest, '{', 0);
        size_t close = open == SIZE_MAX ? SIZE_MAX : str_find_char(rest, '}', open);
        if (close == SIZE_MAX) {
            return;
        }
        struct str key = str_slice(rest, open + 1, close);
        bool name = str_find_char(key, '.', 0) != SIZE_MAX &&
                    (open == 0 || rest.p[open - 1] != '$');
        for (size_t i = 0; i < key.n; i++) {
            name = name && strchr(" \t\n,:'\"{}", key.p[i]) == NULL;
        }
        if (name) {
            check_filler(c, str_dup(c->l->arena, key));
        }
        rest = str_slice(rest, name ? close + 1 : open + 1, rest.n);
    }
}

static void check_texts(struct check *c, const struct text_list *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        check_text(c, texts->items[i]);
    }
}

static void check_clauses(struct check *c, const struct clause_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        c->where = list->items[i].where;
        check_condition(c, list->items[i].when);
        check_text(c, list->items[i].text);
    }
}

static void check_cause(struct check *c, struct cause *cause)
{
    const struct taxon *t = knowledge_taxon(c->k, cause->class_slug);
    cause->layer = t != NULL ? t->layer : "";
    c->where = cause->where;
    if (t == NULL) {
        load_problem(c->l, c->where, "there is no class '%.80s' in taxonomy.tsv",
                     cause->class_slug);
    }
    check_condition(c, cause->require);
    check_text(c, cause->title);
    check_text(c, cause->claim);
    for (size_t i = 0; i < cause->explains.count; i++) {
        check_event(c, cause->explains.items[i]);
    }
    check_clauses(c, &cause->because);
    check_clauses(c, &cause->against);
    check_clauses(c, &cause->remedy);
    check_clauses(c, &cause->settle);
}

static void check_rule(struct check *c, const struct rule *rule)
{
    c->where = rule->where;
    c->each = rule->each;
    check_condition(c, rule->when);
    if (expr_has_event(rule->when)) {
        load_problem(c->l, c->where, "a rule of doctor cannot ask for event(): there is no log");
    }
    check_text(c, rule->title);
    check_text(c, rule->claim);
    check_texts(c, &rule->remedy);
    for (size_t i = 0; i < rule->needs.count; i++) {
        check_key(c, rule->needs.items[i]);
    }
    for (size_t i = 0; i < rule->evidence.count; i++) {
        check_key(c, rule->evidence.items[i]);
    }
    c->each = NULL;
}

void load_check_references(struct loader *l, const struct knowledge *k)
{
    struct check c = {.l = l, .k = k};
    for (size_t i = 0; i < k->causes_count; i++) {
        check_cause(&c, &k->causes[i]);
    }
    for (size_t i = 0; i < k->rules_count; i++) {
        check_rule(&c, &k->rules[i]);
    }
    for (size_t i = 0; i < k->graph_nodes_count; i++) {
        c.where = k->graph_nodes[i].where;
        check_condition(&c, k->graph_nodes[i].when);
        check_text(&c, k->graph_nodes[i].title);
    }
    for (size_t i = 0; i < k->translations_count; i++) {
        const struct translation *t = &k->translations[i];
        if (!knowledge_has_text(k, t->key, t->texts.count)) {
            load_problem(l, arena_fmt(l->arena, "texts/%s.yaml", t->language),
                         "'%.100s' translates no text, or a list of another length", t->key);
        }
    }
}
