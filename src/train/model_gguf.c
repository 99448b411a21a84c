// SPDX-License-Identifier: Apache-2.0
/* Keys to config.json, names to names, and the rows of queries and keys put back in order. */
#include "train/model_gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_out.h"

#include "model/gguf_tokenizer.h"
#include "model/safetensors_write.h"
#include "train/model_inside.h"

enum {
    TEXT_MAX = 1 << 20
};

struct family {
    const char *architecture; /* general.architecture, and the prefix of its keys */
    const char *model_type;
    const char *class;
};

static const struct family families[] = {
    {"llama", "llama", "LlamaForCausalLM"},
    {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "Qwen3ForCausalLM"},
};

/* ---- keys ---- */

struct keys {
    struct arena *a;
    const struct tensor_file *f;
    const struct gguf *g;
    const char *path;
    const struct family *family;
    struct err *err;
};

static const char *key_of(const struct keys *k, const char *name)
{
    return arena_fmt(k->a, "%s.%s", k->family->architecture, name);
}

/* A whole number from 1 to CONFIG_WIDTH_MAX; `fallback`, unless 0, when the key is missing. */
static enum status read_size(const struct keys *k, const char *name, size_t fallback, size_t *ret)
{
    const char *key = key_of(k, name);
    int64_t n = 0;
    if (gguf_find(k->g, key) == NULL && fallback != 0) {
        *ret = fallback;
        return ST_OK;
    }
    if (!gguf_integer(k->g, key, &n) || n < 1 || n > CONFIG_WIDTH_MAX) {
        return err_set(k->err, gguf_find(k->g, key) == NULL ? ST_FORMAT : ST_UNSUPPORTED,
                       "%s: the key '%s' is %s; one whole number from 1 to %d is computed with",
                       k->path, key, gguf_find(k->g, key) == NULL ? "missing" : "something else",
                       CONFIG_WIDTH_MAX);
    }
    *ret = (size_t)n;
    return ST_OK;
}

/* A float32 as the decimal that it was written for: 1e-05, not 9.99999975e-06. */
static double as_written(double stored)
{
    for (int digits = 1; digits <= 9; digits++) {
        char text[40];
        double value;
        str_print(text, sizeof text, "%.*g", digits, stored);
        if (str_to_double(str_of(text), &value) == ST_OK && (float)value == (float)stored) {
            return value;
        }
    }
    return stored;
}

/* A number above 0; `fallback`, unless 0, when the key is missing. */
static enum status read_positive(const struct keys *k, const char *name, double fallback,
                                 double *ret)
{
    const char *key = key_of(k, name);
    const struct gguf_value *v = gguf_find(k->g, key);
    double value = fallback;
    if ((v != NULL || fallback == 0) && (!gguf_real(k->g, key, &value) || !(value > 0))) {
        return err_set(k->err, ST_FORMAT, "%s: the key '%s' is %s; a number above 0 was expected",
                       k->path, key, v == NULL ? "missing" : "something else");
    }
    *ret = v != NULL && v->kind == GGUF_F32 ? as_written(value) : value;
    return ST_OK;
}

static enum status find_family(struct keys *k)
{
    struct str name = STR("");
    (void)gguf_text(k->g, "general.architecture", &name);
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (str_is(name, families[i].architecture)) {
            k->family = &families[i];
            return ST_OK;
        }
    }
    return err_set(
        k->err, ST_UNSUPPORTED,
        "%s: the architecture '%s' is not read from GGUF files; llama, qwen2 and qwen3 are",
        k->path, issue_text(k->a, name));
}

/* What would change the result and is not computed. */
static enum status refuse(const struct keys *k)
{
    static const char *const zero[] = {
        "expert_count",    "attention.sliding_window", "attention.clamp_kqv",
        "logit_scale",     "residual_scale",           "embedding_scale",
        "attention.scale", "attn_logit_softcapping",   "rope.scaling.attn_factor"};
    for (size_t i = 0; i < ARRAY_LEN(zero); i++) {
        const char *key = key_of(k, zero[i]);
        double value = 0;
        if (gguf_find(k->g, key) != NULL && (!gguf_real(k->g, key, &value) || value != 0)) {
            return err_set(k->err, ST_UNSUPPORTED,
                           "%s: '%s' is set, which changes the result and is not computed here",
                           k->path, key);
        }
    }
    if (tensor_find(k->f, "rope_freqs.weight") != NULL) {
        return err_set(
            k->err, ST_UNSUPPORTED,
            "%s: it has factors for the frequencies of RoPE (rope_freqs.weight, of Llama 3.1 "
            "and later) whose formula is not in the file: use the model's Hugging Face "
            "folder",
            k->path);
    }
    return ST_OK;
}

