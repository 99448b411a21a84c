// SPDX-License-Identifier: Apache-2.0
/* Looks at fixed places only; ROCM_PATH counts as one more place to look, never as an answer. */
#include "facts/rocm_install.h"

#include <ctype.h>
#include <string.h>

#include "base/vec.h"

#include "facts/collect.h"

enum {
    MAX_INSTALLS = 64
};

struct finder {
    const struct collect *c;
    struct arena *arena;
    struct rocm_installs *list;
};

const char *rocm_library_in(const struct collect *c, struct arena *a, const char *folder,
                            const char *base)
{
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, a, folder, &names, &count, NULL) != ST_OK) {
        return NULL;
    }
    const char *stem = arena_fmt(a, "lib%s.so", base);
    size_t n = strlen(stem);
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], stem, n) == 0 && (names[i][n] == '\0' || names[i][n] == '.') &&
            (best == NULL || strlen(names[i]) > strlen(best))) {
            best = names[i];
        }
    }
    return best != NULL ? arena_fmt(a, "%s/%s", folder, best) : NULL;
}

static struct rocm_install *add(struct finder *f, const char *path, const char *kind)
{
    const char *real;
    if (f->list->count >= MAX_INSTALLS ||
        fs_realpath(f->c->fs, f->arena, path, &real, NULL) != ST_OK) {
        return NULL;
    }
    for (size_t i = 0; i < f->list->count; i++) {
        if (strcmp(f->list->items[i].path, real) == 0) {
            return NULL;
        }
    }
    struct rocm_install *in = VEC_PUSH(f->arena, f->list);
    *in = (struct rocm_install){.path = real, .kind = kind, .source = real};
    return in;
}

static void set_libs(struct finder *f, struct rocm_install *in, const char *const *folders,
                     size_t count)
{
    const char **dirs = arena_array(f->arena, count + 1, sizeof *dirs);
    for (size_t i = 0; i < count; i++) {
        if (fs_is_dir(f->c->fs, f->arena, folders[i])) {
            dirs[in->lib_dir_count++] = folders[i];
        }
    }
    in->lib_dirs = dirs;
}

/* The digits and dots a text begins with: "6.3.3-74" is release 6.3.3. */
static const char *release_of(struct arena *a, struct str text)
{
    text = str_trim(text);
    size_t n = 0;
    while (n < text.n && (isdigit((unsigned char)text.p[n]) || text.p[n] == '.')) {
        n++;
    }
    while (n != 0 && text.p[n - 1] == '.') {
        n--;
    }
    return n != 0 ? str_dup(a, str_slice(text, 0, n)) : NULL;
}

/* .info/version, of the classic layout and of ROCm 10's; else the number in the folder's name. */
static void set_release(struct finder *f, struct rocm_install *in)
{
    static const char *const files[] = {".info/version", "core/.info/version", ".info/version-dev",
                                        ".info/version-utils"};
    for (size_t i = 0; i < ARRAY_LEN(files) && in->version == NULL; i++) {
        const char *path = arena_fmt(f->arena, "%s/%s", in->path, files[i]);
        struct str text;
        if (fs_read_trimmed(f->c->fs, f->arena, path, &text, NULL) == ST_OK) {
            in->version = release_of(f->arena, text);
            in->source = path;
        }
    }
    const char *dash = strrchr(in->path, '-');
    if (in->version == NULL && dash != NULL && strchr(dash, '/') == NULL) {
        in->version = release_of(f->arena, str_of(dash + 1));
        in->source = in->path;
    }
}

static void add_prefix(struct finder *f, const char *path)
{
    /* An empty folder, or one that holds documents only, is no installation. */
    const char *const folders[] = {
        arena_fmt(f->arena, "%s/lib", path), arena_fmt(f->arena, "%s/lib64", path),
        arena_fmt(f->arena, "%s/core/lib", path), arena_fmt(f->arena, "%s/hip/lib", path)};
    bool any = fs_exists(f->c->fs, f->arena, arena_fmt(f->arena, "%s/.info", path)) ||
               fs_exists(f->c->fs, f->arena, arena_fmt(f->arena, "%s/core/.info", path));
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        any |= fs_is_dir(f->c->fs, f->arena, folders[i]);
    }
    struct rocm_install *in = any ? add(f, path, "system") : NULL;
    if (in != NULL) {
        set_libs(f, in, folders, ARRAY_LEN(folders));
        set_release(f, in);
    }
}

static void add_opt(struct finder *f)
{
    add_prefix(f, "/opt/rocm");
    const char *const *names;
    size_t count;
    if (fs_list(f->c->fs, f->arena, "/opt", &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            if (str_starts(str_of(names[i]), "rocm-")) {
                add_prefix(f, arena_fmt(f->arena, "/opt/%s", names[i]));
            }
        }
    }
    static const char *const variables[] = {"ROCM_PATH", "ROCM_HOME", "HIP_PATH"};
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        const char *path = collect_env(f->c, variables[i]);
        if (path != NULL && path[0] == '/') {
            add_prefix(f, path);
        }
    }
}

