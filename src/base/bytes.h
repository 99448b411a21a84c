// SPDX-License-Identifier: Apache-2.0
/*
 * Reading numbers out of hostile binary data: every access names its offset and is checked against
 * the view's length, offsets and sizes are 64 bits and never wrap. Little-endian only, which is what
 * ELF on x86-64, AMD code objects, offload bundles and ld.so.cache use.
 */
#ifndef ASSAY_BASE_BYTES_H
#define ASSAY_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

/* Unchecked loads, for offsets inside a view that bytes_view() has already checked. */
static inline uint16_t bytes_le16(const char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static inline uint32_t bytes_le32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline uint64_t bytes_le64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

/* Big-endian loads, for MessagePack. */
static inline uint64_t bytes_be(const char *p, unsigned size)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < size; i++) {
        v = v << 8 | (unsigned char)p[i];
    }
    return v;
}

/* True when n bytes at offset `at` lie inside the view. */
static inline bool bytes_has(struct str s, uint64_t at, uint64_t n)
{
    return at <= s.n && n <= s.n - at;
}

/* The n bytes at `at`; false (and *ret_view untouched) when they are not all there. */
static inline bool bytes_view(struct str s, uint64_t at, uint64_t n, struct str *ret_view)
{
    if (!bytes_has(s, at, n)) {
        return false;
    }
    *ret_view = (struct str){.p = s.p + at, .n = (size_t)n};
    return true;
}

/* As much of the n bytes at `at` as the view holds; empty when `at` is beyond it. */
static inline struct str bytes_clip(struct str s, uint64_t at, uint64_t n)
{
    if (at >= s.n) {
        return (struct str){.p = "", .n = 0};
    }
    uint64_t left = s.n - at;
    return (struct str){.p = s.p + at, .n = (size_t)(n < left ? n : left)};
}

/* The NUL-terminated text at `at`; false when it is outside or its NUL is. */
static inline bool bytes_text(struct str s, uint64_t at, struct str *ret_text)
{
    if (at >= s.n) {
        return false;
    }
    const char *nul = memchr(s.p + at, '\0', s.n - (size_t)at);
    if (nul == NULL) {
        return false;
    }
    *ret_text = (struct str){.p = s.p + at, .n = (size_t)(nul - (s.p + at))};
    return true;
}

#endif
