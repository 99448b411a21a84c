// SPDX-License-Identifier: Apache-2.0
/* knowledge/patterns: regular expressions of log lines. */

#include "base/regex.h"

#include "knowledge/load.h"

static const char *const kind_names[] = {
    [PATTERN_FAULT] = "fault",     [PATTERN_CONSEQUENCE] = "consequence",
    [PATTERN_SYMPTOM] = "symptom", [PATTERN_CONTEXT] = "context",
    [PATTERN_BENIGN] = "benign",   [PATTERN_CLEAR] = "clear",
};

static void check_syntax(struct loader *l, const struct pattern *p)
{
    struct err err = {0};
    bool empty = false;
    if (regex_check_scanner(p->regex, &empty, &err) != ST_OK) {
        load_problem(l, p->where, "'regex' is not what the scanner takes: %s", err.text);
    } else if (empty) {
        load_problem(l, p->where, "'regex' matches the empty text");
    }
    /* Hits are confirmed on their line by PCRE2, so it has to take the expression too. */
    if (regex_check(p->regex, &err) != ST_OK) {
        load_problem(l, p->where, "'regex' is not what PCRE2 takes: %s", err.text);
    }
    if (p->capture != NULL && regex_check(p->capture, &err) != ST_OK) {
        load_problem(l, p->where, "'capture' is no regular expression: %s", err.text);
    }
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
    check_syntax(l, &p);
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
