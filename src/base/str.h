// SPDX-License-Identifier: Apache-2.0
/*
 * Strings: `struct str` is a borrowed view (pointer and length, not NUL-terminated, may hold any
 * byte); `struct strbuf` is a growing, always NUL-terminated buffer with a ceiling.
 */
#ifndef ASSAY_BASE_STR_H
#define ASSAY_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){.p = (literal), .n = sizeof(literal) - 1})
#define STR_ARG(s)   (int)(s).n, (s).p /* for "%.*s" */

struct str str_of(const char *z); /* NULL gives the empty view */
struct str str_slice(struct str s, size_t from, size_t to);
bool str_eq(struct str a, struct str b);
bool str_is(struct str a, const char *z);
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
struct str str_trim(struct str s);

/* Index of the first occurrence at or after `from`, or SIZE_MAX. */
size_t str_find(struct str s, const char *needle, size_t from);
size_t str_find_char(struct str s, char c, size_t from);
bool str_has(struct str s, const char *needle);

/* Takes the part before `sep` off the front of *s; false when *s was exhausted before the call. */
bool str_cut(struct str *s, char sep, struct str *ret_part);

/* Takes one line off the front, without its "\n" or "\r\n"; false at the end. */
bool str_cut_line(struct str *s, struct str *ret_line);

/* NUL-terminated copy on the arena. */
char *str_dup(struct arena *a, struct str s) MUST_USE RETURNS_NONNULL;

/* Numbers, locale-free; the whole view must be the number (spaces around it are allowed). */
enum status str_to_u64(struct str s, int base, uint64_t *ret_value) MUST_USE;
enum status str_to_i64(struct str s, int base, int64_t *ret_value) MUST_USE;
enum status str_to_double(struct str s, double *ret_value) MUST_USE; /* accepts nan and inf */

/* Edits needed to turn a into b, transposition included; stops counting above `limit`. */
size_t str_distance(struct str a, struct str b, size_t limit);

/* snprintf for fields of fixed size in records: what does not fit is cut. */
void str_print(char *to, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);

struct strbuf {
    struct arena *arena;
    char *p; /* NUL-terminated, never NULL after strbuf_init */
    size_t n;
    size_t capacity;
    size_t ceiling; /* text beyond it is dropped and `truncated` set */
    bool truncated;
};

void strbuf_init(struct strbuf *b, struct arena *arena, size_t ceiling);
void strbuf_add(struct strbuf *b, struct str s);
void strbuf_addz(struct strbuf *b, const char *z);
void strbuf_addc(struct strbuf *b, char c);
void strbuf_fmt(struct strbuf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void strbuf_vfmt(struct strbuf *b, const char *fmt, va_list ap);
void strbuf_clear(struct strbuf *b);
struct str strbuf_str(const struct strbuf *b);

#endif
