// SPDX-License-Identifier: Apache-2.0
/* See run_environment.h. */
#include "cli/run/environment.h"

#include <string.h>

#include "base/str.h"
#include "base/vec.h"

void run_environment_remove(struct text_list *env, struct str name)
{
    size_t kept = 0;
    for (size_t i = 0; i < env->count; i++) {
        struct str rest = str_of(env->items[i]);
        struct str one;
        if (!str_cut(&rest, '=', &one) || !str_eq(one, name)) {
            env->items[kept++] = env->items[i];
        }
    }
    env->count = kept;
}

const char *run_environment_get(const struct text_list *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], name, n) == 0 && env->items[i][n] == '=') {
            return env->items[i] + n + 1;
        }
    }
    return NULL;
}

void run_environment_set(struct arena *a, struct text_list *env, const char *name,
                         const char *value)
{
    const char *entry = arena_fmt(a, "%s=%s", name, value);
    run_environment_remove(env, str_of(name));
    *VEC_PUSH(a, env) = entry;
}

/* Values of these are secrets; their names stay. */
static bool is_secret(struct str name)
{
    static const char *const parts[] = {"TOKEN",      "SECRET",      "PASSWORD",
                                        "PASSWD",     "CREDENTIAL",  "API_KEY",
                                        "ACCESS_KEY", "PRIVATE_KEY", "AUTH"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (str_has(name, parts[i])) {
            return true;
        }
    }
    return false;
}

void run_environment_write(const struct text_list *environment, struct json_out *j)
{
    json_key(j, "environment");
    json_object(j);
    for (size_t i = 0; i < environment->count; i++) {
        struct str rest = str_of(environment->items[i]);
        struct str name;
        if (!str_cut(&rest, '=', &name) || name.n == 0 || name.n > 200) {
            continue;
        }
        char key[201];
        memcpy(key, name.p, name.n);
        key[name.n] = '\0';
        json_field(j, key, is_secret(name) ? "(withheld)" : rest.p);
    }
    json_object_end(j);
}
