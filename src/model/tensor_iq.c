// SPDX-License-Identifier: Apache-2.0
/*
 * One function a type. Every product is exact in double (a float16 or a power of two, a scale of at most five
 * bits, a value of at most eight), so that the one rounding is that to float32.
 */
#include <math.h>

#include "base/bytes.h"
#include "base/dtype.h"

#include "model/tensor_grid.h"

enum {
    SUPER = 256,
    ROW = 32, /* elements that share a scale in most types */
    BITS_OF_SIGN = 7
};

static const int8_t magnitudes2[4] = {8, 25, 43, 0}; /* the fourth is in no entry */
static const int8_t magnitudes3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const int8_t magnitudes3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};
static const int8_t curve4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
/* Four-bit floats with two bits of exponent, doubled. */
static const int8_t twice_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static double half_at(const unsigned char *p)
{
    return dtype_get(DTYPE_F16, p);
}

static unsigned low_or_high(unsigned char byte, unsigned high)
{
    return high != 0 ? byte >> 4 : byte & 15U;
}

/* Eight signs out of seven bits: their number of minuses is even. */
static unsigned signs_of(unsigned bits)
{
    bits &= (1U << BITS_OF_SIGN) - 1;
    return bits | ((unsigned)__builtin_parity(bits) << BITS_OF_SIGN);
}

static double signed_by(int magnitude, unsigned signs, unsigned i)
{
    return (signs >> i & 1U) != 0 ? -magnitude : magnitude;
}

/* Eight values of one entry. */
static void eight(double scale, unsigned entry, unsigned signs, float *ret)
{
    for (unsigned i = 0; i < 8; i++) {
        ret[i] = (float)(scale * signed_by(magnitudes2[entry >> (2 * i) & 3U], signs, i));
    }
}

/* Eight values of two entries of four. */
static void two_fours(double scale, const int8_t magnitudes[8], unsigned low, unsigned high,
                      unsigned signs, float *ret)
{
    unsigned entries = low | high << 16;
    for (unsigned i = 0; i < 8; i++) {
        ret[i] = (float)(scale * signed_by(magnitudes[entries >> (4 * i) & 7U], signs, i));
    }
}

/* Eight of -1, 0, 1, all moved by an eighth. */
static void eight_ternary(double scale, unsigned entry, double delta, float *ret)
{
    for (unsigned i = 0; i < 8; i++) {
        ret[i] = (float)(scale * ((int)(entry >> (2 * i) & 3U) - 1 + delta));
    }
}

/* float16 d; of each 32: four bytes of entries, four of 7-bit signs with a 4-bit scale above them */
void tensor_iq2_xxs(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned row = 0; row < SUPER / ROW; row++) {
        const unsigned char *q = p + 2 + row * 8;
        uint32_t word = bytes_le32((const char *)q + 4);
        double scale = d * (0.5 + (word >> 28)) * 0.25;
        for (unsigned k = 0; k < 4; k++) {
            eight(scale, tensor_grid_iq2_xxs[q[k]], signs_of(word >> (BITS_OF_SIGN * k)),
                  ret + row * ROW + k * 8);
        }
    }
}

/* float16 d; 32 words of a 9-bit entry and 7-bit signs; 8 bytes of two 4-bit scales, one for each 16 */
void tensor_iq2_xs(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned k = 0; k < SUPER / 8; k++) {
        unsigned word = bytes_le16((const char *)p + 2 + (size_t)k * 2);
        double scale = d * (0.5 + low_or_high(p[66 + k / 4], k / 2 % 2)) * 0.25;
        eight(scale, tensor_grid_iq2_xs[word & 511U], signs_of(word >> 9), ret + (size_t)k * 8);
    }
}

/* float16 d; 32 bytes of entries; 32 of signs; 8 of the entries' upper pairs of bits; 8 of scales */
void tensor_iq2_s(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned k = 0; k < SUPER / 8; k++) {
        unsigned entry = p[2 + k] | (p[66 + k / 4] >> (2 * (k % 4)) & 3U) << 8;
        double scale = d * (0.5 + low_or_high(p[74 + k / 4], k / 2 % 2)) * 0.25;
        eight(scale, tensor_grid_iq2_s[entry], p[34 + k], ret + (size_t)k * 8);
    }
}

/* float16 d; 64 bytes of entries; of each 32 a word as in IQ2_XXS */
void tensor_iq3_xxs(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned k = 0; k < SUPER / 8; k++) {
        uint32_t word = bytes_le32((const char *)p + 66 + (size_t)(k / 4) * 4);
        const unsigned char *q = p + 2 + (size_t)k * 2;
        two_fours(d * (0.5 + (word >> 28)) * 0.5, magnitudes3_xxs, tensor_grid_iq3_xxs[q[0]],
                  tensor_grid_iq3_xxs[q[1]], signs_of(word >> (BITS_OF_SIGN * (k % 4))),
                  ret + (size_t)k * 8);
    }
}

/* float16 d; 64 bytes of entries; 8 of their ninth bits; 32 of signs; 4 of two 4-bit scales for 32 each */
void tensor_iq3_s(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned k = 0; k < SUPER / 8; k++) {
        const unsigned char *q = p + 2 + (size_t)k * 2;
        unsigned ninths = p[66 + k / 4] >> (2 * (k % 4));
        double scale = d * (1 + 2 * (int)low_or_high(p[106 + k / 8], k / 4 % 2));
        two_fours(scale, magnitudes3_s, tensor_grid_iq3_s[q[0] | (ninths & 1U) << 8],
                  tensor_grid_iq3_s[q[1] | (ninths >> 1 & 1U) << 8], p[74 + k],
                  ret + (size_t)k * 8);
    }
}

