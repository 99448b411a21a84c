// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of a tokenizer, shared by the files tok_*.c and nobody else. The names of kinds follow
 * tokenizer.json; SentencePiece and tiktoken files are put into the same parts where they fit.
 */
#ifndef ASSAY_MODEL_TOK_PARTS_H
#define ASSAY_MODEL_TOK_PARTS_H

#include "base/tree.h"
#include "base/unicode.h"
#include "base/vec.h"

#include "model/tok_charsmap.h"
#include "model/tok_pattern.h"
#include "model/tok_trie.h"
#include "model/tok_vocab.h"

#define TOK_SPACE_MARK "\xE2\x96\x81" /* U+2581, which stands for a space */

enum tok_norm_kind {
    TOK_NORM_FORM = 0, /* NFC, NFD, NFKC, NFKD */
    TOK_NORM_LOWERCASE,
    TOK_NORM_STRIP,
    TOK_NORM_STRIP_ACCENTS,
    TOK_NORM_REPLACE,
    TOK_NORM_PREPEND,
    TOK_NORM_CHARSMAP,
    TOK_NORM_BERT,
    TOK_NORM_NMT,
    TOK_NORM_KIND_COUNT
};

struct tok_norm {
    enum tok_norm_kind kind;
    enum unicode_form form;
    bool left, right;                                         /* Strip */
    struct tok_pattern pattern;                               /* Replace */
    struct str text;                                          /* Replace: content; Prepend */
    struct tok_charsmap charsmap;                             /* Precompiled */
    bool clean_text, chinese_chars, strip_accents, lowercase; /* Bert */
};

enum tok_behavior {
    TOK_ISOLATED = 0,
    TOK_REMOVED,
    TOK_MERGED_WITH_PREVIOUS,
    TOK_MERGED_WITH_NEXT,
    TOK_CONTIGUOUS,
    TOK_BEHAVIOR_COUNT
};

enum tok_pre_kind {
    TOK_PRE_SPLIT = 0,  /* also the expression of ByteLevel and CharDelimiterSplit */
    TOK_PRE_BYTE_LEVEL, /* add_prefix_space, use_regex */
    TOK_PRE_METASPACE,
    TOK_PRE_WHITESPACE,
    TOK_PRE_WHITESPACE_SPLIT,
    TOK_PRE_DIGITS,
    TOK_PRE_PUNCTUATION,
    TOK_PRE_BERT,
    TOK_PRE_KIND_COUNT
};

enum tok_prepend {
    TOK_PREPEND_ALWAYS = 0,
    TOK_PREPEND_FIRST,
    TOK_PREPEND_NEVER
};

struct tok_pre {
    enum tok_pre_kind kind;
    struct tok_pattern pattern; /* Split */
    enum tok_behavior behavior; /* Split, Punctuation */
    bool invert;                /* Split */
    bool prefix_space;          /* ByteLevel */
    bool individual;            /* Digits */
    bool split;                 /* Metaspace */
    enum tok_prepend prepend;   /* Metaspace */
    struct str replacement;     /* Metaspace */
};

enum tok_decoder_kind {
    TOK_DEC_BYTE_LEVEL = 0,
    TOK_DEC_REPLACE,
    TOK_DEC_BYTE_FALLBACK,
    TOK_DEC_FUSE,
    TOK_DEC_STRIP,
    TOK_DEC_METASPACE,
    TOK_DEC_WORDPIECE,
    TOK_DEC_BPE,
    TOK_DEC_OTHER, /* CTC: named when decoding is asked for */
    TOK_DEC_KIND_COUNT
};

struct tok_dec {
    enum tok_decoder_kind kind;
    struct str pattern; /* Replace; WordPiece prefix; BPE suffix; Strip: the character */
    struct str content; /* Replace */
    size_t start, stop; /* Strip */
    bool prefix_space;  /* Metaspace: takes the first space away */
    bool cleanup;       /* WordPiece */
};

/* SentencePiece piece types, ModelProto.SentencePiece.Type. */
enum tok_type {
    TOK_TYPE_NORMAL = 1,
    TOK_TYPE_UNKNOWN = 2,
    TOK_TYPE_CONTROL = 3,
    TOK_TYPE_USER = 4,
    TOK_TYPE_UNUSED = 5,
    TOK_TYPE_BYTE = 6
};

struct tok_spm {
    bool dummy_prefix;
    bool remove_spaces;
    bool escape_spaces;
    bool space_suffix;
    struct tok_charsmap charsmap;
    struct tok_trie user;   /* user-defined symbols */
    uint32_t bos, eos, pad; /* TOK_NO_ID: none */
    struct str unk_surface;
    const char *normalizer; /* its name: "identity", "nmt_nfkc" */
};

struct tokenizer {
    enum tok_format format;
    enum tok_model model;
    const char *path;
    const struct unicode_table *unicode;

