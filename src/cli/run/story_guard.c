// SPDX-License-Identifier: Apache-2.0
/* See story_guard.h. */
#include "cli/run/story_guard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static void add_evidence(struct arena *a, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = source, .text = text};
}

/* ---- did the products run on guarded blocks? ---- */

static int by_address(const void *pa, const void *pb)
{
    const struct record_alloc *a = *(const struct record_alloc *const *)pa;
    const struct record_alloc *b = *(const struct record_alloc *const *)pb;
    return a->address < b->address ? -1 : a->address > b->address;
}

static bool is_inside(const struct record_alloc **blocks, size_t count, uint64_t address)
{
    size_t low = 0;
    size_t high = count; /* the last block that begins at or before the address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blocks[middle]->address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && address - blocks[low - 1]->address < blocks[low - 1]->size;
}

/* Of the products that the rings still hold. A block that was freed and its address used again counts as guarded. */
static void count_products(struct arena *a, const struct record *r, struct run_story *story)
{
    struct arena_mark mark = arena_mark(a);
    const struct record_alloc **blocks = arena_array(a, r->alloc_count + 1, sizeof *blocks);
    size_t count = 0;
    for (size_t i = 0; i < r->alloc_count; i++) {
        if ((r->allocs[i].flags & RECORD_ALLOC_GUARDED) != 0) {
            blocks[count++] = &r->allocs[i];
        }
    }
    if (count > 1) {
        qsort(blocks, count, sizeof *blocks, by_address);
    }
    for (size_t i = 0; i < r->event_count; i++) {
        const struct record_entry *e = &r->events[i].entry;
        const struct record_gemm *g = &e->u.gemm;
        if (e->kind == RECORD_GEMM && g->types == RECORD_TYPES_OURS) {
            story->products++;
            story->products_guarded += is_inside(blocks, count, g->a) ||
                                       is_inside(blocks, count, g->b) ||
                                       is_inside(blocks, count, g->c);
        }
    }
    arena_rewind(a, mark);
}

/* ---- the guard of one process ---- */

void run_story_guard(struct arena *a, const struct record *r, const char *source,
                     struct run_story *story)
{
    const struct record_header *h = &r->head;
    if (h->guard == RECORD_GUARD_PROVEN || h->guard == RECORD_GUARD_FULL) {
        count_products(a, r, story);
    }
    story->guarded_blocks += h->guarded_blocks;
    story->blocks_met += h->guarded_blocks > 1 ? h->guarded_blocks - 1 : 0;
    story->gpu_guarded_blocks += h->gpu_guarded_blocks;
    if (h->guard == RECORD_GUARD_UNPROVEN) {
        story->guard_proven = false;
        struct finding *f = VEC_PUSH(a, &story->findings);
        *f = (struct finding){.id = "guard-not-proven",
                              .severity = SEVERITY_UNKNOWN,
                              .title = "the guard did not catch a planted over-read",
                              .claim = "Guard memory was asked for, and reading one byte past a "
                                       "guarded block did not fault in this process: nothing was "
                                       "guarded, and a run without a fault proves nothing.",
                              .confidence = 1};
        add_evidence(a, f, source, "start-up proof failed");
    }
    if (h->guard == RECORD_GUARD_FOREIGN) {
        story->guard_proven = false;
        struct finding *f = VEC_PUSH(a, &story->findings);
        *f = (struct finding){.id = "guard-not-proven",
                              .severity = SEVERITY_UNKNOWN,
                              .title = "the program brings its own memory functions: not guarded",
                              .claim = "Its free() is not the one that the recorder sees (a static "
                                       "jemalloc or tcmalloc, or a sanitizer), so guarded blocks "
                                       "would be given back to somebody who does not know them. "
                                       "Nothing was guarded in this process.",
                              .confidence = 1};
        add_evidence(a, f, source, "free is defined by the program itself");
    }
    if (h->guard == RECORD_GUARD_FULL &&
        h->guarded_blocks <= 1) { /* the proof's own block at most */
        story->guard_proven = false;
        struct finding *f = VEC_PUSH(a, &story->findings);
        *f = (struct finding){
            .id = "guard-not-proven",
            .severity = SEVERITY_UNKNOWN,
            .title = "the guard found no room: nothing was guarded",
            .claim = "Not one block of this process could be placed at a hole, so a "
                     "run without a fault proves nothing.",
            .confidence = 1};
        add_evidence(a, f, source, "no guarded block");
    } else if (h->guard == RECORD_GUARD_FULL) {
        *VEC_PUSH(a, &story->notes) = arena_fmt(
            a,
            "%s: the guard reached the limit on mappings after %" PRIu64
            " blocks; later ones were not guarded (raise vm.max_map_count, or use "
            "--guard-every or --guard-min)",
            source, (uint64_t)h->guarded_blocks);
    }
    if (h->canary_hits > 0) {
        struct finding *f = VEC_PUSH(a, &story->findings);
        *f = (struct finding){
            .id = "write-past-block",
            .severity = SEVERITY_ERROR,
            .title = "something wrote past the end of a block",
            .claim = "The bytes between the end of a block and the end of its page "
                     "were changed before it was freed. They hold nothing, so no "
                     "number shows it; on other layouts the same write damages a "
                     "neighbour.",
            .confidence = 0.95};
        add_evidence(a, f, source,
                     arena_fmt(a, "%" PRIu64 " blocks; the first changed byte was at 0x%" PRIx64,
                               (uint64_t)h->canary_hits, h->canary_address));
    }
}
