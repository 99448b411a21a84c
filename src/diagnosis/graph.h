// SPDX-License-Identifier: Apache-2.0
/*
 * Doctor's decision path as a picture: the steps of knowledge/graph.yaml, asked of the facts from the
 * first one on. A true condition goes on by "yes", a false one by "no", an unknown one by "yes" too,
 * drawn dashed: what could not be told does not end the path, and is marked as unknown.
 */
#ifndef ASSAY_DIAGNOSIS_GRAPH_H
#define ASSAY_DIAGNOSIS_GRAPH_H

#include "base/str.h"

#include "facts/facts.h"
#include "knowledge/expr.h"
#include "knowledge/knowledge.h"

struct graph_step {
    const struct graph_node *node;
    const char *title; /* filled in */
    bool on_path;
    enum truth answer; /* of the condition; TRUTH_TRUE for ends */
};

struct graph {
    struct graph_step *items; /* in the order of the file */
    size_t count;
    const struct graph_step *end; /* where the path ended; NULL without steps */
    bool doubtful;                /* an unknown answer lies on the path */
};

void graph_walk(struct arena *arena, const struct knowledge *k, const struct facts *facts,
                struct graph *ret_graph);

/* Mermaid ("flowchart TD") and Graphviz texts. Titles are escaped for their format. */
void graph_mermaid(const struct graph *g, struct strbuf *out);
void graph_dot(const struct graph *g, struct strbuf *out);

#endif
