// SPDX-License-Identifier: Apache-2.0
/* A record of a command read back, then rendered in every form: the page may hold three scripts and no more. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/report_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const forms[] = {"text", "json", "junit", "html", "markdown"};
    struct arena *a = arena_new((size_t)1 << 30);
    struct report r;
    struct str text = {.p = (const char *)data, .n = size};
    if (report_read(a, text, "record.json", &r, NULL) == ST_OK) {
        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
            struct report_options o = {.width = 80, .version = "1"};
            struct strbuf out;
            strbuf_init(&out, a, (size_t)256 << 20);
            report_format_find(forms[i])->render(&r, &o, &out);
            bool page = strcmp(forms[i], "html") == 0;
            if (page &&
                (strcasestr(out.p, "<script") != NULL || strcasestr(out.p, "<img") != NULL)) {
                abort(); /* a record without curves brings no script at all */
            }
        }
    }
    arena_free(a);
    return 0;
}
