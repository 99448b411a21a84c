// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "report/report.h"
#include "unit.h"

static const struct report_column columns[] = {
    {"name", "library", 0}, {"probes", "probes", 0}, {"worst", "worst", 3}, {"hidden", NULL, 0}};

static struct report sample(void)
{
    static struct value cells[8];
    cells[0] = value_string("a\033[31m");
    cells[1] = value_int(118098);
    cells[2] = value_real(0.123456);
    cells[3] = value_string("h<1>");
    cells[4] = value_string("größer");
    cells[5] = (struct value){.kind = VALUE_NULL};
    cells[6] = value_real(NAN);
    cells[7] = (struct value){.kind = VALUE_NULL};
    struct report r = {.command = "probe", .schema_version = 1, .verdict = "fine"};
    r.tables[r.table_count++] = (struct report_table){.key = "libraries",
                                                      .heading = "libraries",
                                                      .columns = columns,
                                                      .column_count = 4,
                                                      .cells = cells,
                                                      .row_count = 2};
    r.numbers[r.number_count++] = (struct report_number){"probes", 118098};
    return r;
}

static const char *rendered(struct arena *a, const char *format)
{
    struct report r = sample();
    struct report_options o = {.width = 100};
    struct strbuf out;
    strbuf_init(&out, a, 1 << 16);
    report_format_find(format)->render(&r, &o, &out);
    return out.p;
}

static void text_aligns_characters_not_bytes(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const char *text = rendered(a, "text");
    assert_non_null(strstr(text, "  library  probes  worst\n"));
    assert_non_null(strstr(text, "  a?[31m   118098  0.123\n"));
    assert_non_null(strstr(text, "  größer        -    nan\n"));
    assert_null(strstr(text, "h<1>"));
    arena_free(a);
}

static void json_keeps_numbers_and_says_null_for_nan(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const char *text = rendered(a, "json");
    assert_non_null(strstr(text, "\"probes\": 118098,\n  \"libraries\": ["));
    assert_non_null(strstr(text, "\"worst\": null"));
    assert_non_null(strstr(text, "\"hidden\": \"h<1>\""));
    arena_free(a);
}

static void junit_escapes_cells(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const char *text = rendered(a, "junit");
    assert_non_null(strstr(text, "<property name=\"probes\" value=\"118098\"/>"));
    assert_non_null(strstr(text, "name=\"libraries.0.hidden\" value=\"h&lt;1&gt;\""));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_aligns_characters_not_bytes),
        cmocka_unit_test(json_keeps_numbers_and_says_null_for_nan),
        cmocka_unit_test(junit_escapes_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
