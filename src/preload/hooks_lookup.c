// SPDX-License-Identifier: Apache-2.0
/*
 * Look-ups by name: dlsym, and the GPU drivers' own (cuGetProcAddress, by which NVIDIA's runtime finds cuLaunchKernel,
 * also where a library has that runtime linked in; hipGetProcAddress, Triton's way on AMD). Where the name is one of
 * ours and the real answer is there, the answer is our hook; everything else leaves dlsym by a jump to the real one, so
 * that RTLD_NEXT and RTLD_DEFAULT still mean what they mean to the caller.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/gpu.h"

typedef void *(*dlsym_function)(void *, const char *);

/* What the stub below jumps to; found once. */
__attribute__((visibility("hidden"))) void *preload_real_dlsym;

__attribute__((constructor(101))) static void find_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; preload_real_dlsym == NULL && i < sizeof versions / sizeof *versions; i++) {
        preload_real_dlsym = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
}

void *raw_dlsym(void *handle, const char *name)
{
    if (preload_real_dlsym == NULL) {
        find_dlsym();
    }
    return preload_real_dlsym != NULL ? ((dlsym_function)preload_real_dlsym)(handle, name) : NULL;
}

EXPORT int dlclose(void *handle)
{
    typedef int (*function)(void *);
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    static _Atomic(void *) slot;
    void *real = atomic_load(&slot);
    for (size_t i = 0; real == NULL && i < sizeof versions / sizeof *versions; i++) {
        real = dlvsym(RTLD_NEXT, "dlclose", versions[i]);
        atomic_store(&slot, real);
    }
    if (real == NULL) {
        return -1;
    }
    int rc = ((function)real)(handle);
    if (settings.on) {
        int kept = errno;
        real_symbols_after_unload();
        errno = kept;
    }
    return rc;
}

/* Only functions of GPU libraries: libc's own names must keep their meaning. */
static int hook_named(const char *name)
{
    if (name == NULL || (strncmp(name, "cu", 2) != 0 && strncmp(name, "hip", 3) != 0 &&
                         strncmp(name, "nccl", 4) != 0 && strncmp(name, "rocblas", 7) != 0 &&
                         strncmp(name, "miopen", 6) != 0)) {
        return -1;
    }
    for (int i = 0; i < HOOK_COUNT; i++) {
        if (strcmp(hook_rows[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

enum {
    PER_THREAD_STREAM =
        2 /* CU_GET_PROC_ADDRESS_..., hipEnablePerThreadDefaultStream: another function of that name */
};

/* The answer of a driver's own look-up, ours in its place where we have one. */
static void answer(const char *symbol, void **pfn, int version, uint64_t flags, uint64_t asker)
{
    if (!settings.on || pfn == NULL || *pfn == NULL || (flags & PER_THREAD_STREAM) != 0) {
        return;
    }
    int hook = hook_named(symbol);
    if (hook == HOOK_CU_GET_PROC && version >= 12000) {
        hook = HOOK_CU_GET_PROC_V2; /* the driver gives this one for the plain name */
    }
    void *ours = hook >= 0 ? real_symbol_asked((enum hook)hook, *pfn, asker) : NULL;
    if (ours != NULL) {
        *pfn = ours;
    }
}

#define GET_PROC(name, id)                                                                       \
 EXPORT int name(const char *symbol, void **pfn, int version, uint64_t flags, void *ret_status); \
 EXPORT int name(const char *symbol, void **pfn, int version, uint64_t flags, void *ret_status)  \
 {                                                                                               \
  typedef int (*real)(const char *, void **, int, uint64_t, void *);                             \
  real f = (real)real_symbol(id, CALLER());                                                      \
  if (f == NULL) {                                                                               \
   return GPU_NOT_FOUND;                                                                         \
  }                                                                                              \
  int rc = f(symbol, pfn, version, flags, ret_status);                                           \
  if (rc == 0) {                                                                                 \
   answer(symbol, pfn, version, flags, CALLER());                                                \
  }                                                                                              \
  return rc;                                                                                     \
 }

GET_PROC(cuGetProcAddress_v2, HOOK_CU_GET_PROC_V2)
GET_PROC(cuGetProcAddress, HOOK_CU_GET_PROC) /* four arguments; the fifth is nobody's */
GET_PROC(hipGetProcAddress, HOOK_HIP_GET_PROC)

EXPORT int hipGetDriverEntryPoint(const char *symbol, void **pfn, unsigned long long flags,
                                  void *ret_status);

EXPORT int hipGetDriverEntryPoint(const char *symbol, void **pfn, unsigned long long flags,
                                  void *ret_status)
{
    typedef int (*real)(const char *, void **, unsigned long long, void *);
    real f = (real)real_symbol(HOOK_HIP_GET_ENTRY, CALLER());
    if (f == NULL) {
        return GPU_NOT_FOUND;
    }
    int rc = f(symbol, pfn, flags, ret_status);
    if (rc == 0) {
        answer(symbol, pfn, 0, flags, CALLER());
    }
    return rc;
}

/* Called by the stub. ret_decided: 0: let the real one answer. */
__attribute__((visibility("hidden"))) void *preload_dlsym(void *handle, const char *name,
                                                          int *ret_decided, uint64_t asker);

void *preload_dlsym(void *handle, const char *name, int *ret_decided, uint64_t asker)
{
    *ret_decided = 0;
    if (preload_real_dlsym == NULL) {
        find_dlsym();
    }
    int hook = settings.on && handle != RTLD_NEXT ? hook_named(name) : -1;
    if (hook < 0) {
        return NULL;
    }
    /* In the global scope our own name would answer for a library that is not there. */
    void *found = raw_dlsym(handle == RTLD_DEFAULT ? RTLD_NEXT : handle, name);
    *ret_decided = 1;
    if (found == NULL) {
        return NULL;
    }
    void *ours = real_symbol_asked((enum hook)hook, found, asker);
    return ours != NULL ? ours : found;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "    push %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    push %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    sub $24, %rsp\n"
        ".cfi_adjust_cfa_offset 24\n"
        "    lea 12(%rsp), %rdx\n"
        "    mov 40(%rsp), %rcx\n" /* who called */
        "    call preload_dlsym\n"
        "    mov 12(%rsp), %ecx\n"
        "    add $24, %rsp\n"
        ".cfi_adjust_cfa_offset -24\n"
        "    pop %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    pop %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    test %ecx, %ecx\n"
        "    jne 1f\n"
        "    mov preload_real_dlsym(%rip), %rax\n"
        "    jmp *%rax\n"
        "1:  ret\n"
        ".cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#endif
