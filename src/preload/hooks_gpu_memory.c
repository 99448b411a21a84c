// SPDX-License-Identifier: Apache-2.0
/* Device memory: allocation, release, copies, fills, waits; CUDA and HIP by the same macros. */
#include "preload/gpu.h"

#define CALL_OR_LEAVE(id, type)            \
 type f = (type)real_symbol(id, CALLER()); \
 if (f == NULL) {                          \
  return GPU_NOT_FOUND;                    \
 }

/* Copies and fills that are put on a stream. */
static bool is_queued(enum hook hook)
{
    return hook == HOOK_CUDA_MEMCPY_ASYNC || hook == HOOK_CUDA_MEMSET_ASYNC ||
           hook == HOOK_HIP_MEMCPY_ASYNC || hook == HOOK_HIP_MEMSET_ASYNC;
}

static struct record_entry *begin_memory(enum hook hook, enum record_kind kind, uint64_t caller,
                                         struct record_memory memory)
{
    struct record_entry *e = record_begin(hook, kind, caller);
    if (kind == RECORD_COPY || kind == RECORD_SET) {
        gpu_guard_stream(memory.stream);
    }
    if (e != NULL) {
        e->u.memory = memory;
        if (is_queued(hook)) {
            gpu_marks_number(e, hook_rows[hook].name[0] == 'h' ? GPU_HIP : GPU_CUDA, memory.stream,
                             caller);
        }
        record_open(e);
    }
    return e;
}

