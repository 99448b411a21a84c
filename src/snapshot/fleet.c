// SPDX-License-Identifier: Apache-2.0
/*
 * Who differs. Texts: the value that more than half of the nodes have is the usual one. Numbers: the median, and as
 * spread the median absolute deviation (MAD; 1.4826 MAD estimates the standard deviation of normal noise); a node is
 * far off when it leaves both the tolerance of the rule and three such deviations. Where no value and no band has a
 * majority, nobody is right: all are told.
 */
#include "snapshot/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum {
    DEVIATIONS = 3,
    NO_CEILING = -1
};

#define MAD_TO_SIGMA 1.4826

/* The nodes that sent a file of the kind of one item, with what they said of it. */
struct column {
    struct fleet_cell *cells;
    size_t count;
    size_t known;
    size_t unread;
};

struct comparing {
    struct arena *arena; /* of the result */
    struct arena *scratch;
    const struct fleet *fleet;
    struct fleet_result *result;
    int64_t *gpus; /* of each node, NO_CEILING where it does not say */
};

static bool unread_prefix(struct comparing *c, const struct fleet_node *node,
                          const struct fleet_item *item)
{
    for (size_t i = 0; i < node->unread.count; i++) {
        const char *full = arena_fmt(c->scratch, "%d/%s", (int)item->rule->kind, item->key);
        if (str_starts(str_of(full), node->unread.items[i])) {
            return true;
        }
    }
    return false;
}

/* gpu[7] on a node with seven GPUs: that their number differs is told once. */
static bool gpu_gone(const struct comparing *c, const struct fleet_item *item, size_t node)
{
    uint64_t index;
    struct str key = str_of(item->key);
    size_t end = str_find_char(key, ']', 0);
    return str_starts(key, "gpu[") && end != SIZE_MAX && c->gpus[node] != NO_CEILING &&
           str_to_u64(str_slice(key, 4, end), 10, &index) == ST_OK &&
           index >= (uint64_t)c->gpus[node];
}

/* A node that sent the kind of file and does not name the key has none of it: "absent"; a number that it does not name
 * cannot be compared. */
static struct column column_of(struct comparing *c, const struct fleet_item *item)
{
    const struct fleet *f = c->fleet;
    struct column col = {.cells = arena_array(c->scratch, f->nodes.count + 1, sizeof *col.cells)};
    size_t at = 0;
    for (size_t i = 0; i < f->nodes.count; i++) {
        const struct fleet_node *node = &f->nodes.items[i];
        struct fleet_cell cell = {.node = (uint32_t)i, .text = FLEET_ABSENT};
        bool said = at < item->cells.count && item->cells.items[at].node == i;
        if (said) {
            cell = item->cells.items[at++];
        } else if (node->files[item->rule->kind] == NULL || gpu_gone(c, item, i)) {
            continue;
        } else if (unread_prefix(c, node, item)) {
            cell.state = FLEET_UNREAD;
            cell.text = "the node could not read this part";
        } else if (item->rule->compare >= FLEET_NUMBER) {
            cell.state = FLEET_UNREAD;
            cell.text = "the node does not say";
        }
        col.known += cell.state == FLEET_KNOWN && said;
        col.unread += cell.state == FLEET_UNREAD;
        col.cells[col.count++] = cell;
    }
    return col;
}

static void differ(struct comparing *c, const struct fleet_difference *d)
{
    if (c->result->differences.count >= FLEET_MAX_DIFFERENCES) {
        c->result->cut = true;
        return;
    }
    *VEC_PUSH(c->arena, &c->result->differences) = *d;
}

/* ---- texts ---- */

