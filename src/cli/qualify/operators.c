// SPDX-License-Identifier: Apache-2.0
/* Stages that put operators on trial: the BLAS of the CPU, the user's PyTorch, its linear attention. */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "cli/probe/probe.h"
#include "cli/qualify/qualify.h"

enum {
    OPERATORS_WEIGHT = 40, /* as much as a device that may not be opened */
    TORCH_WEIGHT = 40,
    ATTENTION_WEIGHT = 20
};

/* Of a child: a hang inside has its own, shorter deadline. */
static const double torch_limit_s = 1200;
static const double torch_full_limit_s = 6 * 3600;

static const char *const here_only =
    "only libraries of this machine can be tried, and --root names another";
static const char *const run_there = "run assay qualify on that machine";

/* The BLAS that programs of this machine get, under guard and against a reference. */
void qualify_operators(struct qualify *q, struct stage_result *s)
{
    struct err err = {0};
    uint64_t probes = 0;
    double per_second = NAN;
    if (q->other_machine) {
        qualify_not_run(s, here_only, run_there);
        return;
    }
    if (probe_quick(q->cli, &s->findings, &probes, &per_second, &err) != ST_OK) {
        qualify_not_run(s, arena_strdup(q->cli->arena, err.text), "assay probe by itself");
        return;
    }
    if (probes == 0) {
        qualify_not_run(s, "no BLAS library is installed here (libblas.so.3)",
                        "install one, such as libopenblas0, or leave the stage out: "
                        "--skip operators");
        return;
    }
    s->measured = arena_fmt(q->cli->arena,
                            "%llu matrix products of the CPU's BLAS, guarded and checked",
                            (unsigned long long)probes);
    if (per_second > 0) {
        *VEC_PUSH(q->cli->arena, &q->figures) = (struct qualify_figure){
            .name = "blas products", .unit = "products/s", .value = per_second};
    }
    qualify_judge(q, "operators", OPERATORS_WEIGHT, s);
}

bool qualify_names_stage(const struct qualify *q, const char *stage)
{
    const char *only;
    for (size_t i = 0; (only = cli_repeat(q->cli, "only", i)) != NULL; i++) {
        if (str_has(str_of(only), stage)) {
            return true;
        }
    }
    return false;
}

void qualify_no_python(struct qualify *q, const char *stage, struct stage_result *s)
{
    if (strcmp(q->device, "cpu") == 0 && !qualify_names_stage(q, stage)) {
        s->state = STAGE_NOT_ASKED;
        s->reason = "no PyTorch was named (--python PATH), and no environment is active";
        return;
    }
    qualify_not_run(s, "no Python environment with a PyTorch was named",
                    arena_fmt(q->cli->arena,
                              "--python PATH, or activate the environment (VIRTUAL_ENV); "
                              "--skip %s leaves it out",
                              stage));
}

static bool has_python(struct qualify *q, const char *stage, struct stage_result *s)
{
    if (q->other_machine) {
        qualify_not_run(s, here_only, run_there);
    } else if (q->python == NULL) {
        qualify_no_python(q, stage, s);
    }
    return s->state == STAGE_RAN;
}

/* One campaign of assay probe --torch; false: not run. */
static bool probe(struct qualify *q, const char *stage, const char *const *ops, struct report *r,
                  struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct text_list words = {0};
    struct err err = {0};
    int exit;
    *VEC_PUSH(a, &words) = "probe";
    *VEC_PUSH(a, &words) = arena_fmt(a, "--torch=%s", q->python);
    *VEC_PUSH(a, &words) = "--device";
    *VEC_PUSH(a, &words) = q->device;
    if (q->full) {
        *VEC_PUSH(a, &words) = "--level";
        *VEC_PUSH(a, &words) = "full";
    } else {
        *VEC_PUSH(a, &words) = "--dtype";
        *VEC_PUSH(a, &words) = "bf16";
        *VEC_PUSH(a, &words) = "--dtype";
        *VEC_PUSH(a, &words) = "float32";
    }
    for (size_t i = 0; ops[i] != NULL; i++) {
        *VEC_PUSH(a, &words) = ops[i];
    }
    if (qualify_child(q, stage, &words, q->full ? torch_full_limit_s : torch_limit_s, r, &exit,
                      &err) != ST_OK) {
        qualify_not_run(s, arena_strdup(a, err.text),
                        "assay probe --torch=PYTHON by itself shows more");
        return false;
    }
    if (exit < 0) {
        *VEC_PUSH(a, &s->findings) = (struct finding){
            .id = "torch-process-lost",
            .severity = SEVERITY_UNKNOWN,
            .title = "The trial of PyTorch did not come to its end",
            .claim = "It was stopped at its time limit, or crashed.",
            .confidence = 1};
    }
    return true;
}

static int64_t probes_of(const struct report *r)
{
    for (size_t i = 0; i < r->number_count; i++) {
        if (strcmp(r->numbers[i].key, "probes") == 0) {
            return r->numbers[i].value;
        }
    }
    return 0;
}

static const char *torch_name(const struct report *r)
{
    return r->notes.count != 0 ? r->notes.items[0] : "PyTorch"; /* "torch 2.15, Python ..." */
}

static void no_probe(struct qualify *q, struct finding_list *findings)
{
    *VEC_PUSH(q->cli->arena,
              findings) = (struct finding){.id = "torch-not-tried",
                                           .severity = SEVERITY_UNKNOWN,
                                           .title = "No operator of PyTorch could be tried",
                                           .claim = "The campaign ended without a single probe.",
                                           .confidence = 1};
}

void qualify_torch(struct qualify *q, struct stage_result *s)
{
    static const char *const quick[] = {"linear", NULL};
    static const char *const all[] = {NULL};
    struct report r;
    if (!has_python(q, "torch", s) || !probe(q, "torch", q->full ? all : quick, &r, s)) {
        return;
    }
    qualify_take(q, &r, &s->findings);
    if (probes_of(&r) == 0) {
        no_probe(q, &s->findings);
    }
    s->measured = arena_fmt(
        q->cli->arena, "%lld probes of %s, forward and backward; %s", (long long)probes_of(&r),
        q->full ? "all operators" : "linear in bfloat16 and float32", torch_name(&r));
    qualify_judge(q, "torch", TORCH_WEIGHT, s);
}

void qualify_linear_attention(struct qualify *q, struct stage_result *s)
{
    static const char *const ops[] = {"gated_delta_rule", NULL};
    struct report r;
    if (!has_python(q, "linear-attention", s) || !probe(q, "linear-attention", ops, &r, s)) {
        return;
    }
    const struct report_table *t = qualify_table(&r, "operators");
    const char *way = NULL;
    for (size_t i = 0; t != NULL && i < t->row_count; i++) {
        const char *name = qualify_text(t, i, "way");
        bool theirs = strncmp(name, "transformers", 12) == 0 || strncmp(name, "fla", 3) == 0;
        way = theirs && (way == NULL || name[0] == 'f') ? name : way;
    }
    if (way == NULL) {
        qualify_not_run(s,
                        "neither flash-linear-attention nor transformers offers the gated delta "
                        "rule in that environment",
                        "install the one that your model uses; --skip linear-attention where no "
                        "model of yours does");
        return;
    }
    qualify_take(q, &r, &s->findings);
    s->measured = arena_fmt(q->cli->arena,
                            "%lld probes of the gated delta rule (%s and others), output and "
                            "gradients",
                            (long long)probes_of(&r), way);
    qualify_judge(q, "linear-attention", ATTENTION_WEIGHT, s);
}
