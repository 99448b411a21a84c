// SPDX-License-Identifier: Apache-2.0
/*
 * dlopen with an answer that a reader can use: which file was really loaded, or why none was.
 */
#include "device/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

/* "not there" is dull; any other complaint of the loader is what the reader must see. */
static bool is_dull(const char *words)
{
    return strstr(words, "No such file") != NULL;
}

static const char *resolved_path(struct arena *a, void *handle, const char *fallback)
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name[0] != '\0') {
        return arena_strdup(a, map->l_name);
    }
    return arena_strdup(a, fallback);
}

enum status library_open(struct arena *a, const char *path, const char *const *names,
                         struct library *ret_library, struct err *err)
{
    const char *const only[] = {path, NULL};
    const char *const *tries = path != NULL ? only : names;
    char words[512] = "no name to try";
    for (size_t i = 0; tries[i] != NULL; i++) {
        void *handle = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
        if (handle != NULL) {
            ret_library->handle = handle;
            ret_library->path = resolved_path(a, handle, tries[i]);
            return ST_OK;
        }
        const char *complaint = dlerror();
        complaint = complaint != NULL ? complaint : "the loader gives no reason";
        if (i == 0 || (is_dull(words) && !is_dull(complaint))) {
            str_print(words, sizeof words, "%s", complaint);
        }
    }
    return err_set(err, is_dull(words) ? ST_ABSENT : ST_IO, "cannot load %s (%s)",
                   tries[0] != NULL ? tries[0] : "a library", words);
}

void library_bind(const struct library *library, const struct library_symbol *rows, size_t count,
                  void *table, const char *missing[LIBRARY_FEATURES_MAX])
{
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library->handle, rows[i].name);
        memcpy((char *)table + rows[i].slot, &address, sizeof address);
        if (address == NULL && missing[rows[i].feature] == NULL) {
            missing[rows[i].feature] = rows[i].name;
        }
    }
}

static void add_matches(struct arena *a, const char *pattern, struct name_list *list)
{
    enum {
        MATCHES_MAX = 16
    };

    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) {
        return;
    }
    for (size_t i = 0; i < found.gl_pathc && i < MATCHES_MAX; i++) {
        /* Newest version first: glob sorts upwards. */
        *VEC_PUSH(a, list) = arena_strdup(a, found.gl_pathv[found.gl_pathc - 1 - i]);
    }
    globfree(&found);
}

void library_find_in_python(struct arena *a, const char *pattern, struct name_list *list)
{
    static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        const char *root = getenv(variables[i]);
        if (root != NULL) {
            add_matches(a, arena_fmt(a, "%s/lib/python3*/site-packages/%s", root, pattern), list);
        }
    }
    const char *home = getenv("HOME");
    if (home != NULL) {
        add_matches(a, arena_fmt(a, "%s/.local/lib/python3*/site-packages/%s", home, pattern),
                    list);
    }
    static const char *const roots[] = {
        "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
        "/usr/lib/python3*/site-packages",       "/usr/lib/python3/dist-packages",
        "/opt/*/lib/python3*/site-packages",
    };
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        add_matches(a, arena_fmt(a, "%s/%s", roots[i], pattern), list);
    }
}
