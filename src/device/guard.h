// SPDX-License-Identifier: Apache-2.0
/*
 * Guard memory: an operand whose last byte is the last byte before an unmapped hole (GUARD_END), or
 * whose first byte is the first after one (GUARD_BEGIN). An access of one element too far faults.
 *
 * Alignment costs sight: an operand of 6 bytes aligned to 4 ends 2 bytes before the hole. That
 * slack holds canaries, so that writes into it are seen by guard_check(); reads in it are not, and
 * guard_block.slack says how many bytes stay blind.
 *
 * Mappings are kept in a pool by size and reused; holes stay for the life of the pool. The count of
 * mappings is held against vm.max_map_count and refused before the system refuses.
 *
 * Nothing here may be believed before guard_prove() has caught a planted fault on this device.
 */
#ifndef ASSAY_DEVICE_GUARD_H
#define ASSAY_DEVICE_GUARD_H

#include "base/arena.h"
#include "base/err.h"

#include "device/device.h"

enum guard_side {
    GUARD_END = 0,
    GUARD_BEGIN,
    GUARD_SIDE_COUNT
};

struct guard; /* the pool of one device */

/* Opens an empty pool on the device; it lives in `a`. */
enum status guard_open(struct arena *a, struct device *device, struct guard **ret_guard,
                       struct err *err) MUST_USE;

/* Unmaps everything. NULL is fine. */
void guard_close(struct guard *guard);

struct guard_block {
    void *address;
    size_t bytes;
    enum guard_side side;
    size_t alignment;
    size_t slack; /* blind bytes between the operand and the hole */
    enum guard_strength strength;
    struct guard_region *region;
};

/* One guarded operand. `alignment` is a power of two, at most the granule; 1 for none. Size 0 gives
 * an address in the hole. The content is undefined; slack is canaried. */
enum status guard_alloc(struct guard *guard, size_t bytes, enum guard_side side, size_t alignment,
                        struct guard_block *ret_block, struct err *err) MUST_USE;

/* The same without the canaries, for callers that copy them together with the operand: see below. */
enum status guard_take(struct guard *guard, size_t bytes, enum guard_side side, size_t alignment,
                       struct guard_block *ret_block, struct err *err) MUST_USE;

/* Gives the mapping back to the pool. */
void guard_free(struct guard *guard, struct guard_block *block);

/* A mapping to place operands of many sizes in, one after another, without a call to the system:
 * for loops of small problems on the CPU. */
struct guard_region {
    struct guard *guard;
    struct device_mapping mapping;
    struct guard_region *next; /* the pool's list */
};

enum status guard_region_take(struct guard *guard, size_t capacity_bytes,
                              struct guard_region **ret_region, struct err *err) MUST_USE;
void guard_region_give(struct guard *guard, struct guard_region *region);

/* Where an operand lies in the region; bytes must not exceed region->mapping.bytes. No canaries. */
static inline void *guard_place(const struct guard_region *region, size_t bytes,
                                enum guard_side side, size_t alignment)
{
    char *base = region->mapping.base;
    if (side == GUARD_BEGIN) {
        return base; /* granules are aligned to more than any operand */
    }
    uintptr_t end = (uintptr_t)(base + region->mapping.bytes);
    return (void *)((end - bytes) & ~(uintptr_t)(alignment - 1));
}

/* What the canaries around a block say. */
struct guard_damage {
    bool damaged;
    enum guard_side side; /* behind (END) or before (BEGIN) the operand */
    size_t distance;      /* bytes from the operand's edge to the nearest damaged byte; 0 = next */
    size_t count;         /* damaged bytes seen */
};

/* Reads the slack back. */
enum status guard_check(struct guard *guard, const struct guard_block *block,
                        struct guard_damage *ret_damage, struct err *err) MUST_USE;

/* The span of a block: *ret_before bytes of canaries, the operand, *ret_behind bytes of canaries, one
 * behind another from *ret_from on. One copy of it carries all three. */
void guard_span(const struct guard_block *block, void **ret_from, size_t *ret_before,
                size_t *ret_behind);

/* Writes the canaries into a host copy of the span. */
void guard_span_plant(const struct guard_block *block, void *copy);

/* What guard_check() says, from a copy of the span that was read back. */
void guard_span_check(const struct guard_block *block, const void *copy,
                      struct guard_damage *ret_damage);

/* Two NaN patterns: an element that still holds one was not written. With both, run after run, an
 * output that is a NaN of its own is told from one that was forgotten. Each is a NaN as float64,
 * float32, float16, bfloat16 and OCP's 8-bit formats (not in AMD's fnuz forms, whose NaN is 0x80):
 * 0xffffffff and 0x7fffffff repeated. */
enum {
    GUARD_POISON_COUNT = 2
};

uint32_t guard_poison_pattern(unsigned which);
enum status guard_poison(struct guard *guard, const struct guard_block *block, unsigned which,
                         struct err *err) MUST_USE;

/* Mappings of the system that this pool holds, and how many it may. */
void guard_count(const struct guard *guard, size_t *ret_held, size_t *ret_limit);

/* --- which operand an address belongs to ------------------------------------------------------ */

/* Distance in bytes of `address` from the block: negative before its first byte, 0 or more counted
 * from the first byte behind its last; false when it lies inside or farther than `reach` away. */
bool guard_distance(const struct guard_block *block, uint64_t address, size_t reach,
                    int64_t *ret_distance);

/* --- the proof --------------------------------------------------------------------------------- */

enum guard_proof_case {
    GUARD_PROOF_CLEAN = 0, /* the planted kernel without its fault must pass */
    GUARD_PROOF_READ_END,
    GUARD_PROOF_READ_BEGIN,
    GUARD_PROOF_WRITE_END,
    GUARD_PROOF_WRITE_BEGIN,
    GUARD_PROOF_CASE_COUNT
};

struct guard_proof {
    bool reads_proven;  /* over-reads are caught on both sides */
    bool writes_proven; /* over-writes are caught on both sides (by a fault or a canary) */
    enum guard_strength strength;
    unsigned path;         /* what to set device->map_path to, to get what was proven */
    const char *path_name; /* "virtual memory"; static text */

    struct {
        bool caught; /* for CLEAN: passed */
        char how[200];
    } cases[GUARD_PROOF_CASE_COUNT];

    char sentence[400]; /* for the reader: what is proven, or why nothing is */
};

struct guard_proof_options {
    const struct device_options *device_options;
    unsigned deadline_ms; /* for each case; 0: 60 s (first context of a GPU is slow) */
    /* Test hook: open guards of this strength instead of what the device can. */
    bool force_strength;
    enum guard_strength strength;
};

/* Plants a read and a write of one element past both sides, each in a child of its own, with
 * elements of 4 bytes, way after way of the back end until one is proven. Unless `reads_proven`, no
 * result about over-reads means anything. Fails only when children cannot be made. */
enum status guard_prove(enum device_kind kind, int index, const struct guard_proof_options *options,
                        struct guard_proof *ret_proof, struct err *err) MUST_USE;

const char *guard_strength_name(enum guard_strength strength);
const char *guard_side_name(enum guard_side side); /* "end", "begin" */
const char *guard_proof_case_name(enum guard_proof_case which);

#endif
