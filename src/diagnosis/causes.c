// SPDX-License-Identifier: Apache-2.0
/* The cause model. Start at diagnose(). */
#include "diagnosis/causes.h"

#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

#include "diagnosis/log_machine.h"
#include "diagnosis/scope.h"

enum {
    STANDS = 50, /* score from which a cause stands */
    CLOSE = 20,  /* two causes whose scores differ by less are named as open */
    MAX_UNKNOWN = 12,
    MAX_SECONDARY = 12,
    MAX_EVIDENCE = 12
};

/* From the metal upwards: the order in which equal scores are taken. */
static const char *const layer_order[] = {
    "hardware",     "firmware",  "kernel-driver", "environment",        "runtime",
    "math-library", "framework", "extension",     "application-config", "data"};

struct candidate {
    const struct cause *cause;
    int score;
    bool taken;
    bool stood; /* stood before anything was explained away */
};

struct judging {
    struct arena *arena;
    const struct knowledge *k;
    struct scope scope;
    struct candidate *candidates;
    struct map *claimed; /* pattern ids that some standing cause rests on or explains */
    struct diagnosis *out;
};

static size_t layer_rank(const char *layer)
{
    size_t i = 0;
    while (i < ARRAY_LEN(layer_order) && strcmp(layer_order[i], layer) != 0) {
        i++;
    }
    return i;
}

static bool is_true(struct judging *j, const struct expr *e)
{
    return scope_truth(&j->scope, e) == TRUTH_TRUE;
}

/* A clause that rests on what the log says by itself, not only beside something else. */
static bool is_anchor(const struct clause *c)
{
    return expr_has_event(c->when) && !c->with_event;
}

static int score_of(struct judging *j, const struct cause *c)
{
    if (c->require != NULL && !is_true(j, c->require)) {
        return 0;
    }
    int anchored = 0;
    int beside = 0;
    bool has_anchor = false;
    for (size_t i = 0; i < c->because.count; i++) {
        const struct clause *b = &c->because.items[i];
        if (!is_true(j, b->when)) {
            continue;
        }
        has_anchor = has_anchor || is_anchor(b);
        *(b->with_event ? &beside : &anchored) += b->weight;
    }
    int score = anchored + (has_anchor ? beside : 0);
    score = score < 100 ? score : 100;
    for (size_t i = 0; i < c->against.count; i++) {
        if (score > 0 && is_true(j, c->against.items[i].when)) {
            score -= c->against.items[i].weight;
        }
    }
    return score > 0 ? score : 0;
}

/* Order of the first event that a cause rests on; INT64_MAX when it rests on none. */
struct earliest {
    const struct scope *scope;
    int64_t order;
};

static void note_order(void *ctx, const char *pattern_id)
{
    struct earliest *e = ctx;
    int64_t order = e->scope->expr.event_order(e->scope->expr.ctx, pattern_id);
    if (order >= 0 && order < e->order) {
        e->order = order;
    }
}

static int64_t first_order(struct judging *j, const struct cause *c)
{
    struct earliest e = {.scope = &j->scope, .order = INT64_MAX};
    for (size_t i = 0; i < c->because.count; i++) {
        if (is_true(j, c->because.items[i].when)) {
            expr_each_event(c->because.items[i].when, note_order, &e);
        }
    }
    return e.order;
}

static bool goes_before(struct judging *j, const struct candidate *a, const struct candidate *b)
{
    if (a->score != b->score) {
        return a->score > b->score;
    }
    size_t la = layer_rank(a->cause->layer);
    size_t lb = layer_rank(b->cause->layer);
    if (la != lb) {
        return la < lb;
    }
    return first_order(j, a->cause) < first_order(j, b->cause);
}

static void claim(void *ctx, const char *pattern_id)
{
    struct judging *j = ctx;
    map_put(j->claimed, str_of(pattern_id), j);
}

/* A capital at the start of a sentence, unless the first word is a name ("hipBLASLt", "run_log"). */
static void capitalize(char *text, bool starts_sentence)
{
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    if (starts_sentence && word != 0 && (text[word] == ' ' || text[word] == ',')) {
        text[0] = (char)(text[0] - 'a' + 'A');
    }
}

/* Sentences of the clauses that count, joined, after the cause's own claim. */
static const char *claim_text(struct judging *j, const struct cause *c)
{
    struct strbuf text;
    strbuf_init(&text, j->arena, 4000);
    strbuf_addz(&text, c->claim != NULL ? c->claim : "");
    for (size_t i = 0; i < c->because.count; i++) {
        const struct clause *b = &c->because.items[i];
        if (b->text == NULL || !is_true(j, b->when) || strstr(text.p, b->text) != NULL) {
            continue;
        }
        bool starts_sentence = text.n == 0 || strchr(".!?", text.p[text.n - 1]) != NULL;
        if (text.n != 0) {
            strbuf_addz(&text, starts_sentence || text.p[text.n - 1] == ':' ? " " : "; ");
        }
        size_t at = text.n;
        strbuf_addz(&text, b->text);
        capitalize(text.p + at, starts_sentence);
    }
    return scope_fill(&j->scope, text.p);
}

