// SPDX-License-Identifier: Apache-2.0
/*
 * Frozen machines: collects the facts of each tests/hosts/<name>/root and compares those that
 * expected_facts.json names. HOSTS is the folder of the hosts.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#include "facts/collect.h"
#include "facts/facts_json.h"
#include "unit.h"

enum {
    MAX_HOSTS = 64,
    MAX_JSON = 1 << 20
};

static bool same_value(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case VALUE_BOOL: return a->boolean == b->boolean;
    case VALUE_INT: return a->integer == b->integer;
    case VALUE_STRING: return strcmp(a->string, b->string) == 0;
    case VALUE_LIST:
        for (size_t i = 0; a->list.count == b->list.count && i < a->list.count; i++) {
            if (!same_value(&a->list.items[i], &b->list.items[i])) {
                return false;
            }
        }
        return a->list.count == b->list.count;
    default: return a->kind == VALUE_NULL;
    }
}

static struct facts *collect_host_root(struct arena *a, struct arena *scratch, const char *root)
{
    struct fs fs;
    struct err err = {0};
    if (fs_open_root(a, root, &fs, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    struct collect c = {
        .fs = &fs, .facts = facts_new(a), .scratch = scratch, .user_home = "/home/user"};
    collect_all(&c);
    return c.facts;
}

static struct facts *read_expected(struct arena *a, const char *folder)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    struct err err = {0};
    struct facts *expected = facts_new(a);
    const char *path = arena_fmt(a, "%s/expected_facts.json", folder);
    if (fs_read(&live, a, path, MAX_JSON, &text, &err) != ST_OK ||
        facts_read_json(expected, text, path, NULL, NULL, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return expected;
}

static void print_fact(struct arena *a, const char *label, const struct fact *f)
{
    struct strbuf out;
    strbuf_init(&out, a, 4000);
    if (f == NULL) {
        strbuf_addz(&out, "nobody looked");
    } else if (f->state == FACT_KNOWN) {
        value_print(&out, &f->value);
    } else {
        strbuf_fmt(&out, "%s (%s)", fact_state_name(f->state), f->reason != NULL ? f->reason : "");
    }
    printf("    %s %s\n", label, out.p);
}

/* Number of facts that differ. */
static int compare(struct arena *a, const struct facts *got, const struct facts *expected)
{
    size_t count;
    const struct fact *const *all = facts_sorted(expected, a, &count);
    int wrong = 0;
    assert_int_not_equal(count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct fact *f = facts_get(got, all[i]->key);
        if (f == NULL || f->state != all[i]->state || !same_value(&f->value, &all[i]->value)) {
            printf("  %s\n", all[i]->key);
            print_fact(a, "expected", all[i]);
            print_fact(a, "got     ", f);
            wrong++;
        }
    }
    return wrong;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list_hosts(struct arena *a, const char *names[MAX_HOSTS])
{
    size_t count = 0;
    DIR *dir = opendir(HOSTS);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL && count < MAX_HOSTS;) {
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            names[count++] = arena_strdup(a, e->d_name);
        }
    }
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    return count;
}

/* A collector that reads another file, decodes a number otherwise or loses a state. */
static void hosts_have_the_expected_facts(void **state)
{
    (void)state;
    struct arena *names_arena = arena_new(0);
    const char *names[MAX_HOSTS];
    size_t count = list_hosts(names_arena, names);
    int wrong = 0;
    assert_true(count >= 13);
    for (size_t i = 0; i < count; i++) {
        struct arena *a = arena_new(0);
        struct arena *scratch = arena_new(0);
        const char *folder = arena_fmt(a, "%s/%s", HOSTS, names[i]);
        struct facts *got = collect_host_root(a, scratch, arena_fmt(a, "%s/root", folder));
        printf("%s\n", names[i]);
        wrong += compare(a, got, read_expected(a, folder));
        arena_free(scratch);
        arena_free(a);
    }
    arena_free(names_arena);
    assert_int_equal(wrong, 0);
}

