// SPDX-License-Identifier: Apache-2.0
/* Collectives of NCCL, and of RCCL, which carries the same names. Arguments from nccl.h. */
#include "preload/gpu.h"

static uint64_t number(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static struct record_entry *begin_collective(enum hook hook, uint64_t caller,
                                             struct record_collective c)
{
    gpu_guard_stream(c.stream);
    struct record_entry *e = record_begin(hook, RECORD_COLLECTIVE, caller);
    if (e != NULL) {
        e->u.collective = c;
        record_open(e);
    }
    return e;
}

enum {
    NCCL_SYSTEM_ERROR = 2
};

/* `extra` is the reduction, the root, or nothing (an empty argument list has a form of its own). */
#define COLLECTIVE_WITH(name, id, member)                                                        \
 EXPORT int name(const void *send, void *receive, size_t count, int type, int extra, void *comm, \
                 void *stream);                                                                  \
 EXPORT int name(const void *send, void *receive, size_t count, int type, int extra, void *comm, \
                 void *stream)                                                                   \
 {                                                                                               \
  typedef int (*real)(const void *, void *, size_t, int, int, void *, void *);                   \
  real f = (real)real_symbol(id, CALLER());                                                      \
  if (f == NULL) {                                                                               \
   return NCCL_SYSTEM_ERROR;                                                                     \
  }                                                                                              \
  struct record_entry *e = begin_collective(                                                     \
      id, CALLER(),                                                                              \
      (struct record_collective){.send = number(send),                                           \
                                 .receive = number(receive),                                     \
                                 .count = count,                                                 \
                                 .communicator = number(comm),                                   \
                                 .stream = number(stream),                                       \
                                 .type = (uint32_t)type,                                         \
                                 .member = (uint32_t)extra});                                    \
  int rc = f(send, receive, count, type, extra, comm, stream);                                   \
  record_close(e, rc);                                                                           \
  return rc;                                                                                     \
 }

COLLECTIVE_WITH(ncclAllReduce, HOOK_NCCL_ALL_REDUCE, operation)
COLLECTIVE_WITH(ncclReduceScatter, HOOK_NCCL_REDUCE_SCATTER, operation)
COLLECTIVE_WITH(ncclBroadcast, HOOK_NCCL_BROADCAST, peer)

/* Between two ranks: ncclSend reads its buffer, ncclRecv writes it. */
#define POINT_TO_POINT(name, id, member)                                                    \
 EXPORT int name(void *buffer, size_t count, int type, int peer, void *comm, void *stream); \
 EXPORT int name(void *buffer, size_t count, int type, int peer, void *comm, void *stream)  \
 {                                                                                          \
  typedef int (*real)(void *, size_t, int, int, void *, void *);                            \
  real f = (real)real_symbol(id, CALLER());                                                 \
  if (f == NULL) {                                                                          \
   return NCCL_SYSTEM_ERROR;                                                                \
  }                                                                                         \
  struct record_entry *e = begin_collective(                                                \
      id, CALLER(),                                                                         \
      (struct record_collective){.member = number(buffer),                                  \
                                 .count = count,                                            \
                                 .communicator = number(comm),                              \
                                 .stream = number(stream),                                  \
                                 .type = (uint32_t)type,                                    \
                                 .peer = (uint32_t)peer});                                  \
  int rc = f(buffer, count, type, peer, comm, stream);                                      \
  record_close(e, rc);                                                                      \
  return rc;                                                                                \
 }

POINT_TO_POINT(ncclSend, HOOK_NCCL_SEND, send)
POINT_TO_POINT(ncclRecv, HOOK_NCCL_RECEIVE, receive)

EXPORT int ncclReduce(const void *send, void *receive, size_t count, int type, int operation,
                      int root, void *comm, void *stream);

EXPORT int ncclReduce(const void *send, void *receive, size_t count, int type, int operation,
                      int root, void *comm, void *stream)
{
    typedef int (*real)(const void *, void *, size_t, int, int, int, void *, void *);
    real f = (real)real_symbol(HOOK_NCCL_REDUCE, CALLER());
    if (f == NULL) {
        return NCCL_SYSTEM_ERROR;
    }
    struct record_entry *e = begin_collective(
        HOOK_NCCL_REDUCE, CALLER(),
        (struct record_collective){.send = number(send),
                                   .receive = number(receive),
                                   .count = count,
                                   .communicator = number(comm),
                                   .stream = number(stream),
                                   .type = (uint32_t)type,
                                   .operation = (uint32_t)operation,
                                   .peer = (uint32_t)root});
    int rc = f(send, receive, count, type, operation, root, comm, stream);
    record_close(e, rc);
    return rc;
}

/* ncclAllToAll is NCCL 2.28's; RCCL has had it for long. */
#define COLLECTIVE(name, id)                                                          \
 EXPORT int name(const void *send, void *receive, size_t count, int type, void *comm, \
                 void *stream);                                                       \
 EXPORT int name(const void *send, void *receive, size_t count, int type, void *comm, \
                 void *stream)                                                        \
 {                                                                                    \
  typedef int (*real)(const void *, void *, size_t, int, void *, void *);             \
  real f = (real)real_symbol(id, CALLER());                                           \
  if (f == NULL) {                                                                    \
   return NCCL_SYSTEM_ERROR;                                                          \
  }                                                                                   \
  struct record_entry *e = begin_collective(                                          \
      id, CALLER(),                                                                   \
      (struct record_collective){.send = number(send),                                \
                                 .receive = number(receive),                          \
                                 .count = count,                                      \
                                 .communicator = number(comm),                        \
                                 .stream = number(stream),                            \
                                 .type = (uint32_t)type});                            \
  int rc = f(send, receive, count, type, comm, stream);                               \
  record_close(e, rc);                                                                \
  return rc;                                                                          \
 }

COLLECTIVE(ncclAllGather, HOOK_NCCL_ALL_GATHER)
COLLECTIVE(ncclAllToAll, HOOK_NCCL_ALL_TO_ALL)
