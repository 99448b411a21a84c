// SPDX-License-Identifier: Apache-2.0
/* knowledge/causes: what speaks for and against each class of the taxonomy. */
#include <string.h>

#include "knowledge/load.h"

/* A clause of because and against (weight needed), settle or remedy (no weight). */
static void load_clause(struct loader *l, const char *file, const struct tree *node, bool weighed,
                        struct clause_list *list)
{
    static const char *const keys[] = {"when", "text", "weight", "with_event"};
    struct clause c = {.where = load_where(l, file, node)};
    if (!weighed && node->kind == TREE_SCALAR) {
        c.text = node->text; /* a line that always holds */
        *VEC_PUSH(l->arena, list) = c;
        return;
    }
    if (!load_keys(l, file, node, keys, weighed ? 4 : 2)) {
        return;
    }
    c.when = load_expr(l, file, node, "when", weighed);
    c.text = load_text(l, file, node, "text", !weighed);
    if (weighed) {
        if (tree_get(node, "weight") == NULL) {
            load_problem(l, c.where, "'weight' is missing");
        }
        c.weight = (int)load_int(l, file, node, "weight", 1, 100, 1);
        c.with_event = load_bool(l, file, node, "with_event");
    }
    bool broken = c.when == NULL && (weighed || tree_get(node, "when") != NULL);
    if (!broken) {
        *VEC_PUSH(l->arena, list) = c;
    }
}

static void load_clauses(struct loader *l, const char *file, const struct tree *map,
                         const char *key, bool weighed, struct clause_list *list)
{
    const struct tree *n = tree_get(map, key);
    if (n == NULL || (n->kind == TREE_SCALAR && n->value.kind == VALUE_NULL)) {
        return;
    }
    if (n->kind == TREE_SCALAR && !weighed) {
        load_clause(l, file, n, weighed, list);
        return;
    }
    if (n->kind != TREE_LIST) {
        load_problem(l, load_where(l, file, n), "'%s' should be a list", key);
        return;
    }
    for (const struct tree *c = n->child; c != NULL; c = c->next) {
        load_clause(l, file, c, weighed, list);
    }
}

static void load_cause(struct loader *l, const char *file, const struct tree *node)
{
    static const char *const keys[] = {"class",   "title",    "claim",    "because",
                                       "against", "requires", "explains", "remedy",
                                       "settle",  "links",    "notes"};
    if (!load_keys(l, file, node, keys, ARRAY_LEN(keys))) {
        return;
    }
    struct cause c = {.where = load_where(l, file, node)};
    c.class_slug = load_text(l, file, node, "class", true);
    c.title = load_text(l, file, node, "title", true);
    c.claim = load_text(l, file, node, "claim", false);
    load_clauses(l, file, node, "because", true, &c.because);
    load_clauses(l, file, node, "against", true, &c.against);
    load_clauses(l, file, node, "remedy", false, &c.remedy);
    load_clauses(l, file, node, "settle", false, &c.settle);
    c.require = load_expr(l, file, node, "requires", false);
    c.explains = load_text_list(l, file, node, "explains");
    c.links = load_text_list(l, file, node, "links");
    bool gate_broken = tree_get(node, "requires") != NULL && c.require == NULL;
    if (c.class_slug == NULL || c.title == NULL || gate_broken ||
        !load_unique(l, l->cause_slugs, "cause", c.class_slug, c.where)) {
        return;
    }
    if (c.because.count == 0) {
        load_problem(l, c.where, "cause '%s' has nothing under 'because'", c.class_slug);
    }
    *VEC_PUSH(l->arena, &l->causes) = c;
}

void load_causes(struct loader *l, const char *file, const struct tree *root)
{
    const struct tree *list = load_list(l, file, root, "causes", NULL);
    for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
        load_cause(l, file, c);
    }
}
