// SPDX-License-Identifier: Apache-2.0
/*
 * The scanner: all patterns, and the marks below, over a line in one pass. It gives candidates:
 * patterns that may match. Whether one does is confirmed (event_store.h, scanner_confirm_mark()).
 *
 * A database is made from the patterns at build time (scan_compile) or at run time; a made one is
 * taken only when it was made for exactly these patterns and this processor accepts it.
 */
#ifndef ASSAY_DIAGNOSIS_SCAN_H
#define ASSAY_DIAGNOSIS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include "knowledge/knowledge.h"

enum scan_platform {
    SCAN_PLATFORM_AVX2 = 0,
    SCAN_PLATFORM_BASELINE,
    SCAN_PLATFORM_COUNT
};

/* Lines that our own readers want to see, beside those of the patterns. Their regular expressions
 * are in scan_marks.c. */
enum scan_mark {
    MARK_METRIC = 0,   /* loss, gradient norm, step counters */
    MARK_PROGRESS,     /* a progress bar with counts and times */
    MARK_TRACEBACK,    /* head of a Python traceback */
    MARK_EXCEPTION,    /* a line that names an exception */
    MARK_CHILD,        /* torchrun's table of failed processes */
    MARK_KERNEL_FAULT, /* amdgpu page-fault lines */
    MARK_XID,
    MARK_ROCR_BLOCK, /* ROCr and clr key=value fault blocks */
    MARK_DEATH,      /* signals, exit codes, core dumps */
    MARK_PHASE,      /* loading, tokenizing, training, evaluation, saving */
    MARK_END,        /* what only a finished run prints */
    MARK_COUNT
};

/* {mark, regular expression} rows. */
struct scan_mark_row {
    enum scan_mark mark;
    const char *regex;
};
extern const struct scan_mark_row scan_mark_rows[];
extern const size_t scan_mark_row_count;

/* A serialized database for `platform`; a pattern that vectorscan does not take is ST_FORMAT with
 * its place in the message. */
enum status scan_compile(struct arena *a, const struct pattern *patterns, size_t count,
                         enum scan_platform platform, const void **ret_bytes, size_t *ret_size,
                         struct err *err) MUST_USE;

/* True when a database that scan_compile() made earlier is for exactly these patterns and this
 * version of vectorscan. */
bool scan_is_for(const void *bytes, size_t size, const struct pattern *patterns, size_t count);

struct scanner;

/* Uses knowledge->scanner_db when it fits, else compiles (a second for 400 patterns). */
enum status scanner_open(struct arena *a, const struct knowledge *k, struct scanner **ret_scanner,
                         struct err *err) MUST_USE;
void scanner_close(struct scanner *s); /* NULL is fine */

struct scan_hit {
    uint32_t hit; /* where the first match or needle ends in the line, from 1 on */
    uint16_t id;  /* index of the pattern, or scanner_mark_id() */
    bool known;   /* it is known to match */
};

uint32_t scanner_mark_id(const struct scanner *s, enum scan_mark mark);

/* True when the database was made at build time. */
bool scanner_is_prebuilt(const struct scanner *s);

/* True when one of the mark's expressions matches the line. */
bool scanner_confirm_mark(struct scanner *s, enum scan_mark mark, struct str text);

/* True when the pattern or mark cannot tell digits apart: what is found out about a line holds for
 * all lines of its shape. */
bool scanner_is_blind(const struct scanner *s, uint32_t id);

/* False when some pattern without needles tells digits apart: then the shape of a line does not say
 * what its candidates are. */
bool scanner_sees_shapes(const struct scanner *s);

/*
 * Candidates of a line, each once, by rising id; valid until the next call. `shape` is the line's
 * shape with its ends, as sieve_run() wants it. Only matches count that end after `from` and not after `to`.
 */
enum status scanner_line(struct scanner *s, struct str line, const char *shape, size_t from,
                         size_t to, struct scan_hit **ret_hits, size_t *ret_count,
                         struct err *err) MUST_USE;

#endif
