// SPDX-License-Identifier: Apache-2.0
/* Walks knowledge/graph.yaml over facts and draws it. */
#include "diagnosis/graph.h"

#include <string.h>

#include "diagnosis/scope.h"

/* Index of a step by id; the loader made sure that it exists and stands below its caller. */
static size_t index_of(const struct graph *g, const char *id)
{
    for (size_t i = 0; i < g->count; i++) {
        if (strcmp(g->items[i].node->id, id) == 0) {
            return i;
        }
    }
    return g->count;
}

/* Where the path goes from a step; count at an end. Never backwards, so that it always ends. */
static size_t next_of(const struct graph *g, size_t i)
{
    const struct graph_step *s = &g->items[i];
    if (s->node->when == NULL) {
        return g->count;
    }
    size_t next = index_of(g, s->answer == TRUTH_FALSE ? s->node->no : s->node->yes);
    return next > i ? next : g->count;
}

void graph_walk(struct arena *arena, const struct knowledge *k, const struct facts *facts,
                struct graph *ret_graph)
{
    *ret_graph = (struct graph){.count = k->graph_nodes_count};
    ret_graph->items = arena_array(arena, k->graph_nodes_count + 1, sizeof *ret_graph->items);
    struct scope *scope = arena_alloc(arena, sizeof *scope);
    scope_init(scope, arena, k, facts, NULL);
    for (size_t i = 0; i < ret_graph->count; i++) {
        struct graph_step *s = &ret_graph->items[i];
        s->node = &k->graph_nodes[i];
        s->title = scope_fill(scope, s->node->title);
        s->answer = s->node->when != NULL ? scope_truth(scope, s->node->when) : TRUTH_TRUE;
    }
    for (size_t i = 0; i < ret_graph->count; i = next_of(ret_graph, i)) {
        struct graph_step *s = &ret_graph->items[i];
        s->on_path = true;
        ret_graph->end = s;
        ret_graph->doubtful |= s->answer == TRUTH_UNKNOWN;
    }
    scope_done(scope);
}

/* Is this edge the one that the path took? */
static bool taken(const struct graph_step *s, bool yes)
{
    return s->on_path && (s->answer != TRUTH_FALSE) == yes;
}

/* Text inside double quotes. Mermaid knows entities only, Graphviz backslashes only. */
static void quoted(struct strbuf *out, const char *text, bool mermaid)
{
    strbuf_addc(out, '"');
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f) {
            strbuf_addc(out, ' ');
        } else if (mermaid && strchr("\"#<>&`", c) != NULL) {
            strbuf_fmt(out, "#%d;", c);
        } else if (!mermaid && (c == '"' || c == '\\')) {
            strbuf_fmt(out, "\\%c", c);
        } else {
            strbuf_addc(out, (char)c);
        }
    }
    strbuf_addc(out, '"');
}

/* Ids with dashes are no names in either format. */
static void name(struct strbuf *out, const char *id)
{
    strbuf_addz(out, "n_");
    for (const char *p = id; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9');
        strbuf_addc(out, plain ? *p : '_');
    }
}

static const char *class_of(const struct graph_step *s)
{
    if (!s->on_path) {
        return "other";
    }
    return s->answer == TRUTH_UNKNOWN ? "unknown" : "taken";
}

static void mermaid_edge(const struct graph_step *s, bool yes, struct strbuf *out)
{
    bool unknown = s->answer == TRUTH_UNKNOWN && taken(s, yes);
    const char *label = unknown ? "unknown" : yes ? "yes" : "no";
    const char *arrow = unknown ? "-.->" : taken(s, yes) ? "==>" : "-->";
    strbuf_addz(out, "  ");
    name(out, s->node->id);
    strbuf_fmt(out, " %s|%s| ", arrow, label);
    name(out, yes ? s->node->yes : s->node->no);
    strbuf_addc(out, '\n');
}

void graph_mermaid(const struct graph *g, struct strbuf *out)
{
    strbuf_addz(out, "flowchart TD\n");
    for (size_t i = 0; i < g->count; i++) {
        const struct graph_step *s = &g->items[i];
        strbuf_addz(out, "  ");
        name(out, s->node->id);
        strbuf_addz(out, s->node->when != NULL ? "{" : "[");
        quoted(out, s->title, true);
        strbuf_addz(out, s->node->when != NULL ? "}" : "]");
        strbuf_fmt(out, ":::%s\n", class_of(s));
    }
    for (size_t i = 0; i < g->count; i++) {
        if (g->items[i].node->when != NULL) {
            mermaid_edge(&g->items[i], true, out);
            mermaid_edge(&g->items[i], false, out);
        }
    }
    strbuf_addz(out, "  classDef taken fill:#d7ecff,stroke:#0b5cad,stroke-width:3px,color:#000\n"
                     "  classDef unknown fill:#fff3c4,stroke:#8a6d00,stroke-dasharray:5 4,"
                     "stroke-width:3px,color:#000\n"
                     "  classDef other fill:#f4f4f4,stroke:#999,color:#555\n");
}

static void dot_edge(const struct graph_step *s, bool yes, struct strbuf *out)
{
    bool unknown = s->answer == TRUTH_UNKNOWN && taken(s, yes);
    strbuf_addz(out, "  ");
    name(out, s->node->id);
    strbuf_addz(out, " -> ");
    name(out, yes ? s->node->yes : s->node->no);
    strbuf_fmt(out, " [label=\"%s\"%s];\n",
               unknown ? "unknown"
               : yes   ? "yes"
                       : "no",
               unknown         ? ", style=dashed, penwidth=3"
               : taken(s, yes) ? ", penwidth=3, color=\"#0b5cad\""
                               : ", color=\"#999999\"");
}

void graph_dot(const struct graph *g, struct strbuf *out)
{
    strbuf_addz(out, "digraph doctor {\n  node [fontname=\"sans-serif\", style=filled];\n");
    for (size_t i = 0; i < g->count; i++) {
        const struct graph_step *s = &g->items[i];
        strbuf_addz(out, "  ");
        name(out, s->node->id);
        strbuf_addz(out, " [label=");
        quoted(out, s->title, false);
        strbuf_fmt(out, ", shape=%s, fillcolor=\"%s\"%s];\n",
                   s->node->when != NULL ? "diamond" : "box",
                   !s->on_path                  ? "#f4f4f4"
                   : s->answer == TRUTH_UNKNOWN ? "#fff3c4"
                                                : "#d7ecff",
                   s->on_path ? ", penwidth=3" : "");
    }
    for (size_t i = 0; i < g->count; i++) {
        if (g->items[i].node->when != NULL) {
            dot_edge(&g->items[i], true, out);
            dot_edge(&g->items[i], false, out);
        }
    }
    strbuf_addz(out, "}\n");
}
