// SPDX-License-Identifier: Apache-2.0
/*
 * Stages over the model that training starts from: its tokenizer held against its other files, and its weights
 * verified. It is named by --model, or is the first folder in the training command that holds a config.json and
 * a tokenizer.
 */
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/qualify/qualify.h"

enum {
    TOKENIZER_WEIGHT = 20
};

static const double check_limit_s = 600;
static const double verify_limit_s = 7200;
static const struct fs live = {.prefix = ""};

static bool is_model(struct arena *a, const char *path)
{
    static const char *const tokenizers[] = {"tokenizer.json", "tokenizer.model", "spiece.model"};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(tokenizers); i++) {
        any = any || fs_exists(&live, a, arena_fmt(a, "%s/%s", path, tokenizers[i]));
    }
    return any && fs_exists(&live, a, arena_fmt(a, "%s/config.json", path));
}

const char *qualify_find_model(struct cli *cli)
{
    const char *named = cli_value(cli, "model", NULL);
    for (size_t i = 0; named == NULL && i < cli->operands.count; i++) {
        const char *word = cli->operands.items[i];
        const char *equals = strchr(word, '=');
        if (is_model(cli->arena, word)) {
            named = word;
        } else if (equals != NULL && is_model(cli->arena, equals + 1)) {
            named = equals + 1;
        }
    }
    return named;
}

/* Runs "assay GROUP ACTION model"; its findings become the stage's. */
static void ask(struct qualify *q, const char *group, const char *action, double limit_s,
                struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    const char *const list[] = {group, action, q->model};
    struct text_list words = {0};
    struct report r;
    struct err err = {0};
    int exit;
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        *VEC_PUSH(a, &words) = list[i];
    }
    size_t before = s->findings.count;
    enum status status = qualify_child(q, group, &words, limit_s, &r, &exit, &err);
    const char *said = err.text;
    if (status == ST_OK) {
        qualify_take(q, &r, &s->findings);
        said = r.verdict != NULL ? r.verdict : "no verdict";
    }
    if (status == ST_OK && (exit == 0 || s->findings.count != before)) {
        return;
    }
    *VEC_PUSH(a, &s->findings) = (struct finding){
        .id = "model-not-read",
        .severity = status == ST_OK && exit == 1 ? SEVERITY_ERROR : SEVERITY_UNKNOWN,
        .title = "The model that training starts from could not be checked",
        .claim = arena_fmt(a, "assay %s %s %s: %s", group, action, q->model, said)};
}

void qualify_tokenizer(struct qualify *q, struct stage_result *s)
{
    if (q->model == NULL && cli_flag(q->cli, "only")) {
        qualify_not_run(s, "no model was named",
                        "--model DIR, the folder that training starts from");
        return;
    }
    if (q->model == NULL) {
        s->state = STAGE_NOT_ASKED;
        s->reason = "no --model, and no folder with a tokenizer in the command";
        return;
    }
    s->measured = arena_fmt(q->cli->arena, "%s, against the files beside it", q->model);
    ask(q, "tokenizer", "check", check_limit_s, s);
    qualify_judge(q, "tokenizer", TOKENIZER_WEIGHT, s);
}

bool qualify_model_weights(struct qualify *q, struct stage_result *s)
{
    if (q->model == NULL) {
        return false;
    }
    ask(q, "checkpoint", "verify", verify_limit_s, s);
    return true;
}
