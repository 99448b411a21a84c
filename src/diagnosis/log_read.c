// SPDX-License-Identifier: Apache-2.0
/*
 * Reading logs: input -> framer -> scanner -> this file, which hands each interesting line to the
 * event store and the readers. Start at handle_piece().
 */
#include "diagnosis/log_read.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/input.h"
#include "base/input_list.h"
#include "base/vec.h"

#include "diagnosis/event_store.h"
#include "diagnosis/gpu_fault.h"
#include "diagnosis/run_end.h"
#include "diagnosis/scan.h"
#include "diagnosis/series.h"
#include "diagnosis/traceback.h"

enum {
    LINE_CUT = 64 * 1024,
    PROGRESS_EVERY = 32,
    FOLLOW_MS = 250,
    SNIFF_LINES = 12,
    BARS_EXACT = 4096,
    BAR_STRIDE = 8
};

struct log_reader {
    struct arena *arena;
    const struct knowledge *k;
    struct log_options options;
    struct scanner *scanner;
    struct framer *framer;
    struct event_store *store;
    struct series_set *series;
    struct run_reader *run;
    struct gpu_faults *faults;
    struct tracebacks *tracebacks;
    const struct error_table *errors;
    struct text_list notes;
    bool has_train;
    bool has_kernel;
    uint64_t lines;
    uint64_t bytes;
    uint64_t sampled; /* bytes looked at by count_binary() */
    uint64_t sampled_binary;
    int file_count;

    /* of the file being read */
    const char *source;
    int file_rank;
    int year;
    bool kernel;
    bool sniffed;
    unsigned logs; /* enum log_kind bits that apply */
    double moment;
    uint64_t bars;             /* lines of progress bars and nothing else */
    char last[EVENT_TEXT_MAX]; /* its last piece that is not empty */
    size_t last_n;
    uint64_t *long_piece; /* per id: offset + 1 of the unfinished piece it hit already */
};

static enum status reader_init(struct log_reader *r, struct err *err)
{
    const struct knowledge *k = r->k;
    struct arena *a = r->arena;
    TRY(error_table_builtin(a, &r->errors, err));
    TRY(scanner_open(a, k, &r->scanner, err));
    r->framer = framer_new(a);
    r->store = event_store_new(a, k->patterns, k->patterns_count, r->errors);
    r->series = series_set_new(a);
    r->run = run_reader_new(a, r->series);
    r->faults = gpu_faults_new(a, r->store, r->errors);
    r->tracebacks = tracebacks_new(a, r->store);
    r->long_piece = arena_array(a, k->patterns_count + MARK_COUNT, sizeof *r->long_piece);
    return ST_OK;
}

enum status log_reader_new(struct arena *a, const struct knowledge *k,
                           const struct log_options *options, struct log_reader **ret_reader,
                           struct err *err)
{
    struct log_reader *r = arena_alloc(a, sizeof *r);
    r->arena = a;
    r->k = k;
    if (options != NULL) {
        r->options = *options;
    }
    TRY(reader_init(r, err));
    *ret_reader = r;
    return ST_OK;
}

void log_reader_free(struct log_reader *r)
{
    if (r != NULL) {
        scanner_close(r->scanner);
        event_store_free(r->store);
    }
}

static void begin_file(struct log_reader *r, const char *source, int rank, int year, bool kernel)
{
    framer_reset(r->framer);
    r->source = arena_strdup(r->arena, source);
    r->file_rank = rank;
    r->year = year != 0 ? year : r->options.year != 0 ? r->options.year : 1970;
    r->kernel = kernel;
    r->sniffed = kernel;
    r->logs = kernel ? LOG_KERNEL : LOG_TRAIN;
    r->moment = NAN;
    r->last_n = 0;
    r->bars = 0;
    memset(r->long_piece, 0, (r->k->patterns_count + MARK_COUNT) * sizeof *r->long_piece);
    run_reader_begin_file(r->run);
    tracebacks_begin_file(r->tracebacks);
    run_reader_rank(r->run, rank);
}

/* A kernel log given as a training log: most of its first lines have the kernel's form. */
static void sniff(struct log_reader *r, const struct frame *frame)
{
    r->sniffed = true;
    struct str text = {.p = frame->p, .n = frame->n < 8192 ? frame->n : 8192};
    struct str line;
    int lines = 0;
    int kernel = 0;
    while (lines < SNIFF_LINES && str_cut_line(&text, &line)) {
        if (line.n != 0) {
            lines++;
            kernel += prefix_parse(line, r->year).kernel;
        }
    }
    if (kernel * 2 > lines) {
        r->logs = LOG_TRAIN | LOG_KERNEL;
        r->kernel = true;
    }
    r->has_kernel |= r->kernel;
    r->has_train |= !r->kernel;
}

