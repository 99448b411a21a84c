// SPDX-License-Identifier: Apache-2.0
/* Anomalies in words: one row a kind and family of metric; see anomaly.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "study/anomaly.h"

struct words {
    enum anomaly_kind kind;
    const char *metric; /* NULL: any; a row with a metric comes before the general one */
    const char *what;   /* "the loss jumped" */
    const char *may_mean;
    const char *remedy[3];
};

// clang-format off
static const struct words table[] = {
    {ANOMALY_NOT_FINITE, "loss", "the loss is not finite",
     "The forward pass overflowed (fp16 above 65504), divided by zero (a batch whose labels are all masked), or the weights are already NaN.",
     {"stop the run: from here on every weight that is updated becomes NaN",
      "go back to the checkpoint before, and look at the batch of this step: all labels -100?",
      "with fp16 try bf16; 'assay probe' checks the operators of this stack against references"}},
    {ANOMALY_NOT_FINITE, "grad_norm", "the gradient norm is not finite",
     "With fp16, single steps with an infinite norm are how the loss scaler finds its scale: those steps are skipped. Many in a row, or NaN, are a numerical fault in backward.",
     {"count the skipped steps; if they do not stop within some dozen steps, lower the learning rate or use bf16",
      "'assay probe' checks the backward of the operators of this stack"}},
    {ANOMALY_NOT_FINITE, NULL, "the metric is not finite", "A value of it overflowed, or was divided by zero.",
     {"look at how it is computed at this step"}},
    {ANOMALY_SPIKE, "grad_norm", "the gradient norm jumped",
     "One batch with unusual gradients, a learning rate that is too high, or a kernel that went wrong once (a transient hardware fault does that).",
     {"clip the gradient (max_grad_norm); when the loss recovers, no more is needed",
      "run the same step again from the checkpoint before: if it does not come back, suspect the GPU, not the data"}},
    {ANOMALY_SPIKE, NULL, "the loss jumped",
     "An unusual batch (broken or duplicated samples), a learning rate that is too high, or wrong numbers from a kernel for one shape.",
     {"look at the samples of this step",
      "run the same step again from the checkpoint before: if the jump is not there again, suspect the hardware; if it is, the data or the operator for that shape"}},
    {ANOMALY_DROP, NULL, "the loss fell for a moment",
     "A batch that is far easier than the others: duplicated samples, samples seen before, or labels that are mostly masked.",
     {"look at the samples of this step: how many tokens have a label?"}},
    {ANOMALY_SHIFT_UP, "step_time", "steps became slower, and stay so",
     "Throttling by heat or power, another job on the GPU or the host, a data loader that fell behind, memory close to full.",
     {"look at clocks and temperature of the GPUs, and at the load of the host",
      "compare data_time: when it rose as well, the loader is the bottleneck"}},
    {ANOMALY_SHIFT_UP, "grad_norm", "gradient norms rose to another level",
     "Training leaves the stable range: divergence often begins so, some hundred steps before the loss shows it.",
     {"lower the learning rate or clip the gradient", "keep the checkpoint from before this step"}},
    {ANOMALY_SHIFT_UP, "data_time", "loading data became slower, and stays so",
     "The storage or the workers of the loader are the bottleneck.",
     {"more workers, or data that is nearer"}},
    {ANOMALY_SHIFT_UP, NULL, "the loss rose to another level",
     "Divergence, another part of the data set (order by source or length), or a change of learning rate.",
     {"compare with the learning rate and with where the data comes from at this step",
      "when it goes on rising, go back to the checkpoint before and lower the learning rate"}},
    {ANOMALY_SHIFT_DOWN, "tokens_per_s", "throughput fell, and stays so",
     "Throttling by heat or power, another job on the GPU or the host, longer samples, a data loader that fell behind.",
     {"look at clocks and temperature of the GPUs, and at the load of the host"}},
    {ANOMALY_SHIFT_DOWN, NULL, "the loss fell to another level",
     "Usual where a new epoch begins (samples are seen again) or the learning rate drops. Elsewhere: easier data, or leakage.",
     {"when it is no epoch boundary, look at what data comes from this step on"}},
    {ANOMALY_SAME, "grad_norm", "the gradient norm repeats exactly",
     "Nothing changes between steps: the same batch again and again, an update that does not reach the weights, or a norm that is logged after clipping.",
     {"look at whether the data loader advances, and at the learning rate", "log the norm before clipping"}},
    {ANOMALY_SAME, NULL, "the loss repeats exactly",
     "The data loader hands out the same batch, the optimizer changes nothing (learning rate 0, no parameter requires a gradient), or a value is logged that is not updated.",
     {"look at the learning rate, and at the samples of two such steps",
      "in bf16 updates below 1/256 of a weight vanish: keep fp32 master weights"}},
    {ANOMALY_ZERO, "grad_norm", "the gradient norm is zero",
     "No gradient reaches the parameters: all labels are masked, the graph is cut (detach, no_grad, inputs that require no gradient under checkpointing), or the steps were skipped.",
     {"with a frozen base and gradient checkpointing: enable_input_require_grads() or use_reentrant=False",
      "look at how many tokens of a batch have a label"}},
    {ANOMALY_ZERO, NULL, "the loss is zero",
     "All labels of the batches are masked, or the loss is not what is logged. Reinforcement learning (GRPO) begins at zero rightly.",
     {"look at how many tokens of a batch have a label (not -100)"}},
    {ANOMALY_GUESSING, NULL, "the loss is worse than guessing",
     "A model that knows nothing has the loss ln(vocabulary). Above it something is wrong: logits of another scale, a tokenizer that does not belong to the model, labels shifted twice.",
     {"compare the tokenizer with the model: 'assay tokenizer'",
      "compare the loss of one batch with a reference: the base model must be far below ln(vocabulary)"}},
    {ANOMALY_TAIL, NULL, "some steps take far longer than the others",
     "Saving, evaluating or compiling for a new shape costs single steps; beyond that the data loader, a shared host or the network do.",
     {"compare with the save and evaluation interval", "pad to few lengths, so that kernels are not compiled anew"}},
    {ANOMALY_SLOW_RANK, NULL, "one rank is slower than the others",
     "All ranks wait for the slowest. A GPU that throttles, a PCIe link that came up narrow, a slower disk, or more work (longer samples, more experts).",
     {"on its machine: 'assay doctor', then clocks, temperature and the PCIe width of its GPU",
      "exchange two ranks: does the slowness move with the GPU or with the data?"}},
    {ANOMALY_MEMORY, NULL, "one of them uses far more memory than the others",
     "Uneven shards (ZeRO with uneven parameters), a first pipeline stage with the embeddings, processes of all ranks that opened a context on the first GPU.",
     {"look at which processes are on it: a rank must set its device before it touches the GPU",
      "even out the shards or the pipeline stages"}},
    {ANOMALY_THROTTLED, NULL, "a GPU is hot, and its clock went down",
     "The GPU protects itself. Steps become slower; in a synchronous job those of all ranks.",
     {"cooling, the power limit, and the place of the card; compare with its neighbours"}},
    {ANOMALY_PERIOD, "step_time", "step time repeats with a period",
     "Something happens every so many steps: saving, evaluation, logging, a collection of garbage.",
     {"compare with the intervals of saving, evaluation and logging"}},
    {ANOMALY_PERIOD, NULL, "the metric repeats with a period",
     "The length tells: one of an epoch or shard is the order of the data (shuffle it), one of gradient accumulation is a loss that is scaled or logged per micro step, one of saving or evaluation is state that does not survive it.",
     {"give the lengths of the run, so that the period can be compared: --fact save_steps=500 --fact epoch=1250",
      "shuffle the data with another seed: if the period goes, it was the order"}},
    {ANOMALY_STALL, NULL, "the run makes no progress",
     "A rank died or waits in a collective, the data loader hangs, storage does not answer.",
     {"'assay run --hang' keeps the stacks of all processes when a job falls silent",
      "look at whether all ranks are alive; 'assay diagnose LOG' names the first that failed"}},
};
// clang-format on

