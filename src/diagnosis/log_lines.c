// SPDX-License-Identifier: Apache-2.0
/*
 * From lines to events: each interesting line goes to the event store and to the readers. Start at
 * handle_piece().
 */
#include <math.h>
#include <string.h>

#include "diagnosis/log_reader.h"

enum {
    LINE_CUT = 64 * 1024
};

static void set_context(const struct log_reader *r, struct line_context *c,
                        const struct piece *piece, size_t hit)
{
    size_t n = piece->text.n;
    size_t from = 0;
    size_t to = n;
    if (n > CAPTURE_WINDOW) {
        from = hit > CAPTURE_WINDOW * 3 / 4 ? hit - CAPTURE_WINDOW * 3 / 4 : 0;
        to = from + CAPTURE_WINDOW < n ? from + CAPTURE_WINDOW : n;
    }
    *c = (struct line_context){
        .piece = *piece,
        .window = str_slice(piece->text, from, to),
        .hit = hit,
        .source = r->source,
        .file = r->file_count,
        .kernel = r->kernel,
    };
}

/* The rest of the context: only lines that are of use need their prefix read. */
static void set_prefix(struct log_reader *r, struct line_context *c)
{
    c->prefix = prefix_parse(str_slice(c->piece.text, 0, LINE_CUT), r->year);
    c->rank = c->prefix.rank >= 0 ? c->prefix.rank : r->file_rank;
    run_reader_rank(r->run, c->prefix.rank);
    if (c->prefix.clock == CLOCK_WALL && !(c->prefix.time <= r->moment)) {
        r->moment = c->prefix.time;
    }
    c->moment = r->moment;
}

/* Bit set of the marks among the hits of one piece. */
static unsigned marks_of(const struct log_reader *r, const struct scan_hit *hits, size_t count)
{
    unsigned marks = 0;
    for (size_t i = 0; i < count; i++) {
        marks |= hits[i].id >= r->k->patterns_count ? 1u << (hits[i].id - r->k->patterns_count) : 0;
    }
    return marks;
}

/* Whether a candidate is one. Some marks' readers look at the line themselves. */
static bool matches(struct log_reader *r, const struct line_context *c, size_t id)
{
    const unsigned to_confirm = 1u << MARK_DEATH | 1u << MARK_PHASE | 1u << MARK_END |
                                1u << MARK_KERNEL_FAULT | 1u << MARK_XID | 1u << MARK_ROCR_BLOCK;
    if (id < r->k->patterns_count) {
        return (r->k->patterns[id].logs & r->logs) != 0 && event_store_confirm(r->store, id, c);
    }
    enum scan_mark mark = (enum scan_mark)(id - r->k->patterns_count);
    return (to_confirm & 1u << mark) == 0 || scanner_confirm_mark(r->scanner, mark, c->window);
}

/* Notes for lines of this shape what holds for all of them, and what must be asked again. With
 * hexadecimal numbers only the absence of candidates does. */
static void learn(const struct log_reader *r, struct shape_entry *e, uint16_t id, bool yes)
{
    bool blind = !e->hex && scanner_is_blind(r->scanner, id);
    if (blind && !yes) {
        return;
    }
    if (e->count >= SHAPE_IDS_MAX) {
        e->count = SHAPE_TOO_MANY;
        return;
    }
    e->ask |= (uint16_t)(blind ? 0 : 1u << e->count);
    e->ids[e->count++] = id;
}

/* Keeps of the hits those that match. `fresh` is a new entry for the line's shape, or NULL. */
static size_t confirm_hits(struct log_reader *r, const struct line_context *c,
                           struct scan_hit *hits, size_t count, struct shape_entry *fresh)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool yes = hits[i].known || matches(r, c, hits[i].id);
        if (fresh != NULL) {
            learn(r, fresh, hits[i].id, yes);
        }
        if (yes) {
            hits[kept++] = hits[i];
        }
    }
    return kept;
}

static bool takes_lines(const struct log_reader *r, const struct scan_hit *hit)
{
    if (hit->id >= r->k->patterns_count) {
        return false;
    }
    enum pattern_kind kind = r->k->patterns[hit->id].kind;
    return kind == PATTERN_BENIGN || kind == PATTERN_CLEAR;
}

/* An exception whose message says "no error" or "without failures" is one all the same: drops the
 * hits of all-clears from its line. What is known to be harmless stays so. */
