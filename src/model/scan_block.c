// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks by AVX2. Magnitudes are compared as integers (IEEE formats order like their bit patterns),
 * so the largest one tells at once whether a NaN or an infinity is in the block; that is rare, and
 * the block is then counted again by the plain loop. Counting costs two instructions a vector.
 *
 * Eight-bit floats become float16 patterns by a shift (their exponents are narrower), which the
 * processor converts; a power of two puts the different bias right.
 */
#include "model/scan_block.h"

#include <math.h>
#include <stdint.h>

#if defined(__x86_64__)

# include <cpuid.h>
# include <immintrin.h>

# define VECTORS __attribute__((target("avx2,fma,f16c")))
# define INLINED VECTORS __attribute__((always_inline)) static inline

/* A float32 sum of squares is right to about 1e-6 when no square over- or underflows. */
static const double SQUARE_SAFE_MAX = 1e15;
static const double SQUARE_SAFE_MIN = 1e-15;

INLINED double sum_ps(__m256 v)
{
    float lane[8];
    double sum = 0;
    _mm256_storeu_ps(lane, v);
    for (size_t i = 0; i < 8; i++) {
        sum += (double)lane[i];
    }
    return sum;
}

INLINED double sum_pd(__m256d v)
{
    double lane[4];
    _mm256_storeu_pd(lane, v);
    return lane[0] + lane[1] + lane[2] + lane[3];
}

INLINED unsigned max_epu16(__m256i v)
{
    uint16_t lane[16];
    unsigned max = 0;
    _mm256_storeu_si256((__m256i *)lane, v);
    for (size_t i = 0; i < 16; i++) {
        max = lane[i] > max ? lane[i] : max;
    }
    return max;
}

/* Lanes hold small counts. */
INLINED unsigned sum_epi16(__m256i v)
{
    uint16_t lane[16];
    unsigned sum = 0;
    _mm256_storeu_si256((__m256i *)lane, v);
    for (size_t i = 0; i < 16; i++) {
        sum += lane[i];
    }
    return sum;
}

INLINED __m256i load(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* What 16-bit patterns have in common: magnitudes, zeros, small ones. */
struct counts16 {
    __m256i max;
    __m256i zero;
    __m256i small; /* zeros and denormals */
};

INLINED void count16(struct counts16 *c, __m256i magnitude, __m256i least)
{
    c->max = _mm256_max_epu16(c->max, magnitude);
    c->zero = _mm256_sub_epi16(c->zero, _mm256_cmpeq_epi16(magnitude, _mm256_setzero_si256()));
    c->small = _mm256_sub_epi16(c->small, _mm256_cmpgt_epi16(least, magnitude));
}

INLINED void finish16(const struct counts16 *c, struct scan_block *ret_block)
{
    ret_block->zero = sum_epi16(c->zero);
    ret_block->denormal = sum_epi16(c->small) - ret_block->zero;
}

VECTORS static double bf16_squares_wide(const unsigned char *p, size_t count)
{
    __m256d sum = _mm256_setzero_pd();
    for (size_t i = 0; i < count; i += 8) {
        __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 2 * i)));
        __m256 f = _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
        __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(f));
        __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(f, 1));
        sum = _mm256_fmadd_pd(low, low, sum);
        sum = _mm256_fmadd_pd(high, high, sum);
    }
    return sum_pd(sum);
}

