// SPDX-License-Identifier: Apache-2.0
/* See setup.h. */
#include "study/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tree.h"
#include "base/vec.h"

enum {
    DEPTH_MAX = 12
};

static const struct row {
    const char *key;
    const char *name;
    unsigned bits;
} rows[] = {
    {"per_device_train_batch_size", "batch per device", SETUP_SPEED | SETUP_LOSS},
    {"per_device_batch_size", "batch per device", SETUP_SPEED | SETUP_LOSS},
    {"train_micro_batch_size_per_gpu", "batch per device", SETUP_SPEED | SETUP_LOSS},
    {"micro_batch_size", "batch per device", SETUP_SPEED | SETUP_LOSS},
    {"batch_size", "batch per device", SETUP_SPEED | SETUP_LOSS},
    {"local_batch_size", "batch per device", SETUP_SPEED | SETUP_LOSS},
    {"gradient_accumulation_steps", "gradient accumulation", SETUP_SPEED | SETUP_LOSS},
    {"global_batch_size", "total batch", SETUP_SPEED | SETUP_LOSS},
    {"train_batch_size", "total batch", SETUP_SPEED | SETUP_LOSS},
    {"nproc_per_node", "GPU count", SETUP_SPEED | SETUP_LOSS},
    {"num_processes", "GPU count", SETUP_SPEED | SETUP_LOSS},
    {"num_gpus", "GPU count", SETUP_SPEED | SETUP_LOSS},
    {"nnodes", "node count", SETUP_SPEED | SETUP_LOSS},
    {"num_machines", "node count", SETUP_SPEED | SETUP_LOSS},
    {"cutoff_len", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"max_seq_length", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"max_seq_len", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"max_length", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"seq_len", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"seq_length", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"sequence_len", "sequence length", SETUP_SPEED | SETUP_LOSS},
    {"packing", "packing", SETUP_SPEED | SETUP_LOSS},
    {"sample_packing", "packing", SETUP_SPEED | SETUP_LOSS},
    {"bf16", "precision (bf16)", SETUP_SPEED},
    {"fp16", "precision (fp16)", SETUP_SPEED},
    {"pure_bf16", "precision (pure bf16)", SETUP_SPEED},
    {"tf32", "precision (tf32)", SETUP_SPEED},
    {"mixed_precision", "precision", SETUP_SPEED},
    {"precision", "precision", SETUP_SPEED},
    {"dtype", "precision", SETUP_SPEED},
    {"torch_dtype", "precision", SETUP_SPEED},
    {"compute_dtype", "precision", SETUP_SPEED},
    {"quantization_bit", "quantization", SETUP_SPEED | SETUP_LOSS},
    {"load_in_4bit", "quantization (4 bit)", SETUP_SPEED | SETUP_LOSS},
    {"load_in_8bit", "quantization (8 bit)", SETUP_SPEED | SETUP_LOSS},
    {"gradient_checkpointing", "gradient checkpointing", SETUP_SPEED},
    {"deepspeed", "DeepSpeed", SETUP_SPEED},
    {"fsdp", "FSDP", SETUP_SPEED},
    {"model_name_or_path", "model", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"base_model", "model", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"model", "model", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"model_path", "model", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"adapter_name_or_path", "adapter", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"resume_from_checkpoint", "checkpoint", SETUP_LOSS | SETUP_INPUT},
    {"tokenizer_name", "tokenizer", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"tokenizer", "tokenizer", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"dataset", "data", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"dataset_dir", "data folder", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"dataset_name", "data", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"data", "data", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"data_path", "data", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"train_file", "data", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"eval_dataset", "evaluation data", SETUP_LOSS | SETUP_INPUT},
    {"validation_file", "evaluation data", SETUP_LOSS | SETUP_INPUT},
    {"tokenized_path", "tokenized data", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"media_dir", "media folder", SETUP_SPEED | SETUP_LOSS | SETUP_INPUT},
    {"max_samples", "samples", SETUP_LOSS},
    {"val_size", "evaluation share", SETUP_LOSS},
    {"template", "template", SETUP_SPEED | SETUP_LOSS},
    {"stage", "stage", SETUP_SPEED | SETUP_LOSS},
    {"finetuning_type", "fine-tuning type", SETUP_SPEED | SETUP_LOSS},
    {"lora_rank", "LoRA rank", SETUP_SPEED | SETUP_LOSS},
    {"lora_r", "LoRA rank", SETUP_SPEED | SETUP_LOSS},
    {"lora_alpha", "LoRA alpha", SETUP_LOSS},
    {"lora_dropout", "LoRA dropout", SETUP_LOSS},
    {"lora_target", "LoRA target", SETUP_SPEED | SETUP_LOSS},
    {"target_modules", "LoRA target", SETUP_SPEED | SETUP_LOSS},
    {"learning_rate", "learning rate", SETUP_LOSS},
    {"lr", "learning rate", SETUP_LOSS},
    {"lr_scheduler_type", "schedule", SETUP_LOSS},
    {"warmup_ratio", "warm-up", SETUP_LOSS},
    {"warmup_steps", "warm-up", SETUP_LOSS},
    {"weight_decay", "weight decay", SETUP_LOSS},
    {"max_grad_norm", "clipping", SETUP_LOSS},
    {"optim", "optimizer", SETUP_SPEED | SETUP_LOSS},
    {"optimizer", "optimizer", SETUP_SPEED | SETUP_LOSS},
    {"seed", "seed", SETUP_LOSS},
    {"data_seed", "data seed", SETUP_LOSS},
    {"num_train_epochs", "epochs", SETUP_LOSS},
    {"max_steps", "steps", SETUP_LOSS},
    {"output_dir", "output", SETUP_HIDDEN},
    {"output", "output", SETUP_HIDDEN},
    {"output_path", "output", SETUP_HIDDEN},
    {"out", "output", SETUP_HIDDEN},
    {"out_dir", "output", SETUP_HIDDEN},
    {"save_dir", "output", SETUP_HIDDEN},
    {"save_path", "output", SETUP_HIDDEN},
    {"work_dir", "output", SETUP_HIDDEN},
    {"logging_dir", "output", SETUP_HIDDEN},
    {"run_name", "output", SETUP_HIDDEN},
    {"overwrite_output_dir", "output", SETUP_HIDDEN},
    {"report_to", "output", SETUP_HIDDEN},
    {"plot_loss", "output", SETUP_HIDDEN},
    {"disable_tqdm", "output", SETUP_HIDDEN},
    {"save_steps", "output", SETUP_HIDDEN},
    {"save_strategy", "output", SETUP_HIDDEN},
    {"save_total_limit", "output", SETUP_HIDDEN},
    {"save_only_model", "output", SETUP_HIDDEN},
    {"logging_steps", "output", SETUP_HIDDEN},
    {"logging_strategy", "output", SETUP_HIDDEN},
    {"ddp_timeout", "output", SETUP_HIDDEN},
    {"overwrite_cache", "output", SETUP_HIDDEN},
    {"master_port", "output", SETUP_HIDDEN},
};

