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

static void collect_module(struct collect *c)
{
    struct err err = {0};
    struct str version;
    struct stat st;
    if (fs_stat(c->fs, c->scratch, MODULE, &st, &err) != ST_OK && err.status != ST_ABSENT) {
        facts_set_error(c->facts, "driver.amdgpu.version", MODULE, &err);
        facts_set_error(c->facts, "driver.amdgpu.in_tree", MODULE, &err);
        return;
    }
    if (!fs_is_dir(c->fs, c->scratch, MODULE)) {
        facts_set_state(c->facts, "driver.amdgpu.version", FACT_ABSENT, MODULE,
                        "the amdgpu module is not loaded");
        facts_set_state(c->facts, "driver.amdgpu.in_tree", FACT_NOT_APPLICABLE, MODULE,
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
    const char *path = gpu_sysfs(c, index, "pp_dpm_sclk");
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
    const char *folder = gpu_sysfs(c, index, "hwmon");
    const char *const *names = NULL;
    size_t count = 0;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, folder, &names, &count, &err) != ST_OK) {
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            facts_set_error(c->facts, gpu_key(c, index, fields[i]), folder, &err);
        }
        return;
    }
    if (count == 0) {
        gpu_set_states(c, index, fields, ARRAY_LEN(fields), FACT_ABSENT, folder, "no sensors");
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
    const char *folder = gpu_sysfs(c, index, "ras");
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

/*
 * gpu_metrics begins with u16 size, u8 format, u8 content revision (kgd_pp_interface.h). Only
 * layouts that are known, and of the size that belongs to them, are looked into.
 */
static void read_metrics(struct collect *c, int index)
{
    static const struct {
        unsigned char format;
        unsigned char content;
        uint16_t size;
        uint16_t throttle_at; /* u32 throttle_status */
    } layouts[] = {{1, 0, 80, 68}, {1, 1, 96, 68}, {1, 2, 104, 68}, {1, 3, 120, 68}};

    const char *key = gpu_key(c, index, "metrics_version");
    const char *throttle = gpu_key(c, index, "throttle_status");
    const char *path = gpu_sysfs(c, index, "gpu_metrics");
    struct str bytes;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, path, 65536, &bytes, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        facts_set_error(c->facts, throttle, path, &err);
        return;
    }
    facts_set_state(c->facts, throttle, FACT_UNREADABLE, path,
                    "the layout of this version of gpu_metrics is not known");
    if (bytes.n < 4 || bytes_le16(bytes.p) > bytes.n || bytes_le16(bytes.p) < 4) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, path,
                        "its first field is not the size of the structure");
        return;
    }
    unsigned char format = (unsigned char)bytes.p[2];
    unsigned char content = (unsigned char)bytes.p[3];
    facts_string(c->facts, key, arena_fmt(c->scratch, "%u.%u", format, content), path);
    for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
        if (layouts[i].format == format && layouts[i].content == content &&
            layouts[i].size == bytes_le16(bytes.p)) {
            facts_int(c->facts, throttle, bytes_le32(bytes.p + layouts[i].throttle_at), path);
        }
    }
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
        read_int_fact(c, gpu_key(c, index, rows[i].field), gpu_sysfs(c, index, rows[i].file), 1);
    }
    const struct fact *procs = facts_get(c->facts, gpu_key(c, index, "proc_count"));
    const struct fact *used = facts_get(c->facts, gpu_key(c, index, "vram_used_bytes"));
    const char *idle = gpu_key(c, index, "vram_used_idle_bytes");
    const char *source = "/sys/class/kfd/kfd/proc";
    if (used->state != FACT_KNOWN) {
        facts_set_state(c->facts, idle, used->state, used->source, used->reason);
    } else if (procs->state != FACT_KNOWN) {
        facts_set_state(c->facts, idle, FACT_UNREADABLE, source,
                        "whether a process is on the GPU is not known");
    } else if (procs->value.integer != 0) {
        facts_set_state(c->facts, idle, FACT_NOT_APPLICABLE, source, "a process is on the GPU now");
    } else {
        facts_set(c->facts, idle, used->value, used->source);
    }
}

