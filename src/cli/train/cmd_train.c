// SPDX-License-Identifier: Apache-2.0
/* assay train: the reference trainer. Each way of using it is a row of `modes`. */
#include "cli/action_options.h"
#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "cli/train/train.h"

static const struct train_mode modes[] = {
    {"convert", train_convert}, {"generate", train_generate}, {"oracle", train_oracle},
    {"plan", train_plan},       {"shrink", train_shrink},     {NULL, train_run}, /* last */
};

/* Options of one mode, by the option that chooses it. */
static const struct action_option uses[] = {
    {"params", "shrink"},   {"against", "oracle"},       {"dump", "oracle"},
    {"tokens", "generate"}, {"temperature", "generate"},
};

static int run_train_command(struct cli *cli)
{
    struct err err = {0};
    struct train_job job;
    int result;
    if (cli->operands.count != 1) {
        return cli_fail(cli, EXIT_USAGE,
                        "name the model's folder or GGUF file: 'assay train MODEL --data FILE'");
    }
    size_t mode = 0;
    while (modes[mode].name != NULL && !cli_flag(cli, modes[mode].name)) {
        mode++;
    }
    const char *name = modes[mode].name != NULL ? modes[mode].name : "train";
    if (action_options_check(cli, uses, ARRAY_LEN(uses), name, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    enum status status = train_job_init(cli, &job, &err);
    if (status != ST_OK) {
        result = cli_fail(cli, train_exit(status), "%s", err.text);
    } else {
        result = modes[mode].run(&job);
    }
    train_job_done(&job);
    return result;
}

static const char *const description[] = {
    "Trains a language model of a Hugging Face folder or a GGUF file on the CPU with own arithmetic "
    "in float64, float32 or bfloat16: a workload whose every step is known, to hold other stacks "
    "against. Slow beside a GPU, and meant to be: nothing in it depends on a framework.",
    "Data are JSONL or a JSON list of {\"text\"}, Alpaca, {\"messages\"} or {\"input_ids\", "
    "\"labels\"} records, a safetensors file with input_ids, or a text file (*.txt). The loss of an "
    "update is the sum over its labels divided by their number; the first update of a warm-up has "
    "learning rate 0.",
    "--save DIR keeps metrics.jsonl and checkpoints that transformers (or PEFT, with --lora) loads. A run "
    "that was killed goes on with --resume, bit for bit where matrix products are computed as before "
    "(it says when not). Exit "
    "status 1 when a value became NaN or infinite; its tensor is named.",
    NULL,
};

static const struct example examples[] = {
    {"assay train model --data book.txt --steps 100 --lr 1e-4",
     "train all weights for 100 updates"},
    {"assay train model --data alpaca.json --lora r=8,alpha=16 --save out --eval-share 0.05",
     "LoRA on every linear layer, a twentieth of the data for evaluation"},
    {"assay train model --data alpaca.json --lora r=8,alpha=16 --save out --eval-share 0.05 --resume",
     "go on where it was killed"},
    {"assay train model --oracle --against dump.safetensors",
     "judge one step of another stack (examples/dump_transformers.py writes the dump)"},
    {"assay train model --plan --lora r=8 --batch 4 --length 1024", "does it fit into memory?"},
    {"assay train model --shrink tiny --params 20M",
     "the same family, small: is it the size or the machine?"},
    {"assay train model.Q4_1.gguf --convert folder",
     "the weights of a GGUF file, dequantised, for transformers"},
    {"assay train out/checkpoint-100 --generate 'Once upon a time' --tokens 40",
     "look at the model"},
    {0},
};

static const struct option_spec options[] = {
    {"data", 'd', OPTION_REPEAT, "FILE", "Training data; may be given again"},
    {"eval", 0, OPTION_REPEAT, "FILE", "Evaluation data; may be given again"},
    {"eval-share", 0, OPTION_VALUE, "X", "Take this share of the samples for evaluation instead"},
    {"eval-every", 0, OPTION_VALUE, "N", "Evaluate every N updates (only at the end)"},
    {"length", 0, OPTION_VALUE, "N", "Longest sample in tokens; texts are cut into pieces (512)"},
    {"template", 0, OPTION_VALUE, "NAME",
     "Chat template: chatml, llama3, llama2, alpaca (by tokenizer)"},
    {"learn-prompt", 0, OPTION_FLAG, NULL, "Take the loss of prompts too, not of replies alone"},
    {"no-shuffle", 0, OPTION_FLAG, NULL, "Samples in the order of the files"},
    {"pack", 0, OPTION_FLAG, NULL,
     "Fill micro-batches with whole samples up to batch * length tokens"},
    {"batch", 'b', OPTION_VALUE, "N", "Samples of a micro-batch (1)"},
    {"accumulate", 0, OPTION_VALUE, "N", "Micro-batches of an update (1)"},
    {"steps", 'n', OPTION_VALUE, "N", "Updates of the whole run (one epoch)"},
    {"epochs", 0, OPTION_VALUE, "X", "The same in passes over the data"},
    {"seed", 0, OPTION_VALUE, "N", "Order of the data, weights of --random (42)"},
    {"lr", 0, OPTION_VALUE, "X", "Highest learning rate (5e-5)"},
    {"schedule", 0, OPTION_VALUE, "constant|linear|cosine|three-stage",
     "Learning rate over time (cosine)"},
    {"warmup", 0, OPTION_VALUE, "N", "Updates of warm-up (0; three-stage 500)"},
    {"min-lr", 0, OPTION_VALUE, "X", "Where cosine ends (0) and three-stage begins (lr / 60)"},
    {"hold", 0, OPTION_VALUE, "N", "three-stage: update that the decay begins at (5000)"},
    {"weight-decay", 0, OPTION_VALUE, "X", "Decoupled decay of matrices and embeddings (0)"},
    {"betas", 0, OPTION_VALUE, "B,B",
     "AdamW: decay of the means of gradients and of squares (0.9,0.999)"},
    {"eps", 0, OPTION_VALUE, "X", "AdamW: added to the root of the mean of squares (1e-8)"},
    {"clip", 0, OPTION_VALUE, "X", "Largest norm of the gradients, 0 for no limit (1.0)"},
    {"zclip", 0, OPTION_FLAG, NULL, "Clip by the history of the norms besides (ZClip)"},
    {"lora", 0, OPTION_VALUE, "SPEC", "Train adapters: r=8,alpha=16,targets=q_proj+v_proj,rslora"},
    {"precision", 'p', OPTION_VALUE, "f64|f32|bf16", "Arithmetic (f32)"},
    {"pure", 0, OPTION_FLAG, NULL, "bf16: weights and moments without a float32 copy"},
    {"random", 0, OPTION_FLAG, NULL, "Random weights by --seed instead of the folder's"},
    {"recompute", 0, OPTION_FLAG, NULL,
     "Keep only the input of each layer: less memory, same numbers"},
    {"reference", 0, OPTION_FLAG, NULL, "Plain loops and no BLAS library: slow, and the last word"},
    {"blas", 0, OPTION_VALUE, "FILE",
     "BLAS library to multiply with, or 'own' (own with AVX-512, else OpenBLAS)"},
    {"threads", 't', OPTION_VALUE, "N", "Threads to work with (all cores)"},
    {"save", 's', OPTION_VALUE, "DIR", "Folder of the run: metrics.jsonl and checkpoints"},
    {"save-every", 0, OPTION_VALUE, "N", "Write a checkpoint every N updates (only at the end)"},
    {"keep", 0, OPTION_VALUE, "N", "Newest checkpoints that stay, 0 for all (2)"},
    {"resume", 0, OPTION_FLAG, NULL, "Go on from the newest checkpoint in --save"},
    {"brief", 0, OPTION_FLAG, NULL, "Leave cosine and sums by layer out of the metrics"},
    {"adapter", 0, OPTION_VALUE, "DIR", "Start from this PEFT folder's adapter, with its settings"},
    {"oracle", 0, OPTION_FLAG, NULL,
     "Compute one step instead of training: to judge a dump, or to write one"},
    {"against", 0, OPTION_VALUE, "FILE", "--oracle: dump of another stack's step to judge"},
    {"dump", 0, OPTION_VALUE, "FILE", "--oracle: write loss, activations and gradients here"},
    {"plan", 0, OPTION_FLAG, NULL, "Say how much memory training would take, and do not start it"},
    {"convert", 0, OPTION_VALUE, "DIR",
     "Write the model as a Hugging Face folder (of a GGUF file: dequantised, float32)"},
    {"shrink", 0, OPTION_VALUE, "DIR",
     "Write a small random model of the same family with the same tokenizer"},
    {"params", 0, OPTION_VALUE, "N",
     "--shrink: about so many parameters, as 250000, 20M, 1.5B (100M)"},
    {"generate", 'g', OPTION_VALUE, "PROMPT", "Continue the prompt instead of training"},
    {"tokens", 0, OPTION_VALUE, "N", "--generate: tokens at most (64)"},
    {"temperature", 0, OPTION_VALUE, "X", "--generate: 0 takes the likeliest token (0)"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_train = {
    .name = "train",
    .summary = "Train a model with the reference trainer",
    .operands = "MODEL",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_train_command,
};
