// SPDX-License-Identifier: Apache-2.0
/* Facts as JSON, in both forms that are read; what was read must survive being written. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#include "facts/facts_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Some keys have a type, by their first letter, so that both branches are taken. */
static const char *type_of(void *ctx, const char *key)
{
    (void)ctx;
    return key[0] == 'i' ? "int" : key[0] == 'b' ? "bool" : key[0] == 'l' ? "list" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    struct err err = {0};
    struct facts *read = facts_new(a);
    struct str text = {.p = (const char *)data, .n = size};
    if (facts_read_json(read, text, "input", type_of, NULL, &err) != ST_OK) {
        if (err.text[0] == '\0') {
            abort(); /* a failure without a sentence */
        }
        arena_free(a);
        return 0;
    }
    struct strbuf out;
    strbuf_init(&out, a, (size_t)64 << 20);
    facts_write_json(read, a, type_of, NULL, &out);
    struct facts *again = facts_new(a);
    if (facts_read_json(again, strbuf_str(&out), "written", NULL, NULL, &err) != ST_OK) {
        abort();
    }
    size_t count;
    const struct fact *const *all = facts_sorted(read, a, &count);
    for (size_t i = 0; i < count; i++) {
        /* JSON has no NUL in keys; the writer replaces what is not UTF-8, so such a key may change. */
        const struct fact *same = facts_get(again, all[i]->key);
        if (same != NULL && same->state != all[i]->state) {
            abort();
        }
    }
    arena_free(a);
    return 0;
}
