// SPDX-License-Identifier: Apache-2.0
/* Four cells at once; each comparison is written so that a NaN fails it. */
#include "ops/gemm_scan.h"

#include <string.h>

/* Four numbers; two registers where the processor's are shorter. */
typedef double lanes __attribute__((vector_size(32)));
typedef int64_t masks __attribute__((vector_size(32)));
typedef float singles __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(16)));
typedef uint16_t halves __attribute__((vector_size(8)));

enum {
    LANES = 4
};

#define INLINE static inline __attribute__((always_inline))

/* 16 bits as float32: bfloat16 is its upper half; float16 has its exponent moved by a product, which is
 * exact for subnormal numbers too, and gives a NaN for what is not finite. */
INLINE void widen(enum dtype dtype, const halves *from, singles *ret)
{
    const words bits = __builtin_convertvector(*from, words);
    if (dtype == DTYPE_BF16) {
        *ret = (singles)(bits << 16);
        return;
    }
    const singles size = (singles)((bits & 0x7fff) << 13) * 0x1p112F;
    const words not_finite = (words)(size >= 65536.0F) & 0x7fc00000;
    *ret = (singles)((words)size | not_finite | (bits & 0x8000) << 16);
}

/* By pointer: a vector of this length as a result depends on the processor compiled for. */
INLINE void read_results(enum dtype dtype, const char *from, int64_t at, lanes *ret)
{
    if (dtype == DTYPE_F32) {
        singles narrow;
        memcpy(&narrow, from + (size_t)at * sizeof(float), sizeof narrow);
        *ret = __builtin_convertvector(narrow, lanes);
        return;
    }
    if (dtype == DTYPE_F64) {
        memcpy(ret, from + (size_t)at * sizeof(double), sizeof *ret);
        return;
    }
    halves narrow;
    singles wide;
    memcpy(&narrow, from + (size_t)at * sizeof narrow[0], sizeof narrow);
    widen(dtype, &narrow, &wide);
    *ret = __builtin_convertvector(wide, lanes);
}

/* Four cells. */
struct cells {
    lanes got, product, magnitude, addend;
};

/* Clears the lanes of `fine` whose cell is not. */
INLINE void judge(const struct gemm_column *c, const struct cells *x, masks *fine)
{
    const lanes addend = x->addend * c->beta;
    const lanes want = x->product * c->alpha + addend;
    if (c->bound->exact) {
        *fine &= x->got == want;
        return;
    }
    const struct gemm_bound *b = c->bound;
    const double scale = b->product * (c->alpha < 0 ? -c->alpha : c->alpha);
    const lanes error = x->got - want;
    const lanes bound = x->magnitude * scale + (lanes)((masks)addend & INT64_MAX) * b->addend +
                        b->absolute + (lanes)((masks)want & INT64_MAX) * b->output;
    *fine &= (lanes)((masks)error & INT64_MAX) <= bound * c->worst;
}

/* The cells behind the last four, in lanes of their own; what is left over holds zeros. */
INLINE void judge_rest(const struct gemm_column *c, enum dtype dtype, int64_t at, masks *fine)
{
    struct cells x = {0};
    for (int64_t i = 0; at + i < c->rows; i++) {
        if (dtype == DTYPE_F32) {
            float narrow;
            memcpy(&narrow, c->got + (size_t)(at + i) * sizeof narrow, sizeof narrow);
            x.got[i] = (double)narrow;
        } else if (dtype == DTYPE_F64) {
            double wide;
            memcpy(&wide, c->got + (size_t)(at + i) * sizeof wide, sizeof wide);
            x.got[i] = wide;
        } else {
            x.got[i] = dtype_get(dtype, c->got + (size_t)(at + i) * sizeof(uint16_t));
        }
        x.product[i] = c->product[at + i];
        x.magnitude[i] = c->bound->exact ? 0 : c->magnitude[at + i];
        x.addend[i] = c->c_value[at + i];
    }
    judge(c, &x, fine);
}

INLINE bool scan(const struct gemm_column *c, enum dtype dtype)
{
    masks fine = {-1, -1, -1, -1};
    const double *magnitude = c->bound->exact ? c->product : c->magnitude;
    int64_t i = 0;
    for (; i + LANES <= c->rows; i += LANES) {
        struct cells x;
        read_results(dtype, c->got, i, &x.got);
        memcpy(&x.product, c->product + i, sizeof x.product);
        memcpy(&x.magnitude, magnitude + i, sizeof x.magnitude);
        memcpy(&x.addend, c->c_value + i, sizeof x.addend);
        judge(c, &x, &fine);
    }
    if (i < c->rows) {
        judge_rest(c, dtype, i, &fine);
    }
    return (fine[0] & fine[1] & fine[2] & fine[3]) != 0;
}

INLINE bool scan_format(const struct gemm_column *c)
{
    switch (c->dtype) {
    case DTYPE_F32: return scan(c, DTYPE_F32);
    case DTYPE_F64: return scan(c, DTYPE_F64);
    case DTYPE_F16: return scan(c, DTYPE_F16);
    case DTYPE_BF16: return scan(c, DTYPE_BF16);
    default: return false;
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool scan_avx2(const struct gemm_column *c)
{
    return scan_format(c);
}

bool gemm_column_is_fine(const struct gemm_column *column)
{
    return __builtin_cpu_supports("avx2") ? scan_avx2(column) : scan_format(column);
}
#else
bool gemm_column_is_fine(const struct gemm_column *column)
{
    return scan_format(column);
}
#endif
