// SPDX-License-Identifier: Apache-2.0
/* The sections of a stack that the facts of a machine hold. */
#include <string.h>

#include "base/vec.h"

#include "facts/elf.h"
#include "snapshot/stack.h"

struct fact_row {
    enum stack_section section;
    const char *name;
    const char *key;
};

static const struct fact_row fact_rows[] = {
    {STACK_DRIVER, "amdgpu", "driver.amdgpu.version"},
    {STACK_DRIVER, "amdgpu-dkms", "driver.amdgpu.dkms_version"},
    {STACK_DRIVER, "nvidia", "driver.nvidia.version"},
    {STACK_FIRMWARE, "mes", "fw.mes"},
    {STACK_FIRMWARE, "smu", "fw.smu"},
    {STACK_FIRMWARE, "linux-firmware", "fw.linux_firmware"},
    {STACK_FIRMWARE, "bios", "bios.version"},
    {STACK_KERNEL, "release", "os.kernel"},
    {STACK_KERNEL, "command-line", "cmdline.raw"},
    {STACK_RUNTIME, "rocm", "rocm.version"},
    {STACK_RUNTIME, "hip", "hip.runtime_version"},
    {STACK_RUNTIME, "cuda", "cuda.version"},
    {STACK_RUNTIME, "nvidia-user-space", "driver.nvidia.userspace_version"},
    {STACK_RUNTIME, "glibc", "glibc.version"},
    {STACK_RUNTIME, "libstdc++", "libstdcxx.max_glibcxx"},
    {STACK_FRAMEWORK, "python", "python.version"},
    {STACK_FRAMEWORK, "torch-build", "torch.build"},
    {STACK_FRAMEWORK, "torch-hip", "torch.hip"},
    {STACK_FRAMEWORK, "torch-cuda", "torch.cuda"},
    {STACK_CONTAINER, "runtime", "container.runtime"},
    {STACK_MACHINE, "os", "os.name"},
    {STACK_MACHINE, "os-version", "os.version"},
    {STACK_MACHINE, "cpu", "cpu.model"},
    {STACK_MACHINE, "board", "board.name"},
};

/* Variables of GPU stacks, of their maths libraries and of what decides which files a process finds, by the start
 * of their names; '$' ends a whole name. The switches that are known besides count too. */
static const char *const env_rows[] = {
    "HSA_",
    "HIP_",
    "ROC",
    "AMD_",
    "MIOPEN_",
    "NCCL_",
    "RCCL_",
    "CUDA_",
    "CUBLAS",
    "CUDNN_",
    "NVIDIA_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "TENSILE",
    "HIPBLAS",
    "GPU_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "BLIS_",
    "OPENBLAS",
    "DNNL_",
    "ONEDNN_",
    "UCX_",
    "FI_",
    "GLOO_",
    "DS_",
    "ACCELERATE_",
    "FLASH_",
    "FLA_",
    "LD_LIBRARY_PATH$",
    "LD_PRELOAD$",
    "PYTHONPATH$",
    "MALLOC_",
    "GLIBC_TUNABLES$",
    "VIRTUAL_ENV$",
    "CONDA_PREFIX$",
};

/* Python packages that training stands on, in the same form. */
static const char *const wheel_rows[] = {
    "python$", /* itself; no distribution has the name */
    "torch",
    "triton",
    "pytorch-triton",
    "transformers$",
    "accelerate$",
    "peft$",
    "trl$",
    "deepspeed$",
    "bitsandbytes$",
    "flash-attn",
    "flash-linear",
    "fla-core$",
    "xformers$",
    "numpy$",
    "safetensors$",
    "tokenizers$",
    "sentencepiece$",
    "datasets$",
    "llamafactory$",
    "causal-conv1d$",
    "mamba-ssm$",
    "liger-kernel$",
    "unsloth",
    "vllm$",
    "apex$",
    "aiter$",
    "amdsmi$",
    "transformer-engine",
    "nvidia-",
    "rocm",
    "jax",
    "tensorflow",
    "amd-",
    "megatron",
};

