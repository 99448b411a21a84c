// SPDX-License-Identifier: Apache-2.0
/*
 * torch/version.py is read as text: only plain assignments of literals count. The GPU targets of
 * torch come with the other libraries, in libraries.c.
 */
#include "facts/python_torch.h"

#include <ctype.h>
#include <string.h>

#include "base/vec.h"
#include "base/version.h"

#include "facts/collect.h"
#include "facts/python_env.h"
#include "facts/python_text.h"

enum {
    MAX_VERSION_PY = 65536,
    MAX_JSON = 1 << 20
};

const char *python_torch_build(struct arena *a, const char *version)
{
    const char *plus = strchr(version, '+');
    if (plus == NULL) {
        return NULL;
    }
    struct str local = str_of(plus + 1);
    if (str_starts(local, "dev")) { /* 2.9.0+devrocm7.10.0.dev0-efed3c */
        local = str_slice(local, 3, local.n);
    }
    if (str_is(local, "cpu") || str_starts(local, "cpu.")) {
        return "cpu";
    }
    static const char *const kinds[] = {"rocm", "cu", "xpu"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = strlen(kinds[i]);
        if (!str_starts(local, kinds[i])) {
            continue;
        }
        size_t end = n;
        while (end < local.n && (isdigit((unsigned char)local.p[end]) ||
                                 (local.p[end] == '.' && end + 1 < local.n &&
                                  isdigit((unsigned char)local.p[end + 1])))) {
            end++;
        }
        if (end > n || strcmp(kinds[i], "xpu") == 0) {
            return str_dup(a, str_slice(local, 0, end));
        }
    }
    return NULL;
}

/* Targets for which the default is established by PyTorch's own lists, with the first HIP version
 * whose builds have them. Consumer RDNA3 and the APUs were added and removed more than once, so
 * they are not here: ROCm/pytorch#2053, #2125, #2742, #2876, #3207, pytorch#153610. */
static const struct blas_default {
    const char *gfx;
    const char *hip_from;
} hipblaslt_defaults[] = {
    {"gfx90a", "5.7"}, {"gfx942", "6.0"}, {"gfx950", "7.0"}, {"gfx1200", "6.4"}, {"gfx1201", "6.4"},
};

const char *python_torch_default_blas(const char *gfx, const char *hip)
{
    for (size_t i = 0; i < ARRAY_LEN(hipblaslt_defaults); i++) {
        if (strcmp(gfx, hipblaslt_defaults[i].gfx) == 0) {
            if (version_cmp(str_of(hip), str_of(hipblaslt_defaults[i].hip_from)) >= 0) {
                return "hipblaslt";
            }
            return NULL;
        }
    }
    /* Never in the list, and hipBLASLt is not built for them (TheRock's target table). */
    static const char *const never[] = {"gfx803", "gfx900", "gfx906", "gfx90c", "gfx101", "gfx103"};
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        if (str_starts(str_of(gfx), never[i])) {
            return "cublas";
        }
    }
    return NULL;
}

