// SPDX-License-Identifier: Apache-2.0
/* What the writer writes, our strict reader takes without a remark; what it cannot write, it names. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors_write.h"
#include "model/tensor_file.h"
#include "unit.h"

static struct arena *arena;

static void test_written_and_read(void **state)
{
    (void)state;
    char path[] = "/tmp/assay-write-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    static const float f[] = {1, -2.5F, 3.14159274F, 0, 65504, 1e-3F};
    static const double d[] = {1.0 / 3};
    static const size_t shape[] = {2, 3};
    static const size_t empty[] = {0, 4};
    struct safetensors_item items[] = {{"b.half", DTYPE_BF16, DTYPE_F32, 2, shape, f},
                                       {"z.exact", DTYPE_F32, DTYPE_F32, 2, shape, f},
                                       {"a \"quoted\"\n", DTYPE_F64, DTYPE_F64, 0, NULL, d},
                                       {"none", DTYPE_F32, DTYPE_F32, 2, empty, f}};
    struct safetensors_pair pairs[] = {{"format", "pt"}};
    struct err err = {0};
    struct issues issues;
    struct tensor_file *file;
    double values[6];
    assert_int_equal(safetensors_write(arena, path, items, ARRAY_LEN(items), pairs, 1, &err),
                     ST_OK);
    issues_init(&issues, arena, path);
    assert_int_equal(tensor_file_open(arena, path, &issues, &file, &err), ST_OK);
    assert_int_equal(issues.list.count, 0);
    assert_int_equal(file->count, 4);
    assert_string_equal(file->meta[0].value, "pt");
    assert_int_equal(file->data_start % 8, 0);
    assert_string_equal(file->tensors[0].name, "a \"quoted\"\n"); /* widest first */
    const struct tensor *half = tensor_find(file, "b.half");
    assert_int_equal(tensor_values(file, half, 0, 6, values, &err), ST_OK);
    assert_true(values[2] == 3.140625);
    const struct tensor *exact = tensor_find(file, "z.exact");
    assert_int_equal(tensor_values(file, exact, 0, 6, values, &err), ST_OK);
    assert_true(values[2] == (double)f[2] && values[5] == (double)f[5]);
    tensor_file_close(file);
    (void)unlink(path);
}

static void test_refused(void **state)
{
    (void)state;
    static const float f[] = {1};
    static const size_t one[] = {1};
    struct safetensors_item twice[] = {{"a", DTYPE_F32, DTYPE_F32, 1, one, f},
                                       {"a", DTYPE_F32, DTYPE_F32, 1, one, f}};
    struct err err = {0};
    assert_int_equal(safetensors_write(arena, "/tmp/x", twice, 2, NULL, 0, &err), ST_USAGE);
    assert_non_null(strstr(err.text, "'a' is given twice"));
    assert_int_equal(safetensors_write(arena, "/nowhere/at/all", twice, 1, NULL, 0, &err),
                     ST_ABSENT);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    assert_int_equal(safe_folder_sync("/nowhere", &err), ST_ABSENT);
}

/* The device that is always full stands for a full disk; nothing is left beside it. */
static void test_disk_full_is_named(void **state)
{
    (void)state;
    char folder[] = "/tmp/assay-full-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = arena_fmt(arena, "%s/m.safetensors", folder);
    const char *part = arena_fmt(arena, "%s.part", path);
    static const float f[] = {1};
    static const size_t one[] = {1};
    struct safetensors_item item = {"a", DTYPE_F32, DTYPE_F32, 1, one, f};
    struct err err = {0};
    assert_int_equal(symlink("/dev/full", part), 0);
    assert_int_equal(safetensors_write(arena, path, &item, 1, NULL, 0, &err), ST_IO);
    assert_non_null(strstr(err.text, "No space left on device"));
    assert_non_null(strstr(err.text, path));
    assert_int_not_equal(access(part, F_OK), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    (void)rmdir(folder);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_disk_full_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
