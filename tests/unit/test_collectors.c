// SPDX-License-Identifier: Apache-2.0
/* Corners of the host collectors, on machines of a few files: what the frozen hosts do not show. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "facts/collect.h"
#include "temp_root.h"
#include "unit.h"

#define GPU_FOLDER "/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0"
#define KFD_NODES  "/sys/class/kfd/kfd/topology/nodes"

static struct arena *arena;
static struct arena *scratch;
static struct facts *facts;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    scratch = arena_new(0);
    temp_root_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_root_remove();
    arena_free(arena);
    arena_free(scratch);
    return 0;
}

static void collect(const char *const *env)
{
    struct fs fs;
    struct err err = {0};
    static const char *const none[] = {NULL};
    assert_int_equal(fs_open_root(arena, temp_root, &fs, &err), ST_OK);
    facts = facts_new(arena);
    struct collect c = {
        .fs = &fs, .facts = facts, .scratch = scratch, .env = env != NULL ? env : none};
    collect_all(&c);
}

static void expect_state(const char *key, enum fact_state state)
{
    const struct fact *f = facts_get(facts, key);
    if (f == NULL || f->state != state) {
        fail_msg("%s is %s", key, f == NULL ? "not there" : fact_state_name(f->state));
    }
}

static void expect_text(const char *key, const char *want)
{
    const struct fact *f = facts_get(facts, key);
    if (f == NULL || f->state != FACT_KNOWN ||
        strcmp(facts_get_string(facts, key, ""), want) != 0) {
        fail_msg("%s is not '%s'", key, want);
    }
}

/* ARM, POWER and RISC-V give no "model name". */
static void processors_without_a_model_name(void **state)
{
    (void)state;
    temp_write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
    collect(NULL);
    expect_text("cpu.model", "Neoverse-V2 (implementer 0x41, part 0xd4f)");
    temp_write("/proc/cpuinfo", "CPU implementer\t: 0x99\nCPU part\t: 0x001\n");
    collect(NULL);
    expect_text("cpu.model", "ARM processor (implementer 0x99, part 0x001)");
    temp_write("/proc/cpuinfo", "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n");
    collect(NULL);
    expect_text("cpu.model", "POWER9, altivec supported");
    temp_write("/proc/cpuinfo", "processor\t: 0\ncpu family\t: 6\ncpu MHz\t\t: 2000\n");
    collect(NULL);
    expect_state("cpu.model", FACT_ABSENT);
}

static void make_gpu(const char *metrics, size_t metrics_size, const char *status)
{
    temp_write(GPU_FOLDER "/vendor", "0x1002\n");
    temp_write(GPU_FOLDER "/device", "0x744c\n");
    temp_write(GPU_FOLDER "/class", "0x030000\n");
    temp_write(GPU_FOLDER "/revision", "0xcc\n");
    temp_write(GPU_FOLDER "/power/runtime_status", status);
    temp_write(GPU_FOLDER "/ras/umc_err_count", "ue: 2\nce: 1048560\n");
    temp_write(GPU_FOLDER "/ras/gfx_err_count", "ue: 1\nce: 4\n");
    temp_write(GPU_FOLDER "/gpu_busy_percent", "7\n");
    temp_write_bytes(GPU_FOLDER "/gpu_metrics", metrics, metrics_size);
    temp_link("/sys/bus/pci/devices/0000:03:00.0",
              "../../../devices/pci0000:00/0000:00:01.0/0000:03:00.0");
}

static void node(const char *number, const char *properties)
{
    char path[256];
    snprintf(path, sizeof path, KFD_NODES "/%s/properties", number);
    temp_write(path, properties);
}

static void link_to(const char *from, const char *slot, const char *properties)
{
    char path[256];
    snprintf(path, sizeof path, KFD_NODES "/%s/io_links/%s/properties", from, slot);
    temp_write(path, properties);
}

