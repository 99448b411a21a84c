// SPDX-License-Identifier: Apache-2.0
/*
 * Shapes; see line_shape.h. First all bytes are sorted into bit sets, 64 at a time and without a
 * branch; then hexadecimal numbers are looked for where a letter stands beside a digit.
 */
#include "diagnosis/line_shape.h"

#include <string.h>

#if defined(__x86_64__)
# include <immintrin.h>
# define AVX2 __attribute__((target("avx2")))
#endif

enum {
    WORD = 64,
    BLOCK = 32,
    FRONT = 32, /* bytes in front of the text */
    LANES = 4,
    SHORT = 4 * BLOCK
};

struct shapes *shapes_new(struct arena *a, size_t capacity)
{
    size_t words = capacity / WORD + 3;
    struct shapes *s = arena_alloc(a, sizeof *s);
    char *text = arena_alloc(a, FRONT + capacity + WORD + SHAPE_MARGIN);
    memset(text, '\n', FRONT);
    s->text = text + FRONT;
    s->ends = arena_array(a, words, sizeof *s->ends);
    s->digits = arena_array(a, words, sizeof *s->digits);
    s->letters = arena_array(a, words, sizeof *s->letters);
    s->hex = arena_array(a, words, sizeof *s->hex);
    return s;
}

/* In a shape: '0' is any digit. */
static bool is_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0' || c == '_';
}

static uint64_t hex_digits(const struct shapes *s, size_t word)
{
    return s->digits[word] | s->letters[word];
}

/* The first byte from `at` on that is no hexadecimal digit. Behind the text there is one. */
static size_t run_end(const struct shapes *s, size_t at)
{
    uint64_t other = ~hex_digits(s, at / WORD) & ~0ull << at % WORD;
    size_t word = at / WORD;
    while (other == 0) {
        other = ~hex_digits(s, ++word);
    }
    return word * WORD + (size_t)__builtin_ctzll(other);
}

/* The first byte of the run of hexadecimal digits that holds `at`. */
static size_t run_begin(const struct shapes *s, size_t at)
{
    size_t word = at / WORD;
    uint64_t other = ~hex_digits(s, word) & ~(~0ull << at % WORD);
    while (other == 0) {
        if (word == 0) {
            return 0;
        }
        other = ~hex_digits(s, --word);
    }
    return (word + 1) * WORD - (size_t)__builtin_clzll(other);
}

/* Up to 64 bits of a set from `at` on. */
static uint64_t bits_at(const uint64_t *set, size_t at, size_t n)
{
    size_t shift = at % WORD;
    uint64_t v = set[at / WORD] >> shift;
    v |= shift != 0 ? set[at / WORD + 1] << (WORD - shift) : 0;
    return n < WORD ? v & ~(~0ull << n) : v;
}

/* SHAPE_HEX_MIN to SHAPE_HEX_MAX '1's, in stores that may overlap: most numbers are short. */
static inline void fill_ones(char *p, size_t n)
{
    const uint64_t ones = 0x3131313131313131u;
    if (n < sizeof ones) {
        memcpy(p, &ones, 4);
        memcpy(p + n - 4, &ones, 4);
        return;
    }
    for (size_t i = 0; i + sizeof ones < n; i += sizeof ones) {
        memcpy(p + i, &ones, sizeof ones);
    }
    memcpy(p + n - sizeof ones, &ones, sizeof ones);
}

