// SPDX-License-Identifier: Apache-2.0
/* See reproducer_make.h. */
#include "cli/reproduce/reproducer_make.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/probe/probe.h"
#include "cli/session.h"

enum {
    CONTROLS_MAX = 8
};

/* The facts that the issue forms of ROCm and PyTorch ask for. */
static const struct {
    const char *key, *name;
} stack_facts[] = {
    {"os.name", "operating system"},
    {"os.version", "its version"},
    {"os.kernel", "kernel"},
    {"cpu.model", "CPU"},
    {"gpu[0].name", "GPU"},
    {"gpu[0].gfx", "GPU target"},
    {"gpu[0].compute_capability", "GPU compute capability"},
    {"driver.amdgpu.version", "amdgpu driver"},
    {"driver.nvidia.version", "NVIDIA driver"},
    {"rocm.version", "ROCm"},
    {"hip.runtime_version", "HIP"},
    {"cuda.version", "CUDA"},
    {"torch.version", "PyTorch"},
    {"torch.hip", "PyTorch was built for HIP"},
    {"torch.cuda", "PyTorch was built for CUDA"},
};

static void add_stack(struct cli *cli, const struct facts *facts, struct reproducer *r)
{
    for (size_t i = 0; i < ARRAY_LEN(stack_facts); i++) {
        const struct fact *fact = facts_get(facts, stack_facts[i].key);
        if (fact == NULL || fact->state != FACT_KNOWN) {
            continue;
        }
        struct strbuf text;
        strbuf_init(&text, cli->arena, 400);
        value_print(&text, &fact->value);
        *VEC_PUSH(cli->arena, &r->stack) = (struct reproducer_line){stack_facts[i].name, text.p};
    }
}

static enum status facts_of_this_machine(struct cli *cli, struct facts **ret_facts, struct err *err)
{
    const struct knowledge *k;
    TRY(session_knowledge(cli, &k, err));
    cli_progress(cli, "reading the facts of this machine");
    return session_collect(cli, k, "", NULL, ret_facts, err);
}

/* Other libraries of the loader that may serve the same call. */
static const char *const *controls_for(struct cli *cli, const struct reproducer *r)
{
    static const struct fs live = {.prefix = ""};
    struct probe_library_list list = {0};
    const char **paths = arena_array(cli->arena, CONTROLS_MAX + 1, sizeof *paths);
    const char *guilty = r->target->path;
    size_t count = 0;
    if (guilty == NULL || fs_realpath(&live, cli->arena, guilty, &guilty, NULL) != ST_OK) {
        guilty = "";
    }
    if (r->target->vendor == &gemm_vendor_blas) {
        probe_libraries_of_loader(cli, &list);
    }
    for (size_t i = 0; i < list.count && count < CONTROLS_MAX; i++) {
        if (strcmp(list.items[i].path, guilty) != 0) {
            paths[count++] = list.items[i].path;
        }
    }
    return paths;
}

/* The program runs in other folders than this command: a path from here must hold there. */
static void take_whole_path(struct cli *cli, struct reproducer *r)
{
    char full[PATH_MAX];
    const char *path = r->target->path;
    if (path == NULL || path[0] == '/' || strchr(path, '/') == NULL ||
        realpath(path, full) == NULL) {
        return; /* absolute, or a name that the loader looks up */
    }
    struct gemm_target *target = arena_alloc(cli->arena, sizeof *target);
    *target = *r->target;
    target->path = arena_strdup(cli->arena, full);
    r->target = target;
}

/* A kernel family that the user's environment forces is part of what must be repeated. */
static void take_forced_kernel(struct cli *cli, struct reproducer *r)
{
    const struct blas_forcing *forcing = blas_forcing_of(r->identity->family);
    const char *value = forcing != NULL ? getenv(forcing->variable) : NULL;
    if (r->target->variable != NULL || value == NULL) {
        return;
    }
    struct gemm_target *target = arena_alloc(cli->arena, sizeof *target);
    *target = *r->target;
    target->variable = forcing->variable;
    target->value = arena_strdup(cli->arena, value);
    r->target = target;
}

static enum status make(struct cli *cli, struct reproducer *r, const struct facts *facts,
                        const char *folder, struct err *err)
{
    struct facts *here = NULL;
    TRY(reproducer_write(cli->arena, r, folder, err));
    if (facts == NULL) {
        TRY(facts_of_this_machine(cli, &here, err));
        facts = here;
    }
    add_stack(cli, facts, r);
    cli_progress(cli, "building the reproducer and running it");
    TRY(reproducer_verify(cli->arena, r, folder, controls_for(cli, r), err));
    return reproducer_report(cli->arena, r, folder, err);
}

void reproducer_make(struct cli *cli, struct reproducer *r, const struct facts *facts,
                     const char *folder, struct text_list *notes)
{
    struct err err = {0};
    take_whole_path(cli, r);
    take_forced_kernel(cli, r);
    if (make(cli, r, facts, folder, &err) != ST_OK) {
        *VEC_PUSH(cli->arena, notes) = arena_fmt(cli->arena, "the reproducer is not complete: %s",
                                                 err.text);
        return;
    }
    *VEC_PUSH(cli->arena, notes) = arena_fmt(
        cli->arena, "reproducer written: %s/reproducer.c, with report.md%s beside it", folder,
        r->target->device_kind == DEVICE_CPU ? " and shapes.txt" : "");
    reproducer_seen(cli->arena, &r->check, notes);
}