static bool same_key(struct str key, const char *row)
{
    if (key.n != strlen(row)) {
        return false;
    }
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i] == '-' ? '_' : key.p[i];
        if (c != row[i]) {
            return false;
        }
    }
    return true;
}

const char *setup_name_of(struct str key, unsigned *ret_bits)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (same_key(key, rows[i].key)) {
            *ret_bits = rows[i].bits;
            return rows[i].name;
        }
    }
    *ret_bits = 0;
    return NULL;
}

static void add_named(struct arena *a, struct setup *s, struct setup_entry e)
{
    if (e.bits & SETUP_HIDDEN) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].name, e.name) == 0) {
            if (!e.printed) {
                s->items[i] = e; /* the command line after the file, as trainers have it */
            }
            return;
        }
    }
    *VEC_PUSH(a, s) = e;
}

void setup_add(struct arena *a, struct setup *s, const char *key, const char *value, bool printed)
{
    struct setup_entry e = {.value = arena_strdup(a, value), .printed = printed};
    const char *last = strrchr(key, '.');
    e.name = setup_name_of(str_of(last != NULL ? last + 1 : key), &e.bits);
    if (e.name == NULL) {
        e.name = arena_strdup(a, key);
    }
    add_named(a, s, e);
}

static void flatten(struct arena *a, struct setup *s, const struct tree *t, const char *key,
                    int depth)
{
    if (depth > DEPTH_MAX) {
        return;
    }
    if (t->kind == TREE_SCALAR) {
        setup_add(a, s, key, t->text != NULL ? t->text : "", false);
        return;
    }
    if (t->kind == TREE_LIST) {
        struct strbuf all;
        strbuf_init(&all, a, 2000);
        for (const struct tree *c = t->child; c != NULL; c = c->next) {
            if (c->kind == TREE_SCALAR) {
                strbuf_fmt(&all, "%s%s", all.n != 0 ? "," : "", c->text != NULL ? c->text : "");
            } else {
                flatten(a, s, c, key, depth + 1);
            }
        }
        if (all.n != 0) {
            setup_add(a, s, key, all.p, false);
        }
        return;
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        flatten(a, s, c, key[0] != '\0' ? arena_fmt(a, "%s.%s", key, c->key) : c->key, depth + 1);
    }
}

