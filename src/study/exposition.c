// SPDX-License-Identifier: Apache-2.0
/* See exposition.h. */
#include "study/exposition.h"

#include <math.h>

#include "base/utf8.h"

enum {
    LABEL_MAX = 256 /* bytes of a label's value */
};

void exposition_init(struct exposition *e, struct strbuf *out, bool openmetrics)
{
    *e = (struct exposition){.out = out, .openmetrics = openmetrics};
}

void exposition_family(struct exposition *e, enum exposition_type type, const char *name,
                       const char *unit, const char *help)
{
    e->type = type;
    e->name = name;
    e->unit = unit;
    e->help = help;
    e->headed = false;
}

static const char *suffix_of(const struct exposition *e)
{
    static const char *const suffixes[] = {
        [EXPOSITION_GAUGE] = "", [EXPOSITION_COUNTER] = "_total", [EXPOSITION_INFO] = "_info"};
    return suffixes[e->type];
}

static void head(struct exposition *e)
{
    static const char *const types[] = {
        [EXPOSITION_GAUGE] = "gauge", [EXPOSITION_COUNTER] = "counter", [EXPOSITION_INFO] = "info"};
    const char *suffix = e->openmetrics ? "" : suffix_of(e);
    const char *type = !e->openmetrics && e->type == EXPOSITION_INFO ? "gauge" : types[e->type];
    if (e->openmetrics && e->unit != NULL) {
        strbuf_fmt(e->out, "# UNIT %s %s\n", e->name, e->unit);
    }
    strbuf_fmt(e->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", e->name, suffix, e->help, e->name,
               suffix, type);
    e->headed = true;
}

static void label_value(struct exposition *e, const char *value)
{
    struct str cut = str_slice(str_of(value), 0, LABEL_MAX);
    struct strbuf clean;
    strbuf_init(&clean, e->out->arena, 4 * LABEL_MAX);
    utf8_repair(&clean, cut);
    for (size_t i = 0; i < clean.n; i++) {
        char c = clean.p[i];
        if (c == '\\' || c == '"') {
            strbuf_addc(e->out, '\\');
        }
        if (c == '\n') {
            strbuf_addz(e->out, "\\n");
        } else {
            strbuf_addc(e->out, c);
        }
    }
}

static void number(struct strbuf *out, double v)
{
    if (isnan(v)) {
        strbuf_addz(out, "NaN");
    } else if (isinf(v)) {
        strbuf_addz(out, v > 0 ? "+Inf" : "-Inf");
    } else if (v == floor(v) && fabs(v) < 1e15) {
        strbuf_fmt(out, "%.0f", v);
    } else {
        strbuf_fmt(out, "%.12g", v);
    }
}

void exposition_sample(struct exposition *e, const char *const *labels, double value)
{
    if (!e->headed) {
        head(e);
    }
    strbuf_addz(e->out, e->name);
    strbuf_addz(e->out, suffix_of(e));
    for (size_t i = 0; labels != NULL && labels[i] != NULL; i += 2) {
        strbuf_fmt(e->out, "%c%s=\"", i == 0 ? '{' : ',', labels[i]);
        label_value(e, labels[i + 1]);
        strbuf_addc(e->out, '"');
    }
    strbuf_addz(e->out, labels != NULL && labels[0] != NULL ? "} " : " ");
    number(e->out, value);
    strbuf_addc(e->out, '\n');
}

void exposition_end(struct exposition *e)
{
    if (e->openmetrics) {
        strbuf_addz(e->out, "# EOF\n");
    }
}