static void set_context(const struct log_reader *r, struct line_context *c, struct piece piece,
                        size_t hit)
{
    size_t n = piece.text.n;
    size_t from = 0;
    size_t to = n;
    if (n > CAPTURE_WINDOW) {
        from = hit > CAPTURE_WINDOW * 3 / 4 ? hit - CAPTURE_WINDOW * 3 / 4 : 0;
        to = from + CAPTURE_WINDOW < n ? from + CAPTURE_WINDOW : n;
    }
    *c = (struct line_context){
        .piece = piece,
        .window = str_slice(piece.text, from, to),
        .hit = hit,
        .source = r->source,
        .file = r->file_count,
        .kernel = r->kernel,
    };
}

/* The rest of the context: only lines that are of use need their prefix read. */
static void set_prefix(struct log_reader *r, struct line_context *c)
{
    c->prefix = prefix_parse(str_slice(c->piece.text, 0, LINE_CUT), r->year);
    c->rank = c->prefix.rank >= 0 ? c->prefix.rank : r->file_rank;
    run_reader_rank(r->run, c->prefix.rank);
    if (c->prefix.clock == CLOCK_WALL && !(c->prefix.time <= r->moment)) {
        r->moment = c->prefix.time;
    }
    c->moment = r->moment;
}

static bool wants_lines(const struct log_reader *r)
{
    return tracebacks_wants_lines(r->tracebacks) || run_reader_wants_lines(r->run);
}

/* Bit set of marks in the hits of one piece. The others' readers look closely themselves. */
static unsigned marks_of(const struct log_reader *r, const struct line_context *c,
                         const struct scan_hit *hits, size_t count)
{
    const unsigned to_confirm = 1u << MARK_DEATH | 1u << MARK_PHASE | 1u << MARK_END |
                                1u << MARK_KERNEL_FAULT | 1u << MARK_XID | 1u << MARK_ROCR_BLOCK;
    unsigned marks = 0;
    for (size_t i = 0; i < count; i++) {
        if (hits[i].id < r->k->patterns_count) {
            continue;
        }
        enum scan_mark mark = (enum scan_mark)(hits[i].id - r->k->patterns_count);
        if ((to_confirm & 1u << mark) == 0 || scanner_confirm_mark(r->scanner, mark, c->window)) {
            marks |= 1u << mark;
        }
    }
    return marks;
}

/* Keeps of the hits those of patterns that apply and match; marks stay as they are. */
static size_t confirm_hits(struct log_reader *r, const struct line_context *c,
                           struct scan_hit *hits, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t id = hits[i].id;
        if (id >= r->k->patterns_count ||
            ((r->k->patterns[id].logs & r->logs) != 0 && event_store_confirm(r->store, id, c))) {
            hits[kept++] = hits[i];
        }
    }
    return kept;
}

static bool takes_lines(const struct log_reader *r, const struct scan_hit *hit)
{
    if (hit->id >= r->k->patterns_count) {
        return false;
    }
    enum pattern_kind kind = r->k->patterns[hit->id].kind;
    return kind == PATTERN_BENIGN || kind == PATTERN_CLEAR;
}

