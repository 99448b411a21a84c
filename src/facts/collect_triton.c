// SPDX-License-Identifier: Apache-2.0
/*
 * The user's cache of Triton kernels: for which GPUs it was filled, and what in it is of no use.
 * Where it is: triton python/triton/runtime/cache.py, knobs.py.
 */
#include "facts/collect.h"
#include "facts/gpu_targets.h"
#include "facts/target_folders.h"

/* TRITON_CACHE_DIR, else .triton/cache in TRITON_HOME, which takes the place of the home folder. */
static const char *cache_path(const struct collect *c)
{
    const char *path = collect_env(c, "TRITON_CACHE_DIR");
    if (path != NULL && path[0] == '/') {
        return path;
    }
    const char *home = collect_env(c, "TRITON_HOME");
    if (home == NULL || home[0] != '/') {
        home = c->user_home;
    }
    return home != NULL ? arena_fmt(c->scratch, "%s/.triton/cache", home) : NULL;
}

static void set_targets(struct collect *c, const struct triton_cache *cache, const char *path)
{
    const char **names = arena_array(c->scratch, cache->count, sizeof *names);
    for (size_t i = 0; i < cache->count; i++) {
        names[i] = cache->targets[i].name;
    }
    facts_strings(c->facts, "cache.triton.targets", names, cache->count, path);
    const char *gpu = facts_get_string(c->facts, "gpu[0].gfx", NULL);
    if (gpu == NULL || cache->count == 0) {
        return;
    }
    /* Kernels are compiled for the GPU that is there: none for it means another machine's cache. */
    struct gpu_target *list = arena_array(c->scratch, cache->count, sizeof *list);
    for (size_t i = 0; i < cache->count; i++) {
        list[i].name = names[i];
    }
    struct gpu_targets all = {.items = list, .count = cache->count};
    facts_bool(c->facts, "cache.triton.covers_gpu", gpu_targets_for(&all, gpu) != NULL, path);
}

void collect_triton(struct collect *c)
{
    struct triton_cache cache;
    struct err err = {0};
    const char *path = cache_path(c);
    if (path == NULL) {
        return;
    }
    if (triton_cache_read(c->fs, c->scratch, path, &cache, &err) != ST_OK) {
        facts_set_error(c->facts, "cache.triton.path", path, &err);
        return;
    }
    facts_string(c->facts, "cache.triton.path", path, path);
    facts_int(c->facts, "cache.triton.kernels", (int64_t)cache.folders, path);
    facts_int(c->facts, "cache.triton.leftovers", (int64_t)cache.leftovers, path);
    facts_int(c->facts, "cache.triton.damaged", (int64_t)cache.damaged, path);
    facts_int(c->facts, "cache.triton.moved", (int64_t)cache.moved_groups,
              cache.moved_to != NULL ? cache.moved_to : path);
    set_targets(c, &cache, path);
}
