// SPDX-License-Identifier: Apache-2.0
/* See run_story.h. */
#include "cli/run/story.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/vec.h"

#include "cli/run/library_name.h"
#include "cli/run/rank_calls.h"
#include "cli/run/stack.h"
#include "cli/run/story_convolution.h"
#include "cli/run/story_gpu.h"
#include "cli/run/story_guard.h"
#include "cli/run/story_marks.h"
#include "cli/run/story_page.h"
#include "cli/run/story_signal.h"
#include "facts/elf.h"
#include "recorder/fault_join.h"

/* One line of the table: a function, the library that served it, the library that asked. */
struct use {
    const char *function;
    const char *library;
    const char *caller;
    const char *path; /* of the library; "" when the record does not say */
    uint64_t calls;
    uint64_t nanoseconds;
    bool exact;
};

struct uses {
    struct use *items;
    size_t count;
    size_t capacity;
};

/* ---- libraries ---- */

static const char *library_of(const struct maps *maps, uint64_t address)
{
    const struct mapping *m = maps_find(maps, address);
    return m != NULL && m->path[0] != '\0' ? maps_base_name(m) : "unknown";
}

static const char *path_of(const struct maps *maps, uint64_t address)
{
    const struct mapping *m = maps_find(maps, address);
    return m != NULL ? m->path : "";
}

/* Libraries of one name in two folders are two. */
static struct use *use_of(struct arena *a, struct uses *uses, const char *function,
                          const struct maps *maps, uint64_t real, const char *caller)
{
    const char *library = library_of(maps, real);
    const char *path = path_of(maps, real);
    for (size_t i = 0; i < uses->count; i++) {
        struct use *u = &uses->items[i];
        if (strcmp(u->function, function) == 0 && strcmp(u->library, library) == 0 &&
            strcmp(u->path, path) == 0 && strcmp(u->caller, caller) == 0) {
            return u;
        }
    }
    struct use *u = VEC_PUSH(a, uses);
    *u = (struct use){
        .function = function, .library = library, .path = path, .caller = caller, .exact = true};
    return u;
}

/* The function that served an entry; 0 when the record does not say. */
static uint64_t server_of(const struct record *r, const struct record_entry *e)
{
    uint64_t only = 0;
    bool several = false;
    for (size_t b = 0; b < r->binding_count; b++) {
        const struct record_binding *bind = &r->bindings[b];
        if (bind->hook != e->hook) {
            continue;
        }
        if (e->caller >= bind->caller_low && e->caller < bind->caller_high) {
            return bind->real;
        }
        several = several || (only != 0 && only != bind->real);
        only = bind->real;
    }
    return several ? 0 : only;
}

/* A hook that one library calls and one serves has exact counters; several callers are told apart by
 * the entries that the rings still hold, and what these do not hold any more is a row of its own. */
static void add_hook(struct arena *a, const struct record *r, const struct maps *maps,
                     uint32_t hook, struct uses *uses)
{
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
    for (size_t t = 0; t < r->thread_count; t++) {
        calls += r->threads[t].counts[hook];
        nanoseconds += r->threads[t].nanoseconds[hook];
    }
    if (calls == 0) {
        return;
    }
    const char *name = r->hooks[hook].name;
    const struct record_binding *only = NULL;
    size_t bindings = 0;
    for (size_t i = 0; i < r->binding_count; i++) {
        if (r->bindings[i].hook == hook) {
            only = &r->bindings[i];
            bindings++;
        }
    }
    if (bindings == 1) {
        struct use *u = use_of(a, uses, name, maps, only->real, library_of(maps, only->caller_low));
        u->calls += calls;
        u->nanoseconds += nanoseconds;
        return;
    }
    struct record_entry none = {.hook = (uint16_t)hook};
    for (size_t i = 0; i < r->event_count; i++) {
        const struct record_entry *e = &r->events[i].entry;
        if (e->hook != hook) {
            continue;
        }
        uint64_t took = e->end_ns > e->begin_ns ? e->end_ns - e->begin_ns : 0;
        struct use *u = use_of(a, uses, name, maps, server_of(r, e), library_of(maps, e->caller));
        u->calls++;
        u->nanoseconds += took;
        u->exact = false;
        calls -= calls != 0;
        nanoseconds -= took < nanoseconds ? took : nanoseconds;
    }
    if (calls != 0) {
        struct use *u = use_of(a, uses, name, maps, server_of(r, &none),
                               "earlier calls of several");
        u->calls += calls;
        u->nanoseconds += nanoseconds;
        u->exact = false;
    }
}

