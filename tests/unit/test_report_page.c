// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "report/report.h"
#include "report/report_read.h"
#include "report/svg.h"
#include "report/template.h"
#include "unit.h"

static const char *filled(struct arena *a, const char *text, const struct view *v)
{
    struct template_page page = {.text = text, .escape = html_escape};
    struct err err = {0};
    struct strbuf out;
    strbuf_init(&out, a, 1 << 16);
    return template_write(&page, "page", v, &out, &err) == ST_OK ? out.p : "(broken)";
}

static void template_fills_and_escapes(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct view *v = view_new(a);
    view_text(a, v, "name", "<b>&\"'");
    struct view *list = view_list(a, v, "rows");
    view_text(a, view_item(a, list), "x", "1");
    view_text(a, view_item(a, list), "y", "2");
    assert_string_equal(filled(a, "@@ page\n{{name}} {{{name}}}\n", v),
                        "&lt;b&gt;&amp;&quot;&#39; <b>&\"'\n");
    assert_string_equal(filled(a, "@@ page\n{{#rows}}\n[{{x}}{{name}}]\n{{/rows}}\nend\n", v),
                        "[1]\n[]\nend\n"); /* a name is not taken from the object around */
    assert_string_equal(filled(a, "@@ page\n{{^rows}}no{{/rows}}{{^none}}none{{/none}}\n", v),
                        "none\n");
    assert_string_equal(
        filled(a, "@@ part\n({{x}})\n@@ page\n{{#rows}}\n{{>part}}\n{{/rows}}\n", v), "(1)\n()\n");
    assert_string_equal(filled(a, "@@ page\n{{#name}}{{.}}{{/name}}\n", v),
                        "&lt;b&gt;&amp;&quot;&#39;\n");
    arena_free(a);
}

static void template_that_is_wrong_is_refused(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct view *v = view_new(a);
    view_text(a, v, "x", "1");
    assert_string_equal(filled(a, "@@ page\n{{#x}}never closed\n", v), "(broken)");
    assert_string_equal(filled(a, "@@ page\n{{/x}}\n", v), "(broken)");
    assert_string_equal(filled(a, "@@ page\n{{>missing}}\n", v), "(broken)");
    assert_string_equal(filled(a, "@@ page\n{{>page}}\n", v), "(broken)"); /* without end */
    arena_free(a);
}

static const char hostile[] =
    "</script><script>alert(1)</script>\"'\xff\x1b\xe2\x80\xae@user | `x`";

static const char *rendered(struct arena *a, const char *format)
{
    static struct finding_list findings;
    static const double x[] = {1, 2, 3, 4};
    static const double y[] = {3, NAN, 2, 1};
    struct report r = {.command = "run", .schema_version = 1, .verdict = hostile};
    findings = (struct finding_list){0};
    struct finding *f = VEC_PUSH(a, &findings);
    *f = (struct finding){
        .id = "x", .severity = SEVERITY_ERROR, .title = hostile, .claim = hostile};
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = hostile, .line = 7, .text = hostile};
    *VEC_PUSH(a, &f->links) = "javascript:alert(1)";
    *VEC_PUSH(a, &f->links) = "https://example.org/a_b";
    r.lists[r.list_count++] = (struct report_list){
        .key = "causes", .findings = &findings, .causes = true};
    struct report_curve *c = arena_array(a, 1, sizeof *c);
    *c = (struct report_curve){.name = hostile, .x = x, .y = y, .count = 4};
    r.plots[r.plot_count++] = (struct report_plot){.key = "loss",
                                                   .title = hostile,
                                                   .x_label = hostile,
                                                   .y_label = "",
                                                   .curves = c,
                                                   .curve_count = 1};
    report_tell(&r, "command", hostile);
    struct report_options o = {.width = 100, .version = "1"};
    struct strbuf out;
    strbuf_init(&out, a, 1 << 20);
    report_format_find(format)->render(&r, &o, &out);
    return out.p;
}

static size_t count_of(const char *text, const char *needle)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, needle)) != NULL; p++) {
        n++;
    }
    return n;
}

static void page_holds_no_script_of_a_log(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const char *page = rendered(a, "html");
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "href=\"javascript:"));
    assert_non_null(strstr(page, "href=\"https://example.org/a_b\""));
    assert_int_equal(count_of(page, "</script>"), 3); /* data, plot library, ours */
    assert_null(strstr(page, "\x1b"));
    assert_null(strstr(page, "\xe2\x80\xae")); /* text that runs backwards */
    assert_non_null(strstr(page, "&lt;/script&gt;&lt;script&gt;alert(1)"));
    assert_non_null(strstr(page, "\\u003c/script\\u003e")); /* in the data of the plot */
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_null(strstr(page, "unsafe-inline"));
    arena_free(a);
}

static void markdown_holds_no_markup_of_a_log(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const char *text = rendered(a, "markdown");
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "@user"));
    assert_null(strstr(text, " | `x`"));
    assert_non_null(strstr(text, "[https://example.org/a\\_b](<https://example.org/a\\_b>)"));
    assert_null(strstr(text, "(<javascript"));
    arena_free(a);
}

static void gaps_break_the_path(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const char *page = rendered(a, "html");
    const char *path = strstr(page, "class=\"curve curve0\" d=\"M");
    assert_non_null(path);
    assert_int_equal(path[24], 'M');
    const char *end = strchr(path + 24, '"');
    size_t moves = 0;
    for (const char *p = path + 24; p < end; p++) {
        moves += *p == 'M';
    }
    assert_int_equal(moves, 2);
    assert_non_null(strstr(page, "1 not finite, first at 2"));
    arena_free(a);
}