static const char *const names[] = {
    [ANOMALY_NOT_FINITE] = "not-finite",
    [ANOMALY_SPIKE] = "spike",
    [ANOMALY_DROP] = "drop",
    [ANOMALY_SHIFT_UP] = "shift-up",
    [ANOMALY_SHIFT_DOWN] = "shift-down",
    [ANOMALY_SAME] = "repeated",
    [ANOMALY_ZERO] = "zero",
    [ANOMALY_GUESSING] = "worse-than-guessing",
    [ANOMALY_TAIL] = "slow-steps",
    [ANOMALY_SLOW_RANK] = "slow-rank",
    [ANOMALY_MEMORY] = "uneven-memory",
    [ANOMALY_THROTTLED] = "throttled",
    [ANOMALY_PERIOD] = "period",
    [ANOMALY_STALL] = "stall",
};
_Static_assert(ARRAY_LEN(names) == ANOMALY_KIND_COUNT, "a name for each kind");

const char *anomaly_kind_name(enum anomaly_kind kind)
{
    return names[kind];
}

static const struct words *words_of(const struct anomaly *a)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        bool metric = table[i].metric == NULL || strcmp(table[i].metric, a->metric) == 0;
        if (table[i].kind == a->kind && metric) {
            return &table[i];
        }
    }
    return &table[ARRAY_LEN(table) - 1]; /* not reached: each kind has a general row */
}

