// SPDX-License-Identifier: Apache-2.0
/* Addresses of GPU faults in the lines of a log. */
#include <stdint.h>

#include "recorder/page_join.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)64 << 20);
    struct fault_pages pages = {.count = 0};
    struct str text = {.p = (const char *)data, .n = size};
    fault_pages_scan(a, text, "fuzz", &pages);
    if (pages.count > FAULT_PAGES_MAX) {
        __builtin_trap();
    }
    for (size_t i = 0; i < pages.count; i++) {
        if (pages.items[i].page % PAGE_BYTES != 0 || pages.items[i].line == NULL) {
            __builtin_trap();
        }
    }
    arena_free(a);
    return 0;
}