static int by_calls(const void *pa, const void *pb)
{
    const struct use *a = pa;
    const struct use *b = pb;
    if (a->calls != b->calls) {
        return a->calls < b->calls ? 1 : -1;
    }
    int order = strcmp(a->library, b->library);
    return order != 0 ? order : strcmp(a->function, b->function);
}

static struct report_table table_of(struct arena *a, struct uses *uses)
{
    static const struct report_column columns[] = {
        {"library", "library", 0}, {"function", "function", 0},     {"caller", "called by", 0},
        {"calls", "calls", 0},     {"seconds", "seconds in it", 3}, {"exact", NULL, 0},
        {"path", NULL, 0, "path"},
    };

    enum {
        COLUMNS = sizeof columns / sizeof *columns
    };

    if (uses->count > 1) {
        qsort(uses->items, uses->count, sizeof *uses->items, by_calls);
    }
    struct library_files files = {0};
    for (size_t i = 0; i < uses->count; i++) {
        if (uses->items[i].path[0] != '\0') {
            library_files_add(a, &files, (struct library_file){.path = uses->items[i].path});
        }
    }
    struct value *cells = arena_array(a, uses->count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < uses->count; i++) {
        const struct use *u = &uses->items[i];
        struct value *row = &cells[i * COLUMNS];
        row[RUN_STORY_LIBRARY] = value_string(
            u->path[0] != '\0' ? library_name(a, (struct library_file){.path = u->path}, &files)
                               : u->library);
        row[RUN_STORY_FUNCTION] = value_string(u->function);
        row[2] = value_string(u->caller);
        row[RUN_STORY_CALLS] = value_int((int64_t)u->calls);
        row[4] = value_real((double)u->nanoseconds * 1e-9);
        row[5] = value_bool(u->exact);
        row[RUN_STORY_PATH] = value_string(u->path);
    }
    return (struct report_table){.key = "libraries",
                                 .heading = "libraries that served the run:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = uses->count};
}

/* ---- processes ---- */

/* A job of several processes: who is which rank, and how far each came. */
static void add_process(struct arena *a, const struct record *r, struct run_story *story)
{
    uint64_t calls = 0;
    for (size_t t = 0; t < r->thread_count; t++) {
        for (uint32_t hook = 0; hook < r->head.hook_count; hook++) {
            if (strcmp(r->hooks[hook].library, "libc") != 0) {
                calls += r->threads[t].counts[hook];
            }
        }
    }
    /* A program that caught its fault and left through exit() ended well. */
    bool fatal = r->head.ending == RECORD_RUNNING && r->head.fault.present != 0;
    struct run_process *p = VEC_PUSH(a, &story->processes);
    *p = (struct run_process){.pid = r->head.pid,
                              .rank = r->head.rank,
                              .program = arena_strdup(a, r->head.program),
                              .calls = calls,
                              .start_ns = r->head.start_monotonic_ns,
                              .end_ns = fatal ? r->head.fault.time_ns : r->head.end_monotonic_ns,
                              .fatal = fatal,
                              .collectives = rank_calls_read(a, r)};
    if (fatal) {
        const char *name = sigabbrev_np(r->head.fault.signal);
        p->end = arena_fmt(a, "signal %s", name != NULL ? name : "?");
    } else if (r->head.ending == RECORD_LEFT) {
        p->end = arena_fmt(a, "left by _exit(%d)", r->head.exit_status);
    } else {
        p->end = r->head.ending == RECORD_EXITED ? "exited" : RUN_STORY_NO_END;
    }
}

static struct report_table processes_of(struct arena *a, const struct run_story *story)
{
    static const struct report_column columns[] = {{"pid", "process", 0},
                                                   {"rank", "rank", 0},
                                                   {"program", "program", 0},
                                                   {"calls", "calls", 0},
                                                   {"end", "end", 0}};

