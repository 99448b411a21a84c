// SPDX-License-Identifier: Apache-2.0
/* The only place that prints. Results on stdout, everything else on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

#include "cli/command.h"

/* State of the progress line; cli/ may hold writable statics (STYLE.md, rule 13). */
static struct {
    double first;
    double last;
    bool drawn;
} progress;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void progress_erase(void)
{
    if (progress.drawn) {
        fputs("\r\033[K", stderr);
        progress.drawn = false;
    }
}

void cli_progress(const struct cli *cli, const char *fmt, ...)
{
    if (!cli->stderr_tty || cli_flag(cli, "quiet")) {
        return;
    }
    if (fmt == NULL) {
        progress_erase();
        return;
    }
    double t = now_s();
    if (progress.first == 0) {
        progress.first = t;
    }
    if (t - progress.first < 1.0 || t - progress.last < 0.1) {
        return;
    }
    progress.last = t;
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\r\033[K%.*s", cli->width - 1, text);
    progress.drawn = true;
}

static void say(const struct cli *cli, const char *tint, const char *fmt, va_list ap)
{
    progress_erase();
    char text[1600];
    vsnprintf(text, sizeof text, fmt, ap);
    /* Names of files and from files do not steer a terminal; U+0080 to U+009F would, too. */
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++) {
        bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
        if (c1) {
            *p++ = '?';
        }
        *p = c1 || (*p < ' ' && *p != '\n') || *p == 0x7f ? '?' : *p;
    }
    if (cli->stderr_color) {
        fprintf(stderr, "\033[%smassay:\033[0m %s\n", tint, text);
    } else {
        fprintf(stderr, "assay: %s\n", text);
    }
}

int cli_fail(const struct cli *cli, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(cli, "31", fmt, ap);
    va_end(ap);
    return status;
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
    if (cli_flag(cli, "quiet")) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    say(cli, "36", fmt, ap);
    va_end(ap);
}

static bool write_all(int fd, struct str text)
{
    while (text.n != 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        text = str_slice(text, (size_t)n, text.n);
    }
    return true;
}

static int emit(const struct cli *cli, int fd, struct str text, int status)
{
    progress_erase();
    const char *path = cli_value(cli, "output", NULL);
    if (path != NULL) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0) {
            cli_fail(cli, EXIT_UNKNOWN,
                     "cannot write '%s': %s (%s); the result is on standard output", path,
                     strerror(errno), err_name(errno));
            (void)write_all(STDOUT_FILENO, text); /* what took hours is not lost */
            return EXIT_UNKNOWN;
        }
    }
    bool fine = write_all(fd, text);
    int saved = errno;
    if (path != NULL && close(fd) != 0 && fine) {
        fine = false;
        saved = errno;
    }
    if (!fine && saved != EPIPE) {
        return cli_fail(cli, EXIT_UNKNOWN, "cannot write the result to %s: %s (%s)",
                        path != NULL ? path : "standard output", strerror(saved), err_name(saved));
    }
    return status;
}

int cli_emit(const struct cli *cli, struct str text, int status)
{
    return emit(cli, STDOUT_FILENO, text, status);
}

int cli_emit_aside(const struct cli *cli, struct str text, int status)
{
    return emit(cli, STDERR_FILENO, text, status);
}