static bool named_in(const char *const *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        struct str row = str_of(rows[i]);
        bool whole = row.p[row.n - 1] == '$';
        if (whole ? str_is(str_slice(row, 0, row.n - 1), name) : str_starts(str_of(name), row.p)) {
            return true;
        }
    }
    return false;
}

static const char *text_of(struct arena *a, const struct fact *f)
{
    struct strbuf out;
    strbuf_init(&out, a, 1 << 16);
    value_print(&out, &f->value);
    return out.p;
}

/* An item, a gap, or nothing where there is nothing. */
static void add_fact(struct arena *a, struct stack *s, enum stack_section section, const char *name,
                     const struct fact *f)
{
    if (f == NULL) {
        return;
    }
    if (f->state == FACT_KNOWN) {
        stack_add(a, s, section, name, text_of(a, f));
    } else if (f->state == FACT_DENIED || f->state == FACT_UNREADABLE) {
        stack_add_gap(a, s, section, name, f->reason != NULL ? f->reason : f->source);
    }
}

/* "driver.amdgpu.param." + NAME: the part behind the prefix, NULL for other keys. */
static const char *behind(const char *key, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(key, prefix, n) == 0 ? key + n : NULL;
}

static void add_library(struct arena *a, struct stack *s, const struct facts *facts,
                        const char *name)
{
    const struct fact *version = facts_get(facts, arena_fmt(a, "lib.%s.version", name));
    bool known = version != NULL && version->state == FACT_KNOWN;
    struct stack_item *item = stack_add(a, s, STACK_LIBRARY, name,
                                        known ? text_of(a, version) : NULL);
    const char *path = facts_get_string(facts, arena_fmt(a, "lib.%s.path", name), NULL);
    item->path = path != NULL ? arena_strdup(a, path) : NULL;
}

static void add_gpu(struct arena *a, struct stack *s, const struct facts *facts, const char *index)
{
    const char *name = facts_get_string(facts, arena_fmt(a, "gpu[%s].name", index), "");
    const char *gfx = facts_get_string(facts, arena_fmt(a, "gpu[%s].gfx", index), "");
    const char *id = facts_get_string(facts, arena_fmt(a, "gpu[%s].device_id", index), "");
    stack_add(a, s, STACK_MACHINE, arena_fmt(a, "gpu%s", index),
              arena_fmt(a, "%s%s%s%s%s", name, name[0] != '\0' && gfx[0] != '\0' ? " " : "", gfx,
                        id[0] != '\0' ? " " : "", id));
}

static void add_by_key(struct arena *a, struct stack *s, const struct facts *facts,
                       const struct fact *f)
{
    const char *rest = behind(f->key, "driver.amdgpu.param.");
    if (rest != NULL) {
        add_fact(a, s, STACK_KERNEL, arena_fmt(a, "amdgpu.%s", rest), f);
        return;
    }
    struct str key = str_of(f->key);
    rest = behind(f->key, "lib.");
    if (rest != NULL && str_ends(key, ".path") && f->state == FACT_KNOWN) {
        add_library(a, s, facts, str_dup(a, str_slice(key, 4, key.n - 5)));
        return;
    }
    rest = behind(f->key, "gpu[");
    if (rest != NULL && str_ends(key, "].vendor")) {
        add_gpu(a, s, facts, str_dup(a, str_slice(key, 4, key.n - 8)));
        return;
    }
    rest = behind(f->key, "env.");
    if (rest != NULL && strchr(rest, '.') == NULL && f->state == FACT_KNOWN &&
        f->value.kind == VALUE_STRING && strcmp(f->value.string, "(hidden)") != 0) {
        const struct fact *known = facts_get(facts, arena_fmt(a, "switch.%s.set", rest));
        if (known != NULL || named_in(env_rows, ARRAY_LEN(env_rows), rest)) {
            stack_add(a, s, STACK_ENVIRONMENT, rest, f->value.string);
        }
    }
}

