// SPDX-License-Identifier: Apache-2.0
/* The mapped file of this process: where its parts lie, and disk space for them. */
#ifndef ASSAY_PRELOAD_RECORD_FILE_H
#define ASSAY_PRELOAD_RECORD_FILE_H

#include <stdbool.h>

#include "recorder/record_format.h"

static inline struct record_ring *record_rings(struct record_header *h)
{
    return (struct record_ring *)((char *)h + h->rings_at);
}

static inline struct record_entry *record_entries(struct record_header *h)
{
    return (struct record_entry *)((char *)h + h->entries_at);
}

static inline struct record_alloc *record_allocs(struct record_header *h)
{
    return (struct record_alloc *)((char *)h + h->allocs_at);
}

static inline struct record_name *record_names(struct record_header *h)
{
    return (struct record_name *)((char *)h + h->names_at);
}

static inline struct record_binding *record_bindings(struct record_header *h)
{
    return (struct record_binding *)((char *)h + h->bindings_at);
}

/* Disk space for the entries of ring i: without it a full disk would be a SIGBUS in the program.
 * False when there is none, or when the file is gone. */
bool record_file_reserve(struct record_header *h, uint32_t ring);

#endif
