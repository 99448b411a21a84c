// SPDX-License-Identifier: Apache-2.0
/* Reading logs: input -> framer -> scanner -> log_lines.c. This file opens, follows and closes. */
#include "diagnosis/log_read.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/input.h"
#include "base/input_list.h"
#include "base/vec.h"

#include "diagnosis/answers.h"
#include "diagnosis/log_reader.h"

enum {
    PROGRESS_EVERY = 32,
    FOLLOW_MS = 250
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
    r->shapes = shape_cache_new();
    r->frame_shapes = shapes_new(a, FRAME_CAPACITY, simd_best());
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
    r->times = (struct log_times){.first = NAN, .last = NAN, .written = NAN};
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
        shape_cache_free(r->shapes);
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
    r->first_time = NAN;
    r->last_n = 0;
    r->bars = 0;
    memset(r->long_piece, 0, (r->k->patterns_count + MARK_COUNT) * sizeof *r->long_piece);
    run_reader_begin_file(r->run);
    tracebacks_begin_file(r->tracebacks);
    run_reader_rank(r->run, rank);
}

static void add_time(struct log_times *times, double t)
{
    times->first = !(t >= times->first) ? t : times->first;
    times->last = !(t <= times->last) ? t : times->last;
}

/* Times of a training log: of its first lines (sniff()), the last one, and those read between. */
static void end_times(struct log_reader *r)
{
    struct prefix p = prefix_parse((struct str){.p = r->last, .n = r->last_n}, r->year);
    if (r->kernel) {
        return;
    }
    if (p.clock == CLOCK_WALL) {
        add_time(&r->times, p.time);
    }
    if (!isnan(r->moment)) {
        add_time(&r->times, r->moment);
    }
    if (!isnan(r->first_time)) {
        add_time(&r->times, r->first_time);
    }
}

struct log_times log_reader_times(const struct log_reader *r)
{
    return r->times;
}

static void end_file(struct log_reader *r)
{
    end_times(r);
    uint64_t at = 0;
    uint64_t progress = run_reader_progress_count(r->run);
    bool completed = run_reader_completed(r->run, &at);
    tracebacks_flush(r->tracebacks, progress, completed, at);
    gpu_faults_flush(r->faults);
    run_reader_end_file(r->run, (struct str){.p = r->last, .n = r->last_n},
                        tracebacks_file_died(r->tracebacks));
    r->lines += framer_newlines(r->framer) + framer_inside_line(r->framer);
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
        TRY(log_reader_drain(r, false, false, err));
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
        status = log_reader_drain(r, true, false, err);
        if (input_note(in) != NULL) {
            *VEC_PUSH(r->arena, &r->notes) = arena_strdup(r->arena, input_note(in));
        }
        end_file(r);
        double written = (double)input_mtime(in);
        if (!kernel && written > 0 && !(written <= r->times.written)) {
            r->times.written = written;
        }
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
        TRY(log_reader_drain(r, false, false, err));
    }
    TRY(log_reader_drain(r, true, false, err));
    end_file(r);
    return ST_OK;
}

const struct log_facts *log_reader_facts(struct log_reader *r)
{
    struct log_facts *lf = arena_alloc(r->arena, sizeof *lf);
    lf->arena = r->arena;
    event_store_finish(r->store, lf);
    answers_join(lf, r->k);
    lf->series = series_finish(r->series, r->arena);
    run_reader_finish(r->run, r->tracebacks, &lf->run);
    lf->run.lines = r->lines;
    lf->run.bytes = r->bytes;
    lf->run.kernel_log = r->has_kernel;
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
            status = log_reader_drain(r, false, true, err);
        }
        if (status != ST_OK || stopped(r) || !tell_fresh(r, follower)) {
            break;
        }
        bool stream = input_size(in) == 0 && input_mtime(in) == 0;
        if (stream) {
            break; /* a pipe that ended does not grow */
        }
        if (input_reopen_rotated(in)) {
            status = log_reader_drain(r, true, false, err);
            end_file(r);
            begin_file(r, path, input_list_rank(path), year_of(input_mtime(in)), kernel);
            continue;
        }
        wait_a_moment();
    }
    if (status == ST_OK) {
        status = log_reader_drain(r, true, false, err);
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
