// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

#include "diagnosis/confirm.h"
#include "diagnosis/line_shape.h"
#include "diagnosis/needle.h"
#include "diagnosis/scan.h"
#include "knowledge/knowledge.h"
#include "unit.h"

static struct arena *arena;
static const struct knowledge *knowledge;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    struct err err;
    return knowledge_builtin(arena, NULL, &knowledge, &err) != ST_OK;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

struct lines {
    struct str *items;
    size_t count;
    size_t capacity;
};

static void add_lines(struct lines *out, const char *text)
{
    struct str rest = str_of(text);
    struct str line;
    while (str_cut_line(&rest, &line)) {
        if (memchr(line.p, '\r', line.n) == NULL) {
            *VEC_PUSH(arena, out) = line;
        }
    }
}

/* Examples and near misses of all patterns, all logs of the corpus. */
static struct lines all_lines(void)
{
    struct lines out = {0};
    for (size_t i = 0; i < knowledge->patterns_count; i++) {
        const struct pattern *p = &knowledge->patterns[i];
        for (size_t k = 0; k < p->examples.count; k++) {
            add_lines(&out, p->examples.items[k]);
        }
        for (size_t k = 0; k < p->negatives.count; k++) {
            add_lines(&out, p->negatives.items[k]);
        }
    }
    struct fs fs = {.prefix = ""};
    struct str text;
    struct err err;
    assert_int_equal(fs_read(&fs, arena, CORPUS_DIR "/cases.jsonl", 64u << 20, &text, &err), ST_OK);
    struct str row;
    while (str_cut_line(&text, &row)) {
        const struct tree *t;
        if (tree_from_json(arena, row, "cases.jsonl", TREE_LIMITS_DEFAULT, &t, &err) == ST_OK) {
            add_lines(&out, tree_text(t, "log", ""));
            add_lines(&out, tree_text(t, "kernel_log", ""));
        }
    }
    return out;
}

/* Candidates of the lines as one bit per (line, pattern). */
static unsigned char *candidates(struct scanner *s, const struct lines *lines)
{
    unsigned char *found = arena_array(arena, lines->count, knowledge->patterns_count);
    for (size_t i = 0; i < lines->count; i++) {
        struct str line = lines->items[i];
        struct shapes *shapes = shapes_new(arena, line.n, simd_best());
        char *text = arena_alloc(arena, line.n + SHAPE_MARGIN);
        shapes_take(shapes, memcpy(text, line.p, line.n), line.n);
        struct scan_hit *hits;
        size_t count;
        struct err err;
        assert_int_equal(scanner_line(s, line, shapes->text, 0, line.n, &hits, &count, &err),
                         ST_OK);
        for (size_t k = 0; k < count; k++) {
            assert_true(k == 0 || hits[k - 1].id < hits[k].id);
            if (hits[k].id < knowledge->patterns_count) {
                found[i * knowledge->patterns_count + hits[k].id] = 1;
            }
        }
    }
    return found;
}

/* The scanner may name lines that do not match; it must never pass over one that does. */
static void no_matching_line_is_passed_over(void **state)
{
    (void)state;
    struct scanner *s;
    struct err err;
    assert_int_equal(scanner_open(arena, knowledge, &s, &err), ST_OK);
    struct pattern *plain = arena_array(arena, knowledge->patterns_count, sizeof *plain);
    for (size_t i = 0; i < knowledge->patterns_count; i++) {
        plain[i] = (struct pattern){.id = knowledge->patterns[i].id,
                                    .regex = knowledge->patterns[i].regex};
    }
    struct confirm *c = confirm_new(arena, plain, knowledge->patterns_count);
    struct lines lines = all_lines();
    unsigned char *found = candidates(s, &lines);
    size_t matches = 0;
    for (size_t i = 0; i < lines.count; i++) {
        for (size_t k = 0; k < knowledge->patterns_count; k++) {
            if (!confirm_line(c, k, lines.items[i])) {
                continue;
            }
            matches++;
            if (!found[i * knowledge->patterns_count + k]) {
                fail_msg("pattern %s matches but was passed over in: %.*s", plain[k].id,
                         STR_ARG(lines.items[i]));
            }
        }
    }
    assert_true(matches > lines.count / 4);
    confirm_free(c);
    scanner_close(s);
}

static void databases_of_build_time_are_used(void **state)
{
    (void)state;
    struct scanner *s;
    struct err err;
    assert_int_equal(scanner_open(arena, knowledge, &s, &err), ST_OK);
    assert_true(scanner_is_prebuilt(s));
    scanner_close(s);
}

