// SPDX-License-Identifier: Apache-2.0
/*
 * Kernel launches and the look-up of kernels by name. The name of a kernel goes into the record at its
 * look-up, or at its first launch through the runtime's own question for it.
 */
#include "preload/gpu.h"

/* cudaLaunchConfig_t of driver_types.h; hipLaunchConfig_t is the same. */
struct cuda_config {
    struct gpu_dim3 grid, block;
    size_t shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

/* CUlaunchConfig of cuda.h; HIP_LAUNCH_CONFIG is the same. */
struct cu_config {
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

struct launch {
    const void *function;
    struct gpu_dim3 grid, block;
    size_t shared_bytes;
    const void *stream;
    void **arguments;                         /* where the driver can tell their sizes */
    void (*ask_name)(const void *, uint64_t); /* asks for the kernel's name, at its first launch */
};

/* A launch of the runtime ends in one of the driver, which is hooked as well: it is one launch, told once. */
static __thread struct {
    bool inside;
    struct record_entry *outer;
} launching __attribute__((tls_model("initial-exec")));

static enum gpu_platform platform_of(enum hook hook)
{
    return hook_rows[hook].name[0] == 'h' ? GPU_HIP : GPU_CUDA;
}

/* Returns whether this is the outer one; the entry, if any, is launching.outer then. */
static bool begin_launch(enum hook hook, uint64_t caller, const struct launch *l)
{
    if (launching.inside) {
        gpu_arguments(launching.outer, l->function, l->arguments, caller);
        return false;
    }
    launching.inside = true;
    if (l->ask_name != NULL) {
        l->ask_name(l->function, caller);
    }
    struct record_entry *e = record_begin(hook, RECORD_LAUNCH, caller);
    gpu_guard_stream((uint64_t)(uintptr_t)l->stream);
    if (e != NULL) {
        e->u.launch = (struct record_launch){
            .function = (uint64_t)(uintptr_t)l->function,
            .stream = (uint64_t)(uintptr_t)l->stream,
            .grid = {l->grid.x, l->grid.y, l->grid.z},
            .block = {l->block.x, l->block.y, l->block.z},
            .shared_bytes = (uint32_t)l->shared_bytes,
        };
        gpu_marks_number(e, platform_of(hook), (uint64_t)(uintptr_t)l->stream, caller);
        record_open(e);
        gpu_arguments(e, l->function, l->arguments, caller);
    }
    launching.outer = e;
    return true;
}

static void end_launch(bool outer, int rc)
{
    if (outer) {
        struct record_entry *e = launching.outer;
        launching.outer = NULL;
        gpu_close(e, rc);
        launching.inside = false;
    }
}

/* cudaFuncGetName(const char **, const void *), hipKernelNameRefByPtr(const void *, stream): asked once
 * for each kernel, and only where the installed runtime has them. */
static void name_cuda(const void *function, uint64_t caller)
{
    typedef int (*question)(const char **, const void *);
    uint64_t key = (uint64_t)(uintptr_t)function;
    if (!settings.on || !gpu_count_launch(key)) {
        return;
    }
    question ask = (question)optional_symbol("cudaFuncGetName", caller);
    const char *name = NULL;
    if (ask != NULL && ask(&name, function) == 0 && name != NULL) {
        gpu_name(key, name);
    }
}

static void name_hip(const void *function, uint64_t caller)
{
    typedef const char *(*question)(const void *, void *);
    uint64_t key = (uint64_t)(uintptr_t)function;
    if (!settings.on || !gpu_count_launch(key)) {
        return;
    }
    question ask = (question)optional_symbol("hipKernelNameRefByPtr", caller);
    const char *name = ask != NULL ? ask(function, NULL) : NULL;
    if (name != NULL) {
        gpu_name(key, name);
    }
}

/* Kernels of a module, whose look-up was not seen: cuFuncGetName(const char **, CUfunction) of CUDA 12.3,
 * cuKernelGetName for a CUkernel, which launches too; hipKernelNameRef(hipFunction_t). */
static void name_by(const void *function, uint64_t caller, bool kernel_first)
{
    typedef int (*question)(const char **, const void *);
    static _Atomic(void *) slots[2];
    static const char *const questions[2] = {"cuFuncGetName", "cuKernelGetName"};
    uint64_t key = (uint64_t)(uintptr_t)function;
    if (!settings.on || !gpu_count_launch(key)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        int which = kernel_first ? 1 - i : i;
        question ask = (question)gpu_driver_symbol(&slots[which], questions[which], caller);
        const char *name = NULL;
        if (ask != NULL && ask(&name, function) == 0 && name != NULL) {
            gpu_name(key, name);
            return;
        }
    }
}

static void name_cu(const void *function, uint64_t caller)
{
    name_by(function, caller, false);
}

/* cudaKernel_t is the driver's CUkernel. */
static void name_cuda_kernel(const void *kernel, uint64_t caller)
{
    name_by(kernel, caller, true);
}

static void name_hip_module(const void *function, uint64_t caller)
{
    typedef const char *(*question)(const void *);
    static _Atomic(void *) slot;
    uint64_t key = (uint64_t)(uintptr_t)function;
    if (!settings.on || !gpu_count_launch(key)) {
        return;
    }
    question ask = (question)gpu_driver_symbol(&slot, "hipKernelNameRef", caller);
    const char *name = ask != NULL ? ask(function) : NULL;
    if (name != NULL) {
        gpu_name(key, name);
    }
}

#define RUNTIME_LAUNCH(name, id, name_it)                                                        \
 EXPORT int name(const void *function, struct gpu_dim3 grid, struct gpu_dim3 block, void **args, \
                 size_t shared, void *stream);                                                   \
 EXPORT int name(const void *function, struct gpu_dim3 grid, struct gpu_dim3 block, void **args, \
                 size_t shared, void *stream)                                                    \
 {                                                                                               \
  typedef int (*real)(const void *, struct gpu_dim3, struct gpu_dim3, void **, size_t, void *);  \
  real f = (real)real_symbol(id, CALLER());                                                      \
  if (f == NULL) {                                                                               \
   return GPU_NOT_FOUND;                                                                         \
  }                                                                                              \
  const struct launch l = {function, grid, block, shared, stream, NULL, name_it};                \
  bool outer = begin_launch(id, CALLER(), &l);                                                   \
  int rc = f(function, grid, block, args, shared, stream);                                       \
  end_launch(outer, rc);                                                                         \
  return rc;                                                                                     \
 }

RUNTIME_LAUNCH(cudaLaunchKernel, HOOK_CUDA_LAUNCH, name_cuda)
RUNTIME_LAUNCH(hipLaunchKernel, HOOK_HIP_LAUNCH, name_hip)
/* What nvcc makes of <<<>>> since CUDA 13 (crt/host_runtime.h); the first argument is a cudaKernel_t. */
RUNTIME_LAUNCH(__cudaLaunchKernel, HOOK_CUDA_LAUNCH_KERNEL, name_cuda_kernel)
/* HIP's takes the shared bytes as unsigned: the upper half of the register is nobody's, and stays so. */
RUNTIME_LAUNCH(cudaLaunchCooperativeKernel, HOOK_CUDA_LAUNCH_COOPERATIVE, name_cuda)
RUNTIME_LAUNCH(hipLaunchCooperativeKernel, HOOK_HIP_LAUNCH_COOPERATIVE, name_hip)

#define RUNTIME_LAUNCH_EX(name, id, name_it)                                              \
 EXPORT int name(const struct cuda_config *config, const void *function, void **args);    \
 EXPORT int name(const struct cuda_config *config, const void *function, void **args)     \
 {                                                                                        \
  typedef int (*real)(const struct cuda_config *, const void *, void **);                 \
  real f = (real)real_symbol(id, CALLER());                                               \
  if (f == NULL) {                                                                        \
   return GPU_NOT_FOUND;                                                                  \
  }                                                                                       \
  struct launch l = {.function = function, .ask_name = name_it};                          \
  if (config != NULL) {                                                                   \
   l = (struct launch){function,       config->grid, config->block, config->shared_bytes, \
                       config->stream, NULL,         name_it};                            \
  }                                                                                       \
  bool outer = begin_launch(id, CALLER(), &l);                                            \
  int rc = f(config, function, args);                                                     \
  end_launch(outer, rc);                                                                  \
  return rc;                                                                              \
 }

RUNTIME_LAUNCH_EX(cudaLaunchKernelExC, HOOK_CUDA_LAUNCH_EX, name_cuda)
RUNTIME_LAUNCH_EX(hipLaunchKernelExC, HOOK_HIP_LAUNCH_EX, name_hip)

/* With events around it: for timing. */
EXPORT int hipExtLaunchKernel(const void *function, struct gpu_dim3 grid, struct gpu_dim3 block,
                              void **args, size_t shared, void *stream, void *start, void *stop,
                              int flags);

EXPORT int hipExtLaunchKernel(const void *function, struct gpu_dim3 grid, struct gpu_dim3 block,
                              void **args, size_t shared, void *stream, void *start, void *stop,
                              int flags)
{
    typedef int (*real)(const void *, struct gpu_dim3, struct gpu_dim3, void **, size_t, void *,
                        void *, void *, int);
    real f = (real)real_symbol(HOOK_HIP_EXT_LAUNCH, CALLER());
    if (f == NULL) {
        return GPU_NOT_FOUND;
    }
    const struct launch l = {function, grid, block, shared, stream, NULL, name_hip};
    bool outer = begin_launch(HOOK_HIP_EXT_LAUNCH, CALLER(), &l);
    int rc = f(function, grid, block, args, shared, stream, start, stop, flags);
    end_launch(outer, rc);
    return rc;
}

#define MODULE_LAUNCH(name, id, name_it)                                                          \
 EXPORT int name(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                 unsigned bz, unsigned shared, void *stream, void **args, void **extra);          \
 EXPORT int name(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                 unsigned bz, unsigned shared, void *stream, void **args, void **extra)           \
 {                                                                                                \
  typedef int (*real)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                      unsigned, void *, void **, void **);                                        \
  real f = (real)real_symbol(id, CALLER());                                                       \
  if (f == NULL) {                                                                                \
   return GPU_NOT_FOUND;                                                                          \
  }                                                                                               \
  const struct launch l = {function, {gx, gy, gz}, {bx, by, bz}, shared, stream, args, name_it};  \
  bool outer = begin_launch(id, CALLER(), &l);                                                    \
  int rc = f(function, gx, gy, gz, bx, by, bz, shared, stream, args, extra);                      \
  end_launch(outer, rc);                                                                          \
  return rc;                                                                                      \
 }

MODULE_LAUNCH(cuLaunchKernel, HOOK_CU_LAUNCH, name_cu)
MODULE_LAUNCH(hipModuleLaunchKernel, HOOK_HIP_MODULE_LAUNCH, name_hip_module)

#define MODULE_COOPERATIVE(name, id, name_it)                                                     \
 EXPORT int name(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                 unsigned bz, unsigned shared, void *stream, void **args);                        \
 EXPORT int name(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                 unsigned bz, unsigned shared, void *stream, void **args)                         \
 {                                                                                                \
  typedef int (*real)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                      unsigned, void *, void **);                                                 \
  real f = (real)real_symbol(id, CALLER());                                                       \
  if (f == NULL) {                                                                                \
   return GPU_NOT_FOUND;                                                                          \
  }                                                                                               \
  const struct launch l = {function, {gx, gy, gz}, {bx, by, bz}, shared, stream, args, name_it};  \
  bool outer = begin_launch(id, CALLER(), &l);                                                    \
  int rc = f(function, gx, gy, gz, bx, by, bz, shared, stream, args);                             \
  end_launch(outer, rc);                                                                          \
  return rc;                                                                                      \
 }

