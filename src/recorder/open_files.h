// SPDX-License-Identifier: Apache-2.0
/*
 * Data files that the processes of a job hold open for reading or have mapped: looked up now and then in
 * /proc/<pid>/fd and maps. A file that is read and closed between two looks is not seen, so a list says
 * what was read and never that something was not.
 */
#ifndef ASSAY_RECORDER_OPEN_FILES_H
#define ASSAY_RECORDER_OPEN_FILES_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/finding.h"

enum {
    OPEN_FILES_MAX = 64
};

/*
 * Adds the files of one process that are not in the list yet. Left out: what is open for writing, what
 * belongs to the system or an installation (/usr, /etc, /opt, site-packages ...), libraries, Python code,
 * and what lies below `except` (may be NULL).
 */
void open_files_look(struct arena *a, pid_t pid, const char *except, struct text_list *list);

#endif
