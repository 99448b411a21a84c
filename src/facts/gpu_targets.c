// SPDX-License-Identifier: Apache-2.0
/* Tells what kind of file it is and collects what the readers of each kind report. */
#include "facts/gpu_targets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "facts/amdgpu_target.h"
#include "facts/elf.h"
#include "facts/kpack.h"
#include "facts/nv_fatbin.h"
#include "facts/offload.h"

enum {
    MAX_TARGETS = 4096,
    MAX_NAME = 128
};

struct collector {
    struct arena *arena;
    struct map *by_name;
    struct gpu_code_sink sink;
};

/* A name comes from the file: only letters that targets are made of are believed. */
static bool plausible_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("_-+:.", c) != NULL) ||
            c == '\0') {
            return false;
        }
    }
    return s.n != 0 && s.n <= MAX_NAME;
}

static void found(void *ctx, struct str target, enum gpu_code_form form, uint64_t bytes)
{
    struct collector *c = ctx;
    if (!plausible_name(target) || map_count(c->by_name) >= MAX_TARGETS) {
        return;
    }
    struct gpu_target *t = map_get(c->by_name, target);
    if (t == NULL) {
        t = arena_alloc(c->arena, sizeof *t);
        t->name = str_dup(c->arena, target);
        map_put(c->by_name, target, t);
    }
    t->forms |= form;
    t->count++;
    t->bytes = bytes <= UINT64_MAX - t->bytes ? t->bytes + bytes : UINT64_MAX;
}

static void read_code_object(const struct elf *elf, struct collector *c)
{
    if (elf->machine == ELF_MACHINE_CUDA) {
        found(c, nv_fatbin_cubin_target(c->arena, elf), GPU_CODE_CUBIN, elf->file.n);
        return;
    }
    const char *name = amdgpu_target_of_flags(c->arena, elf->flags, elf->os_abi, elf->abi_version);
    c->sink.containers++;
    if (name != NULL) {
        found(c, str_of(name), GPU_CODE_OBJECT, elf->file.n);
        return;
    }
    struct err err = {0};
    err_set(&err, ST_UNSUPPORTED,
            "the code object is for machine 0x%" PRIx32 ", which is not known", elf->flags & 0xff);
    gpu_code_unreadable(&c->sink, &err);
}

/* Objects of -fgpu-rdc keep each target's code in a section named after the bundle entry. */
static void read_object_sections(const struct elf *elf, struct collector *c)
{
    static const char prefix[] = "__CLANG_OFFLOAD_BUNDLE__";
    struct elf_section s;
    for (uint64_t i = 0; i < elf->section_count; i++) {
        if (elf_section_at(elf, i, &s) && str_starts(s.name, prefix) && s.bytes.n > 1) {
            struct str target = offload_target_of_id(
                str_slice(s.name, sizeof prefix - 1, s.name.n));
            if (target.n != 0) {
                c->sink.containers++;
                found(c, target, GPU_CODE_BUNDLE, s.bytes.n);
            }
        }
    }
}

static void read_section(const struct elf *elf, const char *name, struct collector *c,
                         void (*read)(struct str bytes, struct gpu_code_sink *sink))
{
    struct str bytes;
    enum status status = elf_section(elf, name, &bytes);
    if (status == ST_OK) {
        read(bytes, &c->sink);
    } else if (status == ST_FORMAT) {
        struct err err = {0};
        err_set(&err, ST_FORMAT, "section %s lies beyond the end of '%s': is the file cut short?",
                name, elf->name);
        c->sink.containers++;
        gpu_code_unreadable(&c->sink, &err);
    }
}

static void read_kpack(const struct fs *fs, const struct elf *elf, const char *path,
                       struct collector *c, struct gpu_targets *t)
{
    struct kpack_reference r = {0};
    struct err err = {0};
    if (kpack_read_reference(fs, c->arena, elf, path, &r, &err) != ST_OK) {
        c->sink.containers++;
        gpu_code_unreadable(&c->sink, &err);
        return;
    }
    t->kernel_name = r.kernel_name;
    t->archives = r.archives;
    t->archive_count = r.archive_count;
    t->search_paths = r.search_paths;
    t->search_path_count = r.search_path_count;
    for (size_t i = 0; i < r.archive_count; i++) {
        struct fs_map map;
        if (fs_map(fs, c->sink.scratch, r.archives[i], &map, &err) != ST_OK) {
            c->sink.containers++;
            gpu_code_unreadable(&c->sink, &err);
            continue;
        }
        struct str bytes = {.p = (const char *)map.p, .n = map.n};
        kpack_read_archive(bytes, r.kernel_name, &c->sink);
        fs_unmap(&map);
    }
}

static void read_host_elf(const struct fs *fs, const struct elf *elf, const char *path,
                          struct collector *c, struct gpu_targets *t)
{
    if (kpack_is_reference(elf)) {
        read_kpack(fs, elf, path, c, t);
    } else {
        read_section(elf, ".hip_fatbin", c, offload_read_bundles);
    }
    read_section(elf, ".llvm.offloading", c, offload_read_binaries);
    read_section(elf, ".nv_fatbin", c, nv_fatbin_read);
    read_section(elf, "__nv_relfatbin", c, nv_fatbin_read);
    read_object_sections(elf, c);
}

static int by_target(const void *x, const void *y)
{
    const struct gpu_target *a = x;
    const struct gpu_target *b = y;
    return amdgpu_target_cmp(a->name, b->name);
}

