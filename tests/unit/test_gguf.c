// SPDX-License-Identifier: Apache-2.0
/* GGUF: what the reference writes is read to the bit; headers that lie are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file_map.h"

#include "model/gguf.h"
#include "unit.h"

static struct arena *arena;

/* ---- a writer for headers that lie ---- */

struct writer {
    struct strbuf b;
};

static void put(struct writer *w, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        strbuf_addc(&w->b, (char)(value >> (8 * i)));
    }
}

static void put_text(struct writer *w, const char *text)
{
    put(w, strlen(text), 8);
    strbuf_addz(&w->b, text);
}

static struct writer begin(uint32_t version, uint64_t tensors, uint64_t keys)
{
    struct writer w;
    strbuf_init(&w.b, arena, 1 << 20);
    strbuf_addz(&w.b, "GGUF");
    put(&w, version, 4);
    put(&w, tensors, 8);
    put(&w, keys, 8);
    return w;
}

/* A tensor of rank 1. */
static void put_tensor(struct writer *w, const char *name, uint64_t n, uint32_t type, uint64_t at)
{
    put_text(w, name);
    put(w, 1, 4);
    put(w, n, 8);
    put(w, type, 4);
    put(w, at, 8);
}

static void put_data(struct writer *w, size_t n)
{
    while (w->b.n % 32 != 0) {
        strbuf_addc(&w->b, '\0');
    }
    for (size_t i = 0; i < n; i++) {
        strbuf_addc(&w->b, '\1');
    }
}

/* The id of the first issue; "" when there is none. */
static const char *first_issue(const struct writer *w)
{
    struct issues issues;
    struct tensor_file *f;
    struct err err = {0};
    issues_init(&issues, arena, "x.gguf");
    enum status status = tensor_file_from_bytes(arena, "x.gguf", strbuf_str(&w->b), &issues, &f,
                                                &err);
    if (issues.list.count != 0) {
        return issues.list.items[0].id;
    }
    assert_int_equal(status, ST_OK);
    return "";
}

/* ---- tests ---- */

static void what_the_reference_wrote_is_read_to_the_bit(void **state)
{
    (void)state;
    struct issues issues;
    struct tensor_file *f;
    struct err err = {0};
    unsigned compared = 0;
    issues_init(&issues, arena, "types");
    assert_int_equal(tensor_file_open(arena, CORPUS "/types", &issues, &f, &err), ST_OK);
    assert_int_equal(issues.list.count, 0);
    for (size_t i = 0; i < f->count; i++) {
        const struct tensor *t = &f->tensors[i];
        const struct tensor *wanted = tensor_find(f, arena_fmt(arena, "%s.expected", t->name));
        if (wanted == NULL) {
            continue;
        }
        assert_true(tensor_readable(t));
        assert_string_equal(t->type->name, t->name);
        assert_int_equal(t->elements, wanted->elements);
        double *a = arena_array(arena, (size_t)t->elements, sizeof *a);
        double *b = arena_array(arena, (size_t)t->elements, sizeof *b);
        assert_int_equal(tensor_values(f, t, 0, (size_t)t->elements, a, &err), ST_OK);
        assert_int_equal(tensor_values(f, wanted, 0, (size_t)t->elements, b, &err), ST_OK);
        for (uint64_t k = 0; k < t->elements; k++) {
            if ((float)a[k] != (float)b[k]) {
                fail_msg("%s[%zu]: %.9g, wanted %.9g", t->name, (size_t)k, a[k], b[k]);
            }
        }
        /* A part that begins and ends inside of blocks. */
        assert_int_equal(tensor_values(f, t, 5, 40, b, &err), ST_OK);
        assert_memory_equal(a + 5, b, 40 * sizeof *a);
        compared++;
    }
    assert_int_equal(compared, 31);
    tensor_file_close(f);
}

static void keys_keep_their_kinds(void **state)
{
    (void)state;
    struct tensor_file *f;
    int64_t i;
    double r;
    bool b;
    struct str s;
    assert_int_equal(tensor_file_open(arena, CORPUS "/types", NULL, &f, NULL), ST_OK);
    const struct gguf *g = gguf_of(f);
    tensor_file_close(f); /* keys outlive the map */
    assert_int_equal(g->version, 3);
    assert_int_equal(g->alignment, 32);
    assert_true(gguf_text(g, "general.architecture", &s) && str_is(s, "llama"));
    assert_true(gguf_integer(g, "llama.block_count", &i) && i == 2);
    assert_true(gguf_integer(g, "test.u64", &i) && i == (int64_t)1 << 40);
    assert_true(gguf_integer(g, "test.i64", &i) && i == -((int64_t)1 << 40));
    assert_true(gguf_integer(g, "test.i8", &i) && i == -5);
    assert_true(gguf_real(g, "test.f32", &r) && (float)r == 1e-5F);
    assert_true(gguf_real(g, "test.f64", &r) && r == 0.1);
    assert_true(gguf_real(g, "test.i8", &r) && r == -5);
    assert_true(gguf_bool(g, "test.bool", &b) && b);
    assert_true(gguf_text(g, "test.text", &s) && str_is(s, "ein \xc3\x9c"
                                                           "bel"));
    assert_false(gguf_integer(g, "test.f32", &i));
    assert_false(gguf_integer(g, "test.bool", &i));
    assert_false(gguf_integer(g, "test.integers", &i));
    assert_false(gguf_text(g, "nothing", &s));
    const struct gguf_value *v = gguf_find(g, "test.integers");
    assert_true(v != NULL && v->count == 3 && gguf_integer_at(v, 1, &i) && i == -2);
    assert_false(gguf_integer_at(v, 3, &i));
    v = gguf_find(g, "tokenizer.ggml.tokens");
    assert_true(gguf_text_at(v, 1, &s) && str_is(s, "\xc4\xa0"
                                                    "world"));
    assert_false(gguf_text_at(v, 3, &s));
}

