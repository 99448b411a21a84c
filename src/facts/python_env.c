// SPDX-License-Identifier: Apache-2.0
/*
 * Finding the environment of the job. Reads pyvenv.cfg, folder names and links only; what is inside
 * the site folders is listed by python_site.c.
 */
#include "facts/python_env.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"

#include "facts/collect.h"
#include "facts/python_site.h"
#include "facts/python_text.h"

enum {
    MAX_CFG = 65536,
    MAX_OTHERS = 64
};

static const char *parent_of(struct arena *a, const char *path)
{
    struct str s = str_of(path);
    while (s.n > 1 && s.p[s.n - 1] == '/') {
        s.n--;
    }
    while (s.n != 0 && s.p[s.n - 1] != '/') {
        s.n--;
    }
    while (s.n > 1 && s.p[s.n - 1] == '/') {
        s.n--;
    }
    return s.n != 0 ? str_dup(a, s) : ".";
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "python3.11" -> "3.11"; NULL for other names. */
static const char *version_of_folder(struct arena *a, const char *name)
{
    struct str s = str_of(name);
    if (!str_starts(s, "python") || s.n < strlen("python3.0") || s.n > strlen("python3.99t")) {
        return NULL;
    }
    struct str v = str_slice(s, strlen("python"), s.n);
    if (!isdigit((unsigned char)v.p[0]) || v.p[1] != '.' || !isdigit((unsigned char)v.p[2])) {
        return NULL;
    }
    if (v.p[v.n - 1] == 't') { /* free-threaded builds */
        v.n--;
    }
    return str_dup(a, v);
}

/* The pythonX.Y folder of prefix/lib: of the wanted version, else the newest one with packages. */
static const char *lib_folder(const struct collect *c, struct arena *a, const char *prefix,
                              const char *wanted, const char **ret_version)
{
    const char *lib = arena_fmt(a, "%s/lib", strcmp(prefix, "/") == 0 ? "" : prefix);
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, a, lib, &names, &count, NULL) != ST_OK) {
        return NULL;
    }
    const char *best = NULL;
    long best_minor = -1;
    for (size_t i = 0; i < count; i++) {
        const char *version = version_of_folder(a, names[i]);
        if (version == NULL) {
            continue;
        }
        uint64_t minor;
        if (str_to_u64(str_of(strchr(version, '.') + 1), 10, &minor) != ST_OK) {
            continue;
        }
        const char *folder = arena_fmt(a, "%s/%s", lib, names[i]);
        bool fits = wanted != NULL
                        ? str_starts(str_of(wanted), version) &&
                              !isdigit((unsigned char)wanted[strlen(version)])
                        : fs_is_dir(c->fs, a, arena_fmt(a, "%s/site-packages", folder)) ||
                              fs_is_dir(c->fs, a, arena_fmt(a, "%s/dist-packages", folder)) ||
                              fs_exists(c->fs, a, arena_fmt(a, "%s/os.py", folder));
        if (fits && (long)minor > best_minor) {
            best = folder;
            best_minor = (long)minor;
            *ret_version = version;
        }
    }
    return best;
}

/* The full number where a neighbour tells it: pyenv in the prefix, conda in its records. */
static const char *refine_version(const struct collect *c, struct arena *a, const char *prefix,
                                  const char *version)
{
    struct str base = str_of(base_of(prefix));
    size_t n = strlen(version);
    if (str_starts(base, version) && base.n > n && base.p[n] == '.') {
        return str_dup(a, base); /* ~/.pyenv/versions/3.11.7 */
    }
    const char *const *names;
    size_t count;
    const char *meta = arena_fmt(a, "%s/conda-meta", prefix);
    const char *record = arena_fmt(a, "python-%s.", version);
    if (fs_list(c->fs, a, meta, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) { /* python-3.11.7-h955ad1f_0.json */
            if (str_starts(str_of(names[i]), record)) {
                const char *from = names[i] + strlen("python-");
                return str_dup(a, str_slice(str_of(from), 0, strcspn(from, "-")));
            }
        }
    }
    return version;
}

