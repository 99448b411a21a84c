// SPDX-License-Identifier: Apache-2.0
/*
 * config.*: one row a fact. Each row names the keys that carry it in the three dialects, and the
 * default where the program's own default is certain. What needs more than a key is below the
 * table.
 */
#include <string.h>

#include "base/vec.h"

#include "facts/job_parts.h"

enum row_type {
    ROW_BOOL,
    ROW_INT,
    ROW_STRING,
    ROW_LIST
};

static const struct row {
    const char *fact;
    enum row_type type;
    const char *keys[4];    /* LLaMA-Factory, Transformers and look-alikes; tried in order */
    const char *deepspeed;  /* in a DeepSpeed file */
    const char *accelerate; /* in an accelerate file */
    const char *fallback;   /* default of LLaMA-Factory and Transformers; NULL: none */
} rows[] = {
    // clang-format off
    {"learning_rate", ROW_STRING, {"learning_rate", "lr"}, "optimizer.params.lr", NULL, "5e-05"},
    {"fp16", ROW_BOOL, {"fp16"}, NULL, NULL, "false"},
    {"bf16", ROW_BOOL, {"bf16"}, NULL, NULL, "false"},
    {"pure_bf16", ROW_BOOL, {"pure_bf16"}, NULL, NULL, NULL},
    {"gradient_accumulation_steps", ROW_INT, {"gradient_accumulation_steps"},
     "gradient_accumulation_steps", "deepspeed_config.gradient_accumulation_steps", "1"},
    {"per_device_batch_size", ROW_INT, {"per_device_train_batch_size", "micro_batch_size"},
     "train_micro_batch_size_per_gpu", NULL, "8"},
    {"lora_rank", ROW_INT, {"lora_rank", "lora_r", "r"}, NULL, NULL, NULL},
    {"use_unsloth", ROW_BOOL, {"use_unsloth"}, NULL, NULL, NULL},
    {"cutoff_len", ROW_INT, {"cutoff_len", "sequence_len", "max_seq_length", "max_length"},
     NULL, NULL, NULL},
    {"template", ROW_STRING, {"template"}, NULL, NULL, NULL},
    {"stage", ROW_STRING, {"stage"}, NULL, NULL, NULL},
    {"ddp_timeout", ROW_INT, {"ddp_timeout"}, NULL, NULL, "1800"},
    {"preprocessing_num_workers", ROW_INT, {"preprocessing_num_workers", "dataset_num_proc", "dataset_processes"},
     NULL, NULL, NULL},
    {"dataloader_num_workers", ROW_INT, {"dataloader_num_workers"}, NULL, NULL, "0"},
    {"dataset_dir", ROW_STRING, {"dataset_dir"}, NULL, NULL, NULL},
    {"media_dir", ROW_STRING, {"media_dir"}, NULL, NULL, NULL},
    {"torch_compile", ROW_BOOL, {"torch_compile"}, NULL, NULL, "false"},
    {"max_grad_norm", ROW_STRING, {"max_grad_norm"},
     "gradient_clipping", "deepspeed_config.gradient_clipping", "1.0"},
    {"float32_matmul_precision", ROW_STRING, {"float32_matmul_precision"}, NULL, NULL, NULL},
    {"allow_tf32", ROW_BOOL, {"tf32", "allow_tf32"}, NULL, NULL, NULL},
    {"response_marker", ROW_STRING, {"response_template", "response_part"}, NULL, NULL, NULL},
    {"add_eos_token", ROW_BOOL, {"add_eos_token", "train_on_eos"}, NULL, NULL, NULL},
    {"device_map", ROW_STRING, {"device_map", "quantization_device_map"}, NULL, NULL, NULL},
    {"deepspeed.fp16", ROW_BOOL, {NULL}, "fp16.enabled", NULL, NULL},
    {"deepspeed.bf16", ROW_BOOL, {NULL}, "bf16.enabled", NULL, NULL},
    {"deepspeed.zero_stage", ROW_INT, {NULL},
     "zero_optimization.stage", "deepspeed_config.zero_stage", NULL},
    {"deepspeed.offload_optimizer", ROW_STRING, {NULL},
     "zero_optimization.offload_optimizer.device", "deepspeed_config.offload_optimizer_device", NULL},
    {"deepspeed.offload_param", ROW_STRING, {NULL},
     "zero_optimization.offload_param.device", "deepspeed_config.offload_param_device", NULL},
    {"deepspeed.leaf_modules", ROW_LIST, {NULL},
     "zero_optimization.leaf_module.classes", "deepspeed_config.deepspeed_moe_layer_cls_names", NULL},
    // clang-format on
};

