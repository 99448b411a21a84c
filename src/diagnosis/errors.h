// SPDX-License-Identifier: Apache-2.0
/*
 * Tables of error numbers (knowledge/errors.tsv: HIP, HSA, CUDA, the maths libraries, NCCL) and of
 * NVIDIA Xids (knowledge/xid.tsv), compiled in.
 */
#ifndef ASSAY_DIAGNOSIS_ERRORS_H
#define ASSAY_DIAGNOSIS_ERRORS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"

struct error_row {
    const char *api; /* hip, hsa, cuda, rocblas, hipblas, miopen, nccl */
    long number;
    const char *name;    /* hipErrorIllegalAddress, HSA_STATUS_ERROR_MEMORY_FAULT */
    const char *text;    /* what the API's own string function says; may be empty */
    const char *meaning; /* plain words */
};

struct xid_row {
    long number;
    const char *name;
    const char *class_name; /* application, driver, hardware, interconnect, consequence, info */
    const char *meaning;
};

struct error_table {
    struct error_row *rows;
    size_t row_count;
    struct xid_row *xids;
    size_t xid_count;
    struct map *by_name;
};

/* The tables compiled into the program. */
enum status error_table_builtin(struct arena *a, const struct error_table **ret_table,
                                struct err *err) MUST_USE;

/* The same from texts; either may be empty. */
enum status error_table_parse(struct arena *a, struct str errors_tsv, struct str xid_tsv,
                              const struct error_table **ret_table, struct err *err) MUST_USE;

const struct error_row *error_by_number(const struct error_table *t, const char *api, long number);
const struct error_row *error_by_name(const struct error_table *t, struct str name);
const struct xid_row *xid_by_number(const struct error_table *t, long number);

/* A plain explanation when the line names an error of a table (hipErrorX, HSA_STATUS_X, "error
 * code: 0x2b", "Error 100:"), else NULL. */
const char *error_explain(const struct error_table *t, struct arena *a, struct str line);

#endif
