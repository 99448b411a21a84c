// SPDX-License-Identifier: Apache-2.0
/* See run_served.h. */
#include "cli/run/served.h"

#include <string.h>

#include "base/fs.h"
#include "base/json_out.h"
#include "base/str.h"
#include "base/tree.h"
#include "base/vec.h"

#include "facts/elf.h"
#include "recorder/maps_file.h"
#include "recorder/record_reader.h"
#include "recorder/run_folder.h"

enum {
    MAPS_MAX = 64 << 20,
    FILE_MAX = 4 << 20
};

static const struct fs live = {.prefix = ""};

enum status run_build_id(struct arena *a, const char *path, const char **ret_id, struct err *err)
{
    struct fs_map map;
    struct elf elf;
    TRY(fs_map(&live, a, path, &map, err));
    struct str bytes = {.p = (const char *)map.p, .n = map.n};
    enum status st = elf_open(a, bytes, path, &elf, err);
    if (st == ST_OK) {
        *ret_id = elf.build_id != NULL ? arena_strdup(a, elf.build_id) : NULL;
    }
    fs_unmap(&map);
    return st;
}

static void add_path(struct arena *a, const char *path, struct run_served_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].path, path) == 0) {
            return;
        }
    }
    struct run_served *s = VEC_PUSH(a, list);
    *s = (struct run_served){.path = path};
    if (run_build_id(a, path, &s->build_id, NULL) != ST_OK) {
        s->build_id = NULL;
    }
}

static void add_record(struct arena *a, const char *folder, const char *name,
                       struct run_served_list *list)
{
    struct record r = {0};
    struct maps maps = {0};
    struct str text;
    if (record_reader_load(a, arena_fmt(a, "%s/%s", folder, name), &r, NULL) != ST_OK) {
        return; /* the report says so */
    }
    const char *path = arena_fmt(a, "%s/maps.%d", folder, r.head.pid);
    if (fs_read(&live, a, path, MAPS_MAX, &text, NULL) != ST_OK ||
        maps_parse(a, text, path, &maps, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < r.binding_count; i++) {
        const struct mapping *m = maps_find(&maps, r.bindings[i].real);
        if (m != NULL && m->path[0] == '/') {
            add_path(a, m->path, list);
        }
    }
}

enum status run_served_write(struct arena *a, const char *folder, struct err *err)
{
    const char *const *names = NULL;
    size_t count = 0;
    struct run_served_list list = {0};
    struct strbuf out;
    struct json_out j;
    TRY(fs_list(&live, a, folder, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (str_starts(str_of(names[i]), "record.") && str_ends(str_of(names[i]), ".bin")) {
            add_record(a, folder, names[i], &list);
        }
    }
    strbuf_init(&out, a, FILE_MAX);
    json_init(&j, &out);
    json_object(&j);
    json_key(&j, "schema_version");
    json_int(&j, 1);
    json_key(&j, "libraries");
    json_list(&j);
    for (size_t i = 0; i < list.count; i++) {
        json_object(&j);
        json_field(&j, "path", list.items[i].path);
        json_key(&j, "build_id");
        json_string(&j, list.items[i].build_id);
        json_object_end(&j);
    }
    json_list_end(&j);
    json_object_end(&j);
    strbuf_addc(&out, '\n');
    return run_folder_write(a, folder, "libraries.json", strbuf_str(&out), err);
}

enum status run_served_read(struct arena *a, const char *folder, struct run_served_list *ret_list,
                            struct err *err)
{
    struct str text;
    const struct tree *root;
    struct run_served_list list = {0};
    const char *path = arena_fmt(a, "%s/libraries.json", folder);
    TRY(fs_read(&live, a, path, FILE_MAX, &text, err));
    TRY(tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &root, err));
    const struct tree *libraries = tree_get(root, "libraries");
    for (const struct tree *t = libraries != NULL ? libraries->child : NULL; t != NULL;
         t = t->next) {
        const struct tree *id = tree_get(t, "build_id");
        const char *named = tree_text(t, "path", NULL);
        if (named != NULL) {
            *VEC_PUSH(a, &list) = (struct run_served){
                .path = named,
                .build_id = id != NULL && id->value.kind == VALUE_STRING ? id->text : NULL};
        }
    }
    *ret_list = list;
    return ST_OK;
}
