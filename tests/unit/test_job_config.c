// SPDX-License-Identifier: Apache-2.0
/* Training configurations and the folders they name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "facts/facts.h"
#include "facts/job_config.h"
#include "temp_root.h"

static struct arena *arena;
static struct fs fs;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    temp_root_make();
    fs.prefix = temp_root;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_root_remove();
    arena_free(arena);
    return 0;
}

static struct facts *read_facts(const char *path, struct job_config *c)
{
    struct err err = {0};
    struct facts *f = facts_new(arena);
    if (job_config_read(arena, &fs, path, c, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    job_config_facts(c, &fs, f, arena);
    return f;
}

static bool list_has(const struct facts *f, const char *key, const char *item)
{
    const struct fact *fact = facts_get(f, key);
    assert_non_null(fact);
    for (size_t i = 0; fact->value.kind == VALUE_LIST && i < fact->value.list.count; i++) {
        if (strcmp(fact->value.list.items[i].string, item) == 0) {
            return true;
        }
    }
    return false;
}

static void factory_yaml_keeps_lines_and_gives_defaults(void **state)
{
    (void)state;
    temp_write("/w/train.yaml", "### model\nmodel_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\n"
                                "finetuning_type: lora\nquantization_bit: 4\nlora_rnak: 16\n"
                                "dataset: identity, alpaca_en\nlearning_rate: 1.0e-4\nbf16: true\n"
                                "template: qwen\n");
    struct job_config c;
    struct facts *f = read_facts("/w/train.yaml", &c);
    assert_int_equal(c.kind, JOB_LLAMAFACTORY);
    assert_int_equal(job_config_get(&c, JOB_UNKNOWN, "lora_rnak")->line, 6);
    assert_string_equal(facts_get_string(f, "config.learning_rate", ""), "1.0e-4");
    assert_string_equal(facts_get_string(f, "config.finetuning_type", ""), "qlora");
    assert_true(facts_get_bool(f, "config.load_in_4bit", false));
    assert_false(facts_get_bool(f, "config.load_in_8bit", true));
    assert_string_equal(facts_get_string(f, "config.compute_dtype", ""), "bf16");
    assert_string_equal(facts_get_string(f, "config.flash_attn", ""), "auto");
    assert_int_equal(facts_get_int(f, "config.cutoff_len", 0), 2048);
    assert_int_equal(facts_get_int(f, "config.lora_rank", 0), 8);
    assert_false(facts_get_bool(f, "config.packing", true));
    assert_true(list_has(f, "config.dataset", "alpaca_en"));
    assert_string_equal(facts_get_string(f, "template.eos_token", ""), "<|im_end|>");
    assert_string_equal(facts_get_string(f, "model.name", ""), "Qwen2.5-7B");
    assert_int_equal(facts_get(f, "model.path")->state, FACT_ABSENT);
}

static void a_deepspeed_path_is_followed(void **state)
{
    (void)state;
    temp_write("/w/sub/train.yaml", "output_dir: out\ndeepspeed: conf/ds.json\nfp16: yes\n");
    temp_write("/w/conf/ds.json",
               "{\n  \"fp16\": {\"enabled\": \"auto\"},\n  \"zero_optimization\": {\n"
               "    \"stage\": 3,\n    \"offload_optimizer\": {\"device\": \"cpu\"}\n  },\n"
               "  \"gradient_accumulation_steps\": \"auto\"\n}\n");
    struct job_config c;
    struct facts *f = read_facts("/w/sub/train.yaml", &c);
    assert_int_equal(c.kind, JOB_TRANSFORMERS);
    assert_int_equal(facts_get_int(f, "config.deepspeed.zero_stage", 0), 3);
    assert_string_equal(facts_get_string(f, "config.deepspeed.offload_optimizer", ""), "cpu");
    assert_int_equal(facts_get(f, "config.deepspeed.fp16")->state, FACT_ABSENT);
    assert_true(facts_get_bool(f, "config.fp16", false));
    assert_int_equal(job_config_get(&c, JOB_DEEPSPEED, "zero_optimization.stage")->line, 4);
    assert_null(job_config_get(&c, JOB_UNKNOWN, "zero_optimization.stage"));
}

static void a_missing_deepspeed_file_is_a_problem_not_a_failure(void **state)
{
    (void)state;
    temp_write("/w/t.yaml", "output_dir: out\ndeepspeed: nowhere.json\n");
    struct job_config c;
    read_facts("/w/t.yaml", &c);
    assert_int_equal(c.problems.count, 1);
    assert_non_null(strstr(c.problems.items[0], "t.yaml:2"));
}

static void accelerate_speaks_for_precision_and_zero(void **state)
{
    (void)state;
    temp_write("/w/acc.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n"
                              "mixed_precision: fp16\ndeepspeed_config:\n  zero_stage: 2\n"
                              "  deepspeed_moe_layer_cls_names: A,B\nnum_processes: 2\n");
    struct job_config c;
    struct facts *f = read_facts("/w/acc.yaml", &c);
    assert_int_equal(c.kind, JOB_ACCELERATE);
    assert_true(facts_get_bool(f, "config.fp16", false));
    assert_int_equal(facts_get_int(f, "config.deepspeed.zero_stage", 0), 2);
    assert_true(list_has(f, "config.deepspeed.leaf_modules", "B"));
    assert_string_equal(facts_get_string(f, "config.compute_dtype", ""), "fp16");
}

static void wrong_types_are_said_and_hostile_files_refused(void **state)
{
    (void)state;
    struct job_config c;
    struct err err = {0};
    temp_write("/w/t.yaml", "output_dir: o\ncutoff_len: many\nbf16: 3\n");
    struct facts *f = read_facts("/w/t.yaml", &c);
    assert_int_equal(facts_get(f, "config.cutoff_len")->state, FACT_UNREADABLE);
    assert_int_equal(facts_get(f, "config.bf16")->state, FACT_UNREADABLE);
    temp_write("/w/bomb.yaml", "a: &a [1]\nb: [*a, *a]\n");
    assert_int_equal(job_config_read(arena, &fs, "/w/bomb.yaml", &c, &err), ST_FORMAT);
    temp_write("/w/list.yaml", "- 1\n");
    assert_int_equal(job_config_read(arena, &fs, "/w/list.yaml", &c, &err), ST_FORMAT);
    assert_int_equal(job_config_read(arena, &fs, "/w/none.yaml", &c, &err), ST_ABSENT);
}

static void write_safetensors(const char *path, const char *header, size_t data)
{
    size_t n = strlen(header);
    unsigned char *bytes = calloc(1, 8 + n + data);
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    }
    memcpy(bytes + 8, header, n);
    temp_write_bytes(path, bytes, 8 + n + data);
    free(bytes);
}

static void a_model_folder_is_measured(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"model.embed_tokens.weight\":{\"dtype\":\"BF16\","
        "\"shape\":[1024,8],\"data_offsets\":[0,16384]}}";
    temp_write("/m/config.json",
               "{\"model_type\":\"qwen3_vl\",\"text_config\":{\"hidden_size\":64,"
               "\"num_attention_heads\":4,\"vocab_size\":1000},\"vision_config\":{},"
               "\"torch_dtype\":\"bfloat16\",\"eos_token_id\":[11,12]}");
    temp_write(
        "/m/tokenizer_config.json",
        "{\"eos_token\":{\"content\":\"<|im_end|>\"},\"pad_token\":\"<pad>\","
        "\"padding_side\":\"left\",\"added_tokens_decoder\":{\"11\":{\"content\":\"<e>\"}}}");
    temp_write(
        "/m/tokenizer.json",
        "{\"added_tokens\":[{\"id\":1,\"content\":\"b\"},{\"id\":3,\"content\":\"<e>\"}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\\"}\":2},\"merges\":[]}}");
    write_safetensors("/m/model-00001-of-00002.safetensors", header, 16384);
    temp_write("/m/model-00002-of-00002.safetensors",
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    temp_write("/m/model.safetensors.index.json",
               "{\"metadata\":{\"total_size\":32768},\"weight_map\":{}}");
    temp_write("/w/t.yaml", "stage: sft\nmodel_name_or_path: /m\n");
    struct job_config c;
    struct facts *f = read_facts("/w/t.yaml", &c);
    assert_string_equal(facts_get_string(f, "model.type", ""), "qwen3_vl");
    assert_true(facts_get_bool(f, "model.has_vision_tower", false));
    assert_int_equal(facts_get_int(f, "model.head_dim", 0), 16);
    assert_int_equal(facts_get_int(f, "model.vocab_rows", 0), 1024);
    assert_int_equal(facts_get_int(f, "tokenizer.length", 0), 4);
    assert_string_equal(facts_get_string(f, "tokenizer.eos_token", ""), "<|im_end|>");
    assert_string_equal(facts_get_string(f, "tokenizer.padding_side", ""), "left");
    assert_string_equal(facts_get_string(f, "model.eos_token", ""), "<e>");
    assert_int_equal(facts_get_int(f, "model.weights_bytes_expected", 0), 32768);
    assert_true(facts_get_int(f, "model.weights_bytes_present", 0) < 32768);
    assert_string_equal(facts_get_string(f, "model.shard_head", ""),
                        "version https://git-lfs.github.com/spec/v1");
}

static void a_lying_safetensors_header_is_survived(void **state)
{
    (void)state;
    temp_write_bytes("/m2/model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    temp_write("/w/t.yaml", "stage: sft\nmodel_name_or_path: /m2\n");
    struct job_config c;
    struct facts *f = read_facts("/w/t.yaml", &c);
    assert_int_equal(facts_get_int(f, "model.smallest_shard_bytes", 0), 10);
    assert_int_equal(facts_get(f, "model.weights_bytes_expected")->state, FACT_ABSENT);
}

static void dataset_rows_and_media_are_counted(void **state)
{
    (void)state;
    temp_write("/w/data/dataset_info.json",
               "{\"mm\":{\"file_name\":\"mm.json\",\"columns\":{\"images\":\"pics\"}},"
               "\"lines\":{\"file_name\":\"l.jsonl\"}}");
    temp_write("/w/data/mm.json", "[{\"messages\":[],\"pics\":[\"a.png\",\"b.png\"]},\n"
                                  "{\"messages\":[{\"content\":\"]} \\\" \"}],\"pics\":[]}]");
    temp_write("/w/data/l.jsonl", "{\"text\":\"a\"}\n\n{\"text\":\"b\"}\n{\"text\":\"c\"}");
    temp_write("/w/t.yaml", "stage: sft\ndataset: mm\n");
    struct job_config c;
    struct facts *f = read_facts("/w/t.yaml", &c);
    assert_int_equal(facts_get_int(f, "data.rows", 0), 2);
    assert_true(list_has(f, "data.modalities", "image"));
    assert_true(facts_get_bool(f, "data.text_only_rows", false));
    assert_int_equal(facts_get_int(f, "data.images_per_sample_max", 0), 2);
    temp_write("/w/t.yaml", "stage: sft\ndataset: lines\n");
    f = read_facts("/w/t.yaml", &c);
    assert_int_equal(facts_get_int(f, "data.rows", 0), 3);
    assert_false(list_has(f, "data.modalities", "image"));
}

static void zero_shards_tell_the_world_size(void **state)
{
    (void)state;
    temp_write("/w/out/checkpoint-90/latest", "global_step90\n");
    temp_write("/w/out/checkpoint-100/latest", "global_step100\n");
    temp_write("/w/out/checkpoint-100/global_step100/"
               "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
               "");
    temp_write("/w/out/checkpoint-100/global_step100/"
               "bf16_zero_pp_rank_7_mp_rank_00_optim_states.pt",
               "");
    temp_write("/w/t.yaml", "stage: sft\noutput_dir: out\n");
    struct job_config c;
    struct facts *f = read_facts("/w/t.yaml", &c);
    assert_int_equal(facts_get_int(f, "ckpt.world_size", 0), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factory_yaml_keeps_lines_and_gives_defaults),
        cmocka_unit_test(a_deepspeed_path_is_followed),
        cmocka_unit_test(a_missing_deepspeed_file_is_a_problem_not_a_failure),
        cmocka_unit_test(accelerate_speaks_for_precision_and_zero),
        cmocka_unit_test(wrong_types_are_said_and_hostile_files_refused),
        cmocka_unit_test(a_model_folder_is_measured),
        cmocka_unit_test(a_lying_safetensors_header_is_survived),
        cmocka_unit_test(dataset_rows_and_media_are_counted),
        cmocka_unit_test(zero_shards_tell_the_world_size),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
