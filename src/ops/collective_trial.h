// SPDX-License-Identifier: Apache-2.0
/*
 * One collective operation with data whose result is known: is it exact, how long does it take, when does a rank
 * come to it.
 *
 * Data are small whole numbers, chosen so that every partial sum over ranks is exact in the type, whatever the order:
 * |sum| <= 256 in bfloat16 (8 significant bits), 2,048 in float16, 2^24 in float32. So the result must be equal, not
 * near. The pattern has a prime period and differs by rank and by trial: a chunk that is left out, comes twice, comes
 * to another place or is left from the trial before does not pass.
 */
#ifndef ASSAY_OPS_COLLECTIVE_TRIAL_H
#define ASSAY_OPS_COLLECTIVE_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/collective.h"

enum collective_aim {
    COLLECTIVE_CHECK = 0, /* one call, compared */
    COLLECTIVE_TIME,      /* samples: seconds of one call, within a row of calls */
    COLLECTIVE_ARRIVE,    /* samples: seconds from the end of one call to the return of the next
                             one's start, with work on the device's memory in between */
    COLLECTIVE_AIM_COUNT
};

enum {
    COLLECTIVE_SAMPLES_MAX = 64,
    COLLECTIVE_PERIOD = 4099
};

struct collective_trial {
    unsigned number; /* of the trial; goes into the data */
    enum collective_aim aim;
    enum collective_op op;
    enum dtype type;
    size_t count; /* as struct collective_call has it */
    int root;
    unsigned samples; /* TIME, ARRIVE */
};

struct collective_wrong {
    size_t elements; /* that are not as they should be; 0: all are exact */
    size_t first;
    double got, wanted;
    bool beyond; /* bytes behind the result were written */
};

struct collective_result {
    struct collective_wrong wrong;
    double seconds[COLLECTIVE_SAMPLES_MAX];
    size_t sample_count;
};

/* Buffers of one rank; all live in the arena of open(), those of the device until close(). */
struct collective_bench {
    struct device *device;
    struct collective *collective;
    size_t bytes; /* of each buffer, without the bytes behind it */
    void *send, *recv;
    unsigned char *host; /* to compare */
    unsigned char *staged_send,
        *staged_recv; /* the library takes host memory, the data are on a device */
};

/* What the nccl-tests call the size of an operation, in bytes: the larger of what one rank sends and receives. */
size_t collective_bytes(enum collective_op op, size_t count, unsigned element_bytes, int ranks);

/* Elements for about `bytes`: exactly that many where they are few, else an odd number. At least 1. */
size_t collective_count(enum collective_op op, size_t bytes, unsigned element_bytes, int ranks);

/* busbw = algbw * factor, as the nccl-tests define it (PERFORMANCE.md): 2(n-1)/n, (n-1)/n, (n-1)/n, 1. */
double collective_bus_factor(enum collective_op op, int ranks);

/* Element `index` of the data of a rank, and the sum over ranks. */
double collective_value(enum dtype type, unsigned trial, int ranks, int rank, size_t index);
double collective_sum(enum dtype type, unsigned trial, int ranks, size_t index);

enum status collective_bench_open(struct arena *a, struct device *device,
                                  struct collective *collective, size_t bytes,
                                  struct collective_bench *ret_bench, struct err *err) MUST_USE;
void collective_bench_close(struct collective_bench *b);

/* Runs it. tell() comes when this rank is about to start the operation ("entered") and when the start has returned
 * and only its end is waited for ("queued"). */
enum status collective_bench_run(struct collective_bench *b, struct arena *scratch,
                                 const struct collective_trial *t,
                                 void (*tell)(void *context, const char *what), void *context,
                                 struct collective_result *ret_result, struct err *err) MUST_USE;

#endif
