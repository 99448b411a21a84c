// SPDX-License-Identifier: Apache-2.0
/* Open addressing; each time it grows into an arena of its own, so that the old table is given back. */
#include "model/data_seen.h"

#include "base/arena.h"

enum {
    FIRST_SLOTS = 1 << 12
};

struct slot {
    uint64_t hash; /* 0: free */
    struct data_place place;
};

struct data_seen {
    struct arena *own;   /* of this record */
    struct arena *arena; /* of the table */
    struct slot *slots;
    uint64_t mask;
    uint64_t count;
};

struct data_seen *data_seen_new(void)
{
    struct arena *own = arena_new(0);
    struct data_seen *s = arena_alloc(own, sizeof *s);
    s->own = own;
    s->arena = arena_new(0);
    s->slots = arena_array(s->arena, FIRST_SLOTS, sizeof *s->slots);
    s->mask = FIRST_SLOTS - 1;
    return s;
}

void data_seen_free(struct data_seen *s)
{
    if (s != NULL) {
        arena_free(s->arena);
        arena_free(s->own);
    }
}

/* The slot of a hash, or the free one where it belongs. */
static struct slot *slot_of(const struct data_seen *s, uint64_t hash)
{
    uint64_t at = hash & s->mask;
    while (s->slots[at].hash != 0 && s->slots[at].hash != hash) {
        at = (at + 1) & s->mask;
    }
    return &s->slots[at];
}

static uint64_t usable(uint64_t hash)
{
    return hash != 0 ? hash : 1;
}

static void grow(struct data_seen *s)
{
    struct arena *old_arena = s->arena;
    struct slot *old = s->slots;
    uint64_t old_slots = s->mask + 1;
    s->arena = arena_new(0);
    s->slots = arena_array(s->arena, (size_t)old_slots * 2, sizeof *s->slots);
    s->mask = old_slots * 2 - 1;
    for (uint64_t i = 0; i < old_slots; i++) {
        if (old[i].hash != 0) {
            *slot_of(s, old[i].hash) = old[i];
        }
    }
    arena_free(old_arena);
}

bool data_seen_find(const struct data_seen *s, uint64_t hash, struct data_place *ret_place)
{
    const struct slot *slot = slot_of(s, usable(hash));
    if (slot->hash == 0) {
        return false;
    }
    *ret_place = slot->place;
    return true;
}

bool data_seen_add(struct data_seen *s, uint64_t hash, struct data_place place)
{
    if (s->count >= DATA_SEEN_MAX) {
        return false;
    }
    if ((s->count + 1) * 2 > s->mask + 1) {
        grow(s);
    }
    *slot_of(s, usable(hash)) = (struct slot){.hash = usable(hash), .place = place};
    s->count++;
    return true;
}
