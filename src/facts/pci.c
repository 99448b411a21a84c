// SPDX-License-Identifier: Apache-2.0
/* GPUs on the PCI bus, their links and BARs; IOMMU; ACS of the bridges; topology between GPUs. */
#include <string.h>

#include "base/bytes.h"
#include "base/str.h"
#include "base/vec.h"

#include "facts/gpus.h"
#include "facts/read.h"

#define PCI_FOLDER "/sys/bus/pci/devices"

enum {
    CLASS_DISPLAY = 0x03,
    CLASS_ACCELERATOR = 0x12,
    CLASS_BRIDGE = 0x06,
    MAX_GPUS = 1024
};

static const char *device_file(struct collect *c, const char *address, const char *file)
{
    return arena_fmt(c->scratch, PCI_FOLDER "/%s/%s", address, file);
}

static int64_t hex_file(struct collect *c, const char *address, const char *file)
{
    int64_t v;
    return read_int(c, device_file(c, address, file), &v, NULL) == ST_OK ? v : -1;
}

/* Size of BAR 0: first line of `resource`, "start end flags". */
static void read_bar0(struct collect *c, int index, const char *address)
{
    const char *key = gpu_key(c, index, "bar0_bytes");
    const char *path = device_file(c, address, "resource");
    struct str text;
    struct str line;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, path, 65536, &text, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    uint64_t start;
    uint64_t end;
    struct str a;
    struct str b;
    if (str_cut_line(&text, &line) && str_cut(&line, ' ', &a) && str_cut(&line, ' ', &b) &&
        str_to_u64(a, 16, &start) == ST_OK && str_to_u64(b, 16, &end) == ST_OK && end >= start &&
        end - start < (UINT64_C(1) << 60)) {
        facts_int(c->facts, key, end != 0 ? (int64_t)(end - start + 1) : 0, path);
    } else {
        facts_set_state(c->facts, key, FACT_UNREADABLE, path,
                        "first line is not 'start end flags'");
    }
}

