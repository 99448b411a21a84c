// SPDX-License-Identifier: Apache-2.0
/* Packed logs: what is taken for one, what a line holds, and where its events stand in the file. */
#include "diagnosis/unwrap.h"
#include "log_support.h"

static void assert_unwrapped(enum wrapping wrapping, const char *line, const char *text)
{
    char *out = arena_alloc(arena, strlen(line) + 1);
    struct strbuf scratch;
    strbuf_init(&scratch, arena, 4096);
    size_t n = unwrap_line(wrapping, str_of(line), out, &scratch);
    assert_true(n <= strlen(line));
    if (!str_eq((struct str){.p = out, .n = n}, str_of(text))) {
        fail_msg("'%.*s' instead of '%s'", (int)n, out, text);
    }
}

static void formats_are_told_by_their_first_bytes(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        enum wrapping wrapping;
    } cases[] = {
        {"", WRAPPING_NONE},
        {"{'loss': 2.0}\n{'loss': 1.9}\n", WRAPPING_NONE},
        {"{\"log\":\"a\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-01T00:00:00Z\"}\n",
         WRAPPING_JSON_LINES},
        {"{\"MESSAGE\":\"a\",\"_TRANSPORT\":\"kernel\"}\n", WRAPPING_JSON_LINES},
        {"{\"line\":\"a\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n", WRAPPING_JSON_LINES},
        {"{\"message\":\"a\",\"time\":\"2026-01-01T00:00:00Z\"}\n", WRAPPING_JSON_LINES},
        {"{\"message\":\"step\",\"loss\":2.0,\"time\":\"2026-01-01T00:00:00Z\"}\n", WRAPPING_NONE},
        {"{\"loss\": 2.0, \"step\": 1}\n{\"loss\": 1.9, \"step\": 2}\n", WRAPPING_NONE},
        {"{\"log\":\"a", WRAPPING_NONE},
        {"{\n \"cells\": [\n  {\n   \"cell_type\": \"code\"", WRAPPING_NOTEBOOK},
        {"<pre>\n<span class=\"ansi-red-fg\">x</span>\n", WRAPPING_HTML},
        {"<details>\nTraceback\n", WRAPPING_NONE},
        {"    Traceback\n\n      File\n\tx\n", WRAPPING_INDENTED},
        {"    Traceback\n  File\n", WRAPPING_NONE},
        {"    loss 2.0\n", WRAPPING_NONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(wrapping_of(str_of(cases[i].text)), cases[i].wrapping);
    }
}

static void the_text_of_a_line_comes_out(void **state)
{
    (void)state;
    assert_unwrapped(
        WRAPPING_JSON_LINES,
        "{\"log\":\"File \\\"x\\\"\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-01T00:00:00Z\"}",
        "2026-01-01T00:00:00Z File \"x\"");
    assert_unwrapped(WRAPPING_JSON_LINES, "{\"MESSAGE\":\"NVRM: x\",\"_TRANSPORT\":\"kernel\"}",
                     "kernel: NVRM: x");
    assert_unwrapped(WRAPPING_NOTEBOOK, "    \"a\\nb\\n\",", "a\rb");
    assert_unwrapped(WRAPPING_NOTEBOOK, "   \"ename\": \"RuntimeError\",",
                     "   \"ename\": \"RuntimeError\",");
    assert_unwrapped(WRAPPING_INDENTED, "      File x", "  File x");
    assert_unwrapped(WRAPPING_INDENTED, "\tx", "x");
    assert_unwrapped(WRAPPING_INDENTED, "  x", "  x");
    assert_unwrapped(WRAPPING_HTML, "<span class=\"x\">&lt;module&gt;</span> eth0<0> &amp;c<br>",
                     "<module> eth0<0> &c\r");
}

static void broken_lines_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",        "{",  "{\"log\":\"a", "{\"log\":\"\\ud800\",\"time\":\"x\"}", "\"", "\"\\",
        "\"a\\\"", "{}", "[1]",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        assert_unwrapped(WRAPPING_JSON_LINES, lines[i], lines[i]);
        assert_unwrapped(WRAPPING_NOTEBOOK, lines[i], lines[i]);
    }
    assert_unwrapped(WRAPPING_HTML, "<", "<");
    assert_unwrapped(WRAPPING_HTML, "a & b <0> </", "a & b <0> </");
}

static void events_stand_where_the_file_has_them(void **state)
{
    (void)state;
    const char *first =
        "{\"log\":\"\\u001b[31mstart\\u001b[0m\\n\",\"stream\":\"stdout\",\"time\":\"t\"}\n";
    const char *second = "{\"log\":\"Memory access fault by GPU node-1 on address 0x7f0000\\n\","
                         "\"stream\":\"stderr\",\"time\":\"t\"}\n";
    const struct log_facts *lf = log_of(arena, arena_fmt(arena, "%s%s", first, second));
    const struct event *e = event_of_id(lf, "fault", 0);
    assert_int_equal(e->line, 2);
    assert_int_equal(e->offset, strlen(first));
    assert_capture(e, "address", "0x7f0000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_told_by_their_first_bytes),
        cmocka_unit_test(the_text_of_a_line_comes_out),
        cmocka_unit_test(broken_lines_stay_as_they_are),
        cmocka_unit_test(events_stand_where_the_file_has_them),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
