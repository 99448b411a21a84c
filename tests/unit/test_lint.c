// SPDX-License-Identifier: Apache-2.0
/* Lint of training configurations and the decision path, with the knowledge of the program. */
#include <string.h>

#include "diagnosis/graph.h"
#include "diagnosis/judge.h"
#include "diagnosis/lint.h"
#include "unit.h"

struct bench {
    struct arena *arena;
    const struct knowledge *k;
    struct facts *facts;
    struct finding_list findings;
};

static int setup(void **state)
{
    struct arena *a = arena_new(0);
    struct bench *b = arena_alloc(a, sizeof *b);
    struct err err = {0};
    b->arena = a;
    assert_int_equal(knowledge_builtin(a, NULL, &b->k, &err), ST_OK);
    b->facts = facts_new(a);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    arena_free(((struct bench *)*state)->arena);
    return 0;
}

/* Reads one configuration into the bench; several may follow each other. */
static void take(struct bench *b, const char *name, const char *text)
{
    struct job_config c;
    struct err err = {0};
    struct health health;
    if (job_config_parse(b->arena, NULL, str_of(text), name, &c, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    static const struct fs nowhere = {.prefix = "/nonexistent"};
    job_config_facts(&c, &nowhere, b->facts, b->arena);
    lint_facts(b->arena, b->k, &c, b->facts);
    b->findings.count = 0;
    doctor_judge(b->arena, b->k, b->facts, "config", &b->findings, &health);
    lint_keys(b->arena, b->k, &c, &b->findings);
}

static const struct finding *found(const struct bench *b, const char *id)
{
    for (size_t i = 0; i < b->findings.count; i++) {
        if (strcmp(b->findings.items[i].id, id) == 0) {
            return &b->findings.items[i];
        }
    }
    return NULL;
}

static const char sound[] = "model_name_or_path: Qwen/Qwen2.5-7B\n"
                            "stage: sft\ndo_train: true\nfinetuning_type: lora\n"
                            "lora_rank: 16\nlora_target: all\ndataset: alpaca_en\ntemplate: qwen\n"
                            "cutoff_len: 2048\noutput_dir: out\nlogging_steps: 10\nbf16: true\n"
                            "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
                            "learning_rate: 1.0e-4\nnum_train_epochs: 3.0\n"
                            "lr_scheduler_type: cosine\nwarmup_ratio: 0.1\nddp_timeout: 180000000\n"
                            "report_to: none\nresume_from_checkpoint: null\n"
                            "overwrite_output_dir: true\nsave_only_model: false\n";

/* Fault: complaints about the configuration of LLaMA-Factory's own examples. */
static void test_sound_configuration_is_silent(void **state)
{
    struct bench *b = *state;
    take(b, "train.yaml", sound);
    for (size_t i = 0; i < b->findings.count; i++) {
        print_error("%s: %s\n", b->findings.items[i].id, b->findings.items[i].title);
    }
    assert_int_equal(b->findings.count, 0);
}

/* Fault: a misspelt key is found without its line or without the right spelling. */
static void test_misspelt_key_names_line_and_spelling(void **state)
{
    struct bench *b = *state;
    take(b, "train.yaml", "stage: sft\ntemplate: qwen\nfinetuning_typ: lora\n");
    const struct finding *f = found(b, "config-unknown-key");
    assert_non_null(f);
    assert_int_equal(f->evidence.items[0].line, 3);
    assert_string_equal(f->evidence.items[0].source, "train.yaml");
    assert_non_null(strstr(f->title, "'finetuning_type'"));
}

/* Fault: folklore is called a typing error. */
static void test_folklore_gets_the_right_form(void **state)
{
    struct bench *b = *state;
    take(b, "train.yaml", "stage: sft\ndisable_flash_attn: true\n");
    const struct finding *f = found(b, "config-wrong-key");
    assert_non_null(f);
    assert_non_null(strstr(f->remedy.items[0], "flash_attn: disabled"));
    assert_null(found(b, "config-unknown-key"));
}

/* Fault: values of the wrong type or outside the list pass. */
static void test_types_and_values(void **state)
{
    struct bench *b = *state;
    take(b, "train.yaml", "stage: sft\nflash_attn: flash2\nlora_rank: many\nbf16: maybe\n");
    assert_non_null(found(b, "config-wrong-value"));
    const struct finding *f = found(b, "config-wrong-type");
    assert_non_null(f);
}

/* Fault: precision switches that contradict each other pass, or sound ones do not. */
static void test_precision_switches(void **state)
{
    struct bench *b = *state;
    take(b, "train.yaml", "stage: sft\nbf16: true\npure_bf16: true\n");
    assert_non_null(found(b, "config-bf16-and-pure-bf16"));
    assert_null(found(b, "config-fp16-and-bf16"));
    take(b, "train.yaml", "stage: sft\nbf16: true\npure_bf16: false\nfp16: true\n");
    assert_null(found(b, "config-bf16-and-pure-bf16"));
    assert_non_null(found(b, "config-fp16-and-bf16"));
}

/* Fault: "auto" in a DeepSpeed file counts as a difference, or a real one does not. */
static void test_deepspeed_against_trainer(void **state)
{
    struct bench *b = *state;
    take(b, "train.yaml", sound);
    take(b, "ds.json",
         "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": 4,\n"
         " \"zero_optimization\": {\"stage\": 3}}");
    assert_null(found(b, "config-deepspeed-batch-differs"));
    const struct finding *f = found(b, "config-deepspeed-accumulation-differs");
    assert_non_null(f);
    assert_true(f->evidence.count >= 2);
    assert_non_null(found(b, "config-zero3-save"));
}

/* Fault: only a missing key is noticed, not an explicit false; or the other spelling is not known. */
static void test_zero3_gathers_weights(void **state)
{
    static const struct {
        const char *text;
        bool warns;
    } rows[] = {
        {"{\"zero_optimization\": {\"stage\": 3, \"ignore_unused_parameters\": true}}", true},
        {"{\"zero_optimization\": {\"stage\": 3,"
         " \"stage3_gather_16bit_weights_on_model_save\": false}}",
         true},
        {"{\"zero_optimization\": {\"stage\": 3,"
         " \"stage3_gather_16bit_weights_on_model_save\": true}}",
         false},
        {"{\"zero_optimization\": {\"stage\": 3, \"gather_16bit_weights_on_model_save\": true}}",
         false},
        {"{\"zero_optimization\": {\"stage\": 2}}", false},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b->facts = facts_new(b->arena);
        take(b, "ds.json", rows[i].text);
        assert_int_equal(found(b, "config-zero3-save") != NULL, rows[i].warns);
        assert_null(found(b, "config-unknown-key"));
    }
}

/* Fault: a script's own keys beside the trainer's are called unknown. */
static void test_own_keys_of_a_script_pass(void **state)
{
    struct bench *b = *state;
    take(b, "sweep.yaml", "learning_rate: 1.0e-4\nmy_wandb_team: blue\noutput_dir: x\n");
    assert_null(found(b, "config-unknown-key"));
    take(b, "sweep.yaml", "learning_rat: 1.0e-4\noutput_dir: x\n");
    assert_non_null(found(b, "config-unknown-key"));
}

/* Fault: accelerate's names are mixed up with torchrun's. */
static void test_accelerate(void **state)
{
    struct bench *b = *state;
    take(b, "acc.yaml", "compute_environment: LOCAL_MACHINE\nnum_gpus: 4\nnum_machines: 2\n");
    assert_non_null(found(b, "config-wrong-key"));
    assert_non_null(found(b, "config-accelerate-machines"));
    b->facts = facts_new(b->arena);
    take(b, "acc.yaml",
         "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
         "num_machines: 2\nmain_process_ip: 127.0.0.1\nmain_process_port: 99999\n"
         "fsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n"
         "  fsdp_sync_module_states: false\n");
    assert_non_null(found(b, "config-accelerate-loopback"));
    assert_non_null(found(b, "config-accelerate-port"));
    assert_non_null(found(b, "config-fsdp-ram-loading"));
    b->facts = facts_new(b->arena);
    take(b, "acc.yaml",
         "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
         "num_machines: 2\nmain_process_ip: 10.0.0.4\nmain_process_port: 29500\n"
         "fsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n"
         "  fsdp_sync_module_states: true\n");
    assert_null(found(b, "config-accelerate-loopback"));
    assert_null(found(b, "config-accelerate-port"));
    assert_null(found(b, "config-fsdp-ram-loading"));
}

/* Fault: what transformers and DeepSpeed refuse at the start is taken without a word. */
static void test_refused_at_the_start(void **state)
{
    static const struct {
        const char *file;
        const char *text;
        const char *rule; /* found when `refused` */
        bool refused;
    } rows[] = {
        {"t.yaml",
         "output_dir: x\nload_best_model_at_end: true\neval_strategy: epoch\n"
         "save_strategy: steps\n",
         "config-best-model-strategies", true},
        {"t.yaml",
         "output_dir: x\nload_best_model_at_end: true\neval_strategy: epoch\n"
         "save_strategy: epoch\n",
         "config-best-model-strategies", false},
        {"t.yaml", /* other trainers set the strategy by eval_steps */
         "output_dir: x\nload_best_model_at_end: true\neval_steps: 10\nsave_steps: 10\n",
         "config-best-model-strategies", false},
        {"t.yaml", "output_dir: x\nload_in_4bit: true\nload_in_8bit: true\n",
         "config-two-quantisations", true},
        {"t.yaml", "output_dir: x\nload_in_4bit: true\nload_in_8bit: false\n",
         "config-two-quantisations", false},
        {"d.json",
         "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}",
         "config-nvme-without-path", true},
        {"d.json",
         "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\","
         " \"nvme_path\": \"/nvme\"}}}",
         "config-nvme-without-path", false},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b->facts = facts_new(b->arena);
        take(b, rows[i].file, rows[i].text);
        assert_int_equal(found(b, rows[i].rule) != NULL, rows[i].refused);
    }
}

/* ---- graph ---- */

static struct graph walk(struct bench *b)
{
    struct graph g;
    graph_walk(b->arena, b->k, b->facts, &g);
    return g;
}

/* Fault: a machine without GPU does not end at the CPU. */
static void test_graph_of_a_cpu_machine(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 0, "t");
    facts_bool(b->facts, "os.wsl", false, "t");
    struct graph g = walk(b);
    assert_string_equal(g.end->node->id, "end-cpu");
    assert_false(g.doubtful);
}

/* Fault: what nobody read looks like a yes. */
static void test_graph_marks_unknown(void **state)
{
    struct bench *b = *state;
    struct graph g = walk(b);
    struct strbuf out;
    assert_true(g.doubtful);
    strbuf_init(&out, b->arena, 1 << 20);
    graph_mermaid(&g, &out);
    assert_non_null(strstr(out.p, "-.->|unknown|"));
    strbuf_clear(&out);
    graph_dot(&g, &out);
    assert_non_null(strstr(out.p, "style=dashed"));
}

/* Fault: a name from the machine breaks out of the label. */
static void test_graph_escapes_labels(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 1, "t");
    facts_string(b->facts, "gpu[0].driver", "a\"];evil\\", "t");
    struct graph g = walk(b);
    struct strbuf out;
    strbuf_init(&out, b->arena, 1 << 20);
    graph_mermaid(&g, &out);
    assert_null(strstr(out.p, "a\"];"));
    strbuf_clear(&out);
    graph_dot(&g, &out);
    assert_non_null(strstr(out.p, "a\\\"];evil\\\\"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sound_configuration_is_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_misspelt_key_names_line_and_spelling, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folklore_gets_the_right_form, setup, teardown),
        cmocka_unit_test_setup_teardown(test_types_and_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_precision_switches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deepspeed_against_trainer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_keys_of_a_script_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_zero3_gathers_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_accelerate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_at_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graph_of_a_cpu_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graph_marks_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graph_escapes_labels, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
