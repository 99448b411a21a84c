// SPDX-License-Identifier: Apache-2.0
/*
 * The libraries that a PyTorch process would load. The loader is followed from the interpreter and
 * torch's libraries (ld_paths.h); what torch opens by name at run time, and everything when there
 * is no torch, is looked for where those programs look. ROCM_PATH plays no part in that.
 */
#include "facts/libraries.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/cxx_symbols.h"
#include "facts/ld_paths.h"
#include "facts/lib_table.h"
#include "facts/python_text.h"
#include "facts/rocm_install.h"

enum {
    MAX_LISTED = 64
};

struct process {
    struct collect *c;
    struct arena *arena;
    struct ld *ld;
    struct rocm_installs installs;

    struct {
        const char **items; /* folders that hold copies: wheels, prefixes, the system's */
        size_t count;
        size_t capacity;
    } folders;

    const char *torch_lib; /* or NULL */
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void add_folder(struct process *p, const char *folder)
{
    if (!fs_is_dir(p->c->fs, p->arena, folder)) {
        return;
    }
    for (size_t i = 0; i < p->folders.count; i++) {
        if (strcmp(p->folders.items[i], folder) == 0) {
            return;
        }
    }
    *VEC_PUSH(p->arena, &p->folders) = folder;
}

/* nvidia/cublas/lib, nvidia/cu13/lib and their like in one site folder. */
static void add_nvidia_wheels(struct process *p, const char *site)
{
    const char *const *names;
    size_t count;
    const char *nvidia = arena_fmt(p->arena, "%s/nvidia", site);
    if (fs_list(p->c->fs, p->arena, nvidia, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            add_folder(p, arena_fmt(p->arena, "%s/%s/lib", nvidia, names[i]));
        }
    }
}

static void find_folders(struct process *p)
{
    if (p->torch_lib != NULL) {
        add_folder(p, p->torch_lib);
    }
    const struct fact *sites = facts_get(p->c->facts, "python.sites");
    for (size_t i = 0;
         sites != NULL && sites->value.kind == VALUE_LIST && i < sites->value.list.count; i++) {
        add_nvidia_wheels(p, sites->value.list.items[i].string);
    }
    for (size_t i = 0; i < p->installs.count; i++) {
        for (size_t k = 0; k < p->installs.items[i].lib_dir_count; k++) {
            add_folder(p, p->installs.items[i].lib_dirs[k]);
        }
    }
    const char *prefix = facts_get_string(p->c->facts, "python.prefix", NULL);
    if (prefix != NULL && strcmp(prefix, "/usr") != 0) {
        add_folder(p, arena_fmt(p->arena, "%s/lib", prefix));
    }
    add_folder(p, "/usr/local/cuda/lib64");
    add_folder(p, "/usr/lib/x86_64-linux-gnu");
    add_folder(p, "/usr/lib64");
}

/* TheRock's torch opens its ROCm libraries by path before anything else (torch/_rocm_init.py). */
static void preload_therock(struct process *p)
{
    const char *torch = facts_get_string(p->c->facts, "torch.path", NULL);
    if (torch == NULL ||
        !fs_exists(p->c->fs, p->arena, arena_fmt(p->arena, "%s/_rocm_init.py", torch))) {
        return;
    }
    for (size_t i = 0; i < p->installs.count; i++) {
        const struct rocm_install *in = &p->installs.items[i];
        for (size_t r = 0; strcmp(in->kind, "therock") == 0 && r < lib_row_count; r++) {
            for (size_t k = 0; lib_rows[r].family == LIB_ROCM && k < in->lib_dir_count; k++) {
                const char *file = rocm_library_in(p->c, p->arena, in->lib_dirs[k],
                                                   lib_rows[r].base);
                if (file != NULL) {
                    (void)ld_load(p->ld, file, NULL);
                    break;
                }
            }
        }
    }
}

/* torch/__init__.py opens NVIDIA's wheels by path when its own search fails. */
static void load_missing_from_wheels(struct process *p)
{
    size_t count;
    const struct ld_object *const *objects = ld_objects(p->ld, &count);
    for (size_t i = 0; i < count; i++) {
        if (objects[i]->state != LD_MISSING) {
            continue;
        }
        for (size_t k = 0; k < p->folders.count; k++) {
            const char *file = arena_fmt(p->arena, "%s/%s", p->folders.items[k],
                                         base_of(objects[i]->name));
            if (strstr(p->folders.items[k], "/nvidia/") != NULL &&
                fs_exists(p->c->fs, p->arena, file)) {
                (void)ld_load(p->ld, file, NULL);
                objects = ld_objects(p->ld, &count);
                break;
            }
        }
    }
}

static void load_torch(struct process *p)
{
    static const char *const names[] = {
        "libtorch_global_deps.so", "libtorch_python.so", "libtorch.so",
        "libtorch_hip.so",         "libtorch_cuda.so",   "libtorch_cpu.so"};
    static const char *const interpreters[] = {"bin/python3", "bin/python"};
    const char *prefix = facts_get_string(p->c->facts, "python.prefix", NULL);
    for (size_t i = 0; prefix != NULL && i < ARRAY_LEN(interpreters); i++) {
        const char *file = arena_fmt(p->arena, "%s/%s", prefix, interpreters[i]);
        struct fs_map map;
        if (fs_map(p->c->fs, p->arena, file, &map, NULL) == ST_OK) {
            bool elf = map.n > 4 && memcmp(map.p,
                                           "\x7f"
                                           "ELF",
                                           4) == 0; /* not a shim script */
            fs_unmap(&map);
            if (elf) {
                (void)ld_load(p->ld, file, NULL);
                break;
            }
        }
    }
    preload_therock(p);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *file = arena_fmt(p->arena, "%s/%s", p->torch_lib, names[i]);
        if (fs_exists(p->c->fs, p->arena, file)) {
            (void)ld_load(p->ld, file, NULL);
        }
    }
    load_missing_from_wheels(p);
}

