// SPDX-License-Identifier: Apache-2.0
/* Stages that ask the machine: host, stack, device. */
#include <string.h>

#include "base/vec.h"

#include "cli/qualify/qualify.h"

static const double why_limit_s = 120;

void qualify_host(struct qualify *q, struct stage_result *s)
{
    doctor_judge(q->cli->arena, q->k, q->facts, "host", &s->findings, &s->health);
}

void qualify_stack(struct qualify *q, struct stage_result *s)
{
    doctor_judge(q->cli->arena, q->k, q->facts, "stack", &s->findings, &s->health);
}

/* "cuda:0" of a device on which PyTorch would train. */
static bool is_gpu(const char *device)
{
    return strncmp(device, "cuda:", 5) == 0 || strncmp(device, "hip:", 4) == 0;
}

/* Findings about devices that are qualified: OpenCL devices train nothing. */
static void take_device(struct qualify *q, const struct report *r, const char *device,
                        struct finding_list *to)
{
    const char *on = arena_fmt(q->cli->arena, " on %s", device);
    for (size_t l = 0; l < r->list_count; l++) {
        const struct finding_list *list = r->lists[l].findings;
        for (size_t i = 0; i < list->count; i++) {
            const struct finding *f = &list->items[i];
            const char *at = strstr(f->title, on);
            bool same = at != NULL && (at[strlen(on)] == '\0' || at[strlen(on)] == ' ');
            if (same && f->severity != SEVERITY_OK) {
                *VEC_PUSH(q->cli->arena, to) = *f;
            }
        }
    }
}

static void add_no_gpu(struct qualify *q, const struct report *r, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct finding *f = VEC_PUSH(a, &s->findings);
    *f = (struct finding){
        .id = "no-gpu-answers",
        .severity = SEVERITY_ERROR,
        .title = "A GPU was asked for, and none answers",
        .claim =
            "--device names a GPU. Neither CUDA nor HIP shows one to this user in this process.",
        .confidence = 1};
    for (size_t i = 0; i < r->notes.count; i++) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "assay probe --why",
                                                       .text = r->notes.items[i]};
    }
    *VEC_PUSH(a, &f->remedy) = "assay probe --why shows what is missing; assay doctor judges the "
                               "driver and the permissions";
}

void qualify_device(struct qualify *q, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct err err = {0};
    struct report r;
    struct text_list words = {0};
    int exit;
    if (q->other_machine) {
        qualify_not_run(s, "only devices of this machine can be tried, and --root names another",
                        "run assay qualify on that machine");
        return;
    }
    *VEC_PUSH(a, &words) = "probe";
    *VEC_PUSH(a, &words) = "--why";
    if (qualify_child(q, "device", &words, why_limit_s, &r, &exit, &err) != ST_OK) {
        qualify_not_run(s, arena_strdup(a, err.text), "assay probe --why by itself");
        return;
    }
    const struct report_table *t = qualify_table(&r, "devices");
    bool cpu_only = strcmp(q->device, "cpu") == 0;
    size_t gpus = 0;
    struct strbuf names;
    strbuf_init(&names, a, 2000);
    for (size_t i = 0; t != NULL && i < t->row_count; i++) {
        const char *device = qualify_text(t, i, "device");
        bool gpu = is_gpu(device);
        if (strncmp(device, "cpu:", 4) != 0 && (!gpu || (cpu_only && q->device_named))) {
            continue;
        }
        gpus += gpu;
        if (gpu && q->backend == NULL) {
            q->backend = arena_fmt(a, "%.*s", (int)strcspn(device, ":"), device);
        }
        take_device(q, &r, device, &s->findings);
        strbuf_fmt(&names, "%s%s (%s)", names.n != 0 ? ", " : "", device,
                   qualify_text(t, i, "guard"));
    }
    s->measured = arena_fmt(a, "guard on %s", names.n != 0 ? names.p : "no device");
    if (!q->device_named) {
        q->device = gpus != 0 ? "cuda" : "cpu";
        /* A machine without a GPU is judged by its CPU; one whose GPU does not answer is not. */
        if (gpus == 0 && facts_get_int(q->facts, "gpu.count", -1) == 0) {
            s->measured = arena_fmt(a, "no GPU in this machine, so the CPU is what is judged; %s",
                                    s->measured);
        } else if (gpus == 0) {
            qualify_not_run(s,
                            arena_fmt(a, "neither CUDA nor HIP shows a GPU here; %s", s->measured),
                            "assay probe --why tells why no GPU answers; --device cpu asks "
                            "about the CPU alone");
        }
    } else if (!cpu_only && gpus == 0) {
        add_no_gpu(q, &r, s);
    }
    qualify_judge(q, "device", 40, s);
}
