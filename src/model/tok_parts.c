// SPDX-License-Identifier: Apache-2.0
/*
 * The small parts of tokenizer.json: normalizer, pre-tokenizer, post-processor, decoder, each a tree
 * of objects with a `type`. A type that is not in the tables is refused by its name.
 */
#include "model/tok_parts.h"

#include <string.h>

enum {
    MAX_PARTS = 256
};

static bool truth(const struct tree *t, const char *key, bool fallback)
{
    const struct tree *child = tree_get(t, key);
    if (child == NULL || child->kind != TREE_SCALAR || child->value.kind != VALUE_BOOL) {
        return fallback;
    }
    return child->value.boolean;
}

static struct str text(const struct tree *t, const char *key, const char *fallback)
{
    const struct tree *child = tree_get(t, key);
    if (child == NULL || child->kind != TREE_SCALAR || child->value.kind != VALUE_STRING) {
        return str_of(fallback);
    }
    return str_of(child->value.string);
}

static bool number(const struct tree *t, const char *key, size_t *ret_value)
{
    const struct tree *child = tree_get(t, key);
    if (child == NULL || child->kind != TREE_SCALAR || child->value.kind != VALUE_INT ||
        child->value.integer < 0) {
        return false;
    }
    *ret_value = (size_t)child->value.integer;
    return true;
}

static enum status unknown(const char *type, struct err *err)
{
    return err_set(err, ST_UNSUPPORTED, "the type '%.80s' is not known to assay", type);
}

/* {"String": s} or {"Regex": r}, or a bare string. */
static enum status read_pattern(struct arena *a, const struct tree *t, struct tok_pattern *ret,
                                struct err *err)
{
    const struct tree *p = tree_get(t, "pattern");
    if (p != NULL && p->kind == TREE_MAP) {
        struct str literal = text(p, "String", NULL);
        struct str regex = text(p, "Regex", NULL);
        if (tree_get(p, "Regex") != NULL) {
            return tok_pattern_of(a, regex, ret, err);
        }
        *ret = tok_pattern_literal(literal);
        return ST_OK;
    }
    *ret = tok_pattern_literal(text(t, "pattern", ""));
    return ST_OK;
}

static bool base64_value(char c, uint32_t *ret_value)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    *ret_value = at != NULL ? (uint32_t)(at - digits) : 0;
    return at != NULL;
}

bool tok_base64(struct arena *a, struct str s, struct str *ret_bytes)
{
    while (s.n > 0 && s.p[s.n - 1] == '=') {
        s.n--;
    }
    char *out = arena_alloc(a, s.n / 4 * 3 + 4);
    size_t n = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < s.n; i++) {
        uint32_t value;
        if (!base64_value(s.p[i], &value)) {
            return false;
        }
        bits = bits << 6 | value;
        if (i % 4 != 0) {
            out[n++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xFF);
        }
    }
    *ret_bytes = (struct str){.p = out, .n = n};
    return s.n % 4 != 1;
}

static bool form_of(const char *type, enum unicode_form *ret_form)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(type, names[i]) == 0) {
            *ret_form = (enum unicode_form)i;
            return true;
        }
    }
    return false;
}

static void read_bert(const struct tree *t, struct tok_norm *n)
{
    n->kind = TOK_NORM_BERT;
    n->clean_text = truth(t, "clean_text", true);
    n->chinese_chars = truth(t, "handle_chinese_chars", true);
    n->lowercase = truth(t, "lowercase", true);
    n->strip_accents = truth(t, "strip_accents", n->lowercase);
}

static enum status read_charsmap(struct arena *a, const struct tree *t, struct tok_norm *n,
                                 struct err *err)
{
    struct str blob;
    n->kind = TOK_NORM_CHARSMAP;
    if (!tok_base64(a, text(t, "precompiled_charsmap", ""), &blob)) {
        return err_set(err, ST_FORMAT, "precompiled_charsmap is not base64");
    }
    return tok_charsmap_read(blob, &n->charsmap, err);
}

