// SPDX-License-Identifier: Apache-2.0
/* Python environments, the libraries they load, and the ROCm they use, on machines made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "facts/collect.h"
#include "temp_root.h"

#define SITE "/v/lib/python3.11/site-packages"

static struct arena *arena;
static struct arena *scratch;
static struct fs fs;
static const char *variables[8];

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    scratch = arena_new(0);
    temp_root_make();
    fs.prefix = temp_root;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_root_remove();
    arena_free(arena);
    arena_free(scratch);
    return 0;
}

static struct collect collector(const char *python)
{
    return (struct collect){.fs = &fs,
                            .facts = facts_new(arena),
                            .scratch = scratch,
                            .python = python,
                            .env = variables,
                            .user_home = "/home/u"};
}

static void make_torch(const char *site, const char *version, const char *hip)
{
    char path[256];
    snprintf(path, sizeof path, "%s/torch/version.py", site);
    char text[256];
    snprintf(text, sizeof text, "__version__ = '%s'\ncuda = None\nhip = '%s'\n", version, hip);
    temp_write(path, text);
    snprintf(path, sizeof path, "%s/torch-%s.dist-info/METADATA", site, version);
    temp_write(path, "Name: torch\nVersion: 2.9.0\n");
}

static void make_venv(const char *prefix)
{
    char path[256];
    snprintf(path, sizeof path, "%s/pyvenv.cfg", prefix);
    temp_write(path, "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n");
    snprintf(path, sizeof path, "%s/lib/python3.11/site-packages", prefix);
    temp_mkdir(path);
    snprintf(path, sizeof path, "%s/bin/python3", prefix);
    temp_link(path, "/usr/bin/python3");
}

static size_t list_count(const struct facts *f, const char *key)
{
    const struct fact *fact = facts_get(f, key);
    assert_non_null(fact);
    assert_int_equal(fact->value.kind, VALUE_LIST);
    return fact->value.list.count;
}

static void the_environment_is_chosen_in_order(void **state)
{
    (void)state;
    make_venv("/v");
    make_venv("/w");
    temp_mkdir("/usr/lib/python3.11");
    temp_write("/usr/lib/python3.11/os.py", "");
    temp_write("/usr/bin/python3.11", "");
    temp_link("/usr/bin/python3", "python3.11");
    temp_mkdir("/home/u/.pyenv/versions/3.12.4/lib/python3.12/site-packages");
    temp_write("/home/u/.pyenv/version", "3.12\n");
    temp_write("/home/u/.pyenv/shims/python3", "#!/bin/sh\n");
    struct collect c = collector("/w");
    variables[0] = "VIRTUAL_ENV=/v";
    variables[1] = "PATH=/home/u/.pyenv/shims:/usr/bin";
    collect_python(&c);
    assert_string_equal(facts_get_string(c.facts, "python.prefix", ""), "/w");
    assert_string_equal(facts_get_string(c.facts, "python.how", ""), "--python");
    c = collector(NULL);
    collect_python(&c);
    assert_string_equal(facts_get_string(c.facts, "python.prefix", ""), "/v");
    assert_string_equal(facts_get_string(c.facts, "python.version", ""), "3.11.2");
    variables[0] = "X=1";
    c = collector(NULL);
    collect_python(&c);
    assert_string_equal(facts_get_string(c.facts, "python.how", ""), "pyenv");
    assert_string_equal(facts_get_string(c.facts, "python.version", ""), "3.12.4");
    variables[1] = "PATH=/usr/bin";
    c = collector(NULL);
    collect_python(&c);
    assert_string_equal(facts_get_string(c.facts, "python.prefix", ""), "/usr");
    assert_string_equal(facts_get_string(c.facts, "python.version", ""), "3.11");
    c = collector("/w/bin/python3");
    collect_python(&c);
    assert_string_equal(facts_get_string(c.facts, "python.prefix", ""), "/w");
}

static void a_forbidden_environment_is_not_an_absent_one(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        skip(); /* root may read everything */
    }
    make_venv("/forbidden");
    char host[128];
    snprintf(host, sizeof host, "%s/forbidden", temp_root);
    chmod(host, 0);
    struct collect c = collector("/forbidden");
    collect_python(&c);
    chmod(host, 0755);
    assert_int_equal(facts_get(c.facts, "python.version")->state, FACT_DENIED);
}

