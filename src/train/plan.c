// SPDX-License-Identifier: Apache-2.0
/* Memory of a training. The figures of activations follow layer_*.c, loss.c and model_run.c. */
#include "train/plan.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/str.h"

#include "train/metrics.h"
#include "train/vision.h"

enum {
    LOGITS_AT_ONCE = 1 << 23, /* loss.c: elements of a chunk */
    LOGITS_ROWS_MIN = 16,
    ATTENTION_BLOCK = 64, /* layer_attention.c: rows at a time */
    TAPES = 2 * (4 << 20) /* tape.c: smallest block of each */
};

/* ---- parameters ---- */

struct counting {
    const struct lora_options *lora;
    struct plan_counts counts;
};

static bool is_target(const struct lora_options *lora, const char *name)
{
    struct str rest = str_of(lora != NULL ? lora->targets : NULL);
    struct str part;
    while (lora != NULL && lora->rank != 0 && str_cut(&rest, ',', &part)) {
        part = str_trim(part);
        size_t dot = part.n;
        while (dot != 0 && part.p[dot - 1] != '.') {
            dot--;
        }
        if (str_is(part, "all-linear") || str_is(str_slice(part, dot, part.n), name)) {
            return true;
        }
    }
    return false;
}

static void linear(struct counting *c, const char *name, uint64_t out, uint64_t in, bool bias)
{
    c->counts.weights += out * in + (bias ? out : 0);
    if (is_target(c->lora, name)) {
        c->counts.adapters += c->lora->rank * (out + in);
        c->counts.low += c->lora->rank;
    }
}

static void count_attention(struct counting *c, const struct model_config *m, bool gated)
{
    uint64_t q = m->heads * m->head_dim;
    uint64_t kv = m->kv_heads * m->head_dim;
    linear(c, "q_proj", gated ? 2 * q : q, m->hidden, m->qkv_bias);
    linear(c, "k_proj", kv, m->hidden, m->qkv_bias);
    linear(c, "v_proj", kv, m->hidden, m->qkv_bias);
    linear(c, "o_proj", m->hidden, q, m->o_bias);
    c->counts.weights += m->qk_norm || gated ? 2 * m->head_dim : 0;
}

static void count_delta(struct counting *c, const struct model_config *m)
{
    const struct linear_attention_config *l = &m->linear_attention;
    uint64_t v = l->v_heads * l->dim_v;
    uint64_t channels = 2 * l->heads * l->dim_k + v;
    linear(c, "in_proj_qkv", channels, m->hidden, false);
    linear(c, "in_proj_z", v, m->hidden, false);
    linear(c, "in_proj_b", l->v_heads, m->hidden, false);
    linear(c, "in_proj_a", l->v_heads, m->hidden, false);
    linear(c, "out_proj", m->hidden, v, false);
    c->counts.weights += channels * l->taps + 2 * l->v_heads + l->dim_v;
}

/* Its linear layers can be adapted too; what those keep belongs to pictures, which are not counted. */
static void count_vision(struct counting *c, const struct vision_config *v)
{
    uint64_t h = v->hidden;
    uint64_t wide = (uint64_t)v->merge * v->merge * h;
    uint64_t low = c->counts.low;
    for (size_t i = 0; i < v->depth; i++) {
        linear(c, "qkv", 3 * h, h, true);
        linear(c, "proj", h, h, true);
        linear(c, "linear_fc1", v->intermediate, h, true);
        linear(c, "linear_fc2", h, v->intermediate, true);
        c->counts.weights += 4 * h;
    }
    for (size_t i = 0; i <= v->levels; i++) {
        linear(c, "linear_fc1", wide, wide, true);
        linear(c, "linear_fc2", v->out, wide, true);
        c->counts.weights += 2 * (i == 0 ? h : wide);
    }
    c->counts.weights += h * v->channels * v->temporal * v->patch * v->patch + h +
                         (uint64_t)v->side * v->side * h;
    c->counts.low = low;
}

void plan_count(const struct model_config *config, const struct lora_options *lora,
                struct plan_counts *ret_counts)
{
    struct counting c = {.lora = lora};
    uint64_t h = config->hidden;
    for (size_t i = 0; i < config->layers; i++) {
        if (config->layer_kind[i] == LAYER_LINEAR_ATTENTION) {
            count_delta(&c, config);
        } else {
            count_attention(&c, config, config->layer_kind[i] == LAYER_GATED_ATTENTION);
        }
        linear(&c, "gate_proj", config->intermediate, h, config->mlp_bias);
        linear(&c, "up_proj", config->intermediate, h, config->mlp_bias);
        linear(&c, "down_proj", h, config->intermediate, config->mlp_bias);
        c.counts.weights += 2 * h;
    }
    c.counts.weights += config->vocab * h * (config->tied ? 1 : 2) + h;
    if (config->vision != NULL) {
        count_vision(&c, config->vision);
    }
    *ret_counts = c.counts;
}

/* ---- activations, in reals ---- */