    enum {
        COLUMNS = sizeof columns / sizeof *columns
    };

    struct value *cells = arena_array(a, story->processes.count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < story->processes.count; i++) {
        const struct run_process *p = &story->processes.items[i];
        struct value *row = &cells[i * COLUMNS];
        row[0] = value_int(p->pid);
        if (p->rank >= 0) {
            row[1] = value_int(p->rank);
        }
        const char *slash = strrchr(p->program, '/');
        row[2] = value_string(slash != NULL ? slash + 1 : p->program);
        row[3] = value_int((int64_t)p->calls);
        row[4] = value_string(p->end);
    }
    return (struct report_table){.key = "processes",
                                 .heading = "processes that called them:",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = story->processes.count};
}

/* ---- faults ---- */

static void add_evidence(struct arena *a, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = source, .text = text};
}

static const char *distance_text(struct arena *a, struct fault_place p, const char *what)
{
    switch (p.side) {
    case FAULT_SIDE_INSIDE: return arena_fmt(a, "inside %s", what);
    case FAULT_SIDE_AFTER:
        return arena_fmt(a, "%" PRIu64 " bytes past the end of %s", p.distance, what);
    case FAULT_SIDE_BEFORE:
        return arena_fmt(a, "%" PRIu64 " bytes before the start of %s", p.distance, what);
    default: return arena_fmt(a, "away from %s", what);
    }
}

static const char *signal_text(int number)
{
    const char *name = sigabbrev_np(number);
    return name != NULL ? name : "?";
}

struct process {
    const struct record *r;
    const struct maps *maps;
    const char *source; /* name of its record */
    struct fault_story fault;
    struct text_list frames;
};

static void tell_block(struct arena *a, const struct process *p, struct finding *f)
{
    const struct record_alloc *b = p->fault.block;
    if (b == NULL) {
        return;
    }
    bool live = record_alloc_is_live(p->r, b);
    bool guarded = (b->flags & RECORD_ALLOC_GUARDED) != 0;
    add_evidence(
        a, f, p->source,
        arena_fmt(
            a, "address 0x%" PRIx64 " lies %s, a block of %" PRIu64 " bytes at 0x%" PRIx64 "%s%s",
            p->fault.address, distance_text(a, p->fault.block_place, "it"), b->size, b->address,
            guarded ? ", guarded: the next page is unmapped" : "", live ? "" : ", already freed"));
}

static void tell_stack(struct arena *a, const struct process *p, struct finding *f)
{
    const char *why = NULL;
    const char *phase = run_stack_phase(a, &p->frames, p->fault.thread, &why);
    if (phase != NULL) {
        add_evidence(a, f, p->source, arena_fmt(a, "phase: %s (%s)", phase, why));
    }

    enum {
        SHOWN = 8
    };

    for (size_t i = 0; i < p->frames.count && i < SHOWN; i++) {
        add_evidence(a, f, p->source, arena_fmt(a, "frame %zu: %s", i, p->frames.items[i]));
    }
}

/* Where the function that was called lives, with the build id of the file. */
static const char *served_by(struct arena *a, const struct process *p)
{
    const struct record_entry *e = &p->fault.call->entry;
    for (size_t i = 0; i < p->r->binding_count; i++) {
        const struct record_binding *b = &p->r->bindings[i];
        const struct mapping *m = maps_find(p->maps, b->real);
        if (b->hook != e->hook || e->caller < b->caller_low || e->caller >= b->caller_high ||
            m == NULL) {
            continue;
        }
        struct fs fs = {.prefix = ""};
        struct fs_map map;
        const char *id = NULL;
        if (m->path[0] == '/' && fs_map(&fs, a, m->path, &map, NULL) == ST_OK) {
            struct elf elf;
            struct str bytes = {.p = (const char *)map.p, .n = map.n};
            if (elf_open(a, bytes, m->path, &elf, NULL) == ST_OK && elf.build_id != NULL) {
                id = arena_strdup(a, elf.build_id);
            }
            fs_unmap(&map);
        }
        return id != NULL ? arena_fmt(a, "%s (build id %s)", m->path, id) : m->path;
    }
    return "a library that the record does not name";
}

