// SPDX-License-Identifier: Apache-2.0
/*
 * Shapes; see line_shape.h. First all bytes are sorted into bit sets, 64 at a time and without a
 * branch; then hexadecimal numbers are looked for where a letter stands beside a digit.
 */
#include "diagnosis/line_shape.h"

#include <string.h>

#include "diagnosis/wide_bytes.h"

enum {
    WORD = 64,
    BLOCK = 32,
    FRONT = 64,       /* bytes in front of the text */
    AT_ONCE = 8,      /* words */
    ENDS_AT_ONCE = 16 /* of a word */
};

struct shapes *shapes_new(struct arena *a, size_t capacity, enum simd simd)
{
    size_t words = capacity / WORD + 3 + AT_ONCE;
    struct shapes *s = arena_alloc(a, sizeof *s);
    s->simd = simd;
    char *text = arena_alloc(a, FRONT + capacity + WORD + SHAPE_MARGIN + WORD);
    text += -(uintptr_t)text % WORD; /* a store of 64 bytes fills one line of the cache, not two */
    memset(text, '\n', FRONT);
    s->text = text + FRONT;
    const size_t ends = capacity + WORD + ENDS_AT_ONCE; /* those behind the text are written, too */
    s->ends = arena_array(a, ends, sizeof *s->ends);
    s->newlines = arena_array(a, words, sizeof *s->newlines);
    s->newlines_before = arena_array(a, words, sizeof *s->newlines_before);
    s->digits = arena_array(a, words, sizeof *s->digits);
    s->letters = arena_array(a, words, sizeof *s->letters);
    s->hex = arena_array(a, words, sizeof *s->hex);
    return s;
}