static void read_venv(const struct collect *c, struct arena *a, struct python_env *env)
{
    struct str cfg;
    const char *path = arena_fmt(a, "%s/pyvenv.cfg", env->prefix);
    if (fs_read(c->fs, a, path, MAX_CFG, &cfg, NULL) != ST_OK) {
        return;
    }
    const char *home = py_ini_value(a, cfg, "home");
    const char *version = py_ini_value(a, cfg, "version");
    if (version == NULL) {
        version = py_ini_value(a, cfg, "version_info"); /* virtualenv, uv */
    }
    const char *system_site = py_ini_value(a, cfg, "include-system-site-packages");
    env->source = path;
    env->system_site = system_site != NULL && strcasecmp(system_site, "true") == 0;
    if (home != NULL && home[0] == '/') {
        env->base_prefix = parent_of(a, home);
    }
    if (version != NULL && isdigit((unsigned char)version[0])) {
        struct str v = str_of(version); /* "3.11.7.final.0" of virtualenv */
        size_t end = 0;
        while (end < v.n && (isdigit((unsigned char)v.p[end]) || v.p[end] == '.')) {
            end++;
        }
        while (end != 0 && v.p[end - 1] == '.') {
            end--;
        }
        env->version = str_dup(a, str_slice(v, 0, end));
    }
}

enum status python_env_at(const struct collect *c, struct arena *a, const char *folder,
                          const char *how, struct python_env *ret_env, struct err *err)
{
    struct stat st;
    TRY(fs_stat(c->fs, a, folder, &st, err));
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, ST_ABSENT, "'%s' is not a folder", folder);
    }
    struct python_env env = {.prefix = folder, .base_prefix = folder, .how = how, .source = folder};
    const char *base = base_of(folder);
    if (strcmp(base, "site-packages") == 0 || strcmp(base, "dist-packages") == 0) {
        env.version = version_of_folder(a, base_of(parent_of(a, folder)));
        env.prefix = parent_of(a, parent_of(a, parent_of(a, folder)));
        env.base_prefix = env.prefix;
        python_site_add(c, a, &env, folder);
        *ret_env = env;
        return ST_OK;
    }
    read_venv(c, a, &env);
    const char *version = NULL;
    const char *lib = lib_folder(c, a, folder, env.version, &version);
    if (lib == NULL) {
        const char *const *names; /* a folder that may not be listed is another answer */
        size_t count;
        TRY(fs_list(c->fs, a, folder, &names, &count, err));
        return err_set(err, ST_ABSENT,
                       "'%s' holds no lib/pythonX.Y: it is not a Python environment", folder);
    }
    if (env.version == NULL) {
        env.version = refine_version(c, a, folder, version);
    }
    python_site_paths(c, a, &env, lib, version);
    *ret_env = env;
    return ST_OK;
}

/* pyenv's choice: PYENV_VERSION, .python-version upwards from the working folder, the global file. */
static const char *pyenv_prefix(const struct collect *c, struct arena *a, const char *root)
{
    const char *chosen = collect_env(c, "PYENV_VERSION");
    struct str text;
    if (chosen == NULL) {
        const char *folder = facts_get_string(c->facts, "proc.cwd", NULL);
        for (int i = 0; folder != NULL && folder[0] == '/' && chosen == NULL && i < 64; i++) {
            const char *file = arena_fmt(a, "%s/.python-version", folder);
            if (fs_read(c->fs, a, file, 4096, &text, NULL) == ST_OK) {
                chosen = str_dup(a, str_trim(text));
            }
            folder = strcmp(folder, "/") == 0 ? NULL : parent_of(a, folder);
        }
    }
    if (chosen == NULL &&
        fs_read(c->fs, a, arena_fmt(a, "%s/version", root), 4096, &text, NULL) == ST_OK) {
        chosen = str_dup(a, str_trim(text));
    }
    if (chosen == NULL) {
        return NULL;
    }
    size_t end = strcspn(chosen, ":\n "); /* the first of several */
    const char *name = str_dup(a, str_slice(str_of(chosen), 0, end));
    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, "..") == 0) {
        return NULL;
    }
    const char *versions = arena_fmt(a, "%s/versions", root);
    const char *exact = arena_fmt(a, "%s/%s", versions, name);
    if (fs_is_dir(c->fs, a, exact)) {
        return exact;
    }
    const char *const *names; /* "3.11" stands for the newest 3.11.x */
    size_t count;
    const char *best = NULL;
    if (fs_list(c->fs, a, versions, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            if (str_starts(str_of(names[i]), name) && names[i][strlen(name)] == '.' &&
                (best == NULL || strverscmp(names[i], best) > 0)) {
                best = names[i];
            }
        }
    }
    return best != NULL ? arena_fmt(a, "%s/%s", versions, best) : NULL;
}

