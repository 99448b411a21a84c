// SPDX-License-Identifier: Apache-2.0
/* See supervise.h. One loop over pipes and signals; no threads. */
#include "recorder/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "recorder/process_tree.h"

enum {
    LINE_MAX_BYTES = 16384,
    DRAIN_MS = 2000
};

struct stream {
    int from; /* our end of the pipe or terminal; -1 when it ended */
    int to;   /* 1 or 2 */
    int log;
    char line[LINE_MAX_BYTES];
    size_t line_n;
};

struct job {
    const struct supervise_options *o;
    struct supervise_result r;
    struct stream streams[2];
    pid_t pid;
    bool ended;
    bool file_limit_ignored;                        /* by whoever started us */
    int stop_signal;                                /* we were asked to end */
    double start, last_sign, last_tick, terminated; /* seconds; terminated 0: not yet */
    uint64_t progress;
};

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- starting ---- */

/* Where our own stream is a terminal the command gets one too, so that progress bars and colours stay
 * what they were; else a pipe. */
static int open_stream(int ours, int *ret_from, int *ret_to)
{
    if (!isatty(ours)) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return errno;
        }
        *ret_from = ends[0];
        *ret_to = ends[1];
        return 0;
    }
    char name[128];
    int from = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (from < 0 || grantpt(from) != 0 || unlockpt(from) != 0 ||
        ptsname_r(from, name, sizeof name) != 0) {
        return errno;
    }
    int to = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios mode;
    struct winsize size;
    if (to < 0) {
        return errno;
    }
    if (tcgetattr(to, &mode) == 0) {
        mode.c_oflag &= ~(tcflag_t)OPOST; /* line ends are translated once, by the real terminal */
        mode.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(to, TCSANOW, &mode);
    }
    if (ioctl(ours, TIOCGWINSZ, &size) == 0) {
        ioctl(to, TIOCSWINSZ, &size);
    }
    *ret_from = from;
    *ret_to = to;
    return 0;
}

/* In the child: only what is safe between fork and exec. */
static _Noreturn void become(const struct job *j, const int to[2], int report, const sigset_t *mask)
{
    const struct supervise_options *o = j->o;
    sigprocmask(SIG_SETMASK, mask, NULL);
    /* Ours are ignored, and that would be inherited. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, j->file_limit_ignored ? SIG_IGN : SIG_DFL);
    if (dup2(to[0], 1) >= 0 && dup2(to[1], 2) >= 0) {
        execvpe(o->argv[0], o->argv, o->environment);
    }
    int failed = errno;
    ssize_t n = write(report, &failed, sizeof failed);
    _exit(n == sizeof failed ? 127 : 126);
}

static enum status start(struct job *j, const sigset_t *mask, struct err *err)
{
    int to[2] = {-1, -1};
    int report[2];
    for (int i = 0; i < 2; i++) {
        int failed = open_stream(i + 1, &j->streams[i].from, &to[i]);
        if (failed != 0) {
            return err_sys(err, failed, "cannot make a pipe for the output of the command");
        }
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        return err_sys(err, errno, "cannot make a pipe");
    }
    j->pid = fork();
    if (j->pid < 0) {
        return err_sys(err, errno, "cannot start a process");
    }
    if (j->pid == 0) {
        become(j, to, report[1], mask);
    }
    close(to[0]);
    close(to[1]);
    close(report[1]);
    int failed = 0;
    if (read(report[0], &failed, sizeof failed) == sizeof failed) {
        j->r.ending = RUN_NOT_STARTED;
        j->r.code = failed;
    }
    close(report[0]);
    return ST_OK;
}

/* ---- output ---- */

/* True when the reader of our output has closed it. Other failures are ours alone: the command shall not notice. */
static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(fd, p, n);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, 1000);
            continue;
        }
        if (wrote <= 0) {
            return wrote < 0 && errno == EPIPE;
        }
        p += wrote;
        n -= (size_t)wrote;
    }
    return false;
}

static void write_log(struct job *j, struct stream *s, const char *p, size_t n)
{
    while (s->log >= 0 && n > 0) {
        ssize_t wrote = write(s->log, p, n);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            j->r.log_failed = true;
            j->r.log_errno = wrote < 0 ? errno : ENOSPC;
            s->log = -1;
            return;
        }
        p += wrote;
        n -= (size_t)wrote;
    }
}