/* ---- config.json ---- */

struct sizes {
    size_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, length;
};

/* A matrix of the file, [rows, columns]; 0 for any number of rows. */
static enum status expect_matrix(const struct keys *k, const char *name, size_t rows,
                                 size_t columns, size_t *ret_rows)
{
    const struct tensor *t = tensor_find(k->f, name);
    if (t == NULL || t->rank != 2 || t->shape[1] != columns || t->shape[0] < 1 ||
        t->shape[0] > CONFIG_WIDTH_MAX || (rows != 0 && t->shape[0] != rows) || !t->present) {
        return err_set(k->err, ST_FORMAT,
                       "%s: the matrix '%s' is %s, and the metadata ask for %zu columns%s", k->path,
                       name, t == NULL ? "missing" : tensor_shape_text(k->a, t->shape, t->rank),
                       columns, rows != 0 ? arena_fmt(k->a, " and %zu rows", rows) : "");
    }
    if (ret_rows != NULL) {
        *ret_rows = (size_t)t->shape[0];
    }
    return ST_OK;
}

/* Sizes of the metadata, held against matrices that are there: a header that lies about them is
 * found before memory is asked for. */
static enum status read_sizes(const struct keys *k, struct sizes *s)
{
    size_t value_dim;
    size_t rotated;
    TRY(read_size(k, "embedding_length", 0, &s->hidden));
    TRY(read_size(k, "feed_forward_length", 0, &s->intermediate));
    TRY(read_size(k, "block_count", 0, &s->layers));
    TRY(read_size(k, "attention.head_count", 0, &s->heads));
    TRY(read_size(k, "attention.head_count_kv", s->heads, &s->kv_heads));
    TRY(read_size(k, "context_length", 2048, &s->length));
    if (s->hidden % s->heads != 0 && gguf_find(k->g, key_of(k, "attention.key_length")) == NULL) {
        return err_set(k->err, ST_FORMAT, "%s: %zu channels do not divide among %zu heads", k->path,
                       s->hidden, s->heads);
    }
    size_t usual = s->hidden / s->heads;
    TRY(read_size(k, "attention.key_length", usual, &s->head_dim));
    TRY(read_size(k, "attention.value_length", s->head_dim, &value_dim));
    TRY(read_size(k, "rope.dimension_count", s->head_dim, &rotated));
    if (value_dim != s->head_dim || rotated != s->head_dim) {
        return err_set(k->err, ST_UNSUPPORTED,
                       "%s: heads of %zu channels with values of %zu, of which RoPE turns %zu; one "
                       "number for all three is computed here",
                       k->path, s->head_dim, value_dim, rotated);
    }
    TRY(expect_matrix(k, "token_embd.weight", 0, s->hidden, &s->vocab));
    TRY(expect_matrix(k, "blk.0.ffn_gate.weight", s->intermediate, s->hidden, NULL));
    TRY(expect_matrix(k, "blk.0.attn_q.weight", s->heads * s->head_dim, s->hidden, NULL));
    if (s->layers > k->f->count) {
        return err_set(k->err, ST_FORMAT, "%s: %zu layers, and only %zu tensors", k->path,
                       s->layers, k->f->count);
    }
    return ST_OK;
}

static void put_sizes(const struct keys *k, const struct sizes *s, struct json_out *j)
{
    const struct {
        const char *key;
        size_t value;
    } rows[] = {
        {"vocab_size", s->vocab},
        {"hidden_size", s->hidden},
        {"intermediate_size", s->intermediate},
        {"num_hidden_layers", s->layers},
        {"num_attention_heads", s->heads},
        {"num_key_value_heads", s->kv_heads},
        {"head_dim", s->head_dim},
        {"max_position_embeddings", s->length},
    };

    json_key(j, "architectures");
    json_list(j);
    json_string(j, k->family->class);
    json_list_end(j);
    json_field(j, "model_type", k->family->model_type);
    json_field(j, "hidden_act", "silu");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_key(j, rows[i].key);
        json_int(j, (int64_t)rows[i].value);
    }
}

