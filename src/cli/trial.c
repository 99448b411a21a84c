// SPDX-License-Identifier: Apache-2.0
/* See trial.h. */
#include "cli/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

enum {
    RUN_JSON_MAX = 16 << 20,
    POLL_NS = 100000000
};

static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t to_forward; /* a signal that the child did not get by itself */

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    interrupted = 1;
    /* A terminal sends to the whole group, the child included. */
    if (info->si_code <= 0 || signal != SIGINT) {
        to_forward = signal;
    }
}

void trial_catch_signals(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool trial_was_interrupted(void)
{
    return interrupted != 0;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char **arguments(struct arena *a, const struct trial *t)
{
    struct text_list list = {0};
    const struct plan_route *r = t->route;
#define ADD(word) (*VEC_PUSH(a, &list) = (word))
    ADD("assay");
    ADD("run");
    ADD("--quiet");
    ADD("--record");
    ADD(t->folder);
    ADD("--output");
    ADD("/dev/null");
    if (t->time_limit_s > 0) {
        ADD("--timeout");
        ADD(arena_fmt(a, "%g", t->time_limit_s));
    }
    if (t->hang_s > 0) {
        ADD("--hang");
        ADD(arena_fmt(a, "%g", t->hang_s));
        ADD("--kill-hung");
    }
    if (!t->facts) {
        ADD("--no-facts");
    }
    if (r->guard) {
        ADD("--guard");
    }
    if (r->guard && r->serialize) {
        ADD("--serialize");
    }
    for (size_t i = 0; i < r->environment.count; i++) {
        ADD("--env");
        ADD(r->environment.items[i]);
    }
    for (size_t i = 0; i < r->expect.count; i++) {
        ADD("--expect");
        ADD(r->expect.items[i]);
    }
    ADD("--");
#undef ADD
    char **argv = arena_array(a, list.count + r->command.count + 1, sizeof *argv);
    for (size_t i = 0; i < list.count; i++) {
        argv[i] = arena_strdup(a, list.items[i]);
    }
    for (size_t i = 0; i < r->command.count; i++) {
        argv[list.count + i] = arena_strdup(a, r->command.items[i]);
    }
    return argv;
}

static enum status start(struct arena *a, const struct trial *t, const char *errors, pid_t *ret_pid,
                         struct err *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addchdir_np(&actions, t->route->directory);
    int failed = posix_spawn(ret_pid, "/proc/self/exe", &actions, NULL, arguments(a, t), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        return err_set(err, ST_USAGE, "cannot start a trial of route '%s' in '%s': %s (%s)",
                       t->route->name, t->route->directory, strerror(failed), err_name(failed));
    }
    return ST_OK;
}

/* How it ended, as waitpid(2) tells it; -1 when nobody does. */
static int wait_for(pid_t pid, void (*tick)(void *ctx, double seconds), void *ctx)
{
    double began = now_s();
    struct timespec pause = {0, POLL_NS};
    int status = -1;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (to_forward != 0) {
            kill(pid, (int)to_forward);
            to_forward = 0;
        }
        tick(ctx, now_s() - began);
        nanosleep(&pause, NULL);
    }
    return got == pid ? status : -1;
}

/* Why a trial left nothing behind: what it said last, or what keeps it from saying anything. */
static const char *why_nothing(struct arena *a, struct str said, const char *folder, int status)
{
    struct str line;
    struct str last = {.p = "", .n = 0};
    struct statvfs fs;
    while (str_cut_line(&said, &line)) {
        last = line.n != 0 ? line : last;
    }
    if (last.n != 0) {
        return str_dup(a, str_slice(last, 0, last.n < 600 ? last.n : 600));
    }
    const char *slash = strrchr(folder, '/');
    const char *parent = slash != NULL && slash != folder
                             ? str_dup(a, str_slice(str_of(folder), 0, (size_t)(slash - folder)))
                             : ".";
    if (statvfs(parent, &fs) == 0 && (fs.f_bavail == 0 || (fs.f_files != 0 && fs.f_favail == 0))) {
        return arena_fmt(a, "no room is left in the file system of '%s'", parent);
    }
    return arena_fmt(a, "assay run left no run.json in '%s' and said nothing (wait status %d)",
                     folder, status);
}

static const char *ending_of(struct arena *a, const char *folder)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    const struct tree *run;
    const char *path = arena_fmt(a, "%s/run.json", folder);
    if (fs_read(&live, a, path, RUN_JSON_MAX, &text, NULL) != ST_OK ||
        tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &run, NULL) != ST_OK) {
        return NULL;
    }
    return tree_text(run, "ending", NULL);
}

bool trial_is_finished(struct arena *a, const char *folder)
{
    const char *ending = ending_of(a, folder);
    return ending != NULL && strcmp(ending, "running") != 0 && strcmp(ending, "interrupted") != 0 &&
           strcmp(ending, "not started") != 0;
}

enum status trial_run(struct cli *cli, const struct trial *t,
                      void (*tick)(void *ctx, double seconds), void *ctx, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = cli->arena;
    const char *errors = arena_fmt(a, "%s.err", t->folder);
    pid_t pid = -1;
    TRY(start(a, t, errors, &pid, err));
    int status = wait_for(pid, tick, ctx);
    const char *ending = ending_of(a, t->folder);
    struct str text = {0};
    if (fs_read(&live, a, errors, RUN_JSON_MAX, &text, NULL) != ST_OK) {
        text = (struct str){0};
    }
    unlink(errors);
    if (ending == NULL && !trial_was_interrupted()) {
        bool usage = status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE;
        return err_set(err, usage ? ST_USAGE : ST_IO, "no trial of route '%s' could be run: %s",
                       t->route->name, why_nothing(a, text, t->folder, status));
    }
    if (ending != NULL && strcmp(ending, "not started") == 0) {
        return err_set(err, ST_USAGE,
                       "the command of route '%s' cannot be started: '%s' in the folder '%s'",
                       t->route->name, t->route->command.items[0], t->route->directory);
    }
    return ST_OK;
}
