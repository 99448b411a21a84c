// SPDX-License-Identifier: Apache-2.0
/* How a library is called where several may have one file name: libblas.so.3 is the name of every BLAS where a
 * distribution lets the user choose. */
#ifndef ASSAY_CLI_RUN_LIBRARY_NAME_H
#define ASSAY_CLI_RUN_LIBRARY_NAME_H

#include "base/arena.h"

struct library_file {
    const char *path;     /* "" when it is not known */
    const char *build_id; /* NULL when it is not known */
};

struct library_files {
    struct library_file *items;
    size_t count;
    size_t capacity;
};

/* Adds the file unless one of that path and build id is in the list. */
void library_files_add(struct arena *a, struct library_files *files, struct library_file file);

/* The file's base name where no other of `files` has it; else as many folders before it as tell the paths apart,
 * and the beginning of its build id where files of one path differ. "" when the path is not known. */
const char *library_name(struct arena *a, struct library_file file,
                         const struct library_files *files);

#endif