static size_t keep_exception(const struct log_reader *r, const struct line_context *c,
                             struct scan_hit *hits, size_t count)
{
    if ((marks_of(r, hits, count) & 1u << MARK_EXCEPTION) == 0 ||
        !tracebacks_is_exception(c->prefix.body)) {
        return count;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (hits[i].id >= r->k->patterns_count ||
            r->k->patterns[hits[i].id].kind != PATTERN_CLEAR) {
            hits[kept++] = hits[i];
        }
    }
    return kept;
}

/* Patterns: when one that takes lines away matches, only those count. True when it did. */
static bool handle_patterns(struct log_reader *r, const struct line_context *c,
                            const struct scan_hit *hits, size_t count)
{
    bool benign = false;
    for (size_t i = 0; i < count; i++) {
        benign |= takes_lines(r, &hits[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (hits[i].id < r->k->patterns_count && takes_lines(r, &hits[i]) == benign) {
            event_store_hit(r->store, hits[i].id, c);
        }
    }
    return benign;
}

static void handle_marks(struct log_reader *r, const struct line_context *c, unsigned marks,
                         struct shape_entry *shape)
{
    if (marks & 1u << MARK_KERNEL_FAULT) {
        gpu_faults_amdgpu(r->faults, c);
    }
    if (marks & 1u << MARK_XID) {
        gpu_faults_xid(r->faults, c);
    }
    if (marks & 1u << MARK_ROCR_BLOCK) {
        gpu_faults_rocr(r->faults, c);
    }
    if (marks & 1u << MARK_METRIC) {
        run_reader_metrics(r->run, c, shape, shape_cache_arena(r->shapes));
    }
    if (marks & 1u << MARK_PROGRESS) {
        run_reader_progress(r->run, c, shape, shape_cache_arena(r->shapes));
    }
    if (marks & 1u << MARK_PHASE) {
        run_reader_phase(r->run, c);
    }
    if (marks & 1u << MARK_DEATH && !r->kernel) {
        run_reader_death(r->run, c);
    }
    if (marks & 1u << MARK_END) {
        run_reader_end(r->run, c);
    }
    if (marks & 1u << MARK_CHILD) {
        run_reader_child(r->run, c, true);
    } else if (run_reader_wants_lines(r->run)) {
        run_reader_child(r->run, c, false);
    }
    bool head = (marks & 1u << MARK_TRACEBACK) != 0;
    bool named = (marks & 1u << MARK_EXCEPTION) != 0;
    if (head || named || tracebacks_wants_lines(r->tracebacks)) {
        tracebacks_line(r->tracebacks, c, head, named, run_reader_progress_count(r->run));
    }
}

/* What is known of a piece: its candidates, by rising id. */
struct candidates {
    struct scan_hit *hits;
    size_t count;
    struct shape_entry *fresh; /* entry to be filled, or NULL */
    struct shape_entry *shape; /* entry of its shape, or NULL */
    bool line;                 /* it is a whole line, and comes for the first time */
};

/* True when lines of the shape have metrics or a bar at known places; patterns may match beside, but none that
 * takes the line away. */
static bool is_read_by_place(const struct log_reader *r, const struct shape_entry *shape,
                             const struct line_context *c)
{
    const size_t patterns = r->k->patterns_count;
    unsigned marks = 0;
    for (size_t i = 0; i < shape->count; i++) {
        const struct scan_hit hit = {.id = shape->ids[i]};
        if (takes_lines(r, &hit)) {
            return false;
        }
        marks |= hit.id >= patterns ? 1u << (hit.id - patterns) : 0;
    }
    unsigned known = (shape->layout != NULL ? 1u << MARK_METRIC : 0) |
                     (shape->bar != NULL ? 1u << MARK_PROGRESS : 0);
    if (!tracebacks_is_exception(c->prefix.body)) { /* no digit decides that */
        marks &= ~(1u << MARK_EXCEPTION);
    }
    return shape->ask == 0 && marks == known && run_reader_knows_places(shape, c);
}

static void hit_without_prefix(struct log_reader *r, const struct piece *piece, size_t pattern)
{
    struct line_context c;
    set_context(r, &c, piece, piece->text.n);
    c.prefix = (struct prefix){.time = NAN, .rank = -1, .pid = -1, .body = piece->text};
    c.rank = r->file_rank;
    c.moment = r->moment;
    event_store_hit(r->store, pattern, &c);
}

/* The short way through handle_piece() for such a shape, while nobody wants all lines. */
static void handle_by_place(struct log_reader *r, const struct piece *piece,
                            struct shape_entry *shape)
{
    const struct bare_line line = {.piece = *piece,
                                   .source = r->source,
                                   .file = r->file_count,
                                   .rank = r->file_rank,
                                   .moment = r->moment};
    for (size_t i = 0; i < shape->count && shape->ids[i] < r->k->patterns_count; i++) {
        if (!event_store_hit_again(r->store, shape->ids[i], &line)) {
            hit_without_prefix(r, piece, shape->ids[i]);
        }
    }
    run_reader_by_place(r->run, shape, piece, r->file_rank);
}

/*
 * Bars say the same thing over and over, and a long log has millions. After the first LOG_BARS_EXACT of
 * a file one in LOG_BAR_STRIDE is read, and the last before another event; a bar that shows a metric has
 * another mark beside and is always read.
 */
static bool is_passed_over(uint64_t bar)
{
    return bar > LOG_BARS_EXACT && bar % LOG_BAR_STRIDE != 0;
}

static bool passes_over_bar(struct log_reader *r, const struct piece *piece,
                            struct shape_entry *shape)
{
    bool pass = is_passed_over(++r->bars) && !log_reader_wants_lines(r);
    r->waiting_bar.text.p = NULL;
    if (pass) {
        r->waiting_bar = *piece;
        r->waiting_shape = shape;
    }
    return pass;
}

/* What comes before a line is read, of which `ids` match: bars that may be are passed over (false), and the
 * one that waits is read before anything that can end a run. This must not depend on candidates: which of
 * them are known to match, and which not, depends on what is known of shapes. */
static bool begin_line(struct log_reader *r, const struct piece *piece, struct shape_entry *shape,
                       size_t count, size_t first, size_t last, bool wanted)
{
    const uint32_t bar = scanner_mark_id(r->scanner, MARK_PROGRESS);
    if (count == 1 && first == bar) {
        return !passes_over_bar(r, piece, shape);
    }
    if (wanted || (count != 0 && last > bar)) {
        log_line_waiting_bar(r);
    }
    return true;
}

/* One piece; without candidates only when a reader wants every line. */
static void handle_piece(struct log_reader *r, const struct piece *piece,
                         const struct candidates *known)
{
    const bool wanted = log_reader_wants_lines(r);
    struct line_context c;
    if (known->shape != NULL && known->shape->by_place && !wanted) {
        const struct shape_entry *e = known->shape;
        if (!known->line ||
            begin_line(r, piece, known->shape, e->count, e->ids[0], e->ids[e->count - 1], false)) {
            handle_by_place(r, piece, known->shape);
        }
        return;
    }
    struct scan_hit *hits = known->hits;
    size_t hit = known->count != 0 ? hits[0].hit : piece->text.n;
    set_context(r, &c, piece, hit < piece->text.n ? hit : piece->text.n);
    size_t count = confirm_hits(r, &c, hits, known->count, known->fresh);
    if (known->line && !begin_line(r, piece, known->shape, count, count != 0 ? hits[0].id : 0,
                                   count != 0 ? hits[count - 1].id : 0, wanted)) {
        return;
    }
    if (count == 0 && !wanted) {
        return;
    }
    set_prefix(r, &c);
    count = keep_exception(r, &c, hits, count);
    bool benign = handle_patterns(r, &c, hits, count);
    struct shape_entry *shape = known->shape != NULL && !known->shape->hex ? known->shape : NULL;
    handle_marks(r, &c, benign ? 0 : marks_of(r, hits, count), shape);
    if (shape != NULL && known->fresh == NULL) {
        shape->by_place = is_read_by_place(r, shape, &c);
    }
}

/* Of a piece that comes in several windows, each id counts once. */
static size_t drop_repeated(struct log_reader *r, struct scan_hit *hits, size_t count,
                            uint64_t offset)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t *seen = &r->long_piece[hits[i].id];
        if (*seen != offset + 1) {
            *seen = offset + 1;
            hits[kept++] = hits[i];
        }
    }
    return kept;
}

