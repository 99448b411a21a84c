// SPDX-License-Identifier: Apache-2.0
/*
 * Which way a part of a model took (attention, short convolution, …), told by the names of the kernels that ran.
 * The rows are data: knowledge/kernels.tsv, whose head describes them.
 */
#ifndef ASSAY_KNOWLEDGE_KERNEL_PATHS_H
#define ASSAY_KNOWLEDGE_KERNEL_PATHS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct kernel_path {
    const char *feature;        /* "attention" */
    const char *path;           /* "cuDNN" */
    const char *note;           /* "" without */
    const char *const *needles; /* NULL at the end */
};

struct kernel_paths {
    struct kernel_path *rows;
    size_t count;
};

/* The table that is built in. */
struct str kernel_paths_builtin(void);

/* ST_FORMAT with file and line for a row that is none. */
enum status kernel_paths_read(struct arena *a, struct str text, const char *name,
                              struct kernel_paths *ret_paths, struct err *err) MUST_USE;

/* The row that decides; NULL when none knows the name. */
const struct kernel_path *kernel_paths_find(const struct kernel_paths *paths, const char *kernel);

#endif
