// SPDX-License-Identifier: Apache-2.0
/*
 * From frames to events: each interesting line goes to the event store and to the readers. Start at
 * handle_piece().
 */
#include <math.h>
#include <string.h>

#include "diagnosis/log_reader.h"

enum {
    LINE_CUT = 64 * 1024,
    SNIFF_LINES = 12,
    BINARY_SAMPLE = 2048,
    BARS_EXACT = 4096,
    BAR_STRIDE = 8,
    LINES_AHEAD = 64 /* lines whose shapes are looked up together */
};

/* A kernel log given as a training log: most of its first lines have the kernel's form. */
static void sniff(struct log_reader *r, const struct frame *frame)
{
    r->sniffed = true;
    struct str text = {.p = frame->p, .n = frame->n < 8192 ? frame->n : 8192};
    struct str line;
    int lines = 0;
    int kernel = 0;
    while (lines < SNIFF_LINES && str_cut_line(&text, &line)) {
        if (line.n != 0) {
            lines++;
            struct prefix p = prefix_parse(line, r->year);
            kernel += p.kernel;
            if (p.clock == CLOCK_WALL && isnan(r->first_time)) {
                r->first_time = p.time;
            }
        }
    }
    if (kernel * 2 > lines) {
        r->logs = LOG_TRAIN | LOG_KERNEL;
        r->kernel = true;
    }
    r->has_kernel |= r->kernel;
    r->has_train |= !r->kernel;
}

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

static bool wants_lines(const struct log_reader *r)
{
    return tracebacks_wants_lines(r->tracebacks) || run_reader_wants_lines(r->run);
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
        run_reader_progress(r->run, c);
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
};

/* One piece; without candidates only when a reader wants every line. */
static void handle_piece(struct log_reader *r, const struct piece *piece,
                         const struct candidates *known)
{
    struct line_context c;
    struct scan_hit *hits = known->hits;
    size_t hit = known->count != 0 ? hits[0].hit : piece->text.n;
    set_context(r, &c, piece, hit < piece->text.n ? hit : piece->text.n);
    size_t count = confirm_hits(r, &c, hits, known->count, known->fresh);
    if (count == 0 && !wants_lines(r)) {
        return;
    }
    set_prefix(r, &c);
    count = keep_exception(r, &c, hits, count);
    bool benign = handle_patterns(r, &c, hits, count);
    struct shape_entry *shape = known->shape != NULL && !known->shape->hex ? known->shape : NULL;
    handle_marks(r, &c, benign ? 0 : marks_of(r, hits, count), shape);
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

static void remember_last(struct log_reader *r, const struct frame *frame)
{
    struct str text = {.p = frame->p, .n = frame->n};
    while (text.n != 0 && strchr(" \n\t", text.p[text.n - 1]) != NULL && text.p[text.n - 1] != 0) {
        text.n--;
    }
    if (text.n == 0) {
        return;
    }
    const char *newline = memrchr(text.p, '\n', text.n);
    struct str piece = str_slice(text, newline != NULL ? (size_t)(newline - text.p) + 1 : 0,
                                 text.n);
    piece = str_slice(piece, 0, sizeof r->last);
    memcpy(r->last, piece.p, piece.n);
    r->last_n = piece.n;
}

/* Bytes of the beginning of a frame that no text has: a log of them is a binary file. */
static void count_binary(struct log_reader *r, const struct frame *frame)
{
    size_t n = frame->n < BINARY_SAMPLE ? frame->n : BINARY_SAMPLE;
    size_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)frame->p[i];
        odd += (c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != 0x1b && c != '\b' &&
                c != '\f') ||
               c == 0x7f;
    }
    r->sampled += n;
    r->sampled_binary += odd;
}

/* The bar that was passed over last is read when something else happens, and at a frame's end. */
static void read_waiting_bar(struct log_reader *r)
{
    if (r->waiting_bar.text.p == NULL) {
        return;
    }
    struct scan_hit hit = {.hit = (uint32_t)r->waiting_bar.text.n,
                           .id = (uint16_t)scanner_mark_id(r->scanner, MARK_PROGRESS),
                           .known = true};
    struct piece piece = r->waiting_bar;
    r->waiting_bar.text.p = NULL;
    handle_piece(r, &piece, &(struct candidates){.hits = &hit, .count = 1});
}

/*
 * Bars say the same thing over and over, and a long log has millions. After the first BARS_EXACT of
 * a file one in BAR_STRIDE is read, and the last before another event; a bar that shows a metric has
 * another mark beside and is always read.
 */
static bool is_passed_over(uint64_t bar)
{
    return bar > BARS_EXACT && bar % BAR_STRIDE != 0;
}

static bool passes_over_bar(struct log_reader *r, const struct piece *piece)
{
    bool pass = is_passed_over(++r->bars) && !wants_lines(r);
    r->waiting_bar.text.p = NULL;
    if (pass) {
        r->waiting_bar = *piece;
    }
    return pass;
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
    const struct line_shape shape = {
        .text = r->frame_shapes->text + line->at, .n = line->n, .hash = line->hash};
    return shape_cache_find_new(r->shapes, &shape);
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
        const struct line_shape shape = {.text = text, .n = line->n, .hash = line->hash};
        known.fresh = shape_cache_add(r->shapes, &shape);
        if (known.fresh != NULL) {
            known.fresh->hex = shapes_have_hex(r->frame_shapes, line->at, line->n);
        }
    }
    *ret_known = known;
    return ST_OK;
}

