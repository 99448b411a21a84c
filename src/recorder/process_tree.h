// SPDX-License-Identifier: Apache-2.0
/* The processes below one: from /proc. Orphans come to us when we are their subreaper. */
#ifndef ASSAY_RECORDER_PROCESS_TREE_H
#define ASSAY_RECORDER_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

#include "base/arena.h"

enum {
    PROCESS_TREE_MAX = 4096
};

/* All descendants of `root` without itself, parents before children; returns how many were written. */
size_t process_tree(pid_t root, pid_t *ret_pids, size_t capacity);

/* Processes that were seen at one time or another; zeroed to start. */
struct pid_list {
    pid_t *items;
    size_t count;
    size_t capacity;
    bool full; /* more were seen than are kept */
};

void pid_list_add(struct arena *a, struct pid_list *list, const pid_t *pids, size_t count);
bool pid_list_has(const struct pid_list *list, pid_t pid);

#endif
