// SPDX-License-Identifier: Apache-2.0
/* The Triton that torch was built for, as its metadata names it, against the one that is installed. */
#include <string.h>

#include "base/vec.h"

#include "facts/collect.h"
#include "facts/python_env.h"
#include "facts/python_text.h"
#include "facts/python_torch.h"

enum {
    MAX_METADATA = 4 << 20
};

/* All of them install the folder triton/. */
static const char *const packages[] = {"triton", "pytorch-triton", "pytorch-triton-rocm",
                                       "triton-rocm"};

/* PEP 440: a pin without a local part takes any local part. */
static bool fits(const char *pin, const char *installed)
{
    size_t n = strchr(pin, '+') == NULL ? strcspn(installed, "+") : strlen(installed);
    return strlen(pin) == n && memcmp(pin, installed, n) == 0;
}

void python_triton_facts(const struct collect *c, struct arena *a, const struct python_env *env)
{
    const struct python_dist *torch = python_env_get(env, "torch");
    const char *package = NULL;
    const char *pin = NULL;
    struct str text;
    const char *file = torch != NULL ? arena_fmt(a, "%s/METADATA", torch->info) : NULL;
    if (file == NULL || fs_read(c->fs, a, file, MAX_METADATA, &text, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(packages) && pin == NULL; i++) {
        pin = py_pinned_requirement(a, text, packages[i]);
        package = packages[i];
    }
    if (pin == NULL) {
        return; /* builds for the CPU, for Windows, from source */
    }
    facts_string(c->facts, "torch.requires_triton", pin, file);
    facts_string(c->facts, "torch.triton_package", package, file);
    VEC_OF(const char *) twice = {0};
    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        if (strcmp(packages[i], package) != 0 && python_env_get(env, packages[i]) != NULL) {
            *VEC_PUSH(a, &twice) = packages[i];
        }
    }
    facts_strings(c->facts, "torch.triton_twice", twice.items, twice.count, env->prefix);
    const struct python_dist *triton = python_env_get(env, package);
    if (triton == NULL || triton->version == NULL) {
        facts_set_state(c->facts, "torch.triton_version", FACT_ABSENT, env->prefix,
                        arena_fmt(a, "%s is not installed", package));
        return;
    }
    facts_string(c->facts, "torch.triton_version", triton->version, triton->info);
    facts_bool(c->facts, "torch.triton_fits", fits(pin, triton->version), triton->info);
}
