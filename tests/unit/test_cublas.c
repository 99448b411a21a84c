// SPDX-License-Identifier: Apache-2.0
/* cuBLAS by its handle, over a look-alike on CPU memory. */
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

#include "device/device.h"
#include "device/gemm.h"
#include "unit.h"

static const struct gemm_vendor *const vendor = &gemm_vendor_cublas;

struct fixture {
    struct arena *a;
    struct device device;
    struct gemm_library *library;
};

static int set_up(void **state)
{
    struct arena *a = arena_new(0);
    struct fixture *f = arena_alloc(a, sizeof *f);
    f->a = a;
    f->device.backend = &device_backend_cuda;
    struct err err = {0};
    if (vendor->open(a, &f->device, FAKE_CUBLAS, &f->library, &err) != ST_OK) {
        return -1;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    vendor->close(f->library);
    arena_free(f->a);
    return 0;
}

static struct gemm_shape shape_of(enum dtype dtype, int64_t batch)
{
    return (struct gemm_shape){.m = 2,
                               .n = 3,
                               .k = 2,
                               .lda = 2,
                               .ldb = 3,
                               .ldc = 2,
                               .batch = batch,
                               .stride_a = 4,
                               .stride_b = 6,
                               .stride_c = 6,
                               .transpose_a = true,
                               .transpose_b = true,
                               .dtype_ab = dtype,
                               .dtype_c = dtype,
                               .alpha = 2,
                               .beta = 1};
}

static void products_come_out_right(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct gemm_choice choices[4];
    size_t count = 0;
    for (int64_t batch = 1; batch <= 2; batch++) {
        const struct gemm_shape s = shape_of(DTYPE_F32, batch);
        const float a[8] = {1, 2, 3, 4, 1, 0, 0, 1};
        const float b[12] = {1, 2, 3, 4, 5, 6, 1, 1, 1, 2, 2, 2};
        float c[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        const float want[12] = {19, 39, 25, 53, 31, 67, 3, 5, 3, 5, 3, 5};
        const struct gemm_operands o = {.a = a, .b = b, .c = c};
        assert_int_equal(vendor->choices(f->library, &s, choices, 4, &count, &err), ST_OK);
        assert_int_equal(count, 1);
        assert_int_equal(choices[0].id, -1);
        assert_int_equal(vendor->run(f->library, &s, &o, &choices[0], &err), ST_OK);
        assert_memory_equal(c, want, (size_t)batch * 6 * sizeof *c);
    }
    const struct gemm_shape s = shape_of(DTYPE_F64, 1);
    const double a[4] = {1, 2, 3, 4};
    const double b[6] = {1, 2, 3, 4, 5, 6};
    double c[6] = {0};
    const struct gemm_operands o = {.a = a, .b = b, .c = c};
    assert_int_equal(vendor->run(f->library, &s, &o, NULL, &err), ST_OK);
    assert_true(c[0] == 18 && c[5] == 66);
}

static void what_it_has_not_is_declined(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct gemm_choice choice;
    size_t count = 0;
    struct gemm_shape s = shape_of(DTYPE_F32, 1);
    s.epilogue = GEMM_EPILOGUE_GELU;
    assert_false(vendor->supports(f->library, &s));
    assert_int_equal(vendor->choices(f->library, &s, &choice, 1, &count, &err), ST_UNSUPPORTED);
    s = shape_of(DTYPE_F8_E4M3FN, 1);
    assert_false(vendor->supports(f->library, &s));
    s = shape_of(DTYPE_F32, 1);
    s.m = INT64_C(1) << 31;
    assert_false(vendor->supports(f->library, &s));
    s = shape_of(DTYPE_BF16, 1);
    s.dtype_c = DTYPE_F32;
    assert_true(vendor->supports(f->library, &s));
    const struct gemm_operands o = {.a = &s, .b = &s, .c = &s};
    assert_int_equal(vendor->run(f->library, &s, &o, NULL, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "CUBLAS_STATUS_NOT_SUPPORTED (15)"));
}

static void its_version_is_told(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(vendor->version(f->library), "13.1.0");
    f->device.backend = &device_backend_hip;
    struct gemm_library *none = NULL;
    struct err err = {0};
    assert_int_equal(vendor->open(f->a, &f->device, FAKE_CUBLAS, &none, &err), ST_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_come_out_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_it_has_not_is_declined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_version_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
