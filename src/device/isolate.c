// SPDX-License-Identifier: Apache-2.0
/*
 * One child for one piece of work, and the pieces that the batch shares: fork, signal handlers, the
 * last words on stderr, and the judgement of how it ended.
 *
 * Holds the one writable global of this layer: a signal handler and isolate_report() have no other
 * way to find the page they write on. It is set in children only.
 */
#include "device/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/str.h"

#include "device/isolate_child.h"

enum {
    DEFAULT_DEADLINE_MS = 60000,
    ALTERNATE_STACK_BYTES = 65536
};

static struct {
    struct isolate_page *page;
    struct isolate_jump *jump;
} in_child;

const char *ending_name(enum ending ending)
{
    static const char *const names[ENDING_COUNT] = {
        "ok",
        "memory fault",
        "device memory fault",
        "device lost",
        "illegal instruction",
        "abort",
        "signal",
        "exit",
        "hang",
    };
    return ending < ENDING_COUNT ? names[ending] : "unknown";
}

int64_t isolate_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void *isolate_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void isolate_shared_free(void *shared, size_t bytes)
{
    if (shared != NULL) {
        munmap(shared, bytes);
    }
}

void isolate_alive(void)
{
    if (in_child.page != NULL) {
        in_child.page->alive++;
    }
}

void isolate_report(enum ending ending, uint64_t address, bool address_known, const char *text)
{
    struct isolate_page *page = in_child.page;
    if (page == NULL) {
        return;
    }
    page->end = (struct isolate_end){
        .ending = ending,
        .address = address,
        .address_known = address_known,
    };
    str_print(page->end.text, sizeof page->end.text, "%s", text);
    page->reported = true;
}

/* --- in the child ------------------------------------------------------------------------------ */

static enum ending ending_of_signal(int signal)
{
    switch (signal) {
    case SIGSEGV:
    case SIGBUS: return ENDING_MEMORY_FAULT;
    case SIGILL: return ENDING_ILLEGAL;
    case SIGABRT: return ENDING_ABORT;
    default: return ENDING_SIGNAL;
    }
}

static void describe_fault(int signal, const siginfo_t *info, const void *context,
                           struct isolate_end *end)
{
    end->ending = ending_of_signal(signal);
    end->signal = signal;
    end->text[0] = '\0';
    /* A kernel-made signal has an address; one sent by kill() has not. A general protection fault
     * (non-canonical address) is reported with address 0 and SI_KERNEL. */
    end->address_known = info->si_code > 0 && info->si_code != SI_KERNEL;
    end->address = (uintptr_t)info->si_addr;
    end->direction_known = false;
#if defined(__x86_64__)
    const ucontext_t *machine = context;

    enum {
        PAGE_FAULT_TRAP = 14,
        WRITE_BIT = 2
    };

    end->instruction = (uint64_t)machine->uc_mcontext.gregs[REG_RIP];
    if (machine->uc_mcontext.gregs[REG_TRAPNO] == PAGE_FAULT_TRAP) {
        end->direction_known = true;
        end->is_write = (machine->uc_mcontext.gregs[REG_ERR] & WRITE_BIT) != 0;
    }
#else
    (void)context;
#endif
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    struct isolate_page *page = in_child.page;
    struct isolate_jump *jump = in_child.jump;
    describe_fault(signal, info, context, &page->end);
    bool own_thread = jump != NULL && jump->thread == (pid_t)syscall(SYS_gettid);
    if (own_thread && jump->armed && page->end.ending != ENDING_ABORT) {
        jump->armed = false;
        siglongjmp(jump->where, 1);
    }
    page->reported = true;
    /* The default action, for the wait status: SA_RESETHAND has restored it. */
    raise(signal);
}

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

static void set_handlers(bool may_jump)
{
    void *stack = mmap(NULL, ALTERNATE_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack != MAP_FAILED) {
        stack_t alternate = {.ss_sp = stack, .ss_size = ALTERNATE_STACK_BYTES};
        sigaltstack(&alternate, NULL);
    }
    struct sigaction action = {.sa_sigaction = on_fault};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (may_jump ? 0 : (int)SA_RESETHAND);
    for (size_t i = 0; i < ARRAY_LEN(fault_signals); i++) {
        sigaction(fault_signals[i], &action, NULL);
    }
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGABRT, &plain, NULL);
}