const char *job_where(const struct job *j, const struct job_entry *e)
{
    return e->line != 0 ? arena_fmt(j->arena, "%s:%d", e->file, e->line) : e->file;
}

const char *job_path(const struct job *j, const char *key)
{
    const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, key);
    return e != NULL && e->value.kind == VALUE_STRING
               ? job_config_find_path(j->arena, j->fs, j->config, j->cwd, e->text)
               : NULL;
}

int job_bool(const struct job_entry *e)
{
    if (e == NULL) {
        return -1;
    }
    if (e->value.kind == VALUE_BOOL) {
        return e->value.boolean;
    }
    /* OmegaConf and PyYAML read the words of YAML 1.1; a quoted one is a string to them. */
    static const char *const yes[] = {"yes", "on", "true"};
    static const char *const no[] = {"no", "off", "false"};
    for (size_t i = 0; i < ARRAY_LEN(yes) && e->value.kind == VALUE_STRING; i++) {
        if (strcasecmp(e->text, yes[i]) == 0) {
            return 1;
        }
        if (strcasecmp(e->text, no[i]) == 0) {
            return 0;
        }
    }
    return -1;
}

static bool is_trainer(const struct job *j)
{
    return j->config->kind == JOB_LLAMAFACTORY || j->config->kind == JOB_TRANSFORMERS;
}

/* DeepSpeed's "auto" takes the value from the trainer, so it is none of its own. */
static const struct job_entry *usable(const struct job_entry *e)
{
    bool nothing = e == NULL || e->value.kind == VALUE_NULL ||
                   (e->kind == JOB_DEEPSPEED && strcmp(e->text, "auto") == 0);
    return nothing ? NULL : e;
}

static const struct job_entry *find(const struct job *j, const struct row *row)
{
    for (size_t i = 0; i < ARRAY_LEN(row->keys) && row->keys[i] != NULL; i++) {
        const struct job_entry *e = usable(job_config_get(j->config, JOB_UNKNOWN, row->keys[i]));
        if (e != NULL) {
            return e;
        }
    }
    const struct job_entry *e = NULL;
    if (row->deepspeed != NULL) {
        e = usable(job_config_get(j->config, JOB_DEEPSPEED, row->deepspeed));
    }
    if (e == NULL && row->accelerate != NULL) {
        e = usable(job_config_get(j->config, JOB_ACCELERATE, row->accelerate));
    }
    return e;
}

/* "a,b , c" or a YAML list of scalars. */
static void set_list(const struct job *j, const char *key, const struct job_entry *e)
{
    VEC_OF(const char *) items = {0};
    if (e->value.kind == VALUE_LIST) {
        for (size_t i = 0; i < e->value.list.count; i++) {
            struct strbuf text;
            strbuf_init(&text, j->arena, 4096);
            value_print(&text, &e->value.list.items[i]);
            *VEC_PUSH(j->arena, &items) = text.p;
        }
    } else {
        struct str rest = str_of(e->text);
        struct str part;
        while (rest.n != 0 && str_cut(&rest, ',', &part)) {
            part = str_trim(part);
            if (part.n != 0) {
                *VEC_PUSH(j->arena, &items) = str_dup(j->arena, part);
            }
        }
    }
    facts_strings(j->facts, key, items.items, items.count, job_where(j, e));
}

static void wrong_type(const struct job *j, const char *key, const struct job_entry *e,
                       const char *wanted)
{
    facts_set_state(j->facts, key, FACT_UNREADABLE, job_where(j, e),
                    arena_fmt(j->arena, "%s: '%.80s' is not %s", e->key, e->text, wanted));
}

/* A second configuration that does not speak of a key leaves the first one's answer alone. */
static void job_absent(const struct job *j, const char *key)
{
    if (facts_get(j->facts, key) == NULL) {
        facts_set_state(j->facts, key, FACT_ABSENT, j->config->file, "not in the configuration");
    }
}

