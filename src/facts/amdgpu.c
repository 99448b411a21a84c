// SPDX-License-Identifier: Apache-2.0
/*
 * amdgpu in sysfs: driver version and parameters, memory, clocks, power, temperature, RAS counters,
 * firmware, the gpu_metrics header. RAS and metrics of a runtime-suspended GPU are not read: reading
 * wakes it, and its counters come out wrong.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/str.h"
#include "base/vec.h"

#include "facts/gpus.h"
#include "facts/read.h"

#define MODULE "/sys/module/amdgpu"

static const char *sysfs(struct collect *c, int index, const char *file)
{
    return arena_fmt(c->scratch, "/sys/bus/pci/devices/%s/%s",
                     facts_get_string(c->facts, gpu_key(c, index, "pci"), "?"), file);
}

static void collect_module(struct collect *c)
{
    struct err err = {0};
    struct str version;
    bool loaded = fs_is_dir(c->fs, c->scratch, MODULE);
    if (!loaded) {
        facts_set_state(c->facts, "driver.amdgpu.version", FACT_ABSENT, MODULE,
                        "the amdgpu module is not loaded");
        facts_set_state(c->facts, "driver.amdgpu.in_tree", FACT_ABSENT, MODULE,
                        "the amdgpu module is not loaded");
        return;
    }
    enum status got = fs_read_trimmed(c->fs, c->scratch, MODULE "/version", &version, &err);
    if (got == ST_OK) {
        facts_string(c->facts, "driver.amdgpu.version", version.p, MODULE "/version");
        facts_bool(c->facts, "driver.amdgpu.in_tree", false, MODULE "/version");
    } else if (got == ST_ABSENT) {
        facts_set_state(c->facts, "driver.amdgpu.version", FACT_ABSENT, MODULE "/version",
                        "the kernel's own amdgpu has no version file");
        facts_bool(c->facts, "driver.amdgpu.in_tree", true, MODULE "/version");
    } else {
        facts_set_error(c->facts, "driver.amdgpu.version", MODULE "/version", &err);
        facts_set_error(c->facts, "driver.amdgpu.in_tree", MODULE "/version", &err);
    }
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, c->scratch, MODULE "/parameters", &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            read_string_fact(c, arena_fmt(c->scratch, "driver.amdgpu.param.%s", names[i]),
                             arena_fmt(c->scratch, MODULE "/parameters/%s", names[i]));
        }
    }
}

/* The row with a star: "1: 2482Mhz *". */
static void read_sclk(struct collect *c, int index)
{
    const char *key = gpu_key(c, index, "sclk_mhz");
    const char *path = sysfs(c, index, "pp_dpm_sclk");
    struct str text;
    struct str line;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, path, 65536, &text, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    while (str_cut_line(&text, &line)) {
        size_t colon = str_find_char(line, ':', 0);
        size_t unit = str_find(line, "Mhz", 0);
        int64_t mhz;
        if (colon != SIZE_MAX && unit != SIZE_MAX && str_has(line, "*") &&
            str_to_i64(str_slice(line, colon + 1, unit), 10, &mhz) == ST_OK) {
            facts_int(c->facts, key, mhz, path);
            return;
        }
    }
    facts_set_state(c->facts, key, FACT_UNREADABLE, path, "no row is marked as current");
}

