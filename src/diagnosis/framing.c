// SPDX-License-Identifier: Apache-2.0
/* Framing; see framing.h. The buffer is filled to the brim before a frame is cut, which makes the
 * frames independent of the sizes the bytes arrived in. */
#include "diagnosis/framing.h"

#include <string.h>

#include "base/vec.h"

#include "diagnosis/line_shape.h"
#include "diagnosis/unwrap.h"

struct framer {
    char *raw;   /* FRAME_CAPACITY bytes */
    char *clean; /* the same size; used only for chunks with ESC and for packed files */
    size_t fill;
    size_t framed;        /* raw bytes of the current frame */
    size_t keep;          /* of those, bytes that the next frame begins with again */
    uint64_t base_offset; /* original offset of raw[0] */
    uint64_t base_newlines;
    uint64_t counted; /* newlines of the current frame, NOT_COUNTED when not known */
    bool continued;
    bool inside_line; /* the last byte that came is no '\n' */
    bool sniffed;     /* `wrapping` is known */
    enum wrapping wrapping;
    struct strbuf scratch;
    VEC_OF(struct frame_cut) cuts;
    struct arena *arena;
};

#define NOT_COUNTED UINT64_MAX

typedef char bytes16 __attribute__((vector_size(16)));
typedef unsigned char ubytes16 __attribute__((vector_size(16)));

size_t count_newlines(const char *p, size_t n)
{
    size_t count = 0;
    size_t at = 0;
    const bytes16 newline = (bytes16){0} + '\n';
    while (n - at >= 16) {
        ubytes16 sum = {0};
        size_t rounds = (n - at) / 16 < 255 ? (n - at) / 16 : 255;
        for (size_t i = 0; i < rounds; i++, at += 16) {
            bytes16 v;
            memcpy(&v, p + at, sizeof v);
            sum -= (ubytes16)(v == newline); /* equal lanes are all ones, that is -1 */
        }
        for (int i = 0; i < 16; i++) {
            count += sum[i];
        }
    }
    for (; at < n; at++) {
        count += p[at] == '\n';
    }
    return count;
}

struct framer *framer_new(struct arena *a)
{
    struct framer *f = arena_alloc(a, sizeof *f);
    f->arena = a;
    f->counted = NOT_COUNTED;
    f->raw = arena_alloc(a, FRAME_CAPACITY + SHAPE_MARGIN);
    f->clean = arena_alloc(a, FRAME_CAPACITY + SHAPE_MARGIN);
    strbuf_init(&f->scratch, a, FRAME_CAPACITY);
    return f;
}

void framer_reset(struct framer *f)
{
    f->fill = 0;
    f->framed = 0;
    f->keep = 0;
    f->counted = NOT_COUNTED;
    f->base_offset = 0;
    f->base_newlines = 0;
    f->continued = false;
    f->inside_line = false;
    f->sniffed = false;
    f->wrapping = WRAPPING_NONE;
    f->cuts.count = 0;
}

/* Newlines of the current frame's bytes that the next one does not begin with again. An unfinished
 * frame, of which bytes are kept, has none. */
static uint64_t frame_newlines(const struct framer *f)
{
    return f->counted != NOT_COUNTED ? f->counted : count_newlines(f->raw, f->framed - f->keep);
}

void framer_counted(struct framer *f, uint64_t newlines)
{
    f->counted = newlines;
}

/* Drops the frame that was given out and moves the rest to the front. */
static void consume(struct framer *f)
{
    size_t gone = f->framed - f->keep;
    if (gone == 0) {
        return;
    }
    f->base_newlines += frame_newlines(f);
    f->base_offset += gone;
    memmove(f->raw, f->raw + gone, f->fill - gone);
    f->fill -= gone;
    f->framed = 0;
    f->keep = 0;
    f->counted = NOT_COUNTED;
}

char *framer_space(struct framer *f, size_t *ret_n)
{
    consume(f);
    *ret_n = FRAME_CAPACITY - f->fill;
    return f->raw + f->fill;
}

void framer_commit(struct framer *f, size_t n)
{
    f->fill += n;
    f->inside_line = n != 0 ? f->raw[f->fill - 1] != '\n' : f->inside_line;
}

/* Length of the terminal control sequence at p (which is ESC), at most n. ECMA-48. */
static size_t escape_length(const char *p, size_t n)
{
    if (n < 2) {
        return n;
    }
    size_t at = 2;
    if (p[1] == '[') { /* parameters, then one final byte */
        while (at < n && p[at] >= 0x20 && p[at] < 0x40) {
            at++;
        }
        return at < n && p[at] >= 0x40 && p[at] < 0x7f ? at + 1 : at;
    }
    if (p[1] == ']') { /* a string (title, hyperlink) up to BEL or ESC \ */
        while (at < n && p[at] != '\a' && p[at] != '\n' && p[at] != '\r' && p[at] != '\033') {
            at++;
        }
        if (at < n && p[at] == '\a') {
            return at + 1;
        }
        return at + 1 < n && p[at] == '\033' && p[at + 1] == '\\' ? at + 2 : at;
    }
    if (p[1] == '\n' || p[1] == '\r' || p[1] == '\033') {
        return 1;
    }
    if (strchr("()*+#%", p[1]) != NULL && p[1] != '\0' && n > 2 && p[2] != '\n' && p[2] != '\r') {
        return 3;
    }
    return 2;
}

size_t framing_strip(char *text, size_t n)
{
    size_t from = 0;
    size_t to = 0;
    while (from < n) {
        const char *esc = memchr(text + from, '\033', n - from);
        size_t run = esc != NULL ? (size_t)(esc - text) - from : n - from;
        memmove(text + to, text + from, run);
        to += run;
        from += run;
        from += esc != NULL ? escape_length(esc, n - from) : 0;
    }
    return to;
}

