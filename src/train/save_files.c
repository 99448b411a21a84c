// SPDX-License-Identifier: Apache-2.0
/* Files of a checkpoint that are copied or described: configuration, tokenizer, adapter_config.json. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_map.h"
#include "base/json_out.h"

#include "model/safetensors_write.h"
#include "train/model_gguf.h"
#include "train/save.h"

enum {
    TEXT_MAX = 1 << 20
};

static const char *const copied[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
};

static enum status copy_file(struct arena *scratch, const char *from, const char *to,
                             struct err *err)
{
    struct file_map map;
    struct err why = {0};
    enum status status = file_map_open(from, &map, &why);
    if (status == ST_ABSENT) {
        return ST_OK;
    }
    if (status != ST_OK) {
        return err_set(err, status, "%s", why.text);
    }
    status = safe_file_write(scratch, to, file_map_str(&map), err);
    file_map_close(&map);
    return status;
}

enum status save_copy_files(struct arena *scratch, const char *from, const char *to,
                            bool with_config, struct err *err)
{
    if (gguf_is_file(from)) {
        return model_gguf_write_files(scratch, from, to, with_config, err);
    }
    if (with_config) {
        TRY(copy_file(scratch, arena_fmt(scratch, "%s/config.json", from),
                      arena_fmt(scratch, "%s/config.json", to), err));
    }
    for (size_t i = 0; i < ARRAY_LEN(copied); i++) {
        TRY(copy_file(scratch, arena_fmt(scratch, "%s/%s", from, copied[i]),
                      arena_fmt(scratch, "%s/%s", to, copied[i]), err));
    }
    return ST_OK;
}

/* Last component of the module that a LoRA parameter belongs to: "q_proj" of "...q_proj.lora_A.weight". */
static bool adapted_module(const char *name, struct str *ret)
{
    struct str s = str_of(name);
    size_t end = str_find(s, ".lora_A", 0);
    if (end == SIZE_MAX) {
        return false;
    }
    size_t begin = end;
    while (begin != 0 && s.p[begin - 1] != '.') {
        begin--;
    }
    *ret = str_slice(s, begin, end);
    return true;
}

static void put_targets(struct arena *scratch, struct json_out *j, const struct param_list *params)
{
    struct map *seen = map_new(scratch);
    struct str module;
    for (size_t i = 0; i < params->count; i++) {
        if (adapted_module(params->items[i].name, &module)) {
            map_put(seen, module, seen);
        }
    }
    const size_t *order = map_sorted(seen, scratch);
    json_key(j, "target_modules");
    json_list(j);
    for (size_t i = 0; i < map_count(seen); i++) {
        json_string(j, map_key(seen, order[i]));
    }
    json_list_end(j);
}

enum status save_adapter_config(struct arena *scratch, const char *folder,
                                const struct save_target *target, struct err *err)
{
    struct strbuf text;
    struct json_out j;
    char resolved[PATH_MAX];
    const char *base = realpath(target->model_folder, resolved) != NULL ? resolved
                                                                        : target->model_folder;
    strbuf_init(&text, scratch, TEXT_MAX);
    json_init(&j, &text);
    json_object(&j);
    json_field(&j, "base_model_name_or_path", base);
    json_field(&j, "bias", "none");
    json_key(&j, "fan_in_fan_out");
    json_bool(&j, false);
    json_key(&j, "inference_mode");
    json_bool(&j, true);
    json_key(&j, "init_lora_weights");
    json_bool(&j, true);
    json_key(&j, "lora_alpha");
    json_real(&j, target->lora->alpha);
    json_key(&j, "lora_dropout");
    json_real(&j, 0);
    json_field(&j, "peft_type", "LORA");
    json_key(&j, "r");
    json_int(&j, (int64_t)target->lora->rank);
    put_targets(scratch, &j, target->params);
    json_field(&j, "task_type", "CAUSAL_LM");
    json_key(&j, "use_rslora");
    json_bool(&j, target->lora->rank_stabilised);
    json_object_end(&j);
    strbuf_addc(&text, '\n');
    return safe_file_write(scratch, arena_fmt(scratch, "%s/adapter_config.json", folder),
                           strbuf_str(&text), err);
}
