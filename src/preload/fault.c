// SPDX-License-Identifier: Apache-2.0
/*
 * Fatal signals: address, access, thread and stack are written into the record, then the program's own
 * handler (or the default) sees the signal as if we had not been there. A hardware fault is repeated by
 * returning to the instruction; a sent signal is sent again with its own siginfo.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "preload/preload.h"
#include "preload/real.h"

static const int watched[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

enum {
    WATCHED = sizeof watched / sizeof *watched,
    HANDLER_STACK_BYTES = 256 << 10
};

static struct sigaction theirs[WATCHED];
static _Atomic int owner;             /* the process whose handlers these are */
static _Atomic bool holding[WATCHED]; /* our handler is installed, theirs is kept here */

typedef int (*sigaction_function)(int, const struct sigaction *, struct sigaction *);

int real_sigaction(int signal, const struct sigaction *act, struct sigaction *ret_old)
{
    static _Atomic(void *) real;
    void *f = atomic_load(&real);
    if (f == NULL) {
        f = raw_dlsym(RTLD_NEXT, "sigaction");
        atomic_store(&real, f);
    }
    if (f == NULL) {
        errno = ENOSYS;
        return -1;
    }
    return ((sigaction_function)f)(signal, act, ret_old);
}

static int row_of(int signal)
{
    for (int i = 0; i < WATCHED; i++) {
        if (watched[i] == signal) {
            return i;
        }
    }
    return -1;
}

static void describe(struct record_header *h, const siginfo_t *info, const ucontext_t *context)
{
    struct record_fault *fault = &h->fault;
    h->fault_sender = info->si_code <= 0 ? (int32_t)info->si_pid : 0;
    fault->signal = info->si_signo;
    fault->code = info->si_code;
    fault->tid = (int32_t)syscall(SYS_gettid);
    fault->hardware = info->si_code > 0 && info->si_code != SI_KERNEL;
    fault->address = info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0;
    fault->time_ns = clock_ns();
    fault->ring = ring_index();
#ifdef __x86_64__
    fault->instruction = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    h->fault_stack = (uint64_t)context->uc_mcontext.gregs[REG_RSP];
    fault->write = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    (void)context;
#endif
    void *frames[48];
    int n = backtrace(frames, 48);
    fault->frame_count = n > 0 ? (uint32_t)n : 0;
    for (int i = 0; i < n; i++) {
        fault->frames[i] = (uint64_t)(uintptr_t)frames[i];
    }
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int kept = errno;
    struct record_header *h = record_file();
    uint32_t expected = 0;
    /* The first fault is the one that matters; others follow from it. */
    if (h != NULL && h->pid == getpid() &&
        atomic_compare_exchange_strong(&h->fault.present, &expected, 2)) {
        describe(h, info, context);
        gpu_marks_look();
        maps_write();
        atomic_store(&h->fault.present, 1);
    }
    int row = row_of(signal);
    atomic_store(&holding[row], false);
    real_sigaction(signal, &theirs[row], NULL);
    if (info->si_code <= 0 || info->si_code == SI_KERNEL) {
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
    }
    errno = kept;
}

/* A thread that has used up its stack has no room for a handler: it ends without a word. The first thread gets a
 * stack for handlers, unless the program has one; a program that sets its own later has that one. */
static void give_stack(void)
{
    stack_t now;
    if (sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) {
        return;
    }
    void *room = mmap(NULL, HANDLER_STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        stack_t ours = {.ss_sp = room, .ss_size = HANDLER_STACK_BYTES};
        (void)sigaltstack(&ours, NULL);
    }
}

void fault_start(void)
{
    atomic_store(&owner, getpid());
    give_stack();
    struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < WATCHED; i++) {
        struct sigaction now;
        /* A signal that the parent left ignored stays ignored. */
        if (real_sigaction(watched[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
            real_sigaction(watched[i], &ours, &theirs[i]) == 0) {
            atomic_store(&holding[i], true);
        }
    }
}

void fault_after_fork(void)
{
    atomic_store(&owner, getpid());
}

/* The unwinder loads its library at the first use: better now than in the handler. */
void fault_warm_up(void)
{
    void *frame[1];
    (void)backtrace(frame, 1);
}

EXPORT int sigaction(int signal, const struct sigaction *restrict act,
                     struct sigaction *restrict ret_old)
{
    int row = row_of(signal);
    /* The child of a vfork has signals of its own and our memory: what it sets must not become the parent's. */
    if (row < 0 || !atomic_load(&holding[row]) || getpid() != atomic_load(&owner)) {
        return real_sigaction(signal, act, ret_old);
    }
    struct sigaction before = theirs[row];
    if (act != NULL) {
        theirs[row] = *act;
    }
    if (ret_old != NULL) {
        *ret_old = before;
    }
    return 0;
}

EXPORT sighandler_t signal(int signal, sighandler_t handler)
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct sigaction old;
    sigemptyset(&act.sa_mask);
    return sigaction(signal, &act, &old) == 0 ? old.sa_handler : SIG_ERR;
}