/* Patterns: when one that takes lines away matches, only those count. True when it did. */
static bool handle_patterns(struct log_reader *r, const struct line_context *c,
                            const struct scan_hit *hits, size_t count)
{
    bool benign = false;
    for (size_t i = 0; i < count; i++) {
        benign |= takes_lines(r, &hits[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (hits[i].id < r->k->patterns_count && takes_lines(r, &hits[i]) == benign) {
            event_store_hit(r->store, hits[i].id, c);
        }
    }
    return benign;
}

static void handle_marks(struct log_reader *r, const struct line_context *c, unsigned marks)
{
    if (marks & 1u << MARK_KERNEL_FAULT) {
        gpu_faults_amdgpu(r->faults, c);
    }
    if (marks & 1u << MARK_XID) {
        gpu_faults_xid(r->faults, c);
    }
    if (marks & 1u << MARK_ROCR_BLOCK) {
        gpu_faults_rocr(r->faults, c);
    }
    if (marks & 1u << MARK_METRIC) {
        run_reader_metrics(r->run, c);
    }
    if (marks & 1u << MARK_PROGRESS) {
        run_reader_progress(r->run, c);
    }
    if (marks & 1u << MARK_PHASE) {
        run_reader_phase(r->run, c);
    }
    if (marks & 1u << MARK_DEATH && !r->kernel) {
        run_reader_death(r->run, c);
    }
    if (marks & 1u << MARK_END) {
        run_reader_end(r->run, c);
    }
    if (marks & 1u << MARK_CHILD) {
        run_reader_child(r->run, c, true);
    } else if (run_reader_wants_lines(r->run)) {
        run_reader_child(r->run, c, false);
    }
    bool head = (marks & 1u << MARK_TRACEBACK) != 0;
    bool named = (marks & 1u << MARK_EXCEPTION) != 0;
    if (head || named || tracebacks_wants_lines(r->tracebacks)) {
        tracebacks_line(r->tracebacks, c, head, named, run_reader_progress_count(r->run));
    }
}

/* One piece with the hits in it (possibly none, when a reader wants every line). */
static void handle_piece(struct log_reader *r, struct piece piece, struct scan_hit *hits,
                         size_t count)
{
    struct line_context c;
    size_t hit = count != 0 ? hits[0].hit - hits[0].start : piece.text.n;
    set_context(r, &c, piece, hit < piece.text.n ? hit : piece.text.n);
    bool wanted = count == 0; /* a reader wants every line */
    count = confirm_hits(r, &c, hits, count);
    if (count == 0 && !wanted && !wants_lines(r)) {
        return;
    }
    set_prefix(r, &c);
    bool benign = handle_patterns(r, &c, hits, count);
    handle_marks(r, &c, benign ? 0 : marks_of(r, &c, hits, count));
}

/* Of a piece that comes in several windows, each id counts once. */
static size_t drop_repeated(struct log_reader *r, struct scan_hit *hits, size_t count,
                            uint64_t offset)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t *seen = &r->long_piece[hits[i].id];
        if (*seen != offset + 1) {
            *seen = offset + 1;
            hits[kept++] = hits[i];
        }
    }
    return kept;
}

static void remember_last(struct log_reader *r, const struct frame *frame)
{
    struct str text = {.p = frame->p, .n = frame->n};
    while (text.n != 0 && strchr(" \n\t", text.p[text.n - 1]) != NULL && text.p[text.n - 1] != 0) {
        text.n--;
    }
    if (text.n == 0) {
        return;
    }
    const char *newline = memrchr(text.p, '\n', text.n);
    struct str piece = str_slice(text, newline != NULL ? (size_t)(newline - text.p) + 1 : 0,
                                 text.n);
    piece = str_slice(piece, 0, sizeof r->last);
    memcpy(r->last, piece.p, piece.n);
    r->last_n = piece.n;
}

/* Bytes of the first 8 KiB of a frame that no text has: a log of them is a binary file. */
static void count_binary(struct log_reader *r, const struct frame *frame)
{
    size_t n = frame->n < 8192 ? frame->n : 8192;
    size_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)frame->p[i];
        odd += (c < 0x20 && c != '\n' && c != '\t' && c != 0x1b && c != '\b' && c != '\f') ||
               c == 0x7f;
    }
    r->sampled += n;
    r->sampled_binary += odd;
}

/*
 * Bars say the same thing over and over, and a long log has millions. After the first BARS_EXACT of
 * a file one in BAR_STRIDE is read, and the last one of each frame; a bar that shows a metric has
 * another mark beside and is always read.
 */
static bool skips_bar(struct log_reader *r, const struct scan_hit *hits, size_t i, size_t count)
{
    uint32_t bar = scanner_mark_id(r->scanner, MARK_PROGRESS);
    if (hits[i].id != bar || ++r->bars <= BARS_EXACT || r->bars % BAR_STRIDE == 0) {
        return false;
    }
    for (size_t k = i + 1; k < count && k < i + 1000; k++) {
        if (hits[k].id == bar) {
            return true;
        }
    }
    return false;
}

/* Walks through a frame: from hit to hit, or line by line while a reader wants that. */
static void walk(struct log_reader *r, const struct frame *frame, struct scan_hit *hits,
                 size_t count)
{
    struct frame_cursor cursor;
    frame_cursor_init(&cursor, frame);
    size_t at = 0;
    size_t i = 0;
    while (at < frame->n) {
        size_t start = at;
        if (!wants_lines(r)) {
            if (i == count) {
                return;
            }
            start = hits[i].start;
        }
        const char *newline = memchr(frame->p + start, '\n', frame->n - start);
        size_t end = newline != NULL ? (size_t)(newline - frame->p) : frame->n;
        size_t n = 0;
        while (i + n < count && hits[i + n].start == start) {
            n++;
        }
        if (n == 1 && !wants_lines(r) && skips_bar(r, hits, i, count)) {
            i++;
            at = end + 1;
            continue;
        }
        struct piece piece = frame_piece(&cursor, start, end);
        size_t fresh = n;
        bool windowed = (start == 0 && frame->continued) || (end == frame->n && frame->unfinished);
        if (windowed && n != 0) {
            fresh = drop_repeated(r, &hits[i], n, piece.line);
        }
        if (fresh != 0 || (wants_lines(r) && !windowed)) {
            handle_piece(r, piece, &hits[i], fresh);
        }
        i += n;
        at = end + 1;
    }
}

