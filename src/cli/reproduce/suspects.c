// SPDX-License-Identifier: Apache-2.0
/* See reproduce_suspects.h. */
#include "cli/reproduce/suspects.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/vec.h"

#include "recorder/page_join.h"

#define SMALL_PAGE (UINT64_C(4) << 10)
#define LARGE_PAGE (UINT64_C(2) << 20)

enum {
    MAPS_MAX = 64 << 20,
    LAUNCHED_MAX = 16
};

const char *suspect_reason_name(enum suspect_reason reason)
{
    static const char *const names[SUSPECT_REASON_COUNT] = {
        "a fault happened in it", "had not returned", "was running on the GPU at the fault",
        "was called", "stands in the library's log"};
    return reason < SUSPECT_REASON_COUNT ? names[reason] : "unknown";
}

struct process {
    struct arena *a;
    const char *name; /* of its record */
    struct record r;
    struct maps maps;
    struct suspect_list *list;
};

/* --- equal products ---------------------------------------------------------------------------- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static uint64_t bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

/* Sizes, layout, types and scalars; addresses and streams differ from call to call. */
static int compare_gemm(const struct record_gemm *x, const struct record_gemm *y)
{
    const uint64_t pairs[][2] = {
        {(uint64_t)x->m, (uint64_t)y->m},
        {(uint64_t)x->n, (uint64_t)y->n},
        {(uint64_t)x->k, (uint64_t)y->k},
        {(uint64_t)x->lda, (uint64_t)y->lda},
        {(uint64_t)x->ldb, (uint64_t)y->ldb},
        {(uint64_t)x->ldc, (uint64_t)y->ldc},
        {(uint64_t)x->stride_a, (uint64_t)y->stride_a},
        {(uint64_t)x->stride_b, (uint64_t)y->stride_b},
        {(uint64_t)x->stride_c, (uint64_t)y->stride_c},
        {bits(x->alpha), bits(y->alpha)},
        {bits(x->beta), bits(y->beta)},
        {x->batch, y->batch},
        {x->transpose_a, y->transpose_a},
        {x->transpose_b, y->transpose_b},
        {x->types, y->types},
        {x->epilogue, y->epilogue},
        {x->type_a, y->type_a},
        {x->type_b, y->type_b},
        {x->type_c, y->type_c},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int order = compare_u64(pairs[i][0], pairs[i][1]);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

static int compare_suspects(const void *px, const void *py)
{
    const struct suspect *x = px;
    const struct suspect *y = py;
    int order = strcmp(x->function, y->function);
    order = order != 0 ? order : compare_gemm(&x->gemm, &y->gemm);
    if (order == 0) {
        order = strcmp(x->library != NULL ? x->library : "", y->library != NULL ? y->library : "");
    }
    return order;
}

/* Most frequent first; of equals the smaller product, which is sooner tried. */
static int by_calls(const void *px, const void *py)
{
    const struct suspect *x = px;
    const struct suspect *y = py;
    if (x->calls != y->calls) {
        return x->calls < y->calls ? 1 : -1;
    }
    return compare_suspects(px, py);
}

/* --- one record -------------------------------------------------------------------------------- */

static const char *library_of(const struct process *p, const struct record_entry *e)
{
    for (size_t i = 0; i < p->r.binding_count; i++) {
        const struct record_binding *b = &p->r.bindings[i];
        if (b->hook == e->hook && e->caller >= b->caller_low && e->caller < b->caller_high) {
            const struct mapping *m = maps_find(&p->maps, b->real);
            return m != NULL && m->path[0] == '/' ? m->path : NULL;
        }
    }
    return NULL;
}

static bool is_gpu(const struct process *p, const struct record_entry *e)
{
    return strcmp(p->r.hooks[e->hook].library, "blas") != 0 &&
           strcmp(p->r.hooks[e->hook].library, "onednn") != 0;
}

static const char *runtime_of(const struct process *p)
{
    for (size_t i = 0; i < p->maps.count; i++) {
        const struct mapping *m = &p->maps.items[i];
        struct str name = str_of(maps_base_name(m));
        if (m->path[0] == '/' &&
            (str_starts(name, "libamdhip64.so") || str_starts(name, "libcuda.so"))) {
            return m->path;
        }
    }
    return NULL;
}

/* The item that maintainers lack most: how each operand lay in its block and before which page. */
static void add_layout(struct process *p, struct suspect *s)
{
    const struct {
        char letter;
        uint64_t address;
    } operands[] = {{'A', s->gemm.a}, {'B', s->gemm.b}, {'C', s->gemm.c}};

    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        uint64_t at = operands[i].address;
        uint64_t bytes = fault_operand_bytes(&s->gemm, operands[i].letter);
        const struct record_alloc *b = record_alloc_near(&p->r, at, 0);
        const char *block = "in memory whose allocation was not recorded";
        if (b != NULL && at >= b->address && at - b->address < b->size) {
            uint64_t rest = b->size - (at - b->address);
            block = arena_fmt(p->a,
                              "%" PRIu64 " bytes into a block of %" PRIu64 " bytes at 0x%" PRIx64
                              "%s, %" PRId64 " bytes of it behind the operand",
                              at - b->address, b->size, b->address,
                              (b->flags & RECORD_ALLOC_GUARDED) != 0 ? " (guarded)" : "",
                              (int64_t)(rest - bytes));
        }
        *VEC_PUSH(p->a, &s->layout) = arena_fmt(
            p->a,
            "operand %c: %" PRIu64 " bytes at 0x%" PRIx64 ", %s; its end lies %" PRIu64
            " bytes before a boundary of 4 KiB and %" PRIu64 " before one of 2 MiB",
            operands[i].letter, bytes, at, block, -(at + bytes) % SMALL_PAGE,
            -(at + bytes) % LARGE_PAGE);
    }
}

static struct suspect *add(struct process *p, const struct record_entry *e,
                           enum suspect_reason reason, struct suspect_list *list)
{
    struct suspect *s = VEC_PUSH(p->a, list);
    *s = (struct suspect){.reason = reason,
                          .record = p->name,
                          .function = p->r.hooks[e->hook].name,
                          .family = p->r.hooks[e->hook].library,
                          .library = library_of(p, e),
                          .runtime = is_gpu(p, e) ? runtime_of(p) : NULL,
                          .gemm = e->u.gemm,
                          .begin_ns = e->begin_ns,
                          .calls = 1};
    if (reason != SUSPECT_CALLED) {
        add_layout(p, s);
    }
    return s;
}

static void add_fault(struct process *p)
{
    struct fault_story story;
    fault_join(&p->r, &p->maps, &story);
    if (!story.present || story.call == NULL || story.call->entry.kind != RECORD_GEMM) {
        return;
    }
    struct suspect *s = add(p, &story.call->entry, SUSPECT_FAULT, p->list);
    bool edge = story.operand != 0 && (story.operand_place.side == FAULT_SIDE_AFTER ||
                                       story.operand_place.side == FAULT_SIDE_BEFORE);
    if (edge) {
        s->operand = story.operand;
        s->write = story.write;
        s->before = story.operand_place.side == FAULT_SIDE_BEFORE;
        s->story = arena_fmt(p->a, "%s %" PRIu64 " bytes %s operand %c",
                             story.write ? "wrote" : "read", story.operand_place.distance,
                             s->before ? "before the start of" : "past the end of", s->operand);
    } else {
        s->story = arena_fmt(p->a, "met signal %d", story.signal);
    }
}

/* A fault of a GPU that only a page in the logs tells of, joined to an operand. */
static void add_page(struct process *p, const struct fault_pages *pages)
{
    for (size_t i = 0; i < pages->count && p->r.head.ending != RECORD_EXITED; i++) {
        const struct fault_page *page = &pages->items[i];
        struct page_story story;
        if ((page->pid != 0 && page->pid != (uint64_t)p->r.head.pid) ||
            !page_join(p->a, &p->r, page->page, &story) || story.call == NULL ||
            story.call->entry.kind != RECORD_GEMM || story.letter == 0 ||
            story.operand_place.side == FAULT_SIDE_INSIDE) {
            continue;
        }
        struct suspect *s = add(p, &story.call->entry, SUSPECT_FAULT, p->list);
        s->operand = story.letter;
        s->write = page->write == 1;
        s->before = story.operand_place.side == FAULT_SIDE_BEFORE;
        s->story = arena_fmt(p->a, "touched a page that %s %" PRIu64 " bytes %s operand %c",
                             s->before ? "ends" : "begins", story.operand_place.distance,
                             s->before ? "before the start of" : "past the end of", s->operand);
        return;
    }
}

static void add_in_flight(struct process *p)
{
    for (size_t i = p->r.event_count; i > 0; i--) {
        const struct record_entry *e = &p->r.events[i - 1].entry;
        if (e->kind == RECORD_GEMM && e->state == RECORD_OPEN) {
            add(p, e, SUSPECT_IN_FLIGHT, p->list);
        }
    }
}

/* Products since the last wait that was fine, newest first. A fault of a GPU ends the process by
 * SIGABRT or comes back as an error of a later call. */
static void add_launched(struct process *p)
{
    const struct record_gpu_fault *g = &p->r.head.gpu_fault;
    if (g->present == 0 && p->r.head.fault.present == 0) {
        return;
    }
    size_t added = 0;
    for (size_t i = p->r.event_count; i > 0 && added < LAUNCHED_MAX; i--) {
        const struct record_entry *e = &p->r.events[i - 1].entry;
        if (g->present != 0 && e->begin_ns > g->begin_ns) {
            continue;
        }
        if (e->kind == RECORD_SYNC && e->state == RECORD_CLOSED && e->result == 0) {
            return;
        }
        if (e->kind == RECORD_GEMM && is_gpu(p, e)) {
            add(p, e, SUSPECT_LAUNCHED, p->list);
            added++;
        }
    }
}

static void add_called(struct process *p, struct suspect_list *called)
{
    for (size_t i = 0; i < p->r.event_count; i++) {
        if (p->r.events[i].entry.kind == RECORD_GEMM) {
            add(p, &p->r.events[i].entry, SUSPECT_CALLED, called);
        }
    }
}

static void count_calls(const struct process *p, struct suspects *s)
{
    for (uint32_t hook = 0; hook < p->r.head.hook_count; hook++) {
        for (size_t t = 0; t < p->r.thread_count; t++) {
            if (strcmp(p->r.hooks[hook].library, "libc") != 0) {
                s->calls += p->r.threads[t].counts[hook];
            }
        }
    }
    for (size_t i = 0; i < p->r.event_count; i++) {
        s->gemm_calls += p->r.events[i].entry.kind == RECORD_GEMM;
    }
    s->faulted = s->faulted || p->r.head.fault.present != 0 || p->r.head.gpu_fault.present != 0;
}

static void read_record(struct arena *a, const char *folder, const char *name,
                        const struct fault_pages *pages, struct suspect_list *called,
                        struct suspects *s)
{
    static const struct fs live = {.prefix = ""};
    struct process p = {.a = a, .name = name, .list = &s->list};
    struct err err = {0};
    struct str text;
    if (record_reader_load(a, arena_fmt(a, "%s/%s", folder, name), &p.r, &err) != ST_OK) {
        *VEC_PUSH(a, &s->notes) = arena_strdup(a, err.text);
        return;
    }
    const char *path = arena_fmt(a, "%s/maps.%d", folder, p.r.head.pid);
    if (fs_read(&live, a, path, MAPS_MAX, &text, &err) != ST_OK ||
        maps_parse(a, text, path, &p.maps, &err) != ST_OK) {
        *VEC_PUSH(a, &s->notes) = arena_fmt(a, "libraries of process %d cannot be named: %s",
                                            p.r.head.pid, err.text);
    }
    s->records++;
    count_calls(&p, s);
    add_fault(&p);
    add_page(&p, pages);
    add_in_flight(&p);
    add_launched(&p);
    add_called(&p, called);
}

/* --- all records ------------------------------------------------------------------------------- */

static bool is_listed(const struct suspect_list *list, size_t count, const struct suspect *s)
{
    for (size_t i = 0; i < count; i++) {
        if (compare_suspects(&list->items[i], s) == 0) {
            return true;
        }
    }
    return false;
}

/* Equal products become one with a count, behind those that are suspected for a reason. */
static void merge(struct arena *a, struct suspect_list *called, struct suspects *s)
{
    struct suspect_list one_each = {0};
    if (called->count > 1) {
        qsort(called->items, called->count, sizeof *called->items, compare_suspects);
    }
    for (size_t i = 0; i < called->count; i++) {
        const struct suspect *c = &called->items[i];
        if (one_each.count != 0 && compare_suspects(&one_each.items[one_each.count - 1], c) == 0) {
            one_each.items[one_each.count - 1].calls++;
        } else {
            *VEC_PUSH(a, &one_each) = *c;
        }
    }
    if (one_each.count > 1) {
        qsort(one_each.items, one_each.count, sizeof *one_each.items, by_calls);
    }
    size_t kept = 0;
    for (size_t i = 0; i < s->list.count; i++) {
        const struct suspect suspected = s->list.items[i];
        if (!is_listed(&s->list, kept, &suspected)) {
            s->list.items[kept++] = suspected;
        }
    }
    s->list.count = kept;
    for (size_t i = 0; i < one_each.count; i++) {
        bool known = false;
        for (size_t j = 0; j < kept && !known; j++) {
            known = compare_suspects(&s->list.items[j], &one_each.items[i]) == 0;
            s->list.items[j].calls = known ? one_each.items[i].calls : s->list.items[j].calls;
        }
        if (!known) {
            *VEC_PUSH(a, &s->list) = one_each.items[i];
        }
    }
}

static int by_reason(const void *px, const void *py)
{
    const struct suspect *x = px;
    const struct suspect *y = py;
    if (x->reason != y->reason) {
        return (int)x->reason - (int)y->reason;
    }
    int order = strcmp(x->record, y->record);
    return order != 0 ? order : compare_u64(y->begin_ns, x->begin_ns); /* newest first */
}

enum status suspects_load(struct arena *a, const char *folder, struct suspects *ret_suspects,
                          struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct suspects s = {0};
    struct suspect_list called = {0};
    const char *const *names = NULL;
    size_t count = 0;
    struct fault_pages pages;
    TRY(fs_list(&live, a, folder, &names, &count, err));
    fault_pages_read(a, folder, &pages);
    for (size_t i = 0; i < count; i++) {
        if (str_starts(str_of(names[i]), "record.") && str_ends(str_of(names[i]), ".bin")) {
            read_record(a, folder, names[i], &pages, &called, &s);
        }
    }
    if (s.list.count > 1) {
        qsort(s.list.items, s.list.count, sizeof *s.list.items, by_reason);
    }
    merge(a, &called, &s);
    TRY(suspects_add_logged(a, folder, &s, err));
    *ret_suspects = s;
    return ST_OK;
}