MODULE_COOPERATIVE(cuLaunchCooperativeKernel, HOOK_CU_LAUNCH_COOPERATIVE, name_cu)
MODULE_COOPERATIVE(hipModuleLaunchCooperativeKernel, HOOK_HIP_MODULE_LAUNCH_COOPERATIVE,
                   name_hip_module)

/* The global size counts threads here, not blocks; hipBLASLt launches this way. */
EXPORT int hipExtModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                                    unsigned bx, unsigned by, unsigned bz, size_t shared,
                                    void *stream, void **args, void **extra, void *start,
                                    void *stop, unsigned flags);

EXPORT int hipExtModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                                    unsigned bx, unsigned by, unsigned bz, size_t shared,
                                    void *stream, void **args, void **extra, void *start,
                                    void *stop, unsigned flags)
{
    typedef int (*real)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t,
                        void *, void **, void **, void *, void *, unsigned);
    real f = (real)real_symbol(HOOK_HIP_EXT_MODULE_LAUNCH, CALLER());
    if (f == NULL) {
        return GPU_NOT_FOUND;
    }
    const struct launch l = {function, {gx, gy, gz}, {bx, by, bz},   shared,
                             stream,   args,         name_hip_module};
    bool outer = begin_launch(HOOK_HIP_EXT_MODULE_LAUNCH, CALLER(), &l);
    int rc = f(function, gx, gy, gz, bx, by, bz, shared, stream, args, extra, start, stop, flags);
    end_launch(outer, rc);
    return rc;
}

