// SPDX-License-Identifier: Apache-2.0
/*
 * Reading the files of a knowledge folder. A loader collects rows and problems; a problem never
 * stops it, so that an author sees all of them at once.
 */
#ifndef ASSAY_KNOWLEDGE_LOAD_H
#define ASSAY_KNOWLEDGE_LOAD_H

#include "base/arena.h"
#include "base/fs.h"
#include "base/map.h"
#include "base/tree.h"
#include "base/vec.h"

#include "knowledge/expr.h"
#include "knowledge/knowledge.h"

struct loader {
    struct arena *arena;
    const char *dir;
    struct text_list *problems;
    struct map *pattern_ids; /* each: name -> where it was defined */
    struct map *cause_slugs;
    struct map *rule_ids;
    struct map *switch_names;
    struct map *lint_names;
    struct map *graph_ids;
    VEC_OF(struct pattern) patterns;
    VEC_OF(struct cause) causes;
    VEC_OF(struct rule) rules;
    VEC_OF(struct known_switch) switches;
    VEC_OF(struct fact_key) fact_keys;
    VEC_OF(struct taxon) taxons;
    VEC_OF(struct translation) translations;
    VEC_OF(struct lint_key) lint_keys;
    VEC_OF(struct graph_node) graph_nodes;
};

/* ---- load.c ---- */

/* "<file>:<line>: <message>"; beyond KNOWLEDGE_MAX_PROBLEMS they are dropped. */
void load_problem(struct loader *l, const char *where, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Notes a name; false, with a problem, when it was there already. */
bool load_unique(struct loader *l, struct map *names, const char *what, const char *name,
                 const char *where);

/* ---- one file each; `file` is the name under the folder, `root` its document ---- */

void load_patterns(struct loader *l, const char *file, const struct tree *root);
void load_causes(struct loader *l, const char *file, const struct tree *root);
void load_rules(struct loader *l, const char *file, const struct tree *root);
void load_switches(struct loader *l, const char *file, const struct tree *root);
void load_lint(struct loader *l, const char *file, const struct tree *root);
void load_graph(struct loader *l, const char *file, const struct tree *root);
void load_texts(struct loader *l, const char *file, const struct tree *root);
void load_fact_keys(struct loader *l, const char *file, struct str text);
void load_taxonomy(struct loader *l, const char *file, struct str text);

/* ---- check.c: what can be said only when everything is there ---- */

void load_check_references(struct loader *l, const struct knowledge *k);

/* ---- load_fields.c: reading one map of a document ---- */

/* The list under `key` of the document, or NULL (with a problem when it is something else). Keys
 * beside `key` and `also` (may be NULL) are problems. */
const struct tree *load_list(struct loader *l, const char *file, const struct tree *root,
                             const char *key, const char *also);

/* "file:line" of a node. */
const char *load_where(struct loader *l, const char *file, const struct tree *node);

/* False, with a problem, unless the node is a map; unknown keys are problems too. */
bool load_keys(struct loader *l, const char *file, const struct tree *node,
               const char *const *allowed, size_t allowed_count);

/* Text of a field; NULL when it is missing, with a problem if it is required. */
const char *load_text(struct loader *l, const char *file, const struct tree *map, const char *key,
                      bool required);

/* A list of texts; one scalar counts as a list of one. */
struct text_list load_text_list(struct loader *l, const char *file, const struct tree *map,
                                const char *key);

long load_int(struct loader *l, const char *file, const struct tree *map, const char *key, long low,
              long high, long fallback);
bool load_bool(struct loader *l, const char *file, const struct tree *map, const char *key);

/* Index of the field's text among `names`, `fallback` when it is missing, -1 with a problem when it
 * is none of them. */
int load_choice(struct loader *l, const char *file, const struct tree *map, const char *key,
                const char *const *names, size_t count, int fallback);

/* A compiled condition; NULL when it is missing or does not compile. */
const struct expr *load_expr(struct loader *l, const char *file, const struct tree *map,
                             const char *key, bool required);

/* Small letters, digits and dashes, beginning with a letter or digit. */
bool load_is_kebab(const char *name);

/* ---- translate.c ---- */

/* Puts the texts of a language over the English ones. */
void knowledge_translate(struct knowledge *k, struct arena *a, const char *language);

/* True when the key of a translation names a text that exists, with as many items. */
bool knowledge_has_text(const struct knowledge *k, const char *key, size_t count);

#endif
