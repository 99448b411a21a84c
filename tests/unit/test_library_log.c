// SPDX-License-Identifier: Apache-2.0
/* Logs of maths libraries over their versions: lines as users pasted them. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/fs.h"

#include "recorder/library_log.h"
#include "unit.h"

static struct arena *arena;
static struct library_log library_log;

static int start(void **state)
{
    (void)state;
    arena = arena_new(0);
    library_log_start(arena, &library_log);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static void read_sample(const char *name)
{
    const struct fs fs = {.prefix = ""};
    struct str text;
    struct err err;
    assert_int_equal(
        fs_read(&fs, arena, arena_fmt(arena, "%s/%s", CORPUS, name), 1 << 20, &text, &err), ST_OK);
    library_log_read(&library_log, text);
}

/* The one product of that library and text. */
static const struct library_log_product *product(const char *library, const char *text)
{
    const struct library_log_product *found = NULL;
    for (size_t i = 0; i < library_log.products.count; i++) {
        const struct library_log_product *p = &library_log.products.items[i];
        if (strcmp(p->library, library) == 0 && strcmp(p->text, text) == 0) {
            assert_null(found);
            found = p;
        }
    }
    if (found == NULL) {
        for (size_t i = 0; i < library_log.products.count; i++) {
            print_message("%s: %s\n", library_log.products.items[i].library,
                          library_log.products.items[i].text);
        }
    }
    assert_non_null(found);
    return found;
}

static void hipblaslt_bench(void **state)
{
    (void)state;
    read_sample("hipblaslt_bench.log");
    const struct library_log_product *p = product("hipblaslt", "NN 16x512x4096 bfloat16");
    assert_int_equal(p->solution, 93338);
    assert_int_equal(p->calls, 1);
    assert_true(strncmp(p->bench, "hipblaslt-bench --api_method c -m 16 ", 37) == 0);
    p = product("hipblaslt", "NT 64x16x94 bfloat16");
    assert_int_equal(p->calls, 2);
    assert_int_equal(p->solution, -1);
    assert_int_equal(p->gemm.ldb, 16);
    assert_int_equal(p->gemm.epilogue, 4);
    assert_non_null(strstr(p->kernel, "_MT64x64x64_"));
    p = product("hipblaslt", "NN 1024x512x1024 float16"); /* ROCm 6.0 */
    assert_true(p->gemm.beta == 1);
    assert_null(p->kernel);
}

static void hipblaslt_profile(void **state)
{
    (void)state;
    read_sample("hipblaslt_profile.log");
    const struct library_log_product *p = product("hipblaslt", "TN 16032x109x16384 float16");
    assert_int_equal(p->calls, 2);
    assert_int_equal(p->gemm.epilogue, 0);
    p = product("hipblaslt", "NN 8x8x8 bfloat16, batch 3");
    assert_int_equal(p->calls, 7);
    assert_int_equal(p->solution, 4711);
    assert_int_equal(p->gemm.stride_b, 64);
    assert_int_equal(p->gemm.type_c, 0);
    assert_int_equal(p->gemm.epilogue, 36);
    assert_int_equal(library_log.products.count, 2);
}

static void hipblaslt_trace(void **state)
{
    (void)state;
    read_sample("hipblaslt_trace.log");
    const struct library_log_product *p = product("hipblaslt", "TN 128x2048x2400 float32");
    assert_int_equal(p->gemm.ldb, 25272);
    assert_int_equal(p->gemm.epilogue, 4);
    assert_int_equal(library_log.products.count, 1);
}

static void rocblas(void **state)
{
    (void)state;
    read_sample("rocblas.log");
    const struct library_log_product *p = product("rocblas", "NT 64x16x94 bfloat16");
    assert_int_equal(p->calls, 2); /* once in the bench, once in the trace */
    assert_string_equal(p->function, "gemm_ex");
    assert_true(strncmp(p->bench, "rocblas-bench -f gemm_ex ", 25) == 0);
    size_t batched = 0;
    for (size_t i = 0; i < library_log.products.count; i++) {
        p = &library_log.products.items[i];
        if (p->gemm.batch == 12) {
            batched++;
            assert_int_equal(p->gemm.stride_a, 256);
            assert_int_equal(p->gemm.stride_c, 64);
            assert_true(p->solution == 103 || (p->solution == -1 && p->bench == NULL));
        }
    }
    assert_int_equal(batched, 2);
    assert_string_equal(product("rocblas", "NN 5x6x7 float32")->function, "sgemm");
    assert_string_equal(product("rocblas", "NN 4x4x4 float32")->function, "gemm");
    assert_int_equal(product("rocblas", "TN 12288x4547x4608 bfloat16")->calls, 26);
    assert_int_equal(library_log.products.count, 6);
}

static void cublaslt(void **state)
{
    (void)state;
    read_sample("cublaslt.log");
    const struct library_log_product *p = product("cublaslt", "TN 2048x512x1024 float8_e4m3fn");
    assert_non_null(strstr(p->algorithm, "algoId=67 tile=MATMUL_TILE_32x32"));
    assert_true(isnan(p->gemm.beta)); /* it lies on the device */
    assert_int_equal(product("cublaslt", "NN 1000x1000x1000 float32")->calls, 1);
    assert_int_equal(product("cublaslt", "TN 32x8x64 bfloat16")->gemm.epilogue, 36);
    assert_int_equal(library_log.products.count, 3);
}

static void convolutions(void **state)
{
    (void)state;
    read_sample("miopen.log");
    const struct library_log_product *p = product(
        "miopen", "3D forward bfloat16, 2x3x2x14x14, 1152 of 2x14x14, groups 1");
    assert_string_equal(p->function, "convbfp16");
    assert_true(strncmp(p->bench, "MIOpenDriver convbfp16 -n 2 ", 28) == 0);
    product("miopen", "2D forward float32, 128x3x32x32, 64 of 3x3, groups 1");
    size_t cudnn = 0;
    for (size_t i = 0; i < library_log.products.count; i++) {
        cudnn += strcmp(library_log.products.items[i].library, "cudnn") == 0;
    }
    assert_int_equal(cudnn, 2);
    assert_int_equal(library_log.products.count, 5);
}

static void lines_that_are_none(void **state)
{
    (void)state;
    read_sample("odd.log");
    for (size_t i = 0; i < library_log.products.count; i++) {
        assert_false(library_log.products.items[i].is_gemm);
    }
}

static void products_have_a_limit(void **state)
{
    (void)state;
    struct strbuf out;
    strbuf_init(&out, arena, 16 << 20);
    for (int i = 0; i < LIBRARY_LOG_PRODUCTS_MAX + 10; i++) {
        strbuf_fmt(&out,
                   "hipblaslt-bench -m %d -n 1 -k 1 --lda %d --ldb 1 --ldc %d --a_type f32_r\n",
                   i + 1, i + 1, i + 1);
    }
    library_log_read(&library_log, strbuf_str(&out));
    assert_int_equal(library_log.products.count, LIBRARY_LOG_PRODUCTS_MAX);
    assert_int_equal(library_log.dropped, 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(hipblaslt_bench),
        TEST(hipblaslt_profile),
        TEST(hipblaslt_trace),
        TEST(rocblas),
        TEST(cublaslt),
        TEST(convolutions),
        TEST(lines_that_are_none),
        TEST(products_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
