// SPDX-License-Identifier: Apache-2.0
/*
 * Byte sources. Three stages, each pulling from the one below: raw bytes of the descriptor, the
 * decompressor, the text encoding. Start reading at input_read(), at the end.
 */
#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <sys/stat.h>

enum {
    RAW_SIZE = 128 * 1024,
    WIDE_SIZE = 64 * 1024
};

enum encoding {
    ENCODING_UNKNOWN = 0,
    ENCODING_BYTES,
    ENCODING_UTF16_LE,
    ENCODING_UTF16_BE
};

struct input {
    struct arena *arena;
    const char *name;
    const char *path; /* NULL when it cannot be opened again */
    int fd;
    const volatile int *stop;
    bool regular;
    bool raw_end;  /* the descriptor gave 0 */
    bool finished; /* no more decoded bytes will come: a stream ended or is damaged */
    enum input_format format;
    bool format_known;
    uint64_t size;
    int64_t mtime;
    uint64_t taken;

    unsigned char *raw; /* bytes of the descriptor not used yet: raw[at, end) */
    size_t at;
    size_t end;

    z_stream gzip;
    bool gzip_open;
    bool member_open; /* inside a gzip member or zstd frame: an end here is a cut */
    ZSTD_DStream *zstd;

    enum encoding encoding;
    unsigned char *wide; /* UTF-16 bytes not converted yet: wide[wide_at, wide_end) */
    size_t wide_at;
    size_t wide_end;
    const char *note;
};

static bool stopped(const struct input *in)
{
    return in->stop != NULL && *in->stop != 0;
}

/* Waits until a stream has something to say. Regular files never wait. */
static void wait_readable(const struct input *in)
{
    while (!in->regular && !stopped(in)) {
        struct pollfd p = {.fd = in->fd, .events = POLLIN};
        int n = poll(&p, 1, 200);
        if (n > 0 || (n < 0 && errno != EINTR)) {
            return;
        }
    }
}

/* Reads from the descriptor into [p, p + n). *ret_n is 0 at the end. */
static enum status raw_read(struct input *in, void *p, size_t n, size_t *ret_n, struct err *err)
{
    *ret_n = 0;
    for (;;) {
        wait_readable(in);
        if (stopped(in)) {
            in->raw_end = true;
            return ST_OK;
        }
        ssize_t got = read(in->fd, p, n);
        if (got >= 0) {
            in->raw_end = got == 0;
            in->taken += (uint64_t)got;
            *ret_n = (size_t)got;
            return ST_OK;
        }
        if (errno != EINTR && errno != EAGAIN) {
            return err_sys(err, errno, "cannot read '%s'", in->name);
        }
    }
}

/* Makes at least `need` raw bytes available if the descriptor has them. */
static enum status raw_fill(struct input *in, size_t need, struct err *err)
{
    if (in->at != 0 && (in->at == in->end || in->end == RAW_SIZE)) {
        memmove(in->raw, in->raw + in->at, in->end - in->at);
        in->end -= in->at;
        in->at = 0;
    }
    while (in->end - in->at < need) {
        size_t n;
        TRY(raw_read(in, in->raw + in->end, RAW_SIZE - in->end, &n, err));
        if (n == 0) {
            return ST_OK;
        }
        in->end += n;
    }
    return ST_OK;
}

