// SPDX-License-Identifier: Apache-2.0
/*
 * Every ROCm on the machine: /opt/rocm and its numbered neighbours, the ROCm 10 layout, the
 * distribution's split packages, TheRock's wheels, the libraries inside a torch wheel. Which of
 * them a process uses is another question: see libraries.c, which follows the loader.
 */
#ifndef ASSAY_FACTS_ROCM_INSTALL_H
#define ASSAY_FACTS_ROCM_INSTALL_H

#include <stddef.h>

#include "base/arena.h"

struct collect;

struct rocm_install {
    const char *path;    /* prefix, links resolved: "/opt/rocm-6.3.3" */
    const char *kind;    /* "system", "distro", "therock", "wheel", "conda" */
    const char *version; /* ROCm release, or NULL when nothing tells it */
    const char *source;  /* file or package that told */
    const char *const *lib_dirs;
    size_t lib_dir_count;
};

struct rocm_installs {
    struct rocm_install *items;
    size_t count;
    size_t capacity;
};

/* In the order: torch wheel, TheRock, /opt/rocm, its neighbours, conda, distribution. Uses the
 * facts of the Python environment (torch.path, python.sites, python.prefix). */
void rocm_installs_find(const struct collect *c, struct arena *a, struct rocm_installs *ret_list);

/* The installation a file belongs to (by its folder), or NULL. */
const struct rocm_install *rocm_install_of(const struct rocm_installs *list, const char *file);

/* The first file in `folder` whose name is `lib<base>.so` or begins with that and a dot; the
 * longest such name, which carries the full version. NULL when there is none. */
const char *rocm_library_in(const struct collect *c, struct arena *a, const char *folder,
                            const char *base);

#endif
