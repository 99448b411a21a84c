// SPDX-License-Identifier: Apache-2.0
/* Recursive descent over the condition language. Precedence, low to high: or, and, not, compare,
 * + -, * /. */
#include <string.h>

#include "base/regex.h"
#include "base/vec.h"

#include "knowledge/expr.h"
#include "knowledge/expr_lex.h"
#include "knowledge/expr_node.h"

struct parser {
    struct lexer lex;
    VEC_OF(struct expr_node) nodes;
    int depth;
    int quantifiers; /* any(), all(), count() around this place */
};

static enum status parse_or(struct parser *p, uint32_t *ret_node);

static enum status add_node(struct parser *p, struct expr_node node, uint32_t *ret_node)
{
    if (p->nodes.count >= EXPR_MAX_NODES) {
        return lex_fail(&p->lex, p->lex.at, "the condition has more than %d parts", EXPR_MAX_NODES);
    }
    *ret_node = (uint32_t)p->nodes.count;
    *VEC_PUSH(p->lex.arena, &p->nodes) = node;
    return ST_OK;
}

static enum status add_pair(struct parser *p, enum expr_op op, uint32_t left, uint32_t right,
                            uint32_t *ret_node)
{
    p->nodes.items[left].next = right;
    return add_node(p, (struct expr_node){.op = op, .first = left}, ret_node);
}

static enum status expect(struct parser *p, const char *sign)
{
    if (lex_sign(&p->lex, sign)) {
        return ST_OK;
    }
    return lex_fail(&p->lex, p->lex.at, "'%s' is expected here", sign);
}

/* A fact key, as a name or as fact("…"), or run.field. */
static enum status add_key(struct parser *p, const char *key, const char *at, uint32_t *ret_node)
{
    if (strncmp(key, "run.", 4) == 0) {
        static const char *const fields = " completed died steps total_steps ranks killed_signal "
                                          "exit_code phase last_line_is_progress "
                                          "first_failed_rank exception exception_text lines "
                                          "bytes kernel_log ";
        const char *found = strstr(fields, key + 4);
        size_t n = strlen(key + 4);
        if (found == NULL || n == 0 || found[-1] != ' ' || found[n] != ' ') {
            return lex_fail(&p->lex, at, "there is no %s; there are:%s", key, fields);
        }
        return add_node(p, (struct expr_node){.op = OP_RUN, .text = key + 4}, ret_node);
    }
    if (strchr(key, '*') != NULL && p->quantifiers == 0) {
        return lex_fail(&p->lex, at,
                        "a key with '*' stands for several facts: put any(…), all(…) "
                        "or count(…) around the condition");
    }
    return add_node(p, (struct expr_node){.op = OP_FACT, .text = key}, ret_node);
}

static enum status parse_key(struct parser *p, uint32_t *ret_node)
{
    const char *at = p->lex.at;
    const char *key;
    if (strncmp(at, "fact(", 5) == 0) {
        p->lex.at += 5;
        lex_space(&p->lex);
        if (*p->lex.at != '"' && *p->lex.at != '\'') {
            return lex_fail(&p->lex, p->lex.at, "fact(…) takes a key in quotes");
        }
        TRY(lex_string(&p->lex, &key));
        TRY(expect(p, ")"));
        return add_key(p, key, at, ret_node);
    }
    TRY(lex_key(&p->lex, &key));
    return add_key(p, key, at, ret_node);
}

/* "event(ID)", "event(ID).NAME", "last(ID).NAME" */
static enum status parse_event(struct parser *p, bool last, uint32_t *ret_node)
{
    struct expr_node node = {.op = last ? OP_LAST : OP_EVENT};
    TRY(lex_id(&p->lex, "a pattern id", &node.text));
    TRY(expect(p, ")"));
    if (*p->lex.at == '.') {
        p->lex.at++;
        node.op = last ? OP_LAST : OP_FIRST;
        TRY(lex_id(&p->lex, "the name of a capture", &node.text2));
    } else if (last) {
        return lex_fail(&p->lex, p->lex.at, "last(ID) needs the name of a capture: last(ID).NAME");
    }
    return add_node(p, node, ret_node);
}

static enum status parse_extreme(struct parser *p, enum expr_op op, uint32_t *ret_node)
{
    struct expr_node node = {.op = op};
    TRY(lex_id(&p->lex, "a pattern id", &node.text));
    TRY(expect(p, "."));
    TRY(lex_id(&p->lex, "the name of a capture", &node.text2));
    TRY(expect(p, ")"));
    return add_node(p, node, ret_node);
}

