// SPDX-License-Identifier: Apache-2.0
/*
 * One rank. A second thread reads what rank 0 says, because the first may hang in a collective for ever: at "abort", or
 * when rank 0 is gone, the process ends at once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "base/vec.h"

#include "cli/fleet/collectives.h"

enum {
    LINE_MAX_BYTES = 1024,
    LEAVE_SECONDS = 20 /* for the library to shut down */
};

struct inbox {
    const struct cli *cli;
    int rank;
    int fd;
    pthread_mutex_t writing; /* both threads send lines */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool full;
    char line[LINE_MAX_BYTES];
};

struct worker {
    const struct collectives_job *job;
    struct arena *arena, *scratch;
    struct inbox inbox;
    int rank, local_rank;
    struct device *device;
    struct collective *collective;
    struct collective_bench bench;
    unsigned trial;
};

/* ---- talking ---- */

static void send_line(struct inbox *in, struct str line)
{
    struct err err;
    pthread_mutex_lock(&in->writing);
    if (rendezvous_write(in->fd, line, &err) != ST_OK) {
        _exit(EXIT_UNKNOWN);
    }
    pthread_mutex_unlock(&in->writing);
}

static void say(struct worker *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct worker *w, const char *fmt, ...)
{
    struct strbuf out;
    struct arena_mark mark = arena_mark(w->scratch);
    va_list ap;
    strbuf_init(&out, w->scratch, RENDEZVOUS_LINE_MAX);
    va_start(ap, fmt);
    strbuf_vfmt(&out, fmt, ap);
    va_end(ap);
    for (char *c = out.p; *c != '\0'; c++) {
        *c = *c == '\n' ? ' ' : *c; /* words of a library */
    }
    send_line(&w->inbox, strbuf_str(&out));
    arena_rewind(w->scratch, mark);
}

static void hand_over(struct inbox *in, const char *line)
{
    pthread_mutex_lock(&in->lock);
    while (in->full) {
        pthread_cond_wait(&in->changed, &in->lock);
    }
    str_print(in->line, sizeof in->line, "%s", line);
    in->full = true;
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
}

static int exit_of(const char *text)
{
    uint64_t status = EXIT_UNKNOWN;
    if (str_to_u64(str_of(text), 10, &status) != ST_OK || status > 255) {
        return EXIT_UNKNOWN;
    }
    return (int)status;
}

static void *listen_to_lead(void *context)
{
    struct inbox *in = context;
    char buffer[LINE_MAX_BYTES];
    size_t n = 0;
    bool spoken = false;
    int status = -1; /* of "end": the first thread leaves by itself */
    for (;;) {
        ssize_t got = recv(in->fd, buffer + n, sizeof buffer - n, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0 && status >= 0) {
            sleep(LEAVE_SECONDS);
            _exit(status);
        }
        if (got <= 0 && !spoken) {
            _exit(cli_fail(
                in->cli, EXIT_UNKNOWN,
                "rank 0 ended, or turned rank %d away: that rank is of another job, has a number that is "
                "taken, or another version of assay",
                in->rank));
        }
        if (got <= 0) {
            _exit(EXIT_UNKNOWN); /* rank 0 is gone, or sends no lines */
        }
        spoken = true;
        n += (size_t)got;
        char *end;
        while ((end = memchr(buffer, '\n', n)) != NULL) {
            *end = '\0';
            if (strncmp(buffer, "abort ", 6) == 0) {
                _exit(exit_of(buffer + 6));
            }
            if (strcmp(buffer, "ping") == 0) {
                send_line(in,
                          STR("pong")); /* the process lives, whatever its first thread waits for */
            } else {
                hand_over(in, buffer);
            }
            status = strncmp(buffer, "end ", 4) == 0 ? exit_of(buffer + 4) : status;
            size_t used = (size_t)(end + 1 - buffer);
            memmove(buffer, buffer + used, n - used);
            n -= used;
        }
        if (n == sizeof buffer) {
            _exit(EXIT_UNKNOWN);
        }
    }
}

/* The next command; split into words by the caller. */
static struct str next_command(struct worker *w, char line[LINE_MAX_BYTES])
{
    struct inbox *in = &w->inbox;
    pthread_mutex_lock(&in->lock);
    while (!in->full) {
        pthread_cond_wait(&in->changed, &in->lock);
    }
    memcpy(line, in->line, LINE_MAX_BYTES);
    in->full = false;
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
    return str_of(line);
}

/* ---- the device and the library ---- */

