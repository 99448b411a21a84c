// SPDX-License-Identifier: Apache-2.0
/* Opening a model, what a batch must be like, and the way to the arithmetic of its precision. */
#include "train/model.h"

#include <string.h>
#include <unistd.h>

#include "train/model_inside.h"
#include "train/mrope.h"
#include "train/picture.h"

enum {
    PARAMS_PER_LAYER = 40, /* at most, of any kind of layer */
    PARAMS_BESIDE = 1024   /* embedding, head */
};

static void declare_layer(struct maker *mk, struct decoder_layer *l, size_t i)
{
    const struct model_config *c = mk->config;
    struct arena *a = mk->arena;
    l->module = arena_fmt(a, "%slayers.%zu", c->prefix, i);
    l->kind = c->layer_kind[i];
    mk->layer = (int)i;
    l->mixer = maker_layers[l->kind].declare(mk, l->module);
    l->mlp.module = arena_fmt(a, "%s.mlp", l->module);
    maker_linear(mk, &l->mlp.gate, arena_fmt(a, "%s.gate_proj", l->mlp.module), c->intermediate,
                 c->hidden, c->mlp_bias);
    maker_linear(mk, &l->mlp.up, arena_fmt(a, "%s.up_proj", l->mlp.module), c->intermediate,
                 c->hidden, c->mlp_bias);
    maker_linear(mk, &l->mlp.down, arena_fmt(a, "%s.down_proj", l->mlp.module), c->hidden,
                 c->intermediate, c->mlp_bias);
    maker_norm(mk, &l->input_norm, arena_fmt(a, "%s.input_layernorm", l->module), c->norm,
               c->hidden);
    maker_norm(mk, &l->post_norm, arena_fmt(a, "%s.post_attention_layernorm", l->module), c->norm,
               c->hidden);
    mk->layer = -1;
}

void model_declare(struct train_model *m)
{
    const struct model_config *c = &m->config;
    struct arena *a = m->memory;
    struct maker mk;
    size_t tower = c->vision != NULL ? vision_param_count(c->vision) : 0;
    maker_init(&mk, a, c, &m->options, &m->params,
               c->layers * PARAMS_PER_LAYER + PARAMS_BESIDE + tower);
    if (c->vision != NULL) {
        mk.adapters = true;
        m->vision = vision_declare(&mk, c->vision, "model.visual");
        mk.adapters = false;
    }
    m->embed_module = arena_fmt(a, "%sembed_tokens", c->prefix);
    m->embed = maker_param(&mk, arena_fmt(a, "%s.weight", m->embed_module), INIT_NORMAL, 2,
                           (const size_t[]){c->vocab, c->hidden});
    m->layers = arena_array(a, c->layers, sizeof *m->layers);
    mk.adapters = true;
    for (size_t i = 0; i < c->layers; i++) {
        declare_layer(&mk, &m->layers[i], i);
    }
    mk.adapters = false;
    maker_norm(&mk, &m->final_norm, arena_fmt(a, "%snorm", c->prefix), c->norm, c->hidden);
    if (c->tied) {
        m->head = (struct linear){
            .module = "lm_head", .in = c->hidden, .out = c->vocab, .weight = m->embed};
    } else {
        maker_linear(&mk, &m->head, "lm_head", c->vocab, c->hidden, false);
    }
    param_list_index(a, &m->params);
}

/* A target that names nothing would train nothing and say so to nobody. */
static enum status check_targets(const struct train_model *m, struct err *err)
{
    const struct lora_options *lora = &m->options.lora;
    if (lora->rank == 0) {
        return ST_OK;
    }
    for (size_t i = 0; i < m->params.count; i++) {
        if (m->params.items[i].trainable) {
            return ST_OK;
        }
    }
    return err_set(
        err, ST_USAGE,
        "no linear layer of the model is a LoRA target by '%s'; give the last names of modules, "
        "such as q_proj,v_proj, or all-linear",
        lora->targets != NULL ? lora->targets : "");
}

/* Half the address space when the system does not say how much memory there is. */
static size_t memory_ceiling(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes : SIZE_MAX / 2;
}

enum status model_open(struct arena *a, const char *folder, const struct model_options *options,
                       struct train_model **ret_model, struct err *err)
{
    struct model_config config;
    if (options->precision >= PRECISION_COUNT) {
        return err_set(err, ST_USAGE, "the precision is none of float64, float32 and bfloat16");
    }
    struct lora_options lora = options->lora;
    TRY(config_read(a, folder, &config, err));
    if (lora.adapter != NULL) {
        TRY(lora_read_config(a, lora.adapter, &lora, err));
    }
    struct train_model *m = arena_alloc(a, sizeof *m);
    m->config = config;
    m->options = *options;
    m->options.lora = lora;
    m->memory = arena_new(memory_ceiling());
    tape_init(&m->kept, m->memory);
    tape_init(&m->scratch, m->memory);
    enum status s = compute_open(a, options, &m->compute, err);
    if (s == ST_OK) {
        model_declare(m);
        s = check_targets(m, err);
    }
    if (s == ST_OK && !options->random) {
        s = model_load(m, folder, err);
    }
    if (s == ST_OK && lora.adapter != NULL) {
        s = lora_load(m, lora.adapter, err);
    }
    if (s != ST_OK) {
        model_close(m);
        return s;
    }
    *ret_model = m;
    return ST_OK;
}

void model_close(struct train_model *m)
{
    if (m != NULL) {
        arena_free(m->memory);
        m->memory = NULL;
    }
}

struct param_list *model_params(struct train_model *m)
{
    return &m->params;
}

