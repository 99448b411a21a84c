// SPDX-License-Identifier: Apache-2.0
/* JSON into trees, by jansson. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/tree.h"

struct converter {
    struct arena *arena;
    const char *name;
    struct tree_limits limits;
    size_t nodes;
    bool from_reals; /* integers were read as reals */
    struct err *err;
};

static enum status convert(struct converter *c, const json_t *j, const char *key, size_t depth,
                           struct tree **ret_node);

static void append(struct tree *parent, struct tree **last, struct tree *child)
{
    if (*last != NULL) {
        (*last)->next = child;
    } else {
        parent->child = child;
    }
    *last = child;
    parent->count++;
}

static enum status convert_children(struct converter *c, const json_t *j, size_t depth,
                                    struct tree *node)
{
    struct tree *last = NULL;
    struct tree *child;
    if (node->kind == TREE_LIST) {
        for (size_t i = 0; i < json_array_size(j); i++) {
            TRY(convert(c, json_array_get(j, i), NULL, depth + 1, &child));
            append(node, &last, child);
        }
        return ST_OK;
    }
    for (void *it = json_object_iter((json_t *)j); it != NULL;
         it = json_object_iter_next((json_t *)j, it)) {
        const char *key = arena_strdup(c->arena, json_object_iter_key(it));
        TRY(convert(c, json_object_iter_value(it), key, depth + 1, &child));
        append(node, &last, child);
    }
    return ST_OK;
}

static void convert_scalar(struct converter *c, const json_t *j, struct tree *node)
{
    switch (json_typeof(j)) {
    case JSON_TRUE:
    case JSON_FALSE: node->value = value_bool(json_is_true(j)); break;
    case JSON_INTEGER: node->value = value_int(json_integer_value(j)); break;
    case JSON_REAL:
        node->value = value_real(json_real_value(j));
        if (c->from_reals && fabs(json_real_value(j)) <= 0x1p53 &&
            floor(json_real_value(j)) == json_real_value(j)) {
            node->value = value_int((int64_t)json_real_value(j));
        }
        break;
    case JSON_STRING:
        node->quoted = true;
        node->value = value_string(
            arena_copy(c->arena, json_string_value(j), json_string_length(j)));
        break;
    default: break;
    }
    struct strbuf text;
    strbuf_init(&text, c->arena, c->limits.bytes);
    if (node->value.kind != VALUE_NULL) {
        value_print(&text, &node->value);
        node->text = node->value.kind == VALUE_STRING ? node->value.string : text.p;
    }
}

static enum status convert(struct converter *c, const json_t *j, const char *key, size_t depth,
                           struct tree **ret_node)
{
    if (++c->nodes > c->limits.nodes) {
        return err_set(c->err, ST_LIMIT, "%s: more than %zu values in one document", c->name,
                       c->limits.nodes);
    }
    if (depth > c->limits.depth) {
        return err_set(c->err, ST_LIMIT, "%s: nested deeper than %zu levels", c->name,
                       c->limits.depth);
    }
    struct tree *node = arena_alloc(c->arena, sizeof *node);
    node->key = key;
    if (json_is_object(j) || json_is_array(j)) {
        node->kind = json_is_object(j) ? TREE_MAP : TREE_LIST;
        TRY(convert_children(c, j, depth, node));
    } else {
        convert_scalar(c, j, node);
    }
    *ret_node = node;
    return ST_OK;
}

enum status tree_from_json(struct arena *a, struct str text, const char *name,
                           struct tree_limits limits, const struct tree **ret_tree, struct err *err)
{
    if (text.n > limits.bytes) {
        return err_set(err, ST_LIMIT, "%s: larger than %zu bytes", name, limits.bytes);
    }
    if (str_starts(
            text,
            "\xef\xbb\xbf")) { /* editors and shells of Windows write the mark; RFC 8259, 8.1 */
        text = str_slice(text, 3, text.n);
    }
    json_error_t problem;
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_t *j = json_loadb(text.p, text.n, flags, &problem);
    /* Python writes integers of any size: model_max_length of tokenizers is 10^30. */
    bool from_reals = j == NULL && json_error_code(&problem) == json_error_numeric_overflow;
    if (from_reals) {
        j = json_loadb(text.p, text.n, flags | JSON_DECODE_INT_AS_REAL, &problem);
    }
    if (j == NULL) {
        return err_set(err, ST_FORMAT, "%s:%d: not JSON: %s", name, problem.line, problem.text);
    }
    struct converter c = {
        .arena = a, .name = name, .limits = limits, .from_reals = from_reals, .err = err};
    struct tree *root = NULL;
    enum status status = convert(&c, j, NULL, 0, &root);
    json_decref(j);
    if (status == ST_OK) {
        *ret_tree = root;
    }
    return status;
}
