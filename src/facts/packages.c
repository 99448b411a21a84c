// SPDX-License-Identifier: Apache-2.0
/*
 * Distribution packages: /var/lib/dpkg/status for those that matter to a GPU stack, DKMS state of
 * amdgpu, what apt upgraded since the machine booted.
 */
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "base/vec.h"
#include "base/version.h"

#include "facts/read.h"

#define DPKG_STATUS "/var/lib/dpkg/status"

enum {
    MAX_STATUS = 64 << 20,
    MAX_HISTORY = 8 << 20
};

/* Prefixes of package names that rules ask for; a name that ends in '$' is exact. */
static const char *const wanted[] = {
    "amdgpu-",      "rocm",          "hip-",        "hipblas",
    "hsa-",         "libstdc++-",    "rocblas",     "rocrand",
    "miopen",       "rccl",          "hsakmt",      "linux-firmware$",
    "firmware-amd", "nvidia-driver", "nvidia-dkms", "libnccl",
    "cuda-toolkit", "libcudnn",      "amdrocm-",    "gcc$",
    "g++$",         "ninja-build$",  "libnuma1$",   "python3-venv$",
};

/* Asked for by name in rules, so their absence is a fact too. */
static const char *const asked[] = {"amdgpu-dkms", "rocm-core",      "libstdc++-12-dev",
                                    "rocrand-dev", "linux-firmware", "hsakmt-roct",
                                    "rocminfo"};

static bool is_wanted(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        struct str w = str_of(wanted[i]);
        if (str_ends(w, "$") ? str_eq(name, str_slice(w, 0, w.n - 1)) : str_starts(name, w.p)) {
            return true;
        }
    }
    return false;
}

static void record(struct collect *c, struct str name, struct str status, struct str version)
{
    bool installed = str_ends(status, " installed");
    const char *n = str_dup(c->scratch, name);
    facts_bool(c->facts, arena_fmt(c->scratch, "dpkg.%s.installed", n), installed, DPKG_STATUS);
    if (installed && version.n != 0) {
        facts_string(c->facts, arena_fmt(c->scratch, "dpkg.%s.version", n),
                     str_dup(c->scratch, version), DPKG_STATUS);
        if (str_is(name, "linux-firmware") || str_is(name, "firmware-amd-graphics")) {
            facts_string(c->facts, "fw.linux_firmware", str_dup(c->scratch, version), DPKG_STATUS);
        }
    }
}

static void read_status(struct collect *c, struct str text)
{
    struct str line;
    struct str name = {0};
    struct str status = {0};
    struct str version = {0};
    bool more = true;
    while (more) {
        more = str_cut_line(&text, &line);
        if (!more || line.n == 0) {
            if (is_wanted(name)) {
                record(c, name, status, version);
            }
            name = status = version = (struct str){0};
        } else if (str_starts(line, "Package: ")) {
            name = str_slice(line, 9, line.n);
        } else if (str_starts(line, "Status: ")) {
            status = str_slice(line, 8, line.n);
        } else if (str_starts(line, "Version: ")) {
            version = str_slice(line, 9, line.n);
        }
    }
}

static void collect_dpkg(struct collect *c)
{
    struct err err = {0};
    struct fs_map map;
    facts_set_state(c->facts, "fw.linux_firmware", FACT_ABSENT, DPKG_STATUS,
                    "no firmware package is installed");
    if (fs_map(c->fs, c->scratch, DPKG_STATUS, &map, &err) != ST_OK) {
        facts_set_error(c->facts, "fw.linux_firmware", DPKG_STATUS, &err);
        for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
            facts_set_error(c->facts, arena_fmt(c->scratch, "dpkg.%s.installed", asked[i]),
                            DPKG_STATUS, &err);
        }
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        facts_bool(c->facts, arena_fmt(c->scratch, "dpkg.%s.installed", asked[i]), false,
                   DPKG_STATUS);
    }
    read_status(c, (struct str){.p = (const char *)map.p, .n = map.n});
    fs_unmap(&map);
}

/* DKMS's own mark of an installed module: a link kernel-<release>-<arch> to <version>/<release>/...
 * beside the version folders. */
