// SPDX-License-Identifier: Apache-2.0
/*
 * A reader per writer (rank, or Ray worker) follows one chain of tracebacks at a time:
 * IDLE -> FRAMES (between the head and the exception line) -> AFTER (a chain may go on).
 */
#include "diagnosis/traceback.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "diagnosis/traceback_frame.h"

enum {
    MAX_WRITERS = 64,
    MAX_FRAME_LINES = 600,
    MAX_STRAYS = 8,
    MAX_HELD = 64,
    TYPE_MAX = 160,
    MESSAGE_MAX = 500,
    RECOVERY_LINES = 3, /* so many lines of progress after it show that training went on */
};

/* One exception of a chain. */
struct exception {
    char type[TYPE_MAX];
    char message[MESSAGE_MAX];
    struct trace_frame frame; /* the innermost one */
    struct trace_frame own;   /* the innermost one of the program itself; file "" without */
    bool own_raise;       /* the program's line raised it, or asked an object for what it lacks */
    bool handled_by_next; /* the next one arose while this one was handled */
};

/* A finished chain, waiting to learn whether training went on. */
struct held {
    struct kept_line where;
    struct exception root;
    char final_type[TYPE_MAX];
    uint64_t progress;
};

enum state {
    STATE_IDLE = 0,
    STATE_FRAMES,
    STATE_AFTER
};

struct writer {
    enum state state;
    int rank;
    int64_t pid;
    unsigned lines;
    unsigned strays;
    size_t indent; /* of the whole traceback, as in a block of Markdown */
    bool headless; /* pasted without its head */
    struct frame_reader frames;
    bool want_message; /* the exception line had none: the next line is it */
    bool chained;      /* a chain sentence came after the last exception */
    bool during;
    bool have_root;
    bool root_settled;
    struct exception now;
    struct exception root;
    char final_type[TYPE_MAX];
    struct kept_line where; /* line of the root exception */
    uint64_t progress;
    uint64_t used; /* for replacing the one that was quiet longest */
};

struct tracebacks {
    struct arena *arena;
    struct event_store *store;
    struct writer *writers; /* MAX_WRITERS */
    size_t writer_count;
    struct held *held; /* MAX_HELD */
    size_t held_count;
    uint64_t clock;
    size_t open; /* writers in FRAMES or wanting a message */
    bool file_died;
    VEC_OF(struct stopper) stoppers;
};

/* An exception that was not recovered from. */
struct stopper {
    struct root_exception e;
    double moment;
    int weight; /* 0 a cause of its own, 1 reports the failure of another process */
};

static const struct pattern fault_pattern = {
    .id = "python-exception", .logs = LOG_ANY, .kind = PATTERN_FAULT};
static const struct pattern consequence_pattern = {
    .id = "python-exception", .logs = LOG_ANY, .kind = PATTERN_CONSEQUENCE};
static const struct pattern recovered_pattern = {
    .id = "python-exception", .logs = LOG_ANY, .kind = PATTERN_SYMPTOM};

struct tracebacks *tracebacks_new(struct arena *a, struct event_store *store)
{
    struct tracebacks *t = arena_alloc(a, sizeof *t);
    t->arena = a;
    t->store = store;
    t->writers = arena_array(a, MAX_WRITERS, sizeof *t->writers);
    t->held = arena_array(a, MAX_HELD, sizeof *t->held);
    return t;
}

void tracebacks_begin_file(struct tracebacks *t)
{
    t->file_died = false;
}

bool tracebacks_wants_lines(const struct tracebacks *t)
{
    return t->open != 0;
}

static void put(char *to, size_t size, struct str s)
{
    size_t n = s.n < size ? s.n : size - 1;
    for (size_t i = 0; i < n; i++) {
        to[i] = s.p[i] != '\0' ? s.p[i] : ' ';
    }
    to[n] = '\0';
}

#define PUT(to, s) put((to), sizeof(to), (s))