static const struct ld_object *object_of_row(const struct process *p, const struct lib_row *row)
{
    size_t count;
    const struct ld_object *const *objects = ld_objects(p->ld, &count);
    for (size_t i = 0; i < count; i++) {
        if (objects[i]->state == LD_LOADED && lib_row_of_file(base_of(objects[i]->path)) == row) {
            return objects[i];
        }
    }
    return NULL;
}

/* Not among what torch needs: the folders of the ROCm or CUDA in question, then the loader's. */
static const struct ld_object *find_elsewhere(struct process *p, const struct lib_row *row)
{
    for (size_t i = 0; i < p->folders.count; i++) {
        const char *file = rocm_library_in(p->c, p->arena, p->folders.items[i], row->base);
        if (file == NULL) {
            continue;
        }
        const struct ld_object *o = ld_load(p->ld, file, NULL);
        if (o->state == LD_LOADED) {
            return o;
        }
    }
    const char *soname = arena_fmt(p->arena, "lib%s.so%s", row->base,
                                   strcmp(row->base, "cuda") == 0 ? ".1" : "");
    const char *path;
    const char *by;
    if (ld_resolve(p->ld, soname, NULL, &path, &by, NULL) == ST_OK) {
        const struct ld_object *o = ld_load(p->ld, path, NULL);
        return o->state == LD_LOADED ? o : NULL;
    }
    return NULL;
}

static const char *key_of(const struct process *p, const struct lib_row *row, const char *what)
{
    return arena_fmt(p->arena, "lib.%s.%s", row->fact, what);
}

static const char *wheel_version(const struct process *p, const struct lib_row *row,
                                 const char **ret_source)
{
    static const char *const suffixes[] = {"-cu13", "-cu12", "-cu11", ""};
    for (size_t i = 0; row->wheel != NULL && i < ARRAY_LEN(suffixes); i++) {
        const char *key = arena_fmt(p->arena, "pkg.%s%s.version", row->wheel, suffixes[i]);
        const struct fact *f = facts_get(p->c->facts, key);
        if (f != NULL && f->value.kind == VALUE_STRING) {
            *ret_source = f->source;
            return f->value.string;
        }
    }
    return NULL;
}

