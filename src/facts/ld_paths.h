// SPDX-License-Identifier: Apache-2.0
/*
 * Which library a process would really load, in the order of ld.so(8) and without running it:
 * libraries that are already loaded by that name, RPATH of the requester and of those that led to
 * it, LD_LIBRARY_PATH, RUNPATH of the requester, ld.so.cache, built-in directories; in each
 * directory the CPU's glibc-hwcaps folders first.
 *
 * A `struct ld` is one process: objects are loaded into it one after the other, as dlopen() would.
 * Load the program first (the Python interpreter), then what it imports; a library loaded first
 * takes the program's place, as under ldd.
 *
 * Not modelled: set-user-ID programs, LD_AUDIT, namespaces of dlmopen, empty (current directory)
 * elements of a path list, and tunables that mask CPU features.
 */
#ifndef ASSAY_FACTS_LD_PATHS_H
#define ASSAY_FACTS_LD_PATHS_H

#include <stdbool.h>

#include "base/fs.h"

#include "facts/elf.h"

struct ld;

enum ld_state {
    LD_LOADED = 0,
    LD_MISSING, /* found nowhere */
    LD_BROKEN,  /* the file that would be taken is not a usable library; ld.so stops there */
};

struct ld_object {
    const char *name; /* as asked for: a soname or a path */
    enum ld_state state;
    const char *path;     /* as ld.so would print it; NULL when missing */
    const char *found_by; /* "RUNPATH of /a/b.so", "LD_LIBRARY_PATH", "ld.so.cache", ... */
    const char *problem;  /* a sentence, when not loaded */
    const struct ld_object *requester; /* who asked first; NULL for the program and preloads */
    struct elf elf;                    /* when loaded; readable until ld_free */
};

struct ld_options {
    const char *library_path; /* LD_LIBRARY_PATH of the job, or NULL */
    const char *preload;      /* LD_PRELOAD of the job, or NULL */
};

/* Both pointers must outlive it. Never fails; the system's part is read with the first object. */
struct ld *ld_new(const struct fs *fs, struct arena *a, struct ld_options options) MUST_USE;

/* Unmaps every file. Strings stay, the `elf` of objects must not be used any more. NULL is fine. */
void ld_free(struct ld *ld);

/* Where `name` (a soname or a path) would be found by `requester` (NULL: the program). Loads
 * nothing. ST_ABSENT when it is nowhere, ST_FORMAT when the file taken is no usable library; then
 * *ret_path is set all the same and err says why. */
enum status ld_resolve(struct ld *ld, const char *name, const struct ld_object *requester,
                       const char **ret_path, const char **ret_found_by, struct err *err) MUST_USE;

/* Loads an object (an absolute path, or a soname) and, breadth first, all it needs. Returns the
 * object, loaded before or now: look at its state, and with ld_objects() at those of the others.
 * NULL only when the process holds 4096 objects already. */
const struct ld_object *ld_load(struct ld *ld, const char *name, const struct ld_object *requester);

/* All objects so far in the order of symbol lookup; missing ones where they would be, once each,
 * unless a later ld_load() by path brought a library of that soname. */
const struct ld_object *const *ld_objects(const struct ld *ld, size_t *ret_count);

/* True when `object` is needed by `root`, directly or through others, or is `root`. */
bool ld_is_needed_by(const struct ld *ld, const struct ld_object *object,
                     const struct ld_object *root);

/* The object that `name` in a DT_NEEDED stands for: loaded when anybody found it. NULL when nobody
 * asked for it. */
const struct ld_object *ld_find(const struct ld *ld, const char *name);

/* ld_new and ld_load in one: the libraries of one program or library, itself first. Release with
 * ld_free. */
struct ld *ld_closure(const struct fs *fs, struct arena *a, const char *path,
                      struct ld_options options) MUST_USE;

#endif
