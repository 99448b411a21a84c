// SPDX-License-Identifier: Apache-2.0
/*
 * The front of log reading: paths in, struct log_facts out. One pass over every file, memory
 * independent of its size. log_facts_read() does all at once; with a log_reader the caller follows
 * files that still grow.
 */
#ifndef ASSAY_DIAGNOSIS_LOG_READ_H
#define ASSAY_DIAGNOSIS_LOG_READ_H

#include "base/err.h"
#include "base/finding.h"

#include "diagnosis/events.h"
#include "diagnosis/kernel_window.h"

struct log_options {
    /* Told now and then: bytes taken and bytes in all of the files on disk (0 when unknown). */
    void (*progress)(void *ctx, const char *path, uint64_t taken, uint64_t total);
    void *ctx;
    const volatile int *stop; /* set by a signal handler: reading ends early, results stand */
    bool line_by_line; /* nothing is kept about the shapes of lines: slower, the same result */
    int year;          /* completes dates without a year in streams; 0: 1970 */
};

/*
 * `train` and `kernel` are paths as input_list_add() takes them ("-", files, directories). A file
 * that cannot be opened is an error when it was named by the user; damage inside one is a note in
 * the result. The result lives on `a`. A training log that is a kernel log by its looks is scanned
 * for both kinds.
 */
enum status log_facts_read(struct arena *a, const struct knowledge *k,
                           const struct text_list *train, const struct text_list *kernel,
                           const struct log_options *options, const struct log_facts **ret_facts,
                           struct err *err) MUST_USE;

/* The same in steps. */
struct log_reader;

enum status log_reader_new(struct arena *a, const struct knowledge *k,
                           const struct log_options *options, struct log_reader **ret_reader,
                           struct err *err) MUST_USE;
void log_reader_free(struct log_reader *r); /* NULL is fine */

/* Reads what a path stands for to its end. */
enum status log_reader_add(struct log_reader *r, const char *path, bool kernel,
                           struct err *err) MUST_USE;

/* Bytes from the caller as one file, in pieces of `chunk` bytes: for tests and fuzzing. */
enum status log_reader_add_bytes(struct log_reader *r, const char *name, struct str bytes,
                                 size_t chunk, bool kernel, struct err *err) MUST_USE;

/* What the training logs read so far say of the run's time. */
struct log_times log_reader_times(const struct log_reader *r);

/* The facts so far; r may be used further, each call makes a new result. */
const struct log_facts *log_reader_facts(struct log_reader *r);

/*
 * Follows one file as it grows: calls fresh() with the events that came since the last call, about
 * twice a second while there are any, and idle() when there are none; either ends the following by
 * returning false, as does options->stop. A file that is replaced or cut (rotation) is read anew.
 */
struct log_follower {
    void *ctx;
    bool (*fresh)(void *ctx, const struct event *const *events, size_t count);
    bool (*idle)(void *ctx);
};
enum status log_reader_follow(struct log_reader *r, const char *path, bool kernel,
                              const struct log_follower *follower, struct err *err) MUST_USE;

#endif
