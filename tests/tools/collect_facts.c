// SPDX-License-Identifier: Apache-2.0
/* Prints the facts of a machine as JSON: collect_facts [ROOT]. For looking at a frozen host. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#include "facts/collect.h"
#include "facts/facts_json.h"

int main(int argc, char **argv)
{
    struct arena *a = arena_new(0);
    struct arena *scratch = arena_new(0);
    struct fs fs;
    struct err err = {0};
    if (fs_open_root(a, argc > 1 ? argv[1] : "", &fs, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct collect c = {.fs = &fs, .facts = facts_new(a), .scratch = scratch};
    struct strbuf out;
    strbuf_init(&out, a, (size_t)64 << 20);
    collect_all(&c);
    facts_write_json(c.facts, scratch, NULL, NULL, &out);
    fwrite(out.p, 1, out.n, stdout);
    arena_free(scratch);
    arena_free(a);
    return 0;
}
