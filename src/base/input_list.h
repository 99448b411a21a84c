// SPDX-License-Identifier: Apache-2.0
/*
 * Which files a list of log paths means: files stay, directories of rank logs are walked. Only
 * regular files with a log's name are taken from a directory; each file once (by device and inode,
 * so a directory loop ends), sorted, with ceilings on depth and count.
 */
#ifndef ASSAY_BASE_INPUT_LIST_H
#define ASSAY_BASE_INPUT_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/finding.h"

struct input_file {
    const char *path;
    int rank; /* from the path: rank_3.log, 3/stdout.log of torchrun; -1 when it does not say */
};

struct input_list {
    struct input_file *items;
    size_t count;
    size_t capacity;
};

enum {
    INPUT_LIST_MAX_DEPTH = 8,
    INPUT_LIST_MAX_FILES = 20000
};

/*
 * Appends what `path` stands for. A path that is not there or may not be read is an error; inside a
 * directory such things are skipped and told in `notes`. A directory without any log is ST_ABSENT.
 */
enum status input_list_add(struct arena *a, const char *path, struct input_list *list,
                           struct text_list *notes, struct err *err) MUST_USE;

/* The rank in a path, or -1. */
int input_list_rank(const char *path);

#endif