static void set_version(const struct process *p, const struct lib_row *row, const char *path)
{
    const char *key = key_of(p, row, "version");
    const char *source = path;
    const char *version = NULL;
    const char *real = path;
    if (row->family == LIB_TORCH) {
        version = facts_get_string(p->c->facts, "torch.version", NULL);
        source = "torch/version.py";
    }
    if (strstr(path, "/nvidia/") != NULL) {
        version = wheel_version(p, row, &source);
    }
    if (version == NULL && row->file_number &&
        fs_realpath(p->c->fs, p->arena, path, &real, NULL) == ST_OK) {
        version = lib_version_of_file_name(p->arena, base_of(real));
        source = real;
    }
    const struct rocm_install *in = rocm_install_of(&p->installs, path);
    if (version == NULL && row->family == LIB_ROCM && in != NULL && in->version != NULL) {
        version = lib_version_in_rocm(row->fact, in->version);
        source = arena_fmt(p->arena, "the libraries of ROCm %s (%s)", in->version, in->source);
    }
    const char *hip = facts_get_string(p->c->facts, "torch.hip", NULL);
    if (version == NULL && hip != NULL && in != NULL && strcmp(in->kind, "wheel") == 0 &&
        strcmp(row->fact, "amdhip64") == 0) {
        version = str_dup(p->arena, str_slice(str_of(hip), 0, strspn(hip, "0123456789.")));
        source = "torch/version.py";
    }
    if (version != NULL) {
        facts_string(p->c->facts, key, version, source);
    } else {
        facts_set_state(p->c->facts, key, FACT_UNREADABLE, path,
                        "neither the file's name nor its package tells the version");
    }
}

static void set_missing(const struct process *p, const struct lib_row *row,
                        const struct ld_object *o)
{
    VEC_OF(const char *) missing = {0};
    for (size_t i = 0; i < o->elf.needed_count && missing.count < MAX_LISTED; i++) {
        const struct ld_object *n = ld_find(p->ld, o->elf.needed[i]);
        if (n == NULL || n->state != LD_LOADED) {
            *VEC_PUSH(p->arena, &missing) = o->elf.needed[i];
        }
    }
    facts_strings(p->c->facts, key_of(p, row, "needed_missing"), missing.items, missing.count,
                  o->path);
}

static void set_copies(const struct process *p, const struct lib_row *row)
{
    VEC_OF(const char *) copies = {0};
    for (size_t i = 0; i < p->folders.count && copies.count < MAX_LISTED; i++) {
        const char *file = rocm_library_in(p->c, p->arena, p->folders.items[i], row->base);
        const char *real;
        if (file == NULL || fs_realpath(p->c->fs, p->arena, file, &real, NULL) != ST_OK) {
            continue;
        }
        bool seen = false;
        for (size_t k = 0; k < copies.count; k++) {
            seen |= strcmp(copies.items[k], real) == 0;
        }
        if (!seen) {
            *VEC_PUSH(p->arena, &copies) = real;
        }
    }
    if (copies.count != 0) {
        facts_strings(p->c->facts, key_of(p, row, "copies"), copies.items, copies.count,
                      "wheels, ROCm and CUDA prefixes, system folders");
    }
}

static void set_row(struct process *p, const struct lib_row *row)
{
    struct facts *f = p->c->facts;
    const struct ld_object *o = object_of_row(p, row);
    if (o == NULL && row->family != LIB_TORCH) {
        o = find_elsewhere(p, row);
    }
    if (o == NULL) {
        facts_set_state(f, key_of(p, row, "path"), FACT_ABSENT, "search of the loader",
                        "found by no library of torch and in no folder of ROCm or CUDA");
        return;
    }
    facts_string(f, key_of(p, row, "path"), o->path, o->found_by != NULL ? o->found_by : o->path);
    if (o->elf.soname != NULL) {
        facts_string(f, key_of(p, row, "soname"), o->elf.soname, o->path);
        const char *series = row->family == LIB_ROCM ? lib_rocm_series(o->elf.soname) : NULL;
        if (series != NULL) {
            facts_string(f, key_of(p, row, "rocm_series"), series, o->elf.soname);
        }
    }
    set_version(p, row, o->path);
    set_missing(p, row, o);
    set_copies(p, row);
    lib_targets_facts(p->c, p->arena, row, o->path);
}

