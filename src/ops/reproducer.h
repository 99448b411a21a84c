// SPDX-License-Identifier: Apache-2.0
/*
 * The smallest reproducer: a folder that shows a fault of a library to the people who can mend it,
 * without this program.
 *
 *   reproducer.c  at most 100 lines of C over libc, built by one command. It places the operands as the
 *                 trial did, calls the library by dlopen, says what happened in one sentence and ends
 *                 with 1. Another library's path as argument, or --slack, is the passing control.
 *   shapes.txt    the product for `assay probe --shapes` (libraries of CPUs)
 *   report.md     what happened, how to repeat it, where the operands lie, what else was tried, the
 *                 stack: in the order of the issue forms of ROCm and PyTorch
 *
 * The text of reproducer.c is a template of src/ops/reproducer/, compiled in; reproducer_fill.h says
 * how it is filled.
 */
#ifndef ASSAY_OPS_REPRODUCER_H
#define ASSAY_OPS_REPRODUCER_H

#include "base/finding.h"

#include "ops/gemm_localise.h"

/* A line of the stack or of the story: "ROCm", "7.2.1". */
struct reproducer_line {
    const char *name, *text;
};

struct reproducer_line_list {
    struct reproducer_line *items;
    size_t count;
    size_t capacity;
};

/* How one run of the built program ended. */
enum reproducer_ending {
    REPRODUCER_NOT_RUN = 0,
    REPRODUCER_PASSED,
    REPRODUCER_FAILED,  /* it said what is wrong, exit 1 */
    REPRODUCER_REFUSED, /* it could not try: no library, no function, no device */
    REPRODUCER_OTHER,   /* a signal that it did not catch, a hang */
};

struct reproducer_outcome {
    enum reproducer_ending ending;
    char words[400]; /* its last line, or how it ended */
};

struct reproducer_check {
    bool compiled;
    const char *compiler;     /* NULL: there is none on this machine */
    char compiler_words[400]; /* where it refused */
    struct reproducer_outcome guilty, slack, control;
    const char *control_path; /* NULL: none was found */
};

/* What is told. All texts live as long as the folder is being written. */
struct reproducer {
    const struct gemm_target *target;
    const struct blas_identity *identity;   /* family and version */
    const struct gemm_diagnosis *diagnosis; /* probe and fault of the smallest product */
    const char *title;                      /* one line */
    const char *claim;                      /* one paragraph: what was found, and where from */
    struct reproducer_line_list stack; /* redacted by the writer, for readers of other houses */
    struct reproducer_line_list tried; /* further facts: kernels, switches, unguarded replay */
    struct reproducer_check check;     /* filled by reproducer_verify() */
};

/* Makes the folder, or takes an empty one, or one that holds an earlier reproducer. ST_USAGE when it
 * holds anything else. Call it before long work, so that a name that cannot be used costs nothing.
 * *ret_made: it was not there before. */
enum status reproducer_folder(const char *folder, bool *ret_made, struct err *err) MUST_USE;

/* Writes reproducer.c, and shapes.txt for libraries of CPUs. ST_UNSUPPORTED where no template fits:
 * the sentence says why. */
enum status reproducer_write(struct arena *a, const struct reproducer *r, const char *folder,
                             struct err *err) MUST_USE;

/* Builds reproducer.c with the compiler of this machine, where there is one, and runs it in children
 * with a deadline: with the guilty library, with --slack, and with the first of `controls` that it can
 * call and that passes (NULL at the end; may be NULL). The program is removed again. Fills r->check. */
enum status reproducer_verify(struct arena *a, struct reproducer *r, const char *folder,
                              const char *const *controls, struct err *err) MUST_USE;

/* Writes report.md. */
enum status reproducer_report(struct arena *a, const struct reproducer *r, const char *folder,
                              struct err *err) MUST_USE;

/* Without home folders, user and host names: "/home/joe/x" becomes "~/x". */
const char *reproducer_redact(struct arena *a, const char *text);

/* "fails on its own: yes (...)": one line for each thing that was seen. */
void reproducer_seen(struct arena *a, const struct reproducer_check *check,
                     struct text_list *ret_lines);

#endif
