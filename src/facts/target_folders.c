// SPDX-License-Identifier: Apache-2.0
/* Tensile and MIOpen folders. Triton's cache is in triton_cache.c. */
#include "facts/target_folders.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#include "facts/amdgpu_target.h"

struct tensile_scan {
    const struct fs *fs;
    struct arena *arena;
    struct map *by_name;
    struct tensile_folder folder;
};

static struct tensile_target *tensile_target_named(struct tensile_scan *s, const char *name)
{
    struct tensile_target *t = map_get(s->by_name, str_of(name));
    if (t == NULL) {
        t = arena_alloc(s->arena, sizeof *t);
        t->name = name;
        map_put(s->by_name, str_of(name), t);
    }
    return t;
}

static bool is_data(struct str name)
{
    return str_ends(name, ".dat") || str_ends(name, ".dat.zlib") || str_ends(name, ".yaml");
}

static bool is_code(struct str name)
{
    return str_ends(name, ".co") || str_ends(name, ".hsaco");
}

/* "TensileLibrary_lazy_gfx1201.dat" and "TensileLibrary_gfx1201.dat": what is opened first. */
static bool is_index(struct str name, const char *target)
{
    static const char *const starts[] = {"TensileLibrary_lazy_", "TensileLibrary_"};
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        size_t n = strlen(starts[i]);
        size_t k = strlen(target);
        if (str_starts(name, starts[i]) && name.n > n + k && memcmp(name.p + n, target, k) == 0 &&
            name.p[n + k] == '.') {
            return true;
        }
    }
    return false;
}

/* `of_folder` is the target the folder is named after, or NULL. */
static void tensile_file(struct tensile_scan *s, const char *dir, const char *file,
                         const char *of_folder)
{
    struct str name = str_of(file);
    size_t from = 0;
    const char *target = amdgpu_target_in_name(s->arena, name, &from);
    target = target != NULL ? target : of_folder;
    s->folder.files++;
    if (target == NULL || (!is_data(name) && !is_code(name))) {
        return;
    }
    struct tensile_target *t = tensile_target_named(s, target);
    t->has_index |= is_data(name) && is_index(name, target);
    t->data_files += is_data(name);
    t->code_files += is_code(name);
    struct stat st;
    struct arena_mark mark = arena_mark(s->arena);
    if (fs_stat(s->fs, s->arena, arena_fmt(s->arena, "%s/%s", dir, file), &st, NULL) == ST_OK) {
        t->bytes += (uint64_t)(st.st_size > 0 ? st.st_size : 0);
        t->newest = st.st_mtime > t->newest ? st.st_mtime : t->newest;
    }
    arena_rewind(s->arena, mark);
}

static int by_tensile_target(const void *x, const void *y)
{
    const struct tensile_target *a = x;
    const struct tensile_target *b = y;
    return amdgpu_target_cmp(a->name, b->name);
}

