// SPDX-License-Identifier: Apache-2.0
/* See story_page.h. */
#include "cli/run/story_page.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "cli/run/story_convolution.h"
#include "cli/run/story_marks.h"
#include "cli/run/story_signal.h"

static void add_evidence(struct arena *a, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = source, .text = text};
}

/* "0 bytes past the end of operand B". */
static const char *place_text(struct arena *a, struct fault_place p, const char *what)
{
    return p.side == FAULT_SIDE_AFTER
               ? arena_fmt(a, "begins %" PRIu64 " bytes past the end of %s", p.distance, what)
           : p.side == FAULT_SIDE_BEFORE
               ? arena_fmt(a, "ends %" PRIu64 " bytes before the start of %s", p.distance, what)
               : arena_fmt(a, "lies inside %s", what);
}

static void tell_block(struct arena *a, const struct record *r, const struct page_story *s,
                       const char *source, struct finding *f)
{
    const struct record_alloc *b = s->block;
    if (b == NULL) {
        return;
    }
    add_evidence(a, f, source,
                 arena_fmt(a, "the page %s of %" PRIu64 " bytes at 0x%" PRIx64 "%s%s",
                           place_text(a, s->block_place, "a block"), b->size, b->address,
                           (b->flags & RECORD_ALLOC_GUARDED) != 0
                               ? ", guarded: behind its end nothing is mapped"
                               : "",
                           record_alloc_is_live(r, b) ? "" : ", already freed"));
}

/* An edge of an operand: the fault of a tile that is wider than its operand. */
static void tell_operand(struct arena *a, const struct record *r, const struct maps *maps,
                         const struct page_story *s, int write, struct finding *f)
{
    const struct record_entry *e = &s->call->entry;
    const char *verb = write == 1 ? "wrote" : write == 0 ? "read" : "touched";
    const char *kind = e->kind == RECORD_GEMM          ? "gemm"
                       : e->kind == RECORD_CONVOLUTION ? "convolution"
                                                       : "gpu";
    const struct mapping *m = maps_find(maps, e->caller);
    bool sized = s->letter != 0;
    f->layer = "math-library";
    f->id = arena_fmt(a, "%s-%s-past-operand", kind,
                      write == 1   ? "writes"
                      : write == 0 ? "reads"
                                   : "reaches");
    f->title = arena_fmt(a, "%s: the page of the GPU's fault %s", r->hooks[e->hook].name,
                         place_text(a, s->operand_place, s->operand));
    f->claim = arena_fmt(
        a,
        "The GPU %s a page that %s (%" PRIu64
        " bytes) of %s. %s With other neighbours in memory the same "
        "call may pass for a long time: whether the next page is mapped decides, not the numbers.",
        verb, place_text(a, s->operand_place, s->operand), s->operand_bytes,
        run_story_work_text(a, r, e),
        s->calls == 1
            ? "Of the calls that may still have been running no other has an operand as near."
            : "It is the last of several calls with an operand as near.");
    f->confidence = (sized ? 0.9 : 0.7) - (s->calls > 1 ? 0.15 : 0);
    add_evidence(a, f, "",
                 arena_fmt(a, "call: %s, from %s", run_story_work_text(a, r, e),
                           m != NULL ? maps_base_name(m) : "unknown"));
    if (e->kind == RECORD_GEMM) {
        *VEC_PUSH(a, &f->remedy) =
            "assay reproduce RUN makes the smallest program of it that fails alone, for the library's "
            "maintainers";
    } else if (e->kind == RECORD_CONVOLUTION) {
        run_story_convolution(a, &e->u.convolution, f);
    } else {
        *VEC_PUSH(a, &f->remedy) =
            "assay run --guard --serialize -- COMMAND: one kernel at a time, and the "
            "one at fault is known";
    }
}

