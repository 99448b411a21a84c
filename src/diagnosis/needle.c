// SPDX-License-Identifier: Apache-2.0
/*
 * Needles of a regular expression, by walking over its syntax once. The grammar is what vectorscan
 * takes: literals, classes, groups, alternation, quantifiers, anchors, \b. Start at needles_of().
 */
#include "diagnosis/needle.h"

#include <ctype.h>
#include <string.h>

#include "base/vec.h"

enum {
    EXACT_MAX = 192,
    CLASS_AS_TEXT = 4,
    DEPTH_MAX = 40
};

/* One text that a part of the expression stands for exactly. */
struct text {
    unsigned char p[NEEDLE_MAX];
    uint8_t n;
    bool bound; /* a \b stands behind it */
};

struct texts {
    struct text items[EXACT_MAX];
    size_t count;
};

/* What is known of a part. */
struct part {
    bool exact; /* it matches exactly one of `texts` */
    struct texts texts;
    struct texts head; /* when not exact: what a match begins with, one of these; none: unknown */
    struct texts tail; /* and ends with */
    bool is_class;     /* it matches one byte of `set` */
    struct byte_set set;
    bool has_needles; /* every match contains one of these */
    struct needle_list needles;
    double cost;
};

struct parser {
    struct arena *arena;
    const char *p;
    int depth;
    bool failed; /* syntax that is not understood: the whole requires nothing */
};

static const struct byte_set every_byte = {{~0ull, ~0ull, ~0ull, ~0ull}};

static void set_add(struct byte_set *s, unsigned char c)
{
    s->bits[c >> 6] |= 1ull << (c & 63);
}

static void set_invert(struct byte_set *s)
{
    for (int i = 0; i < 4; i++) {
        s->bits[i] = ~s->bits[i];
    }
}

static bool is_word(unsigned char c)
{
    return c == '_' || (c < 128 && isalnum(c));
}

static struct byte_set class_of(char letter)
{
    struct byte_set s = {{0}};
    for (int c = 0; c < 256; c++) {
        bool in = false;
        switch (tolower((unsigned char)letter)) {
        case 'd': in = c >= '0' && c <= '9'; break;
        case 'w': in = is_word((unsigned char)c); break;
        case 's': in = c == ' ' || (c >= '\t' && c <= '\r'); break;
        default: break;
        }
        if (in) {
            set_add(&s, (unsigned char)c);
        }
    }
    if (isupper((unsigned char)letter)) {
        set_invert(&s);
    }
    return s;
}

/* Letters stand for both cases: needles are folded, the pattern may be too. */
static void set_add_folded(struct byte_set *s, unsigned char c)
{
    set_add(s, c);
    if (isalpha(c)) {
        set_add(s, c ^ 0x20);
    }
}

/* A set that has one digit has '0', which stands for all of them; one that has a hexadecimal digit has
 * '1', which may stand for it. */
static void set_close_digits(struct byte_set *s)
{
    const uint64_t digits = 0x3ffull << '0';
    const uint64_t letters = 0x3full << ('a' - 64);
    if ((s->bits[0] & digits) != 0) {
        set_add(s, '0');
    }
    if ((s->bits[0] & digits) != 0 || (s->bits[1] & letters) != 0) {
        set_add(s, '1');
    }
}

static void part_text(struct part *out, unsigned char c)
{
    *out = (struct part){.exact = true};
    out->texts.count = 1;
    out->texts.items[0].p[0] = needle_fold(c);
    out->texts.items[0].n = 1;
    set_add_folded(&out->set, c);
    set_close_digits(&out->set);
    out->is_class = true;
}

/* A class of few bytes is that many texts; folding can make bytes equal (all digits are one). */
static void part_class(struct part *out, const struct byte_set *set)
{
    *out = (struct part){.is_class = true, .set = *set};
    set_close_digits(&out->set);
    struct texts t = {.count = 0};
    for (int c = 0; c < 256; c++) {
        if (!byte_set_has(set, (unsigned char)c)) {
            continue;
        }
        unsigned char folded = needle_fold((unsigned char)c);
        bool known = false;
        for (size_t i = 0; i < t.count; i++) {
            known |= t.items[i].p[0] == folded;
        }
        if (known) {
            continue;
        }
        if (t.count == CLASS_AS_TEXT) {
            return;
        }
        t.items[t.count].p[0] = folded;
        t.items[t.count++].n = 1;
    }
    out->exact = t.count != 0;
    out->texts = t;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? tolower(c) - 'a' + 10 : -1;
}

