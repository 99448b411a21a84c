// SPDX-License-Identifier: Apache-2.0
/* knowledge/lint: the keys that each training program takes; knowledge/graph.yaml: doctor's path. */
#include <string.h>

#include "knowledge/load.h"

static const char *const programs[] = {"llamafactory", "transformers", "deepspeed", "accelerate"};
static const char *const severities[] = {"note", "warning", "error"};
static const char *const types[LINT_TYPE_COUNT] = {
    [LINT_ANY] = "any",
    [LINT_BOOL] = "bool",
    [LINT_INT] = "int",
    [LINT_REAL] = "real",
    [LINT_LIST] = "list",
    [LINT_STRING] = "string",
    [LINT_WRONG_NAME] = "no such key",
};

static void load_key(struct loader *l, const char *file, const struct tree *node,
                     const char *program)
{
    static const char *const keys[] = {"key",     "type", "default",  "values",
                                       "instead", "says", "severity", "near_only"};
    if (!load_keys(l, file, node, keys, ARRAY_LEN(keys))) {
        return;
    }
    struct lint_key row = {.program = program};
    row.key = load_text(l, file, node, "key", true);
    int type = load_choice(l, file, node, "type", types, ARRAY_LEN(types), LINT_ANY);
    int severity = load_choice(l, file, node, "severity", severities, ARRAY_LEN(severities), 2);
    row.fallback = load_text(l, file, node, "default", false);
    row.values = load_text_list(l, file, node, "values");
    row.instead = load_text(l, file, node, "instead", false);
    row.says = load_text(l, file, node, "says", false);
    row.near_only = load_bool(l, file, node, "near_only");
    if (row.key == NULL || type < 0 || severity < 0) {
        return;
    }
    const char *where = load_where(l, file, node);
    row.type = (enum lint_type)type;
    row.severity = severity == 0   ? SEVERITY_NOTE
                   : severity == 1 ? SEVERITY_WARNING
                                   : SEVERITY_ERROR;
    if (row.says == NULL && (row.type == LINT_WRONG_NAME || strcmp(row.key, "*") == 0)) {
        load_problem(l, where, "'says' is missing: what becomes of such a key");
    }
    const char *name = arena_fmt(l->arena, "%s %s", program, row.key);
    if (load_unique(l, l->lint_names, "key", name, where)) {
        *VEC_PUSH(l->arena, &l->lint_keys) = row;
    }
}

void load_lint(struct loader *l, const char *file, const struct tree *root)
{
    const struct tree *list = load_list(l, file, root, "keys", "program");
    int program = load_choice(l, file, root, "program", programs, ARRAY_LEN(programs), -1);
    if (list == NULL || program < 0) {
        return;
    }
    for (const struct tree *c = list->child; c != NULL; c = c->next) {
        load_key(l, file, c, programs[program]);
    }
}

static void load_node(struct loader *l, const char *file, const struct tree *node)
{
    static const char *const keys[] = {"id", "title", "when", "yes", "no"};
    if (!load_keys(l, file, node, keys, ARRAY_LEN(keys))) {
        return;
    }
    struct graph_node n = {.where = load_where(l, file, node)};
    n.id = load_text(l, file, node, "id", true);
    n.title = load_text(l, file, node, "title", true);
    n.when = load_expr(l, file, node, "when", false);
    n.yes = load_text(l, file, node, "yes", false);
    n.no = load_text(l, file, node, "no", false);
    if (n.id == NULL || n.title == NULL) {
        return;
    }
    if ((n.when != NULL) != (n.yes != NULL && n.no != NULL)) {
        load_problem(l, n.where, "a question has 'when', 'yes' and 'no'; an end has none of them");
        return;
    }
    if (load_unique(l, l->graph_ids, "step", n.id, n.where)) {
        *VEC_PUSH(l->arena, &l->graph_nodes) = n;
    }
}

/* A step that names one that does not exist, or one above it (the path never runs in a circle). */
static void check_next(struct loader *l, const struct graph_node *n, size_t index, const char *next)
{
    for (size_t i = 0; next != NULL && i < l->graph_nodes.count; i++) {
        if (strcmp(l->graph_nodes.items[i].id, next) == 0) {
            if (i <= index) {
                load_problem(l, n->where, "'%.80s' leads back to '%.80s'", n->id, next);
            }
            return;
        }
    }
    if (next != NULL) {
        load_problem(l, n->where, "there is no step '%.80s'", next);
    }
}

void load_graph(struct loader *l, const char *file, const struct tree *root)
{
    const struct tree *list = load_list(l, file, root, "steps", NULL);
    for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
        load_node(l, file, c);
    }
    for (size_t i = 0; i < l->graph_nodes.count; i++) {
        const struct graph_node *n = &l->graph_nodes.items[i];
        check_next(l, n, i, n->yes);
        check_next(l, n, i, n->no);
    }
}
