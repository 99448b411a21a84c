// SPDX-License-Identifier: Apache-2.0
/*
 * What ld.so brings along on one machine: its built-in directories, the CPU's subfolders, the
 * cache. Everything is read from files under the root, so a frozen machine answers as it was.
 */
#ifndef ASSAY_FACTS_LD_SYSTEM_H
#define ASSAY_FACTS_LD_SYSTEM_H

#include "base/fs.h"

#include "facts/ld_cache.h"

struct ld_system {
    const char *loader;      /* the ld.so that was read, or NULL */
    const char *const *dirs; /* built-in directories in order, without trailing slash */
    size_t dir_count;
    const char *const *conf_dirs; /* of /etc/ld.so.conf; used only when there is no cache */
    size_t conf_dir_count;
    const char *const *subfolders; /* tried in each directory before itself */
    size_t subfolder_count;
    const char *const *levels; /* "x86-64-v3", "x86-64-v2": best first */
    size_t level_count;
    const char *lib;      /* what $LIB stands for */
    const char *platform; /* what $PLATFORM stands for */
    bool has_cache;
    struct ld_cache cache;
};

/* `loader` is the program's interpreter, or NULL for the usual one. Never fails: what cannot be
 * read is left out or guessed from the folders that exist. */
void ld_system_read(const struct fs *fs, struct arena *a, const char *loader,
                    struct ld_system *ret_system);

#endif
