// SPDX-License-Identifier: Apache-2.0
/*
 * torch.distributed.checkpoint: a folder with `.metadata`, a pickle that says where each chunk of each
 * tensor lies, and `__<rank>_<n>.distcp`, in which items stand one behind the other, each a torch.save
 * archive of its own. The writer renames `.metadata` into place last: without it a save is incomplete.
 *
 * Source: torch/distributed/checkpoint/metadata.py, filesystem.py.
 */
#ifndef ASSAY_MODEL_DCP_H
#define ASSAY_MODEL_DCP_H

#include "model/folder.h"

/* One item of a .distcp file. */
struct dcp_item {
    struct str name;         /* fully qualified name of the tensor or object */
    const uint64_t *offsets; /* of the chunk in the tensor; NULL for objects */
    uint32_t rank;
    struct str path; /* relative_path */
    uint64_t at;
    uint64_t length;
};

struct dcp_chunk {
    const uint64_t *offsets;
    const uint64_t *sizes;
};

struct dcp_tensor {
    struct str name;
    const uint64_t *shape;
    uint32_t rank;
    struct dcp_chunk *chunks;
    size_t chunk_count;
};

struct dcp_metadata {
    struct dcp_tensor *tensors;
    size_t tensor_count;
    struct dcp_item *items;
    size_t item_count;
    size_t objects; /* entries that are bytes, not tensors */
};

/* Reads `.metadata` as data. ST_FORMAT when it is not such a pickle. What it points to stays in
 * `bytes` and on the arena. */
enum status dcp_read(struct arena *a, struct str bytes, struct issues *issues,
                     struct dcp_metadata *ret, struct err *err) MUST_USE;

/* True when `path` is a folder whose `.metadata` can be read: its .distcp files can be taken apart. */
bool dcp_is_folder(const char *path);

extern const struct tensor_format tensor_format_distcp;

#endif
