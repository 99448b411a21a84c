// SPDX-License-Identifier: Apache-2.0
/*
 * The device nodes of GPUs under /dev and whether the asking process may open them.
 */
#ifndef ASSAY_FACTS_DEVICES_H
#define ASSAY_FACTS_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect;

struct devices_node {
    const char *path; /* "/dev/kfd", "/dev/dri/renderD128", "/dev/nvidia0" */
    bool present;
    unsigned mode; /* permission bits */
    uint64_t uid;
    uint64_t gid;
    int open_errno; /* 0 when it opens for reading and writing; not tried for NVIDIA's nodes */
};

struct devices_list {
    struct devices_node *items;
    size_t count;
    size_t capacity;
};

/* /dev/kfd always (present or not), then render nodes and NVIDIA's nodes, sorted. On the scratch
 * arena. */
struct devices_list devices_list(struct collect *c);

#endif
