// SPDX-License-Identifier: Apache-2.0
/*
 * Ways to end: each mode does a product first, so that the process leaves a record.
 *
 *   null       reads through a null pointer
 *   overflow   uses up the stack, with no stack for handlers
 *   abort      as a C++ program ends whose exception nobody catches
 *   self       sends itself SIGSEGV
 *   sent       is sent SIGSEGV by its child
 *   leave N    _exit(N)
 *   forked     a child that leaves through _exit(0)
 *   quiet      prints names of signals, and ends well
 *   no-memory  an allocation is refused
 *   many       50 products of different sizes
 *   loop       computes for ever
 *   deadlock   two threads, each with the lock of the other
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);

static volatile int depth = 1 << 30;

static int deep(int n)
{
    volatile char room[4096];
    memset((char *)room, n, sizeof room);
    return n < depth ? room[n % 4096] + deep(n + 1) + room[(n + 1) % 4096] : 0;
}

__attribute__((noinline)) static int hidden_reader(const volatile int *p)
{
    return *p + 1;
}

static void product_of(int k)
{
    const int n = 2;
    const float one = 1;
    const float zero = 0;
    float ones[2 * 80];
    float sum[4];
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        ones[i] = 1;
    }
    sgemm_("N", "N", &n, &n, &k, &one, ones, &n, ones, &k, &zero, sum, &n);
}

static void product(void)
{
    product_of(2);
}

static void is_sent(void)
{
    if (fork() == 0) {
        kill(getppid(), SIGSEGV);
        _exit(0);
    }
    for (;;) {
        pause();
    }
}

__attribute__((noinline)) static void spin_forever(void)
{
    while (depth > 0) {
    }
}

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *take_both(void *first)
{
    size_t i = first != NULL;
    pthread_mutex_lock(&locks[i]);
    usleep(200000);
    pthread_mutex_lock(&locks[1 - i]);
    return NULL;
}

static void deadlock(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, take_both, NULL);
    pthread_create(&threads[1], NULL, take_both, locks);
    pthread_join(threads[0], NULL);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    product();
    for (int step = 0; step < 3; step++) {
        printf("step %d loss %.4f\n", step, 1.0 / (step + 1));
    }
    fflush(stdout);
    if (strcmp(mode, "null") == 0) {
        return hidden_reader((const volatile int *)(argc - 2 + 0x18L));
    } else if (strcmp(mode, "overflow") == 0) {
        return deep(argc);
    } else if (strcmp(mode, "abort") == 0) {
        fprintf(stderr, "terminate called after throwing an instance of 'std::runtime_error'\n"
                        "  what():  my_op: expected 4 dims, got 3\n");
        abort();
    } else if (strcmp(mode, "self") == 0) {
        kill(getpid(), SIGSEGV);
    } else if (strcmp(mode, "sent") == 0) {
        is_sent();
    } else if (strcmp(mode, "leave") == 0) {
        _exit(argc > 2 ? argv[2][0] - '0' : 0); /* one digit */
    } else if (strcmp(mode, "forked") == 0) {
        if (fork() == 0) {
            product();
            _exit(0);
        }
        wait(NULL);
    } else if (strcmp(mode, "quiet") == 0) {
        puts("{'SIGTERM': '0', 'SIGSEGV': '0', 'SIGBUS': '0', 'SIGABRT': '0'}");
    } else if (strcmp(mode, "many") == 0) {
        for (int k = 20; k < 70; k++) {
            product_of(k);
        }
    } else if (strcmp(mode, "loop") == 0) {
        spin_forever();
    } else if (strcmp(mode, "deadlock") == 0) {
        deadlock();
    } else if (strcmp(mode, "no-memory") == 0) {
        fprintf(stderr,
                "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: "
                "can't allocate memory: you tried to allocate 268435456 bytes. Error code 12 "
                "(Cannot allocate memory)\n");
        return 1;
    }
    return 0;
}
