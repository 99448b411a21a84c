// SPDX-License-Identifier: Apache-2.0
/* ZIP archives: one sound archive, and what goes wrong with it byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "model/zip.h"

enum {
    LOCAL = 30,
    CENTRAL = 46
};

/* An archive being written. */
struct maker {
    unsigned char p[4096];
    size_t n;
    unsigned char directory[2048];
    size_t directory_n;
    unsigned count;
};

static void put(unsigned char *p, size_t *n, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        p[(*n)++] = i < 8 ? (unsigned char)(value >> (8 * i)) : 0;
    }
}

static void put_bytes(unsigned char *p, size_t *n, const void *from, size_t count)
{
    memcpy(p + *n, from, count);
    *n += count;
}

static void common(unsigned char *p, size_t *n, uint16_t method, uint32_t crc, size_t packed,
                   size_t size, const char *name)
{
    put(p, n, 20, 2);
    put(p, n, 0, 2);
    put(p, n, method, 2);
    put(p, n, 0, 4);
    put(p, n, crc, 4);
    put(p, n, packed, 4);
    put(p, n, size, 4);
    put(p, n, strlen(name), 2);
    put(p, n, 0, 2);
}

static void add_packed(struct maker *m, const char *name, uint16_t method, const void *packed,
                       size_t packed_n, uint32_t crc, size_t size)
{
    size_t at = m->n;
    put(m->p, &m->n, 0x04034b50, 4);
    common(m->p, &m->n, method, crc, packed_n, size, name);
    put_bytes(m->p, &m->n, name, strlen(name));
    put_bytes(m->p, &m->n, packed, packed_n);
    put(m->directory, &m->directory_n, 0x02014b50, 4);
    put(m->directory, &m->directory_n, 20, 2);
    common(m->directory, &m->directory_n, method, crc, packed_n, size, name);
    put(m->directory, &m->directory_n, 0, 10);
    put(m->directory, &m->directory_n, 0, 2);
    m->directory_n -= 2;
    put(m->directory, &m->directory_n, at, 4);
    put_bytes(m->directory, &m->directory_n, name, strlen(name));
    m->count++;
}

static void add(struct maker *m, const char *name, const char *text)
{
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)text, (uInt)strlen(text));
    add_packed(m, name, 0, text, strlen(text), crc, strlen(text));
}

static struct str finish(struct maker *m)
{
    size_t at = m->n;
    put_bytes(m->p, &m->n, m->directory, m->directory_n);
    put(m->p, &m->n, 0x06054b50, 4);
    put(m->p, &m->n, 0, 4);
    put(m->p, &m->n, m->count, 2);
    put(m->p, &m->n, m->count, 2);
    put(m->p, &m->n, m->directory_n, 4);
    put(m->p, &m->n, at, 4);
    put(m->p, &m->n, 0, 2);
    return (struct str){.p = (const char *)m->p, .n = m->n};
}

static struct str sound(struct maker *m)
{
    memset(m, 0, sizeof *m);
    add(m, "a/data.pkl", "\x80\x02N.");
    add(m, "a/data/0", "0123456789abcdef");
    return finish(m);
}

struct opened {
    struct arena *arena;
    struct issues issues;
    struct zip zip;
    struct err err;
    enum status status;
};

static struct opened open_bytes(struct str bytes)
{
    struct opened o = {.arena = arena_new(0)};
    issues_init(&o.issues, o.arena, "test");
    o.status = zip_open(o.arena, bytes, &o.issues, &o.zip, &o.err);
    return o;
}

/* Directory, headers and content all agree. */
static bool accepted(struct str bytes)
{
    struct opened o = open_bytes(bytes);
    bool fine = o.status == ST_OK && !issues_wrong(&o.issues);
    for (size_t i = 0; fine && i < o.zip.count; i++) {
        fine = zip_verify(o.arena, &o.zip, i, &o.err) == ST_OK;
    }
    arena_free(o.arena);
    return fine;
}

static void expect_issue(struct str bytes, const char *id)
{
    struct opened o = open_bytes(bytes);
    if (issues_count(&o.issues, id) == 0) {
        fail_msg("no issue %s (%s)", id, o.err.text);
    }
    arena_free(o.arena);
}

static void test_sound_archive_is_read(void **state)
{
    (void)state;
    struct maker m;
    struct str bytes = sound(&m);
    assert_true(accepted(bytes));
    struct opened o = open_bytes(bytes);
    struct str text;
    size_t i = zip_find(&o.zip, STR("a/data/0"));
    assert_int_equal(zip_read(o.arena, &o.zip, i, 100, &text, &o.err), ST_OK);
    assert_true(str_is(text, "0123456789abcdef"));
    assert_int_equal(zip_find(&o.zip, STR("a/data/1")), SIZE_MAX);
    arena_free(o.arena);
}

