// SPDX-License-Identifier: Apache-2.0
/*
 * What lies between the GPUs: bridges and their ACS flags, IOMMU, topology, chipset. Bridges above a
 * device are the components of its sysfs path. An AMD card carries a switch of its own (two bridges
 * of vendor 0x1002 in front of the GPU), which says nothing about the machine and is left out.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/str.h"
#include "base/vec.h"

#include "facts/gpus.h"
#include "facts/pci.h"
#include "facts/read.h"

enum {
    MAX_PATH_PARTS = 32,
    CONFIG_WITHOUT_ROOT = 64, /* bytes of `config` that the kernel shows to ordinary users */
    CONFIG_SIZE = 4096
};

/* Root complex ("pci0000:00"), bridges in order, the device itself. */
struct bridge_path {
    const char *parts[MAX_PATH_PARTS];
    size_t count;
};

static bool is_address(struct str part)
{
    return part.n >= 12 && str_find_char(part, ':', 0) != SIZE_MAX &&
           str_find_char(part, '.', 0) != SIZE_MAX;
}

static struct bridge_path path_of_gpu(struct collect *c, int index)
{
    struct bridge_path path = {0};
    const char *address = facts_get_string(c->facts, gpu_key(c, index, "pci"), "");
    const char *target;
    if (fs_readlink(c->fs, c->scratch, pci_file(c, address, ""), &target, NULL) != ST_OK) {
        return path;
    }
    struct str rest = str_of(target);
    struct str part;
    while (str_cut(&rest, '/', &part) && path.count < MAX_PATH_PARTS) {
        const char *name = str_dup(c->scratch, part);
        bool card_switch = is_address(part) && rest.n != 0 &&
                           pci_number(c, name, "vendor") == GPU_VENDOR_AMD;
        if ((str_starts(part, "pci") || is_address(part)) && !card_switch) {
            path.parts[path.count++] = name;
        }
    }
    return path;
}

/* ACS control word of a bridge: extended capability 0x000d, ACSCtl at +6 (PCIe 6.0, 7.7.11). */
static bool acs_control(struct str config, unsigned *ret_control)
{
    uint64_t at = 0x100;
    for (int hops = 0; hops < 96 && at >= 0x100; hops++) {
        if (!bytes_has(config, at, 8)) {
            return false;
        }
        uint32_t head = bytes_le32(config.p + at);
        if ((head & 0xffff) == 0x000d) {
            *ret_control = bytes_le16(config.p + at + 6);
            return true;
        }
        at = head >> 20;
    }
    return false;
}

struct acs {
    unsigned flags;
    size_t bridges;
    size_t hidden; /* bridges whose extended configuration this user may not read */
};

static void add_bridge(struct collect *c, struct acs *acs, const char *address)
{
    struct str config;
    unsigned control;
    acs->bridges++;
    if (fs_read(c->fs, c->scratch, pci_file(c, address, "config"), CONFIG_SIZE, &config, NULL) !=
            ST_OK ||
        config.n <= CONFIG_WITHOUT_ROOT) {
        acs->hidden++;
    } else if (acs_control(config, &control)) {
        acs->flags |= control;
    }
}

/* Flags of the bridges above GPUs: only those are in the way of traffic between them. */
static void collect_acs(struct collect *c)
{
    static const char *const bits[] = {"SrcValid",    "TransBlk",   "ReqRedir",   "CmpltRedir",
                                       "UpstreamFwd", "EgressCtrl", "DirectTrans"};
    const char *source = PCI_FOLDER "/*/config";
    struct acs acs = {0};
    for (int i = 0; i < gpus_count(c); i++) {
        struct bridge_path path = path_of_gpu(c, i);
        for (size_t p = 1; p + 1 < path.count; p++) {
            add_bridge(c, &acs, path.parts[p]);
        }
    }
    if (gpus_count(c) < 1) {
        facts_set_state(c->facts, "pcie.acs", FACT_NOT_APPLICABLE, source, "no GPU");
    } else if (acs.bridges == 0) {
        facts_set_state(c->facts, "pcie.acs", FACT_ABSENT, source,
                        "no bridge is visible above a GPU");
    } else if (acs.hidden != 0) {
        facts_set_state(c->facts, "pcie.acs", FACT_DENIED, source,
                        "extended configuration space is shown to root only");
    } else {
        const char *on[ARRAY_LEN(bits)];
        size_t n = 0;
        for (size_t b = 0; b < ARRAY_LEN(bits); b++) {
            if ((acs.flags >> b & 1) != 0) {
                on[n++] = bits[b];
            }
        }
        facts_strings(c->facts, "pcie.acs", on, n, source);
    }
}

