// SPDX-License-Identifier: Apache-2.0
/* ZIP archives: every member is opened, read and checked. */
#include <stdlib.h>

#include "model/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    struct issues issues;
    issues_init(&issues, a, "fuzz");
    struct zip z;
    struct err err;
    struct str bytes = {.p = (const char *)data, .n = size};
    if (zip_open(a, bytes, &issues, &z, &err) == ST_OK) {
        for (size_t i = 0; i < z.count && i < 64; i++) {
            struct str text;
            bool sound = zip_verify(a, &z, i, &err) == ST_OK;
            if (zip_read(a, &z, i, 1 << 20, &text, &err) != ST_OK && sound &&
                z.members[i].size <= 1 << 20) {
                abort(); /* what can be checked can be read */
            }
            (void)zip_find(&z, z.members[i].name);
        }
    }
    arena_free(a);
    return 0;
}
