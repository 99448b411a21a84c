// SPDX-License-Identifier: Apache-2.0
/* Access to documents. The parsers are in yaml.c and json_in.c. */
#include "base/tree.h"

#include <string.h>

const struct tree *tree_get(const struct tree *t, const char *key)
{
    if (t == NULL || t->kind != TREE_MAP) {
        return NULL;
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (strcmp(c->key, key) == 0) {
            return c;
        }
    }
    return NULL;
}

const char *tree_text(const struct tree *t, const char *key, const char *fallback)
{
    const struct tree *c = tree_get(t, key);
    return c != NULL && c->kind == TREE_SCALAR && c->text != NULL ? c->text : fallback;
}

struct value tree_value(struct arena *a, const struct tree *t)
{
    if (t == NULL) {
        return (struct value){0};
    }
    if (t->kind == TREE_SCALAR) {
        return t->value;
    }
    if (t->kind == TREE_MAP) {
        return (struct value){0};
    }
    struct value *items = arena_array(a, t->count + 1, sizeof *items);
    size_t n = 0;
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (c->kind != TREE_SCALAR) {
            return (struct value){0};
        }
        items[n++] = c->value;
    }
    return (struct value){.kind = VALUE_LIST, .list = {.items = items, .count = n}};
}
