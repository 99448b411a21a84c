// SPDX-License-Identifier: Apache-2.0
/* What was compared between nodes, as findings: one a class, most important first. */
#include <string.h>

#include "base/vec.h"

#include "snapshot/fleet.h"

enum {
    LINES_MAX = 40,
    NAMES_IN_TITLE = 4,
    NAMES_IN_LINE = 8
};

bool fleet_node_usable(const struct fleet_node *node)
{
    for (size_t k = 0; k < FLEET_KIND_COUNT; k++) {
        if (node->files[k] != NULL) {
            return true;
        }
    }
    return false;
}

const char *fleet_names(struct arena *a, const struct text_list *names, size_t show)
{
    struct strbuf out;
    strbuf_init(&out, a, 1 << 16);
    size_t shown = names->count <= show + 1 ? names->count : show;
    for (size_t i = 0; i < shown; i++) {
        bool last = i + 1 == names->count;
        strbuf_addz(&out, i == 0 ? "" : last ? " and " : ", ");
        strbuf_addz(&out, names->items[i]);
    }
    if (shown < names->count) {
        strbuf_fmt(&out, " and %zu more", names->count - shown);
    }
    return out.p;
}

static void add_line(struct arena *a, struct finding *f, size_t *lines, const char *source,
                     const char *text)
{
    if ((*lines)++ < LINES_MAX) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = source, .text = text};
    }
}

static void close_lines(struct arena *a, struct finding *f, size_t lines)
{
    if (lines > LINES_MAX) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = "fleet",
            .text = arena_fmt(a, "%zu more; --json has all", lines - LINES_MAX),
        };
    }
}

/* Nodes of one item with one value: d[0..count) are of one item, and the ones after `at` with the value of d[at] are
 * marked as told. */
static void tell_value(struct arena *a, const struct fleet *f, const struct fleet_difference *d,
                       size_t count, size_t at, bool *told, struct finding *to, size_t *lines)
{
    struct text_list names = {0};
    for (size_t i = at; i < count; i++) {
        if (!told[i] && strcmp(d[i].value, d[at].value) == 0) {
            told[i] = true;
            *VEC_PUSH(a, &names) = f->nodes.items[d[i].node].name;
        }
    }
    const char *who = fleet_names(a, &names, NAMES_IN_LINE);
    const char *text = d[at].usual == NULL
                           ? arena_fmt(a, "%s on %s (no majority among %u)", d[at].value, who,
                                       d[at].compared)
                           : arena_fmt(a, "%s on %s; %s%s on %u of %u", d[at].value, who,
                                       d[at].item->rule->compare == FLEET_IS ? "should be " : "",
                                       d[at].usual, d[at].with_usual, d[at].compared);
    add_line(a, to, lines, d[at].item->key, text);
}

static void tell_item(struct arena *a, const struct fleet *f, const struct fleet_difference *d,
                      size_t count, struct finding *to, size_t *lines)
{
    bool *told = arena_array(a, count, sizeof *told);
    for (size_t i = 0; i < count && *lines <= LINES_MAX; i++) {
        if (!told[i]) {
            tell_value(a, f, d, count, i, told, to, lines);
        }
    }
}

static bool same_item(const struct fleet_difference *x, const struct fleet_difference *y)
{
    return x->item == y->item;
}

/* Names of the nodes that stand against a majority somewhere in the class, in the order of the nodes. */
static const char *who_of(struct arena *a, const struct fleet *f, const struct fleet_difference *d,
                          size_t count)
{
    bool *odd = arena_array(a, f->nodes.count + 1, sizeof *odd);
    struct text_list names = {0};
    for (size_t i = 0; i < count; i++) {
        odd[d[i].node] = odd[d[i].node] || d[i].usual != NULL;
    }
    for (size_t i = 0; i < f->nodes.count; i++) {
        if (odd[i]) {
            *VEC_PUSH(a, &names) = f->nodes.items[i].name;
        }
    }
    return names.count != 0 ? fleet_names(a, &names, NAMES_IN_TITLE) : NULL;
}

/* A command that compares one odd node with one that is as usual. */
static void add_remedy(struct arena *a, const struct fleet *f, const struct fleet_result *r,
                       const struct fleet_difference *d, struct finding *to)
{
    enum fleet_kind kind = d->item->rule->kind;
    if (kind != FLEET_FACTS && kind != FLEET_STACK) {
        *VEC_PUSH(a, &to->remedy) = arena_fmt(a, "look at %s and repeat it on this node",
                                              f->nodes.items[d->node].files[kind]);
        return;
    }
    bool *odd = arena_array(a, f->nodes.count + 1, sizeof *odd);
    for (size_t i = 0; i < r->differences.count; i++) {
        odd[r->differences.items[i].node] = true;
    }
    for (size_t i = 0; i < f->nodes.count; i++) {
        if (!odd[i] && f->nodes.items[i].files[kind] != NULL) {
            *VEC_PUSH(a, &to->remedy) = arena_fmt(a, "assay diff %s %s",
                                                  f->nodes.items[i].files[kind],
                                                  f->nodes.items[d->node].files[kind]);
            return;
        }
    }
}