/* Root of a rootless container counted as the host's root, who may open everything. */
static void root_of_a_namespace_has_no_power_over_foreign_nodes(void **state)
{
    (void)state;
    temp_write("/proc/self/uid_map",
               "         0       1000          1\n         1     100000      65536\n");
    temp_write("/.assay/process.tsv", "uid\t0\ngroups\t0\n");
    temp_write("/.assay/nodes.tsv", "c\t0660\t65534\t65534\t/dev/kfd\n");
    collect(NULL);
    assert_true(facts_get_bool(facts, "proc.userns", false));
    assert_true(facts_get_bool(facts, "dev.kfd.present", false));
    assert_false(facts_get_bool(facts, "dev.kfd.accessible", true));
    assert_string_equal(facts_get_string(facts, "dev.kfd.open_errno", ""), "EACCES");
}

/* A device cgroup refuses what permissions allow; lines that make no sense are no nodes. */
static void refusals_beyond_permissions_are_told(void **state)
{
    (void)state;
    temp_write("/.assay/process.tsv", "uid\t1000\ngroups\t1000 44\n");
    temp_write("/.assay/nodes.tsv",
               "c\t0666\t0\t44\t/dev/kfd\tEPERM\nc\t0x\t0\n\nb\t0666\t0\t0\t/dev/sda\n"
               "c\t0600\t0\t44\t/dev/dri/renderD128\nc\t0660\t0\t44\t/dev/dri/renderD129\n");
    collect(NULL);
    assert_string_equal(facts_get_string(facts, "dev.kfd.open_errno", ""), "EPERM");
    assert_false(facts_get_bool(facts, "dev.kfd.accessible", true));
    /* One render node of two is enough. */
    assert_true(facts_get_bool(facts, "dev.render.accessible", false));
}

/* Reading RAS of a sleeping GPU wakes it and invents counts. */
static void a_suspended_gpu_is_left_alone(void **state)
{
    (void)state;
    make_gpu("\x78\x00\x01\x03", 4, "suspended\n");
    collect(NULL);
    assert_int_equal(facts_get_int(facts, "gpu.count", 0), 1);
    expect_state("gpu[0].ras.ue_count", FACT_NOT_APPLICABLE);
    expect_state("gpu[0].busy_percent", FACT_NOT_APPLICABLE);
    expect_state("gpu[0].metrics_version", FACT_NOT_APPLICABLE);
}

static void ras_counts_are_summed_over_blocks(void **state)
{
    (void)state;
    make_gpu("", 0, "active\n");
    collect(NULL);
    assert_int_equal(facts_get_int(facts, "gpu[0].ras.ue_count", -1), 3);
    assert_string_equal(facts_get_string(facts, "gpu[0].name", ""), "Radeon RX 7900 XT");
    assert_string_equal(facts_get_string(facts, "gpu[0].gfx", ""), "gfx1100");
}

/* The size field is believed, or a known version of another size is read beyond its end. */
static void gpu_metrics_with_lying_sizes_is_not_read(void **state)
{
    (void)state;
    char bytes[200] = {120, 0, 1, 3};
    make_gpu(bytes, 64, "active\n"); /* says 120 bytes, has 64 */
    collect(NULL);
    expect_state("gpu[0].metrics_version", FACT_UNREADABLE);
    bytes[0] = 96; /* a size that does not belong to 1.3 */
    make_gpu(bytes, 96, "active\n");
    collect(NULL);
    assert_string_equal(facts_get_string(facts, "gpu[0].metrics_version", ""), "1.3");
    expect_state("gpu[0].throttle_status", FACT_UNREADABLE);
    bytes[0] = 120;
    bytes[68] = 4;
    make_gpu(bytes, 120, "active\n");
    collect(NULL);
    assert_int_equal(facts_get_int(facts, "gpu[0].throttle_status", -1), 4);
}

