// SPDX-License-Identifier: Apache-2.0
/* GGUF files: what is listed as readable must be, keys must answer for themselves, and what stands for
 * config.json and tokenizer.json is text that their readers take or refuse. */
#include <stdlib.h>

#include "model/gguf_tokenizer.h"
#include "model/tensor_block.h"
#include "model/tok_parts.h"
#include "train/config.h"
#include "train/model_gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_values(const struct gguf *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct gguf_value *v = &g->values[i];
        for (uint64_t k = v->count > 3 ? v->count - 3 : 0; k <= v->count; k++) {
            int64_t integer;
            double number;
            bool truth;
            struct str text;
            bool any = gguf_integer_at(v, k, &integer);
            any |= gguf_real_at(v, k, &number);
            any |= gguf_bool_at(v, k, &truth);
            any |= gguf_text_at(v, k, &text);
            if (any != (k < v->count)) {
                abort();
            }
        }
        if (gguf_find(g, v->key) == NULL) {
            abort();
        }
    }
}

static void as_model(struct arena *a, const struct tensor_file *f)
{
    struct model_config config;
    struct tokenizer t = {.path = "fuzz.gguf", .unk = TOK_NO_ID, .unicode = unicode_table_new(a)};
    struct str text;
    struct err err;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = model_gguf_name(a, f->tensors[i].name);
        if (name != NULL && model_gguf_name(a, name) != NULL) {
            abort(); /* no name is one of both worlds */
        }
    }
    if (model_gguf_config(a, f, "fuzz.gguf", &text, &err) == ST_OK) {
        (void)!config_parse(a, text, "fuzz.gguf", &config, &err);
    }
    (void)gguf_tokenizer_config(a, gguf_of(f));
    if (gguf_tokenizer_json(a, gguf_of(f), "fuzz.gguf", &text, &err) == ST_OK) {
        if (tok_json_read(&t, a, text, &err) == ST_OK) {
            (void)!tok_finish(&t, a, &err);
        }
        tok_close(&t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)1 << 30);
    struct issues issues;
    struct tensor_file *f;
    struct err err;
    issues_init(&issues, a, "fuzz");
    struct str bytes = {.p = (const char *)data, .n = size};
    if (tensor_file_from_bytes(a, "fuzz.gguf", bytes, &issues, &f, &err) == ST_OK) {
        ask_values(gguf_of(f));
        as_model(a, f);
        for (size_t i = 0; i < f->count; i++) {
            const struct tensor *t = &f->tensors[i];
            double v[TENSOR_BLOCK_MAX + 1];
            uint64_t n = t->elements < TENSOR_BLOCK_MAX + 1 ? t->elements : TENSOR_BLOCK_MAX + 1;
            if (t->present && (t->offset > size || t->bytes > size - t->offset)) {
                abort();
            }
            if (tensor_readable(t) &&
                (tensor_values(f, t, 0, (size_t)n, v, &err) != ST_OK ||
                 tensor_values(f, t, t->elements - n, (size_t)n, v, &err) != ST_OK)) {
                abort();
            }
        }
        tensor_file_close(f);
    }
    arena_free(a);
    return 0;
}