/* Root of pyenv when `folder` is its shims folder. */
static const char *pyenv_root_of_shims(struct arena *a, const char *folder)
{
    return strcmp(base_of(folder), "shims") == 0 ? parent_of(a, folder) : NULL;
}

/* The environment an interpreter file belongs to: pyvenv.cfg beside or above it, else the real
 * file's prefix. */
static enum status env_of_interpreter(const struct collect *c, struct arena *a, const char *file,
                                      const char *how, struct python_env *ret_env, struct err *err)
{
    const char *bin = parent_of(a, file);
    const char *pyenv = pyenv_root_of_shims(a, bin);
    if (pyenv != NULL) {
        const char *prefix = pyenv_prefix(c, a, pyenv);
        if (prefix == NULL) {
            return err_set(err, ST_ABSENT, "'%s' is a pyenv shim and pyenv names no version", file);
        }
        return python_env_at(c, a, prefix, how, ret_env, err);
    }
    const char *prefix = parent_of(a, bin);
    if (fs_exists(c->fs, a, arena_fmt(a, "%s/pyvenv.cfg", prefix))) {
        return python_env_at(c, a, prefix, how, ret_env, err);
    }
    if (!fs_exists(c->fs, a, file)) {
        return err_set(err, ST_ABSENT, "'%s' does not exist", file);
    }
    const char *real;
    TRY(fs_realpath(c->fs, a, file, &real, err));
    const char *version = version_of_folder(a, base_of(real));
    prefix = parent_of(a, parent_of(a, real));
    struct python_env env;
    TRY(python_env_at(c, a, prefix, how, &env, err));
    /* /usr/lib may hold several; the interpreter's own name decides. */
    if (version != NULL && !str_starts(str_of(env.version), version)) {
        const char *found = NULL;
        const char *lib = lib_folder(c, a, prefix, version, &found);
        if (lib != NULL) {
            env.version = found;
            env.sites.count = 0;
            python_site_paths(c, a, &env, lib, found);
        }
    }
    env.source = file;
    *ret_env = env;
    return ST_OK;
}

/* First `name` on PATH, or NULL. */
static const char *on_path(const struct collect *c, struct arena *a, const char *name)
{
    struct str path = str_of(collect_env(c, "PATH"));
    struct str folder;
    while (path.n != 0 && str_cut(&path, ':', &folder)) {
        if (folder.n == 0 || folder.p[0] != '/') {
            continue;
        }
        const char *file = arena_fmt(a, "%.*s/%s", STR_ARG(folder), name);
        if (fs_exists(c->fs, a, file)) {
            return file;
        }
    }
    return NULL;
}

static enum status chosen_by_caller(const struct collect *c, struct arena *a,
                                    struct python_env *ret_env, struct err *err)
{
    const char *given = c->python;
    /* $ORIGIN and links need absolute paths. What is given on a command line is relative to the
     * folder of this process. */
    char here[PATH_MAX];
    if (given[0] != '/' && fs_is_live(c->fs) && getcwd(here, sizeof here) != NULL &&
        fs_exists(c->fs, a, arena_fmt(a, "%s/%s", here, given))) {
        given = arena_fmt(a, "%s/%s", here, given);
    }
    if (strchr(given, '/') == NULL && !fs_exists(c->fs, a, given)) {
        const char *file = on_path(c, a, given);
        if (file == NULL) {
            return err_set(err, ST_ABSENT, "there is no '%s' on the PATH", given);
        }
        return env_of_interpreter(c, a, file, "--python", ret_env, err);
    }
    if (fs_is_dir(c->fs, a, given)) {
        return python_env_at(c, a, given, "--python", ret_env, err);
    }
    return env_of_interpreter(c, a, given, "--python", ret_env, err);
}

