// SPDX-License-Identifier: Apache-2.0
/* Start reading at ld_system_read(). */
#include "facts/ld_system.h"

#include <fnmatch.h>
#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"

#define USUAL_LOADER "/lib64/ld-linux-x86-64.so.2"

enum {
    MAX_LOADER = 8 * 1024 * 1024,
    MAX_CACHE = 64 * 1024 * 1024,
    MAX_CONF = 1024 * 1024,
    MAX_INCLUDES = 8, /* depth */
    MAX_DIRS = 256,
    LAST_LEGACY_GLIBC = 36, /* 2.36: the last that looks into "tls" and "haswell" */
};

struct name_list {
    const char **items;
    size_t count;
    size_t capacity;
};

static bool is_dir_text(struct str s)
{
    if (s.n < 5 || s.p[0] != '/' || s.p[s.n - 1] != '/' || !str_has(s, "lib")) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '%') {
            return false;
        }
    }
    return true;
}

/* The directories are one array of NUL-terminated texts inside ld.so: the longest row of texts
 * that look like library folders, the first of equals. */
static void dirs_of_loader(struct arena *a, struct str file, struct name_list *dirs)
{
    size_t best_at = 0;
    size_t best_count = 0;
    size_t at = 0;
    for (size_t p = str_find_char(file, '/', 0); p != SIZE_MAX; p = str_find_char(file, '/', at)) {
        at = p + 1;
        struct str text;
        if (p == 0 || file.p[p - 1] != '\0') {
            continue;
        }
        size_t count = 0;
        size_t q = p;
        while (bytes_text(file, q, &text) && is_dir_text(text)) {
            count++;
            q += text.n + 1;
        }
        at = q > at ? q : at;
        if (count > best_count) {
            best_at = p;
            best_count = count;
        }
    }
    for (size_t i = 0, q = best_at; i < best_count && i < MAX_DIRS; i++) {
        struct str text = {.p = "", .n = 0};
        (void)bytes_text(file, q, &text);
        *VEC_PUSH(a, dirs) = str_dup(a, str_slice(text, 0, text.n - 1));
        q += text.n + 1;
    }
}

static void guess_dirs(const struct fs *fs, struct arena *a, struct name_list *dirs)
{
    static const char *const debian[] = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
                                         "/lib", "/usr/lib"};
    static const char *const others[] = {"/lib64", "/usr/lib64"};
    bool multiarch = fs_is_dir(fs, a, debian[1]);
    for (size_t i = 0; i < (multiarch ? ARRAY_LEN(debian) : ARRAY_LEN(others)); i++) {
        *VEC_PUSH(a, dirs) = multiarch ? debian[i] : others[i];
    }
}

/* Minor number of the glibc that the loader belongs to, 0 when it does not say. */
static unsigned glibc_minor(struct str loader)
{
    static const char mark[] = "release version 2.";
    size_t at = str_find(loader, mark, 0);
    unsigned minor = 0;
    for (size_t i = at == SIZE_MAX ? loader.n : at + sizeof mark - 1;
         i < loader.n && loader.p[i] >= '0' && loader.p[i] <= '9' && minor < 1000; i++) {
        minor = minor * 10 + (unsigned)(loader.p[i] - '0');
    }
    return minor;
}

static bool has_flag(struct str flags, struct str wanted)
{
    struct str part;
    while (str_cut(&flags, ' ', &part)) {
        if (str_eq(part, wanted)) {
            return true;
        }
    }
    return false;
}

static bool has_all(struct str flags, const char *list)
{
    struct str rest = str_of(list);
    struct str part;
    while (str_cut(&rest, ' ', &part)) {
        if (!has_flag(flags, part)) {
            return false;
        }
    }
    return true;
}

/* The line of /proc/cpuinfo that begins with `key`, after its colon; empty when there is none. */
static struct str cpu_line(struct str text, const char *key)
{
    struct str line;
    while (str_cut_line(&text, &line)) {
        struct str name;
        if (str_cut(&line, ':', &name) && str_is(str_trim(name), key)) {
            return str_trim(line);
        }
    }
    return (struct str){.p = "", .n = 0};
}

/* x86-64 psABI, "Micro-Architecture Levels", in the spelling of /proc/cpuinfo. */
static const struct {
    const char *name;
    const char *flags; /* on top of the level before */
} cpu_levels[] = {
    {"x86-64-v2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"},
    {"x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"},
    {"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"},
};