static enum status put_rope(const struct keys *k, const struct sizes *s, struct json_out *j)
{
    double theta;
    double factor;
    struct str type = STR("none");
    TRY(read_positive(k, "rope.freq_base", 10000, &theta));
    json_key(j, "rope_theta");
    json_real(j, theta);
    const char *key = key_of(k, "rope.scaling.type");
    (void)gguf_text(k->g, key, &type);
    if (str_is(type, "none")) {
        return ST_OK;
    }
    if (!str_is(type, "linear") && !str_is(type, "yarn")) {
        return err_set(k->err, ST_UNSUPPORTED,
                       "%s: '%s' is '%s'; none, linear and yarn are computed here", k->path, key,
                       issue_text(k->a, type));
    }
    TRY(read_positive(k, "rope.scaling.factor", 0, &factor));
    json_key(j, "rope_scaling");
    json_object(j);
    json_field(j, "rope_type", str_dup(k->a, type));
    json_key(j, "factor");
    json_real(j, factor);
    if (str_is(type, "yarn")) {
        size_t original;
        TRY(read_size(k, "rope.scaling.original_context_length", s->length, &original));
        json_key(j, "original_max_position_embeddings");
        json_int(j, (int64_t)original);
    }
    json_object_end(j);
    return ST_OK;
}

