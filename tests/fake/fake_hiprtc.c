// SPDX-License-Identifier: Apache-2.0
/*
 * libhiprtc without a compiler: the code of a program is "fake:" and the name of its kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct program {
    char name[64];
    char log[128];
};

FAKE_EXPORT int hiprtcCreateProgram(void **program, const char *source, const char *name,
                                    int header_count, const char **headers, const char **names)
{
    (void)name;
    (void)header_count;
    (void)headers;
    (void)names;
    struct program *p = calloc(1, sizeof *p);
    static const char mark[] = "__global__ void ";
    const char *at = strstr(source, mark);
    if (at != NULL) {
        at += sizeof mark - 1;
        size_t n = strcspn(at, "(");
        memcpy(p->name, at, n < sizeof p->name ? n : sizeof p->name - 1);
    }
    *program = p;
    return 0;
}

FAKE_EXPORT int hiprtcCompileProgram(void *program, int option_count, const char **options)
{
    struct program *p = program;
    for (int i = 0; i < option_count; i++) {
        if (strncmp(options[i], "--offload-arch=gfx", 18) != 0) {
            memcpy(p->log, "unknown option", sizeof "unknown option");
            return 6;
        }
    }
    return p->name[0] == '\0' ? 6 : 0;
}

FAKE_EXPORT int hiprtcGetProgramLogSize(void *program, size_t *bytes)
{
    *bytes = strlen(((struct program *)program)->log) + 1;
    return 0;
}

FAKE_EXPORT int hiprtcGetProgramLog(void *program, char *to)
{
    const char *log = ((struct program *)program)->log;
    memcpy(to, log, strlen(log) + 1);
    return 0;
}

FAKE_EXPORT int hiprtcGetCodeSize(void *program, size_t *bytes)
{
    *bytes = strlen(((struct program *)program)->name) + 6;
    return 0;
}

FAKE_EXPORT int hiprtcGetCode(void *program, char *to)
{
    const char *name = ((struct program *)program)->name;
    memcpy(to, "fake:", 5);
    memcpy(to + 5, name, strlen(name) + 1);
    return 0;
}

FAKE_EXPORT int hiprtcDestroyProgram(void **program)
{
    free(*program);
    *program = NULL;
    return 0;
}
