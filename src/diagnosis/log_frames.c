// SPDX-License-Identifier: Apache-2.0
/*
 * From frames to lines that are of use to someone: lines are looked at in batches, and of most of them it is
 * known by their shape that they are of none. Those that are left go to log_lines.c.
 */
#include <math.h>
#include <string.h>

#include "diagnosis/log_reader.h"

enum {
    SNIFF_LINES = 12,
    BINARY_SAMPLE = 2048,
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
    size_t most = r->sampled < BINARY_SAMPLE ? BINARY_SAMPLE
                                             : BINARY_SAMPLE / 8; /* of a long log */
    size_t n = frame->n < most ? frame->n : most;
    size_t odd = 0;
    const uint32_t text = 1u << '\n' | 1u << '\r' | 1u << '\t' | 1u << 0x1b | 1u << '\b' |
                          1u << '\f';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)frame->p[i];
        odd += ((c < 0x20) & (~text >> (c & 31))) | (c == 0x7f);
    }
    r->sampled += n;
    r->sampled_binary += odd;
}

/* Lines of a frame that are looked at together, and what is known of their shapes. */
struct batch {
    size_t count;
    struct shape_line lines[LINES_AHEAD];
    struct shape_entry *entries[LINES_AHEAD]; /* NULL: not known */
    uint64_t useful;                          /* bit i: line i may be of use to someone */
    uint64_t bars;    /* of those, the lines that are a bar and nothing else by their shape */
    uint64_t borders; /* the first and the last line of a frame */
};

/* Looks the lines of a batch up: most have a shape that is known to be of no use to anyone. The first and the
 * last line of a frame are always looked at: they can be parts of a longer piece. */
static void weigh(struct log_reader *r, const struct frame *frame, struct batch *b)
{
    struct shape_find found = {0};
    if (r->by_shape) {
        if (shape_cache_make_room(r->shapes)) {
            r->waiting_shape = NULL;
        }
        found = shape_cache_find_lines(r->shapes, b->lines, b->count,
                                       (uint16_t)scanner_mark_id(r->scanner, MARK_PROGRESS),
                                       b->entries);
    } else {
        memset(b->entries, 0, sizeof b->entries);
    }
    const struct shape_line *last = &b->lines[b->count - 1];
    uint64_t borders = (uint64_t)(b->lines[0].at == 0) | (uint64_t)(last->at + last->n >= frame->n)
                                                             << (b->count - 1);
    b->useful = (~found.idle | borders) & ~0ull >> (LINES_AHEAD - b->count);
    b->bars = found.alone & ~borders;
    b->borders = borders;
}

/* The short way through read_known() for the bars of a batch, while nobody wants all lines: passes over
 * those that may be, up to the first that is to be read. The bit of that one and those behind it. */
static uint64_t skip_bars(struct log_reader *r, struct frame_cursor *cursor, const struct batch *b,
                          uint64_t bars)
{
    if (r->bars < LOG_BARS_EXACT) {
        return bars;
    }
    uint64_t passed = LOG_BAR_STRIDE - 1 - r->bars % LOG_BAR_STRIDE; /* before one that is read */
    uint64_t count = (uint64_t)__builtin_popcountll(bars);
    if (count <= passed) {
        const struct shape_line *last = &b->lines[63 - __builtin_clzll(bars)];
        r->bars += count;
        cursor->at = last->at;
        cursor->newlines = cursor->before + shapes_newlines(r->frame_shapes, last->at);
        r->waiting_bar = frame_piece(cursor, last->n);
        r->waiting_shape = b->entries[63 - __builtin_clzll(bars)];
        return 0;
    }
    r->bars += passed;
    for (; passed != 0; passed--) {
        bars &= bars - 1;
    }
    return bars;
}

/* The lines of a batch from which empty ones were left out, unless all are wanted. When all are wanted from a line
 * on, it ends behind that one. Moves *at there. */
static enum status visit_batch(struct log_reader *r, struct frame_cursor *cursor,
                               const struct batch *b, size_t *at, struct err *err)
{
    const bool all = log_reader_wants_lines(r);
    uint64_t left = all ? ~0ull >> (LINES_AHEAD - b->count) : b->useful;
    while (left != 0) {
        uint64_t others = left & ~b->bars;
        uint64_t bars = left & b->bars & (others - 1) & ~others; /* before the next other line */
        if (!all && bars != 0) {
            uint64_t read = skip_bars(r, cursor, b, bars);
            left = (left & ~bars) | read;
            if (read == 0) {
                continue;
            }
        }
        size_t i = (size_t)__builtin_ctzll(left);
        const struct shape_line *line = &b->lines[i];
        cursor->at = line->at;
        cursor->newlines = cursor->before + shapes_newlines(r->frame_shapes, cursor->at);
        struct shape_entry *entry = b->entries[i];
        if (!all && entry != NULL && entry->by_place && ((b->bars | b->borders) >> i & 1) == 0) {
            struct piece piece = frame_piece(cursor, line->n);
            log_line_by_place(r, &piece, entry);
            left &= left - 1;
            continue;
        }
        TRY(log_line_visit(r, cursor, line, entry, err));
        if (!all && log_reader_wants_lines(r)) {
            *at = line->at + line->n + 1;
            return ST_OK;
        }
        left &= left - 1;
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
    for (;;) {
        b.count = shapes_lines(r->frame_shapes, &at, b.lines, LINES_AHEAD,
                               log_reader_wants_lines(r));
        if (b.count == 0) {
            break;
        }
        weigh(r, frame, &b);
        TRY(visit_batch(r, &cursor, &b, &at, err));
    }
    log_line_waiting_bar(r);
    return ST_OK;
}

/* Nothing points into a frame behind its end. */
static enum status read_frame(struct log_reader *r, const struct frame *frame, struct err *err)
{
    shapes_take(r->frame_shapes, frame->p, frame->n);
    enum status status = walk(r, frame, err);
    event_store_settle(r->store);
    framer_counted(r->framer, shapes_newlines(r->frame_shapes, frame->n));
    return status;
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
        TRY(read_frame(r, &frame, err));
        count_binary(r, &frame);
        remember_last(r, &frame);
    }
    return ST_OK;
}