static void set_row(const struct job *j, const struct row *row)
{
    const char *key = arena_fmt(j->arena, "config.%s", row->fact);
    const struct job_entry *e = find(j, row);
    struct job_entry fallback;
    if (e == NULL) {
        if (row->fallback == NULL || !is_trainer(j)) {
            job_absent(j, key);
            return;
        }
        fallback = (struct job_entry){.key = row->fact,
                                      .text = row->fallback,
                                      .value = value_string(row->fallback),
                                      .file = "default of the trainer"};
        e = &fallback;
    }
    int64_t i;
    int b;
    switch (row->type) {
    case ROW_BOOL:
        b = job_bool(e);
        if (b >= 0) {
            facts_bool(j->facts, key, b != 0, job_where(j, e));
        } else {
            wrong_type(j, key, e, "true or false");
        }
        break;
    case ROW_INT:
        if (str_to_i64(str_of(e->text), 10, &i) == ST_OK) {
            facts_int(j->facts, key, i, job_where(j, e));
        } else {
            wrong_type(j, key, e, "a whole number");
        }
        break;
    case ROW_STRING:
        if (e->value.kind == VALUE_LIST) {
            wrong_type(j, key, e, "one value");
        } else {
            facts_string(j->facts, key, e->text, job_where(j, e));
        }
        break;
    case ROW_LIST: set_list(j, key, e); break;
    }
}

static bool known_true(const struct job *j, const char *key)
{
    return facts_get_bool(j->facts, key, false);
}

/* accelerate's mixed_precision stands for the two flags. */
static void set_mixed_precision(const struct job *j)
{
    const struct job_entry *e = job_config_get(j->config, JOB_ACCELERATE, "mixed_precision");
    if (e == NULL) {
        return;
    }
    facts_bool(j->facts, "config.fp16", strcmp(e->text, "fp16") == 0, job_where(j, e));
    facts_bool(j->facts, "config.bf16", strcmp(e->text, "bf16") == 0, job_where(j, e));
}

static void set_quantisation(const struct job *j)
{
    const struct job_entry *bits = job_config_get(j->config, JOB_UNKNOWN, "quantization_bit");

    static const struct {
        const char *fact, *key, *bits;
    } forms[] = {{"config.load_in_4bit", "load_in_4bit", "4"},
                 {"config.load_in_8bit", "load_in_8bit", "8"}};

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, forms[i].key);
        if (job_bool(e) >= 0) {
            facts_bool(j->facts, forms[i].fact, job_bool(e) != 0, job_where(j, e));
        } else if (bits != NULL) {
            facts_bool(j->facts, forms[i].fact, strcmp(bits->text, forms[i].bits) == 0,
                       job_where(j, bits));
        } else if (is_trainer(j)) {
            facts_bool(j->facts, forms[i].fact, false, j->config->file);
        }
    }
}

static void set_finetuning(const struct job *j)
{
    const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, "finetuning_type");
    e = e != NULL ? e : job_config_get(j->config, JOB_UNKNOWN, "adapter"); /* axolotl */
    const char *type = e != NULL ? e->text : j->config->kind == JOB_LLAMAFACTORY ? "lora" : NULL;
    if (type == NULL) {
        return;
    }
    if (strcmp(type, "lora") == 0 && known_true(j, "config.load_in_4bit")) {
        type = "qlora";
    }
    facts_string(j->facts, "config.finetuning_type", type,
                 e != NULL ? job_where(j, e) : "default of LLaMA-Factory");
    bool lora = strcmp(type, "lora") == 0 || strcmp(type, "qlora") == 0;
    const struct fact *rank = facts_get(j->facts, "config.lora_rank");
    if (lora && j->config->kind == JOB_LLAMAFACTORY &&
        (rank == NULL || rank->state == FACT_ABSENT)) {
        facts_int(j->facts, "config.lora_rank", 8, "default of LLaMA-Factory");
    }
}

/* The dtype that the arithmetic runs in; DeepSpeed's own flags count where the trainer's are off. */
static void set_compute_dtype(const struct job *j)
{
    const char *dtype = NULL;
    if (known_true(j, "config.load_in_8bit")) {
        dtype = "int8";
    } else if (known_true(j, "config.pure_bf16") || known_true(j, "config.bf16") ||
               known_true(j, "config.deepspeed.bf16")) {
        dtype = "bf16";
    } else if (known_true(j, "config.fp16") || known_true(j, "config.deepspeed.fp16")) {
        dtype = "fp16";
    } else if (is_trainer(j)) {
        dtype = "fp32";
    }
    if (dtype != NULL) {
        facts_string(j->facts, "config.compute_dtype", dtype, j->config->file);
    }
}

