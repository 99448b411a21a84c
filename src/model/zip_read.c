// SPDX-License-Identifier: Apache-2.0
/* Content of archive members: views of stored ones, deflated ones unpacked under a ceiling. */
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"

#include "model/zip.h"

enum {
    CHUNK = 1 << 18
};

size_t zip_find(const struct zip *z, struct str name)
{
    for (size_t i = z->count; i-- > 0;) {
        if (str_eq(z->members[i].name, name)) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* One inflation in progress. */
struct unpack {
    z_stream stream;
    struct str packed; /* not given to zlib yet */
};

static enum status unpack_open(struct unpack *u, struct str packed, struct err *err)
{
    *u = (struct unpack){.packed = packed};
    if (inflateInit2(&u->stream, -MAX_WBITS) != Z_OK) {
        return err_set(err, ST_LIMIT, "no memory to unpack");
    }
    return ST_OK;
}

/* Fills `room` bytes at `to`; fewer only at the end of the stream. */
static enum status unpack_some(struct unpack *u, unsigned char *to, size_t room, size_t *ret_n,
                               bool *ret_end, struct err *err)
{
    u->stream.next_out = to;
    u->stream.avail_out = (uInt)room;
    int rc = Z_OK;
    while (u->stream.avail_out > 0 && rc == Z_OK) {
        if (u->stream.avail_in == 0 && u->packed.n > 0) {
            size_t n = u->packed.n < (1u << 30) ? u->packed.n : 1u << 30;
            u->stream.next_in = (Bytef *)(uintptr_t)u->packed.p;
            u->stream.avail_in = (uInt)n;
            u->packed = str_slice(u->packed, n, u->packed.n);
        }
        rc = inflate(&u->stream, Z_NO_FLUSH);
        if (rc == Z_BUF_ERROR && u->packed.n == 0) {
            return err_set(err, ST_FORMAT, "the deflated data end too early");
        }
    }
    if (rc != Z_OK && rc != Z_STREAM_END) {
        return err_set(err, ST_FORMAT, "the deflated data are damaged (zlib says %d)", rc);
    }
    *ret_n = room - u->stream.avail_out;
    *ret_end = rc == Z_STREAM_END;
    return ST_OK;
}

static enum status packed_view(const struct zip *z, const struct zip_member *m, struct str *ret,
                               struct err *err)
{
    if (!m->readable || !bytes_view(z->bytes, m->data_at, m->packed, ret)) {
        return err_set(err, ST_FORMAT, "the archive's headers contradict each other about it");
    }
    return ST_OK;
}

static enum status inflate_all(struct arena *a, struct str packed, uint64_t size,
                               struct str *ret_content, struct err *err)
{
    struct unpack u;
    TRY(unpack_open(&u, packed, err));
    unsigned char *to = arena_alloc(a, (size_t)size + 1);
    size_t n = 0;
    bool end = false;
    enum status st = ST_OK;
    while (!end && n <= size && st == ST_OK) {
        size_t room = (size_t)size + 1 - n < CHUNK ? (size_t)size + 1 - n : CHUNK;
        size_t got = 0;
        st = room == 0 ? ST_OK : unpack_some(&u, to + n, room, &got, &end, err);
        n += got;
    }
    inflateEnd(&u.stream);
    if (st == ST_OK && n != size) {
        st = err_set(err, ST_FORMAT, "it unpacks to %s bytes than the %" PRIu64 " it claims",
                     n > size ? "more" : "fewer", size);
    }
    if (st == ST_OK) {
        *ret_content = (struct str){.p = (const char *)to, .n = (size_t)size};
    }
    return st;
}

enum status zip_read(struct arena *a, const struct zip *z, size_t index, uint64_t ceiling,
                     struct str *ret_content, struct err *err)
{
    const struct zip_member *m = &z->members[index];
    struct str packed = {0};
    TRY(packed_view(z, m, &packed, err));
    if (m->method == 0) {
        *ret_content = packed;
        return ST_OK;
    }
    if (m->size > ceiling) {
        return err_set(err, ST_LIMIT,
                       "it unpacks to %" PRIu64 " bytes, more than the %" PRIu64 " that are read",
                       m->size, ceiling);
    }
    /* deflate cannot pack more than 1032 bytes into one */
    if (m->size / 1032 > m->packed) {
        return err_set(err, ST_FORMAT,
                       "%" PRIu64 " deflated bytes cannot hold the %" PRIu64 " they claim",
                       m->packed, m->size);
    }
    return inflate_all(a, packed, m->size, ret_content, err);
}

uint32_t zip_crc(uint32_t crc, struct str bytes)
{
    return (uint32_t)crc32_z(crc, (const Bytef *)bytes.p, bytes.n);
}

enum status zip_crc_judge(const struct zip_member *m, uint32_t crc, struct err *err)
{
    if (crc != m->crc) {
        return err_set(err, ST_FORMAT,
                       "CRC-32 is %08" PRIx32 ", stored %08" PRIx32
                       ": its bytes changed after it was written",
                       crc, m->crc);
    }
    return ST_OK;
}

enum status zip_verify(struct arena *scratch, const struct zip *z, size_t index, struct err *err)
{
    const struct zip_member *m = &z->members[index];
    struct str packed = {0};
    TRY(packed_view(z, m, &packed, err));
    uint32_t crc = 0;
    uint64_t size = 0;
    if (m->method == 0) {
        crc = zip_crc(0, packed);
        size = packed.n;
    } else {
        struct arena_mark mark = arena_mark(scratch);
        char *chunk = arena_alloc(scratch, CHUNK);
        struct unpack u;
        TRY(unpack_open(&u, packed, err));
        bool end = false;
        enum status st = ST_OK;
        while (!end && st == ST_OK && size <= m->size) {
            size_t got = 0;
            st = unpack_some(&u, (unsigned char *)chunk, CHUNK, &got, &end, err);
            crc = st == ST_OK ? zip_crc(crc, (struct str){.p = chunk, .n = got}) : crc;
            size += got;
        }
        size_t behind = u.packed.n + u.stream.avail_in;
        inflateEnd(&u.stream);
        arena_rewind(scratch, mark);
        TRY(st);
        if (end && behind > 0) {
            return err_set(err, ST_FORMAT, "%zu bytes follow its deflated data", behind);
        }
    }
    if (size != m->size) {
        return err_set(err, ST_FORMAT,
                       "it holds another number of bytes than the %" PRIu64 " it claims", m->size);
    }
    return zip_crc_judge(m, crc, err);
}
