// SPDX-License-Identifier: Apache-2.0
/* knowledge/texts: other languages over the English originals. */
#include <string.h>

#include "knowledge/load.h"

/* ---- reading ---- */

/* A leaf is one text or a list of texts; maps only add a part to the key. */
static void take_texts(struct loader *l, const char *file, const char *language, const char *prefix,
                       const struct tree *node)
{
    for (const struct tree *c = node->child; c != NULL; c = c->next) {
        const char *key = prefix[0] != '\0' ? arena_fmt(l->arena, "%s.%s", prefix, c->key) : c->key;
        if (c->kind == TREE_MAP) {
            take_texts(l, file, language, key, c);
            continue;
        }
        struct translation t = {.language = language, .key = key};
        if (c->kind == TREE_SCALAR) {
            *VEC_PUSH(l->arena, &t.texts) = c->text;
        }
        for (const struct tree *i = c->kind == TREE_LIST ? c->child : NULL; i != NULL;
             i = i->next) {
            if (i->kind != TREE_SCALAR) {
                load_problem(l, load_where(l, file, i), "an item of '%.100s' is not a text", key);
                return;
            }
            *VEC_PUSH(l->arena, &t.texts) = i->text;
        }
        *VEC_PUSH(l->arena, &l->translations) = t;
    }
}

void load_texts(struct loader *l, const char *file, const struct tree *root)
{
    if (root->kind != TREE_MAP) {
        load_problem(l, load_where(l, file, root), "a map of texts is expected here");
        return;
    }
    struct str name = str_of(file); /* texts/zh.yaml */
    name = str_slice(name, strlen("texts/"), name.n - strlen(".yaml"));
    take_texts(l, file, str_dup(l->arena, name), "", root);
}

/* ---- finding the original ---- */

/* Where the original stands: one text, or the texts of a list. */
struct place {
    const char **one;
    struct text_list *list;
    struct clause_list *clauses;
};

static struct place in_cause(struct cause *c, const char *field)
{
    return strcmp(field, "title") == 0     ? (struct place){.one = &c->title}
           : strcmp(field, "claim") == 0   ? (struct place){.one = &c->claim}
           : strcmp(field, "remedy") == 0  ? (struct place){.clauses = &c->remedy}
           : strcmp(field, "because") == 0 ? (struct place){.clauses = &c->because}
           : strcmp(field, "settle") == 0  ? (struct place){.clauses = &c->settle}
                                           : (struct place){0};
}

static struct place in_rule(struct rule *r, const char *field)
{
    return strcmp(field, "title") == 0    ? (struct place){.one = &r->title}
           : strcmp(field, "claim") == 0  ? (struct place){.one = &r->claim}
           : strcmp(field, "remedy") == 0 ? (struct place){.list = &r->remedy}
                                          : (struct place){0};
}

static struct place in_switch(struct known_switch *s, const char *field)
{
    return strcmp(field, "says") == 0      ? (struct place){.one = &s->says}
           : strcmp(field, "instead") == 0 ? (struct place){.one = &s->instead}
                                           : (struct place){0};
}

/* "causes.<class>.<field>", "rules.<id>.<field>", "switches.<NAME>.<field>" */
static struct place find_place(const struct knowledge *k, const char *key)
{
    struct str rest = str_of(key);
    struct str kind;
    struct str name;
    if (!str_cut(&rest, '.', &kind) || !str_cut(&rest, '.', &name) || rest.p == NULL) {
        return (struct place){0};
    }
    const char *field = key + (rest.p - key);
    for (size_t i = 0; str_is(kind, "causes") && i < k->causes_count; i++) {
        if (str_is(name, k->causes[i].class_slug)) {
            return in_cause(&k->causes[i], field);
        }
    }
    for (size_t i = 0; str_is(kind, "rules") && i < k->rules_count; i++) {
        if (str_is(name, k->rules[i].id)) {
            return in_rule(&k->rules[i], field);
        }
    }
    for (size_t i = 0; str_is(kind, "switches") && i < k->switches_count; i++) {
        if (str_is(name, k->switches[i].name)) {
            return in_switch(&k->switches[i], field);
        }
    }
    return (struct place){0};
}

bool knowledge_has_text(const struct knowledge *k, const char *key, size_t count)
{
    struct place p = find_place(k, key);
    return (p.one != NULL && count == 1) || (p.list != NULL && p.list->count == count) ||
           (p.clauses != NULL && p.clauses->count == count);
}

/* "zh" for "zh_CN.UTF-8" when there is no such file of its own. */
static bool speaks(const struct translation *t, struct str language)
{
    struct str have = str_of(t->language);
    if (!str_starts(language, t->language)) {
        return false;
    }
    return language.n == have.n || strchr("_-.@", language.p[have.n]) != NULL;
}

static void apply(struct arena *a, struct place p, const struct text_list *texts)
{
    if (p.one != NULL && texts->count == 1) {
        *p.one = texts->items[0];
    }
    for (size_t i = 0; p.list != NULL && i < p.list->count && p.list->count == texts->count; i++) {
        if (i == 0) {
            const char **items = arena_array(a, texts->count, sizeof *items);
            *p.list = (struct text_list){.items = items, .count = texts->count};
        }
        p.list->items[i] = texts->items[i];
    }
    for (size_t i = 0; p.clauses != NULL && i < p.clauses->count && i < texts->count; i++) {
        /* An empty item leaves the clause as it is: clauses without a text have one too. */
        if (texts->items[i][0] != '\0') {
            p.clauses->items[i].text = texts->items[i];
        }
    }
}

void knowledge_translate(struct knowledge *k, struct arena *a, const char *language)
{
    if (language == NULL) {
        return;
    }
    for (size_t i = 0; i < k->translations_count; i++) {
        const struct translation *t = &k->translations[i];
        if (speaks(t, str_of(language))) {
            apply(a, find_place(k, t->key), &t->texts);
        }
    }
}

bool knowledge_speaks(const struct knowledge *k, const char *language)
{
    bool found = str_starts(str_of(language), "en");
    for (size_t i = 0; i < k->translations_count; i++) {
        found = found || speaks(&k->translations[i], str_of(language));
    }
    return found;
}
