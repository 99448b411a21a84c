// SPDX-License-Identifier: Apache-2.0
/*
 * The folder of one run: run.json, facts.json, stdout.log, stderr.log, kernel.log, metrics.jsonl,
 * record.<pid>.bin, maps.<pid>, stacks.<pid>.txt.
 */
#ifndef ASSAY_RECORDER_RUN_FOLDER_H
#define ASSAY_RECORDER_RUN_FOLDER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include "recorder/process_tree.h"

/* Makes the folder (its parents must exist) and returns its absolute path. NULL: a new name from the
 * time, in the working directory. A folder that holds a run already is refused. */
enum status run_folder_make(struct arena *a, const char *wanted, const char **ret_path,
                            struct err *err) MUST_USE;

/* Writes a whole file; a reader never sees half of it. */
enum status run_folder_write(struct arena *a, const char *folder, const char *name, struct str text,
                             struct err *err) MUST_USE;

/* Opens a log for appending; the descriptor is closed at exec. */
enum status run_folder_log(struct arena *a, const char *folder, const char *name, int *ret_fd,
                           struct err *err) MUST_USE;

/* Gives the disk back what records reserved and never used; call it when every process has ended. What
 * cannot be given back (a file system without holes) stays, which harms nothing. */
void run_folder_trim(struct arena *a, const char *folder);

/* Lines of this machine's kernel log since `from_monotonic_s`, as "[seconds] text" lines. ST_DENIED
 * where the system keeps it from this user. */
enum status run_folder_kernel_log(struct arena *a, double from_monotonic_s, struct str *ret_text,
                                  struct err *err) MUST_USE;

/* Whether the kernel's log numbers processes as this process does: not in a PID namespace. */
bool run_folder_kernel_pids(void);

/* Takes GPU faults of other processes out of a kernel log: Xid lines and amdgpu's page faults that name
 * a process which left no record in the folder. What follows for all (a reset of the GPU) stays. On a
 * machine with several jobs (and guards, which plant faults to prove themselves) the log tells of all.
 * Nothing is taken where no process left a record. */
void run_folder_own_faults(struct arena *a, const char *folder, struct str log, struct str *ret_own,
                           struct str *ret_others);

/* The same for killings for want of memory and for crashes ("NAME[PID]: segfault at"), of processes
 * that neither left a record nor are in `seen`. For runs that ended well: a process that lived too
 * shortly to be seen may be one of a run that broke. */
void run_folder_own_killings(struct arena *a, const char *folder, const struct pid_list *seen,
                             struct str log, struct str *ret_own, struct str *ret_others);

#endif