/* Whole lines to the observer; progress bars end theirs with a carriage return. */
static void feed_lines(struct job *j, struct stream *s, const char *p, size_t n)
{
    for (size_t i = 0; j->o->line != NULL && i < n; i++) {
        if (p[i] == '\n' || p[i] == '\r' || s->line_n == sizeof s->line) {
            if (s->line_n > 0) {
                j->o->line(j->o->ctx, s->to, s->line, s->line_n);
            }
            s->line_n = 0;
        } else {
            s->line[s->line_n++] = p[i];
        }
    }
}

/* False when there was nothing to read. */
static bool take(struct job *j, struct stream *s)
{
    char block[65536];
    ssize_t n = s->from >= 0 ? read(s->from, block, sizeof block) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return false;
    }
    if (n <= 0) { /* a terminal whose other end was closed says EIO */
        if (s->from >= 0) {
            close(s->from);
            s->from = -1;
        }
        return false;
    }
    bool closed = write_all(s->to, block, (size_t)n);
    write_log(j, s, block, (size_t)n);
    feed_lines(j, s, block, (size_t)n);
    j->last_sign = now_s(CLOCK_MONOTONIC);
    if (closed) { /* as `| head` does: the command's next line meets SIGPIPE, as it would without us */
        close(s->from);
        s->from = -1;
    }
    return true;
}

/* ---- the end ---- */

static void signal_all(int signal)
{
    pid_t pids[PROCESS_TREE_MAX];
    size_t n = process_tree(getpid(), pids, PROCESS_TREE_MAX);
    for (size_t i = 0; i < n; i++) {
        kill(pids[i], signal);
        if (signal == SIGTERM) {
            kill(pids[i], SIGCONT); /* a stopped process takes its signals only when it goes on */
        }
    }
}

static void reap(struct job *j)
{
    int status;
    struct rusage use;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &use)) > 0) {
        uint64_t peak = (uint64_t)use.ru_maxrss * 1024;
        j->r.peak_memory_bytes = peak > j->r.peak_memory_bytes ? peak : j->r.peak_memory_bytes;
        if (pid != j->pid) {
            continue;
        }
        j->ended = true;
        if (WIFSIGNALED(status)) {
            j->r.signal = WTERMSIG(status);
            j->r.core = WCOREDUMP(status);
            j->r.ending = j->r.ending == RUN_EXITED ? RUN_SIGNALLED : j->r.ending;
        } else if (j->r.ending != RUN_NOT_STARTED) {
            j->r.code = WEXITSTATUS(status);
        }
    }
}

static void on_signals(struct job *j, int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            reap(j);
        } else if (info.ssi_signo == SIGWINCH) {
            struct winsize size;
            for (int i = 0; i < 2; i++) {
                if (j->streams[i].from >= 0 && ioctl(i + 1, TIOCGWINSZ, &size) == 0) {
                    ioctl(j->streams[i].from, TIOCSWINSZ, &size);
                }
            }
        } else if (info.ssi_signo == SIGINT && info.ssi_code > 0) {
            j->stop_signal = SIGINT; /* the terminal sent it to the whole group */
        } else {
            j->stop_signal = (int)info.ssi_signo;
            kill(j->pid, (int)info.ssi_signo);
        }
    }
}

static void stop(struct job *j, enum run_ending why, double now)
{
    if (j->terminated == 0) {
        j->r.ending = why;
        j->terminated = now;
        signal_all(SIGTERM);
    } else if (now - j->terminated > j->o->grace_s) {
        signal_all(SIGKILL);
    }
}

static void watch(struct job *j, double now)
{
    if (now - j->last_tick >= 1.0) {
        j->last_tick = now;
        uint64_t progress = j->o->tick != NULL ? j->o->tick(j->o->ctx, now - j->start) : 0;
        if (progress != j->progress) {
            j->progress = progress;
            j->last_sign = now;
        }
    }
    double silent = now - j->last_sign;
    if (j->o->hang_s > 0 && silent > j->o->hang_s && !j->r.hang_seen) {
        j->r.hang_seen = true;
        j->r.hang_after_s = now - j->start;
        pid_t pids[PROCESS_TREE_MAX];
        size_t n = process_tree(getpid(), pids, PROCESS_TREE_MAX);
        if (j->o->hung != NULL) {
            j->o->hung(j->o->ctx, silent, pids, n);
        }
    }
    if (j->o->limit_s > 0 && now - j->start > j->o->limit_s) {
        stop(j, RUN_TIMED_OUT, now);
    } else if (j->r.hang_seen && j->o->kill_hung) {
        stop(j, RUN_HUNG, now);
    }
}

