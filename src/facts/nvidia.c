// SPDX-License-Identifier: Apache-2.0
/*
 * NVIDIA's procfs: kernel module version and one `information` file per GPU. What only NVML knows
 * is recorded as such: NVML is not loaded to read facts. The user-space version is the suffix of
 * the libcuda file.
 */
#include <string.h>

#include "base/str.h"

#include "facts/gpus.h"
#include "facts/read.h"

#define NVIDIA_PROC "/proc/driver/nvidia"

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri ..." or "... Open Kernel Module
 * for x86_64  580.159  Release ..." : the first word that is digits with dots. */
static const char *module_version(struct collect *c, struct str text)
{
    struct str line;
    if (!str_cut_line(&text, &line)) {
        return NULL;
    }
    struct str word;
    while (str_cut(&line, ' ', &word)) {
        bool dots = false;
        bool digits = word.n != 0;
        for (size_t i = 0; i < word.n; i++) {
            dots = dots || word.p[i] == '.';
            digits = digits && (word.p[i] == '.' || (word.p[i] >= '0' && word.p[i] <= '9'));
        }
        if (digits && dots) {
            return str_dup(c->scratch, word);
        }
    }
    return NULL;
}

static void collect_versions(struct collect *c)
{
    struct str text;
    struct err err = {0};
    const char *path = NVIDIA_PROC "/version";
    const char *key = "driver.nvidia.version";
    if (fs_read(c->fs, c->scratch, path, 65536, &text, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
    } else {
        const char *version = module_version(c, text);
        if (version != NULL) {
            facts_string(c->facts, key, version, path);
        } else {
            facts_set_state(c->facts, key, FACT_UNREADABLE, path, "its first line has no version");
        }
    }
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                          "/usr/local/nvidia/lib64", "/lib/x86_64-linux-gnu"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        const char *const *names;
        size_t count;
        if (fs_list(c->fs, c->scratch, folders[i], &names, &count, NULL) != ST_OK) {
            continue;
        }
        for (size_t n = 0; n < count; n++) {
            if (strncmp(names[n], "libcuda.so.", 11) == 0 && strchr(names[n] + 11, '.') != NULL) {
                facts_string(c->facts, "driver.nvidia.userspace_version", names[n] + 11,
                             arena_fmt(c->scratch, "%s/%s", folders[i], names[n]));
                return;
            }
        }
    }
    facts_set_state(c->facts, "driver.nvidia.userspace_version", FACT_ABSENT, "libcuda.so.*",
                    "no libcuda in the usual library folders");
}

/* /proc/driver/nvidia/gpus/<pci>/information: "Model: \t\t NVIDIA H200". */
static void collect_names(struct collect *c)
{
    for (int i = 0; i < gpus_count(c); i++) {
        if (!gpu_is_nvidia(c, i)) {
            continue;
        }
        const char *pci = facts_get_string(c->facts, gpu_key(c, i, "pci"), "");
        const char *path = arena_fmt(c->scratch, NVIDIA_PROC "/gpus/%s/information", pci);
        struct str text;
        if (fs_read(c->fs, c->scratch, path, 65536, &text, NULL) != ST_OK) {
            continue;
        }
        struct str model = read_line_value(text, "Model", ": \t");
        if (model.n != 0) {
            facts_string(c->facts, gpu_key(c, i, "name"), str_dup(c->scratch, model), path);
        }
    }
}

void collect_nvidia(struct collect *c)
{
    collect_versions(c);
    collect_names(c);
    static const char *const nvml[] = {"smem_optin_bytes", "ecc.uncorrectable_volatile",
                                       "remap_pending"};
    for (int i = 0; i < gpus_count(c); i++) {
        bool nvidia = gpu_is_nvidia(c, i);
        gpu_set_states(c, i, nvml, ARRAY_LEN(nvml), nvidia ? FACT_UNREADABLE : FACT_NOT_APPLICABLE,
                       "NVML",
                       nvidia ? "only NVML tells, and it is not loaded to read facts: nvidia-smi -q"
                              : "not an NVIDIA GPU");
    }
    facts_set_state(c->facts, "nvidia_smi.error", FACT_NOT_APPLICABLE, "nvidia-smi",
                    "nothing is executed to read facts");
}
