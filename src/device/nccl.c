// SPDX-License-Identifier: Apache-2.0
/*
 * NCCL and RCCL: one logic, for RCCL keeps NCCL's names and numbers; the two differ in where the library lies.
 */
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "device/collective.h"

struct nccl_id {
    char bytes[COLLECTIVE_ID_BYTES];
};

struct nccl_api {
    int (*version)(int *version);
    const char *(*error_text)(int result);
    const char *(*last_error)(void *comm);
    int (*get_id)(struct nccl_id *id);
    int (*init_rank)(void **comm, int ranks, struct nccl_id id, int rank);
    int (*destroy)(void *comm);
    int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm,
                      void *stream);
    int (*all_gather)(const void *send, void *recv, size_t count, int type, void *comm,
                      void *stream);
    int (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op, void *comm,
                          void *stream);
    int (*broadcast)(const void *send, void *recv, size_t count, int type, int root, void *comm,
                     void *stream);
};

enum {
    FEATURE_CALLS = 0,
    FEATURE_WORDS,
    RESULT_SUCCESS = 0,
    OP_SUM = 0
};

#define ROW(name, slot, feature)                           \
 {                                                         \
  name, offsetof(struct nccl_api, slot), FEATURE_##feature \
 }
static const struct library_symbol symbols[] = {
    ROW("ncclGetVersion", version, WORDS),           ROW("ncclGetErrorString", error_text, WORDS),
    ROW("ncclGetLastError", last_error, WORDS),      ROW("ncclGetUniqueId", get_id, CALLS),
    ROW("ncclCommInitRank", init_rank, CALLS),       ROW("ncclCommDestroy", destroy, CALLS),
    ROW("ncclAllReduce", all_reduce, CALLS),         ROW("ncclAllGather", all_gather, CALLS),
    ROW("ncclReduceScatter", reduce_scatter, CALLS), ROW("ncclBroadcast", broadcast, CALLS),
};
#undef ROW

static const char *const nccl_names[] = {"libnccl.so.2", "libnccl.so", NULL};
static const char *const rccl_names[] = {"librccl.so.1", "librccl.so", "/opt/rocm/lib/librccl.so.1",
                                         NULL};

struct nccl {
    struct collective base;
    struct nccl_api api;
    void *comm;
};

static bool type_of(enum dtype type, int *ret_type)
{
    static const struct {
        enum dtype type;
        int number;
    } rows[] = {{DTYPE_I32, 2}, {DTYPE_F16, 6}, {DTYPE_F32, 7}, {DTYPE_BF16, 9}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].type == type) {
            *ret_type = rows[i].number;
            return true;
        }
    }
    return false;
}

static bool has_type(enum dtype type)
{
    int number;
    return type_of(type, &number);
}

static enum status check(struct nccl *n, int result, const char *what, struct err *err)
{
    if (result == RESULT_SUCCESS) {
        return ST_OK;
    }
    const char *text = n->api.error_text != NULL ? n->api.error_text(result) : NULL;
    const char *last = n->api.last_error != NULL ? n->api.last_error(n->comm) : NULL;
    return err_set(err, ST_IO, "%s failed: %s (%d)%s%.300s", what, text != NULL ? text : "no text",
                   result, last != NULL && last[0] != '\0' ? ": " : "", last != NULL ? last : "");
}

/* The loader's names, then those of Python environments, where PyTorch's wheels bring the library along. */
static enum status find(struct arena *a, const char *path, const char *const *names,
                        const char *const *patterns, struct library *ret_library, struct err *err)
{
    struct name_list all = {0};
    struct library found = {0};
    for (size_t i = 0; names[i] != NULL; i++) {
        *VEC_PUSH(a, &all) = names[i];
    }
    for (size_t i = 0; patterns[i] != NULL; i++) {
        library_find_in_python(a, patterns[i], &all);
    }
    *VEC_PUSH(a, &all) = NULL;
    TRY(library_open(a, path, all.items, &found, err));
    *ret_library = found;
    return ST_OK;
}

static enum status open_library(struct arena *a, const struct collective_backend *backend,
                                const char *path, const char *const *names,
                                const char *const *patterns, struct collective **ret_collective,
                                struct err *err)
{
    enum {
        MAJOR = 10000,
        MINOR = 100
    };

