// SPDX-License-Identifier: Apache-2.0
/* GPUs on the PCI bus: identity, name, driver, BAR 0, link. */
#include "facts/pci.h"

#include <string.h>

#include "base/str.h"

#include "facts/gpus.h"
#include "facts/read.h"

enum {
    MAX_GPUS = 1024,
    MAX_IDS = 16 << 20
};

const char *pci_file(struct collect *c, const char *address, const char *file)
{
    return arena_fmt(c->scratch, PCI_FOLDER "/%s/%s", address, file);
}

int64_t pci_number(struct collect *c, const char *address, const char *file)
{
    int64_t v;
    return read_int(c, pci_file(c, address, file), &v, NULL) == ST_OK ? v : -1;
}

/* Lines "vvvv  Vendor", below them "<tab>dddd  Device", subsystems with two tabs. */
static const char *name_in_ids(struct collect *c, struct str text, int64_t vendor, int64_t device)
{
    const char *vendor_line = arena_fmt(c->scratch, "%04x  ", (unsigned)vendor & 0xffff);
    const char *device_line = arena_fmt(c->scratch, "\t%04x  ", (unsigned)device & 0xffff);
    struct str line;
    bool inside = false;
    while (str_cut_line(&text, &line)) {
        if (line.n == 0 || line.p[0] == '#') {
            continue;
        }
        if (line.p[0] != '\t') {
            if (inside) {
                return NULL;
            }
            inside = str_starts(line, vendor_line);
        } else if (inside && str_starts(line, device_line)) {
            return str_dup(c->scratch, str_trim(str_slice(line, 7, line.n)));
        }
    }
    return NULL;
}

const char *pci_ids_name(struct collect *c, int64_t vendor, int64_t device)
{
    static const char *const files[] = {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct fs_map map;
        if (fs_map(c->fs, c->scratch, files[i], &map, NULL) == ST_OK) {
            struct str text = {.p = (const char *)map.p, .n = map.n < MAX_IDS ? map.n : MAX_IDS};
            const char *name = name_in_ids(c, text, vendor, device);
            fs_unmap(&map);
            return name;
        }
    }
    return NULL;
}

/* libdrm's list: "744C,<tab>C8,<tab>AMD Radeon RX 7900 XTX". */
static const char *amdgpu_ids_name(struct collect *c, int64_t device, int64_t revision)
{
    static const char *const files[] = {"/opt/amdgpu/share/libdrm/amdgpu.ids",
                                        "/usr/share/libdrm/amdgpu.ids"};
    for (size_t i = 0; i < ARRAY_LEN(files) && revision >= 0; i++) {
        struct str text;
        struct str line;
        if (fs_read(c->fs, c->scratch, files[i], MAX_IDS, &text, NULL) != ST_OK) {
            continue;
        }
        while (str_cut_line(&text, &line)) {
            struct str id;
            struct str rev;
            uint64_t id_number;
            uint64_t rev_number;
            if (str_cut(&line, ',', &id) && str_cut(&line, ',', &rev) &&
                str_to_u64(id, 16, &id_number) == ST_OK &&
                str_to_u64(rev, 16, &rev_number) == ST_OK && id_number == (uint64_t)device &&
                rev_number == (uint64_t)revision) {
                return str_dup(c->scratch, str_trim(line));
            }
        }
    }
    return NULL;
}

/* Size of BAR 0: first line of `resource`, "start end flags". */
static void read_bar0(struct collect *c, int index, const char *address)
{
    const char *key = gpu_key(c, index, "bar0_bytes");
    const char *path = pci_file(c, address, "resource");
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
    const char *path = pci_file(c, address, "driver");
    const char *target;
    struct err err = {0};
    if (fs_readlink(c->fs, c->scratch, path, &target, &err) != ST_OK) {
        if (err.status == ST_ABSENT) {
            facts_set_state(c->facts, key, FACT_ABSENT, path, "no driver is bound to the device");
        } else {
            facts_set_error(c->facts, key, path, &err);
        }
        return;
    }
    const char *slash = strrchr(target, '/');
    facts_string(c->facts, key, slash != NULL ? slash + 1 : target, path);
}

/* "16.0 GT/s PCIe", "Unknown" when the link is down. */
static void read_link(struct collect *c, int index, const char *address)
{
    read_int_fact(c, gpu_key(c, index, "pcie_width"), pci_file(c, address, "current_link_width"),
                  1);
    read_int_fact(c, gpu_key(c, index, "pcie_max_width"), pci_file(c, address, "max_link_width"),
                  1);
    read_string_fact(c, gpu_key(c, index, "pcie_speed"),
                     pci_file(c, address, "current_link_speed"));
}