    /* Pieces as the model compares them: bytes where `byte_level`, else as written. */
    struct tok_vocab vocab;
    uint8_t *types;     /* SentencePiece: enum tok_type by id; else NULL */
    const uint8_t *raw; /* by id: byte-level piece kept as written, outside the alphabet; or NULL */
    bool byte_level;    /* the model sees bytes, the file writes the byte-level alphabet */

    struct tok_added *added; /* sorted by id */
    size_t added_count;
    struct tok_trie raw_added;    /* found in the raw text; values are indexes of added */
    struct tok_trie normal_added; /* found in the normalised text */

    VEC_OF(struct tok_norm) norms;
    VEC_OF(struct tok_pre) pres;
    VEC_OF(struct tok_dec) decs;
    VEC_OF(uint32_t) before; /* ids of the post-processor */
    VEC_OF(uint32_t) after;

    uint32_t unk; /* TOK_NO_ID: none */
    bool fuse_unk;
    bool byte_fallback;
    bool ignore_merges;
    uint32_t byte_ids[256]; /* of single bytes (byte_level), else of <0x..> */
    struct str continuing;  /* BPE and WordPiece: continuing_subword_prefix */
    struct str word_end;    /* end_of_word_suffix */
    size_t max_word;        /* WordPiece: characters of a word */

    /* BPE: either pairs of ids, or ranks of the joined text. */
    struct tok_merges merges;
    uint32_t *ranks;        /* by id; NULL: merges by pairs */
    bool cut_words;         /* a long text may be cut in front of U+2581 ... */
    bool no_cut_after[256]; /* ... unless this byte is before it */

    double *scores; /* Unigram, by id */
    struct tok_trie pieces;
    double unk_score;

    struct tok_spm spm;
};

struct tok_cache_entry;

struct tok_encoder {
    const struct tokenizer *t;
    struct arena *own;     /* of this struct and the cache */
    struct arena *scratch; /* rewound with every piece or text */
    struct arena *out_arena;
    struct tok_ids *out;
    struct tok_cache_entry *cache;
};

/* True when the rules of tokenizer.json hold: GGUF's are read through it. */
static inline bool tok_as_json(const struct tokenizer *t)
{
    return t->format == TOK_JSON || t->format == TOK_GGUF;
}

static inline void tok_push(struct tok_encoder *e, uint32_t id)
{
    *VEC_PUSH(e->out_arena, e->out) = id;
}

/* A character that SentencePiece does not know: its byte pieces, or the unknown token. */
void tok_push_unknown(struct tok_encoder *e, const char *p, size_t n);

/* One piece, whole UTF-8 (bytes where byte_level), through the model. */
void tok_bpe_piece(struct tok_encoder *e, struct str piece);
void tok_bpe_cache_init(struct tok_encoder *e);
void tok_unigram_piece(struct tok_encoder *e, struct str piece);
void tok_wordpiece_piece(struct tok_encoder *e, struct str piece);
void tok_model_piece(struct tok_encoder *e, struct str piece);

/* The whole way of a SentencePiece model. */
void tok_spm_encode(struct tok_encoder *e, struct str text);

/* Runs all normalizers; the result is `text` itself or lives on `a`. */
enum status tok_normalize(const struct tokenizer *t, struct arena *a, struct str text,
                          struct str *ret_text, struct err *err) MUST_USE;

/* Cuts a normalised text and gives each piece to the model. `at_start`: the text begins the document. */
enum status tok_split(struct tok_encoder *e, struct str text, bool at_start,
                      struct err *err) MUST_USE;

/* Readers; t has its path and unicode set. */
enum status tok_json_read(struct tokenizer *t, struct arena *a, struct str text,
                          struct err *err) MUST_USE;
enum status tok_json_parts(struct tokenizer *t, struct arena *a, const char *key,
                           const struct tree *part, struct err *err) MUST_USE;
enum status tok_spm_read(struct tokenizer *t, struct arena *a, struct str text,
                         struct err *err) MUST_USE;
enum status tok_tiktoken_read(struct tokenizer *t, struct arena *a, struct str text,
                              const char *encoding, struct err *err) MUST_USE;

/* The first line is base64, a space and a number. */
bool tok_tiktoken_looks(struct str text);

/* Last steps of every reader: index, added tokens, byte ids, cuts. */
enum status tok_finish(struct tokenizer *t, struct arena *a, struct err *err) MUST_USE;

/* Bytes of a base64 text, padded or not; false when it is none. */
bool tok_base64(struct arena *a, struct str s, struct str *ret_bytes);

/* Byte-level alphabet: bytes of a piece written in it; false when a character is outside. */
bool tok_bytes_of(struct str piece, char *ret_bytes, size_t *ret_n);
void tok_alphabet_add(struct strbuf *out, struct str bytes);

#endif
