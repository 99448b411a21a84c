// SPDX-License-Identifier: Apache-2.0
/*
 * Starting, asking and burying the process that runs the user's PyTorch. What a case means and
 * whether its numbers are right is not known here.
 */
#include "ops/torch/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/bytes.h"

#include "ops/torch/agent_text.h" /* made from agent/guard.py and its neighbours */
#include "ops/torch/fault.h"

#define LINE_CEILING (4u << 20)
/* A killed worker is buried and replaced by its parent, which imports nothing. */
#define REBIRTH_MS 60000

struct torch_agent {
    struct arena *arena;
    pid_t pid;
    pid_t worker;
    int socket;
    int errors; /* the process's stderr: an unlinked file */
    int shared_fd;
    unsigned char *shared;
    size_t shared_bytes;
    struct torch_hello hello;
    char *buffer; /* bytes received and not yet taken */
    size_t buffered;
    int64_t last_id;
    off_t errors_read; /* of stderr: what was said before the present request */
    bool gone;
};

const struct torch_hello *torch_agent_hello(const struct torch_agent *agent)
{
    return &agent->hello;
}

unsigned char *torch_agent_shared(const struct torch_agent *agent, size_t *ret_bytes)
{
    *ret_bytes = agent->shared_bytes;
    return agent->shared;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The worker's pid comes from outside: only the process itself or a child of it is killed. */
static void kill_worker(const struct torch_agent *g)
{
    char path[48], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)g->worker);
    int fd = g->worker > 1 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return;
    }
    text[n] = '\0';
    const char *name_end = strrchr(text, ')'); /* "pid (name) state parent ..." */
    struct str rest = str_of(name_end != NULL ? name_end + 1 : ""), word;
    int64_t parent = 0;
    for (int i = 0; i < 3 && str_cut(&rest, ' ', &word); i++) {
        if (i == 2 && str_to_i64(word, 10, &parent) != ST_OK) {
            parent = 0;
        }
    }
    if (g->worker == g->pid || parent == g->pid) {
        kill(g->worker, SIGKILL);
    }
}

/* ---- lines ---- */

enum line_end {
    LINE_READ,
    LINE_LATE,
    LINE_CLOSED,
    LINE_TOO_LONG
};

/* Takes one line out of the buffer, or waits for more until `until`. */
static enum line_end read_line(struct torch_agent *g, struct arena *a, int64_t until,
                               struct str *ret_line)
{
    for (;;) {
        char *end = memchr(g->buffer, '\n', g->buffered);
        if (end != NULL) {
            size_t n = (size_t)(end - g->buffer);
            *ret_line = (struct str){.p = arena_copy(a, g->buffer, n), .n = n};
            g->buffered -= n + 1;
            memmove(g->buffer, end + 1, g->buffered);
            return LINE_READ;
        }
        if (g->buffered == LINE_CEILING) {
            return LINE_TOO_LONG;
        }
        int64_t left = until - now_ms();
        struct pollfd p = {.fd = g->socket, .events = POLLIN};
        int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return LINE_LATE;
        }
        ssize_t n = recv(g->socket, g->buffer + g->buffered, LINE_CEILING - g->buffered, 0);
        if (n <= 0) {
            return LINE_CLOSED;
        }
        g->buffered += (size_t)n;
    }
}

/* The document of a line, or NULL. */
static const struct tree *parse_line(struct arena *a, struct str line)
{
    const struct tree *t = NULL;
    struct err err = {0};
    if (tree_from_json(a, line, "answer", TREE_LIMITS_DEFAULT, &t, &err) != ST_OK ||
        t->kind != TREE_MAP) {
        return NULL;
    }
    return t;
}

static int64_t tree_number(const struct tree *t, const char *key, int64_t fallback)
{
    int64_t n = 0;
    const char *text = tree_text(t, key, NULL);
    return text != NULL && str_to_i64(str_of(text), 10, &n) == ST_OK ? n : fallback;
}

static bool is_event(const struct tree *t, const char *name)
{
    return t != NULL && strcmp(tree_text(t, "event", ""), name) == 0;
}

