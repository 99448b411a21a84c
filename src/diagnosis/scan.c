// SPDX-License-Identifier: Apache-2.0
/* vectorscan in block mode over frames; databases made at build time or here. */
#include "diagnosis/scan.h"

#include <hs.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

/* In front of a serialized database, so that a stale one is noticed. */
struct db_head {
    char magic[8];
    uint64_t digest; /* of all expressions in order */
    uint64_t size;   /* bytes that follow */
};

static const char MAGIC[8] = "ASSAYHS1";

struct scanner {
    struct arena *arena;
    hs_database_t *db;
    hs_scratch_t *scratch;
    size_t pattern_count;
    bool prebuilt;
    /* the last piece of each id, so that further matches in it cost nothing */
    uint32_t *last_start;
    uint32_t *last_end;
    VEC_OF(struct scan_hit) hits;
    bool ordered;
    const char *text; /* of the frame being scanned */
    size_t size;
    uint32_t from; /* matches must end after this */
    uint32_t to;   /* and not after this */
    uint32_t piece_start;
    uint32_t piece_end;
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
    for (size_t i = 0; i < count; i++) {
        h = digest_text(h, patterns[i].regex);
    }
    for (size_t i = 0; i < scan_mark_row_count; i++) {
        h = digest_text(h, scan_mark_rows[i].regex);
        h = (h ^ (unsigned)scan_mark_rows[i].mark) * 0x100000001b3u;
    }
    return h;
}

static enum status compile(struct arena *a, const struct pattern *patterns, size_t count,
                           const hs_platform_info_t *platform, hs_database_t **ret_db,
                           struct err *err)
{
    size_t total = count + scan_mark_row_count;
    const char **regex = arena_array(a, total, sizeof *regex);
    unsigned *flags = arena_array(a, total, sizeof *flags);
    unsigned *ids = arena_array(a, total, sizeof *ids);
    for (size_t i = 0; i < total; i++) {
        bool mark = i >= count;
        regex[i] = mark ? scan_mark_rows[i - count].regex : patterns[i].regex;
        ids[i] = (unsigned)(mark ? count + scan_mark_rows[i - count].mark : i);
        flags[i] = HS_FLAG_MULTILINE;
    }
    hs_compile_error_t *why = NULL;
    hs_error_t rc = hs_compile_multi(regex, flags, ids, (unsigned)total, HS_MODE_BLOCK, platform,
                                     ret_db, &why);
    if (rc == HS_SUCCESS) {
        return ST_OK;
    }
    const char *text = why != NULL ? why->message : "no reason given";
    size_t at = why != NULL && why->expression >= 0 ? (size_t)why->expression : SIZE_MAX;
    enum status status =
        at < count ? err_set(err, ST_FORMAT, "%s: the scanner does not take the pattern '%s': %s",
                             patterns[at].where != NULL ? patterns[at].where : "pattern",
                             patterns[at].id, text)
                   : err_set(err, ST_FORMAT, "the scanner does not take the patterns: %s", text);
    hs_free_compile_error(why);
    return status;
}

enum status scan_compile(struct arena *a, const struct pattern *patterns, size_t count,
                         enum scan_platform platform, const void **ret_bytes, size_t *ret_size,
                         struct err *err)
{
    hs_platform_info_t info = {.tune = HS_TUNE_FAMILY_GENERIC,
                               .cpu_features = platform == SCAN_PLATFORM_AVX2 ? HS_CPU_FEATURES_AVX2
                                                                              : 0};
    hs_database_t *db;
    TRY(compile(a, patterns, count, &info, &db, err));
    char *bytes = NULL;
    size_t size = 0;
    hs_error_t rc = hs_serialize_database(db, &bytes, &size);
    hs_free_database(db);
    if (rc != HS_SUCCESS) {
        return err_set(err, ST_IO, "cannot serialize the scanner database: vectorscan error %d",
                       rc);
    }
    struct db_head head = {.digest = digest_of(patterns, count), .size = size};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    char *copy = arena_alloc(a, sizeof head + size);
    memcpy(copy, &head, sizeof head);
    memcpy(copy + sizeof head, bytes, size);
    (free)(bytes); /* vectorscan's own malloc */
    *ret_bytes = copy;
    *ret_size = sizeof head + size;
    return ST_OK;
}

/* The head of a made database, when it is one for the patterns of this digest. */
static bool head_fits(const void *bytes, size_t size, uint64_t digest, struct db_head *ret_head)
{
    if (bytes == NULL || size <= sizeof *ret_head) {
        return false;
    }
    memcpy(ret_head, bytes, sizeof *ret_head);
    return memcmp(ret_head->magic, MAGIC, sizeof MAGIC) == 0 && ret_head->digest == digest &&
           ret_head->size == size - sizeof *ret_head;
}

bool scan_is_for(const void *bytes, size_t size, const struct pattern *patterns, size_t count)
{
    struct db_head head;
    char *info = NULL; /* "Version: 5.4.8 Features: AVX2 Mode: BLOCK" */
    if (!head_fits(bytes, size, digest_of(patterns, count), &head) ||
        hs_serialized_database_info((const char *)bytes + sizeof head, head.size, &info) !=
            HS_SUCCESS) {
        return false;
    }
    const char *version = hs_version();
    struct str number = {.p = version, .n = strcspn(version, " ")};
    size_t at = str_find(str_of(info), "Version: ", 0);
    struct str said = at != SIZE_MAX ? str_slice(str_of(info), at + 9, at + 9 + number.n)
                                     : (struct str){0};
    bool same = str_eq(said, number);
    (free)(info); /* vectorscan's own malloc */
    return same;
}

