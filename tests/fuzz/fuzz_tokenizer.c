// SPDX-License-Identifier: Apache-2.0
/* The three readers of tokenizers, told apart as the command does it; what is accepted encodes and
 * decodes a text with every kind of character. */
#include <stdint.h>

#include "model/tok_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static enum status read_any(struct tokenizer *t, struct arena *a, struct str text, struct err *err)
{
    if (text.n != 0 && text.p[0] == '{') {
        return tok_json_read(t, a, text, err);
    }
    return tok_tiktoken_looks(text) ? tok_tiktoken_read(t, a, text, "cl100k_base", err)
                                    : tok_spm_read(t, a, text, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena *a = arena_new((size_t)1 << 30);
    struct err err;
    struct tokenizer *t = arena_alloc(a, sizeof *t);
    struct str text = {.p = (const char *)bytes, .n = n};
    t->path = "input";
    t->unicode = unicode_table_new(a);
    t->unk = TOK_NO_ID;
    t->continuing = STR("");
    t->word_end = STR("");
    if (read_any(t, a, text, &err) == ST_OK && tok_finish(t, a, &err) == ST_OK) {
        int status = 0;
        struct tok_ids ids = {0};
        struct strbuf out;
        struct tok_encoder *e = tok_encoder_new(t);
        strbuf_init(&out, a, 1 << 20);
        status |= tok_encode(e, a,
                             STR(" Hello  world, it's 2023\xE5\xB9\xB4\n\xF0\x9F\x99\x82\xFF"),
                             TOK_SPECIALS, &ids, &err);
        status |= tok_encode(e, a, str_slice(text, 0, n < 512 ? n : 512), 0, &ids, &err);
        status |= tok_decode(t, a, ids.items, ids.count, false, &out, &err);
        (void)tok_pipeline(t, a);
        (void)status; /* refusing is an answer */
        tok_encoder_free(e);
    }
    tok_close(t);
    arena_free(a);
    return 0;
}