static enum status parse_before(struct parser *p, uint32_t *ret_node)
{
    struct expr_node node = {.op = OP_BEFORE};
    TRY(lex_id(&p->lex, "a pattern id", &node.text));
    TRY(expect(p, ","));
    TRY(lex_id(&p->lex, "a pattern id", &node.text2));
    TRY(expect(p, ")"));
    return add_node(p, node, ret_node);
}

static enum status parse_series(struct parser *p, uint32_t *ret_node)
{
    static const char *const fields =
        " count first last min max median nan_count inf_count zero_count first_nan_index flat "
        "rising falling spike_ratio spike_recovered before_nan bad_all_ranks max_over_median "
        "zero_tail longest_zero ";
    struct expr_node node = {.op = OP_SERIES};
    TRY(lex_id(&p->lex, "the name of a series", &node.text));
    TRY(expect(p, ")"));
    TRY(expect(p, "."));
    const char *at = p->lex.at;
    TRY(lex_id(&p->lex, "a field of the series", &node.text2));
    size_t n = strlen(node.text2);
    const char *found = strstr(fields, node.text2);
    if (found == NULL || found[-1] != ' ' || found[n] != ' ') {
        return lex_fail(&p->lex, at, "a series has no field '%s'; it has:%s", node.text2, fields);
    }
    return add_node(p, node, ret_node);
}

/* True when "ID)" comes next: count(ID) counts events, any other count(…) counts indexes. */
static bool at_plain_id(const struct parser *p)
{
    const char *s = p->lex.at;
    while (*s == ' ') {
        s++;
    }
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return n != 0 && s[n] == ')';
}

static enum status parse_quantifier(struct parser *p, enum expr_op op, uint32_t *ret_node)
{
    if (op == OP_COUNT && at_plain_id(p)) {
        struct expr_node node = {.op = OP_EVENT_COUNT};
        TRY(lex_id(&p->lex, "a pattern id", &node.text));
        TRY(expect(p, ")"));
        return add_node(p, node, ret_node);
    }
    uint32_t child;
    p->quantifiers++;
    TRY(parse_or(p, &child));
    p->quantifiers--;
    TRY(expect(p, ")"));
    return add_node(p, (struct expr_node){.op = op, .first = child}, ret_node);
}

static enum status parse_arguments(struct parser *p, enum expr_op op, int count, uint32_t *ret_node)
{
    /* known() and its like ask about the name, not about one of several facts' values. */
    uint32_t left;
    const char *at = p->lex.at;
    TRY(parse_or(p, &left));
    uint32_t kind = p->nodes.items[left].op;
    if ((op == OP_ABSENT || op == OP_DENIED) && kind != OP_FACT) {
        return lex_fail(&p->lex, at, "a fact key is expected here");
    }
    if (count == 2) {
        uint32_t right;
        TRY(expect(p, ","));
        TRY(parse_or(p, &right));
        p->nodes.items[left].next = right;
    }
    TRY(expect(p, ")"));
    return add_node(p, (struct expr_node){.op = op, .first = left}, ret_node);
}

static enum status parse_call(struct parser *p, uint32_t *ret_node)
{
    static const struct {
        const char *name;
        enum expr_op op;
        int arguments;
    } calls[] = {
        {"known", OP_KNOWN, 1},   {"absent", OP_ABSENT, 1},     {"denied", OP_DENIED, 1},
        {"len", OP_LEN, 1},       {"major", OP_MAJOR, 1},       {"minor", OP_MINOR, 1},
        {"covers", OP_COVERS, 2}, {"gfx_covers", OP_COVERS, 2}, {"same_family", OP_SAME_FAMILY, 2},
        {"any", OP_ANY, 0},       {"all", OP_ALL, 0},           {"count", OP_COUNT, 0},
    };

    const char *at = p->lex.at;
    const char *name;
    TRY(lex_id(&p->lex, "a function", &name));
    TRY(expect(p, "("));
    if (strcmp(name, "event") == 0 || strcmp(name, "last") == 0) {
        return parse_event(p, name[0] == 'l', ret_node);
    }
    if (strcmp(name, "max") == 0 || strcmp(name, "min") == 0) {
        return parse_extreme(p, name[1] == 'a' ? OP_MAX : OP_MIN, ret_node);
    }
    if (strcmp(name, "before") == 0) {
        return parse_before(p, ret_node);
    }
    if (strcmp(name, "series") == 0) {
        return parse_series(p, ret_node);
    }
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (strcmp(name, calls[i].name) == 0) {
            return calls[i].arguments == 0
                       ? parse_quantifier(p, calls[i].op, ret_node)
                       : parse_arguments(p, calls[i].op, calls[i].arguments, ret_node);
        }
    }
    return lex_fail(&p->lex, at, "there is no function '%s'", name);
}

