// SPDX-License-Identifier: Apache-2.0
/* Hashes of bytes in memory or in windows of a mapped file, as lower-case hexadecimal text. */
#ifndef ASSAY_BASE_DIGEST_H
#define ASSAY_BASE_DIGEST_H

#include <stdint.h>

#include "base/err.h"
#include "base/file_map.h"

enum digest_kind {
    DIGEST_SHA256 = 0, /* OpenSSL */
    DIGEST_MD5,        /* OpenSSL; only to compare with old lists */
    DIGEST_XXH3,       /* XXH3-128, not cryptographic: for damage, not for attackers */
    DIGEST_COUNT
};

struct digest {
    char hex[65];
};

/* Bytes [from, from + n) of a mapped file, a window at a time. `done` (may be NULL) is told the bytes
 * of each window; it may be called on any thread. */
enum status digest_map(enum digest_kind kind, const struct file_map *map, uint64_t from, uint64_t n,
                       void (*done)(void *ctx, uint64_t bytes), void *ctx,
                       struct digest *ret_digest, struct err *err) MUST_USE;

/* XXH3-64 of bytes in memory: for tables. */
uint64_t digest_quick(const void *p, size_t n, uint64_t seed);

#endif