static enum status open_device(struct worker *w, enum device_kind kind, struct err *err)
{
    struct device_options options = {0};
    struct device_feature_list rows = {0};
    int count = 1;
    if (kind != DEVICE_CPU) {
        TRY(device_backend_of(kind)->probe(w->arena, &options, &rows, &count, err));
        if (count < 1) {
            return err_set(err, ST_ABSENT, "%s shows no device", device_kind_name(kind));
        }
    }
    return device_open(w->arena, kind, w->local_rank % count, &options, &w->device, err);
}

static enum status open_all(struct worker *w, struct str rest, struct err *err)
{
    const struct collectives_job *job = w->job;
    struct err second = {0};
    uint64_t bytes;
    enum status st;
    if (str_to_u64(rest, 10, &bytes) != ST_OK || bytes > COLLECTIVES_BYTES_MAX) {
        return err_set(err, ST_FORMAT, "rank 0 asks for buffers of '%.*s' bytes", STR_ARG(rest));
    }
    if (job->kind != DEVICE_KIND_COUNT) {
        st = open_device(w, job->kind, err);
    } else if ((st = open_device(w, DEVICE_CUDA, err)) != ST_OK) {
        st = open_device(w, DEVICE_HIP, &second);
        if (st != ST_OK) {
            err_context(err, "no GPU: HIP: %s; CUDA", second.text);
        }
    }
    TRY(st);
    const struct collective_backend *backend = job->mpi
                                                   ? &collective_backend_mpi
                                                   : collective_backend_of(w->device->info.kind);
    if (backend == NULL) {
        return err_set(err, ST_UNSUPPORTED,
                       "no collective library takes memory of %s; --transport mpi does",
                       device_kind_name(w->device->info.kind));
    }
    TRY(backend->open(w->arena, job->library, &w->collective, err));
    return collective_bench_open(w->arena, w->device, w->collective, bytes, &w->bench, err);
}

static bool answer(struct worker *w, enum status st, const char *word, const struct err *err)
{
    if (st == ST_OK) {
        return true;
    }
    /* "lacks": nothing is known to be wrong, something is not there. */
    bool lacks = st == ST_ABSENT || st == ST_UNSUPPORTED;
    say(w, "%s %s: %s", lacks ? "lacks" : "failed", word, err->text);
    return false;
}

static void do_open(struct worker *w, struct str rest)
{
    struct err err = {0};
    if (!answer(w, open_all(w, rest, &err), "open", &err)) {
        return;
    }
    const struct device_info *d = &w->device->info;
    bool host = w->job->mpi && d->kind == DEVICE_CPU;
    say(w, "opened %s|%s:%d|%s|%s", w->collective->backend->name, device_kind_name(d->kind),
        d->index, host ? "host memory" : d->name, w->collective->library.path);
}

/* ---- the communicator ---- */

static void do_id(struct worker *w)
{
    unsigned char id[COLLECTIVE_ID_BYTES];
    char hex[2 * COLLECTIVE_ID_BYTES + 1];
    struct err err = {0};
    if (!answer(w, w->collective->backend->make_id(w->collective, id, &err), "id", &err)) {
        return;
    }
    for (size_t i = 0; i < sizeof id; i++) {
        str_print(hex + 2 * i, 3, "%02x", id[i]);
    }
    say(w, "id %s", hex);
}

static bool from_hex(struct str text, unsigned char id[COLLECTIVE_ID_BYTES])
{
    for (size_t i = 0; i < COLLECTIVE_ID_BYTES; i++) {
        uint64_t byte;
        if (text.n != 2 * (size_t)COLLECTIVE_ID_BYTES ||
            str_to_u64(str_slice(text, 2 * i, 2 * i + 2), 16, &byte) != ST_OK) {
            return false;
        }
        id[i] = (unsigned char)byte;
    }
    return true;
}

static void do_join(struct worker *w, struct str rest)
{
    unsigned char id[COLLECTIVE_ID_BYTES];
    struct err err = {0};
    if (!from_hex(rest, id)) {
        say(w, "failed join: rank 0 sent no identifier");
        return;
    }
    enum status st = w->collective->backend->join(w->collective, id, w->rank, w->job->place.ranks,
                                                  &err);
    if (answer(w, st, "join", &err)) {
        say(w, "joined %s", w->collective->version);
    }
}

/* ---- trials ---- */

static void tell(void *context, const char *what)
{
    struct worker *w = context;
    say(w, "%s %u", what, w->trial);
}

