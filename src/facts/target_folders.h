// SPDX-License-Identifier: Apache-2.0
/*
 * GPU code and tuning data that libraries keep in folders instead of in themselves, counted by
 * target from file names (and, for caches, headers): Tensile libraries of rocBLAS and hipBLASLt,
 * MIOpen's databases, Triton's cache.
 */
#ifndef ASSAY_FACTS_TARGET_FOLDERS_H
#define ASSAY_FACTS_TARGET_FOLDERS_H

#include "base/fs.h"

/* Tensile: rocBLAS, hipBLASLt and hipSPARSELt use the same names, in one folder or in one subfolder
 * for each target. */
struct tensile_target {
    const char *name;    /* "gfx1201", "gfx90a:xnack-" */
    bool has_index;      /* TensileLibrary_lazy_<gfx>.dat or TensileLibrary_<gfx>.dat, also .zlib
                             and .yaml: without it the library does not start on this GPU */
    uint64_t data_files; /* .dat, .dat.zlib, .yaml */
    uint64_t code_files; /* .co, .hsaco */
    uint64_t bytes;      /* of both */
    int64_t newest;      /* modification time of the newest file, seconds since 1970 */
};

struct tensile_folder {
    const struct tensile_target *targets; /* sorted */
    size_t count;
    uint64_t files;  /* all files seen, those without a target too */
    bool subfolders; /* targets have subfolders of their own */
};

/* ST_ABSENT, ST_DENIED, ... as of listing the folder. */
enum status tensile_folder_read(const struct fs *fs, struct arena *a, const char *path,
                                struct tensile_folder *ret_folder, struct err *err) MUST_USE;

/* MIOpen: share/miopen/db, and the user's ~/.config/miopen and ~/.cache/miopen/<version>. */
struct miopen_target {
    const char *name;       /* "gfx942" */
    unsigned compute_units; /* 304; 0 when the name has none: any number */
    bool kernels;           /* .kdb or .ukdb: compiled kernels */
    bool find_db;           /* .fdb.txt or .ufdb.txt: which solver was fastest */
    bool perf_db;           /* .db, .db.txt or .udb.txt: tuned parameters */
    uint64_t bytes;
    int64_t newest;
    int64_t oldest;
};

struct miopen_folder {
    const struct miopen_target *targets; /* sorted by name, then compute units */
    size_t count;
    uint64_t files;
};

/* Looks one level deep, for the version folders of the user's cache. */
enum status miopen_folder_read(const struct fs *fs, struct arena *a, const char *path,
                               struct miopen_folder *ret_folder, struct err *err) MUST_USE;

/* Triton's cache: one folder for each kernel. */
struct triton_target {
    const char *name; /* "gfx1201" from the code object's flags, "sm_90" from the cubin's */
    uint64_t kernels;
};

struct triton_cache {
    const struct triton_target *targets; /* sorted */
    size_t count;
    uint64_t folders;      /* kernel folders looked at */
    uint64_t leftovers;    /* tmp.pid_* of processes that died while writing */
    uint64_t moved_groups; /* __grp__*.json whose files are where they were made, not here:
                              never hit */
    const char *moved_to;  /* one such path, or NULL */
    uint64_t damaged;      /* code objects that are no ELF: an interrupted write */
    int64_t oldest;        /* modification times of kernel folders; 0 when there are none */
    int64_t newest;
    bool truncated; /* there were more folders than are looked at (20,000) */
};

enum status triton_cache_read(const struct fs *fs, struct arena *a, const char *path,
                              struct triton_cache *ret_cache, struct err *err) MUST_USE;

#endif
