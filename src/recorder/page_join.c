// SPDX-License-Identifier: Apache-2.0
/* See page_join.h. */
#include "recorder/page_join.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"

/* As in fault_join.c: the widest tiles seen over-read by some kilobytes. */
#define NEAR_BYTES UINT64_C(65536)

enum {
    TAIL_BYTES = 4 << 20,
    REGIONS_MAX = 32
};

/* ---- what logs tell ---- */

/* Hexadecimal digits, with the underscore that NVIDIA's driver puts in their middle. */
static bool read_address(struct str s, uint64_t *ret)
{
    uint64_t value = 0;
    size_t digits = 0;
    if (!str_starts(s, "0x")) {
        return false;
    }
    for (size_t i = 2; i < s.n && digits <= 16; i++) {
        char c = s.p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0 && c == '_') {
            continue;
        }
        if (digit < 0) {
            break;
        }
        value = value << 4 | (uint64_t)digit;
        digits++;
    }
    *ret = value;
    return digits > 0 && digits <= 16 && value != 0;
}

static uint64_t number_behind(struct str line, const char *word)
{
    size_t at = str_find(line, word, 0);
    uint64_t value = 0;
    at = at != SIZE_MAX ? at + strlen(word) : line.n;
    for (size_t digits = 0; at < line.n && line.p[at] >= '0' && line.p[at] <= '9' && digits < 10;
         at++, digits++) {
        value = value * 10 + (uint64_t)(line.p[at] - '0');
    }
    return value;
}

static void add_page(struct arena *a, struct str line, const char *source, uint64_t address,
                     struct fault_pages *pages)
{
    uint64_t page = address & ~(uint64_t)(PAGE_BYTES - 1);
    for (size_t i = 0; i < pages->count; i++) {
        if (pages->items[i].page == page) {
            return;
        }
    }
    if (pages->count == FAULT_PAGES_MAX) {
        return;
    }
    bool read_only = str_has(line, "ACCESS_TYPE_VIRT_READ");
    bool write = str_has(line, "ACCESS_TYPE_VIRT_WRITE") || str_has(line, "Write access to");
    pages->items[pages->count++] = (struct fault_page){
        .page = page,
        .pid = str_has(line, "NVRM: Xid") ? number_behind(line, "pid=") : 0,
        .source = source,
        .line = str_dup(a, str_slice(line, 0, line.n < 300 ? line.n : 300)),
        .write = write       ? 1
                 : read_only ? 0
                             : -1};
}

void fault_pages_scan(struct arena *a, struct str text, const char *source,
                      struct fault_pages *pages)
{
    /* ROCr; amdgpu; HIP's block of a queue error, in two forms; NVIDIA's driver. */
    static const char *const words[] = {" on address ", "in page starting at address ",
                                        "faulting_addr=", "faulting addr: ", " faulted @ "};
    struct str line;
    while (str_cut_line(&text, &line)) {
        for (size_t i = 0; i < ARRAY_LEN(words); i++) {
            size_t at = str_find(line, words[i], 0);
            uint64_t address;
            if (at == SIZE_MAX || (i == 0 && !str_has(line, "ccess fault by GPU"))) {
                continue;
            }
            if (read_address(str_slice(line, at + strlen(words[i]), line.n), &address)) {
                add_page(a, line, source, address, pages);
            }
        }
        /* "RW: 0x1" of amdgpu's block is of the page told last. */
        size_t at = str_find(line, " RW: 0x", 0);
        if (at != SIZE_MAX && at + 7 < line.n && pages->count > 0 &&
            pages->items[pages->count - 1].write < 0) {
            pages->items[pages->count - 1].write = line.p[at + 7] == '1';
        }
    }
}

