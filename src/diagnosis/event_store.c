// SPDX-License-Identifier: Apache-2.0
/* Keeping events; see event_store.h. */
#include "diagnosis/event_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* A kept event of the last ones, overwritten in turn: its text lives in a buffer of its own, its
 * captures are taken when somebody asks. */
struct slot {
    bool late; /* `event` and the text are still to be made of `line`: most are replaced before */
    struct bare_line line;
    struct event event;
    size_t text_n;
    char text[EVENT_TEXT_MAX + 1]; /* text_n bytes, NULs among them as they may be */
    uint64_t sequence;
};

struct bucket {
    const struct pattern *pattern;
    struct event_count total;
    struct event *first; /* EVENTS_FIRST */
    uint64_t *first_sequence;
    size_t first_count;
    struct slot *last; /* EVENTS_LAST, a ring */
    bool late;         /* some of them are */
    bool synthetic;
};

struct event_store {
    struct arena *arena;
    const struct pattern *patterns;
    size_t pattern_count;
    struct bucket *buckets; /* one per pattern */
    VEC_OF(struct bucket) synthetic;
    struct bucket **late; /* `late_count` of the patterns' buckets */
    size_t late_count;
    struct confirm *confirm;
    const struct error_table *errors;
    uint64_t sequence;
    uint64_t fresh_from;
};

struct event_store *event_store_new(struct arena *a, const struct pattern *patterns, size_t count,
                                    const struct error_table *errors)
{
    struct event_store *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->patterns = patterns;
    s->pattern_count = count;
    s->errors = errors;
    s->buckets = arena_array(a, count, sizeof *s->buckets);
    s->late = arena_array(a, count, sizeof(struct bucket *));
    for (size_t i = 0; i < count; i++) {
        s->buckets[i].pattern = &patterns[i];
    }
    s->confirm = confirm_new(a, patterns, count);
    return s;
}

void event_store_free(struct event_store *s)
{
    if (s != NULL) {
        confirm_free(s->confirm);
    }
}

bool event_store_confirm(struct event_store *s, size_t pattern, const struct line_context *line)
{
    return confirm_line(s->confirm, pattern, line->window);
}

/* The line as it is shown: all of it, or EVENT_TEXT_MAX bytes around the hit. */
static struct str shown_text(const struct line_context *line)
{
    struct str t = line->piece.text;
    if (t.n <= EVENT_TEXT_MAX) {
        return t;
    }
    size_t from = line->hit > EVENT_TEXT_MAX * 3 / 4 ? line->hit - EVENT_TEXT_MAX * 3 / 4 : 0;
    from = from + EVENT_TEXT_MAX > t.n ? t.n - EVENT_TEXT_MAX : from;
    while (from != 0 && from < t.n && ((unsigned char)t.p[from] & 0xc0) == 0x80) {
        from++; /* never start inside a UTF-8 character */
    }
    return str_slice(t, from, from + EVENT_TEXT_MAX);
}

void kept_line_set(struct kept_line *k, const struct line_context *line)
{
    struct str text = shown_text(line);
    k->line = *line;
    memcpy(k->text, text.p, text.n);
    k->line.piece.text = (struct str){.p = k->text, .n = text.n};
    k->line.window = k->line.piece.text;
    k->line.hit = text.n;
    k->line.prefix.body = k->line.piece.text; /* the prefix is not needed again */
}

static void copy_text(char *to, struct str text)
{
    memcpy(to, text.p, text.n);
    to[text.n] = '\0';
    for (size_t at = 0; (at = str_find_char(text, '\0', at)) != SIZE_MAX; at++) {
        to[at] = ' '; /* looked for in the original: the copy is not to be read back yet */
    }
}

static struct event event_of(const struct pattern *pattern, const struct line_context *line)
{
    return (struct event){.pattern = pattern,
                          .source = line->source,
                          .line = line->piece.line,
                          .offset = line->piece.offset,
                          .time = line->prefix.time,
                          .rank = line->rank,
                          .file = line->file,
                          .clock = (int)line->prefix.clock,
                          .moment = line->moment};
}

/* The slot of event number `n`. */
static struct slot *next_slot(const struct event_store *s, struct bucket *b, uint64_t n)
{
    struct slot *slot = &b->last[(n - EVENTS_FIRST) % EVENTS_LAST];
    slot->sequence = s->sequence;
    slot->late = false;
    return slot;
}

