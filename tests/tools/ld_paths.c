// SPDX-License-Identifier: Apache-2.0
/*
 * usage: ld_paths PROGRAM [LIBRARY...]: what ld_load() finds, one "name => path" a line as ldd(1)
 * prints them, with the reason behind it when WHY is in the environment.
 *        ld_paths --resolve NAME...: where ld_resolve() finds each name, nothing loaded.
 */
#include "facts/ld_paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void resolve(struct ld *ld, const char *name)
{
    const char *path = NULL;
    const char *found_by = NULL;
    if (ld_resolve(ld, name, NULL, &path, &found_by, NULL) != ST_OK) {
        path = "not found";
    }
    printf("%s => %s\n", name, path);
}

static void print_objects(const struct ld *ld)
{
    size_t count;
    const struct ld_object *const *objects = ld_objects(ld, &count);
    for (size_t i = 1; i < count; i++) {
        const struct ld_object *o = objects[i];
        printf("%s => %s", o->name, o->path != NULL ? o->path : "not found");
        if (getenv("WHY") != NULL) {
            printf(" [%s]%s%s", o->found_by != NULL ? o->found_by : "",
                   o->problem != NULL ? " " : "", o->problem != NULL ? o->problem : "");
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const struct fs live = {.prefix = ""};
    struct arena *a = arena_new(0);
    struct ld *ld = ld_new(&live, a,
                           (struct ld_options){.library_path = getenv("JOB_LIBRARY_PATH"),
                                               .preload = getenv("JOB_PRELOAD")});
    const struct ld_object *first = NULL;
    bool only_resolve = argc > 1 && strcmp(argv[1], "--resolve") == 0;
    for (int i = 1 + only_resolve; i < argc; i++) {
        if (only_resolve) {
            resolve(ld, argv[i]);
            continue;
        }
        const struct ld_object *o = ld_load(ld, argv[i], first);
        first = first != NULL ? first : o;
    }
    if (!only_resolve) {
        print_objects(ld);
    }
    ld_free(ld);
    arena_free(a);
    return 0;
}
