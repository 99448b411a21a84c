// SPDX-License-Identifier: Apache-2.0
/*
 * JUnit XML for CI systems: a test case per finding or stage. Errors and warnings are failures,
 * "could not tell" is skipped (never passed), notes and ok pass.
 */
#include "report/formats.h"

static void xml(struct strbuf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)(text != NULL ? text : ""); *p; p++) {
        switch (*p) {
        case '<': strbuf_addz(out, "&lt;"); break;
        case '>': strbuf_addz(out, "&gt;"); break;
        case '&': strbuf_addz(out, "&amp;"); break;
        case '"': strbuf_addz(out, "&quot;"); break;
        default:
            /* XML 1.0 has no way to write other control characters. */
            if (*p >= 0x20 || *p == '\n' || *p == '\t') {
                strbuf_addc(out, (char)*p);
            } else {
                strbuf_addc(out, '?');
            }
        }
    }
}

static void attribute(struct strbuf *out, const char *name, const char *value)
{
    strbuf_fmt(out, " %s=\"", name);
    xml(out, value);
    strbuf_addc(out, '"');
}

static bool is_failure(const struct finding *f)
{
    return f->severity == SEVERITY_ERROR || f->severity == SEVERITY_WARNING;
}

static void finding_case(struct strbuf *out, const struct report *r, const struct finding *f)
{
    strbuf_addz(out, "    <testcase");
    attribute(out, "classname", r->command);
    attribute(out, "name", f->id);
    strbuf_addz(out, ">\n");
    if (is_failure(f)) {
        strbuf_addz(out, "      <failure");
        attribute(out, "type", severity_name(f->severity));
        attribute(out, "message", f->title);
        strbuf_addc(out, '>');
        xml(out, f->claim);
        for (size_t i = 0; i < f->evidence.count; i++) {
            const struct evidence *e = &f->evidence.items[i];
            strbuf_addz(out, "\n");
            xml(out, e->source);
            if (e->line > 0) {
                strbuf_fmt(out, ":%ld", e->line);
            }
            strbuf_addz(out, ": ");
            xml(out, e->text);
        }
        for (size_t i = 0; i < f->remedy.count; i++) {
            strbuf_addz(out, "\nremedy: ");
            xml(out, f->remedy.items[i]);
        }
        strbuf_addz(out, "</failure>\n");
    } else if (f->severity == SEVERITY_UNKNOWN) {
        strbuf_addz(out, "      <skipped");
        attribute(out, "message", f->title);
        strbuf_addz(out, "/>\n");
    }
    strbuf_addz(out, "    </testcase>\n");
}

static void stage_case(struct strbuf *out, const struct report_stage *s)
{
    strbuf_addz(out, "    <testcase classname=\"stage\"");
    attribute(out, "name", s->name);
    strbuf_addz(out, ">\n");
    bool passed = str_is(str_of(s->verdict), "passed");
    if (!passed) {
        bool failed = str_is(str_of(s->verdict), "failed");
        strbuf_fmt(out, "      <%s", failed ? "failure" : "skipped");
        attribute(out, "message", s->summary);
        strbuf_addz(out, "/>\n");
    }
    strbuf_addz(out, "    </testcase>\n");
}

/* The schema of JUnit has properties before the test cases. */
static void properties(struct strbuf *out, const struct report *r, struct arena *scratch)
{
    if (r->table_count == 0 && r->number_count == 0) {
        return;
    }
    strbuf_addz(out, "    <properties>\n");
    for (size_t i = 0; i < r->number_count; i++) {
        strbuf_addz(out, "      <property");
        attribute(out, "name", r->numbers[i].key);
        strbuf_fmt(out, " value=\"%lld\"/>\n", (long long)r->numbers[i].value);
    }
    struct strbuf cell;
    strbuf_init(&cell, scratch, 4096);
    for (size_t i = 0; i < r->table_count; i++) {
        const struct report_table *t = &r->tables[i];
        for (size_t n = 0; n < t->row_count * t->column_count; n++) {
            const char *key = t->columns[n % t->column_count].key;
            strbuf_addz(out, "      <property");
            attribute(out, "name",
                      arena_fmt(scratch, "%s.%zu.%s", t->key, n / t->column_count, key));
            strbuf_clear(&cell);
            value_print(&cell, &t->cells[n]);
            attribute(out, "value", cell.p);
            strbuf_addz(out, "/>\n");
        }
    }
    strbuf_addz(out, "    </properties>\n");
}

static void suite(struct strbuf *out, const struct report *r)
{
    size_t tests = r->stage_count;
    size_t failures = 0;
    size_t skipped = 0;
    for (size_t i = 0; i < r->stage_count; i++) {
        bool failed = str_is(str_of(r->stages[i].verdict), "failed");
        bool passed = str_is(str_of(r->stages[i].verdict), "passed");
        failures += failed;
        skipped += !failed && !passed;
    }
    for (size_t l = 0; l < r->list_count; l++) {
        for (size_t i = 0; i < r->lists[l].findings->count; i++) {
            const struct finding *f = &r->lists[l].findings->items[i];
            tests++;
            failures += is_failure(f);
            skipped += f->severity == SEVERITY_UNKNOWN;
        }
    }
    strbuf_addz(out, "  <testsuite");
    attribute(out, "name", r->name != NULL ? r->name : r->command);
    strbuf_fmt(out, " tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\">\n", tests, failures, skipped);
    struct arena *scratch = arena_new(0);
    properties(out, r, scratch);
    arena_free(scratch);
    for (size_t i = 0; i < r->stage_count; i++) {
        stage_case(out, &r->stages[i]);
    }
    for (size_t l = 0; l < r->list_count; l++) {
        for (size_t i = 0; i < r->lists[l].findings->count; i++) {
            finding_case(out, r, &r->lists[l].findings->items[i]);
        }
    }
    strbuf_addz(out, "  </testsuite>\n");
}

static void render(const struct report *r, const struct report_options *o, struct strbuf *out)
{
    (void)o;
    strbuf_addz(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    suite(out, r);
    for (size_t i = 0; i < r->part_count; i++) {
        suite(out, &r->parts[i]);
    }
    strbuf_addz(out, "</testsuites>\n");
}

const struct report_format format_junit = {
    .name = "junit",
    .what = "JUnit XML; what could not be told is skipped, never passed",
    .render = render,
};
