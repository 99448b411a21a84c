// SPDX-License-Identifier: Apache-2.0
/*
 * Shared libraries opened at run time, and their functions as rows: which symbol fills which slot
 * and which feature it serves. A row that is missing costs its feature, not the library.
 */
#ifndef ASSAY_DEVICE_LIBRARY_H
#define ASSAY_DEVICE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

struct library {
    void *handle;     /* of dlopen; NULL when not open */
    const char *path; /* as the loader resolved it */
};

/* Opens `path`, or, when it is NULL, the first of `names` (NULL at the end) that loads. The
 * sentence of a failure has the loader's words about the most telling try. Never unloaded: GPU
 * libraries leave threads and exit handlers behind. */
enum status library_open(struct arena *a, const char *path, const char *const *names,
                         struct library *ret_library, struct err *err) MUST_USE;

struct library_symbol {
    const char *name;
    size_t slot;      /* offset of the function pointer in the table it fills */
    unsigned feature; /* index into `missing` */
};

enum {
    LIBRARY_FEATURES_MAX = 16
};

/* Fills the slots of `table`. missing[feature] is the name of the first symbol of that feature that
 * is not there, NULL where all are. */
void library_bind(const struct library *library, const struct library_symbol *rows, size_t count,
                  void *table, const char *missing[LIBRARY_FEATURES_MAX]);

/* Adds to a name list the libraries that match `pattern` (glob of a path below a site-packages
 * folder, such as "nvidia/cublas/lib/libcublasLt.so.[0-9]*") in the Python installations of this
 * machine: $VIRTUAL_ENV, $CONDA_PREFIX, /usr/local/lib, /usr/lib, /opt, ~/.local. */
struct name_list {
    const char **items;
    size_t count;
    size_t capacity;
};

void library_find_in_python(struct arena *a, const char *pattern, struct name_list *list);

#endif
