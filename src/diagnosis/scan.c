// SPDX-License-Identifier: Apache-2.0
/*
 * Two engines over a frame. The sieve finds the lines that hold a needle of a pattern, at memory
 * speed; nearly all patterns have needles. vectorscan runs the rest over everything. Both give
 * candidates: lines to confirm.
 *
 * Why not vectorscan for all: with some 400 patterns of the kind people write for messages (wide
 * alternations, words like "error" and "nan") it does 0.02 to 0.15 GB/s on ordinary logs here.
 */
#include "diagnosis/scan.h"

#include <hs.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "diagnosis/confirm.h"
#include "diagnosis/digit_blind.h"
#include "diagnosis/needle.h"
#include "diagnosis/sieve.h"

/*
 * A serialized database: the head, `sets` byte sets, `needles` packed needles, the vectorscan
 * database (none when every pattern has needles). Made and read by the same build on one machine,
 * so its numbers are in memory order; a stale or damaged one is noticed and not used.
 */
struct db_head {
    char magic[8];
    uint64_t digest; /* of all expressions in order, and what else makes the needles */
    uint64_t sets;
    uint64_t needles;
    uint64_t size; /* of the vectorscan database */
};

static const char MAGIC[8] = "ASSAYDBA";

struct scanner {
    struct arena *arena;
    struct sieve *sieve;
    hs_database_t *db; /* NULL when every pattern has needles */
    hs_scratch_t *scratch;
    size_t pattern_count;
    bool prebuilt;
    struct confirm *marks; /* one pseudo pattern per row of scan_mark_rows */
    bool *blind;           /* per id */
    bool sees_shapes;
    uint32_t *found_in; /* per id: the number of the line it was last found in */
    uint32_t line;
    VEC_OF(struct scan_hit) hits;
    bool ordered;
    uint32_t from; /* matches must end after this */
    uint32_t to;   /* and not after this */
};

static uint64_t digest_text(uint64_t h, const char *z)
{
    for (; *z != '\0'; z++) {
        h = (h ^ (unsigned char)*z) * 0x100000001b3u;
    }
    return (h ^ 0xff) * 0x100000001b3u;
}

static uint64_t digest_of(const struct pattern *patterns, size_t count)
{
    uint64_t h = digest_text(0xcbf29ce484222325u, hs_version());
    size_t n;
    h = digest_text(h, needle_sample(&n)); /* needles are chosen by it */
    for (size_t i = 0; i < count; i++) {
        h = digest_text(h, patterns[i].regex);
    }
    for (size_t i = 0; i < scan_mark_row_count; i++) {
        h = digest_text(h, scan_mark_rows[i].regex);
        h = (h ^ (unsigned)scan_mark_rows[i].mark) * 0x100000001b3u;
    }
    return h;
}

static enum status hs_failure(const struct pattern *patterns, const unsigned *ids, size_t count,
                              hs_compile_error_t *why, struct err *err)
{
    const char *text = why != NULL ? why->message : "no reason given";
    size_t at = why != NULL && why->expression >= 0 ? ids[why->expression] : SIZE_MAX;
    enum status status =
        at < count ? err_set(err, ST_FORMAT, "%s: the scanner does not take the pattern '%s': %s",
                             patterns[at].where != NULL ? patterns[at].where : "pattern",
                             patterns[at].id, text)
                   : err_set(err, ST_FORMAT, "the scanner does not take the patterns: %s", text);
    hs_free_compile_error(why);
    return status;
}

