// SPDX-License-Identifier: Apache-2.0
/*
 * Entry: finds the command, prepares the invocation, runs it. What a command does is in its
 * cmd_*.c; what it may print goes through output.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/str.h"

#include "cli/command.h"

static _Noreturn void on_exhausted(const char *what)
{
    fprintf(stderr, "assay: %s\n", what);
    exit(EXIT_UNKNOWN);
}

/* A mapped file that shrinks under us raises SIGBUS: an input error, not a crash of ours. */
static void on_bus_error(int sig)
{
    (void)sig;
    static const char text[] =
        "assay: a file was truncated, or its disk failed, while it was being read\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(EXIT_UNKNOWN);
}

static bool color_wanted(const struct cli *cli, int fd)
{
    const char *when = cli_value(cli, "color", "auto");
    if (strcmp(when, "auto") != 0) {
        return strcmp(when, "always") == 0;
    }
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

static int terminal_width(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40) {
        return w.ws_col < 160 ? w.ws_col : 160;
    }
    return 100;
}

static int overview(struct cli *cli, int status)
{
    struct strbuf out;
    strbuf_init(&out, cli->arena, 1 << 16);
    help_overview(&out);
    if (status != EXIT_FINE) {
        fputs(out.p, stderr);
        return status;
    }
    return cli_emit(cli, strbuf_str(&out), status);
}

static int unknown_command(struct cli *cli, const char *name)
{
    const char *near = command_suggest(name);
    if (near != NULL) {
        return cli_fail(cli, EXIT_USAGE, "there is no command '%s'; did you mean '%s'?", name,
                        near);
    }
    return cli_fail(cli, EXIT_USAGE, "there is no command '%s'; 'assay help' lists them", name);
}

/* -h gives the short form, --help the long one; argv tells which was written. */
static bool long_help_wanted(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            return true;
        }
    }
    return false;
}

static int help_of(struct cli *cli, bool long_form)
{
    struct strbuf out;
    strbuf_init(&out, cli->arena, 1 << 20);
    if (long_form) {
        help_long(&out, cli->command, terminal_width());
    } else {
        help_short(&out, cli->command, terminal_width());
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

/* A result that cannot be written is told before hours of work, not after. The file itself is made at the end. */
static bool output_can_be_written(const struct cli *cli)
{
    const char *path = cli_value(cli, "output", NULL);
    if (path == NULL) {
        return true;
    }
    struct stat st;
    bool there = stat(path, &st) == 0;
    const char *slash = strrchr(path, '/');
    const char *folder = slash == NULL   ? "."
                         : slash == path ? "/"
                                         : arena_fmt(cli->arena, "%.*s", (int)(slash - path), path);
    int denied = there && S_ISDIR(st.st_mode) ? EISDIR
                 : access(there ? path : folder, W_OK) != 0 ? errno
                                                            : 0;
    denied = denied == ENOENT ? 0 : denied; /* the command may make the folder, as with --save */
    if (denied != 0) {
        cli_fail(cli, EXIT_UNKNOWN, "cannot write '%s': %s (%s)", path, strerror(denied),
                 err_name(denied));
    }
    return denied == 0;
}

static int run(struct cli *cli, int argc, char **argv)
{
    if (argc < 2) {
        return overview(cli, EXIT_USAGE);
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("assay %s\n", ASSAY_VERSION);
        return EXIT_FINE;
    }
    bool help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (help && argc < 3) {
        return overview(cli, EXIT_FINE);
    }
    cli->command = command_find(help ? argv[2] : name);
    if (cli->command == NULL) {
        return unknown_command(cli, help ? argv[2] : name);
    }
    if (help) {
        return help_of(cli, true);
    }
    struct err err = {0};
    if (cli_parse(cli, argc, argv, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    cli->stdout_color = cli_value(cli, "output", NULL) == NULL && color_wanted(cli, STDOUT_FILENO);
    cli->stderr_color = color_wanted(cli, STDERR_FILENO);
    if (cli_flag(cli, "help")) {
        return help_of(cli, long_help_wanted(argc, argv));
    }
    return output_can_be_written(cli) ? cli->command->run(cli) : EXIT_UNKNOWN;
}

int main(int argc, char **argv)
{
    arena_on_exhausted(on_exhausted);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGBUS, on_bus_error);
    static const struct command none = {.name = "", .operands = "", .options = common_options};
    struct cli cli = {.arena = arena_new(0),
                      .command = &none,
                      .stderr_tty = isatty(STDERR_FILENO),
                      .width = terminal_width()};
    int status = run(&cli, argc, argv);
    arena_free(cli.arena);
    if (fflush(stdout) != 0 && status == EXIT_FINE) {
        fprintf(stderr, "assay: cannot write to standard output\n");
        status = EXIT_UNKNOWN;
    }
    return status;
}
