// SPDX-License-Identifier: Apache-2.0
/*
 * AMD's compute driver as sysfs shows it: /sys/class/kfd/kfd. Numbers in `properties` are decimal.
 * gfx_target_version decodes as major*10000 + minor*100 + step, written gfx<major><minor hex><step
 * hex> (libhsakmt). An empty `properties` file is another container's GPU: not visible, no fault.
 */
#include <inttypes.h>
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
    LINK_NO_ATOMICS = 0x0c, /* 32-bit and 64-bit; CRAT_IOLINK_FLAGS_* of kfd_crat.h */
    LINK_NO_PEER = 0x10,
    MAX_PROPERTIES = 65536,
    MAX_NODES = 256,
    MAX_LINKS = 16384
};

struct kfd_node {
    const char *name; /* "1": the N of "GPU node-N" in messages */
    int64_t number;
    int gpu; /* index of gpu[], -1 for a node that is none of them */
    bool is_gpu;
    int64_t version; /* gfx_target_version, 0 when it has none */
    int64_t gpu_id;  /* -1 when it cannot be read */
};

struct kfd_link {
    int64_t from;
    int64_t to;
    int64_t type;
    int64_t flags;
};

struct kfd {
    VEC_OF(struct kfd_node) nodes;
    VEC_OF(struct kfd_link) links;
    int64_t gpu_nodes;
    size_t unreadable; /* nodes whose properties exist and cannot be read */
    struct err err;    /* of the last of them */
};

static bool property(struct str text, const char *name, int64_t *ret_value)
{
    return str_to_i64(read_line_value(text, name, " \t"), 10, ret_value) == ST_OK;
}

static int64_t property_or(struct str text, const char *name, int64_t fallback)
{
    int64_t v;
    return property(text, name, &v) ? v : fallback;
}

static const char *gfx_name(struct collect *c, int64_t version)
{
    return arena_fmt(c->scratch, "gfx%d%x%x", (int)(version / 10000 % 100),
                     (unsigned)(version / 100 % 100), (unsigned)(version % 100));
}

/* location_id is bus<<8 | device<<3 | function; the domain stands beside it. */
static const char *pci_address(struct collect *c, struct str text)
{
    int64_t location = property_or(text, "location_id", -1);
    int64_t domain = property_or(text, "domain", 0);
    if (location < 0) {
        return "";
    }
    return arena_fmt(c->scratch, "%04x:%02x:%02x.%x", (unsigned)domain & 0xffff,
                     (unsigned)(location >> 8) & 0xff, (unsigned)(location >> 3) & 0x1f,
                     (unsigned)location & 7);
}

static const char *const node_fields[] = {"gfx_target_version", "wave_size", "lds_bytes",
                                          "kfd_node", "render_minor"};

static void record_node(struct collect *c, const struct kfd_node *node, const char *path,
                        struct str text)
{
    struct facts *f = c->facts;
    int64_t v;
    for (size_t i = 0; i < ARRAY_LEN(node_fields); i++) {
        facts_set_state(f, gpu_key(c, node->gpu, node_fields[i]), FACT_ABSENT, path,
                        "the node has no such property");
    }
    if (property(text, "gfx_target_version", &v) && v > 0 && v < 1000000) {
        facts_int(f, gpu_key(c, node->gpu, "gfx_target_version"), v, path);
        facts_string(f, gpu_key(c, node->gpu, "gfx"), gfx_name(c, v), path);
    }
    if (property(text, "wave_front_size", &v) && v > 0) {
        facts_int(f, gpu_key(c, node->gpu, "wave_size"), v, path);
    }
    if (property(text, "lds_size_in_kb", &v) && v >= 0 && v < 1 << 20) {
        facts_int(f, gpu_key(c, node->gpu, "lds_bytes"), v * 1024, path);
    }
    if (property(text, "drm_render_minor", &v)) {
        facts_int(f, gpu_key(c, node->gpu, "render_minor"), v, path); /* -1: none */
    }
    if (property_or(text, "cpu_cores_count", 0) > 0) {
        facts_bool(f, gpu_key(c, node->gpu, "integrated"), true, path);
    }
    facts_string(f, gpu_key(c, node->gpu, "kfd_node"), node->name, path);
}

