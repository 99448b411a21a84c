// SPDX-License-Identifier: Apache-2.0
/* See metric_layout.h. */
#include "diagnosis/metric_layout.h"

#include <string.h>

#if defined(__x86_64__)
# include <immintrin.h>
# define SSE41 __attribute__((target("sse4.1")))
#endif

enum {
    DIGITS_MAX = 15, /* all numbers of so many are doubles */
    EXPONENT_MAX = 3,
    SPAN = 16 /* bytes that the digits and the point between them lie in */
};

/* How a number is written: the same in all lines of a shape. */
struct number_form {
    bool known; /* false: it is read like any other */
    bool minus;
    bool exponent_minus;
    uint8_t digits_at; /* from the number's begin */
    uint8_t exponent_at;
    uint8_t exponent_digits;   /* 0: it has none */
    uint8_t behind;            /* digits behind the point */
    unsigned char order[SPAN]; /* where the digits lie, to the right; 0x80: nowhere */
};

struct metric_place {
    const char *name;
    double scale;
    uint16_t at;
    bool step;
    struct number_form form;
    struct series_place series;
};

struct metric_layout {
    bool fixed;  /* false: lines of this shape are read anew each time */
    bool trains; /* see struct metric_layout_line */
    bool evals;
    size_t body_at;
    size_t body_n;
    size_t count;
    struct metric_place places[METRICS_MAX];
};

#if defined(__x86_64__)
/* Up to 15 digits at once: in pairs, fours, eights. */
SSE41 static double read_form(const struct number_form *f, const char *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(p + f->digits_at));
    v = _mm_sub_epi8(v, _mm_set1_epi8('0'));
    v = _mm_shuffle_epi8(v, _mm_loadu_si128((const __m128i *)f->order));
    v = _mm_maddubs_epi16(v, _mm_set1_epi16(10 | 1 << 8));
    v = _mm_madd_epi16(v, _mm_set1_epi32(100 | 1 << 16));
    v = _mm_packus_epi32(v, v);
    v = _mm_madd_epi16(v, _mm_set1_epi32(10000 | 1 << 16));
    uint64_t halves = (uint64_t)_mm_cvtsi128_si64(v);
    uint64_t digits = (halves & UINT32_MAX) * 100000000 + (halves >> 32);
    int power = 0;
    for (size_t i = 0; i < f->exponent_digits; i++) {
        power = power * 10 + (p[f->exponent_at + i] - '0');
    }
    double value = metric_scale((double)digits, (f->exponent_minus ? -power : power) - f->behind);
    return f->minus ? -value : value;
}

static size_t count_digits(struct str s, size_t at)
{
    size_t n = 0;
    while (at + n < s.n && s.p[at + n] >= '0' && s.p[at + n] <= '9') {
        n++;
    }
    return n;
}

/* False when the exponent is longer than any that means something. */
static bool find_exponent(struct number_form *f, struct str s, size_t at)
{
    if (at + 1 >= s.n || (s.p[at] != 'e' && s.p[at] != 'E')) {
        return true;
    }
    bool sign = s.p[at + 1] == '-' || s.p[at + 1] == '+';
    size_t n = count_digits(s, at + 1 + sign);
    f->exponent_at = (uint8_t)(at + 1 + sign);
    f->exponent_digits = (uint8_t)n;
    f->exponent_minus = s.p[at + 1] == '-';
    return n <= EXPONENT_MAX;
}

/* The form of the number at the front of `s`, when it is read that way to the same value. */
static struct number_form form_of(struct str s)
{
    struct number_form f = {.known = false};
    s = str_slice(s, 0, 64);
    size_t sign = s.n != 0 && (s.p[0] == '-' || s.p[0] == '+');
    size_t whole = count_digits(s, sign);
    size_t point = sign + whole;
    bool has_point = point < s.n && s.p[point] == '.';
    size_t behind = has_point ? count_digits(s, point + 1) : 0;
    if (whole + behind == 0 || whole + behind > DIGITS_MAX || !__builtin_cpu_supports("sse4.1")) {
        return f;
    }
    f.minus = s.p[0] == '-';
    f.digits_at = (uint8_t)sign;
    f.behind = (uint8_t)behind;
    memset(f.order, 0x80, sizeof f.order);
    for (size_t i = 0; i < whole + behind; i++) {
        f.order[SPAN - whole - behind + i] = (unsigned char)(i < whole ? i : i + 1);
    }
    if (!find_exponent(&f, s, point + has_point + behind)) {
        return f;
    }
    size_t length;
    double want = metric_number(s, &length);
    double have = read_form(&f, s.p);
    f.known = want == have; /* both have digits: neither is NaN */
    return f;
}
#else
static struct number_form form_of(struct str s)
{
    (void)s;
    return (struct number_form){.known = false};
}

static double read_form(const struct number_form *f, const char *p)
{
    (void)f;
    (void)p;
    return 0; /* no form is known */
}
#endif

struct metric_layout *metric_layout_new(struct arena *a, const struct metric_line *line,
                                        struct str body, size_t body_at)
{
    struct metric_layout *out = arena_alloc(a, sizeof *out);
    out->fixed = !line->special && !line->final;
    out->body_at = body_at;
    out->body_n = body.n;
    out->count = line->count;
    out->evals = line->count != 0 && strcmp(line->items[0].name, "eval_loss") == 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct metric *m = &line->items[i];
        out->places[i] = (struct metric_place){.name = arena_strdup(a, m->name),
                                               .scale = m->scale,
                                               .at = m->at,
                                               .form = form_of(str_slice(body, m->at, body.n)),
                                               .step = strcmp(m->name, "step") == 0};
        out->trains |= out->places[i].step || strcmp(m->name, "loss") == 0;
    }
    return out;
}

static inline double read_place(const struct metric_place *place, const char *body, size_t n)
{
    size_t length;
    return place->form.known
               ? read_form(&place->form, body + place->at)
               : metric_number((struct str){.p = body + place->at, .n = n - place->at}, &length);
}

bool metric_layout_read(const struct metric_layout *layout, struct str body, size_t body_at,
                        struct metric_line *ret_line)
{
    if (!layout->fixed || layout->body_at != body_at) {
        return false;
    }
    struct metric_line *out = ret_line;
    out->count = layout->count;
    out->final = false;
    out->special = false;
    out->step = -1;
    out->total = -1;
    for (size_t i = 0; i < layout->count; i++) {
        const struct metric_place *place = &layout->places[i];
        double v = read_place(place, body.p, body.n);
        out->items[i] = (struct metric){
            .name = place->name, .value = v * place->scale, .scale = place->scale, .at = place->at};
        if (place->step && v >= 0) {
            out->step = (int64_t)v;
        }
    }
    return true;
}

bool metric_layout_is_whole(const struct metric_layout *layout)
{
    return layout->fixed && layout->body_at == 0;
}

struct metric_layout_line metric_layout_add(struct metric_layout *layout, const char *line,
                                            struct series_set *series, int rank, uint64_t number)
{
    struct metric_layout_line out = {.trains = layout->trains, .evals = layout->evals, .step = -1};
    for (size_t i = 0; i < layout->count; i++) {
        struct metric_place *place = &layout->places[i];
        double v = read_place(place, line, layout->body_n);
        series_add_at(series, &place->series, place->name, rank, v * place->scale, number);
        if (place->step && v >= 0) {
            out.step = (int64_t)v;
        }
    }
    return out;
}
