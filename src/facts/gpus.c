// SPDX-License-Identifier: Apache-2.0
/* Shared look-ups over gpu[N].* facts and the table of models. */
#include "facts/gpus.h"

#include <string.h>

#define ANY GPU_REVISION_ANY

static const struct gpu_model models[] = {
#define GPU(vendor, device, revision, name, target, integrated) \
 {vendor, device, revision, name, target, integrated},
#include "facts/gpu_models.def"
#undef GPU
};

const struct gpu_model *gpu_model_find(int64_t vendor, int64_t device, int64_t revision)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        const struct gpu_model *m = &models[i];
        if (m->vendor == vendor && m->device == device &&
            (m->revision == ANY || m->revision == revision)) {
            return m;
        }
    }
    return NULL;
}

int64_t gpus_count(const struct collect *c)
{
    return facts_get_int(c->facts, "gpu.count", 0);
}

const char *gpu_key(const struct collect *c, int index, const char *field)
{
    return arena_fmt(c->scratch, "gpu[%d].%s", index, field);
}

int gpus_index(const struct collect *c, const char *pci)
{
    for (int i = 0; i < gpus_count(c); i++) {
        if (strcmp(facts_get_string(c->facts, gpu_key(c, i, "pci"), ""), pci) == 0) {
            return i;
        }
    }
    return -1;
}

static bool vendor_is(const struct collect *c, int index, const char *vendor)
{
    return strcmp(facts_get_string(c->facts, gpu_key(c, index, "vendor"), ""), vendor) == 0;
}

bool gpu_is_amd(const struct collect *c, int index)
{
    return vendor_is(c, index, "0x1002");
}

bool gpu_is_nvidia(const struct collect *c, int index)
{
    return vendor_is(c, index, "0x10de");
}

const char *gpu_sysfs(const struct collect *c, int index, const char *file)
{
    return arena_fmt(c->scratch, "/sys/bus/pci/devices/%s/%s",
                     facts_get_string(c->facts, gpu_key(c, index, "pci"), "?"), file);
}

void gpu_set_states(struct collect *c, int index, const char *const *fields, size_t count,
                    enum fact_state state, const char *source, const char *reason)
{
    for (size_t i = 0; i < count; i++) {
        facts_set_state(c->facts, gpu_key(c, index, fields[i]), state, source, reason);
    }
}
