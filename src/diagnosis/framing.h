// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes in, frames of whole pieces out. A piece is what stands between two of '\n' and '\r' ("\r\n"
 * ends one line and makes one empty piece more). Frames are cleaned of terminal control sequences, so
 * that patterns match what a person saw; offsets and line numbers are those of the original bytes.
 * Files that pack their lines (unwrap.h) are unpacked. Chunks without ESC, the usual case, are not
 * copied. SHAPE_MARGIN bytes behind a frame are readable.
 *
 * A piece longer than the buffer comes as several frames ("windows") that overlap by
 * FRAME_OVERLAP; where they are cut depends on the piece alone, never on how the bytes arrived.
 */
#ifndef ASSAY_DIAGNOSIS_FRAMING_H
#define ASSAY_DIAGNOSIS_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum {
    FRAME_CAPACITY = 1 << 17, /* with what belongs to it, it stays in the second-level cache */
    FRAME_OVERLAP = 16 * 1024
};

struct framer;

struct frame {
    const char *p; /* clean text; valid until the next framer_* call that gives room or a frame */
    size_t n;
    bool continued;  /* the first piece began in an earlier frame */
    bool unfinished; /* the last piece goes on in the next frame */
    const struct framer *framer;
};

/* One piece, located. */
struct piece {
    struct str text;
    uint64_t line;   /* 1-based, counted by '\n' alone */
    uint64_t offset; /* of the piece's first byte among the original bytes */
};

/* A control sequence that was taken out. */
struct frame_cut {
    uint32_t at;      /* offset in the clean text in front of which bytes were removed */
    uint32_t removed; /* how many, with all cuts before it in the frame */
};

/* Walks forward through one frame, piece by piece. */
struct frame_cursor {
    const struct frame *frame;
    const struct frame_cut *cuts;
    size_t cut_count;
    uint64_t base;     /* original offset of the frame */
    size_t at;         /* where the next piece begins */
    uint64_t newlines; /* before `at` */
    uint64_t before;   /* newlines before the frame */
    size_t cut_next;   /* index of the first removed sequence after `at` */
    uint64_t removed;  /* bytes removed before `at` */
};

/* Takes terminal control sequences out of one line; its new length. */
size_t framing_strip(char *text, size_t n);
/* The line itself, or a copy in `a` where it has such sequences. */
struct str framing_plain(struct arena *a, struct str line);

struct framer *framer_new(struct arena *a) MUST_USE RETURNS_NONNULL;

/* Forgets everything: a new file begins. */
void framer_reset(struct framer *f);

/* Room to read into; *ret_n is never 0 after framer_next() said false. */
char *framer_space(struct framer *f, size_t *ret_n);
void framer_commit(struct framer *f, size_t n);

/*
 * The next frame, if there is one: when the buffer is full, or what is left when `at_end`. With
 * `flush` the finished pieces are given even though more could come (a file that is followed).
 */
bool framer_next(struct framer *f, bool at_end, bool flush, struct frame *ret_frame);

/* Tells the number of '\n' in the frame given last, for who has counted them anyway. */
void framer_counted(struct framer *f, uint64_t newlines);

void frame_cursor_init(struct frame_cursor *c, const struct frame *frame);

/* The piece of `n` bytes at the cursor. */
static inline struct piece frame_piece(struct frame_cursor *c, size_t n)
{
    while (c->cut_next < c->cut_count && c->cuts[c->cut_next].at < c->at) {
        c->removed = c->cuts[c->cut_next].removed;
        c->cut_next++;
    }
    return (struct piece){.text = {.p = c->frame->p + c->at, .n = n},
                          .line = c->newlines + 1,
                          .offset = c->base + c->at + c->removed};
}

/* Moves the cursor behind a piece of `n` bytes and its end. */
static inline void frame_cursor_next(struct frame_cursor *c, size_t n)
{
    size_t end = c->at + n;
    c->newlines += end < c->frame->n && c->frame->p[end] == '\n';
    c->at = end + 1;
}

/* '\n' in everything framed so far. */
uint64_t framer_newlines(const struct framer *f);

/* The last byte so far is no '\n': a line without an end follows those that framer_newlines() counts. */
bool framer_inside_line(const struct framer *f);

/* Original bytes framed so far. */
uint64_t framer_bytes(const struct framer *f);

/* Number of '\n' in a buffer. */
size_t count_newlines(const char *p, size_t n);

#endif
