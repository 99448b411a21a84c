// SPDX-License-Identifier: Apache-2.0
/*
 * A template of src/ops/reproducer/ and what its places hold. Not for other modules than reproducer_*.c.
 *
 *   @NAME@               is replaced by the value of NAME (capitals, digits and _)
 *   @if WORD [WORD...]   at the beginning of a line: the lines up to "@end" are kept when one of the
 *   @end                 words was set
 */
#ifndef ASSAY_OPS_REPRODUCER_FILL_H
#define ASSAY_OPS_REPRODUCER_FILL_H

#include "base/finding.h"
#include "base/str.h"

#include "ops/reproducer.h"

struct fill {
    struct arena *arena;
    struct reproducer_line_list values;
    struct text_list words; /* set for @if */
};

void fill_text(struct fill *f, const char *name, const char *text);
void fill_int(struct fill *f, const char *name, int64_t value);
void fill_word(struct fill *f, const char *word);

/* ST_FORMAT when the template names a value that was not given, or an @if has no @end. */
enum status fill_template(const struct fill *f, const char *template_text, struct str *ret_text,
                          struct err *err) MUST_USE;

/* The values and words that every template has: shape, extents, title, library. */
void fill_product(struct fill *f, const struct reproducer *r);

/* The template of CPU libraries. ST_UNSUPPORTED: no such calling convention, or a kind of fault that
 * the program cannot show. */
enum status fill_cpu(struct fill *f, const struct reproducer *r, struct err *err) MUST_USE;

/* The template of cuBLASLt, hipBLASLt and rocBLAS, likewise. */
enum status fill_gpu(struct fill *f, const struct reproducer *r, struct err *err) MUST_USE;

/* A line for hipblaslt-bench or rocblas-bench; NULL for other libraries. */
const char *reproducer_bench(struct arena *a, const struct reproducer *r);

/* What `reproducer.c` opens when no library is named: the path, or the last part of it where the path
 * tells of its owner or does not fit into a C string. */
const char *fill_library(struct arena *a, const char *path);

/* The text where it fits into a string and a comment of C as it is, else "not-shown". */
const char *fill_plain(struct arena *a, const char *text);

/* "cblas_sgemm" of the choice "cblas_sgemm, row-major". */
const char *fill_symbol(struct arena *a, const struct gemm_choice *choice);

/* Whether the fault is one of touching memory, seen without comparing numbers. */
bool fill_is_edge(enum gemm_fault_kind kind);

#endif
