// SPDX-License-Identifier: Apache-2.0
/*
 * Unpacks LZ4 frames, the form in which apt may keep its lists. Source: lz4_Frame_format.md (version 1.6.x) and
 * lz4_Block_format.md of the LZ4 project. Checksums are passed over: apt's lists are read for sizes, not
 * trusted. Dictionaries are not understood.
 */
#ifndef ASSAY_SNAPSHOT_LZ4_H
#define ASSAY_SNAPSHOT_LZ4_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* All frames in a row. ST_FORMAT: no frame, or broken; ST_LIMIT: more than `ceiling` bytes. `name` is used in
 * messages. */
enum status lz4_unpack(struct arena *a, struct str packed, const char *name, size_t ceiling,
                       struct str *ret_text, struct err *err) MUST_USE;

#endif
