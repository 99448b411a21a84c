// SPDX-License-Identifier: Apache-2.0
/* Collecting findings about model files. */
#include "model/issue.h"

#include <stdarg.h>
#include <string.h>

#include "base/str.h"

enum {
    MAX_CLAIM = 2000,
    MAX_TEXT = 80
};

void issues_init(struct issues *issues, struct arena *arena, const char *file)
{
    *issues = (struct issues){.arena = arena, .file = file};
}

size_t issues_count(const struct issues *issues, const char *id)
{
    size_t n = 0;
    for (size_t i = 0; issues != NULL && i < issues->list.count; i++) {
        n += strcmp(issues->list.items[i].id, id) == 0;
    }
    return n;
}

void issue_add(struct issues *issues, enum severity severity, const char *id, const char *title,
               const char *fmt, ...)
{
    if (issues == NULL) {
        return;
    }
    if (issues->list.count >= ISSUE_MAX || issues_count(issues, id) >= ISSUE_MAX_SAME) {
        issues->dropped++;
        return;
    }
    struct strbuf claim;
    strbuf_init(&claim, issues->arena, MAX_CLAIM);
    va_list ap;
    va_start(ap, fmt);
    strbuf_vfmt(&claim, fmt, ap);
    va_end(ap);
    struct finding *f = VEC_PUSH(issues->arena, &issues->list);
    *f = (struct finding){.id = id,
                          .severity = severity,
                          .title = title,
                          .claim = strbuf_str(&claim).p,
                          .confidence = 1.0};
    if (issues->file != NULL) {
        *VEC_PUSH(issues->arena, &f->evidence) = (struct evidence){.source = issues->file,
                                                                   .text = ""};
    }
}

void issue_join(struct issues *issues, enum severity severity, const char *id, const char *title,
                const char *text, const char *fmt, ...)
{
    if (issues == NULL) {
        return;
    }
    struct strbuf claim;
    strbuf_init(&claim, issues->arena, MAX_CLAIM);
    va_list ap;
    va_start(ap, fmt);
    strbuf_vfmt(&claim, fmt, ap);
    va_end(ap);
    struct evidence one = {.source = issues->file, .text = text};
    for (size_t i = 0; i < issues->list.count; i++) {
        struct finding *f = &issues->list.items[i];
        if (strcmp(f->id, id) != 0 || strcmp(f->claim, claim.p) != 0) {
            continue;
        }
        if (f->evidence.count >= ISSUE_MAX_SAME) {
            issues->dropped++;
        } else {
            *VEC_PUSH(issues->arena, &f->evidence) = one;
        }
        return;
    }
    size_t before = issues->list.count;
    issue_add(issues, severity, id, title, "%s", strbuf_str(&claim).p);
    if (issues->list.count > before && issues->list.items[before].evidence.count != 0) {
        issues->list.items[before].evidence.items[0] = one;
    }
}

void issue_remedy(struct issues *issues, const char *text)
{
    if (issues != NULL && issues->list.count > 0) {
        struct finding *f = &issues->list.items[issues->list.count - 1];
        *VEC_PUSH(issues->arena, &f->remedy) = text;
    }
}

const char *issue_text(struct arena *arena, struct str text)
{
    struct strbuf out;
    strbuf_init(&out, arena, (size_t)MAX_TEXT * 4 + 8);
    for (size_t i = 0; i < text.n && i < MAX_TEXT; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c < 0x20 || c >= 0x7f) {
            strbuf_fmt(&out, "\\x%02x", c);
        } else {
            strbuf_addc(&out, (char)c);
        }
    }
    if (text.n > MAX_TEXT) {
        strbuf_addz(&out, "...");
    }
    return strbuf_str(&out).p;
}

bool issues_wrong(const struct issues *issues)
{
    for (size_t i = 0; i < issues->list.count; i++) {
        enum severity s = issues->list.items[i].severity;
        if (s == SEVERITY_ERROR || s == SEVERITY_WARNING) {
            return true;
        }
    }
    return false;
}