static void answer_trial(struct worker *w, const struct collective_trial *t,
                         const struct collective_result *r)
{
    const struct collective_wrong *x = &r->wrong;
    struct strbuf out;
    if (t->aim == COLLECTIVE_CHECK) {
        say(w, "done %u %zu %zu %.17g %.17g %d", t->number, x->elements, x->first, x->got,
            x->wanted, x->beyond);
        return;
    }
    strbuf_init(&out, w->scratch, LINE_MAX_BYTES * 4);
    for (size_t i = 0; i < r->sample_count; i++) {
        strbuf_fmt(&out, " %.9g", r->seconds[i]);
    }
    say(w, "done %u%s", t->number, out.p);
}

/* "trial NUMBER AIM OP TYPE COUNT ROOT SAMPLES" */
static bool read_trial(struct str rest, struct collective_trial *t)
{
    uint64_t n[7];
    struct str word;
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        if (!str_cut(&rest, ' ', &word) || str_to_u64(word, 10, &n[i]) != ST_OK) {
            return false;
        }
    }
    *t = (struct collective_trial){.number = (unsigned)n[0],
                                   .aim = (enum collective_aim)n[1],
                                   .op = (enum collective_op)n[2],
                                   .type = (enum dtype)n[3],
                                   .count = n[4],
                                   .root = (int)n[5],
                                   .samples = (unsigned)n[6]};
    return n[1] < COLLECTIVE_AIM_COUNT && n[2] < COLLECTIVE_OP_COUNT && n[3] < DTYPE_COUNT &&
           n[5] < RENDEZVOUS_RANKS_MAX && n[6] <= COLLECTIVE_SAMPLES_MAX;
}

static void do_trial(struct worker *w, struct str rest)
{
    struct collective_trial t;
    struct collective_result result;
    struct err err = {0};
    if (!read_trial(rest, &t)) {
        say(w, "failed trial: rank 0 sent '%.*s'; is it the same version of assay?", STR_ARG(rest));
        return;
    }
    w->trial = t.number;
    enum status st = collective_bench_run(&w->bench, w->scratch, &t, tell, w, &result, &err);
    if (st != ST_OK) {
        say(w, "failed %s: %s", collective_op_name(t.op), err.text);
        return;
    }
    answer_trial(w, &t, &result);
}

static void obey(struct worker *w)
{
    char line[LINE_MAX_BYTES];
    for (;;) {
        struct str rest = next_command(w, line);
        struct str word;
        str_cut(&rest, ' ', &word);
        if (str_is(word, "open")) {
            do_open(w, rest);
        } else if (str_is(word, "id")) {
            do_id(w);
        } else if (str_is(word, "join")) {
            do_join(w, rest);
        } else if (str_is(word, "trial")) {
            do_trial(w, rest);
        } else if (str_is(word, "end")) {
            if (w->collective != NULL) {
                w->collective->backend->leave(w->collective);
            }
            _exit(exit_of(rest.p));
        } else {
            say(w, "failed: rank 0 sent '%.*s'; is it the same version of assay?", STR_ARG(word));
        }
    }
}

_Noreturn void collectives_work(const struct collectives_job *job, int rank, int local_rank)
{
    struct worker w = {.job = job, .rank = rank, .local_rank = local_rank};
    struct rendezvous_place place = job->place;
    struct err err = {0};
    pthread_t thread;
    w.arena = job->cli->arena;
    w.scratch = arena_new(0);
    w.inbox.cli = job->cli;
    w.inbox.rank = rank;
    place.rank = rank;
    if (job->launcher.rank == 0 && place.host != NULL) {
        place.host = "127.0.0.1"; /* of its own machine, whatever name the others know it by */
    }
    dup2(STDERR_FILENO,
         STDOUT_FILENO); /* NCCL and MPI print to the output, which is the report's */
    if (rendezvous_connect(w.arena, &place, rendezvous_now_s() + job->wait_s, &w.inbox.fd, &err) !=
        ST_OK) {
        _exit(cli_fail(job->cli, EXIT_UNKNOWN, "%s", err.text));
    }
    pthread_mutex_init(&w.inbox.lock, NULL);
    pthread_mutex_init(&w.inbox.writing, NULL);
    pthread_cond_init(&w.inbox.changed, NULL);
    if (pthread_create(&thread, NULL, listen_to_lead, &w.inbox) != 0) {
        _exit(cli_fail(job->cli, EXIT_UNKNOWN, "no thread can be started"));
    }
    obey(&w);
    _exit(EXIT_UNKNOWN);
}