/* Exceptions that report that another process failed, or that somebody stopped the run. */
static bool reports_another(const char *type)
{
    static const char *const names[] = {
        "ChildFailedError",   "CalledProcessError",     "ProcessExitedException",
        "SignalException",    "ProcessRaisedException", "KeyboardInterrupt",
        "SystemExit",         "ActorDiedError",         "RayActorError",
        "RayTaskError",       "EngineDeadError",        "DistBackendError",
        "WorkerCrashedError",
    };
    const char *dot = strrchr(type, '.');
    const char *last = dot != NULL ? dot + 1 : type;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_starts(str_of(last), names[i])) {
            return true;
        }
    }
    return false;
}

/* Lookups that programs make expecting them to fail. */
static bool is_control(const char *type)
{
    static const char *const names[] = {"KeyError",      "IndexError", "AttributeError",
                                        "StopIteration", "Empty",      "queue.Empty",
                                        "LookupError"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(type, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* "torch.OutOfMemoryError: HIP out of memory" -> type and message; false when it is no such line. */
static bool split_exception(struct str s, bool in_traceback, struct str *ret_type,
                            struct str *ret_message)
{
    size_t n = 0;
    size_t last = 0;
    bool dotted = false;
    while (n < s.n && (isalnum((unsigned char)s.p[n]) || s.p[n] == '_' || s.p[n] == '.')) {
        if (s.p[n] == '.') {
            dotted = true;
            last = n + 1;
        }
        n++;
    }
    if (n == 0 || n >= TYPE_MAX || last >= n ||
        !(isalpha((unsigned char)s.p[0]) || s.p[0] == '_')) {
        return false;
    }
    struct str behind = str_slice(s, n, s.n);
    if (str_trim(behind).n != 0 && !str_starts(behind, ":")) {
        return false;
    }
    struct str name = str_slice(s, last, n);
    bool error = str_ends(name, "Error") || str_ends(name, "Exception") ||
                 str_ends(name, "Interrupt") || str_is(name, "SystemExit") ||
                 str_is(name, "OutOfResources") || str_ends(name, "Timeout");
    bool upper = isupper((unsigned char)name.p[0]) != 0;
    bool bare = str_is(name, "Error") && !dotted; /* "Error: …" is anybody's */
    if (in_traceback ? !(upper || dotted || error) : !(error && upper && !bare)) {
        return false;
    }
    *ret_type = str_slice(s, 0, n);
    *ret_message = str_trim(str_slice(behind, behind.n != 0, behind.n));
    return true;
}

static void emit(struct tracebacks *t, const struct held *h, bool recovered)
{
    char rank[16] = "";
    if (h->where.line.rank >= 0) {
        PUT(rank, str_of(arena_fmt(t->arena, "%d", h->where.line.rank)));
    }
    const struct trace_frame *frame = &h->root.frame;
    const struct trace_frame *own = &h->root.own;
    struct str file = str_of(frame->file);
    struct str module = {0};
    static const char *const roots[] = {"site-packages/", "dist-packages/"};
    for (size_t i = 0; i < ARRAY_LEN(roots) && module.n == 0; i++) {
        size_t at = str_find(file, roots[i], 0);
        if (at != SIZE_MAX) {
            struct str rest = str_slice(file, at + strlen(roots[i]), file.n);
            size_t end = str_find_char(rest, '/', 0);
            module = str_slice(rest, 0, end == SIZE_MAX ? rest.n : end);
        }
    }
    if (module.n == 0 && file.n != 0) {
        const char *slash = strrchr(frame->file, '/');
        module = str_of(slash != NULL ? slash + 1 : frame->file);
    }
    if (str_ends(module, ".py")) {
        module.n -= 3;
    }
    bool same = strcmp(h->final_type, h->root.type) == 0;
    const struct capture captures[] = {
        {"type", h->root.type},
        {"message", h->root.message},
        {"module", str_dup(t->arena, module)},
        {"file", frame->file},
        {"function", frame->function},
        {"code_line", frame->line},
        {"own_file", own->file[0] != '\0' ? own->file : NULL},
        {"own_line", own->line[0] != '\0' ? own->line : NULL},
        {"own_code", own->code[0] != '\0' ? own->code : NULL},
        {"own_raise", h->root.own_raise        ? "yes"
                      : frame->file[0] != '\0' ? "no"
                                               : NULL},
        {"rank", rank},
        {"final", same ? NULL : h->final_type},
        {"recovered", recovered ? "yes" : NULL},
    };
    const struct pattern *p = recovered                       ? &recovered_pattern
                              : reports_another(h->root.type) ? &consequence_pattern
                                                              : &fault_pattern;
    event_store_add(t->store, p, &h->where.line, captures, ARRAY_LEN(captures));
    if (recovered) {
        return;
    }
    t->file_died = true;
    if (t->stoppers.count < 1000) {
        *VEC_PUSH(t->arena, &t->stoppers) = (struct stopper){
            .e = {.type = arena_strdup(t->arena, h->root.type),
                  .message = arena_strdup(t->arena, h->root.message),
                  .rank = h->where.line.rank,
                  .import_time = strcmp(h->root.frame.function, "<module>") == 0},
            .moment = h->where.line.moment,
            .weight = reports_another(h->root.type)};
    }
}

/* Training went on after it, by progress lines or by an explicit end. */
static bool went_on(uint64_t at, uint64_t progress, bool completed, uint64_t completed_at)
{
    return progress - at >= RECOVERY_LINES || (completed && completed_at > at);
}

static void release_recovered(struct tracebacks *t, uint64_t progress)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->held_count; i++) {
        if (went_on(t->held[i].progress, progress, false, 0)) {
            emit(t, &t->held[i], true);
        } else if (kept != i) {
            t->held[kept] = t->held[i];
            t->held[kept].where.line.piece.text.p = t->held[kept].where.text;
            t->held[kept].where.line.window.p = t->held[kept].where.text;
            kept++;
        } else {
            kept++;
        }
    }
    t->held_count = kept;
}

static void hold(struct tracebacks *t, const struct kept_line *where, const struct exception *root,
                 const char *final_type, uint64_t progress)
{
    if (t->held_count == MAX_HELD) {
        release_recovered(t, progress);
    }
    if (t->held_count ==
        MAX_HELD) { /* hundreds of ranks: the first ones are the interesting ones */
        struct held h = {.root = *root, .progress = progress};
        kept_line_set(&h.where, &where->line);
        PUT(h.final_type, str_of(final_type));
        emit(t, &h, false);
        return;
    }
    struct held *h = &t->held[t->held_count++];
    *h = (struct held){.root = *root, .progress = progress};
    kept_line_set(&h->where, &where->line);
    PUT(h->final_type, str_of(final_type));
}

static bool is_open(const struct writer *w)
{
    return w->state == STATE_FRAMES || w->want_message;
}

/* Ends the chain of a writer. */
static void finish(struct tracebacks *t, struct writer *w)
{
    t->open -= is_open(w);
    if (w->have_root) {
        hold(t, &w->where, &w->root, w->final_type, w->progress);
    }
    int rank = w->rank;
    int64_t pid = w->pid;
    w->state = STATE_IDLE;
    w->want_message = false;
    w->have_root = false;
    w->root_settled = false;
    w->chained = false;
    w->rank = rank;
    w->pid = pid;
}

static struct writer *writer_of(struct tracebacks *t, const struct line_context *line, bool create)
{
    struct writer *oldest = NULL;
    for (size_t i = 0; i < t->writer_count; i++) {
        struct writer *w = &t->writers[i];
        if (w->rank == line->prefix.rank && w->pid == line->prefix.pid) {
            w->used = ++t->clock;
            return w;
        }
        oldest = oldest == NULL || w->used < oldest->used ? w : oldest;
    }
    if (!create) {
        return NULL;
    }
    struct writer *w = oldest;
    if (t->writer_count < MAX_WRITERS) {
        w = &t->writers[t->writer_count++];
    } else {
        finish(t, w);
    }
    memset(w, 0, sizeof *w);
    w->rank = line->prefix.rank;
    w->pid = line->prefix.pid;
    w->used = ++t->clock;
    return w;
}

/* A line of the traceback's body; false when it is none. The innermost frame comes last. */
static bool body_line(struct writer *w, struct str body)
{
    enum frame_part part = trace_frame_read(&w->frames, &w->now.frame, body);
    if ((part == FRAME_HEAD || part == FRAME_CODE) && w->now.frame.file[0] != '\0') {
        bool own = !trace_frame_is_library(w->now.frame.file);
        if (own) {
            w->now.own = w->now.frame;
        }
        /* torch.nn.Module answers for names it lacks: the line that asked is meant. */
        if (own || strstr(w->now.frame.function, "__getattr__") == NULL) {
            w->now.own_raise = own;
        }
    }
    return part != FRAME_NONE;
}

static void take_exception(struct writer *w, const struct line_context *line, struct str type,
                           struct str message, uint64_t progress)
{
    PUT(w->now.type, type);
    PUT(w->now.message, message);
    PUT(w->final_type, type);
    bool replace = !w->have_root || !w->root_settled;
    if (w->have_root && !w->root_settled && !w->during) {
        replace = false; /* "direct cause": the first one is meant */
    }
    if (replace) {
        w->root = w->now;
        kept_line_set(&w->where, line);
        w->have_root = true;
    }
    w->root_settled = w->root_settled || !is_control(w->root.type);
    w->progress = progress;
    w->chained = false;
    w->during = false;
}

static void start(struct tracebacks *t, struct writer *w)
{
    if (w->state != STATE_IDLE && !(w->state == STATE_AFTER && w->chained)) {
        finish(t, w);
    }
    t->open += !is_open(w);
    w->state = STATE_FRAMES;
    w->want_message = false;
    w->headless = false;
    w->lines = 0;
    w->strays = 0;
    w->frames = (struct frame_reader){0};
    w->now = (struct exception){0};
}

bool tracebacks_is_exception(struct str body)
{
    struct str type;
    struct str message;
    return split_exception(body, false, &type, &message);
}

static void give_up(struct tracebacks *t, struct writer *w)
{
    t->open -= is_open(w);
    w->want_message = false;
    w->state = w->have_root ? STATE_AFTER : STATE_IDLE;
}

static size_t spaces(struct str s)
{
    size_t n = 0;
    while (n < s.n && s.p[n] == ' ') {
        n++;
    }
    return n;
}

/* The line without the indentation that the traceback has as a whole. */
static struct str unindent(const struct writer *w, struct str body)
{
    size_t n = spaces(body);
    return str_slice(body, n < w->indent ? n : w->indent, body.n);
}

/* A line inside a traceback. True when it was part of it. */
static bool frame_line(struct tracebacks *t, struct writer *w, const struct line_context *line,
                       uint64_t progress)
{
    struct str body = unindent(w, line->prefix.body);
    if (++w->lines > MAX_FRAME_LINES) {
        give_up(t, w);
        return false;
    }
    if (body_line(w, body)) {
        return true;
    }
    struct str type;
    struct str message;
    if (!split_exception(body, !w->headless, &type, &message)) {
        if (++w->strays > MAX_STRAYS) {
            give_up(t, w);
        }
        return false;
    }
    take_exception(w, line, type, message, progress);
    w->state = STATE_AFTER;
    w->want_message = message.n == 0;
    w->lines = 0;
    t->open -= !w->want_message;
    return true;
}

static void message_line(struct tracebacks *t, struct writer *w, struct str body)
{
    w->want_message = false;
    t->open--;
    bool chain = str_starts(body, "During handling") || str_starts(body, "The above exception") ||
                 str_starts(body, "Traceback");
    if (!chain) {
        PUT(w->now.message, str_trim(body));
        if (strcmp(w->root.type, w->now.type) == 0 && w->root.message[0] == '\0') {
            PUT(w->root.message, str_trim(body));
        }
    }
}

/* An exception named outside of a traceback: a log that was cut, or a message that quotes one. */
static void lone_exception(struct tracebacks *t, const struct line_context *line, uint64_t progress)
{
    struct str type;
    struct str message;
    if (!split_exception(line->prefix.body, false, &type, &message)) {
        return;
    }
    struct writer *w = writer_of(t, line, true);
    if (w->state == STATE_AFTER && w->have_root) {
        finish(t, w);
    }
    if (w->state != STATE_IDLE) {
        return;
    }
    w->now = (struct exception){0};
    take_exception(w, line, type, message, progress);
    w->state = STATE_AFTER;
}

static bool chain_sentence(struct tracebacks *t, const struct line_context *line)
{
    struct str body = line->prefix.body;
    bool during = str_has(body, "During handling of the above exception");
    if (!during && !str_has(body, "was the direct cause of the following exception")) {
        return false;
    }
    struct writer *w = writer_of(t, line, false);
    if (w != NULL && w->state == STATE_AFTER) {
        w->chained = true;
        w->during = during;
    }
    return true;
}

/* A frame that belongs to no traceback begun so far: what was pasted lacks its first lines. */
static struct writer *start_headless(struct tracebacks *t, const struct line_context *line)
{
    struct str body = line->prefix.body;
    size_t indent = spaces(body);
    struct writer *w = writer_of(t, line, false);
    if (!trace_frame_opens(body) || (w != NULL && w->state != STATE_IDLE)) {
        return w;
    }
    w = writer_of(t, line, true);
    start(t, w);
    w->headless = true;
    w->indent = indent < 2 ? 0 : indent - 2;
    return w;
}

void tracebacks_line(struct tracebacks *t, const struct line_context *line, bool head, bool named,
                     uint64_t progress)
{
    struct str body = line->prefix.body;
    if (body.n == 0 || str_trim(body).n == 0) {
        return;
    }
    struct writer *w = t->open != 0 ? writer_of(t, line, false) : NULL;
    bool used = false;
    if (w != NULL && w->want_message) {
        message_line(t, w, body);
    }
    if (head && (str_has(body, "Traceback (most recent call last)"))) {
        struct writer *opened = writer_of(t, line, true);
        start(t, opened);
        opened->indent = spaces(body);
        return;
    }
    if (head && chain_sentence(t, line)) {
        return;
    }
    if (head && (w == NULL || w->state == STATE_IDLE)) {
        w = start_headless(t, line);
    }
    if (w != NULL && w->state == STATE_FRAMES) {
        used = frame_line(t, w, line, progress);
    }
    if (named && !used) {
        lone_exception(t, line, progress);
    }
}

void tracebacks_flush(struct tracebacks *t, uint64_t progress, bool completed,
                      uint64_t completed_at)
{
    for (size_t i = 0; i < t->writer_count; i++) {
        finish(t, &t->writers[i]);
    }
    t->writer_count = 0;
    for (size_t i = 0; i < t->held_count; i++) {
        emit(t, &t->held[i], went_on(t->held[i].progress, progress, completed, completed_at));
    }
    t->held_count = 0;
}

const struct root_exception *tracebacks_root(const struct tracebacks *t, int rank)
{
    const struct stopper *best = NULL;
    for (size_t i = 0; i < t->stoppers.count; i++) {
        const struct stopper *s = &t->stoppers.items[i];
        bool better = best == NULL;
        if (!better && s->weight != best->weight) {
            better = s->weight < best->weight;
        } else if (!better && (s->e.rank == rank) != (best->e.rank == rank)) {
            better = rank >= 0 && s->e.rank == rank;
        } else if (!better) {
            better = s->moment < best->moment; /* false for NaN: the earlier in the logs stays */
        }
        best = better ? s : best;
    }
    return best != NULL ? &best->e : NULL;
}

bool tracebacks_file_died(const struct tracebacks *t)
{
    return t->file_died;
}
