// SPDX-License-Identifier: Apache-2.0
/* See run_stacks.h. */
#include "cli/run/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

#include "base/fs.h"

enum {
    TOOL_MS = 10000,
    TOOL_OUTPUT_MAX = 2 << 20
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Output of a tool, cut off at the deadline. False when it is not installed. */
static bool tool_output(const char *const *argv, struct strbuf *out)
{
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    int rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    double until = now_ms() + TOOL_MS;
    char block[8192];
    while (rc == 0 && now_ms() < until && strbuf_str(out).n < TOOL_OUTPUT_MAX) {
        struct pollfd ready = {.fd = ends[0], .events = POLLIN};
        if (poll(&ready, 1, 200) <= 0) {
            continue;
        }
        ssize_t n = read(ends[0], block, sizeof block);
        if (n <= 0) {
            break;
        }
        strbuf_add(out, (struct str){.p = block, .n = (size_t)n});
    }
    close(ends[0]);
    if (rc == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return rc == 0;
}

static void add_file(struct arena *a, const char *path, const char *label, struct strbuf *out)
{
    struct fs fs = {.prefix = ""};
    struct str text;
    if (fs_read_trimmed(&fs, a, path, &text, NULL) == ST_OK && text.n > 0 && text.n < 65536) {
        strbuf_fmt(out, "  %s: ", label);
        strbuf_add(out, text);
        strbuf_addc(out, '\n');
    }
}

static void add_threads(struct arena *a, pid_t pid, struct strbuf *out)
{
    struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    if (fs_list(&fs, a, arena_fmt(a, "/proc/%d/task", (int)pid), &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count && i < 512; i++) {
        const char *base = arena_fmt(a, "/proc/%d/task/%s", (int)pid, names[i]);
        strbuf_fmt(out, "thread %s\n", names[i]);
        add_file(a, arena_fmt(a, "%s/comm", base), "name", out);
        add_file(a, arena_fmt(a, "%s/wchan", base), "waits in", out);
        add_file(a, arena_fmt(a, "%s/syscall", base), "system call", out);
        add_file(a, arena_fmt(a, "%s/stack", base), "kernel stack", out);
    }
}

/* The py-spy of the environment that the job runs in; the one on PATH when it has none. */
static const char *spy_beside(struct arena *a, const char *interpreter)
{
    const char *slash = strrchr(interpreter, '/');
    if (slash != NULL) {
        const char *path = arena_fmt(a, "%.*s/py-spy", (int)(slash - interpreter), interpreter);
        if (access(path, X_OK) == 0) {
            return path;
        }
    }
    return "py-spy";
}

struct str run_stacks_take(struct arena *a, pid_t pid)
{
    struct strbuf out;
    strbuf_init(&out, a, (size_t)16 << 20);
    struct fs fs = {.prefix = ""};
    struct str command;
    const char *spy = "py-spy";
    if (fs_read(&fs, a, arena_fmt(a, "/proc/%d/cmdline", (int)pid), 65536, &command, NULL) ==
        ST_OK) {
        spy = spy_beside(a, command.p);
        strbuf_addz(&out, "command:");
        struct str part;
        while (command.n > 0 && str_cut(&command, '\0', &part)) {
            strbuf_addc(&out, ' ');
            strbuf_add(&out, part);
        }
        strbuf_addc(&out, '\n');
    }
    add_threads(a, pid, &out);
    const char *number = arena_fmt(a, "%d", (int)pid);
    const char *const python[] = {spy, "dump", "--full-filenames", "--pid", number, NULL};
    const char *const native[] = {
        "gdb", "-p", number, "-batch", "-nx", "-ex", "thread apply all bt 40", NULL};
    strbuf_addz(&out, "\nPython stacks (py-spy):\n");
    if (!tool_output(python, &out)) {
        strbuf_addz(&out, "  py-spy is not installed: pip install py-spy\n");
    }
    strbuf_addz(&out, "\nnative stacks (gdb):\n");
    if (!tool_output(native, &out)) {
        strbuf_addz(&out, "  gdb is not installed: apt install gdb\n");
    }
    return strbuf_str(&out);
}
