// SPDX-License-Identifier: Apache-2.0
/* What the keys of a GGUF file declare of its model, against its tensors. */
#include <inttypes.h>
#include <string.h>

#include "model/gguf.h"

/* "<architecture>.<key>" as an integer. */
static bool declared(const struct tensor_file *f, const char *key, int64_t *ret)
{
    struct str architecture;
    const struct gguf *g = gguf_of(f);
    return gguf_text(g, "general.architecture", &architecture) && architecture.n < 100 &&
           gguf_integer(g, arena_fmt(f->arena, "%.*s.%s", STR_ARG(architecture), key), ret);
}

static void check_embedding(const struct tensor_file *f, struct issues *issues)
{
    const struct tensor *t = tensor_find(f, "token_embd.weight");
    const struct gguf_value *tokens = gguf_find(gguf_of(f), "tokenizer.ggml.tokens");
    int64_t width;
    if (t == NULL || t->rank != 2) {
        return;
    }
    if (declared(f, "embedding_length", &width) && (uint64_t)width != t->shape[1]) {
        issue_add(issues, SEVERITY_ERROR, "gguf-shape-declared",
                  "a tensor is not of the shape that the keys declare",
                  "'token_embd.weight' is %s; embedding_length is %" PRId64 ".",
                  tensor_shape_text(f->arena, t->shape, t->rank), width);
    }
    if (tokens != NULL && tokens->kind == GGUF_ARRAY && tokens->count > t->shape[0]) {
        issue_add(issues, SEVERITY_ERROR, "gguf-vocabulary", "tokens have no row in the embedding",
                  "tokenizer.ggml.tokens lists %" PRIu64 " tokens, 'token_embd.weight' has %" PRIu64
                  " rows.",
                  tokens->count, t->shape[0]);
    }
}

/* A part of a split model has a part of the blocks. */
static void check_blocks(const struct tensor_file *f, struct issues *issues)
{
    int64_t count;
    int64_t parts = 1;
    bool split = gguf_integer(gguf_of(f), "split.count", &parts) && parts > 1;
    if (split || !declared(f, "block_count", &count) || count <= 0 || count > 65536) {
        return;
    }
    bool *seen = arena_array(f->arena, (size_t)count, sizeof *seen);
    bool any = false;
    for (size_t i = 0; i < f->count; i++) {
        struct str name = str_of(f->tensors[i].name);
        uint64_t block;
        size_t dot = str_find_char(name, '.', 4);
        if (!str_starts(name, "blk.") || dot == SIZE_MAX ||
            str_to_u64(str_slice(name, 4, dot), 10, &block) != ST_OK) {
            continue;
        }
        any = true;
        if (block < (uint64_t)count) {
            seen[block] = true;
        } else {
            issue_add(issues, SEVERITY_WARNING, "gguf-block-extra",
                      "a block beyond those that the keys declare",
                      "'%s' is of block %" PRIu64 "; block_count is %" PRId64 ".",
                      issue_text(f->arena, name), block, count);
        }
    }
    for (int64_t b = 0; any && b < count; b++) {
        if (!seen[b]) {
            issue_add(issues, SEVERITY_ERROR, "gguf-block-missing", "a block has no tensors",
                      "block_count is %" PRId64 ", of block %" PRId64 " nothing is there.", count,
                      b);
        }
    }
}

void gguf_check(const struct tensor_file *f, struct issues *issues)
{
    check_embedding(f, issues);
    check_blocks(f, issues);
}
