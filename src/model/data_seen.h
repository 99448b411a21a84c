// SPDX-License-Identifier: Apache-2.0
/*
 * A set of 64-bit hashes with the place each was first seen: for duplicates among many samples. 16 bytes a
 * slot, at most half full; DATA_SEEN_MAX samples are remembered, of further ones nothing is known.
 */
#ifndef ASSAY_MODEL_DATA_SEEN_H
#define ASSAY_MODEL_DATA_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DATA_SEEN_MAX = 16 << 20
};

struct data_seen;

struct data_place {
    uint32_t file;
    uint32_t line; /* UINT32_MAX: beyond */
};

struct data_seen *data_seen_new(void);
void data_seen_free(struct data_seen *s); /* NULL is fine */

/* True when the hash is there; *ret_place is where it was seen first. */
bool data_seen_find(const struct data_seen *s, uint64_t hash, struct data_place *ret_place);

/* Adds a hash that is not there; false when the set is full. */
bool data_seen_add(struct data_seen *s, uint64_t hash, struct data_place place);

#endif
