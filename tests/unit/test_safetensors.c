// SPDX-License-Identifier: Apache-2.0
/* Headers that the reference reader refuses, and those that it takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"

#include "model/tensor_file.h"

static struct arena *arena;

/* A file of that header, followed by `data` bytes 0, 1, 2, ... */
static struct str file_of(const char *header, size_t data)
{
    size_t n = strlen(header);
    unsigned char *p = arena_alloc(arena, 8 + n + data);
    for (size_t i = 0; i < 8; i++) {
        p[i] = (unsigned char)(n >> (8 * i));
    }
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < data; i++) {
        p[8 + n + i] = (unsigned char)i;
    }
    return (struct str){(const char *)p, 8 + n + data};
}

/* The id of the first issue; "" when there is none. */
static const char *first_issue(struct str bytes)
{
    struct issues issues;
    struct tensor_file *f;
    struct err err = {0};
    issues_init(&issues, arena, "x.safetensors");
    enum status status = tensor_file_from_bytes(arena, "x.safetensors", bytes, &issues, &f, &err);
    if (issues.list.count != 0) {
        return issues.list.items[0].id;
    }
    assert_int_equal(status, ST_OK);
    return "";
}

#define ONE "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static const struct {
    const char *header;
    size_t data;
    const char *first; /* issue */
} rows[] = {
    {"{" ONE "}", 8, ""},
    {"{" ONE "}     ", 8, ""},
    {"{}", 0, ""},
    {"{\"__metadata__\":{\"format\":\"pt\"}," ONE "}", 8, ""},
    {"{\"__metadata__\":null," ONE "}", 8, ""},
    {"{\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, ""},
    {"{\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}," ONE "}", 8, ""},
    {"{\"f\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[0,3]}}", 3, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"new\":[{}],\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ""},
    {" {" ONE "}", 8, "safetensors-header-start"},
    {"{" ONE "}", 7, "safetensors-truncated"},
    {"{" ONE "}", 9, "safetensors-trailing"},
    {"{}", 1, "safetensors-trailing"},
    {"", 0, "safetensors-header"},
    {"[]", 0, "safetensors-header"},
    {"{" ONE "} x", 8, "safetensors-header"},
    {"{" ONE ",}", 8, "safetensors-header"},
    {"{" ONE, 8, "safetensors-header"},
    {"{\"\xff\":1}", 0, "safetensors-header"},
    {"{\"__metadata__\":{\"n\":1}," ONE "}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"Q4_0\",\"shape\":[32],\"data_offsets\":[0,18]}}", 18,
     "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "safetensors-header"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "safetensors-header"},
    {"{" ONE "," ONE "}", 8, "safetensors-overlap"},
    {"{" ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16,
     "safetensors-hole"},
    {"{" ONE ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
     "safetensors-overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "safetensors-hole"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
     4, "safetensors-size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "safetensors-size"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "safetensors-shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "safetensors-shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
     "safetensors-shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615],"
     "\"data_offsets\":[0,18446744073709551615]}}",
     8, "safetensors-truncated"},
};

static void each_header_gets_the_reference_readers_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *first = first_issue(file_of(rows[i].header, rows[i].data));
        if (strcmp(first, rows[i].first) != 0) {
            print_error("header %s with %zu bytes: '%s', wanted '%s'\n", rows[i].header,
                        rows[i].data, first, rows[i].first);
        }
        assert_string_equal(first, rows[i].first);
    }
}

static void short_and_lying_header_sizes_are_refused(void **state)
{
    (void)state;
    assert_string_equal(first_issue(STR("")), "safetensors-truncated");
    assert_string_equal(first_issue(STR("\2\0\0\0")), "safetensors-truncated");
    assert_string_equal(first_issue(STR("\x10\0\0\0\0\0\0\0{}")), "safetensors-truncated");
    assert_string_equal(first_issue(STR("\x01\xe1\xf5\x05\0\0\0\0{}")), "safetensors-header-size");
    assert_string_equal(first_issue(STR("\xff\xff\xff\xff\xff\xff\xff\xff{}")),
                        "safetensors-header-size");
}

static void a_tensor_outside_of_the_file_is_never_read(void **state)
{
    (void)state;
    struct issues issues;
    struct tensor_file *f;
    double v;
    issues_init(&issues, arena, "x");
    struct str bytes = file_of("{" ONE "}", 7);
    assert_int_equal(tensor_file_from_bytes(arena, "x.safetensors", bytes, &issues, &f, NULL),
                     ST_OK);
    const struct tensor *t = tensor_find(f, "a");
    assert_non_null(t);
    assert_false(t->present);
    assert_int_equal(tensor_values(f, t, 0, 1, &v, NULL), ST_FORMAT);
}

static void a_nul_in_a_name_does_not_hide_a_tensor(void **state)
{
    (void)state;
    struct str bytes = file_of(
        "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    assert_string_equal(first_issue(bytes), "safetensors-header");
}

/* Through a real file: mapping, names with escapes, values, a file that shrinks under the mapping. */
static void a_file_that_shrinks_while_mapped_is_an_error_and_no_signal(void **state)
{
    (void)state;
    char path[] = "/tmp/assay_st_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct str bytes = file_of(
        "{\"l\\u00e4yer\":{\"dtype\":\"U8\",\"shape\":[9000],\"data_offsets\":[0,9000]}}", 9000);
    assert_int_equal(write(fd, bytes.p, bytes.n), (ssize_t)bytes.n);
    struct issues issues;
    struct tensor_file *f;
    struct err err = {0};
    issues_init(&issues, arena, path);
    assert_int_equal(tensor_file_open(arena, path, &issues, &f, &err), ST_OK);
    assert_int_equal(issues.list.count, 0);
    const struct tensor *t = tensor_find(f, "l\xc3\xa4yer");
    assert_non_null(t);
    double v[3];
    assert_int_equal(tensor_values(f, t, 257, 3, v, &err), ST_OK);
    assert_true(v[0] == 1 && v[1] == 2 && v[2] == 3);
    assert_int_equal(file_map_unchanged(&f->map, &err), ST_OK);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(tensor_values(f, t, 8997, 3, v, &err), ST_IO);
    assert_int_equal(file_map_unchanged(&f->map, &err), ST_IO);
    tensor_file_close(f);
    unlink(path);
    close(fd);
}

static void strides_are_followed(void **state)
{
    (void)state;
    static const uint64_t shape[] = {2, 3};
    static const int64_t stride[] = {1, 2};
    struct issues issues;
    struct tensor_file *f;
    double v[6];
    issues_init(&issues, arena, "x");
    struct str bytes = file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}",
                               6);
    assert_int_equal(tensor_file_from_bytes(arena, "x.safetensors", bytes, &issues, &f, NULL),
                     ST_OK);
    struct tensor t = *tensor_find(f, "a");
    t.shape = shape;
    t.stride = stride;
    assert_int_equal(tensor_values(f, &t, 0, 6, v, NULL), ST_OK);
    static const double wanted[] = {0, 2, 4, 1, 3, 5};
    assert_memory_equal(v, wanted, sizeof v);
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
        cmocka_unit_test(each_header_gets_the_reference_readers_answer),
        cmocka_unit_test(short_and_lying_header_sizes_are_refused),
        cmocka_unit_test(a_tensor_outside_of_the_file_is_never_read),
        cmocka_unit_test(a_nul_in_a_name_does_not_hide_a_tensor),
        cmocka_unit_test(a_file_that_shrinks_while_mapped_is_an_error_and_no_signal),
        cmocka_unit_test(strides_are_followed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
