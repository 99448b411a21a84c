// SPDX-License-Identifier: Apache-2.0
/*
 * A PEFT adapter: adapter_config.json against the tensors of adapter_model, and both against the base
 * model's shapes where that is a folder of this machine.
 * Source: peft/tuners/lora/config.py, peft/utils/save_and_load.py (names of saved tensors).
 */
#include <inttypes.h>
#include <string.h>

#include "base/fs.h"

#include "model/adapter_config.h"

static const char PREFIX[] = "base_model.model.";

struct adapter {
    const struct folder *f;
    const struct tree *config;
    struct tensor_file *file;
    const char *name; /* of the tensor file */
    struct map *base; /* tensor name to struct tensor of the base model; NULL when unknown */
    uint64_t rank;
    bool ranks_vary; /* rank_pattern is not empty */
    bool dora;       /* use_dora */
    bool bias;       /* lora_bias */
    bool replicated; /* layer_replication: the base has fewer layers */
    size_t pairs;
    size_t zero_b;
};

/* The file of tensors, or NULL. */
static const char *tensors_of(const struct folder *f)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_model.bin"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (folder_has(f, names[i])) {
            return names[i];
        }
    }
    return NULL;
}

static bool matches(const struct folder *f)
{
    return folder_has(f, "adapter_config.json") || tensors_of(f) != NULL;
}

/* True when every byte is zero, and all are there. */
static bool all_zero(const struct tensor_file *file, const struct tensor *t)
{
    if (!t->present || t->bytes == 0 ||
        file_map_populate(&file->map, t->offset, t->bytes, NULL) != ST_OK) {
        return false;
    }
    const unsigned char *p = file->map.p + t->offset;
    return p[0] == 0 && memcmp(p, p + 1, t->bytes - 1) == 0;
}

/* "<prefix>model.layers.0.q_proj" of "<that>.lora_A.weight"; false for other tensors. */
static bool module_of(const char *name, const char *part, struct str *ret_module)
{
    struct str s = str_of(name);
    size_t at = str_find(s, part, 0);
    if (at == SIZE_MAX) {
        return false;
    }
    *ret_module = str_slice(s, 0, at);
    return true;
}

static const struct tensor *sibling(const struct adapter *a, const char *name, const char *from,
                                    const char *to)
{
    struct str s = str_of(name);
    size_t at = str_find(s, from, 0);
    const char *other = arena_fmt(a->f->arena, "%.*s%s%s", (int)at, name, to,
                                  name + at + strlen(from));
    return tensor_find(a->file, other);
}

static void check_base(const struct adapter *a, struct str module, const struct tensor *A,
                       const struct tensor *B)
{
    if (a->base == NULL || !str_starts(module, PREFIX)) {
        return;
    }
    struct str path = str_slice(module, sizeof PREFIX - 1, module.n);
    const char *name = arena_fmt(a->f->arena, "%.*s.weight", STR_ARG(path));
    const struct tensor *w = map_get(a->base, str_of(name));
    if (w == NULL && a->replicated) {
        return;
    }
    if (w == NULL) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-other-base", "The adapter fits another model",
                     a->name, "The base model has no tensor \"%s\".",
                     issue_text(a->f->arena, str_of(name)));
        return;
    }
    bool fits = w->rank == 2 && ((w->shape[0] == B->shape[0] && w->shape[1] == A->shape[1]) ||
                                 (w->shape[1] == B->shape[0] && w->shape[0] == A->shape[1]));
    if (!fits) {
        folder_issue(
            a->f, SEVERITY_ERROR, "adapter-other-base", "The adapter fits another model", a->name,
            "\"%s\" of the base model is %s; the adapter changes [%" PRIu64 ", %" PRIu64 "].",
            issue_text(a->f->arena, str_of(name)),
            tensor_shape_text(a->f->arena, w->shape, w->rank), B->shape[0], A->shape[1]);
    }
}