static void compare_texts(struct comparing *c, const struct fleet_item *item,
                          const struct column *col)
{
    struct map *counts = map_new(c->scratch);
    size_t compared = 0;
    size_t best = 0;
    const char *usual = NULL;
    for (size_t i = 0; i < col->count; i++) {
        if (col->cells[i].state != FLEET_KNOWN) {
            continue;
        }
        size_t *n = map_get(counts, str_of(col->cells[i].text));
        if (n == NULL) {
            n = arena_alloc(c->scratch, sizeof *n);
            map_put(counts, str_of(col->cells[i].text), n);
        }
        compared++;
        if (++*n > best) {
            best = *n;
            usual = col->cells[i].text;
        }
    }
    if (best == compared) {
        return;
    }
    bool majority = best * 2 > compared;
    for (size_t i = 0; i < col->count; i++) {
        const struct fleet_cell *cell = &col->cells[i];
        if (cell->state == FLEET_KNOWN && (!majority || strcmp(cell->text, usual) != 0)) {
            differ(c, &(struct fleet_difference){.item = item,
                                                 .node = cell->node,
                                                 .value = cell->text,
                                                 .usual = majority ? usual : NULL,
                                                 .with_usual = majority ? (uint32_t)best : 0,
                                                 .compared = (uint32_t)compared});
        }
    }
}

/* What must be so on every node; a node that has none of it is fine. */
static void compare_wanted(struct comparing *c, const struct fleet_item *item,
                           const struct column *col)
{
    size_t compared = 0;
    size_t good = 0;
    for (size_t i = 0; i < col->count; i++) {
        bool known = col->cells[i].state == FLEET_KNOWN &&
                     strcmp(col->cells[i].text, FLEET_ABSENT) != 0;
        compared += known;
        good += known && strcmp(col->cells[i].text, item->rule->with) == 0;
    }
    for (size_t i = 0; i < col->count; i++) {
        const struct fleet_cell *cell = &col->cells[i];
        if (cell->state == FLEET_KNOWN && strcmp(cell->text, FLEET_ABSENT) != 0 &&
            strcmp(cell->text, item->rule->with) != 0) {
            differ(c, &(struct fleet_difference){.item = item,
                                                 .node = cell->node,
                                                 .value = cell->text,
                                                 .usual = item->rule->with,
                                                 .with_usual = (uint32_t)good,
                                                 .compared = (uint32_t)compared});
        }
    }
}

/* ---- numbers ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a sorted list. */
static double median(const double *sorted, size_t n)
{
    return n % 2 != 0 ? sorted[n / 2] : sorted[n / 2 - 1] / 2 + sorted[n / 2] / 2;
}

struct band {
    double middle;
    double tolerance; /* of the rule */
    double limit;     /* beyond it a node is far off */
    size_t inside;    /* nodes within the tolerance */
};

static struct band band_of(struct comparing *c, const struct fleet_rule *rule, const double *values,
                           size_t n)
{
    double *sorted = arena_array(c->scratch, n, sizeof *sorted);
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    struct band b = {.middle = median(sorted, n)};
    b.tolerance = fmax(rule->relative * fabs(b.middle), rule->absolute);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = fabs(values[i] - b.middle);
        b.inside += sorted[i] <= b.tolerance;
    }
    qsort(sorted, n, sizeof *sorted, by_value);
    b.limit = fmax(b.tolerance, DEVIATIONS * MAD_TO_SIGMA * median(sorted, n));
    if (n == 2) { /* the middle is half way: what may lie between the two is the whole distance */
        b.inside = sorted[0] + sorted[1] <= b.tolerance ? 2 : 0;
        b.limit = b.tolerance;
    }
    return b;
}

static bool far_off(const struct fleet_rule *rule, const struct band *b, double value)
{
    double away = value - b->middle;
    away = rule->compare == FLEET_NUMBER ? fabs(away) : rule->compare == FLEET_LOW ? -away : away;
    return !(away <= b->limit);
}

