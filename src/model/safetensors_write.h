// SPDX-License-Identifier: Apache-2.0
/*
 * Writes a safetensors file as the reference writer does: the header padded with spaces to 8 bytes, the
 * tensors by descending size of their type, then by name, without holes. The bytes go to a file beside
 * the target, reach the disk (fsync), and take the target's name in one step: whoever looks sees the old
 * file or the new one, never a part. What fails removes the file beside it.
 *
 * Format: see safetensors.h.
 */
#ifndef ASSAY_MODEL_SAFETENSORS_WRITE_H
#define ASSAY_MODEL_SAFETENSORS_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/str.h"

struct safetensors_item {
    const char *name;
    enum dtype dtype;  /* in the file; one that the format has a name for */
    enum dtype source; /* of `values`; converted with one rounding where it differs */
    size_t rank;
    const size_t *shape; /* `rank` entries, slowest first; borrowed */
    const void *values;  /* product of the shape, dense */
};

struct safetensors_pair { /* of __metadata__ */
    const char *key;
    const char *value;
};

/* ST_USAGE for names given twice and types without a name in the format; else what the system said,
 * with the path ("No space left on device"). */
enum status safetensors_write(struct arena *a, const char *path,
                              const struct safetensors_item *items, size_t count,
                              const struct safetensors_pair *pairs, size_t pair_count,
                              struct err *err) MUST_USE;

/* The same care for a small file of any content: beside it, fsync, rename. */
enum status safe_file_write(struct arena *a, const char *path, struct str bytes,
                            struct err *err) MUST_USE;

/* fsync of a folder, so that names made in it survive a power cut. */
enum status safe_folder_sync(const char *path, struct err *err) MUST_USE;

#endif