/* A hive with a link that did not come up looks whole. */
static void a_missing_xgmi_link_is_seen(void **state)
{
    (void)state;
    node("0", "cpu_cores_count 32\nsimd_count 0\n");
    node("1", "simd_count 416\ngfx_target_version 90402\nlocation_id 768\n");
    node("2", "simd_count 416\ngfx_target_version 90402\nlocation_id 1024\n");
    link_to("1", "0", "type 2\nnode_from 1\nnode_to 0\nflags 13\n");
    link_to("1", "1", "type 11\nnode_from 1\nnode_to 2\nflags 1\n");
    collect(NULL);
    assert_int_equal(facts_get_int(facts, "kfd.gpu_nodes", 0), 2);
    assert_string_equal(facts_get_string(facts, "p2p.links", ""), "xgmi");
    assert_false(facts_get_bool(facts, "p2p.xgmi_all_up", true));
    assert_false(facts_get_bool(facts, "p2p.peer_access", true));
    /* flags 13: no 32-bit and no 64-bit atomics */
    assert_false(facts_get_bool(facts, "pcie.atomics", true));
}

/* Another container's GPU, or a node that refuses, is counted as "no GPU". */
static void unreadable_nodes_are_not_zero_gpus(void **state)
{
    (void)state;
    node("0", "cpu_cores_count 32\nsimd_count 0\n");
    node("1", "simd_count 416\n");
    node("2", "");
    temp_write("/.assay/denied", KFD_NODES "/1/properties\n");
    collect(NULL);
    expect_state("kfd.gpu_nodes", FACT_DENIED);
    expect_state("hsa.gpu_agents", FACT_DENIED);
}

static void overrides_of_one_node_go_before_that_of_all(void **state)
{
    (void)state;
    static const char *const env[] = {"HSA_OVERRIDE_GFX_VERSION=10.3.0",
                                      "HSA_OVERRIDE_GFX_VERSION_2=11.0.0", NULL};
    static const char *const bad[] = {"HSA_OVERRIDE_GFX_VERSION=gfx1030", NULL};
    node("1", "simd_count 80\ngfx_target_version 100301\nlocation_id 768\n");
    node("2", "simd_count 120\ngfx_target_version 110501\nlocation_id 1024\n");
    collect(env);
    const struct fact *f = facts_get(facts, "hsa.gpu_agents");
    assert_int_equal(f->value.list.count, 2);
    assert_string_equal(f->value.list.items[0].string, "gfx1030");
    assert_string_equal(f->value.list.items[1].string, "gfx1100");
    collect(bad);
    f = facts_get(facts, "hsa.gpu_agents");
    assert_string_equal(f->value.list.items[0].string, "gfx1031");
}

/* A port in use by somebody is reported as free, or as used when it is only connected to. */
static void listeners_are_found_by_their_socket(void **state)
{
    (void)state;
    static const char *const env[] = {"MASTER_PORT=12345", NULL};
    temp_write(
        "/proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n"
        "   1: 0100007F:72D8 0100007F:1234 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1\n"
        "   2: 00000000:3039 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1\n");
    temp_link("/proc/77/fd/3", "socket:[4711]");
    temp_write("/proc/77/comm", "torchrun\n");
    collect(env);
    assert_string_equal(facts_get_string(facts, "net.port.29500.owner", ""), "torchrun");
    expect_state("net.port.29400.owner", FACT_ABSENT);
    expect_state("net.port.12345.owner", FACT_DENIED);
}

/* A machine that refuses everything is reported as one without a GPU. */
static void a_machine_that_refuses_everything_has_no_known_facts_of_it(void **state)
{
    (void)state;
    make_gpu("", 0, "active\n");
    temp_write("/proc/version", "Linux version 6.8\n");
    temp_write("/.assay/denied", "/sys\n/proc\n/etc\n/usr\n/var\n/opt\n/lib\n/lib64\n");
    collect(NULL);
    expect_state("gpu.count", FACT_DENIED);
    expect_state("kfd.gpu_nodes", FACT_DENIED);
    expect_state("iommu.enabled", FACT_DENIED);
    expect_state("driver.amdgpu.in_tree", FACT_DENIED);
    expect_state("os.wsl", FACT_DENIED);
    expect_state("proc.launchers", FACT_DENIED);
    expect_state("glibc.version", FACT_DENIED);
    expect_state("dpkg.amdgpu-dkms.installed", FACT_DENIED);
    expect_state("group.render.gid", FACT_DENIED);
}

