// SPDX-License-Identifier: Apache-2.0
/* See run_gpu_guard.h. The first GPU speaks for all of its kind: they share driver and memory model. */
#include "cli/run/gpu_guard.h"

#include <unistd.h>

#include "device/device.h"
#include "device/guard.h"

/* The device node says whether a driver is there at all; nothing is loaded where it is not. */
static const struct {
    const char *node;
    enum device_kind kind;
} drivers[] = {{"/dev/nvidiactl", DEVICE_CUDA}, {"/dev/kfd", DEVICE_HIP}};

void run_gpu_guard_prove(struct cli *cli, struct run_gpu_guard *ret_guard)
{
    struct arena *a = cli->arena;
    *ret_guard = (struct run_gpu_guard){.sentence = "no GPU driver is loaded"};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        struct err err = {0};
        if (access(drivers[i].node, F_OK) != 0) {
            continue;
        }
        struct guard_proof *proof = arena_alloc(a, sizeof *proof);
        ret_guard->present = true;
        cli_progress(cli, "proving the guard on the GPU with planted faults");
        if (guard_prove(drivers[i].kind, 0, NULL, proof, &err) != ST_OK) {
            ret_guard->sentence = arena_strdup(a, err.text);
            return;
        }
        /* Only virtual memory can be served to a live process; it is the first way that is tried
         * (ways count from 1). */
        ret_guard->proven = proof->reads_proven && proof->writes_proven &&
                            proof->strength == GUARD_FAULT && proof->path <= 1;
        ret_guard->sentence = proof->sentence;
        return;
    }
}