/* The place for the next event of a bucket; *ret_sequence is where its sequence number goes. */
static struct event *place(struct event_store *s, struct bucket *b, const struct line_context *line)
{
    uint64_t n = b->total.count++;
    struct str text = shown_text(line);
    s->sequence++;
    if (n < EVENTS_FIRST) {
        if (b->first == NULL) {
            b->first = arena_array(s->arena, EVENTS_FIRST, sizeof *b->first);
            b->first_sequence = arena_array(s->arena, EVENTS_FIRST, sizeof *b->first_sequence);
        }
        struct event *e = &b->first[b->first_count];
        b->first_sequence[b->first_count++] = s->sequence;
        *e = event_of(b->pattern, line);
        char *copy = arena_alloc(s->arena, text.n + 1);
        copy_text(copy, text);
        e->text = copy;
        return e;
    }
    if (b->last == NULL) {
        b->last = arena_array(s->arena, EVENTS_LAST, sizeof *b->last);
    }
    struct slot *slot = next_slot(s, b, n);
    slot->event = event_of(b->pattern, line);
    slot->text_n = text.n;
    copy_text(slot->text, text);
    slot->event.text = slot->text;
    return &slot->event;
}

void event_store_hit(struct event_store *s, size_t pattern, const struct line_context *line)
{
    struct bucket *b = &s->buckets[pattern];
    bool early = b->total.count < EVENTS_FIRST;
    struct event *e = place(s, b, line);
    if (early) { /* of the others, captures are taken at the end */
        e->capture_count = confirm_captures(s->confirm, pattern, line->window, s->arena,
                                            &e->captures);
        e->explain = error_explain(s->errors, s->arena, str_of(e->text));
    }
}

bool event_store_hit_again(struct event_store *s, size_t pattern, const struct bare_line *line)
{
    struct bucket *b = &s->buckets[pattern];
    if (b->last == NULL || line->piece.text.n > EVENT_TEXT_MAX) {
        return false;
    }
    s->sequence++;
    struct slot *slot = next_slot(s, b, b->total.count++);
    slot->late = true;
    slot->line = *line;
    if (!b->late) {
        b->late = true;
        s->late[s->late_count++] = b;
    }
    return true;
}

static void settle(const struct bucket *b, struct slot *slot)
{
    const struct bare_line *line = &slot->line;
    slot->late = false;
    slot->event = (struct event){.pattern = b->pattern,
                                 .source = line->source,
                                 .line = line->piece.line,
                                 .offset = line->piece.offset,
                                 .time = NAN,
                                 .rank = line->rank,
                                 .file = line->file,
                                 .moment = line->moment};
    slot->text_n = line->piece.text.n;
    memcpy(slot->text, line->piece.text.p, slot->text_n);
}

void event_store_settle(struct event_store *s)
{
    for (; s->late_count != 0; s->late_count--) {
        struct bucket *b = s->late[s->late_count - 1];
        b->late = false;
        for (size_t i = 0; i < EVENTS_LAST; i++) {
            if (b->last[i].late) {
                settle(b, &b->last[i]);
            }
        }
    }
}

static struct bucket *synthetic_bucket(struct event_store *s, const struct pattern *p)
{
    for (size_t i = 0; i < s->synthetic.count; i++) {
        if (s->synthetic.items[i].pattern == p) {
            return &s->synthetic.items[i];
        }
    }
    struct bucket *b = VEC_PUSH(s->arena, &s->synthetic);
    *b = (struct bucket){.pattern = p, .synthetic = true};
    return b;
}

void event_store_add(struct event_store *s, const struct pattern *synthetic,
                     const struct line_context *where, const struct capture *captures, size_t count)
{
    struct bucket *b = synthetic_bucket(s, synthetic);
    /* Beyond the first ones a few bytes per event stay on the arena: stop at a generous number. */
    bool keep = b->total.count < 10000;
    struct event *e = place(s, b, where);
    e->captures = NULL;
    e->capture_count = 0;
    if (!keep) {
        return;
    }
    struct capture *copy = arena_array(s->arena, count, sizeof *copy);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (captures[i].value != NULL && captures[i].value[0] != '\0') {
            copy[n++] = (struct capture){.name = captures[i].name,
                                         .value = arena_strdup(s->arena, captures[i].value)};
        }
    }
    e->captures = copy;
    e->capture_count = n;
    e->explain = error_explain(s->errors, s->arena, str_of(e->text));
}

struct sortable {
    struct event event;
    uint64_t sequence;
    int group;
};

static void collect(struct event_store *s, struct bucket *b, struct arena *a,
                    struct sortable **items, size_t *count, size_t *capacity)
{
    VEC_OF(struct sortable) v = {.items = *items, .count = *count, .capacity = *capacity};
    for (size_t i = 0; i < b->first_count; i++) {
        *VEC_PUSH(a, &v) = (struct sortable){.event = b->first[i],
                                             .sequence = b->first_sequence[i]};
    }
    uint64_t more = b->total.count > EVENTS_FIRST ? b->total.count - EVENTS_FIRST : 0;
    for (size_t i = 0; i < EVENTS_LAST && i < more; i++) {
        struct slot *slot = &b->last[i];
        struct event e = slot->event;
        char *copy = arena_alloc(a, slot->text_n + 1);
        copy_text(copy, (struct str){.p = slot->text, .n = slot->text_n});
        e.text = copy;
        if (!b->synthetic) {
            size_t index = (size_t)(b->pattern - s->patterns);
            e.capture_count = confirm_captures(s->confirm, index, str_of(e.text), a, &e.captures);
            e.explain = error_explain(s->errors, a, str_of(e.text));
        }
        *VEC_PUSH(a, &v) = (struct sortable){.event = e, .sequence = slot->sequence};
    }
    *items = v.items;
    *count = v.count;
    *capacity = v.capacity;
}