static void tell_class(struct arena *a, const struct fleet *f, const struct fleet_result *r,
                       size_t from, size_t to_index, struct finding_list *to)
{
    const struct fleet_difference *d = &r->differences.items[from];
    size_t count = to_index - from;
    const struct fleet_rule *rule = d->item->rule;
    const char *who = who_of(a, f, d, count);
    struct finding finding = {
        .id = arena_fmt(a, "fleet-%s", rule->class_name),
        .severity = rule->severity, /* the first item of a class weighs most */
        .title = who != NULL
                     ? arena_fmt(a, "%s: not as on the other nodes: %s", rule->class_name, who)
                     : arena_fmt(a, "%s: the nodes differ and none is in the majority",
                                 rule->class_name),
        .claim = rule->why,
        .confidence = 1,
    };
    size_t lines = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && same_item(&d[i], &d[end])) {
            end++;
        }
        tell_item(a, f, &d[i], end - i, &finding, &lines);
        i = end;
    }
    close_lines(a, &finding, lines);
    add_remedy(a, f, r, d, &finding);
    *VEC_PUSH(a, to) = finding;
}

static void tell_broken(struct arena *a, const struct fleet *f, struct finding_list *to)
{
    if (f->broken.count == 0) {
        return;
    }
    struct text_list names = {0};
    size_t lines = 0;
    struct finding finding = {.id = "fleet-broken-file",
                              .severity = SEVERITY_UNKNOWN,
                              .claim = "Of these nodes nothing, or not all, can be told.",
                              .confidence = 1};
    for (size_t i = 0; i < f->broken.count; i++) {
        const struct fleet_broken *b = &f->broken.items[i];
        if (i == 0 || strcmp(b->node, names.items[names.count - 1]) != 0) {
            *VEC_PUSH(a, &names) = b->node;
        }
        add_line(a, &finding, &lines, b->file, b->reason);
    }
    close_lines(a, &finding, lines);
    finding.title = arena_fmt(a, "a file that cannot be used: %s",
                              fleet_names(a, &names, NAMES_IN_TITLE));
    *VEC_PUSH(a, &finding.remedy) = "run the command on that node by hand and read its error";
    *VEC_PUSH(a, to) = finding;
}

static void tell_missing(struct arena *a, const struct text_list *missing, struct finding_list *to)
{
    if (missing->count == 0) {
        return;
    }
    struct finding finding = {
        .id = "fleet-missing",
        .severity = SEVERITY_UNKNOWN,
        .title = arena_fmt(a, "no file came from: %s", fleet_names(a, missing, NAMES_IN_TITLE)),
        .claim = "A node that does not answer may be the sick one.",
        .confidence = 1,
    };
    size_t lines = 0;
    for (size_t i = 0; i < missing->count; i++) {
        add_line(a, &finding, &lines, "expected nodes", missing->items[i]);
    }
    close_lines(a, &finding, lines);
    *VEC_PUSH(a, &finding.remedy) =
        "look whether the node is up and whether it may write where the others do";
    *VEC_PUSH(a, to) = finding;
}

/* Nodes that sent other kinds of files than most. */
static void tell_kinds(struct arena *a, const struct fleet *f, struct finding_list *to)
{
    static const char *const names[FLEET_KIND_COUNT] = {"facts", "a snapshot",
                                                        "a record of qualify or doctor", "figures"};
    for (size_t k = 0; k < FLEET_KIND_COUNT; k++) {
        struct text_list without = {0};
        size_t with = 0;
        for (size_t i = 0; i < f->nodes.count; i++) {
            with += f->nodes.items[i].files[k] != NULL;
            if (f->nodes.items[i].files[k] == NULL && fleet_node_usable(&f->nodes.items[i])) {
                *VEC_PUSH(a, &without) = f->nodes.items[i].name;
            }
        }
        if (without.count == 0 || with == 0) {
            continue;
        }
        struct finding finding = {
            .id = "fleet-kind-missing",
            .severity = SEVERITY_UNKNOWN,
            .title = arena_fmt(a, "%s came from %zu of %zu nodes, not from: %s", names[k], with,
                               with + without.count, fleet_names(a, &without, NAMES_IN_TITLE)),
            .claim = "Facts are compared with facts, snapshots with snapshots: collect the same "
                     "from every node.",
            .confidence = 1,
        };
        *VEC_PUSH(a, to) = finding;
    }
}

static void tell_gaps(struct arena *a, const struct fleet *f, const struct fleet_result *r,
                      struct finding_list *to)
{
    if (r->gaps.count == 0) {
        return;
    }
    struct finding finding = {
        .id = "fleet-not-compared",
        .severity = SEVERITY_UNKNOWN,
        .title = arena_fmt(a, "%zu %s known on some nodes and not on others", r->gaps.count,
                           r->gaps.count == 1 ? "value is" : "values are"),
        .claim = "What a node could not read is neither the same nor different.",
        .confidence = 1,
    };
    size_t lines = 0;
    for (size_t i = 0; i < r->gaps.count; i++) {
        const struct fleet_gap *g = &r->gaps.items[i];
        add_line(a, &finding, &lines, g->item->key,
                 arena_fmt(a, "%s: %s", f->nodes.items[g->node].name, g->reason));
    }
    close_lines(a, &finding, lines);
    *VEC_PUSH(a, to) = finding;
}

void fleet_findings(struct arena *a, const struct fleet *f, const struct fleet_result *r,
                    const struct text_list *missing, struct finding_list *to)
{
    const struct fleet_difference *d = r->differences.items;
    for (size_t i = 0; i < r->differences.count;) {
        size_t end = i + 1;
        while (end < r->differences.count && d[end].item->rule->rank == d[i].item->rule->rank) {
            end++;
        }
        tell_class(a, f, r, i, end, to);
        i = end;
    }
    tell_broken(a, f, to);
    tell_missing(a, missing, to);
    tell_kinds(a, f, to);
    tell_gaps(a, f, r, to);
}
