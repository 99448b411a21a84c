// SPDX-License-Identifier: Apache-2.0
/* Folders of GPU code and tuning data, laid out as the libraries install them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facts/collect.h"
#include "facts/target_folders.h"
#include "unit.h"

static struct arena *arena;
static char root[64];
static struct fs fs;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    snprintf(root, sizeof root, "/tmp/assay_folders_XXXXXX");
    assert_non_null(mkdtemp(root));
    fs.prefix = root;
    return 0;
}

static void remove_tree(const char *path)
{
    const char *const *names;
    size_t count;
    const struct fs live = {.prefix = ""};
    if (fs_list(&live, arena, path, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            remove_tree(arena_fmt(arena, "%s/%s", path, names[i]));
        }
        rmdir(path);
        return;
    }
    unlink(path);
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(root);
    arena_free(arena);
    return 0;
}

/* Writes a file under the root with all folders above it. */
static void put(const char *path, const char *bytes, size_t n)
{
    char *full = arena_fmt(arena, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    FILE *f = fopen(full, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void tensile_files_count_for_their_target(void **state)
{
    (void)state;
    put("/r/library/TensileLibrary_lazy_gfx1201.dat", "x", 1);
    put("/r/library/TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx1201.co", "xyz", 3);
    put("/r/library/TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx1201.dat", "x", 1);
    put("/r/library/Kernels.so-000-gfx90a-xnack-.hsaco", "x", 1);
    put("/r/library/TensileLibrary_lazy_gfx90a.dat", "x", 1);
    put("/r/library/Kernels.so-000-gfx906.hsaco", "x", 1);
    put("/r/library/TensileManifest.txt", "x", 1);
    struct tensile_folder f;
    assert_int_equal(tensile_folder_read(&fs, arena, "/r/library", &f, NULL), ST_OK);
    assert_int_equal(f.files, 7);
    assert_false(f.subfolders);
    assert_int_equal(f.count, 4);
    /* Code without an index does not make a library start. */
    assert_string_equal(f.targets[0].name, "gfx906");
    assert_false(f.targets[0].has_index);
    assert_string_equal(f.targets[1].name, "gfx90a");
    assert_true(f.targets[1].has_index);
    assert_string_equal(f.targets[2].name, "gfx90a:xnack-");
    assert_string_equal(f.targets[3].name, "gfx1201");
    assert_true(f.targets[3].has_index);
    assert_int_equal(f.targets[3].data_files, 2);
    assert_int_equal(f.targets[3].code_files, 1);
    assert_int_equal(f.targets[3].bytes, 5);
    assert_true(f.targets[3].newest > 0);
}

static void tensile_subfolders_name_the_target(void **state)
{
    (void)state;
    put("/h/library/gfx942/TensileLibrary_lazy_gfx942.dat.zlib", "x", 1);
    put("/h/library/gfx942/Kernels.co", "x", 1);
    put("/h/library/gfx1100/extop_gfx1100.co", "x", 1);
    put("/h/library/hipblasltTransform.hsaco", "x", 1);
    struct tensile_folder f;
    assert_int_equal(tensile_folder_read(&fs, arena, "/h/library", &f, NULL), ST_OK);
    assert_true(f.subfolders);
    assert_int_equal(f.count, 2);
    assert_string_equal(f.targets[0].name, "gfx942");
    assert_true(f.targets[0].has_index);
    assert_int_equal(f.targets[0].code_files, 1);
    assert_false(f.targets[1].has_index);
    assert_int_equal(tensile_folder_read(&fs, arena, "/nowhere", &f, NULL), ST_ABSENT);
}

static void miopen_names_hold_compute_units(void **state)
{
    (void)state;
    put("/m/gfx90a68.kdb", "x", 1);
    put("/m/gfx90a68.HIP.fdb.txt", "x", 1);
    put("/m/gfx90a68.db.txt", "x", 1);
    put("/m/gfx1030_36.HIP.fdb.txt", "x", 1);
    put("/m/gfx942130.db.txt", "x", 1);
    put("/m/gfx942_metadata.tn.model", "x", 1);
    put("/m/3.4.0.abc/gfx1201_32.ukdb", "x", 1);
    put("/m/gfx1201_32.HIP.3_4_0_abc.ufdb.txt", "x", 1);
    struct miopen_folder f;
    assert_int_equal(miopen_folder_read(&fs, arena, "/m", &f, NULL), ST_OK);
    assert_int_equal(f.count, 4);
    assert_string_equal(f.targets[0].name, "gfx90a");
    assert_int_equal(f.targets[0].compute_units, 104);
    assert_true(f.targets[0].kernels && f.targets[0].find_db && f.targets[0].perf_db);
    assert_string_equal(f.targets[1].name, "gfx942");
    assert_int_equal(f.targets[1].compute_units, 304);
    assert_true(!f.targets[1].kernels && !f.targets[1].find_db && f.targets[1].perf_db);
    assert_string_equal(f.targets[2].name, "gfx1030");
    assert_int_equal(f.targets[2].compute_units, 36);
    assert_string_equal(f.targets[3].name, "gfx1201");
    assert_true(f.targets[3].kernels && f.targets[3].find_db && !f.targets[3].perf_db);
}

/* An AMDGPU code object's header alone is enough. */
static void put_code_object(const char *path, unsigned char mach)
{
    char e[64] = "\177ELF\2\1\1\100\3";
    e[16] = 3;
    e[18] = (char)224;
    e[48] = (char)mach;
    e[52] = 64;
    put(path, e, sizeof e);
}

static void put_group(const char *folder, const char *child)
{
    const char *text = arena_fmt(arena, "{\"child_paths\": {\"k.hsaco\": \"%s\"}}", child);
    put(arena_fmt(arena, "%s/__grp__k.json", folder), text, strlen(text));
}

static void triton_cache_tells_moved_left_and_damaged(void **state)
{
    (void)state;
    put_code_object("/t/AAAA/k.hsaco", 0x4e);
    put_group("/t/AAAA", "/t/AAAA/k.hsaco");
    put_code_object("/t/BBBB/k.hsaco", 0x4c);
    put_group("/t/BBBB", "/home/other/.triton/cache/BBBB/k.hsaco");
    put("/t/CCCC/k.hsaco", "", 0);
    put("/t/CCCC/tmp.pid_1234_ab/k.hsaco", "x", 1);
    put("/t/tmp.pid_77_cd/k.json", "x", 1);
    put("/t/DDDD/__grp__k.json", "not json", 8);
    put_code_object("/t/EEEE/k.hsaco", 0x4e);
    struct triton_cache c;
    assert_int_equal(triton_cache_read(&fs, arena, "/t", &c, NULL), ST_OK);
    assert_int_equal(c.folders, 5);
    assert_int_equal(c.leftovers, 2);
    assert_int_equal(c.moved_groups, 1);
    assert_string_equal(c.moved_to, "/home/other/.triton/cache/BBBB/k.hsaco");
    assert_int_equal(c.damaged, 2);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.targets[0].name, "gfx942");
    assert_string_equal(c.targets[1].name, "gfx1201");
    assert_int_equal(c.targets[1].kernels, 2);
    assert_true(c.oldest > 0 && c.oldest <= c.newest);
    assert_false(c.truncated);
}

static void triton_cache_is_found_through_the_job_s_environment(void **state)
{
    (void)state;
    put_code_object("/job/.triton/cache/AAAA/k.hsaco", 0x4c);
    put_code_object("/elsewhere/BBBB/k.hsaco", 0x4e);
    const char *const by_home[] = {"TRITON_HOME=/job", NULL};
    const char *const by_dir[] = {"TRITON_HOME=/job", "TRITON_CACHE_DIR=/elsewhere", NULL};
    const char *const none[] = {NULL};

    const struct {
        const char *const *env;
        const char *path; /* NULL: absent */
        bool covers;
    } cases[] = {
        {by_home, "/job/.triton/cache", false}, {by_dir, "/elsewhere", true}, {none, NULL, 0}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct facts *facts = facts_new(arena);
        facts_string(facts, "gpu[0].gfx", "gfx1201", "test");
        struct collect c = {.fs = &fs,
                            .facts = facts,
                            .scratch = arena,
                            .env = cases[i].env,
                            .user_home = "/home/nobody"};
        collect_triton(&c);
        const struct fact *path = facts_get(facts, "cache.triton.path");
        assert_non_null(path);
        if (cases[i].path == NULL) {
            assert_int_equal(path->state, FACT_ABSENT);
            assert_null(facts_get(facts, "cache.triton.kernels"));
            continue;
        }
        assert_string_equal(path->value.string, cases[i].path);
        assert_int_equal(facts_get_int(facts, "cache.triton.kernels", 0), 1);
        assert_int_equal(facts_get_bool(facts, "cache.triton.covers_gpu", !cases[i].covers),
                         cases[i].covers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensile_files_count_for_their_target),
        cmocka_unit_test(tensile_subfolders_name_the_target),
        cmocka_unit_test(miopen_names_hold_compute_units),
        cmocka_unit_test(triton_cache_tells_moved_left_and_damaged),
        cmocka_unit_test(triton_cache_is_found_through_the_job_s_environment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
