// SPDX-License-Identifier: Apache-2.0
/*
 * One description serves both directions: each code_… function names the fields of a struct once, and
 * the codec writes or reads them. Layout: head (magic, version, offset of the pool), tables, pool,
 * scanner databases.
 */
#include "knowledge/blob.h"

#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "knowledge/expr_node.h"
#include "knowledge/load.h"

enum {
    BLOB_VERSION = 3,
    MAX_ROWS = 100000,
    MAX_BYTES = 256 << 20
};

static const char magic[8] = "assayKN";

struct codec {
    struct arena *arena;
    bool writing;
    /* writing */
    struct strbuf out;
    struct strbuf pool;
    struct map *known; /* text -> its offset in the pool + 1 */
    /* reading */
    struct str in;
    size_t at;
    struct str pool_in;
    bool broken;
};

static void code_u32(struct codec *c, uint32_t *v)
{
    if (c->writing) {
        strbuf_add(&c->out, (struct str){.p = (const char *)v, .n = sizeof *v});
        return;
    }
    if (c->in.n - c->at < sizeof *v) {
        c->broken = true;
        *v = 0;
        return;
    }
    memcpy(v, c->in.p + c->at, sizeof *v);
    c->at += sizeof *v;
}

static void code_u64(struct codec *c, uint64_t *v)
{
    uint32_t low = (uint32_t)*v;
    uint32_t high = (uint32_t)(*v >> 32);
    code_u32(c, &low);
    code_u32(c, &high);
    *v = (uint64_t)high << 32 | low;
}

static void code_int(struct codec *c, int *v)
{
    uint32_t u = (uint32_t)*v;
    code_u32(c, &u);
    *v = (int)u;
}

static void code_bool(struct codec *c, bool *v)
{
    uint32_t u = *v;
    code_u32(c, &u);
    *v = u != 0;
}

/* Offset of a text in the pool; 0 is "no text". Equal texts are stored once. */
static uint32_t pool_offset(struct codec *c, const char *text)
{
    if (text == NULL) {
        return 0;
    }
    uintptr_t found = (uintptr_t)map_get(c->known, str_of(text));
    if (found == 0) {
        found = c->pool.n;
        strbuf_addz(&c->pool, text);
        strbuf_addc(&c->pool, '\0');
        map_put(c->known, str_of(text), (void *)found);
    }
    return (uint32_t)found;
}

static void code_text(struct codec *c, const char **text)
{
    uint32_t offset = c->writing ? pool_offset(c, *text) : 0;
    code_u32(c, &offset);
    if (c->writing) {
        return;
    }
    if (offset >= c->pool_in.n) { /* the pool ends with a NUL: any offset inside is a text */
        c->broken = true;
        offset = 0;
    }
    *text = offset != 0 ? c->pool_in.p + offset : NULL;
}

/* A text that a sound block never leaves out. */
static void code_need(struct codec *c, const char **text)
{
    code_text(c, text);
    if (*text == NULL) {
        c->broken = c->broken || !c->writing;
        *text = c->writing ? NULL : "";
    }
}

/* Number of rows of a table; reading also makes room for them. */
static void *code_rows(struct codec *c, void *rows, size_t *count, size_t size)
{
    uint32_t n = (uint32_t)*count;
    code_u32(c, &n);
    if (c->writing) {
        return rows;
    }
    if (n > MAX_ROWS || n > (c->in.n - c->at) / 4) {
        c->broken = true;
        n = 0;
    }
    *count = n;
    return n != 0 ? arena_array(c->arena, n, size) : NULL;
}

static void code_texts(struct codec *c, struct text_list *list)
{
    list->items = code_rows(c, list->items, &list->count, sizeof *list->items);
    for (size_t i = 0; i < list->count; i++) {
        code_need(c, &list->items[i]);
    }
}