/* The last line that the process wrote to stderr since the present request; "" when it was silent. */
static const char *last_words(struct torch_agent *g, struct arena *a)
{
    char text[2001];
    off_t size = lseek(g->errors, 0, SEEK_END);
    off_t from = size > 2000 ? size - 2000 : 0;
    from = from > g->errors_read ? from : g->errors_read;
    ssize_t n = size > from ? pread(g->errors, text, sizeof text - 1, from) : 0;
    struct str rest = str_trim((struct str){.p = text, .n = n > 0 ? (size_t)n : 0});
    struct str line, last = {.p = "", .n = 0};
    while (str_cut_line(&rest, &line)) {
        if (str_trim(line).n > 0) {
            last = str_trim(line);
        }
    }
    return str_dup(a, str_slice(last, 0, last.n < 400 ? last.n : 400));
}

/* ---- start ---- */

/* In the child: never returns. `report` gets errno when the program cannot be started. */
static _Noreturn void become_python(const struct torch_agent *g, const char *python,
                                    const char *device, int socket, int script, int report)
{
    char path[32], fd[16], shared[16], bytes[24];
    snprintf(path, sizeof path, "/dev/fd/%d", script);
    snprintf(fd, sizeof fd, "%d", socket);
    snprintf(shared, sizeof shared, "%d", g->shared_fd);
    snprintf(bytes, sizeof bytes, "%zu", g->shared_bytes);
    const char *argv[] = {python, "-u", path, fd, fd, shared, bytes, device, NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* away from the terminal's interrupts: assay decides when it ends */
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(g->errors, 1);
    dup2(g->errors, 2);
    fcntl(socket, F_SETFD, 0);
    fcntl(script, F_SETFD, 0);
    fcntl(g->shared_fd, F_SETFD, 0);
    signal(SIGPIPE, SIG_DFL);
    execvp(python, (char *const *)argv);
    int why = errno;
    ssize_t ignored = write(report, &why, sizeof why);
    (void)ignored;
    _exit(127);
}

static int script_file(void)
{
    int fd = memfd_create("assay-torch-agent", MFD_CLOEXEC);
    struct str text = STR(
        TORCH_AGENT_GUARD TORCH_AGENT_OPERATORS TORCH_AGENT_LAYERS TORCH_AGENT_CASES);
    while (fd >= 0 && text.n > 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n <= 0) {
            close(fd);
            return -1;
        }
        text = str_slice(text, (size_t)n, text.n);
    }
    return fd;
}

static enum status spawn(struct torch_agent *g, const struct torch_agent_options *o,
                         struct err *err)
{
    int pair[2] = {-1, -1}, report[2] = {-1, -1};
    int script = script_file();
    if (script < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 ||
        pipe2(report, O_CLOEXEC) != 0) {
        return err_sys(err, errno, "cannot prepare to start '%s'", o->python);
    }
    g->socket = pair[0];
    g->pid = fork();
    if (g->pid == 0) {
        become_python(g, o->python, o->device, pair[1], script, report[1]);
    }
    close(pair[1]);
    close(report[1]);
    close(script);
    int why = 0;
    ssize_t n = g->pid < 0 ? 0 : read(report[0], &why, sizeof why);
    close(report[0]);
    if (g->pid < 0) {
        return err_sys(err, errno, "cannot start '%s'", o->python);
    }
    if (n == (ssize_t)sizeof why) {
        return err_sys(err, why, "cannot run '%s' as a Python interpreter", o->python);
    }
    return ST_OK;
}

/* A sentence about a process that did not get as far as its first worker. */
static enum status start_failed(struct torch_agent *g, const struct torch_agent_options *o,
                                enum line_end end, struct err *err)
{
    const char *words = last_words(g, g->arena);
    const char *say = *words != '\0' ? words : "it wrote nothing";
    if (end == LINE_LATE) {
        return err_set(err, ST_IO, "'%s' did not import torch within %d s: %s", o->python,
                       o->start_ms / 1000, say);
    }
    if (end != LINE_CLOSED) {
        return err_set(err, ST_UNSUPPORTED, "'%s' does not answer like Python: %s", o->python, say);
    }
    int status = 0;
    kill(g->pid, SIGKILL); /* it closed the socket and may live on */
    if (waitpid(g->pid, &status, 0) == g->pid && WIFSIGNALED(status) &&
        WTERMSIG(status) != SIGKILL) {
        g->pid = -1;
        return err_set(err, ST_IO, "'%s' died of signal %d while importing torch: %s", o->python,
                       WTERMSIG(status), say);
    }
    g->pid = -1;
    return err_set(err, ST_UNSUPPORTED, "'%s' is no Python that can run the agent: %s", o->python,
                   say);
}

static const char *field(struct torch_agent *g, const struct tree *t, const char *key)
{
    return arena_strdup(g->arena, tree_text(t, key, ""));
}

