// SPDX-License-Identifier: Apache-2.0
/* See lz4.h. */
#include "snapshot/lz4.h"

#include <string.h>

#define MAGIC           0x184d2204u
#define MAGIC_SKIPPABLE 0x184d2a50u /* and the 15 after it */

enum {
    FLAG_BLOCK_CHECKSUM = 0x10,
    FLAG_CONTENT_SIZE = 0x08,
    FLAG_CONTENT_CHECKSUM = 0x04,
    FLAG_DICTIONARY = 0x01,
    MIN_MATCH = 4
};

#define BLOCK_STORED 0x80000000u

struct unpacker {
    struct str in;
    size_t at;
    unsigned char *out;
    size_t n;
    size_t capacity;
    size_t ceiling;
    struct arena *arena;
};

static bool take(struct unpacker *u, size_t n, const unsigned char **ret_bytes)
{
    if (n > u->in.n - u->at) {
        return false;
    }
    *ret_bytes = (const unsigned char *)u->in.p + u->at;
    u->at += n;
    return true;
}

static bool take_u32(struct unpacker *u, uint32_t *ret_value)
{
    const unsigned char *p;
    if (!take(u, 4, &p)) {
        return false;
    }
    *ret_value = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return true;
}

static bool room(struct unpacker *u, size_t more)
{
    if (more > u->ceiling - u->n) {
        return false;
    }
    if (u->n + more > u->capacity) {
        size_t want = u->capacity * 2;
        want = want < u->n + more ? u->n + more : want;
        want = want > u->ceiling ? u->ceiling : want;
        u->out = arena_grow(u->arena, u->out, u->capacity, want);
        u->capacity = want;
    }
    return true;
}

/* 15 in the token means that bytes follow, each 255 that another follows. */
static bool take_length(struct unpacker *u, size_t end, size_t *length)
{
    if (*length != 15) {
        return true;
    }
    unsigned char byte;
    do {
        if (u->at >= end || *length > u->ceiling) {
            return false;
        }
        byte = (unsigned char)u->in.p[u->at++];
        *length += byte;
    } while (byte == 255);
    return true;
}

static bool copy_match(struct unpacker *u, size_t distance, size_t length)
{
    if (distance == 0 || distance > u->n || !room(u, length)) {
        return false;
    }
    for (size_t i = 0; i < length; i++, u->n++) { /* may overlap itself: byte by byte */
        u->out[u->n] = u->out[u->n - distance];
    }
    return true;
}

static bool unpack_block(struct unpacker *u, size_t size)
{
    size_t end = u->at + size;
    while (u->at < end) {
        unsigned token = (unsigned char)u->in.p[u->at++];
        size_t literals = token >> 4;
        size_t match = token & 15;
        if (!take_length(u, end, &literals) || literals > end - u->at || !room(u, literals)) {
            return false;
        }
        memcpy(u->out + u->n, u->in.p + u->at, literals);
        u->n += literals;
        u->at += literals;
        if (u->at == end) {
            return true; /* the last sequence is literals alone */
        }
        if (end - u->at < 2) {
            return false;
        }
        size_t distance = (size_t)(unsigned char)u->in.p[u->at] |
                          (size_t)(unsigned char)u->in.p[u->at + 1] << 8;
        u->at += 2;
        if (!take_length(u, end, &match) || !copy_match(u, distance, match + MIN_MATCH)) {
            return false;
        }
    }
    return size == 0;
}

static bool unpack_blocks(struct unpacker *u, unsigned flags)
{
    const unsigned char *p;
    uint32_t size;
    while (take_u32(u, &size)) {
        if (size == 0) { /* end mark */
            return (flags & FLAG_CONTENT_CHECKSUM) == 0 || take(u, 4, &p);
        }
        bool stored = (size & BLOCK_STORED) != 0;
        size &= ~BLOCK_STORED;
        if (size > u->in.n - u->at) {
            return false;
        }
        if (stored) {
            if (!room(u, size) || !take(u, size, &p)) {
                return false;
            }
            memcpy(u->out + u->n, p, size);
            u->n += size;
        } else if (!unpack_block(u, size)) {
            return false;
        }
        if ((flags & FLAG_BLOCK_CHECKSUM) != 0 && !take(u, 4, &p)) {
            return false;
        }
    }
    return false;
}

static bool unpack_frame(struct unpacker *u)
{
    uint32_t magic;
    const unsigned char *p;
    if (!take_u32(u, &magic)) {
        return false;
    }
    if ((magic & ~15u) == MAGIC_SKIPPABLE) {
        uint32_t size;
        return take_u32(u, &size) && take(u, size, &p);
    }
    if (magic != MAGIC || !take(u, 2, &p)) {
        return false;
    }
    unsigned flags = p[0];
    if (flags >> 6 != 1 || (flags & FLAG_DICTIONARY) != 0 ||
        !take(u, (flags & FLAG_CONTENT_SIZE) != 0 ? 9 : 1, &p)) { /* size, header checksum */
        return false;
    }
    return unpack_blocks(u, flags);
}

enum status lz4_unpack(struct arena *a, struct str packed, const char *name, size_t ceiling,
                       struct str *ret_text, struct err *err)
{
    struct unpacker u = {.in = packed, .ceiling = ceiling, .arena = a};
    u.capacity = packed.n < ceiling / 4 ? packed.n * 4 + 64 : ceiling;
    u.out = arena_alloc(a, u.capacity);
    do {
        if (!unpack_frame(&u)) {
            bool full = u.ceiling - u.n < 1 << 16;
            return full ? err_set(err, ST_LIMIT, "%s unpacks to more than %zu bytes", name, ceiling)
                        : err_set(err, ST_FORMAT, "%s is no whole LZ4 file: broken at byte %zu",
                                  name, u.at);
        }
    } while (u.at < packed.n);
    *ret_text = (struct str){.p = (const char *)u.out, .n = u.n};
    return ST_OK;
}
