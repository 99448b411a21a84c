// SPDX-License-Identifier: Apache-2.0
/* assay exporter: metrics of runs, GPUs and the host for Prometheus, over HTTP or as a text file. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/str.h"

#include "cli/command_list.h"
#include "cli/exporter/exporter.h"
#include "study/exposition.h"

enum {
    TICK_MS = 1000
};

#define DISCOVER_EVERY_S 10.0
#define DEFAULT_LISTEN   "127.0.0.1:9477"

static volatile int stop_requested;

static void on_signal(int sig)
{
    (void)sig;
    stop_requested = 1;
}

static double now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The page with readings that are at most a few seconds old: a thousand scrapes a second read the GPUs
 * no more often than one. */
static void make_page(struct exporter *e, bool openmetrics, struct strbuf *out)
{
    if (e->gpus.facts == NULL || now_s() - e->gpus.taken >= EXPORTER_GPU_EVERY_S) {
        gpu_readings_take(&e->gpus);
    }
    exporter_page(e, openmetrics, out);
}

static void answer(void *ctx, const struct http_request *request, struct arena *a,
                   struct http_answer *ret_answer)
{
    struct exporter *e = ctx;
    ret_answer->status = 200;
    if (str_is(request->path, "/metrics")) {
        struct strbuf out;
        strbuf_init(&out, a, EXPORTER_PAGE_MAX);
        make_page(e, request->openmetrics, &out);
        ret_answer->type = request->openmetrics ? EXPOSITION_TYPE_OPENMETRICS
                                                : EXPOSITION_TYPE_TEXT;
        ret_answer->body = strbuf_str(&out);
    } else if (str_is(request->path, "/healthz")) {
        ret_answer->body = STR("ok\n");
    } else if (str_is(request->path, "/")) {
        ret_answer->body = STR("assay exporter: the metrics are at /metrics\n");
    } else {
        ret_answer->status = 404;
        ret_answer->body = STR("there are /metrics and /healthz\n");
    }
}

/* ---- the text file ---- */

static enum status write_all(int fd, struct str text, const char *path, struct err *err)
{
    while (text.n != 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR) {
            return err_sys(err, errno, "cannot write '%s'", path);
        }
        text = str_slice(text, n > 0 ? (size_t)n : 0, text.n);
    }
    return ST_OK;
}

/* Readers see the old file or the new one: written beside it, then renamed over it. */
static enum status write_textfile(struct exporter *e, const char *path, struct err *err)
{
    struct arena *scratch = arena_new(0);
    struct strbuf out;
    strbuf_init(&out, scratch, EXPORTER_PAGE_MAX);
    make_page(e, false, &out);
    const char *beside = arena_fmt(scratch, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        int saved = errno;
        arena_free(scratch);
        return err_sys(err, saved, "cannot write beside '%s'", path);
    }
    enum status got = write_all(fd, strbuf_str(&out), path, err);
    if (close(fd) != 0 && got == ST_OK) {
        got = err_sys(err, errno, "cannot write '%s'", path);
    }
    if (got == ST_OK && rename(beside, path) != 0) {
        got = err_sys(err, errno, "cannot put the new file in the place of '%s'", path);
    }
    if (got != ST_OK) {
        (void)unlink(beside);
    }
    arena_free(scratch);
    return got;
}

/* ---- the loop ---- */

static int serve(struct exporter *e, const char *textfile, double interval)
{
    double looked = now_s();
    double polled = 0;
    double written = 0;
    bool more = true;
    bool told = false;
    while (stop_requested == 0) {
        double now = now_s();
        if (more || now - polled >= TICK_MS / 1000.0) {
            more = exporter_poll(e);
            polled = now;
        }
        if (now - looked >= DISCOVER_EVERY_S) {
            exporter_discover(e);
            looked = now;
        }
        if (textfile != NULL && (written == 0 || now - written >= interval) && !more) {
            struct err err = {0};
            written = now;
            if (write_textfile(e, textfile, &err) != ST_OK) {
                if (!told) {
                    cli_fail(e->cli, EXIT_UNKNOWN, "%s", err.text);
                }
                told = true; /* once, not every interval; it may pass: a disk that was full */
            } else {
                told = false;
            }
        }
        int wait = more ? 0 : TICK_MS - (int)((now_s() - polled) * 1000);
        wait = wait > 0 ? wait : 0;
        if (e->server != NULL) {
            http_server_step(e->server, wait);
        } else if (wait > 0) {
            (void)poll(NULL, 0, wait);
        }
    }
    return EXIT_FINE;
}

