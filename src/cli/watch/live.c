// SPDX-License-Identifier: Apache-2.0
/*
 * assay watch, following: a loop that reads what came, judges it, shows it and sends it. Nothing in it
 * waits for anybody: files are read as far as they reach, messages go out as the socket takes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/ioctl.h>

#include "base/str.h"

#include "cli/gpu_readings.h"
#include "cli/watch/view.h"
#include "cli/watch/watch.h"
#include "study/http_sender.h"

enum {
    TICK_MS = 250,
    FRAME_MAX = 1 << 20,
    INTERVALS_MIN = 3 /* between values before silence is judged */
};

#define GPU_EVERY_S  5.0
#define DRAW_EVERY_S 0.5
#define QUIET_END_S  2.0  /* behind the closing line of a log */
#define FAREWELL_S   20.0 /* for messages that are still on their way */

struct live {
    struct watch *w;
    int fd;
    bool view, json;
    bool failed; /* the output cannot be written */
    int error;   /* why: an errno */
    struct watch_view *screen;
    struct http_sender *sender; /* NULL: no --webhook */
    struct gpu_readings gpus;
    bool with_gpus;
    double drawn, arrived, usual;
    uint64_t seen, intervals;
};

static double now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double epoch_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void put(struct live *l, struct str text)
{
    while (text.n != 0 && !l->failed) {
        ssize_t n = write(l->fd, text.p, text.n);
        if (n < 0 && errno != EINTR) {
            l->failed = true;
            l->error = errno;
        }
        text = str_slice(text, n > 0 ? (size_t)n : 0, text.n);
    }
}

/* ---- what is found and read ---- */

static void on_anomaly(void *ctx, const struct anomaly *a, const struct finding *f)
{
    struct live *l = ctx;
    struct arena *scratch = arena_new(0);
    struct strbuf line;
    strbuf_init(&line, scratch, HTTP_MESSAGE_MAX);
    if (l->json || l->sender != NULL) {
        watch_json(&line, a, f);
    }
    if (l->sender != NULL) {
        http_sender_push(l->sender, strbuf_str(&line));
    }
    if (!l->json) {
        strbuf_clear(&line);
        anomaly_line(&line, a);
    }
    if (l->view) {
        watch_view_anomaly(l->screen, a->severity, line.p);
    } else {
        strbuf_addc(&line, '\n');
        put(l, strbuf_str(&line));
    }
    arena_free(scratch);
}

static void on_value(void *ctx, const struct anomaly_sample *sample)
{
    struct live *l = ctx;
    if (l->view) {
        watch_view_value(l->screen, sample);
    }
}

/* ---- the screen ---- */

static bool terminal_has_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
        }
    }
    return false;
}

static const char *headline(struct live *l, struct arena *a)
{
    struct watch *w = l->w;
    struct anomaly_progress p = anomaly_source_progress(w->sources[0]);
    struct strbuf out;
    strbuf_init(&out, a, 1000);
    strbuf_fmt(&out, "assay watch %s", w->cli->operands.items[0]);
    if (p.step >= 0) {
        strbuf_fmt(&out, "  step %" PRId64, p.step);
    }
    if (p.total > 0) {
        strbuf_fmt(&out, " of %" PRId64, p.total);
    }
    strbuf_fmt(&out, "  errors: %" PRIu64 ", warnings: %" PRIu64,
               anomaly_count_severity(w->set, SEVERITY_ERROR),
               anomaly_count_severity(w->set, SEVERITY_WARNING));
    if (l->arrived > 0) {
        strbuf_fmt(&out, "  last value %.0f s ago", now_s() - l->arrived);
    }
    if (l->sender != NULL) {
        struct http_sender_counts c = http_sender_counts(l->sender);
        strbuf_fmt(&out, "  webhook: %" PRIu64 " sent, %" PRIu64 " lost", c.sent,
                   c.failed + c.dropped);
    }
    strbuf_addz(&out, "  (Ctrl-C ends)");
    return out.p;
}

