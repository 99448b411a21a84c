// SPDX-License-Identifier: Apache-2.0
/* The table, then the extension that names the CPU levels. */
#include "facts/ld_cache.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"

#define OLD_MAGIC "ld.so-1.7.0"
#define NEW_MAGIC "glibc-ld.so.cache1.1"

enum {
    OLD_HEADER = 16,
    OLD_ENTRY = 12,
    HEADER = 48,
    ENTRY = 24,
    FLAGS_X86_64 = 0x0303, /* ELF for libc6, 64-bit */
    MAX_ENTRIES = 1 << 20,
    TAG_LEVELS = 1,
    MAX_SECTIONS = 64,
    MAX_LEVELS = 256,
};

#define EXTENSION_MAGIC 0xeaa42174u
#define LEVEL_MARK      (1u << 30) /* in the upper half of an entry's hwcap */

/* The new table begins the file, or follows the old one at the next multiple of 8. Offsets count
 * from the new table in both cases. */
static enum status find_table(struct str file, struct str *ret_table, struct err *err)
{
    struct str t = file;
    if (str_starts(file, OLD_MAGIC)) {
        if (file.n < OLD_HEADER) {
            return err_set(err, ST_FORMAT, "ld.so.cache ends within its header");
        }
        uint64_t at = OLD_HEADER + (uint64_t)bytes_le32(file.p + 12) * OLD_ENTRY;
        at = (at + 7) & ~(uint64_t)7;
        t = at < file.n ? str_slice(file, (size_t)at, file.n) : (struct str){.p = "", .n = 0};
    }
    if (!str_starts(t, NEW_MAGIC) || t.n < HEADER) {
        return err_set(err, ST_FORMAT, "ld.so.cache is not in the format of glibc 2.2 or later");
    }
    *ret_table = t;
    return ST_OK;
}

struct level_list {
    struct str names[MAX_LEVELS];
    size_t count;
};

static void read_levels(struct str table, struct level_list *levels)
{
    uint64_t at = bytes_le32(table.p + 32);
    struct str head;
    levels->count = 0;
    if (at == 0 || !bytes_view(table, at, 8, &head) || bytes_le32(head.p) != EXTENSION_MAGIC) {
        return;
    }
    uint32_t sections = bytes_le32(head.p + 4);
    for (uint32_t i = 0; i < sections && i < MAX_SECTIONS; i++) {
        struct str s;
        struct str list;
        if (!bytes_view(table, at + 8 + (uint64_t)i * 16, 16, &s) ||
            bytes_le32(s.p) != TAG_LEVELS ||
            !bytes_view(table, bytes_le32(s.p + 8), bytes_le32(s.p + 12), &list)) {
            continue;
        }
        for (size_t k = 0; k + 4 <= list.n && levels->count < MAX_LEVELS; k += 4) {
            struct str name = {.p = "", .n = 0};
            (void)bytes_text(table, bytes_le32(list.p + k), &name);
            levels->names[levels->count++] = name;
        }
    }
}

/* False for entries of the old CPU scheme ("tls", "haswell"), which no glibc since 2.37 uses. */
static bool level_of(struct arena *a, uint64_t hwcap, const struct level_list *levels,
                     const char **ret_level)
{
    *ret_level = NULL;
    if (hwcap == 0) {
        return true;
    }
    uint32_t index = (uint32_t)hwcap;
    if (hwcap >> 32 != LEVEL_MARK || index >= levels->count) {
        return false;
    }
    *ret_level = str_dup(a, levels->names[index]);
    return true;
}

enum status ld_cache_parse(struct arena *a, struct str bytes, struct ld_cache *ret_cache,
                           struct err *err)
{
    struct str t = {.p = "", .n = 0};
    TRY(find_table(bytes, &t, err));
    uint32_t count = bytes_le32(t.p + 20);
    struct str table;
    if (count > MAX_ENTRIES || !bytes_view(t, HEADER, (uint64_t)count * ENTRY, &table)) {
        return err_set(err, ST_FORMAT,
                       "ld.so.cache claims %" PRIu32 " entries and ends before them", count);
    }
    struct level_list levels;
    read_levels(t, &levels);
    VEC_OF(struct ld_cache_entry) entries = {0};
    struct map *last = map_new(a);
    struct map *first = map_new(a);
    for (uint32_t i = 0; i < count; i++) {
        const char *p = table.p + (size_t)i * ENTRY;
        struct str name;
        struct str path;
        const char *level;
        if (bytes_le32(p) != FLAGS_X86_64 || !bytes_text(t, bytes_le32(p + 4), &name) ||
            !bytes_text(t, bytes_le32(p + 8), &path) ||
            !level_of(a, bytes_le64(p + 16), &levels, &level)) {
            continue;
        }
        *VEC_PUSH(a, &entries) = (struct ld_cache_entry){
            .name = str_dup(a, name), .path = str_dup(a, path), .level = level};
        /* The maps hold indexes + 1 as pointers: the array still moves. */
        uintptr_t before = (uintptr_t)map_get(last, name);
        if (before != 0) {
            entries.items[before - 1].next = entries.count;
        } else {
            map_put(first, name, (void *)(uintptr_t)entries.count);
        }
        map_put(last, name, (void *)(uintptr_t)entries.count);
    }
    *ret_cache = (struct ld_cache){
        .entries = entries.items, .count = entries.count, .first = first};
    return ST_OK;
}

const char *ld_cache_lookup(const struct ld_cache *cache, const char *name,
                            const char *const *levels, size_t level_count)
{
    const char *best = NULL;
    size_t best_rank = SIZE_MAX;
    uintptr_t at = cache->first != NULL ? (uintptr_t)map_get(cache->first, str_of(name)) : 0;
    while (at != 0) {
        const struct ld_cache_entry *e = &cache->entries[at - 1];
        size_t rank = level_count;
        for (size_t i = 0; e->level != NULL && i <= level_count; i++) {
            rank = i < level_count ? i : SIZE_MAX;
            if (i < level_count && strcmp(levels[i], e->level) == 0) {
                break;
            }
        }
        if (rank < best_rank) {
            best = e->path;
            best_rank = rank;
        }
        at = e->next;
    }
    return best;
}
