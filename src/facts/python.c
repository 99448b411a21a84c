// SPDX-License-Identifier: Apache-2.0
/*
 * The Python environment of the job as facts. Python itself is never run: see python_env.h for how
 * the environment is found, python_native.h for what is read of extension modules.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/tree.h"
#include "base/vec.h"

#include "facts/collect.h"
#include "facts/python_env.h"
#include "facts/python_native.h"
#include "facts/python_text.h"
#include "facts/python_torch.h"

enum {
    MAX_METADATA = 4 << 20,
    MAX_WHEEL = 65536,
    MAX_CONF = 65536
};

/* Packages that are asked for by name: their absence is a fact too. */
static const char *const known_packages[] = {
    "accelerate",
    "aiter",
    "amdsmi",
    "apex",
    "bitsandbytes",
    "causal-conv1d",
    "datasets",
    "deepspeed",
    "fla-core",
    "flash-attn",
    "flash-attn-3",
    "flash-linear-attention",
    "liger-kernel",
    "llamafactory",
    "mamba-ssm",
    "numpy",
    "peft",
    "pytorch-triton",
    "pytorch-triton-rocm",
    "safetensors",
    "sentencepiece",
    "tokenizers",
    "torchao",
    "torchaudio",
    "torchvision",
    "transformers",
    "transformer-engine",
    "triton",
    "triton-rocm",
    "trl",
    "unsloth",
    "unsloth-zoo",
    "vllm",
    "xformers",
};

