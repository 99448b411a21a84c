// SPDX-License-Identifier: Apache-2.0
/* See gpu_readings.h. The collectors of facts read sysfs and procfs; what they do not find out of an NVIDIA GPU, NVML
 * tells. */
#include "cli/gpu_readings.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/str.h"

#include "facts/collect.h"

static const char *const nvml_fields[NVML_READING_COUNT] = {
    [NVML_CELSIUS] = "temp_c",
    [NVML_WATTS] = "power_w",
    [NVML_LIMIT_WATTS] = "power_cap_w",
    [NVML_CLOCK_MHZ] = "sclk_mhz",
    [NVML_BUSY_PERCENT] = "busy_percent",
    [NVML_MEMORY_BYTES] = "vram_total_bytes",
    [NVML_MEMORY_USED_BYTES] = "vram_used_bytes",
    [NVML_UNCORRECTED] = "ras.ue_count",
    [NVML_CORRECTED] = "ras.ce_count",
    [NVML_PROCESSES] = "proc_count",
    [NVML_THROTTLE] = "throttle_status",
};

enum status gpu_readings_open(struct arena *a, const char *root, const char *nvml,
                              struct gpu_readings *ret_readings, struct err *err)
{
    struct err own = {0};
    *ret_readings = (struct gpu_readings){0};
    TRY(fs_open_root(a, root, &ret_readings->fs, err));
    if (nvml == NULL && !fs_is_live(&ret_readings->fs)) {
        return ST_OK;
    }
    enum status st = nvml_open(a, nvml, &ret_readings->nvml, &own);
    if (st != ST_OK && nvml != NULL) {
        return err_set(err, st, "%s", own.text);
    }
    if (st != ST_OK && st != ST_ABSENT) {
        ret_readings->nvml_why = arena_strdup(a, own.text);
    }
    return ST_OK;
}

/* What the files told stays: a frozen machine's readings are its own. */
static void add_nvml(struct gpu_readings *r)
{
    for (int i = 0; i < r->count; i++) {
        double values[NVML_READING_COUNT];
        const char *vendor = gpu_readings_text(r, i, "vendor");
        const char *pci = gpu_readings_text(r, i, "pci");
        if (vendor == NULL || strcmp(vendor, "0x10de") != 0 || pci == NULL) {
            continue;
        }
        nvml_read(r->nvml, pci, values);
        for (int k = 0; k < NVML_READING_COUNT; k++) {
            if (!isnan(values[k]) && isnan(gpu_readings_number(r, i, nvml_fields[k]))) {
                facts_set(r->facts, arena_fmt(r->arena, "gpu[%d].%s", i, nvml_fields[k]),
                          value_real(values[k]), "NVML");
            }
        }
    }
}

void gpu_readings_take(struct gpu_readings *r)
{
    static const char *const no_environment[] = {NULL};
    struct timespec t = {0};
    arena_free(r->arena);
    r->arena = arena_new(0);
    struct arena *scratch = arena_new(0);
    struct collect c = {
        .fs = &r->fs, .facts = facts_new(r->arena), .scratch = scratch, .env = no_environment};
    collect_host(&c);
    collect_pci(&c);
    collect_kfd(&c);
    collect_amdgpu(&c);
    collect_nvidia(&c);
    arena_free(scratch);
    r->facts = c.facts;
    int64_t count = facts_get_int(r->facts, "gpu.count", 0);
    r->count = count < 0 ? 0 : count < GPU_READINGS_MAX ? (int)count : GPU_READINGS_MAX;
    if (r->nvml != NULL) {
        add_nvml(r);
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    r->taken = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const struct fact *field_of(const struct gpu_readings *r, int gpu, const char *field)
{
    char key[96];
    str_print(key, sizeof key, "gpu[%d].%s", gpu, field);
    const struct fact *f = facts_get(r->facts, key);
    return f != NULL && f->state == FACT_KNOWN ? f : NULL;
}

double gpu_readings_number(const struct gpu_readings *r, int gpu, const char *field)
{
    const struct fact *f = field_of(r, gpu, field);
    if (f != NULL && f->value.kind == VALUE_REAL) {
        return f->value.real;
    }
    return f != NULL && f->value.kind == VALUE_INT ? (double)f->value.integer : NAN;
}

const char *gpu_readings_text(const struct gpu_readings *r, int gpu, const char *field)
{
    const struct fact *f = field_of(r, gpu, field);
    return f != NULL && f->value.kind == VALUE_STRING ? f->value.string : NULL;
}

size_t gpu_readings_compare(const struct gpu_readings *r,
                            struct anomaly_gpu ret_gpus[GPU_READINGS_MAX])
{
    for (int i = 0; i < r->count; i++) {
        double throttle = gpu_readings_number(r, i, "throttle_status");
        ret_gpus[i] = (struct anomaly_gpu){
            .index = i,
            .clock_mhz = gpu_readings_number(r, i, "sclk_mhz"),
            .celsius = gpu_readings_number(r, i, "temp_c"),
            .busy_percent = gpu_readings_number(r, i, "busy_percent"),
            .memory_bytes = gpu_readings_number(r, i, "vram_used_bytes"),
            .throttled = throttle > 0};
    }
    return (size_t)r->count;
}

void gpu_readings_close(struct gpu_readings *r)
{
    arena_free(r->arena);
    r->arena = NULL;
}