static void become_child(int pipe, bool keep_stderr, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(0); /* the parent died before the line above */
    }
    /* Core dumps of planted faults help nobody, and a GPU process dumps gigabytes. */
    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    if (!keep_stderr) {
        dup2(pipe, STDERR_FILENO);
        dup2(pipe, STDOUT_FILENO); /* libraries print complaints there, into our report */
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/* --- in the parent ----------------------------------------------------------------------------- */

enum status isolate_fork(bool keep_stderr, struct isolate_page *page, struct isolate_jump *jump,
                         struct isolate_child *ret_child, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_sys(err, errno, "cannot make a pipe for a child process");
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        int saved = errno;
        close(ends[0]);
        close(ends[1]);
        return err_sys(err, saved, "cannot start a child process");
    }
    *ret_child = (struct isolate_child){.pid = pid, .pipe = ends[0]};
    if (pid == 0) {
        close(ends[0]);
        become_child(ends[1], keep_stderr, parent);
        in_child.page = page;
        in_child.jump = jump;
        set_handlers(jump != NULL);
        return ST_OK;
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return ST_OK;
}

/* Keeps the last bytes of what comes. */
static void drain(struct isolate_child *child)
{
    char more[512];

    enum {
        ROUNDS_MAX = 64
    };

    for (int round = 0; round < ROUNDS_MAX; round++) {
        ssize_t n = read(child->pipe, more, sizeof more);
        if (n <= 0) {
            return;
        }
        size_t keep = sizeof child->tail - (size_t)n;
        if (child->tail_n > keep) {
            memmove(child->tail, child->tail + child->tail_n - keep, keep);
            child->tail_n = keep;
        }
        memcpy(child->tail + child->tail_n, more, (size_t)n);
        child->tail_n += (size_t)n;
    }
}

bool isolate_wait(struct isolate_child *child, int wait_ms, int *ret_status)
{
    int64_t until = isolate_now_ms() + wait_ms;

    enum {
        SLICE_MS = 20
    };

    for (;;) {
        drain(child);
        pid_t got = waitpid(child->pid, ret_status, WNOHANG);
        if (got == child->pid || (got < 0 && errno == ECHILD)) {
            drain(child);
            return true;
        }
        int64_t left = until - isolate_now_ms();
        if (left <= 0) {
            return false;
        }
        /* The pipe hangs up when the child dies, unless a grandchild holds it. */
        struct pollfd wait = {.fd = child->pipe, .events = POLLIN};
        int ready = poll(&wait, 1, (int)(left < SLICE_MS ? left : SLICE_MS));
        if (ready > 0 && (wait.revents & POLLIN) == 0) {
            struct timespec moment = {.tv_nsec = 100000};
            nanosleep(&moment, NULL);
        }
    }
}

void isolate_kill(struct isolate_child *child)
{
    kill(-child->pid, SIGKILL);
    kill(child->pid, SIGKILL);
    int status;
    waitpid(child->pid, &status, 0);
    drain(child);
}

void isolate_release(struct isolate_child *child)
{
    close(child->pipe);
}

void isolate_last_words(const struct isolate_child *child, char *ret_text, size_t size)
{
    struct str tail = str_trim((struct str){child->tail, child->tail_n});
    size_t n = tail.n < size ? tail.n : size - 1;
    memcpy(ret_text, tail.p + tail.n - n, n);
    ret_text[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)ret_text[i];
        ret_text[i] = c < ' ' || c == 0x7f ? ' ' : (char)c;
    }
}

/* The line with which ROCr and clr announce a page fault of the GPU before they abort. */
static bool gpu_fault_line(struct str words, uint64_t *ret_address)
{
    static const char line[] = "Memory access fault by GPU";
    size_t at = str_find(words, line, 0);
    if (at == SIZE_MAX) {
        return false;
    }
    static const char before[] = "on address ";
    size_t address = str_find(words, before, at);
    *ret_address = 0;
    if (address != SIZE_MAX) {
        struct str rest = str_slice(words, address + sizeof before - 1, words.n);
        size_t n = 0;
        while (n < rest.n && strchr("0123456789abcdefxABCDEF", rest.p[n]) != NULL) {
            n++;
        }
        if (str_to_u64(str_slice(rest, 0, n), 0, ret_address) != ST_OK) {
            *ret_address = 0;
        }
    }
    return true;
}

void isolate_judge(const struct isolate_child *child, const struct isolate_page *page, int status,
                   struct isolate_end *ret_end)
{
    struct isolate_end end = {0};
    uint64_t address;
    struct str words = {child->tail, child->tail_n};
    if (page->reported) {
        end = page->end;
    } else if (WIFSIGNALED(status)) {
        end.signal = WTERMSIG(status);
        end.ending = ending_of_signal(end.signal);
    } else if (!page->done || WEXITSTATUS(status) != 0) {
        end.ending = ENDING_EXIT;
        end.exit_status = WEXITSTATUS(status);
    }
    if (end.ending == ENDING_ABORT && gpu_fault_line(words, &address)) {
        end.ending = ENDING_DEVICE_FAULT;
        end.address = address;
        end.address_known = address != 0;
    }
    if (end.ending != ENDING_OK && end.text[0] == '\0') {
        isolate_last_words(child, end.text, sizeof end.text);
    }
    *ret_end = end;
}

enum status isolate_run(const struct isolate_options *options, void (*work)(void *context),
                        void *context, struct isolate_end *ret_end, struct err *err)
{
    static const struct isolate_options defaults;
    options = options != NULL ? options : &defaults;
    struct isolate_page *page = isolate_shared(sizeof *page);
    if (page == NULL) {
        return err_sys(err, errno, "cannot share %zu bytes with a child process", sizeof *page);
    }
    struct isolate_child child;
    enum status st = isolate_fork(options->keep_stderr, page, NULL, &child, err);
    if (st != ST_OK) {
        isolate_shared_free(page, sizeof *page);
        return st;
    }
    if (child.pid == 0) {
        work(context);
        page->done = true;
        _exit(0);
    }
    unsigned deadline = options->deadline_ms != 0 ? options->deadline_ms : DEFAULT_DEADLINE_MS;
    int status = 0;
    if (isolate_wait(&child, (int)deadline, &status)) {
        isolate_judge(&child, page, status, ret_end);
    } else {
        isolate_kill(&child);
        *ret_end = (struct isolate_end){.ending = ENDING_HANG};
        isolate_last_words(&child, ret_end->text, sizeof ret_end->text);
    }
    isolate_release(&child);
    isolate_shared_free(page, sizeof *page);
    return ST_OK;
}
