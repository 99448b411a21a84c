// SPDX-License-Identifier: Apache-2.0
/*
 * Which Python environment a job would use, and what is installed in it, without running Python.
 * Looked for in this order: the caller's choice (an interpreter or a folder), VIRTUAL_ENV,
 * CONDA_PREFIX, pyenv, `python3` on the PATH of the job, the system's.
 */
#ifndef ASSAY_FACTS_PYTHON_ENV_H
#define ASSAY_FACTS_PYTHON_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/fs.h"

struct collect;

/* One installed distribution. */
struct python_dist {
    const char *name;    /* normalised: "flash-attn" */
    const char *version; /* from the folder's name; NULL when it has none */
    const char *info;    /* path of the dist-info or egg-info */
    const char *site;    /* folder it was found in */
    bool shadowed;       /* an earlier folder of the search path has the same name */
};

struct python_env {
    const char *prefix;      /* sys.prefix */
    const char *base_prefix; /* sys.base_prefix: differs in a virtual environment */
    const char *version;     /* "3.11.7", or "3.11" when only the folder tells */
    const char *how;    /* "--python", "VIRTUAL_ENV", "CONDA_PREFIX", "pyenv", "PATH", "system" */
    const char *source; /* file or folder that told */
    bool system_site;   /* site-packages of the base are visible */

    struct {
        const char **items; /* folders of sys.path that hold packages, in its order */
        size_t count;
        size_t capacity;
    } sites;

    struct {
        const char **items; /* "FILE: line" of .pth lines that Python would execute; never run */
        size_t count;
        size_t capacity;
    } pth_imports;

    struct {
        struct python_dist *items; /* in order of the search path, sorted within a folder */
        size_t count;
        size_t capacity;
    } dists;

    struct {
        const char **items; /* "~orch"-like folders that a broken pip run left behind */
        size_t count;
        size_t capacity;
    } leftovers;
};

/* The environment of the job; ST_ABSENT when there is no Python at all. Nothing is listed yet. */
enum status python_env_find(const struct collect *c, struct arena *a, struct python_env *ret_env,
                            struct err *err) MUST_USE;

/* An environment by its folder (a prefix, or a folder of packages itself). */
enum status python_env_at(const struct collect *c, struct arena *a, const char *folder,
                          const char *how, struct python_env *ret_env, struct err *err) MUST_USE;

/* Fills `dists` and `leftovers`. At most 10,000 distributions. */
void python_env_list(const struct collect *c, struct arena *a, struct python_env *env);

/* The distribution an import would use, or NULL. */
const struct python_dist *python_env_get(const struct python_env *env, const char *name);

/* Path of a file or folder in the first site folder that has it ("torch/version.py"), or NULL. */
const char *python_env_file(const struct collect *c, struct arena *a, const struct python_env *env,
                            const char *relative);

/* Other environments on the machine: prefixes, without `chosen`. At most 64. */
const char *const *python_env_others(const struct collect *c, struct arena *a, const char *chosen,
                                     size_t *ret_count) MUST_USE;

#endif
