// SPDX-License-Identifier: Apache-2.0
/*
 * dlsym for code that looks GPU functions up by name (Triton asks for cuLaunchKernel that way). Where the
 * name is one of ours and the library asked really has it, the answer is our hook; everything else leaves
 * by a jump to the real dlsym, so that RTLD_NEXT and RTLD_DEFAULT still mean what they mean to the caller.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/preload.h"

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

/* Called by the stub. ret_decided: 0: let the real one answer. */
__attribute__((visibility("hidden"))) void *preload_dlsym(void *handle, const char *name,
                                                          int *ret_decided);

void *preload_dlsym(void *handle, const char *name, int *ret_decided)
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
    void *ours = real_symbol_fallback((enum hook)hook, found);
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