/* The run of hexadecimal digits [from, to): '1's when it is a number of its own. */
static void take_run(struct shapes *s, size_t from, size_t to)
{
    size_t n = to - from;
    unsigned char before = from != 0 ? (unsigned char)s->text[from - 1] : '\n';
    if (n < SHAPE_HEX_MIN || n > SHAPE_HEX_MAX || is_word((unsigned char)s->text[to]) ||
        (is_word(before) && before != 'x')) {
        return;
    }
    uint64_t letters = bits_at(s->letters, from, n);
    if ((letters & (letters - 1)) == 0 && letters != 1 &&
        s->text[from + (size_t)__builtin_ctzll(letters)] == 'e') {
        return; /* an exponent */
    }
    fill_ones(s->text + from, n);
    size_t shift = from % WORD;
    uint64_t bits = ~0ull >> (WORD - n);
    s->hex[from / WORD] |= bits << shift;
    s->hex[from / WORD + 1] |= shift != 0 ? bits >> (WORD - shift) : 0;
}

/* Where a letter stands beside a digit, there may be a hexadecimal number. */
static void take_hex(struct shapes *s)
{
    size_t words = s->n / WORD + 1;
    memset(s->hex, 0, (words + 1) * sizeof *s->hex);
    size_t done = 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t d = s->digits[i];
        uint64_t l = s->letters[i];
        uint64_t mixed = (d & (l >> 1 | s->letters[i + 1] << 63)) |
                         (l & (d >> 1 | s->digits[i + 1] << 63));
        if (done > i * WORD) { /* a run that began in the word before */
            mixed &= done < (i + 1) * WORD ? ~0ull << done % WORD : 0;
        }
        while (mixed != 0) {
            size_t at = i * WORD + (size_t)__builtin_ctzll(mixed);
            done = run_end(s, at);
            take_run(s, run_begin(s, at), done);
            mixed &= done < (i + 1) * WORD ? ~0ull << done % WORD : 0;
        }
    }
}

/* Ends the text and the sets at n. */
static void close_text(struct shapes *s, size_t n)
{
    size_t word = n / WORD;
    uint64_t below = ~(~0ull << n % WORD);
    s->n = n;
    memset(s->text + n, '\n', SHAPE_MARGIN);
    s->ends[word] = (s->ends[word] & below) | 1ull << n % WORD;
    s->digits[word] &= below;
    s->letters[word] &= below;
    s->digits[word + 1] = 0;
    s->letters[word + 1] = 0;
}

void shapes_take_plain(struct shapes *s, const char *p, size_t n)
{
    for (size_t i = 0; i <= n / WORD; i++) {
        s->ends[i] = 0;
        s->digits[i] = 0;
        s->letters[i] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = 1ull << i % WORD;
        bool end = p[i] == '\n' || p[i] == '\r';
        bool digit = p[i] >= '0' && p[i] <= '9';
        bool letter = p[i] >= 'a' && p[i] <= 'f' && !(p[i] == 'e' && i + 1 < n && p[i + 1] == '-');
        s->ends[i / WORD] |= end ? bit : 0;
        s->digits[i / WORD] |= digit ? bit : 0;
        s->letters[i / WORD] |= letter ? bit : 0;
        s->text[i] = end ? '\n' : digit ? '0' : p[i];
    }
    close_text(s, n);
    take_hex(s);
}

#if defined(__x86_64__)
AVX2 static inline uint64_t lanes(__m256i v)
{
    return (uint32_t)_mm256_movemask_epi8(v);
}

/* Lanes of the bytes from `low` to `low` + span. */
AVX2 static inline __m256i in_range(__m256i v, char low, char span)
{
    __m256i above = _mm256_sub_epi8(v, _mm256_set1_epi8(low));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(above, _mm256_set1_epi8(span)), above);
}