static void draw(struct live *l)
{
    double now = now_s();
    if (!l->view || now - l->drawn < DRAW_EVERY_S) {
        return;
    }
    l->drawn = now;
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    struct arena *scratch = arena_new(0);
    struct strbuf out;
    strbuf_init(&out, scratch, FRAME_MAX);
    const struct view_frame frame = {.columns = size.ws_col > 20 ? size.ws_col : 80,
                                     .rows = size.ws_row > 4 ? size.ws_row : 24,
                                     .color = l->w->cli->stdout_color,
                                     .utf8 = terminal_has_utf8(),
                                     .head = headline(l, scratch)};
    watch_view_draw(l->screen, &frame, &out);
    put(l, strbuf_str(&out));
    arena_free(scratch);
}

/* ---- the loop ---- */

static void judge_silence(struct live *l, bool over)
{
    double now = now_s();
    if (l->w->values != l->seen) {
        if (l->seen != 0 && l->arrived > 0) {
            double gap = now - l->arrived;
            l->usual = l->intervals == 0 ? gap : 0.9 * l->usual + 0.1 * gap;
            l->intervals++;
        }
        l->seen = l->w->values;
        l->arrived = now;
    } else if (!over && l->intervals >= INTERVALS_MIN) {
        anomaly_silence(l->w->set, now - l->arrived, l->usual, epoch_s());
    }
}

static void judge_gpus(struct live *l)
{
    if (!l->with_gpus || now_s() - l->gpus.taken < GPU_EVERY_S) {
        return;
    }
    struct anomaly_gpu gpus[GPU_READINGS_MAX];
    gpu_readings_take(&l->gpus);
    anomaly_gpus(l->w->set, gpus, gpu_readings_compare(&l->gpus, gpus), epoch_s());
}

/* The run is over: every source says so, and the logs stopped growing. */
static bool all_ended(const struct live *l)
{
    bool ended = true;
    for (size_t i = 0; i < l->w->source_count; i++) {
        ended &= anomaly_source_progress(l->w->sources[i]).ended;
    }
    return ended;
}

static void wait_a_moment(struct live *l)
{
    double until = now_s() + TICK_MS / 1000.0;
    while (l->sender != NULL && !http_sender_idle(l->sender) && now_s() < until &&
           watch_stop == 0) {
        struct timespec t = {.tv_nsec = 5000000};
        http_sender_step(l->sender, 20);
        nanosleep(&t, NULL);
    }
    int rest = (int)((until - now_s()) * 1000);
    if (rest > 0 && watch_stop == 0) {
        /* Standard input wakes us; when it is at its end, it always would. */
        bool input = strcmp(l->w->cli->operands.items[0], "-") == 0;
        struct pollfd p = {.fd = input ? STDIN_FILENO : -1, .events = POLLIN};
        (void)poll(&p, 1, rest);
    }
}

static void follow(struct live *l)
{
    double quiet_since = 0;
    uint64_t lines = 0;
    while (watch_stop == 0 && !l->failed) {
        bool more = watch_poll(l->w);
        uint64_t now_lines = 0;
        for (size_t i = 0; i < l->w->source_count; i++) {
            now_lines += anomaly_source_progress(l->w->sources[i]).lines;
        }
        bool over = all_ended(l);
        if (now_lines != lines || !over) {
            lines = now_lines;
            quiet_since = now_s();
        }
        judge_silence(l, over);
        judge_gpus(l);
        draw(l);
        if (over && !more && now_s() - quiet_since >= QUIET_END_S) {
            return;
        }
        if (!more) {
            wait_a_moment(l);
        } else if (l->sender != NULL) {
            http_sender_step(l->sender, 0);
        }
    }
}

/* Messages that wait get their time, also after Ctrl-C; a second one ends the program. */
static void send_rest(struct live *l)
{
    double until = now_s() + FAREWELL_S;
    while (l->sender != NULL && !http_sender_idle(l->sender) && now_s() < until) {
        struct timespec t = {.tv_nsec = 20000000};
        http_sender_step(l->sender, 100);
        nanosleep(&t, NULL);
    }
    if (l->sender == NULL) {
        return;
    }
    struct http_sender_counts c = http_sender_counts(l->sender);
    uint64_t lost = c.failed + c.dropped + (http_sender_idle(l->sender) ? 0 : 1);
    if (lost != 0) {
        cli_note(l->w->cli, "the webhook missed %" PRIu64 " of the messages: %s", lost,
                 c.problem != NULL ? c.problem : "they came faster than it took them");
    }
}

