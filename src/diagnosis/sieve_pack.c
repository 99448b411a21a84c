// SPDX-License-Identifier: Apache-2.0
/* Needles on their way into the sieve: by which of their bytes they are looked for. The best are those
 * that ordinary logs (needle_sample()) have least. */
#include <string.h>

#include "base/vec.h"

#include "diagnosis/line_shape.h"
#include "diagnosis/sieve.h"

/* What it costs that a window shares a word of the table, and that it opens the word for others. */
#define WORD_COST  1.4
#define ENTRY_COST 0.5
/* What a long needle's window costs each time that the sample has it, against its four bytes. */
#define WINDOW_COST 64

enum {
    CONTEXT_BEFORE = 1, /* bytes beside a window that are looked at, too */
    CONTEXT_BEHIND = 2,
    SPAN_MAX = CONTEXT_BEFORE + 4 + CONTEXT_BEHIND
};

struct byte_set packed_needle_at(const struct packed_needle *n, const struct byte_set *sets, int at)
{
    struct byte_set out = {{0}};
    if (at >= 0 && at < n->n) {
        out.bits[n->text[at] >> 6] |= 1ull << (n->text[at] & 63);
        return out;
    }
    const struct byte_set *set = at == -1 ? &sets[n->before] : at == n->n ? &sets[n->after] : NULL;
    for (unsigned c = 0; c < 256; c++) {
        if (set == NULL || byte_set_has(set, (unsigned char)c)) {
            out.bits[(c | 0x20) >> 6] |= 1ull << ((c | 0x20) & 63);
        }
    }
    return out;
}

static size_t set_count(const struct byte_set *set)
{
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        n += (size_t)__builtin_popcountll(set->bits[i]);
    }
    return n;
}

/* How often the sets stand in a row in the sample. */
static size_t count_rows(const struct packed_needles *p, const struct byte_set *sets, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at + n <= p->sample_n; at++) {
        size_t i = 0;
        while (i < n && byte_set_has(&sets[i], p->sample[at + i])) {
            i++;
        }
        count += i == n;
    }
    return count;
}

/* The bytes that a table cannot tell from those of the set: the lowest bits are the same. */
static struct byte_set alike(const struct byte_set *set, unsigned mask)
{
    bool low[16] = {false};
    struct byte_set out = {{0}};
    for (unsigned c = 0; c < 256; c++) {
        low[c & mask] |= byte_set_has(set, (unsigned char)c);
    }
    for (unsigned c = 0; c < 256; c++) {
        out.bits[c >> 6] |= (uint64_t)low[c & mask] << (c & 63);
    }
    return out;
}

/*
 * What a window at `at` costs: how often the tables let ordinary text through for it. A window is also
 * a word that it shares with other needles and that their bytes beside open; that it is rare itself
 * counts most.
 */
static double window_cost(const struct packed_needles *p, const struct packed_needle *n, int at)
{
    struct byte_set sets[SPAN_MAX];
    size_t length = sieve_window_length(sieve_step_of(n->n));
    size_t span = CONTEXT_BEFORE + length + CONTEXT_BEHIND;
    double entries = 1;
    double open = 1; /* share of the text that stands beside by chance */
    for (size_t i = 0; i < span; i++) {
        sets[i] = packed_needle_at(n, p->sets, at + (int)i - CONTEXT_BEFORE);
        bool beside = i < CONTEXT_BEFORE || i >= CONTEXT_BEFORE + length;
        double size = (double)set_count(&sets[i]);
        entries *= beside ? 1 : size;
        open *= beside ? (size > 8 ? 1 : size / 8) : 1;
        if (beside) {
            sets[i] = alike(&sets[i], i == CONTEXT_BEFORE + length ? 15 : 7);
        }
    }
    double alone = (double)count_rows(p, sets + CONTEXT_BEFORE, length);
    return (alone + WORD_COST * entries) * open + ENTRY_COST * entries +
           2 * (double)count_rows(p, sets, span);
}

/* The best window of a middle or short needle that begins at an even (0) or odd (1) position. */
static int best_window(const struct packed_needles *p, const struct packed_needle *n, int odd)
{
    int length = (int)sieve_window_length(sieve_step_of(n->n));
    int best = odd ? -1 : 0;
    double least = -1;
    for (int at = best; at + length <= n->n + 1; at += 2) {
        double cost = window_cost(p, n, at);
        if (least < 0 || cost < least) {
            best = at;
            least = cost;
        }
    }
    return best;
}

static uint32_t common_at(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v * 0x9e3779b1u >> (32 - SIEVE_COMMON_BITS);
}

