// SPDX-License-Identifier: Apache-2.0
/*
 * Puts the device layer itself on trial on a real device: the proof, planted accesses of several
 * sizes past both sides, and a vendor library's matrix products over every algorithm under guard.
 * Used by h200.sh on a GPU and by the suite on the CPU back ends.
 *
 *   trial cuda prove
 *   trial cuda planted
 *   trial cuda gemm cublaslt [SECONDS [ALGORITHMS [LIBRARY]]]
 */
#include "trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"

#include "device/guard.h"
#include "device/isolate.h"
#include "device/kernels.h"

double trial_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- prove ------------------------------------------------------------------------------------- */

static int prove(enum device_kind kind)
{
    struct guard_proof proof;
    struct err err;
    double start = trial_now();
    if (guard_prove(kind, 0, NULL, &proof, &err) != ST_OK) {
        printf("prove: %s\n", err.text);
        return 2;
    }
    for (size_t i = 0; i < GUARD_PROOF_CASE_COUNT; i++) {
        printf("prove: %-24s %-6s %s\n", guard_proof_case_name((enum guard_proof_case)i),
               proof.cases[i].caught ? "yes" : "NO", proof.cases[i].how);
    }
    printf("prove: %s (%.1f s)\n", proof.sentence, trial_now() - start);
    return proof.reads_proven && proof.writes_proven ? 0 : 1;
}

/* --- planted ----------------------------------------------------------------------------------- */

struct planted {
    enum device_kind kind;
    size_t operand_bytes;
    enum guard_side side;
    bool write;
    int64_t past; /* bytes past the side; 0: inside only */
    bool finished;
    struct guard_damage damage;
    struct err err;
};

static enum status plant(struct planted *p)
{
    struct arena *a = arena_new(0);
    struct device *device;
    struct guard *guard;
    struct guard_block block;
    void *sink;
    TRY(device_open(a, p->kind, 0, NULL, &device, &p->err));
    TRY(guard_open(a, device, &guard, &p->err));
    TRY(guard_alloc(guard, p->operand_bytes, p->side, 1, &block, &p->err));
    TRY(device_alloc(device, 64, &sink, &p->err));
    TRY(guard_poison(guard, &block, 0, &p->err));
    int64_t count = p->past == 0 ? (int64_t)p->operand_bytes : p->past;
    int64_t first = p->past == 0 ? 0 : p->side == GUARD_END ? (int64_t)p->operand_bytes : -p->past;
    const union kernel_argument arguments[] = {{.pointer = block.address},
                                               {.i64 = first},
                                               {.i64 = count},
                                               {.i32 = p->write},
                                               {.pointer = sink}};

    static const enum kernel_type types[] = {KERNEL_POINTER, KERNEL_I64, KERNEL_I64, KERNEL_I32,
                                             KERNEL_POINTER};
    const struct kernel_launch launch = {1, 1, ARRAY_LEN(arguments), arguments, types};
    enum status st = device_launch(device, &kernel_touch, &launch, &p->err);
    st = st == ST_OK ? device_sync(device, &p->err) : st;
    if (st != ST_OK) {
        isolate_report(device->event == DEVICE_EVENT_MEMORY_FAULT ? ENDING_DEVICE_FAULT
                                                                  : ENDING_DEVICE_LOST,
                       0, false, p->err.text);
        return st;
    }
    return guard_check(guard, &block, &p->damage, &p->err);
}

static void plant_in_child(void *context)
{
    struct planted *p = context;
    p->finished = plant(p) == ST_OK;
}

static int planted(enum device_kind kind)
{
    static const size_t sizes[] = {12, 4108, ((size_t)2 << 20) + 20};
    static const int64_t pasts[] = {0, 1, 4, 16, 64};
    struct planted *p = isolate_shared(sizeof *p);
    unsigned counts[2][2] = {{0}}; /* [planted][as it should be] */
    double start = trial_now();
    for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(pasts) * 4; i++) {
        *p = (struct planted){
            .kind = kind,
            .operand_bytes = sizes[i / (ARRAY_LEN(pasts) * 4)],
            .past = pasts[i / 4 % ARRAY_LEN(pasts)],
            .side = i % 2 == 0 ? GUARD_END : GUARD_BEGIN,
            .write = i / 2 % 2 == 1,
        };
        struct isolate_end end;
        struct err err;
        if (isolate_run(NULL, plant_in_child, p, &end, &err) != ST_OK) {
            printf("planted: %s\n", err.text);
            return 2;
        }
        bool fault = end.ending == ENDING_MEMORY_FAULT || end.ending == ENDING_DEVICE_FAULT;
        bool good = p->past == 0 ? end.ending == ENDING_OK && p->finished && !p->damage.damaged
                                 : fault;
        counts[p->past != 0][good]++;
        if (!good) {
            printf("planted: operand %zu bytes, %s, %s, %" PRId64 " bytes past: %s %s\n",
                   p->operand_bytes, guard_side_name(p->side), p->write ? "write" : "read", p->past,
                   ending_name(end.ending), end.text[0] != '\0' ? end.text : p->err.text);
        }
    }
    unsigned all = counts[1][0] + counts[1][1];
    printf("planted: %u of %u planted accesses caught, %u of %u clean ones passed (%.1f s)\n",
           counts[1][1], all, counts[0][1], counts[0][0] + counts[0][1], trial_now() - start);
    isolate_shared_free(p, sizeof *p);
    return counts[1][0] == 0 && counts[0][0] == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    enum device_kind kind;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3 || !device_kind_find(argv[1], &kind)) {
        fprintf(stderr, "usage: trial DEVICE prove | planted | gemm LIBRARY ...\n");
        return 64;
    }
    if (strcmp(argv[2], "prove") == 0) {
        return prove(kind);
    }
    if (strcmp(argv[2], "planted") == 0) {
        return planted(kind);
    }
    return trial_gemm(kind, argc - 3, argv + 3);
}
