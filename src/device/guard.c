// SPDX-License-Identifier: Apache-2.0
/*
 * The pool of guarded mappings: placing operands against a hole, canaries in what a hole cannot
 * see, and the count against the system's limit. Whether the device really faults there is not
 * decided here: guard_proof.c shows it.
 */
#include "device/guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"

/* Canaries lie in the slack, and in this many bytes on the mapped side of the operand. */
enum {
    CANARY_FAR_BYTES = 256
};

/* Where a mapping has no holes, a margin full of canaries stands in for them. */
enum {
    CANARY_MARGIN_BYTES = 4096
};

/* Mappings left to everybody else in the process. */
enum {
    MAPPING_RESERVE = 2048
};

/* vm.max_map_count of Linux where it cannot be read. */
enum {
    MAPPING_DEFAULT = 65530
};

struct guard {
    struct arena *arena;
    struct device *device;
    struct guard_region *idle;  /* mapped, not in use */
    struct guard_region *husks; /* records without a mapping, to be used again */
    size_t held;                /* mappings of the system */
    size_t limit;
};

static size_t count_lines(struct str text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text.n; i++) {
        lines += text.p[i] == '\n';
    }
    return lines;
}

/* What vm.max_map_count leaves, given what the process has mapped already. */
static size_t mapping_limit(struct arena *a)
{
    static const struct fs live = {.prefix = ""};
    uint64_t most = MAPPING_DEFAULT;
    struct str text = {0};
    struct arena_mark mark = arena_mark(a);
    if (fs_read_trimmed(&live, a, "/proc/sys/vm/max_map_count", &text, NULL) != ST_OK ||
        str_to_u64(text, 10, &most) != ST_OK) {
        most = MAPPING_DEFAULT;
    }
    uint64_t used = 0;
    if (fs_read(&live, a, "/proc/self/maps", (size_t)64 << 20, &text, NULL) == ST_OK) {
        used = count_lines(text);
    }
    arena_rewind(a, mark);
    uint64_t taken = used + MAPPING_RESERVE;
    return most > taken ? (size_t)(most - taken) : 0;
}

enum status guard_open(struct arena *a, struct device *device, struct guard **ret_guard,
                       struct err *err)
{
    (void)err;
    struct guard *guard = arena_alloc(a, sizeof *guard);
    guard->arena = a;
    guard->device = device;
    guard->limit = mapping_limit(a);
    *ret_guard = guard;
    return ST_OK;
}

static void unmap_idle(struct guard *guard)
{
    while (guard->idle != NULL) {
        struct guard_region *region = guard->idle;
        guard->idle = region->next;
        guard->held -= region->mapping.mappings;
        guard->device->backend->unmap(guard->device, &region->mapping);
        region->next = guard->husks;
        guard->husks = region;
    }
}

void guard_close(struct guard *guard)
{
    if (guard != NULL) {
        unmap_idle(guard);
    }
}

void guard_count(const struct guard *guard, size_t *ret_held, size_t *ret_limit)
{
    *ret_held = guard->held;
    *ret_limit = guard->limit;
}

static enum status map_region(struct guard *guard, size_t bytes, struct guard_region **ret_region,
                              struct err *err)
{
    const struct device_backend *backend = guard->device->backend;
    struct device_mapping mapping;

    enum {
        WORST_MAPPINGS = 3
    };

    if (guard->held + WORST_MAPPINGS > guard->limit) {
        unmap_idle(guard);
    }
    if (guard->held + WORST_MAPPINGS > guard->limit) {
        return err_set(err, ST_LIMIT,
                       "%zu guarded mappings are in use and the system allows about %zu: raise "
                       "vm.max_map_count (sysctl) or use fewer operands at a time",
                       guard->held, guard->limit);
    }
    size_t need = bytes + 2 * (size_t)CANARY_MARGIN_BYTES;
    need = need < bytes ? SIZE_MAX : need;
    bool holes = !guard->device->map_strength_set || guard->device->map_strength == GUARD_FAULT;
    enum status st = backend->map(guard->device, holes ? bytes : need, &mapping, err);
    if (st != ST_OK && guard->idle != NULL && guard->device->event == DEVICE_EVENT_NO_MEMORY) {
        unmap_idle(guard);
        st = backend->map(guard->device, holes ? bytes : need, &mapping, err);
    }
    TRY(st);
    if (mapping.strength < GUARD_FAULT && mapping.bytes < need) {
        /* The back end fell back to memory without holes: room for the canaries is needed. */
        backend->unmap(guard->device, &mapping);
        TRY(backend->map(guard->device, need, &mapping, err));
    }
    struct guard_region *region = guard->husks;
    if (region != NULL) {
        guard->husks = region->next;
    } else {
        region = arena_alloc(guard->arena, sizeof *region);
    }
    *region = (struct guard_region){.guard = guard, .mapping = mapping};
    guard->held += mapping.mappings;
    *ret_region = region;
    return ST_OK;
}