/* Bytes and seconds are read more easily in larger units. */
static void add_value(struct strbuf *out, const struct anomaly *a, double v)
{
    if (strstr(a->metric, "memory") != NULL && isfinite(v)) {
        strbuf_fmt(out, "%.4g GiB", v / 1073741824.0);
    } else if (a->kind == ANOMALY_STALL || strstr(a->metric, "time") != NULL) {
        strbuf_fmt(out, a->kind == ANOMALY_PERIOD ? "%.4g" : "%.4g s", v);
    } else if (a->kind == ANOMALY_THROTTLED) {
        strbuf_fmt(out, "%.4g MHz", v);
    } else {
        strbuf_fmt(out, "%.4g", v);
    }
}

static void add_expected(struct strbuf *out, const struct anomaly *a)
{
    bool low = isfinite(a->low);
    bool high = isfinite(a->high);
    if (!low && !high) {
        return;
    }
    strbuf_addz(out, ", expected ");
    if (low && high) {
        add_value(out, a, a->low);
        strbuf_addz(out, " to ");
        add_value(out, a, a->high);
    } else {
        strbuf_addz(out, low ? "at least " : "at most ");
        add_value(out, a, low ? a->low : a->high);
    }
}

static void add_detail(struct strbuf *out, const struct anomaly *a)
{
    switch (a->kind) {
    case ANOMALY_SAME: strbuf_fmt(out, "%.10g, %.0f times in a row", a->value, a->extra); return;
    case ANOMALY_ZERO: strbuf_fmt(out, "0, %.0f times in a row", a->extra); return;
    case ANOMALY_PERIOD:
        strbuf_fmt(out, "every %.4g %s (autocorrelation %.2f, noise stays below %.2f)", a->extra,
                   a->counted ? "values" : "steps", a->value, a->high);
        if (a->source_name != NULL && a->times == 1 && a->of == 1) {
            strbuf_fmt(out, ": the length of %s", a->source_name);
        } else if (a->source_name != NULL && a->of == 1) {
            strbuf_fmt(out, ": %u times the length of %s", a->times, a->source_name);
        } else if (a->source_name != NULL) {
            strbuf_fmt(out, ": 1/%u of the length of %s", a->of, a->source_name);
        }
        return;
    case ANOMALY_THROTTLED:
        add_value(out, a, a->value);
        strbuf_fmt(out, " at %.0f degrees", a->extra);
        add_expected(out, a);
        return;
    case ANOMALY_GUESSING: strbuf_fmt(out, "%.4g, guessing costs %.4g", a->value, a->high); return;
    case ANOMALY_STALL:
        strbuf_fmt(out, "silent for %.0f s, values usually come every %.3g s", a->value, a->extra);
        return;
    default: add_value(out, a, a->value); add_expected(out, a);
    }
}

static bool is_gpu(const struct anomaly *a)
{
    return strncmp(a->metric, "gpu_", 4) == 0;
}

static void add_place(struct strbuf *out, const struct anomaly *a)
{
    if (is_gpu(a)) {
        strbuf_fmt(out, "gpu %d ", a->rank);
    } else if (a->rank >= 0) {
        strbuf_fmt(out, "rank %d ", a->rank);
    }
    if (a->step >= 0) {
        strbuf_fmt(out, "%s %" PRId64 " ", a->counted ? "value" : "step", a->step);
    }
}

void anomaly_line(struct strbuf *out, const struct anomaly *a)
{
    strbuf_fmt(out, "%s %s: ", severity_name(a->severity), names[a->kind]);
    add_place(out, a);
    strbuf_fmt(out, "%s ", a->metric);
    add_detail(out, a);
}

void anomaly_finding(struct arena *arena, const struct anomaly *a, struct finding *ret_finding)
{
    const struct words *w = words_of(a);
    struct strbuf title;
    struct strbuf claim;
    strbuf_init(&title, arena, 400);
    strbuf_init(&claim, arena, 2000);
    add_place(&title, a);
    if (title.n != 0) {
        title.p[title.n - 1] = ':'; /* the space behind the place */
        strbuf_addc(&title, ' ');
    }
    strbuf_addz(&title, w->what);
    strbuf_fmt(&claim, "%s is ", a->metric);
    add_detail(&claim, a);
    strbuf_fmt(&claim, ". %s", w->may_mean);
    struct finding f = {.id = names[a->kind],
                        .severity = a->severity,
                        .title = strbuf_str(&title).p,
                        .claim = strbuf_str(&claim).p,
                        .confidence = a->kind == ANOMALY_NOT_FINITE ? 1 : 0.9};
    for (size_t i = 0; i < ARRAY_LEN(w->remedy) && w->remedy[i] != NULL; i++) {
        *VEC_PUSH(arena, &f.remedy) = w->remedy[i];
    }
    struct strbuf line;
    strbuf_init(&line, arena, 400);
    strbuf_fmt(&line, "%s ", a->metric);
    add_detail(&line, a);
    if (a->file != NULL) {
        *VEC_PUSH(arena, &f.evidence) = (struct evidence){.source = arena_strdup(arena, a->file),
                                                          .line = (long)a->line,
                                                          .text = strbuf_str(&line).p};
    }
    *ret_finding = f;
}