/* The byte an escape stands for (parser behind the letter), or -1. */
static int escaped_byte(struct parser *s, char c)
{
    if (c == 'x' && hex_digit(s->p[0]) >= 0 && hex_digit(s->p[1]) >= 0) {
        int v = hex_digit(s->p[0]) * 16 + hex_digit(s->p[1]);
        s->p += 2;
        return v;
    }
    static const char letters[] = "ntrfae";
    static const char bytes[] = "\n\t\r\f\a\033";
    const char *at = strchr(letters, c);
    if (c != '\0' && at != NULL) {
        return (unsigned char)bytes[at - letters];
    }
    return isalnum((unsigned char)c) || c == '\0' ? -1 : (unsigned char)c;
}

/* One member of a class: a byte, or a whole class through *ret_set (then -1); -2 for a failure. */
static int class_member(struct parser *s, struct byte_set *set, struct byte_set *plain)
{
    if (*s->p != '\\') {
        return (unsigned char)*s->p++;
    }
    char c = s->p[1];
    s->p += 2;
    if (c != '\0' && strchr("dDwWsS", c) != NULL) {
        struct byte_set more = class_of(c);
        for (int i = 0; i < 4; i++) {
            set->bits[i] |= more.bits[i];
            plain->bits[i] |= more.bits[i];
        }
        return -1;
    }
    if (c == 'b') {
        return '\b';
    }
    int v = escaped_byte(s, c);
    return v < 0 ? -2 : v;
}

static void parse_class(struct parser *s, struct part *out)
{
    struct byte_set set = {{0}};
    struct byte_set plain = {{0}}; /* members as written, for the complement */
    bool negated = *s->p == '^';
    s->p += negated;
    for (bool first = true; *s->p != ']' || first; first = false) {
        if (*s->p == '\0' || (s->p[0] == '[' && s->p[1] == ':')) {
            s->failed = true;
            return;
        }
        int low = class_member(s, &set, &plain);
        int high = low;
        if (low == -2) {
            s->failed = true;
            return;
        }
        if (low >= 0 && s->p[0] == '-' && s->p[1] != ']' && s->p[1] != '\0') {
            s->p++;
            high = class_member(s, &set, &plain);
            if (high < low) {
                s->failed = true;
                return;
            }
        }
        for (int c = low; c >= 0 && c <= high; c++) {
            set_add_folded(&set, (unsigned char)c);
            set_add(&plain, (unsigned char)c);
        }
    }
    s->p++;
    if (negated) { /* without a case-insensitive flag the complement of what is written; with one, less */
        set = plain;
        set_invert(&set);
    }
    part_class(out, &set);
}

static double list_cost(const struct needle_list *l)
{
    double cost = 0;
    for (size_t i = 0; i < l->count; i++) {
        cost += needle_commonness(&l->items[i]);
    }
    return cost;
}

static void offer(struct part *best, const struct needle_list *l)
{
    double cost = list_cost(l);
    if (l->count != 0 && l->count <= NEEDLE_SET_MAX && (!best->has_needles || cost < best->cost)) {
        best->has_needles = true;
        best->needles = *l;
        best->cost = cost;
    }
}

/* A sequence while it is read. */
struct sequence {
    struct texts now;       /* exact text since the last thing that is not */
    struct byte_set before; /* what stands in front of it */
    bool word_start;        /* \b in front */
    bool plain;             /* nothing but exact text in the whole sequence */
    bool begun;             /* `head` is known */
    struct texts head;
    struct part best;
};

/* The exact text is over; another begins. */
static void sequence_restart(struct sequence *q, const struct byte_set *before)
{
    if (!q->begun) {
        q->head = q->now;
        q->begun = true;
    }
    q->now = (struct texts){.count = 1};
    q->before = *before;
    q->word_start = false;
}

/* The exact text ends; one byte of `after` follows. */
static void sequence_close(struct parser *s, struct sequence *q, const struct byte_set *after)
{
    struct needle_list l = {0};
    struct byte_set not_word = class_of('W');
    for (size_t i = 0; i < q->now.count; i++) {
        const struct text *t = &q->now.items[i];
        if (t->n < NEEDLE_MIN) {
            return;
        }
        struct needle *n = VEC_PUSH(s->arena, &l);
        *n = (struct needle){.n = t->n, .before = q->before, .after = *after};
        memcpy(n->text, t->p, t->n);
        if (q->word_start && isalnum(t->p[0])) {
            n->before = not_word;
        }
        if (t->bound && isalnum(t->p[t->n - 1])) {
            n->after = not_word;
        }
    }
    offer(&q->best, &l);
}