static const char *dkms_installed(struct collect *c, const char *folder, const char *kernel)
{
    const char *target;
    const char *link = arena_fmt(c->scratch, "%s/kernel-%s-x86_64", folder, kernel);
    if (kernel[0] == '\0' || fs_readlink(c->fs, c->scratch, link, &target, NULL) != ST_OK) {
        return NULL;
    }
    size_t slash = str_find_char(str_of(target), '/', 0);
    return str_dup(c->scratch, str_slice(str_of(target), 0, slash));
}

/* As `dkms status` words it, for the running kernel: added (source only), built, installed. */
static void collect_dkms(struct collect *c)
{
    static const char *const keys[] = {"driver.amdgpu.dkms_version", "driver.amdgpu.dkms_status"};
    const char *folder = "/var/lib/dkms/amdgpu";
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, c->scratch, folder, &names, &count, &err) != ST_OK) {
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            facts_set_error(c->facts, keys[i], folder, &err);
        }
        return;
    }
    const char *kernel = facts_get_string(c->facts, "os.kernel", "");
    const char *version = dkms_installed(c, folder, kernel);
    const char *status = "installed";
    for (size_t i = 0; version == NULL && i < count; i++) {
        status = "added";
        if (names[i][0] >= '0' && names[i][0] <= '9' &&
            fs_is_dir(c->fs, c->scratch,
                      arena_fmt(c->scratch, "%s/%s/%s", folder, names[i], kernel)) &&
            kernel[0] != '\0') {
            version = names[i];
            status = "built";
        }
    }
    for (size_t i = 0; i < count && strcmp(status, "added") == 0; i++) {
        if (names[i][0] >= '0' && names[i][0] <= '9' &&
            (version == NULL || version_cmp(str_of(names[i]), str_of(version)) > 0)) {
            version = names[i];
        }
    }
    if (version == NULL) {
        read_set_states(c, keys, ARRAY_LEN(keys), FACT_ABSENT, folder, "it holds no version");
        return;
    }
    facts_string(c->facts, keys[0], version, folder);
    facts_string(c->facts, keys[1], status, folder);
}

/* Packages named in "Upgrade:" lines of entries that started after the last boot. */
static void collect_upgrades(struct collect *c)
{
    const char *path = "/var/log/apt/history.log";
    const char *key = "apt.recent_upgrades";
    struct str text;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, path, MAX_HISTORY, &text, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    struct str stat;
    int64_t boot = 0;
    if (fs_read(c->fs, c->scratch, "/proc/stat", MAX_HISTORY, &stat, NULL) != ST_OK ||
        str_to_i64(read_line_value(stat, "btime", " "), 10, &boot) != ST_OK) {
        facts_set_state(c->facts, key, FACT_UNREADABLE, "/proc/stat", "the boot time is not known");
        return;
    }
    VEC_OF(const char *) list = {0};
    struct str line;
    bool recent = false;
    while (str_cut_line(&text, &line)) {
        struct tm tm = {.tm_isdst = -1};
        if (str_starts(line, "Start-Date: ")) {
            const char *when = str_dup(c->scratch, str_slice(line, 12, line.n));
            recent = strptime(when, "%Y-%m-%d  %H:%M:%S", &tm) != NULL && mktime(&tm) >= boot;
        } else if (recent && str_starts(line, "Upgrade: ")) {
            struct str rest = str_slice(line, 9, line.n);
            struct str item;
            while (str_cut(&rest, ')', &item) && list.count < 500) {
                while (item.n != 0 && (item.p[0] == ',' || item.p[0] == ' ')) {
                    item = str_slice(item, 1, item.n);
                }
                size_t end = str_find_char(item, ':', 0);
                if (item.n != 0 && end != SIZE_MAX) {
                    *VEC_PUSH(c->scratch, &list) = str_dup(c->scratch, str_slice(item, 0, end));
                }
            }
        }
    }
    facts_strings(c->facts, key, list.items, list.count, path);
}

void collect_packages(struct collect *c)
{
    collect_dpkg(c);
    collect_dkms(c);
    collect_upgrades(c);
}