/* The bar that was passed over last is read when something else happens, and at a frame's end. */
void log_line_waiting_bar(struct log_reader *r)
{
    if (r->waiting_bar.text.p == NULL) {
        return;
    }
    struct scan_hit hit = {.hit = (uint32_t)r->waiting_bar.text.n,
                           .id = (uint16_t)scanner_mark_id(r->scanner, MARK_PROGRESS),
                           .known = true};
    struct piece piece = r->waiting_bar;
    r->waiting_bar.text.p = NULL;
    handle_piece(r, &piece,
                 &(struct candidates){.hits = &hit, .count = 1, .shape = r->waiting_shape});
}

void log_line_by_place(struct log_reader *r, const struct piece *piece, struct shape_entry *shape)
{
    if (shape->ids[shape->count - 1] > scanner_mark_id(r->scanner, MARK_PROGRESS)) {
        log_line_waiting_bar(r);
    }
    handle_by_place(r, piece, shape);
}

/* Candidates of a line whose shape has an entry. */
static void from_entry(const struct shape_entry *e, size_t n, struct scan_hit hits[SHAPE_IDS_MAX])
{
    for (size_t i = 0; i < e->count; i++) {
        hits[i] = (struct scan_hit){
            .hit = (uint32_t)n, .id = e->ids[i], .known = (e->ask >> i & 1) == 0};
    }
}