/* Needles of what has any, a vectorscan database of the rest (NULL when nothing is left). */
static enum status compile(struct arena *a, const struct pattern *patterns, size_t count,
                           const hs_platform_info_t *platform, struct packed_needles *needles,
                           hs_database_t **ret_db, struct err *err)
{
    size_t total = count + scan_mark_row_count;
    const char **regex = arena_array(a, total, sizeof *regex);
    unsigned *flags = arena_array(a, total, sizeof *flags);
    unsigned *ids = arena_array(a, total, sizeof *ids);
    unsigned left = 0;
    packed_needles_init(a, needles);
    for (size_t i = 0; i < total; i++) {
        bool mark = i >= count;
        const char *text = mark ? scan_mark_rows[i - count].regex : patterns[i].regex;
        uint32_t id = (uint32_t)(mark ? count + scan_mark_rows[i - count].mark : i);
        struct arena *scratch = arena_new(0);
        struct needle_list list = {0};
        if (needles_of(scratch, text, &list)) {
            needle_list_add_hex(scratch, &list);
            packed_needles_add(a, needles, &list, id);
        } else {
            regex[left] = text;
            ids[left] = id;
            flags[left++] = HS_FLAG_MULTILINE;
        }
        arena_free(scratch);
    }
    if (needles->count > UINT16_MAX) {
        return err_set(err, ST_LIMIT, "the patterns have more than %d texts to look for",
                       UINT16_MAX);
    }
    *ret_db = NULL;
    if (left == 0) {
        return ST_OK;
    }
    hs_compile_error_t *why = NULL;
    if (hs_compile_multi(regex, flags, ids, left, HS_MODE_BLOCK, platform, ret_db, &why) !=
        HS_SUCCESS) {
        return hs_failure(patterns, ids, count, why, err);
    }
    return ST_OK;
}

enum status scan_compile(struct arena *a, const struct pattern *patterns, size_t count,
                         enum scan_platform platform, const void **ret_bytes, size_t *ret_size,
                         struct err *err)
{
    hs_platform_info_t info = {.tune = HS_TUNE_FAMILY_GENERIC,
                               .cpu_features = platform == SCAN_PLATFORM_AVX2 ? HS_CPU_FEATURES_AVX2
                                                                              : 0};
    struct packed_needles *needles = arena_alloc(a, sizeof *needles);
    hs_database_t *db;
    TRY(compile(a, patterns, count, &info, needles, &db, err));
    char *bytes = NULL;
    size_t size = 0;
    hs_error_t rc = db != NULL ? hs_serialize_database(db, &bytes, &size) : HS_SUCCESS;
    hs_free_database(db);
    if (rc != HS_SUCCESS) {
        return err_set(err, ST_IO, "cannot serialize the scanner database: vectorscan error %d",
                       rc);
    }
    struct db_head head = {.digest = digest_of(patterns, count),
                           .sets = needles->set_count,
                           .needles = needles->count,
                           .size = size};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    size_t sets_size = needles->set_count * sizeof *needles->sets;
    size_t needles_size = needles->count * sizeof *needles->items;
    char *copy = arena_alloc(a, sizeof head + sets_size + needles_size + size);
    char *at = mempcpy(copy, &head, sizeof head);
    at = mempcpy(at, needles->sets, sets_size);
    if (needles_size != 0) {
        at = mempcpy(at, needles->items, needles_size);
    }
    if (size != 0) {
        memcpy(at, bytes, size);
    }
    (free)(bytes); /* vectorscan's own malloc */
    *ret_bytes = copy;
    *ret_size = sizeof head + sets_size + needles_size + size;
    return ST_OK;
}

/* The needles of a serialized database, checked: a damaged block must not be believed. */
static struct sieve *sieve_from(struct arena *a, const struct db_head *head, const char *bytes,
                                size_t id_count)
{
    size_t sets_size = head->sets * sizeof(struct byte_set);
    size_t needles_size = head->needles * sizeof(struct packed_needle);
    struct byte_set *sets = arena_alloc(a, sets_size);
    struct packed_needle *needles = arena_alloc(a, needles_size);
    memcpy(sets, bytes, sets_size);
    memcpy(needles, bytes + sets_size, needles_size);
    for (size_t i = 0; i < head->needles; i++) {
        const struct packed_needle *n = &needles[i];
        if (n->id >= id_count || !packed_needle_is_valid(n, head->sets)) {
            return NULL;
        }
    }
    return sieve_new(a, needles, head->needles, sets, simd_best());
}

