// SPDX-License-Identifier: Apache-2.0
/*
 * The GPUs of a machine in PCI order, as pci.c found them; kfd.c, amdgpu.c and nvidia.c add to the
 * same gpu[N].* keys. Kept between collectors in the fact store: gpu[N].pci is the link.
 */
#ifndef ASSAY_FACTS_GPUS_H
#define ASSAY_FACTS_GPUS_H

#include "facts/collect.h"

struct gpu_model {
    unsigned vendor;
    unsigned device;
    const char *name;
    const char *gfx; /* NULL for NVIDIA */
    bool integrated;
};

/* The row of gpu_models.def, or NULL. */
const struct gpu_model *gpu_model_find(unsigned vendor, unsigned device);

/* Number of GPUs, and the index of the one at a PCI address ("0000:03:00.0"); -1 for none. */
int64_t gpus_count(const struct collect *c);
int gpus_index(const struct collect *c, const char *pci);

/* "gpu[3].<field>" on the scratch arena. */
const char *gpu_key(const struct collect *c, int index, const char *field);

/* "0x1002" of gpu[index], or "". */
const char *gpu_vendor(const struct collect *c, int index);

/* Sets the same state for a list of fields of one GPU. */
void gpu_set_states(struct collect *c, int index, const char *const *fields, size_t count,
                    enum fact_state state, const char *source, const char *reason);

#endif
