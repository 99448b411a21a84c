// SPDX-License-Identifier: Apache-2.0
/* The formats, one file each. */
#ifndef ASSAY_REPORT_FORMATS_H
#define ASSAY_REPORT_FORMATS_H

#include "report/report.h"

extern const struct report_format format_text;
extern const struct report_format format_json;
extern const struct report_format format_junit;
extern const struct report_format format_html;
extern const struct report_format format_markdown;

#endif