static uint64_t number(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* `flags`: pinned memory of the host is named as what it is. */
static void allocated_as(struct record_entry *e, int rc, void *const *p, size_t size,
                         uint32_t flags)
{
    if (rc == 0 && p != NULL && settings.on) {
        if (e != NULL) {
            e->u.memory.address = number(*p);
        }
        alloc_note(number(*p), size, flags);
    }
}

static void allocated(struct record_entry *e, int rc, void *const *p, size_t size)
{
    bool guarded = e != NULL && e->u.memory.guarded != 0;
    allocated_as(e, rc, p, size, guarded ? (uint32_t)RECORD_ALLOC_GUARDED : 0);
}

#define GPU_MALLOC(name, id, platform)                                         \
 EXPORT int name(void **ret, size_t size);                                     \
 EXPORT int name(void **ret, size_t size)                                      \
 {                                                                             \
  typedef int (*function)(void **, size_t);                                    \
  CALL_OR_LEAVE(id, function)                                                  \
  struct record_entry *e = begin_memory(id, RECORD_ALLOC, CALLER(),            \
                                        (struct record_memory){.size = size}); \
  void *guarded = gpu_guard_take(platform, size, CALLER());                    \
  if (guarded != NULL && e != NULL) {                                          \
   e->u.memory.guarded = 1;                                                    \
  }                                                                            \
  int rc = 0;                                                                  \
  if (guarded != NULL) {                                                       \
   *ret = guarded;                                                             \
  } else {                                                                     \
   rc = f(ret, size);                                                          \
  }                                                                            \
  allocated(e, rc, ret, size);                                                 \
  gpu_close(e, rc);                                                            \
  return rc;                                                                   \
 }

#define GPU_MALLOC_ASYNC(name, id)                                                                 \
 EXPORT int name(void **ret, size_t size, void *stream);                                           \
 EXPORT int name(void **ret, size_t size, void *stream)                                            \
 {                                                                                                 \
  typedef int (*function)(void **, size_t, void *);                                                \
  CALL_OR_LEAVE(id, function)                                                                      \
  struct record_entry *e = begin_memory(                                                           \
      id, RECORD_ALLOC, CALLER(), (struct record_memory){.size = size, .stream = number(stream)}); \
  int rc = f(ret, size, stream);                                                                   \
  allocated(e, rc, ret, size);                                                                     \
  gpu_close(e, rc);                                                                                \
  return rc;                                                                                       \
 }

/* Managed memory, and device memory with flags: never guarded. */
#define GPU_MALLOC_FLAGS(name, id, notes)                                      \
 EXPORT int name(void **ret, size_t size, unsigned flags);                     \
 EXPORT int name(void **ret, size_t size, unsigned flags)                      \
 {                                                                             \
  typedef int (*function)(void **, size_t, unsigned);                          \
  CALL_OR_LEAVE(id, function)                                                  \
  struct record_entry *e = begin_memory(id, RECORD_ALLOC, CALLER(),            \
                                        (struct record_memory){.size = size}); \
  int rc = f(ret, size, flags);                                                \
  allocated_as(e, rc, ret, size, notes);                                       \
  gpu_close(e, rc);                                                            \
  return rc;                                                                   \
 }

/* Addresses that get memory, as PyTorch's expandable segments do. */
#define GPU_MAP(name, id)                                                        \
 EXPORT int name(uint64_t address, size_t size, size_t offset, void *handle,     \
                 unsigned long long flags);                                      \
 EXPORT int name(uint64_t address, size_t size, size_t offset, void *handle,     \
                 unsigned long long flags)                                       \
 {                                                                               \
  typedef int (*function)(uint64_t, size_t, size_t, void *, unsigned long long); \
  CALL_OR_LEAVE(id, function)                                                    \
  struct record_entry *e = begin_memory(id, RECORD_ALLOC, CALLER(),              \
                                        (struct record_memory){.size = size});   \
  int rc = f(address, size, offset, handle, flags);                              \
  void *at = (void *)(uintptr_t)address;                                         \
  allocated(e, rc, &at, size);                                                   \
  gpu_close(e, rc);                                                              \
  return rc;                                                                     \
 }

#define GPU_UNMAP(name, id)                                                                        \
 EXPORT int name(uint64_t address, size_t size);                                                   \
 EXPORT int name(uint64_t address, size_t size)                                                    \
 {                                                                                                 \
  typedef int (*function)(uint64_t, size_t);                                                       \
  CALL_OR_LEAVE(id, function)                                                                      \
  struct record_entry *e = begin_memory(id, RECORD_FREE, CALLER(),                                 \
                                        (struct record_memory){.address = address, .size = size}); \
  alloc_forget(address);                                                                           \
  int rc = f(address, size);                                                                       \
  gpu_close(e, rc);                                                                                \
  return rc;                                                                                       \
 }

#define GPU_FREE(name, id)                                                             \
 EXPORT int name(void *p);                                                             \
 EXPORT int name(void *p)                                                              \
 {                                                                                     \
  typedef int (*function)(void *);                                                     \
  CALL_OR_LEAVE(id, function)                                                          \
  struct record_entry *e = begin_memory(id, RECORD_FREE, CALLER(),                     \
                                        (struct record_memory){.address = number(p)}); \
  alloc_forget(number(p));                                                             \
  int rc = gpu_guard_give_back(p) ? 0 : f(p);                                          \
  gpu_close(e, rc);                                                                    \
  return rc;                                                                           \
 }

#define GPU_FREE_ASYNC(name, id)                                               \
 EXPORT int name(void *p, void *stream);                                       \
 EXPORT int name(void *p, void *stream)                                        \
 {                                                                             \
  typedef int (*function)(void *, void *);                                     \
  CALL_OR_LEAVE(id, function)                                                  \
  struct record_entry *e = begin_memory(                                       \
      id, RECORD_FREE, CALLER(),                                               \
      (struct record_memory){.address = number(p), .stream = number(stream)}); \
  alloc_forget(number(p));                                                     \
  int rc = gpu_guard_give_back(p) ? 0 : f(p, stream);                          \
  gpu_close(e, rc);                                                            \
  return rc;                                                                   \
 }

#define GPU_COPY(name, id)                                                                    \
 EXPORT int name(void *to, const void *from, size_t size, int kind);                          \
 EXPORT int name(void *to, const void *from, size_t size, int kind)                           \
 {                                                                                            \
  typedef int (*function)(void *, const void *, size_t, int);                                 \
  CALL_OR_LEAVE(id, function)                                                                 \
  struct record_entry *e = begin_memory(id, RECORD_COPY, CALLER(),                            \
                                        (struct record_memory){.address = number(to),         \
                                                               .size = size,                  \
                                                               .source = number(from),        \
                                                               .direction = (uint32_t)kind}); \
  int rc = f(to, from, size, kind);                                                           \
  gpu_close(e, rc);                                                                           \
  return rc;                                                                                  \
 }

#define GPU_COPY_ASYNC(name, id)                                                              \
 EXPORT int name(void *to, const void *from, size_t size, int kind, void *stream);            \
 EXPORT int name(void *to, const void *from, size_t size, int kind, void *stream)             \
 {                                                                                            \
  typedef int (*function)(void *, const void *, size_t, int, void *);                         \
  CALL_OR_LEAVE(id, function)                                                                 \
  struct record_entry *e = begin_memory(id, RECORD_COPY, CALLER(),                            \
                                        (struct record_memory){.address = number(to),         \
                                                               .size = size,                  \
                                                               .source = number(from),        \
                                                               .stream = number(stream),      \
                                                               .direction = (uint32_t)kind}); \
  int rc = f(to, from, size, kind, stream);                                                   \
  gpu_close(e, rc);                                                                           \
  return rc;                                                                                  \
 }

#define GPU_SET(name, id)                                                                        \
 EXPORT int name(void *p, int value, size_t size);                                               \
 EXPORT int name(void *p, int value, size_t size)                                                \
 {                                                                                               \
  typedef int (*function)(void *, int, size_t);                                                  \
  CALL_OR_LEAVE(id, function)                                                                    \
  struct record_entry *e = begin_memory(                                                         \
      id, RECORD_SET, CALLER(),                                                                  \
      (struct record_memory){.address = number(p), .size = size, .direction = (uint32_t)value}); \
  int rc = f(p, value, size);                                                                    \
  gpu_close(e, rc);                                                                              \
  return rc;                                                                                     \
 }

#define GPU_SET_ASYNC(name, id)                                                                \
 EXPORT int name(void *p, int value, size_t size, void *stream);                               \
 EXPORT int name(void *p, int value, size_t size, void *stream)                                \
 {                                                                                             \
  typedef int (*function)(void *, int, size_t, void *);                                        \
  CALL_OR_LEAVE(id, function)                                                                  \
  struct record_entry *e = begin_memory(id, RECORD_SET, CALLER(),                              \
                                        (struct record_memory){.address = number(p),           \
                                                               .size = size,                   \
                                                               .stream = number(stream),       \
                                                               .direction = (uint32_t)value}); \
  int rc = f(p, value, size, stream);                                                          \
  gpu_close(e, rc);                                                                            \
  return rc;                                                                                   \
 }

#define GPU_WAIT(name, id)                                          \
 EXPORT int name(void *what);                                       \
 EXPORT int name(void *what)                                        \
 {                                                                  \
  typedef int (*function)(void *);                                  \
  CALL_OR_LEAVE(id, function)                                       \
  struct record_entry *e = record_begin(id, RECORD_SYNC, CALLER()); \
  if (e != NULL) {                                                  \
   e->u.call = (struct record_call){{number(what)}};                \
   record_open(e);                                                  \
  }                                                                 \
  int rc = f(what);                                                 \
  gpu_close(e, rc);                                                 \
  return rc;                                                        \
 }

/* A stream that waits for an event of another: nothing waits on the host. */
#define GPU_STREAM_WAIT(name, id)                                     \
 EXPORT int name(void *stream, void *event, unsigned flags);          \
 EXPORT int name(void *stream, void *event, unsigned flags)           \
 {                                                                    \
  typedef int (*function)(void *, void *, unsigned);                  \
  CALL_OR_LEAVE(id, function)                                         \
  struct record_entry *e = record_begin(id, RECORD_CALL, CALLER());   \
  if (e != NULL) {                                                    \
   e->u.call = (struct record_call){{number(stream), number(event)}}; \
   record_open(e);                                                    \
  }                                                                   \
  int rc = f(stream, event, flags);                                   \
  gpu_close(e, rc);                                                   \
  return rc;                                                          \
 }

#define GPU_WAIT_ALL(name, id)                                      \
 EXPORT int name(void);                                             \
 EXPORT int name(void)                                              \
 {                                                                  \
  typedef int (*function)(void);                                    \
  CALL_OR_LEAVE(id, function)                                       \
  struct record_entry *e = record_begin(id, RECORD_SYNC, CALLER()); \
  if (e != NULL) {                                                  \
   e->u.call = (struct record_call){{0}};                           \
   record_open(e);                                                  \
  }                                                                 \
  int rc = f();                                                     \
  gpu_close(e, rc);                                                 \
  return rc;                                                        \
 }

GPU_MALLOC(cudaMalloc, HOOK_CUDA_MALLOC, GPU_CUDA)
GPU_MALLOC_ASYNC(cudaMallocAsync, HOOK_CUDA_MALLOC_ASYNC)
GPU_FREE(cudaFree, HOOK_CUDA_FREE)
GPU_FREE_ASYNC(cudaFreeAsync, HOOK_CUDA_FREE_ASYNC)
GPU_COPY(cudaMemcpy, HOOK_CUDA_MEMCPY)
GPU_COPY_ASYNC(cudaMemcpyAsync, HOOK_CUDA_MEMCPY_ASYNC)
GPU_SET(cudaMemset, HOOK_CUDA_MEMSET)
GPU_SET_ASYNC(cudaMemsetAsync, HOOK_CUDA_MEMSET_ASYNC)
GPU_WAIT(cudaStreamSynchronize, HOOK_CUDA_STREAM_SYNC)
GPU_WAIT(cudaEventSynchronize, HOOK_CUDA_EVENT_SYNC)
GPU_WAIT_ALL(cudaDeviceSynchronize, HOOK_CUDA_DEVICE_SYNC)
GPU_STREAM_WAIT(cudaStreamWaitEvent, HOOK_CUDA_STREAM_WAIT)
GPU_MALLOC_FLAGS(cudaMallocManaged, HOOK_CUDA_MALLOC_MANAGED, 0)
GPU_MALLOC_FLAGS(cudaHostAlloc, HOOK_CUDA_HOST_ALLOC, RECORD_ALLOC_HOST)
GPU_FREE(cudaFreeHost, HOOK_CUDA_FREE_HOST)
GPU_MAP(cuMemMap, HOOK_CU_MEM_MAP)
GPU_UNMAP(cuMemUnmap, HOOK_CU_MEM_UNMAP)

GPU_MALLOC(hipMalloc, HOOK_HIP_MALLOC, GPU_HIP)
GPU_MALLOC_ASYNC(hipMallocAsync, HOOK_HIP_MALLOC_ASYNC)
GPU_FREE(hipFree, HOOK_HIP_FREE)
GPU_FREE_ASYNC(hipFreeAsync, HOOK_HIP_FREE_ASYNC)
GPU_COPY(hipMemcpy, HOOK_HIP_MEMCPY)
GPU_COPY_ASYNC(hipMemcpyAsync, HOOK_HIP_MEMCPY_ASYNC)
GPU_COPY_ASYNC(hipMemcpyWithStream, HOOK_HIP_MEMCPY_WITH_STREAM)
GPU_SET(hipMemset, HOOK_HIP_MEMSET)
GPU_SET_ASYNC(hipMemsetAsync, HOOK_HIP_MEMSET_ASYNC)
GPU_WAIT(hipStreamSynchronize, HOOK_HIP_STREAM_SYNC)
GPU_WAIT(hipEventSynchronize, HOOK_HIP_EVENT_SYNC)
GPU_WAIT_ALL(hipDeviceSynchronize, HOOK_HIP_DEVICE_SYNC)
GPU_STREAM_WAIT(hipStreamWaitEvent, HOOK_HIP_STREAM_WAIT)
GPU_MALLOC_FLAGS(hipMallocManaged, HOOK_HIP_MALLOC_MANAGED, 0)
GPU_MALLOC_FLAGS(hipExtMallocWithFlags, HOOK_HIP_EXT_MALLOC, 0)
GPU_MALLOC_FLAGS(hipHostMalloc, HOOK_HIP_HOST_MALLOC, RECORD_ALLOC_HOST)
GPU_FREE(hipHostFree, HOOK_HIP_HOST_FREE)
GPU_MAP(hipMemMap, HOOK_HIP_MEM_MAP)
GPU_UNMAP(hipMemUnmap, HOOK_HIP_MEM_UNMAP)
