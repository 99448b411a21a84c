// SPDX-License-Identifier: Apache-2.0
/* assay tokenizer: what is in a tokenizer file, text to ids and back. */
#include <errno.h>
#include <string.h>

#include "base/input.h"
#include "base/json_out.h"
#include "base/str.h"

#include "cli/action_options.h"
#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "cli/tokenizer_check.h"
#include "model/tok.h"

enum {
    READ_SIZE = 1 << 16
};

static int open_one(struct cli *cli, const char *path, const struct tokenizer **ret)
{
    struct err err = {0};
    struct tok_options options = {.pattern = cli_value(cli, "pattern", NULL)};
    if (tok_open(cli->arena, path, &options, ret, &err) == ST_OK) {
        return EXIT_FINE;
    }
    return cli_fail(cli,
                    err.status == ST_USAGE    ? EXIT_USAGE
                    : err.status == ST_FORMAT ? EXIT_FAULT
                                              : EXIT_UNKNOWN,
                    "%s", err.text);
}

/* All of a file or of standard input. */
static enum status read_all(struct cli *cli, const char *path, struct str *ret_text,
                            struct err *err)
{
    struct input *in;
    struct strbuf b;
    char *buffer = arena_alloc(cli->arena, READ_SIZE);
    size_t n = 0;
    strbuf_init(&b, cli->arena, TOK_MAX_TEXT);
    TRY(input_open(cli->arena, path, NULL, &in, err));
    enum status status;
    do {
        status = input_read(in, buffer, READ_SIZE, &n, err);
        strbuf_add(&b, (struct str){.p = buffer, .n = n});
    } while (status == ST_OK && n != 0 && !b.truncated);
    input_close(in);
    if (status == ST_OK && b.truncated) {
        return err_set(err, ST_LIMIT, "%s is larger than 1 GiB; give it in parts", path);
    }
    *ret_text = strbuf_str(&b);
    return status;
}

static enum status read_text(struct cli *cli, struct str *ret_text, struct err *err)
{
    const char *file = cli_value(cli, "text", NULL);
    if (cli->operands.count > 2 && file != NULL) {
        return err_set(err, ST_USAGE, "give the text as operands or with --text, not both");
    }
    if (cli->operands.count <= 2) {
        return read_all(cli, file != NULL ? file : "-", ret_text, err);
    }
    struct strbuf b;
    strbuf_init(&b, cli->arena, 1 << 24);
    for (size_t i = 2; i < cli->operands.count; i++) {
        strbuf_addz(&b, i > 2 ? " " : "");
        strbuf_addz(&b, cli->operands.items[i]);
    }
    *ret_text = strbuf_str(&b);
    return ST_OK;
}

/* printf would take as long as the encoding. */
static void add_id(struct strbuf *out, uint32_t id, char separator)
{
    char digits[12];
    size_t from = sizeof digits;
    digits[--from] = separator;
    do {
        digits[--from] = (char)('0' + id % 10);
        id /= 10;
    } while (id != 0);
    strbuf_add(out, (struct str){.p = digits + from, .n = sizeof digits - from});
}

static void write_ids(struct cli *cli, const struct tokenizer *t, const struct tok_ids *ids,
                      struct strbuf *out)
{
    if (cli_flag(cli, "json")) {
        struct json_out j;
        json_init(&j, out);
        json_object(&j);
        json_field(&j, "command", "tokenizer encode");
        json_key(&j, "schema");
        json_int(&j, 1);
        json_key(&j, "ids");
        json_list(&j);
        for (size_t i = 0; i < ids->count; i++) {
            json_int(&j, ids->items[i]);
        }
        json_list_end(&j);
        json_object_end(&j);
        return;
    }
    if (!cli_flag(cli, "pieces")) {
        for (size_t i = 0; i < ids->count; i++) {
            add_id(out, ids->items[i], i + 1 == ids->count ? '\n' : ' ');
        }
        strbuf_addz(out, ids->count == 0 ? "\n" : "");
        return;
    }
    for (size_t i = 0; i < ids->count; i++) {
        struct str piece;
        if (tok_piece(t, cli->arena, ids->items[i], &piece)) {
            strbuf_fmt(out, "%u\t%.*s\n", ids->items[i], STR_ARG(piece));
        }
    }
}

