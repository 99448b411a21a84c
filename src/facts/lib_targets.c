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

/* Targets in the names of the files of a folder and of its per-target subfolders. */
static void targets_of_folder(const struct collect *c, struct arena *a, const char *folder,
                              struct names *list)
{
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, a, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t from = 0;
        const char *target = amdgpu_target_in_name(a, str_of(names[i]), &from);
        if (target != NULL) {
            add_name(a, list, target);
        }
    }
}

static bool covered(const struct names *list, const char *gpu)
{
    for (size_t i = 0; i < list->count; i++) {
        if (amdgpu_target_covers(list->items[i], gpu)) {
            return true;
        }
    }
    return false;
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
    struct names list = {0};
    targets_of_folder(c, a, folder, &list);
    if (list.count == 0) {
        facts_set_state(c->facts, key_of(a, row, "gfx_targets"),
                        fs_is_dir(c->fs, a, folder) ? FACT_UNREADABLE : FACT_ABSENT, by,
                        "no file in the folder of kernels names a GPU target");
        return;
    }
    qsort(list.items, list.count, sizeof *list.items, by_target);
    facts_strings(c->facts, key_of(a, row, "gfx_targets"), list.items, list.count, by);
    const char *gpu = gpu_name(c, a);
    if (gpu != NULL) {
        set_covers(c, a, row, covered(&list, gpu), gpu, by);
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

/* <target>[_]<compute units in decimal or hex>.kdb, .db, .fdb.txt: one file a GPU model. */
static void set_miopen_databases(const struct collect *c, struct arena *a, const char *folder)
{
    static const struct {
        const char *fact, *end;
    } kinds[] = {{"miopen.kdb_for_gpu", ".kdb"}, {"miopen.find_db_for_gpu", ".fdb.txt"}};

    const char *gpu = gpu_name(c, a);
    const char *const *names;
    size_t count;
    if (gpu == NULL || fs_list(c->fs, a, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    size_t n = strlen(gpu);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            struct str name = str_of(names[i]);
            found |= str_starts(name, gpu) && amdgpu_target_prefix(name) == n &&
                     str_ends(name, kinds[k].end);
        }
        facts_bool(c->facts, kinds[k].fact, found, folder);
    }
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