static void tell_memory(struct arena *a, const struct record *r, const struct page_story *s,
                        struct finding *f)
{
    f->layer = "application";
    if (s->block != NULL && !record_alloc_is_live(r, s->block) &&
        s->block_place.side == FAULT_SIDE_INSIDE) {
        f->id = "gpu-use-after-free";
        f->title = "the page of the GPU's fault lies in memory that had been freed";
        f->claim =
            "Work that was still queued, or a pointer that was kept, reached a block after the program had "
            "given it back: an order between streams is missing, or a buffer lives too short.";
        f->confidence = 0.7;
        *VEC_PUSH(a,
                  &f->remedy) = "tensor.record_stream(stream) for memory that another stream uses; "
                                "PYTORCH_NO_CUDA_MEMORY_CACHING=1 and --serialize as the control";
    } else if (s->block_place.side == FAULT_SIDE_INSIDE) {
        f->id = "gpu-fault-in-live-memory";
        f->layer = "kernel-driver";
        f->title = "the page of the GPU's fault lies inside a block that the program still held";
        f->claim =
            "Nothing was read past an end: a page that should have been mapped was not. Eviction, migration "
            "(XNACK, SVM, managed memory) or the driver's page tables are the suspects, not the kernel that ran.";
        f->confidence = 0.6;
        *VEC_PUSH(a, &f->remedy) =
            "read the kernel log around the fault: evictions and restores of amdgpu, resets, Xid";
    } else {
        f->id = "gpu-fault-past-block";
        f->layer = "math-library";
        f->title = arena_fmt(a, "the page of the GPU's fault %s",
                             place_text(a, s->block_place, "a block"));
        f->claim =
            "A kernel left the memory that it was given. Which call it was is not on record: none that may "
            "still have been running has an operand there.";
        f->confidence = 0.65;
        *VEC_PUSH(a, &f->remedy) =
            "assay run --guard --serialize -- COMMAND: one kernel at a time, and the "
            "one at fault is known";
    }
}

static bool told_already(const struct run_story *story)
{
    for (size_t i = 0; i < story->findings.count; i++) {
        if (str_ends(str_of(story->findings.items[i].id), "-past-operand")) {
            return true;
        }
    }
    return false;
}

/* ROCr ends the process with SIGABRT after it has told of the fault: that is no cause of its own. */
static void explain_abort(const struct record *r, const char *source, struct run_story *story)
{
    if (r->head.fault.present == 0 || r->head.fault.signal != SIGABRT) {
        return;
    }
    for (size_t i = 0; i < story->findings.count; i++) {
        struct finding *f = &story->findings.items[i];
        if (run_story_is_signal(f->id) && f->evidence.count > 0 &&
            strcmp(f->evidence.items[0].source, source) == 0) {
            f->severity = SEVERITY_NOTE;
            f->title = "signal ABRT: the runtime ends the process after a fault of the GPU";
        }
    }
}

void run_story_page(struct arena *a, const struct record *r, const struct maps *maps,
                    const char *source, const struct fault_pages *pages, struct run_story *story)
{
    bool ended_well = r->head.ending == RECORD_EXITED && r->head.gpu_fault.present == 0;
    const struct fault_page *page = NULL;
    struct page_story best = {0};
    for (size_t i = 0; i < pages->count && !ended_well && best.call == NULL; i++) {
        const struct fault_page *p = &pages->items[i];
        struct page_story s;
        if ((p->pid != 0 && p->pid != (uint64_t)r->head.pid) || !page_join(a, r, p->page, &s)) {
            continue;
        }
        if (page == NULL || s.call != NULL) {
            page = p;
            best = s;
        }
    }
    if (pages->count > 0) {
        explain_abort(r, source, story);
    }
    if (page == NULL || told_already(story)) {
        return;
    }
    struct finding *f = VEC_PUSH(a, &story->findings);
    *f = (struct finding){.severity = SEVERITY_ERROR};
    if (best.call != NULL && best.operand_place.side != FAULT_SIDE_INSIDE) {
        tell_operand(a, r, maps, &best, page->write, f);
    } else {
        tell_memory(a, r, &best, f);
    }
    for (size_t i = 0; i < f->evidence.count; i++) {
        f->evidence.items[i].source = source;
    }
    tell_block(a, r, &best, source, f);
    add_evidence(a, f, page->source, page->line);
}