static void a_machine_without_python_says_so(void **state)
{
    (void)state;
    struct collect c = collector("/nowhere/python3");
    collect_python(&c);
    assert_int_equal(facts_get(c.facts, "python.version")->state, FACT_ABSENT);
    assert_int_equal(facts_get(c.facts, "torch.version")->state, FACT_ABSENT);
}

static void pth_files_add_folders_and_import_lines_are_left_alone(void **state)
{
    (void)state;
    make_venv("/p");
    temp_write("/p/lib/python3.11/site-packages/a.pth",
               "# note\n/src/editable\nimport os; os.system('touch /tmp/never')\nnone\n");
    temp_write("/src/editable/foo-1.0.egg-info/PKG-INFO", "");
    struct collect c = collector("/p");
    collect_python(&c);
    assert_int_equal(list_count(c.facts, "python.sites"), 2);
    assert_int_equal(list_count(c.facts, "python.pth_imports"), 1);
    assert_string_equal(facts_get_string(c.facts, "pkg.foo.version", ""), "1.0");
}

static void broken_and_shadowed_packages_are_told(void **state)
{
    (void)state;
    make_venv("/b");
    temp_write("/b/lib/python3.11/site-packages/torch-2.9.0.dist-info/RECORD", "");
    temp_write("/b/lib/python3.11/site-packages/~orch/x", "");
    temp_write("/b/lib/python3.11/site-packages/numpy-1.26.0.dist-info/METADATA",
               "Name: numpy\nVersion: 1.26.0\n");
    temp_write("/py/numpy-2.0.0.dist-info/METADATA", "Name: numpy\nVersion: 2.0.0\n");
    variables[2] = "PYTHONPATH=/py";
    struct collect c = collector("/b");
    collect_python(&c);
    variables[2] = NULL;
    assert_int_equal(facts_get(c.facts, "torch.version")->state, FACT_UNREADABLE);
    assert_int_equal(list_count(c.facts, "python.leftovers"), 1);
    assert_int_equal(list_count(c.facts, "python.shadowed"), 1);
    assert_string_equal(facts_get_string(c.facts, "pkg.numpy.version", ""), "2.0.0");
    assert_false(facts_get_bool(c.facts, "pkg.flash-attn.present", true));
}

static void wheel_tags_are_compared_with_python(void **state)
{
    (void)state;
    make_venv("/t");
    static const char at[] = "/t/lib/python3.11/site-packages/";

    static const struct {
        const char *name, *tag;
        bool fits;
    } rows[] = {{"torch", "cp310-cp310-linux_x86_64", false},
                {"triton", "cp39-abi3-manylinux_2_28_x86_64", true},
                {"peft", "py3-none-any", true}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[256];
        char text[256];
        snprintf(path, sizeof path, "%s%s-1.0.dist-info/WHEEL", at, rows[i].name);
        snprintf(text, sizeof text, "Wheel-Version: 1.0\nTag: %s\n", rows[i].tag);
        temp_write(path, text);
    }
    struct collect c = collector("/t");
    collect_python(&c);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char key[64];
        snprintf(key, sizeof key, "wheel.%s.fits_python", rows[i].name);
        assert_int_equal(facts_get_bool(c.facts, key, !rows[i].fits), rows[i].fits);
    }
}

static void collect_stack(struct collect *c)
{
    static const char *const names[] = {"HIP_LAUNCH_BLOCKING", "TORCH_BLAS_PREFER_HIPBLASLT",
                                        "HCC_DB", NULL};
    c->switch_names = names;
    collect_python(c);
    collect_libraries(c);
    collect_rocm(c);
    collect_switches(c);
}

static void make_stack(void)
{
    make_venv("/v");
    make_torch(SITE, "2.9.0+rocm6.4", "6.4.43482-0f2d60242");
    temp_copy(SITE "/torch/lib/libc10.so", SAMPLE_C10);
    temp_copy(SITE "/torch/lib/libtorch_hip.so", SAMPLE_TORCH_HIP);
    temp_write(SITE "/flash_attn-2.8.0.dist-info/METADATA",
               "Name: flash_attn\nVersion: 2.8.0\nRequires-Dist: torch==2.8.0\n");
    temp_write(SITE "/flash_attn-2.8.0.dist-info/RECORD",
               "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so,,\n");
    temp_copy(SITE "/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", SAMPLE_EXTENSION);
}

#define OTHER_SITE "/w/lib/python3.11/site-packages"

static void write_torch_metadata(const char *site, const char *requirement)
{
    temp_write(arena_fmt(arena, "%s/torch-2.9.0+rocm6.4.dist-info/METADATA", site),
               arena_fmt(arena, "Name: torch\nVersion: 2.9.0+rocm6.4\nRequires-Dist: numpy\n%s\n",
                         requirement));
}