/* The bytes of words in a shape, where '0' is any digit. */
static bool is_word(unsigned char c)
{
    static const bool word[256] = {
        ['0'] = true, ['_'] = true, ['A'] = true, ['B'] = true, ['C'] = true, ['D'] = true,
        ['E'] = true, ['F'] = true, ['G'] = true, ['H'] = true, ['I'] = true, ['J'] = true,
        ['K'] = true, ['L'] = true, ['M'] = true, ['N'] = true, ['O'] = true, ['P'] = true,
        ['Q'] = true, ['R'] = true, ['S'] = true, ['T'] = true, ['U'] = true, ['V'] = true,
        ['W'] = true, ['X'] = true, ['Y'] = true, ['Z'] = true, ['a'] = true, ['b'] = true,
        ['c'] = true, ['d'] = true, ['e'] = true, ['f'] = true, ['g'] = true, ['h'] = true,
        ['i'] = true, ['j'] = true, ['k'] = true, ['l'] = true, ['m'] = true, ['n'] = true,
        ['o'] = true, ['p'] = true, ['q'] = true, ['r'] = true, ['s'] = true, ['t'] = true,
        ['u'] = true, ['v'] = true, ['w'] = true, ['x'] = true, ['y'] = true, ['z'] = true};
    return word[c];
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

/* '1's where the bits are set in 64 bytes. */
typedef void fill_run(char *p, uint64_t run);

static inline void fill_plain(char *p, uint64_t run)
{
    size_t from = (size_t)__builtin_ctzll(run);
    fill_ones(p + from, (size_t)__builtin_popcountll(run));
}

/* take_run() for a run that lies inside a word. One branch at the end: most runs are numbers. */
static inline __attribute__((always_inline)) void take_short_run(struct shapes *s, size_t word,
                                                                 unsigned from, unsigned to,
                                                                 fill_run *fill)
{
    char *text = s->text + word * WORD;
    uint64_t run = ~(~0ull << to) & ~0ull << from;
    uint64_t letters = s->letters[word] & run;
    unsigned char before = (unsigned char)text[(ptrdiff_t)from - 1];
    bool beside = ((int)is_word((unsigned char)text[to]) |
                   ((int)is_word(before) & (before != 'x'))) != 0;
    bool exponent = ((letters & (letters - 1)) == 0) & ((letters >> from & 1) == 0) &
                    (text[__builtin_ctzll(letters)] == 'e');
    if ((to - from >= SHAPE_HEX_MIN) & !beside & !exponent) {
        fill(text, run);
        s->hex[word] |= run;
    }
}

/* The runs of a word in which a letter stands beside a digit, at the bits of `mixed`. Where the last one
 * ends, when it goes on behind the word; else 0. */
static inline __attribute__((always_inline)) size_t take_word(struct shapes *s, size_t word,
                                                              uint64_t mixed, fill_run *fill)
{
    const uint64_t other = ~hex_digits(s, word);
    while (mixed != 0) {
        unsigned at = (unsigned)__builtin_ctzll(mixed);
        uint64_t below = other & ~(~0ull << at);
        uint64_t above = other & ~0ull << at;
        unsigned to;
        if (below != 0 && above != 0) {
            to = (unsigned)__builtin_ctzll(above);
            take_short_run(s, word, WORD - (unsigned)__builtin_clzll(below), to, fill);
        } else {
            size_t end = run_end(s, word * WORD + at);
            take_run(s, run_begin(s, word * WORD + at), end);
            if (end >= (word + 1) * WORD) {
                return end;
            }
            to = end % WORD;
        }
        mixed &= ~0ull << to;
    }
    return 0;
}

/* A word with hexadecimal digits beside each other; `done` is where the last run ended. Gives the new one. */
static inline size_t take_from(struct shapes *s, size_t word, uint64_t mixed, size_t done,
                               fill_run *fill)
{
    if (done > word * WORD) { /* a run that began in a word before */
        mixed &= done < (word + 1) * WORD ? ~0ull << done % WORD : 0;
    }
    size_t end = take_word(s, word, mixed, fill);
    return end != 0 ? end : done;
}

/* Where a letter stands beside a digit, there may be a hexadecimal number. Counts '\n' on the way, which takes a
 * call for each word where it is not put into a function for a processor that counts bits. */
static inline __attribute__((always_inline)) void finish(struct shapes *s)
{
    const size_t words = s->n / WORD + 1;
    const uint64_t *digits = s->digits;
    const uint64_t *letters = s->letters;
    size_t done = 0;
    uint32_t count = 0;
    memset(s->hex, 0, (words + 1) * sizeof *s->hex);
    for (size_t i = 0; i < words; i++) {
        uint64_t mixed = (digits[i] & (letters[i] >> 1 | letters[i + 1] << 63)) |
                         (letters[i] & (digits[i] >> 1 | digits[i + 1] << 63));
        s->newlines_before[i] = count;
        count += (uint32_t)__builtin_popcountll(s->newlines[i]);
        if (mixed != 0) {
            done = take_from(s, i, mixed, done, fill_plain);
        }
    }
}

/* The ends in the word at byte `at`: a word has few, and always two places are written. Gives the new count. */
static inline size_t put_ends(uint32_t *list, size_t count, size_t at, uint64_t ends)
{
    size_t here = (size_t)__builtin_popcountll(ends);
    for (size_t i = 0; i < 2 || i < here; i++) {
        list[count + i] = (uint32_t)at + (uint32_t)__builtin_ctzll(ends | 1ull << 63);
        ends &= ends - 1;
    }
    return count + here;
}

/* Ends the text, the list of `ends` and the sets at n. */
static void close_text(struct shapes *s, const char *p, size_t n, size_t ends)
{
    while (ends != 0 && s->ends[ends - 1] >= n) {
        ends--;
    }
    s->ends[ends] = (uint32_t)n;
    s->next_end = 0;
    if (n != 0 && p[n - 1] == 'e') { /* no exponent: what stands behind is not of the text */
        s->letters[(n - 1) / WORD] |= 1ull << (n - 1) % WORD;
    }
    size_t word = n / WORD;
    uint64_t below = ~(~0ull << n % WORD);
    s->n = n;
    memset(s->text + n, '\n', SHAPE_MARGIN);
    s->newlines[word] &= below;
    s->digits[word] &= below;
    s->letters[word] &= below;
    s->digits[word + 1] = 0;
    s->letters[word + 1] = 0;
}

static void take_plain(struct shapes *s, const char *p, size_t n)
{
    size_t ends = 0;
    for (size_t i = 0; i <= n / WORD; i++) {
        s->newlines[i] = 0;
        s->digits[i] = 0;
        s->letters[i] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = 1ull << i % WORD;
        bool end = p[i] == '\n' || p[i] == '\r';
        bool digit = p[i] >= '0' && p[i] <= '9';
        bool letter = p[i] >= 'a' && p[i] <= 'f' && !(p[i] == 'e' && i + 1 < n && p[i + 1] == '-');
        s->ends[ends] = (uint32_t)i;
        ends += end;
        s->newlines[i / WORD] |= p[i] == '\n' ? bit : 0;
        s->digits[i / WORD] |= digit ? bit : 0;
        s->letters[i / WORD] |= letter ? bit : 0;
        s->text[i] = end ? '\n' : digit ? '0' : p[i];
    }
    close_text(s, p, n, ends);
    finish(s);
}

#if defined(__x86_64__)
TARGET_AVX2 static inline uint64_t lanes(__m256i v)
{
    return (uint32_t)_mm256_movemask_epi8(v);
}

/* Lanes of the bytes from `low` to `low` + span. */
TARGET_AVX2 static inline __m256i in_range(__m256i v, char low, char span)
{
    __m256i above = _mm256_sub_epi8(v, _mm256_set1_epi8(low));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(above, _mm256_set1_epi8(span)), above);
}