static void read_links(struct collect *c, const char *node, struct kfd *kfd)
{
    static const char *const folders[] = {"io_links", "p2p_links"};
    for (size_t k = 0; k < ARRAY_LEN(folders); k++) {
        const char *folder = arena_fmt(c->scratch, KFD_NODES "/%s/%s", node, folders[k]);
        const char *const *names;
        size_t count;
        if (fs_list(c->fs, c->scratch, folder, &names, &count, NULL) != ST_OK) {
            continue;
        }
        for (size_t i = 0; i < count && kfd->links.count < MAX_LINKS; i++) {
            struct str text;
            const char *file = arena_fmt(c->scratch, "%s/%s/properties", folder, names[i]);
            if (fs_read(c->fs, c->scratch, file, MAX_PROPERTIES, &text, NULL) == ST_OK) {
                *VEC_PUSH(c->scratch, &kfd->links) = (struct kfd_link){
                    .from = property_or(text, "node_from", -1),
                    .to = property_or(text, "node_to", -1),
                    .type = property_or(text, "type", 0),
                    .flags = property_or(text, "flags", 0)};
            }
        }
    }
}

static void read_node(struct collect *c, const char *name, struct kfd *kfd)
{
    const char *path = arena_fmt(c->scratch, KFD_NODES "/%s/properties", name);
    struct str text;
    struct err err = {0};
    struct kfd_node node = {.name = name, .gpu = -1, .gpu_id = -1};
    if (str_to_i64(str_of(name), 10, &node.number) != ST_OK) {
        return;
    }
    if (fs_read(c->fs, c->scratch, path, MAX_PROPERTIES, &text, &err) != ST_OK) {
        /* A node can go away while we look; one that is there and refuses is worth telling. */
        if (err.status != ST_ABSENT) {
            kfd->unreadable++;
            kfd->err = err;
        }
        return;
    }
    node.version = property_or(text, "gfx_target_version", 0);
    node.is_gpu = property_or(text, "simd_count", 0) > 0;
    if (node.is_gpu) {
        kfd->gpu_nodes++;
        node.gpu = gpus_index(c, pci_address(c, text));
        if (read_int(c, arena_fmt(c->scratch, KFD_NODES "/%s/gpu_id", name), &node.gpu_id, NULL) !=
            ST_OK) {
            node.gpu_id = -1;
        }
        /* Partitions of one card (CPX mode) are several nodes at one address: the first tells. */
        bool told = node.gpu >= 0 && facts_get(c->facts, gpu_key(c, node.gpu, "kfd_node")) != NULL;
        if (node.gpu >= 0 && !told) {
            record_node(c, &node, path, text);
        }
    }
    *VEC_PUSH(c->scratch, &kfd->nodes) = node;
    read_links(c, name, kfd);
}

static const struct kfd_node *node_by_number(const struct kfd *kfd, int64_t number)
{
    for (size_t i = 0; i < kfd->nodes.count; i++) {
        if (kfd->nodes.items[i].number == number) {
            return &kfd->nodes.items[i];
        }
    }
    return NULL;
}

/* A GPU that reaches the processor over PCIe without atomics cannot run ROCm kernels. */
static void collect_atomics(struct collect *c, const struct kfd *kfd)
{
    bool all = true;
    size_t seen = 0;
    for (size_t i = 0; i < kfd->links.count; i++) {
        const struct kfd_link *l = &kfd->links.items[i];
        const struct kfd_node *from = node_by_number(kfd, l->from);
        const struct kfd_node *to = node_by_number(kfd, l->to);
        if (l->type == LINK_PCIE && from != NULL && to != NULL && from->is_gpu && !to->is_gpu) {
            seen++;
            all = all && (l->flags & LINK_NO_ATOMICS) == 0;
        }
    }
    const char *source = KFD_NODES "/*/io_links";
    if (seen != 0) {
        facts_bool(c->facts, "pcie.atomics", all, source);
    } else {
        facts_set_state(c->facts, "pcie.atomics", FACT_NOT_APPLICABLE, source,
                        "no GPU is linked to the processor over PCIe");
    }
}

/* The link of one type between two GPU nodes, in one direction, or NULL. */
static const struct kfd_link *find_link(const struct kfd *kfd, int64_t from, int64_t to,
                                        int64_t type)
{
    for (size_t i = 0; i < kfd->links.count; i++) {
        const struct kfd_link *l = &kfd->links.items[i];
        if (l->from == from && l->to == to && l->type == type) {
            return l;
        }
    }
    return NULL;
}

/* Links between GPUs. In a hive the driver lists an xGMI link for every pair; a pair without one,
 * or a card left out of the hive, is a link that did not come up. */