/* DoRA: a magnitude for each output of the module (PEFT saves it without ".weight", and did with). */
static void check_magnitude(const struct adapter *a, struct str module, const struct tensor *B)
{
    static const char *const suffixes[] = {".lora_magnitude_vector",
                                           ".lora_magnitude_vector.weight"};
    const struct tensor *m = NULL;
    for (size_t i = 0; i < ARRAY_LEN(suffixes) && m == NULL; i++) {
        m = tensor_find(a->file, arena_fmt(a->f->arena, "%.*s%s", STR_ARG(module), suffixes[i]));
    }
    const char *text = issue_text(a->f->arena, module);
    if (a->dora && m == NULL) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-magnitude", "A DoRA adapter lacks a magnitude",
                     a->name,
                     "use_dora is true and \"%s\" has no lora_magnitude_vector: loading starts it "
                     "from the base's norms.",
                     text);
    } else if (!a->dora && m != NULL) {
        folder_issue(
            a->f, SEVERITY_ERROR, "adapter-magnitude",
            "A magnitude that the config knows nothing of", a->name,
            "\"%s\" has a lora_magnitude_vector, adapter_config.json does not say use_dora: "
            "loading drops it, and the rest was trained with it.",
            text);
    } else if (m != NULL && (m->elements != B->shape[0] || m->rank == 0)) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-magnitude", "A magnitude has another size",
                     a->name, "\"%s\": lora_magnitude_vector is %s, lora_B has %" PRIu64 " rows.",
                     text, tensor_shape_text(a->f->arena, m->shape, m->rank), B->shape[0]);
    } else if (m != NULL && all_zero(a->file, m)) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-magnitude", "A magnitude is zero", a->name,
                     "\"%s\": lora_magnitude_vector is zero throughout: the module gives nothing.",
                     text);
    }
}

/* lora_bias: a bias beside every lora_B. */
static void check_bias(const struct adapter *a, struct str module)
{
    static const char *const forms[] = {"bias", "default.bias"};
    bool there = false;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const char *name = arena_fmt(a->f->arena, "%.*s.lora_B.%s", STR_ARG(module), forms[i]);
        there = there || tensor_find(a->file, name) != NULL;
    }
    if (there != a->bias) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-bias",
                     "The adapter's biases are not what the config says", a->name,
                     there ? "\"%s\" has lora_B.bias, adapter_config.json does not say lora_bias: "
                             "loading drops it."
                           : "lora_bias is true and \"%s\" has no lora_B.bias.",
                     issue_text(a->f->arena, module));
    }
}

static void check_pair(struct adapter *a, const struct tensor *A, struct str module)
{
    const struct tensor *B = sibling(a, A->name, ".lora_A", ".lora_B");
    const char *text = issue_text(a->f->arena, module);
    if (B == NULL) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-half-pair",
                     "Half of an adapter pair is missing", a->name,
                     "\"%s\" has lora_A and no lora_B.", text);
        return;
    }
    a->pairs++;
    check_bias(a, module);
    if (A->rank != 2 || B->rank != 2) {
        return; /* convolutions */
    }
    enum adapter_target target = adapter_target(a->config, module);
    bool whole = target == ADAPTER_TARGET_PARAMETER && a->rank > 0 && A->shape[0] % a->rank == 0;
    if (A->shape[0] != B->shape[1]) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-rank", "The rank is not what the config says",
                     a->name, "\"%s\": lora_A is of rank %" PRIu64 ", lora_B of rank %" PRIu64 ".",
                     text, A->shape[0], B->shape[1]);
    } else if (!a->ranks_vary && a->rank > 0 && A->shape[0] != a->rank && !whole) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-rank", "The rank is not what the config says",
                     a->name,
                     "\"%s\" is of rank %" PRIu64 ", adapter_config.json says r = %" PRIu64
                     ": alpha/r scales it wrongly.",
                     text, A->shape[0], a->rank);
    }
    if (target == ADAPTER_TARGET_NONE) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-target", "A module that is no target", a->name,
                     "\"%s\" is adapted, target_modules of adapter_config.json does not name it: "
                     "loading drops it.",
                     text);
    }
    if (all_zero(a->file, A)) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-zero-a", "lora_A is all zero", a->name,
                     "\"%s\": lora_A begins random and never becomes zero by training.", text);
    }
    a->zero_b += all_zero(a->file, B);
    check_magnitude(a, module, B);
    if (target != ADAPTER_TARGET_PARAMETER) { /* experts are stored in more than one way */
        check_base(a, module, A, B);
    }
}

/* Tensors of all safetensors files in the base model's folder, or NULL when it is not here. */
static struct map *base_tensors(const struct folder *f, const struct tree *config)
{
    const char *where = tree_text(config, "base_model_name_or_path", NULL);
    static const struct fs live = {.prefix = ""};
    if (where == NULL || where[0] == '\0') {
        return NULL;
    }
    const char *candidates[] = {where, folder_join(f, where)};
    for (size_t c = 0; c < ARRAY_LEN(candidates); c++) {
        struct folder base;
        if (!fs_is_dir(&live, f->arena, candidates[c]) ||
            !folder_open(f->arena, candidates[c], NULL, &base, NULL)) {
            continue;
        }
        struct map *all = map_new(f->arena);
        for (size_t i = 0; i < base.count; i++) {
            struct tensor_file *file;
            if (str_ends(str_of(base.names[i]), ".safetensors") &&
                tensor_file_open(f->arena, folder_join(&base, base.names[i]), NULL, &file, NULL) ==
                    ST_OK) {
                for (size_t k = 0; k < file->count; k++) {
                    map_put(all, str_of(file->tensors[k].name), &file->tensors[k]);
                }
                tensor_file_close(file);
            }
        }
        if (map_count(all) > 0) {
            return all;
        }
    }
    return NULL;
}