static int once(struct exporter *e, const char *textfile)
{
    struct err err = {0};
    while (exporter_poll(e) && stop_requested == 0) {
    }
    for (size_t i = 0; i < e->run_count; i++) {
        if (e->runs[i]->source != NULL) {
            anomaly_source_finish(e->runs[i]->source);
            anomaly_finish(e->runs[i]->set);
        }
    }
    if (textfile != NULL && cli_flag(e->cli, "openmetrics")) {
        return cli_fail(e->cli, EXIT_USAGE,
                        "a text file is read as text format 0.0.4; leave out "
                        "--openmetrics");
    }
    if (textfile != NULL) {
        return write_textfile(e, textfile, &err) == ST_OK
                   ? EXIT_FINE
                   : cli_fail(e->cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct strbuf out;
    strbuf_init(&out, e->cli->arena, EXPORTER_PAGE_MAX);
    make_page(e, cli_flag(e->cli, "openmetrics"), &out);
    return cli_emit(e->cli, strbuf_str(&out), EXIT_FINE);
}

static enum status prepare(struct exporter *e, double *ret_interval, struct err *err)
{
    const char *text;
    anomaly_rules_default(&e->rules);
    for (size_t i = 0; (text = cli_repeat(e->cli, "limit", i)) != NULL; i++) {
        TRY(anomaly_rules_set(&e->rules, text, err));
    }
    *ret_interval = 15;
    text = cli_value(e->cli, "interval", NULL);
    if (text != NULL && (str_to_double(str_of(text), ret_interval) != ST_OK ||
                         !(*ret_interval >= 1 && *ret_interval <= 86400))) {
        return err_set(err, ST_USAGE, "--interval takes seconds from 1 to 86400, not '%s'", text);
    }
    TRY(gpu_readings_open(e->cli->arena, cli_value(e->cli, "root", ""),
                          cli_value(e->cli, "nvml", NULL), &e->gpus, err));
    if (e->gpus.nvml_why != NULL) {
        cli_note(e->cli, "NVIDIA GPUs tell little: %s", e->gpus.nvml_why);
    }
    for (size_t i = 0; i < e->cli->operands.count; i++) {
        TRY(exporter_add(e, e->cli->operands.items[i], err));
    }
    exporter_discover(e);
    return ST_OK;
}

static int start(struct exporter *e, double interval)
{
    struct err err = {0};
    struct cli *cli = e->cli;
    const char *textfile = cli_value(cli, "textfile", NULL);
    const char *address = cli_value(cli, "listen", textfile == NULL ? DEFAULT_LISTEN : NULL);
    if (cli_flag(cli, "once")) {
        return once(e, textfile);
    }
    if (textfile != NULL && write_textfile(e, textfile, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    if (address != NULL) {
        if (http_server_open(cli->arena, address, answer, e, &e->server, &err) != ST_OK) {
            int status = err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN;
            return cli_fail(cli, status, "%s", err.text);
        }
        cli_note(cli, "metrics of %zu %s at http://%s/metrics; end with Ctrl-C", e->run_count,
                 e->run_count == 1 ? "run" : "runs", http_server_address(e->server));
    }
    return serve(e, textfile, interval);
}

static int run_exporter(struct cli *cli)
{
    struct err err = {0};
    struct exporter e = {.cli = cli, .started = exporter_epoch()};
    double interval;
    if (cli_flag(cli, "once") && cli_value(cli, "listen", NULL) != NULL) {
        return cli_fail(cli, EXIT_USAGE, "--once ends when the page is made; leave out --listen");
    }
    if (cli_flag(cli, "openmetrics") && !cli_flag(cli, "once")) {
        return cli_fail(
            cli, EXIT_USAGE,
            "--openmetrics belongs to --once: over HTTP the scraper chooses, and a text file "
            "is read as text format 0.0.4");
    }
    if (cli_value(cli, "output", NULL) != NULL &&
        (!cli_flag(cli, "once") || cli_value(cli, "textfile", NULL) != NULL)) {
        return cli_fail(cli, EXIT_USAGE,
                        "--output takes the page of --once; --textfile takes it again "
                        "and again");
    }
    if (cli_value(cli, "interval", NULL) != NULL && cli_value(cli, "textfile", NULL) == NULL) {
        return cli_fail(cli, EXIT_USAGE, "--interval is of --textfile; give both");
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int status = EXIT_FINE;
    if (prepare(&e, &interval, &err) != ST_OK) {
        status = cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    } else {
        status = start(&e, interval);
    }
    exporter_close(&e);
    return status;
}

static const char *const description[] = {
    "Serves metrics for Prometheus at http://127.0.0.1:9477/metrics (OpenMetrics, or the text format 0.0.4 "
    "where the scraper asks for it), or writes them to a file for the textfile collector of node_exporter: "
    "steps, loss, gradient norm, throughput, age of the last progress and anomalies by kind of each run; "
    "memory, clock, power, temperature and error counters of the GPUs as far as sysfs tells; memory of "
    "the host.",
    "A RUN is a log, a folder that 'assay run' made, or a folder of such folders or of routes with them "
    "('assay matrix'), in which new ones are looked for. At most 64 runs are followed; of folders those "
    "of the last day. Without RUN only GPUs and the host are shown. There is no TLS and no password: "
    "listen on 127.0.0.1, or behind a proxy.",
    NULL,
};

static const struct example examples[] = {
    {"assay exporter runs/", "serve all runs below a folder, and the GPUs"},
    {"assay exporter --listen 0.0.0.0:9477 train.log", "let other machines scrape"},
    {"assay exporter --textfile /var/lib/node_exporter/assay.prom runs/", "for node_exporter"},
    {"assay exporter --once train.log", "print the page once"},
    {0},
};

static const struct option_spec options[] = {
    {"listen", 'l', OPTION_VALUE, "HOST:PORT",
     "Where to listen (127.0.0.1:9477); port 0 takes a free one"},
    {"textfile", 0, OPTION_VALUE, "FILE", "Write the page to FILE again and again, atomically"},
    {"interval", 0, OPTION_VALUE, "SECONDS", "How often --textfile is written (15)"},
    {"once", 0, OPTION_FLAG, NULL, "Read to the end, print or write the page once, and end"},
    {"openmetrics", 0, OPTION_FLAG, NULL,
     "With --once: OpenMetrics instead of the text format 0.0.4"},
    {"root", 0, OPTION_VALUE, "DIR", "Read sysfs and procfs under DIR"},
    {"nvml", 0, OPTION_VALUE, "PATH",
     "Ask NVIDIA GPUs through this libnvidia-ml, not the usual one"},
    {"limit", 0, OPTION_REPEAT, "NAME=N",
     "Another limit of the detector; 'assay watch' lists them"},
    {0},
};

const struct command command_exporter = {
    .name = "exporter",
    .summary = "Serve metrics of runs and GPUs to Prometheus",
    .operands = "[RUN...]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_exporter,
};