static struct finding finding_of(struct judging *j, const struct candidate *c)
{
    const struct cause *cause = c->cause;
    double confidence = c->score / 100.0;
    struct finding f = {
        .id = cause->class_slug,
        .layer = cause->layer,
        .severity = SEVERITY_ERROR,
        .title = scope_fill(&j->scope, cause->title),
        .claim = claim_text(j, cause),
        .links = cause->links,
        .confidence = confidence < 0.99 ? confidence : 0.99,
    };
    j->scope.seen_evidence = map_new(j->arena);
    for (size_t i = 0; i < cause->because.count; i++) {
        const struct clause *b = &cause->because.items[i];
        if (f.evidence.count < MAX_EVIDENCE && is_true(j, b->when)) {
            scope_explain(&j->scope, b->when, &f.evidence);
        }
    }
    if (f.evidence.count > MAX_EVIDENCE) {
        f.evidence.count = MAX_EVIDENCE;
    }
    for (size_t i = 0; i < cause->remedy.count; i++) {
        const struct clause *r = &cause->remedy.items[i];
        if (r->text != NULL && (r->when == NULL || is_true(j, r->when))) {
            *VEC_PUSH(j->arena, &f.remedy) = scope_fill(&j->scope, r->text);
        }
    }
    return f;
}

static void note_once(struct judging *j, const char *text)
{
    for (size_t i = 0; i < j->out->notes.count; i++) {
        if (strcmp(j->out->notes.items[i], text) == 0) {
            return;
        }
    }
    *VEC_PUSH(j->arena, &j->out->notes) = text;
}

static void settle(struct judging *j, const struct cause *c)
{
    for (size_t i = 0; i < c->settle.count; i++) {
        const struct clause *s = &c->settle.items[i];
        if (s->text != NULL && (s->when == NULL || is_true(j, s->when))) {
            note_once(j, arena_fmt(j->arena, "to settle %s: %s", c->class_slug,
                                   scope_fill(&j->scope, s->text)));
        }
    }
}

/* Takes one cause: its finding, what it claims, what it explains away. */
static void take(struct judging *j, struct candidate *c)
{
    c->taken = true;
    *VEC_PUSH(j->arena, &j->out->causes) = finding_of(j, c);
    if (j->out->causes.count <= 2) {
        settle(j, c->cause);
    }
    for (size_t i = 0; i < c->cause->because.count; i++) {
        if (is_true(j, c->cause->because.items[i].when)) {
            expr_each_event(c->cause->because.items[i].when, claim, j);
        }
    }
    for (size_t i = 0; i < c->cause->explains.count; i++) {
        claim(j, c->cause->explains.items[i]);
        scope_hide(&j->scope, c->cause->explains.items[i]);
    }
}

static void take_causes(struct judging *j)
{
    size_t n = j->k->causes_count;
    j->candidates = arena_array(j->arena, n + 1, sizeof *j->candidates);
    for (size_t i = 0; i < n; i++) {
        j->candidates[i].cause = &j->k->causes[i];
        j->candidates[i].score = score_of(j, &j->k->causes[i]);
        j->candidates[i].stood = j->candidates[i].score >= STANDS;
    }
    for (;;) {
        struct candidate *best = NULL;
        for (size_t i = 0; i < n; i++) {
            struct candidate *c = &j->candidates[i];
            if (c->taken || !c->stood) {
                continue;
            }
            c->score = score_of(j, c->cause);
            if (c->score >= STANDS && (best == NULL || goes_before(j, c, best))) {
                best = c;
            }
        }
        if (best == NULL) {
            break;
        }
        take(j, best);
    }
}

/* Causes that stood only on what a better cause explains. */
static void list_weaker(struct judging *j)
{
    for (size_t i = 0; i < j->k->causes_count; i++) {
        const struct candidate *c = &j->candidates[i];
        if (!c->stood || c->taken || j->out->secondary.count >= MAX_SECONDARY) {
            continue;
        }
        *VEC_PUSH(j->arena, &j->out->secondary) = (struct finding){
            .id = c->cause->class_slug,
            .layer = c->cause->layer,
            .severity = SEVERITY_NOTE,
            .title = scope_fill(&j->scope, c->cause->title),
            .claim = "its evidence follows from the cause above",
            .remedy = {0},
            .confidence = c->score / 100.0,
        };
    }
}