static void process(const char *pid, const char *stat, const char *cmdline, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    temp_write(path, stat);
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    temp_write_bytes(path, cmdline, n);
}

/* One run counted twice, since its launcher starts another; an editor counted as a run. */
static void launchers_are_counted_once_a_run(void **state)
{
    (void)state;
#define PROCESS(pid, stat, cmdline) process(pid, stat, cmdline, sizeof cmdline)
    PROCESS("10", "10 (llamafactory-cl) S 1 10\n",
            "/v/bin/python3\0/v/bin/llamafactory-cli\0train");
    PROCESS("11", "11 (torchrun) S 10 10\n", "/v/bin/python3\0/v/bin/torchrun\0x.py");
    PROCESS("12", "12 (python3) S 11 10\n", "/v/bin/python3\0-u\0x.py");
    PROCESS("20", "20 (a) b) Z 1 20\n", "");
    PROCESS("30", "30 (vim) S 1 30\n", "vim\0torchrun\0notes.txt");
    PROCESS("31", "31 (bash) S 1 31\n", "bash\0-c\0tail -f torchrun.log");
    PROCESS("40", "40 (accelerate) S 1 40\n", "/v/bin/python\0/v/bin/accelerate\0launch\0x.py");
    PROCESS("41", "41 (accelerate) S 1 41\n", "/v/bin/python\0/v/bin/accelerate\0env");
    PROCESS("50", "50 (python) S 1 50\n", "python\0-m\0torch.distributed.run\0x.py");
    PROCESS("60", "60 (broken", "python");
    collect(NULL);
    assert_int_equal(facts_get_int(facts, "proc.launchers", -1), 3);
    assert_true(facts_get_bool(facts, "proc.zombies_present", false));
}

/* Values of secrets end up in a report that is pasted into a public issue. */
static void secrets_of_the_environment_are_hidden(void **state)
{
    (void)state;
    static const char *const env[] = {"HF_TOKEN=hf_abc", "RANK=3", "=x", "NOEQUALS", NULL};
    collect(env);
    assert_string_equal(facts_get_string(facts, "env.HF_TOKEN", ""), "(hidden)");
    assert_string_equal(facts_get_string(facts, "env.RANK", ""), "3");
    assert_true(facts_get_bool(facts, "env.read", false));
}

/* A DKMS module built for another kernel counts as installed for this one. */
static void dkms_is_judged_for_the_running_kernel(void **state)
{
    (void)state;
    temp_write("/proc/sys/kernel/osrelease", "6.8.0-60-generic\n");
    temp_write("/var/lib/dkms/amdgpu/6.10.5/6.8.0-59-generic/x86_64/log/make.log", "");
    temp_link("/var/lib/dkms/amdgpu/kernel-6.8.0-59-generic-x86_64",
              "6.10.5/6.8.0-59-generic/x86_64");
    collect(NULL);
    assert_string_equal(facts_get_string(facts, "driver.amdgpu.dkms_status", ""), "added");
    assert_string_equal(facts_get_string(facts, "driver.amdgpu.dkms_version", ""), "6.10.5");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(root_of_a_namespace_has_no_power_over_foreign_nodes),
        CASE(refusals_beyond_permissions_are_told),
        CASE(a_suspended_gpu_is_left_alone),
        CASE(ras_counts_are_summed_over_blocks),
        CASE(gpu_metrics_with_lying_sizes_is_not_read),
        CASE(a_missing_xgmi_link_is_seen),
        CASE(unreadable_nodes_are_not_zero_gpus),
        CASE(overrides_of_one_node_go_before_that_of_all),
        CASE(listeners_are_found_by_their_socket),
        CASE(a_machine_that_refuses_everything_has_no_known_facts_of_it),
        CASE(launchers_are_counted_once_a_run),
        CASE(secrets_of_the_environment_are_hidden),
        CASE(processors_without_a_model_name),
        CASE(dkms_is_judged_for_the_running_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