/* A key of the list that a collector silently leaves out: "nobody looked" where somebody should. */
static const char *const always[] = {
    "os.family",
    "os.name",
    "os.version",
    "os.kernel",
    "os.wsl",
    "os.virtual",
    "cmdline.raw",
    "cmdline.iommu",
    "cmdline.amdgpu",
    "iommu.enabled",
    "iommu.mode",
    "iommu.vendor",
    "cpu.model",
    "mem.total_bytes",
    "numa.node_count",
    "sysctl.numa_balancing",
    "board.name",
    "board.chipset",
    "bios.version",
    "gpu.count",
    "kfd.gpu_nodes",
    "kfd.procs",
    "hsa.gpu_agents",
    "driver.amdgpu.version",
    "fw.mes",
    "fw.smu",
    "glibc.version",
    "libstdcxx.max_glibcxx",
    "gcc.version",
    "env.read",
    "proc.uid",
    "proc.groups",
    "proc.userns",
    "proc.cwd",
    "limits.memlock",
    "proc.zombies_present",
    "proc.launchers",
    "dev.kfd.present",
    "dev.kfd.group",
    "dev.kfd.accessible",
    "group.render.gid",
    "dev.kfd.mode",
    "dev.kfd.owner",
    "dev.kfd.open_errno",
    "dev.kfd.gid",
    "p2p.xgmi_all_up",
    "pcie.atomics",
    "dev.render.present",
    "container.runtime",
    "container.ipc",
    "container.pid1",
    "container.rootless",
    "container.devices",
    "shm.size_bytes",
    "shm.avail_bytes",
    "container.mem_limit_bytes",
    "pcie.acs",
    "pcie.topology",
    "p2p.links",
    "p2p.peer_access",
    "cpu.logical_count",
    "cmdline.intel_iommu",
    "os.last_boot_unclean",
    "mem.available_bytes",
    "toolchain.libstdcxx_headers",
    "toolchain.msvc_headers",
    "driver.amdgpu.in_tree",
    "driver.amdgpu.dkms_version",
    "driver.amdgpu.dkms_status",
    "driver.nvidia.version",
    "driver.nvidia.userspace_version",
    "nvidia_smi.error",
    "fw.linux_firmware",
    "apt.recent_upgrades",
    "proc.native_stack",
    "proc.python_stack",
    "proc.worker_cpu_percent",
    "net.port.29500.owner",
    "dev.render.accessible",
    "container.group_add",
    "container.docker_context",
    "container.host_gids_mapped",
    "pcie.gpu_behind_switch",
    "dpkg.amdgpu-dkms.installed",
};
static const char *const of_each_gpu[] = {
    "vendor",
    "device_id",
    "name",
    "pci",
    "driver",
    "gfx",
    "gfx_target_version",
    "compute_capability",
    "integrated",
    "wave_size",
    "lds_bytes",
    "smem_optin_bytes",
    "vram_total_bytes",
    "vram_used_bytes",
    "vram_used_idle_bytes",
    "max_threads_per_block",
    "gtt_total_bytes",
    "hsa_pool_bytes",
    "bar0_bytes",
    "vis_vram_total_bytes",
    "busy_percent",
    "sclk_mhz",
    "perf_level",
    "power_w",
    "power_cap_w",
    "temp_c",
    "runtime_status",
    "pcie_width",
    "ras.ue_count",
    "ras.ce_count",
    "remap_pending",
    "ecc.uncorrectable_volatile",
    "proc_count",
};

static int missing_keys(struct arena *a, const struct facts *got)
{
    int missing = 0;
    for (size_t i = 0; i < ARRAY_LEN(always); i++) {
        if (facts_get(got, always[i]) == NULL) {
            printf("  nobody looked for %s\n", always[i]);
            missing++;
        }
    }
    for (int64_t g = 0; g < facts_get_int(got, "gpu.count", 0); g++) {
        for (size_t i = 0; i < ARRAY_LEN(of_each_gpu); i++) {
            const char *key = arena_fmt(a, "gpu[%d].%s", (int)g, of_each_gpu[i]);
            if (facts_get(got, key) == NULL) {
                printf("  nobody looked for %s\n", key);
                missing++;
            }
        }
    }
    return missing;
}

static void every_key_is_looked_for(void **state)
{
    (void)state;
    struct arena *names_arena = arena_new(0);
    const char *names[MAX_HOSTS];
    size_t count = list_hosts(names_arena, names);
    int missing = 0;
    /* Also where there is nothing at all. */
    names[count < MAX_HOSTS ? count++ : count - 1] = "";
    for (size_t i = 0; i < count; i++) {
        struct arena *a = arena_new(0);
        struct arena *scratch = arena_new(0);
        const char *root = names[i][0] != '\0' ? arena_fmt(a, "%s/%s/root", HOSTS, names[i])
                                               : arena_fmt(a, "%s/cpu-only/root/var", HOSTS);
        printf("%s\n", root);
        missing += missing_keys(a, collect_host_root(a, scratch, root));
        arena_free(scratch);
        arena_free(a);
    }
    arena_free(names_arena);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_have_the_expected_facts),
        cmocka_unit_test(every_key_is_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