/* "version `GLIBCXX_3.4.32' not found": an older copy of a library wins the search. */
static void set_missing_versions(const struct process *p)
{
    size_t count;
    const struct missing_version *v = cxx_missing_versions(p->ld, p->arena, &count);
    const char **texts = arena_array(p->arena, count, sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        texts[i] = arena_fmt(p->arena, "%s of %s (needed by %s)", v[i].version, v[i].library,
                             v[i].needed_by);
    }
    facts_strings(p->c->facts, "torch.missing_versions", texts, count, p->torch_lib);
}

/* What the loader would say about torch: names that nothing provides, and the newest glibc asked
 * for. */
static void set_torch_needs(struct process *p)
{
    size_t count;
    const struct ld_object *const *objects = ld_objects(p->ld, &count);
    VEC_OF(const char *) missing = {0};
    VEC_OF(const char *) loaded = {0};
    const char *glibc = NULL;
    const char *glibcxx = NULL;
    size_t n = strlen(p->torch_lib);
    for (size_t i = 0; i < count; i++) {
        const struct ld_object *o = objects[i];
        if (o->state == LD_LOADED) {
            *VEC_PUSH(p->arena, &loaded) = o->path;
        } else {
            *VEC_PUSH(p->arena, &missing) = arena_fmt(p->arena, "%s (needed by %s)", o->name,
                                                      o->requester != NULL ? o->requester->name
                                                                           : "the program");
        }
        if (o->state == LD_LOADED && strncmp(o->path, p->torch_lib, n) == 0) {
            const char *v = elf_needs_version(p->arena, &o->elf, "GLIBC_");
            glibc = glibc == NULL || (v != NULL && strverscmp(v, glibc) > 0) ? v : glibc;
            v = elf_needs_version(p->arena, &o->elf, "GLIBCXX_");
            glibcxx = glibcxx == NULL || (v != NULL && strverscmp(v, glibcxx) > 0) ? v : glibcxx;
        }
    }
    struct facts *f = p->c->facts;
    facts_strings(f, "torch.needed_missing", missing.items, missing.count, p->torch_lib);
    set_missing_versions(p);
    facts_strings(f, "torch.loads", loaded.items, loaded.count, p->torch_lib);
    if (glibc != NULL) {
        facts_string(f, "torch.needs_glibc", glibc, p->torch_lib);
    }
    if (glibcxx != NULL) {
        facts_string(f, "torch.needs_glibcxx", glibcxx, p->torch_lib);
    }
}

void collect_libraries(struct collect *c)
{
    struct process p = {.c = c, .arena = arena_new(0)};
    struct ld_options options = {.library_path = collect_env(c, "LD_LIBRARY_PATH"),
                                 .preload = collect_env(c, "LD_PRELOAD")};
    const char *torch = facts_get_string(c->facts, "torch.path", NULL);
    p.torch_lib = torch != NULL ? arena_fmt(p.arena, "%s/lib", torch) : NULL;
    p.ld = ld_new(c->fs, p.arena, options);
    rocm_installs_find(c, p.arena, &p.installs);
    find_folders(&p);
    if (p.torch_lib != NULL && fs_is_dir(c->fs, p.arena, p.torch_lib)) {
        load_torch(&p);
        set_torch_needs(&p);
    }
    for (size_t i = 0; i < lib_row_count; i++) {
        set_row(&p, &lib_rows[i]);
    }
    lib_stack_facts(c, p.arena);
    ld_free(p.ld);
    arena_free(p.arena);
}