/* float16 d; 32 bytes of entries; of each 32 a word of four upper 3 bits, a 3-bit scale and the delta's sign */
void tensor_iq1_s(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    for (unsigned k = 0; k < SUPER / 8; k++) {
        unsigned word = bytes_le16((const char *)p + 34 + (size_t)(k / 4) * 2);
        unsigned entry = p[2 + k] | (word >> (3 * (k % 4)) & 7U) << 8;
        double scale = d * (2 * (int)(word >> 12 & 7U) + 1);
        eight_ternary(scale, tensor_grid_iq1[entry], (word & 0x8000U) != 0 ? -0.125 : 0.125,
                      ret + (size_t)k * 8);
    }
}

/* 32 bytes of entries; 16 of two upper 3 bits and the delta's sign; 4 words, each four 3-bit scales for 16
 * elements and above them 4 bits of the float16 d */
void tensor_iq1_m(const unsigned char *p, float *ret)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < 4; i++) {
        bits |= (bytes_le16((const char *)p + 48 + (size_t)i * 2) & 0xF000U) >> (12 - 4 * i);
    }
    unsigned char half[2] = {(unsigned char)bits, (unsigned char)(bits >> 8)};
    double d = half_at(half);
    for (unsigned k = 0; k < SUPER / 8; k++) {
        unsigned word = bytes_le16((const char *)p + 48 + (size_t)(k / 8) * 2);
        unsigned upper = low_or_high(p[32 + k / 2], k % 2);
        double scale = d * (2 * (int)(word >> (3 * (k / 2 % 4)) & 7U) + 1);
        eight_ternary(scale, tensor_grid_iq1[p[k] | (upper & 7U) << 8],
                      (upper & 8U) != 0 ? -0.125 : 0.125, ret + (size_t)k * 8);
    }
}

/* 16 bytes of nibbles, the low ones first, through a table of 16 values. */
static void nibbles(const unsigned char *p, double scale, const int8_t table[16], unsigned bytes,
                    float *ret)
{
    for (unsigned i = 0; i < 2 * bytes; i++) {
        ret[i] = (float)(scale * table[low_or_high(p[i % bytes], i / bytes)]);
    }
}

/* float16 d; 16 bytes */
void tensor_iq4_nl(const unsigned char *p, float *ret)
{
    nibbles(p + 2, half_at(p), curve4, 16, ret);
}

/* float16 d; a word of eight upper 2 bits, 4 bytes of eight lower 4 bits of the scales; 128 bytes */
void tensor_iq4_xs(const unsigned char *p, float *ret)
{
    double d = half_at(p);
    unsigned upper = bytes_le16((const char *)p + 2);
    for (unsigned row = 0; row < SUPER / ROW; row++) {
        unsigned s = low_or_high(p[4 + row / 2], row % 2) | (upper >> (2 * row) & 3U) << 4;
        nibbles(p + 8 + (size_t)row * 16, d * ((int)s - 32), curve4, 16, ret + (size_t)row * ROW);
    }
}

/* The digit `k` in base 3 of a byte that holds five as a fraction of 256. */
static int trit(unsigned char byte, unsigned k)
{
    static const unsigned char powers[5] = {1, 3, 9, 27, 81};
    unsigned char shifted = (unsigned char)(byte * powers[k]);
    return (shifted * 3 >> 8) - 1;
}

/* 48 bytes of five digits: 32 at a time, then 16; 4 bytes of four digits; float16 d */
void tensor_tq1_0(const unsigned char *p, float *ret)
{
    double d = half_at(p + 52);
    for (unsigned i = 0; i < 160; i++) {
        ret[i] = (float)(d * trit(p[i % 32], i / 32));
    }
    for (unsigned i = 0; i < 80; i++) {
        ret[160 + i] = (float)(d * trit(p[32 + i % 16], i / 16));
    }
    for (unsigned i = 0; i < 16; i++) {
        ret[240 + i] = (float)(d * trit(p[48 + i % 4], i / 4));
    }
}

/* 64 bytes of pairs, 32 bytes for 128 elements; float16 d */
void tensor_tq2_0(const unsigned char *p, float *ret)
{
    double d = half_at(p + 64);
    for (unsigned i = 0; i < SUPER; i++) {
        int pair = p[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        ret[i] = (float)(d * (pair - 1));
    }
}

/* A byte of exponent (halved, as the values are doubled); 16 bytes */
void tensor_mxfp4(const unsigned char *p, float *ret)
{
    nibbles(p + 1, ldexp(1, p[0] - 128), twice_e2m1, 16, ret);
}

/* Four scales of four bits of exponent and three of mantissa, without sign; 8 bytes for each 16 */
void tensor_nvfp4(const unsigned char *p, float *ret)
{
    for (unsigned k = 0; k < 4; k++) {
        unsigned exponent = p[k] >> 3 & 15U;
        unsigned mantissa = p[k] & 7U;
        double scale = exponent == 0 ? ldexp(mantissa, -9)
                                     : ldexp(8 + mantissa, (int)exponent - 10);
        scale = p[k] == 0x7F ? 0 : scale / 2;
        nibbles(p + 4 + (size_t)k * 8, scale, twice_e2m1, 8, ret + (size_t)k * 16);
    }
}
