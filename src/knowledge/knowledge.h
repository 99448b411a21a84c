// SPDX-License-Identifier: Apache-2.0
/*
 * Knowledge as the program uses it: patterns, causes, rules, switches, fact keys, taxonomy, texts.
 * The file formats are documented in docs/knowledge.md. Everything is read-only after loading and
 * lives on the arena it was loaded with.
 */
#ifndef ASSAY_KNOWLEDGE_KNOWLEDGE_H
#define ASSAY_KNOWLEDGE_KNOWLEDGE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/finding.h"
#include "base/map.h"

struct expr; /* a compiled condition, see expr.h */

enum pattern_kind {
    PATTERN_FAULT = 0,
    PATTERN_CONSEQUENCE,
    PATTERN_SYMPTOM,
    PATTERN_CONTEXT,
    PATTERN_BENIGN,
    PATTERN_CLEAR,
    PATTERN_KIND_COUNT
};

/* Bits: which logs a pattern is scanned for in. */
enum log_kind {
    LOG_TRAIN = 1,
    LOG_KERNEL = 2,
    LOG_ANY = 3
};

struct pattern {
    const char *id;
    const char *regex;   /* vectorscan syntax */
    const char *capture; /* PCRE2 with named groups, or NULL */
    unsigned logs;       /* enum log_kind bits */
    enum pattern_kind kind;
    struct text_list examples;
    struct text_list negatives; /* "not" in the file */
    const char *where;          /* "patterns/rocr.yaml:12" */
};

struct clause {
    const struct expr *when;
    int weight;
    bool with_event;  /* counts only beside a clause that rests on an event */
    const char *text; /* may be NULL */
    const char *where;
};

struct clause_list {
    struct clause *items;
    size_t count;
    size_t capacity;
};

struct cause {
    const char *class_slug;
    const char *layer; /* from taxonomy.tsv */
    const char *title;
    const char *claim; /* may be NULL */
    struct clause_list because;
    struct clause_list against;
    const struct expr *require; /* NULL when there is no gate */
    struct text_list explains;  /* pattern ids */
    struct clause_list remedy;  /* weight unused; `when` may be NULL */
    struct clause_list settle;  /* likewise */
    struct text_list links;
    const char *where;
};

struct rule {
    const char *id;
    enum severity severity;
    const char *each; /* "gpu[*]", "lib.*" or NULL: `for:` in the file */
    const struct expr *when;
    struct text_list needs;
    const char *title;
    const char *claim;
    struct text_list evidence; /* fact keys, globs allowed */
    struct text_list remedy;
    struct text_list links;
    int weight;        /* points off the health score */
    const char *stage; /* "host", "stack" or "config" (only with a configuration) */
    const char *where;
};

enum switch_effect {
    SWITCH_REAL = 0,
    SWITCH_NONE,
    SWITCH_DEBUG_ONLY,
    SWITCH_OBSOLETE,
    SWITCH_BUILD_TIME /* read while something is compiled, never by what is installed */
};

struct known_switch {
    const char *name;
    struct text_list read_by; /* library base names without lib and .so */
    enum switch_effect effect;
    const char *says;
    const char *instead; /* may be NULL */
    const char *since;   /* may be NULL */
    const char *until;   /* may be NULL */
    const char *source;
};

struct fact_key {
    const char *pattern; /* "gpu[].gfx", "lib.<name>.version" */
    const char *type;    /* string, version, int, bool, list */
    const char *unit;
    const char *where;
    const char *meaning;
};

enum lint_type {
    LINT_ANY = 0,
    LINT_BOOL,
    LINT_INT,
    LINT_REAL,
    LINT_STRING,
    LINT_LIST,
    LINT_WRONG_NAME, /* written by many, known to no version */
    LINT_TYPE_COUNT
};

/* A key of a training configuration. The key "*" says what the program does with unknown keys. */
struct lint_key {
    const char *program; /* llamafactory, transformers, deepspeed, accelerate */
    const char *key;     /* dotted; '*' stands for any text */
    enum lint_type type;
    const char *fallback;    /* default; NULL when there is none */
    struct text_list values; /* allowed ones; empty: any */
    const char *instead;     /* of a wrong name: what to write */
    const char *says;        /* may be NULL */
    enum severity severity;  /* of a wrong name, of an unknown key */
    bool near_only;          /* unknown keys count only when a known one is near */
};

/* A step of doctor's decision path: a question with two ways on, or an end (when is NULL). */
struct graph_node {
    const char *id;
    const char *title;
    const struct expr *when;
    const char *yes; /* id of a later step */
    const char *no;
    const char *where;
};

/* One translated text: "causes.shm-too-small.title"; lists have one item per original item. */
struct translation {
    const char *language; /* file name under knowledge/texts/ without .yaml */
    const char *key;
    struct text_list texts;
};

struct taxon {
    const char *slug;
    const char *layer;
    const char *definition;
    const char *mistaken_for;
    const char *standard_fix;
};

#define KNOWLEDGE_TABLE(type, name) \
 struct type *name;                 \
 size_t name##_count

struct knowledge {
    struct arena *arena;
    KNOWLEDGE_TABLE(pattern, patterns);
    KNOWLEDGE_TABLE(cause, causes);
    KNOWLEDGE_TABLE(rule, rules);
    KNOWLEDGE_TABLE(known_switch, switches);
    KNOWLEDGE_TABLE(fact_key, fact_keys);
    KNOWLEDGE_TABLE(taxon, taxons);
    KNOWLEDGE_TABLE(translation, translations);
    KNOWLEDGE_TABLE(lint_key, lint_keys);
    KNOWLEDGE_TABLE(graph_node, graph_nodes);

    /* Scanner databases made at build time, for the patterns in this order; empty when the
     * knowledge was read from a folder (the scanner then compiles the patterns itself). */
    struct {
        const void *bytes;
        size_t size;
    } scanner_db[2];
};

enum {
    KNOWLEDGE_MAX_PROBLEMS = 500
};

/* The knowledge compiled into the program. Cheap: no parsing of YAML. `language` may be NULL. */
enum status knowledge_builtin(struct arena *a, const char *language,
                              const struct knowledge **ret_knowledge, struct err *err) MUST_USE;

/* The same from a folder laid out as knowledge/ in the source tree (--knowledge DIR). */
enum status knowledge_from_dir(struct arena *a, const char *dir, const char *language,
                               const struct knowledge **ret_knowledge, struct err *err) MUST_USE;

/* `k` with the scanner databases that are compiled in: they serve while the patterns of a folder
 * are the built-in ones, which spares seconds of compiling. The scanner checks that. */
const struct knowledge *knowledge_with_builtin_scanner(struct arena *a,
                                                       const struct knowledge *k) MUST_USE;

/*
 * knowledge_from_dir() for those who write knowledge: every problem is appended to `problems` as one sentence
 * with file and line, and what is in order is returned even when there are some. Fails only when
 * the folder itself cannot be read.
 */
enum status knowledge_check_dir(struct arena *a, const char *dir,
                                const struct knowledge **ret_knowledge, struct text_list *problems,
                                struct err *err) MUST_USE;

/* True when there are texts in that language ("zh", "zh_CN"); English always is there. */
bool knowledge_speaks(const struct knowledge *k, const char *language);

/* The row whose pattern matches a concrete key ("gpu[3].gfx" -> "gpu[].gfx"), or NULL. */
const struct fact_key *knowledge_fact_key(const struct knowledge *k, const char *key);

const struct taxon *knowledge_taxon(const struct knowledge *k, const char *slug);

#endif