static enum status read_hello(struct torch_agent *g, const struct torch_agent_options *o,
                              struct err *err)
{
    struct str line = {.p = "", .n = 0};
    int64_t until = now_ms() + o->start_ms;
    enum line_end end = read_line(g, g->arena, until, &line);
    const struct tree *t = end == LINE_READ ? parse_line(g->arena, line) : NULL;
    if (!is_event(t, "hello")) {
        return start_failed(g, o, end, err);
    }
    if (tree_get(t, "error") != NULL) {
        return err_set(err, ST_UNSUPPORTED,
                       "'%s' (Python %s) cannot import torch: %s; name another interpreter with "
                       "--torch=PYTHON",
                       o->python, tree_text(t, "python", "?"), tree_text(t, "error", ""));
    }
    g->hello = (struct torch_hello){
        .python = field(g, t, "python"),
        .executable = field(g, t, "executable"),
        .torch = field(g, t, "torch"),
        .cuda = field(g, t, "cuda"),
        .hip = field(g, t, "hip"),
        .device = "",
        .proven = strcmp(tree_text(t, "proven", ""), "true") == 0,
        .broken = strcmp(tree_text(t, "broken", ""), "true") == 0,
        .proof = field(g, t, "text"),
        .variants = tree_get(t, "variants"),
    };
    end = read_line(g, g->arena, until, &line);
    t = end == LINE_READ ? parse_line(g->arena, line) : NULL;
    if (!is_event(t, "worker")) {
        if (is_event(t, "ended")) {
            const char *words = last_words(g, g->arena);
            return err_set(err, ST_UNSUPPORTED, "torch %s of '%s' cannot use the device '%s': %s",
                           g->hello.torch, o->python, o->device, words);
        }
        return start_failed(g, o, end, err);
    }
    g->worker = (pid_t)tree_number(t, "pid", -1);
    g->hello.device = field(g, t, "device");
    g->hello.guards_outputs = strcmp(tree_text(t, "guards_outputs", ""), "true") == 0;
    return ST_OK;
}

enum status torch_agent_start(struct arena *a, const struct torch_agent_options *o,
                              struct torch_agent **ret_agent, struct err *err)
{
    struct torch_agent *g = arena_alloc(a, sizeof *g);
    *g = (struct torch_agent){.arena = a, .pid = -1, .worker = -1, .socket = -1, .errors = -1};
    g->shared_bytes = o->shared_bytes;
    g->buffer = arena_alloc(a, LINE_CEILING);
    g->errors = memfd_create("assay-torch-stderr", MFD_CLOEXEC);
    g->shared_fd = memfd_create("assay-torch-shared", MFD_CLOEXEC);
    if (g->errors < 0 || g->shared_fd < 0 || ftruncate(g->shared_fd, (off_t)o->shared_bytes) != 0) {
        enum status st = err_sys(err, errno, "cannot make a file of %zu bytes to share tensors",
                                 o->shared_bytes);
        torch_agent_stop(g);
        return st;
    }
    void *shared = mmap(NULL, g->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->shared_fd, 0);
    if (shared == MAP_FAILED) {
        enum status st = err_sys(err, errno, "cannot map %zu bytes to share tensors",
                                 g->shared_bytes);
        torch_agent_stop(g);
        return st;
    }
    g->shared = shared;
    enum status st = spawn(g, o, err);
    if (st == ST_OK) {
        st = read_hello(g, o, err);
    }
    if (st != ST_OK) {
        torch_agent_stop(g);
        return st;
    }
    *ret_agent = g;
    return ST_OK;
}

/* ---- asking ---- */

/* Kills the worker and waits for the next one. False when the whole process is gone. */
static bool replace_worker(struct torch_agent *g, struct arena *a, bool kill_it,
                           struct torch_reply *reply)
{
    if (kill_it) {
        kill_worker(g);
    }
    int64_t until = now_ms() + REBIRTH_MS;
    struct str line;
    while (read_line(g, a, until, &line) == LINE_READ) {
        const struct tree *t = parse_line(a, line);
        if (is_event(t, "ended")) {
            reply->signal = (int)tree_number(t, "signal", 0);
            reply->code = (int)tree_number(t, "code", 0);
        } else if (is_event(t, "worker")) {
            g->worker = (pid_t)tree_number(t, "pid", -1);
            return true;
        }
    }
    g->gone = true;
    return false;
}