static enum status read_norm(struct tokenizer *t, struct arena *a, const struct tree *part,
                             struct err *err)
{
    const char *type = tree_text(part, "type", "");
    struct tok_norm n = {0};
    if (strcmp(type, "Sequence") == 0) {
        const struct tree *list = tree_get(part, "normalizers");
        for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
            TRY(read_norm(t, a, c, err));
        }
        return ST_OK;
    }
    if (form_of(type, &n.form)) {
        n.kind = TOK_NORM_FORM;
    } else if (strcmp(type, "Lowercase") == 0) {
        n.kind = TOK_NORM_LOWERCASE;
    } else if (strcmp(type, "Strip") == 0) {
        n.kind = TOK_NORM_STRIP;
        n.left = truth(part, "strip_left", true);
        n.right = truth(part, "strip_right", true);
    } else if (strcmp(type, "StripAccents") == 0) {
        n.kind = TOK_NORM_STRIP_ACCENTS;
    } else if (strcmp(type, "Nmt") == 0) {
        n.kind = TOK_NORM_NMT;
    } else if (strcmp(type, "Prepend") == 0) {
        n.kind = TOK_NORM_PREPEND;
        n.text = text(part, "prepend", "");
    } else if (strcmp(type, "Replace") == 0) {
        n.kind = TOK_NORM_REPLACE;
        n.text = text(part, "content", "");
        TRY(read_pattern(a, part, &n.pattern, err));
    } else if (strcmp(type, "Precompiled") == 0) {
        TRY(read_charsmap(a, part, &n, err));
    } else if (strcmp(type, "BertNormalizer") == 0) {
        read_bert(part, &n);
    } else {
        return unknown(type, err);
    }
    if (t->norms.count >= MAX_PARTS) {
        return err_set(err, ST_LIMIT, "there are more than %d normalizers", MAX_PARTS);
    }
    *VEC_PUSH(a, &t->norms) = n;
    return ST_OK;
}

static enum status read_behavior(const struct tree *part, enum tok_behavior *ret, struct err *err)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = tree_text(part, "behavior", "Isolated");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum tok_behavior)i;
            return ST_OK;
        }
    }
    return err_set(err, ST_UNSUPPORTED, "the behavior '%.80s' is not known to assay", name);
}

static enum status read_metaspace(const struct tree *part, struct tok_pre *p, struct err *err)
{
    const char *scheme = tree_text(part, "prepend_scheme", NULL);
    bool add = truth(part, "add_prefix_space", true);
    p->kind = TOK_PRE_METASPACE;
    p->replacement = text(part, "replacement", TOK_SPACE_MARK);
    p->split = truth(part, "split", true);
    if (scheme == NULL) {
        p->prepend = add ? TOK_PREPEND_ALWAYS : TOK_PREPEND_NEVER;
    } else if (strcmp(scheme, "always") == 0) {
        p->prepend = TOK_PREPEND_ALWAYS;
    } else if (strcmp(scheme, "first") == 0) {
        p->prepend = TOK_PREPEND_FIRST;
    } else if (strcmp(scheme, "never") == 0) {
        p->prepend = TOK_PREPEND_NEVER;
    } else {
        return err_set(err, ST_UNSUPPORTED, "the prepend_scheme '%.80s' is not known to assay",
                       scheme);
    }
    if (p->replacement.n == 0 || p->replacement.n > 4) {
        return err_set(err, ST_FORMAT, "Metaspace's replacement is not one character");
    }
    return ST_OK;
}

static enum status push_pre(struct tokenizer *t, struct arena *a, struct tok_pre p, struct err *err)
{
    if (t->pres.count >= MAX_PARTS) {
        return err_set(err, ST_LIMIT, "there are more than %d pre-tokenizers", MAX_PARTS);
    }
    *VEC_PUSH(a, &t->pres) = p;
    return ST_OK;
}

