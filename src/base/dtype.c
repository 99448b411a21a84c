// SPDX-License-Identifier: Apache-2.0
/*
 * Every small float is described by its exponent bits, mantissa bits, bias and special values, and
 * one pair of functions converts them all. float32, float16 and the like are not special: exactness
 * matters here more than speed; scanners of whole files have their own loops.
 */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

/* How a small float marks what is not a number. */
enum specials {
    SPECIALS_IEEE, /* top exponent: infinity and NaN */
    SPECIALS_FN,   /* all ones is NaN, no infinity */
    SPECIALS_FNUZ, /* negative zero is NaN, nothing else is special */
};

struct layout {
    unsigned exponent_bits;
    unsigned mantissa_bits;
    int bias;
    enum specials specials;
};

static const struct layout layouts[DTYPE_COUNT] = {
    [DTYPE_F16] = {5, 10, 15, SPECIALS_IEEE},       [DTYPE_BF16] = {8, 7, 127, SPECIALS_IEEE},
    [DTYPE_F8_E4M3FN] = {4, 3, 7, SPECIALS_FN},     [DTYPE_F8_E5M2] = {5, 2, 15, SPECIALS_IEEE},
    [DTYPE_F8_E4M3FNUZ] = {4, 3, 8, SPECIALS_FNUZ}, [DTYPE_F8_E5M2FNUZ] = {5, 2, 16, SPECIALS_FNUZ},
};

static const struct dtype_info infos[DTYPE_COUNT] = {
    [DTYPE_F64] = {"float64", "F64", 8, true, 52, -1022, 0x1.fffffffffffffp1023},
    [DTYPE_F32] = {"float32", "F32", 4, true, 23, -126, 0x1.fffffep127},
    [DTYPE_F16] = {"float16", "F16", 2, true, 10, -14, 65504},
    [DTYPE_BF16] = {"bfloat16", "BF16", 2, true, 7, -126, 0x1.fep127},
    [DTYPE_F8_E4M3FN] = {"float8_e4m3fn", "F8_E4M3", 1, true, 3, -6, 448},
    [DTYPE_F8_E5M2] = {"float8_e5m2", "F8_E5M2", 1, true, 2, -14, 57344},
    [DTYPE_F8_E4M3FNUZ] = {"float8_e4m3fnuz", "F8_E4M3FNUZ", 1, true, 3, -7, 240},
    [DTYPE_F8_E5M2FNUZ] = {"float8_e5m2fnuz", "F8_E5M2FNUZ", 1, true, 2, -15, 57344},
    [DTYPE_I64] = {"int64", "I64", 8, false, 0, 0, 0x1p63},
    [DTYPE_I32] = {"int32", "I32", 4, false, 0, 0, 2147483647.0},
    [DTYPE_I16] = {"int16", "I16", 2, false, 0, 0, 32767},
    [DTYPE_I8] = {"int8", "I8", 1, false, 0, 0, 127},
    [DTYPE_U64] = {"uint64", "U64", 8, false, 0, 0, 0x1p64},
    [DTYPE_U32] = {"uint32", "U32", 4, false, 0, 0, 4294967295.0},
    [DTYPE_U16] = {"uint16", "U16", 2, false, 0, 0, 65535},
    [DTYPE_U8] = {"uint8", "U8", 1, false, 0, 0, 255},
    [DTYPE_BOOL] = {"bool", "BOOL", 1, false, 0, 0, 1},
};

static const struct {
    const char *name;
    enum dtype dtype;
} short_names[] = {
    {"fp64", DTYPE_F64},      {"f64", DTYPE_F64},          {"double", DTYPE_F64},
    {"fp32", DTYPE_F32},      {"f32", DTYPE_F32},          {"float", DTYPE_F32},
    {"fp16", DTYPE_F16},      {"f16", DTYPE_F16},          {"half", DTYPE_F16},
    {"bf16", DTYPE_BF16},     {"long", DTYPE_I64},         {"int", DTYPE_I32},
    {"fp8", DTYPE_F8_E4M3FN}, {"e4m3fn", DTYPE_F8_E4M3FN}, {"fp8_e4m3", DTYPE_F8_E4M3FN},
    {"e5m2", DTYPE_F8_E5M2},  {"fp8_e5m2", DTYPE_F8_E5M2},
};

