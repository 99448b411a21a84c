// SPDX-License-Identifier: Apache-2.0
/* Pickles, read as data; the positions they report must lie inside of the input. */
#include <stdlib.h>

#include "model/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)512 << 20);
    struct issues issues;
    issues_init(&issues, a, "fuzz");
    struct pickle p;
    struct err err;
    struct str bytes = {.p = (const char *)data, .n = size};
    struct pickle_limits limits = {.values = 1000000, .memo = 1000000, .stack = 1000000};
    enum status st = pickle_read(a, bytes, "fuzz", limits, &issues, &p, &err);
    if (p.used > size || p.bytes_not_understood > size || (st == ST_OK) != p.complete) {
        abort();
    }
    pickle_summary(&p, "fuzz", &issues);
    (void)pickle_looks_like(bytes);
    if (p.root != NULL) {
        (void)pickle_get(p.root, "state");
        (void)pickle_arg(p.root, 0);
    }
    arena_free(a);
    return 0;
}