static struct finding line_finding(struct judging *j, const struct event_refs *refs,
                                   enum severity severity)
{
    const struct event *e = refs->items[0];
    struct finding f = {.id = e->pattern->id,
                        .severity = severity,
                        .title = refs->count > 1 ? arena_fmt(j->arena, "%s (%zu times)",
                                                             e->pattern->id, refs->count)
                                                 : e->pattern->id};
    *VEC_PUSH(j->arena, &f.evidence) = (struct evidence){
        .source = e->source, .line = (long)e->line, .text = e->text};
    return f;
}

static const char *line_key(struct judging *j, const struct event *e)
{
    return arena_fmt(j->arena, "%s:%" PRIu64, e->source, e->line);
}

/* The lines that claimed events stand on. One line is often several events: a pattern's, and the
 * exception of a traceback; when a cause has taken one, the others need no explanation. */
static struct map *claimed_lines(struct judging *j)
{
    struct map *lines = map_new(j->arena);
    for (size_t i = 0; i < map_count(j->claimed); i++) {
        const struct event_refs *refs = scope_events(&j->scope, map_key(j->claimed, i));
        for (size_t k = 0; refs != NULL && k < refs->count; k++) {
            map_put(lines, str_of(line_key(j, refs->items[k])), j);
        }
    }
    return lines;
}

static bool stands_on(struct judging *j, const struct map *lines, const struct event_refs *refs)
{
    for (size_t i = 0; i < refs->count; i++) {
        if (map_get(lines, str_of(line_key(j, refs->items[i]))) == NULL) {
            return false;
        }
    }
    return true;
}

/* All lines of an id as one text. */
static struct str lines_key(struct judging *j, const struct event_refs *refs)
{
    struct strbuf out;
    strbuf_init(&out, j->arena, 1 << 20);
    for (size_t i = 0; i < refs->count; i++) {
        strbuf_fmt(&out, "%s ", line_key(j, refs->items[i]));
    }
    return strbuf_str(&out);
}

/* Consequence lines go to `secondary` when there is a cause; faults nobody claims to `unknown`. */
static void list_lines(struct judging *j)
{
    struct map *by_pattern = j->scope.events_by_pattern;
    const struct map *lines = claimed_lines(j);
    struct map *told = map_new(j->arena); /* lines that two patterns know are told once */
    for (size_t i = 0; i < map_count(by_pattern); i++) {
        const struct event_refs *refs = map_value(by_pattern, i);
        enum pattern_kind kind = refs->items[0]->pattern->kind;
        bool claimed = map_get(j->claimed, str_of(refs->items[0]->pattern->id)) != NULL ||
                       stands_on(j, lines, refs);
        if (kind == PATTERN_CONSEQUENCE && j->out->causes.count != 0) {
            struct str all = lines_key(j, refs);
            if (j->out->secondary.count < MAX_SECONDARY && map_get(told, all) == NULL) {
                *VEC_PUSH(j->arena, &j->out->secondary) = line_finding(j, refs, SEVERITY_NOTE);
                map_put(told, all, j);
            }
        } else if (!claimed && (kind == PATTERN_FAULT ||
                                (kind == PATTERN_CONSEQUENCE && !j->scope.log->run.completed))) {
            if (j->out->unknown.count < MAX_UNKNOWN) {
                *VEC_PUSH(j->arena, &j->out->unknown) = line_finding(j, refs, SEVERITY_UNKNOWN);
            }
        }
    }
}

static void note_open_question(struct judging *j)
{
    const struct finding_list *c = &j->out->causes;
    if (c->count < 2) {
        return;
    }
    double gap = c->items[0].confidence - c->items[1].confidence;
    if (gap * 100 < CLOSE && c->items[0].confidence < 0.85) {
        note_once(j, arena_fmt(j->arena,
                               "%s and %s are nearly equally likely from what was given; facts of "
                               "the machine decide: assay doctor --facts --json > facts.json, then "
                               "assay diagnose --facts facts.json ...",
                               c->items[0].id, c->items[1].id));
    }
}

void diagnose(struct arena *arena, const struct knowledge *k, const struct facts *facts,
              const struct log_facts *log, struct diagnosis *ret_diagnosis)
{
    *ret_diagnosis = (struct diagnosis){0};
    struct judging *j = arena_alloc(arena, sizeof *j);
    j->arena = arena;
    j->k = k;
    j->out = ret_diagnosis;
    j->claimed = map_new(arena);
    scope_init(&j->scope, arena, k, log_machine_facts(arena, facts, log), log);
    take_causes(j);
    list_weaker(j);
    list_lines(j);
    note_open_question(j);
    scope_done(&j->scope);
}
