// SPDX-License-Identifier: Apache-2.0
/*
 * A table in a report: rows that findings do not carry well, such as one line for each library that
 * was on trial. Text shows aligned columns, JSON a list of objects, JUnit a property for each cell.
 * A report holds its tables in `struct report`.
 */
#ifndef ASSAY_REPORT_TABLE_H
#define ASSAY_REPORT_TABLE_H

#include "base/str.h"
#include "base/value.h"

struct report_column {
    const char *key;     /* of JSON and JUnit: "probes_per_second" */
    const char *heading; /* of the text form; NULL: not shown there */
    int digits;          /* significant ones of a real number in text; 0 means 4 */
    const char *page;    /* heading on a page where the terminal shows none */
};

struct report_table {
    const char *key;     /* of JSON: "libraries" */
    const char *heading; /* of the text form; NULL prints none */
    const struct report_column *columns;
    size_t column_count;
    const struct value *cells; /* row after row; null where there is nothing to say */
    size_t row_count;
};

/* A number of the whole report, under its own key: how many probes were run. */
struct report_number {
    const char *key;
    int64_t value;
};

/* A cell as people read it: "-" where there is nothing, control bytes as '?', cut where `out` is full.
 * Clears `out`. */
void report_cell_text(struct strbuf *out, const struct report_column *c, const struct value *v);

/* The first cell that is not null is a number: the column is shown to the right. */
bool report_column_is_number(const struct report_table *t, size_t column);

/* Whether the text form shows any column of it. */
bool report_table_has_text(const struct report_table *t);

/* Aligned columns, numbers to the right. */
void report_table_text(const struct report_table *t, struct strbuf *out);

#endif
