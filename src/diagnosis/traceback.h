// SPDX-License-Identifier: Apache-2.0
/*
 * Python tracebacks: one event `python-exception` per chain of exceptions, with captures
 * type message module file function code_line rank final (type of the last exception of the chain,
 * when it is another one) recovered ("yes" when training went on), and of the innermost frame that is
 * no installed package: own_file own_line own_code own_raise ("yes" when it raised the exception).
 *
 * The root of a chain is its first exception. In a chain made by "During handling of the above
 * exception" a lookup that failed (KeyError, AttributeError …) was expected by the program: the next
 * exception is then the root.
 */
#ifndef ASSAY_DIAGNOSIS_TRACEBACK_H
#define ASSAY_DIAGNOSIS_TRACEBACK_H

#include "diagnosis/event_store.h"

struct tracebacks;

struct tracebacks *tracebacks_new(struct arena *a,
                                  struct event_store *store) MUST_USE RETURNS_NONNULL;

/*
 * A line; `head` when it has MARK_TRACEBACK, `named` when it has MARK_EXCEPTION. Every line must be
 * shown while tracebacks_wants_lines() says so. `progress` counts the lines so far that show that
 * training goes on.
 */
void tracebacks_line(struct tracebacks *t, const struct line_context *line, bool head, bool named,
                     uint64_t progress);
bool tracebacks_wants_lines(const struct tracebacks *t);

void tracebacks_begin_file(struct tracebacks *t);

/* True when a line behind its prefix is "TypeError: message" or the like, of an exception's own. */
bool tracebacks_is_exception(struct str body);

/* The file ends. `completed` when the file says that the run finished, at progress count
 * `completed_at`. */
void tracebacks_flush(struct tracebacks *t, uint64_t progress, bool completed,
                      uint64_t completed_at);

/* The exception that stopped the run first, over all files; NULL when there was none. With
 * `rank` >= 0 one of that rank is preferred. */
struct root_exception {
    const char *type;
    const char *message;
    int rank;
    bool import_time; /* innermost frames are module code */
};
const struct root_exception *tracebacks_root(const struct tracebacks *t, int rank);

/* True when an exception was not recovered from in the file that was flushed last. */
bool tracebacks_file_died(const struct tracebacks *t);

#endif
