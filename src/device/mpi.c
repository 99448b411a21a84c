// SPDX-License-Identifier: Apache-2.0
/*
 * MPI over host memory. A program that is linked with neither meets two binary interfaces: Open MPI, whose handles are
 * addresses of exported objects, and MPICH (MVAPICH, Intel MPI, Cray), whose handles are numbers. An object that
 * only Open MPI exports tells which one was loaded.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#include "device/collective.h"

enum {
    HANDLE_WORLD = 0,
    HANDLE_F32,
    HANDLE_I32,
    HANDLE_SUM,
    HANDLE_COUNT
};

static const char *const handle_names[HANDLE_COUNT] = {"ompi_mpi_comm_world", "ompi_mpi_float",
                                                       "ompi_mpi_int", "ompi_mpi_op_sum"};
/* mpi.h of MPICH: MPI_COMM_WORLD, MPI_FLOAT, MPI_INT, MPI_SUM. */
static const int handle_numbers[HANDLE_COUNT] = {0x44000000, 0x4c00040a, 0x4c000405, 0x58000003};

/* The functions with handles that are addresses ... */
struct by_address {
    int (*comm_rank)(void *comm, int *rank);
    int (*comm_size)(void *comm, int *size);
    int (*all_reduce)(const void *send, void *recv, int count, void *type, void *op, void *comm);
    int (*all_gather)(const void *send, int count, void *type, void *recv, int recv_count,
                      void *recv_type, void *comm);
    int (*reduce_scatter)(const void *send, void *recv, int count, void *type, void *op,
                          void *comm);
    int (*broadcast)(void *buffer, int count, void *type, int root, void *comm);
};

/* ... and numbers. */
struct by_number {
    int (*comm_rank)(int comm, int *rank);
    int (*comm_size)(int comm, int *size);
    int (*all_reduce)(const void *send, void *recv, int count, int type, int op, int comm);
    int (*all_gather)(const void *send, int count, int type, void *recv, int recv_count,
                      int recv_type, int comm);
    int (*reduce_scatter)(const void *send, void *recv, int count, int type, int op, int comm);
    int (*broadcast)(void *buffer, int count, int type, int root, int comm);
};

struct mpi_api {
    int (*init)(int *argc, char ***argv);
    int (*finalize)(void);
    int (*version)(char *text, int *length);
    struct by_address address;
    struct by_number number;
};

struct mpi {
    struct collective base;
    struct mpi_api api;
    void *handles[HANDLE_COUNT]; /* of Open MPI; all NULL with MPICH */
    bool is_open;                /* Open MPI */
    bool joined;
};

static const char *const names[] = {"libmpi.so.40",   "libmpi.so.80", "libmpi.so.12",
                                    "libmpich.so.12", "libmpi.so",    NULL};

#define ROW(name, slot)                   \
 {                                        \
  name, offsetof(struct mpi_api, slot), 0 \
 }
#define BOTH(name, slot) ROW(name, address.slot), ROW(name, number.slot)
static const struct library_symbol symbols[] = {
    ROW("MPI_Init", init),
    ROW("MPI_Finalize", finalize),
    ROW("MPI_Get_library_version", version),
    BOTH("MPI_Comm_rank", comm_rank),
    BOTH("MPI_Comm_size", comm_size),
    BOTH("MPI_Allreduce", all_reduce),
    BOTH("MPI_Allgather", all_gather),
    BOTH("MPI_Reduce_scatter_block", reduce_scatter),
    BOTH("MPI_Bcast", broadcast),
};
#undef BOTH
#undef ROW

static bool has_type(enum dtype type)
{
    return type == DTYPE_F32 || type == DTYPE_I32; /* MPI has no 16-bit reals */
}

