// SPDX-License-Identifier: Apache-2.0
/*
 * A memory map as /proc/<pid>/maps writes it: which file an address belongs to. Source: proc(5).
 */
#ifndef ASSAY_RECORDER_MAPS_FILE_H
#define ASSAY_RECORDER_MAPS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct mapping {
    uint64_t start, end; /* end excluded */
    uint64_t offset;     /* in the file */
    bool readable, writable, executable;
    const char *path; /* "" for anonymous memory; "[heap]" and the like as they stand */
};

struct maps {
    struct mapping *items; /* ascending */
    size_t count;
    size_t capacity;
};

/* Lines that are none of a memory map are an error: the file is ours. */
enum status maps_parse(struct arena *a, struct str text, const char *name, struct maps *ret_maps,
                       struct err *err) MUST_USE;

/* The mapping that holds the address, or NULL. */
const struct mapping *maps_find(const struct maps *maps, uint64_t address);

/* Offset of the address inside its file's image: address minus the lowest mapping of the same path that
 * belongs to it. For shared objects whose first segment starts at 0 this is the ELF virtual address. */
uint64_t maps_image_offset(const struct maps *maps, uint64_t address);

/* Last part of the path: "libblas.so.3". */
const char *maps_base_name(const struct mapping *m);

#endif
