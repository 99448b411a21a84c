// SPDX-License-Identifier: Apache-2.0
/*
 * tiktoken files: "<base64 of the bytes> <rank>" a line; the rank is the id. The expression and the
 * special tokens are not in the file: they come with the name of the encoding, which is the option's,
 * the file's, or told by the number of ranks. Source: tiktoken load.py, tiktoken_ext/openai_public.py;
 * Llama 3 and Qwen publish files of this form too.
 */
#include "model/tok_parts.h"

struct special {
    const char *content;
    uint32_t id;
};

struct encoding {
    const char *name;
    uint32_t ranks; /* lines of its file */
    struct special specials[16];
};

static const struct encoding encodings[] = {
    {"cl100k_base",
     100256,
     {{"<|endoftext|>", 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}}},
    {"o200k_base", 199998, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
    {"o200k_harmony",
     199998,
     {{"<|startoftext|>", 199998},
      {"<|endoftext|>", 199999},
      {"<|return|>", 200002},
      {"<|constrain|>", 200003},
      {"<|channel|>", 200005},
      {"<|start|>", 200006},
      {"<|end|>", 200007},
      {"<|message|>", 200008},
      {"<|call|>", 200012},
      {"<|endofprompt|>", 200018}}},
    {"r50k_base", 50256, {{"<|endoftext|>", 50256}}},
    {"gpt2", 50256, {{"<|endoftext|>", 50256}}},
    {"p50k_base", 50280, {{"<|endoftext|>", 50256}}},
    {"llama3",
     128000,
     {{"<|begin_of_text|>", 128000},
      {"<|end_of_text|>", 128001},
      {"<|start_header_id|>", 128006},
      {"<|end_header_id|>", 128007},
      {"<|eom_id|>", 128008},
      {"<|eot_id|>", 128009}}},
    {"qwen", 151643, {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
};

static bool cut_entry(struct str line, struct str *ret_bytes, struct str *ret_rank)
{
    struct str rest = line;
    return str_cut(&rest, ' ', ret_bytes) && ret_bytes->n != 0 && rest.n != 0 &&
           (*ret_rank = rest, true);
}

bool tok_tiktoken_looks(struct str text)
{
    struct str line;
    struct str bytes;
    struct str rank;
    uint64_t value;
    for (size_t i = 0; i < 64 && i < text.n; i++) {
        if ((unsigned char)text.p[i] >= 0x80) {
            return false;
        }
    }
    return str_cut_line(&text, &line) && line.n < 4096 && cut_entry(line, &bytes, &rank) &&
           str_to_u64(rank, 10, &value) == ST_OK;
}

static struct str base_name(const char *path)
{
    struct str s = str_of(path);
    size_t slash;
    while ((slash = str_find_char(s, '/', 0)) != SIZE_MAX) {
        s = str_slice(s, slash + 1, s.n);
    }
    return str_ends(s, ".tiktoken") ? str_slice(s, 0, s.n - 9) : s;
}

static const struct encoding *encoding_of(const struct tokenizer *t, const char *name)
{
    struct str wanted = name != NULL ? str_of(name) : base_name(t->path);
    for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
        if (str_is(wanted, encodings[i].name)) {
            return &encodings[i];
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(encodings) && name == NULL; i++) {
        if (encodings[i].ranks == t->vocab.count) {
            return &encodings[i];
        }
    }
    return NULL;
}

static bool is_special(const struct encoding *e, uint32_t id)
{
    for (size_t i = 0; i < ARRAY_LEN(e->specials) && e->specials[i].content != NULL; i++) {
        if (e->specials[i].id == id) {
            return true;
        }
    }
    return false;
}

/* Ranks follow one another; a hole is a special token, or lines that are missing. Where the file itself says
 * which encoding it is, their number is known. */
static enum status check_ranks(const struct tokenizer *t, const struct encoding *e, bool by_file,
                               struct err *err)
{
    for (uint32_t id = 0; id < t->vocab.id_end; id++) {
        if (t->vocab.pieces[id].p == NULL && !is_special(e, id)) {
            return err_set(err, ST_FORMAT,
                           "%s has no line with rank %u: lines are missing; fetch it again",
                           t->path, id);
        }
    }
    if (by_file && t->vocab.count < e->ranks) {
        return err_set(err, ST_FORMAT,
                       "%s holds %zu ranks, and %s has %u: it is cut off; fetch it again", t->path,
                       t->vocab.count, e->name, e->ranks);
    }
    return ST_OK;
}

static enum status use_encoding(struct tokenizer *t, struct arena *a, const char *name,
                                struct err *err)
{
    const struct encoding *e = encoding_of(t, name);
    if (e == NULL) {
        return err_set(err, name != NULL ? ST_USAGE : ST_UNSUPPORTED,
                       "%s: which expression cuts its text is not in the file, and '%.80s' with "
                       "%zu ranks is no encoding that assay knows; give --pattern (cl100k_base, "
                       "o200k_base, o200k_harmony, r50k_base, p50k_base, gpt2, llama3 or qwen)",
                       t->path, name != NULL ? name : str_dup(a, base_name(t->path)),
                       t->vocab.count);
    }
    TRY(check_ranks(t, e, name == NULL, err));
    struct tok_pre split = {.kind = TOK_PRE_SPLIT, .behavior = TOK_ISOLATED};
    TRY(tok_pattern_of(a, str_of(tok_pattern_named(e->name)), &split.pattern, err));
    *VEC_PUSH(a, &t->pres) = split;
    *VEC_PUSH(a, &t->pres) = (struct tok_pre){.kind = TOK_PRE_BYTE_LEVEL};
    size_t count = 0;
    while (count < ARRAY_LEN(e->specials) && e->specials[count].content != NULL) {
        count++;
    }
    t->added = arena_array(a, count, sizeof *t->added);
    for (size_t i = 0; i < count; i++) {
        t->added[i] = (struct tok_added){
            .content = str_of(e->specials[i].content), .id = e->specials[i].id, .special = true};
    }
    t->added_count = count;
    return ST_OK;
}

enum status tok_tiktoken_read(struct tokenizer *t, struct arena *a, struct str text,
                              const char *encoding, struct err *err)
{
    struct str line;
    size_t number = 0;
    t->format = TOK_TIKTOKEN;
    t->model = TOK_BPE;
    t->byte_level = true;
    t->ignore_merges = true;
    while (str_cut_line(&text, &line)) {
        struct str digits;
        struct str bytes;
        uint64_t rank = 0;
        number++;
        if (line.n == 0) {
            continue;
        }
        if (!cut_entry(line, &digits, &bytes) || str_to_u64(bytes, 10, &rank) != ST_OK ||
            rank >= TOK_MAX_IDS || digits.n > TOK_MAX_PIECE || !tok_base64(a, digits, &bytes) ||
            bytes.n == 0) {
            return err_set(err, ST_FORMAT,
                           "%s:%zu is not '<base64> <rank>', which a tiktoken file is made of",
                           t->path, number);
        }
        if (rank < t->vocab.id_end && t->vocab.pieces[rank].p != NULL) {
            return err_set(err, ST_FORMAT, "%s:%zu: rank %llu was given before", t->path, number,
                           (unsigned long long)rank);
        }
        tok_vocab_set(&t->vocab, a, (uint32_t)rank, bytes);
    }
    tok_vocab_index(&t->vocab, a, NULL);
    t->ranks = arena_array(a, t->vocab.id_end, sizeof *t->ranks);
    for (uint32_t i = 0; i < t->vocab.id_end; i++) {
        t->ranks[i] = i;
    }
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        if (tok_vocab_find(&t->vocab, &byte, 1) == TOK_NO_ID) {
            return err_set(err, ST_FORMAT,
                           "%s has no rank for the single byte 0x%02X: lines are missing", t->path,
                           b);
        }
    }
    return use_encoding(t, a, encoding, err);
}
