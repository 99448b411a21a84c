// SPDX-License-Identifier: Apache-2.0
/* The sieve against a search for every needle at every position. */
#include <stdlib.h>
#include <string.h>

#include "diagnosis/line_shape.h"
#include "diagnosis/needle.h"
#include "diagnosis/sieve.h"
#include "unit.h"

enum {
    IDS_MAX = 64,
    TEXT_MAX = 600
};

static struct arena *arena;
static uint32_t seed = 11;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static uint32_t next_random(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 12) % below;
}

/* Needles of every length, at word borders, beside classes, of digits and hexadecimal numbers. */
static const char *const expressions[] = {
    "\\bnan\\b",
    "\\binf\\b",
    "t/s",
    "loss[=:]",
    "\\.wav",
    "0, 0",
    "1%\\|",
    "[xyz]abc[0-9]",
    "abcd",
    "[^a-z]abcde[^a-z]",
    "sdpa\\b",
    "\\brank \\d",
    "error",
    "no error",
    "signal",
    "segfault",
    "(?i)out of memory",
    "hipError\\w+",
    "memory access fault by gpu node",
    "timeout|timed out",
    "gfx90a",
    "abcabcabcabcabcabcabcabcabcabc",
    "0x[0-9a-f]{4} fault",
    "a{12}",
    "the quick brown fox",
    "\\bof the\\b",
};

struct found {
    uint32_t order;                 /* of all that was told, as a number */
    bool at[IDS_MAX][TEXT_MAX + 1]; /* by id and end */
};

static void note(void *ctx, uint32_t id, uint32_t end)
{
    struct found *f = ctx;
    assert_true(id < IDS_MAX && end <= TEXT_MAX);
    f->at[id][end] = true;
    f->order = (f->order * 31 + id) * 65599 + end;
}

static bool needle_at(const struct packed_needles *p, const struct packed_needle *n,
                      const char *text, size_t length, size_t at)
{
    for (size_t i = 0; i < n->n; i++) {
        if (at + i >= length || ((unsigned char)text[at + i] | 0x20) != n->text[i]) {
            return false;
        }
    }
    unsigned char before = at != 0 ? (unsigned char)text[at - 1] : '\n';
    unsigned char after = at + n->n < length ? (unsigned char)text[at + n->n] : '\n';
    return byte_set_has(&p->sets[n->before], before) && byte_set_has(&p->sets[n->after], after);
}

static void search(const struct packed_needles *p, const char *text, size_t n, struct found *f)
{
    for (size_t i = 0; i < p->count; i++) {
        for (size_t at = 0; at < n; at++) {
            if (needle_at(p, &p->items[i], text, n, at)) {
                f->at[p->items[i].id][at + p->items[i].n] = true;
            }
        }
    }
}

static struct packed_needles *needles(void)
{
    struct packed_needles *p = arena_alloc(arena, sizeof *p);
    packed_needles_init(arena, p);
    for (size_t i = 0; i < ARRAY_LEN(expressions); i++) {
        struct needle_list list = {0};
        if (!needles_of(arena, expressions[i], &list)) {
            fail_msg("%s has no needles", expressions[i]);
        }
        needle_list_add_hex(arena, &list);
        packed_needles_add(arena, p, &list, (uint32_t)i);
    }
    return p;
}

/* Needles, parts of them and single bytes in a row; the byte case and the digits vary. */
static size_t random_text(const struct packed_needles *p, char *text)
{
    size_t n = 0;
    size_t want = 1 + next_random(TEXT_MAX / 3);
    while (n < want) {
        const struct packed_needle *one = &p->items[next_random((uint32_t)p->count)];
        size_t cut = next_random(3) == 0 ? next_random(one->n) : 0;
        for (size_t i = cut; i < one->n && n < TEXT_MAX / 2; i++) {
            text[n++] = (char)one->text[i];
        }
        static const char between[] = " .:=-_/0x1nz\n\xc3\x80";
        text[n++] = between[next_random(sizeof between - 1)];
    }
    for (size_t i = 0; i < n; i++) {
        text[i] = text[i] == '0' && next_random(2) ? (char)('0' + next_random(10)) : text[i];
        text[i] = text[i] >= 'a' && text[i] <= 'z' && next_random(9) == 0 ? (char)(text[i] - 32)
                                                                          : text[i];
        text[i] = text[i] == '\n' ? ' ' : text[i];
    }
    return n;
}

static void every_needle_is_found_and_nothing_else(void **state)
{
    (void)state;
    struct packed_needles *p = needles();
    struct sieve *sieves[SIMD_AVX512 + 1];
    for (enum simd simd = SIMD_NONE; simd <= simd_best(); simd++) {
        sieves[simd] = sieve_new(arena, p->items, p->count, p->sets, simd);
    }
    struct shapes *shapes = shapes_new(arena, TEXT_MAX, simd_best());
    struct found *f = arena_array(arena, 1 + ARRAY_LEN(sieves), sizeof *f);
    char text[TEXT_MAX + SHAPE_MARGIN];
    size_t total = 0;
    for (int round = 0; round < 4000; round++) {
        size_t n = random_text(p, text);
        memset(f, 0, (1 + ARRAY_LEN(sieves)) * sizeof *f);
        shapes_take(shapes, text, n);
        search(p, shapes->text, n, &f[0]);
        for (enum simd simd = SIMD_NONE; simd <= simd_best(); simd++) {
            sieve_run(sieves[simd], shapes->text, n, note, &f[1 + simd]);
            assert_int_equal(f[1 + simd].order, f[1].order);
        }
        for (size_t id = 0; id < ARRAY_LEN(expressions); id++) {
            for (size_t end = 0; end <= n; end++) {
                total += f[0].at[id][end];
                for (enum simd simd = SIMD_NONE; simd <= simd_best(); simd++) {
                    if (f[0].at[id][end] != f[1 + simd].at[id][end]) {
                        fail_msg("needle of %s before byte %zu of '%.*s': there %d, found %d (%d)",
                                 expressions[id], end, (int)n, shapes->text, f[0].at[id][end],
                                 f[1 + simd].at[id][end], (int)simd);
                    }
                }
            }
        }
    }
    assert_true(total > 4000);
}

static void damaged_needles_are_not_valid(void **state)
{
    (void)state;
    struct packed_needles *p = needles();
    for (size_t i = 0; i < p->count; i++) {
        struct packed_needle n = p->items[i];
        assert_true(packed_needle_is_valid(&n, p->set_count));
        n.window[0] = (int8_t)(n.n + 1);
        assert_false(packed_needle_is_valid(&n, p->set_count));
        n.window[0] = -2;
        assert_false(packed_needle_is_valid(&n, p->set_count));
        n = p->items[i];
        n.n = NEEDLE_MAX + 1;
        assert_false(packed_needle_is_valid(&n, p->set_count));
        n = p->items[i];
        n.after = (uint8_t)p->set_count;
        assert_false(packed_needle_is_valid(&n, p->set_count));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_needle_is_found_and_nothing_else),
        cmocka_unit_test(damaged_needles_are_not_valid),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
