// SPDX-License-Identifier: Apache-2.0
/*
 * Triton's cache of compiled kernels.
 * Source: triton python/triton/runtime/cache.py: <cache>/<base32 of a hash>/<kernel>.{hsaco,cubin,
 * json,...}, a group file "__grp__<kernel>.json" with the absolute paths of the others, and folders
 * "tmp.pid_<pid>_<uuid>" while a file is being written.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/tree.h"

#include "facts/amdgpu_target.h"
#include "facts/gpu_targets.h"
#include "facts/target_folders.h"

enum {
    MAX_FOLDERS = 20000,
    MAX_GROUP = 64 * 1024
};

struct triton_scan {
    const struct fs *fs;
    struct arena *arena;   /* of the result */
    struct arena *scratch; /* rewound after each folder */
    const char *path;
    struct map *by_name;
    struct triton_cache cache;
};

static void read_code(struct triton_scan *s, const char *file)
{
    struct gpu_targets t;
    if (gpu_targets_of_file(s->fs, s->scratch, file, &t, NULL) != ST_OK) {
        return;
    }
    if (t.count != 1) {
        s->cache.damaged += t.state == GPU_TARGETS_NONE;
        return;
    }
    struct str name = str_of(t.items[0].name);
    struct triton_target *found = map_get(s->by_name, name);
    if (found == NULL) {
        found = arena_alloc(s->arena, sizeof *found);
        found->name = str_dup(s->arena, name);
        map_put(s->by_name, name, found);
    }
    found->kernels++;
}

/* A group whose children lie elsewhere was copied from another place: Triton looks at the old
 * paths, does not find them and compiles again. */
static void read_group(struct triton_scan *s, const char *folder, const char *file)
{
    struct str text;
    const struct tree *t;
    if (fs_read(s->fs, s->scratch, arena_fmt(s->scratch, "%s/%s", folder, file), MAX_GROUP, &text,
                NULL) != ST_OK ||
        tree_from_json(s->scratch, text, file, TREE_LIMITS_DEFAULT, &t, NULL) != ST_OK) {
        s->cache.damaged++;
        return;
    }
    const struct tree *children = tree_get(t, "child_paths");
    const struct tree *first = children != NULL ? children->child : NULL;
    if (first == NULL || first->kind != TREE_SCALAR || first->text == NULL) {
        return;
    }
    size_t n = strlen(folder);
    if (first->text[0] == '/' && (strncmp(first->text, folder, n) != 0 || first->text[n] != '/') &&
        !fs_exists(s->fs, s->scratch, first->text)) {
        s->cache.moved_groups++;
        if (s->cache.moved_to == NULL) {
            s->cache.moved_to = arena_strdup(s->arena, first->text);
        }
    }
}

static void read_kernel_folder(struct triton_scan *s, const char *folder)
{
    const char *const *names;
    size_t count;
    struct stat st;
    if (fs_stat(s->fs, s->scratch, folder, &st, NULL) != ST_OK || !S_ISDIR(st.st_mode) ||
        fs_list(s->fs, s->scratch, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    s->cache.folders++;
    s->cache.newest = st.st_mtime > s->cache.newest ? st.st_mtime : s->cache.newest;
    s->cache.oldest = s->cache.oldest == 0 || st.st_mtime < s->cache.oldest ? st.st_mtime
                                                                            : s->cache.oldest;
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        if (str_starts(name, "tmp.pid_")) {
            s->cache.leftovers++;
        } else if (str_ends(name, ".hsaco") || str_ends(name, ".cubin")) {
            read_code(s, arena_fmt(s->scratch, "%s/%s", folder, names[i]));
        } else if (str_starts(name, "__grp__") && str_ends(name, ".json")) {
            read_group(s, folder, names[i]);
        }
    }
}

static int by_triton_target(const void *x, const void *y)
{
    const struct triton_target *a = x;
    const struct triton_target *b = y;
    return amdgpu_target_cmp(a->name, b->name);
}

enum status triton_cache_read(const struct fs *fs, struct arena *a, const char *path,
                              struct triton_cache *ret_cache, struct err *err)
{
    const char *const *names;
    size_t count;
    TRY(fs_list(fs, a, path, &names, &count, err));
    struct triton_scan s = {
        .fs = fs, .arena = a, .scratch = arena_new(0), .path = path, .by_name = map_new(a)};
    for (size_t i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(s.scratch);
        if (i == MAX_FOLDERS) {
            s.cache.truncated = true;
            break;
        }
        if (str_starts(str_of(names[i]), "tmp.pid_")) {
            s.cache.leftovers++;
        } else {
            read_kernel_folder(&s, arena_fmt(s.scratch, "%s/%s", path, names[i]));
        }
        arena_rewind(s.scratch, mark);
    }
    arena_free(s.scratch);
    s.cache.count = map_count(s.by_name);
    struct triton_target *list = arena_array(a, s.cache.count, sizeof *list);
    for (size_t i = 0; i < s.cache.count; i++) {
        list[i] = *(const struct triton_target *)map_value(s.by_name, i);
    }
    if (s.cache.count > 1) {
        qsort(list, s.cache.count, sizeof *list, by_triton_target);
    }
    s.cache.targets = list;
    *ret_cache = s.cache;
    return ST_OK;
}