/* ByteLevel is the prefix space, then its expression, then the change to bytes. */
static enum status read_byte_level(struct tokenizer *t, struct arena *a, const struct tree *part,
                                   struct err *err)
{
    struct tok_pre p = {.kind = TOK_PRE_BYTE_LEVEL,
                        .prefix_space = truth(part, "add_prefix_space", true),
                        .split = truth(part, "use_regex", true)};
    TRY(tok_pattern_of(a, str_of(tok_pattern_named("gpt2")), &p.pattern, err));
    return push_pre(t, a, p, err);
}

static enum status read_pre(struct tokenizer *t, struct arena *a, const struct tree *part,
                            struct err *err)
{
    const char *type = tree_text(part, "type", "");
    struct tok_pre p = {0};
    if (strcmp(type, "Sequence") == 0) {
        const struct tree *list = tree_get(part, "pretokenizers");
        for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
            TRY(read_pre(t, a, c, err));
        }
        return ST_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return read_byte_level(t, a, part, err);
    }
    if (strcmp(type, "Split") == 0) {
        p.kind = TOK_PRE_SPLIT;
        p.invert = truth(part, "invert", false);
        TRY(read_behavior(part, &p.behavior, err));
        TRY(read_pattern(a, part, &p.pattern, err));
    } else if (strcmp(type, "CharDelimiterSplit") == 0) {
        p.kind = TOK_PRE_SPLIT;
        p.behavior = TOK_REMOVED;
        p.pattern = tok_pattern_literal(text(part, "delimiter", ""));
    } else if (strcmp(type, "Metaspace") == 0) {
        TRY(read_metaspace(part, &p, err));
    } else if (strcmp(type, "Whitespace") == 0) {
        p.kind = TOK_PRE_WHITESPACE;
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        p.kind = TOK_PRE_WHITESPACE_SPLIT;
    } else if (strcmp(type, "Digits") == 0) {
        p.kind = TOK_PRE_DIGITS;
        p.individual = truth(part, "individual_digits", false);
    } else if (strcmp(type, "Punctuation") == 0) {
        p.kind = TOK_PRE_PUNCTUATION;
        TRY(read_behavior(part, &p.behavior, err));
    } else if (strcmp(type, "BertPreTokenizer") == 0) {
        p.kind = TOK_PRE_BERT;
    } else {
        return unknown(type, err);
    }
    return push_pre(t, a, p, err);
}

static enum status template_ids(struct tokenizer *t, struct arena *a, const struct tree *part,
                                const char *name, bool before, struct err *err)
{
    const struct tree *token = tree_get(tree_get(part, "special_tokens"), name);
    const struct tree *ids = tree_get(token, "ids");
    if (ids == NULL) {
        return err_set(err, ST_FORMAT, "the template's token '%.80s' has no ids", name);
    }
    for (const struct tree *id = ids->child; id != NULL; id = id->next) {
        if (id->kind != TREE_SCALAR || id->value.kind != VALUE_INT || id->value.integer < 0 ||
            id->value.integer >= TOK_MAX_IDS) {
            return err_set(err, ST_FORMAT, "the template's token '%.80s' has an id that is none",
                           name);
        }
        if (before) {
            *VEC_PUSH(a, &t->before) = (uint32_t)id->value.integer;
        } else {
            *VEC_PUSH(a, &t->after) = (uint32_t)id->value.integer;
        }
    }
    return ST_OK;
}

static enum status read_template(struct tokenizer *t, struct arena *a, const struct tree *part,
                                 struct err *err)
{
    const struct tree *single = tree_get(part, "single");
    bool before = true;
    for (const struct tree *c = single != NULL ? single->child : NULL; c != NULL; c = c->next) {
        const struct tree *special = tree_get(c, "SpecialToken");
        if (special == NULL) {
            before = false;
            continue;
        }
        TRY(template_ids(t, a, part, tree_text(special, "id", ""), before, err));
    }
    return ST_OK;
}

/* ["[SEP]", 102] */
static enum status read_pair(const struct tree *part, const char *key, uint32_t *ret_id,
                             struct err *err)
{
    const struct tree *pair = tree_get(part, key);
    const struct tree *id = pair != NULL && pair->child != NULL ? pair->child->next : NULL;
    if (id == NULL || id->value.kind != VALUE_INT || id->value.integer < 0 ||
        id->value.integer >= TOK_MAX_IDS) {
        return err_set(err, ST_FORMAT, "'%s' is not a token and its id", key);
    }
    *ret_id = (uint32_t)id->value.integer;
    return ST_OK;
}