/* Translated or passthrough: of the first GPU's group, else of the first group. */
static void collect_iommu_mode(struct collect *c, const char *first_group)
{
    const char *folder = "/sys/kernel/iommu_groups";
    const char *path = arena_fmt(c->scratch, "%s/%s/type", folder, first_group);
    struct str type;
    struct err err = {0};
    if (gpus_count(c) > 0 && fs_exists(c->fs, c->scratch, gpu_sysfs(c, 0, "iommu_group/type"))) {
        path = gpu_sysfs(c, 0, "iommu_group/type");
    }
    if (fs_read_trimmed(c->fs, c->scratch, path, &type, &err) != ST_OK) {
        facts_set_error(c->facts, "iommu.mode", path, &err);
    } else if (str_is(type, "identity")) {
        facts_string(c->facts, "iommu.mode", "passthrough", path);
    } else if (str_starts(type, "DMA")) {
        facts_string(c->facts, "iommu.mode", "translated", path); /* DMA, DMA-FQ */
    } else {
        facts_set_state(c->facts, "iommu.mode", FACT_UNREADABLE, path,
                        arena_fmt(c->scratch, "a group type of '%.40s' is neither", type.p));
    }
}

static void collect_iommu(struct collect *c)
{
    const char *folder = "/sys/class/iommu";
    const char *groups = "/sys/kernel/iommu_groups";
    const char *const *names = NULL;
    size_t count = 0;
    struct err err = {0};
    bool amd = false;
    bool intel = false;
    if (fs_list(c->fs, c->scratch, folder, &names, &count, &err) != ST_OK) {
        facts_set_error(c->facts, "iommu.vendor", folder, &err);
    } else {
        for (size_t i = 0; i < count; i++) {
            amd = amd || strncmp(names[i], "ivhd", 4) == 0;
            intel = intel || strncmp(names[i], "dmar", 4) == 0;
        }
        if (amd || intel) {
            facts_string(c->facts, "iommu.vendor", amd ? "amd" : "intel", folder);
        } else {
            facts_set_state(c->facts, "iommu.vendor", FACT_ABSENT, folder,
                            "no IOMMU is registered");
        }
    }
    count = 0;
    if (fs_list(c->fs, c->scratch, groups, &names, &count, &err) != ST_OK &&
        err.status != ST_ABSENT) {
        facts_set_error(c->facts, "iommu.enabled", groups, &err);
        facts_set_error(c->facts, "iommu.mode", groups, &err);
        return;
    }
    facts_bool(c->facts, "iommu.enabled", count != 0, groups);
    if (count == 0) {
        facts_set_state(c->facts, "iommu.mode", FACT_NOT_APPLICABLE, groups, "no IOMMU is active");
    } else {
        collect_iommu_mode(c, names[0]);
    }
}

/* Farness of a pair as nvidia-smi topo counts it; larger is farther. */
enum distance {
    DISTANCE_PIX = 0, /* one switch */
    DISTANCE_PXB,     /* several switches */
    DISTANCE_PHB,     /* the root complex */
    DISTANCE_NODE,    /* two root complexes of one NUMA node */
    DISTANCE_SYS,     /* NUMA nodes */
    DISTANCE_UNKNOWN
};

static enum distance distance_of(struct collect *c, int a, int b)
{
    struct bridge_path pa = path_of_gpu(c, a);
    struct bridge_path pb = path_of_gpu(c, b);
    size_t same = 0;
    if (pa.count < 2 || pb.count < 2) {
        return DISTANCE_UNKNOWN;
    }
    while (same < pa.count && same < pb.count && strcmp(pa.parts[same], pb.parts[same]) == 0) {
        same++;
    }
    if (same == 0) {
        int64_t node_a = facts_get_int(c->facts, gpu_key(c, a, "numa_node"), -1);
        int64_t node_b = facts_get_int(c->facts, gpu_key(c, b, "numa_node"), -1);
        bool one_node = facts_get_int(c->facts, "numa.node_count", 0) == 1;
        return one_node || (node_a >= 0 && node_a == node_b) ? DISTANCE_NODE : DISTANCE_SYS;
    }
    if (same == 1) {
        return DISTANCE_PHB;
    }
    /* Below the common bridge: one downstream port and the GPU itself on each side. */
    return pa.count - same <= 2 && pb.count - same <= 2 ? DISTANCE_PIX : DISTANCE_PXB;
}

