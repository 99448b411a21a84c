// SPDX-License-Identifier: Apache-2.0
/* The program or library that the user named: which GPUs it has code for. */
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/gpu_targets.h"

enum {
    GPUS_MAX = 64
};

/* What gpu_targets_for() calls this GPU, or NULL. */
static const char *target_of_gpu(struct collect *c, size_t i)
{
    struct arena *a = c->scratch;
    const char *gfx = facts_get_string(c->facts, arena_fmt(a, "gpu[%zu].gfx", i), NULL);
    if (gfx != NULL) {
        return gfx;
    }
    const char *key = arena_fmt(a, "gpu[%zu].compute_capability", i);
    struct str rest = str_of(facts_get_string(c->facts, key, ""));
    struct str major;
    return str_cut(&rest, '.', &major) && major.n != 0 && rest.n != 0
               ? arena_fmt(a, "sm_%.*s%.*s", STR_ARG(major), STR_ARG(rest))
               : NULL;
}

/* GPUs of the machine for which there is no code. */
static void set_lacks(struct collect *c, const struct gpu_targets *t)
{
    VEC_OF(const char *) lacks = {0};
    bool any = false;
    for (size_t i = 0; i < GPUS_MAX; i++) {
        const char *gpu = target_of_gpu(c, i);
        any |= gpu != NULL;
        if (gpu != NULL && gpu_targets_for(t, gpu) == NULL) {
            *VEC_PUSH(c->scratch, &lacks) = gpu;
        }
    }
    if (any) {
        facts_strings(c->facts, "binary.lacks", lacks.items, lacks.count, c->binary);
    }
}

void collect_binary(struct collect *c)
{
    static const char key[] = "binary.gfx_targets";
    if (c->binary == NULL) {
        return;
    }
    struct gpu_targets t;
    struct err err = {0};
    if (gpu_targets_of_file(c->fs, c->scratch, c->binary, &t, &err) != ST_OK) {
        facts_set_error(c->facts, key, c->binary, &err);
        return;
    }
    facts_string(c->facts, "binary.path", c->binary, "--binary");
    if (t.state == GPU_TARGETS_NONE) {
        facts_set_state(c->facts, key, FACT_ABSENT, c->binary, "there is no GPU code in it");
        return;
    }
    if (t.count == 0) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, c->binary,
                        t.problem != NULL ? t.problem : gpu_targets_state_name(t.state));
        return;
    }
    const char **names = arena_array(c->scratch, t.count, sizeof *names);
    for (size_t i = 0; i < t.count; i++) {
        names[i] = t.items[i].name;
    }
    facts_strings(c->facts, key, names, t.count, c->binary);
    set_lacks(c, &t);
}
