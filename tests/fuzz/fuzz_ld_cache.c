// SPDX-License-Identifier: Apache-2.0
/* /etc/ld.so.cache. */
#include <stdlib.h>

#include "facts/ld_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const levels[] = {"x86-64-v3", "x86-64-v2"};
    struct arena *a = arena_new((size_t)1 << 30);
    struct str bytes = {.p = (const char *)data, .n = size};
    struct ld_cache cache;
    struct err err;
    if (ld_cache_parse(a, bytes, &cache, &err) == ST_OK) {
        for (size_t i = 0; i < cache.count; i++) {
            /* Everything that was read can be found again, unless it needs a newer CPU. */
            if (ld_cache_lookup(&cache, cache.entries[i].name, levels, 2) == NULL &&
                cache.entries[i].level == NULL) {
                abort();
            }
        }
        (void)ld_cache_lookup(&cache, "libc.so.6", NULL, 0);
    }
    arena_free(a);
    return 0;
}