static int by_order(const void *a, const void *b)
{
    const struct sortable *x = a;
    const struct sortable *y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    double tx = isnan(x->event.moment) ? -INFINITY : x->event.moment;
    double ty = isnan(y->event.moment) ? -INFINITY : y->event.moment;
    if (x->event.file != y->event.file && (tx < ty || tx > ty)) {
        return tx < ty ? -1 : 1;
    }
    if (x->event.file != y->event.file) {
        return x->event.file < y->event.file ? -1 : 1;
    }
    if (x->event.offset != y->event.offset) {
        return x->event.offset < y->event.offset ? -1 : 1;
    }
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/*
 * Files whose lines carry wall-clock times form one group, merged by time, at the place of the
 * first of them; every other file is a group of its own. Within a file the order of lines rules,
 * and `moment` never falls, so that the order is total.
 */
static void group_files(struct arena *a, struct sortable *items, size_t count)
{
    int files = 0;
    for (size_t i = 0; i < count; i++) {
        files = items[i].event.file >= files ? items[i].event.file + 1 : files;
    }
    bool *timed = arena_array(a, (size_t)files, sizeof *timed);
    int first_timed = files;
    for (size_t i = 0; i < count; i++) {
        const struct event *e = &items[i].event;
        if (e->clock == CLOCK_WALL) {
            timed[e->file] = true;
            first_timed = e->file < first_timed ? e->file : first_timed;
        }
    }
    for (size_t i = 0; i < count; i++) {
        int file = items[i].event.file;
        items[i].group = timed[file] ? first_timed : file;
    }
}

static void put_count(struct event_store *s, struct log_facts *lf, const struct bucket *b)
{
    if (b->total.count == 0) {
        return;
    }
    struct event_count *c = map_get(lf->counts, str_of(b->pattern->id));
    if (c == NULL) {
        c = arena_alloc(s->arena, sizeof *c);
        map_put(lf->counts, str_of(b->pattern->id), c);
    }
    c->count += b->total.count; /* one id can have several synthetic patterns */
}

void event_store_finish(struct event_store *s, struct log_facts *lf)
{
    struct sortable *items = NULL;
    size_t count = 0;
    size_t capacity = 0;
    lf->counts = map_new(s->arena);
    for (size_t i = 0; i < s->pattern_count; i++) {
        collect(s, &s->buckets[i], s->arena, &items, &count, &capacity);
        put_count(s, lf, &s->buckets[i]);
    }
    for (size_t i = 0; i < s->synthetic.count; i++) {
        collect(s, &s->synthetic.items[i], s->arena, &items, &count, &capacity);
        put_count(s, lf, &s->synthetic.items[i]);
    }
    if (count != 0) {
        group_files(s->arena, items, count);
        qsort(items, count, sizeof *items, by_order);
    }
    lf->events = (struct event_list){
        .items = arena_array(s->arena, count, sizeof *lf->events.items), .count = count};
    for (size_t i = 0; i < count; i++) {
        lf->events.items[i] = items[i].event;
        lf->events.items[i].order = (int64_t)i;
    }
}

static int by_sequence(const void *a, const void *b)
{
    const struct sortable *x = a;
    const struct sortable *y = b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

size_t event_store_fresh(struct event_store *s, struct arena *a, const struct event ***ret_events)
{
    VEC_OF(struct sortable) found = {0};
    size_t buckets = s->pattern_count + s->synthetic.count;
    for (size_t i = 0; i < buckets; i++) {
        const struct bucket *b = i < s->pattern_count ? &s->buckets[i]
                                                      : &s->synthetic.items[i - s->pattern_count];
        for (size_t k = 0; k < b->first_count; k++) {
            if (b->first_sequence[k] > s->fresh_from) {
                *VEC_PUSH(a, &found) = (struct sortable){.event = b->first[k],
                                                         .sequence = b->first_sequence[k]};
            }
        }
    }
    s->fresh_from = s->sequence;
    if (found.count == 0) {
        return 0;
    }
    qsort(found.items, found.count, sizeof *found.items, by_sequence);
    const struct event **out = arena_array(a, found.count, sizeof *out);
    for (size_t i = 0; i < found.count; i++) {
        out[i] = &found.items[i].event;
    }
    *ret_events = out;
    return found.count;
}