static void read_driver(struct collect *c, int index, const char *address)
{
    const char *key = gpu_key(c, index, "driver");
    const char *path = device_file(c, address, "driver");
    const char *target;
    struct err err = {0};
    if (fs_readlink(c->fs, c->scratch, path, &target, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    const char *slash = strrchr(target, '/');
    facts_string(c->facts, key, slash != NULL ? slash + 1 : target, path);
}

static void record_gpu(struct collect *c, int index, const char *address, int64_t vendor,
                       int64_t device)
{
    struct facts *f = c->facts;
    facts_string(f, gpu_key(c, index, "vendor"), arena_fmt(c->scratch, "0x%04x", (unsigned)vendor),
                 device_file(c, address, "vendor"));
    facts_string(f, gpu_key(c, index, "device_id"),
                 arena_fmt(c->scratch, "0x%04x", (unsigned)device),
                 device_file(c, address, "device"));
    facts_string(f, gpu_key(c, index, "pci"), address, PCI_FOLDER);
    read_driver(c, index, address);
    read_bar0(c, index, address);
    read_int_fact(c, gpu_key(c, index, "pcie_width"), device_file(c, address, "current_link_width"),
                  1);
    read_int_fact(c, gpu_key(c, index, "pcie_max_width"), device_file(c, address, "max_link_width"),
                  1);
    read_string_fact(c, gpu_key(c, index, "runtime_status"),
                     device_file(c, address, "power/runtime_status"));
    const struct gpu_model *m = gpu_model_find((unsigned)vendor, (unsigned)device);
    const char *table = "table of PCI ids";
    const char *name_file = device_file(c, address, "product_name");
    struct str name;
    if (fs_read_trimmed(c->fs, c->scratch, name_file, &name, NULL) == ST_OK && name.n != 0) {
        facts_string(f, gpu_key(c, index, "name"), name.p, name_file);
    } else if (m != NULL) {
        facts_string(f, gpu_key(c, index, "name"), m->name, table);
    } else {
        facts_set_state(f, gpu_key(c, index, "name"), FACT_ABSENT, name_file,
                        "neither the driver nor the table of PCI ids names it");
    }
    if (m != NULL) {
        facts_bool(f, gpu_key(c, index, "integrated"), m->integrated, table);
    } else {
        facts_set_state(f, gpu_key(c, index, "integrated"), FACT_ABSENT, table, "not in the table");
    }
    if (m != NULL && m->gfx != NULL) {
        facts_string(f, gpu_key(c, index, "gfx"), m->gfx, table);
    } else {
        facts_set_state(f, gpu_key(c, index, "gfx"),
                        vendor == 0x1002 ? FACT_ABSENT : FACT_NOT_APPLICABLE, table,
                        vendor == 0x1002 ? "not in the table, and KFD was not asked yet"
                                         : "not an AMD GPU");
    }
}

/* GPUs that compute: display controllers and accelerators of AMD and NVIDIA. */
static void collect_gpus(struct collect *c, const char *const *names, size_t count)
{
    int found = 0;
    for (size_t i = 0; i < count && found < MAX_GPUS; i++) {
        int64_t class = hex_file(c, names[i], "class");
        int64_t vendor = hex_file(c, names[i], "vendor");
        int64_t device = hex_file(c, names[i], "device");
        int64_t base = class < 0 ? -1 : class >> 16;
        if ((base != CLASS_DISPLAY && base != CLASS_ACCELERATOR) ||
            (vendor != 0x1002 && vendor != 0x10de) || device < 0) {
            continue;
        }
        record_gpu(c, found++, names[i], vendor, device);
    }
    facts_int(c->facts, "gpu.count", found, PCI_FOLDER);
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

static void collect_acs(struct collect *c, const char *const *names, size_t count)
{
    static const char *const bits[] = {"SrcValid",    "TransBlk",   "ReqRedir",   "CmpltRedir",
                                       "UpstreamFwd", "EgressCtrl", "DirectTrans"};
    unsigned all = 0;
    bool short_config = false;
    size_t bridges = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t class = hex_file(c, names[i], "class");
        if (class < 0 || class >> 16 != CLASS_BRIDGE) {
            continue;
        }
        struct str config;
        unsigned control = 0;
        if (fs_read(c->fs, c->scratch, device_file(c, names[i], "config"), 8192, &config, NULL) !=
            ST_OK) {
            continue;
        }
        bridges++;
        short_config = short_config || config.n <= 256; /* what a user without CAP_SYS_ADMIN gets */
        if (acs_control(config, &control)) {
            all |= control;
        }
    }
    const char *source = PCI_FOLDER "/*/config";
    if (bridges == 0) {
        facts_set_state(c->facts, "pcie.acs", FACT_ABSENT, source, "no PCI bridge is visible");
    } else if (short_config && all == 0) {
        facts_set_state(c->facts, "pcie.acs", FACT_DENIED, source,
                        "extended configuration space needs root");
    } else {
        const char *on[ARRAY_LEN(bits)];
        size_t n = 0;
        for (size_t b = 0; b < ARRAY_LEN(bits); b++) {
            if ((all >> b & 1) != 0) {
                on[n++] = bits[b];
            }
        }
        facts_strings(c->facts, "pcie.acs", on, n, source);
    }
}

static void collect_iommu(struct collect *c)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    const char *folder = "/sys/class/iommu";
    if (fs_list(c->fs, c->scratch, folder, &names, &count, &err) != ST_OK) {
        count = 0;
    }
    bool amd = false;
    bool intel = false;
    for (size_t i = 0; i < count; i++) {
        amd = amd || strncmp(names[i], "ivhd", 4) == 0;
        intel = intel || strncmp(names[i], "dmar", 4) == 0;
    }
    if (amd || intel) {
        facts_string(c->facts, "iommu.vendor", amd ? "amd" : "intel", folder);
    } else {
        facts_set_state(c->facts, "iommu.vendor", FACT_ABSENT, folder, "no IOMMU is registered");
    }
    const char *groups = "/sys/kernel/iommu_groups";
    size_t group_count = 0;
    const char *const *group_names = NULL;
    if (fs_list(c->fs, c->scratch, groups, &group_names, &group_count, &err) != ST_OK &&
        err.status == ST_DENIED) {
        facts_set_error(c->facts, "iommu.enabled", groups, &err);
        facts_set_error(c->facts, "iommu.mode", groups, &err);
        return;
    }
    facts_bool(c->facts, "iommu.enabled", group_count != 0, groups);
    struct str type;
    const char *path = group_count != 0
                           ? arena_fmt(c->scratch, "%s/%s/type", groups, group_names[0])
                           : groups;
    if (group_count == 0) {
        facts_set_state(c->facts, "iommu.mode", FACT_ABSENT, groups, "no IOMMU group");
    } else if (fs_read_trimmed(c->fs, c->scratch, path, &type, &err) == ST_OK) {
        /* identity = passthrough; DMA, DMA-FQ = translated. */
        facts_string(c->facts, "iommu.mode",
                     str_is(type, "identity") ? "passthrough" : "translated", path);
    } else {
        facts_set_error(c->facts, "iommu.mode", path, &err);
    }
}

/* Bridges above a GPU: the components of its real sysfs path that look like PCI addresses. */
static size_t bridge_path(struct collect *c, const char *address, const char *ret_parts[32])
{
    const char *real;
    if (fs_is_live(c->fs)) {
        const char *target;
        if (fs_readlink(c->fs, c->scratch, device_file(c, address, ""), &target, NULL) != ST_OK) {
            return 0;
        }
        real = target;
    } else if (fs_realpath(c->fs, c->scratch, arena_fmt(c->scratch, PCI_FOLDER "/%s", address),
                           &real, NULL) != ST_OK) {
        return 0;
    }
    size_t n = 0;
    struct str rest = str_of(real);
    struct str part;
    while (str_cut(&rest, '/', &part) && n < 32) {
        if (str_starts(part, "pci") || (part.n == 12 && part.p[4] == ':')) {
            ret_parts[n++] = str_dup(c->scratch, part);
        }
    }
    return n;
}

static void collect_topology(struct collect *c)
{
    const char *a[32];
    const char *b[32];
    if (gpus_count(c) < 1) {
        facts_set_state(c->facts, "pcie.gpu_behind_switch", FACT_NOT_APPLICABLE, PCI_FOLDER,
                        "no GPU");
        facts_set_state(c->facts, "pcie.topology", FACT_NOT_APPLICABLE, PCI_FOLDER, "no GPU");
        return;
    }
    size_t na = bridge_path(c, facts_get_string(c->facts, gpu_key(c, 0, "pci"), ""), a);
    /* host bridge, root port, GPU is direct; AMD's own on-card switch adds two more. */
    bool amd = strcmp(gpu_vendor(c, 0), "0x1002") == 0;
    if (na == 0) {
        facts_set_state(c->facts, "pcie.gpu_behind_switch", FACT_UNREADABLE, PCI_FOLDER,
                        "the device has no path through bridges");
    } else {
        facts_bool(c->facts, "pcie.gpu_behind_switch", na > (amd ? 5u : 3u), PCI_FOLDER);
    }
    if (gpus_count(c) < 2) {
        facts_set_state(c->facts, "pcie.topology", FACT_NOT_APPLICABLE, PCI_FOLDER, "one GPU");
        return;
    }
    size_t nb = bridge_path(c, facts_get_string(c->facts, gpu_key(c, 1, "pci"), ""), b);
    size_t same = 0;
    while (same < na && same < nb && strcmp(a[same], b[same]) == 0) {
        same++;
    }
    if (na == 0 || nb == 0) {
        facts_set_state(c->facts, "pcie.topology", FACT_UNREADABLE, PCI_FOLDER, "no path");
    } else {
        facts_string(c->facts, "pcie.topology",
                     same == 0        ? "SYS"
                     : same == 1      ? "PHB"
                     : same + 2 >= na ? "PIX"
                                      : "PXB",
                     PCI_FOLDER);
    }
}

void collect_pci(struct collect *c)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, PCI_FOLDER, &names, &count, &err) == ST_OK) {
        collect_gpus(c, names, count);
        collect_acs(c, names, count);
    } else if (err.status == ST_ABSENT) {
        facts_int(c->facts, "gpu.count", 0, PCI_FOLDER);
        facts_set_error(c->facts, "pcie.acs", PCI_FOLDER, &err);
    } else {
        facts_set_error(c->facts, "gpu.count", PCI_FOLDER, &err);
        facts_set_error(c->facts, "pcie.acs", PCI_FOLDER, &err);
    }
    collect_iommu(c);
    collect_topology(c);
    facts_set_state(c->facts, "board.chipset", FACT_ABSENT, PCI_FOLDER,
                    "host bridge names are not in the table of PCI ids");
}
