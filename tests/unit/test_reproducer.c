// SPDX-License-Identifier: Apache-2.0
/*
 * Reproducers: templates, redaction, and that for every calling convention, kind of fault and number
 * format the program has at most 100 lines and is C (where a compiler is installed).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"

#include "ops/reproducer_fill.h"

enum {
    LINES_MAX = 100
};

static struct arena *arena;

static int start(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* --- templates --------------------------------------------------------------------------------- */

static enum status filled(const char *text, struct str *ret_text, struct err *err)
{
    struct fill f = {.arena = arena};
    fill_text(&f, "NAME", "x");
    fill_int(&f, "NUMBER", -3);
    fill_word(&f, "here");
    return fill_template(&f, text, ret_text, err);
}

static void places_are_filled(void **state)
{
    (void)state;
    struct str text;
    struct err err;
    assert_int_equal(filled("a @NAME@@NUMBER@ b\n", &text, &err), ST_OK);
    assert_true(str_is(text, "a x-3 b\n"));
}

static void lines_are_kept_by_word(void **state)
{
    (void)state;
    struct str text;
    struct err err;
    assert_int_equal(filled("1\n@if gone here\n2\n@if gone\n3\n@if here\n4\n@end\n@end\n5\n@end\n"
                            "@if gone\n6\n@end\n7\n",
                            &text, &err),
                     ST_OK);
    assert_true(str_is(text, "1\n2\n5\n7\n"));
}

static void faults_of_a_template_are_said(void **state)
{
    (void)state;
    static const char *const bad[] = {"@OTHER@\n", "a@b\n", "@NAME\n", "@if here\n", "@end\n"};
    struct str text;
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(filled(bad[i], &text, &err), ST_FORMAT);
    }
}

/* --- redaction --------------------------------------------------------------------------------- */

static void owners_are_not_told(void **state)
{
    (void)state;
    setenv("HOME", "/data/people/ann", 1);
    setenv("USER", "ann", 1);
    static const char *const pairs[][2] = {
        {"/home/joe/venv/lib/libx.so", "~/venv/lib/libx.so"},
        {"cannot load '/home/joe': no", "cannot load '~': no"},
        {"/data/people/ann/libx.so", "~/libx.so"},
        {"/data/people/annabel/libx.so", "/data/people/annabel/libx.so"},
        {"/scratch/ann/run", "/scratch/USER/run"},
        {"/opt/annals/x", "/opt/annals/x"},
        {"/root/x", "~/x"},
        {"/usr/lib/root/x", "/usr/lib/root/x"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        assert_string_equal(reproducer_redact(arena, pairs[i][0]), pairs[i][1]);
    }
}

static void library_of_an_owner_is_named_by_its_last_part(void **state)
{
    (void)state;
    assert_string_equal(fill_library(arena, "/opt/x/libx.so.1"), "/opt/x/libx.so.1");
    assert_string_equal(fill_library(arena, "/home/joe/libx.so.1"), "libx.so.1");
    assert_string_equal(fill_library(arena, "/opt/a\"b/libx.so"), "libx.so");
    assert_string_equal(fill_library(arena, "/opt/*/ int x;\n"), "not-shown");
}

/* --- programs ---------------------------------------------------------------------------------- */

static char folder[] = "/tmp/assay-reproducer-XXXXXX";

static size_t lines_of(struct str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        n += text.p[i] == '\n';
    }
    return n;
}

static void compile(void *context)
{
    execlp("cc", "cc", "-fsyntax-only", "-Wall", "-Werror", (char *)context, (char *)NULL);
    _exit(127);
}

/* Writes the program and holds it against what every program promises. */
static void check_program(const struct gemm_target *target, const struct gemm_diagnosis *d)
{
    const struct blas_identity identity = {.family = "blas"};
    struct reproducer r = {.target = target,
                           .identity = &identity,
                           .diagnosis = d,
                           .title = "a title that ends */ early",
                           .claim = "claim"};
    struct err err = {0};
    struct fs fs = {.prefix = ""};
    struct str text;
    assert_int_equal(reproducer_write(arena, &r, folder, &err), ST_OK);
    assert_int_equal(
        fs_read(&fs, arena, arena_fmt(arena, "%s/reproducer.c", folder), 100000, &text, &err),
        ST_OK);
    assert_in_range(lines_of(text), 60, LINES_MAX);
    if (access("/usr/bin/cc", X_OK) == 0) {
        struct isolate_end end;
        char *path = arena_fmt(arena, "%s/reproducer.c", folder);
        assert_int_equal(isolate_run(NULL, compile, path, &end, &err), ST_OK);
        if (end.ending != ENDING_EXIT || end.exit_status != 0) {
            print_error("%s\n", end.text);
            fail();
        }
    }
}

