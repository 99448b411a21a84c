// SPDX-License-Identifier: Apache-2.0
/*
 * A PEFT adapter: adapter_config.json against the tensors of adapter_model, and both against the base
 * model's shapes where that is a folder of this machine.
 * Source: peft/tuners/lora/config.py, peft/utils/save_and_load.py (names of saved tensors).
 */
#include <inttypes.h>
#include <string.h>

#include "base/fs.h"

#include "model/folder.h"

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
    size_t pairs;
    size_t zero_b;
};

static bool matches(const struct folder *f)
{
    return folder_has(f, "adapter_config.json");
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

/* Does the last part of a module's path stand in the list? A text is an expression: not judged. */
static bool is_target(const struct tree *targets, struct str module)
{
    if (targets == NULL || targets->kind != TREE_LIST) {
        return true;
    }
    for (const struct tree *t = targets->child; t != NULL; t = t->next) {
        struct str want = str_of(t->text);
        if (str_eq(module, want) || (module.n > want.n && str_ends(module, t->text) &&
                                     module.p[module.n - want.n - 1] == '.')) {
            return true;
        }
    }
    return false;
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
    if (A->rank != 2 || B->rank != 2) {
        return; /* convolutions */
    }
    if (A->shape[0] != B->shape[1]) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-rank", "The rank is not what the config says",
                     a->name, "\"%s\": lora_A is of rank %" PRIu64 ", lora_B of rank %" PRIu64 ".",
                     text, A->shape[0], B->shape[1]);
    } else if (!a->ranks_vary && a->rank > 0 && A->shape[0] != a->rank) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-rank", "The rank is not what the config says",
                     a->name,
                     "\"%s\" is of rank %" PRIu64 ", adapter_config.json says r = %" PRIu64
                     ": alpha/r scales it wrongly.",
                     text, A->shape[0], a->rank);
    }
    if (!is_target(tree_get(a->config, "target_modules"), module)) {
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
    check_base(a, module, A, B);
}

/* Each entry of a list in the config must show in some tensor's name. */
static void check_named(const struct adapter *a, const char *key, const char *what)
{
    const struct tree *list = tree_get(a->config, key);
    if (list == NULL || list->kind != TREE_LIST) {
        return;
    }
    for (const struct tree *t = list->child; t != NULL; t = t->next) {
        bool seen = false;
        const char *part = arena_fmt(a->f->arena, "%s.", t->text);
        for (size_t i = 0; i < a->file->count && !seen; i++) {
            seen = str_has(str_of(a->file->tensors[i].name), part);
        }
        if (!seen) {
            folder_issue(a->f, SEVERITY_ERROR, "adapter-missing", "Tensors are missing", a->name,
                         "%s names \"%s\"; no tensor of the adapter belongs to it%s.", key,
                         issue_text(a->f->arena, str_of(t->text)), what);
        }
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
        } else if (module_of(t->name, ".lora_B", &module) &&
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
    check_named(a, "target_modules", "");
    check_named(a, "modules_to_save", ": they were to be saved whole");
}

static void check(const struct folder *f)
{
    struct adapter a = {.f = f};
    if (!folder_json(f, "adapter_config.json", &a.config)) {
        folder_issue(f, SEVERITY_ERROR, "adapter-config-broken", "adapter_config.json is broken",
                     "adapter_config.json", "It cannot be read as JSON.");
        return;
    }
    a.name = folder_has(f, "adapter_model.safetensors") ? "adapter_model.safetensors"
                                                        : "adapter_model.bin";
    if (!folder_has(f, a.name)) {
        folder_issue(f, SEVERITY_ERROR, "adapter-missing", "Tensors are missing",
                     "adapter_model.safetensors",
                     "There is an adapter_config.json and no adapter_model.safetensors or .bin.");
        return;
    }
    if (strcmp(tree_text(a.config, "peft_type", ""), "LORA") != 0 ||
        tensor_file_open(f->arena, folder_join(f, a.name), NULL, &a.file, NULL) != ST_OK) {
        return; /* the file's own reader says why it cannot be read */
    }
    const struct tree *patterns = tree_get(a.config, "rank_pattern");
    a.ranks_vary = patterns != NULL && patterns->count > 0;
    if (str_to_u64(str_of(tree_text(a.config, "r", "")), 10, &a.rank) != ST_OK) {
        a.rank = 0;
    }
    const struct tree *dora = tree_get(a.config, "use_dora");
    a.dora = dora != NULL && dora->value.kind == VALUE_BOOL && dora->value.boolean;
    a.base = base_tensors(f, a.config);
    if (a.base == NULL) {
        folder_issue(
            f, SEVERITY_NOTE, "adapter-base-absent", "The base model was not compared",
            "adapter_config.json", "\"%s\" is no folder with weights here.",
            issue_text(f->arena, str_of(tree_text(a.config, "base_model_name_or_path", ""))));
    }
    check_tensors(&a);
    tensor_file_close(a.file);
}

const struct folder_kind folder_kind_adapter = {
    .name = "PEFT adapter", .matches = matches, .check = check};