/* How many children and texts an operator has; -1: any number of children. */
static void shape_of(uint32_t op, int *ret_children, int *ret_texts)
{
    static const struct {
        signed char children;
        signed char texts;
    } shapes[OP_OP_COUNT] = {
        [OP_STRING] = {0, 1}, [OP_LIST] = {-1, 0},       [OP_FACT] = {0, 1},
        [OP_RUN] = {0, 1},    [OP_SERIES] = {0, 2},      [OP_EVENT] = {0, 1},
        [OP_FIRST] = {0, 2},  [OP_EVENT_COUNT] = {0, 1}, [OP_LAST] = {0, 2},
        [OP_MAX] = {0, 2},    [OP_MIN] = {0, 2},         [OP_BEFORE] = {0, 2},
        [OP_KNOWN] = {1, 0},  [OP_ABSENT] = {1, 0},      [OP_DENIED] = {1, 0},
        [OP_NOT] = {1, 0},    [OP_AND] = {2, 0},         [OP_OR] = {2, 0},
        [OP_EQ] = {2, 0},     [OP_NE] = {2, 0},          [OP_LT] = {2, 0},
        [OP_LE] = {2, 0},     [OP_GT] = {2, 0},          [OP_GE] = {2, 0},
        [OP_IN] = {2, 0},     [OP_MATCHES] = {2, 0},     [OP_ADD] = {2, 0},
        [OP_SUB] = {2, 0},    [OP_MUL] = {2, 0},         [OP_DIV] = {2, 0},
        [OP_NEG] = {1, 0},    [OP_ANY] = {1, 0},         [OP_ALL] = {1, 0},
        [OP_COUNT] = {1, 0},  [OP_COVERS] = {2, 0},      [OP_SAME_FAMILY] = {2, 0},
        [OP_LEN] = {1, 0},    [OP_MAJOR] = {1, 0},       [OP_MINOR] = {1, 0},
    };

    *ret_children = shapes[op].children;
    *ret_texts = shapes[op].texts;
}

/* Children stand before their parent and siblings in order, so that no walk can run in a circle. */
static bool node_is_sound(const struct expr_node *nodes, uint32_t index)
{
    const struct expr_node *n = &nodes[index];
    if (n->op >= OP_OP_COUNT) {
        return false;
    }
    int children;
    int texts;
    shape_of(n->op, &children, &texts);
    int count = 0;
    uint32_t last = 0;
    for (uint32_t c = n->first; c != 0; c = nodes[c].next) {
        if (c <= last || c >= index) {
            return false;
        }
        last = c;
        count++;
    }
    bool regex = n->op != OP_MATCHES || (last != 0 && nodes[last].op == OP_STRING);
    return (children < 0 || count == children) && (texts < 1 || n->text != NULL) &&
           (texts < 2 || n->text2 != NULL) && regex;
}

static bool nodes_are_sound(const struct expr_node *nodes, size_t count, uint32_t root)
{
    for (uint32_t i = 1; i < count; i++) {
        if (!node_is_sound(nodes, i)) {
            return false;
        }
    }
    return root != 0 && root < count && count <= EXPR_MAX_NODES;
}

static void code_node(struct codec *c, struct expr_node *n)
{
    uint64_t bits = (uint64_t)n->integer;
    code_u32(c, &n->op);
    code_u32(c, &n->first);
    code_u32(c, &n->next);
    code_u64(c, &bits);
    n->integer = (int64_t)bits;
    code_text(c, &n->text);
    code_text(c, &n->text2);
}

static void code_expr(struct codec *c, const struct expr **ret_expr)
{
    bool present = c->writing && *ret_expr != NULL;
    code_bool(c, &present);
    if (!present) {
        *ret_expr = c->writing ? *ret_expr : NULL;
        return;
    }
    struct expr e = c->writing ? **ret_expr : (struct expr){0};
    size_t count = e.count;
    struct expr_node *nodes = code_rows(c, (void *)e.nodes, &count, sizeof *nodes);
    for (size_t i = 0; i < count; i++) {
        struct expr_node node = c->writing ? nodes[i] : (struct expr_node){0};
        code_node(c, &node);
        if (!c->writing) {
            nodes[i] = node;
        }
    }
    code_u32(c, &e.root);
    code_need(c, &e.source);
    if (c->writing) {
        return;
    }
    if (c->broken || !nodes_are_sound(nodes, count, e.root)) {
        c->broken = true;
        return;
    }
    struct expr *made = arena_alloc(c->arena, sizeof *made);
    *made = (struct expr){
        .nodes = nodes, .count = (uint32_t)count, .root = e.root, .source = e.source};
    *ret_expr = made;
}

static void code_clauses(struct codec *c, struct clause_list *list)
{
    list->items = code_rows(c, list->items, &list->count, sizeof *list->items);
    for (size_t i = 0; i < list->count; i++) {
        struct clause *x = &list->items[i];
        code_expr(c, &x->when);
        code_int(c, &x->weight);
        code_bool(c, &x->with_event);
        code_text(c, &x->text);
        code_text(c, &x->where);
    }
}