/* The way Triton launches since HIP 6.5, and on CUDA where it needs attributes. */
#define MODULE_LAUNCH_EX(name, id, name_it)                                                  \
 EXPORT int name(const struct cu_config *config, void *function, void **args, void **extra); \
 EXPORT int name(const struct cu_config *config, void *function, void **args, void **extra)  \
 {                                                                                           \
  typedef int (*real)(const struct cu_config *, void *, void **, void **);                   \
  real f = (real)real_symbol(id, CALLER());                                                  \
  if (f == NULL) {                                                                           \
   return GPU_NOT_FOUND;                                                                     \
  }                                                                                          \
  struct launch l = {.function = function, .arguments = args, .ask_name = name_it};          \
  if (config != NULL) {                                                                      \
   l.grid = (struct gpu_dim3){config->grid[0], config->grid[1], config->grid[2]};            \
   l.block = (struct gpu_dim3){config->block[0], config->block[1], config->block[2]};        \
   l.shared_bytes = config->shared_bytes;                                                    \
   l.stream = config->stream;                                                                \
  }                                                                                          \
  bool outer = begin_launch(id, CALLER(), &l);                                               \
  int rc = f(config, function, args, extra);                                                 \
  end_launch(outer, rc);                                                                     \
  return rc;                                                                                 \
 }

