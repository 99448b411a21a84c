// SPDX-License-Identifier: Apache-2.0
/* A file of the folder of a reproducer. Not for other modules than reproducer*.c. */
#ifndef ASSAY_OPS_REPRODUCER_WRITE_H
#define ASSAY_OPS_REPRODUCER_WRITE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum status reproducer_put(struct arena *a, const char *folder, const char *name, struct str text,
                           struct err *err) MUST_USE;

#endif