static struct gemm_diagnosis diagnosis_of(enum gemm_fault_kind kind, enum dtype dtype,
                                          int64_t batch)
{
    struct gemm_diagnosis d = {.repeats = true, .clean_bytes = -1};
    d.probe.shape = (struct gemm_shape){.m = 5,
                                        .n = 3,
                                        .k = 2,
                                        .batch = batch,
                                        .dtype_ab = dtype,
                                        .dtype_c = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32,
                                        .alpha = 0.5};
    gemm_shape_pack(&d.probe.shape, 1, 0, 2);
    d.fault = (struct gemm_fault){.kind = kind, .operand = GEMM_OPERAND_A};
    return d;
}

static void write_program(enum blas_abi abi, enum gemm_fault_kind kind, enum dtype dtype,
                          enum gemm_values values)
{
    struct gemm_diagnosis d = diagnosis_of(kind, dtype, abi == BLAS_CBLAS_BATCH ? 2 : 1);
    const struct gemm_target target = {
        .vendor = &gemm_vendor_blas, .path = "/x.so", .variable = "FORCE", .value = "7"};
    d.probe.values = values;
    d.probe.shape.beta = 1;
    str_print(d.fault.choice.name, sizeof d.fault.choice.name, "a_gemm, %s", blas_abi_name(abi));
    check_program(&target, &d);
}

static void write_gpu_program(const struct gemm_vendor *vendor, enum gemm_fault_kind kind,
                              enum dtype dtype, enum gemm_epilogue epilogue, int64_t batch)
{
    struct gemm_diagnosis d = diagnosis_of(kind, dtype, batch);
    const struct gemm_target target = {
        .vendor = vendor, .device_kind = DEVICE_HIP, .path = "/x.so"};
    d.probe.shape.epilogue = epilogue;
    d.probe.only = 2;
    str_print(d.fault.choice.name, sizeof d.fault.choice.name, "solution 7");
    check_program(&target, &d);
}

static void every_program_is_short_and_is_c(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));

    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16};

    for (enum blas_abi abi = 0; abi < BLAS_ABI_COUNT; abi++) {
        write_program(abi, GEMM_READS_OUTSIDE, DTYPE_F32, GEMM_VALUES_GRID);
        write_program(abi, GEMM_WRITES_GAP, DTYPE_F32, GEMM_VALUES_GRID);
    }
    for (size_t i = 0; i < ARRAY_LEN(dtypes); i++) {
        for (enum gemm_values v = 0; v < GEMM_VALUES_COUNT; v++) {
            write_program(BLAS_FORTRAN, GEMM_INACCURATE, dtypes[i], v);
        }
        write_program(BLAS_CBLAS_ROW, GEMM_HANGS, dtypes[i], GEMM_VALUES_GRID);
        write_program(BLAS_CBLAS_ROW, GEMM_STRAYS, dtypes[i], GEMM_VALUES_GRID);
    }
    static const struct gemm_vendor *const vendors[] = {
        &gemm_vendor_cublaslt, &gemm_vendor_cublas, &gemm_vendor_hipblaslt, &gemm_vendor_rocblas};
    for (size_t i = 0; i < ARRAY_LEN(vendors); i++) {
        for (size_t t = 0; t < ARRAY_LEN(dtypes); t++) {
            write_gpu_program(vendors[i], GEMM_TOUCHES_OUTSIDE, dtypes[t], GEMM_EPILOGUE_NONE, 1);
            write_gpu_program(vendors[i], GEMM_INACCURATE, dtypes[t], GEMM_EPILOGUE_NONE, 1);
        }
        write_gpu_program(vendors[i], GEMM_STRAYS, DTYPE_BF16, GEMM_EPILOGUE_NONE, 3);
        if (vendors[i] != &gemm_vendor_rocblas && vendors[i] != &gemm_vendor_cublas) {
            write_gpu_program(vendors[i], GEMM_STRAYS, DTYPE_BF16, GEMM_EPILOGUE_BIAS_GELU, 1);
        }
    }
    unlink(arena_fmt(arena, "%s/reproducer.c", folder));
    unlink(arena_fmt(arena, "%s/shapes.txt", folder));
    rmdir(folder);
}

static void what_cannot_be_shown_is_said(void **state)
{
    (void)state;
    struct gemm_diagnosis d = {.fault = {.kind = GEMM_FLOAT_MODE}};
    const struct gemm_target target = {.vendor = &gemm_vendor_blas, .path = "/x.so"};
    struct reproducer r = {.target = &target, .diagnosis = &d};
    struct fill f = {.arena = arena};
    struct err err;
    assert_int_equal(fill_cpu(&f, &r, &err), ST_UNSUPPORTED);
    d.fault.kind = GEMM_READS_OUTSIDE;
    str_print(d.fault.choice.name, sizeof d.fault.choice.name, "sgemm_, by telegraph");
    assert_int_equal(fill_cpu(&f, &r, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "by telegraph"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_filled),
        cmocka_unit_test(lines_are_kept_by_word),
        cmocka_unit_test(faults_of_a_template_are_said),
        cmocka_unit_test(owners_are_not_told),
        cmocka_unit_test(library_of_an_owner_is_named_by_its_last_part),
        cmocka_unit_test(every_program_is_short_and_is_c),
        cmocka_unit_test(what_cannot_be_shown_is_said),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