/* A bool as PyTorch's check_env reads it: 1/0, and the words. */
static int env_bool(const char *s)
{
    static const char *const yes[] = {"1", "y", "yes", "on", "true"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcasecmp(s, yes[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static void set_blas(const struct collect *c, struct arena *a, const char *hip)
{
    static const char key[] = "torch.blas_preferred";
    if (hip == NULL) {
        facts_set_state(c->facts, key, FACT_NOT_APPLICABLE, "torch/version.py",
                        "this torch is not a ROCm build");
        return;
    }
    static const char *const names[] = {"TORCH_BLAS_PREFER_CUBLASLT",
                                        "TORCH_BLAS_PREFER_HIPBLASLT"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = collect_env(c, names[i]);
        if (value != NULL) {
            facts_string(c->facts, key, env_bool(value) ? "hipblaslt" : "cublas",
                         arena_fmt(a, "env.%s", names[i]));
            return;
        }
    }
    /* The default needs all visible GPUs in the list: one integrated GPU flips it. */
    int64_t gpus = facts_get_int(c->facts, "gpu.count", 0);
    const char *verdict = NULL;
    for (int64_t i = 0; i < gpus && i < 64; i++) {
        const char *gfx = facts_get_string(c->facts, arena_fmt(a, "gpu[%lld].gfx", (long long)i),
                                           NULL);
        if (gfx == NULL) {
            continue;
        }
        const char *one = python_torch_default_blas(gfx, hip);
        if (one == NULL) {
            verdict = NULL;
            break;
        }
        verdict = verdict == NULL || strcmp(one, "cublas") == 0 ? one : verdict;
    }
    if (verdict != NULL) {
        facts_string(c->facts, key, verdict, "PyTorch's default list of targets");
    } else {
        facts_set_state(c->facts, key, FACT_UNREADABLE, "PyTorch's default list of targets",
                        "no variable is set and the default for these GPUs is not established");
    }
}

static void set_literal(const struct collect *c, struct arena *a, struct str text, const char *name,
                        const char *source)
{
    const char *key = arena_fmt(a, "torch.%s", name);
    struct py_literal value = py_assignment(a, text, name);
    if (value.kind == PY_STRING) {
        facts_string(c->facts, key, value.string, source);
    } else {
        facts_set_state(c->facts, key, FACT_ABSENT, source,
                        value.kind == PY_NONE ? "None: torch was not built for it"
                                              : "torch/version.py does not name it");
    }
}

static void set_source_build(const struct collect *c, struct arena *a, const char *version,
                             const char *source, const struct python_dist *dist)
{
    static const char key[] = "torch.source_build";
    struct str url;
    if (dist != NULL && fs_read(c->fs, a, arena_fmt(a, "%s/direct_url.json", dist->info), MAX_JSON,
                                &url, NULL) == ST_OK) {
        bool wheel = str_has(url, "archive_info");
        if (!wheel) { /* dir_info or vcs_info: pip built it here */
            facts_bool(c->facts, key, true, arena_fmt(a, "%s/direct_url.json", dist->info));
            return;
        }
    }
    /* setup.py of a checkout writes 2.9.0a0+git1234567; NVIDIA's containers 2.6.0a0+ecf3bae40a.nv25 */
    const char *plus = strchr(version, '+');
    bool git = plus != NULL && strncmp(plus, "+git", 4) == 0;
    bool untagged = python_torch_build(a, version) == NULL && strstr(version, "a0") != NULL;
    facts_bool(c->facts, key, git || untagged, source);
}

static void set_bundled(const struct collect *c, struct arena *a, const char *lib)
{
    const char *const *names;
    size_t count;
    struct err err = {0};
    if (fs_list(c->fs, a, lib, &names, &count, &err) != ST_OK) {
        facts_set_error(c->facts, "torch.bundled_libs", lib, &err);
        return;
    }
    static const char *const own[] = {"libtorch", "libc10", "libshm", "libcaffe2", "_"};
    VEC_OF(const char *) bundled = {0};
    for (size_t i = 0; i < count; i++) {
        bool is_own = !py_is_library_name(str_of(names[i]));
        for (size_t k = 0; k < ARRAY_LEN(own); k++) {
            is_own |= str_starts(str_of(names[i]), own[k]);
        }
        if (!is_own) {
            *VEC_PUSH(a, &bundled) = names[i];
        }
    }
    facts_strings(c->facts, "torch.bundled_libs", bundled.items, bundled.count, lib);
}

static void torch_absent(const struct collect *c, struct arena *a, const struct python_env *env,
                         const struct python_dist *dist)
{
    const char *reason = arena_fmt(a, "there is no torch in %s", env->prefix);
    enum fact_state state = FACT_ABSENT;
    const char *source = env->source;
    if (dist != NULL) {
        state = FACT_UNREADABLE;
        source = dist->info;
        reason = arena_fmt(a,
                           "torch %s is registered and torch/version.py is missing: the "
                           "installation is broken",
                           dist->version != NULL ? dist->version : "(no version)");
    }
    facts_set_state(c->facts, "torch.version", state, source, reason);
    facts_bool(c->facts, "pkg.torch.present", false, source);
}

const char *python_torch_facts(const struct collect *c, struct arena *a,
                               const struct python_env *env)
{
    const struct python_dist *dist = python_env_get(env, "torch");
    const char *file = python_env_file(c, a, env, "torch/version.py");
    if (file == NULL) {
        torch_absent(c, a, env, dist);
        return NULL;
    }
    struct str text;
    struct err err = {0};
    if (fs_read(c->fs, a, file, MAX_VERSION_PY, &text, &err) != ST_OK) {
        facts_set_error(c->facts, "torch.version", file, &err);
        return NULL;
    }
    struct py_literal version = py_assignment(a, text, "__version__");
    if (version.kind != PY_STRING) {
        /* version.py of some source builds imports the number; the metadata has it too. */
        version.string = dist != NULL ? dist->version : NULL;
    }
    if (version.string == NULL) {
        facts_set_state(c->facts, "torch.version", FACT_UNREADABLE, file,
                        "torch/version.py assigns no __version__");
        return NULL;
    }
    facts_string(c->facts, "torch.version", version.string, file);
    const char *build = python_torch_build(a, version.string);
    if (build != NULL) {
        facts_string(c->facts, "torch.build", build, file);
    } else {
        facts_set_state(c->facts, "torch.build", FACT_ABSENT, file,
                        "the version has no local tag of a known build");
    }
    set_literal(c, a, text, "hip", file);
    set_literal(c, a, text, "cuda", file);
    set_source_build(c, a, version.string, file, dist);
    set_blas(c, a, facts_get_string(c->facts, "torch.hip", NULL));
    const char *folder = str_dup(a,
                                 str_slice(str_of(file), 0, strlen(file) - strlen("/version.py")));
    facts_string(c->facts, "torch.path", folder, file);
    const char *lib = arena_fmt(a, "%s/lib", folder);
    set_bundled(c, a, lib);
    return lib;
}
