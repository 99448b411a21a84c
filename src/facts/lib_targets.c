// SPDX-License-Identifier: Apache-2.0
/*
 * GPU targets of the libraries, and what they mean for GPU 0. rocBLAS and hipBLASLt keep their
 * kernels in folders beside the library, MIOpen its databases under share: those are looked at
 * where the libraries themselves look.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "facts/amdgpu_target.h"
#include "facts/collect.h"
#include "facts/gpu_targets.h"
#include "facts/lib_table.h"
#include "facts/libraries.h"
#include "facts/target_folders.h"

struct names {
    const char **items;
    size_t count;
    size_t capacity;
};

static int by_target(const void *a, const void *b)
{
    return amdgpu_target_cmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_name(struct arena *a, struct names *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], name) == 0) {
            return;
        }
    }
    *VEC_PUSH(a, list) = name;
}

/* The GPU as targets are named: "gfx1201", or "sm_90" from a compute capability. */
static const char *gpu_name(const struct collect *c, struct arena *a)
{
    const char *gfx = facts_get_string(c->facts, "gpu[0].gfx", NULL);
    const char *cc = facts_get_string(c->facts, "gpu[0].compute_capability", NULL);
    const char *dot = cc != NULL ? strchr(cc, '.') : NULL;
    if (gfx != NULL || dot == NULL) {
        return gfx;
    }
    return arena_fmt(a, "sm_%.*s%s", (int)(dot - cc), cc, dot + 1);
}

/* Folders in which a library looks for its kernels; the first that exists counts. */
static const char *data_folder(const struct collect *c, struct arena *a, const struct lib_row *row,
                               const char *path, const char **ret_by)
{
    static const struct {
        const char *fact, *variable, *places[5];
    } rows[] = {
        {"rocblas",
         "ROCBLAS_TENSILE_LIBPATH",
         {"../../Tensile/library", "library", "../rocblas/library", "rocblas/library"}},
        {"hipblaslt",
         "HIPBLASLT_TENSILE_LIBPATH",
         {"../Tensile/library", "library", "../hipblaslt/library", "hipblaslt/library"}},
        {"miopen", "MIOPEN_SYSTEM_DB_PATH", {"../share/miopen/db", "../../share/miopen/db"}},
    };

    const char *real = path;
    if (fs_realpath(c->fs, a, path, &real, NULL) != ST_OK) {
        return NULL;
    }
    const char *folder = str_dup(a,
                                 str_slice(str_of(real), 0, (size_t)(strrchr(real, '/') - real)));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].fact, row->fact) != 0) {
            continue;
        }
        const char *variable = collect_env(c, rows[i].variable);
        if (variable != NULL && variable[0] == '/') {
            *ret_by = arena_fmt(a, "env.%s", rows[i].variable);
            return variable;
        }
        for (size_t k = 0; k < ARRAY_LEN(rows[i].places) && rows[i].places[k] != NULL; k++) {
            const char *place = arena_fmt(a, "%s/%s", folder, rows[i].places[k]);
            if (fs_is_dir(c->fs, a, place)) {
                *ret_by = place;
                return place;
            }
        }
    }
    return NULL;
}

static const char *key_of(struct arena *a, const struct lib_row *row, const char *what)
{
    return arena_fmt(a, "lib.%s.%s", row->fact, what);
}

static void set_covers(const struct collect *c, struct arena *a, const struct lib_row *row,
                       bool covers, const char *gpu, const char *source)
{
    facts_bool(c->facts, key_of(a, row, "covers_gpu"), covers,
               arena_fmt(a, "%s for %s", source, gpu));
}

static void set_folder_targets(const struct collect *c, struct arena *a, const struct lib_row *row,
                               const char *folder, const char *by)
{
    struct tensile_folder t;
    struct err err = {0};
    const char *key = key_of(a, row, "gfx_targets");
    if (tensile_folder_read(c->fs, a, folder, &t, &err) != ST_OK) {
        facts_set_error(c->facts, key, folder, &err);
        return;
    }
    if (t.count == 0) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, by,
                        "no file in the folder of kernels names a GPU target");
        return;
    }
    const char *gpu = gpu_name(c, a);
    const char **names = arena_array(a, t.count, sizeof *names);
    bool any_index = false;
    for (size_t i = 0; i < t.count; i++) {
        names[i] = t.targets[i].name;
        any_index |= t.targets[i].has_index;
    }
    facts_strings(c->facts, key, names, t.count, by);
    bool covers = false;
    for (size_t i = 0; gpu != NULL && i < t.count; i++) {
        /* Code without the index of its target is never loaded. */
        covers |= amdgpu_target_covers(t.targets[i].name, gpu) &&
                  (t.targets[i].has_index || !any_index);
    }
    if (gpu != NULL) {
        set_covers(c, a, row, covers, gpu, by);
    }
}

static void set_code_targets(const struct collect *c, struct arena *a, const struct lib_row *row,
                             const char *path)
{
    struct gpu_targets t;
    struct err err = {0};
    if (gpu_targets_of_file(c->fs, a, path, &t, &err) != ST_OK) {
        facts_set_error(c->facts, key_of(a, row, "gfx_targets"), path, &err);
        return;
    }
    if (t.state == GPU_TARGETS_NONE) {
        return; /* a library of host code: the question has no meaning */
    }
    if (t.state != GPU_TARGETS_KNOWN) {
        facts_set_state(c->facts, key_of(a, row, "gfx_targets"), FACT_UNREADABLE, path,
                        t.problem != NULL ? t.problem : gpu_targets_state_name(t.state));
        return;
    }
    const char **names = arena_array(a, t.count + 1, sizeof *names);
    for (size_t i = 0; i < t.count; i++) {
        names[i] = t.items[i].name;
    }
    facts_strings(c->facts, key_of(a, row, "gfx_targets"), names, t.count, path);
    const char *gpu = gpu_name(c, a);
    if (gpu != NULL) {
        set_covers(c, a, row, gpu_targets_for(&t, gpu) != NULL, gpu, path);
    }
}