enum status tensile_folder_read(const struct fs *fs, struct arena *a, const char *path,
                                struct tensile_folder *ret_folder, struct err *err)
{
    struct tensile_scan s = {.fs = fs, .arena = a, .by_name = map_new(a)};
    const char *const *names;
    size_t count;
    TRY(fs_list(fs, a, path, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        size_t from = 0;
        const char *target = amdgpu_target_in_name(a, name, &from);
        if (target == NULL || from != name.n) { /* anything but a folder "gfx1201" */
            tensile_file(&s, path, names[i], NULL);
            continue;
        }
        const char *dir = arena_fmt(a, "%s/%s", path, names[i]);
        const char *const *inner;
        size_t inner_count;
        if (fs_list(fs, a, dir, &inner, &inner_count, NULL) != ST_OK) {
            continue;
        }
        s.folder.subfolders = true;
        for (size_t k = 0; k < inner_count; k++) {
            tensile_file(&s, dir, inner[k], target);
        }
    }
    s.folder.count = map_count(s.by_name);
    struct tensile_target *list = arena_array(a, s.folder.count, sizeof *list);
    for (size_t i = 0; i < s.folder.count; i++) {
        list[i] = *(const struct tensile_target *)map_value(s.by_name, i);
    }
    if (s.folder.count > 1) {
        qsort(list, s.folder.count, sizeof *list, by_tensile_target);
    }
    s.folder.targets = list;
    *ret_folder = s.folder;
    return ST_OK;
}

struct miopen_scan {
    const struct fs *fs;
    struct arena *arena;
    struct map *by_name;
    uint64_t files;
};

/* "_36" is decimal, "68" behind gfx90a hexadecimal: MIOpen writes more than 64 units that way. */
static unsigned compute_units_of(struct str *rest)
{
    int base = 16;
    if (rest->n != 0 && rest->p[0] == '_') {
        base = 10;
        *rest = str_slice(*rest, 1, rest->n);
    }
    size_t n = 0;
    while (n < rest->n && n < 4 &&
           ((rest->p[n] >= '0' && rest->p[n] <= '9') ||
            (base == 16 && rest->p[n] >= 'a' && rest->p[n] <= 'f'))) {
        n++;
    }
    uint64_t units = 0;
    if (n == 0 || str_to_u64(str_slice(*rest, 0, n), base, &units) != ST_OK) {
        return 0;
    }
    *rest = str_slice(*rest, n, rest->n);
    return (unsigned)units;
}

static void miopen_file(struct miopen_scan *s, const char *dir, const char *file)
{
    struct str name = str_of(file);
    size_t n = amdgpu_target_prefix(name);
    struct str rest = str_slice(name, n, name.n);
    if (n == 0) {
        return;
    }
    unsigned units = compute_units_of(&rest);
    bool kernels = str_ends(rest, ".kdb") || str_ends(rest, ".ukdb");
    bool find_db = str_ends(rest, "fdb.txt");
    bool perf_db = !find_db && (str_ends(rest, "db.txt") || str_ends(rest, ".db"));
    if (!kernels && !find_db && !perf_db) {
        return;
    }
    const char *target = str_dup(s->arena, str_slice(name, 0, n));
    struct str key = str_of(arena_fmt(s->arena, "%s %u", target, units));
    struct miopen_target *t = map_get(s->by_name, key);
    if (t == NULL) {
        t = arena_alloc(s->arena, sizeof *t);
        t->name = target;
        t->compute_units = units;
        map_put(s->by_name, key, t);
    }
    t->kernels |= kernels;
    t->find_db |= find_db;
    t->perf_db |= perf_db;
    s->files++;
    struct stat st;
    if (fs_stat(s->fs, s->arena, arena_fmt(s->arena, "%s/%s", dir, file), &st, NULL) == ST_OK) {
        t->bytes += (uint64_t)(st.st_size > 0 ? st.st_size : 0);
        t->newest = st.st_mtime > t->newest ? st.st_mtime : t->newest;
        t->oldest = t->oldest == 0 || st.st_mtime < t->oldest ? st.st_mtime : t->oldest;
    }
}

static int by_miopen_target(const void *x, const void *y)
{
    const struct miopen_target *a = x;
    const struct miopen_target *b = y;
    int order = amdgpu_target_cmp(a->name, b->name);
    if (order != 0) {
        return order;
    }
    return (a->compute_units > b->compute_units) - (a->compute_units < b->compute_units);
}

enum status miopen_folder_read(const struct fs *fs, struct arena *a, const char *path,
                               struct miopen_folder *ret_folder, struct err *err)
{
    struct miopen_scan s = {.fs = fs, .arena = a, .by_name = map_new(a)};
    const char *const *names;
    size_t count;
    TRY(fs_list(fs, a, path, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        const char *dir = arena_fmt(a, "%s/%s", path, names[i]);
        const char *const *inner;
        size_t inner_count;
        if (amdgpu_target_prefix(str_of(names[i])) != 0) {
            miopen_file(&s, path, names[i]);
        } else if (fs_list(fs, a, dir, &inner, &inner_count, NULL) == ST_OK) {
            for (size_t k = 0; k < inner_count; k++) {
                miopen_file(&s, dir, inner[k]);
            }
        }
    }
    struct miopen_folder f = {.count = map_count(s.by_name), .files = s.files};
    struct miopen_target *list = arena_array(a, f.count, sizeof *list);
    for (size_t i = 0; i < f.count; i++) {
        list[i] = *(const struct miopen_target *)map_value(s.by_name, i);
    }
    if (f.count > 1) {
        qsort(list, f.count, sizeof *list, by_miopen_target);
    }
    f.targets = list;
    *ret_folder = f;
    return ST_OK;
}
