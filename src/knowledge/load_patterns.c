// SPDX-License-Identifier: Apache-2.0
/* knowledge/patterns: regular expressions of log lines. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <hs.h>
#include <pcre2.h>
#include <stdlib.h>

#include "knowledge/load.h"

static const char *const kind_names[] = {
    [PATTERN_FAULT] = "fault",     [PATTERN_CONSEQUENCE] = "consequence",
    [PATTERN_SYMPTOM] = "symptom", [PATTERN_CONTEXT] = "context",
    [PATTERN_BENIGN] = "benign",   [PATTERN_CLEAR] = "clear",
};

static void check_scanner_syntax(struct loader *l, const char *where, const char *regex)
{
    hs_expr_info_t *info = NULL;
    hs_compile_error_t *error = NULL;
    if (hs_expression_info(regex, HS_FLAG_DOTALL, &info, &error) != HS_SUCCESS) {
        load_problem(l, where, "'regex' is not what the scanner takes: %.200s",
                     error != NULL ? error->message : "unknown reason");
        hs_free_compile_error(error);
        return;
    }
    if (info->min_width == 0) {
        load_problem(l, where, "'regex' matches the empty text");
    }
    free(info);
}

static void check_capture_syntax(struct loader *l, const char *where, const char *regex)
{
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, 0, &error, &offset,
                                     NULL);
    if (code == NULL) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(error, message, sizeof message);
        load_problem(l, where, "'capture' is no regular expression: %s at character %zu",
                     (char *)message, (size_t)offset + 1);
        return;
    }
    uint32_t names = 0;
    pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &names);
    pcre2_code_free(code);
    (void)names; /* a capture without names only confirms, which is a use of its own */
}

static void load_pattern(struct loader *l, const char *file, const struct tree *node)
{
    static const char *const keys[] = {"id",     "regex",    "capture", "log",  "kind",
                                       "source", "examples", "not",     "notes"};
    static const char *const logs[] = {"", "train", "kernel", "any"};
    if (!load_keys(l, file, node, keys, ARRAY_LEN(keys))) {
        return;
    }
    struct pattern p = {.where = load_where(l, file, node)};
    p.id = load_text(l, file, node, "id", true);
    p.regex = load_text(l, file, node, "regex", true);
    p.capture = load_text(l, file, node, "capture", false);
    int kind = load_choice(l, file, node, "kind", kind_names, ARRAY_LEN(kind_names), -1);
    int log = load_choice(l, file, node, "log", logs, ARRAY_LEN(logs), LOG_TRAIN);
    p.examples = load_text_list(l, file, node, "examples");
    p.negatives = load_text_list(l, file, node, "not");
    if (p.id == NULL || p.regex == NULL) {
        return;
    }
    if (!load_is_kebab(p.id)) {
        load_problem(l, p.where, "the id '%.80s' should be small letters, digits and dashes", p.id);
    }
    if (!load_unique(l, l->pattern_ids, "pattern", p.id, p.where)) {
        return;
    }
    if (p.examples.count == 0) {
        load_problem(l, p.where, "pattern '%s' has no examples", p.id);
    }
    check_scanner_syntax(l, p.where, p.regex);
    if (p.capture != NULL) {
        check_capture_syntax(l, p.where, p.capture);
    }
    p.kind = kind < 0 ? PATTERN_CONTEXT : (enum pattern_kind)kind;
    p.logs = log <= 0 ? LOG_TRAIN : (unsigned)log;
    *VEC_PUSH(l->arena, &l->patterns) = p;
}

void load_patterns(struct loader *l, const char *file, const struct tree *root)
{
    const struct tree *list = load_list(l, file, root, "patterns", NULL);
    for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
        load_pattern(l, file, c);
    }
}
