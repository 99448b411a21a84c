// SPDX-License-Identifier: Apache-2.0
/* Operating system, kernel command line, processor, memory, board, C library, compiler headers. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/version.h"

#include "facts/elf.h"
#include "facts/read.h"

enum {
    MAX_TEXT = 4 << 20,
    MAX_WTMP = 64 << 20
};

/* Value of KEY=value in os-release, quotes removed. */
static const char *os_release(struct collect *c, struct str text, const char *key)
{
    struct str v = read_line_value(text, key, "=");
    if (v.n >= 2 && (v.p[0] == '"' || v.p[0] == '\'')) {
        v = str_slice(v, 1, v.n - 1);
    }
    return v.n != 0 ? str_dup(c->scratch, v) : NULL;
}

static void collect_os(struct collect *c)
{
    struct facts *f = c->facts;
    struct err err = {0};
    struct str text;
    facts_string(f, "os.family", "linux", "build");
    const char *source = "/etc/os-release";
    enum status got = fs_read(c->fs, c->scratch, source, MAX_TEXT, &text, &err);
    if (got != ST_OK) {
        source = "/usr/lib/os-release";
        got = fs_read(c->fs, c->scratch, source, MAX_TEXT, &text, &err);
    }
    if (got != ST_OK) {
        facts_set_error(f, "os.name", source, &err);
        facts_set_error(f, "os.version", source, &err);
    } else {
        const char *name = os_release(c, text, "NAME");
        const char *version = os_release(c, text, "VERSION_ID");
        if (name != NULL) {
            facts_string(f, "os.name", name, source);
        } else {
            facts_set_state(f, "os.name", FACT_ABSENT, source, "no NAME line");
        }
        if (version != NULL) {
            facts_string(f, "os.version", version, source);
        } else {
            facts_set_state(f, "os.version", FACT_ABSENT, source, "no VERSION_ID line");
        }
    }
    read_string_fact(c, "os.kernel", "/proc/sys/kernel/osrelease");
    if (fs_read(c->fs, c->scratch, "/proc/version", MAX_TEXT, &text, &err) == ST_OK) {
        facts_bool(f, "os.wsl", strcasestr(text.p, "microsoft") != NULL, "/proc/version");
    } else {
        facts_set_error(f, "os.wsl", "/proc/version", &err);
    }
}

static void collect_virtual(struct collect *c)
{
    struct str cpu;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, "/proc/cpuinfo", MAX_TEXT, &cpu, &err) != ST_OK) {
        facts_set_error(c->facts, "os.virtual", "/proc/cpuinfo", &err);
        return;
    }
    struct str flags = read_line_value(cpu, "flags", "\t :");
    facts_string(c->facts, "os.virtual", str_has(flags, " hypervisor") ? "vm" : "none",
                 "/proc/cpuinfo flags");
}

static void cmdline_value(struct collect *c, struct str line, const char *name, const char *key)
{
    struct str rest = line;
    struct str word;
    while (str_cut(&rest, ' ', &word)) {
        if (str_starts(word, name)) {
            facts_string(c->facts, key, str_dup(c->scratch, str_slice(word, strlen(name), word.n)),
                         "/proc/cmdline");
            return;
        }
    }
    facts_set_state(c->facts, key, FACT_ABSENT, "/proc/cmdline", "not on the kernel command line");
}

static void collect_cmdline(struct collect *c)
{
    struct str line;
    struct err err = {0};
    if (fs_read_trimmed(c->fs, c->scratch, "/proc/cmdline", &line, &err) != ST_OK) {
        static const char *const keys[] = {"cmdline.raw", "cmdline.iommu", "cmdline.intel_iommu",
                                           "cmdline.amdgpu"};
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            facts_set_error(c->facts, keys[i], "/proc/cmdline", &err);
        }
        return;
    }
    facts_string(c->facts, "cmdline.raw", line.p, "/proc/cmdline");
    cmdline_value(c, line, "iommu=", "cmdline.iommu");
    cmdline_value(c, line, "intel_iommu=", "cmdline.intel_iommu");
    VEC_OF(const char *) list = {0};
    struct str rest = line;
    struct str word;
    while (str_cut(&rest, ' ', &word)) {
        if (str_starts(word, "amdgpu.") || str_starts(word, "ttm.")) {
            *VEC_PUSH(c->scratch, &list) = str_dup(c->scratch, word);
        }
    }
    facts_strings(c->facts, "cmdline.amdgpu", list.items, list.count, "/proc/cmdline");
}

/* Processors without a name in /proc/cpuinfo: ARM's give numbers (implementer and part, as the kernel's
 * arch/arm64/include/asm/cputype.h has them), POWER and RISC-V another key. */