/* Its plug-ins need the library's symbols, so it is opened once more for all to see. */
static void show_to_all(const struct library *library)
{
    dlopen(library->path, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static enum status mpi_open(struct arena *a, const char *path, struct collective **ret_collective,
                            struct err *err)
{
    const char *missing[LIBRARY_FEATURES_MAX] = {NULL};
    struct mpi *m = arena_alloc(a, sizeof *m);
    m->base.backend = &collective_backend_mpi;
    TRY(library_open(a, path, names, &m->base.library, err));
    show_to_all(&m->base.library);
    library_bind(&m->base.library, symbols, ARRAY_LEN(symbols), &m->api, missing);
    if (missing[0] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s: it is no MPI library",
                       m->base.library.path, missing[0]);
    }
    for (size_t i = 0; i < HANDLE_COUNT; i++) {
        m->handles[i] = dlsym(m->base.library.handle, handle_names[i]);
        m->is_open = m->is_open || m->handles[i] != NULL;
    }
    for (size_t i = 0; m->is_open && i < HANDLE_COUNT; i++) {
        if (m->handles[i] == NULL) {
            return err_set(err, ST_UNSUPPORTED, "%s has no %s: an Open MPI that is not known",
                           m->base.library.path, handle_names[i]);
        }
    }
    *ret_collective = &m->base;
    return ST_OK;
}

static enum status check(const char *what, int result, struct err *err)
{
    return result == 0 ? ST_OK : err_set(err, ST_IO, "%s failed (%d)", what, result);
}

static enum status make_id(struct collective *c, unsigned char id[COLLECTIVE_ID_BYTES],
                           struct err *err)
{
    (void)c;
    (void)err;
    memset(id, 0, COLLECTIVE_ID_BYTES); /* the launcher has joined the ranks */
    return ST_OK;
}

static void read_version(struct mpi *m)
{
    enum {
        VERSION_MAX = 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI has 256 */
    };

    static char text[VERSION_MAX];
    int length = 0;
    if (m->api.version(text, &length) != 0) {
        return;
    }
    text[VERSION_MAX - 1] = '\0';
    size_t n = strcspn(text, ",\n");
    str_print(m->base.version, sizeof m->base.version, "%.*s", (int)(n < 60 ? n : 60), text);
    for (char *c = m->base.version; *c != '\0'; c++) {
        *c = *c == '\t' ? ' ' : *c; /* "MPICH Version:<tab>4.0.2" */
    }
}

static enum status join(struct collective *c, const unsigned char id[COLLECTIVE_ID_BYTES], int rank,
                        int ranks, struct err *err)
{
    struct mpi *m = (struct mpi *)c;
    int own = -1;
    int size = -1;
    (void)id;
    TRY(check("MPI_Init", m->api.init(NULL, NULL), err));
    m->joined = true;
    if (m->is_open) {
        TRY(check("MPI_Comm_rank", m->api.address.comm_rank(m->handles[HANDLE_WORLD], &own), err));
        TRY(check("MPI_Comm_size", m->api.address.comm_size(m->handles[HANDLE_WORLD], &size), err));
    } else {
        int world = handle_numbers[HANDLE_WORLD];
        TRY(check("MPI_Comm_rank", m->api.number.comm_rank(world, &own), err));
        TRY(check("MPI_Comm_size", m->api.number.comm_size(world, &size), err));
    }
    if (own != rank || size != ranks) {
        return err_set(
            err, ST_UNSUPPORTED,
            "%s says this is rank %d of %d, the launcher says %d of %d: the launcher belongs to another "
            "MPI; name its library with --library",
            m->base.library.path, own, size, rank, ranks);
    }
    c->rank = rank;
    c->ranks = ranks;
    read_version(m);
    return ST_OK;
}

static int call_open(const struct mpi *m, const struct collective_call *call, int count)
{
    const struct by_address *f = &m->api.address;
    void *world = m->handles[HANDLE_WORLD];
    void *sum = m->handles[HANDLE_SUM];
    void *type = m->handles[call->type == DTYPE_F32 ? HANDLE_F32 : HANDLE_I32];
    switch (call->op) {
    case COLLECTIVE_ALL_REDUCE:
        return f->all_reduce(call->send, call->recv, count, type, sum, world);
    case COLLECTIVE_ALL_GATHER:
        return f->all_gather(call->send, count, type, call->recv, count, type, world);
    case COLLECTIVE_REDUCE_SCATTER:
        return f->reduce_scatter(call->send, call->recv, count, type, sum, world);
    default: return f->broadcast(call->recv, count, type, call->root, world);
    }
}

static int call_mpich(const struct mpi *m, const struct collective_call *call, int count)
{
    const struct by_number *f = &m->api.number;
    int world = handle_numbers[HANDLE_WORLD];
    int sum = handle_numbers[HANDLE_SUM];
    int type = handle_numbers[call->type == DTYPE_F32 ? HANDLE_F32 : HANDLE_I32];
    switch (call->op) {
    case COLLECTIVE_ALL_REDUCE:
        return f->all_reduce(call->send, call->recv, count, type, sum, world);
    case COLLECTIVE_ALL_GATHER:
        return f->all_gather(call->send, count, type, call->recv, count, type, world);
    case COLLECTIVE_REDUCE_SCATTER:
        return f->reduce_scatter(call->send, call->recv, count, type, sum, world);
    default: return f->broadcast(call->recv, count, type, call->root, world);
    }
}

static enum status call(struct collective *c, const struct collective_call *call, struct err *err)
{
    const struct mpi *m = (const struct mpi *)c;
    if (!has_type(call->type) || call->count > INT32_MAX) {
        return err_set(err, ST_UNSUPPORTED, "no %s of %zu elements of %s through MPI",
                       collective_op_name(call->op), call->count, dtype_info(call->type)->name);
    }
    if (call->op == COLLECTIVE_BROADCAST && c->rank == call->root) {
        memcpy(call->recv, call->send, call->count * dtype_info(call->type)->size);
    }
    int result = m->is_open ? call_open(m, call, (int)call->count)
                            : call_mpich(m, call, (int)call->count);
    return check(collective_op_name(call->op), result, err);
}

static void leave(struct collective *c)
{
    struct mpi *m = (struct mpi *)c;
    if (m->joined) {
        m->api.finalize();
        m->joined = false;
    }
}

const struct collective_backend collective_backend_mpi = {
    .name = "mpi",
    .kind = DEVICE_CPU,
    .host_memory = true,
    .open = mpi_open,
    .has_type = has_type,
    .make_id = make_id,
    .join = join,
    .call = call,
    .leave = leave,
};