/* The driver's own name first, then lists that know the revision, then pci.ids. */
static void record_name(struct collect *c, int index, const char *address,
                        const struct gpu_model *model, int64_t vendor, int64_t device,
                        int64_t revision)
{
    const char *key = gpu_key(c, index, "name");
    const char *path = pci_file(c, address, "product_name");
    const char *found;
    struct str name;
    if (fs_read_trimmed(c->fs, c->scratch, path, &name, NULL) == ST_OK && name.n != 0) {
        facts_string(c->facts, key, name.p, path);
    } else if (vendor == GPU_VENDOR_AMD && (found = amdgpu_ids_name(c, device, revision)) != NULL) {
        facts_string(c->facts, key, found, "amdgpu.ids");
    } else if (model != NULL) {
        facts_string(c->facts, key, model->name, "table of PCI ids");
    } else if ((found = pci_ids_name(c, vendor, device)) != NULL) {
        facts_string(c->facts, key, found, "pci.ids");
    } else {
        facts_set_state(c->facts, key, FACT_ABSENT, path,
                        "neither the driver nor a list of PCI ids names it");
    }
}

static void record_target(struct collect *c, int index, const struct gpu_model *model, bool amd)
{
    const char *table = "table of PCI ids";
    const char *mine = gpu_key(c, index, amd ? "gfx" : "compute_capability");
    const char *other = gpu_key(c, index, amd ? "compute_capability" : "gfx");
    if (model != NULL) {
        facts_bool(c->facts, gpu_key(c, index, "integrated"), model->integrated, table);
        facts_string(c->facts, mine, model->target, table);
    } else {
        facts_set_state(c->facts, gpu_key(c, index, "integrated"), FACT_ABSENT, table,
                        "not in the table");
        facts_set_state(c->facts, mine, FACT_ABSENT, table, "not in the table");
    }
    facts_set_state(c->facts, other, FACT_NOT_APPLICABLE, table,
                    amd ? "not an NVIDIA GPU" : "not an AMD GPU");
}

static void record_gpu(struct collect *c, int index, const char *address, int64_t vendor,
                       int64_t device)
{
    struct facts *f = c->facts;
    int64_t revision = pci_number(c, address, "revision");
    const struct gpu_model *model = gpu_model_find(vendor, device, revision);
    facts_string(f, gpu_key(c, index, "vendor"), arena_fmt(c->scratch, "0x%04x", (unsigned)vendor),
                 pci_file(c, address, "vendor"));
    facts_string(f, gpu_key(c, index, "device_id"),
                 arena_fmt(c->scratch, "0x%04x", (unsigned)device & 0xffff),
                 pci_file(c, address, "device"));
    facts_string(f, gpu_key(c, index, "pci"), address, PCI_FOLDER);
    record_name(c, index, address, model, vendor, device, revision);
    record_target(c, index, model, vendor == GPU_VENDOR_AMD);
    read_driver(c, index, address);
    read_bar0(c, index, address);
    read_link(c, index, address);
    read_string_fact(c, gpu_key(c, index, "runtime_status"),
                     pci_file(c, address, "power/runtime_status"));
    read_int_fact(c, gpu_key(c, index, "numa_node"), pci_file(c, address, "numa_node"), 1);
}

/* GPUs that compute: display controllers and accelerators of AMD and NVIDIA. Names are sorted, so
 * the order is that of PCI addresses. */
static void collect_gpus(struct collect *c, const char *const *names, size_t count)
{
    int found = 0;
    int unreadable = 0;
    for (size_t i = 0; i < count && found < MAX_GPUS; i++) {
        int64_t class = pci_number(c, names[i], "class");
        int64_t vendor = pci_number(c, names[i], "vendor");
        int64_t device = pci_number(c, names[i], "device");
        int64_t base = class < 0 ? -1 : class >> 16;
        unreadable += class < 0 || vendor < 0 || device < 0;
        if ((base == PCI_CLASS_DISPLAY || base == PCI_CLASS_ACCELERATOR) &&
            (vendor == GPU_VENDOR_AMD || vendor == GPU_VENDOR_NVIDIA) && device >= 0) {
            record_gpu(c, found++, names[i], vendor, device);
        }
    }
    if (found == 0 && unreadable != 0) {
        facts_set_state(c->facts, "gpu.count", FACT_UNREADABLE, PCI_FOLDER,
                        "devices are there whose class or vendor cannot be read");
    } else {
        facts_int(c->facts, "gpu.count", found, PCI_FOLDER);
    }
}

void collect_pci(struct collect *c)
{
    const char *const *names = NULL;
    size_t count = 0;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, PCI_FOLDER, &names, &count, &err) == ST_OK) {
        collect_gpus(c, names, count);
    } else if (err.status == ST_ABSENT) {
        facts_int(c->facts, "gpu.count", 0, PCI_FOLDER); /* no PCI bus at all */
    } else {
        facts_set_error(c->facts, "gpu.count", PCI_FOLDER, &err);
    }
    pcie_facts(c, names, count);
}