static void collect_distance(struct collect *c)
{
    static const char *const names[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
    int64_t count = gpus_count(c) < 64 ? gpus_count(c) : 64;
    enum distance farthest = DISTANCE_PIX;
    if (count < 2) {
        facts_set_state(c->facts, "pcie.topology", FACT_NOT_APPLICABLE, PCI_FOLDER,
                        count == 0 ? "no GPU" : "one GPU");
        return;
    }
    for (int a = 0; a < count; a++) {
        for (int b = a + 1; b < count; b++) {
            enum distance d = distance_of(c, a, b);
            farthest = d > farthest ? d : farthest;
        }
    }
    if (farthest == DISTANCE_UNKNOWN) {
        facts_set_state(c->facts, "pcie.topology", FACT_UNREADABLE, PCI_FOLDER,
                        "a GPU has no path through bridges");
    } else {
        facts_string(c->facts, "pcie.topology", names[farthest], PCI_FOLDER);
    }
}

/* True when the root port belongs to an Intel chipset (devices 1b to 1d of bus 0), not to the CPU. */
static bool intel_chipset_port(struct collect *c, const char *address)
{
    struct str s = str_of(address);
    uint64_t device;
    return pci_number(c, address, "vendor") == 0x8086 && s.n == 12 &&
           strncmp(s.p + 5, "00:", 3) == 0 &&
           str_to_u64(str_slice(s, 8, 10), 16, &device) == ST_OK && device >= 0x1b &&
           device <= 0x1d;
}

static void collect_switch(struct collect *c)
{
    const char *key = "pcie.gpu_behind_switch";
    for (int i = 0; i < gpus_count(c); i++) {
        if (facts_get_bool(c->facts, gpu_key(c, i, "integrated"), false)) {
            continue; /* inside the processor */
        }
        struct bridge_path path = path_of_gpu(c, i);
        if (path.count < 2) {
            facts_set_state(c->facts, key, FACT_UNREADABLE, PCI_FOLDER,
                            "the GPU has no path through bridges");
        } else {
            bool behind = path.count > 3 ||
                          (path.count == 3 && intel_chipset_port(c, path.parts[1]));
            facts_bool(c->facts, key, behind, gpu_sysfs(c, i, ""));
        }
        return;
    }
    facts_set_state(c->facts, key, FACT_NOT_APPLICABLE, PCI_FOLDER, "no GPU in a slot");
}

/* Names of the host bridge and of the ISA bridge, in which chipset makers put theirs. */
static void collect_chipset(struct collect *c, const char *const *names, size_t count)
{
    struct strbuf out;
    strbuf_init(&out, c->scratch, 400);
    int64_t host[2] = {-1, -1};
    for (size_t i = 0; i < count; i++) {
        int64_t class = pci_number(c, names[i], "class");
        bool first_bridge = strcmp(names[i], "0000:00:00.0") == 0;
        if (!first_bridge && class >> 8 != PCI_SUBCLASS_ISA) {
            continue;
        }
        int64_t vendor = pci_number(c, names[i], "vendor");
        int64_t device = pci_number(c, names[i], "device");
        const char *name = vendor >= 0 && device >= 0 ? pci_ids_name(c, vendor, device) : NULL;
        if (name != NULL) {
            strbuf_fmt(&out, "%s%s", out.n != 0 ? "; " : "", name);
        }
        if (first_bridge) {
            host[0] = vendor;
            host[1] = device;
        }
    }
    const char *source = PCI_FOLDER "/0000:00:00.0";
    if (out.n != 0) {
        facts_string(c->facts, "board.chipset", out.p, source);
    } else if (host[0] >= 0) {
        facts_set_state(c->facts, "board.chipset", FACT_ABSENT, source,
                        arena_fmt(c->scratch, "no pci.ids here that names %04x:%04x",
                                  (unsigned)host[0], (unsigned)host[1]));
    } else {
        facts_set_state(c->facts, "board.chipset", FACT_ABSENT, source,
                        "no host bridge is visible");
    }
}

void pcie_facts(struct collect *c, const char *const *names, size_t count)
{
    collect_acs(c);
    collect_iommu(c);
    collect_distance(c);
    collect_switch(c);
    collect_chipset(c, names, count);
}