/* A line with what is known of it: to the readers, when it is of use to one. */
static void read_known(struct log_reader *r, const struct piece *piece, struct candidates *known)
{
    bool wanted = wants_lines(r);
    if (known->count == 0 && !wanted) {
        return;
    }
    uint32_t bar = scanner_mark_id(r->scanner, MARK_PROGRESS);
    if (known->count == 1 && known->hits[0].id == bar) {
        if (known->fresh != NULL) {
            learn(r, known->fresh, known->hits[0].id, true);
            known->fresh = NULL;
        }
        if (passes_over_bar(r, piece)) {
            return;
        }
    } else if (wanted || known->hits[known->count - 1].id > bar) {
        read_waiting_bar(r);
    }
    handle_piece(r, piece, known);
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
    read_known(r, piece, &known);
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
        read_waiting_bar(r);
        handle_piece(r, piece, &known);
    }
    return ST_OK;
}

/* Lines of a frame that are looked at together, and what is known of their shapes. */
struct batch {
    size_t count;
    struct shape_line lines[LINES_AHEAD];
    struct shape_entry *entries[LINES_AHEAD]; /* NULL: not known */
    uint64_t newlines[LINES_AHEAD];           /* before the line */
    uint64_t useful;                          /* bit i: line i may be of use to someone */
};

/* Most lines have a shape that is known to be of no use to anyone. The first and the last line of a
 * frame are always looked at: they can be parts of a longer piece. */
static void weigh(const struct frame *frame, struct batch *b, uint64_t *newlines)
{
    b->useful = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct shape_line *line = &b->lines[i];
        const struct shape_entry *e = b->entries[i];
        size_t end = line->at + line->n;
        bool inside = line->at != 0 && end < frame->n;
        bool idle = inside && (line->n == 0 || (e != NULL && e->count == 0));
        b->newlines[i] = *newlines;
        b->useful |= (uint64_t)!idle << i;
        *newlines += end < frame->n && frame->p[end] == '\n';
    }
}

/* One line of a frame; `entry` is that of its shape, as far as it was known before this batch. */
static enum status visit_line(struct log_reader *r, struct frame_cursor *cursor,
                              const struct shape_line *line, struct shape_entry *entry,
                              struct err *err)
{
    const struct frame *frame = cursor->frame;
    struct piece piece = frame_piece(cursor, line->n);
    if ((line->at == 0 && frame->continued) ||
        (line->at + line->n == frame->n && frame->unfinished)) {
        return read_window(r, frame, &piece, err);
    }
    if (line->n == 0 && !wants_lines(r)) {
        return ST_OK;
    }
    entry = entry != NULL ? entry : new_shape(r, line);
    return read_line(r, &piece, line, entry, err);
}

/* The line is a bar and nothing else, by its shape, and may be passed over while nobody wants all lines:
 * the short way through read_known(). */
static bool skip_bar(struct log_reader *r, struct frame_cursor *cursor,
                     const struct shape_line *line, const struct shape_entry *entry, uint32_t bar)
{
    bool inside = line->at != 0 && line->at + line->n < cursor->frame->n;
    if (!inside || entry == NULL || entry->count != 1 || entry->ids[0] != bar ||
        !is_passed_over(r->bars + 1)) {
        return false;
    }
    r->bars++;
    r->waiting_bar = frame_piece(cursor, line->n);
    return true;
}

static enum status visit_batch(struct log_reader *r, struct frame_cursor *cursor,
                               const struct batch *b, struct err *err)
{
    const uint32_t bar = scanner_mark_id(r->scanner, MARK_PROGRESS);
    bool all = wants_lines(r);
    for (size_t i = 0; i < b->count; i++) {
        uint64_t left = (all ? ~0ull : b->useful) >> i;
        if (left == 0) {
            break;
        }
        i += (size_t)__builtin_ctzll(left);
        if (i >= b->count) {
            break;
        }
        cursor->at = b->lines[i].at;
        cursor->newlines = b->newlines[i];
        if (!all && skip_bar(r, cursor, &b->lines[i], b->entries[i], bar)) {
            continue;
        }
        TRY(visit_line(r, cursor, &b->lines[i], b->entries[i], err));
        all = wants_lines(r);
    }
    return ST_OK;
}

/* Line by line through a frame. */
static enum status walk(struct log_reader *r, const struct frame *frame, struct err *err)
{
    struct frame_cursor cursor;
    struct batch b;
    size_t at = 0;
    frame_cursor_init(&cursor, frame);
    const uint64_t before = cursor.newlines;
    uint64_t newlines = before;
    shapes_take(r->frame_shapes, frame->p, frame->n);
    while ((b.count = shapes_lines(r->frame_shapes, &at, b.lines, LINES_AHEAD)) != 0) {
        if (r->by_shape) {
            shape_cache_find_lines(r->shapes, r->frame_shapes->text, b.lines, b.count, b.entries);
        } else {
            memset(b.entries, 0, sizeof b.entries);
        }
        weigh(frame, &b, &newlines);
        TRY(visit_batch(r, &cursor, &b, err));
    }
    read_waiting_bar(r);
    framer_counted(r->framer, newlines - before);
    return ST_OK;
}

/* What was learned holds for logs of the same kinds. */
static void choose_shapes(struct log_reader *r)
{
    if (r->logs != r->shapes_logs) {
        shape_cache_clear(r->shapes);
        r->shapes_logs = r->logs;
    }
    r->by_shape = !r->options.line_by_line && scanner_sees_shapes(r->scanner);
}

enum status log_reader_drain(struct log_reader *r, bool at_end, bool flush, struct err *err)
{
    struct frame frame;
    while (framer_next(r->framer, at_end, flush, &frame)) {
        if (!r->sniffed) {
            sniff(r, &frame);
        }
        choose_shapes(r);
        TRY(walk(r, &frame, err));
        count_binary(r, &frame);
        remember_last(r, &frame);
    }
    return ST_OK;
}