static int run_encode(struct cli *cli)
{
    const struct tokenizer *t;
    struct err err = {0};
    struct str text;
    struct tok_ids ids = {0};
    struct strbuf out;
    int status = open_one(cli, cli->operands.items[1], &t);
    if (status != EXIT_FINE) {
        return status;
    }
    unsigned flags = cli_flag(cli, "specials") ? TOK_SPECIALS : 0;
    flags |= cli_flag(cli, "plain") ? TOK_PLAIN_SPECIALS : 0;
    enum status read = read_text(cli, &text, &err);
    if (read == ST_OK) {
        struct tok_encoder *e = tok_encoder_new(t);
        read = tok_encode(e, cli->arena, text, flags, &ids, &err);
        tok_encoder_free(e);
    }
    if (read != ST_OK) {
        return cli_fail(cli, read == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    strbuf_init(&out, cli->arena, TOK_MAX_TEXT * 4);
    write_ids(cli, t, &ids, &out);
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

/* Numbers out of operands or text, however they are separated. */
static enum status add_ids(struct cli *cli, struct str s, struct tok_ids *ids, struct err *err)
{
    size_t at = 0;
    while (at < s.n) {
        size_t from = at;
        while (at < s.n && strchr(" \t\r\n,[]", s.p[at]) == NULL) {
            at++;
        }
        struct str word = str_slice(s, from, at);
        uint64_t id;
        if (word.n != 0 && (str_to_u64(word, 10, &id) != ST_OK || id > UINT32_MAX)) {
            return err_set(err, ST_USAGE, "'%.40s' is no token id", str_dup(cli->arena, word));
        }
        if (word.n != 0) {
            *VEC_PUSH(cli->arena, ids) = (uint32_t)id;
        }
        at += at < s.n;
    }
    return ST_OK;
}

static int run_decode(struct cli *cli)
{
    const struct tokenizer *t;
    struct err err = {0};
    struct tok_ids ids = {0};
    struct str text;
    struct strbuf out;
    int status = open_one(cli, cli->operands.items[1], &t);
    if (status != EXIT_FINE) {
        return status;
    }
    enum status read = read_text(cli, &text, &err);
    read = read == ST_OK ? add_ids(cli, text, &ids, &err) : read;
    strbuf_init(&out, cli->arena, TOK_MAX_TEXT);
    if (read == ST_OK) {
        read = tok_decode(t, cli->arena, ids.items, ids.count, cli_flag(cli, "plain"), &out, &err);
    }
    if (read != ST_OK) {
        return cli_fail(cli, read == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

static void show_ids(struct strbuf *out, struct cli *cli, const struct tokenizer *t,
                     const char *what, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct str piece = STR("?");
        (void)tok_piece(t, cli->arena, ids[i], &piece);
        strbuf_fmt(out, "%s %u %.*s\n", what, ids[i], STR_ARG(piece));
    }
}

static int run_show(struct cli *cli)
{
    const struct tokenizer *t;
    struct strbuf out;
    size_t count;
    size_t after_count;
    const uint32_t *before;
    const uint32_t *after;
    int status = open_one(cli, cli->operands.items[1], &t);
    if (status != EXIT_FINE) {
        return status;
    }
    const struct tok_added *added = tok_added_list(t, &count);
    strbuf_init(&out, cli->arena, 1 << 26);
    strbuf_fmt(&out, "file       %s\nformat     %s\npipeline   %s\ntokens     %zu, ids 0 to %u\n",
               tok_path(t), tok_format_name(tok_format_of(t)), tok_pipeline(t, cli->arena),
               tok_count(t), tok_id_end(t) == 0 ? 0 : tok_id_end(t) - 1);
    size_t before_count;
    tok_specials(t, &before, &before_count, &after, &after_count);
    show_ids(&out, cli, t, "before    ", before, before_count);
    show_ids(&out, cli, t, "behind    ", after, after_count);
    strbuf_fmt(&out, "added      %zu\n", count);
    for (size_t i = 0; i < count; i++) {
        strbuf_fmt(&out, "  %-8u %.*s%s%s%s%s%s\n", added[i].id, STR_ARG(added[i].content),
                   added[i].special ? "  special" : "", added[i].normalized ? "  normalized" : "",
                   added[i].lstrip ? "  lstrip" : "", added[i].rstrip ? "  rstrip" : "",
                   added[i].single_word ? "  single-word" : "");
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

static const struct {
    const char *name;
    size_t least; /* operands, its own name included */
    int (*run)(struct cli *cli);
} actions[] = {
    {"encode", 2, run_encode},
    {"decode", 2, run_decode},
    {"show", 2, run_show},
    {"check", 2, tokenizer_check},
};

static const struct action_option uses[] = {
    {"text", "encode|decode"}, {"specials", "encode"}, {"plain", "encode|decode"},
    {"pieces", "encode"},      {"against", "check"},
};

static int run_tokenizer(struct cli *cli)
{
    const char *name = cli->operands.count != 0 ? cli->operands.items[0] : "";
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        if (strcmp(actions[i].name, name) != 0) {
            continue;
        }
        if (cli->operands.count < actions[i].least) {
            return cli_fail(cli, EXIT_USAGE, "'tokenizer %s' needs a tokenizer file or folder",
                            name);
        }
        struct err err = {0};
        if (action_options_check(cli, uses, ARRAY_LEN(uses), name, &err) != ST_OK) {
            return cli_fail(cli, EXIT_USAGE, "%s", err.text);
        }
        return actions[i].run(cli);
    }
    return cli_fail(cli, EXIT_USAGE,
                    "'tokenizer' does one of encode, decode, show, check; '%s' is none", name);
}

static const char *const description[] = {
    "Reads tokenizer.json, SentencePiece .model, tiktoken and GGUF files without Python and gives the "
    "ids that the libraries give. A is a file or a folder that holds one. 'check' holds a model folder's "
    "tokenizer against what lies beside it: vocabulary against config.json and the embedding, special "
    "tokens in all files, added tokens, the chat template; sends text of many scripts there and back; "
    "and compares two tokenizers with --against.",
    NULL,
};

static const struct example examples[] = {
    {"assay tokenizer encode ./model Hello world!",
     "ids of a text; without text, of standard input"},
    {"assay tokenizer decode ./model 15043 3186 29991", "and back"},
    {"assay tokenizer show ./model", "how it cuts text, its special and added tokens"},
    {"assay tokenizer check ./out --against ./base",
     "does it fit the model, and is it the base's?"},
    {0},
};

static const struct option_spec options[] = {
    {"text", 't', OPTION_VALUE, "FILE", "The text (ids for decode) is in FILE"},
    {"specials", 's', OPTION_FLAG, NULL, "encode: add what the tokenizer adds, such as BOS"},
    {"plain", 0, OPTION_FLAG, NULL,
     "encode: special tokens in the text are text; decode: leave them out"},
    {"pieces", 'p', OPTION_FLAG, NULL, "encode: one id a line with its piece"},
    {"pattern", 0, OPTION_VALUE, "NAME",
     "Encoding of a tiktoken file: cl100k_base, o200k_base, llama3, qwen, ..."},
    {"against", 0, OPTION_VALUE, "DIR", "check: compare with the tokenizer in DIR"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_tokenizer = {
    .name = "tokenizer",
    .summary = "Encode, decode and check tokenizers without Python",
    .operands = "show|check|encode|decode A [TEXT...]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_tokenizer,
};
