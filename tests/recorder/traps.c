// SPDX-License-Identifier: Apache-2.0
/*
 * What real programs do to a preloaded library. usage: traps WORD [ARGUMENT...]
 *   vfork            a child of vfork resets its signals; the parent's own handler must stay
 *   vfork-crash      a child of vfork crashes; the fault is not the parent's
 *   ends             threads whose thread-specific data is freed and computed with at their very end
 *   overflow         a stack overflow, caught on a stack of its own
 *   handlers         sigaction and signal answer what was set, in order
 *   clone            a child made by the system call, behind the back of pthread_atfork
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>
#include <sys/wait.h>

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);

static int fail(const char *what)
{
    printf("FAILED: %s\n", what);
    return 1;
}

static float product(void)
{
    const float one = 1;
    const float zero = 0;
    const float a = 3;
    const float b = 5;
    const int size = 1;
    float c = 0;
    sgemm_("N", "N", &size, &size, &size, &one, &a, &size, &b, &size, &zero, &c, &size);
    return c;
}

static void mine(int signal)
{
    (void)signal;
    _exit(7);
}

static void crash(void)
{
    volatile uintptr_t nowhere = 8;
    *(volatile int *)nowhere = 1;
}

static int vfork_trap(int crashes)
{
    struct sigaction own = {.sa_handler = mine};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    int status = 0;
    product();
    sigaction(SIGSEGV, &own, NULL);
    pid_t child = vfork();
    if (child == 0) {
        sigaction(SIGSEGV, &plain, NULL);
        signal(SIGABRT, SIG_DFL);
        if (crashes) {
            crash();
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (crashes) {
        return WIFSIGNALED(status) ? 0 : fail("the child of vfork did not crash");
    }
    crash();
    return 1;
}

static void at_end(void *block)
{
    void *more = NULL;
    product();
    free(block);
    if (posix_memalign(&more, 64, 4096) == 0) {
        memset(more, 1, 4096);
        free(more);
    }
}

static pthread_key_t key;

static void *short_life(void *unused)
{
    (void)unused;
    void *block = NULL;
    if (posix_memalign(&block, 64, 1000) == 0) {
        pthread_setspecific(key, block);
    }
    product();
    return NULL;
}

static int ends_trap(void)
{
    pthread_key_create(
        &key, at_end); /* before the recorder's own: its destructor may run later or sooner */
    for (int round = 0; round < 20; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) {
            pthread_create(&threads[i], NULL, short_life, NULL);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    return 0;
}

static volatile int depth_limit = 1 << 30;

__attribute__((noinline)) static int deep(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return depth < depth_limit ? deep(depth + 1) + room[0] : 0;
}

static int overflow_trap(void)
{
    static char stack[1 << 16];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction own = {.sa_handler = mine, .sa_flags = SA_ONSTACK};
    product();
    sigaltstack(&alternative, NULL);
    sigaction(SIGSEGV, &own, NULL);
    return deep(0) == 0;
}

static void other(int signal)
{
    (void)signal;
}

static int handlers_trap(void)
{
    struct sigaction own = {.sa_handler = mine};
    struct sigaction old;
    sigaction(SIGSEGV, NULL, &old);
    if (old.sa_handler != SIG_DFL) {
        return fail("a handler that nobody set");
    }
    sigaction(SIGSEGV, &own, &old);
    if (old.sa_handler != SIG_DFL || signal(SIGSEGV, other) != mine ||
        signal(SIGSEGV, SIG_IGN) != other || signal(SIGSEGV, SIG_DFL) != SIG_IGN) {
        return fail("an answer of sigaction or signal");
    }
    return 0;
}

static int clone_trap(void)
{
    struct sigaction own = {.sa_handler = mine};
    int status = 0;
    product();
    sigaction(SIGSEGV, &own, NULL);
    long child = syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) {
        product();
        signal(SIGSEGV, SIG_DFL);
        crash();
    }
    waitpid((pid_t)child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) {
        return fail("the child did not die of its fault");
    }
    crash();
    return 1;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    int rc = strcmp(word, "vfork") == 0         ? vfork_trap(0)
             : strcmp(word, "vfork-crash") == 0 ? vfork_trap(1)
             : strcmp(word, "ends") == 0        ? ends_trap()
             : strcmp(word, "overflow") == 0    ? overflow_trap()
             : strcmp(word, "handlers") == 0    ? handlers_trap()
             : strcmp(word, "clone") == 0       ? clone_trap()
                                                : fail("no such trap");
    if (rc == 0) {
        puts("done");
    }
    return rc;
}