/* 32 bytes into the sets at `shift` of the word. */
AVX2 static inline void take_block(struct shapes *s, const char *p, size_t at, int shift)
{
    const __m256i newline = _mm256_set1_epi8('\n');
    __m256i v = _mm256_loadu_si256((const __m256i *)(p + at));
    __m256i next = _mm256_loadu_si256((const __m256i *)(p + at + 1));
    __m256i end = _mm256_or_si256(_mm256_cmpeq_epi8(v, newline),
                                  _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\r')));
    __m256i digit = in_range(v, '0', 9);
    __m256i exponent = _mm256_and_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('e')),
                                        _mm256_cmpeq_epi8(next, _mm256_set1_epi8('-')));
    __m256i letter = _mm256_andnot_si256(exponent, in_range(v, 'a', 5));
    v = _mm256_blendv_epi8(v, newline, end);
    v = _mm256_blendv_epi8(v, _mm256_set1_epi8('0'), digit);
    _mm256_storeu_si256((__m256i *)(s->text + at), v);
    s->ends[at / WORD] |= lanes(end) << shift;
    s->digits[at / WORD] |= lanes(digit) << shift;
    s->letters[at / WORD] |= lanes(letter) << shift;
}

AVX2 static void sort_avx2(struct shapes *s, const char *p, size_t n)
{
    for (size_t at = 0; at <= n; at += WORD) {
        s->ends[at / WORD] = 0;
        s->digits[at / WORD] = 0;
        s->letters[at / WORD] = 0;
        take_block(s, p, at, 0);
        take_block(s, p, at + BLOCK, BLOCK);
    }
}
#endif

void shapes_take(struct shapes *s, const char *p, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        sort_avx2(s, p, n);
        if (n != 0 && p[n - 1] == 'e') { /* what stands behind is not of the text */
            s->letters[(n - 1) / WORD] |= 1ull << (n - 1) % WORD;
        }
        close_text(s, n);
        take_hex(s);
        return;
    }
#endif
    shapes_take_plain(s, p, n);
}

bool shapes_have_hex(const struct shapes *s, size_t at, size_t n)
{
    uint64_t any = 0;
    for (size_t i = 0; i < n; i += WORD) {
        any |= bits_at(s->hex, at + i, n - i);
    }
    return any != 0;
}

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
AVX2 static inline __m256i add_block(__m256i sum, __m256i v, __m256i key)
{
    __m256i keyed = _mm256_xor_si256(v, key);
    __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
    return _mm256_add_epi64(_mm256_add_epi64(sum, product), _mm256_shuffle_epi32(v, 0x4e));
}

AVX2 static inline __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* SHORT bytes at a time, whatever the length: branches that go either way cost more. */
AVX2 static inline uint64_t hash_avx2(const char *shape, size_t n)
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

uint64_t shape_hash(const char *shape, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return hash_avx2(shape, n);
    }
#endif
    return hash_plain(shape, n);
}

/* shapes_lines() around one of the hashes, which the compiler puts in. */
static inline __attribute__((always_inline)) size_t cut_lines(const struct shapes *s, size_t *at,
                                                              struct shape_line *lines, size_t max,
                                                              uint64_t (*hash)(const char *shape,
                                                                               size_t n))
{
    size_t count = 0;
    size_t from = *at;
    size_t word = from / WORD;
    uint64_t ends = from < s->n ? s->ends[word] & ~0ull << from % WORD : 0;
    while (from < s->n && count < max) {
        while (ends == 0) { /* behind the text there is one */
            ends = s->ends[++word];
        }
        size_t end = word * WORD + (size_t)__builtin_ctzll(ends);
        ends &= ends - 1;
        struct shape_line *line = &lines[count++];
        line->at = (uint32_t)from;
        line->n = (uint32_t)(end - from);
        line->hash = line->n != 0 && line->n <= SHAPE_MAX ? hash(s->text + from, line->n) : 0;
        from = end + 1;
    }
    *at = from;
    return count;
}

#if defined(__x86_64__)
AVX2 static size_t lines_avx2(const struct shapes *s, size_t *at, struct shape_line *lines,
                              size_t max)
{
    return cut_lines(s, at, lines, max, hash_avx2);
}
#endif

size_t shapes_lines(const struct shapes *s, size_t *at, struct shape_line *lines, size_t max)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return lines_avx2(s, at, lines, max);
    }
#endif
    return cut_lines(s, at, lines, max, hash_plain);
}
