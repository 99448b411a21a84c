// SPDX-License-Identifier: Apache-2.0
/* The compiled form of knowledge. It is our own, yet a damaged program file must not crash oddly. */
#include <stdint.h>

#include "knowledge/blob.h"
#include "knowledge/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    const struct knowledge *k;
    struct err err;
    struct str blob = {.p = (const char *)data, .n = size};
    if (knowledge_blob_read(a, blob, "zh", &k, &err) == ST_OK) {
        struct expr_scope scope = {.knowledge = k};
        for (size_t i = 0; i < k->rules_count; i++) {
            if (k->rules[i].when != NULL) {
                (void)expr_truth(k->rules[i].when, &scope, a);
            }
        }
    }
    arena_free(a);
    return 0;
}