static void database_of_other_patterns_or_damaged_is_refused(void **state)
{
    (void)state;
    struct pattern patterns[] = {{.id = "a", .regex = "first thing"},
                                 {.id = "b", .regex = "[0-9] \\[[0-9]"}};
    struct knowledge k = {.patterns = patterns, .patterns_count = 2};
    struct err err;
    struct scanner *s;
    for (int p = 0; p < SCAN_PLATFORM_COUNT; p++) {
        const void *bytes;
        size_t size;
        patterns[0].regex = "first thing";
        assert_int_equal(scan_compile(arena, patterns, 2, p, &bytes, &size, &err), ST_OK);
        k.scanner_db[0].bytes = bytes;
        k.scanner_db[0].size = size;
        assert_int_equal(scanner_open(arena, &k, &s, &err), ST_OK);
        assert_true(scanner_is_prebuilt(s));
        scanner_close(s);
        k.scanner_db[0].size = size - 1;
        assert_int_equal(scanner_open(arena, &k, &s, &err), ST_OK);
        assert_false(scanner_is_prebuilt(s));
        scanner_close(s);
        k.scanner_db[0].size = size;
        patterns[0].regex = "other thing";
        assert_int_equal(scanner_open(arena, &k, &s, &err), ST_OK);
        assert_false(scanner_is_prebuilt(s));
        scanner_close(s);
    }
}

static void wrong_pattern_is_named_with_its_place(void **state)
{
    (void)state;
    struct pattern p = {.id = "bad", .regex = "(?=x)[0-9]", .where = "patterns/x.yaml:7"};
    const void *bytes;
    size_t size;
    struct err err;
    assert_int_equal(scan_compile(arena, &p, 1, SCAN_PLATFORM_AVX2, &bytes, &size, &err),
                     ST_FORMAT);
    assert_non_null(strstr(err.text, "patterns/x.yaml:7"));
}

/* Needles of `regex` as "a|b", sorted by nothing: in the order found. */
static void assert_needles(const char *regex, const char *want)
{
    struct needle_list l = {0};
    struct strbuf b;
    strbuf_init(&b, arena, 10000);
    if (needles_of(arena, regex, &l)) {
        for (size_t i = 0; i < l.count; i++) {
            strbuf_fmt(&b, "%s%.*s", i != 0 ? "|" : "", (int)l.items[i].n,
                       (const char *)l.items[i].text);
        }
    }
    if (strcmp(b.p, want) != 0) {
        fail_msg("%s gives '%s', expected '%s'", regex, b.p, want);
    }
}

/* One pattern without a needle brings a second engine over every line: a tenth of the time of a log. */
static void every_pattern_has_a_needle(void **state)
{
    (void)state;
    for (size_t i = 0; i < knowledge->patterns_count; i++) {
        struct needle_list l = {0};
        const struct pattern *p = &knowledge->patterns[i];
        if (!needles_of(arena, p->regex, &l)) {
            fail_msg("pattern '%s' (%s): no text is in every match; name one, such as a word",
                     p->id, p->regex);
        }
    }
}

static void needles_are_what_every_match_contains(void **state)
{
    (void)state;
    assert_needles("Memory access fault", "memory access fault");
    assert_needles("GPU reset(?:\\(\\d+\\))? failed", "gpu reset");
    assert_needles("\\d+ things?", "0 things|0 thing");
    assert_needles("(?:alpha|beta)x\\d", "alphax0|betax0");
    assert_needles("alpha|beta.*gamma|\\d", "");
    assert_needles("alpha|\\d+beta2", "alpha|0beta0");
    assert_needles("ab*cdef", "cdef");
    assert_needles("abcd?ef", "abcdef|abcef");
    assert_needles("(?:abcd)*xyzw", "xyzw");
    assert_needles("(?:abcd)+", "abcd");
    assert_needles("[Oo]ut of", "out of");
    assert_needles("(?i)\\bfoo bar\\b", "foo bar");
    assert_needles("x{3}abc", "xabc");
    assert_needles("pre(?:ab\\W|cd\\W)", "preab|precd"); /* reaches into groups */
    assert_needles("(?:\\Wab|\\Wcd)post", "abpost|cdpost");
    assert_needles("a(?:b\\W?)?cde", "cde");
    assert_needles("bang!{4,}\\w", "bang!!!!");
    assert_needles("(?P<n>abcd)", "abcd");
    assert_needles("(?<=x)abcd", ""); /* not understood: requires nothing */
    assert_needles("ab", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_has_a_needle),
        cmocka_unit_test(needles_are_what_every_match_contains),
        cmocka_unit_test(no_matching_line_is_passed_over),
        cmocka_unit_test(databases_of_build_time_are_used),
        cmocka_unit_test(database_of_other_patterns_or_damaged_is_refused),
        cmocka_unit_test(wrong_pattern_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
