// SPDX-License-Identifier: Apache-2.0
/*
 * Compressed offload bundles ("CCOB", versions 1 to 3). The list of targets is inside the
 * compressed part, at its very beginning, so that only the first kilobytes need decompressing.
 * Source: clang/lib/Driver/OffloadBundler.cpp, CompressedOffloadBundle.
 */
#ifndef ASSAY_FACTS_CCOB_H
#define ASSAY_FACTS_CCOB_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum ccob_method {
    CCOB_ZLIB = 0,
    CCOB_ZSTD = 1
};

/* At most this much is ever decompressed at once. */
#define CCOB_MAX_PLAIN ((uint64_t)256 << 20)

struct ccob {
    unsigned version;
    unsigned method;      /* enum ccob_method */
    uint64_t header_size; /* 20, 24 or 32 bytes */
    uint64_t stored_size; /* header included; 0 in version 1, which does not say */
    uint64_t plain_size;  /* as claimed */
};

/* True when the bytes begin with the magic. */
bool ccob_is(struct str bytes);

/* Header at the start of `bytes`; ST_FORMAT when damaged, ST_UNSUPPORTED for a version or method
 * that is not known. */
enum status ccob_parse(struct str bytes, struct ccob *ret_ccob, struct err *err) MUST_USE;

/* The first `want` bytes (fewer when there are fewer) of the plain bundle. `bytes` begins at the
 * header and may be longer than the bundle. ST_LIMIT above CCOB_MAX_PLAIN. */
enum status ccob_inflate(struct arena *a, struct str bytes, const struct ccob *ccob, uint64_t want,
                         struct str *ret_plain, struct err *err) MUST_USE;

#endif
