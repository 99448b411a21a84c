// SPDX-License-Identifier: Apache-2.0
/* The lock file: one object per section, items by name, so that it reads well and compares line by line. */
#include <string.h>

#include "base/json_out.h"
#include "base/tree.h"
#include "base/vec.h"

#include "snapshot/stack.h"

enum {
    SCHEMA = 1,
    ITEMS_MAX = 200000
};

static void write_item(struct json_out *j, const struct stack_item *item)
{
    json_key(j, item->name);
    json_object(j);
    json_field(j, "version", item->version);
    json_field(j, "build_id", item->build_id);
    json_field(j, "record_sha256", item->digest);
    json_field(j, "path", item->path);
    json_object_end(j);
}

void stack_write(const struct stack *s, struct strbuf *out)
{
    struct json_out j;
    json_init(&j, out);
    json_object(&j);
    json_key(&j, "schema_version");
    json_int(&j, SCHEMA);
    json_field(&j, "command", "snapshot");
    json_field(&j, "python_prefix", s->python);
    json_key(&j, "stack");
    json_object(&j);
    size_t at = 0;
    for (int section = 0; section < STACK_SECTION_COUNT; section++) {
        json_key(&j, stack_section_name((enum stack_section)section));
        json_object(&j);
        for (; at < s->items.count && (int)s->items.items[at].section == section; at++) {
            bool twice = at > 0 && (int)s->items.items[at - 1].section == section &&
                         strcmp(s->items.items[at - 1].name, s->items.items[at].name) == 0;
            if (!twice) {
                write_item(&j, &s->items.items[at]);
            }
        }
        json_object_end(&j);
    }
    json_object_end(&j);
    json_key(&j, "unread");
    json_list(&j);
    for (size_t i = 0; i < s->gaps.count; i++) {
        json_object(&j);
        json_field(&j, "section", stack_section_name(s->gaps.items[i].section));
        json_field(&j, "name", s->gaps.items[i].name);
        json_field(&j, "reason", s->gaps.items[i].reason);
        json_object_end(&j);
    }
    json_list_end(&j);
    json_object_end(&j);
    strbuf_addc(out, '\n');
}

static bool section_of(const char *name, enum stack_section *ret_section)
{
    for (int s = 0; s < STACK_SECTION_COUNT; s++) {
        if (strcmp(stack_section_name((enum stack_section)s), name) == 0) {
            *ret_section = (enum stack_section)s;
            return true;
        }
    }
    return false;
}

static void read_section(struct arena *a, const struct tree *t, enum stack_section section,
                         struct stack *s)
{
    for (const struct tree *c = t->child; c != NULL && s->items.count < ITEMS_MAX; c = c->next) {
        if (c->kind != TREE_MAP || c->key == NULL || c->key[0] == '\0') {
            continue;
        }
        bool wheel = section == STACK_FRAMEWORK || section == STACK_PYTHON;
        section = wheel ? stack_section_of_wheel(c->key) : section;
        struct stack_item *item = stack_add(a, s, section, c->key, tree_text(c, "version", NULL));
        item->build_id = tree_text(c, "build_id", NULL);
        item->digest = tree_text(c, "record_sha256", NULL);
        item->path = tree_text(c, "path", NULL);
    }
}

enum status stack_read(struct arena *a, struct str text, const char *name, struct stack *ret_stack,
                       struct err *err)
{
    const struct tree *t;
    TRY(tree_from_json(a, text, name, TREE_LIMITS_DEFAULT, &t, err));
    const struct tree *sections = tree_get(t, "stack");
    if (strcmp(tree_text(t, "command", ""), "snapshot") != 0 || sections == NULL ||
        sections->kind != TREE_MAP) {
        return err_set(err, ST_FORMAT,
                       "%s is no snapshot: expected a file that 'assay snapshot -o FILE' wrote",
                       name);
    }
    if (strcmp(tree_text(t, "schema_version", ""), "1") != 0) {
        return err_set(
            err, ST_FORMAT,
            "%s has schema_version %s, and this program knows version %d: use the program "
            "that wrote it",
            name, tree_text(t, "schema_version", "none"), SCHEMA);
    }
    struct stack s = {.source = name, .python = tree_text(t, "python_prefix", NULL)};
    bool seen[STACK_SECTION_COUNT] = {false};
    for (const struct tree *c = sections->child; c != NULL; c = c->next) {
        enum stack_section section;
        if (section_of(c->key, &section) && c->kind == TREE_MAP) {
            seen[section] = true;
            read_section(a, c, section, &s);
        }
    }
    for (int i = 0; i < STACK_SECTION_COUNT; i++) {
        if (!seen[i]) {
            stack_add_gap(a, &s, (enum stack_section)i, NULL, "the snapshot has no such section");
        }
    }
    const struct tree *unread = tree_get(t, "unread");
    for (const struct tree *c = unread != NULL ? unread->child : NULL; c != NULL; c = c->next) {
        enum stack_section section;
        if (section_of(tree_text(c, "section", ""), &section)) {
            stack_add_gap(a, &s, section, tree_text(c, "name", NULL), tree_text(c, "reason", ""));
        }
    }
    stack_sort(&s);
    *ret_stack = s;
    return ST_OK;
}
