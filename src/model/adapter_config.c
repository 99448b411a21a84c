// SPDX-License-Identifier: Apache-2.0
/* Names and lists of adapter_config.json against the names of tensors. */
#include "model/adapter_config.h"

#include <inttypes.h>
#include <string.h>

static const char MISSING[] = "Tensors are missing";

bool adapter_flag(const struct tree *config, const char *key)
{
    const struct tree *t = tree_get(config, key);
    return t != NULL && t->value.kind == VALUE_BOOL && t->value.boolean;
}

/* "a.b.c" is "c", "b.c" and "a.b.c". */
static bool path_ends(struct str path, struct str tail)
{
    return str_eq(path, tail) || (path.n > tail.n && path.p[path.n - tail.n - 1] == '.' &&
                                  str_eq(str_slice(path, path.n - tail.n, path.n), tail));
}

static bool list_names(const struct tree *list, struct str module)
{
    if (list == NULL || list->kind != TREE_LIST) {
        return false;
    }
    for (const struct tree *t = list->child; t != NULL; t = t->next) {
        if (t->text != NULL && path_ends(module, str_of(t->text))) {
            return true;
        }
    }
    return false;
}

/* "mlp.experts" of "mlp.experts.gate_up_proj"; the wrappers of further parameters of a module are
 * called base_layer. */
static bool parameter_names(const struct tree *list, struct str module)
{
    static const char WRAPPED[] = ".base_layer";
    while (str_ends(module, WRAPPED)) {
        module.n -= sizeof WRAPPED - 1;
    }
    if (list == NULL || list->kind != TREE_LIST) {
        return false;
    }
    for (const struct tree *t = list->child; t != NULL; t = t->next) {
        const char *dot = t->text != NULL ? strrchr(t->text, '.') : NULL;
        if (dot != NULL && path_ends(module, (struct str){t->text, (size_t)(dot - t->text)})) {
            return true;
        }
    }
    return false;
}

enum adapter_target adapter_target(const struct tree *config, struct str module)
{
    const struct tree *modules = tree_get(config, "target_modules");
    if (parameter_names(tree_get(config, "target_parameters"), module)) {
        return ADAPTER_TARGET_PARAMETER;
    }
    bool judged = modules != NULL && modules->kind == TREE_LIST;
    return !judged || list_names(modules, module) ? ADAPTER_TARGET_MODULE : ADAPTER_TARGET_NONE;
}

/* Does an adapter of this kind live in the modules of the model, under PEFT's wrapper? */
static bool in_modules(const struct adapter_file *a)
{
    return tree_get(a->config, "num_virtual_tokens") == NULL;
}

static bool is_foreign(const char *name)
{
    static const char *const wrappers[] = {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                           "_orig_mod."};
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++) {
        if (str_has(str_of(name), wrappers[i])) {
            return true;
        }
    }
    return !str_starts(str_of(name), "base_model.");
}

void adapter_check_names(const struct adapter_file *a)
{
    size_t foreign = 0;
    size_t empty = 0;
    const char *first = NULL;
    for (size_t i = 0; i < a->file->count; i++) {
        const struct tensor *t = &a->file->tensors[i];
        empty += t->elements == 0;
        if (in_modules(a) && is_foreign(t->name)) {
            first = foreign++ == 0 ? t->name : first;
        }
    }
    if (foreign > 0) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-names", "PEFT does not know these names",
                     a->name,
                     "%zu of %zu tensors are not called \"base_model.model.<module>...\" (\"%s\"): "
                     "PeftModel.from_pretrained warns that keys are missing, loads none of them, "
                     "and the model answers as its base does.",
                     foreign, a->file->count, issue_text(a->f->arena, str_of(first)));
    }
    if (empty > 0) {
        folder_issue(a->f, SEVERITY_ERROR, "adapter-empty", "Tensors hold no elements", a->name,
                     "%zu of %zu tensors are of size 0: partitions (ZeRO-3, FSDP) were saved "
                     "without being gathered.",
                     empty, a->file->count);
    }
}

/* Is an entry of target_modules one that exclude_modules takes out again? An expression there is not
 * judged. */
static bool is_excluded(const struct adapter_file *a, const char *entry)
{
    const struct tree *out = tree_get(a->config, "exclude_modules");
    bool expression = out != NULL && out->kind == TREE_SCALAR && out->value.kind == VALUE_STRING;
    return expression || list_names(out, str_of(entry));
}

static bool is_seen(const struct adapter_file *a, const char *entry)
{
    const char *part = arena_fmt(a->f->arena, "%s.", entry);
    for (size_t i = 0; i < a->file->count; i++) {
        if (str_has(str_of(a->file->tensors[i].name), part)) {
            return true;
        }
    }
    return false;
}

/* PEFT lists both names that heads of classifiers have; a model has one of them. */
static bool is_other_head(const struct adapter_file *a, const struct tree *saved, const char *entry)
{
    static const char *const heads[] = {"classifier", "score"};
    bool is_head = false;
    bool seen = false;
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        is_head = is_head || strcmp(entry, heads[i]) == 0;
        seen = seen || (list_names(saved, str_of(heads[i])) && is_seen(a, heads[i]));
    }
    return is_head && seen;
}

static void check_named(const struct adapter_file *a, const char *key, const char *what)
{
    const struct tree *list = tree_get(a->config, key);
    bool saved = strcmp(key, "modules_to_save") == 0;
    if (list == NULL || list->kind != TREE_LIST) {
        return;
    }
    for (const struct tree *t = list->child; t != NULL; t = t->next) {
        if (t->text == NULL || is_seen(a, t->text) ||
            (saved ? is_other_head(a, list, t->text) : is_excluded(a, t->text))) {
            continue;
        }
        folder_issue(a->f, SEVERITY_ERROR, "adapter-missing", MISSING, a->name,
                     "%s names \"%s\"; no tensor of the adapter belongs to it%s.", key,
                     issue_text(a->f->arena, str_of(t->text)), what);
    }
}

void adapter_check_targets(const struct adapter_file *a)
{
    check_named(a, "target_modules", "");
    check_named(a, "modules_to_save", ": they were to be saved whole");
}

void adapter_check_prompt(const struct adapter_file *a)
{
    uint64_t want;
    const struct tensor *t = tensor_find(a->file, "prompt_embeddings");
    if (t == NULL || t->rank == 0 ||
        str_to_u64(str_of(tree_text(a->config, "num_virtual_tokens", "")), 10, &want) != ST_OK ||
        want == 0 || t->shape[0] % want == 0) {
        return;
    }
    folder_issue(a->f, SEVERITY_ERROR, "adapter-prompt-length",
                 "The prompt is not as long as the config says", a->name,
                 "prompt_embeddings is %s, adapter_config.json says num_virtual_tokens = %" PRIu64
                 ".",
                 tensor_shape_text(a->f->arena, t->shape, t->rank), want);
}