enum stack_section stack_section_of_wheel(const char *name)
{
    return named_in(wheel_rows, ARRAY_LEN(wheel_rows), name) ? STACK_FRAMEWORK : STACK_PYTHON;
}

static void add_framework(struct arena *a, struct stack *s, const struct fact *f)
{
    struct str key = str_of(f->key);
    if (behind(f->key, "pkg.") == NULL || !str_ends(key, ".version") || f->state != FACT_KNOWN) {
        return;
    }
    const char *name = str_dup(a, str_slice(key, 4, key.n - 8));
    if (stack_section_of_wheel(name) == STACK_FRAMEWORK) {
        stack_add(a, s, STACK_FRAMEWORK, name, text_of(a, f));
    }
}

static void fill(struct arena *a, const struct facts *facts, struct stack *s)
{
    size_t count;
    const struct fact *const *all = facts_sorted(facts, a, &count);
    for (size_t i = 0; i < ARRAY_LEN(fact_rows); i++) {
        add_fact(a, s, fact_rows[i].section, fact_rows[i].name, facts_get(facts, fact_rows[i].key));
    }
    for (size_t i = 0; i < count; i++) {
        add_by_key(a, s, facts, all[i]);
        add_framework(a, s, all[i]);
    }
    if (!facts_get_bool(facts, "env.read", false)) {
        stack_add_gap(a, s, STACK_ENVIRONMENT, NULL, "the environment of the job is not known");
    }
    const char *prefix = facts_get_string(facts, "python.prefix", NULL);
    s->python = prefix != NULL ? arena_strdup(a, prefix) : NULL;
}

void stack_of_facts(struct arena *a, const struct facts *facts, struct stack *ret_stack)
{
    struct stack s = {.source = "facts"};
    fill(a, facts, &s);
    stack_add_gap(a, &s, STACK_PYTHON, NULL,
                  "facts name only the packages that training stands on");
    stack_add_gap(a, &s, STACK_PACKAGE, NULL, "facts hold no list of all packages");
    stack_sort(&s);
    *ret_stack = s;
}

/* Two builds of one version are told apart by the id that the linker wrote. */
static void add_build_ids(struct arena *a, const struct fs *fs, struct stack *s)
{
    for (size_t i = 0; i < s->items.count; i++) {
        struct stack_item *item = &s->items.items[i];
        struct fs_map map;
        if (item->section != STACK_LIBRARY || item->path == NULL ||
            fs_map(fs, a, item->path, &map, NULL) != ST_OK) {
            continue;
        }
        struct elf elf;
        struct str bytes = {.p = (const char *)map.p, .n = map.n};
        if (elf_open(a, bytes, item->path, &elf, NULL) == ST_OK && elf.build_id != NULL) {
            item->build_id = arena_strdup(a, elf.build_id);
        }
        fs_unmap(&map);
    }
}

/* podman writes what it started: image="...", imageid="..." (containers/podman, libpod). */
static void add_image(struct arena *a, const struct fs *fs, struct stack *s)
{
    static const char path[] = "/run/.containerenv";
    static const char *const keys[] = {"image", "imageid"};
    struct str text;
    struct str line;
    if (fs_read(fs, a, path, 1 << 16, &text, NULL) != ST_OK) {
        return;
    }
    while (str_cut_line(&text, &line)) {
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            struct str value;
            struct str rest = line;
            if (str_cut(&rest, '=', &value) && str_is(value, keys[i]) && rest.n >= 2 &&
                rest.p[0] == '"' && rest.p[rest.n - 1] == '"') {
                stack_add(a, s, STACK_CONTAINER, keys[i],
                          str_dup(a, str_slice(rest, 1, rest.n - 1)));
            }
        }
    }
}

void stack_collect(struct arena *a, const struct collect *c, struct stack *ret_stack)
{
    struct stack s = {.source = "this machine"};
    fill(a, c->facts, &s);
    add_build_ids(a, c->fs, &s);
    add_image(a, c->fs, &s);
    stack_add_python(a, c, &s);
    stack_add_packages(a, c->fs, &s);
    stack_sort(&s);
    *ret_stack = s;
}
