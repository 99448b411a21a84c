// SPDX-License-Identifier: Apache-2.0
/*
 * One pass over the libraries that RECORD names: DT_NEEDED says what a package was built for, its
 * undefined symbols are then looked up in torch's libraries in one further pass. Strong undefined
 * symbols in torch's namespaces that nobody defines are what the loader reports as "undefined
 * symbol" when an extension meets another torch.
 */
#include "facts/python_native.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/elf.h"
#include "facts/python_env.h"
#include "facts/python_text.h"

enum {
    MAX_LIBS = 256,
    MAX_RECORD = 32 << 20,
    MAX_WANTED = 200000,
    MAX_LISTED = 8,
    MAX_DEPTH = 3
};

struct wanted {
    const char *name;
    bool defined;
};

struct package {
    const struct python_dist *dist;
    VEC_OF(const char *) libs; /* absolute paths */
    const char *cuda;          /* the library that needs CUDA's, ROCm's, torch's libraries; NULL */
    const char *rocm;
    const char *torch;
    size_t abi_new, abi_old;
    VEC_OF(struct wanted *) wanted;
};

struct natives {
    const struct collect *c;
    struct arena *arena; /* of this call */
    struct map *wanted;  /* name -> struct wanted */
    VEC_OF(struct package *) packages;
};

bool python_symbol_is_torchs(struct str s)
{
    static const char *const prefixes[] = {"_ZN3c10",     "_ZNK3c10",    "_ZN2at",    "_ZNK2at",
                                           "_ZN5torch",   "_ZNK5torch",  "_ZTIN3c10", "_ZTVN3c10",
                                           "_ZTIN5torch", "_ZTVN5torch", "_ZTIN2at",  "_ZTVN2at"};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        if (str_starts(s, prefixes[i])) {
            return true;
        }
    }
    return false;
}

int python_abi_of_symbol(struct str s)
{
    if (!python_symbol_is_torchs(s)) {
        return 0;
    }
    if (str_has(s, "7__cxx1112basic_string")) {
        return 1;
    }
    /* "Ss" is the mangling of the old std::string; as an argument it ends the name or follows a
     * reference or an end mark. Identifiers may hold the letters, so only these places count. */
    if (str_has(s, "RKSs") || str_ends(s, "ESs") || str_ends(s, "jSs") || str_has(s, "ESs_")) {
        return -1;
    }
    return 0;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool starts_any(const char *s, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_starts(str_of(s), prefixes[i])) {
            return true;
        }
    }
    return false;
}

/* True when the library needs torch's. */
static bool classify_needed(struct package *p, const struct elf *elf, const char *path)
{
    static const char *const torch[] = {"libtorch", "libc10"};
    static const char *const cuda[] = {"libtorch_cuda", "libc10_cuda", "libcudart", "libcublas",
                                       "libcudnn",      "libnvrtc",    "libcuda.",  "libcusparse",
                                       "libnccl",       "libcusolver", "libcufft"};
    static const char *const rocm[] = {
        "libtorch_hip", "libc10_hip", "libamdhip64", "libhipblas",   "librocblas",
        "librccl",      "libMIOpen",  "libhiprtc",   "libhipsparse", "libhsa-runtime64"};
    bool wants_torch = false;
    for (size_t i = 0; i < elf->needed_count; i++) {
        const char *n = elf->needed[i];
        wants_torch |= starts_any(n, torch, ARRAY_LEN(torch));
        p->cuda = starts_any(n, cuda, ARRAY_LEN(cuda)) ? path : p->cuda;
        p->rocm = starts_any(n, rocm, ARRAY_LEN(rocm)) ? path : p->rocm;
    }
    p->torch = wants_torch ? path : p->torch;
    return wants_torch;
}

struct collect_symbols {
    struct natives *n;
    struct package *p;
};

static bool on_extension_symbol(void *ctx, struct str name, bool defined, bool weak)
{
    struct collect_symbols *s = ctx;
    if (defined || weak || !python_symbol_is_torchs(name)) {
        return true;
    }
    int abi = python_abi_of_symbol(name);
    s->p->abi_new += abi > 0;
    s->p->abi_old += abi < 0;
    if (map_count(s->n->wanted) >= MAX_WANTED) {
        return true;
    }
    struct wanted *w = map_get(s->n->wanted, name);
    if (w == NULL) {
        w = arena_alloc(s->n->arena, sizeof *w);
        map_put(s->n->wanted, name, w);
        w->name = map_key(s->n->wanted, map_count(s->n->wanted) - 1);
    }
    *VEC_PUSH(s->n->arena, &s->p->wanted) = w;
    return true;
}

