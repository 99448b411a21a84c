// SPDX-License-Identifier: Apache-2.0
/*
 * Where events are kept: per pattern the first EVENTS_FIRST and the last EVENTS_LAST, with an exact
 * count, so that memory is bounded whatever the log says a million times.
 */
#ifndef ASSAY_DIAGNOSIS_EVENT_STORE_H
#define ASSAY_DIAGNOSIS_EVENT_STORE_H

#include "diagnosis/confirm.h"
#include "diagnosis/errors.h"
#include "diagnosis/events.h"
#include "diagnosis/framing.h"
#include "diagnosis/prefix.h"

enum {
    EVENT_TEXT_MAX = 2000,
    CAPTURE_WINDOW = 16 * 1024
};

/* A line on its way to the readers, with what its file says about it. */
struct line_context {
    struct piece piece;
    struct str window; /* what captures look at: the piece, or CAPTURE_WINDOW around the hit */
    size_t hit;        /* where the first match ends in the piece; its size without */
    struct prefix prefix;
    const char *source;
    int file;
    int rank;      /* of the prefix, else of the file */
    double moment; /* time of the line, or the last time before it; NaN without */
    bool kernel;   /* the file was given as, or looks like, a kernel log */
};

/* A line kept beyond its frame. */
struct kept_line {
    struct line_context line; /* piece.text and window point into `text` */
    char text[EVENT_TEXT_MAX];
};

void kept_line_set(struct kept_line *k, const struct line_context *line);

struct event_store;

struct event_store *event_store_new(struct arena *a, const struct pattern *patterns, size_t count,
                                    const struct error_table *errors) MUST_USE RETURNS_NONNULL;
void event_store_free(struct event_store *s);

/* True when the pattern really matches the line. */
bool event_store_confirm(struct event_store *s, size_t pattern, const struct line_context *line);

/* Counts and keeps a confirmed hit. */
void event_store_hit(struct event_store *s, size_t pattern, const struct line_context *line);

/* A line without a prefix. */
struct bare_line {
    struct piece piece;
    const char *source;
    int file;
    int rank; /* of the file */
    double moment;
};

/* event_store_hit() for such a line when there are many events of the pattern already, of which the last ones
 * alone are kept. False, and nothing is done, before. The line's text must stay until event_store_settle(), which
 * copies those that no later hit has replaced. */
bool event_store_hit_again(struct event_store *s, size_t pattern, const struct bare_line *line);
void event_store_settle(struct event_store *s);

/* An event that one of our readers made, with its captures. `where` is the line it stands for;
 * everything is copied. NULL or empty captures are dropped. */
void event_store_add(struct event_store *s, const struct pattern *synthetic,
                     const struct line_context *where, const struct capture *captures,
                     size_t count);

/* Events kept so far in `order`, and the counts; may be called again when more came (follow). */
void event_store_finish(struct event_store *s, struct log_facts *lf);

/* For --follow: events added since the last call, in the order they came. */
size_t event_store_fresh(struct event_store *s, struct arena *a, const struct event ***ret_events);

#endif