/* The part of a mapping that operands may use. */
static void usable(const struct guard_region *region, char **ret_base, size_t *ret_bytes)
{
    *ret_base = region->mapping.base;
    *ret_bytes = region->mapping.bytes;
    if (region->mapping.strength < GUARD_FAULT) {
        *ret_base += CANARY_MARGIN_BYTES;
        *ret_bytes -= 2 * (size_t)CANARY_MARGIN_BYTES;
    }
}

enum status guard_region_take(struct guard *guard, size_t capacity_bytes,
                              struct guard_region **ret_region, struct err *err)
{
    size_t granule = guard->device->info.granule_bytes;
    granule = granule == 0 ? 1 : granule;
    if (capacity_bytes > SIZE_MAX / 4) {
        return err_set(err, ST_LIMIT, "%zu bytes are more than any device has", capacity_bytes);
    }
    size_t want = capacity_bytes == 0 ? 1 : capacity_bytes;
    want = (want + granule - 1) / granule * granule;
    for (struct guard_region **link = &guard->idle; *link != NULL; link = &(*link)->next) {
        char *base;
        size_t bytes;
        usable(*link, &base, &bytes);
        /* A somewhat larger mapping serves as well; a much larger one is kept for its own kind. */
        if (bytes >= want && bytes / 2 <= want) {
            struct guard_region *region = *link;
            *link = region->next;
            region->next = NULL;
            *ret_region = region;
            return ST_OK;
        }
    }
    return map_region(guard, want, ret_region, err);
}

void guard_region_give(struct guard *guard, struct guard_region *region)
{
    if (region != NULL) {
        region->next = guard->idle;
        guard->idle = region;
    }
}

/* --- canaries ---------------------------------------------------------------------------------- */

/* Depends on the place, so that a shifted copy of canaries is damage too. */
static void canary_bytes(size_t from, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = (uint8_t)(0xa5U ^ ((from + i) * 29U));
    }
}

/* The bytes behind (END) or before (BEGIN) an operand that belong to nobody. */
static void canary_span(const struct guard_block *block, enum guard_side side, char **ret_from,
                        size_t *ret_n)
{
    char *base = block->region->mapping.base;
    char *end = base + block->region->mapping.bytes;
    char *first = block->address;
    char *behind = first + block->bytes;
    size_t most = CANARY_FAR_BYTES;
    if (side == block->side) {
        most = block->strength < GUARD_FAULT ? CANARY_MARGIN_BYTES : block->slack;
    }
    if (block->strength == GUARD_NONE) {
        most = 0;
    }
    size_t room = side == GUARD_END ? (size_t)(end - behind) : (size_t)(first - base);
    *ret_n = room < most ? room : most;
    *ret_from = side == GUARD_END ? behind : first - *ret_n;
}

void guard_span(const struct guard_block *block, void **ret_from, size_t *ret_before,
                size_t *ret_behind)
{
    char *from;
    canary_span(block, GUARD_END, &from, ret_behind);
    canary_span(block, GUARD_BEGIN, &from, ret_before);
    *ret_from = from;
}

void guard_span_plant(const struct guard_block *block, void *copy)
{
    void *from;
    size_t before;
    size_t behind;
    guard_span(block, &from, &before, &behind);
    canary_bytes((uintptr_t)from, before, copy);
    canary_bytes((uintptr_t)block->address + block->bytes, behind,
                 (uint8_t *)copy + before + block->bytes);
}

static enum status plant_canaries(struct guard *guard, const struct guard_block *block,
                                  struct err *err)
{
    uint8_t canary[CANARY_MARGIN_BYTES];
    for (int side = 0; side < GUARD_SIDE_COUNT; side++) {
        char *from;
        size_t n;
        canary_span(block, (enum guard_side)side, &from, &n);
        canary_bytes((uintptr_t)from, n, canary);
        TRY(device_write(guard->device, from, canary, n, err));
    }
    return ST_OK;
}

/* Adds one side's damage to *damage; the nearest byte to the operand wins. */
static void compare_canaries(const uint8_t *seen, const uint8_t *wanted, size_t n,
                             enum guard_side side, struct guard_damage *damage)
{
    for (size_t i = 0; i < n; i++) {
        if (seen[i] == wanted[i]) {
            continue;
        }
        size_t distance = side == GUARD_END ? i : n - 1 - i;
        if (!damage->damaged || distance < damage->distance) {
            damage->side = side;
            damage->distance = distance;
        }
        damage->damaged = true;
        damage->count++;
    }
}

