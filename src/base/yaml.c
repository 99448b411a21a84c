// SPDX-License-Identifier: Apache-2.0
/* YAML into trees, by libyaml's event parser with an explicit stack. */
#include <string.h>
#include <yaml.h>

#include "base/map.h"
#include "base/tree.h"

enum {
    MAX_DEPTH = 256
};

struct frame {
    struct tree *node;
    struct tree *last_child;
    const char *pending_key; /* a map's key whose value comes next */
    struct map *seen;        /* keys of this map */
};

struct loader {
    struct arena *arena;
    const char *name;
    struct tree_limits limits;
    size_t nodes;
    struct frame stack[MAX_DEPTH];
    size_t depth;
    struct tree *root;
    struct err *err;
};

/* Types of a plain scalar. "yes"/"no"/"on"/"off" stay strings: the traps of YAML 1.1 are not ours. */
static struct value plain_value(const char *text)
{
    struct str s = str_of(text);
    if (s.n == 0 || str_is(s, "~") || str_is(s, "null") || str_is(s, "Null") || str_is(s, "NULL")) {
        return (struct value){0};
    }
    if (str_is(s, "true") || str_is(s, "True") || str_is(s, "TRUE")) {
        return value_bool(true);
    }
    if (str_is(s, "false") || str_is(s, "False") || str_is(s, "FALSE")) {
        return value_bool(false);
    }
    bool numeric = strchr("+-.0123456789", s.p[0]) != NULL && s.p[0] != '\0';
    int64_t i;
    double r;
    if (numeric && str_has(s, "0x") && str_to_i64(s, 16, &i) == ST_OK) {
        return value_int(i);
    }
    if (numeric && str_to_i64(s, 10, &i) == ST_OK) {
        return value_int(i);
    }
    if (numeric && strpbrk(s.p, "xXpPnN") == NULL && str_to_double(s, &r) == ST_OK) {
        return value_real(r);
    }
    return value_string(text);
}

static enum status attach(struct loader *l, struct tree *node)
{
    if (++l->nodes > l->limits.nodes) {
        return err_set(l->err, ST_LIMIT, "%s:%d: more than %zu values in one document", l->name,
                       node->line, l->limits.nodes);
    }
    if (l->depth == 0) {
        l->root = node;
        return ST_OK;
    }
    struct frame *top = &l->stack[l->depth - 1];
    if (top->node->kind == TREE_MAP) {
        node->key = top->pending_key;
        top->pending_key = NULL;
    }
    if (top->last_child != NULL) {
        top->last_child->next = node;
    } else {
        top->node->child = node;
    }
    top->last_child = node;
    top->node->count++;
    return ST_OK;
}

static enum status on_scalar(struct loader *l, const yaml_event_t *ev)
{
    int line = (int)ev->start_mark.line + 1;
    const char *bytes = (const char *)ev->data.scalar.value;
    size_t n = ev->data.scalar.length;
    if (memchr(bytes, '\0', n) != NULL) {
        return err_set(l->err, ST_FORMAT, "%s:%d: a NUL byte inside a value", l->name, line);
    }
    const char *text = arena_copy(l->arena, bytes, n);
    struct frame *top = l->depth != 0 ? &l->stack[l->depth - 1] : NULL;
    if (top != NULL && top->node->kind == TREE_MAP && top->pending_key == NULL) {
        if (map_get(top->seen, str_of(text)) != NULL) {
            return err_set(l->err, ST_FORMAT, "%s:%d: the key '%.200s' stands twice in one map",
                           l->name, line, text);
        }
        map_put(top->seen, str_of(text), top);
        top->pending_key = text;
        return ST_OK;
    }
    struct tree *node = arena_alloc(l->arena, sizeof *node);
    node->line = line;
    node->text = text;
    node->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->value = node->quoted ? value_string(text) : plain_value(text);
    return attach(l, node);
}

static enum status on_open(struct loader *l, enum tree_kind kind, const yaml_event_t *ev)
{
    int line = (int)ev->start_mark.line + 1;
    size_t ceiling = l->limits.depth < MAX_DEPTH ? l->limits.depth : MAX_DEPTH;
    if (l->depth >= ceiling) {
        return err_set(l->err, ST_LIMIT, "%s:%d: nested deeper than %zu levels", l->name, line,
                       ceiling);
    }
    struct frame *top = l->depth != 0 ? &l->stack[l->depth - 1] : NULL;
    if (top != NULL && top->node->kind == TREE_MAP && top->pending_key == NULL) {
        return err_set(l->err, ST_FORMAT, "%s:%d: a map key must be a plain value", l->name, line);
    }
    struct tree *node = arena_alloc(l->arena, sizeof *node);
    node->kind = kind;
    node->line = line;
    TRY(attach(l, node));
    l->stack[l->depth++] = (struct frame){.node = node,
                                          .seen = kind == TREE_MAP ? map_new(l->arena) : NULL};
    return ST_OK;
}

static enum status on_event(struct loader *l, const yaml_event_t *ev, bool *ret_end)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT: return on_scalar(l, ev);
    case YAML_MAPPING_START_EVENT: return on_open(l, TREE_MAP, ev);
    case YAML_SEQUENCE_START_EVENT: return on_open(l, TREE_LIST, ev);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: l->depth--; return ST_OK;
    case YAML_ALIAS_EVENT:
        return err_set(l->err, ST_FORMAT, "%s:%d: aliases (*name) are not accepted here", l->name,
                       (int)ev->start_mark.line + 1);
    case YAML_DOCUMENT_START_EVENT:
        if (l->root != NULL) {
            return err_set(l->err, ST_FORMAT, "%s:%d: more than one document in the file", l->name,
                           (int)ev->start_mark.line + 1);
        }
        return ST_OK;
    case YAML_STREAM_END_EVENT: *ret_end = true; return ST_OK;
    default: return ST_OK;
    }
}

enum status tree_from_yaml(struct arena *a, struct str text, const char *name,
                           struct tree_limits limits, const struct tree **ret_tree, struct err *err)
{
    if (text.n > limits.bytes) {
        return err_set(err, ST_LIMIT, "%s: larger than %zu bytes", name, limits.bytes);
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        return err_set(err, ST_IO, "%s: the YAML parser could not start", name);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    struct loader *l = arena_alloc(a, sizeof *l);
    l->arena = a;
    l->name = name;
    l->limits = limits;
    l->err = err;
    enum status status = ST_OK;
    bool end = false;
    while (status == ST_OK && !end) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&parser, &ev)) {
            const char *problem = parser.problem != NULL ? parser.problem : "unreadable";
            bool token = strstr(problem, "cannot start any token") != NULL;
            status = err_set(
                err, ST_FORMAT, "%s:%d: not YAML: %s%s", name, (int)parser.problem_mark.line + 1,
                problem,
                token ? " (a tab? YAML is indented with spaces; texts that begin with @, "
                        "` or % need quotes)"
                      : "");
            break;
        }
        status = on_event(l, &ev, &end);
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&parser);
    if (status == ST_OK && l->root == NULL) {
        status = err_set(err, ST_FORMAT, "%s: empty document", name);
    }
    if (status == ST_OK) {
        *ret_tree = l->root;
    }
    return status;
}