static void a_shape_reads_in_pytorchs_order(void **state)
{
    (void)state;
    struct tensor_file *f;
    assert_int_equal(tensor_file_open(arena, CORPUS "/types", NULL, &f, NULL), ST_OK);
    const struct tensor *t = tensor_find(f, "Q4_K");
    assert_true(t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 512);
    tensor_file_close(f);
}

static void sound_headers_pass(void **state)
{
    (void)state;
    struct writer w = begin(2, 2, 0);
    put_tensor(&w, "a", 3, 0, 0);
    put_tensor(&w, "b", 32, 2, 32);
    put_data(&w, 32 + 18);
    assert_string_equal(first_issue(&w), "");
    w = begin(3, 0, 0);
    assert_string_equal(first_issue(&w), "");
}

static void headers_that_lie_are_named(void **state)
{
    (void)state;
    struct writer w = begin(3, 1, 0);
    put_tensor(&w, "a", 3, 0, 0);
    put_data(&w, 11);
    assert_string_equal(first_issue(&w), "gguf-truncated");
    w = begin(3, 1, 0);
    put_tensor(&w, "a", 3, 0, 0);
    put_data(&w, 33);
    assert_string_equal(first_issue(&w), "gguf-trailing");
    w = begin(3, 1, 0);
    put_tensor(&w, "a", 3, 0, 32);
    put_data(&w, 64);
    assert_string_equal(first_issue(&w), "gguf-offset");
    w = begin(3, 2, 0);
    put_tensor(&w, "a", 3, 0, 0);
    put_tensor(&w, "b", 3, 0, 0);
    put_data(&w, 64);
    assert_string_equal(first_issue(&w), "gguf-offset");
    w = begin(3, 2, 0);
    put_tensor(&w, "a", 3, 0, 0);
    put_tensor(&w, "a", 3, 0, 32);
    put_data(&w, 64);
    assert_string_equal(first_issue(&w), "tensor-name-twice");
    w = begin(3, 1, 0);
    put_tensor(&w, "a", 33, 2, 0);
    put_data(&w, 36);
    assert_string_equal(first_issue(&w), "gguf-shape");
    w = begin(3, 1, 0);
    put_tensor(&w, "a", UINT64_MAX, 0, 0);
    put_data(&w, 36);
    assert_string_equal(first_issue(&w), "gguf-shape");
    w = begin(3, 1, 0);
    put_tensor(&w, "a", 3, 4, 0); /* Q4_2 was removed */
    put_data(&w, 12);
    assert_string_equal(first_issue(&w), "gguf-header");
    w = begin(3, 1, 0);
    put_tensor(&w, "a", 3, 0, UINT64_MAX - 31);
    put_data(&w, 12);
    assert_string_equal(first_issue(&w), "gguf-offset");
}

static void keys_that_lie_are_named(void **state)
{
    (void)state;
    struct writer w = begin(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&w, "k");
        put(&w, GGUF_U8, 4);
        put(&w, 1, 1);
    }
    assert_string_equal(first_issue(&w), "gguf-key-twice");

    static const struct {
        uint32_t kind;
        uint32_t element;
        uint64_t count;
        const char *id;
    } rows[] = {
        {13, 0, 0, "gguf-header"},
        {GGUF_ARRAY, GGUF_ARRAY, 1, "gguf-header"},
        {GGUF_ARRAY, GGUF_STRING, UINT64_MAX, "gguf-header"},
        {GGUF_ARRAY, GGUF_STRING, 1000000, "gguf-header"},
        {GGUF_ARRAY, GGUF_U64, UINT64_MAX / 8 + 1, "gguf-header"},
        {GGUF_ARRAY, GGUF_U64, 1000000, "gguf-truncated"},
        {GGUF_ARRAY, 99, 1, "gguf-header"},
        {GGUF_BOOL, 2, 0, "gguf-header"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        w = begin(3, 0, 1);
        put_text(&w, "k");
        put(&w, rows[i].kind, 4);
        put(&w, rows[i].element, 4);
        put(&w, rows[i].count, 8);
        assert_string_equal(first_issue(&w), rows[i].id);
    }
    w = begin(3, 0, 1);
    put_text(&w, "general.alignment");
    put(&w, GGUF_U32, 4);
    put(&w, 33, 4);
    assert_string_equal(first_issue(&w), "gguf-header");
}

static void other_forms_are_refused_by_name(void **state)
{
    (void)state;
    struct writer w = begin(1, 0, 0);
    assert_string_equal(first_issue(&w), "gguf-version");
    w = begin(0x03000000, 0, 0);
    assert_string_equal(first_issue(&w), "gguf-version");
    w = begin(3, UINT64_MAX, 0);
    assert_string_equal(first_issue(&w), "gguf-header");
    strbuf_clear(&w.b);
    strbuf_addz(&w.b, "GGUX");
    assert_string_equal(first_issue(&w), "gguf-header");
    strbuf_clear(&w.b);
    assert_string_equal(first_issue(&w), "gguf-truncated");
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
        cmocka_unit_test(what_the_reference_wrote_is_read_to_the_bit),
        cmocka_unit_test(keys_keep_their_kinds),
        cmocka_unit_test(a_shape_reads_in_pytorchs_order),
        cmocka_unit_test(sound_headers_pass),
        cmocka_unit_test(headers_that_lie_are_named),
        cmocka_unit_test(keys_that_lie_are_named),
        cmocka_unit_test(other_forms_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
