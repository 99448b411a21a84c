// SPDX-License-Identifier: Apache-2.0
/*
 * Which ROCm and which CUDA toolkit a job uses. The answer is the one whose libamdhip64 the loader
 * picks (libraries.c resolved it); without a resolved one, the first installation found. ROCM_PATH
 * is recorded when it points elsewhere, because it decides nothing at run time.
 */
#include <ctype.h>
#include <string.h>

#include "base/tree.h"
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/lib_table.h"
#include "facts/rocm_install.h"

enum {
    MAX_SMALL = 65536
};

/* share/hip/version or bin/.hipVersion: HIP_VERSION_MAJOR=6 and so on. */
static const char *version_in_hip_file(const struct collect *c, const char *prefix,
                                       const char **ret_source)
{
    static const char *const files[] = {"share/hip/version", "bin/.hipVersion", "lib/.hipVersion",
                                        "hip/bin/.hipVersion", "core/share/hip/version"};
    static const char *const parts[] = {
        "HIP_VERSION_MAJOR=", "HIP_VERSION_MINOR=", "HIP_VERSION_PATCH="};
    struct arena *a = c->scratch;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct str text;
        const char *path = arena_fmt(a, "%s/%s", prefix, files[i]);
        if (fs_read(c->fs, a, path, MAX_SMALL, &text, NULL) != ST_OK) {
            continue;
        }
        const char *number[3] = {NULL, NULL, NULL};
        struct str line;
        while (str_cut_line(&text, &line)) {
            for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
                if (str_starts(line, parts[k])) {
                    struct str value = str_slice(line, strlen(parts[k]), line.n);
                    size_t n = 0;
                    while (n < value.n && isdigit((unsigned char)value.p[n])) {
                        n++;
                    }
                    number[k] = str_dup(a, str_slice(value, 0, n));
                }
            }
        }
        if (number[0] != NULL && number[1] != NULL) {
            *ret_source = path;
            return number[2] != NULL ? arena_fmt(a, "%s.%s.%s", number[0], number[1], number[2])
                                     : arena_fmt(a, "%s.%s", number[0], number[1]);
        }
    }
    return NULL;
}

static void set_hip_version(struct collect *c, const struct rocm_install *used, const char *file)
{
    static const char key[] = "hip.runtime_version";
    struct arena *a = c->scratch;
    const char *source = file;
    const char *version = used != NULL ? version_in_hip_file(c, used->path, &source) : NULL;
    const char *real = NULL;
    if (version == NULL && file != NULL && fs_realpath(c->fs, a, file, &real, NULL) == ST_OK) {
        version = lib_version_of_file_name(a, real);
        source = real;
    }
    const char *torch_hip = facts_get_string(c->facts, "torch.hip", NULL);
    if (version == NULL && used != NULL && strcmp(used->kind, "wheel") == 0 && torch_hip != NULL) {
        size_t n = strspn(torch_hip,
                          "0123456789."); /* the wheel was built with the one it carries */
        version = str_dup(a, str_slice(str_of(torch_hip), 0, n));
        source = "torch/version.py";
    }
    if (version != NULL) {
        facts_string(c->facts, key, version, source);
    } else {
        facts_set_state(c->facts, key, file != NULL ? FACT_UNREADABLE : FACT_ABSENT,
                        file != NULL ? file : "/opt/rocm",
                        file != NULL ? "neither a version file nor the library's name tells it"
                                     : "no libamdhip64 was found");
    }
}

static void set_hsa(struct collect *c, const struct rocm_installs *list)
{
    struct arena *a = c->scratch;
    VEC_OF(const char *) copies = {0};
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k < list->items[i].lib_dir_count; k++) {
            const char *file = rocm_library_in(c, a, list->items[i].lib_dirs[k], "hsa-runtime64");
            if (file != NULL) {
                *VEC_PUSH(a, &copies) = file;
            }
        }
    }
    facts_strings(c->facts, "hsa.runtime_copies", copies.items, copies.count,
                  "the library folders of every ROCm found");
    const struct fact *path = facts_get(c->facts, "lib.hsa-runtime64.path");
    if (path == NULL || path->value.kind != VALUE_STRING) {
        return;
    }
    const char *file = path->value.string;
    const char *real;
    facts_string(c->facts, "hsa.runtime_path", file, path->source);
    const char *version = NULL;
    if (fs_realpath(c->fs, a, file, &real, NULL) == ST_OK) {
        version = lib_version_of_file_name(a, real);
    }
    if (version != NULL) {
        facts_string(c->facts, "hsa.runtime_version", version, real);
    } else {
        facts_set_state(c->facts, "hsa.runtime_version", FACT_UNREADABLE, file,
                        "the library's name does not carry its version");
    }
}

static void set_installs(struct collect *c, const struct rocm_installs *list)
{
    struct arena *a = c->scratch;
    const char **lines = arena_array(a, list->count + 1, sizeof *lines);
    for (size_t i = 0; i < list->count; i++) {
        const struct rocm_install *in = &list->items[i];
        lines[i] = arena_fmt(a, "%s: %s (%s)", in->path,
                             in->version != NULL ? in->version : "version unknown", in->kind);
    }
    facts_strings(c->facts, "rocm.installs", lines, list->count, "/opt, site-packages, /usr/lib");
}

