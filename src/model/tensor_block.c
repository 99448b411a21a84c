// SPDX-License-Identifier: Apache-2.0
/*
 * One function a type. Products of a float16, a scale of at most 8 bits and a weight of at most 8 bits
 * are exact in double, so that the one rounding is that of the last step, on every machine alike.
 */
#include "model/tensor_block.h"

#include <math.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/dtype.h"

#include "model/tensor_grid.h"

enum {
    HALF = 16, /* of a block of 32 */
    SUPER = 256
};

static double half_at(const unsigned char *p)
{
    return dtype_get(DTYPE_F16, p);
}

/* Bit `i` of a little-endian row of bits. */
static unsigned bit_at(const unsigned char *p, unsigned i)
{
    return (p[i / 8] >> (i % 8)) & 1U;
}

/* Element i of 32 in 16 bytes: low nibbles first, then the high ones. */
static unsigned nibble_at(const unsigned char *p, unsigned i)
{
    return i < HALF ? p[i] & 15U : (unsigned)(p[i - HALF] >> 4);
}

/* float16 d; 16 bytes */
static void q4_0(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned i = 0; i < 32; i++) {
        ret[i] = (float)(d * ((int)nibble_at(p + 2, i) - 8));
    }
}

/* float16 d, m; 16 bytes */
static void q4_1(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    double m = half_at(p + 2);
    for (unsigned i = 0; i < 32; i++) {
        ret[i] = (float)(d * nibble_at(p + 4, i) + m);
    }
}

/* float16 d; 32 fifth bits; 16 bytes */
static void q5_0(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned i = 0; i < 32; i++) {
        unsigned q = nibble_at(p + 6, i) | bit_at(p + 2, i) << 4;
        ret[i] = (float)(d * ((int)q - 16));
    }
}

/* float16 d, m; 32 fifth bits; 16 bytes */
static void q5_1(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    double m = half_at(p + 2);
    for (unsigned i = 0; i < 32; i++) {
        unsigned q = nibble_at(p + 8, i) | bit_at(p + 4, i) << 4;
        ret[i] = (float)(d * q + m);
    }
}

/* float16 d; 32 int8 */
static void q8_0(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned i = 0; i < 32; i++) {
        ret[i] = (float)(d * (int8_t)p[2 + i]);
    }
}

