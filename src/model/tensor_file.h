// SPDX-License-Identifier: Apache-2.0
/*
 * A file with named tensors, whatever its format: where each tensor's bytes lie in the mapped file,
 * how they are to be read, and what its reader found wrong. Readers (safetensors.c, gguf.c, ...) fill
 * the record; everything else (scan, diff, hash, shapes) works on it alone.
 *
 * To add a format: a `const struct tensor_format` in a file of its own, a row in tensor_file.c.
 */
#ifndef ASSAY_MODEL_TENSOR_FILE_H
#define ASSAY_MODEL_TENSOR_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file_map.h"
#include "base/map.h"
#include "base/str.h"

#include "model/issue.h"
#include "model/tensor_type.h"

enum {
    TENSOR_RANK_MAX = 64,       /* torch's own limit */
    TENSOR_COUNT_MAX = 4000000, /* in one file */
    TENSOR_NAME_MAX = 65535     /* bytes */
};

enum tensor_role {
    TENSOR_WEIGHT = 0, /* parameter or buffer of a model */
    TENSOR_ADAPTER,    /* LoRA A, B, magnitude */
    TENSOR_OPTIMIZER,  /* moments, master weights */
    TENSOR_STATE,      /* random number generator, scheduler, step counters */
    TENSOR_ROLE_COUNT
};

struct tensor {
    const char *name; /* NUL-terminated, unescaped; hostile: print through issue_text() */
    const struct tensor_type *type;
    enum tensor_role role;
    uint32_t rank;
    bool present;          /* all of its bytes lie inside the file; only then may they be read */
    const uint64_t *shape; /* `rank` entries, PyTorch's order (slowest first) */
    const int64_t *stride; /* `rank` entries in elements; NULL when dense in that order */
    uint64_t elements;     /* product of the shape */
    uint64_t offset;       /* in the file, of its first element */
    uint64_t bytes; /* in the file, from `offset` on: dense size, or the span of its strides */
};

struct tensor_meta {
    const char *key;
    const char *value;
};

struct tensor_format;

struct tensor_file {
    struct arena *arena;
    struct file_map map;
    const struct tensor_format *format;
    struct tensor *tensors; /* in the order of their bytes */
    size_t count;
    struct map *by_name; /* name to struct tensor */
    struct tensor_meta *meta;
    size_t meta_count;
    uint64_t data_start; /* where tensor bytes may begin */
    const void *own;     /* the format's own record: struct torch_file, struct gguf */
};

struct tensor_format {
    const char *name; /* "safetensors" */
    /* True when the bytes (the whole file) look like this format; `path` may decide among formats
     * without a magic number. Cheap. */
    bool (*matches)(struct str bytes, const char *path);
    /* Fills tensors, by_name, meta. What is wrong goes to `issues`; fails only when no tensor list
     * could be made. Tensors that are listed but not all there have present = false. */
    enum status (*read)(struct tensor_file *f, struct issues *issues, struct err *err);
    /* Checksums that the file carries: their number, and whether the bytes of one are still those that
     * were written (ST_FORMAT: no; err names them). Several threads may ask at once. NULL: it has none. */
    size_t (*sum_count)(const struct tensor_file *f);
    enum status (*check_sum)(const struct tensor_file *f, size_t index, struct err *err);
};

/* The format that claims the bytes, or NULL. */
const struct tensor_format *tensor_format_of(struct str bytes, const char *path);

/*
 * Maps and reads a file. ST_UNSUPPORTED when no reader knows its bytes (err says what they look
 * like). On ST_FORMAT the reason is also among the issues. Close what was opened.
 */
enum status tensor_file_open(struct arena *a, const char *path, struct issues *issues,
                             struct tensor_file **ret_file, struct err *err) MUST_USE;

/* The same for bytes in memory, which must outlive the record; `name` stands for the path. */
enum status tensor_file_from_bytes(struct arena *a, const char *name, struct str bytes,
                                   struct issues *issues, struct tensor_file **ret_file,
                                   struct err *err) MUST_USE;

/* NULL is fine. The record stays readable, its bytes do not. */
void tensor_file_close(struct tensor_file *f);

/* Compares all checksums that the file carries; what differs becomes an issue. */
void tensor_file_check_sums(const struct tensor_file *f, struct issues *issues);

/* An issue of one checksum, after check_sum() failed with `err`. */
void tensor_file_add_sum(struct issues *issues, const struct err *err);

/* By its exact name; NULL when there is none. */
const struct tensor *tensor_find(const struct tensor_file *f, const char *name);

/* The tensor as real numbers: itself, or of complex ones a view with a last dimension of real and
 * imaginary parts, on the arena. */
const struct tensor *tensor_parts(struct arena *a, const struct tensor *t);

/* True when the values can be read: the bytes are there, of a plain type or of blocks that
 * tensor_block.h knows. */
bool tensor_readable(const struct tensor *t);

/* Elements [first, first + count) in row-major order of its shape, strides followed, as double. Only
 * for tensors that tensor_readable() is true of. */
enum status tensor_values(const struct tensor_file *f, const struct tensor *t, uint64_t first,
                          size_t count, double *ret_values, struct err *err) MUST_USE;

/* "[4096, 4096]" */
const char *tensor_shape_text(struct arena *a, const uint64_t *shape, uint32_t rank);

/* ---- for readers ---- */

/* Product of a shape; false on overflow. */
bool tensor_elements(const uint64_t *shape, uint32_t rank, uint64_t *ret_elements);

/* Sets elements and dense bytes from type and shape; false when they overflow or do not fill whole
 * blocks. */
bool tensor_measure(struct tensor *t);

/*
 * The last step of a reader: sorts by offset, fills by_name, and clears `present` of tensors whose
 * bytes are not all inside the file (the reader sets it for those whose size is sound, and says what
 * is cut off). Equal names become the issue tensor-name-twice.
 */
void tensor_file_index(struct tensor_file *f, struct issues *issues);

#endif