static void code_pattern(struct codec *c, struct pattern *p)
{
    uint32_t kind = p->kind;
    uint32_t logs = p->logs;
    code_need(c, &p->id);
    code_need(c, &p->regex);
    code_text(c, &p->capture);
    code_u32(c, &kind);
    code_u32(c, &logs);
    code_need(c, &p->where);
    c->broken = c->broken || kind >= PATTERN_KIND_COUNT;
    p->kind = (enum pattern_kind)kind;
    p->logs = logs;
}

static void code_cause(struct codec *c, struct cause *x)
{
    code_need(c, &x->class_slug);
    code_need(c, &x->layer);
    code_need(c, &x->title);
    code_text(c, &x->claim);
    code_clauses(c, &x->because);
    code_clauses(c, &x->against);
    code_expr(c, &x->require);
    code_texts(c, &x->explains);
    code_clauses(c, &x->remedy);
    code_clauses(c, &x->settle);
    code_texts(c, &x->links);
    code_text(c, &x->where);
}

static void code_rule(struct codec *c, struct rule *r)
{
    uint32_t severity = r->severity;
    code_need(c, &r->id);
    code_need(c, &r->stage);
    code_u32(c, &severity);
    code_text(c, &r->each);
    code_expr(c, &r->when);
    c->broken = c->broken || r->when == NULL;
    code_texts(c, &r->needs);
    code_need(c, &r->title);
    code_text(c, &r->claim);
    code_texts(c, &r->evidence);
    code_texts(c, &r->remedy);
    code_texts(c, &r->links);
    code_int(c, &r->weight);
    code_text(c, &r->where);
    c->broken = c->broken || severity >= SEVERITY_COUNT;
    r->severity = (enum severity)severity;
}

static void code_switch(struct codec *c, struct known_switch *s)
{
    uint32_t effect = s->effect;
    code_need(c, &s->name);
    code_texts(c, &s->read_by);
    code_u32(c, &effect);
    code_need(c, &s->says);
    code_text(c, &s->instead);
    code_text(c, &s->since);
    code_text(c, &s->until);
    code_text(c, &s->source);
    c->broken = c->broken || effect > SWITCH_BUILD_TIME;
    s->effect = (enum switch_effect)effect;
}

static void code_fact_key(struct codec *c, struct fact_key *f)
{
    code_need(c, &f->pattern);
    code_need(c, &f->type);
    code_need(c, &f->unit);
    code_need(c, &f->where);
    code_need(c, &f->meaning);
}

static void code_taxon(struct codec *c, struct taxon *t)
{
    code_need(c, &t->slug);
    code_need(c, &t->layer);
    code_need(c, &t->definition);
    code_need(c, &t->mistaken_for);
    code_need(c, &t->standard_fix);
}

static void code_translation(struct codec *c, struct translation *t)
{
    code_need(c, &t->language);
    code_need(c, &t->key);
    code_texts(c, &t->texts);
}

static void code_lint_key(struct codec *c, struct lint_key *x)
{
    uint32_t type = x->type;
    uint32_t severity = x->severity;
    code_need(c, &x->program);
    code_need(c, &x->key);
    code_u32(c, &type);
    code_text(c, &x->fallback);
    code_texts(c, &x->values);
    code_text(c, &x->instead);
    code_text(c, &x->says);
    code_u32(c, &severity);
    code_bool(c, &x->near_only);
    c->broken = c->broken || type >= LINT_TYPE_COUNT || severity >= SEVERITY_COUNT;
    x->type = (enum lint_type)type;
    x->severity = (enum severity)severity;
}

static void code_graph_node(struct codec *c, struct graph_node *n)
{
    code_need(c, &n->id);
    code_need(c, &n->title);
    code_expr(c, &n->when);
    code_text(c, &n->yes);
    code_text(c, &n->no);
    code_text(c, &n->where);
}