/* Opens one library and hands it to `visit`; files that are no ELF are passed over. */
static void with_library(struct natives *n, const char *path,
                         void (*visit)(struct natives *n, const struct elf *elf, void *ctx),
                         void *ctx)
{
    struct fs_map map;
    if (fs_map(n->c->fs, n->arena, path, &map, NULL) != ST_OK) {
        return;
    }
    struct elf elf;
    struct str bytes = {.p = (const char *)map.p, .n = map.n};
    if (elf_open(n->arena, bytes, path, &elf, NULL) == ST_OK) {
        visit(n, &elf, ctx);
    }
    fs_unmap(&map);
}

static void visit_extension(struct natives *n, const struct elf *elf, void *ctx)
{
    struct package *p = ctx;
    if (classify_needed(p, elf, elf->name)) {
        struct collect_symbols s = {.n = n, .p = p};
        elf_each_symbol(elf, on_extension_symbol, &s);
    }
}

static void visit_definer(struct natives *n, const struct elf *elf, void *ctx)
{
    (void)ctx;
    for (size_t i = 0; i < map_count(n->wanted); i++) {
        struct wanted *w = map_value(n->wanted, i);
        if (!w->defined) {
            w->defined = elf_defines_symbol(elf, str_of(w->name));
        }
    }
}

