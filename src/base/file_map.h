// SPDX-License-Identifier: Apache-2.0
/*
 * A regular file mapped read-only, for files that may be larger than memory and may change while
 * they are read. Address space is all that the mapping itself costs; pages are brought in by window
 * with file_map_populate() and given back with file_map_release(), so the resident size stays at
 * the windows in use.
 *
 * Truncation: a populate beyond the new end fails with ST_IO instead of raising SIGBUS. What remains
 * is a race of microseconds between populating and reading; cli/ turns a SIGBUS into a sentence and
 * exit 2. file_map_changed() tells afterwards whether the bytes read belong to one state of the file.
 */
#ifndef ASSAY_BASE_FILE_MAP_H
#define ASSAY_BASE_FILE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct file_map {
    const char *path;       /* borrowed from the caller */
    int fd;                 /* -1: bytes in memory that the map does not own */
    const unsigned char *p; /* "" when the file is empty */
    uint64_t n;
    int64_t mtime_ns; /* of the state that was mapped */
    uint64_t inode;
};

/* Refuses everything but regular files, without blocking on a FIFO or a device. */
enum status file_map_open(const char *path, struct file_map *ret_map, struct err *err) MUST_USE;

/* The same for bytes in memory (an archive's member, a test); the others then only check bounds. */
static inline struct file_map file_map_of_bytes(const char *path, struct str bytes)
{
    return (struct file_map){
        .path = path, .fd = -1, .p = (const unsigned char *)bytes.p, .n = bytes.n};
}

/* NULL and an unopened (zeroed) map are fine. */
void file_map_close(struct file_map *map);

/* The whole file as a view. */
static inline struct str file_map_str(const struct file_map *map)
{
    return (struct str){.p = (const char *)map->p, .n = (size_t)map->n};
}

/* Brings the bytes [from, from + n) into memory; ST_IO when the file does not hold them any more or
 * the disk failed. On kernels before 5.14 it only checks the size. */
enum status file_map_populate(const struct file_map *map, uint64_t from, uint64_t n,
                              struct err *err) MUST_USE;

/* Drops the pages of the window from this process (not from the page cache). */
void file_map_release(const struct file_map *map, uint64_t from, uint64_t n);

/* ST_IO when size or modification time are not those of the mapped state. */
enum status file_map_unchanged(const struct file_map *map, struct err *err) MUST_USE;

#endif