static void check_tensors(struct adapter *a)
{
    for (size_t i = 0; i < a->file->count; i++) {
        const struct tensor *t = &a->file->tensors[i];
        struct str module;
        if (module_of(t->name, ".lora_A", &module)) {
            check_pair(a, t, module);
        } else if (module_of(t->name, ".lora_B", &module) && !str_ends(str_of(t->name), ".bias") &&
                   sibling(a, t->name, ".lora_B", ".lora_A") == NULL) {
            folder_issue(a->f, SEVERITY_ERROR, "adapter-half-pair",
                         "Half of an adapter pair is missing", a->name,
                         "\"%s\" has lora_B and no lora_A.", issue_text(a->f->arena, module));
        }
    }
    if (a->pairs > 0 && a->zero_b == a->pairs) {
        folder_issue(
            a->f, SEVERITY_ERROR, "adapter-untrained", "The adapter was never trained", a->name,
            "lora_B is zero in all %zu pairs: the adapter changes nothing. It is as it was "
            "made, or its training did not reach it.",
            a->pairs);
    } else if (a->zero_b > 0) {
        folder_issue(a->f, SEVERITY_WARNING, "adapter-part-untrained",
                     "A part of the adapter was never trained", a->name,
                     "lora_B is zero in %zu of %zu pairs.", a->zero_b, a->pairs);
    }
}

/* Of other kinds than LoRA nothing is known but names, and the length of a prompt. */
static void note_other_kind(const struct folder *f, const char *kind)
{
    folder_issue(f, SEVERITY_NOTE, "adapter-not-compared",
                 "The adapter's own tensors were not compared", "adapter_config.json",
                 "peft_type is \"%s\": names, targets and values are looked at, shapes are not.",
                 issue_text(f->arena, str_of(kind)));
}

static void check_lora(struct adapter *a)
{
    const struct folder *f = a->f;
    const struct tree *patterns = tree_get(a->config, "rank_pattern");
    const struct tree *layers = tree_get(a->config, "layer_replication");
    a->ranks_vary = patterns != NULL && patterns->count > 0;
    a->replicated = layers != NULL && layers->count > 0;
    if (str_to_u64(str_of(tree_text(a->config, "r", "")), 10, &a->rank) != ST_OK) {
        a->rank = 0;
    }
    a->dora = adapter_flag(a->config, "use_dora");
    a->bias = adapter_flag(a->config, "lora_bias");
    a->base = base_tensors(f, a->config);
    if (a->base == NULL) {
        folder_issue(
            f, SEVERITY_NOTE, "adapter-base-absent", "The base model was not compared",
            "adapter_config.json", "\"%s\" is no folder with weights here.",
            issue_text(f->arena, str_of(tree_text(a->config, "base_model_name_or_path", ""))));
    }
    check_tensors(a);
}

static void check(const struct folder *f)
{
    struct adapter a = {.f = f};
    if (!folder_has(f, "adapter_config.json")) {
        folder_issue(f, SEVERITY_ERROR, "adapter-config-missing",
                     "An adapter without adapter_config.json", "adapter_config.json",
                     "Rank, scale, targets and base model are in no file: PEFT cannot load it.");
        return;
    }
    if (!folder_json(f, "adapter_config.json", &a.config)) {
        folder_issue(f, SEVERITY_ERROR, "adapter-config-broken", "adapter_config.json is broken",
                     "adapter_config.json", "It cannot be read as JSON.");
        return;
    }
    a.name = tensors_of(f);
    if (a.name == NULL) {
        folder_issue(f, SEVERITY_ERROR, "adapter-missing", "Tensors are missing",
                     "adapter_model.safetensors",
                     "There is an adapter_config.json and no adapter_model.safetensors or .bin.");
        return;
    }
    if (tensor_file_open(f->arena, folder_join(f, a.name), NULL, &a.file, NULL) != ST_OK) {
        return; /* the file's own reader says why it cannot be read */
    }
    struct adapter_file any = {.f = f, .config = a.config, .file = a.file, .name = a.name};
    adapter_check_names(&any);
    const char *kind = tree_text(a.config, "peft_type", "");
    if (issues_count(f->issues, "adapter-names") == 0) {
        if (strcmp(kind, "LORA") == 0) {
            check_lora(&a);
        } else {
            note_other_kind(f, kind);
            adapter_check_prompt(&any);
        }
        adapter_check_targets(&any);
    }
    tensor_file_close(a.file);
}

const struct folder_kind folder_kind_adapter = {
    .name = "PEFT adapter", .matches = matches, .check = check};