VECTORS static void block_bf16(const unsigned char *p, size_t count, struct scan_block *ret_block)
{
    const __m256i sign_off = _mm256_set1_epi16(0x7fff);
    const __m256i least = _mm256_set1_epi16(0x0080);
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    struct counts16 c = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (size_t i = 0; i < count; i += 32) {
        __m256i a = load(p + 2 * i);
        __m256i b = load(p + 2 * i + 32);
        count16(&c, _mm256_and_si256(a, sign_off), least);
        count16(&c, _mm256_and_si256(b, sign_off), least);
        __m256 a_even = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
        __m256 a_odd = _mm256_castsi256_ps(_mm256_and_si256(a, upper));
        __m256 b_even = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
        __m256 b_odd = _mm256_castsi256_ps(_mm256_and_si256(b, upper));
        sum[0] = _mm256_fmadd_ps(a_even, a_even, sum[0]);
        sum[1] = _mm256_fmadd_ps(a_odd, a_odd, sum[1]);
        sum[2] = _mm256_fmadd_ps(b_even, b_even, sum[2]);
        sum[3] = _mm256_fmadd_ps(b_odd, b_odd, sum[3]);
    }
    unsigned max = max_epu16(c.max);
    uint16_t bits = (uint16_t)max;
    ret_block->special = max >= 0x7f80;
    ret_block->abs_max = dtype_get(DTYPE_BF16, &bits);
    finish16(&c, ret_block);
    if (max != 0 &&
        !(ret_block->abs_max < SQUARE_SAFE_MAX && ret_block->abs_max > SQUARE_SAFE_MIN)) {
        ret_block->squares = bf16_squares_wide(p, count);
    } else {
        ret_block->squares = sum_ps(
            _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
    }
}

INLINED void square16(__m256i v, __m256 sum[2])
{
    __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
    __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
    sum[0] = _mm256_fmadd_ps(low, low, sum[0]);
    sum[1] = _mm256_fmadd_ps(high, high, sum[1]);
}

VECTORS static void block_f16(const unsigned char *p, size_t count, struct scan_block *ret_block)
{
    const __m256i sign_off = _mm256_set1_epi16(0x7fff);
    const __m256i least = _mm256_set1_epi16(0x0400);
    struct counts16 c = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (size_t i = 0; i < count; i += 32) {
        __m256i a = load(p + 2 * i);
        __m256i b = load(p + 2 * i + 32);
        count16(&c, _mm256_and_si256(a, sign_off), least);
        count16(&c, _mm256_and_si256(b, sign_off), least);
        square16(a, sum);
        square16(b, sum + 2);
    }
    unsigned max = max_epu16(c.max);
    uint16_t bits = (uint16_t)max;
    ret_block->special = max >= 0x7c00;
    ret_block->abs_max = dtype_get(DTYPE_F16, &bits);
    finish16(&c, ret_block);
    ret_block->squares = sum_ps(
        _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

/* How an eight-bit float becomes a float16 pattern, and which of its patterns are special. */
struct form8 {
    int shift;       /* of the byte without its sign */
    unsigned bad;    /* from this magnitude on: NaN or infinity */
    unsigned least;  /* smallest normal magnitude */
    double scale_sq; /* square of the factor that puts the bias right */
};

VECTORS static void block_f8(enum dtype t, const struct form8 *form, const unsigned char *p,
                             size_t count, struct scan_block *ret_block)
{
    const __m256i sign_off = _mm256_set1_epi16(0x7f);
    const __m256i least = _mm256_set1_epi16((short)form->least);
    struct counts16 c = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t i = 0; i < count; i += 16) {
        __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p + i)));
        __m256i magnitude = _mm256_and_si256(v, sign_off);
        count16(&c, magnitude, least);
        square16(_mm256_sll_epi16(magnitude, _mm_cvtsi32_si128(form->shift)), sum);
    }
    unsigned max = max_epu16(c.max);
    uint8_t bits = (uint8_t)max;
    ret_block->special = max >= form->bad;
    ret_block->abs_max = dtype_get(t, &bits);
    finish16(&c, ret_block);
    ret_block->squares = sum_ps(_mm256_add_ps(sum[0], sum[1])) * form->scale_sq;
}

VECTORS static void block_f32(const unsigned char *p, size_t count, struct scan_block *ret_block)
{
    const __m256i sign_off = _mm256_set1_epi32(0x7fffffff);
    const __m256i least = _mm256_set1_epi32(0x00800000);
    __m256i max = _mm256_setzero_si256();
    __m256i zero = max;
    __m256i small = max;
    __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    for (size_t i = 0; i < count; i += 8) {
        __m256i v = load(p + 4 * i);
        __m256i magnitude = _mm256_and_si256(v, sign_off);
        max = _mm256_max_epu32(max, magnitude);
        zero = _mm256_sub_epi32(zero, _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256()));
        small = _mm256_sub_epi32(small, _mm256_cmpgt_epi32(least, magnitude));
        __m256d low = _mm256_cvtps_pd(_mm_castsi128_ps(_mm256_castsi256_si128(v)));
        __m256d high = _mm256_cvtps_pd(_mm_castsi128_ps(_mm256_extracti128_si256(v, 1)));
        sum[0] = _mm256_fmadd_pd(low, low, sum[0]);
        sum[1] = _mm256_fmadd_pd(high, high, sum[1]);
    }
    uint32_t lane[3][8];
    uint32_t top = 0;
    uint32_t zeros = 0;
    uint32_t smalls = 0;
    _mm256_storeu_si256((__m256i *)lane[0], max);
    _mm256_storeu_si256((__m256i *)lane[1], zero);
    _mm256_storeu_si256((__m256i *)lane[2], small);
    for (size_t i = 0; i < 8; i++) {
        top = lane[0][i] > top ? lane[0][i] : top;
        zeros += lane[1][i];
        smalls += lane[2][i];
    }
    *ret_block = (struct scan_block){.special = top >= 0x7f800000,
                                     .zero = zeros,
                                     .denormal = smalls - zeros,
                                     .abs_max = dtype_get(DTYPE_F32, &top),
                                     .squares = sum_pd(_mm256_add_pd(sum[0], sum[1]))};
}

