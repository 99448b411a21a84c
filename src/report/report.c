// SPDX-License-Identifier: Apache-2.0
/* The table of formats. */
#include "report/report.h"

#include <string.h>

#include "report/formats.h"

static const struct report_format *const formats[] = {&format_text, &format_json, &format_junit};

const struct report_format *report_format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            return formats[i];
        }
    }
    return NULL;
}