const struct dtype_info *dtype_info(enum dtype t)
{
    return &infos[t];
}

bool dtype_find(struct str name, enum dtype *ret_dtype)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (str_is(name, infos[t].name) || str_is(name, infos[t].safetensors)) {
            *ret_dtype = (enum dtype)t;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++) {
        if (str_is(name, short_names[i].name)) {
            *ret_dtype = short_names[i].dtype;
            return true;
        }
    }
    return false;
}

/* 2^e for exponents of normal numbers: a product with it is exact, and cheaper than ldexp(). */
static double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double small_get(const struct layout *l, unsigned bits)
{
    unsigned mantissa = bits & ((1u << l->mantissa_bits) - 1);
    unsigned top = (1u << l->exponent_bits) - 1;
    unsigned exponent = (bits >> l->mantissa_bits) & top;
    bool negative = (bits >> (l->mantissa_bits + l->exponent_bits) & 1) != 0;
    double value;
    if (l->specials == SPECIALS_IEEE && exponent == top) {
        value = mantissa == 0 ? (double)INFINITY : (double)NAN;
    } else if (l->specials == SPECIALS_FN && exponent == top &&
               mantissa == (1u << l->mantissa_bits) - 1) {
        value = NAN;
    } else if (l->specials == SPECIALS_FNUZ && negative && exponent == 0 && mantissa == 0) {
        return NAN;
    } else if (exponent == 0) {
        value = mantissa * power_of_two(1 - l->bias - (int)l->mantissa_bits);
    } else {
        value = (mantissa + (1u << l->mantissa_bits)) *
                power_of_two((int)exponent - l->bias - (int)l->mantissa_bits);
    }
    return negative ? -value : value;
}

static unsigned small_nan(const struct layout *l)
{
    unsigned width = l->exponent_bits + l->mantissa_bits;
    switch (l->specials) {
    case SPECIALS_FNUZ: return 1u << width;
    case SPECIALS_FN: return (1u << width) - 1;
    default:
        return ((1u << l->exponent_bits) - 1) << l->mantissa_bits | 1u << (l->mantissa_bits - 1);
    }
}

/* Pattern of the largest finite number, sign cleared: values count up with their patterns. */
static unsigned small_largest(const struct layout *l)
{
    unsigned width = l->exponent_bits + l->mantissa_bits;
    switch (l->specials) {
    case SPECIALS_FNUZ: return (1u << width) - 1;
    case SPECIALS_FN: return (1u << width) - 2;
    default: return (((1u << l->exponent_bits) - 1) << l->mantissa_bits) - 1;
    }
}

static unsigned small_set(const struct layout *l, double value)
{
    if (isnan(value)) {
        return small_nan(l);
    }
    unsigned sign = signbit(value) ? 1u << (l->exponent_bits + l->mantissa_bits) : 0;
    double size = fabs(value);
    unsigned largest = small_largest(l);
    unsigned bits = largest + 1;
    if (isfinite(size)) {
        int exponent = 0;
        (void)frexp(size, &exponent); /* size = f * 2^exponent, f in [0.5, 1) */
        int lowest = 1 - l->bias;
        int scale = size == 0 || exponent - 1 < lowest ? lowest : exponent - 1;
        /* In units of the last place; exact, then rounded to even by nearbyint. */
        double units = nearbyint(ldexp(size, (int)l->mantissa_bits - scale));
        double hidden = ldexp(1.0, (int)l->mantissa_bits);
        double pattern = (double)(scale - lowest) * hidden + units;
        if (pattern <= largest) {
            bits = (unsigned)pattern;
        }
    }
    if (bits > largest) {
        return l->specials == SPECIALS_IEEE ? sign | (largest + 1) : small_nan(l);
    }
    return l->specials == SPECIALS_FNUZ && bits == 0 ? 0 : sign | bits;
}

/* Truncates towards zero and saturates; NaN gives 0. */
static uint64_t to_unsigned(double value, unsigned width)
{
    double top = ldexp(1.0, (int)width);
    if (!(value > 0)) {
        return 0;
    }
    return value >= top ? (width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1) : (uint64_t)value;
}

