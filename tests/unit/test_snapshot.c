// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "snapshot/dpkg.h"
#include "snapshot/lz4.h"
#include "snapshot/rollback.h"
#include "unit.h"

/* ---- paragraphs ---- */

static void paragraphs_of_dpkg(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct str text = STR(
        "\n\nPackage: libc6\nStatus: hold ok installed\nArchitecture: i386\n"
        "Version: 2.36-9\nDepends: libgcc-s1 (>= 3.0), a | b:any\nDescription: x\n"
        " Version: 9\n\nStatus: install ok installed\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1");
    struct dpkg_paragraph p;
    assert_true(dpkg_next(&text, &p));
    assert_string_equal(dpkg_name(a, &p), "libc6:i386");
    assert_true(str_is(p.version, "2.36-9"));
    assert_true(dpkg_installed(&p));
    struct str name;
    const char *const wanted[] = {"libgcc-s1", "a", "b"};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_true(dpkg_next_dependency(&p.depends, &name));
        assert_true(str_is(name, wanted[i]));
    }
    assert_false(dpkg_next_dependency(&p.depends, &name));
    assert_true(dpkg_next(&text, &p)); /* the paragraph without a package is passed over */
    assert_true(str_is(p.package, "gone"));
    assert_false(dpkg_installed(&p));
    assert_false(dpkg_next(&text, &p));
    arena_free(a);
}

static void names_that_may_stand_in_a_command(void **state)
{
    (void)state;
    assert_true(dpkg_name_valid("libstdc++-12-dev"));
    assert_true(dpkg_name_valid("libc6:i386"));
    assert_true(dpkg_version_valid("1:6.8.5.60204-2009582.22.04~x+b1"));
    const char *const wrong[] = {"", "-o", "a b", "a;b", "$(x)", "a\nb", "A"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(dpkg_name_valid(wrong[i]));
        assert_false(dpkg_version_valid(wrong[i]));
    }
}

/* ---- LZ4 ---- */

/* Two sequences: 13 letters and a match of 19 at distance 3, then 2 letters. */
static const unsigned char frame[] = {
    0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 20, 0, 0, 0,    0xdf, 'a', 'b', 'c', 'd', 'e', 'f',
    'g',  'h',  'i',  'j',  'k',  'l',  'm',  3,  0, 0, 0x20, 'y',  'z', 0,   0,   0,   0};

static void lz4_frames_unpack(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct str out;
    unsigned char good[sizeof frame];
    memcpy(good, frame, sizeof frame);
    struct str packed = {.p = (const char *)good, .n = sizeof good};
    assert_int_equal(lz4_unpack(a, packed, "x", 1 << 20, &out, &err), ST_OK);
    assert_int_equal(out.n, 13 + 19 + 2);
    assert_memory_equal(out.p, "abcdefghijklmklmklmklmklmklmklmkyz", 34);
    assert_int_equal(lz4_unpack(a, packed, "x", 20, &out, &err), ST_LIMIT);
    /* Cut anywhere, it is no whole file, and never more than its bytes are read. */
    for (size_t n = 0; n < sizeof good; n++) {
        char *part = test_malloc(n + 1);
        memcpy(part, good, n);
        struct str cut = {.p = part, .n = n};
        assert_int_equal(lz4_unpack(a, cut, "x", 1 << 20, &out, &err), ST_FORMAT);
        test_free(part);
    }
    good[25] = 0; /* distance 0 */
    assert_int_not_equal(lz4_unpack(a, packed, "x", 1 << 20, &out, &err), ST_OK);
    arena_free(a);
}

/* ---- stacks ---- */

static const char before[] =
    "{\"schema_version\": 1, \"command\": \"snapshot\", \"python_prefix\": \"/srv/venv\", \"stack\": {"
    "\"driver\": {\"amdgpu\": {\"version\": \"6.8.5\"}}, \"firmware\": {}, \"kernel\": {}, "
    "\"runtime\": {\"rocm\": {\"version\": \"6.10\"}}, "
    "\"library\": {\"rocblas\": {\"version\": \"4.2\", \"build_id\": \"aa\", \"path\": \"/a\"}, "
    "\"rccl\": {\"version\": \"2.20\", \"path\": \"/a\"}}, "
    "\"framework\": {\"torch\": {\"version\": \"2.5.1+rocm6.2\"}}, "
    "\"environment\": {\"HSA_XNACK\": {\"version\": \"1\"}}, \"container\": {}, \"machine\": {}, "
    "\"python\": {\"left\": {\"version\": \"1.0\"}}, "
    "\"package\": {\"rocm-core\": {\"version\": \"1:6.2-1\"}, \"vim\": {\"version\": \"9\"}}}, "
    "\"unread\": []}";
