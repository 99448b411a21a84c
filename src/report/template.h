// SPDX-License-Identifier: Apache-2.0
/*
 * Pages from templates: a small part of mustache (its manual, mustache(5)) over a tree of views.
 *
 *   {{name}}                    the text, made safe by the page's own escape
 *   {{{name}}}                  the text as it is: only for what this program made itself
 *   {{.}}                       the text of the view that the section is about
 *   {{#name}} ... {{/name}}     once for a text or an object, once for each item of a list
 *   {{^name}} ... {{/name}}     once where there is none: missing, an empty text, an empty list
 *   {{>part}}                   another part of the same template
 *
 * A line with nothing but one section tag leaves no line. Names are looked up in the object at hand and
 * nowhere else: what an object lacks does not come from the one around it. A template is a file of
 * parts, each after a line "@@ NAME".
 */
#ifndef ASSAY_REPORT_TEMPLATE_H
#define ASSAY_REPORT_TEMPLATE_H

#include "base/err.h"
#include "base/str.h"

enum view_kind {
    VIEW_TEXT = 0,
    VIEW_OBJECT,
    VIEW_LIST
};

struct view {
    enum view_kind kind;
    const char *name; /* NULL for an item of a list */
    const char *text;
    struct view *child, *last, *next;
};

struct view *view_new(struct arena *a) MUST_USE RETURNS_NONNULL; /* an object */

/* All copy nothing: names and texts outlive the view. An empty or missing text adds nothing. */
void view_text(struct arena *a, struct view *to, const char *name, const char *text);
void view_fmt(struct arena *a, struct view *to, const char *name, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
struct view *view_object(struct arena *a, struct view *to, const char *name) RETURNS_NONNULL;
struct view *view_list(struct arena *a, struct view *to, const char *name) RETURNS_NONNULL;
struct view *view_item(struct arena *a, struct view *list) RETURNS_NONNULL; /* an object */
void view_item_text(struct arena *a, struct view *list, const char *text);

struct template_page {
    const char *text; /* the template's file */
    void (*escape)(struct strbuf *out, const char *text);
};

/* Writes part `name` over `view`. ST_FORMAT when the template is not well formed: a mistake of this
 * program, found by its test. */
enum status template_write(const struct template_page *page, const char *name,
                           const struct view *view, struct strbuf *out, struct err *err) MUST_USE;

#endif