struct str framing_plain(struct arena *a, struct str line)
{
    if (memchr(line.p, '\033', line.n) == NULL) {
        return line;
    }
    char *clean = str_dup(a, line);
    return (struct str){.p = clean, .n = framing_strip(clean, line.n)};
}

/* Copies from[0, n) to `clean` without control sequences; `from` may be `clean` itself. */
static size_t strip_escapes(struct framer *f, const char *source, size_t n)
{
    size_t from = 0;
    size_t to = 0;
    uint32_t removed = 0;
    while (from < n) {
        const char *esc = memchr(source + from, '\033', n - from);
        size_t run = esc != NULL ? (size_t)(esc - source) - from : n - from;
        memmove(f->clean + to, source + from, run);
        to += run;
        from += run;
        if (esc != NULL) {
            size_t length = escape_length(esc, n - from);
            from += length;
            removed += (uint32_t)length;
            *VEC_PUSH(f->arena, &f->cuts) = (struct frame_cut){.at = (uint32_t)to,
                                                               .removed = removed};
        }
    }
    return to;
}

/* Where lines begin, after each was made shorter: offsets are those of the original bytes again. */
static void locate_lines(struct framer *f, size_t raw_n, size_t clean_n)
{
    f->cuts.count = 0;
    const char *raw = f->raw;
    const char *clean = f->clean;
    for (;;) {
        raw = memchr(raw, '\n', raw_n - (size_t)(raw - f->raw));
        clean = memchr(clean, '\n', clean_n - (size_t)(clean - f->clean));
        if (raw == NULL || clean == NULL) {
            return;
        }
        uint32_t at = (uint32_t)(clean - f->clean); /* before the line that begins behind it */
        uint32_t removed = (uint32_t)(raw - f->raw) - at;
        *VEC_PUSH(f->arena, &f->cuts) = (struct frame_cut){.at = at, .removed = removed};
        raw++;
        clean++;
    }
}

/* Unpacks raw[0, n) line by line to `clean`, and cleans that of control sequences. */
static size_t unwrap(struct framer *f, size_t n)
{
    struct str rest = {.p = f->raw, .n = n};
    size_t to = 0;
    while (rest.n != 0) {
        size_t end = str_find_char(rest, '\n', 0);
        struct str line = str_slice(rest, 0, end == SIZE_MAX ? rest.n : end);
        to += unwrap_line(f->wrapping, line, f->clean + to, &f->scratch);
        if (end != SIZE_MAX) {
            f->clean[to++] = '\n';
        }
        rest = str_slice(rest, line.n + (end != SIZE_MAX), rest.n);
    }
    if (memchr(f->clean, '\033', to) != NULL) {
        to = strip_escapes(f, f->clean, to);
    }
    locate_lines(f, n, to);
    return to;
}

/* The first `n` raw bytes as clean text. */
static struct str clean_text(struct framer *f, size_t n)
{
    f->cuts.count = 0;
    if (!f->sniffed) {
        f->sniffed = true;
        f->wrapping = wrapping_of((struct str){.p = f->raw, .n = n});
    }
    if (f->wrapping != WRAPPING_NONE) {
        return (struct str){.p = f->clean, .n = unwrap(f, n)};
    }
    if (memchr(f->raw, '\033', n) == NULL) {
        return (struct str){.p = f->raw, .n = n};
    }
    return (struct str){.p = f->clean, .n = strip_escapes(f, f->raw, n)};
}

/* Bytes up to and with the last '\n' or '\r', 0 when there is none. */
static size_t whole_pieces(const struct framer *f)
{
    const char *newline = memrchr(f->raw, '\n', f->fill);
    size_t at = newline != NULL ? (size_t)(newline - f->raw) + 1 : 0;
    const char *carriage = memrchr(f->raw + at, '\r', f->fill - at);
    return carriage != NULL ? (size_t)(carriage - f->raw) + 1 : at;
}

bool framer_next(struct framer *f, bool at_end, bool flush, struct frame *ret_frame)
{
    consume(f);
    bool full = f->fill == FRAME_CAPACITY;
    if (f->fill == 0 || (!full && !at_end && !flush)) {
        return false;
    }
    size_t take = whole_pieces(f);
    bool unfinished = false;
    if (at_end && !full) {
        take = f->fill;
    } else if (take == 0 && full) {
        take = f->fill;
        unfinished = true;
    } else if (take == 0) {
        return false;
    }
    f->framed = take;
    f->keep = unfinished ? FRAME_OVERLAP : 0;
    struct str text = clean_text(f, take);
    *ret_frame = (struct frame){
        .p = text.p, .n = text.n, .continued = f->continued, .unfinished = unfinished, .framer = f};
    f->continued = unfinished;
    return true;
}

void frame_cursor_init(struct frame_cursor *c, const struct frame *frame)
{
    const struct framer *f = frame->framer;
    *c = (struct frame_cursor){.frame = frame,
                               .cuts = f->cuts.items,
                               .cut_count = f->cuts.count,
                               .base = f->base_offset,
                               .newlines = f->base_newlines,
                               .before = f->base_newlines};
}

uint64_t framer_newlines(const struct framer *f)
{
    return f->base_newlines + frame_newlines(f);
}

bool framer_inside_line(const struct framer *f)
{
    return f->inside_line;
}

uint64_t framer_bytes(const struct framer *f)
{
    return f->base_offset + f->framed - f->keep;
}