static void collect_peers(struct collect *c, const struct kfd *kfd)
{
    const char *source = KFD_NODES "/*/{io,p2p}_links";
    size_t pairs = 0;
    size_t xgmi = 0;
    size_t peers = 0;
    for (size_t a = 0; a < kfd->nodes.count; a++) {
        for (size_t b = 0; b < kfd->nodes.count; b++) {
            const struct kfd_node *from = &kfd->nodes.items[a];
            const struct kfd_node *to = &kfd->nodes.items[b];
            if (a == b || !from->is_gpu || !to->is_gpu) {
                continue;
            }
            pairs++;
            const struct kfd_link *pcie = find_link(kfd, from->number, to->number, LINK_PCIE);
            bool fast = find_link(kfd, from->number, to->number, LINK_XGMI) != NULL;
            xgmi += fast;
            peers += fast || (pcie != NULL && (pcie->flags & LINK_NO_PEER) == 0);
        }
    }
    static const char *const keys[] = {"p2p.links", "p2p.peer_access", "p2p.xgmi_all_up"};
    if (pairs == 0) {
        read_set_states(c, keys, ARRAY_LEN(keys), FACT_NOT_APPLICABLE, source,
                        "fewer than two AMD GPUs");
        return;
    }
    facts_string(c->facts, "p2p.links", xgmi != 0 ? "xgmi" : "pcie", source);
    facts_bool(c->facts, "p2p.peer_access", peers == pairs, source);
    if (xgmi != 0) {
        facts_bool(c->facts, "p2p.xgmi_all_up", xgmi == pairs, source);
    } else {
        facts_set_state(c->facts, "p2p.xgmi_all_up", FACT_NOT_APPLICABLE, source,
                        "no xGMI between the GPUs");
    }
}

/* Process numbers in KFD are those of the host: inside a process namespace they cannot be compared
 * with /proc, so all count as alive there. */
static bool sees_host_pids(struct collect *c)
{
    const char *target;
    return fs_readlink(c->fs, c->scratch, "/proc/self/ns/pid", &target, NULL) != ST_OK ||
           strcmp(target, "pid:[4026531836]") == 0; /* PROC_PID_INIT_INO */
}

static bool collect_processes(struct collect *c, const char *const **ret_names, size_t *ret_count)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, KFD_PROC, &names, &count, &err) != ST_OK) {
        facts_set_error(c->facts, "kfd.procs", KFD_PROC, &err);
        return false;
    }
    bool compare = sees_host_pids(c);
    VEC_OF(const char *) alive = {0};
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] < '0' || names[i][0] > '9') {
            continue;
        }
        if (!compare ||
            fs_exists(c->fs, c->scratch, arena_fmt(c->scratch, "/proc/%s/stat", names[i]))) {
            *VEC_PUSH(c->scratch, &alive) = names[i];
        }
    }
    facts_strings(c->facts, "kfd.procs", alive.items, alive.count, KFD_PROC);
    *ret_names = alive.items;
    *ret_count = alive.count;
    return true;
}

/* KFD_PROC/<pid>/vram_<gpu_id> holds the bytes a process has on that GPU. */
static void collect_proc_count(struct collect *c, const struct kfd *kfd, const char *const *pids,
                               size_t count)
{
    for (size_t i = 0; i < kfd->nodes.count; i++) {
        const struct kfd_node *node = &kfd->nodes.items[i];
        if (node->gpu < 0 || node->gpu_id < 0) {
            continue;
        }
        int64_t users = 0;
        for (size_t p = 0; p < count; p++) {
            int64_t bytes;
            const char *file = arena_fmt(c->scratch, KFD_PROC "/%s/vram_%" PRId64, pids[p],
                                         node->gpu_id);
            users += read_int(c, file, &bytes, NULL) == ST_OK && bytes > 0;
        }
        facts_int(c->facts, gpu_key(c, node->gpu, "proc_count"), users, KFD_PROC);
    }
}

/* "10.3.0" -> 100300, as libhsakmt reads it; 0 when it is not of that form. */
static int64_t override_version(const char *text)
{
    int64_t parts[3];
    struct str rest = str_of(text);
    struct str part;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!str_cut(&rest, '.', &part) || str_to_i64(part, 10, &parts[i]) != ST_OK ||
            parts[i] < 0 || parts[i] > (i == 0 ? 63 : 255)) {
            return 0;
        }
    }
    return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

/* The agents as the HSA runtime will name them: KFD's GPUs with HSA_OVERRIDE_GFX_VERSION of the job
 * on top, that of one node (HSA_OVERRIDE_GFX_VERSION_<node>) before that of all. */
static void collect_agents(struct collect *c, const struct kfd *kfd)
{
    VEC_OF(const char *) agents = {0};
    const char *all = collect_env(c, "HSA_OVERRIDE_GFX_VERSION");
    for (size_t i = 0; i < kfd->nodes.count; i++) {
        const struct kfd_node *node = &kfd->nodes.items[i];
        if (!node->is_gpu) {
            continue;
        }
        const char *own = collect_env(
            c, arena_fmt(c->scratch, "HSA_OVERRIDE_GFX_VERSION_%" PRId64, node->number));
        const char *wanted = own != NULL ? own : all;
        int64_t version = wanted != NULL ? override_version(wanted) : node->version;
        *VEC_PUSH(c->scratch, &agents) = gfx_name(
            c, version > 0 && version < 1000000 ? version : node->version);
    }
    facts_strings(c->facts, "hsa.gpu_agents", agents.items, agents.count,
                  KFD_NODES " and HSA_OVERRIDE_GFX_VERSION");
}

