// SPDX-License-Identifier: Apache-2.0
/*
 * The parts behind collect_libraries(): GPU targets of the libraries and of their data folders.
 */
#ifndef ASSAY_FACTS_LIBRARIES_H
#define ASSAY_FACTS_LIBRARIES_H

#include "base/arena.h"

struct collect;
struct lib_row;

/* lib.<name>.gfx_targets and .covers_gpu of one library. */
void lib_targets_facts(const struct collect *c, struct arena *a, const struct lib_row *row,
                       const char *path);

/* What follows from several of them: torch.arch_list, hip.runtime_covers_gpu, miopen.*,
 * cache.miopen.older_than_torch. */
void lib_stack_facts(const struct collect *c, struct arena *a);

#endif
