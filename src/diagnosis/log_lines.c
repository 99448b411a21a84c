// SPDX-License-Identifier: Apache-2.0
/*
 * From frames to events: each interesting line goes to the event store and to the readers. Start at
 * handle_piece().
 */
#include <string.h>

#include "diagnosis/log_reader.h"

enum {
    LINE_CUT = 64 * 1024,
    SNIFF_LINES = 12,
    BARS_EXACT = 4096,
    BAR_STRIDE = 8
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
            kernel += prefix_parse(line, r->year).kernel;
        }
    }
    if (kernel * 2 > lines) {
        r->logs = LOG_TRAIN | LOG_KERNEL;
        r->kernel = true;
    }
    r->has_kernel |= r->kernel;
    r->has_train |= !r->kernel;
}

static void set_context(const struct log_reader *r, struct line_context *c, struct piece piece,
                        size_t hit)
{
    size_t n = piece.text.n;
    size_t from = 0;
    size_t to = n;
    if (n > CAPTURE_WINDOW) {
        from = hit > CAPTURE_WINDOW * 3 / 4 ? hit - CAPTURE_WINDOW * 3 / 4 : 0;
        to = from + CAPTURE_WINDOW < n ? from + CAPTURE_WINDOW : n;
    }
    *c = (struct line_context){
        .piece = piece,
        .window = str_slice(piece.text, from, to),
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

/* Bit set of marks in the hits of one piece. The others' readers look closely themselves. */
static unsigned marks_of(const struct log_reader *r, const struct line_context *c,
                         const struct scan_hit *hits, size_t count)
{
    const unsigned to_confirm = 1u << MARK_DEATH | 1u << MARK_PHASE | 1u << MARK_END |
                                1u << MARK_KERNEL_FAULT | 1u << MARK_XID | 1u << MARK_ROCR_BLOCK;
    unsigned marks = 0;
    for (size_t i = 0; i < count; i++) {
        if (hits[i].id < r->k->patterns_count) {
            continue;
        }
        enum scan_mark mark = (enum scan_mark)(hits[i].id - r->k->patterns_count);
        if ((to_confirm & 1u << mark) == 0 || scanner_confirm_mark(r->scanner, mark, c->window)) {
            marks |= 1u << mark;
        }
    }
    return marks;
}

/* Keeps of the hits those of patterns that apply and match; marks stay as they are. */
static size_t confirm_hits(struct log_reader *r, const struct line_context *c,
                           struct scan_hit *hits, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t id = hits[i].id;
        if (id >= r->k->patterns_count ||
            ((r->k->patterns[id].logs & r->logs) != 0 && event_store_confirm(r->store, id, c))) {
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

static void handle_marks(struct log_reader *r, const struct line_context *c, unsigned marks)
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
        run_reader_metrics(r->run, c);
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

/* One piece with the hits in it (possibly none, when a reader wants every line). */
static void handle_piece(struct log_reader *r, struct piece piece, struct scan_hit *hits,
                         size_t count)
{
    struct line_context c;
    size_t hit = count != 0 ? hits[0].hit - hits[0].start : piece.text.n;
    set_context(r, &c, piece, hit < piece.text.n ? hit : piece.text.n);
    bool wanted = count == 0; /* a reader wants every line */
    count = confirm_hits(r, &c, hits, count);
    if (count == 0 && !wanted && !wants_lines(r)) {
        return;
    }
    set_prefix(r, &c);
    bool benign = handle_patterns(r, &c, hits, count);
    handle_marks(r, &c, benign ? 0 : marks_of(r, &c, hits, count));
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

/* Bytes of the first 8 KiB of a frame that no text has: a log of them is a binary file. */
static void count_binary(struct log_reader *r, const struct frame *frame)
{
    size_t n = frame->n < 8192 ? frame->n : 8192;
    size_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)frame->p[i];
        odd += (c < 0x20 && c != '\n' && c != '\t' && c != 0x1b && c != '\b' && c != '\f') ||
               c == 0x7f;
    }
    r->sampled += n;
    r->sampled_binary += odd;
}

/*
 * Bars say the same thing over and over, and a long log has millions. After the first BARS_EXACT of
 * a file one in BAR_STRIDE is read, and the last one of each frame; a bar that shows a metric has
 * another mark beside and is always read.
 */
static bool skips_bar(struct log_reader *r, const struct scan_hit *hits, size_t i, size_t count)
{
    uint32_t bar = scanner_mark_id(r->scanner, MARK_PROGRESS);
    if (hits[i].id != bar || ++r->bars <= BARS_EXACT || r->bars % BAR_STRIDE == 0) {
        return false;
    }
    for (size_t k = i + 1; k < count && k < i + 1000; k++) {
        if (hits[k].id == bar) {
            return true;
        }
    }
    return false;
}

/* Walks through a frame: from hit to hit, or line by line while a reader wants that. */
static void walk(struct log_reader *r, const struct frame *frame, struct scan_hit *hits,
                 size_t count)
{
    struct frame_cursor cursor;
    frame_cursor_init(&cursor, frame);
    size_t at = 0;
    size_t i = 0;
    while (at < frame->n) {
        size_t start = at;
        if (!wants_lines(r)) {
            if (i == count) {
                return;
            }
            start = hits[i].start;
        }
        const char *newline = memchr(frame->p + start, '\n', frame->n - start);
        size_t end = newline != NULL ? (size_t)(newline - frame->p) : frame->n;
        size_t n = 0;
        while (i + n < count && hits[i + n].start == start) {
            n++;
        }
        if (n == 1 && !wants_lines(r) && skips_bar(r, hits, i, count)) {
            i++;
            at = end + 1;
            continue;
        }
        struct piece piece = frame_piece(&cursor, start, end);
        size_t fresh = n;
        bool windowed = (start == 0 && frame->continued) || (end == frame->n && frame->unfinished);
        if (windowed && n != 0) {
            fresh = drop_repeated(r, &hits[i], n, piece.line);
        }
        if (fresh != 0 || (wants_lines(r) && !windowed)) {
            handle_piece(r, piece, &hits[i], fresh);
        }
        i += n;
        at = end + 1;
    }
}

enum status log_reader_drain(struct log_reader *r, bool at_end, bool flush, struct err *err)
{
    struct frame frame;
    while (framer_next(r->framer, at_end, flush, &frame)) {
        if (!r->sniffed) {
            sniff(r, &frame);
        }
        const struct scan_hit *hits;
        size_t count;
        TRY(scanner_run(r->scanner, &frame, &hits, &count, err));
        walk(r, &frame, (struct scan_hit *)hits, count);
        count_binary(r, &frame);
        remember_last(r, &frame);
    }
    return ST_OK;
}
