// SPDX-License-Identifier: Apache-2.0
/* What `compare` found, as tables of a report. */
#ifndef ASSAY_CLI_COMPARE_TABLES_H
#define ASSAY_CLI_COMPARE_TABLES_H

#include "cli/compare/pair.h"
#include "report/report.h"

/* One row a run: how it ended, where its time went. */
struct report_table compare_times_table(struct arena *a, const struct compare_route *routes,
                                        size_t count);

/* One row a run: losses, memory, fault, libraries. */
struct report_table compare_numbers_table(struct arena *a, const struct compare_route *routes,
                                          size_t count);

/* Rows of all pairs that were not refused. */
struct report_table compare_ratios_table(struct arena *a, const struct compare_pair *pairs,
                                         size_t count);
struct report_table compare_levels_table(struct arena *a, const struct compare_pair *pairs,
                                         size_t count);

#endif
