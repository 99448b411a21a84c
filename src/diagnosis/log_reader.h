// SPDX-License-Identifier: Apache-2.0
/* The log reader's own state, shared by log_read.c (files), log_frames.c and log_lines.c (lines). */
#ifndef ASSAY_DIAGNOSIS_LOG_READER_H
#define ASSAY_DIAGNOSIS_LOG_READER_H

#include "diagnosis/event_store.h"
#include "diagnosis/gpu_fault.h"
#include "diagnosis/log_read.h"
#include "diagnosis/run_end.h"
#include "diagnosis/scan.h"
#include "diagnosis/series.h"
#include "diagnosis/shape_cache.h"
#include "diagnosis/traceback.h"

enum {
    LOG_BARS_EXACT = 4096, /* bars of a file that are all read; then one in LOG_BAR_STRIDE is */
    LOG_BAR_STRIDE = 8
};

struct log_reader {
    struct arena *arena;
    const struct knowledge *k;
    struct log_options options;
    struct scanner *scanner;
    struct framer *framer;
    struct event_store *store;
    struct series_set *series;
    struct run_reader *run;
    struct gpu_faults *faults;
    struct tracebacks *tracebacks;
    const struct error_table *errors;
    struct shape_cache *shapes;  /* what is known of lines of one shape */
    unsigned shapes_logs;        /* for logs of these kinds */
    bool by_shape;               /* what holds for a shape is not found out anew */
    struct shapes *frame_shapes; /* of the lines of a frame */
    struct text_list notes;
    bool has_train;
    bool has_kernel;
    uint64_t lines;
    uint64_t bytes;
    uint64_t sampled; /* bytes looked at by count_binary() */
    uint64_t sampled_binary;
    int file_count;
    struct log_times times; /* of the training logs */

    /* of the file being read */
    const char *source;
    int file_rank;
    int year;
    bool kernel;
    bool sniffed;
    unsigned logs; /* enum log_kind bits that apply */
    double moment;
    double first_time;                 /* of its first lines; NaN without */
    uint64_t bars;                     /* lines of progress bars and nothing else */
    struct piece waiting_bar;          /* one that was passed over; text.p is NULL without */
    struct shape_entry *waiting_shape; /* that of its line, or NULL */
    char last[EVENT_TEXT_MAX];         /* its last piece that is not empty */
    size_t last_n;
    uint64_t *long_piece; /* per id: offset + 1 of the unfinished piece it hit already */
};

/* Hands what is in the framer to the readers: whole frames, what is left when `at_end`, finished
 * lines when `flush`. */
enum status log_reader_drain(struct log_reader *r, bool at_end, bool flush,
                             struct err *err) MUST_USE;

/* One line of a frame; `entry` is that of its shape, as far as it was known before its batch. */
enum status log_line_visit(struct log_reader *r, struct frame_cursor *cursor,
                           const struct shape_line *line, struct shape_entry *entry,
                           struct err *err) MUST_USE;

/* The short way for a line of a shape that is read by place and no bar alone, while nobody wants all lines. */
void log_line_by_place(struct log_reader *r, const struct piece *piece, struct shape_entry *shape);

/* Reads the bar that was passed over last: when something else happens, and at a frame's end. */
void log_line_waiting_bar(struct log_reader *r);

/* True while one of the readers wants every line. */
static inline bool log_reader_wants_lines(const struct log_reader *r)
{
    return tracebacks_wants_lines(r->tracebacks) || run_reader_wants_lines(r->run);
}

#endif