static void thinning_keeps_extremes_and_gaps(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);

    enum {
        N = 100000
    };

    double *x = arena_array(a, N, sizeof *x);
    double *y = arena_array(a, N, sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i % 7;
    }
    y[4321] = 1000;
    y[77777] = -1000;
    y[50000] = INFINITY;
    struct report_curve c = {.name = "c", .x = x, .y = y, .count = N};
    struct report_curve thin;
    report_curve_thin(a, &c, 300, &thin);
    assert_true(thin.count <= 300);
    struct curve_summary s;
    report_curve_summary(&thin, &s);
    assert_true(s.most == 1000 && s.least == -1000);
    assert_int_equal(s.not_finite, 1);
    assert_true(s.first_not_finite_x == 50000);
    for (size_t i = 1; i < thin.count; i++) {
        assert_true(thin.x[i] > thin.x[i - 1]);
    }
    report_curve_summary(&c, &s);
    assert_int_equal(s.finite, N - 1);
    assert_true(s.median == 3);
    arena_free(a);
}

static void empty_and_constant_plots_are_drawn(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const double x[] = {5, 5};
    const double same[] = {2, 2};
    const double none[] = {NAN, -INFINITY};
    const double huge[] = {-1e308, 1e308};
    const double *const all[] = {same, none, huge};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct report_curve c = {.name = "c", .x = x, .y = all[i], .count = 2};
        struct report_plot p = {
            .title = "t", .x_label = "x", .curves = &c, .curve_count = 1, .logarithmic = true};
        const char *svg = svg_plot(a, &p);
        assert_null(strstr(svg, "nan"));
        assert_null(strstr(svg, "inf"));
        assert_non_null(strstr(svg, "</svg>"));
    }
    arena_free(a);
}

/* ---- records read back ---- */

static enum status read_text(struct arena *a, const char *text, struct report *r, struct err *err)
{
    return report_read(a, str_of(text), "record.json", r, err);
}

static void record_comes_back(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct report r;
    assert_int_equal(read_text(a, rendered(a, "json"), &r, &err), ST_OK);
    assert_string_equal(r.command, "run");
    assert_int_equal(r.list_count, 1);
    assert_true(r.lists[0].causes);
    const struct finding *f = &r.lists[0].findings->items[0];
    assert_int_equal(f->severity, SEVERITY_ERROR);
    assert_int_equal(f->evidence.items[0].line, 7);
    assert_int_equal(r.about_count, 1);
    arena_free(a);
}

static void outcome_of_older_records_is_never_better_than_it_was(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct report r;

    static const struct {
        const char *rest;
        enum severity outcome;
    } rows[] = {
        {"", SEVERITY_UNKNOWN},
        {", \"stages\": [{\"name\": \"a\", \"verdict\": \"passed\"}]", SEVERITY_OK},
        {", \"stages\": [{\"name\": \"a\", \"verdict\": \"not run\"}]", SEVERITY_UNKNOWN},
        {", \"stages\": [{\"name\": \"a\", \"verdict\": \"failed\"}]", SEVERITY_ERROR},
        {", \"findings\": [{\"id\": \"a\", \"title\": \"t\", \"severity\": \"warning\"}]",
         SEVERITY_ERROR},
        {", \"findings\": [{\"id\": \"a\", \"title\": \"t\", \"severity\": \"dreadful\"}]",
         SEVERITY_UNKNOWN},
        {", \"findings\": [{\"id\": \"a\", \"title\": \"t\", \"severity\": \"ok\"}]", SEVERITY_OK},
        {", \"causes\": [{\"class\": \"a\", \"title\": \"t\", \"severity\": \"note\"}]",
         SEVERITY_ERROR},
        {", \"outcome\": \"fine\"", SEVERITY_OK},
        {", \"outcome\": \"splendid\"", SEVERITY_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *text = arena_fmt(a, "{\"schema_version\": 1, \"command\": \"x\"%s}",
                                     rows[i].rest);
        assert_int_equal(read_text(a, text, &r, &err), ST_OK);
        assert_int_equal(r.outcome, rows[i].outcome);
    }
    arena_free(a);
}

static void what_is_no_record_is_refused(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct report r;
    assert_int_equal(read_text(a, "{}", &r, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "no record of assay"));
    assert_int_equal(read_text(a, "[]", &r, &err), ST_FORMAT);
    assert_int_not_equal(read_text(a, "", &r, &err), ST_OK);
    assert_int_equal(read_text(a, "{\"schema_version\": 2, \"command\": \"x\"}", &r, &err),
                     ST_FORMAT);
    /* Wrong kinds everywhere are no crash. */
    assert_int_equal(
        read_text(a,
                  "{\"schema_version\": 1, \"command\": \"x\", \"stages\": 5, \"health\": [], "
                  "\"notes\": {\"a\": 1}, \"about\": [[1]], \"findings\": [{\"title\": [], "
                  "\"severity\": 3, \"evidence\": 1, \"links\": [{}]}], \"t\": [{\"a\": 1}, "
                  "{\"b\": 2}]}",
                  &r, &err),
        ST_OK);
    assert_int_equal(r.table_count, 1);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_fills_and_escapes),
        cmocka_unit_test(template_that_is_wrong_is_refused),
        cmocka_unit_test(page_holds_no_script_of_a_log),
        cmocka_unit_test(markdown_holds_no_markup_of_a_log),
        cmocka_unit_test(gaps_break_the_path),
        cmocka_unit_test(thinning_keeps_extremes_and_gaps),
        cmocka_unit_test(empty_and_constant_plots_are_drawn),
        cmocka_unit_test(record_comes_back),
        cmocka_unit_test(outcome_of_older_records_is_never_better_than_it_was),
        cmocka_unit_test(what_is_no_record_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