static void another_triton_than_the_pinned_one_is_seen(void **state)
{
    (void)state;
    make_venv("/v");
    make_torch(SITE, "2.9.0+rocm6.4", "6.4.43482-0f2d60242");
    write_torch_metadata(
        SITE, "Requires-Dist: pytorch-triton-rocm==3.5.0 ; platform_system == \"Linux\"");
    temp_write(SITE "/pytorch_triton_rocm-3.4.0.dist-info/METADATA",
               "Name: pytorch-triton-rocm\nVersion: 3.4.0\n");
    temp_write(SITE "/triton-3.5.0.dist-info/METADATA", "Name: triton\nVersion: 3.5.0\n");
    struct collect c = collector("/v");
    collect_python(&c);
    assert_string_equal(facts_get_string(c.facts, "torch.requires_triton", ""), "3.5.0");
    assert_string_equal(facts_get_string(c.facts, "torch.triton_version", ""), "3.4.0");
    assert_false(facts_get_bool(c.facts, "torch.triton_fits", true));
    assert_int_equal(list_count(c.facts, "torch.triton_twice"), 1);
}

static void local_part_of_the_installed_triton_fits_a_plain_pin(void **state)
{
    (void)state;
    make_venv("/w");
    make_torch(OTHER_SITE, "2.9.0+rocm6.4", "6.4.43482-0f2d60242");
    write_torch_metadata(OTHER_SITE, "Requires-Dist: triton==3.5.0");
    temp_write(OTHER_SITE "/triton-3.5.0+git0ec280c.dist-info/METADATA",
               "Name: triton\nVersion: 3.5.0+git0ec280c\n");
    struct collect c = collector("/w");
    collect_python(&c);
    assert_true(facts_get_bool(c.facts, "torch.triton_fits", false));
    assert_int_equal(list_count(c.facts, "torch.triton_twice"), 0);
}

static void an_extension_of_the_other_abi_lacks_symbols(void **state)
{
    (void)state;
    make_stack();
    struct collect c = collector("/v");
    collect_stack(&c);
    assert_string_equal(facts_get_string(c.facts, "torch.build", ""), "rocm6.4");
    assert_false(facts_get_bool(c.facts, "torch.cxx11abi", true));
    assert_true(facts_get_bool(c.facts, "pkg.flash-attn.cxx11abi", false));
    assert_string_equal(facts_get_string(c.facts, "pkg.flash-attn.build", ""), "rocm");
    assert_string_equal(facts_get_string(c.facts, "pkg.flash-attn.requires_torch", ""), "2.8.0");
    assert_string_equal(facts_get_string(c.facts, "pkg.flash-attn.backend", ""), "ck");
    assert_int_equal(list_count(c.facts, "pkg.flash-attn.missing_symbols"), 1);
}

static void the_loader_decides_which_rocm_is_used_not_rocm_path(void **state)
{
    (void)state;
    make_stack();
    struct collect c = collector("/v");
    collect_stack(&c);
    assert_int_equal(list_count(c.facts, "lib.torch_hip.needed_missing"), 1);
    assert_int_equal(facts_get(c.facts, "rocm.version")->state, FACT_ABSENT);

    temp_write("/opt/rocm-6.3.3/.info/version", "6.3.3-74\n");
    temp_copy("/opt/rocm-6.3.3/lib/libamdhip64.so.6.3.60303", SAMPLE_HIP);
    temp_link("/opt/rocm-6.3.3/lib/libamdhip64.so.6", "libamdhip64.so.6.3.60303");
    temp_link("/opt/rocm", "rocm-6.3.3");
    temp_copy(SITE "/_rocm_sdk_core/lib/libamdhip64.so.6", SAMPLE_HIP);
    temp_write(SITE "/rocm_sdk_core-7.10.0.dist-info/METADATA",
               "Name: rocm-sdk-core\nVersion: 7.10.0\n");
    variables[2] = "ROCM_PATH=/opt/rocm";
    c = collector("/v");
    collect_stack(&c);
    variables[2] = NULL;
    assert_string_equal(facts_get_string(c.facts, "rocm.source", ""), "therock");
    assert_string_equal(facts_get_string(c.facts, "rocm.version", ""), "7.10.0");
    assert_false(facts_get_bool(c.facts, "rocm.path_variable_agrees", true));
    assert_int_equal(list_count(c.facts, "lib.amdhip64.copies"), 2);
    assert_int_equal(list_count(c.facts, "rocm.installs"), 2);
    assert_string_equal(facts_get_string(c.facts, "lib.amdhip64.soname", ""), "libamdhip64.so.6");
    assert_int_equal(list_count(c.facts, "torch.needed_missing"), 0);
}

