// SPDX-License-Identifier: Apache-2.0
/*
 * sys.path as site.py builds it: PYTHONPATH, the environment, the user's folder, the base when it
 * is visible; after each folder what its .pth files add. Lines that begin with "import" would be
 * executed by Python: they are noted and left alone.
 */
#include "facts/python_site.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/python_env.h"
#include "facts/python_text.h"

enum {
    MAX_SITES = 64,
    MAX_PTH = 65536,
    MAX_PTH_FILES = 256,
    MAX_PTH_LINES = 512
};

enum {
    MAX_DISTS = 10000
};

static bool already(const struct python_env *env, const char *folder)
{
    for (size_t i = 0; i < env->sites.count; i++) {
        if (strcmp(env->sites.items[i], folder) == 0) {
            return true;
        }
    }
    return false;
}

static bool add_folder(const struct collect *c, struct arena *a, struct python_env *env,
                       const char *folder)
{
    const char *real;
    if (env->sites.count >= MAX_SITES || !fs_is_dir(c->fs, a, folder) ||
        fs_realpath(c->fs, a, folder, &real, NULL) != ST_OK || already(env, folder) ||
        already(env, real)) {
        return false;
    }
    *VEC_PUSH(a, &env->sites) = arena_strdup(a, folder);
    return true;
}

static void read_pth(const struct collect *c, struct arena *a, struct python_env *env,
                     const char *folder, const char *name)
{
    struct str text;
    const char *file = arena_fmt(a, "%s/%s", folder, name);
    if (fs_read(c->fs, a, file, MAX_PTH, &text, NULL) != ST_OK) {
        return;
    }
    struct str line;
    for (int i = 0; i < MAX_PTH_LINES && str_cut_line(&text, &line); i++) {
        if (str_starts(line, "import ") || str_starts(line, "import\t")) {
            *VEC_PUSH(a, &env->pth_imports) = arena_fmt(a, "%s: %.*s", file,
                                                        STR_ARG(str_slice(line, 0, 160)));
            continue;
        }
        line = str_trim(line);
        if (line.n == 0 || line.p[0] == '#' || line.n > 4096 ||
            memchr(line.p, '\0', line.n) != NULL) {
            continue;
        }
        add_folder(c, a, env,
                   line.p[0] == '/' ? str_dup(a, line)
                                    : arena_fmt(a, "%s/%.*s", folder, STR_ARG(line)));
    }
}

void python_site_add(const struct collect *c, struct arena *a, struct python_env *env,
                     const char *folder)
{
    if (!add_folder(c, a, env, folder)) {
        return;
    }
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, a, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    int files = 0;
    for (size_t i = 0; i < count && files < MAX_PTH_FILES; i++) {
        if (str_ends(str_of(names[i]), ".pth") && names[i][0] != '.') {
            read_pth(c, a, env, folder, names[i]);
            files++;
        }
    }
}

/* The folders below one prefix, Debian's spelling included. */
static void add_prefix(const struct collect *c, struct arena *a, struct python_env *env,
                       const char *prefix, const char *version)
{
    if (strcmp(prefix, "/usr") == 0) {
        const char *local = arena_fmt(a, "/usr/local/lib/python%s", version);
        python_site_add(c, a, env, arena_fmt(a, "%s/dist-packages", local));
        python_site_add(c, a, env, arena_fmt(a, "%s/site-packages", local));
        python_site_add(c, a, env, "/usr/lib/python3/dist-packages");
    }
    static const char *const lib[] = {"lib", "lib64"};
    static const char *const kind[] = {"site-packages", "dist-packages"};
    for (size_t i = 0; i < ARRAY_LEN(lib); i++) {
        for (size_t k = 0; k < ARRAY_LEN(kind); k++) {
            python_site_add(c, a, env,
                            arena_fmt(a, "%s/%s/python%s/%s", prefix, lib[i], version, kind[k]));
        }
    }
}

void python_site_paths(const struct collect *c, struct arena *a, struct python_env *env,
                       const char *lib, const char *version)
{
    struct str path = str_of(collect_env(c, "PYTHONPATH"));
    struct str part;
    while (path.n != 0 && str_cut(&path, ':', &part)) {
        if (part.n != 0 && part.p[0] == '/') {
            add_folder(c, a, env, str_dup(a, part)); /* no .pth files are read there */
        }
    }
    bool venv = strcmp(env->prefix, env->base_prefix) != 0;
    if (venv) {
        python_site_add(c, a, env, arena_fmt(a, "%s/site-packages", lib));
        add_prefix(c, a, env, env->prefix, version);
    }
    bool base_visible = !venv || env->system_site;
    const char *no_user = collect_env(c, "PYTHONNOUSERSITE");
    if (base_visible && c->user_home != NULL && (no_user == NULL || no_user[0] == '\0')) {
        python_site_add(
            c, a, env, arena_fmt(a, "%s/.local/lib/python%s/site-packages", c->user_home, version));
    }
    if (base_visible) {
        add_prefix(c, a, env, env->base_prefix, version);
    }
}

static void list_site(const struct collect *c, struct arena *a, struct python_env *env,
                      struct map *seen, const char *site)
{
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, a, site, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count && env->dists.count < MAX_DISTS; i++) {
        const char *name;
        const char *version;
        if (names[i][0] == '~') {
            *VEC_PUSH(a, &env->leftovers) = arena_fmt(a, "%s/%s", site, names[i]);
            continue;
        }
        if (!py_split_dist_folder(a, str_of(names[i]), &name, &version)) {
            continue;
        }
        struct python_dist *d = VEC_PUSH(a, &env->dists);
        *d = (struct python_dist){
            .name = name,
            .version = version,
            .info = arena_fmt(a, "%s/%s", site, names[i]),
            .site = site,
            .shadowed = map_get(seen, str_of(name)) != NULL,
        };
        map_put(seen, str_of(name), (void *)d->name);
    }
}

void python_env_list(const struct collect *c, struct arena *a, struct python_env *env)
{
    struct map *seen = map_new(a);
    for (size_t i = 0; i < env->sites.count; i++) {
        list_site(c, a, env, seen, env->sites.items[i]);
    }
}

const struct python_dist *python_env_get(const struct python_env *env, const char *name)
{
    for (size_t i = 0; i < env->dists.count; i++) {
        const struct python_dist *d = &env->dists.items[i];
        if (!d->shadowed && strcmp(d->name, name) == 0) {
            return d;
        }
    }
    return NULL;
}

const char *python_env_file(const struct collect *c, struct arena *a, const struct python_env *env,
                            const char *relative)
{
    for (size_t i = 0; i < env->sites.count; i++) {
        const char *path = arena_fmt(a, "%s/%s", env->sites.items[i], relative);
        if (fs_exists(c->fs, a, path)) {
            return path;
        }
    }
    return NULL;
}