/* What the topology would have told. Only NVML knows the same of NVIDIA's GPUs. */
static void no_topology(struct collect *c, const struct err *err)
{
    static const char *const of_amd[] = {"pcie.atomics", "hsa.gpu_agents"};
    static const char *const of_peers[] = {"p2p.links", "p2p.peer_access", "p2p.xgmi_all_up"};
    bool amd = false;
    for (int g = 0; g < gpus_count(c); g++) {
        amd = amd || gpu_is_amd(c, g);
    }
    facts_set_error(c->facts, "kfd.gpu_nodes", KFD_NODES, err);
    if (!amd && err->status == ST_ABSENT) {
        read_set_states(c, of_amd, ARRAY_LEN(of_amd), FACT_NOT_APPLICABLE, KFD_NODES, "no AMD GPU");
        bool peers = gpus_count(c) > 1;
        read_set_states(
            c, of_peers, ARRAY_LEN(of_peers), peers ? FACT_UNREADABLE : FACT_NOT_APPLICABLE,
            peers ? "NVML" : KFD_NODES,
            peers ? "only NVML tells, and it is not loaded to read facts: nvidia-smi topo -p2p r"
                  : "fewer than two GPUs");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(of_amd); i++) {
        facts_set_error(c->facts, of_amd[i], KFD_NODES, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(of_peers); i++) {
        facts_set_error(c->facts, of_peers[i], KFD_NODES, err);
    }
}

/* Who is on a GPU when KFD's list of processes does not say. */
static void fill_proc_count(struct collect *c, int gpu)
{
    const char *key = gpu_key(c, gpu, "proc_count");
    const struct fact *procs = facts_get(c->facts, "kfd.procs");
    if (facts_get(c->facts, key) != NULL) {
        return;
    }
    if (!gpu_is_amd(c, gpu)) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, "NVML",
                        "only NVML tells, and it is not loaded to read facts: nvidia-smi");
    } else if (procs->state != FACT_KNOWN) {
        facts_set_state(c->facts, key, procs->state, procs->source, procs->reason);
    } else {
        facts_set_state(c->facts, key, FACT_ABSENT, KFD_PROC,
                        "no node of the topology stands for this GPU");
    }
}

/* GPUs that no node of the topology stands for. */
static void fill_missing(struct collect *c, const struct err *err)
{
    for (int g = 0; g < gpus_count(c); g++) {
        for (size_t i = 0; i < ARRAY_LEN(node_fields); i++) {
            const char *key = gpu_key(c, g, node_fields[i]);
            if (facts_get(c->facts, key) != NULL) {
                continue;
            }
            if (!gpu_is_amd(c, g)) {
                facts_set_state(c->facts, key, FACT_NOT_APPLICABLE, KFD_NODES, "not an AMD GPU");
            } else if (err->status != ST_OK) {
                facts_set_error(c->facts, key, KFD_NODES, err);
            } else {
                facts_set_state(c->facts, key, FACT_ABSENT, KFD_NODES,
                                "no node of the topology stands for this GPU");
            }
        }
        fill_proc_count(c, g);
    }
}

void collect_kfd(struct collect *c)
{
    const char *const *names;
    size_t count;
    const char *const *pids = NULL;
    size_t pid_count = 0;
    struct kfd kfd = {0};
    bool processes = collect_processes(c, &pids, &pid_count);
    if (fs_list(c->fs, c->scratch, KFD_NODES, &names, &count, &kfd.err) != ST_OK) {
        no_topology(c, &kfd.err);
        fill_missing(c, &kfd.err);
        return;
    }
    for (size_t i = 0; i < count && i < MAX_NODES; i++) {
        read_node(c, names[i], &kfd);
    }
    if (kfd.gpu_nodes == 0 && kfd.unreadable != 0) {
        no_topology(c, &kfd.err);
    } else {
        facts_int(c->facts, "kfd.gpu_nodes", kfd.gpu_nodes, KFD_NODES);
        collect_peers(c, &kfd);
        collect_atomics(c, &kfd);
        collect_agents(c, &kfd);
    }
    if (processes) {
        collect_proc_count(c, &kfd, pids, pid_count);
    }
    fill_missing(c, &kfd.err);
}