static uint64_t window_at(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v * 0x9e3779b185ebca87u >> (64 - SIEVE_COMMON_BITS);
}

/* The stretch of a long needle whose windows are rarest, and of those the one whose groups of four bytes are. */
static int best_stretch(const struct packed_needles *p, const struct packed_needle *n)
{
    int best = 0;
    unsigned least = UINT32_MAX;
    for (int at = 0; at + SIEVE_LONG_STRETCH <= n->n; at++) {
        unsigned cost = 0;
        for (int k = 0; k + 4 <= SIEVE_LONG_STRETCH; k++) {
            cost += p->common[common_at(n->text + at + k)];
        }
        for (int k = 0; k + 8 <= SIEVE_LONG_STRETCH; k++) {
            cost += WINDOW_COST * p->windows[window_at(n->text + at + k)];
        }
        if (cost < least) {
            best = at;
            least = cost;
        }
    }
    return best;
}

static void choose_windows(const struct packed_needles *p, struct packed_needle *n)
{
    bool is_long = sieve_step_of(n->n) == SIEVE_LONG;
    n->window[0] = (int8_t)(is_long ? best_stretch(p, n) : best_window(p, n, 0));
    n->window[1] = (int8_t)(is_long ? 0 : best_window(p, n, 1));
}

bool packed_needle_is_valid(const struct packed_needle *n, size_t sets)
{
    if (n->n < NEEDLE_MIN || n->n > NEEDLE_MAX || n->before >= sets || n->after >= sets) {
        return false;
    }
    if (sieve_step_of(n->n) == SIEVE_LONG) {
        return n->window[0] >= 0 && n->window[0] + SIEVE_LONG_STRETCH <= n->n;
    }
    int length = (int)sieve_window_length(sieve_step_of(n->n));
    for (int odd = 0; odd < 2; odd++) {
        if (n->window[odd] < -1 || n->window[odd] + length > n->n + 1 ||
            (n->window[odd] & 1) != odd) {
            return false;
        }
    }
    return true;
}

static void count_up(uint8_t *count)
{
    *count = *count < 255 ? *count + 1 : 255;
}

void packed_needles_init(struct arena *a, struct packed_needles *p)
{
    p->count = 0;
    p->sets[0] = (struct byte_set){{~0ull, ~0ull, ~0ull, ~0ull}};
    p->set_count = 1;
    const char *text = needle_sample(&p->sample_n);
    struct shapes *shapes = shapes_new(a, p->sample_n, SIMD_NONE); /* what the sieve will look at */
    shapes_take(shapes, text, p->sample_n);
    unsigned char *sample = arena_alloc(a, p->sample_n);
    for (size_t i = 0; i < p->sample_n; i++) {
        sample[i] = (unsigned char)(shapes->text[i] | 0x20);
    }
    p->sample = sample;
    memset(p->common, 0, sizeof p->common);
    memset(p->windows, 0, sizeof p->windows);
    for (size_t at = 0; at + 8 <= p->sample_n; at++) {
        count_up(&p->common[common_at(sample + at)]);
        count_up(&p->windows[window_at(sample + at)]);
    }
}

/* Index of a byte set; when there are too many, every byte is allowed. */
static uint8_t set_index(struct packed_needles *p, const struct byte_set *set)
{
    for (size_t i = 0; i < p->set_count; i++) {
        if (memcmp(&p->sets[i], set, sizeof *set) == 0) {
            return (uint8_t)i;
        }
    }
    if (p->set_count == SIEVE_SETS_MAX) {
        return 0;
    }
    p->sets[p->set_count] = *set;
    return (uint8_t)p->set_count++;
}

static bool same_needle(const struct packed_needle *a, const struct packed_needle *b)
{
    return a->n == b->n && a->before == b->before && a->after == b->after &&
           memcmp(a->text, b->text, a->n) == 0;
}

void packed_needles_add(struct arena *a, struct packed_needles *p, const struct needle_list *list,
                        uint32_t id)
{
    const size_t first = p->count;
    for (size_t i = 0; i < list->count; i++) {
        const struct needle *n = &list->items[i];
        struct packed_needle out;
        memset(&out, 0, sizeof out); /* it is stored as it lies in memory */
        out.id = id;
        out.n = (uint8_t)n->n;
        out.before = set_index(p, &n->before);
        out.after = set_index(p, &n->after);
        memcpy(out.text, n->text, n->n);
        bool known = false;
        for (size_t k = first; k < p->count && !known; k++) {
            known = same_needle(&p->items[k], &out);
        }
        if (!known) {
            choose_windows(p, &out);
            *VEC_PUSH(a, p) = out;
        }
    }
}