MODULE_LAUNCH_EX(cuLaunchKernelEx, HOOK_CU_LAUNCH_EX, name_cu)
MODULE_LAUNCH_EX(hipDrvLaunchKernelEx, HOOK_HIP_DRV_LAUNCH_EX, name_hip_module)

#define GET_FUNCTION(hook_name, id)                                  \
 EXPORT int hook_name(void **ret, void *module, const char *kernel); \
 EXPORT int hook_name(void **ret, void *module, const char *kernel)  \
 {                                                                   \
  typedef int (*real)(void **, void *, const char *);                \
  real f = (real)real_symbol(id, CALLER());                          \
  if (f == NULL) {                                                   \
   return GPU_NOT_FOUND;                                             \
  }                                                                  \
  int rc = f(ret, module, kernel);                                   \
  if (rc == 0 && settings.on && ret != NULL && kernel != NULL) {     \
   gpu_name((uint64_t)(uintptr_t)*ret, kernel);                      \
  }                                                                  \
  return rc;                                                         \
 }

GET_FUNCTION(cuModuleGetFunction, HOOK_CU_GET_FUNCTION)
GET_FUNCTION(hipModuleGetFunction, HOOK_HIP_GET_FUNCTION)

#define GRAPH_LAUNCH(name, id)                                   \
 EXPORT int name(void *graph, void *stream);                     \
 EXPORT int name(void *graph, void *stream)                      \
 {                                                               \
  typedef int (*real)(void *, void *);                           \
  real f = (real)real_symbol(id, CALLER());                      \
  if (f == NULL) {                                               \
   return GPU_NOT_FOUND;                                         \
  }                                                              \
  const struct launch l = {.function = graph, .stream = stream}; \
  bool outer = begin_launch(id, CALLER(), &l);                   \
  int rc = f(graph, stream);                                     \
  end_launch(outer, rc);                                         \
  return rc;                                                     \
 }

GRAPH_LAUNCH(cudaGraphLaunch, HOOK_CUDA_GRAPH_LAUNCH)
GRAPH_LAUNCH(hipGraphLaunch, HOOK_HIP_GRAPH_LAUNCH)
