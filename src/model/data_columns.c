// SPDX-License-Identifier: Apache-2.0
/* Paths of fields and the kind each had first; beyond a ceiling new paths are not remembered. */
#include "model/data_columns.h"

#include <string.h>

#include "base/map.h"

enum {
    PATH_MAX_BYTES = 512,
    PATHS_MAX = 20000,
    DEPTH_MAX = 12
};

struct column {
    const char *kind;
    uint64_t line;
    bool told;
};

struct data_columns {
    struct arena *arena;
    struct map *by_path;
};

struct walk {
    struct data_columns *columns;
    uint64_t line;
    char path[PATH_MAX_BYTES];
    size_t n;
    struct data_clash *clash;
    bool found;
};

struct data_columns *data_columns_new(struct arena *a)
{
    struct data_columns *c = arena_alloc(a, sizeof *c);
    *c = (struct data_columns){.arena = a, .by_path = map_new(a)};
    return c;
}

static const char *kind_of(const struct tree *t)
{
    if (t->kind != TREE_SCALAR) {
        return t->kind == TREE_MAP ? "object" : "array";
    }
    switch (t->value.kind) {
    case VALUE_BOOL: return "boolean";
    case VALUE_INT:
    case VALUE_REAL: return "number";
    case VALUE_STRING: return "string";
    default: return NULL; /* null */
    }
}

/* The kind under the path that is being walked against the one before. */
static void look(struct walk *w, const char *kind)
{
    struct data_columns *c = w->columns;
    struct str path = {.p = w->path, .n = w->n};
    struct column *column = map_get(c->by_path, path);
    if (column == NULL) {
        if (map_count(c->by_path) < PATHS_MAX) {
            column = arena_alloc(c->arena, sizeof *column);
            *column = (struct column){.kind = kind, .line = w->line};
            map_put(c->by_path, str_of(str_dup(c->arena, path)), column);
        }
        return;
    }
    if (w->found || column->told || strcmp(column->kind, kind) == 0) {
        return;
    }
    column->told = true;
    w->found = true;
    *w->clash = (struct data_clash){.path = str_dup(c->arena, path),
                                    .now = kind,
                                    .before = column->kind,
                                    .line = column->line,
                                    .is_content = str_ends(path, "/[]/content") ||
                                                  str_ends(path, "/[]/value")};
}

static void walk(struct walk *w, const struct tree *t, const char *step, unsigned depth)
{
    const char *kind = kind_of(t);
    size_t before = w->n;
    size_t n = strlen(step);
    if (kind == NULL || depth > DEPTH_MAX || w->n + n + 2 > sizeof w->path) {
        return;
    }
    if (depth > 0) {
        w->path[w->n++] = '/';
        memcpy(w->path + w->n, step, n);
        w->n += n;
        look(w, kind);
    }
    for (const struct tree *e = t->kind != TREE_SCALAR ? t->child : NULL; e != NULL; e = e->next) {
        walk(w, e, t->kind == TREE_MAP ? e->key : "[]", depth + 1);
    }
    w->n = before;
}

bool data_columns_clash(struct data_columns *c, const struct tree *record, uint64_t line,
                        struct data_clash *ret_clash)
{
    struct walk w = {.columns = c, .line = line, .clash = ret_clash};
    if (record->kind == TREE_MAP) {
        walk(&w, record, "", 0);
    }
    return w.found;
}