static bool is_known(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(known_packages); i++) {
        if (strcmp(name, known_packages[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void set_environment(struct collect *c, const struct python_env *env)
{
    struct facts *f = c->facts;
    struct arena *a = c->scratch;
    if (env->version != NULL) {
        facts_string(f, "python.version", env->version, env->source);
    } else {
        facts_set_state(f, "python.version", FACT_UNREADABLE, env->source,
                        "the folder's name does not tell the version");
    }
    facts_string(f, "python.prefix", env->prefix, arena_fmt(a, "%s (%s)", env->source, env->how));
    facts_string(f, "python.how", env->how, env->source);
    facts_strings(f, "python.sites", env->sites.items, env->sites.count, env->source);
    facts_strings(f, "python.pth_imports", env->pth_imports.items, env->pth_imports.count,
                  env->source);
    facts_strings(f, "python.leftovers", env->leftovers.items, env->leftovers.count, env->source);
}

/* Where else a torch lies: the usual answer to "but I installed it". */
static void set_others(struct collect *c, const char *chosen)
{
    struct arena *a = c->scratch;
    size_t count;
    const char *const *others = python_env_others(c, a, chosen, &count);
    VEC_OF(const char *) with_torch = {0};
    for (size_t i = 0; i < count; i++) {
        struct python_env env;
        struct str text;
        if (python_env_at(c, a, others[i], "search", &env, NULL) != ST_OK) {
            continue;
        }
        const char *file = python_env_file(c, a, &env, "torch/version.py");
        if (file == NULL || fs_read(c->fs, a, file, MAX_CONF, &text, NULL) != ST_OK) {
            continue;
        }
        struct py_literal version = py_assignment(a, text, "__version__");
        *VEC_PUSH(a, &with_torch) = arena_fmt(a, "%s: torch %s", others[i],
                                              version.kind == PY_STRING ? version.string : "?");
    }
    facts_strings(c->facts, "python.others_with_torch", with_torch.items, with_torch.count,
                  "the usual folders of environments");
}

/* "cp311-abi3-manylinux…" on Python 3.12: true; -1 when the tag does not tell. */
static int tag_fits(const char *tag, const char *python)
{
    uint64_t minor;
    const char *dot = python != NULL ? strchr(python, '.') : NULL;
    if (dot == NULL) {
        return -1;
    }
    size_t digits = strspn(dot + 1, "0123456789");
    if (str_to_u64((struct str){dot + 1, digits}, 10, &minor) != ST_OK) {
        return -1;
    }
    struct str rest = str_of(tag);
    struct str interpreter;
    struct str abi;
    if (!str_cut(&rest, '-', &interpreter) || !str_cut(&rest, '-', &abi) || rest.p == NULL) {
        return -1;
    }
    if (str_starts(interpreter, "py3") || str_starts(interpreter, "py2.py3")) {
        return 1;
    }
    uint64_t built;
    if (!str_starts(interpreter, "cp3") ||
        str_to_u64(str_slice(interpreter, 3, interpreter.n), 10, &built) != ST_OK) {
        return -1;
    }
    return str_is(abi, "abi3") ? built <= minor : built == minor;
}

static void set_wheel(struct collect *c, const struct python_dist *d, const char *python)
{
    struct arena *a = c->scratch;
    struct str text;
    const char *file = arena_fmt(a, "%s/WHEEL", d->info);
    if (fs_read(c->fs, a, file, MAX_WHEEL, &text, NULL) != ST_OK) {
        return;
    }
    const char *tag = py_header(a, text, "Tag");
    if (tag == NULL) {
        return;
    }
    facts_string(c->facts, arena_fmt(a, "wheel.%s.tag", d->name), tag, file);
    int fits = tag_fits(tag, python);
    if (fits >= 0) {
        facts_bool(c->facts, arena_fmt(a, "wheel.%s.fits_python", d->name), fits != 0, file);
    }
}

/* direct_url.json: a wheel file, a checkout, an editable install. */
static void set_origin(struct collect *c, const struct python_dist *d)
{
    struct arena *a = c->scratch;
    struct str text;
    const char *file = arena_fmt(a, "%s/direct_url.json", d->info);
    const struct tree *t;
    struct tree_limits limits = {.bytes = MAX_WHEEL, .nodes = 200, .depth = 8};
    if (fs_read(c->fs, a, file, MAX_WHEEL, &text, NULL) != ST_OK ||
        tree_from_json(a, text, file, limits, &t, NULL) != ST_OK) {
        return;
    }
    const char *url = tree_text(t, "url", NULL);
    if (url != NULL) {
        facts_string(c->facts, arena_fmt(a, "pkg.%s.origin", d->name), url, file);
    }
    const struct tree *editable = tree_get(tree_get(t, "dir_info"), "editable");
    if (editable != NULL && editable->value.kind == VALUE_BOOL && editable->value.boolean) {
        facts_bool(c->facts, arena_fmt(a, "pkg.%s.editable", d->name), true, file);
    }
}

static void set_metadata(struct collect *c, const struct python_dist *d)
{
    struct arena *a = c->scratch;
    struct str text;
    struct err err = {0};
    const char *key = arena_fmt(a, "pkg.%s.version", d->name);
    const char *file = arena_fmt(a, "%s/METADATA", d->info);
    if (fs_read(c->fs, a, file, MAX_METADATA, &text, &err) != ST_OK) {
        if (str_ends(str_of(d->info), ".dist-info")) {
            facts_set_error(c->facts, key, file, &err); /* a dist-info without it is broken */
        }
        return;
    }
    const char *version = py_header(a, text, "Version");
    if (version != NULL) {
        facts_string(c->facts, key, version, file);
    }
    const char *pin = py_pinned_requirement(a, text, "torch");
    if (pin != NULL) {
        facts_string(c->facts, arena_fmt(a, "pkg.%s.requires_torch", d->name), pin, file);
    }
}

static bool is_rocm_sdk(const char *name)
{
    return strcmp(name, "rocm") == 0 || str_starts(str_of(name), "rocm-sdk");
}

static void set_packages(struct collect *c, const struct python_env *env)
{
    struct arena *a = c->scratch;
    VEC_OF(const char *) shadowed = {0};
    for (size_t i = 0; i < env->dists.count; i++) {
        const struct python_dist *d = &env->dists.items[i];
        struct arena_mark mark = arena_mark(a);
        if (d->shadowed) {
            const char *line = arena_fmt(a, "%s %s in %s", d->name,
                                         d->version != NULL ? d->version : "?", d->site);
            *VEC_PUSH(a, &shadowed) = line;
            continue;
        }
        if (d->version != NULL) {
            facts_string(c->facts, arena_fmt(a, "pkg.%s.version", d->name), d->version, d->info);
        }
        facts_bool(c->facts, arena_fmt(a, "pkg.%s.present", d->name), true, d->info);
        bool torch_family = str_starts(str_of(d->name), "torch");
        if (is_known(d->name) || torch_family || is_rocm_sdk(d->name)) {
            set_metadata(c, d);
            set_wheel(c, d, env->version);
            set_origin(c, d);
        }
        arena_rewind(a, mark);
    }
    facts_strings(c->facts, "python.shadowed", shadowed.items, shadowed.count, env->prefix);
    for (size_t i = 0; i < ARRAY_LEN(known_packages); i++) {
        const char *name = known_packages[i];
        if (python_env_get(env, name) == NULL) {
            facts_bool(c->facts, arena_fmt(a, "pkg.%s.present", name), false, env->prefix);
            facts_set_state(c->facts, arena_fmt(a, "pkg.%s.version", name), FACT_ABSENT,
                            env->prefix, "not installed in this environment");
        }
    }
}

/* flash-attn on ROCm is either composable kernel (an extension module) or Triton (a variable). */
static void set_flash_attn_backend(struct collect *c, const struct python_env *env)
{
    struct arena *a = c->scratch;
    static const char key[] = "pkg.flash-attn.backend";
    const struct python_dist *d = python_env_get(env, "flash-attn");
    if (d == NULL) {
        return;
    }
    if (facts_get_string(c->facts, "torch.cuda", NULL) != NULL) {
        facts_string(c->facts, key, "cuda", d->info);
        return;
    }
    const char *triton = collect_env(c, "FLASH_ATTENTION_TRITON_AMD_ENABLE");
    if (triton != NULL && strcasecmp(triton, "TRUE") == 0) {
        facts_string(c->facts, key, "triton", "env.FLASH_ATTENTION_TRITON_AMD_ENABLE");
        return;
    }
    const struct fact *libs = facts_get(c->facts, "pkg.flash-attn.native_libs");
    for (size_t i = 0; libs != NULL && libs->value.kind == VALUE_LIST && i < libs->value.list.count;
         i++) {
        const char *name = libs->value.list.items[i].string;
        if (str_starts(str_of(name), "flash_attn_2_cuda") &&
            facts_get_string(c->facts, "torch.hip", NULL) != NULL) {
            facts_string(c->facts, key, "ck", arena_fmt(a, "%s: %s", d->info, name));
            return;
        }
    }
    facts_set_state(c->facts, key, FACT_ABSENT, d->info,
                    "no extension module, and FLASH_ATTENTION_TRITON_AMD_ENABLE is not TRUE");
}

/* pip's own order: the variable, the environment's file, the user's, the machine's. */
static void set_index(struct collect *c, const struct python_env *env)
{
    struct arena *a = c->scratch;
    const char *variable = collect_env(c, "PIP_INDEX_URL");
    if (variable != NULL && variable[0] != '\0') {
        facts_string(c->facts, "wheel.index", variable, "env.PIP_INDEX_URL");
        return;
    }
    const char *home = c->user_home != NULL ? c->user_home : "/root";
    const char *const files[] = {
        arena_fmt(a, "%s/pip.conf", env->prefix),
        arena_fmt(a, "%s/.config/pip/pip.conf", home),
        arena_fmt(a, "%s/.pip/pip.conf", home),
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct str text;
        if (fs_read(c->fs, a, files[i], MAX_CONF, &text, NULL) != ST_OK) {
            continue;
        }
        const char *url = py_ini_value(a, text, "index-url");
        if (url != NULL) {
            facts_string(c->facts, "wheel.index", url, files[i]);
            return;
        }
    }
    const char *origin = facts_get_string(c->facts, "pkg.torch.origin", NULL);
    if (origin != NULL) {
        facts_string(c->facts, "wheel.index", origin, "direct_url.json of torch");
        return;
    }
    facts_set_state(c->facts, "wheel.index", FACT_ABSENT, files[0],
                    "no pip.conf names an index and torch has no direct_url.json: the one it was "
                    "installed from is not recorded");
}

void collect_python(struct collect *c)
{
    struct python_env env;
    struct err err = {0};
    if (python_env_find(c, c->scratch, &env, &err) != ST_OK) {
        facts_set_error(c->facts, "python.version", c->python != NULL ? c->python : "PATH", &err);
        facts_set_error(c->facts, "torch.version", c->python != NULL ? c->python : "PATH", &err);
        set_others(c, NULL);
        return;
    }
    python_env_list(c, c->scratch, &env);
    set_environment(c, &env);
    set_packages(c, &env);
    const char *torch_lib = python_torch_facts(c, c->scratch, &env);
    python_triton_facts(c, c->scratch, &env);
    if (torch_lib != NULL) {
        python_torch_abi(c, torch_lib);
    } else {
        set_others(c, env.prefix);
    }
    python_native_facts(c, &env, torch_lib, is_known);
    set_flash_attn_backend(c, &env);
    set_index(c, &env);
}
