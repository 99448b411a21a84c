// SPDX-License-Identifier: Apache-2.0
/*
 * How a run went and ended, from general evidence: progress, phases, signals, exit codes, closing
 * lines. Works per file and sums up over files; see struct run_summary.
 */
#ifndef ASSAY_DIAGNOSIS_RUN_END_H
#define ASSAY_DIAGNOSIS_RUN_END_H

#include "diagnosis/event_store.h"
#include "diagnosis/series.h"
#include "diagnosis/shape_cache.h"
#include "diagnosis/traceback.h"

struct run_reader;

struct run_reader *run_reader_new(struct arena *a,
                                  struct series_set *series) MUST_USE RETURNS_NONNULL;

void run_reader_begin_file(struct run_reader *r);

/* Lines by their marks. Where the metrics stand is kept with the line's shape, when it has one. */
void run_reader_metrics(struct run_reader *r, const struct line_context *line,
                        struct shape_entry *shape, struct arena *shapes);
void run_reader_progress(struct run_reader *r, const struct line_context *line,
                         struct shape_entry *shape, struct arena *shapes);

/* True when what both of them read stands at known places in all lines of the shape, and nothing else. */
bool run_reader_knows_places(const struct shape_entry *shape, const struct line_context *line);

/* Both for the lines of such a shape, without a context. */
void run_reader_by_place(struct run_reader *r, struct shape_entry *shape, const struct piece *piece,
                         int rank);
void run_reader_phase(struct run_reader *r, const struct line_context *line);
void run_reader_end(struct run_reader *r, const struct line_context *line);
void run_reader_death(struct run_reader *r, const struct line_context *line);

/* torchrun's table of failed processes: `head` at "Root Cause", then every line while it wants. */
void run_reader_child(struct run_reader *r, const struct line_context *line, bool head);
bool run_reader_wants_lines(const struct run_reader *r);

void run_reader_rank(struct run_reader *r, int rank);

/* Lines so far that show that training goes on. */
uint64_t run_reader_progress_count(const struct run_reader *r);

/* True when the file says the run finished; *ret_at is the progress count there. */
bool run_reader_completed(const struct run_reader *r, uint64_t *ret_at);

/* The file ends with this piece (empty when it had none). `failed`: an exception stopped it. */
void run_reader_end_file(struct run_reader *r, struct str last_piece, bool failed);

void run_reader_finish(struct run_reader *r, const struct tracebacks *t,
                       struct run_summary *ret_run);

#endif