/* One line of the worker; false when the request is over. */
static bool take_line(struct torch_agent *g, struct arena *a, struct str line, int64_t id,
                      struct torch_places *places, struct torch_reply *reply)
{
    if (str_is(line, "!")) {
        reply->end = TORCH_FAULT;
        torch_fault_read(a, g->shared, g->worker, places, &reply->fault);
        return false;
    }
    const struct tree *t = parse_line(a, line);
    if (is_event(t, "placed") && tree_number(t, "id", -1) == id) {
        torch_places_read(tree_get(t, "operands"), places);
        reply->operand_count = places->count;
        for (size_t i = 0; i < places->count; i++) {
            reply->operands[i] = arena_strdup(a, places->items[i].name);
        }
        return true;
    }
    if (is_event(t, "ended")) {
        reply->end = TORCH_DIED;
        reply->signal = (int)tree_number(t, "signal", 0);
        reply->code = (int)tree_number(t, "code", 0);
        return false;
    }
    if (t != NULL && tree_get(t, "event") == NULL && tree_number(t, "id", -1) == id) {
        reply->end = TORCH_ANSWERED;
        reply->answer = t;
        return false;
    }
    int64_t of = tree_number(t, "id", -1);
    if (of >= 0 && of < id) {
        return true; /* late words about a request that is over */
    }
    reply->end = TORCH_GARBAGE;
    reply->text = str_dup(a, str_slice(line, 0, line.n < 200 ? line.n : 200));
    return false;
}

static bool send_all(struct torch_agent *g, struct str text)
{
    while (text.n > 0) {
        ssize_t n = send(g->socket, text.p, text.n, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        text = str_slice(text, (size_t)n, text.n);
    }
    return true;
}

int64_t torch_agent_next_id(struct torch_agent *agent)
{
    return ++agent->last_id;
}

enum status torch_agent_ask(struct torch_agent *g, struct arena *a, struct strbuf *request,
                            int64_t id, int deadline_ms, struct torch_reply *ret_reply,
                            struct err *err)
{
    for (size_t i = 0; i < request->n; i++) {
        if (request->p[i] == '\n') {
            request->p[i] = ' ';
        }
    }
    strbuf_addc(request, '\n');
    memset(g->shared, 0, 32); /* the fault record without its fd and text */
    struct torch_reply reply = {.end = TORCH_HUNG, .text = ""};
    off_t said = lseek(g->errors, 0, SEEK_END); /* asked, it may speak at once */
    if (g->gone || !send_all(g, strbuf_str(request))) {
        g->gone = true;
        return err_set(err, ST_IO, "the Python process is gone: %s", last_words(g, a));
    }
    g->errors_read = said;
    int64_t until = now_ms() + deadline_ms;
    struct torch_places places = {0};
    struct str line;
    enum line_end end;
    do {
        end = read_line(g, a, until, &line);
    } while (end == LINE_READ && take_line(g, a, line, id, &places, &reply));
    if (end == LINE_CLOSED) {
        g->gone = true;
        reply.end = TORCH_DIED;
    } else if (end == LINE_TOO_LONG) {
        reply.end = TORCH_GARBAGE;
        reply.text = "a line of more than 4 MiB";
        g->buffered = 0;
    }
    reply.in_backward = bytes_le32((const char *)g->shared + 4) == 2;
    if (reply.end == TORCH_DIED) {
        reply.text = last_words(g, a);
    }
    /* A worker that lost its device says so in its answer and ends by itself. */
    bool leaves = reply.end == TORCH_ANSWERED &&
                  strcmp(tree_text(reply.answer, "last", ""), "true") == 0;
    if ((reply.end != TORCH_ANSWERED || leaves) && !g->gone) {
        struct torch_reply after = {0};
        replace_worker(g, a, reply.end != TORCH_DIED && !leaves, &after);
    }
    *ret_reply = reply;
    return ST_OK;
}

void torch_agent_stop(struct torch_agent *g)
{
    if (g == NULL) {
        return;
    }
    if (g->socket >= 0) {
        close(g->socket);
    }
    kill_worker(g);
    if (g->pid > 0) {
        kill(g->pid, SIGKILL);
        waitpid(g->pid, NULL, 0);
    }
    if (g->shared != NULL) {
        munmap(g->shared, g->shared_bytes);
    }
    if (g->shared_fd >= 0) {
        close(g->shared_fd);
    }
    if (g->errors >= 0) {
        close(g->errors);
    }
    g->pid = g->worker = g->socket = g->errors = g->shared_fd = -1;
    g->shared = NULL;
}
