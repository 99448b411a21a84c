// SPDX-License-Identifier: Apache-2.0
/* Writer of safetensors files, and files written in one step. */
#include "model/safetensors_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_out.h"
#include "base/map.h"

enum {
    CHUNK = 1 << 16, /* elements converted at a time */
    HEADER_MAX = 100000000
};

/* ---- a file that takes its name at the end ---- */

struct sink {
    int fd;
    const char *path; /* what it will be called */
    const char *part; /* what it is called until then */
};

static enum status sink_open(struct arena *a, const char *path, struct sink *ret_sink,
                             struct err *err)
{
    struct sink s = {.path = path, .part = arena_fmt(a, "%s.part", path)};
    s.fd = open(s.part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s.fd < 0) {
        return err_sys(err, errno, "cannot create '%s'", s.part);
    }
    *ret_sink = s;
    return ST_OK;
}

static enum status sink_add(const struct sink *s, const void *bytes, size_t n, struct err *err)
{
    const char *p = bytes;
    while (n != 0) {
        ssize_t done = write(s->fd, p, n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return err_sys(err, done < 0 ? errno : EIO, "cannot write '%s'", s->path);
        }
        p += done;
        n -= (size_t)done;
    }
    return ST_OK;
}

/* Gives the file its name when all went well so far, else removes it. Forwards `status`. */
static enum status sink_close(const struct sink *s, enum status status, struct err *err)
{
    if (status == ST_OK && fsync(s->fd) != 0) {
        status = err_sys(err, errno, "cannot bring '%s' to the disk", s->path);
    }
    if (close(s->fd) != 0 && status == ST_OK) {
        status = err_sys(err, errno, "cannot write '%s'", s->path);
    }
    if (status == ST_OK && rename(s->part, s->path) != 0) {
        status = err_sys(err, errno, "cannot rename '%s' to '%s'", s->part, s->path);
    }
    if (status != ST_OK) {
        (void)unlink(s->part);
    }
    return status;
}

enum status safe_file_write(struct arena *a, const char *path, struct str bytes, struct err *err)
{
    struct sink s;
    TRY(sink_open(a, path, &s, err));
    return sink_close(&s, sink_add(&s, bytes.p, bytes.n, err), err);
}

enum status safe_folder_sync(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, errno, "cannot open the folder '%s'", path);
    }
    /* Some file systems cannot do it for folders and say EINVAL: there is nothing more to be done. */
    int failed = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    (void)close(fd);
    return failed == 0 ? ST_OK
                       : err_sys(err, failed, "cannot bring the folder '%s' to the disk", path);
}

/* ---- safetensors ---- */

static size_t elements_of(const struct safetensors_item *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->rank; i++) {
        n *= t->shape[i];
    }
    return n;
}

