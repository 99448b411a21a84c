// SPDX-License-Identifier: Apache-2.0
/* See maps_file.h. */
#include "recorder/maps_file.h"

#include <string.h>

#include "base/vec.h"

enum {
    MAPPINGS_MAX = 1 << 20
};

/* "7f00-7f10 r-xp 00001000 fd:01 1234   /usr/lib/libc.so.6" */
static enum status parse_line(struct arena *a, struct str line, struct mapping *m)
{
    struct str range;
    struct str access;
    struct str offset;
    struct str skipped;
    struct str start;
    if (!str_cut(&line, ' ', &range) || !str_cut(&line, ' ', &access) ||
        !str_cut(&line, ' ', &offset) || !str_cut(&line, ' ', &skipped) ||
        !str_cut(&range, '-', &start) || access.n < 4) {
        return ST_FORMAT;
    }
    TRY(str_to_u64(start, 16, &m->start));
    TRY(str_to_u64(range, 16, &m->end));
    TRY(str_to_u64(offset, 16, &m->offset));
    m->readable = access.p[0] == 'r';
    m->writable = access.p[1] == 'w';
    m->executable = access.p[2] == 'x';
    size_t space = str_find_char(line, ' ', 0); /* behind the inode */
    struct str path = space < line.n ? str_trim(str_slice(line, space, line.n)) : str_of("");
    m->path = str_dup(a, path);
    return m->end > m->start ? ST_OK : ST_FORMAT;
}

enum status maps_parse(struct arena *a, struct str text, const char *name, struct maps *ret_maps,
                       struct err *err)
{
    struct maps maps = {0};
    struct str line;
    size_t number = 0;
    while (str_cut_line(&text, &line)) {
        number++;
        if (line.n == 0) {
            continue;
        }
        struct mapping m = {0};
        if (maps.count >= MAPPINGS_MAX || parse_line(a, line, &m) != ST_OK) {
            return err_set(err, ST_FORMAT, "%s: line %zu is no line of a memory map", name, number);
        }
        *VEC_PUSH(a, &maps) = m;
    }
    *ret_maps = maps;
    return ST_OK;
}

const struct mapping *maps_find(const struct maps *maps, uint64_t address)
{
    size_t low = 0;
    size_t high = maps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (maps->items[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < maps->count && maps->items[low].start <= address ? &maps->items[low] : NULL;
}

uint64_t maps_image_offset(const struct maps *maps, uint64_t address)
{
    const struct mapping *m = maps_find(maps, address);
    if (m == NULL) {
        return 0;
    }
    uint64_t base = m->start;
    for (const struct mapping *p = m; p >= maps->items && strcmp(p->path, m->path) == 0; p--) {
        base = p->start;
        if (p->offset == 0) {
            break;
        }
    }
    return address - base;
}

const char *maps_base_name(const struct mapping *m)
{
    const char *slash = strrchr(m->path, '/');
    return slash != NULL ? slash + 1 : m->path;
}
