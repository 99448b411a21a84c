// SPDX-License-Identifier: Apache-2.0
/*
 * What a checkpoint held when it was written: SHA-256 of each file, XXH3-128 of each tensor and of the
 * header in front. File format (assay-manifest.json):
 *
 *     {"assay_manifest": 1, "files": [{"file": NAME, "bytes": N, "sha256": HEX, "header_xxh3": HEX,
 *      "tensors": {NAME: HEX}}]}
 *
 * sha256sum.txt, SHA256SUMS and md5sum.txt beside the files are compared too.
 */
#ifndef ASSAY_MODEL_MANIFEST_H
#define ASSAY_MODEL_MANIFEST_H

#include "model/checkpoint.h"

#define MANIFEST_NAME "assay-manifest.json"

struct manifest_options {
    unsigned threads; /* 0: all cores */
    bool fast;        /* no SHA-256 and MD5 where XXH3 is there */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

/* Hashes all files of the checkpoint and writes the manifest as JSON. */
enum status manifest_write(struct checkpoint *c, const struct manifest_options *options,
                           struct strbuf *out, struct err *err) MUST_USE;

/* Compares with what is stored in the checkpoint's folders; differences become issues. */
void manifest_check(struct checkpoint *c, const struct manifest_options *options);

#endif
