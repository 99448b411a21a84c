// SPDX-License-Identifier: Apache-2.0
/* usage: cxx_symbols PROGRAM... LIBRARY: loads the files one after the other and prints what the
 * last one misses, and the string type of its interface. */
#include "facts/cxx_symbols.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const struct fs live = {.prefix = ""};
    struct arena *a = arena_new(0);
    struct ld *ld = ld_new(&live, a,
                           (struct ld_options){.library_path = getenv("JOB_LIBRARY_PATH")});
    const struct ld_object *last = NULL;
    for (int i = 1; i < argc; i++) {
        last = ld_load(ld, argv[i], NULL);
    }
    if (last != NULL && last->state == LD_LOADED) {
        struct missing_symbols m;
        cxx_missing_symbols(ld, a, last, &m);
        printf("missing %zu libraries %zu strings %s\n", m.count, m.missing_libraries,
               cxx_string_abi_name(cxx_string_abi_of(&last->elf)));
        for (size_t i = 0; i < m.shown; i++) {
            printf("symbol %s\n", m.names[i]);
        }
        size_t count;
        const struct missing_version *v = cxx_missing_versions(ld, a, &count);
        for (size_t i = 0; i < count; i++) {
            printf("version %s of %s for %s\n", v[i].version, v[i].library, v[i].needed_by);
        }
    }
    ld_free(ld);
    arena_free(a);
    return 0;
}