static const char after[] =
    "{\"schema_version\": 1, \"command\": \"snapshot\", \"python_prefix\": \"/srv/venv\", \"stack\": {"
    "\"driver\": {\"amdgpu\": {\"version\": \"6.10.5\"}}, \"firmware\": {}, \"kernel\": {}, "
    "\"runtime\": {\"rocm\": {\"version\": \"6.9\"}}, "
    "\"library\": {\"rocblas\": {\"version\": \"4.2\", \"build_id\": \"bb\", \"path\": \"/a\"}, "
    "\"rccl\": {\"version\": \"2.20\", \"path\": \"/b\"}}, "
    "\"framework\": {\"torch\": {\"version\": \"2.6.0+rocm6.3\"}}, "
    "\"environment\": {\"NCCL_ALGO\": {\"version\": \"Ring; $(x)\"}}, \"container\": {}, "
    "\"machine\": {}, \"python\": {\"came\": {\"version\": \"1.0\"}}, "
    "\"package\": {\"rocm-core\": {\"version\": \"6.3-1\"}, \"vim\": {\"version\": \"10\"}, "
    "\"$(evil)\": {\"version\": \"1\"}}}, "
    "\"unread\": [{\"section\": \"python\", \"name\": \"left\", \"reason\": \"denied\"}]}";

static struct stack stack_from(struct arena *a, const char *text)
{
    struct stack s;
    struct err err = {0};
    assert_int_equal(stack_read(a, str_of(text), "x.lock", &s, &err), ST_OK);
    return s;
}

static const struct stack_change *change(const struct stack_diff *d, const char *name)
{
    for (size_t i = 0; i < d->changes.count; i++) {
        if (strcmp(d->changes.items[i].name, name) == 0) {
            return &d->changes.items[i];
        }
    }
    return NULL;
}

static void differences_by_weight(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct stack from = stack_from(a, before);
    struct stack to = stack_from(a, after);
    struct stack_diff d;
    stack_diff_make(a, &from, &to, &d);
    assert_string_equal(d.changes.items[0].name, "amdgpu");
    assert_int_equal(change(&d, "amdgpu")->kind, CHANGE_NEWER);
    assert_int_equal(change(&d, "rocm")->kind, CHANGE_OLDER); /* 6.10 is above 6.9 */
    assert_int_equal(change(&d, "rocblas")->kind, CHANGE_REBUILT);
    assert_true(change(&d, "rocblas")->matters);
    assert_int_equal(change(&d, "rccl")->kind, CHANGE_MOVED);
    assert_false(change(&d, "rccl")->matters);
    assert_int_equal(change(&d, "HSA_XNACK")->kind, CHANGE_REMOVED);
    assert_int_equal(change(&d, "NCCL_ALGO")->kind, CHANGE_ADDED);
    assert_int_equal(change(&d, "rocm-core")->kind, CHANGE_NEWER); /* the epoch is no part of it */
    assert_true(change(&d, "rocm-core")->matters);
    assert_false(change(&d, "vim")->matters);
    assert_null(change(&d, "left")); /* not read is not removed */
    assert_int_equal(d.gaps.count, 1);
    struct finding_list findings = {0};
    stack_diff_findings(a, &d, &findings);
    assert_string_equal(findings.items[0].id, "stack-driver");
    assert_int_equal(findings.items[findings.count - 1].severity, SEVERITY_UNKNOWN);
    stack_diff_make(a, &from, &from, &d);
    assert_int_equal(d.changes.count, 0);
    arena_free(a);
}

static void lock_files_come_back_as_they_were(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct stack s = stack_from(a, after);
    struct strbuf once;
    struct strbuf twice;
    strbuf_init(&once, a, 1 << 20);
    strbuf_init(&twice, a, 1 << 20);
    stack_write(&s, &once);
    struct stack again = stack_from(a, once.p);
    stack_write(&again, &twice);
    assert_string_equal(once.p, twice.p);
    assert_non_null(stack_find(&again, STACK_LIBRARY, "rocblas"));
    arena_free(a);
}

/* An older program listed another package among those that training stands on. */
static void sections_of_packages_are_decided_when_read(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct stack s = stack_from(
        a, "{\"schema_version\": 1, \"command\": \"snapshot\", \"stack\": "
           "{\"framework\": {\"six\": {\"version\": \"1\"}, \"python\": "
           "{\"version\": \"3\"}}, \"python\": {\"peft\": {\"version\": \"2\"}}}}");
    assert_non_null(stack_find(&s, STACK_PYTHON, "six"));
    assert_non_null(stack_find(&s, STACK_FRAMEWORK, "python"));
    assert_non_null(stack_find(&s, STACK_FRAMEWORK, "peft"));
    arena_free(a);
}

