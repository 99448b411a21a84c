// SPDX-License-Identifier: Apache-2.0
/*
 * PCRE2 on hit lines; see confirm.h. An expression that is asked often and is slow gets a vectorscan
 * database of its own. Making it takes tenths of a second for the wide alternations that need it;
 * both engines give the same answer, so the clock decides about speed alone.
 */
#include "diagnosis/confirm.h"

#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <hs.h>
#include <pcre2.h>

#include "base/vec.h"

enum {
    JIT_AFTER = 8,
    FAST_AFTER = 20000,
    TIMED_FROM = 1000,
    TIMED_COUNT = 64,
    SLOW_NS = 1500,
    MAX_CAPTURES = 24,
    MAX_VALUE = 500,
    COMPILE_NO_MEMORY = 121 /* PCRE2's ERR21, which its header does not name */
};

#define MATCH_LIMIT 200000

struct regex {
    pcre2_code *code;
    bool tried;
    unsigned uses;
};

struct entry {
    unsigned asked;
    int64_t spent_ns; /* on TIMED_COUNT lines */
    hs_database_t *fast;
    struct regex line; /* the scanned expression */
    struct regex capture;
};

struct confirm {
    const struct pattern *patterns;
    struct entry *entries;
    size_t count;
    pcre2_match_data *match;
    pcre2_match_context *context;
    hs_scratch_t *scratch;
};

struct confirm *confirm_new(struct arena *a, const struct pattern *patterns, size_t count)
{
    struct confirm *c = arena_alloc(a, sizeof *c);
    c->patterns = patterns;
    c->count = count;
    c->entries = arena_array(a, count, sizeof *c->entries);
    c->match = pcre2_match_data_create(MAX_CAPTURES + 1, NULL);
    c->context = pcre2_match_context_create(NULL);
    if (c->match == NULL || c->context == NULL) {
        arena_exhausted("out of memory: expressions cannot be matched");
    }
    pcre2_set_match_limit(c->context, MATCH_LIMIT);
    pcre2_set_depth_limit(c->context, MATCH_LIMIT);
    return c;
}

void confirm_free(struct confirm *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        pcre2_code_free(c->entries[i].line.code);
        pcre2_code_free(c->entries[i].capture.code);
        hs_free_database(c->entries[i].fast);
        c->entries[i] = (struct entry){0};
    }
    pcre2_match_data_free(c->match);
    pcre2_match_context_free(c->context);
    hs_free_scratch(c->scratch);
    c->match = NULL;
    c->context = NULL;
    c->scratch = NULL;
}

/* The compiled expression, or NULL when PCRE2 does not take it. */
static pcre2_code *code_of(struct regex *r, const char *text)
{
    if (!r->tried) {
        int error;
        PCRE2_SIZE at;
        r->tried = true;
        r->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
        if (r->code == NULL && error == COMPILE_NO_MEMORY) {
            /* "Could not tell" would lose a fault. */
            arena_exhausted("out of memory: an expression could not be compiled");
        }
    }
    if (r->code != NULL && ++r->uses == JIT_AFTER) {
        (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* without it, it is only slower */
    }
    return r->code;
}

/* Number of pairs as pcre2_match() gives it, 0 for no match, -1 when it could not tell. */
static int run(struct confirm *c, struct regex *r, const char *regex, struct str text)
{
    const pcre2_code *code = code_of(r, regex);
    if (code == NULL || c->match == NULL) {
        return -1;
    }
    int rc = pcre2_match(code, (PCRE2_SPTR)text.p, text.n, 0, 0, c->match, c->context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        return 0;
    }
    if (rc == PCRE2_ERROR_NOMEMORY) {
        arena_exhausted("out of memory: an expression could not be matched");
    }
    if (rc == 0) {
        return MAX_CAPTURES + 1;
    }
    return rc > 0 ? rc : -1;
}

static void make_fast(struct confirm *c, struct entry *e, const char *regex)
{
    hs_compile_error_t *why = NULL;
    if (hs_compile(regex, HS_FLAG_MULTILINE | HS_FLAG_SINGLEMATCH, HS_MODE_BLOCK, NULL, &e->fast,
                   &why) != HS_SUCCESS) {
        hs_free_compile_error(why); /* PCRE2 goes on */
        e->fast = NULL;
    } else if (hs_alloc_scratch(e->fast, &c->scratch) != HS_SUCCESS) {
        hs_free_database(e->fast);
        e->fast = NULL;
    }
}

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                    void *ctx)
{
    (void)id;
    (void)from;
    (void)to;
    (void)flags;
    *(bool *)ctx = true;
    return 1; /* one is enough */
}

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* vectorscan's answer; false when it has none. */
static bool fast_match(struct confirm *c, struct entry *e, struct str text)
{
    bool found = false;
    if (e->fast != NULL) {
        (void)hs_scan(e->fast, text.p, (unsigned)text.n, 0, c->scratch, on_match, &found);
    }
    return found;
}

