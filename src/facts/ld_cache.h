// SPDX-License-Identifier: Apache-2.0
/*
 * /etc/ld.so.cache: the names that ldconfig found, as ld.so looks them up. Only the format
 * "glibc-ld.so.cache1.1" (glibc 2.2 and later, the only one since 2.32), also behind the older
 * table that some distributions put in front of it.
 * Source: glibc sysdeps/generic/dl-cache.h, elf/dl-cache.c.
 */
#ifndef ASSAY_FACTS_LD_CACHE_H
#define ASSAY_FACTS_LD_CACHE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct ld_cache_entry {
    const char *name;
    const char *path;
    const char *level; /* folder under glibc-hwcaps it needs ("x86-64-v3"), or NULL */
    size_t next;       /* index + 1 of the next entry of the same name, 0 at the end */
};

struct ld_cache {
    const struct ld_cache_entry *entries;
    size_t count;
    struct map *first; /* name -> its first entry */
};

/* 64-bit x86 entries only; the rest is for other loaders. ST_FORMAT when the file is damaged. */
enum status ld_cache_parse(struct arena *a, struct str bytes, struct ld_cache *ret_cache,
                           struct err *err) MUST_USE;

/* What ld.so takes for `name` on a CPU with these levels, best first; NULL when it is not there. */
const char *ld_cache_lookup(const struct ld_cache *cache, const char *name,
                            const char *const *levels, size_t level_count);

#endif