static void lock_files_that_are_none(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct stack s;
    struct err err = {0};
    static const char *const wrong[] = {
        "{}", "[]", "{\"command\": \"snapshot\"}", "{\"command\": \"doctor\", \"stack\": {}}",
        "{\"command\": \"snapshot\", \"stack\": {}, \"schema_version\": 2}"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(stack_read(a, str_of(wrong[i]), "x", &s, &err), ST_FORMAT);
    }
    /* Sections that are missing are not empty. */
    assert_int_equal(stack_read(a,
                                STR("{\"command\": \"snapshot\", \"schema_version\": 1, \"stack\": "
                                    "{\"driver\": {}, \"weather\": {}, \"kernel\": 5}}"),
                                "x", &s, &err),
                     ST_OK);
    assert_int_equal(s.gaps.count, STACK_SECTION_COUNT - 1);
    arena_free(a);
}

/* ---- the way back ---- */

static struct rollback plan(struct arena *a, bool everything)
{
    struct stack *now = arena_alloc(a, sizeof *now);
    struct stack *wanted = arena_alloc(a, sizeof *wanted);
    struct stack_diff d;
    struct rollback r;
    struct fs nowhere = {.prefix = "/nonexistent"};
    *now = stack_from(a, after);
    *wanted = stack_from(a, before);
    stack_diff_make(a, now, wanted, &d);
    rollback_make(a, &nowhere, now, wanted, &d, everything, &r);
    return r;
}

static void plan_and_its_script(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct rollback r = plan(a, false);
    assert_int_equal(r.packages.count, 1); /* vim is no part of a GPU stack */
    assert_int_equal(r.packages.items[0].source, ROLLBACK_UNKNOWN);
    assert_int_equal(r.unknown_sizes, 1);
    assert_true(r.reboot); /* the driver changes */
    assert_string_equal(r.wheels.items[0].index, "https://download.pytorch.org/whl/rocm6.2");
    struct strbuf out;
    strbuf_init(&out, a, 1 << 20);
    rollback_script(a, &r, &out);
    assert_non_null(strstr(out.p, "    rocm-core=1:6.2-1\n"));
    assert_non_null(strstr(out.p, "# unset NCCL_ALGO\n"));
    assert_non_null(strstr(out.p, "# export HSA_XNACK=1\n"));
    assert_non_null(strstr(out.p, "pip uninstall came\n"));
    assert_non_null(strstr(out.p, "reboot"));
    r = plan(a, true);
    strbuf_clear(&out);
    rollback_script(a, &r, &out);
    assert_non_null(strstr(out.p, "    vim=9"));
    assert_null(strstr(out.p, "$(evil)")); /* left out, and told by the report */
    arena_free(a);
}

static void words_are_quoted(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf out;
    static const char *const rows[][2] = {
        {"a=1.2+b", "a=1.2+b"}, {"", "''"}, {"a b", "'a b'"}, {"it's $(x)", "'it'\\''s $(x)'"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        strbuf_init(&out, a, 100);
        rollback_quote(&out, rows[i][0]);
        assert_string_equal(out.p, rows[i][1]);
    }
    arena_free(a);
}

static void environment_file_keeps_the_rest(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct rollback r = plan(a, false);
    struct strbuf out;
    strbuf_init(&out, a, 1 << 16);
    assert_int_equal(rollback_env_file(a, &r,
                                       STR("# mine\nexport PATH=/x:$PATH\n  export NCCL_ALGO=Tree\n"
                                           "OTHER=1\nHSA_XNACK=0\nHSA_XNACK=0"),
                                       &out, &err),
                     ST_OK);
    assert_string_equal(out.p, "# mine\nexport PATH=/x:$PATH\nOTHER=1\nHSA_XNACK=1\n");
    strbuf_clear(&out);
    assert_int_equal(rollback_env_file(a, &r, STR(""), &out, &err), ST_OK);
    assert_string_equal(out.p, "export HSA_XNACK=1\n");
    r.switches.items[0].wanted = "a\nb";
    assert_int_equal(rollback_env_file(a, &r, STR(""), &out, &err), ST_UNSUPPORTED);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paragraphs_of_dpkg),
        cmocka_unit_test(names_that_may_stand_in_a_command),
        cmocka_unit_test(lz4_frames_unpack),
        cmocka_unit_test(differences_by_weight),
        cmocka_unit_test(lock_files_come_back_as_they_were),
        cmocka_unit_test(sections_of_packages_are_decided_when_read),
        cmocka_unit_test(lock_files_that_are_none),
        cmocka_unit_test(plan_and_its_script),
        cmocka_unit_test(words_are_quoted),
        cmocka_unit_test(environment_file_keeps_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
