// SPDX-License-Identifier: Apache-2.0
/* The table of formats. */
#include "report/report.h"

#include <string.h>

#include "report/formats.h"

static const struct report_format *const formats[] = {&format_text, &format_json, &format_junit,
                                                      &format_html, &format_markdown};

void report_tell(struct report *r, const char *name, const char *text)
{
    if (r->about_count < ARRAY_LEN(r->about) && text != NULL && text[0] != '\0') {
        r->about[r->about_count++] = (struct report_about){.name = name, .text = text};
    }
}

const struct report_format *report_format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            return formats[i];
        }
    }
    return NULL;
}
