// SPDX-License-Identifier: Apache-2.0
/* The table of sources. */
#include "facts/collect.h"

#include "base/str.h"
#include "base/vec.h"

enum {
    MAX_ENVIRON = 4 << 20
};

/* In this order: later sources use the facts of earlier ones. */
static const struct {
    const char *name;
    void (*run)(struct collect *c);
} sources[] = {
    {"environment", collect_environment},
    {"host", collect_host},
    {"process", collect_process},
    {"container", collect_container},
    {"devices", collect_devices},
    {"pci", collect_pci},
    {"kfd", collect_kfd},
    {"amdgpu", collect_amdgpu},
    {"nvidia", collect_nvidia},
    {"packages", collect_packages},
    {"python", collect_python},
    {"libraries", collect_libraries},
    {"rocm", collect_rocm}, /* the one whose runtime the loader picked */
    {"switches", collect_switches},
    {"triton", collect_triton},
    {"binary", collect_binary},
};

/* The environment of the job from proc/self/environ, for callers who gave none; NULL when it cannot
 * be read, which collect_environment() then records. */
static const char *const *own_env(struct collect *c)
{
    struct arena *a = facts_arena(c->facts);
    struct str text;
    if (fs_read(c->fs, a, "/proc/self/environ", MAX_ENVIRON, &text, NULL) != ST_OK) {
        return NULL;
    }
    VEC_OF(const char *) list = {0};
    struct str entry;
    /* Entries end with NUL on a live machine; a frozen text file may use line breaks. */
    char sep = str_find_char(text, '\0', 0) != SIZE_MAX ? '\0' : '\n';
    while (str_cut(&text, sep, &entry)) {
        if (entry.n != 0) {
            *VEC_PUSH(a, &list) = str_dup(a, entry);
        }
    }
    *VEC_PUSH(a, &list) = NULL;
    return list.items;
}

void collect_all(struct collect *c)
{
    if (c->env == NULL) {
        c->env = own_env(c);
    }
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct arena_mark mark = arena_mark(c->scratch);
        sources[i].run(c);
        arena_rewind(c->scratch, mark);
    }
}