static bool is_gzip(const unsigned char *p, size_t n)
{
    return n >= 3 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

static bool is_zstd(const unsigned char *p, size_t n)
{
    return n >= 4 && p[1] == 0xb5 && p[2] == 0x2f && p[3] == 0xfd && p[0] == 0x28;
}

static enum status decoder_open(struct input *in, struct err *err)
{
    TRY(raw_fill(in, 4, err));
    const unsigned char *p = in->raw + in->at;
    size_t n = in->end - in->at;
    if (n == 0) {
        return ST_OK; /* nothing yet: decide when the first bytes come */
    }
    in->format_known = true;
    if (is_gzip(p, n)) {
        in->format = INPUT_GZIP;
        if (inflateInit2(&in->gzip, 15 + 16) != Z_OK) {
            return err_set(err, ST_IO, "cannot read '%s': zlib did not start", in->name);
        }
        in->gzip_open = true;
        in->member_open = true;
    } else if (is_zstd(p, n)) {
        in->format = INPUT_ZSTD;
        in->zstd = ZSTD_createDStream();
        if (in->zstd == NULL) {
            return err_set(err, ST_IO, "cannot read '%s': zstd did not start", in->name);
        }
    }
    return ST_OK;
}

static void finish_with_note(struct input *in, const char *what)
{
    in->finished = true;
    in->note = arena_fmt(in->arena,
                         "'%s': %s after %llu compressed bytes; what came before was read",
                         in->name, what, (unsigned long long)(in->taken - (in->end - in->at)));
}

/* What follows a complete gzip member: another one, padding, or something else. */
static enum status gzip_next_member(struct input *in, struct err *err)
{
    in->member_open = false;
    TRY(raw_fill(in, 3, err));
    while (in->at < in->end && in->raw[in->at] == 0) { /* tape padding */
        in->at++;
        if (in->at == in->end) {
            TRY(raw_fill(in, 1, err));
        }
    }
    TRY(raw_fill(in, 3, err));
    size_t n = in->end - in->at;
    if (n == 0) {
        in->finished = true;
    } else if (is_gzip(in->raw + in->at, n)) {
        inflateReset(&in->gzip);
        in->member_open = true;
    } else {
        finish_with_note(in, "bytes that are not gzip follow the gzip data");
    }
    return ST_OK;
}

static enum status gzip_read(struct input *in, void *buffer, size_t capacity, size_t *ret_n,
                             struct err *err)
{
    in->gzip.next_out = buffer;
    in->gzip.avail_out = (uInt)(capacity < (1u << 30) ? capacity : 1u << 30);
    size_t room = in->gzip.avail_out;
    while (!in->finished && in->gzip.avail_out == room) {
        TRY(raw_fill(in, 1, err));
        if (in->at == in->end) {
            if (in->member_open) {
                finish_with_note(in, "the gzip data is cut off");
            }
            break;
        }
        in->gzip.next_in = in->raw + in->at;
        in->gzip.avail_in = (uInt)(in->end - in->at);
        int rc = inflate(&in->gzip, Z_NO_FLUSH);
        in->at = in->end - in->gzip.avail_in;
        if (rc == Z_STREAM_END) {
            TRY(gzip_next_member(in, err));
        } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
            finish_with_note(in, "the gzip data is damaged");
        }
    }
    *ret_n = room - in->gzip.avail_out;
    return ST_OK;
}

static enum status zstd_read(struct input *in, void *buffer, size_t capacity, size_t *ret_n,
                             struct err *err)
{
    ZSTD_outBuffer out = {.dst = buffer, .size = capacity};
    while (!in->finished && out.pos == 0) {
        if (in->at == in->end) {
            TRY(raw_fill(in, 1, err));
        }
        bool at_end = in->at == in->end;
        if (at_end && !in->member_open) {
            in->finished = true;
            break;
        }
        ZSTD_inBuffer input = {.src = in->raw + in->at, .size = in->end - in->at};
        size_t left = ZSTD_decompressStream(in->zstd, &out, &input);
        in->at += input.pos;
        if (ZSTD_isError(left)) {
            finish_with_note(
                in, arena_fmt(in->arena, "the zstd data is damaged (%s)", ZSTD_getErrorName(left)));
        } else if (at_end && out.pos == 0) {
            finish_with_note(in, "the zstd data is cut off");
        } else {
            in->member_open = left != 0;
        }
    }
    *ret_n = out.pos;
    return ST_OK;
}