static const char *cpu_model(struct arena *a, struct str text)
{
    static const char *const keys[] = {"model name", "cpu", "uarch"};

    static const struct {
        const char *implementer, *part, *name;
    } arm[] = {
        {"0x41", "0xd08", "Cortex-A72"},  {"0x41", "0xd0c", "Neoverse-N1"},
        {"0x41", "0xd40", "Neoverse-V1"}, {"0x41", "0xd42", "Cortex-A78AE"},
        {"0x41", "0xd49", "Neoverse-N2"}, {"0x41", "0xd4f", "Neoverse-V2"},
        {"0x46", "0x001", "A64FX"},       {"0x48", "0xd01", "TaiShan-v110"},
        {"0x4e", "0x004", "Carmel"},      {"0xc0", "0xac3", "Ampere-1"},
    };

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct str model = read_line_value(text, keys[i], "\t :");
        if (model.n != 0 && !str_starts(model, "family") && !str_starts(model, "MHz")) {
            return str_dup(a, model);
        }
    }
    struct str implementer = read_line_value(text, "CPU implementer", "\t :");
    struct str part = read_line_value(text, "CPU part", "\t :");
    if (implementer.n == 0 || part.n == 0) {
        return NULL;
    }
    const char *name = "ARM processor";
    for (size_t i = 0; i < ARRAY_LEN(arm); i++) {
        if (str_is(implementer, arm[i].implementer) && str_is(part, arm[i].part)) {
            name = arm[i].name;
        }
    }
    return arena_fmt(a, "%s (implementer %.*s, part %.*s)", name, STR_ARG(implementer),
                     STR_ARG(part));
}

static void collect_cpu_and_memory(struct collect *c)
{
    struct str text;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, "/proc/cpuinfo", MAX_TEXT, &text, &err) == ST_OK) {
        const char *model = cpu_model(c->scratch, text);
        if (model != NULL) {
            facts_string(c->facts, "cpu.model", model, "/proc/cpuinfo");
        } else {
            facts_set_state(c->facts, "cpu.model", FACT_ABSENT, "/proc/cpuinfo", "no model name");
        }
    } else {
        facts_set_error(c->facts, "cpu.model", "/proc/cpuinfo", &err);
    }

    static const struct {
        const char *key;
        const char *row;
    } rows[] = {{"mem.total_bytes", "MemTotal"}, {"mem.available_bytes", "MemAvailable"}};
    enum status got = fs_read(c->fs, c->scratch, "/proc/meminfo", MAX_TEXT, &text, &err);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t kib;
        if (got != ST_OK) {
            facts_set_error(c->facts, rows[i].key, "/proc/meminfo", &err);
            continue;
        }
        struct str v = read_line_value(text, rows[i].row, ": \t");
        size_t space = str_find_char(v, ' ', 0);
        if (str_to_i64(str_slice(v, 0, space), 10, &kib) == ST_OK && kib >= 0 &&
            kib < INT64_MAX / 1024) {
            facts_int(c->facts, rows[i].key, kib * 1024, "/proc/meminfo");
        } else {
            facts_set_state(c->facts, rows[i].key, FACT_UNREADABLE, "/proc/meminfo", "no such row");
        }
    }
}

static void collect_numa(struct collect *c)
{
    const char *path = "/sys/devices/system/node";
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, path, &names, &count, &err) != ST_OK) {
        facts_set_error(c->facts, "numa.node_count", path, &err);
    } else {
        int64_t n = 0;
        for (size_t i = 0; i < count; i++) {
            n += strncmp(names[i], "node", 4) == 0 && names[i][4] >= '0' && names[i][4] <= '9';
        }
        facts_int(c->facts, "numa.node_count", n, path);
    }
    read_int_fact(c, "sysctl.numa_balancing", "/proc/sys/kernel/numa_balancing", 1);
}

static void collect_board(struct collect *c)
{
    if (!read_string_fact(c, "board.name", "/sys/class/dmi/id/board_name")) {
        read_string_fact(c, "board.name", "/sys/class/dmi/id/product_name");
    }
    read_string_fact(c, "bios.version", "/sys/class/dmi/id/bios_version");
}

static const char *const library_folders[] = {"/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu",
                                              "/lib64",
                                              "/usr/lib64",
                                              "/usr/lib",
                                              "/lib"};