/* What is still in the pipes after the command ended; a process that it left behind may hold them. */
static void drain(struct job *j)
{
    double until = now_s(CLOCK_MONOTONIC) + DRAIN_MS * 1e-3;
    while ((j->streams[0].from >= 0 || j->streams[1].from >= 0) && now_s(CLOCK_MONOTONIC) < until) {
        struct pollfd fds[2] = {{.fd = j->streams[0].from, .events = POLLIN},
                                {.fd = j->streams[1].from, .events = POLLIN}};
        if (poll(fds, 2, 100) > 0) {
            for (int i = 0; i < 2; i++) {
                if (fds[i].revents != 0) {
                    take(j, &j->streams[i]);
                }
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        struct stream *s = &j->streams[i];
        if (s->line_n > 0 && j->o->line != NULL) {
            j->o->line(j->o->ctx, s->to, s->line, s->line_n);
        }
        if (s->from >= 0) {
            close(s->from);
        }
    }
}

static void clear_away(struct job *j)
{
    pid_t pids[PROCESS_TREE_MAX];
    j->r.left_behind = process_tree(getpid(), pids, PROCESS_TREE_MAX);
    if (j->r.left_behind == 0) {
        return;
    }
    signal_all(SIGTERM);
    double until = now_s(CLOCK_MONOTONIC) + j->o->grace_s;
    struct timespec pause = {0, 20000000};
    while (process_tree(getpid(), pids, PROCESS_TREE_MAX) > 0 && now_s(CLOCK_MONOTONIC) < until) {
        nanosleep(&pause, NULL);
        reap(j);
    }
    signal_all(SIGKILL);
    reap(j);
}

static void loop(struct job *j, int signals)
{
    while (!j->ended) {
        struct pollfd fds[3] = {{.fd = j->streams[0].from, .events = POLLIN},
                                {.fd = j->streams[1].from, .events = POLLIN},
                                {.fd = signals, .events = POLLIN}};
        int ready = poll(fds, 3, 250);
        if (ready > 0) {
            for (int i = 0; i < 2; i++) {
                if (fds[i].revents != 0) {
                    take(j, &j->streams[i]);
                }
            }
            if (fds[2].revents != 0) {
                on_signals(j, signals);
            }
        }
        watch(j, now_s(CLOCK_MONOTONIC));
    }
}

enum status supervise(const struct supervise_options *o, struct supervise_result *ret_result,
                      struct err *err)
{
    struct job j = {.o = o};
    j.streams[0] = (struct stream){.from = -1, .to = 1, .log = o->stdout_log};
    j.streams[1] = (struct stream){.from = -1, .to = 2, .log = o->stderr_log};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t taken;
    sigset_t before;
    sigemptyset(&taken);
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT,  SIGHUP,
                                  SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaddset(&taken, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &taken, &before);
    signal(SIGPIPE, SIG_IGN);
    /* A limit on file sizes (ulimit -f) ends a log, not its writer. */
    j.file_limit_ignored = signal(SIGXFSZ, SIG_IGN) == SIG_IGN;
    int fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        return err_sys(err, errno, "cannot watch for signals");
    }
    j.start = j.last_sign = now_s(CLOCK_MONOTONIC);
    j.r.start_realtime_ns = (uint64_t)(now_s(CLOCK_REALTIME) * 1e9);
    TRY(start(&j, &before, err));
    loop(&j, fd);
    j.r.seconds = now_s(CLOCK_MONOTONIC) - j.start;
    j.r.end_realtime_ns = (uint64_t)(now_s(CLOCK_REALTIME) * 1e9);
    clear_away(&j);
    drain(&j);
    j.r.asked = j.stop_signal;
    if (j.stop_signal != 0 && j.r.ending == RUN_SIGNALLED) {
        j.r.ending = RUN_INTERRUPTED;
    }
    struct rusage use;
    if (getrusage(RUSAGE_CHILDREN, &use) == 0) {
        j.r.cpu_user_s = (double)use.ru_utime.tv_sec + (double)use.ru_utime.tv_usec * 1e-6;
        j.r.cpu_system_s = (double)use.ru_stime.tv_sec + (double)use.ru_stime.tv_usec * 1e-6;
    }
    close(fd);
    sigprocmask(SIG_SETMASK, &before, NULL);
    *ret_result = j.r;
    return ST_OK;
}

int supervise_status(const struct supervise_result *r)
{
    switch (r->ending) {
    case RUN_TIMED_OUT:
    case RUN_HUNG: return 124;
    case RUN_NOT_STARTED: return r->code == ENOENT ? 127 : 126;
    default: break;
    }
    return r->signal != 0 ? 128 + r->signal : r->code;
}
