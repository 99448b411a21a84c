// SPDX-License-Identifier: Apache-2.0
/* The parameters that config.json describes, in two groups, against the moments. */
#include "model/optimizer_order.h"

#include <string.h>

#include "model/architecture.h"

/* Of the classes of norms and by the name, as the Trainer decides. */
static bool decays(const char *name)
{
    struct str s = str_of(name);
    return !str_has(s, "bias") && !str_has(s, "layernorm") && !str_has(s, "norm.weight") &&
           !str_has(s, ".norm1.") && !str_has(s, ".norm2.");
}

void optimizer_order_check(const struct folder *f, const char *const *shapes, size_t count,
                           size_t decayed)
{
    struct architecture m;
    const struct tree *config;
    if (!folder_has(f, "config.json") || !folder_json(f, "config.json", &config) ||
        architecture_read(f->arena, config, &m, NULL) != ST_OK || !m.whole || !m.in_modules_order) {
        return;
    }
    const struct architecture_tensor **order = arena_array(f->arena, m.tensors.count,
                                                           sizeof(struct architecture_tensor *));
    size_t n = 0;
    size_t with_decay = 0;
    for (int group = 0; group < 2; group++) {
        for (size_t i = 0; i < m.tensors.count; i++) {
            const struct architecture_tensor *t = &m.tensors.items[i];
            if (!t->optional && decays(t->name) == (group == 0)) {
                order[n++] = t;
            }
        }
        with_decay = group == 0 ? n : with_decay;
    }
    if (n != count || with_decay != decayed) {
        return; /* a part of the model was trained, or in other groups */
    }
    for (size_t i = 0; i < n; i++) {
        const char *want = tensor_shape_text(f->arena, order[i]->shape, order[i]->rank);
        if (strcmp(want, shapes[i]) != 0) {
            folder_issue(f, SEVERITY_ERROR, "trainer-optimizer-order",
                         "The optimizer's parameters are in another order", "optimizer.pt",
                         "Parameter %zu should be '%s' %s; its moments are %s. Moments are kept by "
                         "number: these would be applied to other parameters.",
                         i, order[i]->name, want, shapes[i]);
            return;
        }
    }
}