/* The head of a made database, when it is a whole one for the patterns of this digest. */
static bool head_fits(const void *block, size_t size, uint64_t digest, struct db_head *ret_head)
{
    if (block == NULL || size < sizeof *ret_head) {
        return false;
    }
    memcpy(ret_head, block, sizeof *ret_head);
    const struct db_head *h = ret_head;
    return memcmp(h->magic, MAGIC, sizeof MAGIC) == 0 && h->digest == digest &&
           h->sets <= SIEVE_SETS_MAX && h->needles <= UINT16_MAX && h->size <= size &&
           sizeof *h + h->sets * sizeof(struct byte_set) +
                   h->needles * sizeof(struct packed_needle) + h->size ==
               size;
}

bool scan_is_for(const void *bytes, size_t size, const struct pattern *patterns, size_t count)
{
    struct db_head head; /* the digest includes vectorscan's version */
    return head_fits(bytes, size, digest_of(patterns, count), &head);
}

/* Takes a database made at build time; false when it is for other patterns or another processor. */
static bool take_prebuilt(struct scanner *s, const void *block, size_t size, uint64_t digest)
{
    struct db_head head;
    if (!head_fits(block, size, digest, &head)) {
        return false;
    }
    const char *bytes = (const char *)block + sizeof head;
    hs_database_t *db = NULL;
    if (head.size != 0) {
        if (hs_deserialize_database(bytes + (size - sizeof head - head.size), head.size, &db) !=
            HS_SUCCESS) {
            return false;
        }
        if (hs_alloc_scratch(db, &s->scratch) != HS_SUCCESS) {
            hs_free_database(db);
            return false;
        }
    }
    s->sieve = sieve_from(s->arena, &head, bytes, s->pattern_count + MARK_COUNT);
    if (s->sieve == NULL) {
        hs_free_database(db);
        return false;
    }
    s->db = db;
    return true;
}

static enum status compile_here(struct scanner *s, const struct knowledge *k, struct err *err)
{
    struct packed_needles *needles = arena_alloc(s->arena, sizeof *needles);
    TRY(compile(s->arena, k->patterns, k->patterns_count, NULL, needles, &s->db, err));
    s->sieve = sieve_new(s->arena, needles->items, needles->count, needles->sets, simd_best());
    if (s->db != NULL && hs_alloc_scratch(s->db, &s->scratch) != HS_SUCCESS) {
        scanner_close(s);
        return err_set(err, ST_IO, "the log scanner got no memory");
    }
    return ST_OK;
}

/* Which ids cannot tell digits apart, and whether the sieve looks for all others. */
static void find_blind(struct scanner *s, const struct pattern *patterns)
{
    size_t ids = s->pattern_count + MARK_COUNT;
    s->blind = arena_array(s->arena, ids, sizeof *s->blind);
    for (size_t i = 0; i < ids; i++) {
        s->blind[i] = i >= s->pattern_count ||
                      (regex_is_digit_blind(patterns[i].regex) &&
                       (patterns[i].capture == NULL || regex_is_digit_blind(patterns[i].capture)));
    }
    for (size_t i = 0; i < scan_mark_row_count; i++) {
        bool *blind = &s->blind[s->pattern_count + scan_mark_rows[i].mark];
        *blind = *blind && regex_is_digit_blind(scan_mark_rows[i].regex);
    }
    s->sees_shapes = true;
    for (size_t i = 0; i < ids && s->db != NULL; i++) {
        s->sees_shapes = s->sees_shapes && (s->blind[i] || sieve_knows(s->sieve, (uint32_t)i));
    }
}

