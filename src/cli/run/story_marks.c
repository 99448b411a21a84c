// SPDX-License-Identifier: Apache-2.0
/* See run_story_marks.h. */
#include "cli/run/story_marks.h"

#include <inttypes.h>

#include "base/vec.h"

#include "recorder/fault_join.h"
#include "recorder/kernel_name.h"
#include "recorder/marks.h"

enum {
    NEXT_SHOWN = 3
};

const char *run_story_work_text(struct arena *a, const struct record *r,
                                const struct record_entry *e)
{
    const char *function = r->hooks[e->hook].name;
    if (e->kind == RECORD_GEMM || e->kind == RECORD_CONVOLUTION) {
        return arena_fmt(a, "%s %s", function, fault_shape_text(a, e));
    }
    if (e->kind == RECORD_PLAN) {
        return arena_fmt(a, "%s of plan 0x%" PRIx64, function, e->u.plan.plan);
    }
    if (e->kind == RECORD_COPY || e->kind == RECORD_SET) {
        return arena_fmt(a, "%s of %" PRIu64 " bytes", function, e->u.memory.size);
    }
    const char *kernel = record_name_of(r, e->u.launch.function);
    return kernel != NULL ? arena_fmt(a, "kernel %s", kernel_name(a, kernel))
                          : arena_fmt(a, "a kernel without a name, launched by %s", function);
}

static const struct record_entry *numbered(const struct record *r, uint32_t row, uint32_t number)
{
    for (size_t i = r->event_count; i > 0; i--) {
        const struct record_entry *e = &r->events[i - 1].entry;
        if (e->stream_number == number && e->mark_row == row) {
            return e;
        }
    }
    return NULL;
}

const struct record_entry *run_story_marks_stopped(const struct record *r, size_t first, size_t end)
{
    const struct record_entry *stopped = NULL;
    if (r->head.marks_state != RECORD_MARKS_ON || r->head.marks_every != 1 ||
        r->head.marks_streams_lost != 0) {
        return NULL;
    }
    for (size_t i = first; i < end; i++) {
        const struct record_entry *e = &r->events[i].entry;
        if (marks_of(r, e) == NULL || marks_is_done(r, e)) {
            continue;
        }
        if (stopped != NULL && stopped->mark_row != e->mark_row) {
            return NULL;
        }
        if (stopped == NULL || e->stream_number < stopped->stream_number) {
            stopped = e;
        }
    }
    return stopped;
}

/* One stream as a sentence; NULL when all that was put on it is done. */
static const char *stream_text(struct arena *a, const struct record *r, uint32_t row)
{
    const struct record_mark *m = &r->head.marks[row];
    const struct record_entry *last = numbered(r, row, m->completed);
    struct strbuf out;
    if (m->completed >= m->issued) {
        return NULL;
    }
    strbuf_init(&out, a, 8000);
    strbuf_fmt(&out, "stream 0x%" PRIx64 ": %u calls, ", m->stream, (unsigned)m->issued);
    if (m->completed == 0) {
        strbuf_addz(&out, "none of them known to have completed");
    } else {
        strbuf_fmt(&out, "the last that completed is number %u (%s)", (unsigned)m->completed,
                   last != NULL ? run_story_work_text(a, r, last) : "older than the record holds");
    }
    strbuf_fmt(&out, "; %s", r->head.marks_every == 1 ? "next: " : "one of these is next: ");
    uint32_t shown = 0;
    uint32_t most = r->head.marks_every > NEXT_SHOWN ? r->head.marks_every : NEXT_SHOWN;
    for (uint32_t n = m->completed + 1; n <= m->issued && shown < most && shown < 16;
         n++, shown++) {
        const struct record_entry *e = numbered(r, row, n);
        strbuf_fmt(&out, "%s%u %s", shown > 0 ? ", " : "", n,
                   e != NULL ? run_story_work_text(a, r, e) : "(not on record)");
    }
    return out.p;
}

static void note_state(struct arena *a, const struct record *r, const char *source,
                       struct run_story *story)
{
    const struct record_header *h = &r->head;
    if (h->marks_state == RECORD_MARKS_MISSING) {
        *VEC_PUSH(a, &story->notes) = arena_fmt(
            a, "%s: no progress marks: the driver has no function that writes from a stream",
            source);
    } else if (h->marks_state == RECORD_MARKS_REFUSED) {
        *VEC_PUSH(a, &story->notes) = arena_fmt(
            a, "%s: no progress marks: the driver refused them with error %d", source,
            h->marks_code);
    }
    if (h->marks_streams_lost != 0) {
        *VEC_PUSH(a, &story->notes) = arena_fmt(
            a, "%s: progress marks tell of %d streams; there were more", source, RECORD_MARKS);
    }
}

void run_story_marks(struct arena *a, const struct record *r, const char *source,
                     struct run_story *story)
{
    const struct record_header *h = &r->head;
    struct evidence_list evidence = {0};
    note_state(a, r, source, story);
    bool ended_well = h->ending == RECORD_EXITED && h->gpu_fault.present == 0;
    if (h->marks_state != RECORD_MARKS_ON || ended_well) {
        return;
    }
    size_t streams = 0;
    for (uint32_t row = 0; row < RECORD_MARKS && h->marks[row].present != 0; row++) {
        const char *text = stream_text(a, r, row);
        streams++;
        if (text != NULL) {
            *VEC_PUSH(a, &evidence) = (struct evidence){.source = source, .text = text};
        }
    }
    struct finding *f = VEC_PUSH(a, &story->findings);
    *f = (struct finding){
        .id = "gpu-progress", .severity = SEVERITY_NOTE, .confidence = 1, .evidence = evidence};
    f->title = evidence.count == 0
                   ? "the GPU had completed every call that was put on its streams"
                   : arena_fmt(a, "%zu of %zu streams of the GPU stand still before their end",
                               evidence.count, streams);
    f->claim =
        evidence.count == 0
            ? "What stopped the process is on the host, or in a call that has no number."
            : "Marks that the GPU writes behind its calls: what follows the last one that was "
              "written had not completed when the process was last looked at.";
}