/* 32 bytes into the sets at `shift` of the word. Gives the ends among them. */
TARGET_AVX2 static inline uint64_t take_block(struct shapes *s, const char *p, size_t at, int shift)
{
    const __m256i newline = _mm256_set1_epi8('\n');
    __m256i v = _mm256_loadu_si256((const __m256i *)(p + at));
    __m256i next = _mm256_loadu_si256((const __m256i *)(p + at + 1));
    __m256i line_feed = _mm256_cmpeq_epi8(v, newline);
    __m256i end = _mm256_or_si256(line_feed, _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\r')));
    __m256i digit = in_range(v, '0', 9);
    __m256i exponent = _mm256_and_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('e')),
                                        _mm256_cmpeq_epi8(next, _mm256_set1_epi8('-')));
    __m256i letter = _mm256_andnot_si256(exponent, in_range(v, 'a', 5));
    v = _mm256_blendv_epi8(v, newline, end);
    v = _mm256_blendv_epi8(v, _mm256_set1_epi8('0'), digit);
    _mm256_storeu_si256((__m256i *)(s->text + at), v);
    s->newlines[at / WORD] |= lanes(line_feed) << shift;
    s->digits[at / WORD] |= lanes(digit) << shift;
    s->letters[at / WORD] |= lanes(letter) << shift;
    return lanes(end) << shift;
}

TARGET_AVX2 static void take_avx2(struct shapes *s, const char *p, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at <= n; at += WORD) {
        s->newlines[at / WORD] = 0;
        s->digits[at / WORD] = 0;
        s->letters[at / WORD] = 0;
        uint64_t ends = take_block(s, p, at, 0);
        ends |= take_block(s, p, at + BLOCK, BLOCK);
        count = put_ends(s->ends, count, at, ends);
    }
    close_text(s, p, n, count);
    finish(s);
}

TARGET_AVX512 static inline uint64_t in_range_wide(__m512i v, char low, char span)
{
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(v, _mm512_set1_epi8(low)),
                                  _mm512_set1_epi8(span));
}

TARGET_AVX512 static inline void fill_wide(char *p, uint64_t run)
{
    _mm512_mask_storeu_epi8(p, run, _mm512_set1_epi8('1'));
}

/* `bits` moved down by one, with the lowest of the next word on top. */
TARGET_AVX512 static inline __m512i next_bits(const uint64_t *bits)
{
    return _mm512_or_si512(_mm512_srli_epi64(_mm512_loadu_si512(bits), 1),
                           _mm512_slli_epi64(_mm512_loadu_si512(bits + 1), 63));
}

/* Of eight counts, the sums up to each. */
TARGET_AVX512 static inline __m256i sums_of(__m256i count)
{
    const __m256i zero = _mm256_setzero_si256();
    count = _mm256_add_epi32(count, _mm256_alignr_epi32(count, zero, 7));
    count = _mm256_add_epi32(count, _mm256_alignr_epi32(count, zero, 6));
    return _mm256_add_epi32(count, _mm256_alignr_epi32(count, zero, 4));
}