static void finish(struct collector *c, bool refers_to_archives, struct gpu_targets *t)
{
    t->count = map_count(c->by_name);
    struct gpu_target *items = arena_array(c->arena, t->count, sizeof *items);
    for (size_t i = 0; i < t->count; i++) {
        items[i] = *(const struct gpu_target *)map_value(c->by_name, i);
    }
    if (t->count > 1) {
        qsort(items, t->count, sizeof *items, by_target);
    }
    t->items = items;
    t->containers = c->sink.containers;
    t->unreadable = c->sink.unreadable;
    if (t->unreadable != 0) {
        t->problem = arena_strdup(c->arena, c->sink.first_problem.text);
    }
    if (t->count != 0) {
        t->state = GPU_TARGETS_KNOWN;
    } else if (t->unreadable != 0) {
        t->state = GPU_TARGETS_UNREADABLE;
    } else if (refers_to_archives) {
        t->state = GPU_TARGETS_ELSEWHERE;
    }
}

void gpu_targets_of_bytes(const struct fs *fs, struct arena *a, const char *path, struct str bytes,
                          struct gpu_targets *ret_targets)
{
    struct arena *scratch = arena_new(0);
    struct collector c = {.arena = a, .by_name = map_new(a)};
    c.sink = (struct gpu_code_sink){.found = found, .ctx = &c, .scratch = scratch};
    struct gpu_targets t = {.state = GPU_TARGETS_NONE};
    struct elf elf;
    if (elf_is(bytes)) {
        if (elf_open(scratch, bytes, path, &elf, NULL) == ST_OK) {
            if (elf.machine == ELF_MACHINE_AMDGPU || elf.machine == ELF_MACHINE_CUDA) {
                read_code_object(&elf, &c);
            } else {
                read_host_elf(fs, &elf, path, &c, &t);
            }
        }
    } else if (offload_is_bundle(bytes)) {
        offload_read_bundles(bytes, &c.sink);
    } else if (kpack_is_archive(bytes)) {
        kpack_read_archive(bytes, NULL, &c.sink);
    } else if (bytes.n >= 4 && memcmp(bytes.p, "\x50\xed\x55\xba", 4) == 0) {
        nv_fatbin_read(bytes, &c.sink);
    }
    finish(&c, t.kernel_name != NULL, &t);
    arena_free(scratch);
    *ret_targets = t;
}

enum status gpu_targets_of_file(const struct fs *fs, struct arena *a, const char *path,
                                struct gpu_targets *ret_targets, struct err *err)
{
    struct fs_map map;
    TRY(fs_map(fs, a, path, &map, err));
    struct str bytes = {.p = (const char *)map.p, .n = map.n};
    gpu_targets_of_bytes(fs, a, path, bytes, ret_targets);
    fs_unmap(&map);
    return ST_OK;
}

/* Compute capability of "sm_90a" or "compute_80"; 0 when it is neither. */
static unsigned capability_of(const char *name)
{
    struct str s = str_of(name);
    struct str head;
    uint64_t n;
    if (!str_cut(&s, '_', &head) || (!str_is(head, "sm") && !str_is(head, "compute"))) {
        return 0;
    }
    if (s.n != 0 && (s.p[s.n - 1] == 'a' || s.p[s.n - 1] == 'f')) {
        s.n--;
    }
    return str_to_u64(s, 10, &n) == ST_OK && n <= 9999 ? (unsigned)n : 0;
}

/* NVIDIA: machine code runs within one major number upwards, PTX on anything newer. An 'a' target
 * runs on its own capability only, an 'f' one within its major number. 3 best, 0 does not run. */
static unsigned nvidia_fit(const struct gpu_target *t, unsigned gpu)
{
    unsigned have = capability_of(t->name);
    char last = t->name[strlen(t->name) - 1];
    if (have == 0 || have > gpu || (last == 'a' && have != gpu)) {
        return 0;
    }
    if ((t->forms & GPU_CODE_CUBIN) != 0 || t->name[0] == 's') {
        return have == gpu ? 3 : have / 10 == gpu / 10 ? 2 : 0;
    }
    return last == 'f' && have / 10 != gpu / 10 ? 0 : 1;
}

static unsigned amd_fit(const struct gpu_target *t, const char *gpu)
{
    if (!amdgpu_target_covers(t->name, gpu)) {
        return 0;
    }
    return strcmp(t->name, "amdgcnspirv") == 0 ? 1 : strstr(t->name, "generic") != NULL ? 2 : 3;
}

const struct gpu_target *gpu_targets_for(const struct gpu_targets *t, const char *gpu)
{
    const struct gpu_target *best = NULL;
    unsigned best_fit = 0;
    unsigned capability = capability_of(gpu);
    for (size_t i = 0; i < t->count; i++) {
        unsigned fit = capability != 0 ? nvidia_fit(&t->items[i], capability)
                                       : amd_fit(&t->items[i], gpu);
        if (fit > best_fit) {
            best = &t->items[i];
            best_fit = fit;
        }
    }
    return best;
}

const char *gpu_targets_state_name(enum gpu_targets_state state)
{
    static const char *const names[GPU_TARGETS_STATE_COUNT] = {
        [GPU_TARGETS_NONE] = "none",
        [GPU_TARGETS_KNOWN] = "known",
        [GPU_TARGETS_UNREADABLE] = "unreadable",
        [GPU_TARGETS_ELSEWHERE] = "elsewhere",
    };
    return (unsigned)state < GPU_TARGETS_STATE_COUNT ? names[state] : "unknown";
}