static enum status parse_list(struct parser *p, uint32_t *ret_node)
{
    uint32_t first = 0;
    uint32_t last = 0;
    while (!lex_sign(&p->lex, "]")) {
        if (first != 0) {
            TRY(expect(p, ","));
        }
        uint32_t item;
        TRY(parse_or(p, &item));
        uint32_t op = p->nodes.items[item].op;
        if (op > OP_STRING) {
            return lex_fail(&p->lex, p->lex.at, "a list holds only texts, numbers, true and false");
        }
        if (first == 0) {
            first = item;
        } else {
            p->nodes.items[last].next = item;
        }
        last = item;
    }
    return add_node(p, (struct expr_node){.op = OP_LIST, .first = first}, ret_node);
}

static enum status parse_number(struct parser *p, uint32_t *ret_node)
{
    struct lex_number number;
    TRY(lex_number(&p->lex, &number));
    struct expr_node node = {.op = number.is_real ? OP_REAL : OP_INT};
    if (number.is_real) {
        node.real = number.real;
    } else {
        node.integer = number.integer;
    }
    return add_node(p, node, ret_node);
}

static enum status parse_primary(struct parser *p, uint32_t *ret_node)
{
    struct lexer *l = &p->lex;
    if (lex_sign(l, "(")) {
        TRY(parse_or(p, ret_node));
        return expect(p, ")");
    }
    if (lex_sign(l, "[")) {
        return parse_list(p, ret_node);
    }
    if (*l->at == '"' || *l->at == '\'') {
        struct expr_node node = {.op = OP_STRING};
        TRY(lex_string(l, &node.text));
        return add_node(p, node, ret_node);
    }
    if (*l->at >= '0' && *l->at <= '9') {
        return parse_number(p, ret_node);
    }
    if (lex_word(l, "true")) {
        return add_node(p, (struct expr_node){.op = OP_BOOL, .integer = 1}, ret_node);
    }
    if (lex_word(l, "false")) {
        return add_node(p, (struct expr_node){.op = OP_BOOL}, ret_node);
    }
    if (lex_word(l, "null")) {
        return add_node(p, (struct expr_node){.op = OP_NULL}, ret_node);
    }
    if (lex_at_call(l) && strncmp(l->at, "fact(", 5) != 0) {
        return parse_call(p, ret_node);
    }
    return parse_key(p, ret_node);
}

static enum status parse_unary(struct parser *p, uint32_t *ret_node)
{
    if (++p->depth > EXPR_MAX_DEPTH) {
        return lex_fail(&p->lex, p->lex.at, "nested deeper than %d levels", EXPR_MAX_DEPTH);
    }
    if (lex_sign(&p->lex, "-")) {
        uint32_t child;
        TRY(parse_unary(p, &child));
        struct expr_node *n = &p->nodes.items[child];
        p->depth--;
        if (n->op == OP_INT && n->integer != INT64_MIN) {
            n->integer = -n->integer;
            *ret_node = child;
            return ST_OK;
        }
        return add_node(p, (struct expr_node){.op = OP_NEG, .first = child}, ret_node);
    }
    TRY(parse_primary(p, ret_node));
    p->depth--;
    return ST_OK;
}

static enum status parse_product(struct parser *p, uint32_t *ret_node)
{
    uint32_t left;
    TRY(parse_unary(p, &left));
    for (;;) {
        enum expr_op op = lex_sign(&p->lex, "*")   ? OP_MUL
                          : lex_sign(&p->lex, "/") ? OP_DIV
                                                   : OP_NULL;
        if (op == OP_NULL) {
            *ret_node = left;
            return ST_OK;
        }
        uint32_t right;
        TRY(parse_unary(p, &right));
        TRY(add_pair(p, op, left, right, &left));
    }
}

static enum status parse_sum(struct parser *p, uint32_t *ret_node)
{
    uint32_t left;
    TRY(parse_product(p, &left));
    for (;;) {
        enum expr_op op = lex_sign(&p->lex, "+")   ? OP_ADD
                          : lex_sign(&p->lex, "-") ? OP_SUB
                                                   : OP_NULL;
        if (op == OP_NULL) {
            *ret_node = left;
            return ST_OK;
        }
        uint32_t right;
        TRY(parse_product(p, &right));
        TRY(add_pair(p, op, left, right, &left));
    }
}