/* Two bits of element i: 128 elements share 32 bytes, 32 of them one pair of bits. */
static unsigned pair_at(const unsigned char *p, unsigned i)
{
    return (p[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3U;
}

/* 16 bytes of a 4-bit scale and a 4-bit minimum; 64 bytes of pairs; float16 d, dmin */
static void q2_k(const unsigned char *p, float *ret)
{
    const unsigned char *qs = p + 16;
    double d = half_at(p + 80);
    double dmin = half_at(p + 82);
    for (unsigned i = 0; i < SUPER; i++) {
        unsigned scale = p[i / 16];
        ret[i] = (float)(d * (scale & 15U) * pair_at(qs, i) - dmin * (scale >> 4));
    }
}

/* 32 bytes of third bits; 64 bytes of pairs; 12 bytes of sixteen 6-bit scales; float16 d */
static void q3_k(const unsigned char *p, float *ret)
{
    const unsigned char *qs = p + 32;
    const unsigned char *scales = p + 96;
    double d = half_at(p + 108);
    for (unsigned i = 0; i < SUPER; i++) {
        unsigned s = i / 16;
        unsigned low = s < 8 ? scales[s] & 15U : (unsigned)(scales[s - 8] >> 4);
        unsigned high = (scales[8 + s % 4] >> (s / 4 * 2)) & 3U;
        int scale = (int)(low | high << 4) - 32;
        unsigned third = (p[i % 32] >> (i / 32)) & 1U;
        int q = (int)pair_at(qs, i) - (third != 0 ? 0 : 4);
        ret[i] = (float)(d * scale * q);
    }
}

/* Eight 6-bit scales and minima in 12 bytes, as Q4_K and Q5_K have them. */
static void scale_and_minimum(const unsigned char *p, unsigned s, unsigned *ret_scale,
                              unsigned *ret_minimum)
{
    if (s < 4) {
        *ret_scale = p[s] & 63U;
        *ret_minimum = p[s + 4] & 63U;
        return;
    }
    *ret_scale = (p[s + 4] & 15U) | (unsigned)(p[s - 4] >> 6) << 4;
    *ret_minimum = (unsigned)(p[s + 4] >> 4) | (unsigned)(p[s] >> 6) << 4;
}

/* Element i: 64 elements share 32 bytes, low nibbles first. */
static unsigned nibble_of_64(const unsigned char *p, unsigned i)
{
    unsigned char byte = p[i / 64 * 32 + i % 32];
    return i % 64 < 32 ? byte & 15U : (unsigned)(byte >> 4);
}

/* float16 d, dmin; 12 bytes of scales; 128 bytes of nibbles */
static void q4_k(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    double dmin = half_at(p + 2);
    for (unsigned i = 0; i < SUPER; i++) {
        unsigned scale;
        unsigned minimum;
        scale_and_minimum(p + 4, i / 32, &scale, &minimum);
        ret[i] = (float)(d * scale * nibble_of_64(p + 16, i) - dmin * minimum);
    }
}

/* The same with 32 bytes of fifth bits in front of the nibbles */
static void q5_k(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    double dmin = half_at(p + 2);
    for (unsigned i = 0; i < SUPER; i++) {
        unsigned scale;
        unsigned minimum;
        scale_and_minimum(p + 4, i / 32, &scale, &minimum);
        unsigned fifth = (p[16 + i % 32] >> (i / 32)) & 1U;
        unsigned q = nibble_of_64(p + 48, i) | fifth << 4;
        ret[i] = (float)(d * scale * q - dmin * minimum);
    }
}

/* 128 bytes of low nibbles; 64 bytes of upper pairs; 16 int8 scales; float16 d */
static void q6_k(const unsigned char *p, float *ret)
{
    const unsigned char *pairs = p + 128;
    const unsigned char *scales = p + 192;
    double d = half_at(p + 208);
    for (unsigned i = 0; i < SUPER; i++) {
        unsigned char byte = p[i / 128 * 64 + i % 64];
        unsigned low = i % 128 < 64 ? byte & 15U : (unsigned)(byte >> 4);
        int q = (int)(low | pair_at(pairs, i) << 4) - 32;
        ret[i] = (float)(d * (int8_t)scales[i / 16] * q);
    }
}

/* By the type's number in GGUF files. */
static const struct {
    void (*values)(const unsigned char *p, float *ret);
} readers[] = {
    [2] = {q4_0},
    [3] = {q4_1},
    [6] = {q5_0},
    [7] = {q5_1},
    [8] = {q8_0},
    [10] = {q2_k},
    [11] = {q3_k},
    [12] = {q4_k},
    [13] = {q5_k},
    [14] = {q6_k},
    [16] = {tensor_iq2_xxs},
    [17] = {tensor_iq2_xs},
    [18] = {tensor_iq3_xxs},
    [19] = {tensor_iq1_s},
    [20] = {tensor_iq4_nl},
    [21] = {tensor_iq3_s},
    [22] = {tensor_iq2_s},
    [23] = {tensor_iq4_xs},
    [29] = {tensor_iq1_m},
    [34] = {tensor_tq1_0},
    [35] = {tensor_tq2_0},
    [39] = {tensor_mxfp4},
    [40] = {tensor_nvfp4},
};

/* An exponent; all bits set are NaN. (OCP Microscaling Formats 1.0) */
static void e8m0(const unsigned char *p, float *ret)
{
    ret[0] = *p == 0xff ? NAN : (float)ldexp(1.0, (int)*p - 127);
}

/* Sign, two bits of exponent (bias 1), one of mantissa; no NaN, no infinity. (ibid.) */
static void e2m1(const unsigned char *p, float *ret)
{
    static const float magnitudes[8] = {0, .5F, 1, 1.5F, 2, 3, 4, 6};
    for (unsigned i = 0; i < 2; i++) {
        unsigned q = i == 0 ? *p & 15U : (unsigned)(*p >> 4);
        ret[i] = (q & 8U) != 0 ? -magnitudes[q & 7U] : magnitudes[q & 7U];
    }
}

static const struct {
    void (*values)(const unsigned char *p, float *ret);
} small_readers[TENSOR_SMALL_COUNT] = {
    [TENSOR_SMALL_E8M0] = {e8m0},
    [TENSOR_SMALL_E2M1] = {e2m1},
};

bool tensor_block_readable(const struct tensor_type *t)
{
    if (t->small != TENSOR_SMALL_NONE) {
        return true;
    }
    return t->values == VALUES_BLOCKS && t->ggml >= 0 && (size_t)t->ggml < ARRAY_LEN(readers) &&
           readers[t->ggml].values != NULL;
}

void tensor_block_values(const struct tensor_type *t, const unsigned char *p,
                         float ret_values[TENSOR_BLOCK_MAX])
{
    if (t->small != TENSOR_SMALL_NONE) {
        small_readers[t->small].values(p, ret_values);
        return;
    }
    readers[t->ggml].values(p, ret_values);
}
