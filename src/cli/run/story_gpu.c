// SPDX-License-Identifier: Apache-2.0
/* See run_story_gpu.h. */
#include "cli/run/story_gpu.h"

#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

#include "cli/run/story_convolution.h"
#include "cli/run/story_marks.h"
#include "recorder/fault_join.h"
#include "recorder/marks.h"
#include "recorder/page_join.h"

enum {
    SHOWN = 8
};

static const char *error_text(int code)
{
    switch (code) {
    case 214: return "uncorrectable ECC error";
    case 700: return "illegal memory access";
    case 701: return "launch out of resources";
    case 710: return "assertion in a kernel";
    case 714: return "hardware stack error";
    case 715: return "illegal instruction";
    case 716: return "misaligned address";
    case 717: return "invalid address space";
    case 718: return "invalid program counter";
    default: return "launch failure";
    }
}

static bool is_work(const struct record_entry *e)
{
    return e->kind == RECORD_LAUNCH || e->kind == RECORD_GEMM || e->kind == RECORD_CONVOLUTION ||
           e->kind == RECORD_PLAN;
}

static const struct record_alloc *block_at(const struct record *r, uint64_t address)
{
    for (size_t i = 0; i < r->alloc_count; i++) {
        const struct record_alloc *b = &r->allocs[i];
        if (b->address <= address && address - b->address < b->size &&
            (b->flags & RECORD_ALLOC_GUARDED) != 0) {
            return b;
        }
    }
    return NULL;
}

struct argument {
    const char *name;
    uint64_t at;
};

/* What a call was given to read and write; as many as fit. */
static size_t arguments_of(struct arena *a, const struct record_entry *e, struct argument *ret,
                           size_t most)
{
    const struct record_gemm *g = &e->u.gemm;
    const struct record_convolution *c = &e->u.convolution;
    const struct argument of_gemm[] = {
        {"operand A", g->a}, {"operand B", g->b}, {"operand C", g->c}, {"bias", g->bias}};
    const struct argument of_convolution[] = {
        {"x", c->x}, {"w", c->w}, {"y", c->y}, {"workspace", c->workspace}};
    size_t n = 0;
    if (e->kind == RECORD_GEMM || e->kind == RECORD_CONVOLUTION) {
        for (; n < 4 && n < most; n++) {
            ret[n] = e->kind == RECORD_GEMM ? of_gemm[n] : of_convolution[n];
        }
        return n;
    }
    bool plan = e->kind == RECORD_PLAN;
    const uint64_t *values = plan ? e->u.plan.pointers : e->u.launch.arguments;
    size_t kept = plan ? RECORD_PLAN_POINTERS
                       : sizeof e->u.launch.arguments / sizeof *e->u.launch.arguments;
    size_t told = plan ? e->u.plan.pointer_count : e->u.launch.argument_bytes / 8;
    for (; n < told && n < kept && n < most; n++) {
        ret[n] = (struct argument){arena_fmt(a, "%s %zu", plan ? "operand" : "argument", n),
                                   values[n]};
    }
    return n;
}

/* Arguments that point into guarded blocks: the access left one of them. */
static void tell_arguments(struct arena *a, const struct record *r, const struct record_entry *e,
                           const char *source, struct finding *f)
{
    struct argument given[32];
    size_t n = is_work(e) ? arguments_of(a, e, given, sizeof given / sizeof *given) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct record_alloc *b = block_at(r, given[i].at);
        if (b != NULL) {
            *VEC_PUSH(a, &f->evidence) = (struct evidence){
                .source = source,
                .text = arena_fmt(a,
                                  "%s: tensor of %" PRIu64 " bytes at 0x%" PRIx64
                                  ", guarded: behind its end nothing is mapped",
                                  given[i].name, b->size, b->address)};
        }
    }
}

static void tell_work(struct arena *a, const struct record *r, const struct maps *maps,
                      size_t first, size_t end, const char *source, struct finding *f)
{
    size_t told = 0;
    const char *last = NULL;
    const struct record_entry *only = NULL; /* the last one told */
    const struct record_entry *stopped = run_story_marks_stopped(r, first, end);
    for (size_t i = end; i > first; i--) {
        const struct record_entry *e = &r->events[i - 1].entry;
        if (stopped != NULL ? e != stopped : !is_work(e) || marks_is_done(r, e)) {
            continue;
        }
        if (last == NULL) {
            last = run_story_work_text(a, r, e);
        }
        if (told < SHOWN) {
            const struct mapping *m = maps_find(maps, e->caller);
            *VEC_PUSH(a, &f->evidence) = (struct evidence){
                .source = source,
                .text = arena_fmt(a, "%s: %s, from %s",
                                  stopped != NULL ? "stopped in"
                                  : told == 0     ? "launched last"
                                                  : "launched before it",
                                  run_story_work_text(a, r, e),
                                  m != NULL ? maps_base_name(m) : "unknown")};
            tell_arguments(a, r, e, source, f);
        }
        only = e;
        told++;
    }
    bool known = told == 1;
    const char *error = error_text(r->head.gpu_fault.code);
    f->title = last == NULL ? arena_fmt(a, "GPU: %s", error)
               : known      ? arena_fmt(a, "%s: %s", last, error)
                       : arena_fmt(a, "%s in one of the last %zu kernels, the last one %s", error,
                                   told, last);
    f->claim = arena_fmt(
        a,
        "%s returned error %d (%s). %s Every later call of the process repeats the error, whatever it "
        "does.",
        r->hooks[r->head.gpu_fault.hook].name, r->head.gpu_fault.code, error,
        stopped != NULL
            ? "By the marks of the GPU every call before it had completed, and it had not."
        : known
            ? "One kernel had been launched since the device was last at rest, so it is the one."
            : "Errors of kernels come late: the ones listed had been launched since the device was "
              "last known to be at rest.");
    f->confidence = known ? 0.95 : 0.6;
    if (known && only->kind == RECORD_CONVOLUTION) {
        run_story_convolution(a, &only->u.convolution, f);
    }
    if (!known) {
        *VEC_PUSH(a, &f->remedy) =
            "assay run --guard --serialize -- COMMAND: one kernel at a time, and "
            "the one at fault is known";
    }
}

void run_story_gpu(struct arena *a, const struct record *r, const struct maps *maps,
                   const char *source, struct run_story *story)
{
    const struct record_gpu_fault *g = &r->head.gpu_fault;
    if (g->present == 0 || g->hook >= r->head.hook_count) {
        return;
    }
    size_t end = r->event_count;
    for (size_t i = 0; i < r->event_count; i++) {
        const struct record_event *e = &r->events[i];
        if (e->ring == g->ring && e->entry.begin_ns == g->begin_ns) {
            /* A launch that reports the error may be the one at fault (serialised), or the next. */
            end = i + (is_work(&e->entry) ? 1 : 0);
        }
    }
    struct finding *f = VEC_PUSH(a, &story->findings);
    *f = (struct finding){.id = g->code == 700 ? "gpu-illegal-access" : "gpu-kernel-fault",
                          .layer = "math-library",
                          .severity = SEVERITY_ERROR};
    tell_work(a, r, maps, page_join_first_running(r, end), end, source, f);
}
