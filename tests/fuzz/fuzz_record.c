// SPDX-License-Identifier: Apache-2.0
/*
 * The record of a process and its memory map: the first byte tells which. A record is large and mostly
 * zeros, so the input names what to change in a small valid one: pairs of offset (4 bytes) and value (8).
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

#include "recorder/fault_join.h"
#include "recorder/maps_file.h"
#include "recorder/marks.h"
#include "recorder/record_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HOOKS = 2,
    RINGS = 2,
    ENTRIES = 4,
    SLOTS = 4
};

struct small {
    struct record_header head;
    char rest_of_page[RECORD_HEADER_BYTES - sizeof(struct record_header)];
    struct record_hook hooks[HOOKS];
    struct record_ring rings[RINGS];
    struct record_alloc allocs[SLOTS];
    struct record_name names[SLOTS];
    struct record_binding bindings[SLOTS];
    struct record_entry entries[RINGS * ENTRIES];
};

static void fill(struct small *s)
{
    memset((void *)s, 0, sizeof *s);
    memcpy(s->head.magic, RECORD_MAGIC, 8);
    s->head.version = RECORD_VERSION;
    s->head.header_bytes = RECORD_HEADER_BYTES;
    s->head.hook_bytes = sizeof(struct record_hook);
    s->head.ring_bytes = sizeof(struct record_ring);
    s->head.entry_bytes = sizeof(struct record_entry);
    s->head.alloc_bytes = sizeof(struct record_alloc);
    s->head.name_bytes = sizeof(struct record_name);
    s->head.binding_bytes = sizeof(struct record_binding);
    s->head.hook_count = HOOKS;
    s->head.ring_count = RINGS;
    s->head.ring_entries = ENTRIES;
    s->head.alloc_slots = s->head.name_slots = s->head.binding_slots = SLOTS;
    s->head.hooks_at = offsetof(struct small, hooks);
    s->head.rings_at = offsetof(struct small, rings);
    s->head.allocs_at = offsetof(struct small, allocs);
    s->head.names_at = offsetof(struct small, names);
    s->head.bindings_at = offsetof(struct small, bindings);
    s->head.entries_at = offsetof(struct small, entries);
    s->head.fault.present = s->head.fault.hardware = 1;
    s->head.fault.address = 0x10100;
    s->rings[0].tid = 7;
    s->rings[0].written = 2;
    s->allocs[1].address = 0x10000;
    s->allocs[1].size = 256;
    s->entries[0].state = RECORD_OPEN;
    s->entries[0].kind = RECORD_GEMM;
    s->entries[0].u.gemm = (struct record_gemm){.m = 4,
                                                .n = 4,
                                                .k = 4,
                                                .lda = 4,
                                                .ldb = 4,
                                                .ldc = 4,
                                                .a = 0x10000,
                                                .b = 0x20000,
                                                .c = 0x30000,
                                                .batch = 1};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    if (size > 0 && data[0] == 'm') {
        struct maps maps;
        struct str text = {.p = (const char *)data + 1, .n = size - 1};
        if (maps_parse(a, text, "maps", &maps, NULL) == ST_OK && maps.count > 0) {
            maps_image_offset(&maps, maps.items[maps.count - 1].start);
        }
    } else if (size > 0) {
        struct small *s = arena_alloc(a, sizeof *s);
        fill(s);
        for (size_t at = 1; at + 12 <= size; at += 12) {
            uint32_t offset;
            memcpy(&offset, data + at, sizeof offset);
            memcpy((char *)s + offset % (sizeof *s - 8), data + at + 4, 8);
        }
        /* The first byte also says where the file is cut off. */
        struct str bytes = {.p = (const char *)s, .n = sizeof *s - (size_t)(data[0] & 15) * 97};
        struct record r;
        struct maps maps = {0};
        struct fault_story story;
        if (record_reader_parse(a, bytes, "record", &r, NULL) == ST_OK) {
            fault_join(&r, &maps, &story);
            record_name_of(&r, 1);
            for (size_t i = 0; i < r.event_count; i++) {
                marks_is_done(&r, &r.events[i].entry);
            }
        }
    }
    arena_free(a);
    return 0;
}