/* PCRE2 on the scanned expression, with a look at the clock for some of the lines. */
static bool slow_match(struct confirm *c, struct entry *e, const char *regex, struct str text)
{
    bool timed = e->asked >= TIMED_FROM && e->asked < TIMED_FROM + TIMED_COUNT;
    int64_t start = timed ? nanoseconds() : 0;
    int pairs = run(c, &e->line, regex, text);
    if (timed) {
        e->spent_ns += nanoseconds() - start;
    }
    if (pairs < 0) { /* vectorscan's time is linear */
        make_fast(c, e, regex);
        return fast_match(c, e, text);
    }
    return pairs != 0;
}

/* The scanned expression alone. */
static bool line_matches(struct confirm *c, struct entry *e, const char *regex, struct str text)
{
    if (++e->asked == FAST_AFTER && e->spent_ns > SLOW_NS * TIMED_COUNT && e->fast == NULL) {
        make_fast(c, e, regex);
    }
    return e->fast != NULL ? fast_match(c, e, text) : slow_match(c, e, regex, text);
}

bool confirm_line(struct confirm *c, size_t index, struct str text)
{
    const struct pattern *p = &c->patterns[index];
    struct entry *e = &c->entries[index];
    return line_matches(c, e, p->regex, text) &&
           (p->capture == NULL || run(c, &e->capture, p->capture, text) > 0);
}

size_t confirm_captures(struct confirm *c, size_t index, struct str text, struct arena *a,
                        const struct capture **ret_captures)
{
    const struct pattern *p = &c->patterns[index];
    struct regex *r = &c->entries[index].capture;
    int pairs = p->capture != NULL ? run(c, r, p->capture, text) : 0;
    if (pairs <= 0) {
        return 0;
    }
    uint32_t names;
    uint32_t size;
    PCRE2_SPTR table;
    pcre2_pattern_info(r->code, PCRE2_INFO_NAMECOUNT, &names);
    pcre2_pattern_info(r->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    pcre2_pattern_info(r->code, PCRE2_INFO_NAMETABLE, &table);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(c->match);
    VEC_OF(struct capture) out = {0};
    for (uint32_t i = 0; i < names && out.count < MAX_CAPTURES; i++) {
        const unsigned char *row = table + (size_t)i * size;
        size_t group = (size_t)row[0] << 8 | row[1];
        if (group >= (size_t)pairs || at[2 * group] == PCRE2_UNSET) {
            continue;
        }
        struct str value = str_slice(text, at[2 * group], at[2 * group + 1]);
        const char *name = (const char *)row + 2;
        bool twice =
            false; /* (?J) gives one name to several groups: the first that is set counts */
        for (size_t k = 0; k < out.count; k++) {
            twice |= strcmp(out.items[k].name, name) == 0;
        }
        if (!twice) {
            *VEC_PUSH(a, &out) = (struct capture){
                .name = arena_strdup(a, name), .value = str_dup(a, str_slice(value, 0, MAX_VALUE))};
        }
    }
    *ret_captures = out.items;
    return out.count;
}