/* Kept by one layer a token, its input aside. */
static uint64_t kept_by_layer(const struct model_config *m, enum layer_kind kind)
{
    uint64_t q = m->heads * m->head_dim;
    uint64_t kv = m->kv_heads * m->head_dim;
    uint64_t rest = 3 * m->hidden + 3 * m->intermediate;
    const struct linear_attention_config *l = &m->linear_attention;
    uint64_t v = l->v_heads * l->dim_v;
    switch (kind) {
    case LAYER_LINEAR_ATTENTION:
        return rest + 3 * (2 * l->heads * l->dim_k + v) + 3 * v + 3 * l->v_heads;
    case LAYER_GATED_ATTENTION: return rest + 6 * q + 3 * kv;
    default: return rest + 2 * q + 2 * kv + (m->qk_norm ? q + kv : 0);
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Buffers of a backward pass a token: its gradients, those of the MLP or of the mixer. */
static uint64_t scratch_of_layer(const struct model_config *m, bool delta)
{
    const struct linear_attention_config *l = &m->linear_attention;
    uint64_t v = l->v_heads * l->dim_v;
    uint64_t attention = 3 * (uint64_t)m->heads * m->head_dim + 2 * m->kv_heads * m->head_dim;
    uint64_t mixer = delta ? 3 * (2 * l->heads * l->dim_k + v) + 3 * v : attention;
    return 2 * m->hidden + larger(3 * (uint64_t)m->intermediate, mixer);
}

static uint64_t activation_reals(const struct plan_wish *w, const struct plan_counts *counts,
                                 uint64_t tokens)
{
    const struct model_config *m = w->config;
    uint64_t kept = 0;
    uint64_t most = 0;
    bool delta = false;
    for (size_t i = 0; i < m->layers; i++) {
        uint64_t layer = kept_by_layer(m, m->layer_kind[i]);
        kept += layer;
        most = larger(most, layer);
        delta = delta || m->layer_kind[i] == LAYER_LINEAR_ATTENTION;
    }
    if (w->model->recompute) {
        kept = most + m->hidden;
    }
    uint64_t each = kept + (w->model->recompute ? counts->low / (m->layers + 1) : counts->low) +
                    (m->layers + 2) * (uint64_t)m->hidden + m->rope.dim +
                    scratch_of_layer(m, delta) + 2 * (uint64_t)m->hidden;
    unsigned threads = w->threads != 0 ? w->threads : pool_cores();
    return each * tokens + (uint64_t)threads * 2 * (ATTENTION_BLOCK + m->head_dim) * w->longest;
}

static uint64_t logit_reals(const struct plan_wish *w)
{
    uint64_t rows = larger(LOGITS_AT_ONCE / w->config->vocab, LOGITS_ROWS_MIN);
    /* Twice: between forward and backward the tape does not get the same block again. */
    return 2 * (rows < w->tokens ? rows : w->tokens) * w->config->vocab;
}

/* ---- the machine ---- */

static bool read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t mem_available(void)
{
    char text[4096];
    uint64_t kib = 0;
    struct str line;
    if (!read_small("/proc/meminfo", text, sizeof text)) {
        return 0;
    }
    struct str rest = str_of(text);
    while (str_cut_line(&rest, &line)) {
        if (str_starts(line, "MemAvailable:") && str_ends(line, " kB") &&
            str_to_u64(str_slice(line, 13, line.n - 3), 10, &kib) != ST_OK) {
            kib = 0;
        }
    }
    return kib * 1024;
}

/* What the control group of this process leaves; UINT64_MAX without a limit. */
static uint64_t group_available(void)
{
    char limit[64];
    char used[64];
    uint64_t most;
    uint64_t now;
    if (!read_small("/sys/fs/cgroup/memory.max", limit, sizeof limit) ||
        !read_small("/sys/fs/cgroup/memory.current", used, sizeof used) ||
        str_to_u64(str_trim(str_of(limit)), 10, &most) != ST_OK ||
        str_to_u64(str_trim(str_of(used)), 10, &now) != ST_OK) {
        return UINT64_MAX;
    }
    return most > now ? most - now : 0;
}

void plan_make(const struct plan_wish *w, struct plan *ret_plan)
{
    struct plan p = {.program = metrics_memory(false), .available = mem_available()};
    uint64_t size = w->model->precision == PRECISION_F64 ? sizeof(double) : sizeof(float);
    bool master = w->model->precision == PRECISION_BF16 && !w->optim->pure;
    plan_count(w->config, &w->model->lora, &p.counts);
    p.trained = w->model->lora.rank != 0 ? p.counts.adapters : p.counts.weights;
    p.weights = (p.counts.weights + p.counts.adapters) * size;
    p.gradients = p.trained * size;
    p.gradients_before = w->brief ? 0 : p.trained * sizeof(float);
    p.optimizer = p.trained * (2 * size + (master ? sizeof(float) : 0));
    p.activations = activation_reals(w, &p.counts, w->tokens) * size + TAPES;
    p.logits = logit_reals(w) * size;
    uint64_t fixed = p.weights + p.gradients + p.gradients_before + p.optimizer + p.logits + TAPES;
    p.total = p.program + fixed + p.activations - TAPES;
    uint64_t group = group_available();
    p.available = group < p.available ? group : p.available;
    uint64_t each = p.activations - TAPES;
    p.fits = p.available > fixed && each != 0 ? (p.available - fixed) / each : 0;
    *ret_plan = p;
}
