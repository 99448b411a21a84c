// SPDX-License-Identifier: Apache-2.0
/* One table of leading bytes; see the specification's "Formats". */
#include "facts/msgpack.h"

#include "base/bytes.h"

/* Bytes 0xc0 to 0xdf: kind, and size of the number that follows (a length, a count or a value). */
static const struct {
    uint8_t kind;
    uint8_t size;
} formats[32] = {
    [0xc0 - 0xc0] = {MSGPACK_NIL, 0},       [0xc2 - 0xc0] = {MSGPACK_BOOL, 0},
    [0xc3 - 0xc0] = {MSGPACK_BOOL, 0},      [0xc4 - 0xc0] = {MSGPACK_BINARY, 1},
    [0xc5 - 0xc0] = {MSGPACK_BINARY, 2},    [0xc6 - 0xc0] = {MSGPACK_BINARY, 4},
    [0xc7 - 0xc0] = {MSGPACK_EXTENSION, 1}, [0xc8 - 0xc0] = {MSGPACK_EXTENSION, 2},
    [0xc9 - 0xc0] = {MSGPACK_EXTENSION, 4}, [0xca - 0xc0] = {MSGPACK_REAL, 4},
    [0xcb - 0xc0] = {MSGPACK_REAL, 8},      [0xcc - 0xc0] = {MSGPACK_UNSIGNED, 1},
    [0xcd - 0xc0] = {MSGPACK_UNSIGNED, 2},  [0xce - 0xc0] = {MSGPACK_UNSIGNED, 4},
    [0xcf - 0xc0] = {MSGPACK_UNSIGNED, 8},  [0xd0 - 0xc0] = {MSGPACK_NEGATIVE, 1},
    [0xd1 - 0xc0] = {MSGPACK_NEGATIVE, 2},  [0xd2 - 0xc0] = {MSGPACK_NEGATIVE, 4},
    [0xd3 - 0xc0] = {MSGPACK_NEGATIVE, 8},  [0xd4 - 0xc0] = {MSGPACK_EXTENSION, 0},
    [0xd5 - 0xc0] = {MSGPACK_EXTENSION, 0}, [0xd6 - 0xc0] = {MSGPACK_EXTENSION, 0},
    [0xd7 - 0xc0] = {MSGPACK_EXTENSION, 0}, [0xd8 - 0xc0] = {MSGPACK_EXTENSION, 0},
    [0xd9 - 0xc0] = {MSGPACK_STRING, 1},    [0xda - 0xc0] = {MSGPACK_STRING, 2},
    [0xdb - 0xc0] = {MSGPACK_STRING, 4},    [0xdc - 0xc0] = {MSGPACK_LIST, 2},
    [0xdd - 0xc0] = {MSGPACK_LIST, 4},      [0xde - 0xc0] = {MSGPACK_MAP, 2},
    [0xdf - 0xc0] = {MSGPACK_MAP, 4},
};

static bool take_bytes(struct msgpack *m, uint64_t n, struct str *ret)
{
    if (!bytes_view(m->data, m->at, n, ret)) {
        return false;
    }
    m->at += (size_t)n;
    return true;
}

/* The containers' counts are checked against the bytes left, one byte a member at least. */
static bool plausible(const struct msgpack *m, const struct msgpack_item *item)
{
    uint64_t left = m->data.n - m->at;
    return item->kind == MSGPACK_MAP ? item->count <= left / 2 : item->count <= left;
}

/* Formats whose length or value is in the first byte. */
static bool short_form(struct msgpack *m, unsigned char b, struct msgpack_item *item)
{
    if (b < 0x80) {
        item->kind = MSGPACK_UNSIGNED;
        item->number = b;
        return true;
    }
    if (b >= 0xe0) {
        item->kind = MSGPACK_NEGATIVE;
        item->number = (uint64_t)(int64_t)(int8_t)b;
        return true;
    }
    if (b >= 0xa0) {
        item->kind = MSGPACK_STRING;
        return take_bytes(m, b & 0x1f, &item->bytes);
    }
    item->kind = b >= 0x90 ? MSGPACK_LIST : MSGPACK_MAP;
    item->count = b & 0x0f;
    return plausible(m, item);
}

static bool long_form(struct msgpack *m, unsigned char b, struct msgpack_item *item)
{
    unsigned size = formats[b - 0xc0].size;
    struct str raw = {.p = "", .n = 0};
    if (!take_bytes(m, size, &raw)) {
        return false;
    }
    uint64_t number = bytes_be(raw.p, size);
    item->kind = (enum msgpack_kind)formats[b - 0xc0].kind;
    switch (item->kind) {
    case MSGPACK_BOOL: item->number = b & 1; return true;
    case MSGPACK_NEGATIVE:
        /* A signed format may hold a positive number. */
        if (number >> (size * 8 - 1) == 0) {
            item->kind = MSGPACK_UNSIGNED;
        } else if (size < 8) {
            number |= UINT64_MAX << (size * 8);
        }
        item->number = number;
        return true;
    case MSGPACK_STRING:
    case MSGPACK_BINARY: return take_bytes(m, number, &item->bytes);
    case MSGPACK_EXTENSION:
        /* One byte of type, then the data; fixed sizes are 1, 2, 4, 8, 16. */
        number = size == 0 ? (uint64_t)1 << (b - 0xd4) : number;
        return take_bytes(m, number + 1, &item->bytes);
    case MSGPACK_LIST:
    case MSGPACK_MAP: item->count = number; return plausible(m, item);
    default: item->number = number; return true;
    }
}

bool msgpack_next(struct msgpack *m, struct msgpack_item *ret_item)
{
    struct str first;
    if (!take_bytes(m, 1, &first)) {
        return false;
    }
    unsigned char b = (unsigned char)first.p[0];
    struct msgpack_item item = {.bytes = {.p = "", .n = 0}};
    if (b == 0xc1 || !(b < 0xc0 || b >= 0xe0 ? short_form(m, b, &item) : long_form(m, b, &item))) {
        return false;
    }
    *ret_item = item;
    return true;
}

bool msgpack_skip(struct msgpack *m)
{
    uint64_t left = 1;
    while (left != 0) {
        struct msgpack_item item;
        if (!msgpack_next(m, &item)) {
            return false;
        }
        left += item.kind == MSGPACK_MAP ? item.count * 2 : item.count;
        left--;
        if (left > m->data.n - m->at) {
            return false;
        }
    }
    return true;
}

bool msgpack_string(struct msgpack *m, struct str *ret_text)
{
    struct msgpack_item item;
    if (!msgpack_next(m, &item) || item.kind != MSGPACK_STRING) {
        return false;
    }
    *ret_text = item.bytes;
    return true;
}

bool msgpack_find(const struct msgpack *m, const char *key, struct msgpack *ret_value)
{
    struct msgpack at = *m;
    struct msgpack_item map;
    if (!msgpack_next(&at, &map) || map.kind != MSGPACK_MAP) {
        return false;
    }
    for (uint64_t i = 0; i < map.count; i++) {
        struct msgpack before = at;
        struct str name;
        bool is_text = msgpack_string(&at, &name);
        if (is_text && str_is(name, key)) {
            *ret_value = at;
            return true;
        }
        if (!is_text) {
            at = before;
            if (!msgpack_skip(&at)) {
                return false;
            }
        }
        if (!msgpack_skip(&at)) {
            return false;
        }
    }
    return false;
}
