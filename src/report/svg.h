// SPDX-License-Identifier: Apache-2.0
/*
 * Drawings of a page as SVG, for print and for readers without scripts. Colours and dashes come from the
 * page's style by class (curve0 to curve7); texts are escaped here.
 */
#ifndef ASSAY_REPORT_SVG_H
#define ASSAY_REPORT_SVG_H

#include "report/plot.h"

const char *svg_plot(struct arena *a, const struct report_plot *p);

/* One bar of the timeline, `end_s` wide, which grows and shrinks with the page. */
const char *svg_span(struct arena *a, const struct report_span *s, double end_s);

/* Text inside HTML, between tags or in a double-quoted attribute. */
void html_escape(struct strbuf *out, const char *text);

#endif