    const char *missing[LIBRARY_FEATURES_MAX] = {NULL};
    struct nccl *n = arena_alloc(a, sizeof *n);
    int version = 0;
    n->base.backend = backend;
    TRY(find(a, path, names, patterns, &n->base.library, err));
    library_bind(&n->base.library, symbols, ARRAY_LEN(symbols), &n->api, missing);
    if (missing[FEATURE_CALLS] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s: it is no %s", n->base.library.path,
                       missing[FEATURE_CALLS], backend->name);
    }
    if (n->api.version != NULL && n->api.version(&version) == RESULT_SUCCESS) {
        str_print(n->base.version, sizeof n->base.version, "%d.%d.%d", version / MAJOR,
                  version % MAJOR / MINOR, version % MINOR);
    }
    *ret_collective = &n->base;
    return ST_OK;
}

static enum status make_id(struct collective *c, unsigned char id[COLLECTIVE_ID_BYTES],
                           struct err *err)
{
    struct nccl *n = (struct nccl *)c;
    struct nccl_id own;
    TRY(check(n, n->api.get_id(&own), "ncclGetUniqueId", err));
    memcpy(id, own.bytes, COLLECTIVE_ID_BYTES);
    return ST_OK;
}

static enum status join(struct collective *c, const unsigned char id[COLLECTIVE_ID_BYTES], int rank,
                        int ranks, struct err *err)
{
    struct nccl *n = (struct nccl *)c;
    struct nccl_id own;
    memcpy(own.bytes, id, COLLECTIVE_ID_BYTES);
    c->rank = rank;
    c->ranks = ranks;
    return check(n, n->api.init_rank(&n->comm, ranks, own, rank), "ncclCommInitRank", err);
}

static enum status call(struct collective *c, const struct collective_call *call, struct err *err)
{
    struct nccl *n = (struct nccl *)c;
    const struct nccl_api *api = &n->api;
    int type = 0;
    if (!type_of(call->type, &type)) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s", c->backend->name,
                       dtype_info(call->type)->name);
    }
    switch (call->op) {
    case COLLECTIVE_ALL_REDUCE:
        return check(
            n, api->all_reduce(call->send, call->recv, call->count, type, OP_SUM, n->comm, NULL),
            "ncclAllReduce", err);
    case COLLECTIVE_ALL_GATHER:
        return check(n, api->all_gather(call->send, call->recv, call->count, type, n->comm, NULL),
                     "ncclAllGather", err);
    case COLLECTIVE_REDUCE_SCATTER:
        return check(
            n,
            api->reduce_scatter(call->send, call->recv, call->count, type, OP_SUM, n->comm, NULL),
            "ncclReduceScatter", err);
    default:
        return check(
            n, api->broadcast(call->send, call->recv, call->count, type, call->root, n->comm, NULL),
            "ncclBroadcast", err);
    }
}

static void leave(struct collective *c)
{
    struct nccl *n = (struct nccl *)c;
    if (n->comm != NULL) {
        n->api.destroy(n->comm);
        n->comm = NULL;
    }
}

static const struct collective_backend nccl_backend;
static const struct collective_backend rccl_backend;

static enum status open_nccl(struct arena *a, const char *path, struct collective **ret_collective,
                             struct err *err)
{
    static const char *const patterns[] = {"nvidia/nccl/lib/libnccl.so.2", "torch/lib/libnccl.so.2",
                                           NULL};
    return open_library(a, &nccl_backend, path, nccl_names, patterns, ret_collective, err);
}

static enum status open_rccl(struct arena *a, const char *path, struct collective **ret_collective,
                             struct err *err)
{
    static const char *const patterns[] = {"torch/lib/librccl.so*",
                                           "_rocm_sdk_libraries*/lib/librccl.so*", NULL};
    return open_library(a, &rccl_backend, path, rccl_names, patterns, ret_collective, err);
}

#define CALLS .has_type = has_type, .make_id = make_id, .join = join, .call = call, .leave = leave
static const struct collective_backend nccl_backend = {
    .name = "nccl", .kind = DEVICE_CUDA, .open = open_nccl, CALLS};
static const struct collective_backend rccl_backend = {
    .name = "rccl", .kind = DEVICE_HIP, .open = open_rccl, CALLS};
#undef CALLS

const struct collective_backend *collective_backend_of(enum device_kind kind)
{
    return kind == DEVICE_CUDA ? &nccl_backend : kind == DEVICE_HIP ? &rccl_backend : NULL;
}

const char *collective_op_name(enum collective_op op)
{
    static const char *const names[COLLECTIVE_OP_COUNT] = {"all-reduce", "all-gather",
                                                           "reduce-scatter", "broadcast"};
    return names[op];
}
