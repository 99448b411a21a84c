// SPDX-License-Identifier: Apache-2.0
/* See run_kernel_log.h. */
#include "cli/run/kernel_log.h"

#include "base/err.h"
#include "base/vec.h"

#include "recorder/run_folder.h"

void run_kernel_log_write(struct arena *a, const char *folder, double start,
                          struct text_list *notes)
{
    struct err err = {0};
    struct str text, others = {.p = "", .n = 0};
    if (run_folder_kernel_log(a, start, &text, &err) != ST_OK) {
        *VEC_PUSH(a, notes) = arena_fmt(
            a,
            "no kernel log: %s; GPU faults that only the kernel tells of are "
            "not seen (run as root, or sysctl kernel.dmesg_restrict=0)",
            err.text);
        return;
    }
    if (run_folder_kernel_pids()) {
        run_folder_own_faults(a, folder, text, &text, &others);
    }
    if (run_folder_write(a, folder, "kernel.log", text, &err) != ST_OK) {
        *VEC_PUSH(a, notes) = arena_strdup(a, err.text);
    }
    if (others.n > 0 && run_folder_write(a, folder, "kernel.others.log", others, &err) == ST_OK) {
        *VEC_PUSH(a, notes) = "the kernel log of this time tells of GPU faults of other "
                              "processes: kernel.others.log; they are not laid to this run";
    }
}