static void set_attention(const struct job *j)
{
    static const struct {
        const char *written, *fact;
    } names[] = {
        {"flash_attention_2", "fa2"},
        {"flash_attention_3", "fa3"},
        {"eager", "disabled"},
        {"sdpa", "sdpa"},
    };
    const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, "flash_attn");
    if (e != NULL && e->value.kind == VALUE_STRING) {
        facts_string(j->facts, "config.flash_attn", e->text, job_where(j, e));
        return;
    }
    e = job_config_get(j->config, JOB_UNKNOWN, "attn_implementation");
    if (e != NULL && e->value.kind == VALUE_STRING) {
        const char *fact = e->text;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            fact = strcmp(e->text, names[i].written) == 0 ? names[i].fact : fact;
        }
        facts_string(j->facts, "config.flash_attn", fact, job_where(j, e));
        return;
    }
    if (job_bool(job_config_get(j->config, JOB_UNKNOWN, "flash_attention")) == 1) { /* axolotl */
        e = job_config_get(j->config, JOB_UNKNOWN, "flash_attention");
        facts_string(j->facts, "config.flash_attn", "fa2", job_where(j, e));
    } else if (j->config->kind == JOB_LLAMAFACTORY) {
        facts_string(j->facts, "config.flash_attn", "auto", "default of LLaMA-Factory");
    }
}

static void set_packing(const struct job *j)
{
    static const char *const keys[] = {"packing", "neat_packing", "sample_packing"};
    const struct job_entry *last = NULL;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, keys[i]);
        if (job_bool(e) == 1) {
            facts_bool(j->facts, "config.packing", true, job_where(j, e));
            return;
        }
        last = job_bool(e) == 0 ? e : last;
    }
    if (last != NULL) {
        facts_bool(j->facts, "config.packing", false, job_where(j, last));
    } else if (j->config->kind == JOB_LLAMAFACTORY) {
        const char *stage = facts_get_string(j->facts, "config.stage", "sft");
        facts_bool(j->facts, "config.packing", strcmp(stage, "pt") == 0,
                   "default of LLaMA-Factory: only in stage pt");
    }
}

static void set_dataset(const struct job *j)
{
    const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, "dataset");
    e = e != NULL ? e : job_config_get(j->config, JOB_UNKNOWN, "dataset_name");
    if (e != NULL) {
        set_list(j, "config.dataset", e);
    }
    const struct fact *dir = facts_get(j->facts, "config.dataset_dir");
    if (j->config->kind == JOB_LLAMAFACTORY && (dir == NULL || dir->state == FACT_ABSENT)) {
        facts_string(j->facts, "config.dataset_dir", "data", "default of LLaMA-Factory");
    }
    const struct fact *cutoff = facts_get(j->facts, "config.cutoff_len");
    if (j->config->kind == JOB_LLAMAFACTORY && (cutoff == NULL || cutoff->state == FACT_ABSENT)) {
        facts_int(j->facts, "config.cutoff_len", 2048, "default of LLaMA-Factory");
    }
}

void job_config_facts(const struct job_config *c, const struct fs *fs, struct facts *facts,
                      struct arena *scratch)
{
    struct job j = {.config = c,
                    .fs = fs,
                    .facts = facts,
                    .arena = scratch,
                    .cwd = facts_get_string(facts, "proc.cwd", NULL)};
    facts_string(facts, "config.kind", job_kind_name(c->kind), c->file);
    facts_strings(facts, "config.problems", c->problems.items, c->problems.count, c->file);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        set_row(&j, &rows[i]);
    }
    set_mixed_precision(&j);
    set_quantisation(&j);
    set_finetuning(&j);
    set_compute_dtype(&j);
    set_attention(&j);
    set_packing(&j);
    set_dataset(&j);
    job_model_facts(&j);
    job_tokenizer_facts(&j);
    job_data_facts(&j);
    job_checkpoint_facts(&j);
}
