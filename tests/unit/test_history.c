// SPDX-License-Identifier: Apache-2.0
/* The file of earlier figures: bounds, keys, and files that are none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "study/history.h"
#include "unit.h"

struct bench {
    struct arena *a;
    char path[64];
};

static int begin(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    b->a = arena_new(0);
    snprintf(b->path, sizeof b->path, "/tmp/assay-history-XXXXXX");
    close(mkstemp(b->path)); /* an empty file is a new one */
    *state = b;
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;
    unlink(b->path);
    arena_free(b->a);
    free(b);
    return 0;
}

static const struct history_key here = {"host", "cpu", "stack 1"};
static const struct history_figure rate = {"gemm", "TFLOP/s", false, 100};

static void bounds(void **state)
{
    struct bench *b = *state;
    const double calm[] = {100, 101, 99, 100, 100, 102};
    const double wild[] = {100, 120, 80, 110, 90, 105};
    struct history_figure now = rate;
    struct history_verdict v = history_judge(b->a, calm, 6, &now);
    assert_true(v.measured && !v.worse && fabs(v.ratio - 1) < 1e-9 && fabs(v.bound - 1.08) < 1e-9);
    now.value = 100 / 1.31;
    v = history_judge(b->a, calm, 6, &now);
    assert_true(v.worse && fabs(v.ratio - 1.31) < 1e-9);
    v = history_judge(b->a, wild, 6, &now);
    assert_false(v.worse); /* as loose as the machine is */
    assert_true(v.bound > 1.5);
    now.value = 1000; /* faster is fine */
    assert_false(history_judge(b->a, calm, 6, &now).worse);
    const double bad[] = {NAN, 0, -1};
    for (size_t i = 0; i < 3; i++) {
        now.value = bad[i];
        assert_true(history_judge(b->a, calm, 6, &now).worse);
    }
    now = (struct history_figure){"launch", "us", true, 1.2};
    const double one[] = {1.0};
    v = history_judge(b->a, one, 1, &now);
    assert_true(!v.measured && !v.worse && fabs(v.ratio - 1.2) < 1e-9 &&
                fabs(v.bound - 1.5) < 1e-9);
    now.value = INFINITY;
    assert_true(history_judge(b->a, one, 1, &now).worse);
}

static void keys_are_apart(void **state)
{
    struct bench *b = *state;
    struct history *h;
    struct err err = {0};
    double v[HISTORY_RUNS];
    size_t n = 9;
    const struct history_key other_stack = {"host", "cpu", "stack 2"};
    const struct history_key other_host = {"guest", "cpu", "stack 1"};
    const struct history_key any = {"host", "cpu", NULL};
    const struct history_figure figures[] = {rate, {"nothing", "x", false, NAN}};
    assert_int_equal(history_open(b->a, b->path, &h, &err), ST_OK);
    for (int i = 0; i < HISTORY_RUNS + 1; i++) {
        assert_int_equal(history_add(h, &here, 1000 + i, figures, 2, &err), ST_OK);
    }
    assert_int_equal(history_add(h, &other_stack, 9, figures, 1, &err), ST_OK);
    history_close(h);
    assert_int_equal(history_open(b->a, b->path, &h, &err), ST_OK);
    assert_int_equal(history_values(h, &here, &rate, v, &n, &err), ST_OK);
    assert_int_equal(n, HISTORY_RUNS);
    assert_int_equal(history_values(h, &other_stack, &rate, v, &n, &err), ST_OK);
    assert_int_equal(n, 1);
    assert_int_equal(history_values(h, &other_host, &rate, v, &n, &err), ST_OK);
    assert_int_equal(n, 0);
    assert_int_equal(history_values(h, &any, &rate, v, &n, &err), ST_OK);
    assert_int_equal(n, HISTORY_RUNS);
    assert_int_equal(history_values(h, &here, &figures[1], v, &n, &err), ST_OK);
    assert_int_equal(n, 0); /* NaN is not kept */
    history_close(h);
}

static void write_file(const char *path, const void *bytes, size_t n, long at)
{
    FILE *f = fopen(path, at == 0 ? "w" : "r+");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void files_that_are_none(void **state)
{
    struct bench *b = *state;
    struct history *h;
    struct err err = {0};
    write_file(
        b->path,
        "this is a text, and long enough to be looked at by SQLite as a header of a file of its own, "
        "which it is not",
        100, 0);
    assert_int_equal(history_open(b->a, b->path, &h, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "no SQLite file"));
    assert_int_equal(history_open(b->a, "/nowhere/file", &h, &err), ST_IO);
    assert_int_equal(history_open(b->a, "/tmp", &h, &err), ST_IO);
}

static void a_damaged_file(void **state)
{
    struct bench *b = *state;
    struct history *h;
    struct err err = {0};
    unsigned char rubbish[3000];
    assert_int_equal(history_open(b->a, b->path, &h, &err), ST_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(history_add(h, &here, i, &rate, 1, &err), ST_OK);
    }
    history_close(h);
    memset(rubbish, 0xab, sizeof rubbish);
    write_file(b->path, rubbish, sizeof rubbish, 4096);
    assert_int_equal(history_open(b->a, b->path, &h, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "damaged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bounds, begin, end),
        cmocka_unit_test_setup_teardown(keys_are_apart, begin, end),
        cmocka_unit_test_setup_teardown(files_that_are_none, begin, end),
        cmocka_unit_test_setup_teardown(a_damaged_file, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
