// SPDX-License-Identifier: Apache-2.0
/* The text formats of an installed Python environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "facts/python_native.h"
#include "facts/python_text.h"
#include "facts/python_torch.h"

static struct arena *arena;

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

static void names_are_normalised(void **state)
{
    (void)state;
    assert_string_equal(py_normal_name(arena, STR("Flash_Attn")), "flash-attn");
    assert_string_equal(py_normal_name(arena, STR("a-._b")), "a-b");
    assert_string_equal(py_normal_name(arena, STR("--x--")), "x");
}

static void folder_names_give_name_and_version(void **state)
{
    (void)state;
    const char *name;
    const char *version;
    assert_true(py_split_dist_folder(arena, STR("torch-2.9.0+rocm6.4.dist-info"), &name, &version));
    assert_string_equal(name, "torch");
    assert_string_equal(version, "2.9.0+rocm6.4");
    assert_true(py_split_dist_folder(arena, STR("six-1.16.0-py3.11.egg-info"), &name, &version));
    assert_string_equal(name, "six");
    assert_string_equal(version, "1.16.0");
    assert_true(py_split_dist_folder(arena, STR("mypkg.egg-info"), &name, &version));
    assert_null(version);
    assert_false(py_split_dist_folder(arena, STR("torch"), &name, &version));
    assert_false(py_split_dist_folder(arena, STR(".dist-info"), &name, &version));
}

static void only_exact_requirements_pin(void **state)
{
    (void)state;
    struct str m = STR("Metadata-Version: 2.1\nName: torchvision\n"
                       "Requires-Dist: numpy\n"
                       "Requires-Dist: torchgen ==1.0\n"
                       "Requires-Dist: torch ==1.0.0 ; extra == 'old'\n"
                       "Requires-Dist: torch (==2.8.0) ; platform_system == \"Linux\"\n"
                       "\nRequires-Dist: torch ==9.9.9\n");
    assert_string_equal(py_pinned_requirement(arena, m, "torch"), "2.8.0");
    assert_null(py_pinned_requirement(arena, STR("Requires-Dist: torch>=2.0\n"), "torch"));
    assert_string_equal(py_pinned_requirement(arena, STR("Requires-Dist: torch==2.9.*\n"), "torch"),
                        "2.9");
}

static void the_description_is_not_a_header(void **state)
{
    (void)state;
    assert_null(py_header(arena, STR("Name: a\n\nVersion: 6\n"), "Version"));
    assert_string_equal(py_header(arena, STR("name: a\r\nVersion: 6\r\n"), "Version"), "6");
}

static void version_py_is_never_evaluated(void **state)
{
    (void)state;
    struct str text = STR("from typing import Optional\n"
                          "__version__ = '2.9.0+rocm6.4'\n"
                          "debug = False\n"
                          "cuda: Optional[str] = None\n"
                          "hip: Optional[str] = '6.4.43482-0f2d60242'  # from the build\n"
                          "hip_runtime = 'x'\n"
                          "evil = __import__('os').system('true')\n"
                          "  hip = 'indented'\n"
                          "open_ended = 'no end\n");
    assert_string_equal(py_assignment(arena, text, "__version__").string, "2.9.0+rocm6.4");
    assert_string_equal(py_assignment(arena, text, "hip").string, "6.4.43482-0f2d60242");
    assert_int_equal(py_assignment(arena, text, "cuda").kind, PY_NONE);
    assert_int_equal(py_assignment(arena, text, "debug").kind, PY_FALSE);
    assert_int_equal(py_assignment(arena, text, "evil").kind, PY_MISSING);
    assert_int_equal(py_assignment(arena, text, "open_ended").kind, PY_MISSING);
    assert_int_equal(py_assignment(arena, text, "absent").kind, PY_MISSING);
}

static void record_paths_stay_inside(void **state)
{
    (void)state;
    struct str record = STR("../../../etc/evil.so,,\n/abs/evil.so,,\n"
                            "pkg/_C.cpython-311-x86_64-linux-gnu.so,sha256=x,12\n"
                            "pkg/notes.so.txt,,\n\"pkg/lib,with comma.so.1\",sha256=y,1\n"
                            "pkg/.so,,\n");
    const char *path;
    assert_true(py_record_next_library(&record, arena, &path));
    assert_string_equal(path, "pkg/_C.cpython-311-x86_64-linux-gnu.so");
    assert_true(py_record_next_library(&record, arena, &path));
    assert_string_equal(path, "pkg/lib,with comma.so.1");
    assert_false(py_record_next_library(&record, arena, &path));
}

static void builds_come_from_the_local_tag(void **state)
{
    (void)state;

    static const struct {
        const char *version;
        const char *build;
    } rows[] = {
        {"2.9.0+rocm6.4", "rocm6.4"},
        {"2.10.0.dev20250929+rocm7.0", "rocm7.0"},
        {"2.9.0+rocm7.10.0a20251124", "rocm7.10.0"},
        {"2.9.0+devrocm7.10.0.dev0-efed3c", "rocm7.10.0"},
        {"2.6.0+rocm6.4.1.git1ded221d", "rocm6.4.1"},
        {"2.8.0+cu128", "cu128"},
        {"2.7.1+cpu", "cpu"},
        {"2.7.1+xpu", "xpu"},
        {"2.7.1+cpu.cxx11.abi", "cpu"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(python_torch_build(arena, rows[i].version), rows[i].build);
    }
    assert_null(python_torch_build(arena, "2.13.0a0+git1234567"));
    assert_null(python_torch_build(arena, "2.6.0a0+ecf3bae40a.nv25.01"));
    assert_null(python_torch_build(arena, "2.5.1"));
}

static void mangled_strings_tell_the_abi(void **state)
{
    (void)state;
    assert_int_equal(python_abi_of_symbol(STR("_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx11"
                                              "12basic_stringIcSt11char_traitsIcESaIcEEE")),
                     1);
    assert_int_equal(python_abi_of_symbol(STR("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs")), -1);
    assert_int_equal(python_abi_of_symbol(STR("_ZN3c105ErrorC1ENS_14SourceLocationESs")), -1);
    assert_int_equal(python_abi_of_symbol(STR("_ZN2at12ClassScope3runEv")), 0);
    assert_int_equal(python_abi_of_symbol(STR("_ZNSs6appendEPKc")), 0);
}

static void only_settled_targets_have_a_default_blas(void **state)
{
    (void)state;
    assert_string_equal(python_torch_default_blas("gfx942", "6.2.41134"), "hipblaslt");
    assert_string_equal(python_torch_default_blas("gfx1201", "6.4.43482"), "hipblaslt");
    assert_null(python_torch_default_blas("gfx1201", "6.3"));
    assert_string_equal(python_torch_default_blas("gfx1030", "6.4"), "cublas");
    assert_null(python_torch_default_blas("gfx1100", "6.4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_normalised),
        cmocka_unit_test(folder_names_give_name_and_version),
        cmocka_unit_test(only_exact_requirements_pin),
        cmocka_unit_test(the_description_is_not_a_header),
        cmocka_unit_test(version_py_is_never_evaluated),
        cmocka_unit_test(record_paths_stay_inside),
        cmocka_unit_test(builds_come_from_the_local_tag),
        cmocka_unit_test(mangled_strings_tell_the_abi),
        cmocka_unit_test(only_settled_targets_have_a_default_blas),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