/* The reference writer's order: wide types first, so that all stay aligned, then by name. */
static int by_size_and_name(const void *a, const void *b)
{
    const struct safetensors_item *x = *(const struct safetensors_item *const *)a;
    const struct safetensors_item *y = *(const struct safetensors_item *const *)b;
    unsigned sx = dtype_info(x->dtype)->size;
    unsigned sy = dtype_info(y->dtype)->size;
    if (sx != sy) {
        return sx > sy ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static enum status check_items(struct arena *a, const struct safetensors_item *items, size_t count,
                               struct err *err)
{
    struct map *names = map_new(a);
    for (size_t i = 0; i < count; i++) {
        if (dtype_info(items[i].dtype)->safetensors == NULL) {
            return err_set(err, ST_USAGE, "safetensors has no type for %s, which tensor '%s' wants",
                           dtype_info(items[i].dtype)->name, items[i].name);
        }
        if (map_get(names, str_of(items[i].name)) != NULL) {
            return err_set(err, ST_USAGE, "tensor '%s' is given twice", items[i].name);
        }
        map_put(names, str_of(items[i].name), names);
    }
    return ST_OK;
}

static void add_quoted(struct strbuf *out, const char *text)
{
    strbuf_addc(out, '"');
    json_escape(out, str_of(text));
    strbuf_addc(out, '"');
}

static void add_header(struct strbuf *out, const struct safetensors_item *const *items,
                       size_t count, const struct safetensors_pair *pairs, size_t pair_count)
{
    uint64_t at = 0;
    strbuf_addc(out, '{');
    if (pair_count != 0) {
        strbuf_addz(out, "\"__metadata__\":{");
        for (size_t i = 0; i < pair_count; i++) {
            strbuf_addz(out, i == 0 ? "" : ",");
            add_quoted(out, pairs[i].key);
            strbuf_addc(out, ':');
            add_quoted(out, pairs[i].value);
        }
        strbuf_addz(out, count == 0 ? "}" : "},");
    }
    for (size_t i = 0; i < count; i++) {
        const struct safetensors_item *t = items[i];
        uint64_t bytes = (uint64_t)elements_of(t) * dtype_info(t->dtype)->size;
        strbuf_addz(out, i == 0 ? "" : ",");
        add_quoted(out, t->name);
        strbuf_fmt(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype_info(t->dtype)->safetensors);
        for (size_t d = 0; d < t->rank; d++) {
            strbuf_fmt(out, "%s%zu", d == 0 ? "" : ",", t->shape[d]);
        }
        strbuf_fmt(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    strbuf_addc(out, '}');
    while (out->n % 8 != 0) {
        strbuf_addc(out, ' ');
    }
}

static enum status add_values(const struct sink *s, const struct safetensors_item *t,
                              double *numbers, unsigned char *bytes, struct err *err)
{
    size_t left = elements_of(t);
    size_t from_size = dtype_info(t->source)->size;
    size_t to_size = dtype_info(t->dtype)->size;
    const char *p = t->values;
    if (t->source == t->dtype) {
        return sink_add(s, p, left * from_size, err);
    }
    while (left != 0) {
        size_t n = left < CHUNK ? left : CHUNK;
        dtype_to_double(t->source, p, n, numbers);
        dtype_from_double(t->dtype, numbers, n, bytes);
        TRY(sink_add(s, bytes, n * to_size, err));
        p += n * from_size;
        left -= n;
    }
    return ST_OK;
}

static enum status add_all(struct arena *a, const struct sink *s, struct str header,
                           const struct safetensors_item *const *items, size_t count,
                           struct err *err)
{
    unsigned char length[8];
    double *numbers = arena_array(a, CHUNK, sizeof *numbers);
    unsigned char *bytes = arena_array(a, CHUNK, sizeof(double));
    for (size_t i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)header.n >> (8 * i));
    }
    TRY(sink_add(s, length, sizeof length, err));
    TRY(sink_add(s, header.p, header.n, err));
    for (size_t i = 0; i < count; i++) {
        TRY(add_values(s, items[i], numbers, bytes, err));
    }
    return ST_OK;
}

enum status safetensors_write(struct arena *a, const char *path,
                              const struct safetensors_item *items, size_t count,
                              const struct safetensors_pair *pairs, size_t pair_count,
                              struct err *err)
{
    struct arena_mark mark = arena_mark(a);
    const struct safetensors_item **sorted = arena_array(a, count, sizeof(void *));
    struct strbuf header;
    struct sink s;
    TRY(check_items(a, items, count, err));
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &items[i];
    }
    qsort(sorted, count, sizeof(void *), by_size_and_name);
    strbuf_init(&header, a, HEADER_MAX);
    add_header(&header, sorted, count, pairs, pair_count);
    if (header.truncated) {
        return err_set(err, ST_LIMIT, "the header of '%s' would be larger than %d bytes", path,
                       HEADER_MAX);
    }
    TRY(sink_open(a, path, &s, err));
    enum status status = sink_close(&s, add_all(a, &s, strbuf_str(&header), sorted, count, err),
                                    err);
    arena_rewind(a, mark);
    return status;
}