/* q->now x more; false when it would be too many or too long. */
static bool append(struct texts *now, const struct texts *more, bool optional)
{
    struct texts out = {.count = 0};
    for (size_t i = 0; i < now->count; i++) {
        for (size_t k = 0; k < more->count + optional; k++) {
            if (out.count == EXACT_MAX) {
                return false;
            }
            struct text *t = &out.items[out.count++];
            *t = now->items[i];
            if (k < more->count) {
                const struct text *m = &more->items[k];
                if (t->n + m->n > NEEDLE_MAX) {
                    return false;
                }
                memcpy(t->p + t->n, m->p, m->n);
                t->n = (uint8_t)(t->n + m->n);
                t->bound = m->n != 0 ? m->bound : t->bound;
            }
        }
    }
    *now = out;
    return true;
}

/* How often the part before may come: *ret_min and whether more than once. */
static void parse_quantifier(struct parser *s, unsigned *ret_min, bool *ret_many)
{
    *ret_min = 1;
    *ret_many = false;
    char c = *s->p;
    if (c == '*' || c == '+' || c == '?') {
        s->p++;
        *ret_min = c == '+';
        *ret_many = c != '?';
    } else if (c == '{' && isdigit((unsigned char)s->p[1])) {
        unsigned min = 0;
        for (s->p++; isdigit((unsigned char)*s->p); s->p++) {
            min = min < 1000 ? min * 10 + (unsigned)(*s->p - '0') : min;
        }
        *ret_min = min;
        *ret_many = !(min == 1 && *s->p == '}');
        while (*s->p != '\0' && *s->p != '}') {
            s->p++;
        }
        s->p += *s->p == '}';
    } else {
        return;
    }
    s->p += *s->p == '?' || *s->p == '+'; /* lazy, possessive */
}

static void sequence_add(struct parser *s, struct sequence *q, const struct part *part,
                         unsigned min, bool many)
{
    bool once = min == 1 && !many;
    bool maybe = min == 0 && !many;
    if (part->exact && (once || maybe)) {
        struct texts grown = q->now;
        if (append(&grown, &part->texts, maybe)) {
            q->now = grown;
            return;
        }
        sequence_close(s, q, &every_byte);
        sequence_restart(q, &every_byte);
        q->plain = false;
        if (once) {
            q->now = part->texts;
        }
        return;
    }
    q->plain = false;
    if (min == 0) {
        sequence_close(s, q, &every_byte);
        sequence_restart(q, &every_byte);
        return;
    }
    if (part->exact) { /* "!{8,}", "\d+": so many of them stand there, and one before what follows */
        bool whole = true;
        for (unsigned i = 0; whole && i < min && i < 8; i++) {
            whole = append(&q->now, &part->texts, false);
        }
        sequence_close(s, q, &every_byte);
        sequence_restart(q, &every_byte);
        q->now = part->texts;
        return;
    }
    if (part->is_class) {
        sequence_close(s, q, &part->set);
        sequence_restart(q, &part->set);
        return;
    }
    sequence_close(s, q, &every_byte);
    if (part->head.count != 0 && append(&q->now, &part->head, false)) {
        sequence_close(s, q, &every_byte);
    }
    sequence_restart(q, &every_byte);
    if (part->tail.count != 0) {
        q->now = part->tail;
    }
    if (part->has_needles) {
        offer(&q->best, &part->needles);
    }
}

static void parse_alternatives(struct parser *s, struct part *out);

/* Behind '(': a group. Sets s->failed for what is not understood. */
static void parse_group(struct parser *s, struct part *out)
{
    if (s->p[0] == '?') {
        const char *q = s->p + 1;
        if (*q == 'P') {
            q++;
        }
        if (*q == '<' && q[1] != '=' && q[1] != '!') { /* a name */
            q = strchr(q, '>');
            if (q == NULL) {
                s->failed = true;
                return;
            }
            s->p = q + 1;
        } else {
            q = s->p + 1;
            while (*q == 'i' || *q == '-' || *q == 'm') {
                q++;
            }
            if (*q == ')') { /* (?i): folding makes it void here */
                s->p = q + 1;
                *out = (struct part){.exact = true};
                out->texts.count = 1;
                return;
            }
            if (*q != ':') {
                s->failed = true;
                return;
            }
            s->p = q + 1;
        }
    }
    parse_alternatives(s, out);
    if (*s->p != ')') {
        s->failed = true;
        return;
    }
    s->p++;
}