static void put_rest(const struct keys *k, struct json_out *j)
{
    static const char *const ids[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                         {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                         {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        int64_t id;
        if (gguf_integer(k->g, ids[i][0], &id) && id >= 0 && id <= INT32_MAX) {
            json_key(j, ids[i][1]);
            json_int(j, id);
        }
    }
    json_key(j, "tie_word_embeddings");
    json_bool(j, tensor_find(k->f, "output.weight") == NULL);
    json_key(j, "attention_bias");
    json_bool(j, tensor_find(k->f, "blk.0.attn_q.bias") != NULL);
    json_field(j, "dtype", "float32");
}

enum status model_gguf_config(struct arena *a, const struct tensor_file *f, const char *path,
                              struct str *ret_text, struct err *err)
{
    struct keys k = {.a = a, .f = f, .g = gguf_of(f), .path = path, .err = err};
    struct sizes sizes;
    struct strbuf out;
    struct json_out j;
    double eps;
    TRY(find_family(&k));
    TRY(refuse(&k));
    TRY(read_sizes(&k, &sizes));
    TRY(read_positive(&k, "attention.layer_norm_rms_epsilon", 0, &eps));
    strbuf_init(&out, a, TEXT_MAX);
    json_init(&j, &out);
    json_object(&j);
    put_sizes(&k, &sizes, &j);
    json_key(&j, "rms_norm_eps");
    json_real(&j, eps);
    TRY(put_rope(&k, &sizes, &j));
    put_rest(&k, &j);
    json_object_end(&j);
    strbuf_addc(&out, '\n');
    *ret_text = strbuf_str(&out);
    return ST_OK;
}

enum status model_gguf_read_config(struct arena *a, const char *path, struct str *ret_text,
                                   struct err *err)
{
    struct tensor_file *f;
    const struct gguf *g;
    TRY(gguf_open(a, path, &f, &g, err));
    enum status status = model_gguf_config(a, f, path, ret_text, err);
    tensor_file_close(f);
    return status;
}

/* ---- tensors ---- */

static const char *const outer[][2] = {
    {"token_embd.", "model.embed_tokens."},
    {"output_norm.", "model.norm."},
    {"output.", "lm_head."},
};

static const char *const inner[][2] = {
    {"attn_norm.", "input_layernorm."},    {"attn_q.", "self_attn.q_proj."},
    {"attn_k.", "self_attn.k_proj."},      {"attn_v.", "self_attn.v_proj."},
    {"attn_output.", "self_attn.o_proj."}, {"attn_q_norm.", "self_attn.q_norm."},
    {"attn_k_norm.", "self_attn.k_norm."}, {"ffn_norm.", "post_attention_layernorm."},
    {"ffn_gate.", "mlp.gate_proj."},       {"ffn_up.", "mlp.up_proj."},
    {"ffn_down.", "mlp.down_proj."},
};

/* The name with its first part replaced by the table; NULL when that is not in it. */
static const char *renamed(struct arena *a, const char *before, struct str name,
                           const char *const (*table)[2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(table[i][0]);
        struct str rest = str_slice(name, length, name.n);
        if (str_starts(name, table[i][0]) && (str_is(rest, "weight") || str_is(rest, "bias"))) {
            return arena_fmt(a, "%s%s%s", before, table[i][1], name.p + length);
        }
    }
    return NULL;
}

const char *model_gguf_name(struct arena *a, const char *name)
{
    struct str rest = str_of(name);
    struct str part;
    uint64_t layer;
    if (!str_starts(rest, "blk.")) {
        return renamed(a, "", rest, outer, ARRAY_LEN(outer));
    }
    rest = str_slice(rest, strlen("blk."), rest.n);
    size_t dot = str_find_char(rest, '.', 0);
    if (dot == SIZE_MAX) {
        return NULL;
    }
    part = str_slice(rest, 0, dot);
    rest = str_slice(rest, dot + 1, rest.n);
    if (str_to_u64(part, 10, &layer) != ST_OK || layer >= CONFIG_LAYERS_MAX) {
        return NULL;
    }
    return renamed(a, arena_fmt(a, "model.layers.%" PRIu64 ".", layer), rest, inner,
                   ARRAY_LEN(inner));
}

/* Names without a counterpart stay as they are, so that they are named as no parameter. */
static const char *hf_name(void *ctx, const char *name)
{
    const char *known = model_gguf_name(ctx, name);
    return known != NULL ? known : name;
}

/*
 * llama.cpp turns neighbouring channels of a head by RoPE where transformers turns channel i with
 * i + half, so the converter interleaves the halves of queries and keys of the architecture llama: row 2 i + h
 * of a head was row h * half + i. Here they go back.
 */
static void put_rows_back(struct param_list *list, struct arena *scratch, struct param *p,
                          size_t heads)
{
    size_t rows = p->dim[0];
    size_t bytes = p->count / rows * precision_bytes(list->precision);
    size_t half = rows / heads / 2;
    struct arena_mark mark = arena_mark(scratch);
    char *copy = arena_copy(scratch, p->value, rows * bytes);
    char *to = p->value;
    for (size_t head = 0; head < heads; head++) {
        for (size_t i = 0; i < 2 * half; i++) {
            size_t from = i < half ? 2 * i : 2 * (i - half) + 1;
            memcpy(to + (head * 2 * half + i) * bytes, copy + (head * 2 * half + from) * bytes,
                   bytes);
        }
    }
    arena_rewind(scratch, mark);
}

static void put_all_rows_back(struct param_list *list, const struct model_config *c)
{
    static const char *const ends[] = {"weight", "bias"};
    struct arena *scratch = arena_new(0);
    for (size_t i = 0; i < c->layers * ARRAY_LEN(ends); i++) {
        const char *end = ends[i % ARRAY_LEN(ends)];
        size_t layer = i / ARRAY_LEN(ends);
        struct param *q = param_find(
            list, arena_fmt(scratch, "model.layers.%zu.self_attn.q_proj.%s", layer, end));
        struct param *k = param_find(
            list, arena_fmt(scratch, "model.layers.%zu.self_attn.k_proj.%s", layer, end));
        if (q != NULL && k != NULL) {
            put_rows_back(list, scratch, q, c->heads);
            put_rows_back(list, scratch, k, c->kv_heads);
        }
    }
    arena_free(scratch);
}

enum status model_gguf_load(struct param_list *list, const struct model_config *config,
                            const char *path, struct map *seen, struct err *err)
{
    struct arena *names = arena_new(0);
    enum status status = params_read_file(list, path, hf_name, names, seen, err);
    arena_free(names);
    TRY(status);
    if (config->family == FAMILY_LLAMA) {
        put_all_rows_back(list, config);
    }
    return ST_OK;
}

/* ---- files of a saved model ---- */

static enum status write_text(struct arena *scratch, const char *folder, const char *name,
                              struct str text, struct err *err)
{
    return safe_file_write(scratch, arena_fmt(scratch, "%s/%s", folder, name), text, err);
}

enum status model_gguf_write_files(struct arena *scratch, const char *path, const char *folder,
                                   bool with_config, struct err *err)
{
    struct tensor_file *f;
    const struct gguf *g;
    struct str text = STR("");
    TRY(gguf_open(scratch, path, &f, &g, err));
    enum status status = model_gguf_config(scratch, f, path, &text, err);
    tensor_file_close(f);
    TRY(status);
    if (with_config) {
        TRY(write_text(scratch, folder, "config.json", text, err));
    }
    if (!gguf_has_tokenizer(g)) {
        return ST_OK;
    }
    TRY(gguf_tokenizer_json(scratch, g, path, &text, err));
    TRY(write_text(scratch, folder, "tokenizer.json", text, err));
    return write_text(scratch, folder, "tokenizer_config.json", gguf_tokenizer_config(scratch, g),
                      err);
}
