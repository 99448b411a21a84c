// SPDX-License-Identifier: Apache-2.0
/* What differs between two stacks, most important first, and as findings. */
#ifndef ASSAY_SNAPSHOT_STACK_DIFF_H
#define ASSAY_SNAPSHOT_STACK_DIFF_H

#include "base/finding.h"

#include "snapshot/stack.h"

enum stack_change_kind {
    CHANGE_ADDED = 0,
    CHANGE_REMOVED,
    CHANGE_NEWER,
    CHANGE_OLDER,
    CHANGE_OTHER,   /* neither: another text */
    CHANGE_REBUILT, /* same version, other bytes */
    CHANGE_MOVED,   /* same version and bytes, other place */
    CHANGE_KIND_COUNT
};

struct stack_change {
    enum stack_section section;
    const char *name;
    enum stack_change_kind kind;
    const struct stack_item *from; /* NULL when added */
    const struct stack_item *to;   /* NULL when removed */
    bool matters;                  /* for a GPU stack; other packages of the system do not */
};

struct stack_diff {
    struct {
        struct stack_change *items; /* by section, those that matter first, then by name */
        size_t count;
        size_t capacity;
    } changes;

    struct {
        struct stack_gap *items; /* could not be compared */
        size_t count;
        size_t capacity;
    } gaps;
};

void stack_diff_make(struct arena *a, const struct stack *from, const struct stack *to,
                     struct stack_diff *ret_diff);

const char *stack_change_name(enum stack_change_kind k); /* "newer" */

/* "6.8.5", "6.8.5 (build 1a2b3c4d)", "-". */
const char *stack_item_text(struct arena *a, const struct stack_item *item, bool with_build);

/* One finding a section: a warning where something that matters differs, else a note; and one UNKNOWN for what
 * could not be compared. */
void stack_diff_findings(struct arena *a, const struct stack_diff *d, struct finding_list *to);

/* Packages of the distribution that belong to a GPU stack, by name. */
bool stack_package_matters(const char *name);

#endif
