// SPDX-License-Identifier: Apache-2.0
/* Prints what gpu_targets_of_file() finds, for comparison with other tools: one line a file, then
 * one a target. */
#include "facts/gpu_targets.h"

#include <inttypes.h>
#include <stdio.h>

static void print_forms(unsigned forms)
{
    const char *separator = "";
    for (unsigned bit = 1; bit <= GPU_CODE_FORM_ALL; bit <<= 1) {
        if ((forms & bit) != 0) {
            printf("%s%s", separator, gpu_code_form_name((enum gpu_code_form)bit));
            separator = ",";
        }
    }
}

int main(int argc, char **argv)
{
    const struct fs live = {.prefix = ""};
    struct arena *a = arena_new(0);
    int status = 0;
    for (int i = 1; i < argc; i++) {
        struct gpu_targets t;
        struct err err = {0};
        if (gpu_targets_of_file(&live, a, argv[i], &t, &err) != ST_OK) {
            fprintf(stderr, "%s\n", err.text);
            status = 2;
            continue;
        }
        printf("%s: %s, containers %" PRIu64 ", unreadable %" PRIu64 "%s%s\n", argv[i],
               gpu_targets_state_name(t.state), t.containers, t.unreadable,
               t.problem != NULL ? ": " : "", t.problem != NULL ? t.problem : "");
        for (size_t k = 0; k < t.count; k++) {
            printf("  %s x%" PRIu64 " %" PRIu64 " bytes ", t.items[k].name, t.items[k].count,
                   t.items[k].bytes);
            print_forms(t.items[k].forms);
            printf("\n");
        }
        for (size_t k = 0; k < t.archive_count; k++) {
            printf("  archive %s\n", t.archives[k]);
        }
    }
    arena_free(a);
    return status;
}
