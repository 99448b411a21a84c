// SPDX-License-Identifier: Apache-2.0
/* GGUF files: what is listed as readable must be, and keys must answer for themselves. */
#include <stdlib.h>

#include "model/gguf.h"
#include "model/tensor_block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_values(const struct gguf *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct gguf_value *v = &g->values[i];
        for (uint64_t k = v->count > 3 ? v->count - 3 : 0; k <= v->count; k++) {
            int64_t integer;
            double real;
            bool truth;
            struct str text;
            bool any = gguf_integer_at(v, k, &integer);
            any |= gguf_real_at(v, k, &real);
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
