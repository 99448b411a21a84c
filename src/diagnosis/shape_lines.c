// SPDX-License-Identifier: Apache-2.0
/*
 * Cuts a text of shapes into lines and makes the numbers they are found by; see line_shape.h. Lines are of all
 * lengths: whatever depends on the length by a branch waits for it, so there are few such branches.
 */
#include <assert.h>
#include <string.h>

#include "diagnosis/line_shape.h"
#include "diagnosis/wide_bytes.h"

enum {
    BLOCK = 32,
    LANES = 4,
    SHORT = 4 * BLOCK
};

#define MIX_0 0x165667b19e3779f9u
#define MIX_1 0x85ebca77c2b2ae63u
#define MIX_2 0x27d4eb2f165667c5u
#define MIX_3 0x9fb21c651e98df25u

static inline uint64_t finish(const uint64_t lane[LANES], size_t n)
{
    uint64_t h = lane[0] * MIX_0 + lane[1] * MIX_1 + (lane[2] ^ lane[0] >> 32) * MIX_2 +
                 (lane[3] ^ lane[1] >> 32) * MIX_3 + n;
    h = (h ^ h >> 31) * MIX_0;
    return h ^ h >> 29;
}

#if defined(__x86_64__)
# define KEY_FIRST 0x9e3779b185ebca87u
# define KEY_STEP  0xc2b2ae3d27d4eb4fu

# define ROW 255, 255, 255, 255, 255, 255, 255, 255
/* Loaded at SHORT - k, the first k of SHORT bytes are set. */
static const unsigned char keep_first[2 * SHORT] = {ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW,
                                                    ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW};

/* XXH3's accumulation (github.com/Cyan4973/xxHash): per 8 bytes the product of the two keyed halves,
 * and the 8 bytes to the neighbour. */
TARGET_AVX2 static inline __m256i add_block(__m256i sum, __m256i v, __m256i key)
{
    __m256i keyed = _mm256_xor_si256(v, key);
    __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
    return _mm256_add_epi64(_mm256_add_epi64(sum, product), _mm256_shuffle_epi32(v, 0x4e));
}

TARGET_AVX2 static inline __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* SHORT bytes at a time, whatever the length: branches that go either way cost more. */
TARGET_AVX2 static inline uint64_t hash_avx2(const char *shape, size_t n)
{
    const __m256i step = _mm256_set1_epi64x((long long)KEY_STEP);
    __m256i key = _mm256_set1_epi64x((long long)KEY_FIRST);
    __m256i sum = _mm256_setzero_si256();
    for (size_t at = 0; at <= n; at += SHORT) {
        size_t left = n - at < SHORT ? n - at : SHORT;
        const unsigned char *keep = keep_first + SHORT - left;
        for (size_t i = 0; i < SHORT; i += BLOCK) {
            __m256i v = _mm256_and_si256(load(shape + at + i), load(keep + i));
            sum = add_block(sum, v, key);
            key = _mm256_add_epi64(key, step);
        }
    }
    uint64_t lane[LANES];
    _mm256_storeu_si256((__m256i *)lane, sum);
    return finish(lane, n);
}

/* The first numbers of splitmix64 from 0 (prng.di.unimi.it/splitmix64.c). */
alignas(64) static const uint64_t wide_keys[4 * 8] = {
    0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu, 0xf88bb8a8724c81ecu,
    0x1b39896a51a8749bu, 0x53cb9f0c747ea2eau, 0x2c829abe1f4532e1u, 0xc584133ac916ab3cu,
    0x3ee5789041c98ac3u, 0xf3b8488c368cb0a6u, 0x657eecdd3cb13d09u, 0xc2d326e0055bdef6u,
    0x8621a03fe0bbdb7bu, 0x8e1f7555983aa92fu, 0xb54e0f1600cc4d19u, 0x84bb3f97971d80abu,
    0x7d29825c75521255u, 0xc3cf17102b7f7f86u, 0x3466e9a083914f64u, 0xd81a8d2b5a4485acu,
    0xdb01602b100b9ed7u, 0xa9038a921825f10du, 0xedf5f1d90dca2f6au, 0x54496ad67bd2634cu,
    0xdd7c01d4f5407269u, 0x935e82f1db4c4f7bu, 0x69b82ebc92233300u, 0x40d29eb57de1d510u,
    0xa2f09dabb45c6316u, 0xee521d7a0f4d3872u, 0xf16952ee72f3454fu, 0x377d35dea8e40225u,
};

/* The products of the keyed halves of 16 bytes each. */
TARGET_AVX512 static inline __m512i products_wide(const char *p, unsigned char at, __m512i count)
{
    __m512i keyed = _mm512_xor_si512(wide_first(p, at, count),
                                     _mm512_load_si512(wide_keys + at / sizeof *wide_keys));
    return _mm512_clmulepi64_epi128(keyed, keyed, 0x10);
}

