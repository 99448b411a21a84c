// SPDX-License-Identifier: Apache-2.0
/* Libraries are read from their bytes alone; damaged ones are refused, not believed. */
#include <string.h>

#include "base/fs.h"

#include "facts/elf.h"
#include "unit.h"

static const struct fs live = {.prefix = ""};

struct opened {
    struct arena *arena;
    struct fs_map map;
    struct elf elf;
};

static struct opened open_sample(const char *path)
{
    struct opened o = {.arena = arena_new(0)};
    struct err err = {0};
    assert_int_equal(fs_map(&live, o.arena, path, &o.map, &err), ST_OK);
    struct str bytes = {.p = (const char *)o.map.p, .n = o.map.n};
    assert_int_equal(elf_open(o.arena, bytes, path, &o.elf, &err), ST_OK);
    return o;
}

static void done(struct opened *o)
{
    fs_unmap(&o->map);
    arena_free(o->arena);
}

static bool needs(const struct elf *e, const char *name)
{
    for (size_t i = 0; i < e->needed_count; i++) {
        if (strcmp(e->needed[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void dynamic_entries_are_read(void **state)
{
    (void)state;
    struct opened o = open_sample(SAMPLE_LIBRARY);
    assert_string_equal(o.elf.soname, "libsample_library.so.3");
    assert_string_equal(o.elf.runpath, "$ORIGIN/../near");
    assert_null(o.elf.rpath);
    assert_string_equal(o.elf.build_id, "00112233445566778899aabbccddeeff");
    assert_int_equal(o.elf.machine, ELF_MACHINE_X86_64);
    assert_true(needs(&o.elf, "libc.so.6"));
    assert_true(needs(&o.elf, "libm.so.6"));
    assert_false(o.elf.truncated);
    assert_false(o.elf.no_default_dirs);
    done(&o);
    o = open_sample(SAMPLE_LIBRARY_SYSV);
    assert_string_equal(o.elf.rpath, "/old/style");
    assert_null(o.elf.runpath);
    assert_null(o.elf.build_id);
    assert_true(o.elf.no_default_dirs);
    done(&o);
}

static void versions_compare_as_numbers(void **state)
{
    (void)state;
    struct opened o = open_sample(SAMPLE_LIBRARY);
    assert_string_equal(elf_defines_version(o.arena, &o.elf, "SAMPLE_"), "1.10");
    assert_null(elf_defines_version(o.arena, &o.elf, "GLIBCXX_"));
    assert_non_null(elf_needs_version(o.arena, &o.elf, "GLIBC_"));
    assert_null(elf_needs_version(o.arena, &o.elf, "SAMPLE_"));
    assert_true(elf_has_version(&o.elf, STR("SAMPLE_1.2")));
    assert_true(elf_has_version(&o.elf, STR("SAMPLE_PRIVATE")));
    assert_false(elf_has_version(&o.elf, STR("SAMPLE_1.3")));
    done(&o);
}

struct seen {
    bool defined, missing, weak, local;
    size_t count;
};

static bool note(void *ctx, struct str name, bool defined, bool weak)
{
    struct seen *s = ctx;
    s->count++;
    s->defined |= str_is(name, "sample_defined") && defined && !weak;
    s->missing |= str_is(name, "sample_missing") && !defined && !weak;
    s->weak |= str_is(name, "sample_weak") && !defined && weak;
    s->local |= str_is(name, "");
    return true;
}

static void symbols_are_told_apart(const char *path)
{
    struct opened o = open_sample(path);
    struct seen s = {0};
    elf_each_symbol(&o.elf, note, &s);
    assert_true(s.defined);
    assert_true(s.missing);
    assert_true(s.weak);
    assert_false(s.local);
    assert_true(elf_defines_symbol(&o.elf, STR("sample_root")));
    assert_false(elf_defines_symbol(&o.elf, STR("sample_missing")));
    assert_false(elf_defines_symbol(&o.elf, STR("sample_roo")));
    done(&o);
}

static void symbols_by_gnu_hash(void **state)
{
    (void)state;
    symbols_are_told_apart(SAMPLE_LIBRARY);
}

static void symbols_by_sysv_hash(void **state)
{
    (void)state;
    symbols_are_told_apart(SAMPLE_LIBRARY_SYSV);
}

static void symbols_carry_their_version(void **state)
{
    (void)state;
    struct opened o = open_sample(SAMPLE_LIBRARY);
    bool own = false;
    bool glibc = false;
    struct elf_symbol s;
    for (size_t i = 0; i < o.elf.symbol_count; i++) {
        if (elf_symbol_at(&o.elf, i, &s)) {
            own |= str_is(s.name, "sample_root") && str_is(s.version, "SAMPLE_1.2");
            glibc |= str_is(s.name, "getenv") && str_starts(s.version, "GLIBC_2.");
        }
    }
    assert_true(own);
    assert_true(glibc);
    done(&o);
}

/* Without a section table (sstrip, packers) the count of symbols comes from the hash tables. */
static void stripped_section_table_changes_nothing(void **state)
{
    (void)state;
    const char *paths[] = {SAMPLE_LIBRARY, SAMPLE_LIBRARY_SYSV};
    for (size_t i = 0; i < 2; i++) {
        struct opened o = open_sample(paths[i]);
        char *copy = arena_copy(o.arena, o.map.p, o.map.n);
        memset(copy + 40, 0, 8);
        memset(copy + 60, 0, 4);
        struct elf e;
        struct err err = {0};
        assert_int_equal(elf_open(o.arena, (struct str){copy, o.map.n}, "copy", &e, &err), ST_OK);
        assert_int_equal(e.section_count, 0);
        assert_int_equal(e.symbol_count, o.elf.symbol_count);
        assert_true(elf_has_literal(&e, "SAMPLE_SWITCH"));
        done(&o);
    }
}

static void literals_are_whole_names(void **state)
{
    (void)state;
    struct opened o = open_sample(SAMPLE_LIBRARY);
    const char *words[] = {"SAMPLE_SWITCH", "SAMPLE_SWITC",       "SWITCH",
                           "SAMPLE_TAIL",   "LONGER_SAMPLE_TAIL", "SAMPLE_SWITCH"};
    bool found[6] = {false};
    elf_find_literals(&o.elf, words, 6, found);
    assert_true(found[0]);
    assert_false(found[1]);
    assert_false(found[2]);
    assert_false(found[3]);
    assert_true(found[4]);
    assert_true(found[5]);
    done(&o);
}

static void sections_by_name(void **state)
{
    (void)state;
    struct opened o = open_sample(SAMPLE_LIBRARY);
    struct str s;
    assert_int_equal(elf_section(&o.elf, ".dynamic", &s), ST_OK);
    assert_true(s.n > 0 && s.n % 16 == 0);
    assert_int_equal(elf_section(&o.elf, ".bss", &s), ST_ABSENT);
    assert_int_equal(elf_section(&o.elf, ".hip_fatbin", &s), ST_ABSENT);
    done(&o);
}

/* Every prefix of a library, and every byte of its headers set to 0xff: no crash, no lie. */
static void damaged_files_are_survived(void **state)
{
    (void)state;
    struct opened o = open_sample(SAMPLE_LIBRARY);
    for (size_t n = 0; n < o.map.n; n += n < 2048 ? 1 : 97) {
        struct arena_mark mark = arena_mark(o.arena);
        struct elf e;
        char *copy = arena_copy(o.arena, o.map.p, n);
        enum status s = elf_open(o.arena, (struct str){copy, n}, "cut", &e, NULL);
        assert_true(s == ST_FORMAT || (s == ST_OK && e.truncated));
        arena_rewind(o.arena, mark);
    }
    for (size_t at = 6; at < 1024 && at < o.map.n; at++) {
        struct arena_mark mark = arena_mark(o.arena);
        char *copy = arena_copy(o.arena, o.map.p, o.map.n);
        copy[at] = '\xff';
        struct elf e;
        struct seen seen = {0};
        if (elf_open(o.arena, (struct str){copy, o.map.n}, "flipped", &e, NULL) == ST_OK) {
            elf_each_symbol(&e, note, &seen);
            (void)elf_needs_version(o.arena, &e, "GLIBC_");
            (void)elf_has_literal(&e, "SAMPLE_SWITCH");
        }
        assert_true(seen.count < o.map.n);
        arena_rewind(o.arena, mark);
    }
    done(&o);
}

static void other_files_are_named_for_what_they_are(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct elf e;
    struct err err = {0};
    assert_int_equal(elf_open(a, STR(""), "empty.so", &e, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "empty"));
    assert_int_equal(elf_open(a, STR("INPUT(libfoo.so.1)"), "script.so", &e, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "not an ELF"));
    char bytes[64] = "\177ELF\1\1\1";
    assert_int_equal(elf_open(a, (struct str){bytes, 64}, "i386.so", &e, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "32-bit"));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic_entries_are_read),
        cmocka_unit_test(versions_compare_as_numbers),
        cmocka_unit_test(symbols_by_gnu_hash),
        cmocka_unit_test(symbols_by_sysv_hash),
        cmocka_unit_test(symbols_carry_their_version),
        cmocka_unit_test(stripped_section_table_changes_nothing),
        cmocka_unit_test(literals_are_whole_names),
        cmocka_unit_test(sections_by_name),
        cmocka_unit_test(damaged_files_are_survived),
        cmocka_unit_test(other_files_are_named_for_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