static void set_used(struct collect *c, const struct rocm_install *used)
{
    static const char reason[] =
        "no ROCm was found under /opt, in a wheel or in the system folders";
    if (used == NULL) {
        facts_set_state(c->facts, "rocm.version", FACT_ABSENT, "/opt/rocm", reason);
        facts_set_state(c->facts, "rocm.path", FACT_ABSENT, "/opt/rocm", reason);
        facts_set_state(c->facts, "rocm.source", FACT_ABSENT, "/opt/rocm", reason);
        return;
    }
    if (used->version != NULL) {
        facts_string(c->facts, "rocm.version", used->version, used->source);
    } else {
        facts_set_state(c->facts, "rocm.version", FACT_UNREADABLE, used->source,
                        "the installation does not say its release");
    }
    facts_string(c->facts, "rocm.path", used->path, used->source);
    facts_string(c->facts, "rocm.source", used->kind, used->path);
    const char *variable = collect_env(c, "ROCM_PATH");
    const char *real;
    if (variable != NULL && variable[0] == '/' &&
        fs_realpath(c->fs, c->scratch, variable, &real, NULL) == ST_OK) {
        facts_bool(c->facts, "rocm.path_variable_agrees", strcmp(real, used->path) == 0,
                   "env.ROCM_PATH");
    }
}

/* version.json of CUDA 11 and newer, version.txt before. */
static const char *cuda_version_at(struct collect *c, const char *prefix, const char **ret_source)
{
    struct arena *a = c->scratch;
    struct tree_limits limits = {.bytes = MAX_SMALL, .nodes = 2000, .depth = 8};
    const struct tree *t;
    struct str text;
    const char *path = arena_fmt(a, "%s/version.json", prefix);
    if (fs_read(c->fs, a, path, MAX_SMALL, &text, NULL) == ST_OK &&
        tree_from_json(a, text, path, limits, &t, NULL) == ST_OK) {
        *ret_source = path;
        return tree_text(tree_get(t, "cuda"), "version", NULL);
    }
    path = arena_fmt(a, "%s/version.txt", prefix);
    if (fs_read(c->fs, a, path, MAX_SMALL, &text, NULL) == ST_OK) {
        struct str line = str_trim(text);
        size_t at = str_find(line, "CUDA Version ", 0);
        if (at != SIZE_MAX) {
            size_t from = at + strlen("CUDA Version ");
            size_t n = strspn(line.p + from, "0123456789.");
            *ret_source = path;
            return str_dup(a, str_slice(line, from, from + n));
        }
    }
    const char *dash = strrchr(prefix, '-'); /* /usr/local/cuda-12.4 */
    if (dash != NULL && isdigit((unsigned char)dash[1]) && strchr(dash, '/') == NULL) {
        *ret_source = prefix;
        return dash + 1;
    }
    return NULL;
}

/* The folder above bin/nvcc on the PATH of the job. */
static const char *nvcc_prefix(struct collect *c)
{
    struct arena *a = c->scratch;
    struct str path = str_of(collect_env(c, "PATH"));
    struct str folder;
    while (path.n != 0 && str_cut(&path, ':', &folder)) {
        const char *file = arena_fmt(a, "%.*s/nvcc", STR_ARG(folder));
        const char *real;
        if (folder.n != 0 && folder.p[0] == '/' && fs_exists(c->fs, a, file) &&
            fs_realpath(c->fs, a, file, &real, NULL) == ST_OK &&
            strlen(real) > strlen("/bin/nvcc")) {
            return str_dup(a, str_slice(str_of(real), 0, strlen(real) - strlen("/bin/nvcc")));
        }
    }
    return NULL;
}

static void set_cuda(struct collect *c)
{
    const char *const places[] = {collect_env(c, "CUDA_HOME"), nvcc_prefix(c), "/usr/local/cuda",
                                  "/usr/lib/cuda", "/opt/cuda"};
    struct arena *a = c->scratch;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *real;
        const char *source = NULL;
        if (places[i] == NULL || places[i][0] != '/' || !fs_is_dir(c->fs, a, places[i]) ||
            fs_realpath(c->fs, a, places[i], &real, NULL) != ST_OK) {
            continue;
        }
        const char *version = cuda_version_at(c, real, &source);
        if (version != NULL) {
            facts_string(c->facts, "cuda.version", version, source);
            facts_string(c->facts, "cuda.path", real, places[i]);
            return;
        }
    }
    facts_set_state(c->facts, "cuda.version", FACT_ABSENT, "/usr/local/cuda",
                    "no CUDA toolkit: neither CUDA_HOME, nvcc on the PATH nor /usr/local/cuda");
}

void collect_rocm(struct collect *c)
{
    struct rocm_installs list;
    rocm_installs_find(c, c->scratch, &list);
    const char *hip = facts_get_string(c->facts, "lib.amdhip64.path", NULL);
    const struct rocm_install *used = hip != NULL ? rocm_install_of(&list, hip) : NULL;
    bool other_torch = facts_get_string(c->facts, "torch.cuda", NULL) != NULL;
    if (used == NULL && list.count != 0) {
        used = &list.items[0];
        for (size_t i = 0; other_torch && i < list.count; i++) {
            if (strcmp(list.items[i].kind, "system") == 0) { /* what a user of this machine means */
                used = &list.items[i];
                break;
            }
        }
    }
    set_installs(c, &list);
    set_used(c, used);
    if (hip == NULL && used != NULL) {
        for (size_t k = 0; k < used->lib_dir_count && hip == NULL; k++) {
            hip = rocm_library_in(c, c->scratch, used->lib_dirs[k], "amdhip64");
        }
    }
    set_hip_version(c, used, hip);
    set_hsa(c, &list);
    set_cuda(c);
}
