// SPDX-License-Identifier: Apache-2.0
/* The outline of JSON, two levels deep. */
#include <stdint.h>

#include "base/json_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct str text = {.p = (const char *)bytes, .n = n};
    struct json_scan s;
    struct str key;
    struct str value;
    if (json_scan_open(&s, text)) {
        while (json_scan_next(&s, &key, &value)) {
            if (value.p < text.p || value.p + value.n > text.p + text.n) {
                __builtin_trap();
            }
            (void)json_scan_count(value);
        }
    }
    return 0;
}