static void a_switch_counts_only_where_its_name_stands(void **state)
{
    (void)state;
    make_stack();
    temp_copy(SITE "/torch/lib/libamdhip64.so.6", SAMPLE_HIP);
    variables[2] = "HCC_DB=1";
    struct collect c = collector("/v");
    collect_stack(&c);
    variables[2] = NULL;
    assert_true(facts_get_bool(c.facts, "switch.HCC_DB.set", false));
    assert_int_equal(list_count(c.facts, "switch.HCC_DB.read_by"), 0);
    const struct fact *f = facts_get(c.facts, "switch.HIP_LAUNCH_BLOCKING.read_by");
    assert_int_equal(f->value.list.count, 1);
    assert_string_equal(f->value.list.items[0].string, "amdhip64");
    assert_string_equal(facts_get_string(c.facts, "rocm.source", ""), "wheel");
    assert_string_equal(facts_get_string(c.facts, "rocm.version", ""), "6.4");
    assert_string_equal(facts_get_string(c.facts, "hip.runtime_version", ""), "6.4.43482");
}

static void kernel_folders_tell_the_targets_of_rocblas(void **state)
{
    (void)state;
    make_stack();
    temp_copy(SITE "/torch/lib/librocblas.so", SAMPLE_HIP);
    temp_write(SITE "/torch/lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat", "");
    temp_write(SITE "/torch/lib/rocblas/library/Kernels.so-000-gfx1030.hsaco", "");
    struct collect c = collector("/v");
    facts_int(c.facts, "gpu.count", 1, "test");
    facts_string(c.facts, "gpu[0].gfx", "gfx1201", "test");
    collect_stack(&c);
    assert_int_equal(list_count(c.facts, "lib.rocblas.gfx_targets"), 2);
    assert_false(facts_get_bool(c.facts, "lib.rocblas.covers_gpu", true));
    assert_string_equal(facts_get_string(c.facts, "torch.blas_preferred", ""), "hipblaslt");
    c = collector("/v");
    facts_string(c.facts, "gpu[0].gfx", "gfx90a", "test");
    collect_stack(&c);
    assert_true(facts_get_bool(c.facts, "lib.rocblas.covers_gpu", false));
    c = collector("/v");
    facts_string(c.facts, "gpu[0].gfx", "gfx1030", "test"); /* code without its index */
    collect_stack(&c);
    assert_false(facts_get_bool(c.facts, "lib.rocblas.covers_gpu", true));
}

static void the_rocm_10_layout_and_half_installs_are_known(void **state)
{
    (void)state;
    temp_write("/opt/rocm-10.0.0/core/.info/version", "10.0.0\n");
    temp_mkdir("/opt/rocm-9.9.9/share/doc");
    temp_write("/usr/local/cuda-12.4/version.json", "{\"cuda\":{\"version\":\"12.4.1\"}}");
    temp_link("/usr/local/cuda", "cuda-12.4");
    struct collect c = collector("/nowhere");
    collect_rocm(&c);
    assert_int_equal(list_count(c.facts, "rocm.installs"), 2);
    assert_string_equal(facts_get_string(c.facts, "cuda.version", ""), "12.4.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_chosen_in_order),
        cmocka_unit_test(a_forbidden_environment_is_not_an_absent_one),
        cmocka_unit_test(a_machine_without_python_says_so),
        cmocka_unit_test(pth_files_add_folders_and_import_lines_are_left_alone),
        cmocka_unit_test(broken_and_shadowed_packages_are_told),
        cmocka_unit_test(wheel_tags_are_compared_with_python),
        cmocka_unit_test(another_triton_than_the_pinned_one_is_seen),
        cmocka_unit_test(local_part_of_the_installed_triton_fits_a_plain_pin),
        cmocka_unit_test(an_extension_of_the_other_abi_lacks_symbols),
        cmocka_unit_test(the_loader_decides_which_rocm_is_used_not_rocm_path),
        cmocka_unit_test(a_switch_counts_only_where_its_name_stands),
        cmocka_unit_test(kernel_folders_tell_the_targets_of_rocblas),
        cmocka_unit_test(the_rocm_10_layout_and_half_installs_are_known),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
