// SPDX-License-Identifier: Apache-2.0
/*
 * A checkpoint: the model files under a path (one file, or a folder and its sub-folders), opened. What
 * is wrong becomes issues; files that are not what their name says are named for what they are.
 */
#ifndef ASSAY_MODEL_CHECKPOINT_H
#define ASSAY_MODEL_CHECKPOINT_H

#include "base/tree.h"
#include "base/vec.h"

#include "model/tensor_file.h"
#include "model/tensor_scan.h"

enum {
    CHECKPOINT_DEPTH = 4,     /* of sub-folders */
    CHECKPOINT_FILES = 100000 /* of model files */
};

struct checkpoint_file {
    const char *path;
    const char *name; /* below the checkpoint's folder */
    uint64_t size;
    const char *format;          /* "safetensors"; what it is instead when tensors is NULL */
    struct tensor_file *tensors; /* NULL when it could not be read */
    struct tensor_stats *stats;  /* one a tensor, after checkpoint_scan() */
};

struct checkpoint {
    struct arena *arena;
    const char *path;
    bool is_folder;
    struct issues *issues;

    VEC_OF(struct checkpoint_file) files;

    VEC_OF(const char *) folders; /* the path itself first */
};

/* ST_ABSENT, ST_DENIED: the path itself; everything else is an issue. Close it. */
enum status checkpoint_open(struct arena *a, const char *path, struct issues *issues,
                            struct checkpoint *ret_checkpoint, struct err *err) MUST_USE;
void checkpoint_close(struct checkpoint *c);

/* What a file is that no reader takes, from its first bytes: "a git-LFS pointer". NULL: unknown. */
const char *checkpoint_foreign(struct str head);

/* Shards and their index in every folder: files missing, tensors missing, elsewhere, twice. Without an
 * index: parts that number themselves and are not all there. */
void checkpoint_check_shards(struct checkpoint *c);

struct scan_options {
    unsigned threads; /* 0: all cores */
    unsigned sample;  /* look at one window in `sample`; 0 and 1: all */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void *ctx;
};

/* Compares the checksums that the files carry; `sample` does not matter. */
void checkpoint_check_sums(struct checkpoint *c, const struct scan_options *options);

/* Reads every value (or a sample) and judges it by the rules in checkpoint_rules.h. */
void checkpoint_scan(struct checkpoint *c, const struct scan_options *options);

/* Notes weights whose element type is not the same in all layers. */
void checkpoint_check_types(struct checkpoint *c);

/* Judges the statistics of all tensors. */
void checkpoint_judge(struct checkpoint *c, bool sampled);

#endif