/* libamdhip64 inside torch/lib: the classic wheels carry a whole ROCm. */
static void add_torch_wheel(struct finder *f)
{
    const char *torch = facts_get_string(f->c->facts, "torch.path", NULL);
    if (torch == NULL) {
        return;
    }
    const char *lib = arena_fmt(f->arena, "%s/lib", torch);
    if (rocm_library_in(f->c, f->arena, lib, "amdhip64") == NULL) {
        return;
    }
    struct rocm_install *in = add(f, torch, "wheel");
    if (in == NULL) {
        return;
    }
    set_libs(f, in, &lib, 1);
    const char *build = facts_get_string(f->c->facts, "torch.build", "");
    if (str_starts(str_of(build), "rocm")) {
        in->version = release_of(f->arena, str_of(build + strlen("rocm")));
        in->source = arena_fmt(f->arena, "%s/version.py", torch);
    }
}

/* _rocm_sdk_core and _rocm_sdk_libraries[_family][nonce] beside each other in a site folder. */
static void add_therock(struct finder *f, const char *site)
{
    const char *const *names;
    size_t count;
    if (fs_list(f->c->fs, f->arena, site, &names, &count, NULL) != ST_OK) {
        return;
    }
    VEC_OF(const char *) dirs = {0};
    const char *core = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!str_starts(str_of(names[i]), "_rocm_sdk_")) {
            continue;
        }
        const char *path = arena_fmt(f->arena, "%s/%s", site, names[i]);
        core = str_starts(str_of(names[i]), "_rocm_sdk_core") ? path : core;
        *VEC_PUSH(f->arena, &dirs) = arena_fmt(f->arena, "%s/lib", path);
    }
    struct rocm_install *in = core != NULL ? add(f, core, "therock") : NULL;
    if (in == NULL) {
        return;
    }
    set_libs(f, in, dirs.items, dirs.count);
    set_release(f, in);
    static const char *const packages[] = {"pkg.rocm-sdk-core.version", "pkg.rocm.version"};
    for (size_t i = 0; i < ARRAY_LEN(packages) && in->version == NULL; i++) {
        const char *version = facts_get_string(f->c->facts, packages[i], NULL);
        if (version != NULL) {
            in->version = release_of(f->arena, str_of(version));
            in->source = packages[i];
        }
    }
}

static void add_sites(struct finder *f)
{
    const struct fact *sites = facts_get(f->c->facts, "python.sites");
    for (size_t i = 0;
         sites != NULL && sites->value.kind == VALUE_LIST && i < sites->value.list.count; i++) {
        add_therock(f, sites->value.list.items[i].string);
    }
}

/* One folder that holds libamdhip64 among a thousand others. */
static void add_shared_folder(struct finder *f, const char *folder, const char *kind)
{
    const char *file = rocm_library_in(f->c, f->arena, folder, "amdhip64");
    struct rocm_install *in = file != NULL ? add(f, folder, kind) : NULL;
    if (in == NULL) {
        return;
    }
    set_libs(f, in, &folder, 1);
    const char *suffix = strstr(file, ".so.");
    if (suffix != NULL) { /* libamdhip64.so.5.2.21153: HIP follows ROCm in the first two numbers */
        const char *number = release_of(f->arena, str_of(suffix + strlen(".so.")));
        const char *first = number != NULL ? strchr(number, '.') : NULL;
        const char *second = first != NULL ? strchr(first + 1, '.') : NULL;
        in->version = second != NULL ? str_dup(f->arena, str_slice(str_of(number), 0,
                                                                   (size_t)(second - number)))
                                     : number;
        in->source = file;
    }
}

void rocm_installs_find(const struct collect *c, struct arena *a, struct rocm_installs *ret_list)
{
    *ret_list = (struct rocm_installs){0};
    struct finder f = {.c = c, .arena = a, .list = ret_list};
    add_torch_wheel(&f);
    add_sites(&f);
    add_opt(&f);
    const char *prefix = facts_get_string(c->facts, "python.prefix", NULL);
    if (prefix != NULL && fs_exists(c->fs, a, arena_fmt(a, "%s/conda-meta", prefix))) {
        add_shared_folder(&f, arena_fmt(a, "%s/lib", prefix), "conda");
    }
    static const char *const distro[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"};
    for (size_t i = 0; i < ARRAY_LEN(distro); i++) {
        add_shared_folder(&f, distro[i], "distro");
    }
}

const struct rocm_install *rocm_install_of(const struct rocm_installs *list, const char *file)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct rocm_install *in = &list->items[i];
        for (size_t k = 0; k < in->lib_dir_count; k++) {
            size_t n = strlen(in->lib_dirs[k]);
            if (strncmp(file, in->lib_dirs[k], n) == 0 && file[n] == '/') {
                return in;
            }
        }
        size_t n = strlen(in->path);
        bool shared = strcmp(in->kind, "distro") == 0 || strcmp(in->kind, "conda") == 0;
        if (!shared && strncmp(file, in->path, n) == 0 && file[n] == '/') {
            return in;
        }
    }
    return NULL;
}
