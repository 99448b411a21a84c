// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics in columns: a header names them once, then each line holds numbers. CSV and TSV files, tables of
 * notebooks, fastai, ultralytics. Such a line says nothing by itself, so the header is kept.
 */
#ifndef ASSAY_DIAGNOSIS_METRIC_TABLE_H
#define ASSAY_DIAGNOSIS_METRIC_TABLE_H

#include "diagnosis/metric_line.h"
#include "diagnosis/metric_name.h"

struct metric_table {
    char separator; /* '\0': no header was seen; ' ': two or more spaces */
    size_t columns;
    size_t count;

    struct {
        struct metric_name name;
        size_t column;
        bool loss;
    } items[METRICS_MAX];
};

/*
 * For lines in which metric_line_parse() found nothing. False for headers and for all that is no row. Names live
 * as long as the table is not given another header.
 */
bool metric_table_read(struct metric_table *t, struct str line, struct metric_line *ret_line);

#endif