/* One database a GPU model; the number of compute units in its name is not compared. */
static void set_miopen_databases(const struct collect *c, struct arena *a, const char *folder)
{
    const char *gpu = gpu_name(c, a);
    struct miopen_folder m;
    struct err err = {0};
    if (gpu == NULL) {
        return;
    }
    if (miopen_folder_read(c->fs, a, folder, &m, &err) != ST_OK) {
        facts_set_error(c->facts, "miopen.kdb_for_gpu", folder, &err);
        facts_set_error(c->facts, "miopen.find_db_for_gpu", folder, &err);
        return;
    }
    bool kernels = false;
    bool find_db = false;
    for (size_t i = 0; i < m.count; i++) {
        bool same = strcmp(m.targets[i].name, gpu) == 0;
        kernels |= same && m.targets[i].kernels;
        find_db |= same && m.targets[i].find_db;
    }
    facts_bool(c->facts, "miopen.kdb_for_gpu", kernels, folder);
    facts_bool(c->facts, "miopen.find_db_for_gpu", find_db, folder);
}

void lib_targets_facts(const struct collect *c, struct arena *a, const struct lib_row *row,
                       const char *path)
{
    const char *by = NULL;
    const char *folder = data_folder(c, a, row, path, &by);
    if (folder != NULL && strcmp(row->fact, "miopen") == 0) {
        set_miopen_databases(c, a, folder);
        set_code_targets(c, a, row, path);
    } else if (folder != NULL) {
        set_folder_targets(c, a, row, folder, by);
    } else {
        set_code_targets(c, a, row, path);
    }
}

/* torch.arch_list is the union over torch's own GPU libraries. */
static void set_arch_list(const struct collect *c, struct arena *a)
{
    static const char *const keys[] = {"lib.torch_hip.gfx_targets", "lib.torch_cuda.gfx_targets"};
    const struct fact *unread = NULL;
    struct names list = {0};
    const char *source = NULL;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct fact *f = facts_get(c->facts, keys[i]);
        if (f == NULL) {
            continue;
        }
        if (f->state != FACT_KNOWN) {
            unread = f;
            continue;
        }
        for (size_t k = 0; k < f->value.list.count; k++) {
            add_name(a, &list, f->value.list.items[k].string);
        }
        source = f->source;
    }
    if (list.count != 0) {
        qsort(list.items, list.count, sizeof *list.items, by_target);
        facts_strings(c->facts, "torch.arch_list", list.items, list.count, source);
    } else if (unread != NULL) {
        facts_set_state(c->facts, "torch.arch_list", unread->state, unread->source, unread->reason);
    } else if (facts_get_string(c->facts, "torch.version", NULL) != NULL) {
        facts_set_state(c->facts, "torch.arch_list", FACT_ABSENT,
                        facts_get_string(c->facts, "torch.path", "torch"),
                        "torch has no library with GPU code");
    }
}

/* The runtime knows an ISA when its name stands in libamdhip64 or libamd_comgr. */
static void set_runtime_covers(const struct collect *c, struct arena *a)
{
    static const char key[] = "hip.runtime_covers_gpu";
    const char *gfx = facts_get_string(c->facts, "gpu[0].gfx", NULL);
    const char *path = facts_get_string(c->facts, "lib.amdhip64.path", NULL);
    if (gfx == NULL || path == NULL) {
        return;
    }
    struct fs_map map;
    struct err err = {0};
    if (fs_map(c->fs, a, path, &map, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    struct str bytes = {.p = (const char *)map.p, .n = map.n};
    /* Any AMD target at all must be named, or the library keeps them elsewhere. */
    bool names_some = str_has(bytes, "gfx90a") || str_has(bytes, "gfx900");
    bool found = false;
    for (size_t at = str_find(bytes, gfx, 0); !found && at != SIZE_MAX;
         at = str_find(bytes, gfx, at + 1)) {
        size_t end = at + strlen(gfx);
        char next = end < bytes.n ? bytes.p[end] : '\0';
        found = !((next >= '0' && next <= '9') || (next >= 'a' && next <= 'f'));
    }
    fs_unmap(&map);
    if (found || names_some) {
        facts_bool(c->facts, key, found, path);
    } else {
        facts_set_state(c->facts, key, FACT_UNREADABLE, path,
                        "the library names no GPU target at all");
    }
}

/* Kernels cached by an older MIOpen are reused by the newer one and may not fit it. */
static void set_cache_age(const struct collect *c, struct arena *a)
{
    static const char key[] = "cache.miopen.older_than_torch";
    const char *torch = facts_get_string(c->facts, "torch.path", NULL);
    struct stat torch_stat;
    if (torch == NULL || c->user_home == NULL ||
        fs_stat(c->fs, a, arena_fmt(a, "%s/version.py", torch), &torch_stat, NULL) != ST_OK) {
        return;
    }
    const char *cache = collect_env(c, "MIOPEN_USER_DB_PATH");
    cache = cache != NULL ? cache : arena_fmt(a, "%s/.cache/miopen", c->user_home);
    struct stat st;
    struct err err = {0};
    if (fs_stat(c->fs, a, cache, &st, &err) != ST_OK) {
        facts_set_error(c->facts, key, cache, &err);
        return;
    }
    facts_bool(c->facts, key, st.st_mtime < torch_stat.st_mtime, cache);
}

void lib_stack_facts(const struct collect *c, struct arena *a)
{
    set_arch_list(c, a);
    set_runtime_covers(c, a);
    set_cache_age(c, a);
}
