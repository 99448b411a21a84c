// SPDX-License-Identifier: Apache-2.0
/* Mapped files. Windows are widened to whole pages: neighbours may share one, which is harmless. */
#include "base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MADV_POPULATE_READ
# define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

enum {
    PAGE = 4096
};

static int64_t mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static enum status map_fd(int fd, const char *path, struct file_map *ret_map, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return err_sys(err, errno, "cannot stat '%s'", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ST_UNSUPPORTED, "'%s' is %s, not a regular file", path,
                       S_ISDIR(st.st_mode) ? "a folder" : "a device, pipe or socket");
    }
    void *base = NULL;
    if (st.st_size > 0) {
        base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED) {
            return err_sys(err, errno, "cannot map '%s'", path);
        }
    }
    *ret_map = (struct file_map){.path = path,
                                 .fd = fd,
                                 .p = base != NULL ? base : (const unsigned char *)"",
                                 .n = (uint64_t)st.st_size,
                                 .mtime_ns = mtime_ns(&st),
                                 .inode = st.st_ino};
    return ST_OK;
}

enum status file_map_open(const char *path, struct file_map *ret_map, struct err *err)
{
    /* O_NONBLOCK: a FIFO or a device in the place of a file must not hang us. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return err_sys(err, errno, "cannot open '%s'", path);
    }
    enum status status = map_fd(fd, path, ret_map, err);
    if (status != ST_OK) {
        close(fd);
    }
    return status;
}

void file_map_close(struct file_map *map)
{
    if (map == NULL || map->p == NULL) {
        return;
    }
    if (map->fd >= 0 && map->n != 0) {
        munmap((void *)map->p, (size_t)map->n);
    }
    if (map->fd >= 0) {
        close(map->fd);
    }
    *map = (struct file_map){.fd = -1};
}

/* The window widened to pages, cut at the end of the mapping. */
static uint64_t widen(const struct file_map *map, uint64_t from, uint64_t n, uint64_t *ret_start)
{
    uint64_t start = from & ~(uint64_t)(PAGE - 1);
    uint64_t end = n < map->n - from ? from + n : map->n;
    *ret_start = start;
    return end - start;
}

static enum status cut_short(const struct file_map *map, struct err *err)
{
    return err_set(err, ST_IO, "'%s' was truncated, or its disk failed, while it was being read",
                   map->path);
}

enum status file_map_populate(const struct file_map *map, uint64_t from, uint64_t n,
                              struct err *err)
{
    if (n == 0) {
        return ST_OK;
    }
    if (from >= map->n || n > map->n - from) {
        return err_set(err, ST_FORMAT, "'%s' ends before the bytes that were asked for", map->path);
    }
    if (map->fd < 0) {
        return ST_OK;
    }
    uint64_t start;
    uint64_t length = widen(map, from, n, &start);
    while (madvise((void *)(map->p + start), (size_t)length, MADV_POPULATE_READ) != 0) {
        if (errno == EFAULT || errno == EHWPOISON) {
            return cut_short(map, err);
        }
        if (errno != EINTR && errno != EAGAIN) {
            break; /* an older kernel: pages come in when they are touched */
        }
    }
    struct stat st;
    if (fstat(map->fd, &st) == 0 && (uint64_t)st.st_size < from + n) {
        return cut_short(map, err);
    }
    return ST_OK;
}

void file_map_release(const struct file_map *map, uint64_t from, uint64_t n)
{
    if (n == 0 || from >= map->n || map->fd < 0) {
        return;
    }
    uint64_t start;
    uint64_t length = widen(map, from, n, &start);
    (void)madvise((void *)(map->p + start), (size_t)length, MADV_DONTNEED);
}

enum status file_map_unchanged(const struct file_map *map, struct err *err)
{
    struct stat st;
    if (map->fd < 0) {
        return ST_OK;
    }
    if (fstat(map->fd, &st) != 0) {
        return err_sys(err, errno, "cannot stat '%s'", map->path);
    }
    if ((uint64_t)st.st_size != map->n || mtime_ns(&st) != map->mtime_ns) {
        return err_set(err, ST_IO, "'%s' was changed while it was being read; check it again",
                       map->path);
    }
    return ST_OK;
}