/* Addresses of the operands, and how they lie in memory. */
static const char *operands_text(struct arena *a, const struct record_entry *e)
{
    if (e->kind == RECORD_CONVOLUTION) {
        const struct record_convolution *c = &e->u.convolution;
        return arena_fmt(a,
                         "%s, x 0x%" PRIx64 ", w 0x%" PRIx64 ", y 0x%" PRIx64
                         ", workspace 0x%" PRIx64 " of %" PRIu64 " bytes",
                         fault_shape_text(a, e), c->x, c->w, c->y, c->workspace,
                         c->workspace_bytes);
    }
    const struct record_gemm *g = &e->u.gemm;
    return arena_fmt(a,
                     "column-major %s, lda %" PRId64 ", ldb %" PRId64 ", ldc %" PRId64
                     ", A 0x%" PRIx64 ", B 0x%" PRIx64 ", C 0x%" PRIx64,
                     fault_shape_text(a, e), g->lda, g->ldb, g->ldc, g->a, g->b, g->c);
}

static void tell_remedies(struct arena *a, const struct record_entry *e, struct finding *f)
{
    if (e->kind == RECORD_CONVOLUTION) {
        run_story_convolution(a, &e->u.convolution, f);
        return;
    }
    *VEC_PUSH(a, &f->remedy) =
        "assay reproduce RUN makes the smallest program of it that fails alone, "
        "for the library's maintainers";
    *VEC_PUSH(a, &f->remedy) = "use another BLAS for this job until the library is mended";
}

/* A fault inside a call whose operands are known: a product or a convolution. */
static void tell_operand_fault(struct arena *a, const struct process *p, struct finding *f)
{
    const struct fault_story *s = &p->fault;
    const struct record_entry *e = &s->call->entry;
    const char *function = p->r->hooks[e->hook].name;
    const char *verb = s->write ? "wrote" : "read";
    const char *kind = e->kind == RECORD_GEMM ? "gemm" : "convolution";
    bool outside = s->operand != 0 && s->operand_place.side != FAULT_SIDE_INSIDE;
    f->layer = "math-library";
    if (outside) {
        f->id = arena_fmt(a, "%s-%s-past-operand", kind, s->write ? "writes" : "reads");
        const char *operand = arena_fmt(a, "operand %c", s->operand);
        f->title = arena_fmt(a, "%s %s %s", function, verb,
                             distance_text(a, s->operand_place, operand));
        f->claim = arena_fmt(
            a,
            "%s %s memory outside operand %c (%" PRIu64
            " bytes) of %s. With other neighbours in memory "
            "the same call may pass for a long time: whether the next page is mapped decides, not the "
            "numbers.",
            function, verb, s->operand, s->operand_bytes, fault_shape_text(a, e));
        f->confidence = s->same_thread ? 0.99 : 0.9;
    } else {
        f->id = arena_fmt(a, "fault-in-%s", kind);
        f->title = arena_fmt(a, "%s met signal %s", function, signal_text(s->signal));
        f->claim = arena_fmt(a, "The process met signal %s inside %s (%s); the address is %s.",
                             signal_text(s->signal), function, fault_shape_text(a, e),
                             s->addressed ? "not at the edge of an operand" : "not known");
        f->confidence = 0.7;
    }
    add_evidence(a, f, p->source,
                 arena_fmt(a, "call in flight: %s, %s", function, operands_text(a, e)));
    add_evidence(a, f, p->source, arena_fmt(a, "served by %s", served_by(a, p)));
    tell_remedies(a, e, f);
}