enum status python_env_find(const struct collect *c, struct arena *a, struct python_env *ret_env,
                            struct err *err)
{
    if (c->python != NULL) {
        return chosen_by_caller(c, a, ret_env, err);
    }
    static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        const char *folder = collect_env(c, variables[i]);
        if (folder != NULL && folder[0] == '/' &&
            python_env_at(c, a, folder, variables[i], ret_env, NULL) == ST_OK) {
            return ST_OK;
        }
    }
    static const char *const names[] = {"python3", "python"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *file = on_path(c, a, names[i]);
        if (file != NULL) {
            const char *how = pyenv_root_of_shims(a, parent_of(a, file)) != NULL ? "pyenv" : "PATH";
            if (env_of_interpreter(c, a, file, how, ret_env, NULL) == ST_OK) {
                return ST_OK;
            }
        }
    }
    static const char *const system[] = {"/usr/bin/python3", "/usr/local/bin/python3"};
    for (size_t i = 0; i < ARRAY_LEN(system); i++) {
        if (env_of_interpreter(c, a, system[i], "system", ret_env, NULL) == ST_OK) {
            return ST_OK;
        }
    }
    return err_set(err, ST_ABSENT,
                   "no Python was found: neither VIRTUAL_ENV, CONDA_PREFIX nor PATH "
                   "leads to one, and there is no /usr/bin/python3");
}

struct others {
    const struct collect *c;
    struct arena *arena;
    const char *chosen;
    VEC_OF(const char *) found;
};

static void consider(struct others *o, const char *prefix)
{
    const char *version;
    if (o->found.count >= MAX_OTHERS || strcmp(prefix, o->chosen) == 0 ||
        lib_folder(o->c, o->arena, prefix, NULL, &version) == NULL) {
        return;
    }
    for (size_t i = 0; i < o->found.count; i++) {
        if (strcmp(o->found.items[i], prefix) == 0) {
            return;
        }
    }
    *VEC_PUSH(o->arena, &o->found) = prefix;
}

static void consider_children(struct others *o, const char *folder)
{
    const char *const *names;
    size_t count;
    if (fs_list(o->c->fs, o->arena, folder, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count && i < 256; i++) {
            consider(o, arena_fmt(o->arena, "%s/%s", folder, names[i]));
        }
    }
}

const char *const *python_env_others(const struct collect *c, struct arena *a, const char *chosen,
                                     size_t *ret_count)
{
    struct others o = {.c = c, .arena = a, .chosen = chosen != NULL ? chosen : ""};
    static const char *const fixed[] = {"/opt/venv", "/opt/conda", "/usr/local", "/usr"};
    static const char *const at_home[] = {"venv", ".venv", "miniconda3", "anaconda3", "miniforge3"};
    const char *cwd = facts_get_string(c->facts, "proc.cwd", NULL);
    if (cwd != NULL) {
        consider(&o, arena_fmt(a, "%s/.venv", cwd));
        consider(&o, arena_fmt(a, "%s/venv", cwd));
    }
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        consider(&o, fixed[i]);
    }
    consider_children(&o, "/opt/conda/envs");
    for (size_t i = 0; c->user_home != NULL && i < ARRAY_LEN(at_home); i++) {
        const char *folder = arena_fmt(a, "%s/%s", c->user_home, at_home[i]);
        consider(&o, folder);
        consider_children(&o, arena_fmt(a, "%s/envs", folder));
    }
    if (c->user_home != NULL) {
        consider_children(&o, arena_fmt(a, "%s/.conda/envs", c->user_home));
        const char *root = collect_env(c, "PYENV_ROOT");
        root = root != NULL ? root : arena_fmt(a, "%s/.pyenv", c->user_home);
        consider_children(&o, arena_fmt(a, "%s/versions", root));
    }
    *ret_count = o.found.count;
    return o.found.items;
}
