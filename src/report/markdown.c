// SPDX-License-Identifier: Apache-2.0
/* Markdown as issue trackers read it (CommonMark with tables). Texts from outside never become markup. */
#include <string.h>

#include "report/formats.h"
#include "report/page_text.h"
#include "report/page_view.h"
#include "report/template.h"

/* Everything that could start markup is escaped, line breaks become spaces: a text stays on its line,
 * inside its table cell. '<' and '&' are written as entities, for some trackers render HTML. */
static void escape(struct strbuf *out, const char *text)
{
    if (strchr("-+=", text[0]) != NULL &&
        text[0] != '\0') { /* would begin a list or end a heading */
        strbuf_addc(out, '\\');
    }
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '<') {
            strbuf_addz(out, "&lt;");
        } else if (*p == '&') {
            strbuf_addz(out, "&amp;");
        } else if (*p == '@') {
            strbuf_addz(out, "&#64;"); /* a log must not call people */
        } else if (strchr("\\`*_[]|~#>!$", *p) != NULL) {
            strbuf_addc(out, '\\');
            strbuf_addc(out, (char)*p);
        } else if (*p == '\n' || *p == '\t') {
            strbuf_addc(out, ' ');
        } else {
            strbuf_addc(out, *p < ' ' || *p == 0x7f ? '?' : (char)*p);
        }
    }
}

static void render(const struct report *r, const struct report_options *o, struct strbuf *out)
{
    static const struct template_page page = {.text = PAGE_MARKDOWN, .escape = escape};
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct view *v = report_page_view(a, r, o, false);
    if (template_write(&page, "page", v, out, &err) != ST_OK) {
        strbuf_addz(out, err.text);
    }
    arena_free(a);
}

const struct report_format format_markdown = {
    .name = "markdown",
    .what = "Markdown with tables, for an issue or a job summary",
    .render = render,
};
