// SPDX-License-Identifier: Apache-2.0
/* The processes below one: from /proc. Orphans come to us when we are their subreaper. */
#ifndef ASSAY_RECORDER_PROCESS_TREE_H
#define ASSAY_RECORDER_PROCESS_TREE_H

#include <stddef.h>

#include <sys/types.h>

enum {
    PROCESS_TREE_MAX = 4096
};

/* All descendants of `root` without itself, parents before children; returns how many were written. */
size_t process_tree(pid_t root, pid_t *ret_pids, size_t capacity);

#endif