/* A table of struct knowledge with its row function. */
#define CODE_TABLE(c, k, table, row)                                                \
 do {                                                                               \
  (k)->table = code_rows((c), (k)->table, &(k)->table##_count, sizeof *(k)->table); \
  for (size_t i_ = 0; i_ < (k)->table##_count; i_++) {                              \
   row((c), &(k)->table[i_]);                                                       \
  }                                                                                 \
 } while (0)

/* Examples of patterns are for the test suite and stay out of the program. */
static void code_knowledge(struct codec *c, struct knowledge *k)
{
    CODE_TABLE(c, k, patterns, code_pattern);
    CODE_TABLE(c, k, causes, code_cause);
    CODE_TABLE(c, k, rules, code_rule);
    CODE_TABLE(c, k, switches, code_switch);
    CODE_TABLE(c, k, fact_keys, code_fact_key);
    CODE_TABLE(c, k, taxons, code_taxon);
    CODE_TABLE(c, k, translations, code_translation);
    CODE_TABLE(c, k, lint_keys, code_lint_key);
    CODE_TABLE(c, k, graph_nodes, code_graph_node);
}

struct head {
    char magic[8];
    uint32_t version;
    uint32_t tables_size;
    uint32_t pool_size;
    uint32_t db_size[2];
    uint32_t unused;
};

static size_t padded(size_t n)
{
    return (n + 63) & ~(size_t)63; /* vectorscan wants its databases aligned */
}

static void pad(struct strbuf *out, size_t size)
{
    while (out->n < size) {
        strbuf_addc(out, '\0');
    }
}

struct str knowledge_blob_write(struct arena *a, const struct knowledge *k)
{
    struct codec c = {.arena = a, .writing = true, .known = map_new(a)};
    strbuf_init(&c.out, a, MAX_BYTES);
    strbuf_init(&c.pool, a, MAX_BYTES);
    strbuf_addc(&c.pool, '\0');
    struct knowledge copy = *k;
    code_knowledge(&c, &copy);
    struct head h = {.version = BLOB_VERSION,
                     .tables_size = (uint32_t)c.out.n,
                     .pool_size = (uint32_t)c.pool.n,
                     .db_size = {(uint32_t)k->scanner_db[0].size, (uint32_t)k->scanner_db[1].size}};
    memcpy(h.magic, magic, sizeof h.magic);
    struct strbuf blob;
    strbuf_init(&blob, a, MAX_BYTES);
    strbuf_add(&blob, (struct str){.p = (const char *)&h, .n = sizeof h});
    strbuf_add(&blob, strbuf_str(&c.out));
    strbuf_add(&blob, strbuf_str(&c.pool));
    for (size_t i = 0; i < ARRAY_LEN(k->scanner_db); i++) {
        pad(&blob, padded(blob.n));
        strbuf_add(&blob, (struct str){.p = k->scanner_db[i].bytes, .n = k->scanner_db[i].size});
    }
    return strbuf_str(&blob);
}

/* Cuts `size` bytes at *at; false when they are not there. */
static bool cut(struct str blob, size_t *at, size_t size, struct str *ret_part)
{
    if (*at > blob.n || size > blob.n - *at) {
        return false;
    }
    *ret_part = (struct str){.p = blob.p + *at, .n = size};
    *at += size;
    return true;
}

enum status knowledge_blob_read(struct arena *a, struct str blob, const char *language,
                                const struct knowledge **ret_knowledge, struct err *err)
{
    struct head h = {0};
    struct codec c = {.arena = a};
    struct str db[2];
    size_t at = sizeof h;
    if (blob.n < sizeof h) {
        return err_set(err, ST_FORMAT, "the compiled knowledge is shorter than its head");
    }
    memcpy(&h, blob.p, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != BLOB_VERSION) {
        return err_set(err, ST_FORMAT, "the compiled knowledge has another format");
    }
    bool whole = cut(blob, &at, h.tables_size, &c.in) && cut(blob, &at, h.pool_size, &c.pool_in);
    for (size_t i = 0; i < ARRAY_LEN(db) && whole; i++) {
        at = padded(at);
        whole = cut(blob, &at, h.db_size[i], &db[i]);
    }
    if (!whole || c.pool_in.n == 0 || c.pool_in.p[c.pool_in.n - 1] != '\0') {
        return err_set(err, ST_FORMAT, "the compiled knowledge is cut short");
    }
    struct knowledge *k = arena_alloc(a, sizeof *k);
    k->arena = a;
    code_knowledge(&c, k);
    if (c.broken) {
        return err_set(err, ST_FORMAT, "the compiled knowledge is damaged");
    }
    for (size_t i = 0; i < ARRAY_LEN(db); i++) {
        k->scanner_db[i].bytes = db[i].n != 0 ? db[i].p : NULL;
        k->scanner_db[i].size = db[i].n;
    }
    knowledge_translate(k, a, language);
    *ret_knowledge = k;
    return ST_OK;
}