/* Highest version of a family that a system library defines: the file decides, not this process. */
static void version_of_library(struct collect *c, const char *key, const char *file,
                               const char *prefix)
{
    struct err err = {.status = ST_ABSENT, .text = "not in the usual library folders"};
    for (size_t i = 0; i < ARRAY_LEN(library_folders); i++) {
        const char *path = arena_fmt(c->scratch, "%s/%s", library_folders[i], file);
        struct fs_map map;
        enum status got = fs_map(c->fs, c->scratch, path, &map, &err);
        if (got == ST_ABSENT) {
            continue;
        }
        if (got != ST_OK) {
            break;
        }
        struct elf elf;
        struct str bytes = {.p = (const char *)map.p, .n = map.n};
        if (elf_open(c->scratch, bytes, path, &elf, &err) == ST_OK) {
            const char *version = elf_defines_version(c->scratch, &elf, prefix);
            if (version != NULL) {
                facts_string(c->facts, key, version, path);
                fs_unmap(&map);
                return;
            }
            err = (struct err){.status = ST_FORMAT, .text = "it defines no version"};
        }
        fs_unmap(&map);
        break;
    }
    facts_set_error(c->facts, key, file, &err);
}

/* Clang takes the newest GCC installation of the host's own triple. */
static const char *newest_gcc(struct collect *c, const char **ret_folder)
{
    static const char *const folders[] = {
        "/usr/lib/gcc/x86_64-linux-gnu", "/usr/lib/gcc/x86_64-redhat-linux",
        "/usr/lib64/gcc/x86_64-suse-linux", "/usr/lib/gcc/x86_64-pc-linux-gnu"};
    *ret_folder = folders[0];
    for (size_t f = 0; f < ARRAY_LEN(folders); f++) {
        const char *const *names;
        size_t count;
        const char *newest = NULL;
        if (fs_list(c->fs, c->scratch, folders[f], &names, &count, NULL) != ST_OK) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            if (version_valid(str_of(names[i])) &&
                (newest == NULL || version_cmp(str_of(names[i]), str_of(newest)) > 0)) {
                newest = names[i];
            }
        }
        if (newest != NULL) {
            *ret_folder = folders[f];
            return newest;
        }
    }
    return NULL;
}

static void collect_toolchain(struct collect *c)
{
    const char *folder;
    const char *newest = newest_gcc(c, &folder);
    if (newest == NULL) {
        facts_set_state(c->facts, "gcc.version", FACT_ABSENT, folder, "no GCC installation found");
        facts_set_state(c->facts, "toolchain.libstdcxx_headers", FACT_ABSENT, "/usr/include/c++",
                        "no GCC installation found");
    } else {
        facts_string(c->facts, "gcc.version", newest, folder);
        const char *headers = arena_fmt(c->scratch, "/usr/include/c++/%s", newest);
        facts_bool(c->facts, "toolchain.libstdcxx_headers", fs_is_dir(c->fs, c->scratch, headers),
                   headers);
    }
    facts_set_state(c->facts, "toolchain.msvc_headers", FACT_NOT_APPLICABLE, "build",
                    "Visual Studio exists on Windows only");
}

/* wtmp: records of 384 bytes, type (i16) at 0, user (32 bytes) at 44 (utmp(5), x86-64). A boot
 * (type 2) that no shutdown (type 1, user "shutdown") stands before ended the last one uncleanly. */
static void collect_last_boot(struct collect *c)
{
    enum {
        RECORD = 384,
        USER_AT = 44,
        TYPE_RUN_LEVEL = 1,
        TYPE_BOOT = 2
    };

    const char *key = "os.last_boot_unclean";
    const char *path = "/var/log/wtmp";
    struct str log;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, path, MAX_WTMP, &log, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    size_t boots = 0;
    bool shut_down = false;
    bool unclean = false;
    struct str record;
    for (uint64_t at = 0; bytes_view(log, at, RECORD, &record); at += RECORD) {
        unsigned type = bytes_le16(record.p);
        if (type == TYPE_BOOT) {
            unclean = boots != 0 && !shut_down;
            shut_down = false;
            boots++;
        } else if (type == TYPE_RUN_LEVEL && strncmp(record.p + USER_AT, "shutdown", 8) == 0) {
            shut_down = true;
        }
    }
    if (boots < 2) {
        facts_set_state(c->facts, key, FACT_ABSENT, path, "it records fewer than two boots");
    } else {
        facts_bool(c->facts, key, unclean, path);
    }
}

void collect_host(struct collect *c)
{
    collect_os(c);
    collect_virtual(c);
    collect_cmdline(c);
    collect_cpu_and_memory(c);
    collect_numa(c);
    collect_board(c);
    version_of_library(c, "glibc.version", "libc.so.6", "GLIBC_");
    version_of_library(c, "libstdcxx.max_glibcxx", "libstdc++.so.6", "GLIBCXX_");
    collect_toolchain(c);
    collect_last_boot(c);
}