/* The entry of the line's shape when that came up earlier in this batch, else NULL. */
static struct shape_entry *new_shape(const struct log_reader *r, const struct shape_line *line)
{
    if (line->n == 0 || line->n > SHAPE_MAX || !r->by_shape) {
        return NULL;
    }
    return shape_cache_find_new(r->shapes, line);
}

/* What the scanner finds in a line; `shape` is the entry of its shape, or NULL when that is new. */
static enum status scan_line(struct log_reader *r, const struct piece *piece,
                             const struct shape_line *line, struct shape_entry *entry,
                             struct candidates *ret_known, struct err *err)
{
    struct candidates known = {.shape = entry};
    const char *text = r->frame_shapes->text + line->at;
    TRY(scanner_line(r->scanner, piece->text, text, 0, line->n, &known.hits, &known.count, err));
    if (entry == NULL && line->n != 0 && line->n <= SHAPE_MAX && r->by_shape) {
        known.fresh = shape_cache_add(r->shapes, line);
        if (known.fresh != NULL) {
            known.fresh->hex = shapes_have_hex(r->frame_shapes, line->at, line->n);
        }
    }
    *ret_known = known;
    return ST_OK;
}

static enum status read_line(struct log_reader *r, const struct piece *piece,
                             const struct shape_line *line, struct shape_entry *entry,
                             struct err *err)
{
    struct scan_hit stored[SHAPE_IDS_MAX];
    struct candidates known;
    if (entry != NULL && entry->count <= SHAPE_IDS_MAX) {
        from_entry(entry, line->n, stored);
        known = (struct candidates){.hits = stored, .count = entry->count, .shape = entry};
    } else {
        TRY(scan_line(r, piece, line, entry, &known, err));
    }
    if (known.count != 0 || log_reader_wants_lines(r)) {
        known.line = true;
        handle_piece(r, piece, &known);
    }
    return ST_OK;
}

/* A part of a piece that is longer than a frame. Of what two parts have in common, each owns half. */
static enum status read_window(struct log_reader *r, const struct frame *frame,
                               const struct piece *piece, struct err *err)
{
    const size_t half = FRAME_OVERLAP / 2;
    size_t n = piece->text.n;
    bool first = piece->text.p == frame->p;
    size_t from = first && frame->continued && n > half ? half : 0;
    size_t to = frame->unfinished && n > half ? n - half : n;
    struct candidates known = {0};
    const char *shape = r->frame_shapes->text + (piece->text.p - frame->p);
    TRY(scanner_line(r->scanner, piece->text, shape, from, to, &known.hits, &known.count, err));
    known.count = drop_repeated(r, known.hits, known.count, piece->line);
    if (known.count != 0) {
        log_line_waiting_bar(r);
        handle_piece(r, piece, &known);
    }
    return ST_OK;
}

/* One line of a frame; `entry` is that of its shape, as far as it was known before this batch. */
enum status log_line_visit(struct log_reader *r, struct frame_cursor *cursor,
                           const struct shape_line *line, struct shape_entry *entry,
                           struct err *err)
{
    const struct frame *frame = cursor->frame;
    struct piece piece = frame_piece(cursor, line->n);
    if ((line->at == 0 && frame->continued) ||
        (line->at + line->n == frame->n && frame->unfinished)) {
        return read_window(r, frame, &piece, err);
    }
    if (line->n == 0 && !log_reader_wants_lines(r)) {
        return ST_OK;
    }
    entry = entry != NULL ? entry : new_shape(r, line);
    return read_line(r, &piece, line, entry, err);
}
