// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics as text: OpenMetrics 1.0.0, or Prometheus' text format 0.0.4, which knows no units, no info
 * and no end, and writes the suffix _total into the name of the family.
 */
#ifndef ASSAY_STUDY_EXPOSITION_H
#define ASSAY_STUDY_EXPOSITION_H

#include <stdbool.h>

#include "base/str.h"

enum exposition_type {
    EXPOSITION_GAUGE = 0,
    EXPOSITION_COUNTER, /* the sample is NAME_total */
    EXPOSITION_INFO     /* the sample is NAME_info, its value 1 */
};

struct exposition {
    struct strbuf *out;
    bool openmetrics;
    /* of the family */
    const char *name, *unit, *help;
    enum exposition_type type;
    bool headed;
};

#define EXPOSITION_TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define EXPOSITION_TYPE_TEXT        "text/plain; version=0.0.4; charset=utf-8"

void exposition_init(struct exposition *e, struct strbuf *out, bool openmetrics);

/*
 * Begins a family; its head is written with the first sample. `unit` is the last word of the name, or
 * NULL. `help` is one line. All samples of a family follow its beginning.
 */
void exposition_family(struct exposition *e, enum exposition_type type, const char *name,
                       const char *unit, const char *help);

/* `labels`: name, value, name, value, NULL; values are escaped and made UTF-8. NULL: none. */
void exposition_sample(struct exposition *e, const char *const *labels, double value);

/* "# EOF" of OpenMetrics. */
void exposition_end(struct exposition *e);

#endif
