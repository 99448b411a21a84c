// SPDX-License-Identifier: Apache-2.0
/* Facts to JSON and back. */
#include "facts/facts_json.h"

#include <string.h>

#include "base/json_out.h"
#include "base/tree.h"

void facts_write_json(const struct facts *f, struct arena *scratch, facts_unit_of unit_of,
                      void *ctx, struct strbuf *out)
{
    struct json_out j;
    json_init(&j, out);
    json_object(&j);
    json_key(&j, "schema_version");
    json_int(&j, 1);
    json_key(&j, "facts");
    json_object(&j);
    size_t count;
    const struct fact *const *all = facts_sorted(f, scratch, &count);
    for (size_t i = 0; i < count; i++) {
        json_key(&j, all[i]->key);
        json_object(&j);
        json_field(&j, "state", fact_state_name(all[i]->state));
        json_key(&j, "value");
        json_value(&j, &all[i]->value);
        const char *unit = unit_of != NULL ? unit_of(ctx, all[i]->key) : NULL;
        json_field(&j, "unit", unit != NULL && unit[0] != '\0' ? unit : NULL);
        json_field(&j, "source", all[i]->source);
        json_field(&j, "reason", all[i]->reason);
        json_object_end(&j);
    }
    json_object_end(&j);
    json_object_end(&j);
    strbuf_addc(out, '\n');
}

struct reader {
    struct facts *facts;
    const char *name;
    facts_type_of type_of;
    void *ctx;
    struct err *err;
};

static bool type_fits(const char *type, enum value_kind kind)
{
    if (strcmp(type, "int") == 0) {
        return kind == VALUE_INT;
    }
    if (strcmp(type, "bool") == 0) {
        return kind == VALUE_BOOL;
    }
    if (strcmp(type, "list") == 0) {
        return kind == VALUE_LIST;
    }
    return kind == VALUE_STRING; /* string, version */
}

static enum status check_type(const struct reader *r, const char *key, const struct value *v)
{
    const char *type = r->type_of != NULL ? r->type_of(r->ctx, key) : NULL;
    if (type == NULL || type_fits(type, v->kind)) {
        return ST_OK;
    }
    return err_set(r->err, ST_FORMAT, "%s: the fact '%.200s' should be of type %s and is a %s",
                   r->name, key, type, value_kind_name(v->kind));
}

static enum status take_value(const struct reader *r, const char *key, const struct tree *node,
                              const char *source)
{
    struct value v = tree_value(facts_arena(r->facts), node);
    if (node->kind == TREE_MAP || (node->kind == TREE_LIST && v.kind != VALUE_LIST)) {
        return err_set(r->err, ST_FORMAT,
                       "%s: the fact '%.200s' should be a value or a list of values", r->name, key);
    }
    if (v.kind == VALUE_NULL) {
        facts_set_state(r->facts, key, FACT_ABSENT, source, NULL);
        return ST_OK;
    }
    TRY(check_type(r, key, &v));
    facts_set(r->facts, key, v, source);
    return ST_OK;
}

/* {"state": ..., "value": ..., "source": ..., "reason": ...} */
static enum status take_record(const struct reader *r, const struct tree *node)
{
    const char *state = tree_text(node, "state", NULL);
    const char *source = tree_text(node, "source", r->name);
    for (int s = 0; state != NULL && s < FACT_STATE_COUNT; s++) {
        if (strcmp(state, fact_state_name(s)) != 0) {
            continue;
        }
        const struct tree *value = tree_get(node, "value");
        if (s != FACT_KNOWN) {
            facts_set_state(r->facts, node->key, s, source, tree_text(node, "reason", NULL));
            return ST_OK;
        }
        if (value == NULL) {
            return err_set(r->err, ST_FORMAT, "%s: the fact '%.200s' is known and has no value",
                           r->name, node->key);
        }
        return take_value(r, node->key, value, source);
    }
    return err_set(r->err, ST_FORMAT,
                   "%s: the fact '%.200s' has no state that exists (known, absent, denied, "
                   "unreadable, not applicable)",
                   r->name, node->key);
}

enum status facts_read_json(struct facts *f, struct str text, const char *name,
                            facts_type_of type_of, void *ctx, struct err *err)
{
    const struct tree_limits limits = {.bytes = 64u << 20, .nodes = 1000000, .depth = 8};
    const struct tree *root;
    TRY(tree_from_json(facts_arena(f), text, name, limits, &root, err));
    if (root->kind != TREE_MAP) {
        return err_set(err, ST_FORMAT, "%s: facts should be one JSON object, {key: value}", name);
    }
    struct reader r = {.facts = f, .name = name, .type_of = type_of, .ctx = ctx, .err = err};
    const struct tree *wrapped = tree_get(root, "facts");
    bool records = wrapped != NULL && wrapped->kind == TREE_MAP;
    const struct tree *all = records ? wrapped : root;
    if (all->count > 200000) {
        return err_set(err, ST_LIMIT, "%s: more than 200000 facts", name);
    }
    for (const struct tree *n = all->child; n != NULL; n = n->next) {
        if (n->kind == TREE_MAP) {
            TRY(take_record(&r, n));
        } else {
            TRY(take_value(&r, n->key, n, name));
        }
    }
    return ST_OK;
}
