// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a machine, live or frozen: every path is looked up under a root directory. Symbolic
 * links, absolute ones too, are resolved inside that root, so that a frozen host's /opt/rocm never
 * leads to this machine's. sysfs and procfs files (size 0, content on read) are read like others.
 *
 * Failures are three-valued through enum status: ST_ABSENT, ST_DENIED, ST_IO; ST_LIMIT when a file
 * is larger than the ceiling the caller gave.
 */
#ifndef ASSAY_BASE_FS_H
#define ASSAY_BASE_FS_H

#include <stdbool.h>

#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* "" for the live machine, else a directory without trailing slash, e.g. "tests/hosts/mi210". */
struct fs {
    const char *prefix;
    /* Paths inside a frozen root that this user could not read there: git keeps no permissions, so
     * <root>/.assay/denied lists them, one a line; what lies below is denied too. */
    const char *const *denied;
    size_t denied_count;
};

/* "" or "/" opens the live machine. Fails when the folder is not there. */
enum status fs_open_root(struct arena *a, const char *dir, struct fs *ret_fs,
                         struct err *err) MUST_USE;

static inline bool fs_is_live(const struct fs *fs)
{
    return fs->prefix[0] == '\0';
}

/* The host path behind `path` (absolute, as seen inside the root), links resolved. */
enum status fs_resolve(const struct fs *fs, struct arena *a, const char *path,
                       const char **ret_host_path, struct err *err) MUST_USE;

/* The same, but as a path inside the root: what realpath(3) would say there. */
enum status fs_realpath(const struct fs *fs, struct arena *a, const char *path,
                        const char **ret_path, struct err *err) MUST_USE;

/* Whole file, at most `ceiling` bytes, NUL-terminated on the arena (the NUL is not counted). */
enum status fs_read(const struct fs *fs, struct arena *a, const char *path, size_t ceiling,
                    struct str *ret_text, struct err *err) MUST_USE;

/* fs_read with surrounding white space removed; for one-value files of sysfs. */
enum status fs_read_trimmed(const struct fs *fs, struct arena *a, const char *path,
                            struct str *ret_text, struct err *err) MUST_USE;

/* Names in a directory, sorted, without "." and ".."; at most 100,000. */
enum status fs_list(const struct fs *fs, struct arena *a, const char *path,
                    const char *const **ret_names, size_t *ret_count, struct err *err) MUST_USE;

/* stat(2) through links. */
enum status fs_stat(const struct fs *fs, struct arena *a, const char *path, struct stat *ret_stat,
                    struct err *err) MUST_USE;

bool fs_exists(const struct fs *fs, struct arena *a, const char *path);
bool fs_is_dir(const struct fs *fs, struct arena *a, const char *path);

/* Target text of a symbolic link, as stored. */
enum status fs_readlink(const struct fs *fs, struct arena *a, const char *path,
                        const char **ret_target, struct err *err) MUST_USE;

/*
 * A file mapped read-only; unmap with fs_unmap (NULL-safe). An empty file gives p = "" and n = 0.
 * The mapping is private: a file truncated while mapped raises SIGBUS, which cli/ turns into an
 * error sentence and exit 2.
 */
struct fs_map {
    const unsigned char *p;
    size_t n;
    void *base;
};
enum status fs_map(const struct fs *fs, struct arena *a, const char *path, struct fs_map *ret_map,
                   struct err *err) MUST_USE;
void fs_unmap(struct fs_map *map);

#endif