static void read_hwmon(struct collect *c, int index)
{
    static const char *const fields[] = {"power_w", "power_cap_w", "temp_c"};
    const char *folder = sysfs(c, index, "hwmon");
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, folder, &names, &count, &err) != ST_OK || count == 0) {
        gpu_set_states(c, index, fields, ARRAY_LEN(fields),
                       err.status == ST_DENIED ? FACT_DENIED : FACT_ABSENT, folder,
                       "no hwmon folder");
        return;
    }
    const char *at = arena_fmt(c->scratch, "%s/%s", folder, names[0]);
    int64_t v;
    const char *path = arena_fmt(c->scratch, "%s/power1_average", at);
    if (read_int(c, path, &v, &err) != ST_OK) {
        path = arena_fmt(c->scratch, "%s/power1_input", at);
    }
    if (read_int(c, path, &v, &err) == ST_OK) {
        facts_int(c->facts, gpu_key(c, index, "power_w"), v / 1000000, path); /* microwatts */
    } else {
        facts_set_error(c->facts, gpu_key(c, index, "power_w"), path, &err);
    }
    path = arena_fmt(c->scratch, "%s/power1_cap", at);
    if (read_int(c, path, &v, &err) == ST_OK) {
        facts_int(c->facts, gpu_key(c, index, "power_cap_w"), v / 1000000, path);
    } else {
        facts_set_error(c->facts, gpu_key(c, index, "power_cap_w"), path, &err);
    }
    int64_t hottest = INT64_MIN;
    for (int i = 1; i <= 8; i++) {
        if (read_int(c, arena_fmt(c->scratch, "%s/temp%d_input", at, i), &v, NULL) == ST_OK &&
            v > hottest) {
            hottest = v;
        }
    }
    if (hottest != INT64_MIN) {
        facts_int(c->facts, gpu_key(c, index, "temp_c"), hottest / 1000, at); /* millidegrees */
    } else {
        facts_set_state(c->facts, gpu_key(c, index, "temp_c"), FACT_ABSENT, at, "no temp*_input");
    }
}

/* Sum of "ue: N" and "ce: N" over ras/<block>_err_count. */
static void read_ras(struct collect *c, int index)
{
    static const char *const fields[] = {"ras.ue_count", "ras.ce_count"};
    const char *folder = sysfs(c, index, "ras");
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, folder, &names, &count, &err) != ST_OK) {
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            facts_set_error(c->facts, gpu_key(c, index, fields[i]), folder, &err);
        }
        return;
    }
    int64_t sums[2] = {0};
    size_t blocks = 0;
    for (size_t i = 0; i < count; i++) {
        struct str text;
        if (!str_ends(str_of(names[i]), "_err_count") ||
            fs_read(c->fs, c->scratch, arena_fmt(c->scratch, "%s/%s", folder, names[i]), 4096,
                    &text, NULL) != ST_OK) {
            continue;
        }
        int64_t ue;
        int64_t ce;
        if (str_to_i64(read_line_value(text, "ue", ": "), 10, &ue) == ST_OK &&
            str_to_i64(read_line_value(text, "ce", ": "), 10, &ce) == ST_OK && ue >= 0 && ce >= 0 &&
            ue < INT32_MAX && ce < INT32_MAX) {
            sums[0] += ue;
            sums[1] += ce;
            blocks++;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (blocks != 0) {
            facts_int(c->facts, gpu_key(c, index, fields[i]), sums[i], folder);
        } else {
            facts_set_state(c->facts, gpu_key(c, index, fields[i]), FACT_ABSENT, folder,
                            "no block reports errors");
        }
    }
}

/* Header of gpu_metrics: u16 size, u8 format, u8 content revision (kgd_pp_interface.h). */
static void read_metrics(struct collect *c, int index)
{
    const char *key = gpu_key(c, index, "metrics_version");
    const char *path = sysfs(c, index, "gpu_metrics");
    struct str bytes;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, path, 65536, &bytes, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    if (bytes.n < 4 || bytes_le16(bytes.p) > bytes.n || bytes_le16(bytes.p) < 4) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, path,
                        "its first field is not the size of the structure");
        return;
    }
    facts_string(
        c->facts, key,
        arena_fmt(c->scratch, "%u.%u", (unsigned char)bytes.p[2], (unsigned char)bytes.p[3]), path);
}