static enum status read_post(struct tokenizer *t, struct arena *a, const struct tree *part,
                             struct err *err)
{
    const char *type = tree_text(part, "type", "");
    if (strcmp(type, "Sequence") == 0) {
        const struct tree *list = tree_get(part, "processors");
        for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
            TRY(read_post(t, a, c, err));
        }
        return ST_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return ST_OK; /* changes offsets only */
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        return read_template(t, a, part, err);
    }
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        uint32_t cls;
        uint32_t sep;
        TRY(read_pair(part, "cls", &cls, err));
        TRY(read_pair(part, "sep", &sep, err));
        *VEC_PUSH(a, &t->before) = cls;
        *VEC_PUSH(a, &t->after) = sep;
        return ST_OK;
    }
    return unknown(type, err);
}

static enum status read_dec(struct tokenizer *t, struct arena *a, const struct tree *part,
                            struct err *err)
{
    const char *type = tree_text(part, "type", "");
    struct tok_dec d = {0};
    if (strcmp(type, "Sequence") == 0) {
        const struct tree *list = tree_get(part, "decoders");
        for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
            TRY(read_dec(t, a, c, err));
        }
        return ST_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        d.kind = TOK_DEC_BYTE_LEVEL;
    } else if (strcmp(type, "Replace") == 0) {
        struct tok_pattern pattern = {0};
        TRY(read_pattern(a, part, &pattern, err));
        d.kind = pattern.kind == TOK_PATTERN_LITERAL ? TOK_DEC_REPLACE : TOK_DEC_OTHER;
        d.pattern = pattern.literal;
        d.content = text(part, "content", "");
        tok_pattern_free(&pattern);
    } else if (strcmp(type, "ByteFallback") == 0) {
        d.kind = TOK_DEC_BYTE_FALLBACK;
    } else if (strcmp(type, "Fuse") == 0) {
        d.kind = TOK_DEC_FUSE;
    } else if (strcmp(type, "Strip") == 0) {
        d.kind = TOK_DEC_STRIP;
        d.pattern = text(part, "content", " ");
        (void)number(part, "start", &d.start);
        (void)number(part, "stop", &d.stop);
    } else if (strcmp(type, "Metaspace") == 0) {
        struct tok_pre p = {0};
        TRY(read_metaspace(part, &p, err));
        d.kind = TOK_DEC_METASPACE;
        d.pattern = p.replacement;
        d.prefix_space = p.prepend != TOK_PREPEND_NEVER;
    } else if (strcmp(type, "WordPiece") == 0) {
        d.kind = TOK_DEC_WORDPIECE;
        d.pattern = text(part, "prefix", "##");
        d.cleanup = truth(part, "cleanup", true);
    } else if (strcmp(type, "BPEDecoder") == 0) {
        d.kind = TOK_DEC_BPE;
        d.pattern = text(part, "suffix", "</w>");
    } else {
        d.kind = TOK_DEC_OTHER; /* encoding does not need it */
    }
    if (t->decs.count >= MAX_PARTS) {
        return err_set(err, ST_LIMIT, "there are more than %d decoders", MAX_PARTS);
    }
    *VEC_PUSH(a, &t->decs) = d;
    return ST_OK;
}

enum status tok_json_parts(struct tokenizer *t, struct arena *a, const char *key,
                           const struct tree *part, struct err *err)
{
    static const struct {
        const char *key;
        enum status (*read)(struct tokenizer *, struct arena *, const struct tree *, struct err *);
    } readers[] = {
        {"normalizer", read_norm},
        {"pre_tokenizer", read_pre},
        {"post_processor", read_post},
        {"decoder", read_dec},
    };

    for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
        if (strcmp(readers[i].key, key) == 0) {
            return readers[i].read(t, a, part, err);
        }
    }
    return ST_OK;
}
