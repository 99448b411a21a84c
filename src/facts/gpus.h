// SPDX-License-Identifier: Apache-2.0
/*
 * The GPUs of a machine in PCI order, as pci.c found them; kfd.c, amdgpu.c and nvidia.c add to the
 * same gpu[N].* keys. Kept between collectors in the fact store: gpu[N].pci is the link.
 */
#ifndef ASSAY_FACTS_GPUS_H
#define ASSAY_FACTS_GPUS_H

#include "facts/collect.h"

enum {
    GPU_VENDOR_AMD = 0x1002,
    GPU_VENDOR_NVIDIA = 0x10de,
    GPU_REVISION_ANY = -1
};

struct gpu_model {
    int vendor;
    int device;
    int revision; /* GPU_REVISION_ANY */
    const char *name;
    const char *target; /* gfx name, or NVIDIA's compute capability */
    bool integrated;
};

/* The row of gpu_models.def, or NULL. A revision of -1 is one that could not be read. */
const struct gpu_model *gpu_model_find(int64_t vendor, int64_t device, int64_t revision);

/* Number of GPUs, and the index of the one at a PCI address ("0000:03:00.0"); -1 for none. */
int64_t gpus_count(const struct collect *c);
int gpus_index(const struct collect *c, const char *pci);

/* "gpu[3].<field>" on the scratch arena. */
const char *gpu_key(const struct collect *c, int index, const char *field);

bool gpu_is_amd(const struct collect *c, int index);
bool gpu_is_nvidia(const struct collect *c, int index);

/* A file of gpu[index] in sysfs, on the scratch arena. */
const char *gpu_sysfs(const struct collect *c, int index, const char *file);

/* Sets the same state for a list of fields of one GPU. */
void gpu_set_states(struct collect *c, int index, const char *const *fields, size_t count,
                    enum fact_state state, const char *source, const char *reason);

#endif
