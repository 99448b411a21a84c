// SPDX-License-Identifier: Apache-2.0
/* A report as views for the templates of the page and of Markdown. */
#ifndef ASSAY_REPORT_PAGE_VIEW_H
#define ASSAY_REPORT_PAGE_VIEW_H

#include "report/report.h"
#include "report/template.h"

/* `drawn`: with the drawings of a page (SVG). */
struct view *report_page_view(struct arena *a, const struct report *r,
                              const struct report_options *o, bool drawn);

#endif
