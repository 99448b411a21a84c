// SPDX-License-Identifier: Apache-2.0
/*
 * The small text formats of an installed Python environment, read as data: METADATA and WHEEL of a
 * dist-info folder, RECORD, version.py, pyvenv.cfg, pip.conf. All of it is hostile text: nothing is
 * executed, sizes are the caller's ceilings, and a line that makes no sense is skipped.
 */
#ifndef ASSAY_FACTS_PYTHON_TEXT_H
#define ASSAY_FACTS_PYTHON_TEXT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* PEP 503: lower case, runs of "-", "_" and "." become one "-". */
const char *py_normal_name(struct arena *a, struct str name) MUST_USE;

/*
 * Splits the name of a metadata folder, "torch-2.9.0+rocm6.4.dist-info" or
 * "numpy-1.24.2.egg-info" or "foo-1.0-py3.11.egg-info". False when it is not one.
 */
bool py_split_dist_folder(struct arena *a, struct str folder, const char **ret_name,
                          const char **ret_version) MUST_USE;

/* A header of METADATA ("Name", "Version"): its first value, or NULL. Stops at the first empty
 * line, behind which the description stands. */
const char *py_header(struct arena *a, struct str text, const char *name) MUST_USE;

/* The release that METADATA pins a package to ("torch==2.9.0", "torch (==2.9.0)"), or NULL.
 * Requirements of extras do not count; a range pins nothing. */
const char *py_pinned_requirement(struct arena *a, struct str metadata,
                                  const char *package) MUST_USE;

/* What a module-level assignment gives: `hip: Optional[str] = '6.4.43482'`. */
enum py_literal_kind {
    PY_MISSING = 0, /* no such assignment, or not a literal */
    PY_NONE,
    PY_TRUE,
    PY_FALSE,
    PY_STRING
};

struct py_literal {
    enum py_literal_kind kind;
    const char *string;
};

/* The last plain assignment to `name` at the left margin. */
struct py_literal py_assignment(struct arena *a, struct str text, const char *name) MUST_USE;

/* "key = value" (also "key: value") of an INI file, any section, or NULL; comments skipped. */
const char *py_ini_value(struct arena *a, struct str text, const char *key) MUST_USE;

/* The next path of a RECORD file whose last part looks like a shared library; false at the end.
 * Paths that leave the folder (absolute, or with "..") are skipped. */
bool py_record_next_library(struct str *record, struct arena *a, const char **ret_path) MUST_USE;

/* "libfoo.so", "libfoo.so.1.2", "foo.cpython-311-x86_64-linux-gnu.so". */
bool py_is_library_name(struct str name);

#endif
