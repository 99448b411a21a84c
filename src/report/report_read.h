// SPDX-License-Identifier: Apache-2.0
/*
 * Reads back what `assay ... --json` wrote (docs/schema), so that a record made on one machine becomes a page
 * on another. The file is foreign. Keys that are not known are left out; a list of flat objects under an unknown
 * key becomes a table.
 */
#ifndef ASSAY_REPORT_REPORT_READ_H
#define ASSAY_REPORT_REPORT_READ_H

#include "base/err.h"

#include "report/report.h"

/* ST_FORMAT: no JSON, or no record of assay. A record that does not state its outcome gets the one that its
 * findings and stages have; without any it is UNKNOWN. */
enum status report_read(struct arena *a, struct str text, const char *name,
                        struct report *ret_report, struct err *err) MUST_USE;

#endif