size_t model_vocab(const struct train_model *m)
{
    return m->config.vocab;
}

size_t model_layers(const struct train_model *m)
{
    return m->config.layers;
}

struct model_arithmetic model_arithmetic(const struct train_model *m)
{
    return (struct model_arithmetic){.products = m->compute.blas_summary,
                                     .threads = m->compute.threads,
                                     .library = m->compute.blas != NULL};
}

uint64_t model_activation_bytes(const struct train_model *m)
{
    return tape_bytes(&m->kept) + tape_bytes(&m->scratch);
}

/* Grids, and as many image tokens as there are features. */
static enum status check_pictures(struct train_model *m, const struct train_batch *b,
                                  struct err *err)
{
    const struct vision_config *c = m->config.vision;
    size_t tokens = 0;
    if (c == NULL) {
        return b->pictures == 0
                   ? ST_OK
                   : err_set(err, ST_USAGE,
                             "the batch has pictures, and a %s model has no vision tower",
                             m->config.model_type);
    }
    for (size_t t = 0; t < b->tokens; t++) {
        tokens += vision_is_picture(c, b->ids[t]);
    }
    TRY(picture_check(b->grid, b->pictures, c->merge, b->patches, &m->frames, err));
    if (tokens != b->patches / (c->merge * c->merge)) {
        return err_set(
            err, ST_FORMAT,
            "the batch has %zu tokens for pictures (ids %d and %d), and its %zu pictures make "
            "%zu features: was the text cut off, or does a picture lack?",
            tokens, (int)c->image_token, (int)c->video_token, b->pictures,
            b->patches / (c->merge * c->merge));
    }
    return ST_OK;
}

/* The batch as the run sees it: with positions where pictures ask for other than the places. */
static enum status place(struct train_model *m, const struct train_batch *batch, struct err *err)
{
    m->batch = *batch;
    if (batch->pictures == 0 || batch->positions != NULL) {
        return ST_OK;
    }
    const struct vision_config *c = m->config.vision;
    const struct mrope_tokens tokens = {c->image_token, c->video_token, c->merge};
    int32_t *positions = tape_take(&m->kept, 3 * batch->tokens, sizeof *positions);
    TRY(mrope_positions(batch, &tokens, positions, err));
    m->batch.positions = positions;
    return ST_OK;
}

static enum status check_batch(struct train_model *m, const struct train_batch *b, struct err *err)
{
    if (b->tokens == 0 || b->sequences == 0 || b->start[0] != 0 ||
        b->start[b->sequences] != b->tokens || b->tokens > INT32_MAX) {
        return err_set(err, ST_USAGE,
                       "a batch of %zu tokens in %zu sequences, whose borders do not fit",
                       b->tokens, b->sequences);
    }
    for (size_t i = 0; i < b->sequences; i++) {
        if (b->start[i] >= b->start[i + 1]) {
            return err_set(err, ST_USAGE, "sequence %zu of the batch is empty", i);
        }
    }
    for (size_t t = 0; t < b->tokens; t++) {
        if (b->ids[t] < 0 || (size_t)b->ids[t] >= m->config.vocab) {
            return err_set(
                err, ST_FORMAT,
                "token %zu of the batch has id %d, and the model's vocabulary has %zu: is the "
                "tokenizer another model's?",
                t, (int)b->ids[t], m->config.vocab);
        }
        if (b->labels[t] != LABEL_IGNORED &&
            (b->labels[t] < 0 || (size_t)b->labels[t] >= m->config.vocab)) {
            return err_set(err, ST_FORMAT,
                           "label %d of token %zu is neither in the vocabulary of %zu nor %d",
                           (int)b->labels[t], t, m->config.vocab, LABEL_IGNORED);
        }
    }
    return check_pictures(m, b, err);
}

enum status model_forward(struct train_model *m, const struct train_batch *batch,
                          double *ret_loss_sum, size_t *ret_labels, struct err *err)
{
    TRY(check_batch(m, batch, err));
    const struct tape_mark empty = {0};
    tape_rewind(&m->kept, empty);
    tape_rewind(&m->scratch, empty);
    m->run.config = &m->config;
    TRY(place(m, batch, err));
    m->run.batch = &m->batch;
    m->run.precision = m->options.precision;
    m->run.float_loss = m->options.float_loss;
    m->run.compute = &m->compute;
    m->run.kept = &m->kept;
    m->run.scratch = &m->scratch;
    if (m->options.precision == PRECISION_F64) {
        run_forward_f64(m, ret_loss_sum, ret_labels);
    } else {
        run_forward_f32(m, ret_loss_sum, ret_labels);
    }
    return ST_OK;
}

void model_backward(struct train_model *m, double scale)
{
    if (m->options.precision == PRECISION_F64) {
        run_backward_f64(m, scale);
    } else {
        run_backward_f32(m, scale);
    }
}

void model_zero_grad(struct train_model *m)
{
    for (size_t i = 0; i < m->params.count; i++) {
        struct param *p = &m->params.items[i];
        if (p->grad != NULL) {
            memset(p->grad, 0, p->count * precision_bytes(m->params.precision));
        }
    }
}

void model_logits(struct train_model *m, size_t first, size_t count, double *ret_rows)
{
    if (m->options.precision == PRECISION_F64) {
        run_logits_f64(m, first, count, ret_rows);
    } else {
        run_logits_f32(m, first, count, ret_rows);
    }
}

void model_watch(struct train_model *m, model_watch_fn *fn, void *ctx)
{
    m->run.watch = fn;
    m->run.watch_ctx = ctx;
}
