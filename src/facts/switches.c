// SPDX-License-Identifier: Apache-2.0
/*
 * For each known variable: is it set, and which of the libraries that would be loaded contain its
 * name. A name that is built at run time would be missed, so an empty list means "not found" and
 * never "not read". Where a library is a stub, a name that no other has is unreadable.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/elf.h"
#include "facts/lib_table.h"

enum {
    MAX_LIBRARIES = 256,
    MAX_FILES = 600,
    MAX_SOURCE = 2 << 20,
    STUB_SIZE = 8 << 10, /* linkers make no library as small */
    MAX_DEPTH = 6
};

struct known {
    const char *name;
    VEC_OF(const char *) readers;
};

struct search {
    const struct collect *c;
    struct arena *arena;
    struct known *switches;
    size_t count;
    struct map *by_name;
    size_t files;       /* Python sources read of one package */
    const char *silent; /* a library whose names cannot be told: a stub, or not readable */
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void add_reader(struct search *s, struct known *k, const char *reader)
{
    for (size_t i = 0; i < k->readers.count; i++) {
        if (strcmp(k->readers.items[i], reader) == 0) {
            return;
        }
    }
    *VEC_PUSH(s->arena, &k->readers) = reader;
}

/* "libtorch_hip.so.1" -> "torch_hip", the spelling of knowledge/switches.yaml. */
static const char *reader_name(struct arena *a, const char *path)
{
    const char *name = base_of(path);
    const char *end = strstr(name, ".so");
    size_t skip = strncmp(name, "lib", 3) == 0 ? 3 : 0;
    if (end == NULL || (size_t)(end - name) < skip) {
        return name;
    }
    return str_dup(a, (struct str){name + skip, (size_t)(end - name) - skip});
}

static void search_library(struct search *s, const char *path)
{
    struct fs_map map;
    struct elf elf;
    if (fs_map(s->c->fs, s->arena, path, &map, NULL) != ST_OK) {
        s->silent = path;
        return;
    }
    bool any = false;
    struct str bytes = {.p = (const char *)map.p, .n = map.n};
    if (elf_open(s->arena, bytes, path, &elf, NULL) == ST_OK) {
        bool *found = arena_array(s->arena, s->count + 1, sizeof *found);
        elf_find_literals(&elf, s->c->switch_names, s->count, found);
        for (size_t i = 0; i < s->count; i++) {
            any |= found[i];
            if (found[i]) {
                add_reader(s, &s->switches[i], reader_name(s->arena, path));
            }
        }
    }
    if (!any && bytes.n < STUB_SIZE) {
        s->silent = path;
    }
    fs_unmap(&map);
}

/* Libraries of the C system know none of the names and are passed over. */
static bool is_of_the_system(const char *name)
{
    static const char *const stems[] = {"libc.so",        "libm.so",    "libdl.so",
                                        "libpthread.so",  "librt.so",   "libstdc++.so",
                                        "libgcc_s.so",    "libutil.so", "ld-linux-x86-64.so",
                                        "libz.so",        "libpython3", "libgomp.so",
                                        "libgfortran.so", "python3"};
    for (size_t i = 0; i < ARRAY_LEN(stems); i++) {
        if (str_starts(str_of(name), stems[i])) {
            return true;
        }
    }
    return false;
}

static void search_libraries(struct search *s)
{
    struct map *paths = map_new(s->arena);
    const struct fact *loads = facts_get(s->c->facts, "torch.loads");
    for (size_t i = 0; loads != NULL && loads->value.kind == VALUE_LIST &&
                       i < loads->value.list.count && map_count(paths) < MAX_LIBRARIES;
         i++) {
        const char *path = loads->value.list.items[i].string;
        if (!is_of_the_system(base_of(path))) {
            map_put(paths, str_of(path), s);
        }
    }
    for (size_t i = 0; i < lib_row_count; i++) {
        const char *key = arena_fmt(s->arena, "lib.%s.path", lib_rows[i].fact);
        const char *path = facts_get_string(s->c->facts, key, NULL);
        if (path != NULL) {
            map_put(paths, str_of(path), s);
        }
    }
    for (size_t i = 0; i < map_count(paths); i++) {
        search_library(s, map_key(paths, i));
    }
}

/* Names of variables in a Python source: words in capitals. */
static void search_source(struct search *s, struct str text, const char *reader)
{
    size_t at = 0;
    while (at < text.n) {
        if (!isupper((unsigned char)text.p[at]) ||
            (at != 0 && (isalnum((unsigned char)text.p[at - 1]) || text.p[at - 1] == '_'))) {
            at++;
            continue;
        }
        size_t end = at;
        while (end < text.n && (isalnum((unsigned char)text.p[end]) || text.p[end] == '_')) {
            end++;
        }
        struct known *k = end - at >= 6 ? map_get(s->by_name, str_slice(text, at, end)) : NULL;
        if (k != NULL) {
            add_reader(s, k, reader);
        }
        at = end;
    }
}

static void search_folder(struct search *s, const char *folder, const char *reader, int depth)
{
    const char *const *names;
    size_t count;
    if (depth > MAX_DEPTH || fs_list(s->c->fs, s->arena, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count && s->files < MAX_FILES; i++) {
        const char *path = arena_fmt(s->arena, "%s/%s", folder, names[i]);
        struct str name = str_of(names[i]);
        struct fs_map map;
        if (str_ends(name, ".py")) {
            if (fs_map(s->c->fs, s->arena, path, &map, NULL) == ST_OK) {
                if (map.n <= MAX_SOURCE) {
                    search_source(s, (struct str){(const char *)map.p, map.n}, reader);
                }
                fs_unmap(&map);
                s->files++;
            }
        } else if (strchr(names[i], '.') == NULL && !str_is(name, "__pycache__")) {
            search_folder(s, path, reader, depth + 1);
        }
    }
}

/* Packages whose switches are read in Python. */
static void search_packages(struct search *s)
{
    static const struct {
        const char *reader, *folder;
    } packages[] = {
        {"python:llamafactory", "llamafactory"},
        {"python:flash_attn", "flash_attn"},
        {"python:triton", "triton"},
        {"python:bitsandbytes", "bitsandbytes"},
        {"python:torch", "torch/utils/cpp_extension.py"},
    };
    const struct fact *sites = facts_get(s->c->facts, "python.sites");
    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        for (size_t k = 0;
             sites != NULL && sites->value.kind == VALUE_LIST && k < sites->value.list.count; k++) {
            const char *path = arena_fmt(s->arena, "%s/%s", sites->value.list.items[k].string,
                                         packages[i].folder);
            struct str text;
            s->files = 0;
            if (fs_is_dir(s->c->fs, s->arena, path)) {
                search_folder(s, path, packages[i].reader, 0);
                break;
            }
            if (fs_read(s->c->fs, s->arena, path, MAX_SOURCE, &text, NULL) == ST_OK) {
                search_source(s, text, packages[i].reader);
                break;
            }
        }
    }
}

void collect_switches(struct collect *c)
{
    if (c->switch_names == NULL) {
        return;
    }
    struct search s = {.c = c, .arena = arena_new(0)};
    s.by_name = map_new(s.arena);
    while (c->switch_names[s.count] != NULL) {
        s.count++;
    }
    s.switches = arena_array(s.arena, s.count + 1, sizeof *s.switches);
    for (size_t i = 0; i < s.count; i++) {
        s.switches[i].name = c->switch_names[i];
        map_put(s.by_name, str_of(c->switch_names[i]), &s.switches[i]);
    }
    search_libraries(&s);
    search_packages(&s);
    for (size_t i = 0; i < s.count; i++) {
        const struct known *k = &s.switches[i];
        facts_bool(c->facts, arena_fmt(s.arena, "switch.%s.set", k->name),
                   collect_env(c, k->name) != NULL, "environment of the job");
        const char *key = arena_fmt(s.arena, "switch.%s.read_by", k->name);
        if (k->readers.count == 0 && s.silent != NULL) {
            facts_set_state(c->facts, key, FACT_UNREADABLE, s.silent,
                            "the library is a stub or cannot be read: it may know the name");
            continue;
        }
        facts_strings(c->facts, key, k->readers.items, k->readers.count,
                      "names in the libraries that would be loaded");
    }
    arena_free(s.arena);
}
