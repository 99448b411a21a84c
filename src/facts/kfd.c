// SPDX-License-Identifier: Apache-2.0
/*
 * AMD's compute driver as sysfs shows it: /sys/class/kfd/kfd/topology/nodes/N. Numbers in
 * `properties` are decimal. gfx_target_version decodes as major*10000 + minor*100 + step, written
 * gfx<major><minor hex><step hex> (libhsakmt).
 */
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "facts/gpus.h"
#include "facts/read.h"

#define KFD_NODES "/sys/class/kfd/kfd/topology/nodes"
#define KFD_PROC  "/sys/class/kfd/kfd/proc"

enum {
    LINK_PCIE = 2,
    LINK_XGMI = 11,
    MAX_PROPERTIES = 65536
};

static bool property(struct str text, const char *name, int64_t *ret_value)
{
    return str_to_i64(read_line_value(text, name, " \t"), 10, ret_value) == ST_OK;
}

static const char *gfx_name(struct collect *c, int64_t version)
{
    return arena_fmt(c->scratch, "gfx%d%x%x", (int)(version / 10000 % 100),
                     (unsigned)(version / 100 % 100), (unsigned)(version % 100));
}

/* location_id is bus<<8 | device<<3 | function; the domain stands beside it. */
static const char *pci_address(struct collect *c, struct str text)
{
    int64_t location;
    int64_t domain = 0;
    if (!property(text, "location_id", &location)) {
        return "";
    }
    if (!property(text, "domain", &domain)) {
        domain = 0;
    }
    return arena_fmt(c->scratch, "%04x:%02x:%02x.%x", (unsigned)domain & 0xffff,
                     (unsigned)(location >> 8) & 0xff, (unsigned)(location >> 3) & 0x1f,
                     (unsigned)location & 7);
}

static void record_node(struct collect *c, int index, const char *path, struct str text)
{
    struct facts *f = c->facts;
    int64_t v;
    if (property(text, "gfx_target_version", &v) && v > 0 && v < 1000000) {
        facts_int(f, gpu_key(c, index, "gfx_target_version"), v, path);
        facts_string(f, gpu_key(c, index, "gfx"), gfx_name(c, v), path);
    }
    if (property(text, "wave_front_size", &v)) {
        facts_int(f, gpu_key(c, index, "wave_size"), v, path);
    }
    if (property(text, "lds_size_in_kb", &v) && v >= 0 && v < 1 << 20) {
        facts_int(f, gpu_key(c, index, "lds_bytes"), v * 1024, path);
    }
    if (property(text, "cpu_cores_count", &v) && v > 0) {
        facts_bool(f, gpu_key(c, index, "integrated"), true, path);
    }
    if (property(text, "drm_render_minor", &v)) {
        facts_int(f, gpu_key(c, index, "render_minor"), v, path);
    }
}

/* xgmi when any GPU is linked to another by XGMI, else pcie. */
static void collect_links(struct collect *c, const char *const *nodes, size_t count)
{
    bool xgmi = false;
    bool pcie = false;
    size_t peers = 0;
    for (size_t i = 0; i < count; i++) {
        static const char *const folders[] = {"io_links", "p2p_links"};
        for (size_t k = 0; k < ARRAY_LEN(folders); k++) {
            const char *folder = arena_fmt(c->scratch, KFD_NODES "/%s/%s", nodes[i], folders[k]);
            const char *const *links;
            size_t n = 0;
            if (fs_list(c->fs, c->scratch, folder, &links, &n, NULL) != ST_OK) {
                continue;
            }
            for (size_t l = 0; l < n; l++) {
                struct str text;
                int64_t type;
                const char *file = arena_fmt(c->scratch, "%s/%s/properties", folder, links[l]);
                if (fs_read(c->fs, c->scratch, file, MAX_PROPERTIES, &text, NULL) == ST_OK &&
                    property(text, "type", &type)) {
                    xgmi = xgmi || type == LINK_XGMI;
                    pcie = pcie || type == LINK_PCIE;
                    peers += k == 1;
                }
            }
        }
    }
    if (xgmi || pcie) {
        facts_string(c->facts, "p2p.links", xgmi ? "xgmi" : "pcie", KFD_NODES "/*/io_links");
    } else {
        facts_set_state(c->facts, "p2p.links", FACT_ABSENT, KFD_NODES, "no link is listed");
    }
    if (gpus_count(c) < 2) {
        facts_set_state(c->facts, "p2p.peer_access", FACT_NOT_APPLICABLE, KFD_NODES, "one GPU");
    } else {
        facts_bool(c->facts, "p2p.peer_access", xgmi || peers != 0, KFD_NODES "/*/p2p_links");
    }
    facts_set_state(c->facts, "p2p.xgmi_all_up", xgmi ? FACT_UNREADABLE : FACT_NOT_APPLICABLE,
                    KFD_NODES, xgmi ? "link state needs amd-smi" : "no xGMI link");
}

static void collect_processes(struct collect *c)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, KFD_PROC, &names, &count, &err) != ST_OK) {
        facts_set_error(c->facts, "kfd.procs", KFD_PROC, &err);
        return;
    }
    VEC_OF(const char *) alive = {0};
    for (size_t i = 0; i < count; i++) {
        if (fs_exists(c->fs, c->scratch, arena_fmt(c->scratch, "/proc/%s/stat", names[i]))) {
            *VEC_PUSH(c->scratch, &alive) = names[i];
        }
    }
    facts_strings(c->facts, "kfd.procs", alive.items, alive.count, KFD_PROC);
}

static void no_topology(struct collect *c, const struct err *err)
{
    static const char *const keys[] = {"kfd.gpu_nodes", "p2p.links", "p2p.peer_access",
                                       "p2p.xgmi_all_up"};
    static const char *const fields[] = {"gfx_target_version", "wave_size", "lds_bytes"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        facts_set_error(c->facts, keys[i], KFD_NODES, err);
    }
    for (int g = 0; g < gpus_count(c); g++) {
        bool amd = strcmp(gpu_vendor(c, g), "0x1002") == 0;
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            if (amd) {
                facts_set_error(c->facts, gpu_key(c, g, fields[i]), KFD_NODES, err);
            } else {
                facts_set_state(c->facts, gpu_key(c, g, fields[i]), FACT_NOT_APPLICABLE, KFD_NODES,
                                "not an AMD GPU");
            }
        }
    }
}

void collect_kfd(struct collect *c)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    collect_processes(c);
    if (fs_list(c->fs, c->scratch, KFD_NODES, &names, &count, &err) != ST_OK) {
        no_topology(c, &err);
        return;
    }
    int64_t gpu_nodes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *path = arena_fmt(c->scratch, KFD_NODES "/%s/properties", names[i]);
        struct str text;
        int64_t simd = 0;
        /* An empty file is another container's GPU: not visible, not a fault. */
        if (fs_read(c->fs, c->scratch, path, MAX_PROPERTIES, &text, NULL) != ST_OK ||
            !property(text, "simd_count", &simd) || simd <= 0) {
            continue;
        }
        gpu_nodes++;
        int index = gpus_index(c, pci_address(c, text));
        if (index >= 0) {
            record_node(c, index, path, text);
            facts_string(c->facts, gpu_key(c, index, "kfd_node"), names[i], path);
        }
    }
    facts_int(c->facts, "kfd.gpu_nodes", gpu_nodes, KFD_NODES);
    collect_links(c, names, count);
}