static void collect_gpu(struct collect *c, int index)
{
    /* Sensors and counters need the GPU awake: older drivers wake it for them. */
    static const char *const awake[] = {"busy_percent", "sclk_mhz",        "power_w",
                                        "power_cap_w",  "temp_c",          "ras.ue_count",
                                        "ras.ce_count", "metrics_version", "throttle_status"};
    const char *status = facts_get_string(c->facts, gpu_key(c, index, "runtime_status"), "active");
    read_memory(c, index);
    read_string_fact(c, gpu_key(c, index, "perf_level"),
                     gpu_sysfs(c, index, "power_dpm_force_performance_level"));
    if (strcmp(status, "suspended") == 0 || strcmp(status, "suspending") == 0) {
        gpu_set_states(c, index, awake, ARRAY_LEN(awake), FACT_NOT_APPLICABLE,
                       gpu_sysfs(c, index, "power/runtime_status"),
                       "the GPU is suspended; reading would wake it and misread it");
        return;
    }
    read_int_fact(c, gpu_key(c, index, "busy_percent"), gpu_sysfs(c, index, "gpu_busy_percent"), 1);
    read_sclk(c, index);
    read_hwmon(c, index);
    read_ras(c, index);
    read_metrics(c, index);
}

/* 0x00684c00 is written 104.76.0 in the driver's messages; the upper byte is the program. */
static void read_smu(struct collect *c, int index)
{
    const char *path = gpu_sysfs(c, index, "fw_version/smc_fw_version");
    int64_t v;
    struct err err = {0};
    if (read_int(c, path, &v, &err) != ST_OK) {
        facts_set_error(c->facts, "fw.smu", path, &err);
        return;
    }
    facts_string(c->facts, "fw.smu",
                 arena_fmt(c->scratch, "%u.%u.%u", (unsigned)(v >> 16) & 0xff,
                           (unsigned)(v >> 8) & 0xff, (unsigned)v & 0xff),
                 path);
}

/* MES exists from RDNA3 on; firmware of the first GPU that is not the processor's, else of it. */
static void collect_firmware(struct collect *c)
{
    static const char *const keys[] = {"fw.mes", "fw.smu"};
    int chosen = -1;
    for (int i = 0; i < gpus_count(c); i++) {
        bool integrated = facts_get_bool(c->facts, gpu_key(c, i, "integrated"), false);
        if (gpu_is_amd(c, i) && (chosen < 0 || !integrated)) {
            chosen = i;
            if (!integrated) {
                break;
            }
        }
    }
    if (chosen < 0) {
        read_set_states(c, keys, ARRAY_LEN(keys), FACT_NOT_APPLICABLE, "fw_version", "no AMD GPU");
        return;
    }
    read_string_fact(c, "fw.mes", gpu_sysfs(c, chosen, "fw_version/mes_fw_version"));
    read_smu(c, chosen);
}

void collect_amdgpu(struct collect *c)
{
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
                                         "metrics_version",
                                         "throttle_status"};
    static const char *const from_runtime[] = {"hsa_pool_bytes", "max_threads_per_block"};
    collect_module(c);
    for (int i = 0; i < gpus_count(c); i++) {
        if (gpu_is_amd(c, i)) {
            collect_gpu(c, i);
            gpu_set_states(c, i, from_runtime, ARRAY_LEN(from_runtime), FACT_UNREADABLE,
                           "HSA runtime",
                           "only the runtime tells, and it is not loaded to read facts: rocminfo");
        } else {
            gpu_set_states(c, i, fields, ARRAY_LEN(fields), FACT_UNREADABLE, "NVML",
                           "only NVML tells, and it is not loaded to read facts: nvidia-smi -q");
            gpu_set_states(c, i, from_runtime, 1, FACT_NOT_APPLICABLE, "HSA runtime",
                           "not an AMD GPU");
            gpu_set_states(c, i, from_runtime + 1, 1, FACT_UNREADABLE, "CUDA driver",
                           "only the driver tells, and it is not loaded to read facts");
        }
    }
    collect_firmware(c);
}