enum status scanner_open(struct arena *a, const struct knowledge *k, struct scanner **ret_scanner,
                         struct err *err)
{
    if (hs_valid_platform() != HS_SUCCESS) {
        return err_set(err, ST_UNSUPPORTED,
                       "this processor has no SSE4.2, which the log scanner needs");
    }
    struct scanner *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->pattern_count = k->patterns_count;
    uint64_t digest = digest_of(k->patterns, k->patterns_count);
    for (size_t i = 0; i < ARRAY_LEN(k->scanner_db) && !s->prebuilt; i++) {
        s->prebuilt = take_prebuilt(s, k->scanner_db[i].bytes, k->scanner_db[i].size, digest);
    }
    if (!s->prebuilt) {
        TRY(compile_here(s, k, err));
    }
    s->found_in = arena_array(a, s->pattern_count + MARK_COUNT, sizeof *s->found_in);
    find_blind(s, k->patterns);
    struct pattern *rows = arena_array(a, scan_mark_row_count, sizeof *rows);
    for (size_t i = 0; i < scan_mark_row_count; i++) {
        rows[i].regex = scan_mark_rows[i].regex;
    }
    s->marks = confirm_new(a, rows, scan_mark_row_count);
    *ret_scanner = s;
    return ST_OK;
}

bool scanner_confirm_mark(struct scanner *s, enum scan_mark mark, struct str text)
{
    for (size_t i = 0; i < scan_mark_row_count; i++) {
        if (scan_mark_rows[i].mark == mark && confirm_line(s->marks, i, text)) {
            return true;
        }
    }
    return false;
}

void scanner_close(struct scanner *s)
{
    if (s == NULL) {
        return;
    }
    hs_free_scratch(s->scratch);
    hs_free_database(s->db);
    confirm_free(s->marks);
    s->scratch = NULL;
    s->db = NULL;
    s->marks = NULL;
}

uint32_t scanner_mark_id(const struct scanner *s, enum scan_mark mark)
{
    return (uint32_t)(s->pattern_count + mark);
}

bool scanner_is_prebuilt(const struct scanner *s)
{
    return s->prebuilt;
}

bool scanner_is_blind(const struct scanner *s, uint32_t id)
{
    return s->blind[id];
}

bool scanner_sees_shapes(const struct scanner *s)
{
    return s->sees_shapes;
}

/* A match or a needle ends at `end`. */
static void on_candidate(void *ctx, uint32_t id, uint32_t end)
{
    struct scanner *s = ctx;
    if (s->found_in[id] == s->line || end <= s->from || end > s->to) {
        return;
    }
    s->found_in[id] = s->line;
    s->ordered = s->ordered && (s->hits.count == 0 || s->hits.items[s->hits.count - 1].id < id);
    *VEC_PUSH(s->arena, &s->hits) = (struct scan_hit){.hit = end, .id = (uint16_t)id};
}

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                    void *ctx)
{
    (void)from;
    (void)flags;
    on_candidate(ctx, id, (uint32_t)to);
    return 0;
}

static void order_hits(struct scanner *s)
{
    struct scan_hit *hits = s->hits.items;
    for (size_t i = 1; !s->ordered && i < s->hits.count; i++) {
        struct scan_hit h = hits[i];
        size_t k = i;
        for (; k != 0 && hits[k - 1].id > h.id; k--) {
            hits[k] = hits[k - 1];
        }
        hits[k] = h;
    }
}

enum status scanner_line(struct scanner *s, struct str line, const char *shape, size_t from,
                         size_t to, struct scan_hit **ret_hits, size_t *ret_count, struct err *err)
{
    if (++s->line == 0) { /* the numbers begin anew */
        memset(s->found_in, 0, (s->pattern_count + MARK_COUNT) * sizeof *s->found_in);
        s->line = 1;
    }
    s->hits.count = 0;
    s->ordered = true;
    s->from = (uint32_t)from;
    s->to = (uint32_t)to;
    sieve_run(s->sieve, shape, line.n, on_candidate, s);
    hs_error_t rc = s->db != NULL
                        ? hs_scan(s->db, line.p, (unsigned)line.n, 0, s->scratch, on_match, s)
                        : HS_SUCCESS;
    if (rc != HS_SUCCESS) {
        return err_set(err, ST_IO, "the log scanner failed: vectorscan error %d", rc);
    }
    order_hits(s);
    *ret_hits = s->hits.items;
    *ret_count = s->hits.count;
    return ST_OK;
}
