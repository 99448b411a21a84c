// SPDX-License-Identifier: Apache-2.0
/* The kernels that the records of a run folder hold, with their launches, and the ways that they stand for. */
#ifndef ASSAY_CLI_RUN_PATH_KERNELS_H
#define ASSAY_CLI_RUN_PATH_KERNELS_H

#include "base/finding.h"

#include "cli/command.h"
#include "knowledge/kernel_paths.h"

struct path_kernel {
    const char *name;               /* NULL: launched, and nobody told its name */
    const struct kernel_path *path; /* NULL: no row knows it */
    uint64_t launches;              /* 0: looked up, and not launched */
};

struct path_kernels {
    struct path_kernel *items; /* most launched first */
    size_t count;
    size_t capacity;
    uint64_t launches;
    uint64_t unnamed;           /* launches of kernels without a name */
    uint64_t lost;              /* names that found no room in a record */
    uint64_t graphs;            /* launches of graphs, whose kernels are not seen */
    uint64_t convolutions_3d;   /* calls of MIOpen and cuDNN that the rings still hold */
    const char *convolution_3d; /* one of them, in words */
    size_t records;
};

/* DIR/kernels.tsv of --knowledge DIR where that folder has one, else the table that is built in. */
enum status path_kernels_table(const struct cli *cli, struct kernel_paths *ret_paths,
                               struct err *err) MUST_USE;

enum status path_kernels_read(struct arena *a, const char *folder, const struct kernel_paths *paths,
                              struct path_kernels *ret_kernels, struct text_list *notes,
                              struct err *err) MUST_USE;

/* What keeps "none was launched" from being told, as a sentence; NULL when nothing does. */
const char *path_kernels_doubt(struct arena *a, const struct path_kernels *k);

/* Launches of kernels that have `text` in their name, in their feature or in their path. ret_seen: one of them. */
uint64_t path_kernels_matching(const struct path_kernels *k, const char *text,
                               const char **ret_seen);

/* A feature as one sentence: "FlashAttention of PyTorch: 240 launches; softmax: …". NULL when none was launched. */
const char *path_kernels_ways(struct arena *a, const struct path_kernels *k, const char *feature);

/* Launches of the feature by paths that begin with `path` ("" for all). */
uint64_t path_kernels_launches(const struct path_kernels *k, const char *feature, const char *path);

#endif
