// SPDX-License-Identifier: Apache-2.0
/*
 * Collective operations through a library of the machine: NCCL over CUDA memory, RCCL over HIP memory, MPI over
 * host memory. One table of functions; libraries are opened with dlopen, never linked. Types and values: nccl.h
 * 2.20 (RCCL has the same names and numbers), mpi.h of Open MPI 4 and of MPICH 4.
 *
 * A hung collective hangs the caller, and a broken one may crash it: to be used in a process that can be killed.
 */
#ifndef ASSAY_DEVICE_COLLECTIVE_H
#define ASSAY_DEVICE_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"

#include "device/device.h"
#include "device/library.h"

enum collective_op {
    COLLECTIVE_ALL_REDUCE = 0, /* every rank: sum over ranks of count elements */
    COLLECTIVE_ALL_GATHER,     /* every rank: ranks * count elements, rank by rank */
    COLLECTIVE_REDUCE_SCATTER, /* rank r: elements r * count ... of the sum over ranks */
    COLLECTIVE_BROADCAST,      /* every rank: count elements of the root */
    COLLECTIVE_OP_COUNT
};

enum {
    COLLECTIVE_ID_BYTES = 128 /* ncclUniqueId */
};

/* "all-reduce", ... */
const char *collective_op_name(enum collective_op op);

struct collective;

struct collective_call {
    enum collective_op op;
    enum dtype type;
    const void *send; /* addresses of the device, or of the host where host_memory */
    void *recv;
    size_t count; /* elements: see enum collective_op */
    int root;
};

struct collective_backend {
    const char *name;      /* "nccl", "rccl", "mpi" */
    enum device_kind kind; /* whose memory it takes */
    bool host_memory;      /* a call has ended when it returns; else device_sync() waits for it */
    /* Loads the library and binds its functions. */
    enum status (*open)(struct arena *a, const char *path, struct collective **ret_collective,
                        struct err *err);
    bool (*has_type)(enum dtype type);
    /* On rank 0, before join; the bytes go to all ranks. */
    enum status (*make_id)(struct collective *c, unsigned char id[COLLECTIVE_ID_BYTES],
                           struct err *err);
    /* On all ranks at once; the device is the one that this thread opened last. */
    enum status (*join)(struct collective *c, const unsigned char id[COLLECTIVE_ID_BYTES], int rank,
                        int ranks, struct err *err);
    enum status (*call)(struct collective *c, const struct collective_call *call, struct err *err);
    void (*leave)(struct collective *c);
};

struct collective {
    const struct collective_backend *backend;
    struct library library;
    char version[64]; /* as the library says it; "" when it does not */
    int rank, ranks;
};

/* NCCL for DEVICE_CUDA, RCCL for DEVICE_HIP, NULL for others. */
const struct collective_backend *collective_backend_of(enum device_kind kind);

extern const struct collective_backend collective_backend_mpi;

#endif
