// SPDX-License-Identifier: Apache-2.0
/* Walking a double array that a file brought: every unit is looked up with its bounds checked. */
#include "model/tok_charsmap.h"

#include "base/bytes.h"

enum {
    ZERO_RUN = 512 /* real tables have a handful */
};

enum status tok_charsmap_read(struct str blob, struct tok_charsmap *ret_map, struct err *err)
{
    *ret_map = (struct tok_charsmap){.units = STR(""), .values = STR("")};
    if (blob.n == 0) {
        return ST_OK;
    }
    if (blob.n <= 4) {
        return err_set(err, ST_FORMAT, "precompiled_charsmap has %zu bytes, too few for its size",
                       blob.n);
    }
    uint32_t size = bytes_le32(blob.p);
    if (size >= blob.n - 4 || size % 4 != 0 || size < 1024) {
        return err_set(err, ST_FORMAT,
                       "precompiled_charsmap says its table has %u bytes; it has %zu in all", size,
                       blob.n);
    }
    static const char zeros[ZERO_RUN] = {0};
    if (memmem(blob.p, blob.n, zeros, sizeof zeros) != NULL) {
        return err_set(
            err, ST_FORMAT,
            "precompiled_charsmap holds %d bytes of zeros in a row, which no table does: a part of "
            "the file was not written",
            ZERO_RUN);
    }
    ret_map->units = str_slice(blob, 4, 4 + (size_t)size);
    ret_map->values = str_slice(blob, 4 + (size_t)size, blob.n);
    return ST_OK;
}

static bool unit_at(const struct tok_charsmap *m, uint32_t pos, uint32_t *ret_unit)
{
    if (!bytes_has(m->units, (uint64_t)pos * 4, 4)) {
        return false;
    }
    *ret_unit = bytes_le32(m->units.p + (size_t)pos * 4);
    return true;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* darts-clone's commonPrefixSearch; stops at the first key when `shortest`. */
static size_t search(const struct tok_charsmap *m, struct str text, bool shortest,
                     struct str *ret_value)
{
    uint32_t unit;
    size_t found = 0;
    if (!unit_at(m, 0, &unit)) {
        return 0;
    }
    uint32_t pos = offset_of(unit);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == 0) {
            break;
        }
        pos ^= c;
        if (!unit_at(m, pos, &unit) || (unit & ((1u << 31) | 0xFF)) != c) {
            break;
        }
        pos ^= offset_of(unit);
        uint32_t leaf;
        if ((unit >> 8 & 1) == 1 && unit_at(m, pos, &leaf) &&
            bytes_text(m->values, leaf & 0x7FFFFFFF, ret_value)) {
            found = i + 1;
            if (shortest) {
                break;
            }
        }
    }
    return found;
}

size_t tok_charsmap_longest(const struct tok_charsmap *m, struct str text, struct str *ret_value)
{
    return search(m, text, false, ret_value);
}

size_t tok_charsmap_shortest(const struct tok_charsmap *m, struct str text, struct str *ret_value)
{
    return search(m, text, true, ret_value);
}