static enum expr_op take_comparison(struct parser *p, bool *ret_negated)
{
    static const struct {
        const char *sign;
        enum expr_op op;
    } signs[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE},
                 {">=", OP_GE}, {"<", OP_LT},  {">", OP_GT}};

    *ret_negated = false;
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        if (lex_sign(&p->lex, signs[i].sign)) {
            return signs[i].op;
        }
    }
    const char *before = p->lex.at;
    *ret_negated = lex_word(&p->lex, "not");
    if (lex_word(&p->lex, "in")) {
        return OP_IN;
    }
    if (lex_word(&p->lex, "matches")) {
        return OP_MATCHES;
    }
    p->lex.at = before;
    return OP_NULL;
}

static enum status check_regex(struct parser *p, uint32_t node, const char *at)
{
    const struct expr_node *n = &p->nodes.items[node];
    if (n->op != OP_STRING) {
        return lex_fail(&p->lex, at, "'matches' takes a regular expression in quotes");
    }
    struct err why = {0};
    if (regex_check(n->text, &why) != ST_OK) {
        return lex_fail(&p->lex, at, "bad regular expression: %s", why.text);
    }
    return ST_OK;
}

static enum status parse_compare(struct parser *p, uint32_t *ret_node)
{
    uint32_t left;
    TRY(parse_sum(p, &left));
    bool negated;
    enum expr_op op = take_comparison(p, &negated);
    if (op == OP_NULL) {
        if (lex_sign(&p->lex, "=")) {
            return lex_fail(&p->lex, p->lex.at - 1, "'=' compares nothing; write '=='");
        }
        *ret_node = left;
        return ST_OK;
    }
    lex_space(&p->lex);
    const char *at = p->lex.at;
    uint32_t right;
    TRY(parse_sum(p, &right));
    if (op == OP_MATCHES) {
        TRY(check_regex(p, right, at));
    }
    TRY(add_pair(p, op, left, right, ret_node));
    if (negated) {
        TRY(add_node(p, (struct expr_node){.op = OP_NOT, .first = *ret_node}, ret_node));
    }
    at = p->lex.at;
    if (take_comparison(p, &negated) != OP_NULL) {
        return lex_fail(&p->lex, at, "comparisons do not chain; join them with 'and'");
    }
    return ST_OK;
}

static enum status parse_not(struct parser *p, uint32_t *ret_node)
{
    if (!lex_word(&p->lex, "not")) {
        return parse_compare(p, ret_node);
    }
    if (++p->depth > EXPR_MAX_DEPTH) {
        return lex_fail(&p->lex, p->lex.at, "nested deeper than %d levels", EXPR_MAX_DEPTH);
    }
    uint32_t child;
    TRY(parse_not(p, &child));
    p->depth--;
    return add_node(p, (struct expr_node){.op = OP_NOT, .first = child}, ret_node);
}

static enum status parse_and(struct parser *p, uint32_t *ret_node)
{
    uint32_t left;
    TRY(parse_not(p, &left));
    while (lex_word(&p->lex, "and")) {
        uint32_t right;
        TRY(parse_not(p, &right));
        TRY(add_pair(p, OP_AND, left, right, &left));
    }
    *ret_node = left;
    return ST_OK;
}

static enum status parse_or(struct parser *p, uint32_t *ret_node)
{
    if (++p->depth > EXPR_MAX_DEPTH) {
        return lex_fail(&p->lex, p->lex.at, "nested deeper than %d levels", EXPR_MAX_DEPTH);
    }
    uint32_t left;
    TRY(parse_and(p, &left));
    while (lex_word(&p->lex, "or")) {
        uint32_t right;
        TRY(parse_and(p, &right));
        TRY(add_pair(p, OP_OR, left, right, &left));
    }
    p->depth--;
    *ret_node = left;
    return ST_OK;
}

enum status expr_compile(struct arena *a, const char *text, const char *where,
                         const struct expr **ret_expr, struct err *err)
{
    struct parser p = {.lex = {.arena = a, .text = text, .at = text, .where = where, .err = err}};
    if (strlen(text) > EXPR_MAX_TEXT) {
        return err_set(err, ST_LIMIT, "%s: the condition is longer than %d characters", where,
                       EXPR_MAX_TEXT);
    }
    *VEC_PUSH(a, &p.nodes) = (struct expr_node){0};
    uint32_t root;
    TRY(parse_or(&p, &root));
    lex_space(&p.lex);
    if (*p.lex.at != '\0') {
        return lex_fail(&p.lex, p.lex.at,
                        "the condition should end here, or go on with a comparison, "
                        "'and' or 'or'");
    }
    struct expr *e = arena_alloc(a, sizeof *e);
    *e = (struct expr){.nodes = p.nodes.items,
                       .count = (uint32_t)p.nodes.count,
                       .root = root,
                       .source = arena_strdup(a, text)};
    *ret_expr = e;
    return ST_OK;
}
