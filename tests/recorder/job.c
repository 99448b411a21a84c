// SPDX-License-Identifier: Apache-2.0
/*
 * A small job for tests of the recorder: tensors from posix_memalign, products through sgemm_, a line of
 * metrics a step. usage: job WHAT [N]
 *   steps N        N steps, then "done"
 *   forever        steps until it is killed
 *   threads N      N threads of 1000 calls each
 *   rate T N       T threads of N products 1x1x1 each; prints nanoseconds of wall time per call
 *   crash          a step, then a write through a null pointer
 *   own-handler    catches its own fault and exits 7
 *   after-free     reads a freed tensor
 *   write-past     writes one byte past the end of a tensor, into the slack of its alignment
 *   fork           a child that computes, and one that was started by exec
 *   hang           a step, then silence
 *   deaf           ignores SIGTERM
 *   close          closes standard error, then computes
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);

static float *tensor(size_t elements)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, elements * sizeof(float)) != 0) {
        exit(3);
    }
    memset(p, 0, elements * sizeof(float));
    return p;
}

/* m x k times k x n; 16 floats fill an alignment of 64 bytes, so that tensors end at the hole. */
static void product(int m, int n, int k)
{
    float *a = tensor((size_t)m * (size_t)k);
    float *b = tensor((size_t)k * (size_t)n);
    float *c = tensor((size_t)m * (size_t)n);
    float one = 1;
    float zero = 0;
    sgemm_("N", "N", &m, &n, &k, &one, a, &m, b, &k, &zero, c, &m);
    free(a);
    free(b);
    free(c);
}

static void step(int number)
{
    product(16, 16, 32);
    product(16, 48, 16);
    printf("step %d loss %.3f\n", number, 2.0 / (number + 1));
    fflush(stdout);
}

static void *thread_main(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        product(16, 16, 16);
    }
    return NULL;
}

static void *rate_main(void *calls)
{
    float a = 1;
    float b = 1;
    float c = 0;
    int one = 1;
    for (long i = *(const long *)calls; i > 0; i--) {
        sgemm_("N", "N", &one, &one, &one, &a, &a, &one, &b, &one, &b, &c, &one);
    }
    return NULL;
}

static void rate(int threads, long calls)
{
    pthread_t ids[64];
    struct timespec begin;
    struct timespec end;
    threads = threads < 64 ? threads : 64;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, rate_main, &calls) != 0) {
            exit(4);
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("%d threads, %ld calls each: %.1f ns per call\n", threads, calls,
           ns / ((double)threads * (double)calls));
}

static void threads(int count)
{
    pthread_t ids[64];
    for (int i = 0; i < count && i < 64; i++) {
        if (pthread_create(&ids[i], NULL, thread_main, NULL) != 0) {
            exit(4);
        }
    }
    for (int i = 0; i < count && i < 64; i++) {
        pthread_join(ids[i], NULL);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    _exit(info->si_addr == NULL && info->si_code > 0 ? 7 : 8);
}

static void crash(void)
{
    volatile uintptr_t nowhere = 0; /* hidden from the compiler, which may do anything with NULL */
    *(volatile int *)nowhere = 1;   /* NOLINT: the fault is the purpose */
}

static void forked(const char *self)
{
    pid_t pid = fork();
    if (pid == 0) {
        step(100);
        exit(0);
    }
    waitpid(pid, NULL, 0);
    pid = fork();
    if (pid == 0) {
        execl(self, self, "steps", "3", (char *)NULL);
        _exit(9);
    }
    waitpid(pid, NULL, 0);
}

#ifdef ADDRESS_OF_FREE
static void (*volatile free_by_address)(void *);
#endif

int main(int argc, char **argv)
{
#ifdef ADDRESS_OF_FREE
    free_by_address = free; /* in code: the linker makes a stub that `free` then means */
#endif
    const char *what = argc > 1 ? argv[1] : "steps";
    int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;
    if (strcmp(what, "large") == 0) { /* one block of 1.5 GiB, and no other */
        void *p;
        return posix_memalign(&p, 64, (size_t)3 << 29) != 0;
    }
    if (strcmp(what, "deaf") == 0) {
        signal(SIGTERM, SIG_IGN);
    } else if (strcmp(what, "close") == 0) {
        close(2);
    } else if (strcmp(what, "threads") == 0) {
        threads(n);
        n = 1;
    } else if (strcmp(what, "rate") == 0) {
        rate(n, argc > 3 ? strtol(argv[3], NULL, 10) : 1000000);
        return 0;
    } else if (strcmp(what, "fork") == 0) {
        forked(argv[0]);
    } else if (strcmp(what, "own-handler") == 0) {
        struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &act, NULL);
    }
    bool endless = strcmp(what, "forever") == 0;
    for (int i = 0; endless || i < n; i++) {
        step(i);
    }
    if (strcmp(what, "crash") == 0 || strcmp(what, "own-handler") == 0) {
        crash();
    } else if (strcmp(what, "after-free") == 0) {
        volatile uintptr_t kept = (uintptr_t)tensor(64); /* hidden from the compiler's warnings */
        free((void *)kept);
        printf("%f\n", (double)((volatile float *)kept)[3]); /* NOLINT: the fault is the purpose */
    } else if (strcmp(what, "write-past") == 0) {
        volatile char *p = (volatile char *)tensor(15);
        p[60] = 1; /* NOLINT: the fault is the purpose */
        free((void *)p);
    } else if (strcmp(what, "hang") == 0 || strcmp(what, "deaf") == 0) {
        sleep(600);
    }
    puts("done");
    return 0;
}