static enum status drain(struct log_reader *r, bool at_end, bool flush, struct err *err)
{
    struct frame frame;
    while (framer_next(r->framer, at_end, flush, &frame)) {
        if (!r->sniffed) {
            sniff(r, &frame);
        }
        const struct scan_hit *hits;
        size_t count;
        TRY(scanner_run(r->scanner, &frame, &hits, &count, err));
        walk(r, &frame, (struct scan_hit *)hits, count);
        count_binary(r, &frame);
        remember_last(r, &frame);
    }
    return ST_OK;
}

static void end_file(struct log_reader *r)
{
    uint64_t at = 0;
    uint64_t progress = run_reader_progress_count(r->run);
    bool completed = run_reader_completed(r->run, &at);
    tracebacks_flush(r->tracebacks, progress, completed, at);
    gpu_faults_flush(r->faults);
    run_reader_end_file(r->run, (struct str){.p = r->last, .n = r->last_n},
                        tracebacks_file_died(r->tracebacks));
    r->lines += framer_newlines(r->framer);
    r->bytes += framer_bytes(r->framer);
    r->file_count++;
    if (!r->sniffed || r->kernel) { /* an empty file is a log, too */
        r->has_kernel |= r->kernel;
        r->has_train |= !r->kernel;
    }
}

static bool stopped(const struct log_reader *r)
{
    return r->options.stop != NULL && *r->options.stop != 0;
}

static void tell_progress(const struct log_reader *r, const struct input *in)
{
    if (r->options.progress != NULL) {
        r->options.progress(r->options.ctx, r->source, input_taken(in), input_size(in));
    }
}

/* Reads until the input says end. */
static enum status read_to_end(struct log_reader *r, struct input *in, struct err *err)
{
    for (unsigned round = 1; !stopped(r); round++) {
        size_t room;
        char *p = framer_space(r->framer, &room);
        size_t n;
        TRY(input_read(in, p, room, &n, err));
        if (n == 0) {
            break;
        }
        framer_commit(r->framer, n);
        TRY(drain(r, false, false, err));
        if (round % PROGRESS_EVERY == 0) {
            tell_progress(r, in);
        }
    }
    return ST_OK;
}

static int year_of(int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    return seconds > 0 && gmtime_r(&t, &tm) != NULL ? tm.tm_year + 1900 : 0;
}

static enum status read_file(struct log_reader *r, const struct input_file *file, bool kernel,
                             struct err *err)
{
    struct arena *scratch = arena_new(0); /* buffers of one input; files may be many */
    struct input *in = NULL;
    enum status status = input_open(scratch, file->path, r->options.stop, &in, err);
    if (status == ST_OK) {
        begin_file(r, file->path, file->rank, year_of(input_mtime(in)), kernel);
        struct err read_err;
        if (read_to_end(r, in, &read_err) != ST_OK) { /* what was read before counts */
            *VEC_PUSH(r->arena, &r->notes) = arena_strdup(r->arena, read_err.text);
        }
        status = drain(r, true, false, err);
        if (input_note(in) != NULL) {
            *VEC_PUSH(r->arena, &r->notes) = arena_strdup(r->arena, input_note(in));
        }
        end_file(r);
        tell_progress(r, in);
    }
    input_close(in);
    arena_free(scratch);
    return status;
}

/* Logs of the kernel beside those of a run: by name; by looks they are found anyway. */
static bool kernel_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str name = str_of(slash != NULL ? slash + 1 : path);
    return str_starts(name, "dmesg") || str_starts(name, "kernel.log") ||
           str_starts(name, "kern.log") || str_starts(name, "journal");
}