static void test_every_cut_is_noticed(void **state)
{
    (void)state;
    struct maker m;
    struct str bytes = sound(&m);
    for (size_t n = 0; n < bytes.n; n++) {
        assert_false(accepted(str_slice(bytes, 0, n)));
    }
}

/* Fields that no reader needs: versions, times, attributes. */
static bool is_free_field(struct str b, size_t at)
{
    for (size_t i = 0; i + 4 <= b.n; i++) {
        size_t d = at - i;
        if (at < i || memcmp(b.p + i, "PK", 2) != 0) {
            continue;
        }
        if (b.p[i + 2] == 3 && ((d >= 4 && d < 8) || (d >= 10 && d < 14))) {
            return true;
        }
        if (b.p[i + 2] == 1 && ((d >= 4 && d < 10) || (d >= 12 && d < 16) || (d >= 34 && d < 42))) {
            return true;
        }
    }
    return false;
}

static void test_every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    struct maker m;
    struct str bytes = sound(&m);
    struct maker copy = m;
    for (size_t at = 0; at < bytes.n; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            copy.p[at] ^= (unsigned char)(1u << bit);
            if (!is_free_field(bytes, at) &&
                accepted((struct str){.p = (const char *)copy.p, .n = bytes.n})) {
                fail_msg("bit %u of byte %zu", bit, at);
            }
            copy.p[at] ^= (unsigned char)(1u << bit);
        }
    }
}

static void test_junk_in_front_and_behind(void **state)
{
    (void)state;
    struct maker m;
    struct str bytes = sound(&m);
    static char big[8192];
    memset(big, 0, sizeof big);
    memcpy(big, "MZ", 2);
    memcpy(big + 100, bytes.p, bytes.n);
    expect_issue((struct str){.p = big, .n = 100 + bytes.n}, "zip-leading-bytes");
    expect_issue((struct str){.p = big + 100, .n = bytes.n + 7}, "zip-trailing-bytes");
}

static void test_duplicate_and_hostile_names(void **state)
{
    (void)state;
    struct maker m = {0};
    add(&m, "a/data.pkl", "x");
    add(&m, "a/data.pkl", "y");
    expect_issue(finish(&m), "zip-duplicate-name");
    const char *const names[] = {"../x", "/x", "a/../../x", "a\\..\\x", "C:x", "a/.."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        m = (struct maker){0};
        add(&m, names[i], "x");
        expect_issue(finish(&m), "zip-hostile-name");
    }
}

static void test_overlapping_members(void **state)
{
    (void)state;
    struct maker m = {0};
    add(&m, "a", "0123456789");
    size_t second = m.directory_n;
    memcpy(m.directory + m.directory_n, m.directory, m.directory_n);
    m.directory_n *= 2;
    m.directory[second + CENTRAL] = 'a';
    m.count++;
    expect_issue(finish(&m), "zip-overlap");
}

static void test_hidden_member_is_noticed(void **state)
{
    (void)state;
    struct maker m = {0};
    add(&m, "a", "visible");
    size_t kept = m.directory_n;
    add(&m, "b", "not in the directory");
    m.directory_n = kept;
    m.count = 1;
    expect_issue(finish(&m), "zip-unclaimed-bytes");
}

static void test_deflated_member(void **state)
{
    (void)state;
    char text[1000];
    unsigned char packed[200];
    memset(text, 'x', sizeof text);
    z_stream z = {.next_in = (Bytef *)text,
                  .avail_in = sizeof text,
                  .next_out = packed,
                  .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)text, sizeof text);

    struct maker m = {0};
    add_packed(&m, "a", 8, packed, n, crc, sizeof text);
    struct str bytes = finish(&m);
    assert_true(accepted(bytes));
    struct opened o = open_bytes(bytes);
    struct str got;
    assert_int_equal(zip_read(o.arena, &o.zip, 0, 1000, &got, &o.err), ST_OK);
    assert_int_equal(got.n, 1000);
    assert_int_equal(zip_read(o.arena, &o.zip, 0, 999, &got, &o.err), ST_LIMIT);
    arena_free(o.arena);

    /* sizes that lie, both ways, and a bomb's claim */
    const size_t lies[] = {999, 1001, 0, 1u << 30};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        m = (struct maker){0};
        add_packed(&m, "a", 8, packed, n, crc, lies[i]);
        bytes = finish(&m);
        assert_false(accepted(bytes));
        o = open_bytes(bytes);
        assert_int_not_equal(zip_read(o.arena, &o.zip, 0, UINT64_MAX, &got, &o.err), ST_OK);
        arena_free(o.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_archive_is_read),
        cmocka_unit_test(test_every_cut_is_noticed),
        cmocka_unit_test(test_every_flipped_bit_is_noticed),
        cmocka_unit_test(test_junk_in_front_and_behind),
        cmocka_unit_test(test_duplicate_and_hostile_names),
        cmocka_unit_test(test_overlapping_members),
        cmocka_unit_test(test_hidden_member_is_noticed),
        cmocka_unit_test(test_deflated_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