/* A database made at build time, or NULL when it is for other patterns or another processor. */
static hs_database_t *prebuilt(const struct knowledge *k, uint64_t digest, hs_scratch_t **scratch)
{
    for (size_t i = 0; i < ARRAY_LEN(k->scanner_db); i++) {
        struct db_head head;
        const char *bytes = k->scanner_db[i].bytes;
        size_t size = k->scanner_db[i].size;
        if (!head_fits(bytes, size, digest, &head)) {
            continue;
        }
        hs_database_t *db = NULL;
        if (hs_deserialize_database(bytes + sizeof head, head.size, &db) != HS_SUCCESS) {
            continue;
        }
        if (hs_alloc_scratch(db, scratch) == HS_SUCCESS) {
            return db;
        }
        hs_free_database(db);
    }
    return NULL;
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
    s->db = prebuilt(k, digest_of(k->patterns, k->patterns_count), &s->scratch);
    s->prebuilt = s->db != NULL;
    if (s->db == NULL) {
        TRY(compile(a, k->patterns, k->patterns_count, NULL, &s->db, err));
        if (hs_alloc_scratch(s->db, &s->scratch) != HS_SUCCESS) {
            scanner_close(s);
            return err_set(err, ST_IO, "the log scanner got no memory");
        }
    }
    size_t ids = s->pattern_count + MARK_COUNT;
    s->last_start = arena_array(a, ids, sizeof *s->last_start);
    s->last_end = arena_array(a, ids, sizeof *s->last_end);
    *ret_scanner = s;
    return ST_OK;
}

void scanner_close(struct scanner *s)
{
    if (s == NULL) {
        return;
    }
    hs_free_scratch(s->scratch);
    hs_free_database(s->db);
    s->scratch = NULL;
    s->db = NULL;
}

uint32_t scanner_mark_id(const struct scanner *s, enum scan_mark mark)
{
    return (uint32_t)(s->pattern_count + mark);
}

bool scanner_is_prebuilt(const struct scanner *s)
{
    return s->prebuilt;
}

/* Sets piece_start and piece_end to the piece that holds the byte at `at`. A '\n' belongs to the
 * piece it ends. */
static void locate(struct scanner *s, uint32_t at)
{
    if (at >= s->piece_start && at <= s->piece_end && s->piece_end != 0) {
        return;
    }
    const char *before = memrchr(s->text, '\n', at);
    const char *after = memchr(s->text + at, '\n', s->size - at);
    s->piece_start = before != NULL ? (uint32_t)(before - s->text) + 1 : 0;
    s->piece_end = after != NULL ? (uint32_t)(after - s->text) : (uint32_t)s->size;
}

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                    void *ctx)
{
    (void)from;
    (void)flags;
    struct scanner *s = ctx;
    uint32_t end = (uint32_t)to;
    if (end <= s->last_end[id] && end > s->last_start[id]) {
        return 0; /* one more match in the same piece */
    }
    if (end <= s->from || end > s->to) {
        return 0;
    }
    locate(s, end - 1);
    /* last_end counts the line break too: a match may end behind it */
    s->last_start[id] = s->piece_start;
    s->last_end[id] = s->piece_end + 1;
    size_t n = s->hits.count;
    if (n != 0 &&
        (s->hits.items[n - 1].start > s->piece_start ||
         (s->hits.items[n - 1].start == s->piece_start && s->hits.items[n - 1].id >= id))) {
        s->ordered = false;
    }
    *VEC_PUSH(s->arena, &s->hits) = (struct scan_hit){
        .start = s->piece_start, .end = s->piece_end, .hit = end, .id = id};
    return 0;
}

static int by_piece(const void *a, const void *b)
{
    const struct scan_hit *x = a;
    const struct scan_hit *y = b;
    if (x->start != y->start) {
        return x->start < y->start ? -1 : 1;
    }
    if (x->id != y->id) {
        return x->id < y->id ? -1 : 1;
    }
    return (x->hit > y->hit) - (x->hit < y->hit);
}

static void order_hits(struct scanner *s)
{
    if (s->ordered) {
        return;
    }
    qsort(s->hits.items, s->hits.count, sizeof *s->hits.items, by_piece);
    size_t kept = 0;
    for (size_t i = 0; i < s->hits.count; i++) {
        const struct scan_hit *h = &s->hits.items[i];
        if (kept != 0 && s->hits.items[kept - 1].start == h->start &&
            s->hits.items[kept - 1].id == h->id) {
            continue;
        }
        s->hits.items[kept++] = *h;
    }
    s->hits.count = kept;
}

enum status scanner_run(struct scanner *s, const struct frame *frame,
                        const struct scan_hit **ret_hits, size_t *ret_count, struct err *err)
{
    size_t ids = s->pattern_count + MARK_COUNT;
    memset(s->last_start, 0, ids * sizeof *s->last_start);
    memset(s->last_end, 0, ids * sizeof *s->last_end);
    s->hits.count = 0;
    s->ordered = true;
    s->text = frame->p;
    s->size = frame->n;
    s->piece_start = 0;
    s->piece_end = 0;
    /* Of the overlap of two windows of one long piece, each window owns half. */
    size_t half = FRAME_OVERLAP / 2;
    s->from = frame->continued && frame->n > half ? (uint32_t)half : 0;
    s->to = (uint32_t)(frame->unfinished && frame->n > half ? frame->n - half : frame->n);
    hs_error_t rc = hs_scan(s->db, frame->p, (unsigned)frame->n, 0, s->scratch, on_match, s);
    if (rc != HS_SUCCESS) {
        return err_set(err, ST_IO, "the log scanner failed: vectorscan error %d", rc);
    }
    order_hits(s);
    *ret_hits = s->hits.items;
    *ret_count = s->hits.count;
    return ST_OK;
}