/* Without a RECORD: the package's own folder, a few levels deep. */
static void scan_folder(struct natives *n, struct package *p, const char *folder, int depth)
{
    const char *const *names;
    size_t count;
    if (depth > MAX_DEPTH || fs_list(n->c->fs, n->arena, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count && p->libs.count < MAX_LIBS; i++) {
        const char *path = arena_fmt(n->arena, "%s/%s", folder, names[i]);
        if (py_is_library_name(str_of(names[i]))) {
            *VEC_PUSH(n->arena, &p->libs) = path;
        } else if (strchr(names[i], '.') == NULL && strcmp(names[i], "__pycache__") != 0) {
            scan_folder(n, p, path, depth + 1);
        }
    }
}

static void find_libraries(struct natives *n, struct package *p, bool known)
{
    struct str record;
    const char *path = arena_fmt(n->arena, "%s/RECORD", p->dist->info);
    if (fs_read(n->c->fs, n->arena, path, MAX_RECORD, &record, NULL) == ST_OK) {
        const char *relative;
        while (p->libs.count < MAX_LIBS && py_record_next_library(&record, n->arena, &relative)) {
            *VEC_PUSH(n->arena, &p->libs) = arena_fmt(n->arena, "%s/%s", p->dist->site, relative);
        }
        return;
    }
    if (known) {
        char *import = arena_strdup(n->arena, p->dist->name);
        for (char *s = import; *s != '\0'; s++) {
            *s = *s == '-' ? '_' : *s;
        }
        scan_folder(n, p, arena_fmt(n->arena, "%s/%s", p->dist->site, import), 0);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void set_native_libs(const struct natives *n, const struct package *p)
{
    const char **names = arena_array(n->arena, p->libs.count + 1, sizeof *names);
    size_t count = 0;
    for (size_t i = 0; i < p->libs.count; i++) {
        if (fs_exists(n->c->fs, n->arena, p->libs.items[i])) {
            names[count++] = base_of(p->libs.items[i]);
        }
    }
    qsort(names, count, sizeof *names, by_text);
    size_t unique = 0;
    for (size_t i = 0; i < count; i++) {
        if (unique == 0 || strcmp(names[unique - 1], names[i]) != 0) {
            names[unique++] = names[i];
        }
    }
    count = unique;
    facts_strings(n->c->facts, arena_fmt(n->arena, "pkg.%s.native_libs", p->dist->name), names,
                  count, p->dist->info);
}

static void set_build(const struct natives *n, const struct package *p)
{
    bool torch_is_rocm = facts_get_string(n->c->facts, "torch.hip", NULL) != NULL;
    /* A package with libraries for both uses the ones of torch's platform. */
    const char *key = arena_fmt(n->arena, "pkg.%s.build", p->dist->name);
    if (p->rocm != NULL && (p->cuda == NULL || torch_is_rocm)) {
        facts_string(n->c->facts, key, "rocm", p->rocm);
    } else if (p->cuda != NULL) {
        facts_string(n->c->facts, key, "cuda", p->cuda);
    } else if (p->torch != NULL) {
        facts_string(n->c->facts, key, "cpu", p->torch);
    }
}

static void set_symbols(const struct natives *n, const struct package *p, bool torch_read)
{
    if (p->abi_new + p->abi_old != 0) {
        facts_bool(n->c->facts, arena_fmt(n->arena, "pkg.%s.cxx11abi", p->dist->name),
                   p->abi_new != 0, p->torch);
    }
    if (!torch_read || p->wanted.count == 0) {
        return;
    }
    const char *missing[MAX_LISTED];
    size_t count = 0;
    for (size_t i = 0; i < p->wanted.count && count < MAX_LISTED; i++) {
        if (!p->wanted.items[i]->defined) {
            missing[count++] = p->wanted.items[i]->name;
        }
    }
    facts_strings(n->c->facts, arena_fmt(n->arena, "pkg.%s.missing_symbols", p->dist->name),
                  missing, count, p->torch);
}

/* All definitions in torch/lib, and in the packages' own libraries. */
static bool read_definitions(struct natives *n, const char *torch_lib)
{
    const char *const *names;
    size_t count;
    if (torch_lib == NULL || map_count(n->wanted) == 0 ||
        fs_list(n->c->fs, n->arena, torch_lib, &names, &count, NULL) != ST_OK) {
        return false;
    }
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (str_starts(str_of(names[i]), "libtorch") || str_starts(str_of(names[i]), "libc10")) {
            with_library(n, arena_fmt(n->arena, "%s/%s", torch_lib, names[i]), visit_definer, NULL);
            found = true;
        }
    }
    for (size_t i = 0; found && i < n->packages.count; i++) {
        const struct package *p = n->packages.items[i];
        for (size_t k = 0; p->torch != NULL && k < p->libs.count; k++) {
            with_library(n, p->libs.items[k], visit_definer, NULL);
        }
    }
    return found;
}

void python_native_facts(const struct collect *c, const struct python_env *env,
                         const char *torch_lib, python_known_fn known)
{
    struct natives n = {.c = c, .arena = arena_new(0)};
    n.wanted = map_new(n.arena);
    for (size_t i = 0; i < env->dists.count; i++) {
        const struct python_dist *d = &env->dists.items[i];
        if (d->shadowed || strcmp(d->name, "torch") == 0) {
            continue;
        }
        struct package *p = arena_alloc(n.arena, sizeof *p);
        p->dist = d;
        find_libraries(&n, p, known(d->name));
        for (size_t k = 0; k < p->libs.count; k++) {
            with_library(&n, p->libs.items[k], visit_extension, p);
        }
        if (p->libs.count != 0 && (p->torch != NULL || known(d->name))) {
            *VEC_PUSH(n.arena, &n.packages) = p;
        }
    }
    bool torch_read = read_definitions(&n, torch_lib);
    for (size_t i = 0; i < n.packages.count; i++) {
        const struct package *p = n.packages.items[i];
        set_native_libs(&n, p);
        set_build(&n, p);
        set_symbols(&n, p, torch_read);
    }
    arena_free(n.arena);
}

struct abi_count {
    size_t with_new, with_old;
};

static bool on_abi_symbol(void *ctx, struct str name, bool defined, bool weak)
{
    (void)weak;
    struct abi_count *count = ctx;
    int abi = defined ? python_abi_of_symbol(name) : 0;
    count->with_new += abi > 0;
    count->with_old += abi < 0;
    return count->with_new + count->with_old < 64;
}

static void visit_abi(struct natives *n, const struct elf *elf, void *ctx)
{
    (void)n;
    elf_each_symbol(elf, on_abi_symbol, ctx);
}

void python_torch_abi(const struct collect *c, const char *torch_lib)
{
    struct natives n = {.c = c, .arena = arena_new(0)};
    struct abi_count count = {0};
    const char *path = arena_fmt(n.arena, "%s/libc10.so", torch_lib);
    with_library(&n, path, visit_abi, &count);
    if (count.with_new + count.with_old != 0) {
        facts_bool(c->facts, "torch.cxx11abi", count.with_new >= count.with_old, path);
    } else {
        facts_set_state(c->facts, "torch.cxx11abi",
                        fs_exists(c->fs, n.arena, path) ? FACT_UNREADABLE : FACT_ABSENT, path,
                        "libc10.so has no symbol with a std::string in its name");
    }
    arena_free(n.arena);
}
