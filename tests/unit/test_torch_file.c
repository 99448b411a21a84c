// SPDX-License-Identifier: Apache-2.0
/* Files that torch.save wrote (tests/fuzz/corpus/torch_file), whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"

#include "model/torch_file.h"

static struct str load(struct arena *a, const char *name)
{
    struct fs fs = {.prefix = ""};
    struct str text;
    struct err err = {0};
    const char *path = arena_fmt(a, "%s/%s", CORPUS, name);
    if (fs_read(&fs, a, path, 1 << 20, &text, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return text;
}

/* Read to the end without an error or a warning, checksums included. */
static bool accepted(struct str bytes)
{
    struct arena *a = arena_new(0);
    struct issues issues;
    struct tensor_file *f;
    struct err err;
    issues_init(&issues, a, "test");
    bool fine = torch_looks_like(bytes) &&
                tensor_file_from_bytes(a, "test", bytes, &issues, &f, &err) == ST_OK;
    if (fine) {
        tensor_file_check_sums(f, &issues);
    }
    fine = fine && !issues_wrong(&issues);
    for (size_t i = 0; fine && i < f->count; i++) {
        fine = f->tensors[i].present;
    }
    arena_free(a);
    return fine;
}

static void test_views_follow_offset_and_strides(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct issues issues;
    issues_init(&issues, a, "test");
    struct tensor_file *f;
    struct err err = {0};
    assert_int_equal(tensor_file_from_bytes(a, "views", load(a, "views"), &issues, &f, &err),
                     ST_OK);
    assert_false(issues_wrong(&issues));
    double v[24];
    const struct tensor *t = tensor_find(f, "model.t");
    assert_non_null(t);
    assert_int_equal(tensor_values(f, t, 0, 24, v, &err), ST_OK);
    assert_true(v[0] == 0 && v[1] == 6 && v[4] == 1 && v[23] == 23);
    t = tensor_find(f, "model.part");
    assert_non_null(t);
    assert_int_equal(t->elements, 6);
    assert_int_equal(tensor_values(f, t, 0, 6, v, &err), ST_OK);
    assert_true(v[0] == 6 && v[1] == 8 && v[2] == 10 && v[3] == 12 && v[5] == 16);
    t = tensor_find(f, "half");
    assert_non_null(t);
    assert_int_equal(t->type->dtype, DTYPE_BF16);
    t = tensor_find(f, "u16");
    assert_non_null(t);
    assert_int_equal(t->type->dtype, DTYPE_U16);
    assert_non_null(tensor_find(f, "p"));
    assert_int_equal(tensor_find(f, "model.w")->offset, tensor_find(f, "model.tied")->offset);
    const struct torch_file *own = f->own;
    double lr;
    assert_true(torch_number(own, pickle_get(own->pickle.root, "lr"), &lr));
    assert_true(lr == 0.5);
    arena_free(a);
}

static void test_both_forms_hold_the_same_values(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct tensor_file *f[2];
    struct issues issues;
    struct err err = {0};
    issues_init(&issues, a, "test");
    assert_int_equal(tensor_file_from_bytes(a, "archive", load(a, "archive"), &issues, &f[0], &err),
                     ST_OK);
    assert_int_equal(tensor_file_from_bytes(a, "legacy", load(a, "legacy"), &issues, &f[1], &err),
                     ST_OK);
    assert_int_equal(f[0]->count, 6);
    assert_int_equal(f[1]->count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct tensor *t = &f[0]->tensors[i];
        const struct tensor *u = tensor_find(f[1], t->name);
        assert_non_null(u);
        assert_int_equal(t->bytes, u->bytes);
        assert_memory_equal(f[0]->map.p + t->offset, f[1]->map.p + u->offset, t->bytes);
    }
    assert_false(issues_wrong(&issues));
    arena_free(a);
}

static void test_every_cut_is_noticed(void **state)
{
    (void)state;
    static const char *const names[] = {"archive", "legacy",           "views",
                                        "pickle",  "legacy_protocol4", "legacy_complex"};
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct str bytes = load(a, names[i]);
        assert_true(accepted(bytes));
        for (size_t n = 0; n < bytes.n; n++) {
            /* behind its magic number, a cut legacy stream must not pass as a bare pickle */
            if (accepted(str_slice(bytes, 0, n))) {
                fail_msg("%s cut to %zu bytes", names[i], n);
            }
        }
    }
    arena_free(a);
}

static void test_changed_content_is_noticed(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct str bytes = load(a, "archive");
    struct torch_file f;
    struct err err = {0};
    assert_int_equal(torch_read(a, bytes, NULL, &f, &err), ST_OK);
    char *copy = arena_copy(a, bytes.p, bytes.n);
    for (size_t i = 0; i < f.zip.count; i++) {
        const struct zip_member *m = &f.zip.members[i];
        for (uint64_t at = m->data_at; at < m->data_at + m->size; at++) {
            copy[at] ^= 0x10;
            if (accepted((struct str){.p = copy, .n = bytes.n})) {
                fail_msg("byte %d of member %zu", (int)(at - m->data_at), i);
            }
            copy[at] ^= 0x10;
        }
    }
    arena_free(a);
}

/* A tensor that is larger than its storage must not be read. */
static void test_view_beyond_its_storage(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct str bytes = load(a, "legacy");
    /* shape (32, 16) of 0.weight: K 32 K 16 TUPLE2 */
    size_t at = str_find(bytes, "K K\x10\x86", 0);
    assert_int_not_equal(at, SIZE_MAX);
    char *copy = arena_copy(a, bytes.p, bytes.n);
    copy[at + 1] = '!';
    struct issues issues;
    issues_init(&issues, a, "test");
    struct torch_file f;
    struct err err = {0};
    assert_int_equal(torch_read(a, (struct str){.p = copy, .n = bytes.n}, &issues, &f, &err),
                     ST_OK);
    assert_int_equal(issues_count(&issues, "torch-tensor-damaged"), 1);
    assert_false(torch_find(&f, "0.weight")->present);
    arena_free(a);
}

static void test_shared_lists_do_not_explode(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf b;
    strbuf_init(&b, a, 1 << 16);
    strbuf_add(&b, STR("\x80\x02]"));
    for (unsigned i = 0; i < 60; i++) { /* each list holds the one before twice */
        strbuf_add(&b, STR("2\x86"));
    }
    strbuf_addc(&b, '.');
    struct issues issues;
    issues_init(&issues, a, "test");
    struct torch_file f;
    struct err err = {0};
    assert_int_equal(torch_read(a, strbuf_str(&b), &issues, &f, &err), ST_OK);
    assert_int_equal(issues_count(&issues, "torch-too-deep"), 1);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_follow_offset_and_strides),
        cmocka_unit_test(test_both_forms_hold_the_same_values),
        cmocka_unit_test(test_every_cut_is_noticed),
        cmocka_unit_test(test_changed_content_is_noticed),
        cmocka_unit_test(test_view_beyond_its_storage),
        cmocka_unit_test(test_shared_lists_do_not_explode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