void guard_span_check(const struct guard_block *block, const void *copy,
                      struct guard_damage *ret_damage)
{
    uint8_t wanted[CANARY_MARGIN_BYTES];
    struct guard_damage damage = {0};
    void *from;
    size_t before;
    size_t behind;
    guard_span(block, &from, &before, &behind);
    const uint8_t *seen = copy;
    canary_bytes((uintptr_t)block->address + block->bytes, behind, wanted);
    compare_canaries(seen + before + block->bytes, wanted, behind, GUARD_END, &damage);
    canary_bytes((uintptr_t)from, before, wanted);
    compare_canaries(seen, wanted, before, GUARD_BEGIN, &damage);
    *ret_damage = damage;
}

enum status guard_check(struct guard *guard, const struct guard_block *block,
                        struct guard_damage *ret_damage, struct err *err)
{
    uint8_t wanted[CANARY_MARGIN_BYTES];
    uint8_t seen[CANARY_MARGIN_BYTES];
    struct guard_damage damage = {0};
    for (int side = 0; side < GUARD_SIDE_COUNT; side++) {
        char *from;
        size_t n;
        canary_span(block, (enum guard_side)side, &from, &n);
        canary_bytes((uintptr_t)from, n, wanted);
        TRY(device_read(guard->device, seen, from, n, err));
        compare_canaries(seen, wanted, n, (enum guard_side)side, &damage);
    }
    *ret_damage = damage;
    return ST_OK;
}

/* --- blocks ------------------------------------------------------------------------------------ */

enum status guard_take(struct guard *guard, size_t bytes, enum guard_side side, size_t alignment,
                       struct guard_block *ret_block, struct err *err)
{
    size_t granule = guard->device->info.granule_bytes;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 ||
        (granule != 0 && alignment > granule)) {
        return err_set(err, ST_USAGE,
                       "an alignment of %zu was asked for; it must be a power of two and at most "
                       "%zu, the granule of the device",
                       alignment, granule);
    }
    struct guard_region *region;
    TRY(guard_region_take(guard, bytes, &region, err));
    char *base;
    size_t room;
    usable(region, &base, &room);
    uintptr_t first = (uintptr_t)base;
    if (side == GUARD_END) {
        first = ((uintptr_t)base + room - bytes) & ~(uintptr_t)(alignment - 1);
    }
    *ret_block = (struct guard_block){
        .address = (void *)first,
        .bytes = bytes,
        .side = side,
        .alignment = alignment,
        .slack = side == GUARD_END ? (uintptr_t)base + room - bytes - first : 0,
        .strength = region->mapping.strength,
        .region = region,
    };
    return ST_OK;
}

enum status guard_alloc(struct guard *guard, size_t bytes, enum guard_side side, size_t alignment,
                        struct guard_block *ret_block, struct err *err)
{
    struct guard_block block;
    TRY(guard_take(guard, bytes, side, alignment, &block, err));
    enum status st = plant_canaries(guard, &block, err);
    if (st != ST_OK) {
        guard_region_give(guard, block.region);
        return st;
    }
    *ret_block = block;
    return ST_OK;
}

void guard_free(struct guard *guard, struct guard_block *block)
{
    if (block->region != NULL) {
        guard_region_give(guard, block->region);
        block->region = NULL;
    }
}

uint32_t guard_poison_pattern(unsigned which)
{
    return which % GUARD_POISON_COUNT == 0 ? 0xffffffffU : 0x7fffffffU;
}

enum status guard_poison(struct guard *guard, const struct guard_block *block, unsigned which,
                         struct err *err)
{
    return device_fill(guard->device, block->address, guard_poison_pattern(which), block->bytes,
                       err);
}

bool guard_distance(const struct guard_block *block, uint64_t address, size_t reach,
                    int64_t *ret_distance)
{
    uint64_t first = (uintptr_t)block->address;
    uint64_t behind = first + block->bytes;
    if (address >= behind && address - behind < reach) {
        *ret_distance = (int64_t)(address - behind);
        return true;
    }
    if (address < first && first - address <= reach) {
        *ret_distance = -(int64_t)(first - address);
        return true;
    }
    return false;
}

const char *guard_strength_name(enum guard_strength strength)
{
    static const char *const names[GUARD_STRENGTH_COUNT] = {"none", "canary", "fault"};
    return strength < GUARD_STRENGTH_COUNT ? names[strength] : "unknown";
}

const char *guard_side_name(enum guard_side side)
{
    return side == GUARD_BEGIN ? "begin" : "end";
}