static void compare_numbers(struct comparing *c, const struct fleet_item *item,
                            const struct column *col)
{
    double *values = arena_array(c->scratch, col->count + 1, sizeof *values);
    size_t n = 0;
    for (size_t i = 0; i < col->count; i++) {
        if (col->cells[i].state == FLEET_KNOWN && isfinite(col->cells[i].number)) {
            values[n++] = col->cells[i].number;
        }
    }
    if (n == 0) {
        return;
    }
    struct band b = band_of(c, item->rule, values, n);
    bool majority = b.inside * 2 > n;
    const char *usual = majority ? arena_fmt(c->arena, "median %.10g", b.middle) : NULL;
    for (size_t i = 0; i < col->count; i++) {
        const struct fleet_cell *cell = &col->cells[i];
        bool odd = !isfinite(cell->number) || !majority || far_off(item->rule, &b, cell->number);
        if (cell->state == FLEET_KNOWN && odd) {
            differ(c, &(struct fleet_difference){.item = item,
                                                 .node = cell->node,
                                                 .value = cell->text,
                                                 .usual = usual,
                                                 .with_usual = (uint32_t)b.inside,
                                                 .compared = (uint32_t)n});
        }
    }
}

/* ---- all ---- */

static void note_gaps(struct comparing *c, const struct fleet_item *item, const struct column *col)
{
    for (size_t i = 0; i < col->count; i++) {
        if (col->cells[i].state == FLEET_UNREAD && c->result->gaps.count < FLEET_MAX_DIFFERENCES) {
            *VEC_PUSH(c->arena, &c->result->gaps) = (struct fleet_gap){
                .item = item, .node = col->cells[i].node, .reason = col->cells[i].text};
        }
    }
}

static void compare_item(struct comparing *c, const struct fleet_item *item)
{
    struct column col = column_of(c, item);
    if (col.known == 0) {
        c->result->unread_by_all += col.unread != 0;
        return;
    }
    c->result->compared_items++;
    note_gaps(c, item, &col);
    switch (item->rule->compare) {
    case FLEET_EXACT:
    case FLEET_WORDS: compare_texts(c, item, &col); break;
    case FLEET_IS: compare_wanted(c, item, &col); break;
    default: compare_numbers(c, item, &col); break;
    }
}

static int by_weight(const void *a, const void *b)
{
    const struct fleet_item *x = *(const struct fleet_item *const *)a;
    const struct fleet_item *y = *(const struct fleet_item *const *)b;
    if (x->rule->rank != y->rule->rank) {
        return x->rule->rank < y->rule->rank ? -1 : 1;
    }
    if (x->rule->severity != y->rule->severity) {
        return x->rule->severity > y->rule->severity ? -1 : 1;
    }
    if (x->rule != y->rule) {
        return x->rule < y->rule ? -1 : 1; /* in the order of the table */
    }
    return strcmp(x->key, y->key);
}

static int64_t *count_gpus(struct comparing *c)
{
    const struct fleet *f = c->fleet;
    int64_t *gpus = arena_array(c->scratch, f->nodes.count + 1, sizeof *gpus);
    for (size_t i = 0; i < f->nodes.count; i++) {
        gpus[i] = NO_CEILING;
    }
    const struct fleet_item *item = map_get(
        f->items, str_of(arena_fmt(c->scratch, "%d/gpu.count", (int)FLEET_FACTS)));
    for (size_t i = 0; item != NULL && i < item->cells.count; i++) {
        const struct fleet_cell *cell = &item->cells.items[i];
        if (cell->state != FLEET_KNOWN ||
            str_to_i64(str_of(cell->text), 10, &gpus[cell->node]) != ST_OK) {
            gpus[cell->node] = NO_CEILING;
        }
    }
    return gpus;
}

void fleet_compare(struct arena *a, const struct fleet *f, struct fleet_result *ret_result)
{
    struct fleet_result result = {0};
    struct arena *scratch = arena_new(0);
    struct comparing c = {.arena = a, .scratch = scratch, .fleet = f, .result = &result};
    size_t n = map_count(f->items);
    const struct fleet_item **items = arena_array(a, n + 1, sizeof *items);
    c.gpus = count_gpus(&c);
    for (size_t i = 0; i < n; i++) {
        items[i] = map_value(f->items, i);
    }
    qsort(items, n, sizeof *items, by_weight);
    for (size_t i = 0; i < n; i++) {
        struct arena_mark mark = arena_mark(scratch);
        compare_item(&c, items[i]);
        arena_rewind(scratch, mark);
    }
    arena_free(scratch);
    *ret_result = result;
}
