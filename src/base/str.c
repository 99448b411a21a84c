// SPDX-License-Identifier: Apache-2.0
/* String views and buffers. */
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct str str_of(const char *z)
{
    return (struct str){.p = z != NULL ? z : "", .n = z != NULL ? strlen(z) : 0};
}

struct str str_slice(struct str s, size_t from, size_t to)
{
    if (to > s.n) {
        to = s.n;
    }
    if (from > to) {
        from = to;
    }
    return (struct str){.p = s.p + from, .n = to - from};
}

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_is(struct str a, const char *z)
{
    return str_eq(a, str_of(z));
}

int str_cmp(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n != 0 ? memcmp(a.p, b.p, n) : 0;
    if (c != 0) {
        return c;
    }
    return (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.n >= n && (n == 0 || memcmp(s.p, prefix, n) == 0);
}

bool str_ends(struct str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.n >= n && (n == 0 || memcmp(s.p + s.n - n, suffix, n) == 0);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n != 0 && is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n != 0 && is_space(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

size_t str_find(struct str s, const char *needle, size_t from)
{
    size_t n = strlen(needle);
    if (from > s.n || n > s.n - from) {
        return SIZE_MAX; /* also keeps the NULL of an empty view away from memmem */
    }
    if (n == 0) {
        return from;
    }
    const char *hit = memmem(s.p + from, s.n - from, needle, n);
    return hit != NULL ? (size_t)(hit - s.p) : SIZE_MAX;
}

size_t str_find_char(struct str s, char c, size_t from)
{
    if (from >= s.n) {
        return SIZE_MAX;
    }
    const char *hit = memchr(s.p + from, c, s.n - from);
    return hit != NULL ? (size_t)(hit - s.p) : SIZE_MAX;
}

bool str_has(struct str s, const char *needle)
{
    return str_find(s, needle, 0) != SIZE_MAX;
}

bool str_cut(struct str *s, char sep, struct str *ret_part)
{
    if (s->p == NULL) {
        return false;
    }
    size_t at = str_find_char(*s, sep, 0);
    if (at == SIZE_MAX) {
        *ret_part = *s;
        *s = (struct str){0};
        return true;
    }
    *ret_part = str_slice(*s, 0, at);
    *s = str_slice(*s, at + 1, s->n);
    return true;
}

bool str_cut_line(struct str *s, struct str *ret_line)
{
    if (s->n == 0) {
        return false;
    }
    size_t at = str_find_char(*s, '\n', 0);
    size_t end = at == SIZE_MAX ? s->n : at;
    struct str line = str_slice(*s, 0, end);
    *s = str_slice(*s, at == SIZE_MAX ? s->n : at + 1, s->n);
    if (line.n != 0 && line.p[line.n - 1] == '\r') {
        line.n--;
    }
    *ret_line = line;
    return true;
}

char *str_dup(struct arena *a, struct str s)
{
    return arena_copy(a, s.p, s.n);
}

/* Numbers longer than this are not numbers of ours; the copy keeps strto* inside the view. */
enum {
    NUMBER_MAX = 100
};

static enum status number_text(struct str s, char ret_text[NUMBER_MAX])
{
    s = str_trim(s);
    if (s.n == 0 || s.n >= NUMBER_MAX) {
        return ST_FORMAT;
    }
    memcpy(ret_text, s.p, s.n);
    ret_text[s.n] = '\0';
    return strlen(ret_text) == s.n ? ST_OK : ST_FORMAT;
}

enum status str_to_u64(struct str s, int base, uint64_t *ret_value)
{
    char text[NUMBER_MAX];
    TRY(number_text(s, text));
    if (text[0] == '-') {
        return ST_FORMAT;
    }
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, base);
    if (errno != 0 || *end != '\0' || end == text) {
        return ST_FORMAT;
    }
    *ret_value = v;
    return ST_OK;
}

enum status str_to_i64(struct str s, int base, int64_t *ret_value)
{
    char text[NUMBER_MAX];
    TRY(number_text(s, text));
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, base);
    if (errno != 0 || *end != '\0' || end == text) {
        return ST_FORMAT;
    }
    *ret_value = v;
    return ST_OK;
}

enum status str_to_double(struct str s, double *ret_value)
{
    char text[NUMBER_MAX];
    TRY(number_text(s, text));
    char *end;
    double v = strtod(text, &end); /* the program never calls setlocale: "C" rules hold */
    if (*end != '\0' || end == text) {
        return ST_FORMAT;
    }
    *ret_value = v;
    return ST_OK;
}

enum {
    DISTANCE_MAX = 64
};

size_t str_distance(struct str a, struct str b, size_t limit)
{
    if (a.n > DISTANCE_MAX || b.n > DISTANCE_MAX) {
        return limit + 1;
    }
    size_t rows[3][DISTANCE_MAX + 1];
    size_t *before = rows[0];
    size_t *prev = rows[1];
    size_t *cur = rows[2];
    for (size_t j = 0; j <= b.n; j++) {
        prev[j] = j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= a.n; i++) {
        cur[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t best = prev[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            best = prev[j] + 1 < best ? prev[j] + 1 : best;
            best = cur[j - 1] + 1 < best ? cur[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] &&
                before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            cur[j] = best;
        }
        size_t *spare = before;
        before = prev;
        prev = cur;
        cur = spare;
    }
    return prev[b.n];
}

void str_print(char *to, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(to, size, fmt, ap);
    va_end(ap);
}

void strbuf_init(struct strbuf *b, struct arena *arena, size_t ceiling)
{
    *b = (struct strbuf){.arena = arena, .ceiling = ceiling, .capacity = 256};
    b->p = arena_alloc(arena, b->capacity);
}

void strbuf_add(struct strbuf *b, struct str s)
{
    if (s.n > b->ceiling - b->n) {
        s.n = b->ceiling - b->n;
        b->truncated = true;
    }
    if (s.n == 0) {
        return;
    }
    if (b->n + s.n + 1 > b->capacity) {
        size_t grown = b->capacity * 2;
        while (grown < b->n + s.n + 1) {
            grown *= 2;
        }
        b->p = arena_grow(b->arena, b->p, b->capacity, grown);
        b->capacity = grown;
    }
    memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
    b->p[b->n] = '\0';
}

void strbuf_addz(struct strbuf *b, const char *z)
{
    strbuf_add(b, str_of(z));
}

void strbuf_addc(struct strbuf *b, char c)
{
    strbuf_add(b, (struct str){.p = &c, .n = 1});
}

void strbuf_vfmt(struct strbuf *b, const char *fmt, va_list ap)
{
    char small[512];
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    if (n >= 0 && (size_t)n < sizeof small) {
        strbuf_add(b, (struct str){.p = small, .n = (size_t)n});
    } else if (n >= 0) {
        char *big = arena_alloc(b->arena, (size_t)n + 1);
        vsnprintf(big, (size_t)n + 1, fmt, again);
        strbuf_add(b, (struct str){.p = big, .n = (size_t)n});
    }
    va_end(again);
}

void strbuf_fmt(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strbuf_vfmt(b, fmt, ap);
    va_end(ap);
}

void strbuf_clear(struct strbuf *b)
{
    b->n = 0;
    b->p[0] = '\0';
    b->truncated = false;
}

struct str strbuf_str(const struct strbuf *b)
{
    return (struct str){.p = b->p, .n = b->n};
}