static int finish(struct live *l)
{
    struct watch *w = l->w;
    int status;
    for (size_t i = 0; i < w->source_count; i++) {
        anomaly_source_finish(w->sources[i]);
    }
    anomaly_finish(w->set);
    if (l->view) {
        put(l, STR("\033[?25h\033[?1049l"));
        for (size_t i = 0; i < w->findings.count; i++) {
            const struct finding *f = &w->findings.items[i];
            put(l, str_of(arena_fmt(w->cli->arena, "%s %s: %s\n", severity_name(f->severity), f->id,
                                    f->title)));
        }
    }
    send_rest(l);
    if (w->values == 0) {
        return cli_fail(w->cli, EXIT_UNKNOWN, "no metric was found in '%s'",
                        w->cli->operands.items[0]);
    }
    const char *verdict = watch_verdict(w, &status);
    if (l->json) {
        cli_note(w->cli, "%s", verdict);
    } else {
        put(l, str_of(arena_fmt(w->cli->arena, "%s\n", verdict)));
    }
    if (l->failed && l->error != EPIPE) { /* who reads no further has seen enough */
        return cli_fail(w->cli, EXIT_UNKNOWN, "cannot write the result: %s (%s)",
                        strerror(l->error), err_name(l->error));
    }
    return status;
}

static int open_live(struct live *l)
{
    struct cli *cli = l->w->cli;
    struct err err = {0};
    const char *path = cli_value(cli, "output", NULL);
    const char *url = cli_value(cli, "webhook", NULL);
    l->fd = STDOUT_FILENO;
    l->json = cli_flag(cli, "json") || strcmp(cli_value(cli, "format", "text"), "json") == 0;
    l->with_gpus = cli_flag(cli, "gpus");
    if (url != NULL && http_sender_open(cli->arena, url, &l->sender, &err) != ST_OK) {
        int status = err.status == ST_ABSENT ? EXIT_UNKNOWN : EXIT_USAGE;
        return cli_fail(cli, status, "--webhook: %s", err.text);
    }
    if (l->with_gpus) {
        if (gpu_readings_open(cli->arena, cli_value(cli, "root", ""), NULL, &l->gpus, &err) !=
            ST_OK) {
            return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
        }
        gpu_readings_take(&l->gpus);
        if (l->gpus.count == 0) {
            return cli_fail(cli, EXIT_UNKNOWN, "--gpus: this machine has no GPU that sysfs shows");
        }
    }
    if (path != NULL) {
        l->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (l->fd < 0) {
            return cli_fail(cli, EXIT_UNKNOWN, "cannot write '%s': %s (%s)", path, strerror(errno),
                            err_name(errno));
        }
    }
    l->view = path == NULL && !l->json && !cli_flag(cli, "plain") && isatty(STDOUT_FILENO);
    return EXIT_FINE;
}

int watch_live(struct watch *w)
{
    struct live l = {.w = w, .fd = -1};
    int status = open_live(&l);
    if (status == EXIT_FINE) {
        l.screen = arena_alloc(w->cli->arena, sizeof *l.screen);
        watch_view_init(l.screen);
        w->on_anomaly = on_anomaly;
        w->on_value = on_value;
        w->ctx = &l;
        if (l.view) {
            put(&l, STR("\033[?1049h\033[?25l"));
        }
        follow(&l);
        status = finish(&l);
        if (l.fd != STDOUT_FILENO && close(l.fd) != 0) {
            status = cli_fail(w->cli, EXIT_UNKNOWN, "cannot write the result: %s", strerror(errno));
        }
    }
    http_sender_close(l.sender);
    gpu_readings_close(&l.gpus);
    return status;
}