/* The last bytes of a file; a first line that was cut in two tells nothing wrong. */
static struct str tail_of(struct arena *a, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct str text = {.p = "", .n = 0};
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (size > 0) {
        off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
        char *bytes = arena_alloc(a, (size_t)(size - from));
        ssize_t n = pread(fd, bytes, (size_t)(size - from), from);
        text = (struct str){.p = bytes, .n = n > 0 ? (size_t)n : 0};
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

void fault_pages_read(struct arena *a, const char *folder, struct fault_pages *ret_pages)
{
    static const char *const logs[] = {"kernel.log", "stderr.log", "stdout.log"};
    ret_pages->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        fault_pages_scan(a, tail_of(a, arena_fmt(a, "%s/%s", folder, logs[i])), logs[i], ret_pages);
    }
}

/* ---- blocks ---- */

static struct fault_place place_of_page(uint64_t page, uint64_t start, uint64_t bytes)
{
    if (bytes == 0 || start + bytes < start) {
        return (struct fault_place){FAULT_SIDE_NONE, 0};
    }
    if (page >= start + bytes) {
        return (struct fault_place){FAULT_SIDE_AFTER, page - start - bytes};
    }
    if (page + PAGE_BYTES <= start) {
        return (struct fault_place){FAULT_SIDE_BEFORE, start - page - PAGE_BYTES};
    }
    return (struct fault_place){FAULT_SIDE_INSIDE, 0};
}

/* A block that holds the page before one that is near it, a live one before a freed one. */
static void find_block(const struct record *r, uint64_t page, struct page_story *s)
{
    int best = -1;
    for (size_t i = 0; i < r->alloc_count; i++) {
        const struct record_alloc *b = &r->allocs[i];
        struct fault_place p = place_of_page(page, b->address, b->size);
        if (p.side == FAULT_SIDE_NONE || p.distance > NEAR_BYTES) {
            continue;
        }
        int rank = (p.side == FAULT_SIDE_INSIDE ? 2 : 0) + (record_alloc_is_live(r, b) ? 1 : 0);
        if (rank > best || (rank == best && p.distance < s->block_place.distance)) {
            best = rank;
            s->block = b;
            s->block_place = p;
        }
    }
}

static const struct record_alloc *block_holding(const struct record *r, uint64_t address)
{
    for (size_t i = 0; i < r->alloc_count; i++) {
        const struct record_alloc *b = &r->allocs[i];
        if (address >= b->address && address - b->address < b->size) {
            return b;
        }
    }
    return NULL;
}

/* ---- calls ---- */

struct region {
    const char *name;
    char letter;
    uint64_t start, bytes;
};

/* A pointer without a size reaches to the end of its block. */
static size_t add_pointer(const struct record *r, struct region *regions, size_t n,
                          const char *name, uint64_t at)
{
    const struct record_alloc *b = at != 0 && n < REGIONS_MAX ? block_holding(r, at) : NULL;
    if (b == NULL) {
        return n;
    }
    regions[n] = (struct region){name, 0, at, b->size - (at - b->address)};
    return n + 1;
}

static size_t regions_of_memory(const struct record_entry *e, struct region *ret)
{
    const struct record_memory *m = &e->u.memory;
    ret[0] = (struct region){"destination", 0, m->address, m->size};
    ret[1] = (struct region){"source", 0, m->source, m->size};
    return e->kind == RECORD_COPY ? 2 : 1;
}

static size_t regions_of_pointers(struct arena *a, const struct record *r,
                                  const struct record_entry *e, struct region *ret)
{
    const struct record_launch *l = &e->u.launch;
    size_t n = 0;
    if (e->kind == RECORD_COLLECTIVE) {
        n = add_pointer(r, ret, n, "what is sent", e->u.collective.send);
        return add_pointer(r, ret, n, "what is received", e->u.collective.receive);
    }
    bool plan = e->kind == RECORD_PLAN;
    size_t kept = plan ? RECORD_PLAN_POINTERS : ARRAY_LEN(l->arguments);
    size_t told = plan ? e->u.plan.pointer_count : l->argument_bytes / 8;
    for (size_t i = 0; i < told && i < kept; i++) {
        uint64_t at = plan ? e->u.plan.pointers[i] : l->arguments[i];
        n = add_pointer(r, ret, n, arena_fmt(a, "%s %zu", plan ? "operand" : "argument", i), at);
    }
    return n;
}

static size_t regions_of(struct arena *a, const struct record *r, const struct record_entry *e,
                         struct region *ret)
{
    const struct record_gemm *g = &e->u.gemm;
    const struct record_convolution *c = &e->u.convolution;
    switch ((enum record_kind)e->kind) {
    case RECORD_GEMM:
        ret[0] = (struct region){"operand A", 'A', g->a, fault_operand_bytes(g, 'A')};
        ret[1] = (struct region){"operand B", 'B', g->b, fault_operand_bytes(g, 'B')};
        ret[2] = (struct region){"operand C", 'C', g->c, fault_operand_bytes(g, 'C')};
        ret[3] = (struct region){"the output", 'C', g->d, fault_operand_bytes(g, 'C')};
        return g->d != g->c ? 4 : 3;
    case RECORD_CONVOLUTION:
        ret[0] = (struct region){"operand x", 'x', c->x, c->x_bytes};
        ret[1] = (struct region){"operand w", 'w', c->w, c->w_bytes};
        ret[2] = (struct region){"operand y", 'y', c->y, c->y_bytes};
        ret[3] = (struct region){"the workspace", 0, c->workspace, c->workspace_bytes};
        return 4;
    case RECORD_COPY:
    case RECORD_SET: return regions_of_memory(e, ret);
    case RECORD_LAUNCH:
    case RECORD_PLAN:
    case RECORD_COLLECTIVE: return regions_of_pointers(a, r, e, ret);
    default: return 0;
    }
}

size_t page_join_first_running(const struct record *r, size_t end)
{
    for (size_t i = end; i > 0; i--) {
        const struct record_entry *e = &r->events[i - 1].entry;
        if (e->kind == RECORD_SYNC && e->state == RECORD_CLOSED && e->result == 0) {
            return i;
        }
    }
    return 0;
}

/* hipBLAS hands its product to rocBLAS: both are on record, and are one. */
static bool encloses(const struct record_event *outer, const struct record_event *inner)
{
    return inner != NULL && outer->ring == inner->ring && outer->entry.depth < inner->entry.depth &&
           outer->entry.begin_ns <= inner->entry.begin_ns &&
           (outer->entry.end_ns == 0 || outer->entry.end_ns >= inner->entry.begin_ns);
}

/* The nearest edge; of equal ones the call that came last. Inside of an operand the page is mapped, unless its
 * block was freed. */
static void find_operand(struct arena *a, const struct record *r, uint64_t page,
                         struct page_story *s)
{
    uint64_t best = NEAR_BYTES + 1;
    size_t first = page_join_first_running(r, r->event_count);
    bool freed = s->block != NULL && s->block_place.side == FAULT_SIDE_INSIDE &&
                 !record_alloc_is_live(r, s->block);
    for (size_t i = r->event_count; i > first; i--) {
        const struct record_event *e = &r->events[i - 1];
        struct region regions[REGIONS_MAX];
        size_t n = regions_of(a, r, &e->entry, regions);
        bool counted = false;
        for (size_t k = 0; k < n; k++) {
            struct fault_place p = place_of_page(page, regions[k].start, regions[k].bytes);
            if (p.side == FAULT_SIDE_NONE || (p.side == FAULT_SIDE_INSIDE && !freed) ||
                p.distance > best || p.distance > NEAR_BYTES) {
                continue;
            }
            if (p.distance < best) {
                best = p.distance;
                s->call = e;
                s->operand = regions[k].name;
                s->letter = regions[k].letter;
                s->operand_bytes = regions[k].bytes;
                s->operand_place = p;
                s->calls = 0;
                counted = false;
            }
            s->calls += counted || encloses(e, s->call) ? 0 : 1;
            counted = true;
        }
    }
}

bool page_join(struct arena *a, const struct record *r, uint64_t page, struct page_story *ret_story)
{
    *ret_story = (struct page_story){.operand = ""};
    find_block(r, page, ret_story);
    find_operand(a, r, page, ret_story);
    return ret_story->block != NULL || ret_story->call != NULL;
}