static void tell_plain_fault(struct arena *a, const struct process *p, struct finding *f)
{
    const struct fault_story *s = &p->fault;
    run_story_signal(a, &p->r->head, s, &p->frames, f);
    if (s->call != NULL) {
        add_evidence(a, f, p->source,
                     arena_fmt(a, "call in flight: %s", p->r->hooks[s->call->entry.hook].name));
    }
}

static void tell_fault(struct arena *a, struct process *p, struct run_story *story)
{
    if (!p->fault.present) {
        return;
    }
    struct finding *f = VEC_PUSH(a, &story->findings);
    *f = (struct finding){.severity = SEVERITY_ERROR};
    run_stack_name(a, &p->r->head.fault, p->maps, &p->frames);
    const struct record_event *call = p->fault.call;
    if (call != NULL &&
        (call->entry.kind == RECORD_GEMM || call->entry.kind == RECORD_CONVOLUTION)) {
        tell_operand_fault(a, p, f);
    } else {
        tell_plain_fault(a, p, f);
    }
    tell_block(a, p, f);
    tell_stack(a, p, f);
    if (p->r->head.ending != RECORD_RUNNING) {
        f->severity = SEVERITY_NOTE;
        f->claim = arena_fmt(a, "%s The program went on and ended by itself.", f->claim);
    }
}

/* ---- the folder ---- */

static void add_record(struct arena *a, const char *folder, const char *name,
                       const struct fault_pages *pages, struct uses *uses, struct run_story *story)
{
    struct err err = {0};
    struct record r = {0};
    struct maps maps = {0};
    const char *record = arena_fmt(a, "%s/%s", folder, name);
    struct stat st;
    if (stat(record, &st) == 0 && st.st_size == 0) {
        story->no_room++;
        return;
    }
    if (record_reader_load(a, record, &r, &err) != ST_OK) {
        *VEC_PUSH(a, &story->notes) = arena_strdup(a, err.text);
        return;
    }
    story->record_count++;
    add_process(a, &r, story);
    struct fs fs = {.prefix = ""};
    struct str text;
    const char *path = arena_fmt(a, "%s/maps.%d", folder, r.head.pid);
    if (fs_read(&fs, a, path, (size_t)64 << 20, &text, &err) != ST_OK ||
        maps_parse(a, text, path, &maps, &err) != ST_OK) {
        *VEC_PUSH(a, &story->notes) = arena_fmt(a, "libraries of process %d cannot be named: %s",
                                                r.head.pid, err.text);
    }
    for (uint32_t hook = 0; hook < r.head.hook_count; hook++) {
        if (strcmp(r.hooks[hook].library, "libc") != 0) {
            add_hook(a, &r, &maps, hook, uses);
        }
    }
    struct process p = {.r = &r, .maps = &maps, .source = name};
    fault_join(&r, &maps, &p.fault);
    tell_fault(a, &p, story);
    run_story_gpu(a, &r, &maps, name, story);
    run_story_page(a, &r, &maps, name, pages, story);
    run_story_marks(a, &r, name, story);
    run_story_guard(a, &r, name, story);
    if (r.head.lost_threads > 0) {
        *VEC_PUSH(a, &story->notes) = arena_fmt(
            a, "%s: %" PRIu64 " threads found no room in the record", name,
            (uint64_t)r.head.lost_threads);
    }
}

enum status run_story_load(struct arena *a, const char *folder, struct run_story *ret_story,
                           struct err *err)
{
    struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    TRY(fs_list(&fs, a, folder, &names, &count, err));
    struct run_story story = {.guard_proven = true};
    struct uses uses = {0};
    struct fault_pages pages;
    fault_pages_read(a, folder, &pages);
    for (size_t i = 0; i < count; i++) {
        struct str name = str_of(names[i]);
        if (str_starts(name, "record.") && str_ends(name, ".bin")) {
            add_record(a, folder, names[i], &pages, &uses, &story);
        }
    }
    for (size_t i = 0; i < uses.count; i++) {
        story.calls += uses.items[i].calls;
    }
    story.libraries = table_of(a, &uses);
    story.process_table = processes_of(a, &story);
    *ret_story = story;
    return ST_OK;
}
