// SPDX-License-Identifier: Apache-2.0
/*
 * The folders of sys.path that hold packages, in Python's order, and the .pth files in them. Part
 * of python_env; see there.
 */
#ifndef ASSAY_FACTS_PYTHON_SITE_H
#define ASSAY_FACTS_PYTHON_SITE_H

#include "base/arena.h"

struct collect;
struct python_env;

/* All folders of an environment whose standard library is `lib` (".../lib/python3.11") and whose
 * short version is `version` ("3.11"). */
void python_site_paths(const struct collect *c, struct arena *a, struct python_env *env,
                       const char *lib, const char *version);

/* One folder and what its .pth files add. Folders that do not exist are left out; at most 64. */
void python_site_add(const struct collect *c, struct arena *a, struct python_env *env,
                     const char *folder);

#endif
