// SPDX-License-Identifier: Apache-2.0
/* Fields of YAML maps, with messages that name file and line. */
#include <string.h>

#include "knowledge/load.h"

const char *load_where(struct loader *l, const char *file, const struct tree *node)
{
    return arena_fmt(l->arena, "%s:%d", file, node != NULL ? node->line : 1);
}

const struct tree *load_list(struct loader *l, const char *file, const struct tree *root,
                             const char *key, const char *also)
{
    const char *const allowed[] = {key, also};
    if (!load_keys(l, file, root, allowed, also != NULL ? 2 : 1)) {
        return NULL;
    }
    const struct tree *list = tree_get(root, key);
    if (list == NULL || list->kind != TREE_LIST) {
        bool empty = list != NULL && list->kind == TREE_SCALAR && list->value.kind == VALUE_NULL;
        if (!empty) {
            load_problem(l, load_where(l, file, list != NULL ? list : root),
                         "the document should hold a list called '%s'", key);
        }
        return NULL;
    }
    return list;
}

static const char *nearest(const char *key, const char *const *allowed, size_t count)
{
    const char *best = NULL;
    size_t best_distance = 3;
    for (size_t i = 0; i < count; i++) {
        size_t d = str_distance(str_of(key), str_of(allowed[i]), 3);
        if (d < best_distance) {
            best_distance = d;
            best = allowed[i];
        }
    }
    return best;
}

bool load_keys(struct loader *l, const char *file, const struct tree *node,
               const char *const *allowed, size_t allowed_count)
{
    if (node->kind != TREE_MAP) {
        load_problem(l, load_where(l, file, node), "a map ('key: value' lines) is expected here");
        return false;
    }
    for (const struct tree *c = node->child; c != NULL; c = c->next) {
        size_t i = 0;
        while (i < allowed_count && strcmp(c->key, allowed[i]) != 0) {
            i++;
        }
        if (i == allowed_count) {
            const char *near = nearest(c->key, allowed, allowed_count);
            load_problem(l, load_where(l, file, c), "unknown key '%.100s'%s%s%s", c->key,
                         near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                         near != NULL ? "'?" : "");
        }
    }
    return true;
}

const char *load_text(struct loader *l, const char *file, const struct tree *map, const char *key,
                      bool required)
{
    const struct tree *n = tree_get(map, key);
    bool missing = n == NULL ||
                   (n->kind == TREE_SCALAR && !n->quoted && n->value.kind == VALUE_NULL);
    if (missing) {
        if (required) {
            load_problem(l, load_where(l, file, map), "'%s' is missing", key);
        }
        return NULL;
    }
    if (n->kind != TREE_SCALAR) {
        load_problem(l, load_where(l, file, n), "'%s' should be one text", key);
        return NULL;
    }
    return n->text;
}

struct text_list load_text_list(struct loader *l, const char *file, const struct tree *map,
                                const char *key)
{
    struct text_list list = {0};
    const struct tree *n = tree_get(map, key);
    if (n == NULL || (n->kind == TREE_SCALAR && !n->quoted && n->value.kind == VALUE_NULL)) {
        return list;
    }
    if (n->kind == TREE_SCALAR) {
        *VEC_PUSH(l->arena, &list) = n->text;
        return list;
    }
    if (n->kind != TREE_LIST) {
        load_problem(l, load_where(l, file, n), "'%s' should be a list of texts", key);
        return list;
    }
    for (const struct tree *c = n->child; c != NULL; c = c->next) {
        if (c->kind == TREE_SCALAR) {
            *VEC_PUSH(l->arena, &list) = c->text;
        } else {
            load_problem(l, load_where(l, file, c),
                         "an item of '%s' is not a text; put quotes around it", key);
        }
    }
    return list;
}

long load_int(struct loader *l, const char *file, const struct tree *map, const char *key, long low,
              long high, long fallback)
{
    const struct tree *n = tree_get(map, key);
    if (n == NULL) {
        return fallback;
    }
    if (n->kind != TREE_SCALAR || n->value.kind != VALUE_INT || n->value.integer < low ||
        n->value.integer > high) {
        load_problem(l, load_where(l, file, n), "'%s' should be a whole number from %ld to %ld",
                     key, low, high);
        return fallback;
    }
    return (long)n->value.integer;
}

bool load_bool(struct loader *l, const char *file, const struct tree *map, const char *key)
{
    const struct tree *n = tree_get(map, key);
    if (n == NULL) {
        return false;
    }
    if (n->kind != TREE_SCALAR || n->value.kind != VALUE_BOOL) {
        load_problem(l, load_where(l, file, n), "'%s' should be true or false", key);
        return false;
    }
    return n->value.boolean;
}

int load_choice(struct loader *l, const char *file, const struct tree *map, const char *key,
                const char *const *names, size_t count, int fallback)
{
    const char *text = load_text(l, file, map, key, fallback < 0);
    if (text == NULL) {
        return fallback;
    }
    struct strbuf all;
    strbuf_init(&all, l->arena, 1000);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (int)i;
        }
        strbuf_fmt(&all, "%s%s", i != 0 ? ", " : "", names[i]);
    }
    load_problem(l, load_where(l, file, tree_get(map, key)),
                 "'%s' is '%.60s'; it should be one of: %s", key, text, all.p);
    return -1;
}

/* A list of conditions is one condition: all of them. */
static const char *joined_condition(struct loader *l, const char *file, const struct tree *map,
                                    const char *key)
{
    struct text_list parts = load_text_list(l, file, map, key);
    if (parts.count == 1) {
        return parts.items[0];
    }
    struct strbuf all;
    strbuf_init(&all, l->arena, 1 << 16);
    for (size_t i = 0; i < parts.count; i++) {
        strbuf_fmt(&all, "%s(%s)", i != 0 ? " and " : "", parts.items[i]);
    }
    return parts.count != 0 ? all.p : NULL;
}

const struct expr *load_expr(struct loader *l, const char *file, const struct tree *map,
                             const char *key, bool required)
{
    const struct tree *n = tree_get(map, key);
    const char *text = n != NULL && n->kind == TREE_LIST ? joined_condition(l, file, map, key)
                                                         : load_text(l, file, map, key, required);
    if (text == NULL) {
        return NULL;
    }
    const struct expr *e = NULL;
    struct err err = {0};
    const char *where = load_where(l, file, n);
    if (expr_compile(l->arena, text, where, &e, &err) != ST_OK) {
        *VEC_PUSH(l->arena, l->problems) = arena_strdup(l->arena, err.text);
        return NULL;
    }
    return e;
}

bool load_is_kebab(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n != 0 && n <= 80 && name[n] == '\0' && name[0] != '-';
}