VECTORS static void block_f64(const unsigned char *p, size_t count, struct scan_block *ret_block)
{
    const __m256i sign_off = _mm256_set1_epi64x(0x7fffffffffffffff);
    const __m256i least = _mm256_set1_epi64x(0x0010000000000000);
    __m256i max = _mm256_setzero_si256();
    __m256i zero = max;
    __m256i small = max;
    __m256d sum = _mm256_setzero_pd();
    for (size_t i = 0; i < count; i += 4) {
        __m256i v = load(p + 8 * i);
        __m256i magnitude = _mm256_and_si256(v, sign_off);
        max = _mm256_blendv_epi8(max, magnitude, _mm256_cmpgt_epi64(magnitude, max));
        zero = _mm256_sub_epi64(zero, _mm256_cmpeq_epi64(magnitude, _mm256_setzero_si256()));
        small = _mm256_sub_epi64(small, _mm256_cmpgt_epi64(least, magnitude));
        sum = _mm256_fmadd_pd(_mm256_castsi256_pd(v), _mm256_castsi256_pd(v), sum);
    }
    uint64_t lane[3][4];
    uint64_t top = 0;
    uint64_t zeros = 0;
    uint64_t smalls = 0;
    _mm256_storeu_si256((__m256i *)lane[0], max);
    _mm256_storeu_si256((__m256i *)lane[1], zero);
    _mm256_storeu_si256((__m256i *)lane[2], small);
    for (size_t i = 0; i < 4; i++) {
        top = lane[0][i] > top ? lane[0][i] : top;
        zeros += lane[1][i];
        smalls += lane[2][i];
    }
    *ret_block = (struct scan_block){.special = top >= 0x7ff0000000000000,
                                     .zero = (unsigned)zeros,
                                     .denormal = (unsigned)(smalls - zeros),
                                     .abs_max = dtype_get(DTYPE_F64, &top),
                                     .squares = sum_pd(sum)};
}

/* E4M3 has bias 7 against float16's 15: a factor of 2^8; E5M2 has float16's exponents. */
static const struct form8 e4m3 = {.shift = 7, .bad = 0x7f, .least = 0x08, .scale_sq = 65536};
static const struct form8 e5m2 = {.shift = 8, .bad = 0x7c, .least = 0x04, .scale_sq = 1};

/* Not every compiler knows it as a word: bit 29 of ecx in leaf 1 (Intel SDM, CPUID). */
static bool has_f16c(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool scan_block_supported(enum dtype t)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
        return false;
    }
    switch (t) {
    case DTYPE_BF16:
    case DTYPE_F16:
    case DTYPE_F32:
    case DTYPE_F64:
    case DTYPE_F8_E4M3FN:
    case DTYPE_F8_E5M2: return true;
    default: return false;
    }
}

void scan_block(enum dtype t, const unsigned char *p, size_t count, struct scan_block *ret_block)
{
    switch (t) {
    case DTYPE_BF16: block_bf16(p, count, ret_block); break;
    case DTYPE_F16: block_f16(p, count, ret_block); break;
    case DTYPE_F32: block_f32(p, count, ret_block); break;
    case DTYPE_F64: block_f64(p, count, ret_block); break;
    case DTYPE_F8_E4M3FN: block_f8(t, &e4m3, p, count, ret_block); break;
    case DTYPE_F8_E5M2: block_f8(t, &e5m2, p, count, ret_block); break;
    default: *ret_block = (struct scan_block){.special = true}; break;
    }
}

#else

bool scan_block_supported(enum dtype t)
{
    (void)t;
    return false;
}

void scan_block(enum dtype t, const unsigned char *p, size_t count, struct scan_block *ret_block)
{
    (void)t, (void)p, (void)count;
    *ret_block = (struct scan_block){.special = true};
}

#endif
