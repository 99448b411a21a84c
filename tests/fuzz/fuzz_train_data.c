// SPDX-License-Identifier: Apache-2.0
/* Training data of any form, with a small tokenizer; what is accepted makes batches. */
#include <stdint.h>

#include "model/tok_parts.h"
#include "train/data.h"
#include "train/data_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static struct tokenizer *small_tokenizer(struct arena *a, struct err *err)
{
    static const char json[] =
        "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"a\": 1, "
        "\"Response\": 2, \"Instruction\": 3}}, \"pre_tokenizer\": {\"type\": \"Whitespace\"}}";
    struct tokenizer *t = arena_alloc(a, sizeof *t);
    t->path = "input";
    t->unicode = unicode_table_new(a);
    t->unk = TOK_NO_ID;
    t->continuing = STR("");
    t->word_end = STR("");
    if (tok_json_read(t, a, STR(json), err) != ST_OK || tok_finish(t, a, err) != ST_OK) {
        __builtin_trap();
    }
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena *a = arena_new((size_t)1 << 30);
    struct err err;
    struct dataset d = {0};
    struct data_options options = {.vocab = 64, .length = 16, .eos = 0};
    struct tokenizer *t = small_tokenizer(a, &err);
    options.tokenizer = t;
    struct str text = {.p = (const char *)bytes, .n = n};
    if (data_read_bytes(a, "input.jsonl", text, &options, &d, &err) == ST_OK) {
        struct batch_source s;
        struct train_batch b;
        struct batch_limits limits = {
            .sequences = 2, .tokens = n % 2 == 0 ? 32 : 0, .shuffle = true};
        batch_source_init(a, &d, &limits, &s);
        while (batch_next(&s, a, &b)) {
            if (b.tokens == 0 || b.labels[b.tokens - 1] != LABEL_IGNORED) {
                __builtin_trap();
            }
        }
    }
    tok_close(t);
    arena_free(a);
    return 0;
}
