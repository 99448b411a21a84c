// SPDX-License-Identifier: Apache-2.0
/*
 * Which matrix products are tried: a numbered list that depends on the options alone, so that item
 * 81,234 of a seed is the same product on every machine and in every run.
 *
 * Items come in groups of one size and one set of values; the items of a group differ in transposes,
 * leading dimensions, alpha and beta, the side of the guard, and the entry point. A group's values
 * and its reference are computed once.
 *
 * Areas: sizes beside multiples of tile sizes (1 ... 129 cubed), adapters of low rank against long
 * and short inner dimensions, operands whose size lies around 2^15, 2^16 and 2^19 bytes and elements,
 * leading dimensions that carry an index past 2^31 bytes and elements (few pages are touched),
 * batches, and empty products.
 *
 * Formats of 8 bits have products of their own (libraries want multiples of 16, A transposed and B not):
 * results in bfloat16, scales of 1, tiny ones, and ones that are no powers of two, B in the same or in the
 * other 8-bit format.
 */
#ifndef ASSAY_OPS_GEMM_PLAN_H
#define ASSAY_OPS_GEMM_PLAN_H

#include "device/gemm.h"
#include "device/guard.h"

enum gemm_values {
    GEMM_VALUES_GRID = 0, /* small integers: products and sums exact in any order, bit for bit */
    GEMM_VALUES_RANDOM,   /* uniform in [-1, 1) */
    GEMM_VALUES_WORST,    /* large terms that cancel */
    GEMM_VALUES_DENORMAL, /* A below the smallest normal number */
    GEMM_VALUES_HUGE,     /* products near the largest number, sums still finite */
    GEMM_VALUES_COUNT
};

const char *gemm_values_name(enum gemm_values values);

enum gemm_level {
    GEMM_LEVEL_QUICK = 0,
    GEMM_LEVEL_FULL
};

/* What C holds before a product with beta = 0: it must not matter. */
enum gemm_poison {
    GEMM_POISON_ONES = 0, /* guard.h's first NaN pattern, 0xffffffff */
    GEMM_POISON_HIGH,     /* its second, 0x7fffffff */
    GEMM_POISON_FINITE,   /* a number: tells a cell that is read from one that is not written */
    GEMM_POISON_COUNT
};

struct gemm_probe {
    struct gemm_shape shape;
    enum gemm_values values;
    enum guard_side side;
    uint32_t choice; /* which of the library's choices: this number modulo their count */
    uint64_t seed;   /* of the values; equal seeds and sizes have equal values */
    enum gemm_poison poison;
    bool plain_padding;   /* padding of A and B holds zeros in place of NaN */
    uint32_t extra_bytes; /* readable bytes between each operand and the hole */
    /* Devices, where a fault tells no operand: only this one (its number and 1) lies at a hole. */
    unsigned only;
    uint32_t choices;     /* devices: how many of the library's are tried; 0 counts as 1 */
    unsigned narrow_sums; /* of the choice that ran (gemm.h): widens the bound */
    const struct gemm_choice *exact; /* devices: this one and no other; NULL: see above */
    /* Devices: the choice whose record begins with this, where the library offers it. */
    bool algorithm_set;
    uint64_t algorithm;
};

/* One product that the user asks for; negative fields are varied by the plan. */
struct gemm_wish {
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* -1: minimum, and a few above */
    int64_t batch;
    int transpose_a, transpose_b; /* 0, 1; -1: both */
    int dtype;                    /* an enum dtype; -1: those of the options */
    bool scalars_set;
    double alpha, beta;
};

struct gemm_plan_options {
    enum gemm_level level;
    uint64_t seed;
    enum dtype dtypes[8]; /* of A and B */
    size_t dtype_count;
    bool wide_output; /* 16-bit and smaller inputs give float32, as CPU libraries do */
    const struct gemm_wish *wishes; /* when there are any, only these are tried */
    size_t wish_count;
    bool sparse_memory; /* the device maps address space without memory behind it (CPU) */
    /* For a GPU's library: so many of its algorithms for each product, sizes around its tiles, operands as
     * aligned as they can be; 0: a CPU's. */
    uint32_t choices;
};

struct gemm_plan;

/* Makes the plan; it lives in `a`. */
struct gemm_plan *gemm_plan_new(struct arena *a, const struct gemm_plan_options *options);
size_t gemm_plan_count(const struct gemm_plan *plan);

/* Item `index`, below the count. */
void gemm_plan_get(const struct gemm_plan *plan, size_t index, struct gemm_probe *ret_probe);

/* Largest sum of bytes of the three operands of an item. */
uint64_t gemm_plan_bytes(const struct gemm_plan *plan);

/* Elements an operand spans, padding of its last column not included; 0 when it is empty. Batch
 * entries included. */
uint64_t gemm_extent_a(const struct gemm_shape *s);
uint64_t gemm_extent_b(const struct gemm_shape *s);
uint64_t gemm_extent_c(const struct gemm_shape *s);

/* Smallest leading dimensions and strides for the sizes and transposes in `s`, plus pads. */
void gemm_shape_pack(struct gemm_shape *s, int64_t pad_a, int64_t pad_b, int64_t pad_c);

/* The largest power of two, at most `most`, that divides the bytes of every operand, and no less than an
 * element: operands that end at a hole can be promised to be so aligned. */
size_t gemm_shape_alignment(const struct gemm_shape *s, size_t most);

/* A file of products, one a line: "M N K [name=value ...]", names transpose (nn, nt, tn, tt), lda,
 * ldb, ldc, batch, alpha, beta, dtype; '#' starts a comment. `memory_bytes`: more than that is
 * refused with the line's number. */
enum status gemm_wishes_read(struct arena *a, const char *path, uint64_t memory_bytes,
                             const struct gemm_wish **ret_wishes, size_t *ret_count,
                             struct err *err) MUST_USE;

/* "m=4 n=16 k=1 lda=5 ldb=17 ldc=4 NT float32 alpha=1 beta=0" */
void gemm_shape_print(struct strbuf *out, const struct gemm_shape *s);

/* Scrambles 64 bits (the finaliser of splitmix64, Steele, Lea, Flood 2014). */
static inline uint64_t gemm_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