/* A part without its quantifier; false for what has no width (then it is dealt with already). */
static bool parse_part(struct parser *s, struct sequence *q, struct part *out)
{
    char c = *s->p++;
    struct byte_set newline = {{0}};
    set_add(&newline, '\n');
    switch (c) {
    case '(': parse_group(s, out); return true;
    case '[': parse_class(s, out); return true;
    case '.': {
        struct byte_set any = newline;
        set_invert(&any);
        part_class(out, &any);
        return true;
    }
    case '^':
        q->plain = false;
        sequence_close(s, q, &every_byte);
        sequence_restart(q, &newline);
        return false;
    case '$':
        q->plain = false;
        sequence_close(s, q, &newline);
        sequence_restart(q, &every_byte);
        return false;
    case '\\': break;
    default: part_text(out, (unsigned char)c); return true;
    }
    c = *s->p++;
    if (c == 'b') {
        q->plain = false;
        q->word_start |= q->now.count == 1 && q->now.items[0].n == 0;
        for (size_t i = 0; i < q->now.count; i++) {
            q->now.items[i].bound = true;
        }
        return false;
    }
    if (c != '\0' && strchr("dDwWsS", c) != NULL) {
        struct byte_set set = class_of(c);
        part_class(out, &set);
        return true;
    }
    int v = escaped_byte(s, c);
    if (v < 0) {
        s->failed = true;
        return false;
    }
    part_text(out, (unsigned char)v);
    return true;
}

static void parse_sequence(struct parser *s, struct part *out)
{
    struct sequence *q = arena_alloc(s->arena, sizeof *q);
    struct part *part = arena_alloc(s->arena, sizeof *part);
    q->plain = true;
    q->begun = true; /* this restart begins it */
    sequence_restart(q, &every_byte);
    q->begun = false;
    while (*s->p != '\0' && *s->p != '|' && *s->p != ')' && !s->failed) {
        unsigned min;
        bool many;
        if (parse_part(s, q, part) && !s->failed) {
            parse_quantifier(s, &min, &many);
            sequence_add(s, q, part, min, many);
        }
    }
    sequence_close(s, q, &every_byte);
    *out = q->best;
    out->exact = q->plain;
    out->texts = q->now;
    out->head = q->begun ? q->head : q->now;
    out->tail = q->now;
}

/* More texts into the union; none at all when they are too many or unknown. */
static void join(struct texts *all, const struct texts *more, bool first)
{
    if (more->count == 0 || (!first && all->count == 0) || all->count + more->count > EXACT_MAX) {
        all->count = 0;
        return;
    }
    memcpy(all->items + all->count, more->items, more->count * sizeof *more->items);
    all->count += more->count;
}

static void parse_alternatives(struct parser *s, struct part *out)
{
    if (++s->depth > DEPTH_MAX) {
        s->failed = true;
        return;
    }
    struct part *all = arena_alloc(s->arena, sizeof *all);
    struct part *one = arena_alloc(s->arena, sizeof *one);
    all->exact = true;
    all->has_needles = true;
    bool first = true;
    for (bool more = true; more && !s->failed; first = false) {
        *one = (struct part){0};
        parse_sequence(s, one);
        join(&all->head, &one->head, first);
        join(&all->tail, &one->tail, first);
        all->exact = all->exact && one->exact && all->texts.count + one->texts.count <= EXACT_MAX;
        for (size_t i = 0; all->exact && i < one->texts.count; i++) {
            all->texts.items[all->texts.count++] = one->texts.items[i];
        }
        all->has_needles = all->has_needles && one->has_needles &&
                           all->needles.count + one->needles.count <= NEEDLE_SET_MAX;
        for (size_t i = 0; all->has_needles && i < one->needles.count; i++) {
            *VEC_PUSH(s->arena, &all->needles) = one->needles.items[i];
        }
        more = *s->p == '|';
        s->p += more;
    }
    s->depth--;
    all->cost = list_cost(&all->needles);
    *out = *all;
}

bool needles_of(struct arena *a, const char *regex, struct needle_list *ret_needles)
{
    struct parser s = {.arena = a, .p = regex};
    struct part *whole = arena_alloc(a, sizeof *whole);
    parse_alternatives(&s, whole);
    if (s.failed || *s.p != '\0' || !whole->has_needles || whole->needles.count == 0) {
        return false;
    }
    *ret_needles = whole->needles;
    return true;
}