/* Up to WIDE_MAX bytes: the sum of carry-less products, of which two texts have the same by the chance of 2^-64 (NH;
 * D. Lemire and O. Kaser, Faster 64-bit universal hashing using carry-less multiplications, 2015). */
TARGET_AVX512 static inline __m128i sum_wide(const char *p, size_t n)
{
    const __m512i count = _mm512_set1_epi8((char)n);
    __m512i a = _mm512_xor_si512(products_wide(p, 0, count), products_wide(p, 64, count));
    __m512i b = _mm512_xor_si512(products_wide(p, 128, count), products_wide(p, 192, count));
    a = _mm512_xor_si512(a, b);
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Rounds of AES mix the sum. */
TARGET_AVX512 static inline uint64_t hash_avx512(const char *shape, size_t n)
{
    const __m128i key = _mm_set_epi64x((long long)KEY_FIRST, (long long)KEY_STEP);
    __m128i sum = sum_wide(shape, n <= WIDE_MAX ? n : WIDE_MAX);
    if (__builtin_expect(n > WIDE_MAX, false)) {
        sum = _mm_aesenc_si128(sum, sum_wide(shape + WIDE_MAX, n - WIDE_MAX));
    }
    sum = _mm_aesenc_si128(sum, _mm_cvtsi64_si128((long long)n));
    return (uint64_t)_mm_cvtsi128_si64(_mm_aesenc_si128(_mm_aesenc_si128(sum, key), sum));
}

static_assert(SHAPE_MAX <= 2 * WIDE_MAX, "all bytes count");
#endif

static uint64_t hash_plain(const char *shape, size_t n)
{
    uint64_t lane[LANES] = {0};
    for (size_t at = 0; at < n; at += sizeof lane[0]) {
        uint64_t v = 0;
        memcpy(&v, shape + at, n - at < sizeof v ? n - at : sizeof v);
        size_t i = at / sizeof v % LANES;
        lane[i] = (lane[i] ^ v) * MIX_1;
        lane[i] ^= lane[i] >> 32;
    }
    return finish(lane, n);
}

uint64_t shape_hash(enum simd simd, const char *shape, size_t n)
{
#if defined(__x86_64__)
    if (simd == SIMD_AVX512) {
        return hash_avx512(shape, n);
    }
    if (simd == SIMD_AVX2) {
        return hash_avx2(shape, n);
    }
#endif
    (void)simd;
    return hash_plain(shape, n);
}

typedef uint64_t hash_line(const char *shape, size_t n);

/* The number of the first end from byte `at` on: mostly the one that comes next. */
static size_t end_from(const struct shapes *s, size_t at)
{
    size_t i = s->next_end;
    while (i != 0 && s->ends[i - 1] >= at) {
        i--;
    }
    while (s->ends[i] < at) {
        i++;
    }
    return i;
}

/* shapes_lines() around one of the hashes, which the compiler puts in. */
static inline __attribute__((always_inline)) size_t cut_lines(struct shapes *s, size_t *at,
                                                              struct shape_line *lines, size_t max,
                                                              bool empty, hash_line *hash)
{
    const char *text = s->text;
    size_t count = 0;
    size_t from = *at;
    if (from >= s->n) {
        return 0;
    }
    const uint32_t *ends = s->ends + end_from(s, from);
    while (from < s->n && count < max) {
        struct shape_line *line = &lines[count]; /* the next one's, when this one is left out */
        size_t end = *ends++;
        line->at = (uint32_t)from;
        line->n = (uint32_t)(end - from);
        count += empty | (line->n != 0);
        line->hash = line->n <= SHAPE_MAX ? hash(text + from, line->n) : 0;
        from = end + 1;
    }
    s->next_end = (size_t)(ends - s->ends);
    *at = from;
    return count;
}

#if defined(__x86_64__)
TARGET_AVX2 static size_t lines_avx2(struct shapes *s, size_t *at, struct shape_line *lines,
                                     size_t max, bool empty)
{
    return cut_lines(s, at, lines, max, empty, hash_avx2);
}

TARGET_AVX512 static size_t lines_avx512(struct shapes *s, size_t *at, struct shape_line *lines,
                                         size_t max, bool empty)
{
    return cut_lines(s, at, lines, max, empty, hash_avx512);
}
#endif

size_t shapes_lines(struct shapes *s, size_t *at, struct shape_line *lines, size_t max, bool empty)
{
#if defined(__x86_64__)
    if (s->simd == SIMD_AVX512) {
        return lines_avx512(s, at, lines, max, empty);
    }
    if (s->simd == SIMD_AVX2) {
        return lines_avx2(s, at, lines, max, empty);
    }
#endif
    return cut_lines(s, at, lines, max, empty, hash_plain);
}
