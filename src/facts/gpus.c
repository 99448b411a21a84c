// SPDX-License-Identifier: Apache-2.0
/* Shared look-ups over gpu[N].* facts and the table of models. */
#include "facts/gpus.h"

#include <string.h>

static const struct gpu_model models[] = {
#define GPU(vendor, device, name, gfx, integrated) {vendor, device, name, gfx, integrated},
#include "facts/gpu_models.def"
#undef GPU
};

const struct gpu_model *gpu_model_find(unsigned vendor, unsigned device)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        if (models[i].vendor == vendor && models[i].device == device) {
            return &models[i];
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

const char *gpu_vendor(const struct collect *c, int index)
{
    return facts_get_string(c->facts, gpu_key(c, index, "vendor"), "");
}

void gpu_set_states(struct collect *c, int index, const char *const *fields, size_t count,
                    enum fact_state state, const char *source, const char *reason)
{
    for (size_t i = 0; i < count; i++) {
        facts_set_state(c->facts, gpu_key(c, index, fields[i]), state, source, reason);
    }
}