/* finish() for eight words at a time: few have a number. */
TARGET_AVX512 static void finish_wide(struct shapes *s)
{
    const size_t words = s->n / WORD + 1;
    size_t done = 0;
    __m256i before = _mm256_setzero_si256();
    memset(s->hex, 0, (words + 1) * sizeof *s->hex);
    for (size_t i = 0; i < words; i += AT_ONCE) {
        uint64_t mixed[AT_ONCE];
        __m512i digits = _mm512_loadu_si512(s->digits + i);
        __m512i letters = _mm512_loadu_si512(s->letters + i);
        __m512i both = _mm512_or_si512(_mm512_and_si512(digits, next_bits(s->letters + i)),
                                       _mm512_and_si512(letters, next_bits(s->digits + i)));
        __m256i count = _mm512_cvtepi64_epi32(
            _mm512_popcnt_epi64(_mm512_loadu_si512(s->newlines + i)));
        __m256i sums = sums_of(count);
        _mm256_storeu_si256((__m256i *)(s->newlines_before + i),
                            _mm256_add_epi32(before, _mm256_sub_epi32(sums, count)));
        before = _mm256_add_epi32(before, _mm256_permutevar8x32_epi32(sums, _mm256_set1_epi32(7)));
        unsigned left = _mm512_test_epi64_mask(both, both);
        left &= words - i < AT_ONCE ? (1u << (words - i)) - 1 : ~0u;
        _mm512_storeu_si512(mixed, both);
        for (; left != 0; left &= left - 1) {
            size_t k = (size_t)__builtin_ctz(left);
            done = take_from(s, i + k, mixed[k], done, fill_wide);
        }
    }
}

/* put_ends() for up to 16 at once. */
TARGET_AVX512 static inline size_t put_ends_wide(uint32_t *list, size_t count, size_t at,
                                                 uint64_t ends)
{
    __m512i places = _mm512_maskz_compress_epi8(ends, _mm512_load_si512(wide_numbers));
    places = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(places));
    _mm512_storeu_si512(list + count, _mm512_add_epi32(places, _mm512_set1_epi32((int)at)));
    size_t here = (size_t)__builtin_popcountll(ends);
    return __builtin_expect(here <= ENDS_AT_ONCE, true) ? count + here
                                                        : put_ends(list, count, at, ends);
}

TARGET_AVX512 static void take_avx512(struct shapes *s, const char *p, size_t n)
{
    const __m512i newline = _mm512_set1_epi8('\n');
    char *restrict text = s->text;
    uint32_t *restrict ends = s->ends;
    uint64_t *restrict newlines = s->newlines;
    uint64_t *restrict digits = s->digits;
    uint64_t *restrict letters = s->letters;
    size_t count = 0;
    for (size_t at = 0; at <= n; at += WORD) {
        __m512i v = _mm512_loadu_si512(p + at);
        __m512i next = _mm512_loadu_si512(p + at + 1);
        uint64_t line_feed = _mm512_cmpeq_epi8_mask(v, newline);
        uint64_t end = line_feed | _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\r'));
        uint64_t digit = in_range_wide(v, '0', 9);
        uint64_t exponent = _mm512_mask_cmpeq_epi8_mask(
            _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('e')), next, _mm512_set1_epi8('-'));
        v = _mm512_mask_blend_epi8(end, v, newline);
        v = _mm512_mask_blend_epi8(digit, v, _mm512_set1_epi8('0'));
        _mm512_storeu_si512(text + at, v);
        count = put_ends_wide(ends, count, at, end);
        newlines[at / WORD] = line_feed;
        digits[at / WORD] = digit;
        letters[at / WORD] = in_range_wide(v, 'a', 5) & ~exponent;
    }
    close_text(s, p, n, count);
    finish_wide(s);
}
#endif

void shapes_take(struct shapes *s, const char *p, size_t n)
{
#if defined(__x86_64__)
    if (s->simd == SIMD_AVX512) {
        take_avx512(s, p, n);
        return;
    }
    if (s->simd == SIMD_AVX2) {
        take_avx2(s, p, n);
        return;
    }
#endif
    take_plain(s, p, n);
}

bool shapes_have_hex(const struct shapes *s, size_t at, size_t n)
{
    uint64_t any = 0;
    for (size_t i = 0; i < n; i += WORD) {
        any |= bits_at(s->hex, at + i, n - i);
    }
    return any != 0;
}