enum status log_reader_add(struct log_reader *r, const char *path, bool kernel, struct err *err)
{
    struct input_list list = {0};
    TRY(input_list_add(r->arena, path, &list, &r->notes, err));
    bool directory = list.count != 1 || strcmp(list.items[0].path, path) != 0;
    for (size_t i = 0; i < list.count && !stopped(r); i++) {
        const struct input_file *f = &list.items[i];
        struct err file_err;
        enum status s = read_file(r, f, kernel || (directory && kernel_name(f->path)), &file_err);
        if (s != ST_OK && !directory) {
            return err_set(err, file_err.status, "%s", file_err.text);
        }
        if (s != ST_OK) {
            *VEC_PUSH(r->arena, &r->notes) = arena_strdup(r->arena, file_err.text);
        }
    }
    return ST_OK;
}

enum status log_reader_add_bytes(struct log_reader *r, const char *name, struct str bytes,
                                 size_t chunk, bool kernel, struct err *err)
{
    begin_file(r, name, input_list_rank(name), 0, kernel);
    for (size_t at = 0; at < bytes.n;) {
        size_t room;
        char *p = framer_space(r->framer, &room);
        size_t n = bytes.n - at < chunk ? bytes.n - at : chunk;
        n = n < room ? n : room;
        memcpy(p, bytes.p + at, n);
        framer_commit(r->framer, n);
        at += n;
        TRY(drain(r, false, false, err));
    }
    TRY(drain(r, true, false, err));
    end_file(r);
    return ST_OK;
}

const struct log_facts *log_reader_facts(struct log_reader *r)
{
    struct log_facts *lf = arena_alloc(r->arena, sizeof *lf);
    lf->arena = r->arena;
    event_store_finish(r->store, lf);
    lf->series = series_finish(r->series, r->arena);
    run_reader_finish(r->run, r->tracebacks, &lf->run);
    lf->run.lines = r->lines;
    lf->run.bytes = r->bytes;
    lf->run.looks_binary = r->sampled_binary * 20 > r->sampled;
    lf->has_train_log = r->has_train;
    lf->has_kernel_log = r->has_kernel;
    lf->notes = r->notes;
    return lf;
}

static void wait_a_moment(void)
{
    struct timespec t = {.tv_nsec = FOLLOW_MS * 1000000L};
    nanosleep(&t, NULL); /* a signal ends it early, which is what we want */
}

/* Gives out what came; false ends the following. */
static bool tell_fresh(struct log_reader *r, const struct log_follower *follower)
{
    struct arena *scratch = arena_new(0);
    const struct event **events;
    size_t n = event_store_fresh(r->store, scratch, &events);
    bool go_on = n != 0 ? follower->fresh(follower->ctx, events, n)
                        : follower->idle == NULL || follower->idle(follower->ctx);
    arena_free(scratch);
    return go_on;
}

enum status log_reader_follow(struct log_reader *r, const char *path, bool kernel,
                              const struct log_follower *follower, struct err *err)
{
    struct arena *scratch = arena_new(0);
    struct input *in = NULL;
    enum status status = input_open(scratch, path, r->options.stop, &in, err);
    if (status != ST_OK) {
        arena_free(scratch);
        return status;
    }
    begin_file(r, path, input_list_rank(path), year_of(input_mtime(in)), kernel);
    while (status == ST_OK && !stopped(r)) {
        status = read_to_end(r, in, err);
        if (status == ST_OK) {
            status = drain(r, false, true, err);
        }
        if (status != ST_OK || stopped(r) || !tell_fresh(r, follower)) {
            break;
        }
        bool stream = input_size(in) == 0 && input_mtime(in) == 0;
        if (stream) {
            break; /* a pipe that ended does not grow */
        }
        if (input_reopen_rotated(in)) {
            status = drain(r, true, false, err);
            end_file(r);
            begin_file(r, path, input_list_rank(path), year_of(input_mtime(in)), kernel);
            continue;
        }
        wait_a_moment();
    }
    if (status == ST_OK) {
        status = drain(r, true, false, err);
    }
    end_file(r);
    input_close(in);
    arena_free(scratch);
    return status;
}

enum status log_facts_read(struct arena *a, const struct knowledge *k,
                           const struct text_list *train, const struct text_list *kernel,
                           const struct log_options *options, const struct log_facts **ret_facts,
                           struct err *err)
{
    struct log_reader *r;
    TRY(log_reader_new(a, k, options, &r, err));
    enum status status = ST_OK;
    for (size_t i = 0; train != NULL && i < train->count && status == ST_OK; i++) {
        status = log_reader_add(r, train->items[i], false, err);
    }
    for (size_t i = 0; kernel != NULL && i < kernel->count && status == ST_OK; i++) {
        status = log_reader_add(r, kernel->items[i], true, err);
    }
    if (status == ST_OK) {
        *ret_facts = log_reader_facts(r);
    }
    log_reader_free(r);
    return status;
}