static void read_memory(struct collect *c, int index)
{
    static const struct {
        const char *field;
        const char *file;
    } rows[] = {{"vram_total_bytes", "mem_info_vram_total"},
                {"vram_used_bytes", "mem_info_vram_used"},
                {"vis_vram_total_bytes", "mem_info_vis_vram_total"},
                {"gtt_total_bytes", "mem_info_gtt_total"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        read_int_fact(c, gpu_key(c, index, rows[i].field), sysfs(c, index, rows[i].file), 1);
    }
    const struct fact *procs = facts_get(c->facts, "kfd.procs");
    const struct fact *used = facts_get(c->facts, gpu_key(c, index, "vram_used_bytes"));
    const char *idle = gpu_key(c, index, "vram_used_idle_bytes");
    bool told = procs != NULL && procs->value.kind == VALUE_LIST && used->state == FACT_KNOWN;
    if (told && procs->value.list.count == 0) {
        facts_set(c->facts, idle, used->value, used->source);
    } else {
        facts_set_state(c->facts, idle, told ? FACT_NOT_APPLICABLE : FACT_ABSENT,
                        "/sys/class/kfd/kfd/proc",
                        told ? "a process uses a GPU now" : "whether a process runs is not known");
    }
    if (told) {
        facts_int(c->facts, gpu_key(c, index, "proc_count"), (int64_t)procs->value.list.count,
                  "/sys/class/kfd/kfd/proc");
    }
}

static void collect_gpu(struct collect *c, int index)
{
    const char *status = facts_get_string(c->facts, gpu_key(c, index, "runtime_status"), "active");
    read_memory(c, index);
    read_int_fact(c, gpu_key(c, index, "busy_percent"), sysfs(c, index, "gpu_busy_percent"), 1);
    read_sclk(c, index);
    read_string_fact(c, gpu_key(c, index, "perf_level"),
                     sysfs(c, index, "power_dpm_force_performance_level"));
    read_hwmon(c, index);
    if (strcmp(status, "suspended") == 0) {
        static const char *const fields[] = {"ras.ue_count", "ras.ce_count", "metrics_version"};
        gpu_set_states(c, index, fields, ARRAY_LEN(fields), FACT_NOT_APPLICABLE,
                       sysfs(c, index, "power/runtime_status"),
                       "the GPU is suspended; reading would wake it and misread it");
        return;
    }
    read_ras(c, index);
    read_metrics(c, index);
}

void collect_amdgpu(struct collect *c)
{
    collect_module(c);
    int first = -1;
    static const char *const fields[] = {"vram_total_bytes",
                                         "vram_used_bytes",
                                         "vram_used_idle_bytes",
                                         "vis_vram_total_bytes",
                                         "gtt_total_bytes",
                                         "busy_percent",
                                         "sclk_mhz",
                                         "perf_level",
                                         "power_w",
                                         "power_cap_w",
                                         "temp_c",
                                         "ras.ue_count",
                                         "ras.ce_count",
                                         "metrics_version"};
    for (int i = 0; i < gpus_count(c); i++) {
        if (strcmp(gpu_vendor(c, i), "0x1002") != 0) {
            gpu_set_states(c, i, fields, ARRAY_LEN(fields), FACT_NOT_APPLICABLE, "sysfs of amdgpu",
                           "not an AMD GPU");
            continue;
        }
        first = first < 0 ? i : first;
        collect_gpu(c, i);
        static const char *const from_runtime[] = {"hsa_pool_bytes", "max_threads_per_block"};
        gpu_set_states(c, i, from_runtime, ARRAY_LEN(from_runtime), FACT_UNREADABLE, "HSA runtime",
                       "only the runtime tells, and it is not loaded to read facts: rocminfo");
    }
    if (first < 0) {
        facts_set_state(c->facts, "fw.mes", FACT_NOT_APPLICABLE, "fw_version", "no AMD GPU");
        facts_set_state(c->facts, "fw.smu", FACT_NOT_APPLICABLE, "fw_version", "no AMD GPU");
        return;
    }
    read_string_fact(c, "fw.mes", sysfs(c, first, "fw_version/mes_fw_version"));
    read_string_fact(c, "fw.smu", sysfs(c, first, "fw_version/smc_fw_version"));
}