enum status setup_add_config(struct arena *a, struct setup *s, struct str text, const char *name,
                             struct err *err)
{
    const struct tree *t;
    if (str_ends(str_of(name), ".json")) {
        TRY(tree_from_json(a, text, name, TREE_LIMITS_DEFAULT, &t, err));
    } else {
        TRY(tree_from_yaml(a, text, name, TREE_LIMITS_DEFAULT, &t, err));
    }
    flatten(a, s, t, "", 0);
    return ST_OK;
}

void setup_add_command(struct arena *a, struct setup *s, const struct text_list *argv)
{
    for (size_t i = 1; i < argv->count; i++) {
        struct str arg = str_of(argv->items[i]);
        bool option = str_starts(arg, "--");
        struct str key = option ? str_slice(arg, 2, arg.n) : arg;
        size_t equals = str_find_char(key, '=', 0);
        unsigned bits;
        if (equals != SIZE_MAX) {
            struct str name = str_slice(key, 0, equals);
            if (option || setup_name_of(name, &bits) != NULL) {
                setup_add(a, s, str_dup(a, name), key.p + equals + 1, false);
            }
        } else if (option && key.n > 0) {
            bool value = i + 1 < argv->count && !str_starts(str_of(argv->items[i + 1]), "--");
            setup_add(a, s, str_dup(a, key), value ? argv->items[i + 1] : "true", false);
            i += value;
        }
    }
}

void setup_add_log(struct arena *a, struct setup *s, const struct run_log *log)
{
    for (size_t i = 0; i < log->said.count; i++) {
        const struct run_log_saying *v = &log->said.items[i];
        add_named(a, s,
                  (struct setup_entry){.name = v->name,
                                       .value = v->value,
                                       .bits = SETUP_SPEED | SETUP_LOSS,
                                       .printed = true});
    }
}

/* ---- differences ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static bool same_value(const char *a, const char *b)
{
    double x;
    double y;
    if (strcasecmp(a, b) == 0 || strcmp(last_part(a), last_part(b)) == 0) {
        return true;
    }
    return str_to_double(str_of(a), &x) == ST_OK && str_to_double(str_of(b), &y) == ST_OK && x == y;
}

static const struct setup_entry *find(const struct setup *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].name, name) == 0) {
            return &s->items[i];
        }
    }
    return NULL;
}

static int by_name(const void *pa, const void *pb)
{
    const struct setup_difference *a = pa;
    const struct setup_difference *b = pb;
    return strcmp(a->name, b->name);
}

static bool is_false(const struct setup_entry *e)
{
    return strcasecmp(e->value, "false") == 0;
}

void setup_compare(struct arena *arena, const struct setup *a, const struct setup *b,
                   struct setup_differences *ret_differences)
{
    struct setup_differences out = {0};
    for (int side = 0; side < 2; side++) {
        const struct setup *from = side == 0 ? a : b;
        const struct setup *other = side == 0 ? b : a;
        for (size_t i = 0; i < from->count; i++) {
            const struct setup_entry *e = &from->items[i];
            const struct setup_entry *o = find(other, e->name);
            bool differs = o != NULL ? side == 0 && !same_value(e->value, o->value)
                                     : !e->printed && !is_false(e);
            if (differs) {
                const char *absent = "(not set)";
                const char *theirs = o != NULL ? o->value : absent;
                *VEC_PUSH(arena,
                          &out) = (struct setup_difference){.name = e->name,
                                                            .a = side == 0 ? e->value : theirs,
                                                            .b = side == 0 ? theirs : e->value,
                                                            .bits = e->bits};
            }
        }
    }
    if (out.count > 1) {
        qsort(out.items, out.count, sizeof *out.items, by_name);
    }
    *ret_differences = out;
}