/* Decompressed bytes. */
static enum status decoded_read(struct input *in, void *buffer, size_t capacity, size_t *ret_n,
                                struct err *err)
{
    *ret_n = 0;
    if (!in->format_known) {
        TRY(decoder_open(in, err));
    }
    if (in->finished) {
        return ST_OK;
    }
    if (in->format == INPUT_GZIP) {
        return gzip_read(in, buffer, capacity, ret_n, err);
    }
    if (in->format == INPUT_ZSTD) {
        return zstd_read(in, buffer, capacity, ret_n, err);
    }
    if (in->at < in->end) {
        size_t n = in->end - in->at < capacity ? in->end - in->at : capacity;
        memcpy(buffer, in->raw + in->at, n);
        in->at += n;
        *ret_n = n;
        return ST_OK;
    }
    return raw_read(in, buffer, capacity, ret_n, err); /* plain bytes go straight through */
}

static size_t put_utf8(unsigned char *p, uint32_t c)
{
    if (c < 0x80) {
        p[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (unsigned char)(0xc0 | c >> 6);
        p[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (unsigned char)(0xe0 | c >> 12);
        p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        p[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    p[0] = (unsigned char)(0xf0 | c >> 18);
    p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    p[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t unit_at(const struct input *in, size_t at)
{
    unsigned a = in->wide[at];
    unsigned b = in->wide[at + 1];
    return in->encoding == ENCODING_UTF16_LE ? b << 8 | a : a << 8 | b;
}

/* Converts what is in `wide` as far as it goes and as the buffer has room. */
static size_t convert(struct input *in, unsigned char *out, size_t capacity, bool last)
{
    size_t n = 0;
    while (in->wide_end - in->wide_at >= 2 && capacity - n >= 4) {
        uint32_t c = unit_at(in, in->wide_at);
        size_t used = 2;
        if (c >= 0xd800 && c < 0xdc00) {
            if (in->wide_end - in->wide_at < 4 && !last) {
                break; /* the other half is still to come */
            }
            uint32_t low = in->wide_end - in->wide_at >= 4 ? unit_at(in, in->wide_at + 2) : 0;
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                used = 4;
            } else {
                c = 0xfffd;
            }
        } else if (c >= 0xdc00 && c < 0xe000) {
            c = 0xfffd;
        }
        in->wide_at += used;
        n += put_utf8(out + n, c);
    }
    return n;
}

static enum status wide_read(struct input *in, unsigned char *buffer, size_t capacity,
                             size_t *ret_n, struct err *err)
{
    *ret_n = 0;
    while (*ret_n == 0) {
        size_t left = in->wide_end - in->wide_at;
        memmove(in->wide, in->wide + in->wide_at, left);
        in->wide_at = 0;
        in->wide_end = left;
        size_t n = 0;
        TRY(decoded_read(in, in->wide + left, WIDE_SIZE - left, &n, err));
        in->wide_end += n;
        *ret_n = convert(in, buffer, capacity, n == 0);
        if (n == 0) {
            return ST_OK;
        }
    }
    return ST_OK;
}

/* Looks for a byte order mark in the first bytes; keeps the bytes in `wide` for later. */
static enum status detect_encoding(struct input *in, struct err *err)
{
    while (in->wide_end < 3) {
        size_t n;
        TRY(decoded_read(in, in->wide + in->wide_end, WIDE_SIZE - in->wide_end, &n, err));
        in->wide_end += n;
        if (n == 0) {
            break;
        }
    }
    const unsigned char *p = in->wide;
    if (in->wide_end == 0) {
        return ST_OK; /* still empty: ask again next time */
    }
    in->encoding = ENCODING_BYTES;
    if (in->wide_end >= 2 && p[0] == 0xff && p[1] == 0xfe) {
        in->encoding = ENCODING_UTF16_LE;
        in->wide_at = 2;
    } else if (in->wide_end >= 2 && p[0] == 0xfe && p[1] == 0xff) {
        in->encoding = ENCODING_UTF16_BE;
        in->wide_at = 2;
    } else if (in->wide_end >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        in->wide_at = 3;
    }
    return ST_OK;
}

enum status input_read(struct input *in, void *buffer, size_t capacity, size_t *ret_n,
                       struct err *err)
{
    *ret_n = 0;
    if (in->encoding == ENCODING_UNKNOWN) {
        TRY(detect_encoding(in, err));
    }
    if (in->encoding == ENCODING_UTF16_LE || in->encoding == ENCODING_UTF16_BE) {
        return wide_read(in, buffer, capacity, ret_n, err);
    }
    size_t kept = in->wide_end - in->wide_at;
    if (kept != 0) {
        size_t n = kept < capacity ? kept : capacity;
        memcpy(buffer, in->wide + in->wide_at, n);
        in->wide_at += n;
        *ret_n = n;
        return ST_OK;
    }
    return decoded_read(in, buffer, capacity, ret_n, err);
}

enum status input_open_fd(struct arena *a, int fd, const char *name, const volatile int *stop,
                          struct input **ret_input, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int saved = errno;
        close(fd);
        return err_sys(err, saved, "cannot stat '%s'", name);
    }
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        return err_set(err, ST_FORMAT, "'%s' is a directory, a file was expected", name);
    }
    struct input *in = arena_alloc(a, sizeof *in);
    in->arena = a;
    in->name = arena_strdup(a, name);
    in->fd = fd;
    in->stop = stop;
    in->regular = S_ISREG(st.st_mode);
    if (in->regular) {
        in->size = (uint64_t)st.st_size;
        in->mtime = (int64_t)st.st_mtime;
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    in->raw = arena_alloc(a, RAW_SIZE);
    in->wide = arena_alloc(a, WIDE_SIZE);
    *ret_input = in;
    return ST_OK;
}

enum status input_open(struct arena *a, const char *path, const volatile int *stop,
                       struct input **ret_input, struct err *err)
{
    if (strcmp(path, "-") == 0) {
        int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            return err_sys(err, errno, "cannot read standard input");
        }
        return input_open_fd(a, fd, "-", stop, ret_input, err);
    }
    /* O_NONBLOCK: opening a FIFO that nobody writes to must not hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return err_sys(err, errno, "cannot open '%s'", path);
    }
    TRY(input_open_fd(a, fd, path, stop, ret_input, err));
    (*ret_input)->path = (*ret_input)->name;
    return ST_OK;
}

bool input_reopen_rotated(struct input *in)
{
    struct stat now;
    struct stat mine;
    if (in->path == NULL || !in->regular || in->format != INPUT_PLAIN ||
        stat(in->path, &now) != 0 || !S_ISREG(now.st_mode) || fstat(in->fd, &mine) != 0) {
        return false;
    }
    bool same = now.st_dev == mine.st_dev && now.st_ino == mine.st_ino;
    if (same && (uint64_t)now.st_size >= in->taken) {
        return false;
    }
    int fd = open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return false; /* between unlink and create: the next call sees it */
    }
    close(in->fd);
    in->fd = fd;
    in->taken = 0;
    in->raw_end = false;
    return true;
}

const char *input_note(const struct input *in)
{
    return in->note;
}

enum input_format input_format(const struct input *in)
{
    return in->format;
}

int64_t input_mtime(const struct input *in)
{
    return in->mtime;
}

uint64_t input_size(const struct input *in)
{
    return in->size;
}

uint64_t input_taken(const struct input *in)
{
    return in->taken - (in->end - in->at);
}

void input_close(struct input *in)
{
    if (in == NULL) {
        return;
    }
    if (in->gzip_open) {
        inflateEnd(&in->gzip);
        in->gzip_open = false;
    }
    ZSTD_freeDStream(in->zstd);
    in->zstd = NULL;
    if (in->fd >= 0) {
        close(in->fd);
        in->fd = -1;
    }
}