static void read_cpu(const struct fs *fs, struct arena *a, unsigned minor, struct ld_system *s)
{
    struct str text = {.p = "", .n = 0};
    if (fs_read(fs, a, "/proc/cpuinfo", 4 * MAX_LOADER, &text, NULL) != ST_OK) {
        text.n = 0; /* no level is assumed */
    }
    struct str flags = cpu_line(text, "flags");
    size_t reached = 0;
    while (reached < ARRAY_LEN(cpu_levels) && has_all(flags, cpu_levels[reached].flags)) {
        reached++;
    }
    const char **levels = arena_array(a, reached + 1, sizeof *levels);
    struct name_list sub = {0};
    for (size_t i = 0; i < reached; i++) {
        levels[i] = cpu_levels[reached - 1 - i].name;
        *VEC_PUSH(a, &sub) = arena_fmt(a, "glibc-hwcaps/%s", levels[i]);
    }
    s->levels = levels;
    s->level_count = reached;
    /* glibc gives a platform name of their own only to Intel's. */
    bool intel = str_is(cpu_line(text, "vendor_id"), "GenuineIntel");
    s->platform = intel && reached >= 2 ? "haswell" : "x86_64";
    if (minor != 0 && minor <= LAST_LEGACY_GLIBC) {
        static const char *const forms[] = {"tls/%s/x86_64", "tls/%s", "tls/x86_64", "tls",
                                            "%s/x86_64",     "%s",     "x86_64"};
        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
            struct str form = str_of(forms[i]);
            size_t hole = str_find(form, "%s", 0);
            *VEC_PUSH(a, &sub) = hole == SIZE_MAX ? forms[i]
                                                  : arena_fmt(a, "%.*s%s%s", (int)hole, forms[i],
                                                              s->platform, forms[i] + hole + 2);
        }
    }
    s->subfolders = sub.items;
    s->subfolder_count = sub.count;
}

static void read_conf(const struct fs *fs, struct arena *a, const char *path, int depth,
                      struct name_list *dirs);

/* "include ld.so.conf.d/x*.conf"; a wild card in the last part only, as ldconfig's files have it. */
static void include_conf(const struct fs *fs, struct arena *a, struct str pattern, int depth,
                         struct name_list *dirs)
{
    const char *full = pattern.n != 0 && pattern.p[0] == '/'
                           ? str_dup(a, pattern)
                           : arena_fmt(a, "/etc/%.*s", STR_ARG(pattern));
    const char *name = strrchr(full, '/') + 1;
    const char *dir = str_dup(a, (struct str){.p = full, .n = (size_t)(name - full)});
    const char *const *names;
    size_t count;
    if (fs_list(fs, a, dir, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (fnmatch(name, names[i], FNM_PERIOD) == 0) {
            read_conf(fs, a, arena_fmt(a, "%s%s", dir, names[i]), depth + 1, dirs);
        }
    }
}

static void read_conf(const struct fs *fs, struct arena *a, const char *path, int depth,
                      struct name_list *dirs)
{
    struct str text;
    struct str line;
    if (depth > MAX_INCLUDES || fs_read(fs, a, path, MAX_CONF, &text, NULL) != ST_OK) {
        return;
    }
    while (str_cut_line(&text, &line) && dirs->count < MAX_DIRS) {
        struct str part = line;
        str_cut(&line, '#', &part);
        part = str_trim(part);
        if (str_starts(part, "include ") || str_starts(part, "include\t")) {
            struct str rest = str_trim(str_slice(part, 8, part.n));
            struct str pattern;
            while (str_cut(&rest, ' ', &pattern)) {
                if (pattern.n != 0) {
                    include_conf(fs, a, pattern, depth, dirs);
                }
            }
        } else if (part.n != 0 && part.p[0] == '/') {
            struct str dir = part;
            str_cut(&part, '=', &dir);
            while (dir.n > 1 && dir.p[dir.n - 1] == '/') {
                dir.n--;
            }
            *VEC_PUSH(a, dirs) = str_dup(a, dir);
        }
    }
}

static void read_cache(const struct fs *fs, struct arena *a, struct ld_system *s)
{
    struct fs_map map;
    if (fs_map(fs, a, "/etc/ld.so.cache", &map, NULL) == ST_OK) {
        struct str bytes = {.p = (const char *)map.p, .n = map.n};
        s->has_cache = bytes.n <= MAX_CACHE && ld_cache_parse(a, bytes, &s->cache, NULL) == ST_OK;
        fs_unmap(&map);
    }
    if (!s->has_cache) {
        struct name_list dirs = {0};
        read_conf(fs, a, "/etc/ld.so.conf", 0, &dirs);
        s->conf_dirs = dirs.items;
        s->conf_dir_count = dirs.count;
    }
}

/* Debian: "lib/x86_64-linux-gnu"; Fedora: "lib64"; Arch: "lib". */
static const char *lib_of(const struct ld_system *s)
{
    const char *first = s->dir_count != 0 ? s->dirs[0] : "/lib64";
    return strncmp(first, "/usr/", 5) == 0 ? first + 5 : first + 1;
}

void ld_system_read(const struct fs *fs, struct arena *a, const char *loader,
                    struct ld_system *ret_system)
{
    struct ld_system s = {0};
    struct name_list dirs = {0};
    struct fs_map map = {0};
    struct str bytes = {.p = "", .n = 0};
    const char *path = loader != NULL ? loader : USUAL_LOADER;
    if (fs_map(fs, a, path, &map, NULL) == ST_OK && map.n <= MAX_LOADER) {
        bytes = (struct str){.p = (const char *)map.p, .n = map.n};
        s.loader = arena_strdup(a, path);
        dirs_of_loader(a, bytes, &dirs);
    }
    if (dirs.count == 0) {
        guess_dirs(fs, a, &dirs);
    }
    s.dirs = dirs.items;
    s.dir_count = dirs.count;
    s.lib = lib_of(&s);
    read_cpu(fs, a, glibc_minor(bytes), &s);
    fs_unmap(&map);
    read_cache(fs, a, &s);
    *ret_system = s;
}
