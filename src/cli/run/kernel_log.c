// SPDX-License-Identifier: Apache-2.0
/* See run_kernel_log.h. */
#include "cli/run/kernel_log.h"

#include "base/err.h"
#include "base/vec.h"

#include "recorder/run_folder.h"

static void write_others(struct arena *a, const char *folder, struct str faults,
                         struct str killings, struct text_list *notes)
{
    const char *what = faults.n == 0     ? "processes that crashed or were killed and are"
                       : killings.n == 0 ? "GPU faults of other processes, which are"
                                         : "GPU faults, crashes and killings that are";
    struct str both = str_of(arena_fmt(a, "%.*s%.*s", STR_ARG(faults), STR_ARG(killings)));
    struct err err = {0};
    if (both.n > 0 && run_folder_write(a, folder, "kernel.others.log", both, &err) == ST_OK) {
        *VEC_PUSH(a, notes) = arena_fmt(
            a, "the kernel log of this time tells of %s not laid to this run: kernel.others.log",
            what);
    }
}

void run_kernel_log_write(struct arena *a, const char *folder, double start,
                          const struct pid_list *seen, struct text_list *notes)
{
    struct err err = {0};
    struct str text, others = {.p = "", .n = 0}, killings = {.p = "", .n = 0};
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
        if (seen != NULL) {
            run_folder_own_killings(a, folder, seen, text, &text, &killings);
        }
    }
    if (run_folder_write(a, folder, "kernel.log", text, &err) != ST_OK) {
        *VEC_PUSH(a, notes) = arena_strdup(a, err.text);
    }
    write_others(a, folder, others, killings, notes);
}
