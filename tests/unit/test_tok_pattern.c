// SPDX-License-Identifier: Apache-2.0
/* The expressions matched by hand against PCRE2 with the same expression, on texts that mix letters,
 * marks, digits, every kind of space and contractions; and the byte-level alphabet. */
#include <string.h>

#include "base/utf8.h"

#include "model/tok_parts.h"
#include "unit.h"

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static struct str random_text(struct arena *a, uint32_t *seed)
{
    static const uint32_t characters[] = {
        'a',     'B',    's',    'S',    'l',     'L',    'v',    'e',    '\'',  '\'',
        ' ',     ' ',    ' ',    '\n',   '\r',    '\t',   '1',    '2',    '3',   '.',
        '/',     '!',    0x17F,  0xA0,   0x85,    0x2028, 0x3000, 0x200B, 0x301, 0x93F,
        0x4E00,  0x9FA5, 0x3042, 0x30FF, 0xFF13,  0x661,  0xC9,   0x1C5,  0x2B0, 0x20AC,
        0x1F642, 0xFE0F, 0x180E, 0xFEFF, 0xE0100, 0x2167, 0};
    struct strbuf b;
    strbuf_init(&b, a, 1 << 12);
    uint32_t n = 1 + next_random(seed) % 24;
    for (uint32_t i = 0; i < n; i++) {
        utf8_add(&b, characters[next_random(seed) % ARRAY_LEN(characters)]);
    }
    return strbuf_str(&b);
}

static void hand_made_matchers_cut_as_their_expressions(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const struct unicode_table *u = unicode_table_new(a);
    uint32_t seed = 1;
    for (size_t k = 0; tok_pattern_known(k) != NULL; k++) {
        struct tok_pattern hand;
        struct tok_pattern regex;
        struct err err;
        struct str expression = str_of(tok_pattern_known(k));
        assert_int_equal(tok_pattern_of(a, expression, &hand, &err), ST_OK);
        assert_int_equal(tok_pattern_compile(a, expression, &regex, &err), ST_OK);
        assert_int_not_equal(hand.kind, TOK_PATTERN_REGEX);
        for (int i = 0; i < 4000; i++) {
            struct arena_mark mark = arena_mark(a);
            struct str text = random_text(a, &seed);
            size_t at = 0;
            for (;;) {
                size_t from[2] = {0, 0};
                size_t to[2] = {0, 0};
                enum tok_found one = tok_pattern_find(&hand, u, text, at, &from[0], &to[0]);
                enum tok_found two = tok_pattern_find(&regex, u, text, at, &from[1], &to[1]);
                if (one != two || from[0] != from[1] || to[0] != to[1]) {
                    print_message("%s: '%.*s' at %zu: %zu-%zu, expected %zu-%zu\n", hand.name,
                                  STR_ARG(text), at, from[0], to[0], from[1], to[1]);
                    fail();
                }
                if (one != TOK_FOUND) {
                    break;
                }
                at = to[0];
            }
            arena_rewind(a, mark);
        }
        tok_pattern_free(&regex);
    }
    arena_free(a);
}

/* Counts of DerivedGeneralCategory-16.0.0.txt; a utf8proc that knows more has more. */
static void classes_know_unicode_16(void **state)
{
    (void)state;

    static const struct {
        unsigned class;
        unsigned count;
    } counts[] = {{UNICODE_LETTER, 141028},
                  {UNICODE_NUMBER, 1911},
                  {UNICODE_MARK, 2501},
                  {UNICODE_PUNCTUATION, 855},
                  {UNICODE_SYMBOL, 8514}};

    for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
        unsigned count = 0;
        for (uint32_t cp = 0; cp < 0x110000; cp++) {
            count += (unicode_class_slow(cp) & counts[k].class) != 0;
        }
        assert_true(count >= counts[k].count);
    }
    assert_int_equal(unicode_class_slow(0x13460), UNICODE_LETTER); /* a hieroglyph, 16.0 */
    assert_int_equal(unicode_class_slow(0x2EBF0), UNICODE_LETTER); /* an ideograph, 15.1 */
    assert_int_equal(unicode_class_slow(0x1FADF), UNICODE_SYMBOL); /* SPLATTER, 16.0 */
    assert_int_equal(unicode_class_slow(0x1FADD), 0);
    assert_true(unicode_is_word(0x10D70) && !unicode_is_other(0x1FADF));
}

static void every_byte_survives_the_byte_level_alphabet(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    char all[256];
    char back[512];
    size_t n;
    struct strbuf b;
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
    }
    strbuf_init(&b, a, 4096);
    tok_alphabet_add(&b, (struct str){.p = all, .n = sizeof all});
    assert_true(tok_bytes_of(strbuf_str(&b), back, &n));
    assert_int_equal(n, 256);
    assert_memory_equal(back, all, 256);
    assert_false(tok_bytes_of(STR("\xE4\xB8\x80"), back, &n)); /* outside the alphabet */
    arena_free(a);
}

static void normal_forms_join_marks_across_inert_characters(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf b;
    strbuf_init(&b, a, 4096);
    unicode_normalize(UNICODE_NFC, &b, STR("x e\xCC\x81 \xE1\x84\x80\xE1\x85\xA1 \xE4\xB8\xAD"));
    assert_string_equal(b.p, "x \xC3\xA9 \xEA\xB0\x80 \xE4\xB8\xAD");
    strbuf_clear(&b);
    unicode_normalize(UNICODE_NFKC, &b, STR("\xEF\xAC\x81 \xEF\xBC\xA1"));
    assert_string_equal(b.p, "fi A");
    /* U+0EBA has a combining class since Unicode 12, U+0898 since 14: not for the tokenizers library. */
    strbuf_clear(&b);
    unicode_normalize(UNICODE_NFC, &b, STR("\xE0\xBA\xB9\xE0\xBA\xBA\xCC\x81"));
    assert_string_equal(b.p, "\xE0\xBA\xB9\xE0\xBA\xBA\xCC\x81");
    strbuf_clear(&b);
    unicode_normalize(UNICODE_NFC, &b, STR("e\xE0\xA2\x98\xCC\x81"));
    assert_string_equal(b.p, "e\xE0\xA2\x98\xCC\x81");
    arena_free(a);
}

static void broken_bytes_become_one_mark_for_each_start(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf b;
    strbuf_init(&b, a, 4096);
    utf8_repair(&b, STR("a\xE2\x82z\xFF\xC0\x80\xED\xA0\x80"));
    assert_string_equal(b.p, "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                             "\xEF\xBF\xBD\xEF\xBF\xBD");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_made_matchers_cut_as_their_expressions),
        cmocka_unit_test(classes_know_unicode_16),
        cmocka_unit_test(every_byte_survives_the_byte_level_alphabet),
        cmocka_unit_test(normal_forms_join_marks_across_inert_characters),
        cmocka_unit_test(broken_bytes_become_one_mark_for_each_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