static int64_t to_signed(double value, unsigned width)
{
    double top = ldexp(1.0, (int)width - 1);
    int64_t largest = width == 64 ? INT64_MAX : (INT64_C(1) << (width - 1)) - 1;
    if (isnan(value)) {
        return 0;
    }
    return value >= top ? largest : value < -top ? -largest - 1 : (int64_t)value;
}

static uint64_t load(const void *p, unsigned size)
{
    uint64_t bits = 0;
    memcpy(&bits, p, size); /* little-endian hosts only, as everywhere in the project */
    return bits;
}

double dtype_get(enum dtype t, const void *p)
{
    uint64_t bits = load(p, infos[t].size);
    float f;
    double d;
    switch (t) {
    case DTYPE_F64: memcpy(&d, p, sizeof d); return d;
    case DTYPE_F32: memcpy(&f, p, sizeof f); return (double)f;
    case DTYPE_BF16: { /* the upper half of a float32 */
        uint32_t wide = (uint32_t)bits << 16;
        memcpy(&f, &wide, sizeof f);
        return (double)f;
    }
    case DTYPE_I64: return (double)(int64_t)bits;
    case DTYPE_I32: return (double)(int32_t)(uint32_t)bits;
    case DTYPE_I16: return (double)(int16_t)(uint16_t)bits;
    case DTYPE_I8: return (double)(int8_t)(uint8_t)bits;
    case DTYPE_U64:
    case DTYPE_U32:
    case DTYPE_U16:
    case DTYPE_U8: return (double)bits;
    case DTYPE_BOOL: return bits != 0 ? 1.0 : 0.0;
    default: return small_get(&layouts[t], (unsigned)bits);
    }
}

void dtype_set(enum dtype t, void *p, double value)
{
    uint64_t bits;
    float f;
    unsigned width = infos[t].size * 8;
    switch (t) {
    case DTYPE_F64: memcpy(p, &value, sizeof value); return;
    case DTYPE_F32:
        f = (float)value;
        memcpy(p, &f, sizeof f);
        return;
    case DTYPE_I64:
    case DTYPE_I32:
    case DTYPE_I16:
    case DTYPE_I8: bits = (uint64_t)to_signed(value, width); break;
    case DTYPE_U64:
    case DTYPE_U32:
    case DTYPE_U16:
    case DTYPE_U8: bits = to_unsigned(value, width); break;
    case DTYPE_BOOL: bits = value != 0; break;
    default: bits = small_set(&layouts[t], value); break;
    }
    memcpy(p, &bits, infos[t].size);
}

/* The types of most tensors in loops of their own. */
static void floats_to_double(const char *p, size_t count, double *to)
{
    for (size_t i = 0; i < count; i++) {
        float f;
        memcpy(&f, p + 4 * i, sizeof f);
        to[i] = (double)f;
    }
}

static void bfloats_to_double(const char *p, size_t count, double *to)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        float f;
        memcpy(&half, p + 2 * i, sizeof half);
        uint32_t wide = (uint32_t)half << 16;
        memcpy(&f, &wide, sizeof f);
        to[i] = (double)f;
    }
}

void dtype_to_double(enum dtype t, const void *from, size_t count, double *to)
{
    const char *p = from;
    if (t == DTYPE_F32) {
        floats_to_double(p, count, to);
        return;
    }
    if (t == DTYPE_BF16) {
        bfloats_to_double(p, count, to);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        to[i] = dtype_get(t, p + i * infos[t].size);
    }
}

void dtype_from_double(enum dtype t, const double *from, size_t count, void *to)
{
    char *p = to;
    for (size_t i = 0; i < count; i++) {
        dtype_set(t, p + i * infos[t].size, from[i]);
    }
}

double dtype_round(enum dtype t, double value)
{
    uint64_t slot = 0;
    dtype_set(t, &slot, value);
    return dtype_get(t, &slot);
}

double dtype_unit_roundoff(enum dtype t)
{
    return infos[t].is_float ? ldexp(1.0, -(int)infos[t].mantissa_bits - 1) : 0.0;
}
