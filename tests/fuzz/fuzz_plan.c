// SPDX-License-Identifier: Apache-2.0
/* Plans of `assay matrix`, with and without a command of their own. */
#include <stdint.h>
#include <string.h>

#include "study/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)512 << 20);
    struct str text = {.p = (const char *)data, .n = size};
    const char *words[] = {"true"};
    struct text_list command = {.items = words, .count = 1};
    const struct plan *plan;
    if (plan_parse(a, text, "input", &command, &plan, NULL) == ST_OK) {
        if (plan->base >= plan->routes.count) {
            __builtin_trap();
        }
        for (size_t i = 0; i < plan->routes.count; i++) {
            const char *name = plan->routes.items[i].name;
            if (name[0] == '.' || strchr(name, '/') != NULL) {
                __builtin_trap(); /* it becomes the name of a folder */
            }
        }
    }
    arena_free(a);
    return 0;
}
