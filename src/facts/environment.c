// SPDX-License-Identifier: Apache-2.0
/*
 * The environment of the job: of this process when live, of <root>/proc/self/environ when frozen.
 * Every variable becomes env.<NAME>; with env.read = true a variable that is not listed is not set.
 * Values of names that look like secrets are replaced: facts are pasted into public reports.
 */
#include <string.h>

#include "base/str.h"

#include "facts/collect.h"

enum {
    MAX_ENVIRON = 4 << 20
};

static bool is_secret(const char *name)
{
    static const char *const marks[] = {"TOKEN",  "SECRET",     "PASSWORD",   "PASSWD", "API_KEY",
                                        "APIKEY", "ACCESS_KEY", "CREDENTIAL", "PRIVATE"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (strcasestr(name, marks[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void add(struct collect *c, struct str entry, const char *source)
{
    size_t eq = str_find_char(entry, '=', 0);
    if (eq == SIZE_MAX || eq == 0 || eq > 200) {
        return;
    }
    const char *name = str_dup(c->scratch, str_slice(entry, 0, eq));
    const char *value = str_dup(c->scratch, str_slice(entry, eq + 1, entry.n));
    facts_string(c->facts, arena_fmt(c->scratch, "env.%s", name),
                 is_secret(name) && value[0] != '\0' ? "(hidden)" : value, source);
}

void collect_environment(struct collect *c)
{
    const char *source = fs_is_live(c->fs) ? "environ(7)" : "/proc/self/environ";
    if (c->env != NULL) {
        for (size_t i = 0; c->env[i] != NULL; i++) {
            add(c, str_of(c->env[i]), source);
        }
        facts_bool(c->facts, "env.read", true, source);
        return;
    }
    struct str text;
    struct err err = {0};
    const char *path = "/proc/self/environ";
    if (fs_read(c->fs, c->scratch, path, MAX_ENVIRON, &text, &err) != ST_OK) {
        facts_set_error(c->facts, "env.read", path, &err);
        return;
    }
    /* A frozen text file may use line breaks where the kernel writes NUL. */
    char sep = str_find_char(text, '\0', 0) != SIZE_MAX ? '\0' : '\n';
    struct str entry;
    while (str_cut(&text, sep, &entry)) {
        add(c, entry, path);
    }
    facts_bool(c->facts, "env.read", true, path);
}
